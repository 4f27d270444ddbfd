//! Recovery: the directory is rebuilt from metadata segments and a scan of the groups after them
//! ("Flash as cache extension for online transactional workloads", section 5.2).
//!
//! 1. The newest run of whole segments gives the directory up to the last segment's end.
//! 2. From there the chain of group summaries is followed. It ends at the first summary that is not the
//!    successor of the one before (invariant 8).
//! 3. Of the groups found, those that were not yet known durable when the last one was composed are
//!    read whole: the chain is cut at the first with a torn page.
//! 4. If anything beyond the end says that the end was durable, damage has eaten what had been
//!    acknowledged: recovery refuses instead of returning old pages.
//! 5. Records are replayed in the order of the queue: the last of a page counts, tombstones remove.
//! 6. A new epoch begins (invariant 7).
//!
//! The only state that recovery changes is the region and what it returns, so it may be repeated after
//! a crash at any point of it (invariant 9).

use std::fmt;

use crate::attach::check_owner;
use crate::config::{ConfigError, Geometry};
use crate::control::NONE;
use crate::directory::GroupHead;
use crate::format::{
    GroupSummary, RECORD_BYTES, Record, RecordKind, SEGMENT_HEADER_BYTES, SegmentHeader, Superblock,
    TierState,
};
use crate::layout::NOTE_BYTES;
use crate::metadata::{FULL, RetiringGroup};
use crate::planted::{self, Bug};
use crate::region::Region;
use crate::ring::Ring;
use crate::tier::Tier;

/// Reads a flash device for recovery. Flush the device before: what is read must be durable.
pub trait ReadFlash {
    /// Fills `bytes` from byte `offset` on.
    ///
    /// # Errors
    /// If the bytes cannot be read: the reason.
    fn read(&mut self, offset: u64, bytes: &mut [u8]) -> Result<(), ReadError>;
}

/// A read of the flash device failed: the host's reason.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReadError(pub String);

impl fmt::Display for ReadError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.0)
    }
}

impl std::error::Error for ReadError {}

/// Why a tier cannot be recovered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RecoveryError {
    /// Its parameters make no sense.
    Config(ConfigError),
    /// The region given is too small: bytes needed.
    RegionTooSmall(usize),
    /// The device cannot be read.
    Read(ReadError),
    /// Something below the durable mark is damaged, and so pages that were acknowledged are lost.
    Damaged {
        /// What is wrong.
        what: String,
        /// Byte offset on the device.
        offset: u64,
    },
}

impl fmt::Display for RecoveryError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Config(error) => write!(f, "{error}"),
            Self::RegionTooSmall(bytes) => write!(f, "the region is too small: {bytes} bytes are needed"),
            Self::Read(error) => write!(f, "flash cannot be read: {error}"),
            Self::Damaged { what, offset } => write!(f, "damaged at byte {offset}: {what}"),
        }
    }
}

impl std::error::Error for RecoveryError {}

impl From<ReadError> for RecoveryError {
    fn from(error: ReadError) -> Self {
        Self::Read(error)
    }
}

/// What recovery did.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RecoveryReport {
    /// Metadata segments used.
    pub segments_read: u64,
    /// Groups found by their summaries.
    pub groups_scanned: u64,
    /// Of these, groups that were cut off because a page of theirs was torn.
    pub groups_torn: u64,
    /// Pages read and compared with their checksums.
    pub pages_verified: u64,
    /// Bytes read from flash.
    pub bytes_read: u64,
    /// Pages in the tier.
    pub valid: u64,
    /// Of these, pages newer than their disk copies.
    pub dirty: u64,
    /// Of these, pages that are remembered as referenced.
    pub referenced: u64,
    /// The tier was not closed in order and can hold no only copies, so it was emptied: a page on disk
    /// may be newer than its copy here.
    pub discarded: bool,
}

