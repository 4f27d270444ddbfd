//! The end of a write or discard: what the backing device has said (section 3.3 of the paper).

use crate::cache::Cache;
use crate::flight::FlightState;
use crate::ids::{FlightNumber, Fragment};
use crate::jobs::DeviceError;
use crate::planted::{self, Bug};
use crate::shard::{Locked, Place};
use crate::write::WriteToken;

impl Cache {
    /// Ends a write or a discard with what the backing device said: nothing of it may reach that any more.
    ///
    /// # Panics
    /// If the write is another cache's.
    pub fn write_end(&self, token: WriteToken, result: Result<(), DeviceError>) {
        let WriteToken { cache, volume, offset, bytes, mut flights, is_past, .. } = token;
        self.assert_own(cache, "a write");
        self.ended();
        if result.is_err() {
            self.counters().backing_failed.count(1);
        }
        for part in self.geometry.parts(volume, offset, if is_past { 0 } else { bytes }) {
            let locked = self.lock(part.fragment);
            let slot = match locked.place() {
                Place::Absent { writes } => {
                    locked.count_absent(writes, -1);
                    continue;
                }
                Place::At(slot) => slot,
            };
            let descriptor = self.descriptor(slot);
            descriptor.writes.lower(1);
            let mut is_tracked = false;
            while let Some(number) = flights.filter(|&number| self.is_flight_of(number, part.fragment)) {
                is_tracked = true;
                flights = self.flight(number).next_of_request.get().map(FlightNumber);
                self.answered(&locked, number, result);
            }
            if !is_tracked {
                descriptor.untracked.lower(1);
            }
            self.stamp(descriptor);
            locked.leave_if_empty();
        }
    }

    fn is_flight_of(&self, number: FlightNumber, fragment: Fragment) -> bool {
        self.flight(number).fragment() == fragment
    }

    /// The backing device has answered the write that a flight is of.
    fn answered(&self, locked: &Locked<'_>, number: FlightNumber, result: Result<(), DeviceError>) {
        let flight = self.flight(number);
        flight.answered();
        let keeps = match result {
            Ok(()) => planted::is(Bug::KeptPastAnswer),
            Err(DeviceError) => planted::is(Bug::KeptPastFailure),
        };
        if !keeps {
            // What was kept: the slot has what they were before.
            flight.owed_blocks().for_each(|blocks| self.validity(flight.slot()).clear(blocks));
        }
        if result.is_err() && !planted::is(Bug::FailedWriteValidates) {
            self.fail(flight);
        }
        if flight.state() == FlightState::Held {
            if flight.owed.get() == 0 {
                flight.set_state(FlightState::Written);
                self.release_copy(&self.lock_pools(), flight);
            } else {
                self.queue(number, flight);
            }
        }
        if planted::is(Bug::CopyReleasedEarly) {
            self.release_copy(&self.lock_pools(), flight);
        }
        self.settle(locked, number);
    }
}
