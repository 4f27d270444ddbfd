//! dm-cache, write-through, with the policy smq: blocks of 64 KiB, brought in behind the requests.
//!
//! The kernel's `Documentation/admin-guide/device-mapper/cache.rst`. Which blocks come in and which one
//! leaves is `smq.rs`.
//!
//! *Reads* of blocks that are there come from the cache device, others from the backing device; nobody waits
//! for a block to come in, which is a read of 64 KiB of the backing device and a write of the cache device.
//!
//! *Writes* go to both devices at once where the block is there, and to the backing device otherwise.
//!
//! *Bringing in*: at most 1 MiB is on its way at a time (`migration_threshold`, 2,048 sectors); what is to
//! come in beyond that is not remembered.
//!
//! *Metadata* are committed each second in which something came in: a block of the map for each 512 entries,
//! at most as many as came in, and a superblock.
//!
//! Left out: dirty blocks. A write to a block that is on its way in does not wait for it: the block does not
//! come in then.
//!
//! 1. A block of the volume is in one block of the cache at most.
//! 2. What is written while it is on its way in does not come in.

use super::super::super::setup::Refusal;
use super::super::between::{Ask, Between, Device, Next, Request, Tally};
use super::super::setup::{BLOCK_BYTES, BlockSetup};
use super::smq::{Smq, TICK_NS};
use super::{NONE, at_least, merge, units};

pub(super) const UNIT_BYTES: u64 = 64 << 10;
const MIGRATION_BYTES: u64 = 1 << 20;
const ON_THEIR_WAY_MAX: usize = (MIGRATION_BYTES / UNIT_BYTES) as usize;
/// Of the map on the cache device: entries of 8 bytes in blocks of 4 KiB.
const ENTRIES_PER_BLOCK: u64 = 512;
/// Memory for a block: 0.4 MiB for a GiB in blocks of 64 KiB.
pub(super) const BYTES_PER_UNIT: u64 = 26;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Phase {
    /// It is to begin.
    Waiting,
    Reading,
    Writing,
}

#[derive(Debug, Clone, Copy)]
struct Promotion {
    unit: u32,
    place: u32,
    phase: Phase,
    counts: bool,
}

#[derive(Debug, Clone, Copy)]
enum Job {
    Promotion(Promotion),
    Commit,
}

/// The cache.
pub(super) struct DmCache {
    smq: Smq,
    /// By block of the volume, and by block of the cache.
    place_of: Vec<u32>,
    unit_of: Vec<u32>,
    free: Vec<u32>,
    /// By block of the volume: it is on its way in.
    is_coming: Vec<bool>,
    jobs: Vec<Option<Job>>,
    /// Promotions that are under way or to begin.
    promotions: usize,
    next_tick: u64,
    announced: u64,
    came_in: u64,
    is_committing: bool,
    /// A commit is due.
    commits: bool,
    volume_bytes: u64,
    tally: Tally,
}

impl DmCache {
    /// # Errors
    /// If the cache device has no room for a block.
    pub(super) fn new(setup: &BlockSetup) -> Result<Self, Refusal> {
        at_least(setup, UNIT_BYTES, "a block")?;
        let blocks = units(setup, UNIT_BYTES)?;
        let places = (setup.cache_bytes / UNIT_BYTES).min(u64::from(NONE) - 1) as u32;
        Ok(Self {
            smq: Smq::new(blocks, places),
            place_of: vec![NONE; blocks as usize],
            unit_of: vec![NONE; places as usize],
            free: (0..places).rev().collect(),
            is_coming: vec![false; blocks as usize],
            jobs: Vec::new(),
            promotions: 0,
            next_tick: TICK_NS,
            announced: 0,
            came_in: 0,
            is_committing: false,
            commits: false,
            volume_bytes: setup.volume_bytes,
            tally: Tally::default(),
        })
    }

    fn slot(&mut self, job: Job) -> u32 {
        let number = self.jobs.iter().position(Option::is_none).unwrap_or_else(|| {
            self.jobs.push(None);
            self.jobs.len() - 1
        });
        self.jobs[number] = Some(job);
        number as u32
    }

