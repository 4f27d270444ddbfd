//! Reads: what comes from the cache device and what from the backing device.

use crate::cache::Cache;
use crate::config::BLOCK_BYTES;
use crate::descriptor::SlotState;
use crate::geometry::{Part, RequestError};
use crate::ids::{CacheId, Slot};
use crate::map::Because;
use crate::planted::{self, Bug};
use crate::shard::{Locked, Place};
use crate::statistics::Event;

/// Most runs of pieces of a read, where a run is what comes from the same device: a read of more is one of
/// the backing device. What the cache device has is a piece for each fragment, so there may be more pieces.
pub const PIECES_MAX: usize = 16;

/// Where a piece of a read is to come from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Source {
    /// The backing device of the volume, at the same offset.
    Backing,
    /// The cache device, at this offset in bytes. After it was read, [`Cache::confirm`] says whether what was
    /// read counts.
    Cache(u64),
}

/// A piece of a read: bytes that come from one place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Piece {
    /// Where it begins in the volume, in bytes.
    pub offset: u64,
    /// Its length in bytes.
    pub bytes: u64,
    /// Where it comes from.
    pub source: Source,
    cache: CacheId,
    volume: usize,
    /// What lay in the slot when the read was planned.
    slot: Slot,
    incarnation: u64,
}

impl Piece {
    fn is_cached(&self) -> bool {
        self.source != Source::Backing
    }
}

/// What of a read the cache has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReadKind {
    /// All of it.
    Hit,
    /// Some of it.
    Partial,
    /// Nothing.
    Miss,
}

/// The pieces that are found, and what else is to be said of them.
struct Plan<'p> {
    cache: CacheId,
    pieces: &'p mut Vec<Piece>,
    cached: u64,
}

impl Plan<'_> {
    fn backing(&mut self, volume: usize, offset: u64, bytes: u64) {
        if let Some(last) = self.pieces.last_mut() {
            if last.source == Source::Backing {
                last.bytes += bytes;
                return;
            }
        }
        let source = Source::Backing;
        let (cache, slot) = (self.cache, Slot(0));
        self.pieces.push(Piece { offset, bytes, source, cache, volume, slot, incarnation: 0 });
    }
}

impl Cache {
    /// Plans a read: `pieces` are filled with what is to be read from where, in order. It may begin and end
    /// anywhere; devices that read whole sectors are the host's affair.
    ///
    /// # Errors
    /// If the read does not lie in the volume. Then there are no pieces.
    pub fn read(
        &self,
        volume: usize,
        offset: u64,
        bytes: u64,
        pieces: &mut Vec<Piece>,
    ) -> Result<ReadKind, RequestError> {
        pieces.clear();
        self.geometry.check_request(volume, offset, bytes)?;
        if bytes == 0 {
            return Ok(ReadKind::Hit);
        }
        let mut plan = Plan { cache: self.id, pieces, cached: 0 };
        if self.goes_past() {
            self.counters().bypass_read_offline.count(1);
            plan.backing(volume, offset, bytes);
            self.counters().read_bytes_backing.count(bytes);
            self.count(Event::ReadMiss);
            return Ok(ReadKind::Miss);
        }
        if let Some(sizing) = self.sizing() {
            sizing.read(self, volume, offset, bytes);
        }
        for part in self.geometry.parts(volume, offset, bytes) {
            if self.read_part(volume, &part, &mut plan) {
                self.note_miss(part.fragment, false);
            }
        }
        // What is cached whole is one run, of however many fragments.
        let changes = plan.pieces.windows(2).filter(|two| two[0].is_cached() != two[1].is_cached());
        if changes.count() >= PIECES_MAX {
            self.counters().bypass_read_scattered.count(1);
            plan.pieces.clear();
            plan.cached = 0;
            plan.backing(volume, offset, bytes);
        }
        let (kind, event) = match plan.cached {
            0 => (ReadKind::Miss, Event::ReadMiss),
            cached if cached < bytes => (ReadKind::Partial, Event::ReadPartial),
            _ => (ReadKind::Hit, Event::ReadHit),
        };
        self.counters().read_bytes_cache.count(plan.cached);
        if bytes > plan.cached {
            self.counters().read_bytes_backing.count(bytes - plan.cached);
        }
        self.count(event);
        Ok(kind)
    }