/// A tier ready for use, once the host has made `writes` and `superblock` durable.
pub struct Recovered {
    /// The tier.
    pub tier: Tier,
    /// (Byte offset, bytes) of metadata segments to be written and flushed first.
    pub writes: Vec<(u64, Vec<u8>)>,
    /// Then the superblock of the new epoch: the copy that is worth less, flush, the other, flush.
    pub superblock: Superblock,
    /// What was found.
    pub report: RecoveryReport,
    /// The host's bytes as of the last group.
    pub note: [u8; NOTE_BYTES],
}

/// A group that the scan has found.
struct Found {
    position: u64,
    sequence: u64,
    pages: u32,
    records: u32,
    checksum: u32,
    predecessor: u32,
    epoch: u32,
    durable: u64,
    front: u64,
    note: [u8; NOTE_BYTES],
}

/// Where the chain of groups stands.
#[derive(Clone, Copy)]
struct Chain {
    sequence: u64,
    position: u64,
    checksum: u32,
}

struct Scan<'s, 'f> {
    geometry: Geometry,
    ring: Ring,
    superblock: &'s Superblock,
    flash: &'f mut dyn ReadFlash,
    report: RecoveryReport,
    summary: Vec<u8>,
}

impl Tier {
    /// Opens the tier that `superblock` describes. `owner` names this process in locks and jobs: any number but
    /// 0 and `u32::MAX`. Other processes join it with [`Tier::attach`] after [`Tier::publish`].
    ///
    /// # Errors
    /// [`RecoveryError`]: the region holds nothing useful then, and nothing on flash has changed.
    pub fn recover(
        region: Region,
        superblock: &Superblock,
        owner: u32,
        flash: &mut dyn ReadFlash,
    ) -> Result<Recovered, RecoveryError> {
        let geometry = superblock.config.geometry().map_err(RecoveryError::Config)?;
        check_owner(owner).map_err(RecoveryError::Config)?;
        if region.bytes() < geometry.region_bytes() {
            return Err(RecoveryError::RegionTooSmall(geometry.region_bytes()));
        }
        let tier = Self { region, geometry: geometry.clone(), uuid: superblock.tier_uuid, owner };
        let left_open = superblock.state == TierState::Open && !planted::is(Bug::CleanTierKept);
        if geometry.provably_clean() && left_open {
            let superblock = Superblock { state: TierState::Open, ..superblock.discarded() };
            let origin = Chain { sequence: 0, position: 0, checksum: superblock.chain_origin() };
            tier.start(&superblock, origin, 0, 1);
            let report = RecoveryReport { discarded: true, ..RecoveryReport::default() };
            return Ok(Recovered { tier, writes: Vec::new(), superblock, report, note: [0; NOTE_BYTES] });
        }
        let summary = vec![0; geometry.summary_frames() as usize * geometry.page_size()];
        let report = RecoveryReport::default();
        let ring = superblock.ring();
        Scan { geometry, ring, superblock, flash, report, summary }.run(tier)
    }

    /// Sets the queue's ends. Everything before `chain` is durable.
    fn start(&self, superblock: &Superblock, chain: Chain, front: u64, next_version: u64) {
        let control = self.control();
        for word in [&control.front, &control.durable_front, &control.releasable, &control.cleaned] {
            word.set(front);
        }
        control.ring.set(superblock.ring().packed());
        control.rear.set(chain.position);
        control.staged_from.set(chain.position);
        for word in [&control.next_sequence, &control.composed, &control.flushed, &control.retired] {
            word.set(chain.sequence);
        }
        control.chain.set(chain.checksum.into());
        control.open.set(NONE);
        control.next_version.set(next_version);
        control.epoch.set(superblock.epoch.into());
        // Pages found on flash are dirty since before any mark of this life.
        control.mark.set(1);
        control.sync_mode.set(superblock.config.sync_mode.code().into());
    }
}

