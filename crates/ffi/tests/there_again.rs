//! Pages that a drain has missed and a read brings after all, and a device that answers no read for a while.
//!
//! A drain that missed a page three times within a moment was refused, with the advice to restore relations
//! from a backup; and a write past the tier of such a page, whose only copy was good, put on disk what no
//! server takes for a page: had the power failed before the server's own write, the page was gone.

#![allow(clippy::unwrap_used, missing_docs)]

mod machine;

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use machine::{Machine, Relations, flash_offset, id, nothing, on_disk, page, start, write};
use mezzanine_device::memory::MemoryDevice;
use mezzanine_device::{Capabilities, Device, DeviceError, DeviceErrorKind, Request};
use mezzanine_engine::SyncMode;
use mezzanine_engine::planted::{Bug, only_with};
use mezzanine_ffi::host::Host;
use mezzanine_ffi::marker::DataDirectory;
use mezzanine_ffi::pages::Found;

/// The block that flash does not give back.
const BLOCK: u32 = 5;
const BLOCKS: u32 = 256;

/// A flash device that does not give back some of what it has, for a while.
struct Failing {
    flash: MemoryDevice,
    /// Reads of what lies from here
    from: AtomicU64,
    /// to here fail,
    end: AtomicU64,
    /// so many of them.
    reads: AtomicU64,
}

impl Failing {
    fn fails(&self, request: &Request<'_>) -> bool {
        let [from, end] = [&self.from, &self.end].map(|at| at.load(Ordering::SeqCst));
        matches!(request, Request::Read { offset, buf } if *offset < end && offset + buf.len() as u64 > from)
            && self.reads.fetch_update(Ordering::SeqCst, Ordering::SeqCst, |left| left.checked_sub(1)).is_ok()
    }
}

impl Device for Failing {
    fn capabilities(&self) -> Capabilities {
        self.flash.capabilities()
    }

    fn run(&self, batch: &mut [Request<'_>]) -> Vec<Result<(), DeviceError>> {
        let one = |request: &mut Request<'_>| {
            if self.fails(request) {
                return Err(DeviceError::new(DeviceErrorKind::Io, "read", self.describe()));
            }
            self.flash.run(std::slice::from_mut(request)).remove(0)
        };
        batch.iter_mut().map(one).collect()
    }

    fn set_len(&self, len: u64) -> Result<(), DeviceError> {
        self.flash.set_len(len)
    }

    fn describe(&self) -> String {
        self.flash.describe()
    }
}

/// A server whose blocks have version 1 on disk, and version 2 in the tier alone.
fn server(mode: SyncMode) -> (Machine, Host, Arc<Failing>) {
    let machine = Machine::new(mode);
    let settings = machine.settings();
    let flash = MemoryDevice::new(settings.flash_bytes);
    let [from, end, reads] = Default::default();
    let flash = Arc::new(Failing { flash, from, end, reads });
    let marker = Box::new(DataDirectory(settings.data_directory.clone()));
    let relations = Box::new(Relations(Arc::clone(&machine.disk)));
    let mut host = Host::on_device(settings, flash.clone(), marker, relations).unwrap();
    machine::give_memory(&mut host);
    host.start(&start(10)).unwrap();
    for version in 1..3 {
        host.drain_all().unwrap();
        for block in 0..BLOCKS {
            write(&host, block, version);
        }
    }
    host.sync().unwrap();
    (machine, host, flash)
}

/// So many reads of [`BLOCK`] fail.
fn fail(host: &Host, flash: &Failing, reads: u64) {
    let offset = flash_offset(host, BLOCK);
    flash.from.store(offset, Ordering::SeqCst);
    flash.end.store(offset + machine::PAGE as u64, Ordering::SeqCst);
    flash.reads.store(reads, Ordering::SeqCst);
}

/// Nothing can be read from now on.
fn fall_silent(flash: &Failing) {
    flash.from.store(0, Ordering::SeqCst);
    flash.end.store(u64::MAX, Ordering::SeqCst);
    flash.reads.store(u64::MAX, Ordering::SeqCst);
}

