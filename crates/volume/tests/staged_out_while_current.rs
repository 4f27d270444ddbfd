//! Stage-out writes pages of a file whose sidecar says `current`: a drain had brought them to disk, and the
//! tier was closed in order before flash knew it.

#![allow(clippy::unwrap_used)]

mod common;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use common::{Backing, PAGE, durable, formatted, open, page};
use mezzanine_device::memory::MemoryDevice;
use mezzanine_device::{Capabilities, Device, DeviceError, Request};
use mezzanine_engine::planted::{Bug, only_with, set};
use mezzanine_volume::{AttachOptions, SidecarStore, VolumeFile};

/// A tier that was closed for another file's sake. Of the first page of this one, which is current, it will
/// find that disk lacks it.
fn closed_for_another(file: &Backing, other: &Backing) -> Arc<MemoryDevice> {
    let flash = formatted(&durable());
    let volume = open(&flash, &durable());
    let (used, others) = (file.attach(&volume).unwrap(), other.attach(&volume).unwrap());
    used.write_at(&page(0, 1), 0).unwrap();
    used.sync().unwrap();
    volume.stop_admission().unwrap();
    volume.resume_admission().unwrap();
    others.write_at(&page(0, 1), 0).unwrap();
    volume.close().unwrap();
    flash
}

fn has(file: &VolumeFile, block: u64, version: u64) -> bool {
    let mut found = vec![0; PAGE];
    file.read_at(&mut found, block * PAGE as u64).unwrap();
    found == page(block, version)
}

/// The process has died. Is the file taken again, as it was?
fn is_taken(flash: &Arc<MemoryDevice>, file: &Backing, first: u64) -> bool {
    let volume = open(flash, &durable());
    file.attach(&volume).is_ok_and(|file| has(&file, 0, first) && has(&file, 1, 2))
}

/// The page is staged out again and then written past the tier, before the file is changed through it.
fn a_file_that_was_written_past_the_tier_is_taken(file: &Backing) -> bool {
    let other = Backing::new("b");
    let flash = closed_for_another(file, &other);
    let volume = open(&flash, &durable());
    let (used, others) = (file.attach(&volume).unwrap(), other.attach(&volume).unwrap());
    volume.stop_admission().unwrap();
    used.write_at(&page(0, 2), 0).unwrap();
    volume.resume_admission().unwrap();
    used.write_at(&page(1, 2), PAGE as u64).unwrap();
    used.sync().unwrap();
    drop((used, others, volume));
    is_taken(&flash, file, 2)
}

/// Found by the crash worlds (seed 271828321871): the sidecar named the page as stage-out had written it, and
/// the file was refused as one that is older than its sidecar.
#[test]
fn a_page_that_was_written_past_the_tier_is_not_named_as_it_was_before() {
    for new in [Backing::new, Backing::guarded] {
        only_with(&[Bug::NamedWhileCurrent], || a_file_that_was_written_past_the_tier_is_taken(&new("a")));
    }
}

/// The same with the guard, which is put over the page: nothing else is written to the disk directly.
#[test]
fn a_page_that_the_guard_is_put_over_is_not_named_as_it_was_before() {
    only_with(&[Bug::NamedWhileCurrent], || {
        let (file, other) = (Backing::guarded("a"), Backing::new("b"));
        let flash = closed_for_another(&file, &other);
        let volume = open(&flash, &durable());
        let (used, others) = (file.attach(&volume).unwrap(), other.attach(&volume).unwrap());
        volume.drain().unwrap();
        used.write_at(&page(1, 2), PAGE as u64).unwrap();
        used.sync().unwrap();
        // Until the tier has the first page no longer: it would answer for it.
        for block in 0..200 {
            others.write_at(&page(block, 2), block * PAGE as u64).unwrap();
        }
        others.sync().unwrap();
        drop((used, others, volume));
        is_taken(&flash, &file, 1)
    });
}

/// A disk whose batches, which stage-out writes, hang until they are let go. What goes there directly does
/// not.
struct Held {
    disk: Arc<MemoryDevice>,
    holds: AtomicBool,
    hangs: AtomicBool,
}

impl Device for Held {
    fn capabilities(&self) -> Capabilities {
        self.disk.capabilities()
    }
    fn run(&self, batch: &mut [Request<'_>]) -> Vec<Result<(), DeviceError>> {
        while self.holds.load(Ordering::SeqCst) {
            self.hangs.store(true, Ordering::SeqCst);
            thread::sleep(Duration::from_millis(1));
        }
        self.disk.run(batch)
    }
    fn run_one(&self, request: Request<'_>) -> Result<(), DeviceError> {
        self.disk.run_one(request)
    }
    fn set_len(&self, len: u64) -> Result<(), DeviceError> {
        self.disk.set_len(len)
    }
    fn describe(&self) -> String {
        self.disk.describe()
    }
}

/// The file is changed while its first page, which has no guard yet, is on its way to disk. Is it taken
/// again?
fn a_file_is_taken_whose_guard_came_beside_stage_out(bug: Option<Bug>) -> bool {
    let (file, other) = (Backing::guarded("a"), Backing::new("b"));
    let flash = closed_for_another(&file, &other);
    let volume = open(&flash, &durable());
    let (holds, hangs) = (AtomicBool::new(true), AtomicBool::new(false));
    let disk = Arc::new(Held { disk: file.disk.clone(), holds, hangs });
    let options = AttachOptions { guard: file.guard.clone() };
    let used = volume.attach(&file.path, disk.clone(), file.sidecar.clone(), options).unwrap();
    let others = other.attach(&volume).unwrap();
    let says_dirty = || {
        let sidecar = file.sidecar.read().unwrap().unwrap();
        String::from_utf8(sidecar).unwrap().lines().any(|line| line == "state dirty")
    };
    thread::scope(|scope| {
        let mut block = 1;
        let staging_out = loop {
            for _ in 0..4 {
                others.write_at(&page(block, 1), block * PAGE as u64).unwrap();
                block += 1;
            }
            let working = scope.spawn(|| while volume.step() {});
            while !working.is_finished() && !disk.hangs.load(Ordering::SeqCst) {
                thread::sleep(Duration::from_millis(1));
            }
            if disk.hangs.load(Ordering::SeqCst) {
                break working;
            }
            working.join().unwrap();
        };
        let changing = scope.spawn(|| {
            set(bug);
            used.write_at(&page(1, 2), PAGE as u64).unwrap();
            set(None);
        });
        // With the rule in place it waits for stage-out, and there is nothing to be seen.
        if bug.is_none() {
            thread::sleep(Duration::from_millis(100));
        }
        while bug.is_some() && !says_dirty() {
            thread::sleep(Duration::from_millis(1));
        }
        disk.holds.store(false, Ordering::SeqCst);
        staging_out.join().unwrap();
        changing.join().unwrap();
    });
    used.sync().unwrap();
    drop((used, others, volume));
    is_taken(&flash, &file, 1)
}

/// The page took the guard away, and a file that begins without its guard was replaced by somebody.
#[test]
fn a_guard_is_not_put_up_while_its_page_is_staged_out() {
    assert!(a_file_is_taken_whose_guard_came_beside_stage_out(None));
    assert!(
        !a_file_is_taken_whose_guard_came_beside_stage_out(Some(Bug::GuardBesideStageOut)),
        "the planted fault went unnoticed"
    );
}
