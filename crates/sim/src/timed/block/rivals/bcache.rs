//! bcache: extents in buckets of 512 KiB, an index on the cache device, streams go past it.
//!
//! "Flash as cache extension for online transactional workloads" (2015), section 6.5; "Flash-Conscious Cache
//! Population for Enterprise Database Workloads" (ADMS 2014), sections 2 and 4.3; and the kernel's
//! `Documentation/admin-guide/bcache.rst` for what has a name there.
//!
//! *Buckets.* What comes in is appended to one of six open buckets: to the one whose last block is the one
//! before it on the volume, else to the one that the same client wrote to last, else to the one that was
//! written longest ago. A full bucket is closed. With none free the closed bucket that was used longest ago
//! is emptied, whatever is in it.
//!
//! *Reads.* What is there comes from the cache device; if its bucket was emptied meanwhile, it is read again.
//! What is not comes from the backing device, is answered, and is brought in afterwards.
//!
//! *Writes* go to both devices at once. Written back, they go to the cache device alone, and are answered
//! when it has them; nobody waits for their keys. Where more than 70 % of the buckets hold something dirty
//! (`cutoff_writeback_sync`) or there is no bucket, they go to both. A bucket with dirty blocks is not
//! emptied.
//!
//! *Writing back*, in the order of the volume: what is dirty beyond 10 % of the cache (`writeback_percent`,
//! to which a controller of the rate comes in the end), and, while no bucket can be emptied, what is dirty at
//! all, which is assumed. Blocks side by side go as one, sixteen such runs at a time.
//!
//! *Streams.* A request that begins where one of the last 128 streams ended continues it. Once a stream has
//! more than 4 MiB (`sequential_cutoff`) its reads are not brought in, and its writes go to the backing
//! device alone.
//!
//! *Index.* A key of 24 bytes for each extent that was brought in or written. Keys are written to the journal
//! within 100 ms (`journal_delay_ms`), whole blocks each time, and once more into the leaves, a block for as
//! many keys as fit one. Nobody waits for either.
//!
//! Left out: congestion, the mean size of a task's requests beside its stream, garbage collection
//! of buckets that are empty in part, splits of nodes.
//!
//! 1. A block of the volume is in one place at most, and each place has one.
//! 2. What is written while it is on its way in is not brought in.
//! 3. A bucket that something is on its way into is not emptied, nor one that holds something dirty.
//! 4. What is dirty has a place, and what is written while it is written back stays dirty.

use std::collections::{BTreeSet, HashMap, VecDeque};

use super::super::super::setup::Refusal;
use super::super::between::{Ask, Between, Device, Next, Request, Tally};
use super::super::setup::{BLOCK_BYTES, BlockSetup, Writes};
use super::links::Links;
use super::{NONE, at_least, merge, units};

pub(super) const BUCKET_BYTES: u64 = 512 << 10;
const BUCKET_BLOCKS: u32 = (BUCKET_BYTES / BLOCK_BYTES) as u32;
const OPEN_BUCKETS: usize = 6;
const SEQUENTIAL_CUTOFF: u64 = 4 << 20;
const STREAMS: usize = 128;
const KEY_BYTES: u64 = 24;
const JOURNAL_DELAY_NS: u64 = 100_000_000;
/// Of all blocks, how many are dirty when writing back begins, and of all buckets, how many hold some of them
/// when writes go to both devices.
const WRITEBACK_PERCENT: u64 = 10;
const CUTOFF_WRITEBACK_SYNC: u64 = 70;
const WRITE_BACKS_MAX: u32 = 16;
/// Of memory for a bucket: pins, priority, generation and marks of `struct bucket`.
pub(super) const BYTES_PER_BUCKET: u64 = 12;

struct Open {
    bucket: u32,
    filled: u32,
    /// The block of the volume that would continue it, and who wrote to it last.
    next_block: u32,
    who: u32,
}

/// A run of blocks side by side on the volume and on the cache device.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Extent {
    block: u32,
    blocks: u32,
    place: u32,
}

#[derive(Default)]
struct State {
    /// Blocks read from places whose buckets had these generations.
    hits: Vec<(u32, u32, u32)>,
    /// Runs of blocks that are to be brought in, without a place yet.
    missed: Vec<(u32, u32)>,
    written: Vec<Extent>,
    is_back: bool,
}

