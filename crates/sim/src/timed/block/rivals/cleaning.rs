//! What of a set-associative cache is newer than the backing device, and when that is written there.
//!
//! flashcache's `flashcache-sa-guide.txt` and `flashcache-doc.txt`, and EnhanceIO's `README.txt`, each with
//! its defaults. A set that is above its threshold is cleaned: blocks are read from the cache device, written
//! to the backing device in the order of the volume, those side by side as one, and recorded as clean.
//!
//! Left out: what is cleaned because it was idle (flashcache after 15 minutes, EnhanceIO each minute for
//! every 16 GB), which the test bed would have to scale with its time.
//!
//! 1. The dirty slots of each set, and of all, are counted.
//! 2. What is written while it is cleaned stays dirty.

use std::collections::VecDeque;

use super::links::Links;

/// When sets are cleaned.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Rule {
    /// Above `set_percent` of its ways a set has the blocks cleaned that leave first: so many at a time, and
    /// so many of all sets.
    Blocks { set_percent: u32, at_a_time: u32, of_all: u32 },
    /// Sets are cleaned whole, one after the other: those above `set_percent`, and while more than
    /// `high_percent` of the cache is dirty those that were written longest ago, until `low_percent` are.
    Sets { set_percent: u32, high_percent: u32, low_percent: u32 },
}

/// Which slots are dirty, and which are being cleaned.
pub(super) struct Cleaning {
    rule: Rule,
    ways: u32,
    is_dirty: Vec<bool>,
    /// Slots whose contents are on their way to the backing device and have not been written since.
    is_leaving: Vec<bool>,
    dirty_of_set: Vec<u32>,
    dirty: u32,
    leaving_of_set: Vec<u32>,
    /// Jobs that are under way for each set, and for all.
    jobs_of_set: Vec<u32>,
    jobs: u32,
    /// Sets that may be above their threshold, each once.
    queue: VecDeque<u32>,
    is_queued: Vec<bool>,
    /// Sets with dirty slots: those in front were written longest ago.
    written: Links,
    /// The whole cache is above its threshold, and not yet below the lower one.
    is_above: bool,
}

impl Cleaning {
    pub(super) fn new(rule: Rule, sets: u32, ways: u32) -> Self {
        let slots = (sets * ways) as usize;
        Self {
            rule,
            ways,
            is_dirty: vec![false; slots],
            is_leaving: vec![false; slots],
            dirty_of_set: vec![0; sets as usize],
            dirty: 0,
            leaving_of_set: vec![0; sets as usize],
            jobs_of_set: vec![0; sets as usize],
            jobs: 0,
            queue: VecDeque::new(),
            is_queued: vec![false; sets as usize],
            written: Links::new(sets as usize, 1),
            is_above: false,
        }
    }

    pub(super) fn is_dirty(&self, slot: u32) -> bool {
        self.is_dirty[slot as usize]
    }

    pub(super) fn is_leaving(&self, slot: u32) -> bool {
        self.is_leaving[slot as usize]
    }

    /// A slot was written to; whether it was clean.
    pub(super) fn written(&mut self, slot: u32) -> bool {
        let set = slot / self.ways;
        self.stays(slot);
        if self.dirty_of_set[set as usize] > 0 {
            self.written.remove(0, set);
        }
        self.written.push_last(0, set);
        let was_clean = !std::mem::replace(&mut self.is_dirty[slot as usize], true);
        if was_clean {
            self.dirty_of_set[set as usize] += 1;
            self.dirty += 1;
        }
        self.look_at(set);
        was_clean
    }

    /// A slot is not on its way to the backing device any more; whether it was.
    fn stays(&mut self, slot: u32) -> bool {
        let was_leaving = std::mem::take(&mut self.is_leaving[slot as usize]);
        self.leaving_of_set[(slot / self.ways) as usize] -= u32::from(was_leaving);
        was_leaving
    }

    /// The set is looked at when there is time for it.
    fn look_at(&mut self, set: u32) {
        if let Rule::Sets { high_percent, .. } = self.rule {
            self.is_above |= self.of_all(self.dirty) > high_percent;
        }
        if self.is_over(set) && !std::mem::replace(&mut self.is_queued[set as usize], true) {
            self.queue.push_back(set);
        }
    }

