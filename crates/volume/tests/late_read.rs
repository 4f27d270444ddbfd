//! A reader has what stood on disk in its hands, and meanwhile something else comes to stand there. What it
//! read counts only if nothing has changed.

#![allow(clippy::unwrap_used)]

mod common;

use std::sync::Arc;
use std::time::Duration;

use common::slow::{Held, Slow};
use common::{Backing, PAGE, config, flash_for, formatted, page};
use mezzanine_device::memory::{Fault, Injection, MemoryDevice, Operation};
use mezzanine_device::{Device, DeviceErrorKind};
use mezzanine_engine::planted::{Bug, set};
use mezzanine_volume::{
    Admission, AttachOptions, Design, ReplaceOptions, SyncMode, Volume, VolumeConfig, VolumeFile, VolumeState,
};

fn durable() -> VolumeConfig {
    config(Design::FaceGsc, Admission::Both, SyncMode::Durable, 0)
}

/// A volume with one guarded file on a slow disk.
struct Scene {
    volume: Volume,
    flash: Arc<MemoryDevice>,
    backing: Backing,
    disk: Arc<Slow>,
    file: VolumeFile,
}

impl Scene {
    fn new(contents: &[u8]) -> Self {
        let (flash, backing) = (formatted(&durable()), Backing::guarded("a"));
        backing.disk.write_at(contents, 0).unwrap();
        let disk = Slow::new(&backing.disk);
        let volume = Volume::open(flash.clone(), durable()).unwrap();
        let options = AttachOptions { guard: backing.guard.clone() };
        let file = volume.attach(&backing.path, disk.clone(), backing.sidecar.clone(), options).unwrap();
        Self { volume, flash, backing, disk, file }
    }

    fn is_guarded(&self) -> bool {
        let guard = self.backing.guard.clone().unwrap().bytes;
        self.backing.disk.inspect(|disk| disk.starts_with(&guard))
    }

    /// Reads the first `len` bytes in a thread whose request to the disk hangs as `held` says until
    /// `operation` has taken the guard away, which may wait for the reader.
    fn read_across(&self, len: usize, held: Held, operation: Away, bug: Option<Bug>) -> Vec<u8> {
        assert!(self.is_guarded());
        std::thread::scope(|scope| {
            self.disk.hold(held);
            let reader = scope.spawn(|| {
                set(bug);
                let mut found = vec![0xEE; len];
                let read = self.file.read_at(&mut found, 0);
                set(None);
                read.unwrap();
                found
            });
            self.disk.wait_until_one_hangs();
            let changed = scope.spawn(|| operation(self));
            while self.is_guarded() {
                assert!(!changed.is_finished(), "the guard is still there");
                std::thread::sleep(Duration::from_millis(1));
            }
            // It has more to do after that.
            std::thread::sleep(Duration::from_millis(20));
            self.disk.hold(Held::Nothing);
            changed.join().unwrap();
            reader.join().unwrap()
        })
    }
}

type Away = fn(&Scene);

fn give_up(scene: &Scene) {
    let fault = Fault::Error(DeviceErrorKind::Io);
    scene.flash.inject(Injection { operation: Operation::Write, after: 0, count: u64::MAX, fault });
    for block in 40..60 {
        scene.file.write_at(&page(block, 1), block * PAGE as u64).unwrap();
    }
    assert!(matches!(scene.volume.state(), VolumeState::Bypass { .. }));
}

fn replace(scene: &Scene) {
    scene.volume.replace_flash(flash_for(&durable()), &ReplaceOptions::new(durable().tier)).unwrap();
}

/// Everything that takes a guard away while files stay attached.
const WAYS: [(&str, Away); 4] = [
    ("admission stops", |scene| scene.volume.stop_admission().unwrap()),
    ("through", |scene| scene.volume.set_sync_mode(SyncMode::Through).unwrap()),
    ("another device", replace),
    ("the tier is given up", give_up),
];

/// Reads the first `pages` pages across the end of the guard: what the reader got, and what is read and
/// written after that.
fn is_right(pages: usize, away: Away, bug: Option<Bug>) -> bool {
    let expected: Vec<u8> = (0..8).flat_map(|block| page(block, 1)).collect();
    let scene = Scene::new(&expected);
    scene.file.write_at(&page(20, 1), 20 * PAGE as u64).unwrap();
    let found = scene.read_across(pages * PAGE, Held::ReadsDone, away, bug);
    let mut again = vec![0; 8 * PAGE];
    scene.file.read_at(&mut again, 0).unwrap();
    // The page leaves the tier, if it came to be there.
    for block in 20..400 {
        scene.file.write_at(&page(block, 2), block * PAGE as u64).unwrap();
    }
    scene.volume.close_drained().unwrap();
    let on_disk = scene.backing.disk.inspect(|disk| disk[..expected.len()] == expected);
    found == expected[..pages * PAGE] && again == expected && on_disk
}

/// A reader had the guard in its buffer when the header took its place again. Whether a guard stood there was
/// asked after that, so it was given out as the file's first bytes, offered to the tier as a clean page, and
/// answered all later reads.
#[test]
fn a_guard_that_is_taken_away_while_it_is_read_is_not_given_out() {
    for (name, away) in WAYS {
        for pages in [1, 8] {
            assert!(is_right(pages, away, None), "{name}, {pages} pages at once");
            assert!(!is_right(pages, away, Some(Bug::GuardJudgedLate)), "{name}, {pages} pages: unnoticed");
        }
    }
}

/// A file that is shorter than its guard is shortened to its length when the guard goes. A reader that had
/// been told the guard's length failed to read that far.
#[test]
fn a_short_file_that_loses_its_guard_can_be_read_meanwhile() {
    for (name, away) in WAYS {
        for held in [Held::Reads, Held::ReadsDone] {
            let scene = Scene::new(b"short");
            scene.file.set_len(6).unwrap();
            assert_eq!(scene.read_across(6, held, away, None), b"short\0", "{name}");
        }
    }
}
