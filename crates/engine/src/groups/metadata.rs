//! Metadata segments: directory entries made durable in large sequential writes, in the order of the
//! queue ("Flash as cache extension for online transactional workloads", section 5.1).
//!
//! Two segments are under construction, so that groups can retire while one of them is written. A
//! segment holds only groups that are durable (data before its metadata), and the next is not written
//! before a flush has covered the last. So after a crash at most two segments' worth of groups must be
//! found by their summaries (invariant 9).
//!
//! A segment's slot on flash is free when the front has passed the segment that was there before. **A full
//! segment always finds its slot free**, or the tier could come to a halt: groups leave staging memory only
//! into segments, and what moves the front on are groups. It does, because a group is opened only while there
//! are slots for all that staging memory can hold (`SpareSegments::staged`), and pages come in only while
//! there are more (`SpareSegments::moving`), for the groups that carry the front and for what is appended
//! again before it has passed one segment more. So when nothing comes in any more, staging memory empties
//! whatever the disk does, the front finds its groups, and moves. Tombstones make this necessary: thousands
//! of them fill a segment that stands for a few frames, so that segments run out before frames do.

use mezzanine_ground::region::Word;

use crate::core::Tier;
use crate::format::{
    RECORD_BYTES, Record, RecordKind, SEGMENT_HEADER_BYTES, SUMMARY_HEADER_BYTES, SegmentHeader,
};
use crate::groups::group::Reserve;
use crate::groups::group::StagingGroup;
use crate::groups::segments::SegmentBuffer;
use crate::ids::{Position, Sequence, Version};
use crate::planted::{self, Bug};

/// A group whose records go to a segment: from staging memory or, at recovery, from flash.
pub(crate) struct RetiringGroup {
    pub(crate) sequence: Sequence,
    pub(crate) position: Position,
    pub(crate) pages: u32,
    pub(crate) records: u32,
    pub(crate) checksum: u32,
    pub(crate) predecessor: u32,
    pub(crate) epoch: u32,
    pub(crate) version_max: Version,
}

impl Tier {
    fn segment_memory(&self, buffer: usize) -> usize {
        self.geometry.layout.segment_buffers + buffer * self.geometry.segment_bytes as usize
    }

    fn segment_ends(&self) -> &[Word] {
        self.region.slice(self.geometry.layout.segment_ends, self.geometry.segment_slots as usize)
    }

    fn segment_end_word(&self, number: u64) -> &Word {
        &self.segment_ends()[(number % self.geometry.segment_slots) as usize]
    }

    /// Where the last segment ends that lies in the place of the segment with this number.
    pub(crate) fn segment_end(&self, number: u64) -> Position {
        Position::from_number(self.segment_end_word(number).get())
    }

    /// The segment with this number is on flash, and ends here.
    pub(crate) fn set_segment_end(&self, number: u64, end: Position) {
        self.segment_end_word(number).set(end.number());
    }

    /// Moves a staging group's records to the current segment; false if there is no room. Under the
    /// control lock.
    pub(crate) fn push_to_segment(&self, staged: &StagingGroup) -> bool {
        let control = self.control();
        let group = RetiringGroup {
            sequence: staged.sequence(),
            position: staged.position(),
            pages: staged.pages() as u32,
            records: staged.records() as u32,
            checksum: staged.checksum() as u32,
            predecessor: staged.predecessor() as u32,
            epoch: control.epoch.get() as u32,
            version_max: control.append.next_version(),
        };
        let memory = self.group_memory(group.sequence) + SUMMARY_HEADER_BYTES;
        let mut record = [0; RECORD_BYTES];
        self.push_group(&group, |index| {
            self.region.copy_out(memory + index * RECORD_BYTES, &mut record);
            record
        })
    }

