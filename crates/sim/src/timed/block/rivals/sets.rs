//! Set-associative caches of 4 KiB blocks that bring in every miss, in line: flashcache and EnhanceIO.
//!
//! *Sets.* As many blocks of the volume side by side as a set has ways are of one set, the next as many of
//! the next one, round and round. In its set a block may be anywhere; the oldest leaves. By FIFO that is the
//! one that came first, by LRU the one that was used longest ago.
//!
//! *Reads.* What is there comes from the cache device. What is not is read from the backing device, written
//! to the cache device, and answered then: the client waits for both ("copied into the cache before being
//! returned to the user", section 1 of the SCE paper).
//!
//! *Writes* go to both devices at once and are answered when both have them, whether the block was there or
//! not. Written back, they go to the cache device alone; of blocks that were clean it is recorded next that
//! they are dirty, a block of metadata for each set, and then the write is answered. What is dirty is written
//! to the backing device as `cleaning.rs` says, and does not leave before; where a set has nothing else,
//! requests go past it.
//!
//! *A block that is on its way* is nobody else's: other requests for it go to the backing device, and if one
//! of them writes, what is on its way counts no more. flashcache has them wait instead, which costs them
//! more.
//!
//! Left out: skipping of sequential streams (off by default), requests of less than a block.
//!
//! 1. A block is in one slot at most, and a slot of the block's set.
//! 2. A slot on its way into the cache is not given to another block.
//! 3. What is dirty is valid, and its slot is not given to another block.

use super::super::super::setup::Refusal;
use super::super::between::{Ask, Between, Device, Next, Request, Tally};
use super::super::setup::{BLOCK_BYTES, BlockSetup, Order};
use super::cleaning::{Cleaning, Rule};
use super::links::Links;
use super::{NONE, at_least, merge, units};

/// What flashcache and EnhanceIO have different.
#[derive(Debug, Clone, Copy)]
pub(super) struct SetsConfig {
    pub(super) ways: u32,
    pub(super) order: Order,
    /// Memory, as published.
    pub(super) bytes_per_block: u64,
    /// When dirty blocks are cleaned; without it writes go to both devices.
    pub(super) cleaning: Option<Rule>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum SlotState {
    Empty,
    /// A block is on its way into it.
    Busy,
    /// So one is, and it counts no more.
    Doomed,
    Valid,
}

/// What a client's request has brought on its way, and whether that has been written.
#[derive(Default)]
struct State {
    slots: Vec<u32>,
    is_written: bool,
    /// It is a write that is written back.
    is_back: bool,
    /// Sets of which it is yet to be recorded that blocks are dirty.
    sets: Vec<u32>,
}

/// Blocks of a set on their way to the backing device.
struct Clean {
    set: u32,
    slots: Vec<u32>,
    step: Step,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Step {
    Reading,
    Writing,
    Recording,
}

/// The cache.
pub(super) struct Sets {
    config: SetsConfig,
    sets: u32,
    /// By block of the volume.
    slot_of: Vec<u32>,
    /// By slot.
    block_of: Vec<u32>,
    states: Vec<SlotState>,
    /// A list for each set, of its slots: those that leave first in front.
    order: Links,
    requests: Vec<State>,
    cleaning: Option<Cleaning>,
    jobs: Vec<Option<Clean>>,
    tally: Tally,
}

impl Sets {
    /// # Errors
    /// If the cache device has no room for a set.
    pub(super) fn new(setup: &BlockSetup, config: SetsConfig) -> Result<Self, Refusal> {
        at_least(setup, u64::from(config.ways) * BLOCK_BYTES, "a set")?;
        let blocks = units(setup, BLOCK_BYTES)?;
        let most = u64::from(NONE / config.ways - 1);
        let sets = (setup.cache_bytes / BLOCK_BYTES / u64::from(config.ways)).min(most) as u32;
        let slots = sets * config.ways;
        let mut order = Links::new(slots as usize, sets as usize);
        (0..slots).for_each(|slot| order.push_last((slot / config.ways) as usize, slot));
        Ok(Self {
            config,
            sets,
            slot_of: vec![NONE; blocks as usize],
            block_of: vec![NONE; slots as usize],
            states: vec![SlotState::Empty; slots as usize],
            order,
            requests: std::iter::repeat_with(State::default).take(setup.clients as usize).collect(),
            cleaning: config.cleaning.map(|rule| Cleaning::new(rule, sets, config.ways)),
            jobs: Vec::new(),
            tally: Tally::default(),
        })
    }

    fn set_of(&self, block: u32) -> usize {
        (block / self.config.ways % self.sets) as usize
    }

