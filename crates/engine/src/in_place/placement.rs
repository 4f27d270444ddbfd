//! What the page engine asks of a placement in place. Where it says what is done there, the other files say
//! how.

use super::InPlace;
use crate::directory::{LOST, LockedShard, VALID};
use crate::format::{GroupSummary, Record, RecordKind};
use crate::groups::group::StagingGroup;
use crate::ids::{EntryNumber, Frame, PageId, Position, Sequence};
use crate::placement::Carried;
use crate::placement::{FlashWrite, Placement, QueueRules, Recorded, Step, Tried};

impl Placement for InPlace<'_> {
    fn frame_at(&self, entry: EntryNumber) -> Frame {
        self.home_of(entry)
    }

    fn page_frames(&self) -> u64 {
        self.geometry_in_place.homes.into()
    }

    fn frames(&self) -> u64 {
        self.geometry.frames()
    }

    fn work(&self) -> u64 {
        self.control().append.next_version().number()
    }

    fn admits(&self, id: &PageId, referenced: bool) -> bool {
        self.is_admitted(id, referenced)
    }

    fn holds_back(&self, id: &PageId, older: Option<EntryNumber>) -> bool {
        self.slot_holds_back(id, older)
    }

    fn has_room(&self) -> bool {
        self.has_home()
    }

    fn assign(&self, record: &mut RecordKind) -> bool {
        // A page that is appended again brings its home along.
        let RecordKind::Page { second_chance: false, home, .. } = record else { return true };
        let Some(taken) = self.take_home() else { return false };
        *home = taken;
        true
    }

    fn assigned(&self, entry: EntryNumber, record: &RecordKind, recorded: Recorded) {
        if let RecordKind::Page { home, .. } = record {
            self.name_home(entry, *home, recorded);
        }
    }

    fn entered(&self, entry: EntryNumber, id: &PageId, older: Option<EntryNumber>, dirty: bool) {
        self.placed(entry, id, older.map(|older| self.homes().of_entry(older)), dirty);
    }

    fn hit(&self, entry: EntryNumber) -> Frame {
        self.note_hit(entry)
    }

    fn missed(&self, id: &PageId) {
        self.miss(id);
    }

    /// A frame is given to another page before its record leaves the queue.
    fn still_holds(&self, _: u64, entry: impl FnOnce() -> EntryNumber) -> bool {
        self.directory().state(entry()) & VALID != 0
    }

    /// Memory has not every page that is on its way, and an entry without a page does not tell of which it
    /// is.
    fn tells_of_memory(&self, state: u32) -> bool {
        state & VALID != 0
    }

    fn left(&self, entry: EntryNumber) {
        self.unplaced(self.homes().of_entry(entry));
    }

    fn invalidated_in_memory(&self, entry: EntryNumber) {
        self.leak(entry);
    }

    fn changed_on_disk(&self, page: Option<&PageId>) {
        self.slot_changed_on_disk(page);
    }

    fn carry_lost(&self, shard: &LockedShard<'_>, entry: EntryNumber) -> Carried {
        shard.set_flags(entry, LOST);
        self.keep_home(entry);
        Carried::Appended
    }

    fn found(&self, entry: EntryNumber) {
        self.give_home_back(entry);
    }

    fn read_failed(&self, frame: Frame) {
        self.note_unreadable(frame);
    }

    fn is_unreadable(&self, frame: Frame) -> bool {
        self.homes().is_unreadable(frame)
    }

    fn next_step(&self, tried: &Tried) -> Option<Step> {
        self.step_wanted(tried)
    }

    fn carry_out(&self, step: Step) -> bool {
        match step {
            Step::CopyForward => self.copy_forward(),
            Step::Evict => self.evict(),
            Step::List => self.list_dirty_evictions(),
        }
    }

    /// Each time a page leaves; that others come in their places has an end, at which a group of theirs is to
    /// be written.
    fn evictions_max(&self) -> u64 {
        1024 + 4 * self.page_frames()
    }

    fn take_leaving(&self) -> bool {
        self.take_dirty_evictions()
    }

    fn writes(&self, sequence: Sequence) -> Option<Vec<FlashWrite>> {
        let group = self.group_of(sequence);
        let (page_size, memory) = (self.geometry.page_size(), self.group_memory(sequence));
        let summary_bytes = self.geometry.summary_frames() as usize * page_size;
        let summary = self.staged_bytes(memory, summary_bytes);
        let records = (0..group.records() as usize).filter_map(|index| GroupSummary::record(summary, index));
        let pages = records.filter_map(|record| match record.kind {
            RecordKind::Page { home, second_chance, .. } => Some((home, second_chance)),
            _ => None,
        });
        let mut writes = Vec::new();
        if let Some(journal) = &self.geometry.journal {
            writes.push(FlashWrite { offset: journal.offset_of(sequence), memory, bytes: summary_bytes });
        }
        for (index, (home, again)) in (0..).zip(pages) {
            if !again {
                let (offset, memory) = (self.geometry.offset_of_frame(home), self.staged_page(group, index));
                writes.push(FlashWrite { offset, memory, bytes: page_size });
            }
        }
        Some(writes)
    }

    /// Not those that were only named again.
    fn pages_to_write(&self, group: &StagingGroup) -> u64 {
        let writes = self.writes(group.sequence()).map_or(0, |writes| writes.len() as u64);
        writes - u64::from(self.geometry.journal.is_some())
    }

    fn groups_durable(&self) {
        self.free_deferred();
    }

    fn take_records(&self, group: &StagingGroup) -> bool {
        if self.homes().slots.is_none() {
            return self.push_to_segment(group);
        }
        self.pages_durable(group);
        true
    }

    fn batch_written(&self) {
        self.evictions_written();
    }

    fn batch_refused(&self, refused: &[EntryNumber]) {
        self.evictions_refused(refused);
    }

    fn take_disk_sync(&self) -> bool {
        let control = self.control();
        let wanted = self.evictions_want_sync() || self.drain_wants_sync();
        let ready = wanted && control.disk_sync.is_idle();
        if ready {
            self.evictions_sync_begins();
            control.disk_sync.run();
            self.drain_sync_begins();
        }
        ready
    }

    fn pages_synced(&self) {
        self.evictions_synced();
    }

    fn disk_sync_over(&self) {
        let _guard = self.control().lock.lock(self.owner);
        self.control().disk_sync.over();
    }

    fn is_short(&self) -> bool {
        self.homes_short()
    }

    fn waits_for(&self, open: Sequence) -> bool {
        self.homes_wait_for(open)
    }

    fn freed(&self) -> u64 {
        self.ends().freed.get()
    }

    fn is_filling(&self) -> bool {
        self.homes().has_spare()
    }

    /// One is over when as many have come in as there are frames.
    fn round(&self) -> (u64, u64) {
        (self.control().append.next_version().number(), self.page_frames())
    }

    fn may_make_room(&self) -> bool {
        !self.nobody_works()
    }

    fn moves(&self) -> bool {
        true
    }

    fn abandon(&self, dead: u64) {
        self.abandon_slots(dead);
        self.abandon_eviction(dead);
        self.control().disk_sync.abandon(dead, true);
    }

    fn is_held_by(&self, owner: u32) -> bool {
        self.ends().lock.holder() == Some(owner)
    }

    fn poison(&self) {
        self.ends().lock.poison();
    }

    fn is_poisoned(&self) -> bool {
        self.ends().lock.is_poisoned()
    }

    fn replay(&self, record: &Record, entry: EntryNumber) {
        self.replay_home(record, entry);
    }

    fn settle(&self) -> Result<(), EntryNumber> {
        self.settle_homes()
    }

    fn check(&self) {
        self.check_homes();
    }

    fn host_metadata_listed(&self) -> bool {
        self.head_listed()
    }

    fn take_slots(&self, owner: u32, pressing: bool) -> bool {
        self.take_listed(owner, pressing)
    }

    fn slot_writes(&self) -> Vec<FlashWrite> {
        self.homes().slots.map_or_else(Vec::new, |slots| slots.writes())
    }

    fn slots_written(&self) {
        self.listed_written();
    }

    fn slots_want_flush(&self, pressing: bool) -> bool {
        self.homes().slots.is_some_and(|slots| slots.want_flush(pressing))
    }

    fn slots_flush_begins(&self) {
        if let Some(slots) = self.homes().slots {
            slots.flush_begins();
        }
    }

    fn slots_flushed(&self) {
        if let Some(slots) = self.homes().slots {
            slots.flushed();
        }
    }

    fn want_slots(&self) -> u64 {
        let Some(slots) = self.homes().slots else { return 0 };
        let _guard = self.homes().lock(self.owner);
        slots.want_listed()
    }

    fn slots_durable(&self) -> u64 {
        self.homes().slots.map_or(0, |slots| slots.durable())
    }
}

