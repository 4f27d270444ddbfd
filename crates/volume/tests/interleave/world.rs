//! A volume with its devices, and what its threads do.

use std::error::Error;
use std::mem::ManuallyDrop;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use mezzanine_device::memory::{Fault, Injection, Operation, Power};
use mezzanine_device::{DeviceError, DeviceErrorKind};
use mezzanine_ground::interleave::{explore, over_the_engine, rest};
use mezzanine_volume::{
    Admission, AttachOptions, Design, HeaderGuard, PolicyParameters, SyncMode, TierConfig, Volume,
    VolumeConfig, VolumeError, VolumeErrorKind, VolumeFile,
};
use shuttle::rand::Rng;

use crate::device::{Scheduled, Sidecar};
use crate::left::Left;
use crate::orders::hold;
use crate::pages::{Found, PAGE, Page, Pages, bytes_of, extent, versions_of, whole};

const NAMES: [&str; 3] = ["a", "b", "c"];
/// The file that others are made room with.
pub(crate) const FILLER: usize = 1;
/// The file that is attached later, if it is.
pub(crate) const LATE: usize = 2;
/// Few, so that most of its pages are superseded before they come to the front.
const FILLER_BLOCKS: u64 = 6;
/// If the power fails, it does in one of the first 2^n requests, n drawn from these.
const REQUESTS: std::ops::Range<u64> = 2..9;

/// Most writes that a device takes before it fails.
const WRITES_LEFT: u64 = 32;
/// The same of flushes.
const FLUSHES_LEFT: u64 = 6;
/// Most changes of one kind that a disk makes before it refuses some, and most that it refuses then.
const CHANGES_LEFT: u64 = 4;
const REFUSED: u64 = 2;

/// One of several threads that run side by side. It ends early where the power has failed.
pub(crate) type Thread = fn(&World) -> Result<(), Off>;

/// The power has failed, or the model has ended the use of the volume.
#[derive(Debug)]
pub(crate) struct Off;

/// A number below `end`, from the order's seed.
pub(crate) fn draw(end: u64) -> u64 {
    if end < 2 { 0 } else { shuttle::rand::thread_rng().gen_range(0..end) }
}

/// How a model begins.
pub(crate) struct Setup {
    pub(crate) tier: TierConfig,
    /// Threads of the volume's that carry out jobs.
    pub(crate) runners: usize,
    /// There are points inside the engine, too.
    pub(crate) finely: bool,
    /// The first file has a guard over its header.
    pub(crate) guarded: bool,
    /// Disks tear pages when the power fails. Where writes go to disk alone, a page is as good as the disk.
    pub(crate) disks_tear: bool,
    /// The tier may be given up: then pages whose newest version was not synced may be torn, whole sectors
    /// of one version each.
    pub(crate) torn_is_right: bool,
}

impl Setup {
    pub(crate) fn new(runners: usize) -> Self {
        Self::of(Design::FaceGsc, SyncMode::Durable, runners)
    }

    /// As [`Self::new`], of another design or in another sync mode.
    pub(crate) fn of(design: Design, sync_mode: SyncMode, runners: usize) -> Self {
        Self {
            tier: tiny_of(design, sync_mode),
            runners,
            finely: false,
            guarded: false,
            disks_tear: true,
            torn_is_right: false,
        }
    }

    pub(crate) fn finely(self) -> Self {
        Self { finely: true, ..self }
    }

    /// The tier takes pages that are written, and none that are read.
    pub(crate) fn takes_writes_alone(self) -> Self {
        Self { tier: TierConfig { admission: Admission::Dirty, ..self.tier }, ..self }
    }

    /// Writes go to disk alone now and then.
    pub(crate) fn past_the_tier(self) -> Self {
        Self { disks_tear: false, ..self }
    }

    /// The tier is given up.
    pub(crate) fn given_up(self) -> Self {
        Self { torn_is_right: true, ..self }
    }

    pub(crate) fn guarded(self) -> Self {
        Self { guarded: true, ..self }
    }

    pub(crate) fn config(&self) -> VolumeConfig {
        VolumeConfig { workers: self.runners, identity_seed: Some(7), ..VolumeConfig::new(self.tier.clone()) }
    }
}

/// The smallest tier with groups of two pages.
pub(crate) fn tiny(sync_mode: SyncMode) -> TierConfig {
    tiny_of(Design::FaceGsc, sync_mode)
}

