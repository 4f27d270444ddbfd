//! Where the front is stated to be: never behind a page whose newer version is not durable.

use std::collections::HashMap;

use mezzanine_engine::format::Superblock;
use mezzanine_engine::planted::{Bug, only_with};
use mezzanine_engine::{Job, Lookup, PageId, StageIn, StageKind, SyncState, Tier, TierConfig};

use crate::common::{Flash, Host, carry_out, page};
use crate::jobs::{is_sync, take, take_flash_write};
use crate::{filled, id};

/// The version of a page that a recovery from what is on flash now finds there.
fn version_after_cut(flash: &mut Flash, superblock: &Superblock, id: PageId) -> Option<u64> {
    let recovered = flash.recover(superblock).unwrap();
    let Lookup::Flash(found) = recovered.tier.lookup(&id, &mut [0; 4096]) else { return None };
    let bytes = &flash.0[found.offset as usize..][..8];
    Some(u64::from_le_bytes(bytes.try_into().unwrap()))
}

/// Stages in pages from 0 on, in version 1, and has them made durable. `jobs` carries out what is to be done
/// after each.
fn stage_durably(tier: &Tier, flash: &mut Flash, pages: u64, mut jobs: impl FnMut(&mut Flash, u64)) {
    for block in 0..pages {
        let staged = tier.stage_in(&id(block), &page(4096, 1), StageKind::Dirty, 0);
        assert_eq!(staged, StageIn::Staged { also_disk: false }, "page {block}");
        jobs(flash, block);
    }
    let acknowledged = tier.request_sync().unwrap();
    jobs(flash, pages);
    assert_eq!(tier.sync_state(&acknowledged), SyncState::Durable);
}

/// One worker is about to write a metadata segment. Meanwhile another one stages out the front of the queue,
/// where a page was superseded by a version that is in the open group. The segment then says how far the
/// front is, and the power fails. Is the version there that was acknowledged?
fn superseded_by_the_open_group_stays() -> bool {
    let Host { tier, mut flash, superblock, .. } = Host::new(&filled(), 1);
    // Whole groups, and so many that their frames are soon needed: 341 pages would fit. Not long before the
    // end a segment is full.
    let mut segment = None;
    stage_durably(&tier, &mut flash, 324, |flash, staged| {
        let is_last = |job: &Job<'_>| staged > 300 && matches!(job, Job::WriteSegment(_));
        if let Some(job) = take_flash_write(&tier, flash, is_last) {
            segment = Some(job);
        }
    });
    let mut segment = segment.expect("the last segment is full when the queue nearly is");

    tier.stage_in(&id(0), &page(4096, 2), StageKind::Dirty, 0);
    let sync = take(&tier, &mut flash, 2, is_sync).unwrap();
    tier.complete(sync, Ok(()));
    assert_eq!(version_after_cut(&mut flash, &superblock, id(0)), Some(1), "no new front is stated");
    carry_out(&mut flash, &mut HashMap::new(), &mut segment);
    tier.complete(segment, Ok(()));
    let stays = version_after_cut(&mut flash, &superblock, id(0)) == Some(1);

    // Stage-out never writes the page to disk, because it was superseded: once the open group is durable,
    // that is where it is.
    tier.request_sync().unwrap();
    assert!(take(&tier, &mut flash, 1, |_| false).is_none());
    assert_eq!(version_after_cut(&mut flash, &superblock, id(0)), Some(2));
    stays
}

/// The same where the superblock of a resize says how far the front is: at the cut no group is open, and the
/// last one is not written.
fn superseded_by_the_last_group_before_a_cut_stays() -> bool {
    // Whole groups up to the cut.
    let config = TierConfig { frames: 513, frames_max: 1024, ..filled() };
    let Host { tier, mut flash, superblock, .. } = Host::new(&config, 1);
    // All groups but the last. Stage-out gets no turn after its first band, so that the second leaves as soon
    // as it may.
    stage_durably(&tier, &mut flash, 340, |flash, _| {
        if tier.statistics().disk_syncs > 0 {
            assert!(take_flash_write(&tier, flash, |_| false).is_none());
        } else if let Some(sync) = take(&tier, flash, 1, is_sync) {
            tier.complete(sync, Ok(()));
        }
    });
    tier.begin_resize(700).unwrap();

    // Stage-out has written the pages before it, in their order.
    let first = id(tier.statistics().disk_writes);
    tier.stage_in(&first, &page(4096, 2), StageKind::Dirty, 0);
    let sync = take(&tier, &mut flash, 1, is_sync).unwrap();
    tier.complete(sync, Ok(()));
    assert_eq!(version_after_cut(&mut flash, &superblock, first), Some(1), "no new front is stated");
    tier.stage_in(&id(1000), &page(4096, 1), StageKind::Dirty, 0);
    assert_eq!(tier.stage_in(&id(1001), &page(4096, 1), StageKind::Dirty, 0), StageIn::Full);
    assert!(tier.resize_waits());
    let resized = tier.resized(&superblock);
    version_after_cut(&mut flash, &resized, first) == Some(1)
}

const BARRIER: &[Bug] = &[Bug::BarrierWithoutOpenGroup, Bug::ReuseBeforeSuperseder];

/// A group that states a front lies behind all that superseded what left before it; a metadata segment does
/// not.
#[test]
fn a_segment_states_no_front_before_what_superseded_the_pages_there_is_durable() {
    only_with(BARRIER, superseded_by_the_open_group_stays);
}

/// Nor does the superblock of a resize.
#[test]
fn a_resize_states_no_front_before_what_superseded_the_pages_there_is_durable() {
    only_with(BARRIER, superseded_by_the_last_group_before_a_cut_stays);
}