impl Scan<'_, '_> {
    fn run(mut self, tier: Tier) -> Result<Recovered, RecoveryError> {
        let segments = self.find_segments()?;
        let mut front = self.superblock.front;
        for header in &segments {
            if !planted::is(Bug::SegmentFrontIgnored) {
                front = front.max(header.front);
            }
        }
        let newest = segments.last();
        let mut chain = newest.map_or(
            Chain { sequence: 0, position: 0, checksum: self.superblock.chain_origin() },
            |header| Chain {
                sequence: header.end_sequence,
                position: header.end_position,
                checksum: header.last_checksum,
            },
        );
        let segments_end = chain;
        let mut next_version = newest.map_or(1, |header| header.version_max + 1);
        let mut found = if planted::is(Bug::TailNotScanned) && newest.is_some() {
            Vec::new()
        } else {
            self.follow(chain)?
        };
        self.cut_torn(&mut found, chain.sequence)?;
        if let Some(last) = found.last() {
            chain = self.after(last);
        }
        self.refuse_damage(chain, segments_end, &found)?;
        for group in &found {
            if !planted::is(Bug::FrontIgnored) {
                front = front.max(group.front);
            }
        }
        if front > chain.position || chain.position - front > self.ring.frames {
            let offset = self.offset_of(chain.position);
            return Err(damaged("the queue's front and rear do not fit together", offset));
        }

        let raised = !planted::is(Bug::EpochNotRaised);
        let superblock = Superblock {
            generation: self.superblock.generation + 1,
            epoch: self.superblock.epoch + u32::from(raised),
            epoch_sequence: if raised { chain.sequence } else { self.superblock.epoch_sequence },
            state: TierState::Open,
            front,
            ..self.superblock.clone()
        };
        tier.start(&superblock, chain, front, next_version);
        self.load_segments(&tier, &segments, front)?;
        // Before the scan's groups complete segments, which take bits along themselves.
        self.load_references(&tier, &segments);
        let control = tier.control();
        control.segment_number.set(newest.map_or(0, |header| header.number + 1));
        control.segment_durable_end.set(newest.map_or(0, |header| header.end_position));
        let mut note = [0; NOTE_BYTES];
        let mut writes = Vec::new();
        for group in &found {
            next_version = self.replay_found(&tier, group, front, next_version, &mut writes)?;
            note = group.note;
        }
        if found.is_empty() && segments_end.sequence > 0 && !planted::is(Bug::NoteOfSegmentLost) {
            note = self.last_note(&segments)?;
        }
        control.next_version.set(if planted::is(Bug::VersionsRestart) { 1 } else { next_version });
        tier.adopt_note(&note);
        if let Err(position) = tier.groups_meet(front, chain.position) {
            return Err(damaged("the queue has a gap", self.offset_of(position)));
        }
        if self.superblock.state == TierState::Drained {
            tier.mark_all_clean();
        }
        (self.report.valid, self.report.dirty) = tier.valid_and_dirty();
        Ok(Recovered { tier, writes, superblock, report: self.report, note })
    }

    fn offset_of(&self, position: u64) -> u64 {
        self.geometry.offset_of_frame(self.ring.frame_of(position))
    }

    fn read(&mut self, offset: u64, bytes: &mut [u8]) -> Result<(), ReadError> {
        self.report.bytes_read += bytes.len() as u64;
        self.flash.read(offset, bytes)
    }

    /// The headers of the newest unbroken run of segments, oldest first, reaching back to the front.
    fn find_segments(&mut self) -> Result<Vec<SegmentHeader>, RecoveryError> {
        let mut all = Vec::new();
        let mut bytes = vec![0; SEGMENT_HEADER_BYTES];
        for slot in 0..self.geometry.segment_slots {
            self.read(self.geometry.segment_offset(slot), &mut bytes)?;
            // A newer format version in it is damage as any other, here and in summaries: a newer build would have
            // written a newer superblock first, and that would have been refused.
            all.extend(SegmentHeader::decode(&bytes).ok().filter(|header| self.belongs(header, slot)));
        }
        all.sort_by_key(|header| header.number);
        // The newest may be torn, header whole and records not: then the one before is the newest.
        while let Some(newest) = all.last() {
            let newest = newest.clone();
            if self.records(&newest)?.is_some() {
                break;
            }
            all.pop();
        }
        Ok(all)
    }

