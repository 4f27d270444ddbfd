//! What counts as brought to disk: written there, synced after that, and not changed since.

use mezzanine_engine::planted::{Bug, only_with};
use mezzanine_engine::{DrainCursor, DrainScope, DrainState, Failure, IdRange, JobError};

use crate::common::{Host, page};
use crate::jobs::{band_written, is_sync, take};
use crate::{id, pairs};

#[test]
fn a_page_that_changed_while_it_was_drained_stays_dirty() {
    only_with(&[Bug::CleanedAlthoughChanged], || {
        let mut host = Host::new(&pairs(), 1);
        host.write(id(0), &page(4096, 1));
        host.sync();
        host.tier.begin_drain();
        let drained = host.tier.drain_batch(&mut DrainCursor::default(), 8);
        assert_eq!(drained.len(), 1);
        host.write(id(0), &page(4096, 2));
        host.tier.mark_clean(&drained);
        host.tier.valid_and_dirty() == (1, 1)
    });
}

#[test]
fn a_failed_sync_of_the_disk_is_remembered() {
    only_with(&[Bug::FailedDiskSyncIgnored], || {
        let Host { tier, mut flash, .. } = band_written();
        let sync = take(&tier, &mut flash, 1, is_sync).unwrap();
        tier.complete(sync, Err(JobError));
        tier.failure() == Some(Failure::DiskSync)
    });
}

/// A sync of the disk is under way while a drain writes its last page.
#[test]
fn a_drain_takes_no_sync_that_began_before_its_last_write() {
    only_with(&[Bug::DrainTakesEarlierSync], || {
        let Host { tier, mut flash, .. } = band_written();
        let sync = take(&tier, &mut flash, 1, is_sync).unwrap();
        let ticket = tier.request_drain(&DrainScope::default()).unwrap();
        assert!(take(&tier, &mut flash, 1, |_| false).is_none());
        tier.complete(sync, Ok(()));
        tier.drain_state(&ticket) == DrainState::Pending
    });
}

/// Stage-out has written the only page of a drain before; the sync of the disk is still to come.
#[test]
fn a_drain_that_writes_nothing_syncs_what_stage_out_wrote() {
    only_with(&[Bug::IdleDrainUnsynced, Bug::DrainUnsynced], || {
        let Host { tier, mut flash, .. } = band_written();
        let range = Some(IdRange::blocks(1, 0, 1));
        let ticket = tier.request_drain(&DrainScope { range, before: None }).unwrap();
        let sync = take(&tier, &mut flash, 1, is_sync);
        sync.is_some() && tier.drain_state(&ticket) == DrainState::Pending
    });
}
