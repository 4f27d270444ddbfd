//! What is found by the beginnings of page ids, and what is known to be clean.

use std::cell::Cell;
use std::collections::HashMap;
use std::rc::Rc;

use mezzanine_engine::planted::{Bug, at_points, only_with};
use mezzanine_engine::{DrainScope, DrainState, IdRange, Lookup, PageId, StageIn, StageKind, TierConfig};

use crate::common::{Host, carry_out, page};
use crate::{id, pairs};

fn whole_file(file: u64) -> IdRange {
    IdRange::blocks_from(file, 0)
}

/// Has the tier drain everything, and says whether it holds no only copy then.
fn drains_whole(host: &mut Host) -> bool {
    let ticket = host.tier.request_drain(&DrainScope::default()).unwrap();
    while host.tier.drain_state(&ticket) == DrainState::Pending {
        assert!(host.step(), "a drain has a job");
    }
    assert_eq!(host.tier.drain_state(&ticket), DrainState::Done);
    host.tier.valid_and_dirty().1 == 0
}

#[test]
fn what_recovery_has_found_can_be_invalidated() {
    only_with(&[Bug::AppearancesNotReplayed], || {
        let mut host = Host::new(&pairs(), 1);
        for block in 0..8 {
            host.write(id(block), &page(4096, block));
        }
        host.sync();
        let host = host.reopen(false);
        host.tier.invalidate_range(&whole_file(1)).unwrap();
        (0..8).all(|block| host.tier.holds(&id(block)).is_none())
    });
}

/// So many files come after the first that nobody knows any more in which part of the queue that one is.
#[test]
fn what_was_forgotten_is_looked_for_everywhere() {
    only_with(&[Bug::ForgottenAppearancesBelieved], || {
        let mut host = Host::new(&pairs(), 1);
        host.write(PageId::volume(1, 0), &page(4096, 1));
        for block in 0..70 {
            host.write(PageId::volume(2, block), &page(4096, block));
        }
        for file in 3..203 {
            host.write(PageId::volume(file, 0), &page(4096, file));
        }
        assert!(host.tier.holds(&PageId::volume(1, 0)).is_some());
        host.tier.invalidate_range(&whole_file(1)).unwrap();
        host.tier.holds(&PageId::volume(1, 0)).is_none()
    });
}

/// A page was read from disk, and its file is cut off before the tier is offered what was read. The tier has
/// nothing of the file.
#[test]
fn what_was_read_before_its_file_was_cut_is_not_taken() {
    only_with(&[Bug::RangeUncounted], || {
        let host = Host::new(&pairs(), 1);
        let Lookup::Miss(token) = host.tier.lookup(&id(3), &mut page(4096, 0)) else {
            panic!("the tier is empty")
        };
        host.tier.invalidate_range(&whole_file(1)).unwrap();
        let offered = host.tier.stage_in(&id(3), &page(4096, 1), StageKind::Clean(Some(token)), 0);
        offered == StageIn::Dropped
    });
}

/// The queue goes round, and what was clean at a place says nothing of what lies there next.
#[test]
fn what_was_clean_once_is_looked_at_again() {
    only_with(&[Bug::CleanOnceCleanForEver], || {
        let mut host = Host::new(&pairs(), 1);
        (0..4).all(|round| {
            for block in 0..200 {
                host.write(id(1000 * round + block), &page(4096, block));
            }
            host.sync();
            // The second time it is known what is clean.
            drains_whole(&mut host) && drains_whole(&mut host)
        })
    });
}

#[test]
fn what_a_drain_has_written_is_clean() {
    only_with(&[Bug::DrainedAtFrontAlone], || {
        let mut host = Host::new(&pairs(), 1);
        for block in 0..40 {
            host.write(id(block), &page(4096, block));
        }
        host.sync();
        drains_whole(&mut host)
    });
}

/// Calls `step` on this thread while another one, which has come to `point` in `work`, waits there.
fn while_waiting<T: Send>(point: &'static str, work: impl FnOnce() -> T, step: impl FnOnce() + Send) -> T {
    let (there, is_there) = std::sync::mpsc::channel();
    let (go_on, goes_on) = std::sync::mpsc::channel::<()>();
    std::thread::scope(|threads| {
        threads.spawn(move || {
            if is_there.recv().is_ok() {
                step();
                go_on.send(()).unwrap();
            }
        });
        // Planted faults are of a thread, so the work is done by the one that has them.
        let waited = Cell::new(false);
        at_points(Some(Rc::new(move |at| {
            if at == point && !waited.replace(true) {
                there.send(()).unwrap();
                goes_on.recv().unwrap();
            }
        })));
        let done = work();
        at_points(None);
        done
    })
}

