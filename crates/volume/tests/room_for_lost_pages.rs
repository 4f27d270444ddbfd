//! Lost pages go round with the queue for as long as nobody writes them anew, and need room at the rear
//! whenever they come to the front. The tier never stops for want of it.
#![allow(clippy::unwrap_used)]

mod common;

use common::rules::{only_with, spoil};
use common::{Backing, PAGE, config, formatted, open, page};
use mezzanine_device::memory::{Bad, Random};
use mezzanine_engine::planted::Bug;
use mezzanine_volume::{Admission, Design, SyncMode, VolumeError};

const STEPS: u64 = 1500;
/// The file grows a byte at a time, so that syncs have a note to make durable and nothing else.
const LEN: u64 = 400 * PAGE as u64;

/// A life with `lost` bad sectors under pages that nobody writes again. Nobody but the caller carries out
/// jobs, so a tier that stops says so.
fn goes_on(design: Design, lost: usize, seed: u64) -> Result<(), VolumeError> {
    let config = config(design, Admission::Both, SyncMode::Durable, 0);
    let (flash, backing) = (formatted(&config), Backing::new("a"));
    let volume = open(&flash, &config);
    let file = backing.attach(&volume).unwrap();
    let write = |block: u64, version: u64| file.write_at(&page(block, version), block * PAGE as u64);
    let mut random = Random::new(seed);
    for block in 0..12 {
        write(block, 1)?;
        if random.chance(1, 2) {
            file.sync()?;
        }
    }
    file.sync()?;
    for block in [0, 2, 3, 7, 9, 11].into_iter().take(lost) {
        spoil(&flash, &page(block, 1), Bad::Unreadable);
    }
    let mut len = LEN;
    for step in 0..STEPS {
        let block = 200 + step % 90;
        match random.below(8) {
            0..=3 => {
                len += 1;
                file.set_len(len)?;
                file.sync()?;
            }
            4 => {
                write(block, step)?;
                file.sync()?;
            }
            5 => (0..random.below(9)).try_for_each(|more| write(200 + (step + more) % 90, step))?,
            6 => file.discard(block * PAGE as u64, PAGE as u64)?,
            _ => drop(volume.step()),
        }
    }
    assert_eq!(volume.lost_pages().len(), lost, "{design:?}, seed {seed}");
    Ok(())
}

#[test]
fn lost_pages_always_find_room() {
    let all = |designs: &[Design], seeds: u64| {
        designs.iter().all(|&design| {
            (0..seeds).all(|seed| [2, 4, 6].iter().all(|&lost| goes_on(design, lost, seed).is_ok()))
        })
    };
    assert!(all(&[Design::FaceBasic, Design::FaceGr, Design::FaceGsc, Design::Lc], 8));
    only_with(&[Bug::LostPagesFindNoRoom], || all(&[Design::FaceGr], 8));
}
