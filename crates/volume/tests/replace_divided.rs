//! A replacement of the flash device that comes to an end half-way, with two files of which one is current on
//! disk by then and the other is not; and then somebody tries devices and files in any order.
//!
//! Invariants checked: whatever fails, and wherever the power is cut, one of the devices opens both files
//! with all that was synced, whichever was tried before. What is refused says what, why, and what to do next.

#![allow(clippy::unwrap_used)]

mod common;

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard};

use common::{PAGE, durable, page, through};
use mezzanine_device::memory::{Fault, Injection, MemoryDevice, Operation, Power, Spent};
use mezzanine_device::{Device, DeviceErrorKind};
use mezzanine_engine::format::read_superblock;
use mezzanine_engine::planted::{Bug, only_with};
use mezzanine_engine::{ReadError, ReadFlash};
use mezzanine_ground::random::Random;
use mezzanine_volume::{
    AttachOptions, HeaderGuard, PathSidecar, ReplaceOptions, SidecarStore, SyncMode, Volume, VolumeConfig,
    VolumeError, VolumeErrorKind, VolumeFile, VolumeState,
};

const PAGES: u64 = 6;
const NAMES: [&str; 2] = ["/world/a", "/world/b"];
const DEVICES: [&str; 2] = ["the old device", "the new device"];

/// The sidecars of all files, on the same power as the devices.
struct Shelf {
    power: Power,
    state: Mutex<State>,
}

#[derive(Clone)]
struct State {
    sidecars: BTreeMap<PathBuf, Vec<u8>>,
    /// Replacements until one fails, and all that follow it with `for_good`; whether a failed one is in
    /// place.
    fails: Option<(u64, bool)>,
    for_good: bool,
    struck: bool,
    random: Random,
}

impl Shelf {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap()
    }
}

struct Sidecar {
    shelf: Arc<Shelf>,
    path: PathBuf,
}

impl Sidecar {
    fn put(&self, bytes: Option<Vec<u8>>) -> io::Result<()> {
        let mut state = self.shelf.state();
        let (takes_effect, outcome) = match self.shelf.power.spend() {
            Spent::Off => (false, Err(io::Error::other("no power"))),
            Spent::Cut => (state.random.chance(1, 2), Err(io::Error::other("power"))),
            Spent::On => match state.fails {
                Some((0, in_place)) => {
                    state.struck = true;
                    if !state.for_good {
                        state.fails = None;
                    }
                    (in_place, Err(io::Error::other("the sidecar failed")))
                }
                fails => {
                    state.fails = fails.map(|(left, in_place)| (left - 1, in_place));
                    (true, Ok(()))
                }
            },
        };
        if takes_effect {
            match bytes {
                Some(bytes) => _ = state.sidecars.insert(self.path.clone(), bytes),
                None => _ = state.sidecars.remove(&self.path),
            }
        }
        outcome
    }
}

impl SidecarStore for Sidecar {
    fn describe(&self) -> String {
        format!("{}.mezzanine", self.path.display())
    }
    fn read(&self) -> io::Result<Option<Vec<u8>>> {
        Ok(self.shelf.state().sidecars.get(&self.path).cloned())
    }
    fn replace(&self, bytes: &[u8]) -> io::Result<()> {
        self.put(Some(bytes.to_vec()))
    }
    fn remove(&self) -> io::Result<()> {
        self.put(None)
    }
    fn sibling(&self, path: &Path) -> Option<Box<dyn SidecarStore>> {
        Some(Box::new(Self { shelf: Arc::clone(&self.shelf), path: path.to_owned() }))
    }
}

struct Flash<'f>(&'f MemoryDevice);

impl ReadFlash for Flash<'_> {
    fn read(&mut self, offset: u64, bytes: &mut [u8]) -> Result<(), ReadError> {
        self.0.read_at(bytes, offset).map_err(|error| ReadError(error.to_string()))
    }
}

