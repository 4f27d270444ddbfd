//! The tier: what hosts call in the foreground.
//!
//! Every operation here is short and never waits for a device. What takes time is handed out as jobs
//! (see `jobs`).

use mezzanine_ground::counters::{self};

use crate::answers::FlashPage;
use crate::answers::NoRoom;
use crate::answers::StageIn;
use crate::answers::StageKind;
use crate::answers::Token;
use crate::answers::Whereabouts;
use crate::checkpoint::request::Oldest;
use crate::config::{Admission, Geometry, SyncMode};
use crate::core::Tier;
use crate::directory::second_touch::SecondTouch;
use crate::directory::{DIRTY, WRITTEN, dirty_since};
use crate::format::RecordKind;
use crate::groups::group::{Replaced, Reserve};
use crate::ids::{EntryNumber, Frame, PageId, Position};
use crate::layout::HOST_METADATA_BYTES;
use crate::placement::chosen::placed;
use crate::placement::{Placement as _, QueuePlacement};
use crate::planted::{self, Bug};
use crate::statistics::{Event, Statistics};

impl Tier {
    /// The sizes of the tier.
    pub fn geometry(&self) -> &Geometry {
        &self.geometry
    }

    /// The tier's name.
    pub fn uuid(&self) -> [u8; 16] {
        self.uuid
    }

    /// The counters.
    pub fn statistics(&self) -> Statistics {
        let mut statistics = self.control().counters.snapshot();
        let sums = counters::sums(&self.region);
        let of = |event: Event| sums[event as usize];
        statistics.hits_memory = of(Event::HitInMemory);
        statistics.hits_flash = of(Event::HitOnFlash);
        statistics.misses = of(Event::Miss);
        statistics.staged_dirty = of(Event::StagedDirty);
        statistics.staged_clean = of(Event::StagedClean);
        statistics.refused = of(Event::Refused);
        statistics.clean_first_seen = of(Event::FirstTouch);
        statistics
    }

    /// The position at which a frame's content was appended: the only one on that frame within the
    /// last revolution. Only for frames whose entry is linked, under the lock of its shard.
    pub(crate) fn position_of(&self, entry: EntryNumber) -> Position {
        self.control().ends.position_of(entry)
    }

    /// Takes a page that leaves the host's memory (the paper's Algorithm 1, section 4.3).
    ///
    /// `page` has the tier's page size. `lsn` is kept in the group's summary for the host.
    ///
    /// # Panics
    /// If `page` has another length.
    pub fn stage_in(&self, id: &PageId, page: &[u8], kind: StageKind, lsn: u64) -> StageIn {
        assert_eq!(page.len(), self.geometry.page_size(), "a page of the wrong size");
        let oldest = match kind {
            StageKind::Dirty => Oldest::SinceMark,
            StageKind::DirtyBeforeMark => Oldest::BeforeMark,
            StageKind::DirtySince(mark) => Oldest::Since(mark),
            StageKind::Clean(token) => return self.offer_clean(id, page, token, lsn),
        };
        placed!(self, placement => self.stage_in_dirty(&placement, id, page, lsn, oldest))
    }

    /// A number that changes whenever a page that was staged in may have left a job behind: with designs that
    /// append, when a group was begun or is complete; with others, at every page. A host whose threads
    /// have found no job need not look again before it does, or before a job is complete or something was
    /// asked of the tier.
    #[inline]
    pub fn work(&self) -> u64 {
        placed!(self, placement => placement.work())
    }

