//! What a database's checkpoint needs of the tier: marks, and drains up to a mark.
//!
//! A *mark* is made when the database chooses its redo pointer. Every dirty page remembers the mark since
//! which it is dirty; a newer version inherits that from the one it supersedes until the older one has
//! been written to disk. With sync mode `drained` a checkpoint has the newest version of every page that is
//! dirty since before its mark written to disk and synced; then losing the flash device costs no more than
//! redo from the redo pointer.
//!
//! ```text
//!           request_drain          all durable frames seen       no page waits        disk synced
//!   IDLE ----------------> SWEEP ---------------------> LAST ------------> WRITTEN -----------> MARKING -> IDLE
//! ```
//!
//! - SWEEP: the batch takes pages of the scope in the order of the queue. A page that is superseded before it
//!   was written has its successor behind the sweep's end, which moves with it.
//! - LAST: what still waits was staged in during the sweep. Everything is made durable, and until a waiting
//!   page has been written it is not superseded: its stage-in finds the tier full and its caller carries out
//!   jobs. So the drain ends however often a page is evicted.
//! - WRITTEN: the disk is synced once more, then what the drain wrote counts as clean.

pub(crate) mod request;

pub(crate) mod clean;

pub(crate) mod drain;

use crate::checkpoint::clean::Watch;
use crate::checkpoint::request::DrainScope;
use crate::checkpoint::request::Mark;
use crate::checkpoint::request::Oldest;
use crate::checkpoint::request::Stage;
use crate::core::Tier;
use crate::directory::{DIRTY, DRAINED, SINCE_MAX, VALID, WRITTEN, is_lost, needs_disk, since};
use crate::format::{RedoPoint, Superblock};
use crate::ids::{IdRange, PageId, Position};
use crate::planted::{self, Bug};
use crate::stage_out::batch::BatchPage;
use crate::stage_out::batch::Load;
use crate::stage_out::unreadable::Unread;

/// What a drain has for the batch.
pub(crate) enum Sweep {
    /// Frames to be looked at.
    Scan,
    /// Nothing, but it has come one step further, so that there may be other work now.
    Moved,
    Nothing,
}

/// Frames looked at before the batch can be used for something else.
const SCAN_FRAMES: u64 = 16 * 1024;

/// A drain that was requested.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DrainTicket(u64);

/// How far a drain is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DrainState {
    /// Carry out jobs or wait for them.
    Pending,
    /// The newest version of every page of the scope is on disk, synced.
    Done,
    /// It is over, and pages of the scope are lost: disk has them as they were before, or not at all.
    Lost,
    /// It is over, and disk has refused pages of the scope ([`WriteDisk::refuse`](crate::WriteDisk::refuse)),
    /// which are as dirty as before; some may be lost besides.
    Refused,
    /// It cannot be completed; see [`Tier::failure`].
    Failed,
}

/// Another drain is under way: carry out jobs or wait, then ask again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DrainBusy;

impl std::fmt::Display for DrainBusy {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "another drain is under way; try again when it is done")
    }
}

impl std::error::Error for DrainBusy {}

impl Tier {
    /// The last mark.
    pub fn mark(&self) -> Mark {
        Mark(self.control().mark.get())
    }

    /// Starts a database's checkpoint: pages staged in from now on as [`crate::StageKind::Dirty`] are dirty
    /// since this mark, and those that are dirty already since before it.
    pub fn begin_checkpoint(&self) -> Mark {
        let control = self.control();
        let _guard = control.lock.lock(self.owner);
        Mark(control.mark.add(1) + 1)
    }

    /// Step one of a database's checkpoint that is otherwise complete: the superblock by which the tier
    /// covers everything before `point`. Made durable before the database's control file names it.
    ///
    /// The checkpoint is complete in the tier's part when the ticket of a [`Tier::request_sync`] after the
    /// flush of the buffer pool is durable, and with sync mode `drained` the drain up to its mark is done.
    ///
    /// From then on redo has nothing for what came before, so what was durable by then must be there: the
    /// superblock says which groups that are. One of them that has rotted would be taken for torn by the
    /// loss of power otherwise, if none after it says that it was durable. (A tier with a slot directory has
    /// no chain of groups.)
    #[must_use]
    pub fn promised(&self, superblock: &Superblock, point: RedoPoint) -> Superblock {
        let uncounted = self.geometry.slot_directory().is_some() || planted::is(Bug::PromiseUncounted);
        let durable_sequence = if uncounted { superblock.durable_sequence } else { self.durable_groups() };
        Superblock { durable_sequence, ..superblock.with_pending(point) }
    }

