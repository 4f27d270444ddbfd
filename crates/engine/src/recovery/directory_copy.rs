//! The copy of the directory that a tier left which was closed in order (see `checkpoint::directory_copy`),
//! taken in the place of its metadata segments.
//!
//! It counts if the superblock says that the tier was closed, and names it; if every chunk is whole and of
//! this superblock; if they follow one another from the front to where the newest segment ends, as recovery
//! has found both by itself; and if their checksums together are what the superblock says. If anything is
//! wrong the memory is wiped and segments are replayed, as if there were none: that costs time and nothing
//! else. It may only be known at the last chunk.
//!
//! Chunks are read and applied as segments are, divided among threads (see `parts`).

use std::ops::Range;

use mezzanine_ground::interleave::{lock, sync::Mutex};

use super::Scan;
use super::workers::{Workers, each_task};
use crate::attach::header::begin;
use crate::config::Geometry;
use crate::core::Tier;
use crate::directory::{DIRTY, REFERENCED};
use crate::format::{CHUNK_BYTES, ChunkHeader, CopyItem, TierState};
use crate::groups::ring::Ring;
use crate::ids::{PageId, Position};
use crate::planted::{self, Bug};

/// Chunks that are read together.
const TOGETHER: u64 = 8;
/// Records are about so many bytes.
const ITEM_BYTES: usize = 25;
/// As in `parts`.
const AHEAD: usize = 8;

/// What became of the copy of the directory.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum CopyUse {
    /// There was none: the tier was not closed in order, or is none that has one.
    #[default]
    Absent,
    /// The directory came from it.
    Used,
    /// It was damaged, could not be read, or was of another state: segments were replayed.
    Unusable,
}

/// A chunk that was read, and its header.
struct Chunk {
    header: ChunkHeader,
    bytes: Vec<u8>,
    checksum: u32,
}

impl Chunk {
    fn items(&self) -> &[u8] {
        self.header.items(&self.bytes)
    }
}

/// A valid page of a part.
#[derive(Clone, Copy)]
struct Linked {
    position: Position,
    id: PageId,
    bucket: u32,
    checksum: u32,
    flags: u32,
    lost: bool,
}

/// What is not whole, or makes no sense.
struct Wrong;

impl Geometry {
    /// Where so many bytes of a copy lie from a position on: byte offsets on flash, and which bytes.
    pub(crate) fn pieces_of_chunk(
        &self,
        ring: Ring,
        at: Position,
        bytes: usize,
    ) -> impl Iterator<Item = (u64, Range<usize>)> {
        let page = self.page_size();
        let runs = ring.runs(at, bytes.div_ceil(page) as u64);
        let piece = move |(from, frames): (Position, u64)| {
            let begin = (from - at) as usize * page;
            let end = (begin + frames as usize * page).min(bytes);
            (self.offset_of_frame(ring.entry_of(from).frame_in_queue()), begin..end)
        };
        runs.into_iter().filter(|(_, frames)| *frames > 0).map(piece)
    }
}

impl Scan<'_, '_> {
    /// Fills the directory from the copy, if there is one that counts. If there is one that does not, the
    /// memory is as it was before.
    pub(super) fn load_copy(&mut self, tier: &mut Tier, front: Position, end: Position) -> CopyUse {
        let copy = self.superblock.copy;
        let closed = self.superblock.state != TierState::Open || planted::is(Bug::CopyNamedWhileOpen);
        if copy.bytes == 0 || !closed || !tier.geometry.leaves_copies() {
            return CopyUse::Absent;
        }
        match self.fill_from_copy(tier, front, end) {
            Ok(referenced) => {
                self.report.referenced += referenced;
                CopyUse::Used
            }
            Err(Wrong) => {
                if !planted::is(Bug::HalfCopyKept) {
                    tier.region.wipe();
                    begin(&tier.region);
                }
                CopyUse::Unusable
            }
        }
    }

