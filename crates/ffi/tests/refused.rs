//! Disk does not take some pages: they stay in the tier, and nothing else fails.
//!
//! One page that could not be written to its relation used to end all stage-out, and with that the server: a
//! missing file or a full disk of one tablespace was a panic, again after each restart.

#![allow(clippy::unwrap_used, missing_docs)]

mod machine;

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc;
use std::time::Duration;

use machine::{Machine, flash_offset, id, offer, page, read, write};
use mezzanine_engine::planted::{Bug, only_with};
use mezzanine_engine::{IdRange, PageId, StageIn, StageKind, SyncMode};
use mezzanine_ffi::host::Host;
use mezzanine_ffi::message::Refusal;
use mezzanine_ffi::pages::Written;

/// Blocks of which disk takes none.
const REFUSED: std::ops::Range<u32> = 3..9;

/// A server whose disk refuses some blocks, and which has written many others since.
fn with_refused_pages(machine: &Machine) -> Host {
    let (host, _) = machine.start(10).unwrap();
    machine.disk.refused.lock().unwrap().extend(REFUSED.map(id));
    for block in 0..32 {
        write(&host, block, 1);
    }
    for block in 1000..9000 {
        write(&host, block, 1);
    }
    host
}

fn has_disk(machine: &Machine, block: u32) -> bool {
    machine.disk.pages.lock().unwrap().contains_key(id(block).as_bytes())
}

#[test]
fn one_files_error_stops_nobody_else() {
    only_with(&[Bug::RefusedEndsServer, Bug::RefusedCountsAsWritten], || {
        [SyncMode::Durable, SyncMode::Drained].into_iter().all(|mode| {
            let machine = Machine::new(mode);
            let host = std::panic::catch_unwind(|| with_refused_pages(&machine));
            let Ok(host) = host else { return false };
            let kept = REFUSED
                .into_iter()
                .all(|block| read(&host, &machine, block) == Some(1) && !has_disk(&machine, block));
            // Whoever needs the files to be current is told, and the others are.
            let Err(refused) = host.drain_all() else { return false };
            let all = IdRange::relation(5, 1663, 1000);
            let told = refused.is_of_refused_pages() && host.flush_range(&all).is_err();
            let others = (1000..9000).all(|block| has_disk(&machine, block));
            machine.disk.refused.lock().unwrap().clear();
            let drained =
                host.drain_all().is_ok() && REFUSED.into_iter().all(|block| has_disk(&machine, block));
            host.tier().failure().is_none() && kept && told && others && drained
        })
    });
}

/// A server that stops leaves what cannot be written in the tier.
#[test]
fn a_stop_leaves_refused_pages_in_the_tier() {
    let machine = Machine::new(SyncMode::Durable);
    let host = with_refused_pages(&machine);
    let closed = host.close(true).unwrap();
    assert!(!closed.current && closed.lost.is_some_and(|refusal| refusal.is_of_refused_pages()));
    drop(host);
    let (host, _) = machine.start(10).unwrap();
    assert!(REFUSED.into_iter().all(|block| read(&host, &machine, block) == Some(1)));
}

/// Everything is refused: who writes a page is told at the end, and what was taken is kept.
#[test]
fn who_finds_no_room_is_told() {
    only_with(&[Bug::RefusedAwaited, Bug::RefusedCannotBeDropped], || {
        let machine = Machine::new(SyncMode::Durable);
        let (host, _) = machine.start(10).unwrap();
        machine.disk.refused.lock().unwrap().extend((0..20_000).map(id));
        // To wait for others, who do not exist, is a panic here.
        let told_and_helped = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            let write = |block| host.write(&id(block), &page(1), 1, Some(host.tier().mark()));
            let refused =
                |written: Result<Written, Refusal>| written.err().filter(Refusal::is_of_refused_pages);
            let taken = (0..20_000).find(|&block| refused(write(block)).is_some())?;
            let kept = (0..taken).all(|block| read(&host, &machine, block) == Some(1));
            // To drop them helps, and so does room on disk. It takes next to none in the tier.
            let rear = host.tier().rear();
            host.drop_range(&IdRange::relation(5, 1663, 1000)).ok()?;
            let at_once = host.tier().rear() < rear + 100;
            (kept && at_once && write(30_000) == Ok(Written::Taken)).then_some(())
        }));
        matches!(told_and_helped, Ok(Some(())))
    });
}