    /// Moves a group's records to the current segment; false if there is no room.
    pub(crate) fn push_group(
        &self,
        group: &RetiringGroup,
        mut record: impl FnMut(usize) -> [u8; RECORD_BYTES],
    ) -> bool {
        let control = self.control();
        let current = control.segments.current();
        let buffer = &control.segments.buffers[current];
        if !buffer.takes_groups() {
            return false;
        }
        if buffer.is_empty() {
            self.begin_segment(buffer, group);
        }
        let mut at = self.segment_memory(current)
            + SEGMENT_HEADER_BYTES
            + buffer.records.get() as usize * RECORD_BYTES;
        let head = Record {
            kind: RecordKind::Group {
                position: group.position,
                sequence: group.sequence,
                pages: group.pages,
                records: group.records,
                checksum: group.checksum,
            },
            epoch: group.epoch,
            version: Version::ZERO,
        };
        self.region.copy_in(at, &head.encode());
        for index in 0..group.records as usize {
            at += RECORD_BYTES;
            planted::inside("segment: between two records");
            let mut bytes = record(index);
            if planted::is(Bug::SegmentMisnamed) {
                bytes[0] ^= 0xFF;
            }
            self.region.copy_in(at, &bytes);
        }
        planted::inside("segment: records copied");
        buffer.records.add(u64::from(group.records) + 1);
        buffer.end_sequence.set(group.sequence.next().number());
        let end = group.position + self.geometry.summary_frames() + u64::from(group.pages);
        buffer.end_position.set(end.number());
        buffer.last_checksum.set(group.checksum.into());
        buffer.version_max.set(group.version_max.number());
        buffer.epoch.set(group.epoch.into());
        let room = self.geometry.segment_records_max - buffer.records.get();
        let frames = end - buffer.first_position();
        let full = frames >= self.geometry.segment_frames || room < u64::from(self.geometry.records_max) + 1;
        if full {
            debug_assert!(
                self.segment_end(buffer.number.get()) <= control.passed.durable_front()
                    || planted::is(Bug::SegmentsUncounted),
                "segment {} is full, and its slot is taken",
                buffer.number.get()
            );
            buffer.fills();
            planted::inside("segment: full");
            control.segments.turn();
        }
        true
    }

    fn begin_segment(&self, buffer: &SegmentBuffer, group: &RetiringGroup) {
        let control = self.control();
        buffer.number.set(control.segments.take_number());
        buffer.records.set(0);
        buffer.first_sequence.set(group.sequence.number());
        buffer.first_position.set(group.position.number());
        buffer.first_predecessor.set(group.predecessor.into());
        buffer.begins();
    }

    /// The buffer that may be written now, if any. Under the control lock.
    pub(crate) fn writable_segment(&self) -> Option<usize> {
        let control = self.control();
        if !control.segments.are_covered() && !planted::is(Bug::SegmentBeforeLastFlushed) {
            return None;
        }
        if control.segments.any_being_written() {
            return None;
        }
        let buffers = &control.segments.buffers;
        let full = (0..2).filter(|&index| buffers[index].is_full());
        let index = full.min_by_key(|&index| buffers[index].number.get())?;
        // The slot's last segment must have left the queue altogether, or recovery would miss it.
        let number = buffers[index].number.get();
        let left = self.segment_end(number) <= control.passed.durable_front();
        (left || planted::is(Bug::SegmentSlotReused)).then_some(index)
    }

    /// Up to where the front has to come before groups that take `staged` segments, and `more` segments
    /// besides, find their slots free. Under the control lock.
    fn segments_wait_for(&self, staged: u64, more: u64) -> Position {
        if self.geometry.slot_directory().is_some() || planted::is(Bug::SegmentsUncounted) {
            return Position::ZERO;
        }
        // Segments end in the order of their numbers, so the slot of the last one is the last to be free. The
        // one under construction has found its own.
        let last = self.control().segments.next_number() + staged - 1 + more;
        self.segment_end(last)
    }