struct World {
    power: Power,
    flashes: [Arc<MemoryDevice>; 2],
    disks: [Arc<MemoryDevice>; 2],
    shelf: Arc<Shelf>,
}

impl World {
    fn new() -> Self {
        let power = Power::new();
        let bytes = durable().tier.geometry().unwrap().flash_bytes();
        let state = State {
            sidecars: BTreeMap::new(),
            fails: None,
            for_good: false,
            struck: false,
            random: Random::new(5),
        };
        Self {
            flashes: DEVICES.map(|name| Arc::new(MemoryDevice::on(&power, name, bytes, false))),
            disks: NAMES.map(|name| Arc::new(MemoryDevice::on(&power, name, 0, true))),
            shelf: Arc::new(Shelf { power: power.clone(), state: Mutex::new(state) }),
            power,
        }
    }

    fn copy(&self) -> Self {
        let copy = Self::new();
        *copy.shelf.state() = State { fails: None, ..self.shelf.state().clone() };
        let devices = |world: &Self| [world.flashes.clone(), world.disks.clone()].concat();
        devices(self).iter().zip(devices(&copy)).for_each(|(from, to)| {
            to.copy_from(from);
            to.heal();
        });
        copy
    }

    fn attach(&self, volume: &Volume, file: usize) -> Result<VolumeFile, VolumeError> {
        let path = PathBuf::from(NAMES[file]);
        let sidecar = Sidecar { shelf: Arc::clone(&self.shelf), path: path.clone() };
        let options = AttachOptions { guard: Some(HeaderGuard { bytes: b"guarded".to_vec() }) };
        volume.attach(&path, self.disks[file].clone(), Arc::new(sidecar), options)
    }

    /// Opens a device as its tier is, and the files with it, in one order or the other.
    fn open(&self, device: usize, b_first: bool) -> Result<(Volume, Vec<VolumeFile>), VolumeError> {
        let flash = &self.flashes[device];
        let mode =
            read_superblock(&mut Flash(flash)).map_or(SyncMode::Durable, |found| found.config.sync_mode);
        let volume =
            Volume::open(flash.clone(), if mode == SyncMode::Through { through() } else { durable() })?;
        let attach = |file| self.attach(&volume, file);
        let files = match b_first {
            true => {
                let b = attach(1)?;
                vec![attach(0)?, b]
            }
            false => vec![attach(0)?, attach(1)?],
        };
        Ok((volume, files))
    }
}

/// What ends the replacement.
#[derive(Clone, Copy, Debug)]
enum Harm {
    Cut {
        seed: u64,
    },
    Sidecar {
        in_place: bool,
        for_good: bool,
    },
    /// Of the old device, the new one, or the disk of either file.
    Device {
        which: usize,
        operation: Operation,
        for_good: bool,
    },
}

/// How the world was before.
#[derive(Clone, Copy, Debug)]
struct Course {
    /// Of the old device and of the new one.
    modes: [SyncMode; 2],
    /// Nothing of file `a` was changed since it was attached, so that it is current.
    a_is_current: bool,
    /// The old device has failed before, and was given up.
    given_up: bool,
    /// The volume is closed after the failure, and not left as it is.
    closed: bool,
}

fn config(mode: SyncMode) -> VolumeConfig {
    if mode == SyncMode::Through { through() } else { durable() }
}

fn write_round(files: &[VolumeFile], version: u64) -> Result<(), VolumeError> {
    for file in files {
        for block in 0..PAGES {
            file.write_at(&page(block, version), block * PAGE as u64)?;
        }
        file.sync()?;
    }
    Ok(())
}

fn has_round(files: &[VolumeFile], versions: [u64; 2]) -> bool {
    files.iter().zip(versions).all(|(file, version)| {
        (0..PAGES).all(|block| {
            let mut found = vec![0; PAGE];
            file.read_at(&mut found, block * PAGE as u64).is_ok() && found == page(block, version)
        })
    })
}