enum Job {
    /// Extents on their way in.
    Fill(Vec<Extent>),
    Index,
    /// Blocks of the volume side by side, which are read and then written.
    WriteBack {
        first: u32,
        blocks: u32,
        is_read: bool,
    },
}

/// What is newer than the backing device, if clients' writes are written back.
struct Dirty {
    /// Blocks of the volume, and those of them whose contents are on their way to the backing device.
    blocks: BTreeSet<u32>,
    leaving: BTreeSet<u32>,
    /// Of each bucket, and how many buckets have any.
    of_bucket: Vec<u32>,
    buckets: u32,
    jobs: u32,
    /// Where writing back goes on.
    next: u32,
    /// No bucket could be emptied when one was needed last.
    is_short: bool,
}

impl Dirty {
    fn new(buckets: usize) -> Self {
        Self {
            blocks: BTreeSet::new(),
            leaving: BTreeSet::new(),
            of_bucket: vec![0; buckets],
            buckets: 0,
            jobs: 0,
            next: 0,
            is_short: false,
        }
    }

    fn add(&mut self, block: u32, bucket: u32) {
        assert!(self.blocks.insert(block), "invariant 4: block {block} was forgotten before");
        self.of_bucket[bucket as usize] += 1;
        self.buckets += u32::from(self.of_bucket[bucket as usize] == 1);
    }

    /// A block that lies in this bucket is not dirty any more.
    fn remove(&mut self, block: u32, bucket: u32) {
        self.leaving.remove(&block);
        if self.blocks.remove(&block) {
            self.of_bucket[bucket as usize] -= 1;
            self.buckets -= u32::from(self.of_bucket[bucket as usize] == 0);
        }
    }

    /// Whether something is to be written back, of a cache of so many blocks.
    fn is_due(&self, blocks: u64) -> bool {
        let waiting = (self.blocks.len() - self.leaving.len()) as u64;
        let is_above = waiting * 100 > WRITEBACK_PERCENT * blocks || self.is_short;
        self.jobs < WRITE_BACKS_MAX && waiting > 0 && is_above
    }

    /// The next blocks side by side, in the order of the volume, round and round.
    fn run(&mut self) -> (u32, u32) {
        let from = self.blocks.range(self.next..).chain(self.blocks.range(..self.next));
        let first = *from.clone().find(|block| !self.leaving.contains(*block)).expect("something is due");
        let is_next = |block: &u32| self.blocks.contains(block) && !self.leaving.contains(block);
        let blocks = (first..).take(BUCKET_BLOCKS as usize).take_while(is_next).count() as u32;
        self.leaving.extend(first..first + blocks);
        self.next = first + blocks;
        (first, blocks)
    }
}

/// The cache.
pub(super) struct Bcache {
    /// By block of the volume, and by block of the cache device.
    place_of: Vec<u32>,
    block_of: Vec<u32>,
    /// How often each bucket was emptied, and what is on its way into it.
    generations: Vec<u32>,
    pins: Vec<u32>,
    /// Closed buckets, those in front that were used longest ago; and free ones.
    closed: Links,
    is_closed: Vec<bool>,
    free: Vec<u32>,
    /// Least recently written first.
    open: Vec<Open>,
    /// Blocks on their way in, and whether they count still.
    coming: HashMap<u32, bool>,
    fills: VecDeque<(u32, u32, u32)>,
    requests: Vec<State>,
    /// Ends of streams in bytes and how long they are, most recent last.
    streams: VecDeque<(u64, u64)>,
    jobs: Vec<Option<Job>>,
    keys: u64,
    leaf_keys: u64,
    /// When the journal is written; the host knows of it once it was announced.
    journal_at: u64,
    announced: u64,
    index_is_written: bool,
    index_next: u64,
    dirty: Option<Dirty>,
    tally: Tally,
}

