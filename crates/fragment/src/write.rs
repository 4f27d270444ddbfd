//! Writes and discards, from their beginning to their end (section 3.3 of the paper).
//!
//! A host begins a write here, writes to the backing device, and ends the write here with what that said.
//! Until that end the blocks are what they were before, if nobody can see the write (invariant 14), and not
//! valid otherwise; whether they become so again is up to their flights. The guest is told by the host when
//! the write has been ended here: its next write of the same blocks would otherwise count as one at a time
//! with this one. The data must not change between the beginning and the answer of the backing device,
//! since the copy is made at the beginning: the two would differ.

use std::ops::Range;

use crate::cache::Cache;
use crate::config::{BLOCK_BYTES, WriteMode};
use crate::descriptor::{Descriptor, SlotState};
use crate::flight::{FLIGHT_BLOCKS, FLIGHTS_OF_FRAGMENT_MAX, Flight, FlightState};
use crate::flights::Chain;
use crate::geometry::{Part, RequestError};
use crate::ids::{CacheId, FlightNumber, Slot};
use crate::map::Because;
use crate::planted::{self, Bug};
use crate::shard::Place;
use crate::statistics::Event;
use crate::validity::Validity;

/// A write or discard that has begun: to be ended with [`Cache::write_end`].
#[derive(Debug)]
#[must_use = "fragments with writes that were not ended are not populated and do not leave"]
pub struct WriteToken {
    pub(crate) cache: CacheId,
    pub(crate) volume: usize,
    pub(crate) offset: u64,
    pub(crate) bytes: u64,
    /// The first of the request's flights.
    pub(crate) flights: Option<FlightNumber>,
    pub(crate) waits_for: u64,
    /// It began while the cache was offline: nothing is known of it.
    pub(crate) is_past: bool,
}

impl WriteToken {
    /// It may be sent to the backing device when [`Cache::marks_durable`] has reached this number, and not
    /// before (invariant 10). 0, as it nearly always is: at once.
    pub fn waits_for(&self) -> u64 {
        self.waits_for
    }
}

/// What a request has of data.
#[derive(Clone, Copy)]
pub(crate) enum Contents<'d> {
    /// These.
    Bytes(&'d [u8]),
    /// Some that nobody keeps.
    Hollow,
    /// None: it is a discard.
    Discarded,
}

/// Why no copy is made of a part of a write, or not of all of it.
enum Bypass {
    Discard,
    Around,
    Untracked,
    Crowded,
    Budget,
    NoFlight,
    NoMemory,
}

/// The flights of a part, and what is to be counted of it.
#[derive(Default)]
struct Prepared {
    /// Empty: nobody will know which blocks the part touches.
    chain: Chain,
    bypass: Option<Bypass>,
    is_copied: bool,
    /// Blocks that are another write's as well, and blocks that are not covered whole.
    concurrent: u32,
    partial: u32,
}

impl Cache {
    /// Begins a write of `data` at `offset` of a volume. Copies of what the cache has are made here; the host
    /// then writes to the backing device the same bytes, which must not change until that has answered.
    ///
    /// # Errors
    /// If the write does not lie in the volume. Then nothing has begun.
    pub fn write_begin(&self, volume: usize, offset: u64, data: &[u8]) -> Result<WriteToken, RequestError> {
        let token = self.begin(volume, offset, data.len() as u64, Contents::Bytes(data))?;
        self.count(Event::Write);
        Ok(token)
    }

    /// Begins what changes bytes of a volume without data that the cache could keep: a discard, or a write of
    /// zeros.
    ///
    /// # Errors
    /// If it does not lie in the volume. Then nothing has begun.
    pub fn discard_begin(&self, volume: usize, offset: u64, bytes: u64) -> Result<WriteToken, RequestError> {
        let token = self.begin(volume, offset, bytes, Contents::Discarded)?;
        self.counters().discards.count(1);
        Ok(token)
    }

