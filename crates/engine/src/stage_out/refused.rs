//! Pages that disk does not take (docs/decisions/0022-pages-that-disk-does-not-take.md).
//!
//! A host may carry out a [`Job::WriteDisk`](crate::Job::WriteDisk) but for some of its pages: their file is
//! missing, its file system is full, its disk reports an error ([`WriteDisk::refuse`](crate::WriteDisk)).
//! Everything else goes on:
//! 1. A refused page stays dirty, and is the newest version still.
//! 2. In the queue its group stays at the front until the frame is needed. Then the page is appended at the
//!    rear once more, as a second chance is, and the front moves on with the pages of other files.
//! 3. Where pages are written in place it stays where it is, as a page like others: if it was to leave, the
//!    policy names another one.
//! 4. A drain that meets one ends as [`DrainState::Refused`](crate::DrainState::Refused).
//!
//! That could go round for ever. So at most half of the frames are appended again within one revolution of
//! the queue, or stay in place while as many pages come in as there are frames. When that is used up, or
//! nothing will make room at the rear, stage-out *rests* until somebody asks for another attempt,
//! [`Tier::retry_disk`]: who waits for room, and the host now and then. Each attempt has some more pages
//! appended again than the one before, and an invalidation as many as were invalidated. Who finds it at rest
//! again after that, and nobody has a job in hand that makes room ([`Tier::may_make_room`]), has waited in
//! vain. Who cannot do without room has as much appended again once more, [`Tier::retry_disk_at_any_cost`]:
//! after a whole revolution all that disk takes has left.

use std::collections::BTreeSet;

use crate::core::Tier;
use crate::directory::{HEAD, LockedShard, REFERENCED, VALID, needs_disk};
use crate::format::{Record, RecordKind};
use crate::groups::group::Reserve;
use crate::groups::group::StagingGroup;
use crate::ids::{IdRange, PageId, Position, Version};
use crate::planted::{self, Bug};
use crate::stage_out::batch::BatchPage;
use crate::stage_out::batch::Load;
use crate::stage_out::refusals::Resting;
use crate::stage_out::unreadable::version_of;

/// What a page is appended again as.
pub(crate) struct Again {
    pub(crate) kind: RecordKind,
    pub(crate) version: Option<(u32, Version)>,
    pub(crate) flags: u32,
}

/// What became of a refused page at the front.
enum Carried {
    /// It lies at the rear, or need not go to disk any more.
    Done,
    /// There is no room for it at the rear.
    NoRoom,
    /// Too many were appended again.
    TooMany,
}

impl Tier {
    /// Whether stage-out rests because disk refuses pages, and there is no more room for them.
    pub fn rests_for_disk(&self) -> bool {
        self.control().refusals.resting.get() == Resting::Rests
    }

    /// Says that disk may refuse pages while this tier is open: room is kept for them, also where none is
    /// kept for the names of lost pages.
    pub fn keep_room_for_refused(&self) {
        self.control().refusals.keeps_room.set(1);
    }

    /// Has stage-out try once more what disk has refused, and a few more pages behind it.
    pub fn retry_disk(&self) {
        if self.rests_for_disk() {
            let _guard = self.control().lock.lock(self.owner);
            // Somebody else may have had it try meanwhile.
            if self.rests_for_disk() {
                self.carry_a_few_more();
                self.front_goes_on();
            }
        }
    }

    /// The same, and has as many refused pages appended again as within another revolution. Each page that
    /// comes in may then cost writes of nearly all that is in the tier.
    pub fn retry_disk_at_any_cost(&self) {
        let control = self.control();
        if self.rests_for_disk() {
            let _guard = control.lock.lock(self.owner);
            // Also if somebody else has had it try meanwhile, for less: this counts as an attempt.
            control.refusals.carried.set(0);
            if self.rests_for_disk() {
                self.front_goes_on();
            }
        }
    }

    /// An attempt meets the page first that stage-out has stopped at. Disk may refuse that one still, and
    /// take most of what lies behind it: so each attempt lets some more be appended again, twice as many as
    /// the one before until they have come to half of the frames, and a group from then on. Under the
    /// control lock.
    fn carry_a_few_more(&self) {
        let refusals = &self.control().refusals;
        let (now, frames) = self.placement().round();
        let (before, group) = (refusals.more.get(), self.geometry.group_pages());
        refusals.attempt(before.min((frames / 2).saturating_sub(before)).max(group), now);
    }

    /// Whether there may be more room soon though stage-out rests: somebody has a job in hand, or something
    /// is on its way out of the tier.
    pub fn may_make_room(&self) -> bool {
        let _guard = self.control().lock.lock(self.owner);
        self.placement().may_make_room()
    }

