//! Groups behind the last segment: the chain of their summaries, its end, and their records.

use std::collections::HashMap;

use super::ahead::TOGETHER_MAX;
use super::{Chain, Found, RecoveryError, Scan, damaged, reads_of_wrong};
use crate::core::Tier;
use crate::directory::GroupHead;
use crate::format::{GroupSummary, RECORD_BYTES, Record, RecordKind, SUMMARY_MAGIC, TierState};
use crate::groups::metadata::RetiringGroup;
use crate::ids::{Frame, Position, Sequence, Version};
use crate::planted::{self, Bug};

/// Memory of large reads is aligned for direct I/O: a host would have to copy otherwise.
const ALIGNMENT: usize = 4096;

/// Bytes that are read at once where many frames are looked at.
const CHUNK_BYTES: usize = 1 << 20;

/// Groups that are read together at first.
const AT_ONCE_MIN: u64 = 8;
/// Frames behind the end of a chain that are read at once, at first and at most, for short groups.
const NEAR_FRAMES: (u64, u64) = (16, 256);

/// What a page that cannot be read says of its group.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Unread {
    /// Nothing: torn pages can be read.
    IsLost,
    /// It may be torn.
    IsTorn,
}

impl Scan<'_, '_> {
    /// The summary of the group with this position and number, if a whole one of this tier lies where it
    /// should.
    pub(super) fn summary_at(
        &mut self,
        position: Position,
        sequence: Sequence,
    ) -> Result<Option<Found>, RecoveryError> {
        Ok(self.summary_where(position, sequence)?.filter(|found| found.position == position))
    }

    /// Something whole was read that names a tier and an epoch. True if that is one of this tier that its
    /// superblock does not know: it is no part of it, and must not become one. So the next epoch is a later
    /// one still, by which no group fits that was written before it, and segments are made none.
    pub(super) fn came_across(&mut self, named: Option<([u8; 16], u32)>) -> bool {
        let own = named.filter(|(tier_uuid, _)| *tier_uuid == self.superblock.tier_uuid);
        let epoch = own.map_or(0, |(_, epoch)| epoch);
        self.epoch_seen = self.epoch_seen.max(epoch);
        epoch > self.superblock.epoch && !planted::is(Bug::LostEpochReused)
    }

    /// [`Self::summary_at`], of any position where pages are written in place.
    fn summary_where(
        &mut self,
        position: Position,
        sequence: Sequence,
    ) -> Result<Option<Found>, RecoveryError> {
        let mut summary = std::mem::take(&mut self.summary);
        let mut decoded = Ok(None);
        for _ in 0..reads_of_wrong() {
            decoded = self
                .read_summary(position, sequence, &mut summary)
                .map(|()| GroupSummary::decode(&summary).ok());
            if !matches!(decoded, Ok(None)) {
                break;
            }
        }
        self.summary = summary;
        let Some((header, checksum)) = decoded? else { return Ok(None) };
        self.came_across(Some((header.tier_uuid, header.epoch)));
        let fits = header.tier_uuid == self.superblock.tier_uuid
            && u64::from(header.pages) <= self.geometry.group_pages()
            && header.epoch >= self.superblock.origin_epoch
            && header.epoch <= self.superblock.epoch;
        Ok(fits.then_some(Found {
            position: header.position,
            sequence: header.sequence,
            pages: header.pages,
            records: header.records,
            checksum,
            predecessor: header.predecessor,
            epoch: header.epoch,
            durable: header.durable,
            front: header.front,
            host_metadata: header.host_metadata,
            log: header.log,
        }))
    }