    /// Whether an earlier write of one of these blocks is under way, or its copy is, as far as the cache
    /// keeps account of it. A write that begins then takes the block over: until its own copy is written the
    /// block comes from the backing device, and if the earlier one was not answered it is a hole after that,
    /// since nobody knows which of them came last. A host may have it wait for a while instead, as others
    /// lock blocks that are written; a guest does not know the order of its writes before they are answered.
    ///
    /// # Errors
    /// If they do not lie in the volume.
    pub fn overlaps_write(&self, volume: usize, offset: u64, bytes: u64) -> Result<bool, RequestError> {
        self.overlaps(volume, offset, bytes, |_| true)
    }

    /// As [`overlaps_write`](Self::overlaps_write), of writes that were not answered alone.
    ///
    /// # Errors
    /// If they do not lie in the volume.
    pub fn overlaps_unanswered_write(
        &self,
        volume: usize,
        offset: u64,
        bytes: u64,
    ) -> Result<bool, RequestError> {
        self.overlaps(volume, offset, bytes, Flight::is_pending)
    }

    fn overlaps(
        &self,
        volume: usize,
        offset: u64,
        bytes: u64,
        counts: impl Fn(&Flight) -> bool,
    ) -> Result<bool, RequestError> {
        self.geometry.check_request(volume, offset, bytes)?;
        Ok(self.geometry.parts(volume, offset, bytes).any(|part| {
            let (locked, blocks) = (self.lock(part.fragment), part.touched());
            locked.cached().is_some_and(|(_, descriptor)| {
                let mut counted = self
                    .flights(descriptor)
                    .map(|number| self.flight(number))
                    .filter(|flight| counts(flight));
                counted.any(|flight| {
                    let other = flight.touched();
                    other.start < blocks.end && blocks.start < other.end
                })
            })
        }))
    }

    pub(crate) fn begin(
        &self,
        volume: usize,
        offset: u64,
        bytes: u64,
        contents: Contents<'_>,
    ) -> Result<WriteToken, RequestError> {
        self.geometry.check_request(volume, offset, bytes)?;
        self.begun();
        if self.is_offline() {
            self.counters().bypass_write_offline.count(1);
            let (cache, flights) = (self.id, None);
            return Ok(WriteToken { cache, volume, offset, bytes, flights, waits_for: 0, is_past: true });
        }
        if let Some(sizing) = self.sizing() {
            sizing.changed(self, volume, offset, bytes, matches!(contents, Contents::Discarded));
        }
        let mut all = Chain::default();
        let (mut at, mut waits_for) = (0, 0);
        for part in self.geometry.parts(volume, offset, bytes) {
            let (chain, mark) = self.begin_part(&part, !matches!(contents, Contents::Discarded));
            waits_for = mark.max(waits_for);
            let length = (part.end - part.start) as usize;
            match contents {
                Contents::Bytes(data) => self.copy(&chain, &part, Some(&data[at..at + length])),
                Contents::Hollow => self.copy(&chain, &part, None),
                Contents::Discarded => {}
            }
            at += length;
            all.append(self, chain);
        }
        if waits_for > self.marks_durable() {
            self.counters().writes_waited.count(1);
        }
        let (cache, flights) = (self.id, all.first);
        Ok(WriteToken { cache, volume, offset, bytes, flights, waits_for, is_past: false })
    }

    /// Takes validity from the blocks of a part, and prepares flights if there is a copy to make. Those that
    /// have a copy are `Filling`. With them the commit that the part has to wait for.
    fn begin_part(&self, part: &Part, is_write: bool) -> (Chain, u64) {
        let counters = self.counters();
        let locked = self.lock(part.fragment);
        let slot = match locked.place() {
            Place::Absent { writes } => {
                locked.count_absent(writes, 1);
                drop(locked);
                if is_write {
                    counters.bypass_write_absent.count(1);
                    self.note_miss(part.fragment, true);
                }
                return (Chain::default(), 0);
            }
            Place::At(slot) => slot,
        };
        let descriptor = self.descriptor(slot);
        let is_populating = descriptor.state() == SlotState::Populating;
        if is_write || !planted::is(Bug::DiscardUncounted) {
            descriptor.version.bump(1);
            if is_populating {
                // Touched, here: they will not be valid (invariant 4).
                self.validity(slot).set(part.touched());
            }
        }
        descriptor.writes.raise(1);
        if is_populating {
            descriptor.untracked.raise(1);
            if is_write {
                counters.bypass_write_populating.count(1);
            }
            if planted::is(Bug::AbortedSlotReused) {
                locked.unmap(slot);
            }
            return (Chain::default(), 0);
        }
        let mark = self.want_unstable(slot, descriptor, Because::Write);
        if is_write {
            descriptor.refer();
        }
        // Before others lose the blocks, since it matters who has them now.
        let prepared = self.prepare(part, slot, descriptor, is_write);
        let keeps = (planted::is(Bug::ValidWhileWritten) && is_write)
            || (planted::is(Bug::DiscardKeepsBlocks) && !is_write);
        if !keeps {
            self.invalidate(self.validity(slot), part.touched(), prepared.chain);
        }
        self.supersede(descriptor, &part.touched());
        self.link(descriptor, prepared.chain);
        if prepared.chain.first.is_none() {
            descriptor.untracked.raise(1);
        }
        self.count_prepared(&prepared);
        (prepared.chain, mark)
    }

