//! Staging groups: pages on their way to flash.
//!
//! One group is open at a time. It owns the next frames of the queue from the moment it is opened, so
//! that a page which has been taken can always be written. Groups are composed in their order, because
//! each summary holds its predecessor's checksum; they may be written side by side; they become durable
//! in their order (invariant 3) and only then leave memory.

pub(crate) mod releasing;

pub(crate) mod resizing;

pub(crate) mod ends;

pub(crate) mod ring;

pub(crate) mod group;

pub(crate) mod segments;

pub(crate) mod metadata;

pub(crate) mod references;

pub(crate) mod flush;

pub(crate) mod resize;

pub(crate) mod release;

pub(crate) mod room;

use crate::answers::NoRoom;
use crate::config::RESERVED_GROUPS;
use crate::core::Tier;
use crate::directory::{DRAINED, GroupHead};
use crate::format::{GroupSummary, RECORD_BYTES, Record, RecordKind, SUMMARY_HEADER_BYTES};
use crate::groups::group::Replaced;
use crate::groups::group::Reserve;
use crate::groups::group::StagingGroup;
use crate::ids::{EntryNumber, IdRange, Position, Sequence, Version};
use crate::layout::HOST_METADATA_BYTES;
use crate::placement::chosen::placed;
use crate::placement::{QueuePlacement, Recorded};
use crate::planted::{self, Bug};

/// Where an appended page goes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Place {
    pub(crate) entry: EntryNumber,
    pub(crate) memory: usize,
    sequence: Sequence,
}

/// Where a record goes in its group, and its version.
#[derive(Clone, Copy)]
struct RecordPlace {
    index: u64,
    epoch: u32,
    version: Version,
}

/// A sync under way: it is done when all groups before it are durable.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SyncTicket {
    /// All groups before this one.
    groups: Sequence,
    /// All changes of slots up to this one, for designs with a slot directory.
    slots: u64,
}

/// How far a sync is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SyncState {
    /// Carry out jobs or wait for them.
    Pending,
    /// Everything staged in before [`Tier::request_sync`] is durable.
    Durable,
    /// It cannot become durable; see [`Tier::failure`].
    Failed,
}

impl Tier {
    #[inline]
    fn group_index(&self, sequence: Sequence) -> usize {
        (sequence.number() % u64::from(self.geometry.config().staging_groups)) as usize
    }

    #[inline]
    pub(crate) fn group_memory(&self, sequence: Sequence) -> usize {
        let group_bytes = self.geometry.group_frames as usize * self.geometry.page_size();
        self.geometry.layout.staging + self.group_index(sequence) * group_bytes
    }

    /// Where the `index`th page of a group lies in the region.
    pub(crate) fn staged_page(&self, group: &StagingGroup, index: u64) -> usize {
        self.page_of_group(self.group_memory(group.sequence()), index)
    }

    /// The same, of a group in this memory.
    #[inline]
    fn page_of_group(&self, memory: usize, index: u64) -> usize {
        let frames = (self.geometry.summary_frames() + index) as usize;
        memory + frames * self.geometry.page_size()
    }

    fn host_metadata_offset(&self, group: Option<Sequence>) -> usize {
        let index = group.map_or(self.staging_groups().len(), |sequence| self.group_index(sequence));
        self.geometry.layout.host_metadata + index * HOST_METADATA_BYTES
    }

    /// Under the control lock.
    pub(crate) fn store_host_metadata(&self, host_metadata: &[u8; HOST_METADATA_BYTES]) {
        self.region.copy_in(self.host_metadata_offset(None), host_metadata);
        planted::inside("host metadata: stored");
        let carried = !self.placement().host_metadata_listed();
        self.control().host_metadata_changed.set(carried.into());
    }

    /// The host's bytes as they are now. Under the control lock.
    pub(crate) fn current_host_metadata(&self) -> [u8; HOST_METADATA_BYTES] {
        let mut host_metadata = [0; HOST_METADATA_BYTES];
        self.region.copy_out(self.host_metadata_offset(None), &mut host_metadata);
        host_metadata
    }

    /// Sets the current host metadata without a change to be made durable: for recovery.
    pub(crate) fn adopt_host_metadata(&self, host_metadata: &[u8; HOST_METADATA_BYTES]) {
        self.region.copy_in(self.host_metadata_offset(None), host_metadata);
    }