/// The same of another design, which takes whatever it can be given.
pub(crate) fn tiny_of(design: Design, sync_mode: SyncMode) -> TierConfig {
    let mut config = TierConfig {
        group_pages: 2,
        survivors_max: 1,
        staging_groups: 2,
        segment_frames: 8,
        band_frames: 2,
        ahead_frames: 0,
        shards: 2,
        admission: Admission::Both,
        sync_mode,
        policy: PolicyParameters { write_back: design == Design::Exadata, ..PolicyParameters::default() },
        ..TierConfig::of(design, PAGE as u32, 1024)
    };
    config.frames = 8;
    // No more than those.
    config.frames_max = 0;
    while config.geometry().is_err() {
        config.frames += 1;
    }
    config
}

/// A file's disk and sidecar.
pub(crate) struct Backing {
    pub(crate) disk: Arc<Scheduled>,
    pub(crate) sidecar: Arc<Sidecar>,
    pub(crate) guarded: bool,
}

impl Backing {
    pub(crate) fn attach(&self, volume: &Volume, name: &str) -> Result<VolumeFile, VolumeError> {
        let guard = self.guarded.then(|| HeaderGuard { bytes: b"guarded by a tier".to_vec() });
        volume.attach(Path::new(name), self.disk.clone(), self.sidecar.clone(), AttachOptions { guard })
    }
}

pub(crate) fn attach_all(backings: &[Backing], volume: &Volume) -> Result<Vec<VolumeFile>, VolumeError> {
    backings.iter().zip(&NAMES).map(|(backing, name)| backing.attach(volume, name)).collect()
}

pub(crate) struct World {
    setup: Setup,
    power: Power,
    /// The device in use; while it is being replaced, the one that takes its place as well.
    flashes: Mutex<Vec<Arc<Scheduled>>>,
    backings: Vec<Backing>,
    // Its threads cannot be waited for in an order that has failed.
    volume: ManuallyDrop<Volume>,
    /// In the order of the backings, if they are attached.
    files: [OnceLock<VolumeFile>; NAMES.len()],
    // Standard locks: they are not held at points.
    pages: Mutex<Pages>,
    /// Somebody closes the volume, or has closed it.
    closed: AtomicBool,
    /// A flush is about to fail.
    flush_fails: AtomicBool,
    /// A disk is about to refuse changes.
    disk_fails: AtomicBool,
    /// Somebody was told that changes are refused.
    told: AtomicBool,
    /// The volume itself has told somebody: it acknowledges nothing any more.
    ended: AtomicBool,
}

impl World {
    pub(crate) fn new(setup: Setup) -> Self {
        hold(true);
        explore(false);
        over_the_engine(!setup.finely);
        let power = Power::new();
        let flash = flash_for(&power, &setup.tier);
        let backing = |index: usize| {
            let disk = Scheduled::on(&power, NAMES[index], 0, true);
            if !setup.disks_tear {
                disk.0.set_atomic_write(PAGE as u64);
            }
            Backing { disk, sidecar: Sidecar::on(&power), guarded: setup.guarded && index == 0 }
        };
        let backings: Vec<_> = (0..NAMES.len()).map(backing).collect();
        Volume::format(&*flash, &setup.config(), false).unwrap();
        let world = Self::open(setup, power, flash, backings, Pages::default());
        (0..LATE).for_each(|file| world.attach(file).unwrap());
        world
    }

    /// Opens the volume, whose runners are threads of the order and begin when they are let.
    fn open(setup: Setup, power: Power, flash: Arc<Scheduled>, backings: Vec<Backing>, pages: Pages) -> Self {
        explore(true);
        let volume = ManuallyDrop::new(Volume::open(flash.clone(), setup.config()).unwrap());
        explore(false);
        let flashes = Mutex::new(vec![flash]);
        let (files, pages) = (Default::default(), Mutex::new(pages));
        let [closed, flush_fails, disk_fails, told, ended] = Default::default();
        Self {
            setup,
            power,
            flashes,
            backings,
            volume,
            files,
            pages,
            closed,
            flush_fails,
            disk_fails,
            told,
            ended,
        }
    }

    /// The power fails, when everything is durable, and the volume is opened again, with so many runners; no
    /// file is attached then.
    pub(crate) fn again(self, runners: usize) -> Self {
        assert_eq!(self.setup.runners, 0, "runners would have to be waited for");
        (0..LATE).for_each(|file| self.sync(file).unwrap());
        let flash = Arc::clone(&self.flashes()[0]);
        for device in self.backings.iter().map(|backing| &backing.disk).chain([&flash]) {
            device.0.power_cut(draw(u64::MAX));
        }
        drop(self.files);
        drop(ManuallyDrop::into_inner(self.volume));
        let pages = self.pages.into_inner().unwrap_or_else(PoisonError::into_inner);
        Self::open(Setup { runners, ..self.setup }, self.power, flash, self.backings, pages)
    }

