//! Power is cut at any operation, also while a volume is opened, again and again; or only the process dies.
//!
//! Invariants checked: after a cut each page is a version between the last one that was synced and the last
//! one issued (a discarded page and one past the end count as zeros), the length likewise; what was read
//! after a recovery does not go back at the next cut; the structure of the tier is whole. Where writes go to
//! the disk at once, the disk may tear a page that was not synced, sector by sector.

#![allow(clippy::unwrap_used)]

mod common;

use std::rc::Rc;

use common::powered::Machine;
use common::{PAGE, every_configuration, small_tier};
use mezzanine_device::Device;
use mezzanine_device::memory::MemoryDevice;
use mezzanine_engine::format::read_superblock;
use mezzanine_engine::{ReadError, ReadFlash};
use mezzanine_ground::random::Random;
use mezzanine_volume::{
    AttachOptions, HeaderGuard, SyncMode, TierConfig, Volume, VolumeConfig, VolumeError, VolumeErrorKind,
    VolumeFile,
};

const PAGES: u64 = 60;
const GUARD: &[u8] = b"not current on disk";

struct World {
    machine: Machine,
    config: VolumeConfig,
    guard: bool,
    tears: bool,
    /// The sync mode and admission are changed while the volume is in use.
    online: bool,
    random: Random,
    /// Per page: what it may be, the oldest first; the last one is what it is without a cut.
    versions: Vec<Vec<Rc<[u8]>>>,
    lengths: Vec<u64>,
    next: u64,
}

fn page_of(version: u64, block: u64) -> Rc<[u8]> {
    if version == 0 {
        return Rc::new([0; PAGE]);
    }
    let word = version << 16 | block;
    word.to_le_bytes().iter().copied().cycle().take(PAGE).collect()
}

fn name_of(page: &[u8]) -> String {
    let mut words: Vec<u64> =
        page.chunks_exact(8).map(|word| u64::from_le_bytes(word.try_into().unwrap())).collect();
    words.dedup();
    words.iter().map(|word| format!("{}.{} ", word >> 16, word & 0xFFFF)).collect()
}

struct Flash<'f>(&'f MemoryDevice);

impl ReadFlash for Flash<'_> {
    fn read(&mut self, offset: u64, bytes: &mut [u8]) -> Result<(), ReadError> {
        self.0.read_at(bytes, offset).map_err(|error| ReadError(error.to_string()))
    }
}

impl World {
    fn new(seed: u64) -> Self {
        let mut random = Random::new(seed);
        let all = every_configuration();
        let (design, admission, sync_mode) = *random.pick(&all);
        let tier = small_tier(design, admission, sync_mode);
        let frames_max = random.between(104, 180);
        let frames_max = if design.writes_in_place() { tier.frames } else { frames_max };
        let tier = TierConfig { frames_max, ..tier };
        let config = VolumeConfig { workers: 0, identity_seed: Some(seed), ..VolumeConfig::new(tier) };
        let online = random.chance(1, 2);
        Self {
            online,
            machine: Machine::new(&config, seed ^ 1, 0, true),
            guard: random.chance(1, 2),
            tears: online || config.tier.geometry().unwrap().provably_clean(),
            config,
            random,
            versions: vec![vec![page_of(0, 0)]; PAGES as usize],
            lengths: vec![0],
            next: 1,
        }
    }

    fn open(&self) -> Result<(Volume, VolumeFile), VolumeError> {
        let mut config = self.config.clone();
        if let (true, Ok(found)) = (self.online, read_superblock(&mut Flash(&self.machine.flash))) {
            config.tier.sync_mode = found.config.sync_mode;
        }
        let guard = self.guard.then(|| HeaderGuard { bytes: GUARD.to_vec() });
        self.machine.open(config, AttachOptions { guard })
    }

    /// Opens after a cut, reads everything, and makes what was read the base of what may be read later.
    fn check(&mut self) -> Result<(), VolumeError> {
        let (volume, file) = self.open()?;
        volume.check();
        let len = file.len();
        assert!(self.lengths.contains(&len), "length {len} is none of {:?}", self.lengths);
        for block in 0..PAGES {
            let mut found = vec![0xEE; PAGE];
            match file.read_at(&mut found, block * PAGE as u64) {
                Ok(()) => {}
                Err(error) if matches!(error.kind(), VolumeErrorKind::ShortRead { .. }) => {}
                Err(error) => return Err(error),
            }
            let versions = &mut self.versions[block as usize];
            let whole = versions.iter().any(|version| **version == *found);
            let torn = self.tears
                && found.chunks_exact(512).enumerate().all(|(at, sector)| {
                    versions.iter().any(|version| version[at * 512..(at + 1) * 512] == *sector)
                });
            if !whole && !torn {
                let known: Vec<String> = versions.iter().map(|version| name_of(version)).collect();
                panic!("page {block} is {}, none of {known:?}", name_of(&found));
            }
            *versions = vec![found.into()];
        }
        self.lengths = vec![len];
        Ok(())
    }

    fn length(&self) -> u64 {
        *self.lengths.last().unwrap()
    }

    fn quiesce(&mut self) {
        for versions in &mut self.versions {
            *versions = vec![versions.last().unwrap().clone()];
        }
        self.lengths = vec![self.length()];
    }