    /// Appends a page's record to the open group and gives the page a frame. Under the lock of the page's
    /// shard.
    ///
    /// A second chance keeps its version (invariant 7); everything else gets the next one. Callers
    /// copy the page to the place and call [`Self::filled`]. `replaced` is the version that this
    /// one takes the place of.
    pub(crate) fn append(
        &self,
        kind: RecordKind,
        version: Option<(u32, Version)>,
        reserve: Reserve,
        replaced: Option<Replaced>,
    ) -> Option<Place> {
        placed!(self, placement => self.append_by(&placement, kind, version, reserve, replaced, || false))
    }

    /// [`Self::append`] for a page that is offered, if it is not `overtaken`, which is asked under the
    /// control lock.
    pub(crate) fn append_unless(&self, kind: RecordKind, overtaken: impl Fn() -> bool) -> Option<Place> {
        let reserve = Reserve::Foreground;
        placed!(self, placement => self.append_by(&placement, kind, None, reserve, None, &overtaken))
    }

    /// [`Self::append`] for one placement.
    #[inline(always)]
    pub(crate) fn append_by<P: QueuePlacement>(
        &self,
        placement: &P,
        mut kind: RecordKind,
        version: Option<(u32, Version)>,
        reserve: Reserve,
        replaced: Option<Replaced>,
        overtaken: impl Fn() -> bool,
    ) -> Option<Place> {
        let control = self.control();
        let guard = control.lock.lock(self.owner);
        if overtaken() {
            return None;
        }
        // Invariant 6: a second chance of a page that is being invalidated would lie behind its tombstone and
        // outlive it.
        if self.is_being_invalidated(&kind) && !planted::is(Bug::SecondChanceDuringDrop) {
            return None;
        }
        let comes_in = matches!(kind, RecordKind::Page { second_chance: false, .. });
        // No group is opened for a page that has no frame.
        if comes_in && !placement.has_room() {
            return None;
        }
        let mut group = self.open_group(reserve)?;
        if reserve == Reserve::Foreground && self.is_of_invalidations(group) {
            return None;
        }
        while self.has_bad() && !placement.pass_bad(group) {
            self.seal(group, false);
            group = self.open_group(reserve)?;
        }
        let next = group.position() + self.geometry.summary_frames() + group.pages();
        // Only here: a drain that was requested a moment ago would not know of this page otherwise.
        let awaited = match (&kind, replaced) {
            (RecordKind::Page { id, .. }, Some(older)) => self.drain_awaits(id, older.state, older.position),
            _ => false,
        };
        if awaited && !self.drain_lets_supersede(next) {
            return None;
        }
        if replaced.is_some_and(|older| older.state & DRAINED != 0) {
            // Whoever marks pages would come too late to where this one goes; disk has it.
            if !comes_in && control.drain.is_marking() {
                return None;
            }
            control.drain.moves(next);
        }
        if !placement.assign(&mut kind) {
            return None;
        }
        if let RecordKind::Page { lsn, second_chance: false, .. } = &kind {
            self.log_reaches(*lsn);
        }
        let entry = self.entry_of(next);
        if let RecordKind::Page { id, .. } = &kind {
            // Invariant 14: whoever looks for pages of a range after this finds the page here, linked or not.
            self.note_appearance(id, next);
            self.directory().name(entry, id);
        }
        planted::inside("append: group open");
        let record = self.take_record(group, version);
        planted::inside("append: record counted");
        let index = group.take_page();
        planted::inside("append: page counted");
        let sequence = group.sequence();
        let summary = self.group_memory(sequence);
        let memory = self.page_of_group(summary, index);
        self.seal_if_full(group);
        if let RecordKind::Page { lsn, .. } = &kind {
            let recorded = Recorded { epoch: record.epoch, version: record.version, lsn: *lsn };
            placement.assigned(entry, &kind, recorded);
        }
        drop(guard);
        // The group waits for its pages, and so for what each thread does before it says that its page is
        // filled.
        self.store_record(summary, record, kind);
        planted::inside("append: record stored");
        Some(Place { entry, memory, sequence })
    }