    fn belongs(&self, header: &SegmentHeader, slot: u64) -> bool {
        let after_discard = header.epoch >= self.superblock.origin_epoch;
        header.tier_uuid == self.superblock.tier_uuid
            && (after_discard || planted::is(Bug::DiscardedSegmentsBelieved))
            && header.epoch <= self.superblock.epoch
            && header.number % self.geometry.segment_slots == slot
            && u64::from(header.records) <= self.geometry.segment_records_max
            && header.first_position < header.end_position
            && header.first_sequence < header.end_sequence
    }

    /// A segment's records, if they match their checksum.
    fn records(&mut self, header: &SegmentHeader) -> Result<Option<Vec<u8>>, RecoveryError> {
        let mut bytes = vec![0; (header.records_bytes() as usize).next_multiple_of(4096)];
        let offset = self.geometry.segment_offset(header.number) + SEGMENT_HEADER_BYTES as u64;
        self.read(offset, &mut bytes)?;
        bytes.truncate(header.records_bytes() as usize);
        let whole = crc32c::crc32c(&bytes) == header.records_checksum;
        Ok((whole || planted::is(Bug::TornSegmentUsed)).then_some(bytes))
    }

    /// Fills the directory from segments; a gap between them is bridged by the groups' summaries.
    fn load_segments(
        &mut self,
        tier: &Tier,
        segments: &[SegmentHeader],
        front: u64,
    ) -> Result<(), RecoveryError> {
        for header in segments {
            tier.segment_end(header.number).set(header.end_position);
        }
        let Some(first) = segments.iter().position(|header| header.end_position > front) else {
            return Ok(());
        };
        let mut at: Option<Chain> = None;
        for header in &segments[first..] {
            let starts = Chain {
                sequence: header.first_sequence,
                position: header.first_position,
                checksum: header.first_predecessor,
            };
            self.bridge(tier, at, front, starts)?;
            match self.records(header)? {
                Some(records) => {
                    self.report.segments_read += 1;
                    self.replay_segment(tier, header, &records, front)?;
                }
                // Rotten, though not the newest: the groups it stands for still lie on flash.
                None => self.bridge(tier, Some(starts), front, self.end_of(header))?,
            }
            at = Some(self.end_of(header));
        }
        Ok(())
    }

    /// The reference bits of the newest segments, oldest first.
    fn load_references(&mut self, tier: &Tier, segments: &[SegmentHeader]) {
        if self.geometry.share_bytes() == 0 {
            return;
        }
        for header in &segments[segments.len().saturating_sub(self.geometry.shares() as usize)..] {
            if header.share_bytes() > self.geometry.share_bytes() {
                continue;
            }
            let mut bits = vec![0; header.share_bytes().next_multiple_of(4096)];
            let offset = self.geometry.segment_offset(header.number) + header.records_end();
            // They are hints: what cannot be read is done without.
            let read = self.read(offset, &mut bits).is_ok();
            bits.truncate(header.share_bytes());
            if read && crc32c::crc32c(&bits) == header.share_checksum {
                self.report.referenced += tier.adopt_references(header, &bits);
            }
        }
    }

    fn end_of(&self, header: &SegmentHeader) -> Chain {
        Chain { sequence: header.end_sequence, position: header.end_position, checksum: header.last_checksum }
    }