    fn operate(&mut self, volume: &Volume, file: &VolumeFile) -> Result<(), VolumeError> {
        let block = self.random.below(PAGES);
        match self.random.below(24) {
            0..=13 => {
                let version = self.next;
                self.next += 1;
                self.versions[block as usize].push(page_of(version, block));
                self.lengths.push(self.length().max((block + 1) * PAGE as u64));
                file.write_at(&page_of(version, block), block * PAGE as u64)
            }
            14..=16 => {
                let mut found = vec![0; PAGE];
                match file.read_at(&mut found, block * PAGE as u64) {
                    Err(error) if matches!(error.kind(), VolumeErrorKind::ShortRead { .. }) => {}
                    other => other?,
                }
                let version = self.versions[block as usize].last().unwrap();
                assert!(found == **version, "page {block} before a cut");
                Ok(())
            }
            17 | 18 => {
                file.sync()?;
                self.quiesce();
                Ok(())
            }
            19 => {
                let blocks = block..(block + self.random.between(1, 9)).min(PAGES);
                for block in blocks.clone() {
                    self.versions[block as usize].push(page_of(0, 0));
                }
                file.discard(blocks.start * PAGE as u64, (blocks.end - blocks.start) * PAGE as u64)?;
                for block in blocks {
                    self.versions[block as usize] = vec![page_of(0, 0)];
                }
                Ok(())
            }
            20 => {
                let len = block * PAGE as u64;
                let shorter = len < self.length();
                self.lengths.push(len);
                for block in block..PAGES {
                    self.versions[block as usize].push(page_of(0, 0));
                }
                file.set_len(len)?;
                if shorter {
                    self.lengths = vec![len];
                    for block in block..PAGES {
                        self.versions[block as usize] = vec![page_of(0, 0)];
                    }
                }
                Ok(())
            }
            21 => {
                volume.step();
                Ok(())
            }
            22 if self.config.tier.design.writes_in_place() => Ok(()),
            22 => {
                // None once the tier was given up in the middle of a cut.
                let Some(progress) = volume.resize_progress() else { return Ok(()) };
                let frames = self.random.between(0, self.config.tier.frames_max - 97);
                volume.resize(progress.bytes_max - frames * PAGE as u64).map(|_| ())
            }
            _ if self.online && self.random.chance(1, 4) => {
                let drawn = *self.random.pick(&[SyncMode::Through, SyncMode::Durable]);
                let to = if self.config.tier.design.has_slots() { SyncMode::Through } else { drawn };
                volume.set_sync_mode(to)?;
                assert!(volume.sync_mode().is_none_or(|now| now == to));
                Ok(())
            }
            _ if self.online && self.random.chance(1, 4) => volume.stop_admission(),
            _ if self.online && self.random.chance(1, 2) => volume.resume_admission(),
            _ if self.random.chance(1, 10) => volume.drain(),
            _ => Ok(()),
        }
    }

    /// Uses the volume until power fails.
    fn live(&mut self) -> Result<(), VolumeError> {
        let (volume, file) = self.open()?;
        for _ in 0..self.random.between(1, 200) {
            self.operate(&volume, &file)?;
        }
        match self.random.below(3) {
            0 => volume.close(),
            1 => volume.close_drained().map(|()| {
                self.quiesce();
                self.machine
                    .disk
                    .inspect(|disk| assert!(!disk.starts_with(GUARD), "the header was not restored"));
            }),
            _ => Ok(()),
        }
    }
}

fn run(seed: u64) {
    let mut world = World::new(seed);
    for _ in 0..6 {
        let n = world.random.magnitude(600) + 1;
        world.machine.power.crash_after(n);
        if let Err(error) = world.live() {
            assert!(!world.machine.power.is_on(), "{error}");
        }
        let mut again = world.random.below(3);
        loop {
            // If power stayed on, perhaps only the process died: what it wrote can be read and is not
            // durable.
            let process_only = world.machine.power.is_on() && world.random.chance(1, 2);
            world.machine.restore(!process_only, &mut world.random);
            if again > 0 {
                again -= 1;
                let n = world.random.magnitude(60) + 1;
                world.machine.power.crash_after(n);
            }
            match world.check() {
                Ok(()) if again == 0 => break,
                Ok(()) => {}
                Err(error) => assert!(!world.machine.power.is_on(), "{error}"),
            }
        }
    }
    assert!(world.machine.flash.capabilities().len > 0);
}

fn seeds() -> std::ops::Range<u64> {
    match std::env::var("MEZZANINE_SEED").ok().and_then(|seed| seed.parse().ok()) {
        Some(seed) => seed..seed + 1,
        None => {
            let count = std::env::var("MEZZANINE_CUTS").ok().and_then(|n| n.parse().ok());
            0..count.unwrap_or(2000)
        }
    }
}

#[test]
fn nothing_synced_is_lost_and_nothing_read_goes_back() {
    for seed in seeds() {
        let outcome = std::panic::catch_unwind(|| run(seed));
        if let Err(panic) = outcome {
            eprintln!("MEZZANINE_SEED={seed} replays this");
            std::panic::resume_unwind(panic);
        }
    }
}