    #[inline(always)]
    fn stage_in_dirty<P: QueuePlacement>(
        &self,
        placement: &P,
        id: &PageId,
        page: &[u8],
        lsn: u64,
        oldest: Oldest,
    ) -> StageIn {
        let control = self.control();
        let directory = self.directory();
        let hashed = directory.hashed(id);
        // The bucket comes into the processor's cache while the checksum is computed.
        directory.prefetch_bucket(hashed);
        let checksum = crc32c::crc32c(page);
        let shard = directory.lock(hashed, self.owner);
        let older = shard.find(id);
        if placement.holds_back(id, older) {
            control.counters.stalls.count(1);
            return StageIn::Full;
        }
        // Under the lock, which whoever stops admission waits for: so a page that is on its way counts in the
        // present mode.
        if control.stopped.get() != 0 || self.geometry.config().admission == Admission::Clean {
            self.count(Event::Refused);
            return StageIn::Refused;
        }
        if older.is_none() && !placement.admits(id, true) {
            self.count(Event::Refused);
            return StageIn::Refused;
        }
        let through = self.sync_mode() == SyncMode::Through;
        let kind = RecordKind::Page {
            id: *id,
            dirty: !through,
            second_chance: false,
            lost: false,
            lsn,
            checksum,
            home: Frame::NONE,
        };
        let older_state = older.map(|entry| directory.state(entry));
        let mut flags = if through { 0 } else { dirty_since(self.inherited_since(older_state, oldest)) };
        if planted::is(Bug::WrittenInherited) {
            flags |= older_state.unwrap_or(0) & WRITTEN;
        }
        let replaced =
            older.map(|entry| Replaced { state: directory.state(entry), position: self.position_of(entry) });
        let Some(place) = self.append_by(placement, kind, None, Reserve::Foreground, replaced, || false)
        else {
            control.counters.stalls.count(1);
            return StageIn::Full;
        };
        planted::inside("stage-in: place given out");
        self.region.copy_in(place.memory, page);
        // Invariant 2: the older version leaves the hash under the same lock that the newer one
        // enters it. It is invalidated in memory only; the newer one's record supersedes it on flash.
        if let Some(older) = older {
            shard.unlink(older);
        }
        planted::inside("stage-in: older version unlinked");
        shard.link(place.entry, id, flags, checksum);
        placement.entered(place.entry, id, older, !through);
        planted::inside("stage-in: linked, not counted as filled");
        shard.changed();
        self.filled(place);
        self.count(Event::StagedDirty);
        StageIn::Staged { also_disk: through }
    }

    /// For hosts that write a page to disk before they stage it in: with a slot directory that has to wait
    /// until flash does not name the version that is
    /// there ([`Design::has_slots`](crate::Design::has_slots)). With other designs it never does.
    ///
    /// # Errors
    /// [`NoRoom`]: it has to wait. Carry out a job or wait for one, then call again.
    pub fn before_disk_write(&self, id: &PageId) -> Result<(), NoRoom> {
        if self.geometry.slot_directory().is_none()
            || self.failure().is_some_and(crate::Failure::ends_writing)
        {
            return Ok(());
        }
        let directory = self.directory();
        let shard = directory.lock(directory.hashed(id), self.owner);
        if self.placement().holds_back(id, shard.find(id)) { Err(NoRoom) } else { Ok(()) }
    }

    /// A clean page is an offer: whatever stands in its way, it is dropped.
    #[inline(never)]
    fn offer_clean(&self, id: &PageId, page: &[u8], token: Option<Token>, lsn: u64) -> StageIn {
        let control = self.control();
        let counters = &control.counters;
        let directory = self.directory();
        let Some(shard) = directory.try_lock(directory.hashed(id), self.owner) else {
            counters.dropped_busy.count(1);
            return StageIn::Dropped;
        };
        if control.stopped.get() != 0 || self.geometry.config().admission == Admission::Dirty {
            self.count(Event::Refused);
            return StageIn::Dropped;
        }
        if shard.find(id).is_some() {
            counters.dropped_present.count(1);
            return StageIn::Dropped;
        }
        // A write, an invalidation or a stage-out since the miss may have made this copy old.
        let changes = || shard.changes().wrapping_add(self.range_changes(id));
        let stale = token.is_some_and(|Token(seen)| seen != changes());
        if stale && !planted::is(Bug::StaleOfferAdmitted) {
            counters.dropped_stale.count(1);
            return StageIn::Dropped;
        }
        if !self.second_touch_admits(id) {
            self.count(Event::FirstTouch);
            return StageIn::FirstTouch;
        }
        let placement = self.placement();
        if !placement.admits(id, false) {
            self.count(Event::Refused);
            return StageIn::Dropped;
        }
        let checksum = crc32c::crc32c(page);
        let kind = RecordKind::Page {
            id: *id,
            dirty: false,
            second_chance: false,
            lost: false,
            lsn,
            checksum,
            home: Frame::NONE,
        };
        // Asked once more under the lock that whoever invalidates a range passes when it has counted that:
        // who found nothing of the range there to unlink must not be followed by this page.
        let unasked = planted::is(Bug::OfferOvertakenByDrop) || planted::is(Bug::StaleOfferAdmitted);
        let overtaken = || token.is_some_and(|Token(seen)| seen != changes()) && !unasked;
        let Some(place) = self.append_unless(kind, overtaken) else {
            let reason = if overtaken() { &counters.dropped_stale } else { &counters.dropped_busy };
            reason.count(1);
            return StageIn::Dropped;
        };
        planted::inside("offer: place given out");
        self.region.copy_in(place.memory, page);
        shard.link(place.entry, id, 0, checksum);
        placement.entered(place.entry, id, None, false);
        planted::inside("offer: linked, not counted as filled");
        self.filled(place);
        self.count(Event::StagedClean);
        StageIn::Staged { also_disk: false }
    }