    /// Which of so many frames from a position on may be the first of a summary: those that begin like one,
    /// and those of which only a read by itself tells whether they can be read. Many are read at once, since
    /// most are none.
    fn summaries_may_be_at(&mut self, position: Position, frames: u64) -> Result<Vec<bool>, RecoveryError> {
        let page = self.geometry.page_size();
        let at_once = (CHUNK_BYTES / page).max(1) as u64;
        let bytes_at_once = at_once.min(frames) as usize * page;
        let mut bytes = vec![0; bytes_at_once + ALIGNMENT];
        let aligned = bytes.as_ptr().align_offset(ALIGNMENT);
        let bytes = &mut bytes[aligned..aligned + bytes_at_once];
        let mut may_be = vec![false; frames as usize];
        let mut rows = Vec::new();
        for (from, in_row) in self.geometry.pieces(self.ring, position, frames) {
            let in_row = self.written_of(from, in_row);
            let firsts = (0..in_row).step_by(at_once as usize);
            rows.extend(firsts.map(|first| (from + first, at_once.min(in_row - first) as usize)));
        }
        // A bit may flip on its way: what is read wrong once is no sign that nothing is there. Behind the end
        // of a tier that was closed something lies only if the device lost a superblock; flips besides are
        // not looked for.
        let reads = if self.superblock.state == TierState::Open { reads_of_wrong() } else { 1 };
        for _ in 0..reads {
            for (from, count) in &rows {
                let bytes = &mut bytes[..count * page];
                let read = self.read(self.offset_of(*from), bytes);
                let begin = (*from - position) as usize;
                let heads = bytes.chunks_exact(page).map(|frame| frame.starts_with(&SUMMARY_MAGIC));
                for (may_be, head) in may_be[begin..begin + count].iter_mut().zip(heads) {
                    *may_be |= match &read {
                        Ok(()) => head,
                        Err(RecoveryError::Read(_)) => true,
                        Err(error) => return Err(error.clone()),
                    };
                }
            }
        }
        Ok(may_be)
    }

    /// Byte offset of the summary of this group if it lies in one piece.
    fn offset_of_summary(&self, position: Position, sequence: Sequence) -> Option<u64> {
        if let Some(journal) = &self.geometry.journal {
            return Some(journal.offset_of(sequence));
        }
        let frames = self.geometry.summary_frames();
        let in_row = self.frames_in_row(position, frames);
        (in_row == frames).then(|| self.offset_of(position))
    }

    /// How many of so many frames from a position on lie side by side on flash.
    fn frames_in_row(&self, position: Position, frames: u64) -> u64 {
        self.geometry.pieces(self.ring, position, frames).next().map_or(0, |(_, in_row)| in_row)
    }

    /// Reads the summaries of so many groups from `chain` on, if all of these are full; and of those that lie
    /// within so many frames, if they are not.
    fn read_summaries_ahead(&mut self, chain: Chain, groups: u64, near: u64) {
        let offsets: Vec<u64> = (0..groups)
            .filter_map(|ahead| {
                let position = chain.position + ahead * self.geometry.group_frames;
                self.offset_of_summary(position, chain.sequence + ahead)
            })
            .collect();
        // Where a summary takes several frames the next one need not begin with one of their multiples.
        let near = match &self.geometry.journal {
            None if self.geometry.summary_frames() == 1 => {
                self.frames_in_row(chain.position, near.min(self.ring.frames)) as usize
            }
            _ => 1,
        };
        self.read_ahead_and_near(&offsets, self.summary.len(), near);
    }

    fn read_summary(
        &mut self,
        position: Position,
        sequence: Sequence,
        summary: &mut [u8],
    ) -> Result<(), RecoveryError> {
        if let Some(offset) = self.offset_of_summary(position, sequence) {
            return self.read(offset, summary);
        }
        let page = self.geometry.page_size();
        for (at, frames) in self.ring.runs(position, self.geometry.summary_frames()) {
            let from = (at - position) as usize * page;
            if frames > 0 {
                self.read(self.offset_of(at), &mut summary[from..from + frames as usize * page])?;
            }
        }
        Ok(())
    }

    pub(super) fn after(&self, group: &Found) -> Chain {
        Chain {
            sequence: group.sequence + 1,
            position: group.position + self.geometry.summary_frames() + u64::from(group.pages),
            checksum: group.checksum,
        }
    }