    /// Has stage-out write the newest version of every dirty page of `scope` to disk, and sync it.
    ///
    /// It covers what was staged in before; what is not durable by then is made so, since a page reaches disk
    /// only after it is durable on flash.
    ///
    /// # Errors
    /// [`DrainBusy`]: one drain at a time.
    pub fn request_drain(&self, scope: &DrainScope) -> Result<DrainTicket, DrainBusy> {
        let (ticket, next) = self.begin_sweep(scope)?;
        if let Some(range) = &scope.range {
            // What was appended before the sweep began is found here. What supersedes it since lies where the
            // sweep's end was or behind, and has moved that end.
            let (first, end) = self.to_drain(range).unwrap_or((next, next));
            planted::outside("request drain: range looked up");
            let _guard = self.control().lock.lock(self.owner);
            let drain = &self.control().drain;
            if drain.number.get() == ticket.0 && drain.stage.get() == Stage::Sweep {
                drain.set_cursor(drain.cursor().max(first.min(next)));
                if drain.end() == next || planted::is(Bug::SupersededLeftOut) {
                    drain.set_end(end.min(next));
                }
            }
        }
        Ok(ticket)
    }

    /// The sweep begins; the position of the next record that is appended. Not the rear, which lies behind
    /// all that the open group may use.
    fn begin_sweep(&self, scope: &DrainScope) -> Result<(DrainTicket, Position), DrainBusy> {
        let control = self.control();
        let _guard = control.lock.lock(self.owner);
        let drain = &control.drain;
        if drain.stage.get() != Stage::Idle {
            return Err(DrainBusy);
        }
        // Without a mark everything counts: no page is dirty since after the next one.
        drain.before.set(scope.before.map_or(u64::MAX, |mark| mark.0));
        drain.set_range(scope.range.as_ref());
        drain.set_cursor(control.passed.cleaned());
        let open = control.append.open().map(|open| self.group_of(open));
        let next = open.map_or(control.ends.rear(), |open| {
            open.position() + self.geometry.summary_frames() + open.pages()
        });
        drain.set_end(if planted::is(Bug::SweptToRear) { control.ends.rear() } else { next });
        drain.lost.set(0);
        drain.refused.set(0);
        drain.wrote_none();
        planted::inside("request drain: scope set");
        let number = drain.number.add(1) + 1;
        drain.stage.set(Stage::Sweep);
        Ok((DrainTicket(number), drain.end()))
    }

    /// Between which positions of the queue the pages of the range lie that disk needs, or that are lost.
    fn to_drain(&self, range: &IdRange) -> Option<(Position, Position)> {
        let directory = self.directory();
        let mut between: Option<(Position, Position)> = None;
        self.each_that_may_be_linked(range, |id| {
            let shard = directory.lock(directory.hashed(id), self.owner);
            let Some(entry) = shard.find(id) else { return };
            if directory.state(entry) & DIRTY != 0 {
                let position = self.position_of(entry);
                let (first, end) = between.unwrap_or((position, position));
                between = Some((first.min(position), end.max(position.next())));
            }
        });
        between
    }

    /// How far a drain is.
    pub fn drain_state(&self, ticket: &DrainTicket) -> DrainState {
        let drain = &self.control().drain;
        if drain.done.get() >= ticket.0 {
            match () {
                () if drain.was_refused(ticket.0) => DrainState::Refused,
                // One that came later may be meant; then this one is asked for again, and finds out.
                () if drain.last_lost.get() >= ticket.0 => DrainState::Lost,
                () => DrainState::Done,
            }
        } else if self.failure().is_some() {
            DrainState::Failed
        } else {
            DrainState::Pending
        }
    }

    /// The `dirty since` of a version that supersedes one in state `older`.
    pub(crate) fn inherited_since(&self, older: Option<u32>, oldest: Oldest) -> u64 {
        let mark = self.control().mark.get();
        let own = match oldest {
            Oldest::BeforeMark if !planted::is(Bug::BeforeMarkIgnored) => mark.saturating_sub(1),
            Oldest::Since(seen) => seen.0.min(mark),
            _ => mark,
        };
        match older.filter(|&state| needs_disk(state) || is_lost(state)) {
            Some(state) if !planted::is(Bug::SinceNotInherited) => own.min(since(state)),
            _ => own,
        }
    }

    /// Whether the drain under way waits for the page whose version, at `position`, is in `state`. Under the
    /// control lock, or for the sweep, which looks at nothing that moves.
    #[inline(always)]
    pub(crate) fn drain_awaits(&self, id: &PageId, state: u32, position: Position) -> bool {
        // First what is nearly always so: no drain is under way that has its end behind the page.
        position < self.control().drain.end() && needs_disk(state) && self.drain_covers(id, state)
    }