    /// Takes validity from the blocks of a part, but for those that a flight has a copy of which waits: what
    /// the slot has of them is read until the backing device answers (invariant 14).
    fn invalidate(&self, validity: Validity<'_>, touched: Range<u32>, chain: Chain) {
        let mut from = touched.start;
        let awaited = chain.numbers(self).map(|number| self.flight(number)).filter(|one| one.is_awaited());
        for flight in awaited {
            for blocks in flight.owed_blocks() {
                validity.clear(from..blocks.start);
                from = blocks.end;
                self.counters().blocks_kept.count(validity.count_of(blocks).into());
            }
        }
        validity.clear(from..touched.end);
    }

    fn count_prepared(&self, prepared: &Prepared) {
        let counters = self.counters();
        if prepared.is_copied {
            counters.writes_through.count(1);
        }
        counters.bypass_block_concurrent.count(prepared.concurrent.into());
        counters.bypass_block_partial.count(prepared.partial.into());
        match prepared.bypass {
            None | Some(Bypass::Discard) => {}
            Some(Bypass::Around) => counters.bypass_write_around.count(1),
            Some(Bypass::Untracked) => counters.bypass_write_untracked.count(1),
            Some(Bypass::Crowded) => counters.bypass_write_crowded.count(1),
            Some(Bypass::Budget) => counters.bypass_write_budget.count(1),
            Some(Bypass::NoFlight) => counters.bypass_write_no_flight.count(1),
            Some(Bypass::NoMemory) => counters.bypass_write_no_memory.count(1),
        }
    }

    /// The flights of a part, none of them known to others yet.
    fn prepare(&self, part: &Part, slot: Slot, descriptor: &Descriptor, is_write: bool) -> Prepared {
        let bypass = if !is_write {
            Bypass::Discard
        } else if self.write_mode() == WriteMode::Around {
            Bypass::Around
        } else if self.is_crowded(descriptor) {
            Bypass::Crowded
        } else if !self.has_budget(part.end - part.start) {
            Bypass::Budget
        } else if descriptor.untracked.get() > 0 && !planted::is(Bug::UntrackedWriteForgotten) {
            Bypass::Untracked
        } else {
            return self.prepare_copies(part, slot, descriptor);
        };
        // A discard may be of a thousand fragments. It leaves flights to writes, which lose more without.
        let pools = &self.control().pools;
        let spares = !is_write && pools.used_flights() >= self.geometry.config().flights / 2;
        let is_marked = !spares && !self.is_crowded(descriptor);
        let chain = if is_marked { self.mark(part, slot) } else { Chain::default() };
        Prepared { chain, bypass: Some(bypass), ..Prepared::default() }
    }

    fn is_crowded(&self, descriptor: &Descriptor) -> bool {
        self.flights(descriptor).nth(FLIGHTS_OF_FRAGMENT_MAX - 1).is_some()
    }

    /// One flight that owes nothing for all of a part, so that it is known which blocks that touches: writes
    /// of others are copied beside it. No flight, if there is none.
    fn mark(&self, part: &Part, slot: Slot) -> Chain {
        let mut chain = Chain::default();
        let number = self.lock_pools().take_flight();
        if let Some(number) = number {
            self.flight(number).begin(part.fragment, slot, part.touched());
            chain.push(self, number);
        }
        chain
    }