    /// Returns how many pages are referenced.
    fn fill_from_copy(&mut self, tier: &Tier, front: Position, end: Position) -> Result<u64, Wrong> {
        let (copy, workers) = (self.superblock.copy, self.workers);
        let frames = copy.bytes.div_ceil(tier.geometry.page_size() as u64);
        if copy.position < end || copy.position + frames > front + self.ring.frames {
            return Err(Wrong);
        }
        let (mut position, mut checksum, mut referenced) = (front, 0, 0);
        let (mut group_end, mut returning) = (front, Position::ZERO);
        let mut next = 0;
        let mut chunks = self.read_chunks(&mut next)?;
        while !chunks.is_empty() {
            for chunk in &chunks {
                returning = returning.max(chunk.header.returning);
                if chunk.header.first != position || chunk.header.end <= position {
                    return Err(Wrong);
                }
                position = chunk.header.end;
                checksum = crc32c::crc32c_append(checksum, &chunk.checksum.to_le_bytes());
            }
            if position > end {
                return Err(Wrong);
            }
            let mut read = Ok(Vec::new());
            let mut read_next = || read = self.read_chunks(&mut next);
            referenced += tier.replay_chunks(&chunks, &mut group_end, workers, &mut read_next)?;
            chunks = read?;
        }
        let whole = checksum == copy.checksum || planted::is(Bug::CopyChecksumUnchecked);
        let meets = position == end && group_end == end;
        if !whole || !meets {
            return Err(Wrong);
        }
        if returning > front {
            tier.invalidated_in_memory(returning - 1);
        }
        Ok(referenced)
    }

    /// Reads the chunks from `next` on that are read together.
    fn read_chunks(&mut self, next: &mut u64) -> Result<Vec<Chunk>, Wrong> {
        let copy = self.superblock.copy;
        let numbers = *next..copy.chunks().min(*next + TOGETHER);
        *next = numbers.end;
        let pieces = |number: u64| {
            let begin = number * CHUNK_BYTES as u64;
            let bytes = (copy.bytes - begin).min(CHUNK_BYTES as u64) as usize;
            let at = copy.position + begin / self.geometry.page_size() as u64;
            self.geometry
                .pieces_of_chunk(self.ring, at, bytes)
                .map(|(offset, range)| (offset, vec![0; range.len()]))
        };
        let mut reads = Vec::new();
        let ends: Vec<usize> = numbers
            .map(|number| {
                reads.extend(pieces(number));
                reads.len()
            })
            .collect();
        let results = self.flash.read_many(&mut reads);
        let mut read: Vec<bool> = results.iter().map(Result::is_ok).collect();
        read.resize(reads.len(), false);
        self.report.bytes_read += reads.iter().map(|(_, bytes)| bytes.len() as u64).sum::<u64>();
        let (mut begin, mut chunks) = (0, Vec::new());
        for end in ends {
            let opened =
                self.opened(&reads[begin..end]).filter(|_| read[begin..end].iter().all(|read| *read));
            let chunk = match opened {
                Some(chunk) => chunk,
                None => {
                    // A bit may flip on its way, and a device may be busy: once more, each by itself.
                    for (offset, bytes) in &mut reads[begin..end] {
                        self.report.bytes_read += bytes.len() as u64;
                        self.flash.read(*offset, bytes).map_err(|_| Wrong)?;
                    }
                    self.opened(&reads[begin..end]).ok_or(Wrong)?
                }
            };
            chunks.push(chunk);
            begin = end;
        }
        Ok(chunks)
    }

    /// The chunk that these reads brought, if it is whole and goes with the superblock.
    fn opened(&self, reads: &[(u64, Vec<u8>)]) -> Option<Chunk> {
        let bytes: Vec<u8> = reads.iter().flat_map(|(_, bytes)| bytes).copied().collect();
        let (header, checksum) = ChunkHeader::open(&bytes)?;
        let superblock = self.superblock;
        let named = (header.tier_uuid, header.generation, header.epoch)
            == (superblock.tier_uuid, superblock.generation, superblock.epoch);
        (named || planted::is(Bug::CopyNamedWhileOpen)).then_some(Chunk { header, bytes, checksum })
    }
}

impl Tier {
    /// Applies chunks that follow one another, and does `meanwhile` beside it. Returns how many pages are
    /// referenced. Of an error the directory is left half filled.
    fn replay_chunks(
        &self,
        chunks: &[Chunk],
        group_end: &mut Position,
        workers: &dyn Workers,
        meanwhile: &mut dyn FnMut(),
    ) -> Result<u64, Wrong> {
        let records = chunks.iter().map(|chunk| chunk.header.bytes as usize / ITEM_BYTES).sum();
        let parts = self.parts_for(records, workers);
        let sorted: Vec<_> = chunks.iter().map(|_| Mutex::new(Ok(Vec::new()))).collect();
        let noted = Mutex::new(Ok(*group_end));
        let sort = |task: usize| match task.checked_sub(1) {
            None => {
                let mut end = *group_end;
                let fits = chunks.iter().all(|chunk| self.note_chunk(chunk, &mut end));
                *lock(&noted) = if fits { Ok(end) } else { Err(Wrong) };
            }
            Some(index) => {
                let lists = self.sorted_chunk(&chunks[index], parts);
                *lock(&sorted[index]) = lists;
            }
        };
        each_task(workers, records, chunks.len() + 1, &sort, &mut || {});
        *group_end = std::mem::replace(&mut *lock(&noted), Err(Wrong))?;
        let mut lists = Vec::with_capacity(sorted.len());
        for sorted in &sorted {
            lists.push(std::mem::replace(&mut *lock(sorted), Ok(Vec::new()))?);
        }
        let referenced: Mutex<Result<u64, Wrong>> = Mutex::new(Ok(0));
        let apply = |part: usize| {
            let linked: Option<u64> =
                lists.iter().map(|lists: &Vec<Vec<Linked>>| self.link_all(&lists[part])).sum();
            let mut referenced = lock(&referenced);
            match (&mut *referenced, linked) {
                (Ok(sum), Some(linked)) => *sum += linked,
                _ => *referenced = Err(Wrong),
            }
        };
        each_task(workers, records, parts, &apply, meanwhile);
        let mut referenced = lock(&referenced);
        std::mem::replace(&mut *referenced, Ok(0))
    }