    /// Attaches a file.
    pub(crate) fn attach(&self, file: usize) -> Result<(), Off> {
        let attached = loop {
            match self.backings[file].attach(&self.volume, NAMES[file]) {
                // Others are attaching those that the tier has pages of.
                Err(error) if error.kind() == VolumeErrorKind::FileNotAttached && self.power.is_on() => {
                    rest()
                }
                attached => break self.done(attached)?,
            }
        };
        assert!(self.files[file].set(attached).is_ok(), "attached twice");
        Ok(())
    }

    fn file(&self, file: usize) -> &VolumeFile {
        self.files[file].get().expect("the model attaches a file before it uses it")
    }

    fn flashes(&self) -> MutexGuard<'_, Vec<Arc<Scheduled>>> {
        self.flashes.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn pages(&self) -> MutexGuard<'_, Pages> {
        self.pages.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The volume, for an operator. What it answers goes through [`Self::done`].
    pub(crate) fn volume(&self) -> &Volume {
        &self.volume
    }

    /// Only a loss of power excuses an error, a volume that the model has closed, and a flush or a disk that
    /// it had fail.
    pub(crate) fn done<T>(&self, outcome: Result<T, VolumeError>) -> Result<T, Off> {
        outcome.map_err(|error| {
            // The last: a volume that is read-only keeps its flash device.
            let told = matches!(
                error.kind(),
                VolumeErrorKind::ReadOnly | VolumeErrorKind::Io | VolumeErrorKind::OnlyCopy
            );
            let told = told && self.power.is_on();
            let [of_flush, of_change] =
                [&self.flush_fails, &self.disk_fails].map(|fails| told && fails.load(Ordering::SeqCst));
            let refused = of_flush || of_change;
            self.told.fetch_or(refused, Ordering::SeqCst);
            self.ended.fetch_or(of_flush && !by_a_disk_alone(&error), Ordering::SeqCst);
            let closed = error.kind() == VolumeErrorKind::Closed && self.closed.load(Ordering::SeqCst);
            assert!(refused || closed || !self.power.is_on(), "{error}");
            Off
        })
    }

    pub(crate) fn write(&self, page: Page) -> Result<(), Off> {
        self.write_run(&[page])
    }

    /// Writes pages, or parts of pages, that lie side by side at once.
    pub(crate) fn write_run(&self, run: &[Page]) -> Result<(), Off> {
        let issued: Vec<_> = run.iter().map(|page| self.pages().issue(*page)).collect();
        let bytes = run.iter().zip(&issued).map(|(page, (version, _))| bytes_of(*page, *version));
        let bytes: Vec<u8> = bytes.flatten().collect();
        loop {
            match self.file(run[0].0).write_at(&bytes, extent(run[0]).start as u64) {
                // Others are attaching the files that are missing.
                Err(error) if error.kind() == VolumeErrorKind::FileNotAttached && self.power.is_on() => {
                    rest()
                }
                written => break self.done(written)?,
            }
        }
        let changes: Vec<_> = issued.into_iter().map(|(_, change)| change).collect();
        self.pages().completed(&changes);
        Ok(())
    }

    pub(crate) fn read(&self, page: Page) -> Result<(), Off> {
        self.read_all(&[page])
    }

    /// Reads pages that lie side by side at once.
    pub(crate) fn read_run(&self, (file, first): Page, count: u64) -> Result<(), Off> {
        let run: Vec<Page> = (first..first + count).map(|block| (file, block)).collect();
        self.read_all(&run)
    }

    /// Reads pages, or parts of pages, that lie side by side at once.
    pub(crate) fn read_all(&self, run: &[Page]) -> Result<(), Off> {
        let floors: Vec<usize> = run.iter().map(|page| self.pages().floor(*page)).collect();
        let read = look(self.file(run[0].0), run);
        let read = read.inspect_err(|error| {
            let excused = error.kind() == VolumeErrorKind::Closed || !self.power.is_on();
            assert!(excused, "a flush that fails excuses no read: {error}");
        });
        for ((page, floor), found) in run.iter().zip(floors).zip(self.done(read)?) {
            let torn = found.iter().any(|version| *version != found[0]);
            if torn && self.disk_fails.load(Ordering::SeqCst) {
                // A change that failed may have been made in part.
                self.pages().judge_torn(*page, floor, &found);
            } else {
                self.pages().judge_read(*page, floor, whole(*page, &found));
            }
        }
        Ok(())
    }

