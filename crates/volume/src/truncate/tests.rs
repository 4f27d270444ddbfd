//! A disk that fails under a change, while somebody quiesces the volume and waits for that change.

#![allow(clippy::unwrap_used)]

use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, Weak};
use std::thread::{JoinHandle, spawn, yield_now};

use mezzanine_device::memory::MemoryDevice;
use mezzanine_device::{Capabilities, Device, DeviceError, DeviceErrorKind, Request};
use mezzanine_engine::TierConfig;

use super::*;
use crate::config::{AttachOptions, VolumeConfig};
use crate::file::VolumeFile;
use crate::health::Mode;
use crate::sidecar::MemorySidecar;
use crate::volume::{Volume, VolumeState};

const PAGE: u64 = 4096;

/// Who quiesces.
#[derive(Clone, Copy, Debug)]
enum Quiescing {
    Drain,
    GivingUp,
}

/// A disk that fails one change once somebody quiesces the volume.
struct Overtaken {
    disk: Arc<MemoryDevice>,
    volume: Mutex<Weak<Local>>,
    fails: AtomicBool,
    how: Quiescing,
    quiescer: Mutex<Option<JoinHandle<()>>>,
}

impl Overtaken {
    fn change(&self) -> Result<(), DeviceError> {
        if !self.fails.swap(false, Ordering::SeqCst) {
            return Ok(());
        }
        let volume = self.volume.lock().unwrap().upgrade().unwrap();
        let (quiesced, how) = (Arc::clone(&volume), self.how);
        *self.quiescer.lock().unwrap() = Some(spawn(move || match how {
            Quiescing::Drain => drop(quiesced.drain(|_, _| true)),
            Quiescing::GivingUp => quiesced.give_up_tier(&quiesced.host().unwrap(), "a test"),
        }));
        while volume.health.mode() != Mode::Quiescing {
            yield_now();
        }
        Err(DeviceError::new(DeviceErrorKind::Io, "change", "a disk"))
    }
}

impl Device for Overtaken {
    fn capabilities(&self) -> Capabilities {
        self.disk.capabilities()
    }
    fn run(&self, batch: &mut [Request<'_>]) -> Vec<Result<(), DeviceError>> {
        self.disk.run(batch)
    }
    fn run_one(&self, request: Request<'_>) -> Result<(), DeviceError> {
        if matches!(request, Request::Write { .. }) {
            self.change()?;
        }
        self.disk.run_one(request)
    }
    fn set_len(&self, len: u64) -> Result<(), DeviceError> {
        self.change()?;
        self.disk.set_len(len)
    }
    fn describe(&self) -> String {
        "a disk".to_owned()
    }
}

fn page(byte: u8) -> Vec<u8> {
    vec![byte; PAGE as usize]
}

/// Eight pages on a disk, a change of the file that fails while somebody quiesces, and whoever goes on with
/// it, before and after another opening.
fn changed(
    how: Quiescing,
    change: impl Fn(&VolumeFile) -> Result<(), VolumeError>,
    go_on: impl Fn(&Volume, &VolumeFile) -> bool,
) -> bool {
    let config = VolumeConfig { workers: 0, ..VolumeConfig::new(TierConfig::new(PAGE as u32, 4096)) };
    let flash = Arc::new(MemoryDevice::new(config.tier.geometry().unwrap().flash_bytes()));
    Volume::format(&*flash, &config, false).unwrap();
    let disk = Arc::new(Overtaken {
        disk: Arc::new(MemoryDevice::file(0)),
        volume: Mutex::default(),
        fails: AtomicBool::new(false),
        how,
        quiescer: Mutex::default(),
    });
    let sidecar = Arc::new(MemorySidecar::new());
    let open = || {
        let volume = Volume::open(Arc::clone(&flash) as Arc<dyn Device>, config.clone()).unwrap();
        *disk.volume.lock().unwrap() = Arc::downgrade(&volume.local);
        let (backing, sidecar) = (Arc::clone(&disk) as Arc<dyn Device>, Arc::clone(&sidecar) as _);
        let file = volume.attach(Path::new("a"), backing, sidecar, AttachOptions::default()).unwrap();
        (volume, file)
    };
    let (volume, file) = open();
    for block in 0..8 {
        file.write_at(&page(7), block * PAGE).unwrap();
    }
    file.sync().unwrap();
    volume.drain().unwrap();
    disk.fails.store(true, Ordering::SeqCst);
    change(&file).unwrap_err();
    disk.quiescer.lock().unwrap().take().unwrap().join().unwrap();
    let refused = matches!(volume.state(), VolumeState::ReadOnly { .. });
    let good = refused || go_on(&volume, &file);
    // Nor is that closed in order.
    let _ = volume.close();
    drop((file, volume));
    let (volume, file) = open();
    good && go_on(&volume, &file)
}

/// Was found by reading: the change was tried again and had nothing to do, and what was cut off came back.
#[test]
fn a_cut_that_fails_beside_a_drain_cuts_when_it_is_tried_again() {
    let truncate = |file: &VolumeFile| file.set_len(4 * PAGE);
    let longer = |_: &Volume, file: &VolumeFile| {
        truncate(file).unwrap();
        file.set_len(8 * PAGE).unwrap();
        let mut found = page(9);
        file.read_at(&mut found, 6 * PAGE).unwrap();
        found == page(0)
    };
    planted::only_with(&[Bug::SettledOverRefusal], || changed(Quiescing::Drain, truncate, longer));
    assert!(changed(Quiescing::GivingUp, truncate, longer));
}

/// Was found by reading: the sidecar went on saying what is being discarded, and pages that were written and
/// synced afterwards turned to zeros at the next opening.
#[test]
fn a_discard_that_fails_beside_a_drain_zeroes_nothing_later() {
    let written = AtomicBool::new(false);
    let discard = |file: &VolumeFile| file.discard(2 * PAGE, 2 * PAGE);
    let kept = |volume: &Volume, file: &VolumeFile| {
        if !written.swap(true, Ordering::SeqCst) {
            file.write_at(&page(8), 2 * PAGE).unwrap();
            // Until it has left the tier for disk.
            for block in 100..12_000 {
                file.write_at(&page(1), block * PAGE).unwrap();
            }
            file.sync().unwrap();
            while volume.step() {}
        }
        let mut found = page(9);
        file.read_at(&mut found, 2 * PAGE).unwrap();
        found == page(8)
    };
    let good = || {
        written.store(false, Ordering::SeqCst);
        changed(Quiescing::Drain, discard, kept)
    };
    planted::only_with(&[Bug::SettledOverRefusal], good);
}