    /// Groups belong to the epoch that their place in the chain demands (invariant 7): those written
    /// after the last recovery to its epoch, all before to earlier ones.
    pub(super) fn epoch_fits(&self, group: &Found) -> bool {
        let current = group.epoch == self.superblock.epoch;
        current == (group.sequence >= self.superblock.epoch_sequence)
    }

    /// The groups that follow `chain`, up to the first break.
    pub(super) fn follow(&mut self, mut chain: Chain) -> Result<Vec<Found>, RecoveryError> {
        let mut found = Vec::new();
        // Two segments' worth of groups and those in staging memory; a longer chain cannot be.
        let limit = chain.position + self.ring.frames;
        let (mut at_once, mut near) = (AT_ONCE_MIN, NEAR_FRAMES.0);
        while chain.position < limit && !self.was_closed_after(chain) {
            let offset = self.offset_of_summary(chain.position, chain.sequence);
            if offset.is_some_and(|offset| !self.ahead.has(offset)) {
                let near = near.min(limit - chain.position);
                self.read_summaries_ahead(chain, self.groups_left(chain, limit).min(at_once), near);
            }
            let Some(group) = self.group_or_behind_rest(chain.position, chain.sequence)? else { break };
            let offset = self.offset_of_summary(group.position, group.sequence);
            let follows = group.sequence == chain.sequence
                && (group.predecessor == chain.checksum
                    || planted::is(Bug::ChainUnchecked)
                    || planted::is(Bug::PredecessorUnchecked))
                && (self.epoch_fits(&group) || planted::is(Bug::ChainUnchecked));
            if !follows {
                break;
            }
            self.report.groups_scanned += 1;
            self.follows(&group);
            if let Some(offset) = offset {
                // It is wanted again when it is replayed.
                self.ahead.keep(offset, &self.summary);
            }
            let full = u64::from(group.pages) == self.geometry.group_pages();
            let told = full || self.geometry.journal.is_some();
            (at_once, near) = match told {
                true => ((4 * at_once).min(TOGETHER_MAX as u64), (near / 2).max(NEAR_FRAMES.0)),
                // Two, so that there is something to be read together.
                false => ((at_once / 2).max(2), (2 * near).min(NEAR_FRAMES.1)),
            };
            chain = self.after(&group);
            found.push(group);
        }
        self.ends_without_doubt(found.last())?;
        Ok(found)
    }

    /// How many groups may follow at most.
    fn groups_left(&self, chain: Chain, limit: Position) -> u64 {
        let room = (limit - chain.position).div_ceil(self.geometry.group_frames);
        match self.superblock.state {
            TierState::Open => room,
            _ => room.min(self.superblock.end_sequence.distance_from(chain.sequence).unwrap_or(0)),
        }
    }

    /// Whether the tier was left in order with this end: then what lies behind it, which may be unreadable,
    /// is nobody's.
    fn was_closed_after(&self, chain: Chain) -> bool {
        self.superblock.state != TierState::Open
            && self.superblock.end_sequence == chain.sequence
            && !planted::is(Bug::UnreadableEndsRecovery)
    }

