//! Pages that flash gives back damaged, and those that are lost so.

use std::collections::HashMap;
use std::rc::Rc;

use mezzanine_engine::planted::{Bug, at_points, only_with};
use mezzanine_engine::{DrainScope, DrainState, IdRange, Lookup, StageIn, StageKind, Tier, TierConfig};

use crate::common::{Flash, Host, carry_out, page};
use crate::{id, pairs, summary};

#[test]
fn a_damaged_page_is_noticed_and_a_dirty_one_not_forgotten() {
    only_with(&[Bug::DamageUnnoticed, Bug::DirtyForgotten], || {
        let mut host = Host::new(&pairs(), 1);
        host.write(id(0), &page(4096, 1));
        host.sync();
        let mut out = vec![0; 4096];
        let Lookup::Flash(found) = host.tier.lookup(&id(0), &mut out) else { panic!("it is on flash") };
        let at = found.offset as usize;
        out.copy_from_slice(&host.flash.0[at..at + 4096]);
        out[7] ^= 1;
        let noticed = !host.tier.verify(&found, &out);
        host.tier.invalidate_clean(&id(0), &found);
        noticed && matches!(host.tier.lookup(&id(0), &mut out), Lookup::Flash(_))
    });
}

/// A tier with two dirty pages on flash, of which the first is damaged. With the byte that is wrong.
fn with_a_damaged_page() -> (Host, usize) {
    let mut host = Host::new(&pairs(), 1);
    host.write(id(0), &page(4096, 1));
    host.write(id(1), &page(4096, 1));
    host.sync();
    let at = summary(&host, 0) + 4096;
    host.flash.0[at] ^= 1;
    (host, at)
}

/// A dirty page is damaged before stage-out comes to it.
#[test]
fn a_damaged_page_does_not_go_to_disk() {
    only_with(&[Bug::DamageStagedOut], || {
        let (mut host, _) = with_a_damaged_page();
        // Several rounds of the queue: the page is lost, and writing goes on.
        for block in 2..3000 {
            while host.tier.stage_in(&id(block), &page(4096, 1), StageKind::Dirty, 0) == StageIn::Full {
                assert!(host.step(), "a full tier must have a job");
            }
            if host.disk.contains_key(&id(0)) {
                break;
            }
        }
        !host.disk.contains_key(&id(0))
    });
}

/// Stages pages in and carries out jobs, until so many pages are in. Where does it come to a halt?
fn come_in(tier: &Tier, flash: &mut Flash, pages: u64) -> Option<u64> {
    let mut disk = HashMap::new();
    (0..pages).find(|&block| {
        let block = 1000 + block;
        loop {
            match tier.stage_in(&id(block), &page(4096, block), StageKind::Dirty, 0) {
                StageIn::Full => {}
                _ => return false,
            }
            let Some(mut job) = tier.next_job(1) else { return true };
            carry_out(flash, &mut disk, &mut job);
            tier.complete(job, Ok(()));
        }
    })
}

/// A page that cannot be read, and is known to be lost or not, comes to the front while its range is being
/// dropped. Does the queue go on when that is done? With how often it was counted as unreadable, and as lost.
fn the_front_goes_on_behind_a_dropped_page(known: bool) -> (bool, u64, u64) {
    let (mut host, _) = with_a_damaged_page();
    let (tier, flash) = (&host.tier, &mut host.flash);
    if known {
        assert_eq!(come_in(tier, flash, 1000), None);
        assert_eq!(tier.lost(), [id(0)]);
    }
    let (noted, is_noted) = std::sync::mpsc::channel();
    let (go_on, goes_on) = std::sync::mpsc::channel::<()>();
    std::thread::scope(|threads| {
        let dropping = threads.spawn(move || {
            at_points(Some(Rc::new(move |point| {
                if point == "range invalidation: noted" {
                    noted.send(()).unwrap();
                    goes_on.recv().unwrap();
                }
            })));
            let dropped = tier.invalidate_range(&IdRange::blocks(1, 0, 1));
            at_points(None);
            dropped.unwrap();
        });
        is_noted.recv().unwrap();
        come_in(tier, flash, 1000);
        go_on.send(()).unwrap();
        dropping.join().unwrap();
    });
    assert!(tier.lost().is_empty());
    let went_on = come_in(tier, flash, 1000).is_none();
    let counted = tier.statistics();
    (went_on, counted.unreadable, counted.lost)
}

/// The name of a lost page was not carried on, since its range was being dropped; that passed for want of
/// room at the rear, for which the front then waited for ever, and everybody for the front.
#[test]
fn a_lost_page_that_is_being_dropped_does_not_hold_up_the_front() {
    only_with(&[Bug::DroppedWaitsForRoom], || the_front_goes_on_behind_a_dropped_page(true).0);
}

/// It was counted as unreadable, or as lost, at each look at it until it was gone.
#[test]
fn a_page_that_is_dropped_is_counted_once() {
    only_with(&[Bug::LostCountedAgain], || {
        let (known, unknown) = [true, false].map(the_front_goes_on_behind_a_dropped_page).into();
        known == (true, 1, 1) && unknown == (true, 1, 0)
    });
}

/// A drain meets a page that cannot be read just now, and comes again when it can be.
fn a_drain_that_is_repeated_writes_all() -> bool {
    let (mut host, at) = with_a_damaged_page();
    let drain = |host: &mut Host| {
        let ticket = host.tier.request_drain(&DrainScope::default()).unwrap();
        while host.tier.drain_state(&ticket) == DrainState::Pending {
            assert!(host.step(), "a drain under way must have a job");
        }
        host.tier.drain_state(&ticket)
    };
    let first = drain(&mut host);
    assert!(host.disk.contains_key(&id(1)) && !host.disk.contains_key(&id(0)));
    host.flash.0[at] ^= 1;
    let second = drain(&mut host);
    first == DrainState::Lost && second == DrainState::Done && host.disk.contains_key(&id(0))
}

/// Stage-out has come to a page ahead of need, while the disk is idle, and cannot read it; when its frame is
/// needed it can be read.
fn the_front_waits_for_need() -> bool {
    let mut host = Host::new(&TierConfig { ahead_frames: 256, ..pairs() }, 1);
    (0..200).for_each(|block| host.write(id(block), &page(4096, block)));
    host.sync();
    let at = 4096 * host.flash.0.chunks_exact(4096).position(|frame| frame == page(4096, 50)).unwrap();
    host.flash.0[at] ^= 1;
    host.tier.set_disk_utilisation(0);
    while host.step() {}
    assert!(host.tier.statistics().stage_out_bytes_read > 0, "stage-out has come to it");
    host.flash.0[at] ^= 1;
    let kept = host.tier.lost().is_empty();
    (1000..2000).for_each(|block| host.write(id(block), &page(4096, block)));
    kept && host.disk.get(&id(50)) == Some(&page(4096, 50))
}

/// Such a page was lost there and then, though nobody needed its frame.
#[test]
fn a_page_is_lost_only_when_its_frame_is_needed() {
    only_with(&[Bug::LostAheadOfNeed], a_drain_that_is_repeated_writes_all);
    only_with(&[Bug::LostAheadOfNeed], the_front_waits_for_need);
}
