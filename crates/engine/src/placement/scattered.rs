//! A placement for tests of the interface: a third one, which ships in nothing.
//!
//! Pages lie in frames of their own, beyond those of the queue, in no order: a page that comes in takes any
//! frame that is free. Which page leaves, the queue says. What it has in memory is outside of the region, so
//! no other process finds it, and nothing recovers it.

use std::collections::BTreeMap;
use std::ops::Deref;
use std::sync::{Mutex, MutexGuard, PoisonError};

use super::{FlashWrite, Placement, QueueRules, Recorded};
use crate::core::Tier;
use crate::directory::LockedShard;
use crate::format::{GroupSummary, RecordKind};
use crate::groups::group::StagingGroup;
use crate::ids::{EntryNumber, Frame, PageId, Position, Sequence};
use crate::placement::Carried;
use crate::queue::Queue;

/// What a tier of this placement has beside its region.
#[derive(Debug)]
pub(crate) struct Places {
    lists: Mutex<Lists>,
    /// A fault: frames are free as soon as their pages have gone, durably or not.
    hasty: bool,
}

impl PartialEq for Places {
    fn eq(&self, other: &Self) -> bool {
        std::ptr::eq(self, other)
    }
}

impl Eq for Places {}

#[derive(Debug)]
struct Lists {
    /// Frames in which nothing lies, in no order.
    free: Vec<Frame>,
    /// The frame of each entry that was given one, ever.
    of_entry: BTreeMap<u32, Frame>,
    /// Frames that become free when all groups up to this one are durable.
    leaving: Vec<(Sequence, Frame)>,
    freed: u64,
}

impl Places {
    /// As many frames as this, behind the first so many of the device.
    pub(crate) fn new(first: u64, count: u64) -> Self {
        // 37 is prime, and the order is none that a queue would have.
        let free = (0..count).map(|index| Frame((first + index * 37 % count) as u32)).collect();
        let (of_entry, leaving) = (BTreeMap::new(), Vec::new());
        Self { lists: Mutex::new(Lists { free, of_entry, leaving, freed: 0 }), hasty: false }
    }

    /// The same, with the fault.
    pub(crate) fn hasty(first: u64, count: u64) -> Self {
        Self { hasty: true, ..Self::new(first, count) }
    }
}

#[derive(Clone, Copy)]
pub(crate) struct Scattered<'t> {
    queue: Queue<'t>,
    places: &'t Places,
}

impl Deref for Scattered<'_> {
    type Target = Tier;

    fn deref(&self) -> &Tier {
        &self.queue
    }
}

impl<'t> Scattered<'t> {
    pub(crate) fn of(tier: &'t Tier, places: &'t Places) -> Self {
        Self { queue: Queue::of(tier), places }
    }

    fn lists(&self) -> MutexGuard<'_, Lists> {
        self.places.lists.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The frame of an entry is free when the group is durable that is open, or opened next.
    fn give_up(&self, entry: EntryNumber) {
        let control = self.control();
        let states_it = control.append.open().unwrap_or_else(|| control.groups.next());
        let mut lists = self.lists();
        if let Some(frame) = lists.of_entry.remove(&entry.0) {
            match self.places.hasty {
                true => lists.free.push(frame),
                false => lists.leaving.push((states_it, frame)),
            }
        }
    }
}

