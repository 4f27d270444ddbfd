//! The hardware of one world: a flash device, a disk and a sidecar for each file, one power supply.

use std::io;
use std::ops::Range;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use mezzanine_device::memory::{CutReport, Image, MemoryDevice, Power, Spent, Survival};
use mezzanine_device::{Device, Zones};
use mezzanine_ground::interleave::turns;
use mezzanine_ground::random::{Random, splitmix};
use mezzanine_volume::SidecarStore;

use super::costs::{Kinds, Struck};
use super::holes::{Hole, HoledDevice};
use super::meanwhile::{InterruptedDevice, Meanwhile};
use super::named::{NotedDisk, Overwritten, Pieces};
use super::scenario::Scenario;
use crate::crash::driver::at_rest::AtRest;
use crate::crash::driver::drives::{self, Tally};
use crate::crash::driver::{Drive, tiers};

/// A sidecar on the machine's power: a replacement is atomic and durable, and when power fails in it, it is
/// the old one or the new one.
pub struct Sidecar {
    power: Power,
    bytes: Mutex<Option<Vec<u8>>>,
    /// The bytes before and after the replacement that power failed in.
    cut_short: Mutex<Option<[Option<Vec<u8>>; 2]>>,
    /// The file that it stands beside; its changes make up the fingerprint.
    disk: Arc<MemoryDevice>,
    fingerprints: bool,
    seed: u64,
    faults: Mutex<SidecarFaults>,
    /// Where the disk was written since it was as the sidecar names it.
    overwritten: Overwritten,
}

/// Errors that a sidecar is to report: spares `after` operations and strikes the next `count`.
#[derive(Debug, Clone, Copy)]
pub struct SidecarFault {
    /// How many operations go well before.
    pub after: u64,
    /// How many fail then.
    pub count: u64,
    /// They fail for lack of space, and not for no reason known.
    pub no_space: bool,
}

#[derive(Default)]
struct SidecarFaults {
    planned: Option<SidecarFault>,
    struck: u64,
}

impl Sidecar {
    /// Plans errors, instead of those planned before.
    pub fn inject(&self, fault: SidecarFault) {
        self.faults().planned = Some(fault);
    }

    fn faults(&self) -> MutexGuard<'_, SidecarFaults> {
        self.faults.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Counts an operation; fails if it is to.
    fn strike(&self) -> io::Result<()> {
        let mut faults = self.faults();
        let Some(planned) = &mut faults.planned else { return Ok(()) };
        if planned.after > 0 {
            planned.after -= 1;
            return Ok(());
        }
        if planned.count == 0 {
            return Ok(());
        }
        planned.count -= u64::from(planned.count != u64::MAX);
        let kind = if planned.no_space { io::ErrorKind::StorageFull } else { io::ErrorKind::Other };
        faults.struck += 1;
        Err(io::Error::new(kind, "an error that was planned"))
    }

    fn bytes(&self) -> MutexGuard<'_, Option<Vec<u8>>> {
        self.bytes.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn cut_short(&self) -> MutexGuard<'_, Option<[Option<Vec<u8>>; 2]>> {
        self.cut_short.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What it holds.
    pub(super) fn at_rest(&self) -> Option<Vec<u8>> {
        self.bytes().clone()
    }

    /// Somebody else than the software puts this there.
    pub(super) fn put_back(&self, bytes: Option<Vec<u8>>) {
        *self.bytes() = bytes;
    }

    fn copy_from(&self, other: &Self) {
        self.overwritten.set(other.overwritten.pieces());
        self.bytes().clone_from(&other.bytes());
        self.cut_short().clone_from(&other.cut_short());
    }

    /// The bytes that there are after a cut. If power failed in a replacement, `replaced` says which.
    pub fn after_cut(&self, replaced: bool) -> Option<Vec<u8>> {
        match &*self.cut_short() {
            Some(both) => both[usize::from(replaced)].clone(),
            None => self.bytes().clone(),
        }
    }

    fn spend(&self) -> io::Result<()> {
        turns::point();
        match self.power.spend() {
            Spent::On => self.strike(),
            Spent::Cut | Spent::Off => Err(no_power()),
        }
    }

    fn put(&self, value: Option<Vec<u8>>) -> io::Result<()> {
        turns::point();
        match self.power.spend() {
            Spent::On => {
                let failed = self.strike();
                if failed.is_ok() || self.takes_effect() {
                    self.took_effect(value);
                }
                failed
            }
            Spent::Cut => {
                *self.cut_short() = Some([self.bytes().clone(), value.clone()]);
                if self.takes_effect() {
                    self.took_effect(value);
                }
                Err(no_power())
            }
            Spent::Off => Err(no_power()),
        }
    }

