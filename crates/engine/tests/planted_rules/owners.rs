//! Owners that die with a job in their hands, or inside a critical section.

use std::cell::Cell;
use std::rc::Rc;

use mezzanine_engine::format::Superblock;
use mezzanine_engine::planted::{Bug, at_points, only_with};
use mezzanine_engine::{DrainCursor, Job, Poisoned, StageKind, SyncState};

use crate::common::{Flash, Host, page};
use crate::jobs::{band_written, is_sync, take};
use crate::{id, pairs};

#[test]
fn a_flush_that_an_owner_died_over_does_not_count() {
    only_with(&[Bug::DeadFlushCounts], || {
        let mut host = Host::new(&pairs(), 1);
        host.write(id(0), &page(4096, 1));
        let ticket = host.tier.request_sync().unwrap();
        drop(take(&host.tier, &mut host.flash, 99, |job| matches!(job, Job::FlushFlash(_))).unwrap());
        host.tier.abandon(99).unwrap();
        host.tier.sync_state(&ticket) == SyncState::Pending
    });
}

#[test]
fn a_disk_sync_that_an_owner_died_over_does_not_count() {
    only_with(&[Bug::DeadSyncCounts], || {
        let Host { tier, mut flash, .. } = band_written();
        drop(take(&tier, &mut flash, 99, is_sync).unwrap());
        tier.abandon(99).unwrap();
        tier.next_job(1).is_some_and(|job| is_sync(&job))
    });
}

/// An owner dies with the lock of a shard in its hands.
#[test]
fn an_owner_that_dies_inside_poisons_the_region() {
    only_with(&[Bug::DeadHolderForgotten], || {
        let geometry = pairs().geometry().unwrap();
        let superblock = Superblock::new(&geometry, [7; 16], [9; 16]);
        let mut flash = Flash(vec![0; geometry.flash_bytes() as usize]);
        let tier = Rc::new(flash.recover(&superblock).unwrap().tier);
        tier.stage_in(&id(0), &page(4096, 1), StageKind::Dirty, 0);
        let pages = tier.drain_batch(&mut DrainCursor::default(), 8);
        let told = Rc::new(Cell::new(None));
        let hook = {
            let (tier, told) = (Rc::clone(&tier), Rc::clone(&told));
            move |point: &str| {
                if point == "mark clean: one page marked" {
                    told.set(Some(tier.abandon(1) == Err(Poisoned)));
                }
            }
        };
        at_points(Some(Rc::new(hook)));
        tier.mark_clean(&pages);
        at_points(None);
        told.get().unwrap()
    });
}