    /// Whether a dirty page is in the scope of the drain under way, wherever it lies.
    pub(crate) fn drain_covers(&self, id: &PageId, state: u32) -> bool {
        let drain = &self.control().drain;
        if !drain.is_sweeping() {
            return false;
        }
        let before = drain.before.get();
        // Ages beyond the largest are not told apart and count as old.
        let old = since(state) < before || since(state) == SINCE_MAX;
        old && drain.range().is_none_or(|range| range.contains(id))
    }

    /// A page that the drain waits for is about to be appended again; false if it must be written first.
    /// Under the control lock.
    pub(crate) fn drain_lets_supersede(&self, position: Position) -> bool {
        let drain = &self.control().drain;
        match drain.stage.get() {
            Stage::Last => return planted::is(Bug::LastSweepSuperseded),
            Stage::Sweep if planted::is(Bug::SweepEndUnmoved) => {}
            Stage::Sweep => drain.set_end(drain.end().max(position.next())),
            _ => {}
        }
        true
    }

    /// Whether there is a sweep for the batch to carry on with. Under the control lock.
    pub(crate) fn take_drain(&self) -> Sweep {
        let control = self.control();
        let drain = &control.drain;
        if !drain.is_sweeping() || !control.batch.is_idle() || control.draining.get() != 0 {
            return Sweep::Nothing;
        }
        let cursor = drain.cursor().max(control.passed.cleaned());
        drain.set_cursor(cursor);
        if cursor >= drain.end() {
            let unsynced = planted::is(Bug::DrainUnsynced)
                || (planted::is(Bug::IdleDrainUnsynced) && self.nothing_drained());
            if unsynced {
                drain.over();
            }
            drain.stage.set(Stage::Written);
            planted::inside("drain: all written");
            return Sweep::Moved;
        }
        if cursor >= control.ends.staged_from() {
            if drain.stage.get() == Stage::Last {
                return Sweep::Nothing;
            }
            self.make_last();
            return Sweep::Moved;
        }
        control.batch.take(Load::Drain);
        planted::inside("drain: batch scanning");
        Sweep::Scan
    }

    /// Whether the drain under way has written no page that is still the newest.
    fn nothing_drained(&self) -> bool {
        let control = self.control();
        let drained = |position| self.directory().state(self.entry_of(position)) & DRAINED != 0;
        !Position::each(control.ends.front()..control.ends.rear()).any(drained)
    }

    /// The sweep has met groups that are not durable yet: has them made so.
    fn make_last(&self) {
        let control = self.control();
        let open = control.append.open().map(|open| self.group_of(open));
        if let Some(group) = open.filter(|group| group.records() > 0) {
            self.seal(group, true);
        }
        // An open group that is empty has its frames already, and nothing of the scope: nobody may ever fill
        // it.
        let (end, groups_end) = match control.append.open() {
            None => (control.ends.rear(), control.groups.next()),
            Some(empty) => (self.group_of(empty).position(), empty),
        };
        control.drain.set_end(end);
        planted::inside("drain: about to be the last pass");
        control.drain.stage.set(Stage::Last);
        control.groups.want(groups_end);
    }

    /// Looks for pages of the scope from the cursor on. The batch is scanning, for the caller alone; no lock
    /// is held.
    pub(crate) fn scan_for_drain(&self) {
        let control = self.control();
        let directory = self.directory();
        let from = control.drain.cursor();
        let until = control.drain.end().min(control.ends.staged_from());
        let mut list = Vec::new();
        let mut cursor = from;
        let mut watch = Watch::default();
        let mut looks = 0..SCAN_FRAMES;
        while cursor < until && list.len() < self.geometry.batch_pages() as usize {
            let further = self.scan_goes_on_at(cursor, until, &mut watch);
            if looks.next().is_none() && self.stretch_begins_at(cursor) {
                break;
            }
            if further > cursor {
                cursor = further;
                continue;
            }
            let entry = self.entry_of(cursor);
            let state = directory.state(entry);
            if state & (VALID | DIRTY) == VALID | DIRTY {
                watch.dirty();
            }
            if is_lost(state) {
                self.drain_misses(&directory.id(entry), state);
            }
            if needs_disk(state) && self.drain_awaits(&directory.id(entry), state, cursor) {
                list.push(BatchPage { position: cursor, place: list.len() as u64 });
            }
            cursor += 1;
        }
        self.set_batch_list(&list);
        planted::outside("drain: scanned, cursor not moved");
        let _guard = control.lock.lock(self.owner);
        control.drain.scanned.set(from.number());
        control.drain.set_cursor(cursor);
        planted::inside("drain: cursor moved");
        control.batch.was_scanned();
    }