/// In a tier that is full of pages that disk refuses, with one of each of some other relations among them,
/// relations are dropped one by one, and `between` is done after each. How many frames the queue has taken
/// in for it; nothing if a drop does not end, or something is not as it should be then.
fn drops_at_rest(in_tier: u32, dropped: u32, between: impl Fn(&Host, u32)) -> Option<u64> {
    let other = |relation| PageId::relation(5, 1663, 2000 + relation, 0, 0);
    let machine = Machine::new(SyncMode::Durable);
    let (host, _) = machine.start(10).unwrap();
    machine.disk.refused.lock().unwrap().extend((0..20_000).map(id).chain((0..in_tier).map(other)));
    let write = |id| host.write(&id, &page(1), 1, Some(host.tier().mark()));
    (0..in_tier).for_each(|relation| assert_eq!(write(other(relation)), Ok(Written::Taken)));
    let taken = (0..20_000).find(|&block| write(id(block)).is_err()).unwrap();
    let rear = host.tier().rear();
    // To wait for others, who do not exist, is a panic here.
    let drops = std::panic::AssertUnwindSafe(|| {
        for relation in 0..dropped {
            host.drop_range(&IdRange::relation(5, 1663, 2000 + relation)).unwrap();
            between(&host, relation);
        }
        let frames = host.tier().rear() - rear;
        let kept = (0..taken).all(|block| read(&host, &machine, block) == Some(1));
        host.drop_range(&IdRange::relation(5, 1663, 1000)).unwrap();
        (kept && write(id(30_000)) == Ok(Written::Taken)).then_some(frames)
    });
    let frames = std::panic::catch_unwind(drops).ok()??;
    // A crash brings nothing of it back.
    host.sync().unwrap();
    drop(host);
    let (host, _) = machine.start(10).unwrap();
    let gone = (0..in_tier.min(dropped)).map(other).chain((0..taken).map(id)).all(|id| !host.holds(&id));
    gone.then_some(frames)
}

/// Others drop what is theirs while stage-out rests: each tombstone took a whole group of the last room,
/// since clean pages filled it, until there was none for a drop, which cannot be refused, and waited for
/// ever.
#[test]
fn tombstones_keep_the_last_room_for_themselves() {
    only_with(&[Bug::DropsRoomShared], || {
        let offer = |host: &Host, relation| {
            let block = |offered| id(100_000 * (1 + relation) + offered);
            (0..5000).find(|&offered| !offer(host, &block(offered), &page(1), 1)).unwrap();
        };
        drops_at_rest(60, 60, offer).is_some_and(|frames| frames < 500)
    });
}

#[test]
fn what_the_tier_does_not_have_is_dropped_without_room() {
    only_with(&[Bug::DropsOfNothingTakeRoom], || {
        drops_at_rest(0, 500, |host, _| while host.work() {}) == Some(0)
    });
}

/// Many relations of which the tier has a page, one by one, while others carry out the jobs: what is dropped
/// makes room for the next ones.
#[test]
fn a_drop_makes_room_for_the_next() {
    only_with(&[Bug::DroppedStillCounts], || {
        drops_at_rest(500, 500, |host, _| while host.work() {}).is_some_and(|frames| frames < 10_000)
    });
}