fn answer(flash: &Failing) {
    flash.reads.store(0, Ordering::SeqCst);
}

#[test]
fn a_page_that_is_there_again_is_saved_by_a_write_past_the_tier() {
    only_with(&[Bug::ReadAgainUnused], || {
        // After that many in a row it counts as unreadable.
        (1..7).all(|reads| {
            let (machine, host, flash) = server(SyncMode::Durable);
            fail(&host, &flash, reads);
            let overwritten = host.overwrite(&id(BLOCK));
            let failed_on = flash.reads.load(Ordering::SeqCst) > 0;
            answer(&flash);
            failed_on || overwritten.is_ok() && on_disk(&machine, BLOCK) == page(2)
        })
    });
}

#[test]
fn a_page_that_does_not_come_back_is_given_up_by_a_write_past_the_tier() {
    let (machine, host, flash) = server(SyncMode::Durable);
    fail(&host, &flash, u64::MAX);
    host.overwrite(&id(BLOCK)).unwrap();
    assert_eq!(on_disk(&machine, BLOCK), nothing());
}

#[test]
fn a_drain_whose_pages_are_there_again_is_repeated() {
    only_with(&[Bug::ReadAgainUnused], || {
        (1..5).all(|reads| {
            let (machine, host, flash) = server(SyncMode::Durable);
            fail(&host, &flash, reads);
            host.drain_all().is_ok() && (0..BLOCKS).all(|block| on_disk(&machine, block) == page(2))
        })
    });
}

/// Nothing can be read so many times.
fn fall_silent_for(flash: &Failing, reads: u64) {
    fall_silent(flash);
    flash.reads.store(reads, Ordering::SeqCst);
}

/// However long it lasts: also if it ends between the two reads of a page, or behind the second. A page whose
/// last read failed beside a device that answered was lost then, whatever had been silent before.
#[test]
fn a_silence_of_any_length_loses_no_page_to_a_reader() {
    only_with(&[Bug::LastProbeCounts], || {
        [SyncMode::Durable, SyncMode::Drained].into_iter().all(|mode| {
            (1..16).all(|reads| {
                let (_machine, host, flash) = server(mode);
                fall_silent_for(&flash, reads);
                let found = host.read(&id(BLOCK), &mut page(0));
                answer(&flash);
                found != Found::Lost && host.tier().failure().is_none()
            })
        })
    });
}

/// Nothing is called lost, and nothing overwritten; when the device answers again all is as before.
#[test]
fn a_silent_device_has_lost_nothing() {
    for mode in [SyncMode::Durable, SyncMode::Drained] {
        only_with(&[Bug::SilentPagesLost], || {
            let (machine, host, flash) = server(mode);
            fall_silent(&flash);
            if host.read(&id(BLOCK), &mut page(0)) != Found::Silent {
                return false;
            }
            answer(&flash);
            assert!(host.tier().failure().is_none());
            machine::read(&host, &machine, BLOCK) == Some(2)
        });
    }
}

/// The engine ends the use of a device that is silent when a frame of it is needed.
#[test]
fn a_write_past_a_silent_tier_overwrites_nothing() {
    let (machine, host, flash) = server(SyncMode::Durable);
    fall_silent(&flash);
    let refusal = host.overwrite(&id(BLOCK)).unwrap_err();
    assert!(!refusal.is_of_lost_pages(), "{refusal}");
    answer(&flash);
    assert_eq!(on_disk(&machine, BLOCK), page(1));
    assert_eq!(machine::read(&host, &machine, BLOCK), Some(2));
}

/// A page of which a silent device says nothing is not given up either, whoever asks for it.
#[test]
fn no_page_of_a_silent_tier_is_given_up() {
    only_with(&[Bug::GivenUpUnasked], || {
        let (machine, host, flash) = server(SyncMode::Durable);
        fall_silent(&flash);
        let refused = host.give_up_page(&id(BLOCK)).is_err();
        answer(&flash);
        refused && on_disk(&machine, BLOCK) == page(1) && machine::read(&host, &machine, BLOCK) == Some(2)
    });
}