    /// What of one fragment is read from where; true if the fragment is not in the cache.
    fn read_part(&self, volume: usize, part: &Part, plan: &mut Plan<'_>) -> bool {
        let offset = self.geometry.offset_of(part.fragment);
        let locked = self.lock(part.fragment);
        let past =
            |plan: &mut Plan<'_>, start: u64, end: u64| plan.backing(volume, offset + start, end - start);
        let Some((slot, descriptor)) = locked.cached() else {
            let absent = matches!(locked.place(), Place::Absent { .. });
            drop(locked);
            let counters = self.counters();
            let reason = if absent { &counters.bypass_read_absent } else { &counters.bypass_read_populating };
            reason.count(1);
            past(plan, part.start, part.end);
            return absent;
        };
        descriptor.refer();
        let incarnation = descriptor.incarnation.get();
        let (validity, blocks) = (self.validity(slot), part.touched());
        let (mut block, mut invalid) = (blocks.start, false);
        while block < blocks.end {
            let (valid, end) = validity.run(block..blocks.end);
            let start_byte = (u64::from(block) * BLOCK_BYTES).max(part.start);
            let end_byte = (u64::from(end) * BLOCK_BYTES).min(part.end);
            if valid {
                let source = Source::Cache(self.geometry.slot_offset(slot) + start_byte);
                let (offset, bytes) = (offset + start_byte, end_byte - start_byte);
                plan.pieces.push(Piece { offset, bytes, source, cache: self.id, volume, slot, incarnation });
                plan.cached += bytes;
            } else {
                past(plan, start_byte, end_byte);
                invalid = true;
            }
            block = end;
        }
        if invalid {
            self.counters().bypass_read_invalid.count(1);
        }
        false
    }

    /// Whether what was read of a piece counts (invariant 7). If not, it is read from the backing device, at
    /// the piece's offset. What comes from there always counts; the cache is told of it here, or by
    /// [`Cache::was_read`] if it was not planned, before anybody gets to see it.
    ///
    /// # Panics
    /// If the piece is another cache's.
    pub fn confirm(&self, piece: &Piece) -> bool {
        self.assert_own(piece.cache, "a piece");
        let counts = match piece.source {
            Source::Backing => {
                self.tell_read(piece.volume, piece.offset, piece.bytes);
                true
            }
            Source::Cache(_) => {
                planted::is(Bug::ReadUnconfirmed) || (self.still_there(piece, |_, _| {}) && !self.goes_past())
            }
        };
        if !counts {
            self.counters().bypass_read_unconfirmed.count(1);
        }
        counts
    }

    /// Bytes of a volume were read from its backing device, and nobody has seen them yet. To be called for
    /// every such read but those that [`Cache::confirm`] was asked about: who sees a write that has not ended
    /// keeps the cache from serving what was there before (invariant 14).
    ///
    /// # Errors
    /// If they do not lie in the volume.
    pub fn was_read(&self, volume: usize, offset: u64, bytes: u64) -> Result<(), RequestError> {
        self.geometry.check_request(volume, offset, bytes)?;
        self.tell_read(volume, offset, bytes);
        Ok(())
    }

    fn tell_read(&self, volume: usize, offset: u64, bytes: u64) {
        if planted::is(Bug::BackingReadUnseen) {
            return;
        }
        for part in self.geometry.parts(volume, offset, bytes) {
            let locked = self.lock(part.fragment);
            let Some((slot, descriptor)) = locked.cached() else { continue };
            let (validity, touched) = (self.validity(slot), part.touched());
            for flight in self.flights(descriptor).map(|number| self.flight(number)) {
                if !flight.is_awaited() {
                    continue;
                }
                for blocks in flight.owed_blocks() {
                    let seen = blocks.start.max(touched.start)..blocks.end.min(touched.end);
                    self.counters().blocks_seen.count(validity.count_of(seen.clone()).into());
                    validity.clear(seen);
                }
            }
        }
    }

    /// The cache device has not given back a piece: its blocks are valid no more. The piece is read from the
    /// backing device.
    ///
    /// # Panics
    /// If the piece is another cache's.
    pub fn read_failed(&self, piece: &Piece) {
        self.assert_own(piece.cache, "a piece");
        if piece.source != Source::Backing {
            self.counters().bypass_read_failed.count(1);
            self.still_there(piece, |locked, part| {
                self.validity(piece.slot).clear(part.touched());
                // Its record has them valid.
                let descriptor = self.descriptor(piece.slot);
                self.want_unstable(piece.slot, descriptor, Because::Leaves);
                self.stamp(descriptor);
                locked.leave_if_empty();
            });
        }
    }

    /// Whether the blocks of a piece are those that they were and valid; if so, does something with them
    /// under the lock.
    fn still_there(&self, piece: &Piece, then: impl Fn(&Locked<'_>, &Part)) -> bool {
        self.geometry.parts(piece.volume, piece.offset, piece.bytes).all(|part| {
            let locked = self.lock(part.fragment);
            let descriptor = self.descriptor(piece.slot);
            let same = locked.place() == Place::At(piece.slot)
                && descriptor.incarnation.get() == piece.incarnation
                && descriptor.state() == SlotState::Cached
                && self.validity(piece.slot).all(part.touched());
            if same {
                then(&locked, &part);
            }
            same
        })
    }
}
