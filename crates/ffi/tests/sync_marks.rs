//! A data directory of an earlier moment of a session is put back beside the newest flash: of a server that
//! is running, so that session and redo point are the same, and the log has nothing of what is missing.
#![allow(clippy::unwrap_used, missing_docs)]

use lasting::{APART, BLOCKS, Lasting, in_use, write_all};
use machine::{read, write};
use mezzanine_engine::SyncMode;
use mezzanine_engine::planted::{Bug, only_with};
use mezzanine_ffi::host::Host;
use mezzanine_ffi::startup::Adoption;

mod flash;
mod lasting;
mod machine;

/// Other pages come in until the first ones have left for disk.
fn push_out(host: &Host) {
    let mut block = 1000;
    while (0..BLOCKS).any(|first| host.holds(&machine::id(first))) {
        let _ = write(host, block, 9);
        while host.work() {}
        block += 1;
        assert!(block < 5000, "pages do not leave");
    }
    host.sync().unwrap();
}

/// Whether the copy of a running directory is refused when flash has forgotten pages since; if not, it lacks
/// some.
fn a_copy_of_a_running_directory_is_noticed() -> bool {
    let lasting = in_use(SyncMode::Durable);
    let host = lasting.start(20);
    let copy = lasting.directory();
    push_out(&host);
    drop(host);
    let newest = lasting.directory();
    lasting.put_back(&copy);
    match lasting.try_start(20) {
        Err(refusal) => {
            assert!(refusal.message.contains(APART), "{refusal}");
            assert!(
                refusal.detail.contains("the data directory is the older one, for the disk was synced"),
                "{refusal}"
            );
            let before = lasting.marker.0.lock().unwrap().clone();
            assert_eq!(before, copy.marker, "nothing was changed");
            lasting.put_back(&newest);
            let (host, started) = lasting.try_start(20).unwrap();
            assert_eq!(started.adoption, Adoption::Adopted);
            assert_eq!(lasting.with_version(&host, 1), BLOCKS as usize);
            true
        }
        Ok((host, _)) => {
            assert!(lasting.with_version(&host, 1) < BLOCKS as usize);
            false
        }
    }
}

#[test]
fn a_directory_that_lacks_what_has_left_the_tier_is_noticed() {
    only_with(&[Bug::SyncMarkUnchecked, Bug::SyncUnmarked], a_copy_of_a_running_directory_is_noticed);
}

/// Pages that a drain has brought to disk are clean on flash, in the next group that takes them along.
#[test]
fn a_directory_that_lacks_what_was_drained_is_noticed() {
    only_with(&[Bug::SyncMarkUnchecked, Bug::SyncUnmarked], || {
        let lasting = in_use(SyncMode::Durable);
        let host = lasting.start(20);
        let copy = lasting.directory();
        host.drain_all().unwrap();
        host.sync().unwrap();
        drop(host);
        lasting.put_back(&copy);
        lasting.refusal(20).is_some_and(|refusal| refusal.message.contains(APART))
    });
}

/// A page is written past the tier, which brings the version that it has to disk first.
#[test]
fn a_directory_that_lacks_what_was_overwritten_is_noticed() {
    only_with(&[Bug::SyncMarkUnchecked, Bug::SyncUnmarked], || {
        let lasting = in_use(SyncMode::Durable);
        let host = lasting.start(20);
        let copy = lasting.directory();
        host.overwrite(&machine::id(1)).unwrap();
        host.sync().unwrap();
        drop(host);
        lasting.put_back(&copy);
        lasting.refusal(20).is_some_and(|refusal| refusal.message.contains(APART))
    });
}

/// The marker is one ahead where a crash came before a group that carries the mark, and no number is given
/// twice.
#[test]
fn marks_go_on_from_the_marker_after_a_crash() {
    let lasting = in_use(SyncMode::Durable);
    let mut last = lasting.marked("mark").unwrap();
    for _ in 0..3 {
        let host = lasting.start(20);
        let _ = write(&host, 1, 1);
        // No sync of the tier follows.
        host.drain_all().unwrap();
        drop(host);
        let mark = lasting.marked("mark").unwrap();
        assert!(mark > last, "{last}, {mark}");
        last = mark;
    }
    let host = lasting.start(20);
    assert_eq!(lasting.with_version(&host, 1), BLOCKS as usize);
    assert!(host.close(true).unwrap().current);
    drop(host);
    let closed = lasting.marked("mark").unwrap();
    assert!(closed >= last);
    drop(lasting.start(20));
    assert_eq!(lasting.marked("mark").unwrap(), closed);
}

/// A new tier begins anew.
#[test]
fn a_new_tier_has_no_mark() {
    let lasting = in_use(SyncMode::Durable);
    let host = lasting.start(20);
    host.drain_all().unwrap();
    assert!(host.close(true).unwrap().current);
    drop(host);
    assert_ne!(lasting.marked("mark").unwrap(), "mark = \"0000000000000000\"");
    lasting.flash.load(&vec![0; lasting::FLASH_BYTES as usize]);
    let (host, started) = lasting.try_start(20).unwrap();
    assert_eq!(started.adoption, Adoption::Formatted);
    write_all(&host, 2);
    assert_eq!(lasting.marked("mark").unwrap(), "mark = \"0000000000000000\"");
    drop(host);
    let host = lasting.start(20);
    assert_eq!(lasting.with_version(&host, 2), BLOCKS as usize);
}

/// Where everything from before the redo point is on disk, nothing is marked.
#[test]
fn other_modes_are_not_marked() {
    for mode in [SyncMode::Drained, SyncMode::Through] {
        let lasting = in_use(mode);
        let host = lasting.start(20);
        let before = lasting.directory();
        write_all(&host, 2);
        host.drain_all().unwrap();
        push_out(&host);
        assert_eq!(lasting.directory().marker, before.marker, "{mode:?}");
    }
}

/// The power of flash fails in each operation of a stage-out: the newest directory always goes on.
#[test]
fn every_cut_of_a_stage_out_is_survived() {
    let staged_out = |lasting: &Lasting| {
        let host = lasting.start(20);
        let before = lasting.flash.power().operations();
        (host, before)
    };
    let lasting = in_use(SyncMode::Durable);
    let (host, before) = staged_out(&lasting);
    host.drain_all().unwrap();
    host.sync().unwrap();
    let operations = lasting.flash.power().operations() - before;
    drop(host);
    for operation in 1..=operations {
        let lasting = in_use(SyncMode::Durable);
        let (host, _) = staged_out(&lasting);
        lasting.flash.power().crash_after(operation);
        let _ = host.drain_all().and_then(|()| host.sync());
        drop(host);
        lasting.flash.power_cut(operation);
        lasting.flash.power().restore();
        let (host, started) = lasting.try_start(20).unwrap();
        assert_eq!(started.adoption, Adoption::Adopted);
        assert!((0..BLOCKS).all(|block| read(&host, &lasting.machine, block) == Some(1)), "{operation}");
    }
}