impl Bcache {
    /// # Errors
    /// If the cache device has no room for its buckets.
    pub(super) fn new(setup: &BlockSetup, writes: Writes) -> Result<Self, Refusal> {
        at_least(setup, 2 * OPEN_BUCKETS as u64 * BUCKET_BYTES, "twice as many buckets as are open")?;
        let blocks = units(setup, BLOCK_BYTES)?;
        let buckets = (setup.cache_bytes / BUCKET_BYTES) as u32;
        let mut free: Vec<u32> = (0..buckets).rev().collect();
        let open = std::iter::from_fn(|| free.pop()).take(OPEN_BUCKETS);
        let open = open.map(|bucket| Open { bucket, filled: 0, next_block: NONE, who: NONE }).collect();
        Ok(Self {
            place_of: vec![NONE; blocks as usize],
            block_of: vec![NONE; buckets as usize * BUCKET_BLOCKS as usize],
            generations: vec![0; buckets as usize],
            pins: vec![0; buckets as usize],
            closed: Links::new(buckets as usize, 1),
            is_closed: vec![false; buckets as usize],
            free,
            open,
            coming: HashMap::new(),
            fills: VecDeque::new(),
            requests: std::iter::repeat_with(State::default).take(setup.clients as usize).collect(),
            streams: VecDeque::new(),
            jobs: Vec::new(),
            keys: 0,
            leaf_keys: 0,
            journal_at: u64::MAX,
            announced: u64::MAX,
            index_is_written: false,
            index_next: 0,
            dirty: (writes == Writes::Back).then(|| Dirty::new(buckets as usize)),
            tally: Tally::default(),
        })
    }

    fn used(&mut self, bucket: u32) {
        if self.is_closed[bucket as usize] {
            self.closed.remove(0, bucket);
            self.closed.push_last(0, bucket);
        }
    }

    /// An empty bucket in place of a full one.
    fn fresh_bucket(&mut self) -> Option<u32> {
        if let Some(bucket) = self.free.pop() {
            return Some(bucket);
        }
        let mut oldest = std::iter::successors(self.closed.first(0), |bucket| self.closed.after(*bucket));
        let is_clean =
            |bucket: u32| self.dirty.as_ref().is_none_or(|dirty| dirty.of_bucket[bucket as usize] == 0);
        let found = oldest.find(|bucket| self.pins[*bucket as usize] == 0 && is_clean(*bucket));
        if let Some(dirty) = &mut self.dirty {
            dirty.is_short = found.is_none();
        }
        let bucket = found?;
        self.closed.remove(0, bucket);
        self.is_closed[bucket as usize] = false;
        self.generations[bucket as usize] += 1;
        for place in bucket * BUCKET_BLOCKS..(bucket + 1) * BUCKET_BLOCKS {
            let block = std::mem::replace(&mut self.block_of[place as usize], NONE);
            if block != NONE {
                self.place_of[block as usize] = NONE;
            }
        }
        Some(bucket)
    }

    /// A place for some of a run of blocks; none, if every bucket has something on its way.
    fn place(&mut self, who: u32, block: u32, blocks: u32) -> Option<Extent> {
        let continues = self.open.iter().position(|open| open.next_block == block);
        let number = continues.or_else(|| self.open.iter().position(|open| open.who == who)).unwrap_or(0);
        let mut open = self.open.remove(number);
        if open.filled == BUCKET_BLOCKS {
            let Some(fresh) = self.fresh_bucket() else {
                self.open.insert(number, open);
                return None;
            };
            self.is_closed[open.bucket as usize] = true;
            self.closed.push_last(0, open.bucket);
            (open.bucket, open.filled) = (fresh, 0);
        }
        let blocks = blocks.min(BUCKET_BLOCKS - open.filled);
        let place = open.bucket * BUCKET_BLOCKS + open.filled;
        open.filled += blocks;
        (open.next_block, open.who) = (block + blocks, who);
        self.pins[open.bucket as usize] += 1;
        self.open.push(open);
        Some(Extent { block, blocks, place })
    }

    /// Places for all of a run, as far as there are some.
    fn places(&mut self, who: u32, mut block: u32, mut blocks: u32) -> Vec<Extent> {
        let mut extents = Vec::new();
        while blocks > 0 {
            let Some(extent) = self.place(who, block, blocks) else { break };
            (block, blocks) = (block + extent.blocks, blocks - extent.blocks);
            extents.push(extent);
        }
        extents
    }

    /// What was known of a block is wrong from now on.
    fn forget(&mut self, block: u32) {
        let place = std::mem::replace(&mut self.place_of[block as usize], NONE);
        if place != NONE {
            self.block_of[place as usize] = NONE;
            if let Some(dirty) = &mut self.dirty {
                dirty.remove(block, place / BUCKET_BLOCKS);
            }
        }
        if let Some(counts) = self.coming.get_mut(&block) {
            *counts = false;
        }
    }