    #[inline(always)]
    pub(crate) fn count(&self, found: Event) {
        counters::count(&self.region, self.owner, found as usize);
    }

    /// Whether `bytes` are what was staged in as `page`.
    pub fn verify(&self, page: &FlashPage, bytes: &[u8]) -> bool {
        crc32c::crc32c(bytes) == page.checksum || planted::is(Bug::DamageUnnoticed)
    }

    /// Whether the frame still held `page` when it was read: true if it has not left the queue since.
    ///
    /// If not, what was read may be anything: look the page up again.
    pub fn confirm(&self, page: &FlashPage) -> bool {
        let holds =
            placed!(self, placement => placement.still_holds(page.offset, || self.entry_of(page.position)));
        if !holds && !planted::is(Bug::ReadUnconfirmed) {
            return false;
        }
        self.control().ends.front() <= page.position || planted::is(Bug::ReadUnconfirmed)
    }

    pub(crate) fn state_at(&self, position: Position) -> u32 {
        self.directory().state(self.entry_of(position))
    }

    /// Whether the tier has the page, and whether its version is newer than the disk copy. Counts as no
    /// lookup.
    pub fn holds(&self, id: &PageId) -> Option<bool> {
        let directory = self.directory();
        let shard = directory.lock(directory.hashed(id), self.owner);
        shard.find(id).map(|entry| directory.state(entry) & DIRTY != 0)
    }

    /// For hosts that give up a clean page, while nobody else can have it yet: the token that the offer needs
    /// once others can; `None` if the tier has the page. Counts as no lookup.
    pub fn token_unless_held(&self, id: &PageId) -> Option<Token> {
        let directory = self.directory();
        let shard = directory.lock(directory.hashed(id), self.owner);
        shard.find(id).is_none().then(|| Token(shard.changes().wrapping_add(self.range_changes(id))))
    }

    /// The same as [`Self::holds`] for hosts that are about to write the page to disk, past the tier. Counts
    /// as a change of it: offers of what it was before are stale. What the tier holds is to be invalidated.
    pub fn changes_elsewhere(&self, id: &PageId) -> Option<bool> {
        let directory = self.directory();
        let shard = directory.lock(directory.hashed(id), self.owner);
        if !planted::is(Bug::InvalidationUncounted) {
            shard.changed();
        }
        shard.find(id).map(|entry| directory.state(entry) & DIRTY != 0)
    }

    /// Where the valid version of a page is; `None` if the tier does not have it. Counts as no lookup, and
    /// gives no second chance.
    pub fn whereabouts(&self, id: &PageId) -> Option<Whereabouts> {
        let directory = self.directory();
        let shard = directory.lock(directory.hashed(id), self.owner);
        let entry = shard.find(id)?;
        let position = self.control().ends.position_of(entry);
        if position >= self.control().ends.staged_from() {
            return Some(Whereabouts::Memory);
        }
        let (offset, state) = (self.offset_of(position), directory.state(entry));
        let checksum = directory.checksum(entry);
        Some(Whereabouts::Flash(FlashPage { offset, position, checksum, dirty: state & DIRTY != 0 }))
    }

    /// The host's bytes as they were set last, or found at recovery.
    pub fn host_metadata(&self) -> [u8; HOST_METADATA_BYTES] {
        let _guard = self.control().lock.lock(self.owner);
        self.current_host_metadata()
    }

    /// Whether a group has taken along the host's bytes as they are now; it is durable with the next sync.
    pub fn host_metadata_is_carried(&self) -> bool {
        self.control().host_metadata_changed.get() == 0
    }

    /// Replaces the host's bytes that every group summary carries; durable with the next sync.
    pub fn set_host_metadata(&self, host_metadata: &[u8; HOST_METADATA_BYTES]) {
        let control = self.control();
        let _guard = control.lock.lock(self.owner);
        self.store_host_metadata(host_metadata);
    }
}

impl Tier {
    /// Whether second-touch admission takes a clean page; without it every one is taken. Under the lock of
    /// the page's shard.
    #[inline]
    pub(crate) fn second_touch_admits(&self, id: &PageId) -> bool {
        let pages = self.geometry.remembered_pages();
        if pages == 0 {
            return true;
        }
        let admitted = SecondTouch::laid(&self.region, self.geometry.layout.second_touch, pages).admits(id);
        // Asked second, so that pages which come while the tier fills are remembered, too.
        admitted || self.placement().is_filling()
    }
}
