//! Another process has a database, and a thread asks for it: that waits a while, in case the other one is just
//! about to close it. The rest of the process does not.

#![allow(clippy::unwrap_used)]

mod support;

use std::fs::OpenOptions;
use std::os::fd::AsRawFd;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};

use mezzanine_engine::planted::{self, Bug, only_with, set};
use rusqlite::Connection;
use support::{Folder, open_with};

/// The lock of somebody else: it belongs to this descriptor, and not to the process.
fn held(path: &Path) -> std::fs::File {
    let file = OpenOptions::new().read(true).write(true).open(path).unwrap();
    // Safety: plain numbers, of which zeros are valid ones.
    let mut lock: libc::flock = unsafe { std::mem::zeroed() };
    (lock.l_type, lock.l_start, lock.l_len) = (libc::F_WRLCK as i16, 0x4000_0000, 512);
    // Safety: the lock is alive for the call.
    assert_eq!(unsafe { libc::fcntl(file.as_raw_fd(), libc::F_OFD_SETLK, &lock) }, 0);
    file
}

/// Others are opened and closed while that is waited for: whether any were, in as many attempts as it may take
/// on a busy machine.
fn others_go_on() -> bool {
    let folder = Folder::new();
    Connection::open(folder.file("held.db")).unwrap().execute_batch("CREATE TABLE t (a)").unwrap();
    open_with(&folder, "own.db", "").unwrap().execute_batch("CREATE TABLE t (a)").unwrap();
    let _held = held(&folder.file("held.db"));
    let bug = planted::is(Bug::LockAwaitedInRegistry).then_some(Bug::LockAwaitedInRegistry);
    (0..5).any(|_| {
        let (begun, done) = (AtomicBool::new(false), AtomicBool::new(false));
        std::thread::scope(|scope| {
            scope.spawn(|| {
                set(bug);
                begun.store(true, Ordering::SeqCst);
                open_with(&folder, "held.db", "").unwrap_err();
                done.store(true, Ordering::SeqCst);
                set(None);
            });
            while !begun.load(Ordering::SeqCst) {
                std::thread::yield_now();
            }
            // Of 63 milliseconds: it has tried once by now, and waits.
            std::thread::sleep(std::time::Duration::from_millis(20));
            let own = open_with(&folder, "own.db", "").unwrap();
            drop(own);
            !done.load(Ordering::SeqCst)
        })
    })
}

#[test]
fn others_are_opened_while_one_is_waited_for() {
    only_with(&[Bug::LockAwaitedInRegistry], others_go_on);
}