    /// The room of tombstones. Where stage-out rests because nothing finds any at the rear, to invalidate
    /// what disk refuses is what helps: so they take the last there is, and leave that of a group that
    /// carries the front.
    pub(crate) fn reserve_of_invalidations(&self) -> Reserve {
        let rests = self.rests_for_disk() && !planted::is(Bug::RefusedCannotBeDropped);
        if rests { Reserve::Lost } else { Reserve::Foreground }
    }

    /// Whether the open group is one that a tombstone has opened at rest: pages that come in would fill the
    /// last room with it. Under the control lock.
    #[inline]
    pub(crate) fn is_of_invalidations(&self, open: &StagingGroup) -> bool {
        open.is_kept_for_invalidations() && !planted::is(Bug::DropsRoomShared)
    }

    /// Closes a group of tombstones, which nobody fills, once there is nothing else to do: those of
    /// invalidations that come one after the other share it. True if there was one. Under the control lock.
    pub(crate) fn seal_invalidations(&self) -> bool {
        let open = self.control().append.open().map(|open| self.group_of(open));
        let of_invalidations = open.filter(|open| self.is_of_invalidations(open));
        if let Some(group) = of_invalidations {
            self.seal(group, true);
        }
        of_invalidations.is_some()
    }

    /// Whether a tombstone of this range would say nothing, and take room that nothing makes at rest: no page
    /// of it is linked or about to be, and a crash finds none that was unlinked without one. Under the
    /// control lock, without which stage-out, which may have a page between two places otherwise, begins
    /// nothing.
    pub(crate) fn has_nothing_of(&self, range: &IdRange) -> bool {
        let control = self.control();
        let moving = !control.batch.is_idle() || self.placement().moves();
        if !self.rests_for_disk() || moving || self.may_return() || planted::is(Bug::DropsOfNothingTakeRoom) {
            return false;
        }
        // An offer that was given a place before the invalidation was counted, and is linked only when its
        // copy is complete.
        if self.staging_groups().iter().any(StagingGroup::is_being_filled) {
            return false;
        }
        !self.any_appended_of(range, |_, position| self.state_at(position) & VALID != 0)
    }

    /// So many pages were invalidated at rest: as many others may be appended again in their stead. Where
    /// tombstones have taken most of the last room, as many as at any cost: what was invalidated is left
    /// behind then, and has taken more than its tombstones. Under the control lock.
    pub(crate) fn invalidated_at_rest(&self, pages: u64) {
        let short = 2 * self.geometry.group_frames + self.placement().names_room() / 2;
        let scarce = self.frames_before(self.room_end(Reserve::Refused)) < short;
        if !planted::is(Bug::DroppedStillCounts) {
            self.control().refusals.forgive(if scarce { u64::MAX } else { pages });
        }
        self.front_goes_on();
    }

    /// Stage-out rests from now on. Under the control lock.
    pub(crate) fn rest(&self) {
        self.control().refusals.resting.set(Resting::Rests);
    }

    /// The front goes on, and has not met a refused page yet. Under the control lock.
    pub(crate) fn front_goes_on(&self) {
        self.control().refusals.resting.set(Resting::GoesOn);
    }

    /// The front waits for room that nothing will make: true if it does for a page that disk has refused, and
    /// so rests. Under the control lock.
    pub(crate) fn rest_for_want_of_room(&self) -> bool {
        let control = self.control();
        let refused = control.refusals.resting.get() == Resting::Waits;
        if refused {
            control.front_wait.waits_no_more();
            self.rest();
        }
        refused
    }

    /// Those of the batch's pages that disk has refused.
    pub(crate) fn refused_of_batch(&self, refused: &BTreeSet<PageId>) -> Vec<BatchPage> {
        if refused.is_empty() {
            return Vec::new();
        }
        self.batch_list()
            .filter(|page| refused.contains(&self.directory().id(self.entry_of(page.position))))
            .collect()
    }

    /// Disk has refused these pages of the batch; the others are about to be marked as written. Under no
    /// lock.
    pub(crate) fn keep_refused(&self, refused: &[BatchPage]) {
        if refused.is_empty() || planted::is(Bug::RefusedCountsAsWritten) {
            return;
        }
        self.control().counters.disk_refused.count(refused.len() as u64);
        match self.control().batch.load() {
            Load::Groups => self.carry_refused(refused),
            Load::Drain => {
                let directory = self.directory();
                for page in refused {
                    let entry = self.entry_of(page.position);
                    self.drain_refused(&directory.id(entry), directory.state(entry));
                }
            }
            Load::Leaving => {
                let entries = refused.iter().map(|page| self.entry_of(page.position));
                self.placement().batch_refused(&entries.collect::<Vec<_>>());
            }
        }
    }

