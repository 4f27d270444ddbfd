//! Sectors of the flash device go bad under a server's pages.

#![allow(clippy::unwrap_used, missing_docs)]

mod machine;

use std::fs;
use std::os::unix::fs::FileExt;

use machine::{Machine, PAGE, id, read, write};
use mezzanine_engine::{Lookup, SyncMode};
use mezzanine_ffi::pages::Found;
use mezzanine_ffi::startup::Adoption;

/// A sector is damaged under a version that is superseded later, and one under a page that a drain has
/// brought to disk. Stage-out took the second for the only copy after a crash, and the server had to restart,
/// again and again.
#[test]
fn damage_under_dead_and_clean_pages_costs_nothing() {
    for mode in [SyncMode::Durable, SyncMode::Drained] {
        let machine = Machine::new(mode);
        let (host, _) = machine.start(10).unwrap();
        for block in 0..256 {
            write(&host, block, 1);
        }
        host.drain_all().unwrap();
        let flash = fs::OpenOptions::new().write(true).open(machine.root.join("flash")).unwrap();
        for block in [5, 7] {
            let found = host.tier().lookup(&id(block), &mut [0; PAGE]);
            let Lookup::Flash(found) = found else { panic!("{found:?}") };
            flash.write_all_at(&[0xEE; 512], found.offset + 1024).unwrap();
        }
        assert_eq!(read(&host, &machine, 5), Some(1));
        drop(host);

        // Killed: in the records the pages are dirty again.
        let (host, started) = machine.start(10).unwrap();
        assert_eq!(started.adoption, Adoption::Adopted);
        assert_eq!(read(&host, &machine, 5), Some(1), "{mode:?}");
        for round in 2..6 {
            for block in 6..2000 {
                write(&host, block, round);
            }
        }
        host.drain_all().unwrap();
        assert_eq!(host.tier().failure(), None, "{mode:?}");
        assert_eq!((read(&host, &machine, 5), read(&host, &machine, 7)), (Some(1), Some(5)));
    }
}

/// A page that only flash has, in a bad place, in sync mode `drained`: the log has it. Returns whether the
/// server could restart from there.
fn restarts_from_the_log() -> bool {
    let machine = Machine::new(SyncMode::Drained);
    let (host, _) = machine.start(10).unwrap();
    for block in 0..256 {
        write(&host, block, 1);
    }
    host.checkpoint_written(false).unwrap();
    let found = host.tier().lookup(&id(7), &mut [0; PAGE]);
    let Lookup::Flash(found) = found else { panic!("{found:?}") };
    let flash = fs::OpenOptions::new().write(true).open(machine.root.join("flash")).unwrap();
    flash.write_all_at(&[0xEE; 512], found.offset + 1024).unwrap();
    assert_eq!(host.read(&id(7), &mut [0; PAGE]), Found::Lost);
    let given_up = host.give_up();
    drop(host);
    // Redo comes to the page.
    let (host, started) = machine.start(10).unwrap();
    let found = host.read(&id(7), &mut [0; PAGE]);
    given_up.is_err() && started.adoption == Adoption::Formatted && found == Found::OnDisk
}

/// It was so once that the page was an error at each read, the server went on, and every restart came to it
/// again: a page that redo needs ended each of them.
#[test]
fn what_the_log_has_is_not_lost_with_a_page_that_cannot_be_read() {
    assert!(restarts_from_the_log());
}

#[cfg(feature = "planted")]
#[test]
fn that_is_seen_where_the_rule_is_taken_out() {
    use mezzanine_engine::planted::{Bug, set};
    set(Some(Bug::UnreadableKeepsTier));
    let restarts = restarts_from_the_log();
    set(None);
    assert!(!restarts);
}