impl Placement for Scattered<'_> {
    fn frame_at(&self, entry: EntryNumber) -> Frame {
        self.lists().of_entry.get(&entry.0).copied().unwrap_or(entry.frame_in_queue())
    }

    fn page_frames(&self) -> u64 {
        self.queue.page_frames()
    }

    fn frames(&self) -> u64 {
        self.queue.frames()
    }

    fn work(&self) -> u64 {
        self.control().append.next_version().number()
    }

    fn has_room(&self) -> bool {
        !self.lists().free.is_empty()
    }

    fn assign(&self, record: &mut RecordKind) -> bool {
        let RecordKind::Page { home, .. } = record else { return true };
        let Some(frame) = self.lists().free.pop() else { return false };
        *home = frame;
        true
    }

    fn assigned(&self, entry: EntryNumber, record: &RecordKind, _: Recorded) {
        if let RecordKind::Page { home, .. } = record {
            let before = self.lists().of_entry.insert(entry.0, *home);
            assert_eq!(before, None, "the entry has been given up before it is another page's");
        }
    }

    fn entered(&self, _: EntryNumber, _: &PageId, older: Option<EntryNumber>, _: bool) {
        if let Some(older) = older {
            self.give_up(older);
        }
    }

    fn hit(&self, entry: EntryNumber) -> Frame {
        self.frame_at(entry)
    }

    fn still_holds(&self, offset: u64, entry: impl FnOnce() -> EntryNumber) -> bool {
        let frame = self.lists().of_entry.get(&entry().0).copied();
        frame.is_some_and(|frame| self.geometry.offset_of_frame(frame) == offset)
    }

    fn tells_of_memory(&self, state: u32) -> bool {
        state & crate::directory::VALID != 0
    }

    fn left(&self, entry: EntryNumber) {
        self.give_up(entry);
    }

    fn invalidated_in_memory(&self, entry: EntryNumber) {
        self.give_up(entry);
    }

    fn carry_lost(&self, _: &LockedShard<'_>, _: EntryNumber) -> Carried {
        Carried::NoRoom
    }

    fn read_failed(&self, _: Frame) {}

    fn is_unreadable(&self, _: Frame) -> bool {
        false
    }

    fn writes(&self, sequence: Sequence) -> Option<Vec<FlashWrite>> {
        let group = self.group_of(sequence);
        let (page_size, memory) = (self.geometry.page_size(), self.group_memory(sequence));
        let summary_bytes = self.geometry.summary_frames() as usize * page_size;
        let summary = self.staged_bytes(memory, summary_bytes);
        let offset = self.geometry.offset_of_frame(self.entry_of(group.position()).frame_in_queue());
        let mut writes = vec![FlashWrite { offset, memory, bytes: summary_bytes }];
        let records = (0..group.records() as usize).filter_map(|index| GroupSummary::record(summary, index));
        let frames = records.filter_map(|record| match record.kind {
            RecordKind::Page { home, .. } => Some(home),
            _ => None,
        });
        writes.extend((0..).zip(frames).map(|(index, frame)| FlashWrite {
            offset: self.geometry.offset_of_frame(frame),
            memory: self.staged_page(group, index),
            bytes: page_size,
        }));
        Some(writes)
    }

    fn groups_durable(&self) {
        let durable = self.control().groups.flushed();
        let lists = &mut *self.lists();
        let (free, leaving) = lists.leaving.iter().partition(|(states_it, _)| *states_it < durable);
        let free: Vec<(Sequence, Frame)> = free;
        lists.leaving = leaving;
        lists.freed += free.len() as u64;
        lists.free.extend(free.into_iter().map(|(_, frame)| frame));
    }

    fn take_records(&self, group: &StagingGroup) -> bool {
        self.queue.take_records(group)
    }

    fn take_disk_sync(&self) -> bool {
        self.queue.take_disk_sync()
    }

    fn is_short(&self) -> bool {
        (self.lists().free.len() as u64) < self.geometry.group_pages()
    }

    fn waits_for(&self, open: Sequence) -> bool {
        self.is_short() && self.lists().leaving.iter().any(|(states_it, _)| *states_it >= open)
    }

    fn freed(&self) -> u64 {
        self.lists().freed
    }

    fn is_filling(&self) -> bool {
        self.queue.is_filling()
    }

    fn round(&self) -> (u64, u64) {
        self.queue.round()
    }

    fn may_make_room(&self) -> bool {
        self.queue.may_make_room()
    }

    fn abandon(&self, dead: u64) {
        self.queue.abandon(dead);
    }

    /// No frame is given twice.
    fn check(&self) {
        let lists = self.lists();
        let leaving = lists.leaving.iter().map(|(_, frame)| frame);
        let mut all: Vec<&Frame> = lists.free.iter().chain(lists.of_entry.values()).chain(leaving).collect();
        let count = all.len();
        all.sort_unstable();
        all.dedup();
        assert_eq!(all.len(), count, "a frame is free, or one page's, or leaving");
    }
}

impl QueueRules for Scattered<'_> {
    fn frames_ahead(&self) -> u64 {
        self.queue.frames_ahead()
    }

    fn take_front(&self) -> bool {
        self.queue.take_front()
    }

    fn pass_barrier(&self) {
        self.queue.pass_barrier();
    }

    fn barrier(&self) -> Sequence {
        self.queue.barrier()
    }

    fn records_leave(&self, front: Position, end: Position) {
        for position in Position::each(front..end) {
            self.give_up(self.entry_of(position));
        }
    }

    fn synced_end(&self) -> Position {
        self.queue.synced_end()
    }

    fn is_synced(&self, position: Position) -> bool {
        self.queue.is_synced(position)
    }

    fn scanned_from(&self) -> Position {
        self.queue.scanned_from()
    }

    fn pass_bad(&self, group: &StagingGroup) -> bool {
        self.has_place(group)
    }
}