    fn took_effect(&self, value: Option<Vec<u8>>) {
        self.overwritten.named(value.as_deref().unwrap_or_default(), &self.disk);
        *self.bytes() = value;
    }

    /// Whether the disk was written in this range of the file since it was there as the sidecar names it.
    pub fn names_overwritten(&self, range: &Range<u64>) -> bool {
        self.overwritten.touches(range)
    }

    /// Whether a replacement that was not reported as done is.
    fn takes_effect(&self) -> bool {
        splitmix(self.seed ^ self.power.operations()) & 1 == 1
    }
}

fn no_power() -> io::Error {
    io::Error::other("the machine has no power")
}

impl SidecarStore for Sidecar {
    fn describe(&self) -> String {
        "simulated sidecar".to_owned()
    }

    fn read(&self) -> io::Result<Option<Vec<u8>>> {
        self.spend()?;
        Ok(self.bytes().clone())
    }

    fn replace(&self, bytes: &[u8]) -> io::Result<()> {
        self.put(Some(bytes.to_vec()))
    }

    fn remove(&self) -> io::Result<()> {
        self.put(None)
    }

    fn fingerprint(&self) -> io::Result<Option<Vec<u8>>> {
        self.spend()?;
        Ok(self.fingerprints.then(|| self.disk.changes().to_le_bytes().to_vec()))
    }
}

/// What each of the flash devices is like.
#[derive(Clone, PartialEq)]
pub struct Flash {
    /// Its length in bytes.
    pub bytes: u64,
    /// Its zones, if it has some.
    pub zones: Option<Zones>,
    /// The drive behind it, if it is modelled from the inside.
    pub drive: Option<Drive>,
    /// Bytes at its beginning that halves of an area take.
    pub halves_bytes: u64,
}

impl Flash {
    /// Those of a world.
    pub fn of(scenario: &Scenario) -> Self {
        let halves_bytes = scenario.zones.map_or(0, |zones| tiers::halves_bytes(&scenario.tier, &zones));
        let drive = scenario.drive.clone();
        Self { drive, halves_bytes, ..Self::memory(scenario.flash_bytes(), scenario.zones) }
    }

    /// Memory, with zones or without.
    pub(super) fn memory(bytes: u64, zones: Option<Zones>) -> Self {
        Self { bytes, zones, drive: None, halves_bytes: 0 }
    }

    fn device(&self, power: &Power, name: &'static str, tally: &Tally) -> Arc<MemoryDevice> {
        Arc::new(match (self.zones, &self.drive) {
            (Some(zones), _) => MemoryDevice::zoned(power, name, zones),
            (None, Some(drive)) => drive.device(power, name, self.bytes, tally),
            (None, None) => MemoryDevice::on(power, name, self.bytes, false),
        })
    }
}

/// The first bytes of a tier, as its volume sees them; none where its device holds no tier.
pub(super) fn first_bytes(image: &Image, zones: Option<Zones>, len: usize) -> Vec<u8> {
    AtRest::of(image, zones).and_then(|at_rest| at_rest.bytes(0, len)).unwrap_or_default()
}

/// The hardware.
pub struct Machine {
    /// One supply for everything.
    pub power: Power,
    /// The flash device.
    pub flash: Arc<MemoryDevice>,
    /// Another flash device, to take its place.
    pub spare: Arc<MemoryDevice>,
    /// The disk of each file.
    pub disks: Vec<Arc<MemoryDevice>>,
    /// The sidecar of each file.
    pub sidecars: Vec<Arc<Sidecar>>,
    /// What is to happen during a read.
    pub meanwhile: Meanwhile,
    /// What the drives behind its flash devices have done.
    drives_done: Tally,
    halves_bytes: u64,
    /// What failed of flash and of the spare device while each was that.
    as_flash: Part,
    as_spare: Part,
}

/// The part that a device plays, and that others have played before it.
#[derive(Default)]
struct Part {
    /// What failed of those before it.
    before: Kinds,
    /// What had failed of it when it was given the part.
    since: Kinds,
}

impl Part {
    fn struck(&self, of: &MemoryDevice) -> Kinds {
        self.before.and(Kinds::of(|kind| of.faults_struck_in(kind)).since(self.since))
    }

