//! Lost pages go round with the queue for as long as nobody writes them anew, and need room at the rear
//! whenever they come to the front. The tier never stops for want of it.
#![allow(clippy::unwrap_used)]

mod common;

use common::bad_places::spoil;
use common::one_file::{InUse, WRITE_BACK, begin, durable};
use common::{PAGE, page};
use mezzanine_device::memory::Bad;
use mezzanine_engine::planted::{Bug, only_with};
use mezzanine_ground::random::Random;
use mezzanine_volume::{Design, VolumeConfig, VolumeError, VolumeErrorKind, VolumeState};

const STEPS: u64 = 1500;
/// The file grows a byte at a time, so that syncs have host metadata to make durable and nothing else.
const LEN: u64 = 400 * PAGE as u64;

/// A life with `lost` bad sectors under pages that nobody writes again. Nobody but the caller carries out
/// jobs, so a tier that stops says so. How often did a resize take effect, if it `resizes` as well?
fn goes_on(design: Design, lost: usize, seed: u64, resizes: bool) -> Result<u64, VolumeError> {
    let InUse { flash, volume, file, .. } = begin(&durable(design));
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
        assert_eq!(spoil(&flash, &page(block, 1), Bad::Unreadable), 1);
    }
    let full = volume.resize_progress().unwrap();
    let (mut len, mut frames, mut resized) = (LEN, full.frames, 0);
    for step in 0..STEPS {
        let block = 200 + step % 90;
        match random.below(if resizes { 9 } else { 8 }) {
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
            7 => drop(volume.step()),
            // Refused while another one takes effect.
            _ if random.chance(1, 8) => drop(volume.resize(full.bytes - random.below(30) * PAGE as u64)),
            _ => {}
        }
        let before = std::mem::replace(&mut frames, volume.resize_progress().unwrap().frames);
        resized += u64::from(frames != before);
    }
    assert_eq!(volume.lost_pages().len(), lost, "{design:?}, seed {seed}");
    Ok(resized)
}

#[test]
fn lost_pages_always_find_room() {
    let all = |designs: &[Design], seeds: u64| {
        designs.iter().all(|&design| {
            (0..seeds).all(|seed| [2, 4, 6].iter().all(|&lost| goes_on(design, lost, seed, false).is_ok()))
        })
    };
    assert!(all(&WRITE_BACK, 8));
    only_with(&[Bug::LostPagesFindNoRoom], || all(&[Design::FaceGr], 8));
}

/// The rest of the ring before the cut of a resize may have room for a summary alone.
#[test]
fn lost_pages_find_room_beside_resizes() {
    let mut resized = 0;
    for design in [Design::FaceBasic, Design::FaceGr, Design::FaceGsc] {
        for (lost, seed) in [(1, 1), (2, 2), (4, 3), (5, 25)] {
            resized += goes_on(design, lost, seed, true).unwrap();
        }
    }
    assert!(resized > 20, "{resized} resizes took effect");
}

fn with_frames(design: Design, frames: u64) -> VolumeConfig {
    let mut config = durable(design);
    (config.tier.frames, config.tier.frames_max) = (frames, frames);
    config
}

/// `run` pages side by side, which only flash has, can no longer be read; then pages come in as fast as they
/// find room. How many are lost at the end?
fn a_run_is_lost(config: &VolumeConfig, run: u64) -> Result<usize, VolumeError> {
    let InUse { flash, volume, file, .. } = begin(config);
    let mut random = Random::new(run);
    let write = |block: u64, version: u64| file.write_at(&page(block, version), block * PAGE as u64);
    (0..run).try_for_each(|block| write(block, 1))?;
    file.sync()?;
    for block in 0..run {
        assert_eq!(spoil(&flash, &page(block, 1), Bad::Unreadable), 1);
    }
    for step in 0..4 * config.tier.frames {
        write(1000 + random.below(4 * config.tier.frames), step)?;
        if random.chance(1, 8) {
            file.sync()?;
        }
    }
    assert_eq!(volume.state(), VolumeState::Ok);
    Ok(volume.lost_pages().len())
}

