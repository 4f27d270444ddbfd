//! The whole-structure checker.

use std::collections::HashSet;

use crate::cache::Cache;
use crate::descriptor::{Recorded, SlotState};
use crate::flight::FlightState;
use crate::ids::{FlightNumber, Fragment, Slot, WorkerNumber};
use crate::planner::WorkerState;
use crate::shard::Place;
use crate::validity::runs;

impl Cache {
    /// Checks everything that must hold between operations. For tests: a pass over all tables, while nothing
    /// else uses the cache.
    ///
    /// # Panics
    /// If a rule does not hold.
    pub fn check(&self) {
        let pools = &self.control().pools;
        let (mut used, mut retired, mut unread, mut unstable) = (0, 0, 0, 0);
        let mut flights = HashSet::new();
        for slot in (0..self.geometry.slots()).map(Slot) {
            let descriptor = self.descriptor(slot);
            let set = self.validity(slot).count();
            let Some(fragment) = descriptor.fragment() else {
                let state = descriptor.state();
                assert!(matches!(state, SlotState::Free | SlotState::Retired));
                retired += u32::from(state == SlotState::Retired);
                unread += u32::from(descriptor.recorded() != Recorded::Unstable);
                assert_eq!(set, 0, "invariant 1: nothing is valid in a free slot");
                continue;
            };
            used += 1;
            unstable += u64::from(descriptor.recorded() != Recorded::Stable);
            assert_eq!(
                self.entry(fragment).place(),
                Place::At(slot),
                "invariant 1: table and descriptors agree"
            );
            let beyond = self.geometry.blocks_of(fragment)..self.geometry.fragment_blocks();
            assert!(
                descriptor.state() == SlotState::Populating || !self.validity(slot).any(beyond),
                "invariant 1: no block is valid that lies behind its volume"
            );
            assert!(descriptor.untracked.get() <= descriptor.writes.get());
            for number in self.flights(descriptor) {
                self.check_flight(number, fragment, slot);
                assert!(flights.insert(number.0), "a flight is one fragment's");
            }
        }
        assert_eq!(retired, pools.retired_slots(), "invariant 6: a retired slot is in its list");
        assert_eq!(
            used + retired + unread,
            pools.used_slots(),
            "invariant 1: slots that are used have a fragment, or a record that nobody could read"
        );
        assert!(unstable == self.unstable() || !self.has_map(), "invariant 10: what is unstable is counted");
        assert_eq!(
            flights.len(),
            pools.used_flights() as usize,
            "invariant 8: flights are a fragment's or free"
        );
        let copied = flights.iter().map(|&number| self.flight(FlightNumber(number)).copied.get());
        assert_eq!(copied.sum::<u32>(), pools.used_copies(), "invariant 8: memory is a flight's or free");
        let taken: u32 = self.copies_taken().iter().map(|word| word.get().count_ones()).sum();
        assert_eq!(taken, pools.used_copies(), "invariant 8: the bitmap has what is taken");
        for fragment in (0..self.geometry.fragments()).map(Fragment) {
            if let Place::At(slot) = self.entry(fragment).place() {
                assert_eq!(
                    self.descriptor(slot).fragment(),
                    Some(fragment),
                    "invariant 1: one slot a fragment"
                );
            }
        }
        self.check_workers();
        if let Some(sizing) = self.sizing() {
            sizing.check();
        }
    }

    fn check_flight(&self, number: FlightNumber, fragment: Fragment, slot: Slot) {
        let flight = self.flight(number);
        assert_eq!((flight.fragment(), flight.slot()), (fragment, slot));
        let has_copy = flight.copied.get() > 0;
        match flight.state() {
            FlightState::Free => panic!("invariant 8: a free flight is in no fragment's list"),
            FlightState::Written => assert!(!has_copy && flight.is_pending(), "invariant 8: it has settled"),
            FlightState::Held => {
                assert!(
                    has_copy && flight.is_awaited(),
                    "invariant 14: it waits for an answer that is to come"
                );
            }
            FlightState::Filling | FlightState::Queued | FlightState::Parked => assert!(has_copy),
            FlightState::Writing => {
                let blocks: u32 = runs(flight.writing.get()).map(|run| run.end - run.start).sum();
                assert!(blocks <= flight.copied.get(), "invariant 8: what is written is there");
            }
        }
        for blocks in flight.owed_blocks() {
            let is_valid = self.validity(slot).any(blocks);
            assert!(!is_valid || flight.is_awaited(), "invariant 2: what is owed is not valid yet");
        }
    }

    fn check_workers(&self) {
        for number in (0..self.geometry.config().population_workers).map(WorkerNumber) {
            let planner = self.lock_planner();
            let state = planner.worker(number).state.get();
            if matches!(state, WorkerState::Ended | WorkerState::Resting | WorkerState::Evicting) {
                continue;
            }
            let (fragment, slot) = self.populating(number);
            assert_eq!(
                self.descriptor(slot).fragment(),
                Some(fragment),
                "invariant 6: a slot is its worker's"
            );
            assert_eq!(self.descriptor(slot).state(), SlotState::Populating);
        }
    }
}