    pub(crate) fn sync(&self, file: usize) -> Result<(), Off> {
        let promised = self.pages().complete(Some(file));
        let ended = self.ended.load(Ordering::SeqCst);
        self.done(self.file(file).sync())?;
        assert!(!ended, "a sync was acknowledged after one that had failed");
        self.pages().acknowledged(&promised);
        Ok(())
    }

    /// Cuts a file off after `blocks` blocks. No other thread changes what lies there.
    pub(crate) fn truncate(&self, file: usize, blocks: u64) -> Result<(), Off> {
        let zeros = self.pages().issue_zeros(file, blocks, u64::MAX);
        self.done(self.file(file).set_len(blocks * PAGE as u64))?;
        self.pages().acknowledged(&zeros);
        Ok(())
    }

    /// The same of a range.
    pub(crate) fn discard(&self, file: usize, first: u64, end: u64) -> Result<(), Off> {
        let zeros = self.pages().issue_zeros(file, first, end);
        self.done(self.file(file).discard(first * PAGE as u64, (end - first) * PAGE as u64))?;
        self.pages().acknowledged(&zeros);
        Ok(())
    }

    /// Has an operator do something that makes everything durable.
    pub(crate) fn quiesce(&self, change: impl FnOnce(&Volume) -> Result<(), VolumeError>) -> Result<(), Off> {
        let promised = self.pages().complete(None);
        self.done(change(&self.volume))?;
        self.pages().acknowledged(&promised);
        Ok(())
    }

    /// Has the tier take no more pages. In sync mode `through` that makes nothing durable.
    pub(crate) fn stop_admission(&self) -> Result<(), Off> {
        match self.setup.tier.sync_mode {
            SyncMode::Through => self.done(self.volume.stop_admission()),
            _ => self.quiesce(|volume| volume.stop_admission()),
        }
    }

    /// Has `replace` put the volume on another flash device for a tier like this.
    pub(crate) fn replace(
        &self,
        tier: &TierConfig,
        replace: impl FnOnce(&Volume, Arc<Scheduled>) -> Result<(), VolumeError>,
    ) -> Result<(), Off> {
        let next = flash_for(&self.power, tier);
        self.flashes().push(next.clone());
        self.quiesce(|volume| replace(volume, next.clone()))?;
        *self.flashes() = vec![next];
        Ok(())
    }

    /// Closes the volume under everybody's feet.
    pub(crate) fn close(&self, close: impl FnOnce(&Volume) -> Result<(), VolumeError>) -> Result<(), Off> {
        self.closed.store(true, Ordering::SeqCst);
        self.quiesce(close)
    }

    /// Has the flash device take some writes more and then none, until the volume is opened anew.
    pub(crate) fn flash_fails(&self) {
        let fault = Fault::Error(DeviceErrorKind::Io);
        let after = draw(WRITES_LEFT);
        let fails = Injection { operation: Operation::Write, after, count: u64::MAX, fault };
        self.flashes()[0].0.inject(fails);
    }

    /// Has one of the next flushes of the flash device fail: what no flush has covered may be lost.
    pub(crate) fn flash_flush_fails(&self) {
        self.flush_fails(&self.flashes()[0]);
    }

    /// The same of the disk of a file.
    pub(crate) fn disk_flush_fails(&self, file: usize) {
        self.flush_fails(&self.backings[file].disk);
    }

    /// Has the disk of a file, or its sidecar, refuse some changes of one kind, soon.
    pub(crate) fn disk_fails(&self, file: usize) {
        let (after, count) = (draw(CHANGES_LEFT), 1 + draw(REFUSED));
        let fault = Fault::Error(DeviceErrorKind::Io);
        let refuse = |operation| {
            self.backings[file].disk.0.inject(Injection { operation, after, count, fault });
        };
        match draw(3) {
            0 => refuse(Operation::SetLen),
            1 => refuse(Operation::Write),
            _ => self.backings[file].sidecar.fails(after, count),
        }
        self.disk_fails.store(true, Ordering::SeqCst);
    }

    fn flush_fails(&self, device: &Scheduled) {
        let fault = Fault::Error(DeviceErrorKind::Io);
        let after = draw(FLUSHES_LEFT);
        device.0.inject(Injection { operation: Operation::Flush, after, count: 1, fault });
        self.flush_fails.store(true, Ordering::SeqCst);
    }