    /// An extent is on the cache device; those of its blocks that count are found there from now on.
    fn arrived(&mut self, extent: Extent, now: u64, is_dirty: bool, counts: impl Fn(&mut Self, u32) -> bool) {
        for number in 0..extent.blocks {
            let (block, place) = (extent.block + number, extent.place + number);
            if counts(self, block) && self.place_of[block as usize] == NONE {
                self.place_of[block as usize] = place;
                self.block_of[place as usize] = block;
                if is_dirty {
                    let dirty = self.dirty.as_mut().expect("it is written back");
                    dirty.add(block, place / BUCKET_BLOCKS);
                }
            }
        }
        self.pins[(extent.place / BUCKET_BLOCKS) as usize] -= 1;
        self.key(now);
    }

    /// Whether a request is of a stream that is too long.
    fn is_stream(&mut self, request: Request) -> bool {
        let known = self.streams.iter().rposition(|(end, _)| *end == request.offset);
        let before = known.and_then(|number| self.streams.remove(number)).map_or(0, |(_, bytes)| bytes);
        if self.streams.len() == STREAMS {
            self.streams.pop_front();
        }
        self.streams.push_back((request.offset + request.bytes, before + request.bytes));
        before + request.bytes > SEQUENTIAL_CUTOFF
    }

    fn begin_read(&mut self, who: u32, first: u32, blocks: u32, brings_in: bool, round: &mut Vec<Ask>) {
        let mut hits = 0;
        for block in first..first + blocks {
            let place = self.place_of[block as usize];
            if place != NONE {
                let bucket = place / BUCKET_BLOCKS;
                self.used(bucket);
                let generation = self.generations[bucket as usize];
                self.requests[who as usize].hits.push((block, bucket, generation));
                merge(round, Ask::read(Device::Cache, at(place), BLOCK_BYTES));
                hits += 1;
                continue;
            }
            merge(round, home(block));
            let missed = &mut self.requests[who as usize].missed;
            if !brings_in || self.coming.contains_key(&block) {
                continue;
            }
            self.coming.insert(block, true);
            match missed.last_mut() {
                Some((start, length)) if *start + *length == block => *length += 1,
                _ => missed.push((block, 1)),
            }
        }
        self.tally.reads += 1;
        self.tally.reads_hit += u64::from(hits == blocks);
    }

    fn begin_job(&mut self, job: Job) -> u32 {
        let number = self.jobs.iter().position(Option::is_none).unwrap_or_else(|| {
            self.jobs.push(None);
            self.jobs.len() - 1
        });
        self.jobs[number] = Some(job);
        number as u32
    }

    /// Whether a write goes to the cache device alone.
    fn may_write_back(&self) -> bool {
        let most = CUTOFF_WRITEBACK_SYNC * self.generations.len() as u64;
        self.dirty.as_ref().is_some_and(|dirty| u64::from(dirty.buckets) * 100 <= most)
    }

    fn write_back_is_due(&self) -> bool {
        self.dirty.as_ref().is_some_and(|dirty| dirty.is_due(self.block_of.len() as u64))
    }

    fn begin_write_back(&mut self, round: &mut Vec<Ask>) -> u32 {
        let dirty = self.dirty.as_mut().expect("something is due");
        dirty.jobs += 1;
        let (first, blocks) = dirty.run();
        for block in first..first + blocks {
            merge(round, Ask::read(Device::Cache, at(self.place_of[block as usize]), BLOCK_BYTES));
        }
        self.begin_job(Job::WriteBack { first, blocks, is_read: false })
    }

    /// The backing device has what these blocks were; those that were not written since are clean.
    fn wrote_back(&mut self, first: u32, blocks: u32, now: u64) {
        let dirty = self.dirty.as_mut().expect("it was written back");
        dirty.jobs -= 1;
        for block in first..first + blocks {
            if dirty.leaving.contains(&block) {
                dirty.remove(block, self.place_of[block as usize] / BUCKET_BLOCKS);
            }
        }
        self.key(now);
    }

    /// A key has changed.
    fn key(&mut self, now: u64) {
        if self.keys == 0 {
            self.journal_at = now + JOURNAL_DELAY_NS;
        }
        self.keys += 1;
        self.leaf_keys += 1;
    }