impl Course {
    /// The replacement, and what strikes it at its `after`th operation of the kind. Returns the world, the
    /// versions that its files have, and whether there was such an operation.
    fn live(self, harm: Harm, after: u64) -> (World, [u64; 2], bool) {
        let world = World::new();
        Volume::format(&*world.flashes[0], &config(self.modes[0]), false).unwrap();
        let (volume, files) = world.open(0, false).unwrap();
        write_round(&files, 1).unwrap();
        volume.close_drained().unwrap();
        drop((volume, files));
        let (volume, files) = world.open(0, false).unwrap();
        let first = usize::from(self.a_is_current);
        write_round(&files[first..], 2).unwrap();
        if self.given_up {
            let fault = Fault::Error(DeviceErrorKind::Io);
            let injection = Injection { operation: Operation::Write, after: 0, count: u64::MAX, fault };
            world.flashes[0].inject(injection);
            write_round(&files[first..], 2).unwrap();
            assert!(
                matches!(volume.state(), VolumeState::Bypass { .. }) || self.modes[0] == SyncMode::Through
            );
        }
        let devices = [world.flashes.clone(), world.disks.clone()].concat();
        let struck_before: Vec<u64> = devices.iter().map(|device| device.faults_struck()).collect();
        match harm {
            Harm::Cut { .. } => world.power.crash_after(after + 1),
            Harm::Sidecar { in_place, for_good } => {
                let mut state = world.shelf.state();
                (state.fails, state.for_good) = (Some((after, in_place)), for_good);
            }
            Harm::Device { which, operation, for_good } => {
                let count = if for_good { u64::MAX } else { 1 };
                let fault = Fault::Error(DeviceErrorKind::Io);
                devices[which].inject(Injection { operation, after, count, fault });
            }
        }
        let options =
            ReplaceOptions { identity_seed: Some(7), ..ReplaceOptions::new(config(self.modes[1]).tier) };
        let replaced = volume.replace_flash(world.flashes[1].clone(), &options);
        let struck = match harm {
            Harm::Cut { .. } => !world.power.is_on(),
            Harm::Sidecar { .. } => world.shelf.state().struck,
            Harm::Device { which, .. } => devices[which].faults_struck() > struck_before[which],
        };
        assert!(struck || replaced.is_ok(), "{self:?}: {replaced:?}");
        if self.closed {
            world.shelf.state().fails = None;
            let _ = volume.close();
        }
        drop((volume, files));
        if let (Harm::Cut { seed }, false) = (harm, world.power.is_on()) {
            world.power.restore();
            for (at, device) in devices.iter().enumerate() {
                device.power_cut(after * 8 + seed * 5 + at as u64);
            }
        }
        (world, [if self.a_is_current { 1 } else { 2 }, 2], struck)
    }
}

/// The error names one of the things that there are, says why, and what to do.
fn is_helpful(error: &VolumeError) -> bool {
    let message = error.to_string();
    let things = NAMES.iter().chain(&DEVICES);
    let named = things.filter(|thing| message.contains(**thing)).count() > 0;
    named && message.contains(": ") && message.contains("; ") && !message.contains("format it anew; ")
}

