//! A cache over devices in memory, and requests and jobs that are under way side by side: each a sector at a
//! time, in any order, as the seed says.
//!
//! Invariants checked: a read gets, of each sector, what the backing device had at some moment of the read,
//! or what it had before a write that was not answered then, and nothing older than a read that had ended
//! before; a block that is valid is the same on both devices, or as before such a write; the cache's
//! whole-structure rules.
//!
//! What devices may do: carry out the sectors of a request, and requests under way at a time, in any order;
//! refuse a request after some of its sectors (a write leaves each of those as it was or as it was to be; on
//! the cache device also as neither).
#![allow(dead_code, reason = "not every test uses all of it")]

use mezzanine_fragment::{
    Admission, Cache, Config, DeviceError, Geometry, Job, MapConfig, Next, Piece, Source, Stage, WriteMode,
    WriteToken,
};
use mezzanine_ground::random::Random;

mod bytes;

mod history;

use bytes::{bytes_of, now_at, sectors};
use history::History;

pub(crate) const SECTOR: u64 = 512;
const SECTORS_OF_BLOCK: u64 = 8;

/// What became of a seed: the rule that was broken, if one was.
pub(crate) type Outcome = Result<(), String>;

/// A sector and what is to be written there.
type Change = (usize, u64);

enum Under<'c> {
    Read { volume: usize, begun: u64, pieces: Vec<Piece>, got: Vec<Change>, sectors: Vec<(usize, u64)> },
    Write { volume: usize, token: WriteToken, left: Vec<Change>, values: Vec<Change>, fails: bool },
    Copy { job: Job<'c>, left: Vec<u64>, fails: bool },
    Fill { job: Job<'c>, left: Vec<usize>, fails: bool },
}

pub(crate) struct World<'c> {
    cache: &'c Cache,
    random: Random,
    backing: Vec<Vec<History>>,
    flash: Vec<u64>,
    under_way: Vec<Under<'c>>,
    step: u64,
    now: u64,
    next_value: u64,
    /// One in so many requests and jobs fails; 0: none.
    fails_one_in: u64,
}

/// A small cache in which requests meet: three slots for eight fragments.
pub(crate) fn small(seed: u64) -> Geometry {
    let fragment: u64 = if seed % 4 == 3 { 512 << 10 } else { 128 << 10 };
    // One ends within a block.
    let volumes = [3 * fragment + 20_480 + 3 * SECTOR, 4 * fragment];
    let mut config = Config::new(3 * fragment + 8192, &volumes);
    config.fragment_bytes = fragment;
    config.data_offset = 8192;
    config.shards = 2;
    config.recent_fragments = 5;
    config.population_workers = 1 + (seed % 3) as u32;
    let counts = seed % 2 == 0;
    config.admission = Admission { reads: if seed % 9 == 4 { 2 } else { 1 }, writes: counts.into() };
    config.copy_bytes = if seed % 5 == 0 { 8 * 4096 } else { 256 * 4096 };
    config.flights = if seed % 7 == 0 { 1 } else { 64 };
    config.throttle.stages =
        [8, 4, 2].map(|workers| Stage { workers, miss_percent: 0, free_percent: 0, period_ms: 1 });
    if seed % 3 != 2 {
        let (cache_id, volume_numbers) = ([9; 16], vec![4, 2]);
        config.map = Some(MapConfig {
            cache_id,
            epoch: 1,
            volume_numbers,
            offset: 4096,
            settle_ms: 4,
            waits_per_mille: 10,
        });
    }
    config.geometry().expect("a geometry that can be used")
}

/// Goes through so many steps of a seed, to the end of all that is under way then.
pub(crate) fn run(seed: u64, steps: u64) -> Outcome {
    let cache = Cache::heap(small(seed));
    let mut world = World::new(&cache, seed);
    for _ in 0..steps {
        world.step()?;
    }
    // Nothing may be under way by now, and copies wait all the same.
    world.job();
    while !world.under_way.is_empty() {
        world.step += 1;
        let index = world.random.below(world.under_way.len() as u64) as usize;
        world.advance(index)?;
        world.job();
    }
    world.compare()?;
    cache.check();
    let found = cache.statistics();
    let busy = (found.flights_used, found.copy_blocks_used);
    if busy == (0, 0) { Ok(()) } else { Err(format!("{busy:?} flights and blocks were not given back")) }
}

