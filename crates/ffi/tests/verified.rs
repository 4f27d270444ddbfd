//! A look at all pages of a tier, beside reads that fail.
//!
//! Each page was read once: what failed for a moment was reported as damaged, and so was everything on a
//! device that answered nothing.

#![allow(clippy::unwrap_used, missing_docs)]

mod machine;

use std::sync::Arc;

use machine::{Machine, Relations, flash_offset, give_memory, id, start, write};
use mezzanine_device::memory::{Bad, Fault, Injection, MemoryDevice, Operation};
use mezzanine_device::{Device, DeviceErrorKind};
use mezzanine_engine::SyncMode;
use mezzanine_engine::planted::{Bug, only_with};
use mezzanine_ffi::host::Host;
use mezzanine_ffi::inspect::Verified;
use mezzanine_ffi::marker::DataDirectory;
use mezzanine_ffi::message::Refusal;

const BLOCKS: u32 = 256;
const FAILS: Fault = Fault::Error(DeviceErrorKind::Io);

/// A server whose pages are on flash.
fn server() -> (Machine, Host, Arc<MemoryDevice>) {
    let machine = Machine::new(SyncMode::Durable);
    let settings = machine.settings();
    let flash = Arc::new(MemoryDevice::new(settings.flash_bytes));
    let marker = Box::new(DataDirectory(settings.data_directory.clone()));
    let relations = Box::new(Relations(Arc::clone(&machine.disk)));
    let device: Arc<dyn Device> = Arc::<MemoryDevice>::clone(&flash);
    let mut host = Host::on_device(settings, device, marker, relations).unwrap();
    give_memory(&mut host);
    host.start(&start(10)).unwrap();
    (0..BLOCKS).for_each(|block| _ = write(&host, block, 1));
    host.sync().unwrap();
    (machine, host, flash)
}

fn verify(host: &Host) -> Result<Verified, Refusal> {
    let mut cursor = host.tier().first_page();
    let mut all = Verified::default();
    while let Some(found) = host.verify(&mut cursor, 64)? {
        all.checked += found.checked;
        all.damaged.extend(found.damaged);
    }
    Ok(all)
}

#[test]
fn an_error_that_passes_is_no_damage() {
    for fault in [FAILS, Fault::FlipBit] {
        only_with(&[Bug::SavedAtOnce], || {
            let (_machine, host, flash) = server();
            flash.inject(Injection { operation: Operation::Read, after: 5, count: 1, fault });
            let found = verify(&host).unwrap();
            assert!(found.checked > u64::from(BLOCKS) / 2);
            found.damaged.is_empty()
        });
    }
}

#[test]
fn a_page_that_cannot_be_read_is_damaged() {
    let (_machine, host, flash) = server();
    flash.spoil(flash_offset(&host, 5), 512, Bad::Unreadable);
    let found = verify(&host).unwrap();
    assert_eq!(found.damaged.iter().map(|page| page.id).collect::<Vec<_>>(), [id(5)]);
}

#[test]
fn a_silent_device_has_no_damaged_pages() {
    only_with(&[Bug::SilentPagesDamaged], || {
        let (_machine, host, flash) = server();
        flash.inject(Injection { operation: Operation::Read, after: 0, count: u64::MAX, fault: FAILS });
        let said = verify(&host).is_err_and(|refusal| refusal.hint.contains("try again"));
        flash.heal();
        said && verify(&host).unwrap().damaged.is_empty()
    });
}