    /// Refused pages of groups at the front: appends them again, if their frames are needed and as far as
    /// that goes. The groups behind stay.
    fn carry_refused(&self, refused: &[BatchPage]) {
        // Before anything is appended: what makes room from now on is not missed.
        let room = self.room();
        let mut refused = refused.to_vec();
        refused.sort_unstable_by_key(|page| page.position);
        for page in refused {
            let mut groups = self.batch_groups();
            let holding = groups.find(|(group, head)| self.pages_of(*group, head).contains(&page.position));
            let Some((group, head)) = holding else { continue };
            if !self.group_needed(group) && !planted::is(Bug::RefusedAheadOfNeed) {
                self.leave_at_front(group);
                return;
            }
            let records = self.batch_records(group, &head);
            let record = records.get((page.position - self.page_position(group, 0)) as usize);
            let resting = match self.carry_on(page, record) {
                Carried::Done => continue,
                Carried::NoRoom => Resting::Waits,
                Carried::TooMany => Resting::Rests,
            };
            let control = self.control();
            // Under one lock: who finds that the front waits finds for what.
            let _guard = control.lock.lock(self.owner);
            control.batch.ends_at(group);
            if resting == Resting::Waits {
                control.front_wait.wait_for_more_than(room);
            }
            control.refusals.resting.set(resting);
            return;
        }
    }

    /// Appends a refused page again, unless it need not go to disk any more.
    fn carry_on(&self, page: BatchPage, record: Option<&Record>) -> Carried {
        let directory = self.directory();
        let entry = self.entry_of(page.position);
        let id = directory.id(entry);
        let shard = directory.lock(directory.hashed(&id), self.owner);
        let state = directory.state(entry);
        if shard.find(&id) != Some(entry) || !needs_disk(state) {
            return Carried::Done;
        }
        let (version, lsn) = version_of(record, &id);
        let checksum = directory.checksum(entry);
        let dirty = !planted::is(Bug::RefusedCarriedClean);
        let kind = RecordKind::again(id, dirty, false, lsn, checksum);
        if !self.may_carry(page.position) {
            return Carried::TooMany;
        }
        let flags = state & !(VALID | REFERENCED | HEAD);
        match self.append_again(&shard, page, &Again { kind, version, flags }, Reserve::Refused) {
            true => {
                let _guard = self.control().lock.lock(self.owner);
                self.too_many_carried(1, page.position.number());
                Carried::Done
            }
            false => Carried::NoRoom,
        }
    }

    /// Appends the page of a frame at the front at the rear once more, in place of that; false if there is no
    /// room. Under the lock of its shard.
    pub(crate) fn append_again(
        &self,
        shard: &LockedShard<'_>,
        page: BatchPage,
        again: &Again,
        reserve: Reserve,
    ) -> bool {
        let Again { kind, version, flags } = *again;
        let RecordKind::Page { id, checksum, .. } = kind else { return false };
        let old_entry = self.entry_of(page.position);
        let state = self.directory().state(old_entry);
        let replaced = Some(crate::groups::group::Replaced { state, position: page.position });
        let Some(place) = self.append(kind, version, reserve, replaced) else { return false };
        // Invariant 5: no write covers the frames that its contents came from.
        assert_ne!(place.entry, old_entry, "a page would be overwritten by its own copy");
        planted::inside("appended again: place given out");
        let bytes = self.batch_bytes(page.place, self.geometry.page_size());
        self.region.copy_in(place.memory, bytes);
        if let Some(linked) = shard.find(&id) {
            shard.unlink(linked);
        }
        planted::inside("appended again: old frame unlinked");
        shard.link(place.entry, &id, flags, checksum);
        planted::inside("appended again: linked, not counted as filled");
        self.filled(place);
        true
    }

    /// Whether one more refused page, from this position, may be appended again within this revolution of the
    /// queue.
    fn may_carry(&self, position: Position) -> bool {
        let _guard = self.control().lock.lock(self.owner);
        !self.too_many_carried(0, position.number())
    }

    /// Counts refused pages that stay. Whether that was too much for one revolution: half of the frames. One
    /// is over when the front has `reached` what was the rear at its beginning; where pages are written in
    /// place, when as many have come in as there are frames. Under the control lock.
    ///
    /// Some frames are always free, so the front comes to a page again before as many were filled as there
    /// are. Counted by these, pages were carried twice within one revolution, and far fewer than half were
    /// too many.
    fn too_many_carried(&self, more: u64, reached: u64) -> bool {
        let refusals = &self.control().refusals;
        let (now, frames) = self.placement().round();
        let reached = match planted::is(Bug::RevolutionByFrames) {
            true => now.saturating_sub(frames),
            false => reached,
        };
        if reached >= refusals.since.get() {
            refusals.begin_revolution(now);
        }
        refusals.carried.bump(more);
        refusals.carried.get() >= frames / 2 && !planted::is(Bug::RefusedForEver)
    }

    /// The same where pages are written in place.
    pub(crate) fn too_many_stay(&self, more: u64) -> bool {
        let (now, frames) = self.placement().round();
        self.too_many_carried(more, now.saturating_sub(frames))
    }
}
