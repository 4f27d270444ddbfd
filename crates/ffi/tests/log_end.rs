//! A log that ends before the newest page of the tier: directory and log were put back to an earlier moment.
//!
//! Between two checkpoints redo point and timeline are the same at both moments, so the tier was adopted:
//! redo took its newer pages for its own, and pages that had been drained to the newer files were missing in
//! the older ones.

#![allow(clippy::unwrap_used, missing_docs)]

mod machine;

use machine::{Machine, checkpoint, id, offer, page, read, start};
use mezzanine_engine::planted::{Bug, only_with};
use mezzanine_engine::{IdRange, LogPosition, SyncMode};
use mezzanine_ffi::host::Host;
use mezzanine_ffi::startup::Adoption;

/// Where redo begins.
const REDO: u64 = 100;

const fn on_first(lsn: u64) -> LogPosition {
    LogPosition { timeline: 1, lsn }
}

fn write_at(host: &Host, block: u32, lsn: u64) {
    host.write(&id(block), &page(lsn as u8), lsn, Some(host.tier().mark())).unwrap();
}

/// A server whose directory is put back: it dies after `life`, and starts with a log that ends here.
fn put_back(
    mode: SyncMode,
    log_end: LogPosition,
    life: impl FnOnce(&Machine, &Host),
) -> Result<Adoption, String> {
    let machine = Machine::new(mode);
    let (host, _) = machine.start(REDO).unwrap();
    life(&machine, &host);
    host.sync().unwrap();
    drop(host);
    start_with(&machine, log_end)
}

fn start_with(machine: &Machine, log_end: LogPosition) -> Result<Adoption, String> {
    *machine.disk.log_end.lock().unwrap() = Some(log_end);
    let host = machine.open().unwrap();
    let started = host.start(&start(REDO)).map_err(|refusal| refusal.message)?;
    if started.adoption == Adoption::Discarded {
        assert!(started.reason.contains("behind the end of its log"), "{}", started.reason);
        assert!((0..8).all(|block| !host.holds(&id(block))), "an emptied tier holds nothing");
    }
    Ok(started.adoption)
}

fn newer(_: &Machine, host: &Host) {
    write_at(host, 1, 120);
    write_at(host, 2, 110);
}

#[test]
fn a_log_that_ends_before_the_newest_page_is_refused_or_has_the_tier_emptied() {
    let refused = put_back(SyncMode::Durable, on_first(119), newer).unwrap_err();
    assert!(refused.contains("are not of the same moment"), "{refused}");
    assert_eq!(put_back(SyncMode::Drained, on_first(119), newer), Ok(Adoption::Discarded));
    for mode in [SyncMode::Durable, SyncMode::Drained] {
        assert_eq!(put_back(mode, on_first(120), newer), Ok(Adoption::Adopted), "{mode:?}");
    }
}

#[test]
fn a_refusal_has_changed_nothing() {
    let machine = Machine::new(SyncMode::Durable);
    let (host, _) = machine.start(REDO).unwrap();
    newer(&machine, &host);
    host.sync().unwrap();
    drop(host);
    for _ in 0..3 {
        start_with(&machine, on_first(119)).unwrap_err();
    }
    *machine.disk.log_end.lock().unwrap() = None;
    let (host, started) = machine.start(REDO).unwrap();
    assert_eq!(started.adoption, Adoption::Adopted);
    assert_eq!((read(&host, &machine, 1), read(&host, &machine, 2)), (Some(120), Some(110)));
}

#[test]
fn the_log_end_is_compared() {
    only_with(&[Bug::LogEndUnchecked], || {
        put_back(SyncMode::Durable, on_first(119), newer) != Ok(Adoption::Adopted)
    });
}

/// A page was dropped by a later record than any page that came in: files of before lack it, or have it yet.
#[test]
fn a_drop_reaches_as_far_as_the_log_that_it_is_in() {
    only_with(&[Bug::DropsOutrunLog], || {
        let dropped = |machine: &Machine, host: &Host| {
            write_at(host, 1, 105);
            *machine.disk.log_position.lock().unwrap() = on_first(130);
            host.drop_range(&IdRange { start: id(1), count: 1, shift: 0 }).unwrap();
        };
        assert_eq!(put_back(SyncMode::Durable, on_first(130), dropped), Ok(Adoption::Adopted));
        put_back(SyncMode::Durable, on_first(129), dropped).is_err()
    });
}

