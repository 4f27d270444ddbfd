//! Metadata segments: found, read, and their records applied to the directory.

use super::ahead::{TOGETHER_MAX, padded};
use super::{Chain, Found, RecoveryError, Scan, damaged};
use crate::core::Tier;
use crate::format::{LogPosition, RECORD_BYTES, Record, RecordKind, SEGMENT_HEADER_BYTES, SegmentHeader};
use crate::ids::{Position, Sequence, Version};
use crate::layout::HOST_METADATA_BYTES;
use crate::planted::{self, Bug};

/// A segment, and its records if they can be read and match their checksum.
type MaybeWhole<'h> = (&'h SegmentHeader, Option<Vec<u8>>);

impl Scan<'_, '_> {
    /// The headers of the segments that can be used, in runs, the newest last, and the front that segments
    /// and superblock state. In a run the oldest comes first, and each begins where the one before ends;
    /// where the groups of a gap lie on flash as long as it is in the queue, there is one run whatever is
    /// missing.
    pub(super) fn find_segments(&mut self) -> Result<(Vec<Vec<SegmentHeader>>, Position), RecoveryError> {
        let mut all = Vec::new();
        let slots = 0..self.geometry.segment_slots;
        let offsets: Vec<u64> = slots.map(|slot| self.geometry.segment_offset(slot)).collect();
        // A segment that cannot be read is like one that is damaged: its groups stand in for it.
        let decode = |bytes: &[u8]| SegmentHeader::decode(bytes).ok();
        let headers = self.decode_each_if_possible(&offsets, SEGMENT_HEADER_BYTES, decode)?;
        for (slot, (offset, header)) in (0..).zip(offsets.into_iter().zip(headers)) {
            // A newer format version in it is damage as any other, here and in summaries: a newer build would
            // have written a newer superblock first, and that would have been refused.
            let Some(header) = header else { continue };
            if self.came_across(Some((header.tier_uuid, header.epoch))) {
                self.unknown_segments.push(offset);
            }
            if self.belongs(&header, slot) {
                all.push(header);
            }
        }
        if self.superblock.holds_nothing() && !planted::is(Bug::LostEpochReused) {
            all.clear();
            // Groups of an epoch that the superblock does not know begin where those of the next one will.
            match self.summary_at(Position::ZERO, Sequence::ZERO) {
                Ok(_) | Err(RecoveryError::Read(_)) => {}
                Err(error) => return Err(error),
            }
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
        let fronts = all.iter().map(|header| header.front).filter(|_| !planted::is(Bug::SegmentFrontIgnored));
        let front = fronts.fold(self.superblock.front, Position::max);
        let runs = if self.geometry.journal.is_some() { self.whole_runs(all)? } else { vec![all] };
        Ok((runs, front))
    }

    /// Where pages are written in place, the groups that a segment stands for are not kept, so none can take
    /// the place of a segment. But a recovery writes several, and a crash may tear any of them: those that it
    /// tears are missing among the new ones, where their groups are still there, and all from the gap on are
    /// found by the groups; and among the old ones whose slots they take, which nothing needs. Which of the
    /// two a gap is, the front says.
    fn whole_runs(&mut self, segments: Vec<SegmentHeader>) -> Result<Vec<Vec<SegmentHeader>>, RecoveryError> {
        self.segments_end = segments.last().map_or(Sequence::ZERO, |last| last.end_sequence);
        let mut runs: Vec<Vec<SegmentHeader>> = Vec::new();
        for header in segments {
            if self.records(&header)?.is_none() {
                continue;
            }
            match runs.last_mut() {
                Some(run) if run.last().is_some_and(|last| last.end_sequence == header.first_sequence) => {
                    run.push(header);
                }
                _ => runs.push(vec![header]),
            }
        }
        let newest = runs.last().and_then(|run| run.first());
        self.segment_missing = newest.and_then(|first| first.number.checked_sub(1));
        if planted::is(Bug::OldestRunOfSegmentsUsed) {
            runs.reverse();
        }
        Ok(runs)
    }

    /// Refuses a tier whose pages are written in place and of which a segment is missing that nothing can
    /// take the place of: which pages its groups had, superseded or let go, nobody knows. By the place of
    /// that segment, since it is what has to be copied, or given up; what the chain of groups lacks is only
    /// what follows.
    pub(super) fn refuse_missing_segment(&self, end: Chain) -> Result<(), RecoveryError> {
        match self.segment_missing {
            Some(number) if self.segments_end > end.sequence && !planted::is(Bug::MissingSegmentUnnamed) => {
                let what = "a metadata segment whose groups have no summaries any more";
                Err(damaged(what, self.geometry.segment_offset(number)))
            }
            _ => Ok(()),
        }
    }

    pub(super) fn belongs(&self, header: &SegmentHeader, slot: u64) -> bool {
        let after_discard = header.epoch >= self.superblock.origin_epoch;
        header.tier_uuid == self.superblock.tier_uuid
            && (after_discard || planted::is(Bug::DiscardedSegmentsBelieved))
            && header.epoch <= self.superblock.epoch
            && header.number % self.geometry.segment_slots == slot
            && u64::from(header.records) <= self.geometry.segment_records_max
            && header.first_position < header.end_position
            && header.first_sequence < header.end_sequence
    }

    /// Byte offset on flash of a segment's records.
    pub(super) fn records_at(&self, header: &SegmentHeader) -> u64 {
        self.geometry.segment_offset(header.number) + SEGMENT_HEADER_BYTES as u64
    }

    /// Byte offset on flash of a segment's reference bits.
    pub(super) fn references_at(&self, header: &SegmentHeader) -> u64 {
        self.geometry.segment_offset(header.number) + header.records_end()
    }

    /// A segment's records, if they match their checksum.
    pub(super) fn records(&mut self, header: &SegmentHeader) -> Result<Option<Vec<u8>>, RecoveryError> {
        let mut bytes = vec![0; padded(header.records_bytes())];
        let offset = self.records_at(header);
        let len = header.records_bytes() as usize;
        let is_whole = |bytes: &[u8]| {
            crc32c::crc32c(&bytes[..len]) == header.records_checksum || planted::is(Bug::TornSegmentUsed)
        };
        let whole = self.read_if_possible(offset, &mut bytes, is_whole)?;
        bytes.truncate(len);
        Ok(whole.then_some(bytes))
    }

    /// Fills the directory from segments; a gap between them is bridged by the groups' summaries.
    pub(super) fn load_segments(
        &mut self,
        tier: &Tier,
        segments: &[SegmentHeader],
        front: Position,
    ) -> Result<(), RecoveryError> {
        for header in segments {
            tier.set_segment_end(header.number, header.end_position);
        }
        let Some(first) = segments.iter().position(|header| header.end_position > front) else {
            return Ok(());
        };
        let mut at: Option<Chain> = None;
        let (mut batch, mut rest) = self.read_batch(&segments[first..])?;
        while !batch.is_empty() {
            // Those that follow one another are replayed together.
            let mut whole = Vec::new();
            for (header, records) in batch {
                let starts = Chain {
                    sequence: header.first_sequence,
                    position: header.first_position,
                    checksum: header.first_predecessor,
                };
                if at.is_none_or(|at| at.position != starts.position) {
                    tier.replay_segments(&std::mem::take(&mut whole), front, self.workers, &mut || {})?;
                }
                self.bridge(tier, at, front, starts)?;
                match records {
                    Some(records) => {
                        self.report.segments_read += 1;
                        whole.push((header, records));
                    }
                    // Rotten, though not the newest: the groups it stands for still lie on flash, from the
                    // front on.
                    None => {
                        tier.replay_segments(&std::mem::take(&mut whole), front, self.workers, &mut || {})?;
                        let passed = starts.position < front && !planted::is(Bug::BridgedFromBeforeFront);
                        let from = if passed { None } else { Some(starts) };
                        self.bridge(tier, from, front, self.end_of(header))?;
                    }
                }
                at = Some(self.end_of(header));
            }
            let workers = self.workers;
            let mut next = Ok((Vec::new(), rest));
            let mut read_next = || next = self.read_batch(rest);
            tier.replay_segments(&whole, front, workers, &mut read_next)?;
            (batch, rest) = next?;
        }
        Ok(())
    }

    /// The records of so many of these segments as are read together, as far as they are whole; and the
    /// segments behind.
    fn read_batch<'h>(
        &mut self,
        segments: &'h [SegmentHeader],
    ) -> Result<(Vec<MaybeWhole<'h>>, &'h [SegmentHeader]), RecoveryError> {
        if segments.is_empty() {
            return Ok((Vec::new(), segments));
        }
        let (together, rest) = segments.split_at(self.together(segments).len());
        self.read_records_ahead(together);
        let read = together.iter().map(|header| Ok((header, self.records(header)?)));
        Ok((read.collect::<Result<_, RecoveryError>>()?, rest))
    }