/// What a cache has done in so many seeds, for tests that want to know that something has happened at all.
pub(crate) fn statistics(seed: u64, steps: u64) -> Vec<(&'static str, u64)> {
    let cache = Cache::heap(small(seed));
    let mut world = World::new(&cache, seed);
    for _ in 0..steps {
        world.step().expect("with all rules in place");
    }
    cache.statistics().named()
}

impl<'c> World<'c> {
    pub(crate) fn new(cache: &'c Cache, seed: u64) -> Self {
        let config = cache.geometry().config();
        let backing = |bytes: &u64| (0..bytes / SECTOR).map(|_| History::new(0)).collect();
        Self {
            cache,
            random: Random::new(seed),
            backing: config.volumes.iter().map(backing).collect(),
            flash: vec![u64::MAX; (config.cache_bytes / SECTOR) as usize],
            under_way: Vec::new(),
            step: 0,
            now: 0,
            next_value: 1,
            fails_one_in: [0, 25, 3][(seed % 3) as usize],
        }
    }

    fn value(&mut self) -> u64 {
        self.next_value += 1;
        self.next_value
    }

    fn fails(&mut self) -> bool {
        self.fails_one_in > 0 && self.random.chance(1, self.fails_one_in)
    }

    pub(crate) fn step(&mut self) -> Outcome {
        self.step += 1;
        self.now += self.random.below(400_000);
        if self.random.chance(1, 400) {
            let mode = if self.random.chance(1, 4) { WriteMode::Around } else { WriteMode::Through };
            self.cache.set_write_mode(mode);
        }
        if self.random.chance(1, 300) {
            let slots = self.random.between(1, 3);
            let fragment = self.cache.geometry().config().fragment_bytes;
            self.cache.resize(slots * fragment).expect("it was made for three");
        }
        let room = self.under_way.len() < 8;
        match self.random.below(10) {
            0..=1 if room => self.read(),
            2 if room => self.write(),
            3 if room && self.random.chance(1, 6) => self.discard(),
            4..=5 if room => self.job(),
            _ if !self.under_way.is_empty() => {
                let index = self.random.below(self.under_way.len() as u64) as usize;
                self.advance(index)?;
            }
            _ => {}
        }
        if self.step % 16 == 0 {
            self.compare()?;
        }
        Ok(())
    }

    /// Some sectors of a volume: mostly the same ones.
    fn place(&mut self) -> (usize, u64, u64) {
        let fragment = self.cache.geometry().config().fragment_bytes / SECTOR;
        let volume = self.random.below(2) as usize;
        let size = self.backing[volume].len() as u64;
        let fragments = size.div_ceil(fragment);
        let first = self.random.below(fragments) * fragment;
        let start = match self.random.below(8) {
            0 => first,
            1 => (first + fragment - self.random.between(1, 24)).min(size - 1),
            2 => first + self.random.below(fragment.min(size - first)),
            3 => (first + 8 * self.random.below(4) + self.random.below(8)).min(size - 1),
            _ => (first + 8 * self.random.below(4)).min(size - 1),
        };
        let sectors = match self.random.below(10) {
            0 => self.random.between(1, 20),
            1 => 2 * fragment,
            2 => fragment,
            3 => 8 * self.random.between(1, 20),
            _ => 8 * self.random.between(1, 3),
        };
        (volume, start, sectors.min(size - start))
    }

    fn read(&mut self) {
        let (volume, start, sectors) = self.place();
        let mut pieces = Vec::new();
        self.cache
            .read(volume, start * SECTOR, sectors * SECTOR, &mut pieces)
            .expect("it lies in the volume");
        let bytes: u64 = pieces.iter().map(|piece| piece.bytes).sum();
        assert_eq!(bytes, sectors * SECTOR, "the pieces are the read");
        let mut read = Under::Read { volume, begun: self.step, pieces, got: Vec::new(), sectors: Vec::new() };
        begin_piece(&mut read);
        self.under_way.push(read);
    }

    fn write(&mut self) {
        let (volume, start, sectors) = self.place();
        let value = self.value();
        let values: Vec<u64> = (0..sectors).map(|sector| value << 16 | (start + sector) & 0xFFFF).collect();
        let data: Vec<u8> = values.iter().flat_map(|&value| bytes_of(value)).collect();
        let token = self.cache.write_begin(volume, start * SECTOR, &data).expect("it lies in the volume");
        let left = values.into_iter().enumerate().map(|(at, value)| (start as usize + at, value)).collect();
        let fails = self.fails();
        self.under_way.push(Under::Write { volume, token, left, values: Vec::new(), fails });
    }