    /// Keys that are due: the journal, and the leaves that have enough.
    fn write_index(&mut self, round: &mut Vec<Ask>) {
        let journal = (self.keys * KEY_BYTES).next_multiple_of(BLOCK_BYTES);
        let of_leaf = BLOCK_BYTES / KEY_BYTES;
        let leaves = self.leaf_keys / of_leaf;
        self.leaf_keys -= leaves * of_leaf;
        (self.keys, self.journal_at) = (0, u64::MAX);
        // Somewhere, since what is there has no contents: the journal front to back, leaves anywhere.
        let capacity = self.block_of.len() as u64 * BLOCK_BYTES;
        round.push(Ask::write(Device::Cache, self.index_next % (capacity / 2), journal));
        self.index_next += journal;
        for leaf in 0..leaves {
            let somewhere = (self.index_next + leaf * BUCKET_BYTES) % capacity / BLOCK_BYTES * BLOCK_BYTES;
            round.push(Ask::write(Device::Cache, somewhere, BLOCK_BYTES));
        }
        self.tally.index_bytes += journal + leaves * BLOCK_BYTES;
    }
}

fn at(place: u32) -> u64 {
    u64::from(place) * BLOCK_BYTES
}

fn home(block: u32) -> Ask {
    Ask::read(Device::Backing, u64::from(block) * BLOCK_BYTES, BLOCK_BYTES)
}

impl Between for Bcache {
    fn begin(&mut self, who: u32, request: Request, _now: u64, round: &mut Vec<Ask>) {
        let is_stream = self.is_stream(request);
        let (first, blocks) = ((request.offset / BLOCK_BYTES) as u32, (request.bytes / BLOCK_BYTES) as u32);
        if !request.is_write {
            return self.begin_read(who, first, blocks, !is_stream, round);
        }
        (first..first + blocks).for_each(|block| self.forget(block));
        let extents = if is_stream { Vec::new() } else { self.places(who, first, blocks) };
        let placed: u32 = extents.iter().map(|extent| extent.blocks).sum();
        let is_back = placed == blocks && self.may_write_back();
        self.requests[who as usize].is_back = is_back;
        if !is_back {
            round.push(Ask::write(Device::Backing, request.offset, request.bytes));
        }
        for extent in &extents {
            let bytes = u64::from(extent.blocks) * BLOCK_BYTES;
            self.tally.written_bytes += bytes;
            round.push(Ask::write(Device::Cache, at(extent.place), bytes));
        }
        self.requests[who as usize].written = extents;
    }

    fn go_on(&mut self, who: u32, now: u64, round: &mut Vec<Ask>) {
        let State { mut hits, mut missed, written, is_back } =
            std::mem::take(&mut self.requests[who as usize]);
        for (block, bucket, generation) in hits.drain(..) {
            if self.generations[bucket as usize] != generation {
                merge(round, home(block));
            }
        }
        self.fills.extend(missed.drain(..).map(|(block, blocks)| (who, block, blocks)));
        for extent in written {
            self.arrived(extent, now, is_back, |_, _| true);
        }
        let state = &mut self.requests[who as usize];
        (state.hits, state.missed) = (hits, missed);
    }

    fn may_have_job(&self, now: u64) -> bool {
        let index_waits = now >= self.journal_at || self.announced != self.journal_at;
        !self.fills.is_empty() || (!self.index_is_written && index_waits) || self.write_back_is_due()
    }

    fn next_job(&mut self, now: u64, round: &mut Vec<Ask>) -> Next {
        if now >= self.journal_at && !self.index_is_written {
            self.write_index(round);
            self.index_is_written = true;
            return Next::Job(self.begin_job(Job::Index));
        }
        let Some((who, block, blocks)) = self.fills.pop_front() else {
            if self.write_back_is_due() {
                return Next::Job(self.begin_write_back(round));
            }
            if self.index_is_written {
                return Next::NotBefore(u64::MAX);
            }
            self.announced = self.journal_at;
            return Next::NotBefore(self.journal_at);
        };
        let extents = self.places(who, block, blocks);
        for extent in &extents {
            let bytes = u64::from(extent.blocks) * BLOCK_BYTES;
            self.tally.populated_bytes += bytes;
            round.push(Ask::write(Device::Cache, at(extent.place), bytes));
        }
        let placed: u32 = extents.iter().map(|extent| extent.blocks).sum();
        for without in block + placed..block + blocks {
            self.coming.remove(&without);
        }
        Next::Job(self.begin_job(Job::Fill(extents)))
    }