/// Other processes carry out the jobs: one takes his time to sync the disk, so that frames can leave, and
/// another brings stage-out to rest meanwhile. Who waits for room waits for both: he is told when there is
/// none to come. A standby ended while there was.
#[test]
fn who_waits_for_room_waits_for_others() {
    only_with(&[Bug::OthersUnawaited], || {
        let mut machine = Machine::new(SyncMode::Drained);
        machine.flash_mb = 4;
        let (host, _) = machine.start(10).unwrap();
        let tier = host.tier();
        machine.disk.refused.lock().unwrap().extend((0..5000).filter(|block| block % 3 > 0).map(id));
        machine.disk.others_work.store(true, Ordering::SeqCst);
        machine.disk.waits_for_sync.store(40, Ordering::SeqCst);
        let over = AtomicBool::new(false);
        let others = || {
            while !over.load(Ordering::SeqCst) {
                if !host.work() {
                    std::thread::sleep(Duration::from_micros(100));
                }
            }
        };
        std::thread::scope(|threads| {
            threads.spawn(others);
            threads.spawn(others);
            let write = |block| host.write(&id(block), &page(1), 1, Some(tier.mark()));
            let told = (0..5000).find(|&block| write(block).is_err()).unwrap();
            let seen = tier.progress();
            machine.disk.waits_for_sync.store(0, Ordering::SeqCst);
            // More attempts could find some.
            let stage_in = || tier.stage_in(&id(told), &page(1), StageKind::DirtySince(tier.mark()), 1);
            let ends = (0..5000).find_map(|_| {
                std::thread::sleep(Duration::from_millis(2));
                let at_rest = tier.rests_for_disk() && !tier.may_make_room();
                if stage_in() == StageIn::Full {
                    at_rest.then_some(tier.progress() == seen)
                } else {
                    Some(false)
                }
            });
            let none_comes = ends == Some(true);
            over.store(true, Ordering::SeqCst);
            none_comes && (0..told).all(|block| read(&host, &machine, block) == Some(1))
        })
    });
}

/// Others make room in the moment between the last attempt to find some and the question whether anybody has
/// a job in hand, and stage-out rests again: who waited was told that there was none.
#[test]
fn room_that_others_have_just_made_is_found() {
    only_with(&[Bug::RoomJustMadeMissed], || {
        let machine = Machine::new(SyncMode::Durable);
        let (host, _) = machine.start(10).unwrap();
        let refused = || machine.disk.refused.lock().unwrap();
        refused().extend((0..20_000).map(id));
        let write = |block| host.write(&id(block), &page(1), 1, Some(host.tier().mark()));
        let told = (0..20_000).find(|&block| write(block).is_err()).unwrap();
        machine.disk.others_work.store(true, Ordering::SeqCst);
        let (asked, asks) = mpsc::channel::<mpsc::Sender<()>>();
        *machine.disk.asked.lock().unwrap() = Some(asked);
        std::thread::scope(|threads| {
            threads.spawn(|| {
                for (number, done) in asks.into_iter().enumerate() {
                    if number == 2 {
                        refused().retain(|page| page.relation_parts()[4] % 2 == 0);
                    }
                    while host.work() {}
                    assert!(host.tier().rests_for_disk() && !host.tier().may_make_room());
                    done.send(()).unwrap();
                }
            });
            let taken = write(told) == Ok(Written::Taken);
            *machine.disk.asked.lock().unwrap() = None;
            taken
        })
    });
}

/// Redo, whose error ends the server, finds room until the tier is full of pages that disk refuses; others
/// are told before that, for it costs many writes.
#[test]
fn redo_finds_room_where_others_are_told() {
    only_with(&[Bug::RoomRefusedToRedo], || {
        [SyncMode::Durable, SyncMode::Drained].into_iter().all(|mode| {
            let mut machine = Machine::new(mode);
            machine.flash_mb = 4;
            let (host, _) = machine.start(10).unwrap();
            let refused = (host.tier().geometry().frames() * 3 / 5) as u32;
            machine.disk.refused.lock().unwrap().extend((0..refused).map(id));
            let write = |block| host.write(&id(block), &page(1), 1, Some(host.tier().mark()));
            let told = (0..30_000).find_map(|block| write(block).err()).unwrap();
            assert!(told.is_of_refused_pages());
            machine.disk.error_ends_server.store(true, Ordering::SeqCst);
            let redone = (30_000..30_400).all(|block| write(block) == Ok(Written::Taken));
            let kept = (0..refused).all(|block| read(&host, &machine, block) == Some(1));
            // Nothing else could be done where all of it is refused.
            machine.disk.refused.lock().unwrap().extend((40_000..60_000).map(id));
            let told = (40_000..60_000).find_map(|block| write(block).err()).unwrap();
            redone && kept && told.is_of_refused_pages()
        })
    });
}