    /// A block is to come in, if there is a place for it.
    fn promote(&mut self, unit: u32) {
        if self.promotions == ON_THEIR_WAY_MAX || self.is_coming[unit as usize] {
            return;
        }
        let place = match self.free.pop() {
            Some(place) => place,
            None => {
                let Some(place) = self.smq.leave() else { return };
                let unit = std::mem::replace(&mut self.unit_of[place as usize], NONE);
                self.place_of[unit as usize] = NONE;
                place
            }
        };
        self.is_coming[unit as usize] = true;
        self.promotions += 1;
        self.slot(Job::Promotion(Promotion { unit, place, phase: Phase::Waiting, counts: true }));
    }

    /// The promotion of a block that is on its way in.
    fn coming(&mut self, unit: u32) -> Option<&mut Promotion> {
        self.jobs.iter_mut().find_map(|job| match job {
            Some(Job::Promotion(promotion)) if promotion.unit == unit => Some(promotion),
            _ => None,
        })
    }

    fn home(&self, unit: u32) -> (u64, u64) {
        let offset = u64::from(unit) * UNIT_BYTES;
        (offset, UNIT_BYTES.min(self.volume_bytes - offset))
    }

    fn commit(&mut self, round: &mut Vec<Ask>) -> u32 {
        let map_blocks = (self.unit_of.len() as u64).div_ceil(ENTRIES_PER_BLOCK).min(self.came_in);
        let bytes = (map_blocks + 1) * BLOCK_BYTES;
        round.push(Ask::write(Device::Cache, 0, bytes));
        self.tally.index_bytes += bytes;
        (self.came_in, self.commits, self.is_committing) = (0, false, true);
        self.slot(Job::Commit)
    }
}

fn at(place: u32) -> u64 {
    u64::from(place) * UNIT_BYTES
}

impl Between for DmCache {
    fn begin(&mut self, _who: u32, request: Request, _now: u64, round: &mut Vec<Ask>) {
        let (mut from, end) = (request.offset, request.offset + request.bytes);
        let mut hit = true;
        if request.is_write {
            round.push(Ask::write(Device::Backing, request.offset, request.bytes));
        }
        while from < end {
            let unit = (from / UNIT_BYTES) as u32;
            let to = end.min(u64::from(unit + 1) * UNIT_BYTES);
            let is_hot = self.smq.requested(unit);
            let place = self.place_of[unit as usize];
            let within = from - u64::from(unit) * UNIT_BYTES;
            if place != NONE {
                self.smq.hit(place);
                let (offset, bytes) = (at(place) + within, to - from);
                if request.is_write {
                    self.tally.written_bytes += bytes;
                    round.push(Ask::write(Device::Cache, offset, bytes));
                } else {
                    merge(round, Ask::read(Device::Cache, offset, bytes));
                }
            } else {
                hit = false;
                if request.is_write && self.is_coming[unit as usize] {
                    self.coming(unit).expect("it is on its way").counts = false;
                } else if is_hot {
                    self.promote(unit);
                }
                if !request.is_write {
                    merge(round, Ask::read(Device::Backing, from, to - from));
                }
            }
            from = to;
        }
        if !request.is_write {
            self.tally.reads += 1;
            self.tally.reads_hit += u64::from(hit);
        }
    }

    fn go_on(&mut self, _who: u32, _now: u64, _round: &mut Vec<Ask>) {}

    fn may_have_job(&self, now: u64) -> bool {
        let waits =
            |job: &Option<Job>| matches!(job, Some(Job::Promotion(Promotion { phase: Phase::Waiting, .. })));
        now >= self.next_tick
            || self.announced != self.next_tick
            || (self.commits && !self.is_committing)
            || (self.promotions > 0 && self.jobs.iter().any(waits))
    }

    fn next_job(&mut self, now: u64, round: &mut Vec<Ask>) -> Next {
        while now >= self.next_tick {
            self.next_tick += TICK_NS;
            self.smq.tick();
            self.commits |= self.came_in > 0;
        }
        if self.commits && !self.is_committing {
            return Next::Job(self.commit(round));
        }
        for number in 0..self.jobs.len() {
            if let Some(Job::Promotion(promotion)) = &mut self.jobs[number] {
                if promotion.phase == Phase::Waiting {
                    promotion.phase = Phase::Reading;
                    let (offset, bytes) = {
                        let unit = promotion.unit;
                        self.home(unit)
                    };
                    round.push(Ask::read(Device::Backing, offset, bytes));
                    return Next::Job(number as u32);
                }
            }
        }
        self.announced = self.next_tick;
        Next::NotBefore(self.next_tick)
    }

