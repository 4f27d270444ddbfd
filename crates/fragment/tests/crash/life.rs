//! A life of a cache, from an opening to its end: requests and jobs side by side, a sector at a time, in any
//! order.

mod requests;

use mezzanine_fragment::{
    Cache, DeviceError, FlushToken, Health, Job, Next, Recovery, Stage, Statistics, WriteToken,
};
use mezzanine_ground::random::Random;

use crate::Outcome;
use crate::devices::{Devices, HALF, SECTOR, values};

/// A write of half a block: on a backing device or in a slot.
type Change = (usize, u64);

enum Under<'c> {
    Write { volume: usize, token: WriteToken, left: Vec<Change>, before: Vec<Change> },
    Flush { volume: usize, token: FlushToken, until: u64 },
    Copy { job: Job<'c>, left: Vec<Change> },
    Fill { job: Job<'c>, left: Vec<usize> },
    Map { job: Job<'c>, left: Vec<(usize, [u8; SECTOR])> },
    FlushCache { job: Job<'c>, until: (u64, u64) },
    FlushBacking { job: Job<'c>, until: u64 },
}

/// How a life has ended.
pub(crate) struct End {
    /// How many blocks were valid, if it was closed.
    pub(crate) closed_with: Option<u64>,
    pub(crate) statistics: Statistics,
    pub(crate) recovered: u64,
    pub(crate) unstable: u64,
    pub(crate) behind_limit: u64,
}

struct Life<'c, 'w> {
    cache: &'c Cache,
    devices: &'w mut Devices,
    random: &'w mut Random,
    next_value: &'w mut u64,
    under_way: Vec<Under<'c>>,
    now: u64,
}

/// Opens the cache, uses it, and leaves it with whatever was under way. `warm` is how many blocks the last
/// life has left, if it was closed.
pub(crate) fn live(
    devices: &mut Devices,
    random: &mut Random,
    next_value: &mut u64,
    warm: Option<u64>,
) -> Result<End, String> {
    devices.superblock = devices.superblock.opened();
    let mut config = devices.superblock.config();
    config.shards = 2;
    config.recent_fragments = 6;
    config.population_workers = 2;
    config.copy_bytes = 64 << 10;
    config.flights = 32;
    config.throttle.stages =
        [2, 2, 2].map(|workers| Stage { workers, miss_percent: 0, free_percent: 0, period_ms: 1 });
    let map = config.map.as_mut().unwrap();
    map.settle_ms = 4;
    map.waits_per_mille = if random.chance(1, 2) { 10 } else { 1000 };
    let mut recovery = Recovery::heap(config.geometry().unwrap());
    while let Some((offset, bytes)) = recovery.next() {
        let first = (offset - devices.superblock.layout.map_offset) as usize / SECTOR;
        let sectors = &devices.map.sectors()[first..first + bytes / SECTOR];
        // Now and then some of it cannot be read.
        let unread = random.chance(1, 300);
        if unread {
            recovery.unreadable(bytes);
        } else {
            recovery.take(&sectors.concat()).map_err(|error| error.to_string())?;
        }
    }
    let (cache, found) = recovery.finish();
    let mut life = Life { cache: &cache, devices, random, next_value, under_way: Vec::new(), now: 0 };
    while cache.marks_durable() < found.waits_for && cache.health() == Health::Serving {
        life.map_job();
        life.drain()?;
    }
    life.compare("after recovery")?;
    // Nothing may be asked for, if that did not succeed.
    let is_ready = cache.marks_durable() >= found.waits_for;
    if let Some(blocks) = warm.filter(|_| found.lost == 0 && is_ready) {
        let valid = life.valid();
        if valid != blocks {
            return Err(format!("of {blocks} blocks that a closed cache had, {valid} are valid"));
        }
    }
    let closed_with = if is_ready { life.run()? } else { None };
    let left = std::mem::take(&mut life.under_way);
    let statistics = cache.statistics();
    left.into_iter().for_each(|under| leave(under, devices, random));
    devices.power_fails(random);
    let (recovered, unstable, behind_limit) = (found.fragments, found.unstable, found.behind_limit);
    Ok(End { closed_with, statistics, recovered, unstable, behind_limit })
}

/// What is under way when the process ends may reach its device all the same.
fn leave(under: Under<'_>, devices: &mut Devices, random: &mut Random) {
    match under {
        // It waits for a mark, and was not sent; the others may have been.
        Under::Write { volume, left, .. } => {
            for (half, value) in left {
                if random.chance(1, 2) {
                    devices.backing[volume].write(half, value);
                }
            }
        }
        Under::Copy { left, .. } => {
            left.into_iter()
                .filter(|_| random.chance(1, 2))
                .for_each(|(half, value)| devices.slots.write(half, value));
        }
        Under::Map { left, .. } => {
            let done: Vec<_> = left.into_iter().filter(|_| random.chance(1, 2)).collect();
            done.into_iter().for_each(|(sector, bytes)| devices.map.write(sector, bytes));
        }
        Under::Flush { .. } | Under::Fill { .. } | Under::FlushCache { .. } | Under::FlushBacking { .. } => {}
    }
}

impl<'c> Life<'c, '_> {
    fn run(&mut self) -> Result<Option<u64>, String> {
        let steps = self.random.between(1, 250);
        for step in 0..steps {
            self.now += self.random.below(400_000);
            self.step()?;
            if step % 32 == 0 {
                self.compare("while it was used")?;
            }
        }
        if !self.random.chance(1, 5) || self.cache.health() != Health::Serving {
            self.unsent();
            return Ok(None);
        }
        self.close()
    }

    /// Writes that still wait for a mark when the process ends never reach their device.
    fn unsent(&mut self) {
        let durable = self.cache.marks_durable();
        self.under_way
            .retain(|under| !matches!(under, Under::Write { token, .. } if token.waits_for() > durable));
    }

    /// Closes the cache, if the cache device does not fail meanwhile: with how many valid blocks.
    fn close(&mut self) -> Result<Option<u64>, String> {
        self.cache.quiesce();
        for _ in 0..10_000 {
            if self.cache.is_settled() && self.under_way.is_empty() {
                self.cache.check();
                return Ok(Some(self.valid()));
            }
            if self.cache.health() != Health::Serving {
                self.unsent();
                return Ok(None);
            }
            self.job();
            self.drain()?;
        }
        Err(format!("a cache that is to be closed does not settle: {:?}", self.cache.statistics()))
    }

    /// Carries out everything that can go on.
    fn drain(&mut self) -> Outcome {
        while let Some(index) = (0..self.under_way.len()).find(|&index| !self.waits(index)) {
            self.advance(index)?;
        }
        Ok(())
    }

    fn waits(&self, index: usize) -> bool {
        let durable = self.cache.marks_durable();
        matches!(&self.under_way[index], Under::Write { token, .. } if token.waits_for() > durable)
    }

    fn step(&mut self) -> Outcome {
        let room = self.under_way.len() < 8;
        match self.random.below(100) {
            0..=14 => self.read()?,
            15..=24 if room => self.write(),
            25..=26 if room => self.discard(),
            27..=29 if room => self.flush()?,
            30..=54 if room => self.job(),
            55 if self.random.chance(1, 20) => self.rare()?,
            56 if self.random.chance(1, 10) => self.resize(),
            _ if !self.under_way.is_empty() => {
                let index = self.random.below(self.under_way.len() as u64) as usize;
                if !self.waits(index) {
                    self.advance(index)?;
                }
            }
            _ => {}
        }
        Ok(())
    }

    fn job(&mut self) {
        let next = match self.random.below(4) {
            0 => self.cache.next_map(self.now),
            1 => self.cache.next_copy(),
            2 => self.cache.next_population(self.now),
            _ => self.cache.next_job(self.now),
        };
        self.take(next);
    }

    fn map_job(&mut self) {
        let next = self.cache.next_map(self.now);
        self.take(next);
    }

    fn take(&mut self, next: Next<'c>) {
        let Next::Job(mut job) = next else { return };
        let (changes, map) = (job_changes(&job, self.devices), job_sectors(&job, self.devices));
        let under = match &mut job {
            Job::WriteBlocks(_) | Job::WriteFragment(_) => Under::Copy { job, left: changes },
            Job::ReadFragment(read) => {
                let first = (read.offset() / HALF) as usize;
                let left = (first..first + read.buffer().len() / HALF as usize).collect();
                Under::Fill { job, left }
            }
            Job::WriteMap(_) => Under::Map { job, left: map },
            Job::FlushCache(_) => Under::FlushCache { job, until: self.devices.flush_cache_begin() },
            Job::FlushBacking(flush) => {
                let until = self.devices.backing[flush.volume()].flush_begin();
                Under::FlushBacking { job, until }
            }
        };
        self.under_way.push(under);
    }

    /// Carries out a part of what is under way, or the rest of it; at its end, ends it.
    fn advance(&mut self, index: usize) -> Outcome {
        let fails = self.random.chance(1, 200);
        let result = if fails { Err(DeviceError) } else { Ok(()) };
        let whole = self.random.chance(1, 2);
        match self.under_way.swap_remove(index) {
            Under::Write { volume, token, mut left, before } => {
                self.some(&mut left, whole, |devices, (half, value)| {
                    devices.backing[volume].write(half, value)
                });
                if left.is_empty() || fails {
                    self.cache.write_end(token, result);
                } else {
                    self.under_way.push(Under::Write { volume, token, left, before });
                }
            }
            Under::Copy { job, mut left } => {
                self.some(&mut left, whole, |devices, (half, value)| devices.slots.write(half, value));
                if left.is_empty() || fails {
                    self.cache.done(job, result);
                } else {
                    self.under_way.push(Under::Copy { job, left });
                }
            }
            Under::Fill { mut job, mut left } => {
                let Job::ReadFragment(read) = &mut job else { unreachable!("a fragment that is read") };
                let (volume, first) = (read.volume(), (read.offset() / HALF) as usize);
                let buffer = read.buffer();
                self.some(&mut left, whole, |devices, half| {
                    let at = (half - first) * HALF as usize;
                    let value = devices.backing[volume].sectors()[half];
                    buffer[at..at + 8].copy_from_slice(&value.to_le_bytes());
                });
                if left.is_empty() || fails {
                    self.cache.done(job, result);
                } else {
                    self.under_way.push(Under::Fill { job, left });
                }
            }
            Under::Map { job, mut left } => {
                self.some(&mut left, whole, |devices, (sector, bytes)| devices.map.write(sector, bytes));
                // One that fails has everything wait; the host of this world does not note that the cache is
                // void, so it is seldom.
                let fails = fails && self.random.chance(1, 20);
                if left.is_empty() || fails {
                    self.cache.done(job, if fails { Err(DeviceError) } else { Ok(()) });
                } else {
                    self.under_way.push(Under::Map { job, left });
                }
            }
            Under::FlushCache { job, until } => {
                let fails = fails && self.random.chance(1, 20);
                if fails {
                    let (slots, map) = until;
                    self.devices.slots.flush_fails(slots, self.random);
                    self.devices.map.flush_fails(map, self.random);
                } else {
                    self.devices.flush_cache_end(until);
                }
                self.cache.done(job, if fails { Err(DeviceError) } else { Ok(()) });
            }
            Under::Flush { volume, token, until } => {
                self.backing_flushed(volume, until, fails);
                self.cache.flush_end(token, result);
            }
            Under::FlushBacking { job, until } => {
                let Job::FlushBacking(flush) = &job else { unreachable!("a flush") };
                self.backing_flushed(flush.volume(), until, fails);
                self.cache.done(job, result);
            }
        }
        Ok(())
    }

    fn backing_flushed(&mut self, volume: usize, until: u64, fails: bool) {
        let device = &mut self.devices.backing[volume];
        if fails { device.flush_fails(until, self.random) } else { device.flush_end(until) }
    }

    /// Carries out some of what is left, or all of it, in any order.
    fn some<T>(&mut self, left: &mut Vec<T>, whole: bool, mut act: impl FnMut(&mut Devices, T)) {
        let count = if whole { left.len() } else { self.random.below(left.len() as u64 + 1) as usize };
        for _ in 0..count {
            let one = left.swap_remove(self.random.below(left.len() as u64) as usize);
            act(self.devices, one);
        }
    }

    /// Blocks that are valid and lie where the cache is by its superblock.
    fn valid(&self) -> u64 {
        let end = self.devices.end();
        let blocks = |volume: usize| self.devices.backing[volume].sectors().len() as u64 / 2;
        let volumes = 0..self.devices.backing.len();
        volumes
            .flat_map(|volume| (0..blocks(volume)).map(move |block| (volume, block)))
            .filter(|&(volume, block)| self.cache.location(volume, block * 4096).is_some_and(|at| at < end))
            .count() as u64
    }

    /// Whether this is what a half of a volume is to be read as: what the backing device has, or had before a
    /// write that is under way.
    fn may_be_read(&self, volume: usize, half: usize, value: u64) -> bool {
        let was_before = |under: &Under<'_>| match under {
            Under::Write { volume: other, before, .. } => *other == volume && before.contains(&(half, value)),
            _ => false,
        };
        self.devices.backing[volume].sectors()[half] == value || self.under_way.iter().any(was_before)
    }

    /// Compares all valid blocks with the backing devices.
    fn compare(&self, when: &str) -> Outcome {
        if self.cache.health() == Health::Offline {
            return Ok(());
        }
        for (volume, backing) in self.devices.backing.iter().enumerate() {
            for (block, halves) in backing.sectors().chunks_exact(2).enumerate() {
                let Some(at) = self.cache.location(volume, block as u64 * 4096) else { continue };
                let first = self.devices.slot_half(at);
                let cached = &self.devices.slots.sectors()[first..first + 2];
                if !(0..2).all(|half| self.may_be_read(volume, 2 * block + half, cached[half])) {
                    return Err(format!(
                        "{when} block {block} of volume {volume} is valid and stale: {cached:x?} for {halves:x?}"
                    ));
                }
            }
        }
        self.cache.check();
        Ok(())
    }
}

/// What a job writes to slots.
fn job_changes(job: &Job<'_>, devices: &Devices) -> Vec<Change> {
    let of = |offset: u64, bytes: &[u8]| -> Vec<Change> {
        let halves = values(bytes).enumerate();
        halves.map(|(at, value)| (devices.slot_half(offset + at as u64 * HALF), value)).collect()
    };
    match job {
        Job::WriteBlocks(write) => write.writes().flat_map(|(offset, bytes)| of(offset, bytes)).collect(),
        Job::WriteFragment(write) => of(write.offset(), write.data()),
        _ => Vec::new(),
    }
}

/// What a job writes to the map.
fn job_sectors(job: &Job<'_>, devices: &Devices) -> Vec<(usize, [u8; SECTOR])> {
    let Job::WriteMap(write) = job else { return Vec::new() };
    let first = (write.offset() - devices.superblock.layout.map_offset) as usize / SECTOR;
    let sectors = write.data().chunks_exact(SECTOR).enumerate();
    sectors.map(|(at, bytes)| (first + at, bytes.try_into().unwrap())).collect()
}