    /// Replays the groups between `from` (or the front) and `to` from their summaries.
    fn bridge(
        &mut self,
        tier: &Tier,
        from: Option<Chain>,
        front: u64,
        to: Chain,
    ) -> Result<(), RecoveryError> {
        let mut position = from.map_or(front, |chain| chain.position);
        while position < to.position {
            let offset = self.offset_of(position);
            let Some(group) = self.summary_at(position)? else {
                return Err(damaged("a metadata segment and the group it stands for", offset));
            };
            if position >= front {
                self.replay_group(tier, &group, front, &mut 0)?;
            }
            position = self.after(&group).position;
        }
        if position != to.position && position != front {
            return Err(damaged("groups that do not meet their metadata", self.offset_of(position)));
        }
        Ok(())
    }

    /// The summary at a position, if a whole one of this tier and position lies there.
    fn summary_at(&mut self, position: u64) -> Result<Option<Found>, RecoveryError> {
        let mut summary = std::mem::take(&mut self.summary);
        let page = self.geometry.page_size();
        let mut outcome = Ok(());
        for (at, frames) in self.ring.runs(position, self.geometry.summary_frames()) {
            let from = (at - position) as usize * page;
            let to = from + frames as usize * page;
            if frames > 0 && outcome.is_ok() {
                outcome = self.read(self.offset_of(at), &mut summary[from..to]);
            }
        }
        self.summary = summary;
        outcome?;
        let Ok((header, checksum)) = GroupSummary::decode(&self.summary) else { return Ok(None) };
        let fits = header.tier_uuid == self.superblock.tier_uuid
            && header.position == position
            && u64::from(header.pages) <= self.geometry.group_pages()
            && header.epoch >= self.superblock.origin_epoch
            && header.epoch <= self.superblock.epoch;
        Ok(fits.then_some(Found {
            position,
            sequence: header.sequence,
            pages: header.pages,
            records: header.records,
            checksum,
            predecessor: header.predecessor,
            epoch: header.epoch,
            durable: header.durable,
            front: header.front,
            note: header.note,
        }))
    }

    fn after(&self, group: &Found) -> Chain {
        Chain {
            sequence: group.sequence + 1,
            position: group.position + self.geometry.summary_frames() + u64::from(group.pages),
            checksum: group.checksum,
        }
    }

    /// Groups belong to the epoch that their place in the chain demands (invariant 7): those written
    /// after the last recovery to its epoch, all before to earlier ones.
    fn epoch_fits(&self, group: &Found) -> bool {
        let current = group.epoch == self.superblock.epoch;
        current == (group.sequence >= self.superblock.epoch_sequence)
    }

    /// The groups that follow `chain`, up to the first break.
    fn follow(&mut self, mut chain: Chain) -> Result<Vec<Found>, RecoveryError> {
        let mut found = Vec::new();
        // Two segments' worth of groups and those in staging memory; a longer chain cannot be.
        let limit = chain.position + self.ring.frames;
        while chain.position < limit {
            let Some(group) = self.summary_at(chain.position)? else { break };
            let follows = group.sequence == chain.sequence
                && (group.predecessor == chain.checksum
                    || planted::is(Bug::ChainUnchecked)
                    || planted::is(Bug::PredecessorUnchecked))
                && (self.epoch_fits(&group) || planted::is(Bug::ChainUnchecked));
            if !follows {
                break;
            }
            self.report.groups_scanned += 1;
            chain = self.after(&group);
            found.push(group);
        }
        Ok(found)
    }

    /// Cuts the chain at the first group beyond the durable mark that has a torn page.
    fn cut_torn(&mut self, found: &mut Vec<Found>, segments_end: u64) -> Result<(), RecoveryError> {
        let mark = found.last().map_or(segments_end, |last| last.durable.max(segments_end));
        let mut page = vec![0; self.geometry.page_size()];
        for index in 0..found.len() {
            if found[index].sequence < mark || planted::is(Bug::TornGroupUsed) {
                continue;
            }
            let (position, records) = (found[index].position, found[index].records);
            if self.summary_at(position)?.is_none() {
                found.truncate(index);
                return Ok(());
            }
            let summary = std::mem::take(&mut self.summary);
            let whole = self.pages_whole(&summary, position, records, &mut page);
            self.summary = summary;
            if !whole? {
                self.report.groups_torn += (found.len() - index) as u64;
                found.truncate(index);
                return Ok(());
            }
            if planted::is(Bug::OneGroupVerified) {
                return Ok(());
            }
        }
        Ok(())
    }

