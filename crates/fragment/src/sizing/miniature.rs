//! A miniature: the fragment cache itself, without devices, of a sample of the fragments.

use crate::cache::Cache;
use crate::config::{Config, ConfigError};
use crate::geometry::Geometry;
use crate::ids::Fragment;
use crate::jobs::{Job, Next};
use crate::read::{Piece, ReadKind};
use crate::shard::Place;

use super::numbers::Numbers;
use super::pace::Pace;
use super::sample::{Scale, key};

/// Looks for populations that one request makes good after a pause.
const LOOKS_MAX: u32 = 64;

/// What was counted since the beginning.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Counted {
    /// Reads that begin in the sample, and those that did not find all of their part there.
    pub(super) reads: u64,
    pub(super) misses: u64,
    /// Bytes written to the cache device.
    pub(super) written: u64,
}

/// What a request does.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Does {
    Read,
    Write,
    Discard,
}

/// A cache of some of the fragments.
pub(super) struct Miniature {
    pub(super) scale: Scale,
    cache: Cache,
    numbers: Numbers,
    /// When there may be a population.
    due: u64,
    pace: Pace,
    reads: u64,
    misses: u64,
}

impl Miniature {
    pub(super) fn new(scale: Scale, cache: &Config) -> Result<Self, ConfigError> {
        let geometry = scale.config(cache).geometry_without_data()?;
        let numbers = Numbers::new(geometry.fragments());
        let pace = Pace::new(scale.sample.share());
        Ok(Self { scale, cache: Cache::heap(geometry), numbers, due: 0, pace, reads: 0, misses: 0 })
    }

    /// Bytes of memory that a miniature of this geometry takes beside its numbers.
    pub(super) fn bytes(geometry: &Geometry) -> u64 {
        // A region on the heap is aligned within what was asked for.
        let region = geometry.region_bytes() + crate::REGION_ALIGNMENT;
        (region + size_of::<Self>()) as u64
    }

    /// Share of its room that is in use.
    pub(super) fn filled(&self) -> f64 {
        self.cache.statistics().slots_used as f64 / f64::from(self.scale.sampled)
    }

    pub(super) fn counted(&self) -> Counted {
        let written = self.cache.statistics().cache_bytes_written();
        Counted { reads: self.reads, misses: self.misses, written }
    }

    /// Its first request comes.
    pub(super) fn begin(&mut self, of: &Cache, now: u64) {
        self.due = now;
        self.pace.begin(super::counted(of), now);
    }

    /// A request of the cache, at a time in ns: those of its parts that are in the sample.
    pub(super) fn request(
        &mut self,
        does: Does,
        (volume, offset, bytes): (usize, u64, u64),
        now: u64,
        of: &Cache,
        pieces: &mut Vec<Piece>,
    ) {
        self.populate(now, of);
        let size = self.scale.point.fragment_bytes;
        let (first, last) = (offset / size, (offset + bytes - 1) / size);
        if does == Does::Discard && last - first > u64::from(self.cache.geometry().fragments()) {
            let known: Vec<u64> = self.numbers.all().map(|(key, _)| key).collect();
            let covered = key(volume, first)..=key(volume, last);
            for unit in known.into_iter().filter(|known| covered.contains(known)) {
                self.part(does, unit, 0..size, false, pieces);
            }
            return;
        }
        for unit in first..=last {
            let key = key(volume, unit);
            if self.scale.sample.has(key) {
                let start = offset.max(unit * size) - unit * size;
                let end = (offset + bytes).min((unit + 1) * size) - unit * size;
                self.part(does, key, start..end, unit == first, pieces);
            }
        }
    }

    fn part(
        &mut self,
        does: Does,
        key: u64,
        bytes: std::ops::Range<u64>,
        counts: bool,
        pieces: &mut Vec<Piece>,
    ) {
        let (cache, size) = (&self.cache, self.scale.point.fragment_bytes);
        let heats = does == Does::Read || (does == Does::Write && cache.admission().writes > 0);
        let number = match self.numbers.find(key) {
            Some(number) => number,
            None if heats => self.numbers.get(key, || kept(cache)),
            // Nothing becomes of it.
            None => return,
        };
        let (offset, length) = (u64::from(number) * size + bytes.start, bytes.end - bytes.start);
        const WITHIN: &str = "a part lies in its fragment";
        let token = match does {
            Does::Read => {
                let kind = cache.read(0, offset, length, pieces).expect(WITHIN);
                self.reads += u64::from(counts);
                self.misses += u64::from(counts && kind != ReadKind::Hit);
                return;
            }
            Does::Write => cache.write_begin_hollow(0, offset, length).expect(WITHIN),
            Does::Discard => cache.discard_begin(0, offset, length).expect(WITHIN),
        };
        cache.write_end(token, Ok(()));
        while let Next::Job(copy) = cache.next_copy() {
            cache.done(copy, Ok(()));
        }
    }

    /// Does the populations that were due by now, each at its time.
    fn populate(&mut self, now: u64, of: &Cache) {
        if self.due > now {
            return;
        }
        self.cache.set_write_mode(of.write_mode());
        self.pace.tell(&self.cache, super::counted(of), self.misses);
        let all = self.cache.geometry().config().population_workers;
        let workers = if of.population_workers() == 0 { 0 } else { all };
        let mut looks = 0;
        while self.due <= now {
            looks += 1;
            let at = if looks < LOOKS_MAX { self.due } else { now };
            let (_, stage) = self.cache.load();
            self.pace.allow(&self.cache.geometry().config().throttle.stages[stage], at);
            let next = loop {
                self.cache.set_population_workers(if self.pace.may_begin() { workers } else { 0 });
                match self.cache.next_population(at) {
                    Next::Job(job) => {
                        if matches!(job, Job::ReadFragment(_)) {
                            self.pace.begun();
                        }
                        self.cache.done(job, Ok(()));
                    }
                    Next::NotBefore(next) => break next,
                }
            };
            // A search that has not come to its end goes on a microsecond later.
            self.due = next.max(at.saturating_add(1000));
        }
    }

    pub(super) fn check(&self) {
        self.cache.check();
    }
}

/// Of which numbers the engine keeps something.
fn kept(cache: &Cache) -> Vec<bool> {
    let fragments = (0..cache.geometry().fragments()).map(Fragment);
    let mut kept: Vec<bool> =
        fragments.map(|fragment| cache.entry(fragment).place() != Place::Absent { writes: 0 }).collect();
    let size = cache.geometry().config().fragment_bytes;
    cache.candidates().iter().for_each(|(_, offset, _)| kept[(offset / size) as usize] = true);
    kept
}
