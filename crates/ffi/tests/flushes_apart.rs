//! A process that joins the tier has its flushes of the flash device to itself.

#![allow(clippy::unwrap_used, missing_docs)]

mod machine;

use std::fs;
use std::ptr::NonNull;

use machine::{Machine, Relations, start};
use mezzanine_engine::SyncMode;
use mezzanine_engine::planted::{Bug, set};
use mezzanine_ffi::host::Host;

/// How often this process has the file open.
fn opened(path: &std::path::Path) -> usize {
    let open = fs::read_dir("/proc/self/fd").unwrap();
    open.filter(|file| fs::read_link(file.as_ref().unwrap().path()).is_ok_and(|link| link == path)).count()
}

/// Two processes of one server: the second has its device from the first, which forked it. Does it open the
/// device once more when it joins?
fn is_opened_once_more() -> bool {
    let machine = Machine::new(SyncMode::Durable);
    let path = machine.root.join("flash");
    let host = || Host::open(machine.settings(), None, Box::new(Relations(machine.disk.clone()))).unwrap();
    let mut first = host();
    first.lock_device().unwrap();
    let memory: &mut [u8] = vec![0; first.memory_bytes()].leak();
    let (base, bytes) = (NonNull::from(&mut *memory).cast(), memory.len());
    // SAFETY: leaked, and used by the two hosts of one tier alone.
    unsafe { first.use_memory(base, bytes, true) };
    first.start(&start(10)).unwrap();
    let mut second = host();
    // SAFETY: as above; the region's own rules are for several processes.
    unsafe { second.use_memory(base, bytes, false) };
    let before = opened(&path);
    assert!(before >= 2, "each has it open");
    second.attach(2).unwrap();
    opened(&path) > before
}

/// The kernel tells of a lost write once for each time that a file was opened: of two processes that share it
/// one could be told of a success that is none, and acknowledge what is not on flash.
#[test]
fn a_process_that_joins_flushes_through_a_file_of_its_own() {
    assert!(is_opened_once_more());
    set(Some(Bug::FlushesShared));
    let once_more = is_opened_once_more();
    set(None);
    assert!(!once_more, "processes that share the reports of their flushes went unnoticed");
}
