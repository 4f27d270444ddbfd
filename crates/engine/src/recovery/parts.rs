//! Metadata segments applied to the directory, divided among threads by the hashes of pages.
//!
//! Of a page only the order of its own records counts. So the shards of the directory are divided into
//! *parts*, and each thread applies the records of a part's pages, in the order of the queue, while others do
//! the same of other parts. A tombstone of a range is of all parts: each drops its own pages of the range.
//! What comes out is what one thread would have made of the records, down to the places in the hash table.
//!
//! Segments that were read together go through two steps:
//!
//! 1. *Sorting.* Each segment's records are checked and put in lists, one for each part; heads of groups and
//!    rests of zones are noted. One task besides notes appearances (invariant 14) and bad frames, which have
//!    an order over all pages.
//! 2. *Applying*, a task for each part. A tombstone finds its pages by their appearances. Some of them are of
//!    later segments by then, and the entries there may be just about to be written by other threads; but
//!    what is dropped is what is linked, in the range, and of the part, and that is right whatever an entry
//!    seemed to say.
//!
//! Where pages are written in place there is one part: which page has a home depends on the order of all.

use mezzanine_ground::interleave::{lock, sync::Mutex};

use super::workers::{Workers, each_task};
use super::{RecoveryError, damaged};
use crate::core::Tier;
use crate::directory::GroupHead;
use crate::format::{RECORD_BYTES, Record, RecordKind, SegmentHeader};
use crate::ids::{PageId, Position};
use crate::planted::{self, Bug};

/// Replay is bound by the memory of the hash table, a line of which is fetched so many records before it is
/// used.
const AHEAD: usize = 8;
/// Parts for each thread, so that one that is late does not keep the others waiting for long.
const PARTS_PER_WORKER: usize = 2;
/// More would make lists too short.
const PARTS_MAX: usize = 64;

/// Some shards of the directory: those of this number of so many, a power of two.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Part {
    pub(crate) number: usize,
    pub(crate) of: usize,
}

impl Part {
    pub(crate) const WHOLE: Self = Self { number: 0, of: 1 };
}

/// A segment and its records, which matched their checksum.
pub(super) type Segment<'s> = (&'s SegmentHeader, Vec<u8>);

/// A record of a part: where its page's hash leads, its position, and its bytes, which lie in a row here.
#[derive(Clone, Copy)]
#[repr(align(64))]
struct Item {
    position: Position,
    bucket: u32,
    record: [u8; RECORD_BYTES],
}

/// What a record of a segment is, in the order of the queue.
enum Step {
    Head(Position, GroupHead),
    Rest(Position, Position),
    Page(PageId, Position),
    Void(Position),
    /// Its first page if it is of one alone.
    Tombstone(Option<PageId>, Position),
}

impl Tier {
    fn parts_for(&self, records: usize, workers: &dyn Workers) -> usize {
        let count = workers.count_for(records);
        let one = self.geometry.journal.is_some() || count == 1;
        // Each part goes through a range that was dropped.
        let parts = if one { 1 } else { (count * PARTS_PER_WORKER).next_power_of_two() };
        parts.min(PARTS_MAX).min(self.geometry.config().shards as usize)
    }