    /// Appends a record that comes without a page. Under the control lock.
    pub(crate) fn push_record(&self, group: &StagingGroup, kind: RecordKind) {
        let record = self.take_record(group, None);
        self.store_record(self.group_memory(group.sequence()), record, kind);
    }

    /// Gives out the place of a record, and its version if it has none. Under the control lock.
    #[inline]
    fn take_record(&self, group: &StagingGroup, version: Option<(u32, Version)>) -> RecordPlace {
        let control = self.control();
        let (epoch, version) =
            version.unwrap_or_else(|| (control.epoch.get() as u32, control.append.take_version()));
        RecordPlace { index: group.take_record(), epoch, version }
    }

    /// Stores a record in the memory of its group.
    #[inline]
    fn store_record(&self, memory: usize, place: RecordPlace, kind: RecordKind) {
        let RecordPlace { index, epoch, version } = place;
        let at = SUMMARY_HEADER_BYTES + index as usize * RECORD_BYTES;
        self.region.copy_in_few(memory + at, &Record { kind, epoch, version }.encode());
    }

    #[inline(always)]
    fn seal_if_full(&self, group: &StagingGroup) {
        if group.is_full(self.geometry.records_max) {
            self.seal(group, false);
        }
    }

    /// Tells that the page at `place` has been copied completely.
    pub(crate) fn filled(&self, place: Place) {
        self.group_of(place.sequence).page_is_filled();
    }

    /// Appends a tombstone, with the host metadata in the same group if there is one.
    pub(crate) fn append_tombstone(
        &self,
        range: IdRange,
        host_metadata: Option<&[u8; HOST_METADATA_BYTES]>,
        reserve: Reserve,
    ) -> Result<(), NoRoom> {
        let _guard = self.control().lock.lock(self.owner);
        self.append_tombstone_locked(range, host_metadata, reserve)
    }

    /// [`Self::append_tombstone`] under the control lock.
    pub(crate) fn append_tombstone_locked(
        &self,
        range: IdRange,
        host_metadata: Option<&[u8; HOST_METADATA_BYTES]>,
        reserve: Reserve,
    ) -> Result<(), NoRoom> {
        let control = self.control();
        if self.geometry.slot_directory().is_some() {
            // Slots say what is gone.
            host_metadata.inspect(|host_metadata| self.store_host_metadata(host_metadata));
            return Ok(());
        }
        let opens = control.append.open().is_none();
        let group = self.open_group(reserve).ok_or(NoRoom)?;
        if let Some(host_metadata) = host_metadata {
            self.store_host_metadata(host_metadata);
        }
        if opens && reserve == Reserve::Lost && self.placement().shortens_groups() {
            group.keep_for_invalidations();
        }
        self.push_record(group, RecordKind::Tombstone(range));
        planted::inside("tombstone: record pushed");
        control.counters.tombstones.count(1);
        self.seal_if_full(group);
        Ok(())
    }

    /// The open group; opens one if there is none. Under the control lock.
    #[inline(always)]
    pub(crate) fn open_group(&self, reserve: Reserve) -> Option<&StagingGroup> {
        if let Some(open) = self.control().append.open() {
            return Some(self.group_of(open));
        }
        self.open_new(reserve)
    }

    #[inline(never)]
    fn open_new(&self, reserve: Reserve) -> Option<&StagingGroup> {
        let group = self.open_next(reserve)?;
        if group.takes_pages() {
            return Some(group);
        }
        // It fills the rest of a ring that is being cut, and there is room for its summary only.
        self.seal(group, true);
        self.open_next(reserve)
    }