    /// The reference bits of the newest segments, oldest first.
    pub(super) fn load_references(&mut self, tier: &Tier, segments: &[SegmentHeader]) {
        if self.geometry.share_bytes() == 0 {
            return;
        }
        let newest = &segments[segments.len().saturating_sub(self.geometry.shares() as usize)..];
        let share_bytes = self.geometry.share_bytes();
        let fitting: Vec<SegmentHeader> =
            newest.iter().filter(|header| header.share_bytes() <= share_bytes).cloned().collect();
        for (index, header) in fitting.iter().enumerate() {
            if index % TOGETHER_MAX == 0 {
                self.read_references_ahead(&fitting[index..fitting.len().min(index + TOGETHER_MAX)]);
            }
            let mut bits = vec![0; padded(header.share_bytes() as u64)];
            let offset = self.references_at(header);
            let len = header.share_bytes();
            // They are hints: what cannot be read is done without.
            let whole = |bits: &[u8]| crc32c::crc32c(&bits[..len]) == header.share_checksum;
            let read = self.read_whole(offset, &mut bits, whole);
            bits.truncate(len);
            if read == Ok(true) {
                tier.adopt_references(header, &bits, &mut self.report.referenced);
            }
        }
    }

    pub(super) fn end_of(&self, header: &SegmentHeader) -> Chain {
        Chain { sequence: header.end_sequence, position: header.end_position, checksum: header.last_checksum }
    }