    /// The set of a slot.
    fn set(&self, slot: u32) -> usize {
        (slot / self.config.ways) as usize
    }

    /// The slot of a block, and whether it is valid.
    fn find(&self, block: u32) -> Option<(u32, SlotState)> {
        let slot = self.slot_of[block as usize];
        (slot != NONE).then(|| (slot, self.states[slot as usize]))
    }

    fn used(&mut self, slot: u32) {
        if self.config.order == Order::Lru {
            let set = self.set(slot);
            self.order.remove(set, slot);
            self.order.push_last(set, slot);
        }
    }

    fn is_dirty(&self, slot: u32) -> bool {
        self.cleaning.as_ref().is_some_and(|cleaning| cleaning.is_dirty(slot))
    }

    /// A slot for a block that has none: the oldest of its set that nothing is on its way into, and that is
    /// clean.
    fn claim(&mut self, block: u32) -> Option<u32> {
        let set = self.set_of(block);
        let mut oldest = std::iter::successors(self.order.first(set), |slot| self.order.after(*slot));
        let may_leave = |slot: &u32| {
            matches!(self.states[*slot as usize], SlotState::Empty | SlotState::Valid)
                && !self.is_dirty(*slot)
        };
        let slot = oldest.find(may_leave)?;
        self.leave(slot);
        self.order.remove(set, slot);
        self.order.push_last(set, slot);
        self.slot_of[block as usize] = slot;
        self.block_of[slot as usize] = block;
        self.states[slot as usize] = SlotState::Busy;
        Some(slot)
    }

    /// What is in a slot leaves.
    fn leave(&mut self, slot: u32) {
        let block = std::mem::replace(&mut self.block_of[slot as usize], NONE);
        if block != NONE {
            self.slot_of[block as usize] = NONE;
        }
        self.states[slot as usize] = SlotState::Empty;
    }

    /// A block has come in, if it counts still.
    fn arrived(&mut self, slot: u32) {
        match self.states[slot as usize] {
            SlotState::Busy => self.states[slot as usize] = SlotState::Valid,
            SlotState::Doomed => {
                self.leave(slot);
                let set = self.set(slot);
                self.order.remove(set, slot);
                self.order.push_first(set, slot);
            }
            state => unreachable!("invariant 2: slot {slot} is {state:?}"),
        }
    }

    fn read(&mut self, who: u32, block: u32, round: &mut Vec<Ask>) -> bool {
        let home = Ask::read(Device::Backing, u64::from(block) * BLOCK_BYTES, BLOCK_BYTES);
        match self.find(block) {
            Some((slot, SlotState::Valid)) => {
                self.used(slot);
                merge(round, Ask::read(Device::Cache, at(slot), BLOCK_BYTES));
                return true;
            }
            Some(_) => merge(round, home),
            None => {
                merge(round, home);
                let slot = self.claim(block);
                self.requests[who as usize].slots.extend(slot);
            }
        }
        false
    }

    fn write(&mut self, who: u32, block: u32, round: &mut Vec<Ask>) {
        let slot = match self.find(block) {
            Some((slot, SlotState::Valid)) => {
                self.used(slot);
                self.states[slot as usize] = SlotState::Busy;
                slot
            }
            Some((slot, _)) => {
                self.states[slot as usize] = SlotState::Doomed;
                return;
            }
            None => match self.claim(block) {
                Some(slot) => slot,
                None => return,
            },
        };
        self.requests[who as usize].slots.push(slot);
        self.tally.written_bytes += BLOCK_BYTES;
        merge(round, Ask::write(Device::Cache, at(slot), BLOCK_BYTES));
    }

    /// A write of a block that goes to the cache device alone, if there is a slot for it.
    fn write_back(&mut self, who: u32, block: u32, round: &mut Vec<Ask>) {
        let slot = match self.find(block) {
            Some((slot, SlotState::Valid)) => {
                self.used(slot);
                self.is_written(who, slot);
                Some(slot)
            }
            Some((slot, _)) => {
                self.states[slot as usize] = SlotState::Doomed;
                None
            }
            None => self.claim(block).inspect(|slot| {
                let state = &mut self.requests[who as usize];
                state.slots.push(*slot);
                remember(&mut state.sets, *slot / self.config.ways);
            }),
        };
        match slot {
            Some(slot) => {
                self.tally.written_bytes += BLOCK_BYTES;
                merge(round, Ask::write(Device::Cache, at(slot), BLOCK_BYTES));
            }
            None => merge(round, Ask::write(Device::Backing, u64::from(block) * BLOCK_BYTES, BLOCK_BYTES)),
        }
    }

