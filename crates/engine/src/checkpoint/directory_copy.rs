//! A tier that is left in order leaves a copy of its directory on flash, so that the next start need not
//! replay its metadata segments.
//!
//! It lies in the frames behind the rear of the queue, which are free: the front has passed what was there,
//! durably, and the first group of the next life is written over the copy. The superblock that says that the
//! tier was closed names it, and no other does. So it is void with the first change of the next life, before
//! that: a superblock that says `open` comes first. And whoever does not know of copies leaves none: it
//! writes superblocks that name none.
//!
//! What it says is what segments would have said, up to where they end; the groups behind are found as ever.
//! Nothing depends on it: segments and groups stay as they are.

use crate::config::Geometry;
use crate::core::Tier;
use crate::directory::{DIRTY, LOST, REFERENCED, VALID};
use crate::format::{
    CHUNK_BYTES, CHUNK_HEADER_BYTES, ChunkHeader, CopyItem, DirectoryCopy, ITEM_BYTES_MAX, Superblock,
};
use crate::groups::ring::Ring;
use crate::ids::Position;
use crate::planted::{self, Bug};
use crate::recovery::WriteFlash;

/// A copy of less than so many segments would spare too little.
const SEGMENTS_MIN: u64 = 4;
/// Chunks are written in whole blocks.
const BLOCK_BYTES: usize = 4096;

/// What a copy of so many positions takes at most, in bytes.
fn bytes_max(positions: u64) -> u64 {
    let items = positions * ITEM_BYTES_MAX as u64;
    let (chunk, header) = (CHUNK_BYTES as u64, CHUNK_HEADER_BYTES as u64);
    // A chunk ends where the longest item might not fit; the last one ends with its items, in whole blocks.
    let full = items / (chunk - header - ITEM_BYTES_MAX as u64);
    full * chunk + (header + items).next_multiple_of(BLOCK_BYTES as u64).min(chunk)
}

impl Geometry {
    /// Bytes of the largest copy of its directory that a tier of this size leaves when it is closed in order
    /// ([`Tier::write_directory_copy`]), in frames that are free then; 0 if it leaves none.
    #[must_use]
    pub fn directory_copy_bytes_max(&self) -> u64 {
        let positions = self.frames_max();
        let large = positions >= SEGMENTS_MIN * self.segment_frames;
        if self.leaves_copies() && large { bytes_max(positions) } else { 0 }
    }

    /// Whether pages lie in the queue, and what lies behind it can be written over.
    pub(crate) fn leaves_copies(&self) -> bool {
        self.journal.is_none() && self.slot_directory().is_none() && self.zones().is_none()
    }
}

impl Tier {
    /// Writes the copy of the directory that goes with `closed`, which is what [`Tier::closed`] has just
    /// made, and returns the superblock that names it; `closed` itself if there is none. Everything written is
    /// durable then, and the host writes the superblock as it writes every one. There is none of a small
    /// tier, of one whose pages lie in place or on zones, while a resize is under way, where the frames behind
    /// the queue have no room for it, and if the device does not take all of it: nobody needs these frames.
    ///
    /// # Errors
    /// The host's, if the flush fails: what was durable before may not be so any more, and the tier is not to
    /// be called closed.
    pub fn write_directory_copy<F: WriteFlash + ?Sized>(
        &self,
        closed: &Superblock,
        flash: &mut F,
    ) -> Result<Superblock, F::Error> {
        let Some((end, at)) = self.room_for_copy(closed) else { return Ok(closed.clone()) };
        let header = ChunkHeader {
            tier_uuid: self.uuid,
            generation: closed.generation,
            epoch: closed.epoch,
            returning: if planted::is(Bug::ReturningForgotten) { Position::ZERO } else { self.returning() },
            ..ChunkHeader::default()
        };
        let copy = DirectoryCopy { position: at, ..DirectoryCopy::default() };
        let mut chunks = Chunks { tier: self, flash, ring: self.ring(), header, chunk: Vec::new(), at, copy };
        let Ok(true) = chunks.write(closed.front, end) else { return Ok(closed.clone()) };
        assert!(chunks.copy.bytes <= bytes_max(end - closed.front), "a copy is as large as its room at most");
        let copy = chunks.copy;
        flash.flush()?;
        Ok(Superblock { copy, ..closed.clone() })
    }