    fn is_over(&self, set: u32) -> bool {
        let (Rule::Blocks { set_percent, .. } | Rule::Sets { set_percent, .. }) = self.rule;
        let dirty = self.dirty_of_set[set as usize] - self.leaving_of_set[set as usize];
        match self.rule {
            Rule::Blocks { .. } => dirty * 100 > set_percent * self.ways,
            Rule::Sets { .. } => dirty * 100 >= set_percent * self.ways,
        }
    }

    /// Of all slots, in per cent.
    fn of_all(&self, slots: u32) -> u32 {
        (u64::from(slots) * 100 / self.is_dirty.len() as u64) as u32
    }

    /// Whether a set may be cleaned now.
    pub(super) fn has_work(&self) -> bool {
        match self.rule {
            Rule::Blocks { of_all, .. } => self.jobs < of_all && !self.queue.is_empty(),
            Rule::Sets { .. } => self.jobs == 0 && (self.is_above || !self.queue.is_empty()),
        }
    }

    /// A set to clean, and how many of its blocks at most; it has a job from now on.
    pub(super) fn next(&mut self) -> Option<(u32, u32)> {
        let (at_a_time, of_all) = match self.rule {
            Rule::Blocks { at_a_time, of_all, .. } => (at_a_time, of_all),
            Rule::Sets { .. } => (1, 1),
        };
        if self.jobs >= of_all {
            return None;
        }
        while let Some(set) = self.queue.pop_front() {
            self.is_queued[set as usize] = false;
            // One with as many jobs as it may have is looked at again when one of them is over.
            if self.is_over(set) && self.jobs_of_set[set as usize] < at_a_time {
                return Some(self.begins(set));
            }
        }
        if let Rule::Sets { low_percent, .. } = self.rule {
            self.is_above &= self.of_all(self.dirty) > low_percent;
            if self.is_above {
                let set = self.written.first(0).expect("some set is dirty");
                return Some(self.begins(set));
            }
        }
        None
    }

    fn begins(&mut self, set: u32) -> (u32, u32) {
        self.jobs += 1;
        self.jobs_of_set[set as usize] += 1;
        let blocks = match self.rule {
            Rule::Blocks { .. } => 1,
            Rule::Sets { .. } => self.ways,
        };
        (set, blocks)
    }

    /// The contents of these slots of a set are on their way to the backing device.
    pub(super) fn leave(&mut self, set: u32, slots: &[u32]) {
        for slot in slots {
            assert!(self.is_dirty(*slot) && !self.is_leaving(*slot), "slot {slot} is clean, or leaves");
            self.is_leaving[*slot as usize] = true;
        }
        self.leaving_of_set[set as usize] += slots.len() as u32;
        // There may be room for another job beside this one.
        self.look_at(set);
    }

    /// The job of a set is over, with these slots.
    pub(super) fn cleaned(&mut self, set: u32, slots: &[u32]) {
        for slot in slots {
            if self.stays(*slot) {
                self.is_clean(*slot);
            }
        }
        self.jobs -= 1;
        self.jobs_of_set[set as usize] -= 1;
        self.look_at(set);
    }

    /// The backing device has what a dirty slot has.
    fn is_clean(&mut self, slot: u32) {
        self.is_dirty[slot as usize] = false;
        let set = slot / self.ways;
        self.dirty -= 1;
        self.dirty_of_set[set as usize] -= 1;
        if self.dirty_of_set[set as usize] == 0 {
            self.written.remove(0, set);
        }
    }

    pub(super) fn check(&self) {
        let sets = self.dirty_of_set.len();
        let (mut dirty, mut leaving) = (vec![0; sets], vec![0; sets]);
        for (slot, is_dirty) in self.is_dirty.iter().enumerate() {
            dirty[slot / self.ways as usize] += u32::from(*is_dirty);
            leaving[slot / self.ways as usize] += u32::from(self.is_leaving[slot]);
            assert!(*is_dirty || !self.is_leaving[slot], "slot {slot} is clean and leaves");
        }
        assert_eq!((&dirty, &leaving), (&self.dirty_of_set, &self.leaving_of_set), "invariant 1: by sets");
        assert_eq!(dirty.iter().sum::<u32>(), self.dirty, "invariant 1: all");
    }
}
