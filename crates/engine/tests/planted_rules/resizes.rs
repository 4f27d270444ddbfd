//! A queue changes its length: what flash states of that is finished, and a cut keeps what is before it.

use std::panic::{AssertUnwindSafe, catch_unwind};

use mezzanine_engine::planted::{Bug, only_with};
use mezzanine_engine::{HOST_METADATA_BYTES, StageKind, TierConfig};

use crate::common::{Host, page};
use crate::{id, pairs, summary};

/// A process dies when the superblock with the new ring is on flash and the ring in memory is the old one;
/// another, which knows nothing of that, wants no resize any more.
#[test]
fn a_resize_that_flash_states_is_finished_and_not_forgotten() {
    only_with(&[Bug::StatedResizeForgotten], || {
        let mut host = Host::new(&TierConfig { frames_max: 1024, ..pairs() }, 1);
        host.tier.begin_resize(700).unwrap();
        for block in 1000.. {
            host.tier.stage_in(&id(block), &page(4096, block), StageKind::Clean(None), 0);
            if host.tier.resize_waits() {
                break;
            }
            while host.step() {}
        }
        assert_eq!(host.tier.frames(), 512, "it waits");
        let stated = host.tier.resized(&host.superblock);
        host.tier.cancel_resize();
        for block in 0..40 {
            host.write(id(block), &page(4096, block));
        }
        host.sync();
        let newest = if host.superblock.generation < stated.generation { &stated } else { &host.superblock };
        let Ok(recovered) = host.flash.recover(newest) else { return false };
        (0..40).all(|block| recovered.tier.holds(&id(block)) == Some(true))
    });
}

/// Host metadata, and nothing else, is to become durable when a queue that shrinks is still too long for the
/// cut and one frame is left before that: a group of a summary alone is closed at once and takes the host
/// metadata along, and another one opens behind it that stays empty. The tier can be closed, and opened
/// again.
fn host_metadata_before_the_cut_is_kept() -> bool {
    let mut host = Host::new(&pairs(), 1);
    for block in 0.. {
        let rear = host.tier.rear().number();
        if rear > 1024 && (460..470).contains(&(rear % 512)) {
            host.tier.begin_resize(480).unwrap();
        }
        let frames_to_go = host.tier.resize_progress().map_or(2, |(_, frames)| frames);
        if frames_to_go == 1 {
            break;
        }
        // Groups of three frames and of two, until one frame is left.
        host.write(id(2 * block), &page(4096, block));
        if frames_to_go % 2 == 0 {
            host.write(id(2 * block + 1), &page(4096, block));
        }
        host.sync();
    }
    host.tier.set_host_metadata(&[5; HOST_METADATA_BYTES]);
    host.sync();
    host.tier.begin_drain();
    let closed = catch_unwind(AssertUnwindSafe(|| host.tier.closed(&host.superblock)));
    let Ok(superblock) = closed else { return false };
    let recovered = host.flash.recover(&superblock).unwrap();
    recovered.tier.check();
    recovered.host_metadata == [5; HOST_METADATA_BYTES]
}

/// It was not: closing it failed on an assertion (crash worlds, seed 945993896).
#[test]
fn a_tier_is_closed_with_an_empty_group_open() {
    only_with(&[Bug::EmptyGroupAwaited], host_metadata_before_the_cut_is_kept);
}

/// A page could not be read, and its place, the second frame behind the cut of a resize that is asked for
/// later, is used no more. Summaries have two frames. Does the resize take effect?
fn a_resize_beside_a_bad_frame_takes_effect() -> bool {
    let config = TierConfig { group_pages: 100, staging_groups: 3, frames: 4096, ..pairs() };
    let mut host = Host::new(&config, 1);
    assert_eq!(host.tier.geometry().summary_frames(), 2);
    let mut block = 0;
    let mut write = |host: &mut Host, pages: u64| {
        for _ in 0..pages {
            host.write(id(block), &page(4096, block));
            block += 1;
        }
    };
    write(&mut host, 3000);
    host.sync();
    let bad = summary(&host, 0) + 2401 * 4096;
    let lost = u64::from_le_bytes(host.flash.0[bad..bad + 8].try_into().unwrap());
    assert_eq!(host.read(id(lost)), page(4096, lost));
    host.flash.0[bad + 100] ^= 1;
    write(&mut host, 6000);
    assert_eq!(host.tier.statistics().unreadable, 1);
    host.tier.begin_resize(2400).unwrap();
    write(&mut host, 16_000);
    host.tier.frames() == 2400
}

/// A group that was to end at the cut was made shorter, as if the next one would begin with the bad frame.
/// What was left up to the cut was too short for a summary, so the next group crossed it, at each round.
#[test]
fn a_resize_beside_a_bad_frame_is_not_put_off_for_ever() {
    only_with(&[Bug::CutShortOfBad], a_resize_beside_a_bad_frame_takes_effect);
}