    /// The tier as it was formatted.
    pub(crate) fn tier(&self) -> TierConfig {
        self.setup.tier.clone()
    }

    /// Its frames.
    pub(crate) fn frames(&self) -> u64 {
        self.setup.tier.frames
    }

    /// Has the queue go round: what was written before is on disk alone, or further on its way there.
    pub(crate) fn push_out(&self) {
        self.push(2 * self.setup.tier.frames);
    }

    /// Has what was written before go some of its way to the disk.
    pub(crate) fn push_on(&self) {
        self.push(draw(2 * self.setup.tier.frames));
    }

    fn push(&self, pages: u64) {
        self.push_more(pages).and_then(|()| self.sync(FILLER)).unwrap();
    }

    /// Writes so many pages of the second file.
    pub(crate) fn push_more(&self, pages: u64) -> Result<(), Off> {
        let tier = &self.setup.tier;
        // Where a page is written in place, others make it leave, and not itself.
        let blocks = if tier.design.writes_in_place() { tier.frames + FILLER_BLOCKS } else { FILLER_BLOCKS };
        (0..pages).try_for_each(|block| self.write((FILLER, block % blocks)))
    }

    /// Runs the threads side by side with the volume's own, then judges what is there, and what is left when
    /// the power has failed.
    pub(crate) fn run(self, threads: &[Thread]) {
        if draw(4) > 0 {
            let end = 1 << (REQUESTS.start + draw(REQUESTS.end - REQUESTS.start));
            self.power.crash_after(1 + draw(end));
        }
        let world = Arc::new(self);
        explore(true);
        let begin = |&thread: &Thread| {
            let world = Arc::clone(&world);
            shuttle::thread::spawn(move || _ = thread(&world))
        };
        let threads: Vec<_> = threads.iter().map(begin).collect();
        hold(false);
        for thread in threads {
            thread.join().unwrap();
        }
        let Ok(world) = Arc::try_unwrap(world) else { unreachable!("the threads have ended") };
        world.end();
    }

    fn end(self) {
        let attached = || (0..NAMES.len()).filter(|file| self.files[*file].get().is_some());
        if draw(2) == 0 {
            _ = attached().try_for_each(|file| self.sync(file));
        }
        let pages = self.pages().all();
        let there = |page: &Page| self.files[page.0].get().is_some();
        _ = pages.into_iter().filter(there).try_for_each(|page| self.read(page));
        let [closed, told] = [&self.closed, &self.told].map(|word| word.load(Ordering::SeqCst));
        if self.power.is_on() && !closed && !told {
            self.pages().judge_newest();
        }
        // A file that nobody began to attach is not one of the volume's.
        let late = self.files[LATE].get().is_some() || self.backings[LATE].sidecar.exists();
        let files = LATE + usize::from(late);
        drop(self.files);
        drop(ManuallyDrop::into_inner(self.volume));
        explore(false);
        let flashes = self.flashes.into_inner().unwrap_or_else(PoisonError::into_inner);
        let pages = self.pages.into_inner().unwrap_or_else(PoisonError::into_inner);
        let mut backings = self.backings;
        backings.truncate(files);
        Left { setup: self.setup, power: self.power, backings }.judge(flashes, pages);
    }
}

/// Whether a disk has refused a change because a flush of it has failed, whose thread is still on its way to
/// say so of the volume: other files go on until it has.
fn by_a_disk_alone(error: &VolumeError) -> bool {
    let device = error.source().and_then(|source| source.downcast_ref::<DeviceError>());
    let latched = device.is_some_and(|error| error.kind() == DeviceErrorKind::FlushFailed);
    latched && error.operation() != "sync"
}

fn flash_for(power: &Power, tier: &TierConfig) -> Arc<Scheduled> {
    Scheduled::on(power, "flash", tier.geometry().unwrap().flash_bytes(), false)
}

/// Pages, or parts of pages, that lie side by side; past the end of a file are zeros.
pub(crate) fn look(file: &VolumeFile, run: &[Page]) -> Result<Vec<Found>, VolumeError> {
    let start = extent(run[0]).start;
    let mut found = vec![0xEE; run.iter().map(|page| extent(*page).len()).sum()];
    match file.read_at(&mut found, start as u64) {
        Err(error) if !matches!(error.kind(), VolumeErrorKind::ShortRead { .. }) => return Err(error),
        _ => {}
    }
    let bytes = |page: &Page| {
        let extent = extent(*page);
        &found[extent.start - start..extent.end - start]
    };
    Ok(run.iter().map(|page| versions_of(*page, bytes(page))).collect())
}