/// Whoever is told can try again, or drop the relation, unless the server ends by it: then the next start is
/// what comes next, and has to come past the same page.
#[test]
fn the_next_step_is_one_that_can_be_taken() {
    let machine = Machine::new(SyncMode::Durable);
    let (host, _) = machine.start(10).unwrap();
    machine.disk.refused.lock().unwrap().insert(id(1));
    assert_eq!(host.write(&id(1), &page(1), 1, Some(host.tier().mark())), Ok(Written::Taken));
    for ends in [false, true] {
        machine.disk.error_ends_server.store(ends, Ordering::SeqCst);
        let refusal = host.overwrite(&id(1)).unwrap_err();
        assert!(refusal.is_of_refused_pages(), "{refusal}");
        assert_eq!(refusal.hint.contains("start the server again"), ends, "{refusal}");
        assert_eq!(refusal.hint.contains("truncate -s"), ends, "{refusal}");
        assert_eq!(refusal.hint.contains("try again"), !ends, "{refusal}");
    }
}

/// A server whose tier is full of pages that disk refuses, and which was asked for files that are current:
/// the disk was synced for that, and the mark of the sync waits for a group that finds no room. Do a
/// checkpoint, another such request and a stop end all the same, with everything there afterwards?
fn a_full_tier_is_left(drain: bool) -> Option<()> {
    let machine = Machine::new(SyncMode::Durable);
    let (host, _) = machine.start(10).unwrap();
    machine.disk.refused.lock().unwrap().extend((0..20_000).map(id));
    let write = |block| host.write(&id(block), &page(1), 1, Some(host.tier().mark()));
    let taken = (0..20_000).find(|&block| write(block).is_err())?;
    let told = |refusal: Refusal| refusal.is_of_refused_pages().then_some(());
    host.drain_all().err().and_then(told)?;
    // To wait for others, who do not exist, is a panic here.
    let ends = std::panic::AssertUnwindSafe(|| {
        host.checkpoint_written(false).unwrap();
        host.flush_range(&IdRange::relation(5, 1663, 1000)).err().and_then(told)?;
        (!host.close(drain).unwrap().current).then_some(())
    });
    std::panic::catch_unwind(ends).ok()??;
    drop(host);
    let (host, _) = machine.start(10).unwrap();
    (0..taken).all(|block| read(&host, &machine, block) == Some(1)).then_some(())
}

#[test]
fn a_full_tier_is_checkpointed_and_stopped() {
    only_with(&[Bug::NoteAwaitedAtRest], || {
        [false, true].into_iter().all(|drain| a_full_tier_is_left(drain).is_some())
    });
}

/// A clean page that flash does not give back, in a tier that is full of pages that disk refuses: its reader
/// does not wait for room for a tombstone, for which nothing makes any.
#[test]
fn a_reader_does_not_wait_for_room() {
    only_with(&[Bug::ReaderAwaitsRoom], || {
        const CLEAN: u32 = 30_000;
        // Fills a tier, with one clean page before this block; up to which block it goes.
        let fill = |clean_before: u32| {
            let machine = Machine::new(SyncMode::Durable);
            let (host, _) = machine.start(10).unwrap();
            machine.disk.pages.lock().unwrap().insert(*id(CLEAN).as_bytes(), page(7));
            machine.disk.refused.lock().unwrap().extend((0..20_000).map(id));
            let end = (0..20_000).find(|&block| {
                assert!(block != clean_before || offer(&host, &id(CLEAN), &page(7), 1));
                host.write(&id(block), &page(1), 1, Some(host.tier().mark())).is_err()
            });
            (machine, host, end.unwrap())
        };
        let (_, _, end) = fill(20_000);
        let (machine, host, _) = fill(end - 200);
        let flash = std::fs::File::options().write(true).open(machine.root.join("flash")).unwrap();
        std::os::unix::fs::FileExt::write_all_at(&flash, &[0xEE; 512], flash_offset(&host, CLEAN) + 1024)
            .unwrap();
        // To wait for others, who do not exist, is a panic here.
        let found = std::panic::AssertUnwindSafe(|| read(&host, &machine, CLEAN));
        std::panic::catch_unwind(found).is_ok_and(|found| found == Some(7))
    });
}