    fn discard(&mut self) {
        let (volume, start, sectors) = self.place();
        let value = self.value() << 16;
        let token = self
            .cache
            .discard_begin(volume, start * SECTOR, sectors * SECTOR)
            .expect("it lies in the volume");
        let left = (start..start + sectors).map(|sector| (sector as usize, value)).collect();
        let fails = self.fails();
        self.under_way.push(Under::Write { volume, token, left, values: Vec::new(), fails });
    }

    fn job(&mut self) {
        let Next::Job(mut job) = self.cache.next_job(self.now) else {
            return;
        };
        let is_maps = matches!(job, Job::WriteMap(_) | Job::FlushCache(_) | Job::FlushBacking(_));
        let fails = self.fails() && !is_maps;
        let under = match &mut job {
            Job::WriteBlocks(write) => {
                let sectors = write.writes().flat_map(|(offset, bytes)| sectors(offset, bytes.len()));
                let left = sectors.collect();
                Under::Copy { job, left, fails }
            }
            Job::WriteFragment(write) => {
                let left = sectors(write.offset(), write.data().len()).collect();
                Under::Copy { job, left, fails }
            }
            Job::ReadFragment(read) => {
                let first = (read.offset() / SECTOR) as usize;
                let left = (first..first + read.buffer().len() / SECTOR as usize).collect();
                Under::Fill { job, left, fails }
            }
            Job::WriteMap(write) => {
                let left = sectors(write.offset(), write.data().len()).collect();
                Under::Copy { job, left, fails }
            }
            Job::FlushCache(_) | Job::FlushBacking(_) => Under::Copy { job, left: Vec::new(), fails },
        };
        self.under_way.push(under);
    }

    fn waits(&self, under: &Under<'c>) -> bool {
        matches!(under, Under::Write { token, .. } if token.waits_for() > self.cache.marks_durable())
    }

    /// How many of what is left are carried out in this step.
    fn some(&mut self, left: usize) -> usize {
        if self.random.chance(1, 3) { left } else { self.random.between(0, left.min(20) as u64) as usize }
    }

    /// Carries out a part of what is under way; at its end, ends it.
    fn advance(&mut self, index: usize) -> Outcome {
        // What has failed stops wherever it is.
        let stops = self.random.chance(1, 3);
        match self.under_way.swap_remove(index) {
            read @ Under::Read { .. } => self.advance_read(read),
            write @ Under::Write { .. } if self.waits(&write) => {
                self.under_way.push(write);
                Ok(())
            }
            Under::Write { volume, token, mut left, mut values, fails } => {
                for _ in 0..self.some(left.len()) {
                    let at = self.random.below(left.len() as u64) as usize;
                    let (sector, value) = left.swap_remove(at);
                    self.backing[volume][sector].set(self.step, value);
                    values.push((sector, value));
                }
                if left.is_empty() || (fails && stops) {
                    for (sector, value) in values {
                        self.backing[volume][sector].answered(self.step, value);
                    }
                    self.cache.write_end(token, if fails { Err(DeviceError) } else { Ok(()) });
                } else {
                    self.under_way.push(Under::Write { volume, token, left, values, fails });
                }
                Ok(())
            }
            Under::Copy { job, mut left, fails } => {
                for _ in 0..self.some(left.len()) {
                    let at = self.random.below(left.len() as u64) as usize;
                    let sector = left.swap_remove(at);
                    let torn = fails && self.random.chance(1, 4);
                    self.flash[sector as usize] = if torn { u64::MAX } else { now_at(&job, sector) };
                }
                if left.is_empty() || (fails && stops) {
                    self.cache.done(job, if fails { Err(DeviceError) } else { Ok(()) });
                } else {
                    self.under_way.push(Under::Copy { job, left, fails });
                }
                Ok(())
            }
            Under::Fill { mut job, mut left, fails } => {
                for _ in 0..self.some(left.len()) {
                    let at = self.random.below(left.len() as u64) as usize;
                    let sector = left.swap_remove(at);
                    let Job::ReadFragment(read) = &mut job else { unreachable!("a fragment that is read") };
                    let bytes = bytes_of(self.backing[read.volume()][sector].now());
                    let at = sector * SECTOR as usize - read.offset() as usize;
                    read.buffer()[at..at + SECTOR as usize].copy_from_slice(&bytes);
                }
                if left.is_empty() || (fails && stops) {
                    self.cache.done(job, if fails { Err(DeviceError) } else { Ok(()) });
                } else {
                    self.under_way.push(Under::Fill { job, left, fails });
                }
                Ok(())
            }
        }
    }

