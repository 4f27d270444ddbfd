//! A volume with its devices, and what its threads do.

use std::mem::ManuallyDrop;
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use mezzanine_device::DeviceErrorKind;
use mezzanine_device::memory::{Fault, Injection, Operation, Power};
use mezzanine_engine::interleave::{explore, over_the_engine};
use mezzanine_volume::{
    AttachOptions, Design, HeaderGuard, SyncMode, TierConfig, Volume, VolumeConfig, VolumeError,
    VolumeErrorKind, VolumeFile,
};
use shuttle::rand::Rng;

use crate::device::{Scheduled, Sidecar};
use crate::left::Left;
use crate::orders::hold;
use crate::pages::{Found, PAGE, Page, Pages, bytes_of, versions_of, whole};

const NAMES: [&str; 2] = ["a", "b"];
/// The file that others are made room with.
pub(crate) const FILLER: usize = 1;
/// Few, so that most of its pages are superseded before they come to the front.
const FILLER_BLOCKS: u64 = 6;
/// If the power fails, it does in one of the first 2^n requests, n drawn from these.
const REQUESTS: std::ops::Range<u64> = 2..9;

/// Most writes that a device takes before it fails.
const WRITES_LEFT: u64 = 32;

/// One of several threads that run side by side. It ends early where the power has failed.
pub(crate) type Thread = fn(&World) -> Result<(), Off>;

/// The power has failed.
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
    /// The tier may be given up: then pages whose newest version was not synced may be torn, whole sectors of one version each.
    pub(crate) torn_is_right: bool,
}

