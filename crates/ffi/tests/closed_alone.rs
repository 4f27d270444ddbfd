//! A tier that was left in order, beside a directory of an earlier moment of that session.
//!
//! A standby that is stopped makes no restartpoint if there was no checkpoint to make it of, so redo begins
//! where it did before. Redo found its pages in the tier as they were to become, and took the tier's word
//! that disk had them; the older directory had not.
#![allow(clippy::unwrap_used, missing_docs)]

use lasting::{Lasting, in_use};
use machine::{id, page, write};
use mezzanine_engine::SyncMode;
use mezzanine_engine::planted::{Bug, only_with};
use mezzanine_ffi::host::Host;
use mezzanine_ffi::pages::Written;
use mezzanine_ffi::startup::Adoption;

mod flash;
mod lasting;
mod machine;

/// From behind the redo point.
const LSN: u64 = 110;

fn change(lasting: &Lasting, host: &Host) {
    match host.write(&id(1), &page(7), LSN, Some(host.tier().mark())).unwrap() {
        Written::Taken => {}
        Written::AlsoDisk => {
            lasting.machine.disk.pages.lock().unwrap().insert(*id(1).as_bytes(), page(7));
        }
        Written::Refused => panic!("the tier takes pages"),
    }
}

/// Whether disk will have a page that an older directory lacks, or redo makes it from what disk has.
fn is_brought_to_disk(mode: SyncMode) -> bool {
    let lasting = in_use(mode);
    let host = lasting.start(20);
    let older = lasting.directory();
    change(&lasting, &host);
    assert!(host.close(true).unwrap().current);
    drop(host);
    let newest = lasting.directory();
    assert_ne!(older.pages, newest.pages);
    lasting.put_back(&older);
    let (host, _) = lasting.try_start(20).unwrap();
    !host.holds(&id(1)) || host.holds_dirty(&id(1))
}

#[test]
fn an_older_directory_gets_what_the_tier_has_of_the_log() {
    for mode in [SyncMode::Drained, SyncMode::Through] {
        only_with(&[Bug::ClosedAlone], || is_brought_to_disk(mode));
    }
}

#[test]
fn in_durable_it_was_marked() {
    let lasting = in_use(SyncMode::Durable);
    let host = lasting.start(20);
    let older = lasting.directory();
    change(&lasting, &host);
    assert!(host.close(true).unwrap().current);
    drop(host);
    lasting.put_back(&older);
    assert!(lasting.refusal(20).unwrap().message.contains(lasting::APART));
}

#[test]
fn the_directory_that_was_left_with_it_finds_it_as_it_was_left() {
    for mode in [SyncMode::Durable, SyncMode::Drained, SyncMode::Through] {
        let lasting = in_use(mode);
        let host = lasting.start(20);
        change(&lasting, &host);
        assert!(host.close(true).unwrap().current);
        drop(host);
        let (host, started) = lasting.try_start(20).unwrap();
        assert_eq!((started.adoption, started.recovery.dirty), (Adoption::Adopted, 0), "{mode:?}");
        assert!(host.holds(&id(1)) && !host.holds_dirty(&id(1)), "{mode:?}");
        let _ = write(&host, 2, 9);
    }
}
