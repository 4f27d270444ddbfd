//! Invariant 10 taken out: an older snapshot of a tier is taken for the file's own, and an acknowledged page goes back.

#![allow(clippy::unwrap_used)]

mod common;

use std::sync::Arc;

use common::{Backing, PAGE, durable, formatted, open, page};
use mezzanine_device::Device;
use mezzanine_device::memory::MemoryDevice;
use mezzanine_engine::planted::{Bug, set};

/// Writes, takes a copy of the flash device, writes again, and opens the copy. What does the page hold then?
fn page_on_an_older_snapshot() -> Option<Vec<u8>> {
    let (flash, backing) = (formatted(&durable()), Backing::new("a"));
    let write = |version| {
        let volume = open(&flash, &durable());
        let file = backing.attach(&volume).unwrap();
        file.write_at(&page(3, version), 3 * PAGE as u64).unwrap();
        volume.close().unwrap();
    };
    write(1);
    let snapshot = Arc::new(MemoryDevice::new(flash.len()));
    snapshot.load(&flash.image());
    write(2);
    let volume = open(&snapshot, &durable());
    let file = backing.attach(&volume).ok()?;
    let mut found = vec![0; PAGE];
    file.read_at(&mut found, 3 * PAGE as u64).unwrap();
    Some(found)
}

#[test]
fn an_older_snapshot_never_answers() {
    assert_eq!(page_on_an_older_snapshot(), None, "it must be refused");
    set(Some(Bug::IdentityUnchecked));
    let found = page_on_an_older_snapshot();
    set(None);
    assert!(found.is_some_and(|found| found == page(3, 1)), "the planted fault went unnoticed");
}
