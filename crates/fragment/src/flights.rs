//! The flights of a fragment, which hang on its descriptor, and those of a request, which hang on each other;
//! and how a flight ends (invariants 2 and 5).

use crate::cache::Cache;
use crate::descriptor::{Descriptor, SlotState};
use crate::flight::{Flight, FlightState};
use crate::ids::FlightNumber;
use crate::planted::{self, Bug};
use crate::pools::LockedPools;
use crate::shard::{Locked, Place};

/// Flights of one request, one after the other.
#[derive(Clone, Copy, Default)]
pub(crate) struct Chain {
    pub(crate) first: Option<FlightNumber>,
    pub(crate) last: Option<FlightNumber>,
}

impl Cache {
    /// Has a flight wait for somebody who writes it: it is his, or nobody's.
    pub(crate) fn queue(&self, number: FlightNumber, flight: &Flight) {
        let pools = self.lock_pools();
        flight.set_state(FlightState::Queued);
        pools.enqueue(number);
        drop(pools);
        self.control().work.add(1);
    }

    /// One of the two devices has refused a flight's write. Nothing becomes valid; and who has read those
    /// blocks meanwhile may have what the backing device never had, even if a later write makes them valid.
    pub(crate) fn fail(&self, flight: &Flight) {
        flight.owed.set(0);
        if !planted::is(Bug::FailureUnseenByReaders) {
            self.descriptor(flight.slot()).incarnation.bump(1);
        }
    }

    /// Ends a flight if nothing more is to come of it: the backing device has answered and the copy is
    /// written. What it owes becomes valid.
    pub(crate) fn settle(&self, locked: &Locked<'_>, number: FlightNumber) {
        let flight = self.flight(number);
        if flight.state() != FlightState::Written || flight.is_pending() {
            return;
        }
        let owed = flight.owed.get();
        let descriptor = self.descriptor(flight.slot());
        if owed != 0 {
            assert_eq!(
                locked.place(),
                Place::At(flight.slot()),
                "invariant 6: no slot changes under a flight"
            );
            assert_eq!(descriptor.state(), SlotState::Cached);
            let validity = self.validity(flight.slot());
            for blocks in flight.owed_blocks() {
                assert!(
                    !validity.any(blocks.clone())
                        || planted::is(Bug::ValidWhileWritten)
                        || planted::is(Bug::KeptPastAnswer),
                    "invariant 2: blocks of a write are not valid before it is over"
                );
                validity.set(blocks);
            }
            self.counters().blocks_validated.count(owed.count_ones().into());
        }
        self.unlink(descriptor, number);
        let pools = self.lock_pools();
        self.release_copy(&pools, flight);
        flight.set_state(FlightState::Free);
        pools.give_flight(number);
    }

    /// The flights of a chain, which nobody knows of yet, are free again.
    pub(crate) fn give_back(&self, chain: Chain) {
        let pools = self.lock_pools();
        for number in chain.numbers(self) {
            self.release_copy(&pools, self.flight(number));
            self.flight(number).set_state(FlightState::Free);
            pools.give_flight(number);
        }
    }

    /// The memory of a flight's copy goes to others.
    pub(crate) fn release_copy(&self, pools: &LockedPools<'_>, flight: &Flight) {
        if flight.copied.get() > 0 {
            pools.give_copies(flight.copy.get(), flight.copied.get());
            flight.copied.set(0);
        }
    }

    /// The flights of a fragment, under the lock of its shard.
    pub(crate) fn flights(&self, descriptor: &Descriptor) -> impl Iterator<Item = FlightNumber> {
        let first = descriptor.flights.get().map(FlightNumber);
        std::iter::successors(first, |&number| self.flight(number).next.get().map(FlightNumber))
    }

    pub(crate) fn link(&self, descriptor: &Descriptor, chain: Chain) {
        for number in chain.numbers(self) {
            self.flight(number).next.set(descriptor.flights.get());
            descriptor.flights.set(Some(number.0));
        }
    }

    fn unlink(&self, descriptor: &Descriptor, number: FlightNumber) {
        let next = self.flight(number).next.get();
        if descriptor.flights.get() == Some(number.0) {
            descriptor.flights.set(next);
            return;
        }
        let before = self.flights(descriptor).find(|&one| self.flight(one).next.get() == Some(number.0));
        self.flight(before.expect("a flight is in its fragment's list")).next.set(next);
    }
}

impl Chain {
    pub(crate) fn push(&mut self, cache: &Cache, number: FlightNumber) {
        self.append(cache, Self { first: Some(number), last: Some(number) });
    }

    pub(crate) fn append(&mut self, cache: &Cache, other: Self) {
        let Some(first) = other.first else {
            return;
        };
        match self.last {
            Some(last) => cache.flight(last).next_of_request.set(Some(first.0)),
            None => self.first = Some(first),
        }
        self.last = other.last;
    }

    /// What comes after each is read before the caller has it, who may give it back.
    pub(crate) fn numbers<'c>(&self, cache: &'c Cache) -> impl Iterator<Item = FlightNumber> + use<'c> {
        let mut next = self.first;
        std::iter::from_fn(move || {
            let number = next?;
            next = cache.flight(number).next_of_request.get().map(FlightNumber);
            Some(number)
        })
    }
}