    fn pages_whole(
        &mut self,
        summary: &[u8],
        position: u64,
        records: u32,
        page: &mut [u8],
    ) -> Result<bool, RecoveryError> {
        let mut at = position + self.geometry.summary_frames();
        for index in 0..records as usize {
            match GroupSummary::record(summary, index) {
                Some(Record { kind: RecordKind::Page { checksum, .. }, .. }) => {
                    self.read(self.offset_of(at), page)?;
                    self.report.pages_verified += 1;
                    if crc32c::crc32c(page) != checksum {
                        return Ok(false);
                    }
                    at += 1;
                }
                Some(_) => {}
                None => return Ok(false),
            }
        }
        Ok(true)
    }

    /// Refuses a tier whose chain ends before something that is known to have been durable.
    fn refuse_damage(
        &mut self,
        end: Chain,
        segments_end: Chain,
        found: &[Found],
    ) -> Result<(), RecoveryError> {
        if planted::is(Bug::DamageNotRefused) {
            return Ok(());
        }
        let offset = self.offset_of(end.position);
        let sequence = end.sequence;
        if self.superblock.state != TierState::Open && self.superblock.end_sequence != sequence {
            let wanted = self.superblock.end_sequence;
            return Err(damaged(
                &format!("the tier was closed after group {wanted}, but its groups end at {sequence}"),
                offset,
            ));
        }
        let marked = found.iter().map(|group| group.durable).max().unwrap_or(segments_end.sequence);
        if self.superblock.epoch_sequence > sequence || marked > sequence {
            return Err(damaged(&format!("group {sequence} was durable and is gone"), offset));
        }
        // Groups written after the break may know more. They can lie only within the groups that
        // staging memory held.
        let groups = u64::from(self.geometry.config().staging_groups);
        let window = (groups * self.geometry.group_frames).min(self.ring.frames - 1);
        for position in end.position + 1..end.position + window {
            let Some(group) = self.summary_at(position)? else { continue };
            let later = group.sequence > sequence
                && group.sequence <= sequence + groups
                && group.epoch == self.superblock.epoch;
            if later && group.durable > sequence {
                return Err(damaged(&format!("group {sequence} was durable and is gone"), offset));
            }
        }
        Ok(())
    }

    fn replay_segment(
        &mut self,
        tier: &Tier,
        header: &SegmentHeader,
        records: &[u8],
        front: u64,
    ) -> Result<(), RecoveryError> {
        let offset = self.geometry.segment_offset(header.number);
        let odd = || damaged("a metadata segment whose records make no sense", offset);
        let mut position = header.first_position;
        let mut end = header.first_position;
        for bytes in records.chunks_exact(RECORD_BYTES) {
            let mut record = [0; RECORD_BYTES];
            record.copy_from_slice(bytes);
            let record = Record::decode(&record).ok_or_else(odd)?;
            if let RecordKind::Group { position: first, sequence, pages, records, checksum } = record.kind {
                if first != end || u64::from(pages) > self.geometry.group_pages() {
                    return Err(odd());
                }
                position = first + self.geometry.summary_frames();
                end = position + u64::from(pages);
                if first >= front {
                    let head = GroupHead { sequence, pages, records, checksum };
                    tier.directory().set_head(self.ring.frame_of(first), &head);
                }
                continue;
            }
            if matches!(record.kind, RecordKind::Page { .. }) && position >= end {
                return Err(odd());
            }
            let tombstone = matches!(record.kind, RecordKind::Tombstone(_));
            if tombstone && planted::is(Bug::SegmentTombstonesIgnored) {
                continue;
            }
            position = tier.replay(&record, position, front);
        }
        if end == header.end_position { Ok(()) } else { Err(odd()) }
    }