    fn passes_on(&mut self, from: &MemoryDevice, to: &MemoryDevice) {
        self.before = self.struck(from);
        self.since = Kinds::of(|kind| to.faults_struck_in(kind));
    }
}

/// Everything that outlives a power cut.
#[derive(Clone, PartialEq, Eq)]
pub struct Snapshot {
    pub(super) flash: Image,
    pub(super) zones: Option<Zones>,
    pub(super) disks: Vec<Image>,
    /// What each disk counts of its changes.
    pub(super) changes: Vec<u64>,
    pub(super) sidecars: Vec<Option<Vec<u8>>>,
    /// Where each disk was written since it was as its sidecar names it.
    pub(super) overwritten: Vec<Pieces>,
}

impl Machine {
    /// A machine with such flash devices and `files` empty files.
    pub fn new(flash_like: Flash, files: usize, fingerprints: bool, seed: u64) -> Self {
        let power = Power::new();
        let drives_done = Tally::default();
        let [flash, spare] =
            ["simulated flash", "spare flash"].map(|name| flash_like.device(&power, name, &drives_done));
        let names = ["simulated disk 0", "simulated disk 1", "simulated disk 2"];
        let disks: Vec<_> =
            (0..files).map(|file| Arc::new(MemoryDevice::on(&power, names[file], 0, true))).collect();
        // Fingerprints of two files are never the same.
        disks.iter().zip(0u64..).for_each(|(disk, file)| disk.set_changes(file << 32));
        let sidecar = |disk: &Arc<MemoryDevice>| {
            let (power, disk) = (power.clone(), Arc::clone(disk));
            Arc::new(Sidecar {
                power,
                bytes: Mutex::new(None),
                cut_short: Mutex::new(None),
                disk,
                fingerprints,
                seed,
                faults: Mutex::default(),
                overwritten: Overwritten::default(),
            })
        };
        let sidecars = disks.iter().map(sidecar).collect();
        Self {
            power,
            flash,
            spare,
            disks,
            sidecars,
            meanwhile: Meanwhile::default(),
            drives_done,
            halves_bytes: flash_like.halves_bytes,
            as_flash: Part::default(),
            as_spare: Part::default(),
        }
    }

    /// Whether flash devices have sequential zones alone.
    pub(super) fn keeps_area(&self) -> bool {
        self.flash.capabilities().zones.is_some_and(|zones| zones.conventional == 0)
    }

    /// A device as the software sees it.
    pub fn connect(&self, device: &Arc<MemoryDevice>) -> Arc<dyn Device> {
        let halves_bytes = device.capabilities().zones.map_or(0, |_| self.halves_bytes);
        Arc::new(InterruptedDevice::new(Arc::clone(device), self.meanwhile.clone(), halves_bytes))
    }

    /// The disk of a file as the software sees it, with a hole in it.
    pub(super) fn connect_disk(&self, file: usize, hole: Hole) -> Arc<dyn Device> {
        let inner = self.connect(&self.disks[file]);
        let inner = if hole.bytes > 0 { Arc::new(HoledDevice { inner, hole }) } else { inner };
        let overwritten = self.sidecars[file].overwritten.clone();
        overwritten.counts_with(hole);
        Arc::new(NotedDisk { inner, overwritten })
    }

    /// The spare flash device takes the place of the other.
    pub fn swap_flash(&mut self) {
        self.as_flash.passes_on(&self.flash, &self.spare);
        self.as_spare.passes_on(&self.spare, &self.flash);
        std::mem::swap(&mut self.flash, &mut self.spare);
    }

    /// The path under which a file is attached.
    pub fn path(file: usize) -> PathBuf {
        PathBuf::from(format!("/simulated/{file}"))
    }

    /// Lets every volatile cache lose what it loses, and turns power on again. Returns what happened to flash
    /// and disks.
    pub fn cut(&self, random: &mut Random) -> (CutReport, CutReport) {
        let seed = random.next_u64();
        let flash = self.flash.power_cut(seed);
        self.spare.power_cut(splitmix(seed));
        let mut disks = CutReport::default();
        for disk in &self.disks {
            let cut = disk.power_cut(random.next_u64());
            disks.kept += cut.kept;
            disks.lost += cut.lost;
            disks.torn += cut.torn;
        }
        self.power_returns();
        (flash, disks)
    }