    /// Applies segments that follow one another, and does `meanwhile` beside it.
    pub(super) fn replay_segments(
        &self,
        segments: &[Segment<'_>],
        front: Position,
        workers: &dyn Workers,
        meanwhile: &mut dyn FnMut(),
    ) -> Result<(), RecoveryError> {
        let records = segments.iter().map(|(_, records)| records.len() / RECORD_BYTES).sum();
        let parts = self.parts_for(records, workers);
        let sorted: Vec<_> = segments.iter().map(|_| Mutex::new(Ok(Vec::new()))).collect();
        let late = planted::is(Bug::AppearancesNotedLast);
        let sort = |task: usize| match task.checked_sub(1) {
            None if late => {}
            None => segments.iter().for_each(|segment| self.note_in_order(segment, front)),
            Some(index) => {
                let lists = self.sorted(&segments[index], front, parts);
                *lock(&sorted[index]) = lists;
            }
        };
        each_task(workers, records, segments.len() + 1, &sort, &mut || {});
        let mut lists = Vec::with_capacity(sorted.len());
        for sorted in &sorted {
            lists.push(std::mem::replace(&mut *lock(sorted), Ok(Vec::new()))?);
        }
        if planted::is(Bug::SegmentsOutOfOrder) {
            lists.rotate_left(1.min(segments.len()));
        }
        let failed = Mutex::new(None);
        let apply = |number: usize| {
            for (segment, lists) in segments.iter().zip(&lists) {
                if !self.apply(&lists[number], front, Part { number, of: parts }) {
                    let error = self.odd(segment.0);
                    lock(&failed).get_or_insert(error);
                    return;
                }
            }
        };
        each_task(workers, records, parts, &apply, meanwhile);
        if late {
            segments.iter().for_each(|segment| self.note_in_order(segment, front));
        }
        let failed = lock(&failed).take();
        failed.map_or(Ok(()), Err)
    }

    fn odd(&self, header: &SegmentHeader) -> RecoveryError {
        let offset = self.geometry.segment_offset(header.number);
        damaged("a metadata segment whose records make no sense", offset)
    }

    /// Shows the records of a segment with their positions.
    fn walk(
        &self,
        (header, records): &Segment<'_>,
        mut visit: impl FnMut(&[u8; RECORD_BYTES], Step),
    ) -> Result<(), RecoveryError> {
        let odd = || self.odd(header);
        let mut position = header.first_position;
        let mut end = header.first_position;
        for record in records.chunks_exact(RECORD_BYTES).filter_map(<[u8]>::first_chunk) {
            let id = Record::page_id(record);
            if let Some(id) = id.filter(|_| position < end) {
                visit(record, Step::Page(id, position));
                position = position.next();
                continue;
            }
            match Record::decode(record).ok_or_else(odd)?.kind {
                RecordKind::Group { position: first, sequence, pages, records, checksum } => {
                    let behind_rest =
                        Some(self.geometry.zone_end(end)).filter(|next| *next > end) == Some(first);
                    if behind_rest {
                        visit(record, Step::Rest(end, first));
                    }
                    if first != end && !behind_rest || u64::from(pages) > self.geometry.group_pages() {
                        return Err(odd());
                    }
                    position = first + self.geometry.summary_frames();
                    end = position + u64::from(pages);
                    visit(record, Step::Head(first, GroupHead { sequence, pages, records, checksum }));
                }
                RecordKind::Void if position < end => {
                    visit(record, Step::Void(position));
                    position = position.next();
                }
                RecordKind::Page { .. } | RecordKind::Void => return Err(odd()),
                RecordKind::Tombstone(_) if planted::is(Bug::SegmentTombstonesIgnored) => {}
                RecordKind::Tombstone(range) => {
                    let one = range.shift == 0 && range.count == 1;
                    visit(record, Step::Tombstone(Some(range.start).filter(|_| one), position));
                }
            }
        }
        if end == header.end_position { Ok(()) } else { Err(odd()) }
    }

    /// The first step, of one segment: lists of what each part has to apply.
    fn sorted(
        &self,
        segment: &Segment<'_>,
        front: Position,
        parts: usize,
    ) -> Result<Vec<Vec<Item>>, RecoveryError> {
        let directory = self.directory();
        let each = segment.1.len() / RECORD_BYTES / parts;
        let mut lists: Vec<Vec<Item>> = (0..parts).map(|_| Vec::with_capacity(each + each / 8)).collect();
        self.walk(segment, |record, step| match step {
            Step::Head(first, head) if first >= front => directory.set_head(self.entry_of(first), &head),
            Step::Rest(from, to) => self.leave_rest(from, to, front),
            Step::Page(id, position) | Step::Tombstone(Some(id), position) => {
                let hashed = directory.hashed(&id);
                let item = Item { position, bucket: hashed.bucket_number(), record: *record };
                lists[directory.part_of(hashed, parts)].push(item);
            }
            Step::Tombstone(None, position) => {
                let item = Item { position, bucket: 0, record: *record };
                lists.iter_mut().for_each(|list| list.push(item));
            }
            Step::Head(..) | Step::Void(_) => {}
        })?;
        Ok(lists)
    }

    /// What has an order over all pages. A segment that makes no sense is noticed where it is sorted.
    fn note_in_order(&self, segment: &Segment<'_>, front: Position) {
        let _ = self.walk(segment, |_, step| match step {
            Step::Page(id, position) if position >= front => self.replay_appearance(&id, position),
            Step::Void(position) => self.replay_void(position, front),
            _ => {}
        });
    }

    /// The second step, of one part of one segment. False if a record makes no sense.
    fn apply(&self, items: &[Item], front: Position, part: Part) -> bool {
        let directory = self.directory();
        items.iter().enumerate().all(|(index, item)| {
            if let Some(ahead) = items.get(index + AHEAD) {
                directory.prefetch_numbered(ahead.bucket);
                directory.prefetch_at(self.entry_of(ahead.position));
            }
            let record = Record::decode(&item.record);
            if let Some(record) = &record {
                self.replay_in_part(record, item.position, front, part);
            }
            record.is_some()
        })
    }
}