    /// The pages of a drain have been read: lists those that are still the newest.
    ///
    /// # Errors
    /// A page was not read whole, or, once that was *judged*, is one that only flash had.
    pub(crate) fn drain_was_read(&self, judged: bool) -> Result<(), Unread> {
        let mut list: Vec<BatchPage> = Vec::new();
        // A drain needs no frame; where pages are written in place some leave theirs.
        let leaves = !self.control().batch.carries(Load::Drain);
        for page in self.batch_list().filter(|page| self.position_needs_disk(page.position)) {
            match self.batch_page_whole(page) {
                true => list.push(page),
                false if judged => match self.judge_unreadable(page.position, leaves) {
                    // It stays where it is, and is met again at the front.
                    Ok(()) | Err(Unread::NoRoom | Unread::NotNeeded) => {}
                    stuck => return stuck,
                },
                // It may have been superseded while it was looked at.
                false if self.position_needs_disk(page.position) => return Err(Unread::NotWhole),
                false => {}
            }
        }
        self.set_batch_list_by_id(list);
        Ok(())
    }

    /// Whether the drain waits for a sync of the disk. Under the control lock.
    pub(crate) fn drain_wants_sync(&self) -> bool {
        self.control().drain.stage.get() == Stage::Written
    }

    /// A sync of the disk begins. Under the control lock.
    pub(crate) fn drain_sync_begins(&self) {
        if self.drain_wants_sync() {
            self.control().drain.stage.set(Stage::Syncing);
        }
    }

    /// The disk is synced, also for stage-out's own writes of groups before `synced_end`: what was written is
    /// clean. No lock is held.
    pub(crate) fn drain_synced(&self, synced_end: Position) {
        let control = self.control();
        {
            let _guard = control.lock.lock(self.owner);
            let earlier = planted::is(Bug::DrainTakesEarlierSync) && self.drain_wants_sync();
            if control.drain.stage.get() != Stage::Syncing && !earlier {
                return;
            }
            control.drain.stage.set(Stage::Marking);
            control.drain.owner.set(self.owner.into());
        }
        planted::outside("drain: marking begun");
        let directory = self.directory();
        let is_clean = |state: u32, position: Position| {
            state & (VALID | WRITTEN) == VALID | WRITTEN && (state & DRAINED != 0 || position < synced_end)
        };
        if control.drain.has_written() {
            // One of its pages may have been appended again, and not be linked there yet; from here on none
            // is.
            directory.pass_locks(self.owner);
        }
        let front = control.ends.front();
        let written = control.drain.written(front);
        let written = if planted::is(Bug::DrainedAtFrontAlone) { front..front } else { written };
        // What was staged out up to an earlier drain's sync was marked then. The rest of it may overlap with
        // what the drain has written: that is looked at twice.
        let staged_out = front.max(control.drain.marked())..synced_end;
        for position in Position::each(staged_out).chain(Position::each(written)) {
            let entry = self.entry_of(position);
            if !is_clean(directory.state(entry), position) {
                continue;
            }
            let id = directory.id(entry);
            let shard = directory.lock(directory.hashed(&id), self.owner);
            if shard.find(&id) == Some(entry) && is_clean(directory.state(entry), position) {
                shard.clear_flags(entry, DIRTY | WRITTEN | DRAINED);
                planted::inside("drain: one page marked clean");
            }
        }
        let _guard = control.lock.lock(self.owner);
        control.drain.set_marked(synced_end);
        control.drain.stage.set(Stage::Idle);
        planted::inside("drain: over, not counted");
        control.drain.over();
    }

    /// A page of the scope cannot be written: it is lost.
    pub(crate) fn drain_misses(&self, id: &PageId, state: u32) {
        if self.drain_covers(id, state) {
            self.control().drain.lost.set(1);
        }
    }

    /// A page of the scope was not written: disk has refused it.
    pub(crate) fn drain_refused(&self, id: &PageId, state: u32) {
        if needs_disk(state) && self.drain_covers(id, state) && !planted::is(Bug::RefusedCountsAsDrained) {
            self.control().drain.refused.set(1);
        }
    }

    /// Takes a drain's sync or marking back from an owner that has died: the disk is synced again. Under
    /// the control lock.
    pub(crate) fn abandon_drain(&self, dead: u64) {
        let control = self.control();
        // The owner may have died with the sync completed and the marking not begun.
        let syncing = control.drain.stage.get() == Stage::Syncing && control.disk_sync.is_of(dead);
        let marking = control.drain.is_marking() && control.drain.owner.get() == dead;
        if syncing || marking {
            control.drain.stage.set(Stage::Written);
        }
    }
}