    /// Up to where segments stand for the queue, and where the copy begins; `None` if there is to be none.
    fn room_for_copy(&self, closed: &Superblock) -> Option<(Position, Position)> {
        let control = self.control();
        let geometry = &self.geometry;
        if !geometry.leaves_copies() {
            return None;
        }
        let _guard = control.lock.lock(self.owner);
        let ring = control.ends.ring();
        let settled = !control.segments.any_being_written()
            && !control.resize.is_under_way()
            && closed.config.geometry().is_ok_and(|found| closed.ring(&found) == ring);
        let (front, end) = (closed.front, control.segments.newest_end());
        let copied = end.distance_from(front).unwrap_or(0);
        if !settled || copied < SEGMENTS_MIN * geometry.segment_frames {
            return None;
        }
        let rear = control.ends.rear();
        // What has left the queue durably; groups that recovery has to read lie behind the front.
        let free = (front + ring.frames).distance_from(rear).unwrap_or(0);
        let frames = bytes_max(copied).div_ceil(geometry.page_size() as u64);
        let at = if planted::is(Bug::CopyOverPages) { rear - frames } else { rear };
        (frames <= free).then_some((end, at))
    }

    /// What the directory says of the position of a page.
    fn copied(&self, position: Position) -> CopyItem {
        let directory = self.directory();
        let entry = self.entry_of(position);
        let state = directory.state(entry);
        let id = directory.id(entry);
        if state & VALID != 0 {
            return CopyItem::Valid {
                id,
                checksum: directory.checksum(entry),
                dirty: state & DIRTY != 0,
                referenced: state & REFERENCED != 0,
                lost: state & LOST != 0,
            };
        }
        if self.is_bad(entry.frame_in_queue()) { CopyItem::Bad(id) } else { CopyItem::Named(id) }
    }
}

/// A copy that is being written.
struct Chunks<'t, 'f, F: ?Sized> {
    tier: &'t Tier,
    flash: &'f mut F,
    ring: Ring,
    header: ChunkHeader,
    /// The one that is being filled; empty before its first item.
    chunk: Vec<u8>,
    /// Where it goes.
    at: Position,
    copy: DirectoryCopy,
}

impl<F: WriteFlash + ?Sized> Chunks<'_, '_, F> {
    /// Writes what is said of the positions between these. False if no group begins where one ends.
    fn write(&mut self, mut position: Position, end: Position) -> Result<bool, F::Error> {
        let tier = self.tier;
        while position < end {
            let Some(head) = tier.directory().head(tier.entry_of(position)) else { return Ok(false) };
            let pages = position + tier.geometry.summary_frames();
            self.put(&CopyItem::Head(head), position, pages)?;
            position = pages + u64::from(head.pages);
            for page in Position::each(pages..position) {
                self.put(&tier.copied(page), page, page.next())?;
            }
        }
        self.end_chunk()?;
        Ok(position == end)
    }

    /// Adds what is said of the positions from `first` up to `end`.
    fn put(&mut self, item: &CopyItem, first: Position, end: Position) -> Result<(), F::Error> {
        if self.chunk.len() + ITEM_BYTES_MAX > CHUNK_BYTES {
            self.end_chunk()?;
        }
        if self.chunk.is_empty() {
            self.header.first = first;
            self.chunk.resize(CHUNK_HEADER_BYTES, 0);
        }
        item.put(&mut self.chunk);
        self.header.end = end;
        Ok(())
    }

    /// Writes the chunk, and begins the next one.
    fn end_chunk(&mut self) -> Result<(), F::Error> {
        self.header.bytes = (self.chunk.len() - CHUNK_HEADER_BYTES) as u32;
        let checksum = self.header.seal(&mut self.chunk);
        self.copy.checksum = crc32c::crc32c_append(self.copy.checksum, &checksum.to_le_bytes());
        self.chunk.resize(self.chunk.len().next_multiple_of(BLOCK_BYTES), 0);
        self.copy.bytes += self.chunk.len() as u64;
        let geometry = &self.tier.geometry;
        for (offset, range) in geometry.pieces_of_chunk(self.ring, self.at, self.chunk.len()) {
            self.flash.write(offset, &self.chunk[range])?;
        }
        self.at += (self.chunk.len() / geometry.page_size()) as u64;
        self.chunk.clear();
        Ok(())
    }
}