/// A page says of a transaction that it has committed, by a record that lies behind its own position.
#[test]
fn a_page_reaches_as_far_as_the_log_that_it_tells_of() {
    only_with(&[Bug::HintsOutrunLog], || {
        let hinted = |_: &Machine, host: &Host| {
            host.log_flushed(130);
            write_at(host, 1, 105);
        };
        assert_eq!(put_back(SyncMode::Durable, on_first(130), hinted), Ok(Adoption::Adopted));
        put_back(SyncMode::Durable, on_first(129), hinted).is_err()
    });
}

/// The newest page came in a life before the last, and has left the tier since.
#[test]
fn how_far_the_log_reached_outlives_pages_and_recoveries() {
    only_with(&[Bug::LogForgotten], || {
        let machine = Machine::new(SyncMode::Durable);
        let (host, _) = machine.start(REDO).unwrap();
        write_at(&host, 1, 140);
        host.drop_range(&IdRange { start: id(1), count: 1, shift: 0 }).unwrap();
        host.sync().unwrap();
        drop(host);
        let (host, _) = machine.start(REDO).unwrap();
        write_at(&host, 2, 110);
        host.sync().unwrap();
        drop(host);
        start_with(&machine, on_first(139)).is_err()
    });
}

#[test]
fn a_timeline_that_the_log_does_not_have_is_one_of_another_history() {
    let promoted = |_: &Machine, host: &Host| {
        host.follows_timeline(2);
        write_at(host, 1, 120);
    };
    let of_both = LogPosition { timeline: 2, lsn: 120 };
    assert_eq!(put_back(SyncMode::Durable, of_both, promoted), Ok(Adoption::Adopted));
    assert!(put_back(SyncMode::Durable, on_first(1000), promoted).is_err());
}

/// A clean page from behind the redo point, after a crash: the files may be of before it was written there,
/// for all that the log says.
#[test]
fn what_is_redone_counts_as_dirty() {
    only_with(&[Bug::RedoneBelievedClean], || {
        let machine = Machine::new(SyncMode::Drained);
        let (host, _) = machine.start(REDO).unwrap();
        assert!(offer(&host, &id(1), &page(1), REDO + 20) && offer(&host, &id(2), &page(2), REDO - 20));
        host.sync().unwrap();
        drop(host);
        let (host, started) = machine.start(REDO).unwrap();
        assert_eq!(started.adoption, Adoption::Adopted);
        assert!(
            host.holds(&id(2)) && !host.holds_dirty(&id(2)),
            "what came before redo is as its record says"
        );
        host.holds_dirty(&id(1))
    });
}

/// A server in `durable` whose files lack a page that its record calls clean starts after a crash, lives on,
/// and starts again: whether the page is dirty then, and on disk after a drain.
fn outlives(life: impl FnOnce(&Host) -> u64) -> bool {
    let machine = Machine::new(SyncMode::Durable);
    let (host, _) = machine.start(REDO).unwrap();
    assert!(offer(&host, &id(1), &page(1), REDO + 20));
    host.sync().unwrap();
    drop(host);
    let (host, _) = machine.start(REDO).unwrap();
    let redo = life(&host);
    drop(host);
    let (host, _) = machine.start(redo).unwrap();
    let dirty = host.holds_dirty(&id(1));
    host.drain_all().unwrap();
    dirty && machine.disk.pages.lock().unwrap().contains_key(id(1).as_bytes())
}

/// A checkpoint in `durable` brings nothing to disk, and redo begins behind the page from then on.
#[test]
fn what_was_redone_stays_dirty_over_checkpoints_and_starts() {
    only_with(&[Bug::RedoneForgotten], || {
        outlives(|host| {
            checkpoint(host, REDO + 50);
            REDO + 50
        })
    });
    only_with(&[Bug::RedoneForgotten], || {
        outlives(|host| {
            checkpoint(host, REDO + 50);
            assert!(!host.close(false).unwrap().current);
            REDO + 50
        })
    });
}

/// When everything that was redone has left the queue, records are believed again.
#[test]
fn what_comes_in_after_a_round_of_the_queue_is_as_its_record_says() {
    let mut machine = Machine::new(SyncMode::Durable);
    machine.flash_mb = 8;
    let (host, _) = machine.start(REDO).unwrap();
    assert!(offer(&host, &id(1), &page(1), REDO + 20));
    host.sync().unwrap();
    drop(host);
    let (host, _) = machine.start(REDO).unwrap();
    for block in 0..3000 {
        write_at(&host, 100 + block, REDO + 20);
    }
    checkpoint(&host, REDO + 50);
    assert!(offer(&host, &id(2), &page(2), REDO + 30));
    host.sync().unwrap();
    drop(host);
    let (host, _) = machine.start(REDO + 50).unwrap();
    assert!(host.holds(&id(2)) && !host.holds_dirty(&id(2)));
}