/// Devices and files are tried in this order. Whether one device opens both with all that they had.
fn one_device_opens_both(
    world: &World,
    first: usize,
    b_first: bool,
    versions: [u64; 2],
    context: &str,
) -> bool {
    let world = world.copy();
    let mut refusals = Vec::new();
    for device in [first, 1 - first] {
        let (volume, files) = match world.open(device, b_first) {
            Ok(opened) => opened,
            Err(error) => {
                let known =
                    [VolumeErrorKind::ForeignTier, VolumeErrorKind::Unrecognised, VolumeErrorKind::Damaged];
                assert!(is_helpful(&error) && known.contains(&error.kind()), "{context}: {error:?}");
                refusals.push(error.to_string());
                continue;
            }
        };
        volume.check();
        assert!(has_round(&files, versions), "{context}: {} has older pages", DEVICES[device]);
        if let Err(error) = write_round(&files, 7) {
            assert!(is_helpful(&error), "{context}: {error:?}");
            refusals.push(error.to_string());
            continue;
        }
        drop((volume, files));
        // The other one comes back, and is refused or has what was written since.
        if let Ok((_volume, files)) = world.copy().open(1 - device, b_first) {
            assert!(has_round(&files, [7, 7]), "{context}: the other one has older pages");
        }
        let again = world.open(device, !b_first);
        let (_volume, files) = again.unwrap_or_else(|error| panic!("{context}, again: {error}"));
        assert!(has_round(&files, [7, 7]), "{context}, again");
        return true;
    }
    if std::env::var_os("MEZZANINE_TELL").is_some() {
        println!("{context}: {refusals:#?}");
    }
    false
}

/// Every operation of a kind fails once. Whether both files open after each, in every order.
fn go_on_after(course: Course, harm: Harm) -> bool {
    for after in 0.. {
        let (world, versions, struck) = course.live(harm, after);
        for (first, b_first) in [(0, false), (0, true), (1, false), (1, true)] {
            let context =
                format!("{course:?}, {harm:?} {after}, {} first, b first: {b_first}", DEVICES[first]);
            if !one_device_opens_both(&world, first, b_first, versions, &context) {
                return false;
            }
        }
        if !struck {
            return true;
        }
    }
    unreachable!()
}

fn courses() -> Vec<Course> {
    let mut courses = Vec::new();
    for mode in [SyncMode::Durable, SyncMode::Through] {
        for way in 0..8 {
            let (a_is_current, given_up, closed) = (way & 1 > 0, way & 2 > 0, way & 4 > 0);
            courses.push(Course { modes: [SyncMode::Durable, mode], a_is_current, given_up, closed });
        }
    }
    courses
}

#[test]
fn a_cut_anywhere_parts_no_files() {
    for course in courses().into_iter().filter(|course| !course.closed) {
        for seed in 0..3 {
            assert!(go_on_after(course, Harm::Cut { seed }), "{course:?} {seed}");
        }
    }
}

#[test]
fn a_sidecar_that_fails_parts_no_files() {
    for course in courses() {
        for (in_place, for_good) in [(false, false), (false, true), (true, false), (true, true)] {
            let harm = Harm::Sidecar { in_place, for_good };
            assert!(go_on_after(course, harm), "{course:?} {harm:?}");
        }
    }
}

#[test]
fn a_device_that_fails_parts_no_files() {
    for course in courses() {
        for which in 0..4 {
            if which == 0 && course.given_up {
                continue;
            }
            for operation in [Operation::Write, Operation::Flush] {
                for for_good in [false, true] {
                    let harm = Harm::Device { which, operation, for_good };
                    assert!(go_on_after(course, harm), "{course:?} {harm:?}");
                }
            }
        }
    }
}

#[test]
fn the_rules_that_keep_files_together_are_needed() {
    let modes = [SyncMode::Durable; 2];
    let course = Course { modes, a_is_current: false, given_up: false, closed: false };
    only_with(&[Bug::FilesParted], || go_on_after(course, Harm::Sidecar { in_place: false, for_good: true }));
    only_with(&[Bug::FilesParted, Bug::SuccessorUnnamed], || {
        (0..3).all(|seed| go_on_after(Course { a_is_current: true, ..course }, Harm::Cut { seed }))
    });
}

/// What the rules rest on where files have paths.
#[test]
fn the_sidecar_of_a_file_finds_that_of_another() {
    let other = PathSidecar::beside(Path::new("/one/a.db")).sibling(Path::new("/two/b.db")).unwrap();
    assert_eq!(other.describe(), "/two/b.db.mezzanine");
}