    /// Shows the items of a chunk with their positions.
    fn walk_chunk(&self, chunk: &Chunk, mut visit: impl FnMut(CopyItem, Position)) -> Result<(), Wrong> {
        let mut items = chunk.items();
        let mut position = chunk.header.first;
        while !items.is_empty() {
            let item = CopyItem::take(&mut items).ok_or(Wrong)?;
            let frames = if matches!(item, CopyItem::Head(_)) { self.geometry.summary_frames() } else { 1 };
            if position + frames > chunk.header.end {
                return Err(Wrong);
            }
            visit(item, position);
            position += frames;
        }
        if position == chunk.header.end { Ok(()) } else { Err(Wrong) }
    }

    /// Lists of what each part has to link; the rest is noted in the directory.
    fn sorted_chunk(&self, chunk: &Chunk, parts: usize) -> Result<Vec<Vec<Linked>>, Wrong> {
        let directory = self.directory();
        let each = chunk.items().len() / ITEM_BYTES / parts;
        let mut lists: Vec<Vec<Linked>> = (0..parts).map(|_| Vec::with_capacity(each + each / 8)).collect();
        let mut fits = true;
        self.walk_chunk(chunk, |item, position| match item {
            CopyItem::Head(head) => {
                fits &= u64::from(head.pages) <= self.geometry.group_pages();
                directory.set_head(self.entry_of(position), &head);
            }
            CopyItem::Named(id) | CopyItem::Bad(id) => directory.name(self.entry_of(position), &id),
            CopyItem::Valid { id, checksum, dirty, referenced, lost } => {
                let hashed = directory.hashed(&id);
                let flags = if dirty { DIRTY } else { 0 } | if referenced { REFERENCED } else { 0 };
                let bucket = hashed.bucket_number();
                let linked = Linked { position, id, bucket, checksum, flags, lost };
                lists[directory.part_of(hashed, parts)].push(linked);
            }
        })?;
        if fits { Ok(lists) } else { Err(Wrong) }
    }

    /// What has an order over all pages. `group_end` is where the group ends whose pages come. False if groups
    /// do not follow one another.
    fn note_chunk(&self, chunk: &Chunk, group_end: &mut Position) -> bool {
        let mut follows = true;
        let walked = self.walk_chunk(chunk, |item, position| {
            follows &= matches!(item, CopyItem::Head(_)) == (position == *group_end);
            match item {
                CopyItem::Named(id) | CopyItem::Valid { id, .. } => self.replay_appearance(&id, position),
                CopyItem::Bad(id) => {
                    self.replay_appearance(&id, position);
                    self.replay_void(position, position);
                }
                CopyItem::Head(head) => {
                    *group_end = position + self.geometry.summary_frames() + u64::from(head.pages);
                }
            }
        });
        walked.is_ok() && follows
    }

    /// Links the pages of a part. Returns how many are referenced; `None` if one is there twice.
    fn link_all(&self, pages: &[Linked]) -> Option<u64> {
        let directory = self.directory();
        let mut referenced = 0;
        for (index, page) in pages.iter().enumerate() {
            if let Some(ahead) = pages.get(index + AHEAD) {
                directory.prefetch_numbered(ahead.bucket);
                directory.prefetch_at(self.entry_of(ahead.position));
            }
            let shard = directory.lock(directory.hashed(&page.id), self.owner);
            if shard.find(&page.id).is_some() {
                return None;
            }
            referenced += u64::from(page.flags & REFERENCED != 0);
            let flags = page.flags | if page.lost { self.found_lost() } else { 0 };
            shard.link(self.entry_of(page.position), &page.id, flags, page.checksum);
        }
        Some(referenced)
    }
}
