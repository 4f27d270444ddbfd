//! No front is stated before the host metadata tells of what has left behind it.
//!
//! A host notes what it has to know of pages that leave: a volume the mark of a file, taken when the file's
//! disk was synced. The host metadata travels with groups. So a group states the front as it was when it took
//! its host metadata along, and metadata segments and superblocks, which carry none, state what a durable
//! group has stated.
//!
//! All three stated the front as it was at that moment. A power cut then left a queue that lacked pages of
//! which no host metadata told: a file and its sidecar that were put back from before the mark were accepted
//! beside it, and had none of these pages.

use std::cell::RefCell;
use std::collections::HashMap;
use std::rc::Rc;

use mezzanine_engine::format::Superblock;
use mezzanine_engine::planted::{Bug, at_points, only_with};
use mezzanine_engine::{HOST_METADATA_BYTES, Job, Lookup, StageIn, StageKind, SyncState, Tier, TierConfig};

use crate::common::{Flash, Host, carry_out, page};
use crate::jobs::{is_sync, take, take_flash_write};
use crate::{filled, id};

/// The next sync of the disk, which the host has carried out and noted: stage-out writes pages in their
/// order, so the host metadata is how many the disk has.
fn synced<'t>(flash: &mut Flash, tier: &'t Tier) -> Job<'t> {
    let sync = take(tier, flash, 1, is_sync).unwrap();
    tell_what_left(tier);
    sync
}

fn tell_what_left(tier: &Tier) {
    let mut host_metadata = [0; HOST_METADATA_BYTES];
    host_metadata[..8].copy_from_slice(&tier.statistics().disk_writes.to_le_bytes());
    tier.set_host_metadata(&host_metadata);
}

/// Whether each of the pages before `staged` is in a tier recovered from what is on flash now, or on disk by
/// its host metadata; and how many have left.
fn noted(flash: &mut Flash, superblock: &Superblock, staged: u64) -> (bool, u64) {
    let recovered = flash.recover(superblock).unwrap();
    let on_disk = u64::from_le_bytes(recovered.host_metadata[..8].try_into().unwrap());
    let missing =
        |block: &u64| matches!(recovered.tier.lookup(&id(*block), &mut vec![0; 4096]), Lookup::Miss(_));
    ((on_disk..staged).filter(missing).count() == 0, (0..staged).filter(missing).count() as u64)
}

fn stage_in(tier: &Tier, block: u64) {
    let staged = tier.stage_in(&id(block), &page(4096, block + 1), StageKind::Dirty, 0);
    assert_eq!(staged, StageIn::Staged { also_disk: false }, "page {block}");
}

/// Whole groups, and so many that their frames are soon needed. Everything is durable, nothing has left.
/// Returns the last metadata segment, which a worker is about to write.
fn nearly_full<'t>(tier: &'t Tier, flash: &mut Flash) -> Job<'t> {
    let mut segment = None;
    for block in 0..324 {
        stage_in(tier, block);
        let is_last = |job: &Job<'_>| block > 300 && matches!(job, Job::WriteSegment(_));
        segment = take_flash_write(tier, flash, is_last).or(segment);
    }
    let all = tier.request_sync().unwrap();
    assert!(take_flash_write(tier, flash, |_| false).is_none());
    assert_eq!(tier.sync_state(&all), SyncState::Durable);
    segment.expect("the last segment is full when the queue nearly is")
}

#[test]
fn a_segment_states_no_front_before_its_host_metadata_is_durable() {
    only_with(&[Bug::FrontStatedBeforeNote], || {
        let Host { tier, mut flash, superblock, .. } = Host::new(&filled(), 1);
        let mut segment = nearly_full(&tier, &mut flash);
        let sync = synced(&mut flash, &tier);
        tier.complete(sync, Ok(()));
        assert!(tier.statistics().left_clean > 0, "nothing has left");
        carry_out(&mut flash, &mut HashMap::new(), &mut segment);
        tier.complete(segment, Ok(()));
        let told = noted(&mut flash, &superblock, 324).0;

        // It leaves once a group says so.
        stage_in(&tier, 324);
        tier.request_sync().unwrap();
        assert!(take_flash_write(&tier, &mut flash, |_| false).is_none());
        let (later, left) = noted(&mut flash, &superblock, 325);
        assert!(later && left > 0);
        told
    });
}