    /// Cuts the chain at the first group that has a torn page, beyond those that are known to have been
    /// durable.
    pub(super) fn cut_torn(
        &mut self,
        found: &mut Vec<Found>,
        segments_end: Sequence,
    ) -> Result<(), RecoveryError> {
        // What cannot be read of the pages of groups that were durable is no sign of a torn group.
        let known =
            if planted::is(Bug::KnownEndVerified) { Sequence::ZERO } else { self.superblock.known_end() };
        let known = segments_end.max(known);
        let durable = found.last().map_or(known, |last| last.durable.max(known));
        if self.geometry.journal.is_some() {
            return self.cut_torn_in_place(found, durable);
        }
        let mut page = vec![0; self.geometry.page_size()];
        for index in 0..found.len() {
            if found[index].sequence < durable || planted::is(Bug::TornGroupUsed) {
                continue;
            }
            let (position, records) = (found[index].position, found[index].records);
            if self.summary_at(position, found[index].sequence)?.is_none() {
                found.truncate(index);
                return Ok(());
            }
            let summary = std::mem::take(&mut self.summary);
            let whole = self.pages_whole(&summary, position, records, &mut page, Unread::IsLost);
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

    /// [`Self::cut_torn`] where pages are written in place. A page's home may have been given to another one
    /// when a later group was durable that superseded it or let it go, so a torn page says nothing as
    /// long as such a group follows: what counts is the longest chain of which all pages are whole that
    /// are valid at its end.
    fn cut_torn_in_place(&mut self, found: &mut Vec<Found>, durable: Sequence) -> Result<(), RecoveryError> {
        if planted::is(Bug::TornGroupUsed) {
            return Ok(());
        }
        let first = found.iter().position(|group| group.sequence >= durable).unwrap_or(found.len());
        let mut groups = Vec::new();
        for group in &found[first..] {
            let (position, sequence, records) = (group.position, group.sequence, group.records as usize);
            if self.summary_at(position, sequence)?.is_none() {
                break;
            }
            let records = (0..records).map_while(|index| GroupSummary::record(&self.summary, index));
            groups.push(records.collect::<Vec<Record>>());
        }
        let mut checksums = HashMap::new();
        while !self.pages_whole_at_end(&groups, &mut checksums)? {
            groups.pop();
        }
        let kept = first + groups.len();
        self.report.groups_torn += (found.len() - kept) as u64;
        found.truncate(kept);
        Ok(())
    }

    /// Whether the pages that these groups wrote and that are valid behind the last of them lie at their
    /// homes. `checksums` are those of homes that were read already.
    fn pages_whole_at_end(
        &mut self,
        groups: &[Vec<Record>],
        checksums: &mut HashMap<u32, u32>,
    ) -> Result<bool, RecoveryError> {
        let mut valid = HashMap::new();
        for record in groups.iter().flatten() {
            match &record.kind {
                // What was only named again was durable before.
                RecordKind::Page { id, second_chance: true, .. } => drop(valid.remove(id)),
                RecordKind::Page { id, home, checksum, .. } => drop(valid.insert(*id, (*home, *checksum))),
                RecordKind::Tombstone(range) => valid.retain(|id, _| !range.contains(id)),
                RecordKind::Group { .. } | RecordKind::Void => {}
            }
        }
        let mut page = vec![0; self.geometry.page_size()];
        // In the order in which they lie, and so the same requests each time.
        let mut homes: Vec<(u32, u32)> = valid.into_values().collect();
        homes.sort_unstable();
        for (home, checksum) in homes {
            if u64::from(home) >= self.geometry.frames() {
                return Ok(false);
            }
            let found = match checksums.get(&home) {
                Some(&found) => found,
                None => {
                    let offset = self.geometry.offset_of_frame(Frame(home));
                    let Some(found) = self.checksum_at(offset, checksum, &mut page)? else { continue };
                    checksums.insert(home, found);
                    found
                }
            };
            if found != checksum {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Reads a page that may be torn, twice before it counts as torn: the checksum of what lies there. `None`
    /// if it cannot be read though the device answers: torn pages can be read, so this one is not torn, but
    /// lost when somebody wants it.
    fn checksum_at(
        &mut self,
        offset: u64,
        wanted: u32,
        page: &mut [u8],
    ) -> Result<Option<u32>, RecoveryError> {
        self.report.pages_verified += 1;
        match self.read_whole(offset, page, |page| crc32c::crc32c(page) == wanted) {
            Err(RecoveryError::Read(_)) if !planted::is(Bug::UnreadableEndsRecovery) => Ok(None),
            Ok(false) => Ok(Some(crc32c::crc32c(page))),
            read => read.map(|_| Some(wanted)),
        }
    }

    pub(super) fn pages_whole(
        &mut self,
        summary: &[u8],
        position: Position,
        records: u32,
        page: &mut [u8],
        unread: Unread,
    ) -> Result<bool, RecoveryError> {
        let mut at = position + self.geometry.summary_frames();
        for index in 0..records as usize {
            match GroupSummary::record(summary, index) {
                // Nothing lies in its frame.
                Some(Record { kind: RecordKind::Void, .. }) => at += 1,
                Some(Record { kind: RecordKind::Page { lost: true, .. }, .. })
                    if !planted::is(Bug::LostTakenForTorn) =>
                {
                    at += 1;
                }
                Some(Record { kind: RecordKind::Page { checksum, .. }, .. }) => {
                    let found = self.checksum_at(self.offset_of(at), checksum, page)?;
                    if found.map_or(unread == Unread::IsTorn, |found| found != checksum) {
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
    pub(super) fn refuse_damage(
        &mut self,
        end: Chain,
        segments_end: Chain,
        found: &[Found],
    ) -> Result<(), RecoveryError> {
        if planted::is(Bug::DamageNotRefused) {
            return Ok(());
        }
        if self.superblock.holds_nothing() && !planted::is(Bug::LostEpochReused) {
            // What lies here is nobody's.
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
        if self.superblock.known_end() > sequence || marked > sequence {
            return Err(damaged(&format!("group {sequence} was durable and is gone"), offset));
        }
        // Groups written after the break may know more. They can lie only within the groups that
        // staging memory held.
        let groups = u64::from(self.geometry.config().staging_groups);
        let window = (groups * self.geometry.group_frames).min(self.ring.frames - 1);
        // They may lie behind the rest of a zone.
        let window = window + (self.geometry.zone_end(end.position) - end.position);
        let window =
            if self.geometry.journal.is_some() { groups + 1 } else { window.min(self.ring.frames - 1) };
        let candidates = match self.geometry.journal {
            None => self.summaries_may_be_at(end.position + 1, window.saturating_sub(1))?,
            Some(_) => vec![true; window.saturating_sub(1) as usize],
        };
        for ahead in (1..window).filter(|ahead| candidates[*ahead as usize - 1]) {
            let group = match self.geometry.journal {
                None => self.summary_at(end.position + ahead, sequence),
                Some(_) => self.summary_where(end.position, sequence + ahead),
            };
            let group = match group {
                Err(error) if planted::is(Bug::UnreadableEndsRecovery) => return Err(error),
                // Most of what lies here is dead. What cannot be read tells of nothing.
                Err(RecoveryError::Read(error)) => {
                    self.unread.get_or_insert(error);
                    None
                }
                group => group?,
            };
            let Some(group) = group else { continue };
            let later = group.sequence > sequence
                && group.sequence <= sequence + groups
                && group.epoch == self.superblock.epoch;
            if later && group.durable > sequence {
                return Err(damaged(&format!("group {sequence} was durable and is gone"), offset));
            }
        }
        Ok(())
    }

    /// Replays a group whose summary is in `self.summary`.
    pub(super) fn replay_group(
        &mut self,
        tier: &Tier,
        group: &Found,
        front: Position,
        version_max: &mut Version,
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
            tier.directory().set_head(self.ring.entry_of(group.position), &head);
        }
        for index in 0..group.records as usize {
            let record = GroupSummary::record(&self.summary, index);
            let pages_left = position < end;
            let Some(record) = record.filter(|record| pages_left || !record.has_frame()) else {
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
    pub(super) fn replay_found(
        &mut self,
        tier: &Tier,
        group: &Found,
        front: Position,
        next_version: Version,
        writes: &mut Vec<(u64, Vec<u8>)>,
    ) -> Result<Version, RecoveryError> {
        let mut version_max = next_version - 1;
        if self.summary_at(group.position, group.sequence)?.is_none() {
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
        for (index, buffer) in control.segments.buffers.iter().enumerate() {
            if buffer.is_full() {
                let (offset, bytes) = tier.segment_bytes(index);
                writes.push((offset, bytes.to_vec()));
                // The host makes these durable before it uses the tier.
                tier.set_segment_end(buffer.number.get(), buffer.end_position());
                control.segments.found(buffer.end_position(), buffer.end_sequence());
                buffer.empties();
            }
        }
        Ok(version_max.next())
    }
}