    /// Opens the next group, which is the one that `open_group` gives out. Under the control lock.
    fn open_next(&self, reserve: Reserve) -> Option<&StagingGroup> {
        let control = self.control();
        let placement = self.placement();
        let sequence = control.groups.next();
        let group = self.group_of(sequence);
        if !group.is_free() {
            return None;
        }
        if !self.segments_suffice(reserve) {
            return None;
        }
        let crowded = planted::is(Bug::LostPagesFindNoRoom);
        let reserved = match reserve {
            Reserve::Foreground => RESERVED_GROUPS,
            // Syncs that have nothing but host metadata come as often as the host likes, and each costs a
            // frame.
            Reserve::HostMetadata if !crowded => 2,
            Reserve::HostMetadata | Reserve::StageOut | Reserve::Refused => 1,
            Reserve::Lost if crowded => 1,
            Reserve::Carrier | Reserve::Lost => 0,
        };
        // The distance that is kept between rear and front would hide most of what the two faults break.
        let reserved = if self.reuse_unchecked() { 0 } else { reserved };
        let (rear, room_end) = (control.ends.rear(), self.room_end(reserve));
        let wanted = placement.clear_of_bad(rear, self.group_frames_allowed()?);
        let keeps = match reserve {
            Reserve::Carrier | Reserve::Lost => 0,
            Reserve::Refused if control.lost.get() == 0 => placement.bad_room(rear, room_end),
            _ => placement.names_room() + placement.bad_room(rear, room_end),
        };
        let frames = if crowded { wanted } else { self.as_short_as_room(reserve, wanted)? };
        // Invariant 5: a frame is overwritten only when a durable front lies past it.
        let slack = if reserve == Reserve::Foreground { self.geometry.slack() } else { 0 };
        if rear + frames + self.geometry.group_frames * reserved + keeps + slack > room_end {
            return None;
        }
        self.assert_zones_left(rear, frames);
        // Nor a summary that recovery would have to scan.
        if placement.summaries_left() <= reserved {
            return None;
        }
        self.spend_numbers(frames);
        group.open(sequence, rear, frames - self.geometry.summary_frames());
        planted::inside("open group: group taken");
        control.ends.rear_is(rear + frames);
        control.groups.one_opened();
        control.append.opens(sequence);
        Some(group)
    }

    /// Frames of a group that may have `wanted`. What the front waits for takes what there is at the rear:
    /// with lost pages it is not always a whole group, since their names cost a summary more each time
    /// than the groups have that they leave. Behind them a group that carries the front must fit.
    fn as_short_as_room(&self, reserve: Reserve, wanted: u64) -> Option<u64> {
        let summary = self.geometry.summary_frames();
        let rear = self.control().ends.rear();
        let room = self.room_end(reserve).distance_from(rear).unwrap_or(0);
        let within =
            |room: u64| if room < wanted { self.placement().short_of_bad(rear, room) } else { wanted };
        match reserve {
            _ if !self.placement().shortens_groups() => Some(wanted),
            // Before the cut of a resize there may be room for a summary alone.
            Reserve::Lost if wanted == summary => Some(summary).filter(|_| room >= 2 * summary),
            Reserve::Lost => Some(within(room.saturating_sub(summary))).filter(|&frames| frames > summary),
            Reserve::Carrier => Some(within(room)).filter(|&frames| frames >= summary),
            _ => Some(wanted),
        }
    }

    /// Whether a planted fault lets frames be overwritten before the front that passed them is durable.
    fn reuse_unchecked(&self) -> bool {
        planted::is(Bug::ReuseBeforeDurableFront) || planted::is(Bug::ReuseBeforeSuperseder)
    }

    /// From this position on frames are kept: what a crash now would need to find again.
    pub(crate) fn kept_from(&self) -> Position {
        let control = self.control();
        let front =
            if self.reuse_unchecked() { control.ends.front() } else { control.passed.durable_front() };
        front.min(self.placement().scanned_from())
    }

    /// Frames before this position may be overwritten.
    pub(crate) fn writable_end(&self) -> Position {
        let kept = self.kept_from();
        // Invariant 13: the front has left all of a zone before any of its frames is free.
        let kept = if planted::is(Bug::ZoneReusedInPart) { kept } else { self.geometry.zone_begin(kept) };
        kept + self.frames_allowed()
    }

    /// Up to here groups with this reserve may be put. Of a queue on zones the last free zone is kept, since
    /// after a crash the queue goes on in it: the only group that may be put there is one that states a front
    /// by which, once it is durable, another zone is free. The zone before that is kept from what can wait: a
    /// crash may leave as much out, and what the front needs must find its room behind. Under the control
    /// lock.
    pub(crate) fn room_end(&self, reserve: Reserve) -> Position {
        let (end, zone_frames) = (self.writable_end(), self.geometry.zone_frames());
        let frees = || {
            let (front, durable) = (self.control().ends.front(), self.control().passed.durable_front());
            self.geometry.zone_begin(front) > self.geometry.zone_begin(durable)
        };
        // The distance would hide what the faults break.
        let unchecked = planted::is(Bug::ZoneReusedInPart) || self.reuse_unchecked();
        let none_kept = unchecked || planted::is(Bug::LastZoneTaken);
        if zone_frames == 0 || reserve == Reserve::Carrier && frees() || none_kept {
            return end;
        }
        let zones_kept = match reserve {
            Reserve::Foreground | Reserve::HostMetadata | Reserve::StageOut => 2,
            Reserve::Refused | Reserve::Lost | Reserve::Carrier => 1,
        };
        Position::from_number(end.number().saturating_sub(zones_kept * zone_frames))
    }