    /// A valid slot is newer than the backing device from now on.
    fn is_written(&mut self, who: u32, slot: u32) {
        let cleaning = self.cleaning.as_mut().expect("it is written back");
        if cleaning.written(slot) {
            remember(&mut self.requests[who as usize].sets, slot / self.config.ways);
        }
    }

    /// Metadata of a set are written, somewhere, since they have no contents.
    fn record(&mut self, set: u32, round: &mut Vec<Ask>) {
        round.push(Ask::write(Device::Cache, at(set * self.config.ways), BLOCK_BYTES));
        self.tally.index_bytes += BLOCK_BYTES;
    }

    /// Dirty slots of a set that may leave now, those in front first: so many, and those whose blocks lie
    /// beside theirs on the volume, in the order of the volume.
    fn to_clean(&self, set: u32, most: u32) -> Vec<u32> {
        let cleaning = self.cleaning.as_ref().expect("something is dirty");
        let may = |slot: &u32| cleaning.is_dirty(*slot) && !cleaning.is_leaving(*slot);
        let in_order = std::iter::successors(self.order.first(set as usize), |slot| self.order.after(*slot));
        let mut slots: Vec<u32> = in_order.filter(may).take(most as usize).collect();
        if let [slot] = slots[..] {
            let block = self.block_of[slot as usize];
            let beside = |block: u32| {
                let slot = *self.slot_of.get(block as usize)?;
                (slot != NONE && slot / self.config.ways == set && may(&slot)).then_some(slot)
            };
            slots.extend((block + 1..).map_while(beside));
            slots.extend((0..block).rev().map_while(beside));
        }
        slots.sort_by_key(|slot| self.block_of[*slot as usize]);
        slots
    }

    fn slot_for(&mut self, job: Clean) -> u32 {
        let number = self.jobs.iter().position(Option::is_none).unwrap_or_else(|| {
            self.jobs.push(None);
            self.jobs.len() - 1
        });
        self.jobs[number] = Some(job);
        number as u32
    }
}

/// Notes a set once.
fn remember(sets: &mut Vec<u32>, set: u32) {
    if !sets.contains(&set) {
        sets.push(set);
    }
}

/// Where on the cache device a slot lies.
fn at(slot: u32) -> u64 {
    u64::from(slot) * BLOCK_BYTES
}

impl Between for Sets {
    fn begin(&mut self, who: u32, request: Request, _now: u64, round: &mut Vec<Ask>) {
        let first = (request.offset / BLOCK_BYTES) as u32;
        let blocks = first..first + (request.bytes / BLOCK_BYTES) as u32;
        let is_back = request.is_write && self.cleaning.is_some();
        self.requests[who as usize].is_back = is_back;
        if is_back {
            blocks.for_each(|block| self.write_back(who, block, round));
            self.requests[who as usize].is_written = true;
            return;
        }
        if request.is_write {
            blocks.for_each(|block| self.write(who, block, round));
            self.requests[who as usize].is_written = true;
            round.push(Ask::write(Device::Backing, request.offset, request.bytes));
            return;
        }
        let hits = blocks.clone().filter(|block| self.read(who, *block, round)).count();
        self.tally.reads += 1;
        self.tally.reads_hit += u64::from(hits == blocks.len());
        self.requests[who as usize].is_written = false;
    }

    fn go_on(&mut self, who: u32, _now: u64, round: &mut Vec<Ask>) {
        let state = &mut self.requests[who as usize];
        if !state.is_written && !state.slots.is_empty() {
            state.is_written = true;
            for slot in &state.slots {
                merge(round, Ask::write(Device::Cache, at(*slot), BLOCK_BYTES));
            }
            self.tally.populated_bytes += state.slots.len() as u64 * BLOCK_BYTES;
            return;
        }
        if !state.sets.is_empty() {
            for set in std::mem::take(&mut state.sets) {
                self.record(set, round);
            }
            return;
        }
        let is_back = state.is_back;
        let mut slots = std::mem::take(&mut state.slots);
        for slot in slots.drain(..) {
            self.arrived(slot);
            if is_back && self.states[slot as usize] == SlotState::Valid {
                let cleaning = self.cleaning.as_mut().expect("it is written back");
                cleaning.written(slot);
            }
        }
        self.requests[who as usize].slots = slots;
    }

    fn may_have_job(&self, _now: u64) -> bool {
        self.cleaning.as_ref().is_some_and(Cleaning::has_work)
    }