impl Setup {
    pub(crate) fn new(runners: usize) -> Self {
        Self {
            tier: tiny(SyncMode::Durable),
            runners,
            finely: false,
            guarded: false,
            disks_tear: true,
            torn_is_right: false,
        }
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
    let mut config = TierConfig {
        group_pages: 2,
        survivors_max: 1,
        staging_groups: 2,
        segment_frames: 8,
        band_frames: 2,
        ahead_frames: 0,
        shards: 2,
        sync_mode,
        ..TierConfig::of(Design::FaceGsc, PAGE as u32, 1024)
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

pub(crate) fn attach_all(backings: &[Backing], volume: &Volume) -> Result<Vec<VolumeFile>, VolumeError> {
    let attach = |(backing, name): (&Backing, &&str)| {
        let guard = backing.guarded.then(|| HeaderGuard { bytes: b"guarded by a tier".to_vec() });
        volume.attach(Path::new(name), backing.disk.clone(), backing.sidecar.clone(), AttachOptions { guard })
    };
    backings.iter().zip(&NAMES).map(attach).collect()
}

pub(crate) struct World {
    setup: Setup,
    power: Power,
    /// The device in use; while it is being replaced, the one that takes its place as well.
    flashes: Mutex<Vec<Arc<Scheduled>>>,
    backings: Vec<Backing>,
    // Its threads cannot be waited for in an order that has failed.
    volume: ManuallyDrop<Volume>,
    files: Vec<VolumeFile>,
    // Standard locks: they are not held at points.
    pages: Mutex<Pages>,
}

impl World {
    pub(crate) fn new(setup: Setup) -> Self {
        hold(true);
        explore(false);
        over_the_engine(!setup.finely);
        let power = Power::new();
        let config = setup.config();
        let flash = flash_for(&power, &setup.tier);
        let backing = |index: usize| {
            let disk = Scheduled::on(&power, NAMES[index], 0, true);
            if !setup.disks_tear {
                disk.0.set_atomic_write(PAGE as u64);
            }
            Backing { disk, sidecar: Sidecar::on(&power), guarded: setup.guarded && index == 0 }
        };
        let backings: Vec<_> = (0..NAMES.len()).map(backing).collect();
        Volume::format(&*flash, &config, false).unwrap();
        // Its threads are threads of the order, which begin when they are let.
        explore(true);
        let volume = Volume::open(flash.clone(), config).unwrap();
        explore(false);
        let files = attach_all(&backings, &volume).unwrap();
        let volume = ManuallyDrop::new(volume);
        let flashes = Mutex::new(vec![flash]);
        Self { setup, power, flashes, backings, volume, files, pages: Mutex::default() }
    }

    fn pages(&self) -> MutexGuard<'_, Pages> {
        self.pages.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The volume, for an operator. What it answers goes through [`Self::done`].
    pub(crate) fn volume(&self) -> &Volume {
        &self.volume
    }

    /// Only a loss of power excuses an error.
    pub(crate) fn done<T>(&self, outcome: Result<T, VolumeError>) -> Result<T, Off> {
        outcome.map_err(|error| {
            assert!(!self.power.is_on(), "{error}");
            Off
        })
    }

    pub(crate) fn write(&self, page: Page) -> Result<(), Off> {
        let (version, change) = self.pages().issue(page);
        self.done(self.files[page.0].write_at(&bytes_of(page, version), page.1 * PAGE as u64))?;
        self.pages().completed(&[change]);
        Ok(())
    }

    pub(crate) fn read(&self, page: Page) -> Result<(), Off> {
        self.read_run(page, 1)
    }

    /// Reads pages that lie side by side at once.
    pub(crate) fn read_run(&self, (file, first): Page, count: u64) -> Result<(), Off> {
        let run: Vec<Page> = (first..first + count).map(|block| (file, block)).collect();
        let floors: Vec<usize> = run.iter().map(|page| self.pages().floor(*page)).collect();
        let versions = self.done(look(&self.files[file], &run))?;
        for ((page, floor), found) in run.iter().zip(floors).zip(versions) {
            self.pages().judge_read(*page, floor, whole(*page, &found));
        }
        Ok(())
    }

    pub(crate) fn sync(&self, file: usize) -> Result<(), Off> {
        let promised = self.pages().complete(Some(file));
        self.done(self.files[file].sync())?;
        self.pages().acknowledged(&promised);
        Ok(())
    }

    /// Cuts a file off after `blocks` blocks. No other thread changes what lies there.
    pub(crate) fn truncate(&self, file: usize, blocks: u64) -> Result<(), Off> {
        let zeros = self.pages().issue_zeros(file, blocks, u64::MAX);
        self.done(self.files[file].set_len(blocks * PAGE as u64))?;
        self.pages().acknowledged(&zeros);
        Ok(())
    }

    /// The same of a range.
    pub(crate) fn discard(&self, file: usize, first: u64, end: u64) -> Result<(), Off> {
        let zeros = self.pages().issue_zeros(file, first, end);
        self.done(self.files[file].discard(first * PAGE as u64, (end - first) * PAGE as u64))?;
        self.pages().acknowledged(&zeros);
        Ok(())
    }

    /// Has an operator do something that makes everything durable.
    pub(crate) fn settle(&self, change: impl FnOnce(&Volume) -> Result<(), VolumeError>) -> Result<(), Off> {
        let promised = self.pages().complete(None);
        self.done(change(&self.volume))?;
        self.pages().acknowledged(&promised);
        Ok(())
    }

    /// Has `replace` put the volume on another flash device for a tier like this.
    pub(crate) fn replace(
        &self,
        tier: &TierConfig,
        replace: impl FnOnce(&Volume, Arc<Scheduled>) -> Result<(), VolumeError>,
    ) -> Result<(), Off> {
        let next = flash_for(&self.power, tier);
        self.flashes.lock().unwrap().push(next.clone());
        self.settle(|volume| replace(volume, next.clone()))?;
        *self.flashes.lock().unwrap() = vec![next];
        Ok(())
    }

    /// Has the flash device take some writes more and then none, until the volume is opened anew.
    pub(crate) fn flash_fails(&self) {
        let fault = Fault::Error(DeviceErrorKind::Io);
        let after = draw(WRITES_LEFT);
        let fails = Injection { operation: Operation::Write, after, count: u64::MAX, fault };
        self.flashes.lock().unwrap()[0].0.inject(fails);
    }

    /// Frames of the tier as it was formatted.
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
        (0..pages).try_for_each(|block| self.write((FILLER, block % FILLER_BLOCKS)))
    }

    /// Runs the threads side by side with the volume's own, then judges what is there, and what is left when the power has failed.
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

    fn end(mut self) {
        if draw(2) == 0 {
            _ = (0..self.files.len()).try_for_each(|file| self.sync(file));
        }
        let pages = self.pages().all();
        _ = pages.into_iter().try_for_each(|page| self.read(page));
        if self.power.is_on() {
            self.pages().judge_newest();
        }
        self.files.clear();
        drop(ManuallyDrop::into_inner(self.volume));
        explore(false);
        let flashes = self.flashes.into_inner().unwrap_or_else(PoisonError::into_inner);
        let pages = self.pages.into_inner().unwrap_or_else(PoisonError::into_inner);
        Left { setup: self.setup, power: self.power, backings: self.backings }.judge(flashes, pages);
    }
}

fn flash_for(power: &Power, tier: &TierConfig) -> Arc<Scheduled> {
    Scheduled::on(power, "flash", tier.geometry().unwrap().flash_bytes(), false)
}

/// Pages that lie side by side; past the end of a file are zeros.
pub(crate) fn look(file: &VolumeFile, run: &[Page]) -> Result<Vec<Found>, VolumeError> {
    let mut found = vec![0xEE; run.len() * PAGE];
    match file.read_at(&mut found, run[0].1 * PAGE as u64) {
        Err(error) if !matches!(error.kind(), VolumeErrorKind::ShortRead { .. }) => return Err(error),
        _ => {}
    }
    Ok(run.iter().zip(found.chunks_exact(PAGE)).map(|(page, bytes)| versions_of(*page, bytes)).collect())
}