    /// Invariant 13, for a group of so many frames. Under the control lock.
    fn assert_zones_left(&self, rear: Position, frames: u64) {
        if let Some(last) = self.geometry.zones_begun(rear, frames).last() {
            let end = last + self.geometry.zone_frames();
            let left = end <= self.kept_from() + self.frames_allowed();
            assert!(left || planted::is(Bug::ZoneReusedInPart), "invariant 13: a zone is reset that is kept");
        }
    }

    /// Closes the open group: it keeps only the frames it has filled. Under the control lock.
    pub(crate) fn seal(&self, group: &StagingGroup, cut_short: bool) {
        let control = self.control();
        debug_assert!(group.is_open());
        self.placement().end_before_good(group);
        let sequence = group.sequence();
        let position = group.position();
        let summary = self.geometry.summary_frames();
        self.region.copy_in(self.host_metadata_offset(Some(sequence)), &self.current_host_metadata());
        control.host_metadata_changed.set(0);
        // Together with the host metadata: the front may pass pages of which a later one has to tell first.
        group.states_front(control.ends.front());
        planted::inside("seal: host metadata taken along");
        let directory = self.directory();
        let head =
            GroupHead { sequence, pages: group.pages() as u32, records: group.records() as u32, checksum: 0 };
        directory.set_head(self.entry_of(position), &head);
        for frame in 1..summary {
            directory.clear(self.entry_of(position + frame));
        }
        planted::inside("seal: head set");
        control.ends.rear_is(position + summary + group.pages());
        control.append.closes();
        planted::inside("seal: group closed");
        group.seal(cut_short);
    }

    /// Makes the summaries of sealed and filled groups final, in their order. Under the control lock.
    pub(crate) fn compose_sealed(&self) {
        let control = self.control();
        while control.groups.composed() < control.groups.next() {
            let group = self.group_of(control.groups.composed());
            if !group.is_complete() {
                return;
            }
            self.compose(group);
        }
    }

    fn compose(&self, group: &StagingGroup) {
        let control = self.control();
        let sequence = group.sequence();
        let memory = self.group_memory(sequence);
        let mut host_metadata = [0; HOST_METADATA_BYTES];
        self.region.copy_out(self.host_metadata_offset(Some(sequence)), &mut host_metadata);
        if planted::is(Bug::FrontTakenWhenComposed) {
            group.states_front(control.ends.front());
        }
        let front = group.front();
        let stated = if planted::is(Bug::FrontStatedTooFar) { control.passed.cleaned() } else { front };
        let durable = match planted::is(Bug::DurableStatedWhenWritten) {
            true => self.written_end(),
            false => control.groups.flushed(),
        };
        let summary = GroupSummary {
            tier_uuid: self.uuid,
            epoch: control.epoch.get() as u32,
            sequence,
            position: group.position(),
            predecessor: control.groups.chain() as u32,
            pages: group.pages() as u32,
            records: group.records() as u32,
            cut_short: group.is_cut_short(),
            durable,
            front: stated,
            host_metadata,
            log: self.log_position(),
        };
        let records =
            self.staged_bytes(memory + SUMMARY_HEADER_BYTES, summary.records as usize * RECORD_BYTES);
        let (header, checksum) = summary.encode(records);
        self.region.copy_in(memory, &header);
        planted::inside("compose: summary written");
        let head = GroupHead { sequence, pages: summary.pages, records: summary.records, checksum };
        self.directory().set_head(self.entry_of(summary.position), &head);
        group.has_checksum(checksum.into(), control.groups.chain());
        planted::inside("compose: head set");
        control.groups.one_composed(checksum.into());
        group.becomes_ready();
    }