    fn next_job(&mut self, _now: u64, round: &mut Vec<Ask>) -> Next {
        let Some((set, most)) = self.cleaning.as_mut().and_then(Cleaning::next) else {
            return Next::NotBefore(u64::MAX);
        };
        let slots = self.to_clean(set, most);
        assert!(!slots.is_empty(), "set {set} has something to clean");
        self.cleaning.as_mut().expect("it has work").leave(set, &slots);
        for slot in &slots {
            merge(round, Ask::read(Device::Cache, at(*slot), BLOCK_BYTES));
        }
        Next::Job(self.slot_for(Clean { set, slots, step: Step::Reading }))
    }

    fn job_goes_on(&mut self, job: u32, _now: u64, round: &mut Vec<Ask>) {
        let Clean { set, slots, step } = self.jobs[job as usize].take().expect("the job is under way");
        let step = match step {
            Step::Reading => {
                for slot in &slots {
                    let block = u64::from(self.block_of[*slot as usize]);
                    merge(round, Ask::write(Device::Backing, block * BLOCK_BYTES, BLOCK_BYTES));
                }
                Step::Writing
            }
            Step::Writing => {
                self.record(set, round);
                Step::Recording
            }
            Step::Recording => {
                self.cleaning.as_mut().expect("it is written back").cleaned(set, &slots);
                return;
            }
        };
        self.jobs[job as usize] = Some(Clean { set, slots, step });
    }

    fn tally(&self) -> Tally {
        self.tally
    }

    fn memory_bytes(&self) -> u64 {
        self.states.len() as u64 * self.config.bytes_per_block
    }

