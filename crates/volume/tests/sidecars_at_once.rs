//! Two threads have a new sidecar for one file: the second one's must not be undone by the first one's, which
//! is older.

#![allow(clippy::unwrap_used)]

mod common;

use std::io;
use std::sync::{Arc, Condvar, Mutex};
use std::time::{Duration, Instant};

use common::slow::{Held, Slow};
use common::{Backing, PAGE, flash_for, formatted, open, page};
use mezzanine_device::Device;
use mezzanine_engine::planted::{Bug, set};
use mezzanine_volume::{AttachOptions, MemorySidecar, SidecarStore, TierConfig, Volume, VolumeConfig};

/// A tier that stages out far ahead of need.
fn durable() -> VolumeConfig {
    let config = common::durable();
    VolumeConfig { tier: TierConfig { ahead_frames: 48, ..config.tier }, ..config }
}

/// A sidecar one of whose replacements hangs.
#[derive(Default)]
struct SlowSidecar {
    inner: MemorySidecar,
    /// The next replacement is to hang; one hangs.
    held: Mutex<(bool, bool)>,
    changed: Condvar,
}

impl SlowSidecar {
    fn hold_the_next(&self) {
        self.held.lock().unwrap().0 = true;
    }

    fn one_hangs(&self) -> bool {
        self.held.lock().unwrap().1
    }

    fn let_go(&self) {
        self.held.lock().unwrap().1 = false;
        self.changed.notify_all();
    }
}

impl SidecarStore for SlowSidecar {
    fn describe(&self) -> String {
        self.inner.describe()
    }
    fn read(&self) -> io::Result<Option<Vec<u8>>> {
        self.inner.read()
    }
    fn replace(&self, bytes: &[u8]) -> io::Result<()> {
        let mut held = self.held.lock().unwrap();
        if std::mem::take(&mut held.0) {
            held.1 = true;
            while held.1 {
                held = self.changed.wait(held).unwrap();
            }
        }
        drop(held);
        self.inner.replace(bytes)
    }
    fn remove(&self) -> io::Result<()> {
        self.inner.remove()
    }
    fn fingerprint(&self) -> io::Result<Option<Vec<u8>>> {
        Ok(Some(vec![1]))
    }
}

/// Waits for something, or for a second.
fn wait(done: impl Fn() -> bool) -> bool {
    let end = Instant::now() + Duration::from_secs(1);
    while !done() && Instant::now() < end {
        std::thread::sleep(Duration::from_millis(1));
    }
    done()
}

/// The head of a file is on its way to the sidecar when a discard notes there what it is about to do. Then
/// the power fails while the disk is being zeroed, and tears a page. Is that page old or zero?
fn the_torn_page_is_whole(bug: Option<Bug>) -> bool {
    let (flash, backing) = (formatted(&durable()), Backing::guarded("a"));
    let (disk, sidecar) = (Slow::new(&backing.disk), Arc::new(SlowSidecar::default()));
    let options = AttachOptions { guard: backing.guard.clone() };
    let attach =
        |volume: &Volume| volume.attach(&backing.path, disk.clone(), sidecar.clone(), options.clone());
    for block in 0..120 {
        backing.disk.write_at(&page(block, 1), block * PAGE as u64).unwrap();
    }
    let volume = open(&flash, &durable());
    let file = attach(&volume).unwrap();
    for block in 0..48 {
        file.write_at(&page(block, 1), block * PAGE as u64).unwrap();
    }
    file.sync().unwrap();
    volume.set_disk_utilisation(0);
    sidecar.hold_the_next();
    let copy = (flash_for(&durable()), Arc::new(MemorySidecar::default()));
    std::thread::scope(|scope| {
        // The first page goes to disk, and then its head to the sidecar.
        scope.spawn(|| while volume.step() {});
        assert!(wait(|| sidecar.one_hangs()), "no head went to the sidecar");
        let before = sidecar.read().unwrap();
        let discard = scope.spawn(|| {
            set(bug);
            file.discard(60 * PAGE as u64, 50 * PAGE as u64).unwrap();
            set(None);
        });
        // The discard may say so now, or only after the head is there.
        wait(|| sidecar.read().unwrap() != before);
        disk.hold(Held::Writes);
        sidecar.let_go();
        disk.wait_until_one_hangs();
        // The power fails.
        copy.0.load(&flash.image());
        copy.1.replace(&sidecar.read().unwrap().unwrap()).unwrap();
        disk.hold(Held::Nothing);
        discard.join().unwrap();
    });
    drop((file, volume));
    backing.disk.write_at(&page(100, 1)[..PAGE / 2], 100 * PAGE as u64).unwrap();
    backing.disk.write_at(&vec![0; PAGE / 2], 100 * PAGE as u64 + PAGE as u64 / 2).unwrap();
    let volume = open(&copy.0, &durable());
    let file = volume.attach(&backing.path, disk.clone(), copy.1.clone(), options.clone()).unwrap();
    let mut found = vec![0; PAGE];
    file.read_at(&mut found, 100 * PAGE as u64).unwrap();
    found == page(100, 1) || found.iter().all(|&byte| byte == 0)
}

/// A worker that brought the head of a guarded file to its sidecar had made the new one when a discard put
/// into the sidecar what it was about to zero; then the worker's came to stand over it. After a crash nobody
/// knew of the discard, and a page that the disk had torn was read as it was. The other way about, a discard
/// that was over could come back and zero what was written since.
#[test]
fn a_sidecar_is_not_replaced_by_an_older_one() {
    assert!(the_torn_page_is_whole(None));
    assert!(!the_torn_page_is_whole(Some(Bug::SidecarsAtOnce)), "the planted fault went unnoticed");
}