    /// Whether a group may be opened as far as segments are concerned. Under the control lock.
    pub(crate) fn segments_suffice(&self, reserve: Reserve) -> bool {
        let more = match reserve {
            Reserve::Foreground | Reserve::HostMetadata => self.geometry.spare_segments.moving,
            Reserve::StageOut | Reserve::Refused | Reserve::Lost => 1,
            Reserve::Carrier => 0,
        };
        // The groups that are in staging memory now, and this one: whoever counted all that there might be
        // would find too few segments for the carrier that gets them free again, once staging memory has
        // emptied.
        let (groups, spare) = (&self.control().groups, self.geometry.spare_segments);
        let staged = groups.next().number() - groups.retired().number() + 1;
        let staged = if planted::is(Bug::SegmentsForEmptyStaging) {
            spare.staged
        } else {
            staged.div_ceil(spare.groups)
        };
        self.segments_wait_for(staged, more) <= self.control().passed.durable_front()
    }

    /// Up to where the front is to come soon, so that nobody who stages in has to wait for a segment. Under
    /// the control lock.
    pub(crate) fn front_wanted_for_segments(&self) -> Position {
        let spare = self.geometry.spare_segments;
        self.segments_wait_for(spare.staged, spare.moving + 1)
    }

    /// Bytes that the segment in a buffer takes on flash: header, records, reference bits.
    pub(crate) fn segment_size(&self, index: usize) -> usize {
        let buffer = &self.control().segments.buffers[index];
        let records = buffer.records.get() as usize;
        let (_, frames) = self.geometry.share_of(buffer.number.get());
        (SEGMENT_HEADER_BYTES + records * RECORD_BYTES).next_multiple_of(4096)
            + (frames.div_ceil(8) as usize).next_multiple_of(4096)
    }

    /// Completes a buffer that is being written with its header and reference bits, and returns where the
    /// segment goes on flash and its bytes.
    pub(crate) fn segment_bytes(&self, index: usize) -> (u64, &[u8]) {
        let control = self.control();
        let buffer = &control.segments.buffers[index];
        let memory = self.segment_memory(index);
        let bytes = buffer.records.get() as usize * RECORD_BYTES;
        let records = self.buffered_segment(memory + SEGMENT_HEADER_BYTES, bytes);
        let number = buffer.number.get();
        let (share_first, share_frames) = self.geometry.share_of(number);
        // First the rear: what is appended later than it says is not believed to be what the bits are of.
        let share_rear = control.ends.rear();
        let bits = self.reference_bits(share_first, share_frames);
        let too_far = planted::is(Bug::SegmentFrontTooFar);
        let header = SegmentHeader {
            tier_uuid: self.uuid,
            number,
            epoch: buffer.epoch.get() as u32,
            records: buffer.records.get() as u32,
            first_sequence: buffer.first_sequence(),
            first_position: buffer.first_position(),
            first_predecessor: buffer.first_predecessor.get() as u32,
            last_checksum: buffer.last_checksum.get() as u32,
            end_sequence: buffer.end_sequence(),
            end_position: buffer.end_position(),
            front: if too_far { control.passed.cleaned() } else { self.front_to_state() },
            version_max: buffer.version_max(),
            records_checksum: crc32c::crc32c(records),
            share_rear,
            share_first: share_first as u32,
            share_frames: share_frames as u32,
            share_checksum: crc32c::crc32c(&bits),
        };
        let bits_at = memory + header.records_end() as usize;
        let padded = bits.len().next_multiple_of(8);
        self.region.copy_in(bits_at, &[bits, vec![0; padded]].concat()[..padded]);
        self.region.copy_in(memory, &header.encode());
        planted::outside("segment: header composed");
        let size = self.segment_size(index);
        (self.geometry.segment_offset(header.number), self.buffered_segment(memory, size))
    }

    /// The segment is on the device. Under the control lock.
    pub(crate) fn segment_written(&self, index: usize) {
        let control = self.control();
        let buffer = &control.segments.buffers[index];
        self.set_segment_end(buffer.number.get(), buffer.end_position());
        buffer.empties();
        planted::inside("segment: written and emptied");
        control.segments.was_written(buffer.end_position(), buffer.end_sequence());
        self.retire();
    }
}