#[test]
fn a_tier_that_is_closed_states_no_front_before_its_host_metadata_is_durable() {
    only_with(&[Bug::FrontStatedBeforeNote], || {
        let Host { tier, mut flash, superblock, .. } = Host::new(&filled(), 1);
        let segment = nearly_full(&tier, &mut flash);
        let sync = synced(&mut flash, &tier);
        tier.complete(sync, Ok(()));
        drop(segment);
        let closed = tier.closed(&superblock);
        noted(&mut flash, &closed, 324).0
    });
}

/// At the cut no group is open, and the queue goes on in the new ring as soon as the superblock is durable.
#[test]
fn a_resize_states_no_front_before_its_host_metadata_is_durable() {
    only_with(&[Bug::FrontStatedBeforeNote], || {
        // Whole groups up to the cut.
        let config = TierConfig { frames: 513, frames_max: 1024, ..filled() };
        let Host { tier, mut flash, superblock, .. } = Host::new(&config, 1);
        // All groups but the last. Stage-out gets no turn after its first band, so that the second leaves as
        // soon as it may.
        for block in 0..340 {
            stage_in(&tier, block);
            if tier.statistics().disk_syncs > 0 {
                assert!(take_flash_write(&tier, &mut flash, |_| false).is_none());
            } else if let Some(sync) = take(&tier, &mut flash, 1, is_sync) {
                tell_what_left(&tier);
                tier.complete(sync, Ok(()));
            }
        }
        tier.begin_resize(700).unwrap();
        stage_in(&tier, 340);
        stage_in(&tier, 341);
        tier.request_sync().unwrap();
        assert!(take_flash_write(&tier, &mut flash, |_| false).is_none());
        let sync = synced(&mut flash, &tier);
        tier.complete(sync, Ok(()));
        let again = tier.stage_in(&id(342), &page(4096, 1), StageKind::Dirty, 0);
        assert!((again, tier.resize_waits()) == (StageIn::Full, true));
        assert!(noted(&mut flash, &superblock, 342).0, "no new front is stated");
        let resized = tier.resized(&superblock);
        noted(&mut flash, &resized, 342).0
    });
}

/// A group is closed while the disk is synced, and waits for one of its pages, which is being copied. It is
/// made when the host metadata has changed and the front has moved.
#[test]
fn a_group_states_no_front_that_its_host_metadata_does_not_tell_of() {
    only_with(&[Bug::FrontTakenWhenComposed], || {
        // Pages that leave are of no shard that is held meanwhile.
        let config = TierConfig { shards: 4096, ..filled() };
        let Host { tier, mut flash, superblock, .. } = Host::new(&config, 1);
        let tier: &'static Tier = Box::leak(Box::new(tier));
        drop(nearly_full(tier, &mut flash));
        let sync = RefCell::new(take(tier, &mut flash, 1, is_sync));
        stage_in(tier, 324);
        at_points(Some(Rc::new(move |point| {
            let copying = point == "stage-in: place given out";
            if let Some(sync) = copying.then(|| sync.borrow_mut().take()).flatten() {
                tell_what_left(tier);
                tier.complete(sync, Ok(()));
            }
        })));
        stage_in(tier, 325);
        at_points(None);
        assert!(tier.statistics().left_clean > 0, "nothing has left");
        assert!(take_flash_write(tier, &mut flash, |_| false).is_none());
        assert_eq!(tier.statistics().groups_written, 163);
        noted(&mut flash, &superblock, 326).0
    });
}