    /// Flights with copies of what a part covers whole, as far as there is memory.
    fn prepare_copies(&self, part: &Part, slot: Slot, descriptor: &Descriptor) -> Prepared {
        let whole = if planted::is(Bug::PartOfBlockValidates) { part.touched() } else { part.whole() };
        let mut prepared = Prepared::default();
        let mut chunk = part.touched();
        while chunk.start < chunk.end {
            let end = chunk.end.min(chunk.start + FLIGHT_BLOCKS);
            let number = self.lock_pools().take_flight();
            let Some(number) = number else {
                self.give_back(prepared.chain);
                let chain = self.mark(part, slot);
                return Prepared { chain, bypass: Some(Bypass::NoFlight), ..Prepared::default() };
            };
            let flight = self.flight(number);
            flight.begin(part.fragment, slot, chunk.start..end);
            prepared.chain.push(self, number);
            self.fill(flight, descriptor, &whole, &mut prepared);
            chunk.start = end;
        }
        prepared
    }

    /// Decides what a new flight owes and finds memory for its copy. Without any it owes nothing.
    fn fill(&self, flight: &Flight, descriptor: &Descriptor, whole: &Range<u32>, prepared: &mut Prepared) {
        let touched = flight.touched();
        let bits = flight.bits(whole);
        // Which of two writes that the backing device has at a time it carries out last, nobody knows
        // (invariant 5).
        let pending = self.flights(descriptor).map(|other| self.flight(other)).filter(|one| {
            one.is_pending() && (one.copied.get() > 0 || !planted::is(Bug::UncopiedWriteForgotten))
        });
        let shared = pending.fold(0, |shared, one| shared | flight.bits(&one.touched())) & bits;
        let owed = if planted::is(Bug::ConcurrentWriteValidates) { bits } else { bits & !shared };
        if owed != 0 {
            let (from, end) = (whole.start.max(touched.start), whole.end.min(touched.end));
            let pools = self.lock_pools();
            let copy = pools.take_copies(end - from);
            let is_short = self.control().pools.used_copies() > self.geometry.copy_blocks() / 2;
            drop(pools);
            let Some(copy) = copy else {
                prepared.bypass = Some(Bypass::NoMemory);
                return;
            };
            flight.copied_from.set(from);
            flight.copied.set(end - from);
            flight.copy.set(copy);
            flight.owed.set(owed);
            flight.set_state(FlightState::Filling);
            if !is_short {
                flight.await_answer();
            }
            prepared.is_copied = true;
        }
        prepared.concurrent += shared.count_ones();
        prepared.partial += touched.end - touched.start - bits.count_ones();
    }

    /// Blocks are written anew or discarded: earlier writes do not make them valid any more.
    pub(crate) fn supersede(&self, descriptor: &Descriptor, blocks: &Range<u32>) {
        let owing = self.flights(descriptor).map(|number| self.flight(number));
        for flight in owing.filter(|flight| flight.owed.get() != 0) {
            let taken = flight.owed.get() & flight.bits(blocks);
            self.counters().blocks_superseded.count(taken.count_ones().into());
            if !planted::is(Bug::SupersededWriteValidates) {
                flight.owed.set(flight.owed.get() & !taken);
            }
        }
    }

    /// Copies a part's data for its flights, if there are some, and has them wait for somebody who writes
    /// them.
    fn copy(&self, chain: &Chain, part: &Part, data: Option<&[u8]>) {
        for number in chain.numbers(self) {
            let flight = self.flight(number);
            if flight.state() != FlightState::Filling {
                continue;
            }
            if let Some(data) = data {
                let from = flight.copied_from.get();
                let start = (u64::from(from) * BLOCK_BYTES).max(part.start);
                let end = (u64::from(from + flight.copied.get()) * BLOCK_BYTES).min(part.end);
                let at = flight.copy_of(from) + (start - u64::from(from) * BLOCK_BYTES);
                let source = &data[(start - part.start) as usize..(end - part.start) as usize];
                self.region.copy_in(self.geometry.layout.copies + at as usize, source);
            }
            if flight.is_awaited() && !planted::is(Bug::CopyBeforeAnswer) {
                flight.set_state(FlightState::Held);
            } else {
                self.queue(number, flight);
            }
        }
    }
}