    /// What the drives behind its flash devices have done since this was asked last.
    pub(super) fn take_drives_done(&self) -> drives::Done {
        drives::take(&self.drives_done)
    }

    /// How many operations failed because they were to.
    pub fn faults_struck(&self) -> u64 {
        let devices: u64 = self.devices().map(|device| device.faults_struck()).sum();
        devices + self.sidecars.iter().map(|sidecar| sidecar.faults().struck).sum::<u64>()
    }

    /// The same, by what they were.
    pub(super) fn struck(&self) -> Struck {
        let disk = |kind| self.disks.iter().map(|disk| disk.faults_struck_in(kind)).sum();
        Struck {
            flash: self.as_flash.struck(&self.flash),
            spare: self.as_spare.struck(&self.spare),
            disk: Kinds::of(disk),
            sidecar: self.sidecars.iter().map(|sidecar| sidecar.faults().struck).sum(),
        }
    }

    /// Forgets everything that is planned to fail, as if devices had been replaced with what they hold.
    pub fn heal(&self) {
        self.devices().for_each(|device| device.heal());
        self.sidecars.iter().for_each(|sidecar| sidecar.faults().planned = None);
    }

    fn devices(&self) -> impl Iterator<Item = &Arc<MemoryDevice>> {
        self.disks.iter().chain([&self.flash, &self.spare])
    }

    /// As [`Self::cut`], with the choice made by the caller: what survives on the flash device and on each
    /// disk, and which sidecars have their new bytes if power failed while they were replaced.
    pub fn cut_as(&self, flash: &Survival, disks: &[Survival], sidecars: &[bool]) {
        self.flash.power_cut_as(flash);
        for (disk, survival) in self.disks.iter().zip(disks) {
            disk.power_cut_as(survival);
        }
        for (sidecar, replaced) in self.sidecars.iter().zip(sidecars) {
            let bytes = sidecar.after_cut(*replaced);
            *sidecar.bytes() = bytes;
        }
        self.power_returns();
    }

    fn power_returns(&self) {
        self.sidecars.iter().for_each(|sidecar| *sidecar.cut_short() = None);
        self.power.restore();
    }

    /// For each sidecar whether power failed while it was replaced.
    pub fn sidecars_cut_short(&self) -> Vec<bool> {
        self.sidecars.iter().map(|sidecar| sidecar.cut_short().is_some()).collect()
    }

    /// Makes this machine what `other` is, unflushed changes included, with its power on.
    pub fn copy_from(&self, other: &Self) {
        self.power.restore();
        self.flash.copy_from(&other.flash);
        self.disks.iter().zip(&other.disks).for_each(|(disk, other)| disk.copy_from(other));
        self.sidecars.iter().zip(&other.sidecars).for_each(|(sidecar, other)| sidecar.copy_from(other));
    }

    /// A copy of everything durable. To be taken right after a cut, when nothing is unflushed.
    pub fn snapshot(&self) -> Snapshot {
        Snapshot {
            flash: self.flash.snapshot(),
            zones: self.flash.capabilities().zones,
            disks: self.disks.iter().map(|disk| disk.snapshot()).collect(),
            changes: self.disks.iter().map(|disk| disk.changes()).collect(),
            sidecars: self.sidecars.iter().map(|sidecar| sidecar.bytes().clone()).collect(),
            overwritten: self.sidecars.iter().map(|sidecar| sidecar.overwritten.pieces()).collect(),
        }
    }

    /// Puts the devices into the state of `snapshot`, durably.
    pub fn put_back(&self, snapshot: &Snapshot) {
        self.flash.put_back(&snapshot.flash);
        // It may hold a tier that is in use again.
        self.spare.put_back(&Image::zeroed(self.spare.view(Image::len)));
        for (file, disk) in self.disks.iter().enumerate() {
            disk.put_back(&snapshot.disks[file]);
            disk.set_changes(snapshot.changes[file]);
            *self.sidecars[file].bytes() = snapshot.sidecars[file].clone();
            self.sidecars[file].overwritten.set(snapshot.overwritten[file].clone());
        }
    }

    /// Another machine in the state of `snapshot`, on a supply of its own.
    pub fn from_snapshot(snapshot: &Snapshot, fingerprints: bool) -> Self {
        // Nothing is planned to happen at its requests.
        let flash = Flash::memory(0, snapshot.zones);
        let machine = Self::new(flash, snapshot.disks.len(), fingerprints, 0);
        machine.put_back(snapshot);
        machine
    }
}