    fn job_goes_on(&mut self, job: u32, _now: u64, round: &mut Vec<Ask>) {
        let Some(Job::Promotion(mut promotion)) = self.jobs[job as usize] else {
            self.is_committing = false;
            self.jobs[job as usize] = None;
            return;
        };
        let Promotion { unit, place, phase, counts } = promotion;
        if phase == Phase::Reading && counts {
            let bytes = self.home(unit).1;
            self.tally.populated_bytes += bytes;
            round.push(Ask::write(Device::Cache, at(place), bytes));
            promotion.phase = Phase::Writing;
            self.jobs[job as usize] = Some(Job::Promotion(promotion));
            return;
        }
        self.is_coming[unit as usize] = false;
        self.promotions -= 1;
        self.jobs[job as usize] = None;
        if !counts {
            self.free.push(place);
            return;
        }
        self.place_of[unit as usize] = place;
        self.unit_of[place as usize] = unit;
        self.smq.came_in(place);
        self.came_in += 1;
    }

    fn tally(&self) -> Tally {
        self.tally
    }

    fn memory_bytes(&self) -> u64 {
        self.unit_of.len() as u64 * BYTES_PER_UNIT
    }

    fn check(&self) {
        for (unit, place) in self.place_of.iter().enumerate() {
            assert!(
                *place == NONE || self.unit_of[*place as usize] == unit as u32,
                "invariant 1: block {unit}"
            );
        }
        for (place, unit) in self.unit_of.iter().enumerate() {
            assert!(
                *unit == NONE || self.place_of[*unit as usize] == place as u32,
                "invariant 1: place {place}"
            );
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::super::super::setup::BlockCache;
    use super::super::tests::{Host, setup};
    use super::*;

    /// A volume of 2,048 blocks of 64 KiB, and a cache of so many, of which the second second has begun: the
    /// last areas are hot.
    fn dm_cache(places: u64) -> Host<DmCache> {
        let setup = setup(BlockCache::DmCache, 2048 * 16, places * 16);
        let mut host = Host::new(DmCache::new(&setup).unwrap());
        for unit in 0..2048 {
            host.read(unit * 16, 1);
        }
        assert!(host.work().is_empty(), "nothing comes in in the first second");
        host.now = TICK_NS;
        assert!(host.work().is_empty());
        host
    }

    #[test]
    fn a_hot_block_comes_in_behind_the_request() {
        let mut host = dm_cache(4096);
        let block = 2047 * 16 + 3;
        assert_eq!(host.read(block, 2), [format!("read backing {block}+2")]);
        assert_eq!(host.work(), ["read backing 32752+16", "write cache 0+16"]);
        assert_eq!(host.read(block, 2), ["read cache 3+2"]);
        assert_eq!(host.write(block, 1), [format!("write backing {block}"), "write cache 3".to_owned()]);
        assert_eq!(host.read(0, 1), ["read backing 0"]);
        assert!(host.work().is_empty(), "what is not hot does not come in");
        // A block of the map and the superblock.
        host.now = 2 * TICK_NS;
        assert_eq!(host.work(), ["write cache 0+2"]);
    }

    #[test]
    fn sixteen_blocks_are_on_their_way_at_most() {
        let mut host = dm_cache(4096);
        for unit in 2000..2040 {
            host.read(unit * 16, 1);
        }
        let reads = host.work().iter().filter(|asked| asked.starts_with("read")).count();
        assert_eq!(reads, 16);
    }

    #[test]
    fn what_is_written_on_its_way_in_does_not_come_in() {
        let mut host = dm_cache(4096);
        host.read(2047 * 16, 1);
        let (job, _) = host.begin_job().unwrap();
        assert_eq!(host.write(2047 * 16 + 5, 1), ["write backing 32757"]);
        assert!(host.job_goes_on(job).is_empty());
        assert_eq!(host.read(2047 * 16, 1), ["read backing 32752"]);
        assert_eq!(host.work(), ["read backing 32752+16", "write cache 0+16"], "its place is free again");
    }

    #[test]
    fn the_oldest_leaves_when_there_is_no_room() {
        let mut host = dm_cache(2);
        for unit in [2047, 2046, 2045] {
            host.read(unit * 16, 1);
            host.work();
        }
        assert_eq!(host.between.place_of[2047], NONE);
        assert!(host.between.place_of[2046] != NONE && host.between.place_of[2045] != NONE);
    }
}
