//! One read of a start brings another bit than lies on flash.
#![allow(clippy::unwrap_used, missing_docs)]

use std::sync::Arc;

use flipping::Flipping;
use machine::{Kept, Machine, PAGE, checkpoint, give_memory, id, offer, page, start, write};
use mezzanine_device::Device;
use mezzanine_device::memory::MemoryDevice;
use mezzanine_engine::format::{SLOT_BYTES, SUPERBLOCK_OFFSETS};
use mezzanine_engine::planted::{Bug, only_with};
use mezzanine_engine::{Admission, Design, SyncMode};
use mezzanine_ffi::host::Host;
use mezzanine_ffi::pages::{Found, Written};
use mezzanine_ffi::settings::Settings;
use mezzanine_ffi::startup::Adoption;

#[path = "../../volume/tests/common/flipping.rs"]
mod flipping;
mod machine;

const FLASH_BYTES: u64 = 2 << 20;
const BLOCKS: u32 = 40;

/// What outlives a server: its relations, its flash device, and its marker.
struct Lasting {
    machine: Machine,
    flash: Arc<MemoryDevice>,
    marker: Kept,
    design: Design,
    admission: Admission,
}

impl Lasting {
    fn new(mode: SyncMode, design: Design, admission: Admission) -> Self {
        let flash = Arc::new(MemoryDevice::new(FLASH_BYTES));
        Self { machine: Machine::new(mode), flash, marker: Kept::default(), design, admission }
    }

    fn open(&self, flash: Arc<dyn Device>) -> Host {
        let settings = Settings {
            flash_bytes: FLASH_BYTES,
            group_pages: 2,
            design: self.design,
            admission: self.admission,
            ..self.machine.settings()
        };
        let server = Box::new(machine::Relations(Arc::clone(&self.machine.disk)));
        let mut host = Host::on_device(settings, flash, Box::new(self.marker.clone()), server).unwrap();
        give_memory(&mut host);
        host
    }

    fn adopted(&self, flash: Arc<dyn Device>, redo: u64) -> Host {
        let host = self.open(flash);
        assert_eq!(host.start(&start(redo)).unwrap().adoption, Adoption::Adopted);
        host
    }

    fn put_on_disk(&self, block: u32, version: u8) {
        self.machine.disk.pages.lock().unwrap().insert(*id(block).as_bytes(), page(version));
    }
}

fn checkpoint_at(host: &Host, redo: u64) {
    checkpoint(host, redo);
    while host.work() {}
    host.sync().unwrap();
}

/// A server with a tier that is known by its slots, with pages that disk has as well. Where the slots lie on
/// flash, with their blocks.
fn with_slots() -> (Lasting, Vec<(u32, u64)>) {
    let server = Lasting::new(SyncMode::Through, Design::Tac, Admission::Clean);
    let host = server.open(server.flash.clone());
    host.start(&start(10)).unwrap();
    (0..BLOCKS).for_each(|block| server.put_on_disk(block, 1));
    for _ in 0..3 {
        for block in 0..BLOCKS {
            if host.read(&id(block), &mut vec![0; PAGE]) == Found::OnDisk {
                offer(&host, &id(block), &page(1), 1);
            }
            while host.work() {}
        }
    }
    checkpoint_at(&host, 11);
    drop(host);
    let slot_of = |block| {
        let is_there = |slot: &[u8]| slot.starts_with(id(block).as_bytes());
        let at = server.flash.inspect(|image| image.chunks(SLOT_BYTES).position(is_there));
        at.map(|at| (block, (at * SLOT_BYTES) as u64))
    };
    let slots: Vec<_> = (0..BLOCKS).filter_map(slot_of).collect();
    assert!(!slots.is_empty());
    (server, slots)
}

/// Whether a page that is written past the tier is there after the next start, for each page that has a slot,
/// though so many reads of the slot brought another bit in the start before.
fn are_newest(reads: u64) -> bool {
    let (_, slots) = with_slots();
    slots.iter().all(|&(block, at)| {
        let (server, _) = with_slots();
        let flipping = Flipping::at(&server.flash, at + 22, reads);
        let host = server.adopted(flipping.clone(), 11);
        assert!(flipping.struck() > 0);
        let written = write(&host, block, 2);
        server.put_on_disk(block, 2);
        if written == Written::Refused {
            assert!(host.forget(&id(block)).unwrap());
        }
        while host.work() {}
        checkpoint_at(&host, 12);
        drop(host);
        let host = server.adopted(server.flash.clone(), 12);
        machine::read(&host, &server.machine, block) == Some(2)
    })
}

#[test]
fn a_slot_that_one_read_brought_wrong_does_not_return_an_older_page_to_a_server() {
    assert!(are_newest(1));
}

#[test]
fn a_slot_that_stays_wrong_does_not_return_an_older_page_to_a_server_when_it_is_right_again() {
    only_with(&[Bug::WrongSlotKept], || are_newest(u64::MAX));
}

/// A power cut has torn one copy of the superblock, and the server was told to restore a backup.
#[test]
fn a_server_starts_beside_a_torn_superblock_though_one_read_of_the_other_brings_another_bit() {
    let server = Lasting::new(SyncMode::Durable, Design::FaceGsc, Admission::Both);
    let host = server.open(server.flash.clone());
    host.start(&start(10)).unwrap();
    (0..BLOCKS).for_each(|block| assert_eq!(write(&host, block, 1), Written::Taken));
    checkpoint_at(&host, 11);
    drop(host);
    let image = server.flash.image();
    only_with(&[Bug::OneReadBelieved], || {
        server.flash.load(&image);
        let [whole, torn] = SUPERBLOCK_OFFSETS;
        server.flash.write_at(&[0xEE; 512], torn).unwrap();
        let flipping = Flipping::at(&server.flash, whole + 100, 0);
        let host = server.open(flipping.clone());
        flipping.strike(1);
        let started = host.start(&start(11));
        assert_eq!(flipping.struck(), 1);
        started.is_ok() && (0..BLOCKS).all(|block| machine::read(&host, &server.machine, block) == Some(1))
    });
}