    /// Asks that everything staged in so far becomes durable. The open group is closed as it is.
    ///
    /// If nothing was staged in since the last sync, the ticket is durable at once. Host metadata that has
    /// changed and finds no room while stage-out rests ([`Tier::rests_for_disk`]) is left to the next group:
    /// nothing makes room then, and it tells of nothing that flash states before that group.
    ///
    /// # Errors
    /// [`NoRoom`] if changed host metadata found no group to travel in otherwise.
    pub fn request_sync(&self) -> Result<SyncTicket, NoRoom> {
        let control = self.control();
        let _guard = control.lock.lock(self.owner);
        let ticket = self.close_groups()?;
        control.groups.want(ticket.groups);
        Ok(ticket)
    }

    /// As [`Self::request_sync`], for a host that fears for its process and not for power: nothing is flushed
    /// for it, and [`Self::is_written`] says when recovery after a kill would find everything.
    ///
    /// # Errors
    /// As of [`Self::request_sync`].
    pub fn request_write(&self) -> Result<SyncTicket, NoRoom> {
        let _guard = self.control().lock.lock(self.owner);
        self.close_groups()
    }

    /// Whether everything that was staged in before [`Self::request_write`] has been written to flash.
    /// Changes of a slot directory count when they are durable.
    pub fn is_written(&self, ticket: &SyncTicket) -> bool {
        let _guard = self.control().lock.lock(self.owner);
        self.written_end() >= ticket.groups && self.placement().slots_durable() >= ticket.slots
    }

    /// Closes the group that is open. Under the control lock.
    fn close_groups(&self) -> Result<SyncTicket, NoRoom> {
        let control = self.control();
        if control.host_metadata_changed.get() != 0 && !planted::is(Bug::NoteLeftBehind) {
            let found = self.open_group(Reserve::HostMetadata).is_some();
            if !found && (!self.rests_for_disk() || planted::is(Bug::NoteAwaitedAtRest)) {
                return Err(NoRoom);
            }
        }
        if let Some(open) = control.append.open() {
            let group = self.group_of(open);
            if group.records() > 0 || control.host_metadata_changed.get() != 0 {
                self.seal(group, true);
            }
        }
        let end = self.groups_end();
        planted::inside("request sync: group closed");
        Ok(SyncTicket { groups: end, slots: self.placement().want_slots() })
    }

    /// All that the tier holds is in the groups before this one. An open group that nothing was put into yet
    /// does not count: it opens, for one, behind a group that had room for its summary alone and took the
    /// host metadata along. Under the control lock.
    pub(crate) fn groups_end(&self) -> Sequence {
        let control = self.control();
        match control.append.open() {
            Some(open) if self.group_of(open).records() == 0 => open,
            _ => control.groups.next(),
        }
    }

    /// How far a sync is.
    pub fn sync_state(&self, ticket: &SyncTicket) -> SyncState {
        let control = self.control();
        if control.groups.flushed() >= ticket.groups && self.placement().slots_durable() >= ticket.slots {
            SyncState::Durable
        } else if self.failure().is_some_and(|failure| failure.ends_writing()) {
            SyncState::Failed
        } else {
            SyncState::Pending
        }
    }

    /// The first group that is not yet written; all before it are. Under the control lock.
    pub(crate) fn written_end(&self) -> Sequence {
        let control = self.control();
        let mut sequence = control.groups.flushed();
        while sequence < control.groups.composed() && self.group_of(sequence).is_written() {
            sequence += 1;
        }
        sequence
    }

    /// Frees the memory of durable groups, moving their records to the metadata segment. Under the
    /// control lock.
    pub(crate) fn retire(&self) {
        let control = self.control();
        while control.groups.retired() < control.groups.flushed() {
            let sequence = control.groups.retired();
            let group = self.group_of(sequence);
            if !self.placement().take_records(group) {
                return;
            }
            let end = group.position() + self.geometry.summary_frames() + group.pages();
            // Before the memory is given to another group: readers that come from now on ask flash.
            planted::inside("retire: records taken");
            control.ends.left_memory(end);
            planted::inside("retire: staging end moved");
            control.groups.one_left();
            group.leaves_memory();
        }
    }
}