    fn job_goes_on(&mut self, job: u32, now: u64, round: &mut Vec<Ask>) {
        match self.jobs[job as usize].take().expect("the job is under way") {
            Job::Index => self.index_is_written = false,
            Job::Fill(extents) => {
                for extent in extents {
                    self.arrived(extent, now, false, |cache, block| {
                        cache.coming.remove(&block) == Some(true)
                    });
                }
            }
            Job::WriteBack { first, blocks, is_read: false } => {
                let bytes = u64::from(blocks) * BLOCK_BYTES;
                round.push(Ask::write(Device::Backing, u64::from(first) * BLOCK_BYTES, bytes));
                self.jobs[job as usize] = Some(Job::WriteBack { first, blocks, is_read: true });
            }
            Job::WriteBack { first, blocks, is_read: true } => self.wrote_back(first, blocks, now),
        }
    }

    fn tally(&self) -> Tally {
        self.tally
    }

    fn memory_bytes(&self) -> u64 {
        self.generations.len() as u64 * BYTES_PER_BUCKET
    }

    fn check(&self) {
        for (block, place) in self.place_of.iter().enumerate() {
            assert!(
                *place == NONE || self.block_of[*place as usize] == block as u32,
                "invariant 1: block {block}"
            );
        }
        for (place, block) in self.block_of.iter().enumerate() {
            assert!(
                *block == NONE || self.place_of[*block as usize] == place as u32,
                "invariant 1: place {place}"
            );
        }
        let Some(dirty) = &self.dirty else { return };
        let mut of_bucket = vec![0; dirty.of_bucket.len()];
        for block in &dirty.blocks {
            let place = self.place_of[*block as usize];
            assert!(place != NONE, "invariant 4: block {block} is dirty and has no place");
            of_bucket[(place / BUCKET_BLOCKS) as usize] += 1;
        }
        assert_eq!(of_bucket, dirty.of_bucket, "invariant 3: dirty blocks of buckets");
        assert!(dirty.leaving.is_subset(&dirty.blocks), "invariant 4: what leaves is dirty");
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::super::super::setup::BlockCache;
    use super::super::tests::{Host, setup};
    use super::*;

    const MS: u64 = 1_000_000;

    /// So many buckets, on a volume of 16 MiB.
    fn bcache(buckets: u64) -> Host<Bcache> {
        let setup = setup(BlockCache::Bcache(Writes::Through), 4096, buckets * u64::from(BUCKET_BLOCKS));
        Host::new(Bcache::new(&setup, Writes::Through).unwrap())
    }

    #[test]
    fn a_miss_is_answered_and_then_brought_in() {
        let mut host = bcache(12);
        assert_eq!(host.read(5, 2), ["read backing 5+2"]);
        // The first of the open buckets, which nobody has written to.
        assert_eq!(host.work(), ["write cache 0+2"]);
        assert_eq!(host.read(5, 2), ["read cache 0+2"]);
        // A key of 24 bytes is a block of the journal, 100 ms later.
        assert!(host.work().is_empty());
        host.now = 100 * MS;
        assert_eq!(host.work(), ["write cache 0"]);
        assert_eq!(host.between.tally.index_bytes, BLOCK_BYTES);
        assert_eq!(host.between.memory_bytes(), 12 * 12);
    }

    #[test]
    fn buckets_are_filled_by_stream_then_by_client() {
        let mut host = bcache(12);
        host.read(0, 1);
        host.work();
        // Another client, another bucket; what continues a bucket goes there, whoever asks.
        host.begin(1, false, 100, 1);
        host.go_on(1);
        assert_eq!(host.work(), ["write cache 128"]);
        host.begin(2, false, 1, 1);
        host.go_on(2);
        assert_eq!(host.work(), ["write cache 1"]);
        host.read(200, 1);
        assert_eq!(host.work(), ["write cache 256"], "client 2 has taken client 0's bucket over");
    }

    #[test]
    fn the_bucket_that_was_used_longest_ago_is_emptied() {
        let mut host = bcache(12);
        // One client fills one bucket after the other: 128 blocks each, of every other block of the volume.
        for block in 0..128 * 7 {
            host.read(2 * block, 1);
            host.work();
        }
        // Of twelve, five are open and empty, and seven are full; the first was used last.
        assert_eq!(host.read(0, 1), ["read cache 0"]);
        host.read(2 * 128 * 7, 1);
        host.work();
        assert_eq!(host.read(0, 1), ["read cache 0"], "it is there");
        assert_eq!(host.read(2 * 128, 1), ["read backing 256"], "the second bucket was emptied");
        assert_eq!(host.read(4 * 128, 1).len(), 1);
    }

    #[test]
    fn long_streams_go_past() {
        let mut host = bcache(24);
        let mut brought = 0;
        for request in 0..1024 / 16 + 8 {
            host.read(request * 16, 16);
            brought += host.work().iter().filter(|asked| asked.starts_with("write cache")).count();
        }
        // 4 MiB are 64 requests of 64 KiB; the 65th has more.
        assert!(host.between.place_of[1023] != NONE && host.between.place_of[1024] == NONE);
        assert!(brought >= 64);
        assert_eq!(host.write(1024 + 128, 1), ["write backing 1152"], "it continues the stream");
    }

    fn written_back(buckets: u64) -> Host<Bcache> {
        let setup = setup(BlockCache::Bcache(Writes::Back), 4096, buckets * u64::from(BUCKET_BLOCKS));
        Host::new(Bcache::new(&setup, Writes::Back).unwrap())
    }

    #[test]
    fn a_tenth_of_the_cache_stays_dirty_and_the_rest_is_written_back_in_order() {
        let mut host = written_back(12);
        // A tenth of twelve buckets of 128 blocks are 153.
        for block in (1..154).rev() {
            assert_eq!(host.write(2 * block, 1), [format!("write cache {}", host_place(153 - block))]);
            assert!(host.work().is_empty());
        }
        let [second, first] = [151, 152].map(|block| format!("read cache {}", host_place(block)));
        assert_eq!(host.read(2, 1), std::slice::from_ref(&first));
        host.write(3000, 1);
        assert_eq!(host.work(), [first, "write backing 2".to_owned()]);
        host.write(3002, 1);
        assert_eq!(host.work(), [second, "write backing 4".to_owned()]);
    }

    #[test]
    fn without_a_bucket_that_is_clean_writes_go_to_the_backing_device() {
        let mut host = written_back(12);
        // The bucket that is open for the client, and the six that are free.
        for block in 0..7 * 128 {
            assert_eq!(host.write(2 * block, 1), [format!("write cache {}", host_place(block))]);
        }
        assert_eq!(host.write(4000, 1), ["write backing 4000"]);
        host.work();
        assert_eq!(host.write(4000, 1), ["write cache 0"], "the first bucket was written back and emptied");
        assert_eq!(host.read(0, 1), ["read backing 0"]);
    }

    /// Where a client's n-th block goes: the first of the open buckets, then the free ones behind them.
    fn host_place(block: u64) -> u64 {
        if block < 128 { block } else { 5 * 128 + block }
    }

    #[test]
    fn most_buckets_dirty_have_writes_go_to_both_devices() {
        let mut host = written_back(12);
        // A client each: a bucket of its own, as long as one is open; then what is full is closed.
        for who in 0..6 {
            host.begin(who, true, 3000 + 10 * u64::from(who), 1);
            host.go_on(who);
        }
        // Client 0 has a block in its bucket: that and three more are filled, and the next one is begun.
        for block in 0..3 * 128 {
            host.write(2 * block, 1);
        }
        let dirty = host.between.dirty.as_ref().unwrap().buckets;
        assert_eq!(dirty, 9, "of twelve");
        let both = host.write(4001, 1);
        assert!(both.len() == 2 && both[0] == "write backing 4001", "{both:?}");
    }

    #[test]
    fn what_is_written_while_it_is_written_back_stays_dirty() {
        let mut host = written_back(12);
        for block in 0..154 {
            host.write(2 * block, 1);
        }
        let (job, read) = host.begin_job().unwrap();
        assert_eq!(read, ["read cache 0"]);
        host.write(0, 1);
        assert_eq!(host.job_goes_on(job), ["write backing 0"]);
        assert!(host.job_goes_on(job).is_empty());
        host.between.check();
        assert!(host.between.dirty.as_ref().unwrap().blocks.contains(&0));
    }

    #[test]
    fn what_is_written_while_it_comes_in_stays_what_was_written() {
        let mut host = bcache(12);
        host.read(5, 1);
        let (job, _) = host.begin_job().unwrap();
        assert_eq!(host.begin(1, true, 5, 1), ["write backing 5", "write cache 128"]);
        host.job_goes_on(job);
        assert_eq!(host.begin(2, false, 5, 1), ["read backing 5"], "what came in is old");
        assert!(host.go_on(2).is_empty());
        host.go_on(1);
        assert_eq!(host.read(5, 1), ["read cache 128"]);
    }
}