    /// Replays the groups between `from` (or the front) and `to` from their summaries.
    pub(super) fn bridge(
        &mut self,
        tier: &Tier,
        from: Option<Chain>,
        front: Position,
        to: Chain,
    ) -> Result<(), RecoveryError> {
        let (mut position, mut due) =
            from.map_or((front, None), |chain| (chain.position, Some((chain.sequence, chain.checksum))));
        while position < to.position {
            let behind_rest = self.next_zone(position) == Some(to.position);
            // Behind a rest the metadata may go on, if no group is missing before.
            if behind_rest && due.is_some_and(|(sequence, _)| sequence == to.sequence) {
                tier.leave_rest(position, to.position, front);
                position = to.position;
                break;
            }
            let offset = self.offset_of(position);
            let found = match due {
                Some((sequence, _)) => self.group_or_behind_rest(position, sequence)?,
                // Where the front stands no rest begins.
                None => self.summary_at(position, Sequence::ZERO)?,
            };
            let follows = |group: &Found| due.is_none_or(|due| (group.sequence, group.predecessor) == due);
            let Some(group) = found.filter(follows) else {
                if behind_rest && planted::is(Bug::GroupsPassForRest) {
                    tier.leave_rest(position, to.position, front);
                    position = to.position;
                    break;
                }
                return Err(damaged("a metadata segment and the group it stands for", offset));
            };
            tier.leave_rest(position, group.position, front);
            if group.position >= front {
                self.replay_group(tier, &group, front, &mut { Version::ZERO })?;
            }
            let after = self.after(&group);
            (position, due) = (after.position, Some((after.sequence, after.checksum)));
        }
        // That each follows the one before, and they meet, tells them from what a crash left.
        self.doubt = None;
        if position != to.position && position != front {
            return Err(damaged("groups that do not meet their metadata", self.offset_of(position)));
        }
        Ok(())
    }

    /// The host metadata of the last group, which a segment stands for, and how far the log reached then.
    pub(super) fn last_host_metadata(
        &mut self,
        segments: &[SegmentHeader],
    ) -> Result<([u8; HOST_METADATA_BYTES], LogPosition), RecoveryError> {
        let nothing = ([0; HOST_METADATA_BYTES], LogPosition::default());
        let Some(newest) = segments.last() else { return Ok(nothing) };
        let records = match self.records(newest)? {
            None if !planted::is(Bug::NoteOfUnreadSegmentLost) => {
                // They were whole a moment ago.
                let offset = self.geometry.segment_offset(newest.number);
                return Err(damaged("the newest metadata segment", offset));
            }
            records => records.unwrap_or_default(),
        };
        let last = records
            .chunks_exact(RECORD_BYTES)
            .filter_map(|bytes| {
                let mut record = [0; RECORD_BYTES];
                record.copy_from_slice(bytes);
                match Record::decode(&record)?.kind {
                    RecordKind::Group { position, sequence, .. } => Some((position, sequence)),
                    _ => None,
                }
            })
            .next_back();
        let Some((position, sequence)) = last else { return Ok(nothing) };
        match self.summary_at(position, sequence)? {
            Some(group) => Ok((group.host_metadata, group.log)),
            None => Err(damaged("the last group's summary", self.offset_of(position))),
        }
    }
}