    fn advance_read(&mut self, mut under: Under<'c>) -> Outcome {
        let mut ended = false;
        let failed = self.fails();
        if let Under::Read { volume, begun, pieces, got, sectors } = &mut under {
            for _ in 0..self.some(sectors.len()) {
                let (sector, from) = sectors.pop().expect("some are left");
                let value = match pieces[0].source {
                    Source::Backing => self.backing[*volume][sector].now(),
                    Source::Cache(_) => self.flash[from as usize],
                };
                got.push((sector, value));
            }
            if sectors.is_empty() {
                let is_cached = pieces[0].source != Source::Backing;
                if is_cached && failed {
                    self.cache.read_failed(&pieces[0]);
                    pieces[0].source = Source::Backing;
                } else if !self.cache.confirm(&pieces[0]) {
                    pieces[0].source = Source::Backing;
                } else {
                    self.judge(*volume, *begun, got)?;
                    pieces.remove(0);
                }
                got.clear();
                ended = pieces.is_empty();
                begin_piece(&mut under);
            }
        }
        if !ended {
            self.under_way.push(under);
        }
        Ok(())
    }

    /// Whether what was read is what was to be read meanwhile, and nothing older than others have got.
    fn judge(&mut self, volume: usize, begun: u64, got: &[Change]) -> Outcome {
        for &(sector, value) in got {
            let history = &mut self.backing[volume][sector];
            if !history.had(value, begun, self.step) || !history.is_in_order(value, begun, self.step) {
                return Err(format!(
                    "step {}: a read since step {begun} got {value:#x} of sector {sector} of volume {volume}, which \
                     has {:#x}",
                    self.step,
                    history.now()
                ));
            }
        }
        Ok(())
    }

    /// Compares all valid blocks with the backing devices.
    pub(crate) fn compare(&self) -> Outcome {
        let geometry = self.cache.geometry();
        let is_resized = self.cache.is_resized();
        let fragment = geometry.config().fragment_bytes;
        let end = geometry.data_offset() + u64::from(self.cache.slots_limit()) * fragment;
        let writes_behind = |under: &Under<'_>| match under {
            Under::Copy { job: Job::WriteBlocks(_) | Job::WriteFragment(_), left, .. } => {
                left.iter().any(|&sector| sector * SECTOR >= end)
            }
            _ => false,
        };
        if is_resized && self.under_way.iter().any(writes_behind) {
            return Err(format!("step {}: something is on its way behind {end}", self.step));
        }
        for (volume, sectors) in self.backing.iter().enumerate() {
            for block in 0..(sectors.len() as u64).div_ceil(SECTORS_OF_BLOCK) {
                let Some(at) = self.cache.location(volume, block * 4096) else {
                    continue;
                };
                if is_resized && at >= end {
                    return Err(format!("step {}: something is at {at}, behind {end}", self.step));
                }
                for sector in 0..SECTORS_OF_BLOCK {
                    let cached = self.flash[(at / SECTOR + sector) as usize];
                    let history = sectors.get((block * SECTORS_OF_BLOCK + sector) as usize);
                    let there = history.map(History::now);
                    if !history.is_some_and(|history| history.may_be_kept(cached)) {
                        return Err(format!(
                            "step {}: block {block} of volume {volume} is valid and stale: {cached:#x} for {there:#x?}",
                            self.step
                        ));
                    }
                }
            }
        }
        Ok(())
    }
}

/// Lists the sectors of the piece that is read next, last first, and where they are read.
fn begin_piece(under: &mut Under<'_>) {
    if let Under::Read { pieces, sectors, .. } = under {
        if let Some(piece) = pieces.first() {
            let from = match piece.source {
                Source::Backing => piece.offset,
                Source::Cache(offset) => offset,
            };
            let count = piece.bytes / SECTOR;
            let pairs =
                (0..count).rev().map(|at| ((piece.offset / SECTOR + at) as usize, from / SECTOR + at));
            *sectors = pairs.collect();
        }
    }
}