impl QueueRules for InPlace<'_> {
    /// Nothing goes to disk at the front, so nothing is gained by going there early.
    fn frames_ahead(&self) -> u64 {
        self.geometry.ready_frames
    }

    /// Nothing leaves there.
    fn take_front(&self) -> bool {
        false
    }

    fn front_wanted(&self) -> Position {
        self.front_wanted_for_homes()
    }

    fn pass_barrier(&self) {
        self.pass_ring_barrier();
    }

    fn barrier(&self) -> Sequence {
        Sequence::from_number(self.ends().ring_barrier.get())
    }

    fn records_leave(&self, front: Position, end: Position) {
        self.leaked_leave(front, end);
    }

    /// No page is written at the front of the queue.
    fn synced_end(&self) -> Position {
        Position::ZERO
    }

    /// A sync says so in the entries.
    fn is_synced(&self, _: Position) -> bool {
        false
    }

    /// Summaries lie elsewhere: see [`QueueRules::summaries_left`].
    fn scanned_from(&self) -> Position {
        Position::END
    }

    fn summaries_left(&self) -> u64 {
        let Some(journal) = &self.geometry.journal else { return u64::MAX };
        let control = self.control();
        let kept = control.groups.next() - control.segments.durable_sequence();
        journal.groups.saturating_sub(kept)
    }

    fn shortens_groups(&self) -> bool {
        false
    }

    fn pass_bad(&self, group: &StagingGroup) -> bool {
        self.has_place(group)
    }
}