    fn check(&self) {
        for (slot, block) in self.block_of.iter().enumerate() {
            if *block != NONE {
                assert_eq!(self.slot_of[*block as usize], slot as u32, "invariant 1: one slot");
                assert_eq!(self.set_of(*block), self.set(slot as u32), "invariant 1: its set");
            }
            assert_eq!(*block == NONE, self.states[slot] == SlotState::Empty, "invariant 1: slot {slot}");
            let is_valid = self.states[slot] == SlotState::Valid;
            assert!(is_valid || !self.is_dirty(slot as u32), "invariant 3: slot {slot}");
        }
        if let Some(cleaning) = &self.cleaning {
            cleaning.check();
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::super::super::setup::{BlockCache, Writes};
    use super::super::tests::{Host, setup};
    use super::*;

    /// Two sets of two ways, on a volume of 16 blocks.
    fn sets(order: Order) -> Host<Sets> {
        let setup = setup(BlockCache::Flashcache(order, Writes::Through), 16, 4);
        Host::new(
            Sets::new(&setup, SetsConfig { ways: 2, order, bytes_per_block: 24, cleaning: None }).unwrap(),
        )
    }

    #[test]
    fn a_miss_reads_the_backing_device_then_writes_the_cache_device() {
        let mut host = sets(Order::Fifo);
        // Block 5: set 5 / 2 % 2 = 0, whose oldest slot is 0.
        assert_eq!(host.read(5, 1), ["read backing 5", "then write cache 0"]);
        assert_eq!(host.read(5, 1), ["read cache 0"]);
        // Blocks 6 and 7 are of set 1, and lie side by side on either device.
        assert_eq!(host.read(6, 2), ["read backing 6+2", "then write cache 2+2"]);
        assert_eq!(host.between.memory_bytes(), 4 * 24);
        assert_eq!((host.between.tally.reads, host.between.tally.reads_hit), (3, 1));
    }

    #[test]
    fn by_fifo_the_first_leaves_and_by_lru_the_one_that_was_not_used() {
        for (order, kept) in [(Order::Fifo, [false, true]), (Order::Lru, [true, false])] {
            let mut host = sets(order);
            // Blocks 0, 1 and 4 are of set 0.
            host.read(0, 1);
            host.read(1, 1);
            assert_eq!(host.read(0, 1), ["read cache 0"]);
            host.read(4, 1);
            let is_there = [0, 1].map(|block| host.between.find(block).is_some());
            assert_eq!(is_there, kept, "{order:?}");
            assert!(host.between.find(4).is_some());
        }
    }

    #[test]
    fn writes_go_to_both_devices_at_once_and_are_kept() {
        let mut host = sets(Order::Lru);
        assert_eq!(host.write(3, 1), ["write cache 2", "write backing 3"]);
        assert_eq!(host.read(3, 1), ["read cache 2"]);
        assert_eq!(host.write(3, 1), ["write cache 2", "write backing 3"]);
        assert_eq!(host.between.tally.written_bytes, 2 * BLOCK_BYTES);
    }

    /// So many sets of so many ways, on a volume of 16 blocks.
    fn written_back(sets: u64, ways: u32, rule: Rule) -> Host<Sets> {
        let order = Order::Fifo;
        let setup = setup(BlockCache::Flashcache(order, Writes::Back), 16, sets * u64::from(ways));
        let config = SetsConfig { ways, order, bytes_per_block: 24, cleaning: Some(rule) };
        Host::new(Sets::new(&setup, config).unwrap())
    }

    /// Half of a set may be dirty; one block is cleaned at a time.
    const HALF: Rule = Rule::Blocks { set_percent: 50, at_a_time: 1, of_all: 1 };

    #[test]
    fn written_back_goes_to_the_cache_device_and_is_recorded_once() {
        let mut host = written_back(1, 4, HALF);
        assert_eq!(host.write(3, 1), ["write cache 0", "then write cache 0"]);
        assert_eq!(host.write(3, 1), ["write cache 0"], "it was dirty");
        assert_eq!(host.read(3, 1), ["read cache 0"]);
        host.write(5, 1);
        assert!(host.work().is_empty(), "two of four are dirty");
        host.write(9, 1);
        assert_eq!(host.work(), ["read cache 0", "write backing 3", "write cache 0"], "the first one leaves");
        assert_eq!(host.write(3, 1), ["write cache 0", "then write cache 0"], "it was clean");
    }

    #[test]
    fn what_is_dirty_does_not_leave_and_requests_go_past_a_set_that_is() {
        let mut host = written_back(1, 4, HALF);
        for block in [3, 5, 9, 11] {
            host.write(block, 1);
        }
        assert_eq!(host.read(14, 1), ["read backing 14"]);
        assert_eq!(host.write(14, 1), ["write backing 14"]);
        host.work();
        assert_eq!(host.read(14, 1), ["read backing 14", "then write cache 0"]);
    }

    #[test]
    fn blocks_side_by_side_are_cleaned_as_one() {
        let mut host = written_back(1, 4, HALF);
        for block in [5, 4, 6] {
            host.write(block, 1);
        }
        let cleaned = ["read cache 1", "read cache 0", "read cache 2", "write backing 4+3", "write cache 0"];
        assert_eq!(host.work(), cleaned);
    }

    #[test]
    fn what_is_written_while_it_is_cleaned_stays_dirty() {
        let mut host = written_back(1, 4, HALF);
        for block in [3, 5, 9] {
            host.write(block, 1);
        }
        let (job, read) = host.begin_job().unwrap();
        assert_eq!(read, ["read cache 0"]);
        assert_eq!(host.write(3, 1), ["write cache 0"]);
        assert!(host.begin_job().is_none(), "one at a time");
        assert_eq!(host.job_goes_on(job), ["write backing 3"]);
        assert_eq!(host.job_goes_on(job), ["write cache 0"]);
        assert!(host.job_goes_on(job).is_empty());
        host.between.check();
        assert!(host.between.is_dirty(0) && !host.work().is_empty());
    }

    #[test]
    fn sets_are_cleaned_whole_until_little_of_the_cache_is_dirty() {
        let rule = Rule::Sets { set_percent: 100, high_percent: 70, low_percent: 10 };
        let mut host = written_back(2, 2, rule);
        // Blocks 0 and 1 are of one set, 2 and 3 of the other.
        host.write(2, 1);
        host.write(0, 1);
        assert!(host.work().is_empty(), "half is dirty");
        host.write(1, 1);
        let full = ["read cache 0+2", "write backing 0+2", "write cache 0"];
        let oldest = ["read cache 2", "write backing 2", "write cache 2"];
        assert_eq!(host.work(), [&full[..], &oldest[..]].concat());
    }

    #[test]
    fn what_is_written_while_it_comes_in_does_not_stay() {
        let mut host = sets(Order::Lru);
        let read = host.begin(0, false, 5, 1);
        assert_eq!(read, ["read backing 5"]);
        // Another client's read of it is not brought in a second time, and a write dooms what comes.
        assert_eq!(host.begin(1, false, 5, 1), ["read backing 5"]);
        assert_eq!(host.begin(2, true, 5, 1), ["write backing 5"]);
        assert!(host.go_on(1).is_empty() && host.go_on(2).is_empty());
        assert_eq!(host.go_on(0), ["write cache 0"]);
        assert!(host.go_on(0).is_empty());
        assert!(host.between.find(5).is_none(), "it is the older of two");
        // Its slot is the next to be taken.
        assert_eq!(host.read(4, 1), ["read backing 4", "then write cache 0"]);
    }
}