/// A page of a range is written again when its drain has looked the range up, and does not know yet between
/// which positions it is to look.
fn a_drain_goes_after_what_is_superseded(group_is_open: bool) -> bool {
    let mut host = Host::new(&pairs(), 1);
    for block in 0..10 {
        host.write(id(block), &page(4096, block));
    }
    host.sync();
    if group_is_open {
        host.write(id(100), &page(4096, 100));
    }
    let (tier, flash) = (&host.tier, &mut host.flash);
    let write_again = || {
        let staged = tier.stage_in(&id(9), &page(4096, 99), StageKind::Dirty, 0);
        assert_eq!(staged, StageIn::Staged { also_disk: false });
    };
    let range = Some(IdRange::blocks(1, 0, 10));
    let request = || tier.request_drain(&DrainScope { range, before: None }).unwrap();
    let ticket = while_waiting("request drain: range looked up", request, write_again);
    let mut disk = HashMap::new();
    while tier.drain_state(&ticket) == DrainState::Pending {
        let mut job = tier.next_job(1).unwrap();
        carry_out(flash, &mut disk, &mut job);
        tier.complete(job, Ok(()));
    }
    disk.get(&id(9)) == Some(&page(4096, 99))
}

#[test]
fn a_drain_goes_after_what_is_superseded_while_it_begins() {
    only_with(&[Bug::SupersededLeftOut], || a_drain_goes_after_what_is_superseded(false));
}

/// The newer version comes into a group that was open when the drain was asked for.
#[test]
fn a_drain_goes_after_what_is_superseded_into_the_open_group() {
    let bugs = [Bug::SupersededLeftOut, Bug::SweptToRear];
    only_with(&bugs, || a_drain_goes_after_what_is_superseded(true));
}

/// A file is cut off while its only page gets a second chance, and the front that passed where it was becomes
/// durable.
#[test]
fn what_moves_while_its_range_is_cut_is_cut() {
    only_with(&[Bug::FrontReadLast], || {
        let mut config = TierConfig::new(4096, 512);
        (config.group_pages, config.staging_groups) = (8, 8);
        let mut host = Host::new(&config, 1);
        let watched = PageId::volume(7, 0);
        host.write(watched, &page(4096, 1));
        for block in 0..100 {
            host.write(id(block), &page(4096, block));
        }
        let (tier, flash) = (&host.tier, &mut host.flash);
        let go_round = || {
            let mut disk = HashMap::new();
            let mut seen = page(4096, 0);
            for block in 1000..1600 {
                let _ = tier.lookup(&watched, &mut seen);
                while tier.stage_in(&id(block), &page(4096, block), StageKind::Dirty, 0) == StageIn::Full {
                    let mut job = tier.next_job(1).unwrap();
                    carry_out(flash, &mut disk, &mut job);
                    tier.complete(job, Ok(()));
                }
            }
            assert!(tier.holds(&watched).is_some(), "it was looked up again and again");
        };
        let cut = || tier.invalidate_range(&whole_file(7)).unwrap();
        let point = "range invalidation: front read, end not";
        while_waiting(point, cut, go_round);
        tier.holds(&watched).is_none()
    });
}

/// The queue goes round while a range is being looked for whose older parts nobody knows the place of.
#[test]
fn the_queue_may_go_round_while_a_range_is_cut() {
    let mut host = Host::new(&pairs(), 1);
    for file in 1..240 {
        host.write(PageId::volume(file, 0), &page(4096, file));
    }
    let everything = IdRange { start: PageId::volume(0, 0), count: 1, shift: 159 };
    let (tier, flash) = (&host.tier, &mut host.flash);
    let go_round = || {
        let mut disk = HashMap::new();
        let other = |block| {
            PageId::from_bytes([&[0xFF; 16][..], &u32::to_be_bytes(block)].concat().try_into().unwrap())
        };
        for block in 0..300 {
            while tier.stage_in(&other(block), &page(4096, 1), StageKind::Dirty, 0) == StageIn::Full {
                let mut job = tier.next_job(1).unwrap();
                carry_out(flash, &mut disk, &mut job);
                tier.complete(job, Ok(()));
            }
        }
    };
    let cut = || tier.invalidate_range(&everything).unwrap();
    while_waiting("range invalidation: one page unlinked", cut, go_round);
    assert!((1..240).all(|file| tier.holds(&PageId::volume(file, 0)).is_none()));
    tier.check();
}

/// A drain of one page goes to where that page lies: others, before it in the queue and behind, stay as they
/// are.
#[test]
fn a_drain_of_one_page_leaves_the_others() {
    let mut host = Host::new(&pairs(), 1);
    for block in 0..40 {
        host.write(id(block), &page(4096, block));
    }
    host.sync();
    let range = Some(IdRange::blocks(1, 20, 1));
    let ticket = host.tier.request_drain(&DrainScope { range, before: None }).unwrap();
    while host.tier.drain_state(&ticket) == DrainState::Pending {
        assert!(host.step(), "a drain has a job");
    }
    assert_eq!(host.tier.drain_state(&ticket), DrainState::Done);
    assert_eq!(host.tier.holds(&id(20)), Some(false), "it is clean");
    assert_eq!(host.disk.len(), 1, "nothing else went to disk");
    host.tier.check();
}