    /// Replays a group whose summary is in `self.summary`.
    fn replay_group(
        &mut self,
        tier: &Tier,
        group: &Found,
        front: u64,
        version_max: &mut u64,
    ) -> Result<(), RecoveryError> {
        let mut position = group.position + self.geometry.summary_frames();
        let end = position + u64::from(group.pages);
        if group.position >= front {
            let head = GroupHead {
                sequence: group.sequence,
                pages: group.pages,
                records: group.records,
                checksum: group.checksum,
            };
            tier.directory().set_head(self.ring.frame_of(group.position), &head);
        }
        for index in 0..group.records as usize {
            let record = GroupSummary::record(&self.summary, index);
            let pages_left = position < end;
            let Some(record) =
                record.filter(|record| pages_left || !matches!(record.kind, RecordKind::Page { .. }))
            else {
                return Err(damaged(
                    "a group summary whose records make no sense",
                    self.offset_of(group.position),
                ));
            };
            *version_max = (*version_max).max(record.version);
            position = tier.replay(&record, position, front);
        }
        Ok(())
    }

    /// Replays a scanned group and takes its records into the segment under construction.
    fn replay_found(
        &mut self,
        tier: &Tier,
        group: &Found,
        front: u64,
        next_version: u64,
        writes: &mut Vec<(u64, Vec<u8>)>,
    ) -> Result<u64, RecoveryError> {
        let mut version_max = next_version - 1;
        if self.summary_at(group.position)?.is_none() {
            return Err(damaged("a group that was whole a moment ago", self.offset_of(group.position)));
        }
        self.replay_group(tier, group, front, &mut version_max)?;
        let retiring = RetiringGroup {
            sequence: group.sequence,
            position: group.position,
            pages: group.pages,
            records: group.records,
            checksum: group.checksum,
            predecessor: group.predecessor,
            epoch: group.epoch,
            version_max,
        };
        let summary = &self.summary;
        let pushed = tier.push_group(&retiring, |index| {
            let at = crate::format::SUMMARY_HEADER_BYTES + index * RECORD_BYTES;
            let mut record = [0; RECORD_BYTES];
            record.copy_from_slice(&summary[at..at + RECORD_BYTES]);
            record
        });
        assert!(pushed, "full segments are emptied at once below");
        let control = tier.control();
        for (index, buffer) in control.segments.iter().enumerate() {
            if buffer.state.get() == FULL {
                let (offset, bytes) = tier.segment_bytes(index);
                writes.push((offset, bytes.to_vec()));
                // The host makes these durable before it uses the tier.
                tier.segment_end(buffer.number.get()).set(buffer.end_position.get());
                control.segment_durable_end.set(buffer.end_position.get());
                buffer.state.set(crate::metadata::EMPTY);
            }
        }
        Ok(version_max + 1)
    }

    /// The note of the last group, which a segment stands for.
    fn last_note(&mut self, segments: &[SegmentHeader]) -> Result<[u8; NOTE_BYTES], RecoveryError> {
        let Some(newest) = segments.last() else { return Ok([0; NOTE_BYTES]) };
        let records = self.records(newest)?.unwrap_or_default();
        let last = records
            .chunks_exact(RECORD_BYTES)
            .filter_map(|bytes| {
                let mut record = [0; RECORD_BYTES];
                record.copy_from_slice(bytes);
                match Record::decode(&record)?.kind {
                    RecordKind::Group { position, .. } => Some(position),
                    _ => None,
                }
            })
            .next_back();
        let Some(position) = last else { return Ok([0; NOTE_BYTES]) };
        match self.summary_at(position)? {
            Some(group) => Ok(group.note),
            None => Err(damaged("the last group's summary", self.offset_of(position))),
        }
    }
}

fn damaged(what: &str, offset: u64) -> RecoveryError {
    RecoveryError::Damaged { what: what.into(), offset }
}
