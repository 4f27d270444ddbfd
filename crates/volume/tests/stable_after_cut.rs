//! The power fails at every one of the I/Os of a truncation or a discard. What is read after the recovery
//! stays, also when the pages have left the tier: a clean copy must not outlive the disk that it was a copy
//! of.

#![allow(clippy::unwrap_used)]

mod common;

use std::sync::Arc;

use common::{Backing, PAGE, durable, formatted, open, page};
use mezzanine_device::Device;
use mezzanine_device::memory::{MemoryDevice, Power};
use mezzanine_volume::{VolumeError, VolumeFile};

const PAGES: u64 = 20;

fn read(file: &VolumeFile) -> Vec<u8> {
    let mut found = vec![0; file.len().min(PAGES * PAGE as u64) as usize];
    file.read_at(&mut found, 0).unwrap();
    found
}

/// Cuts `change`, before which `others` other pages are written, at its `n`th I/O. False if it has fewer;
/// what is wrong after the cut otherwise.
fn cut_at(
    n: u64,
    seed: u64,
    others: u64,
    change: impl Fn(&VolumeFile) -> Result<(), VolumeError>,
) -> Result<bool, String> {
    let config = durable();
    let power = Power::new();
    let formatted = formatted(&config);
    let flash = Arc::new(MemoryDevice::on(&power, "flash", formatted.len(), false));
    flash.load(&formatted.image());
    let backing = Backing { disk: Arc::new(MemoryDevice::on(&power, "disk", 0, true)), ..Backing::new("a") };
    let old: Vec<u8> = (0..PAGES).flat_map(|n| page(n, 1)).collect();
    backing.disk.write_at(&old, 0).unwrap();
    let volume = open(&flash, &config);
    let file = backing.attach(&volume).unwrap();
    // Clean copies of some pages, dirty ones of others, none of the rest.
    file.write_at(&page(3, 2), 3 * PAGE as u64).unwrap();
    let mut clean = vec![0; 8 * PAGE];
    file.read_at(&mut clean, 6 * PAGE as u64).unwrap();
    file.sync().unwrap();
    for n in 0..others {
        file.write_at(&page(PAGES + n % 40, n), (PAGES + n % 40) * PAGE as u64).unwrap();
    }
    file.sync().unwrap();
    while volume.step() {}
    power.crash_after(n);
    let complete = change(&file).is_ok();
    drop(volume);
    power.restore();
    flash.power_cut(seed);
    backing.disk.power_cut(seed + 1);
    let volume = open(&flash, &config);
    let file = backing.attach(&volume).unwrap();
    let found = read(&file);
    for (block, page_found) in found.chunks_exact(PAGE).enumerate() {
        let newest = page(block as u64, if block == 3 { 2 } else { 1 });
        let known = page_found == newest || page_found.iter().all(|&byte| byte == 0);
        if !known {
            return Err(format!("page {block} is torn after a cut at {n}, seed {seed}, {others} others"));
        }
    }
    // Everything leaves the queue.
    for round in 0..8 {
        for n in PAGES..PAGES + 40 {
            file.write_at(&page(n, round), n * PAGE as u64).unwrap();
        }
        file.sync().unwrap();
    }
    let again = read(&file);
    for (block, (before, after)) in found.chunks(PAGE).zip(again.chunks(PAGE)).enumerate() {
        if before != after {
            return Err(format!(
                "page {block} changed by itself after a cut at {n}, seed {seed}, {others} others"
            ));
        }
    }
    Ok(!complete)
}

/// Cuts `change` at each of its I/Os.
fn check(
    seeds: u64,
    others: u64,
    change: impl Fn(&VolumeFile) -> Result<(), VolumeError>,
) -> Result<(), String> {
    for n in 1.. {
        let mut cut = false;
        for seed in 0..seeds {
            cut |= cut_at(n, seed, others, &change)?;
        }
        if !cut {
            assert!(n > 4, "the change must have several I/Os to be cut at");
            break;
        }
    }
    Ok(())
}

/// The same with so many other pages written before that the clean copies have their frames still, have lost
/// them, or have lost them in memory and not yet on flash.
fn check_while_frames_leave(change: impl Fn(&VolumeFile) -> Result<(), VolumeError>) -> Result<(), String> {
    (0..120).try_for_each(|others| check(2, others, &change))
}

fn discard(file: &VolumeFile) -> Result<(), VolumeError> {
    file.discard(2 * PAGE as u64, 12 * PAGE as u64)
}

fn shorten(file: &VolumeFile) -> Result<(), VolumeError> {
    file.set_len(5 * PAGE as u64)
}

#[test]
fn a_discard() {
    check(12, 0, discard).unwrap();
}

/// Found by the crash worlds (seed 20378942).
#[test]
fn a_discard_of_pages_whose_frames_leave() {
    check_while_frames_leave(discard).unwrap();
}

#[cfg(feature = "planted")]
#[test]
fn a_discard_of_pages_whose_frames_leave_shows_whether_their_copies_are_valid() {
    use mezzanine_engine::planted::{Bug, set};
    set(Some(Bug::ForgottenCopiesBelieved));
    let stable = check_while_frames_leave(discard);
    set(None);
    stable.unwrap_err();
}

#[test]
fn a_shortening() {
    check(12, 0, shorten).unwrap();
}

#[test]
fn a_shortening_past_pages_whose_frames_leave() {
    check_while_frames_leave(shorten).unwrap();
}