/// A run of bad sectors that was longer than three groups brought the tier to a halt for ever: each of its
/// pages needs a good frame at the rear, and frees one that nothing is put in any more.
#[test]
fn a_run_of_pages_is_lost_and_nothing_else() {
    for design in [Design::FaceBasic, Design::FaceGr, Design::FaceGsc] {
        for run in [12, 24, 32] {
            let lost = a_run_is_lost(&with_frames(design, 512), run);
            assert_eq!(lost.map_err(|error| error.to_string()), Ok(run as usize), "{design:?}, {run} pages");
        }
    }
    only_with(&[Bug::NamesWithoutRoom], || a_run_is_lost(&with_frames(Design::FaceGr, 512), 24).is_ok());
}

/// A queue that hardly suffices has no room for the names of so many pages. It ends writing, and says why; it
/// came to a halt.
#[test]
fn a_run_without_room_ends_writing() {
    let mut config = with_frames(Design::FaceGr, 480);
    config.tier.segment_frames = 200;
    only_with(&[Bug::LostWaitsForEver], || {
        a_run_is_lost(&config, 28).is_err_and(|error| error.kind() == VolumeErrorKind::ReadOnly)
    });
}

/// Frames are known to be bad, by pages that were lost and written anew; `between` pages further on as many
/// pages side by side are lost as may be. Does the tier go on?
fn a_run_is_lost_beside_bad_frames(between: u64) -> Result<usize, VolumeError> {
    let InUse { flash, volume, file, .. } = begin(&with_frames(Design::FaceGr, 140));
    let write = |block: u64, version: u64| file.write_at(&page(block, version), block * PAGE as u64);
    let mut version = 1;
    let mut lose = |run: std::ops::Range<u64>| -> Result<(), VolumeError> {
        run.clone().try_for_each(|block| write(block, 1))?;
        file.sync()?;
        for block in run {
            spoil(&flash, &page(block, 1), Bad::Unreadable);
        }
        version += 1;
        (1000..1150).try_for_each(|block| write(block, version))
    };
    for round in 0..4 {
        let run = 8 * round..8 * (round + 1);
        lose(run.clone())?;
        assert_eq!(volume.lost_pages().len(), 8);
        run.into_iter().try_for_each(|block| write(block, 2))?;
        file.sync()?;
    }
    (2000..2000 + between).try_for_each(|block| write(block, 1))?;
    lose(100..108)?;
    lose(0..0)?;
    assert_eq!(volume.state(), VolumeState::Ok);
    Ok(volume.lost_pages().len())
}

/// What was kept for names went into void records: a bad frame behind the rear is no room.
#[test]
fn void_records_leave_room_for_lost_pages() {
    only_with(&[Bug::BadFramesAreRoom], || {
        (2..10).all(|part| {
            let lost = a_run_is_lost_beside_bad_frames(10 * part);
            lost.is_ok_and(|lost| lost == 8)
        })
    });
}

/// Names of lost pages take the last good frames before a run of bad ones. A group without pages, so that the
/// next can pass these, would take one of them, and where there is no room to pass them the tier would stop.
#[test]
fn names_take_the_last_room_before_bad_frames() {
    let mut config = with_frames(Design::FaceGr, 480);
    config.tier.segment_frames = 200;
    let life = |between: u64| -> Result<usize, VolumeError> {
        let InUse { flash, file, volume, .. } = begin(&config);
        let write = |block: u64, version: u64| file.write_at(&page(block, version), block * PAGE as u64);
        let round = |version: u64| (1000..1500).try_for_each(|block| write(block, version));
        file.sync()?;
        round(2)?;
        file.sync()?;
        (2000..2000 + between).chain(100..120).try_for_each(|block| write(block, 1))?;
        file.sync()?;
        for block in 100..120 {
            assert_eq!(spoil(&flash, &page(block, 1), Bad::Unreadable), 1);
        }
        (3..6).try_for_each(round)?;
        Ok(volume.lost_pages().len())
    };
    only_with(&[Bug::EmptyGroupTakesRoom], || {
        [14, 15].into_iter().all(|between| life(between).is_ok_and(|lost| lost == 20))
    });
}
