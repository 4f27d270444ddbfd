//! Homes after a recovery, and their checker.

use std::sync::atomic::Ordering::Relaxed;

use super::{HomeState, InPlace, order};
use crate::directory::{DIRTY, VALID};
use crate::format::{Record, RecordKind};
use crate::ids::{EntryNumber, Position};
use crate::placement::Recorded;

impl InPlace<'_> {
    /// Takes up where the page of a record lies that is about to be linked at `entry`. At recovery.
    pub(super) fn replay_home(&self, record: &Record, entry: EntryNumber) {
        let RecordKind::Page { lsn, home, .. } = record.kind else { return };
        let homes = self.homes();
        homes.of_entries[entry.0 as usize].set(home);
        if home.0 < homes.geometry.homes {
            self.name_home(entry, home, Recorded { epoch: record.epoch, version: record.version, lsn });
        }
    }

    /// All records have been replayed: every home that has no page is free, and the policy learns of the
    /// others in the order of the queue.
    ///
    /// # Errors
    /// An entry whose record names a home that there is not, or that another page has.
    pub(crate) fn settle_homes(&self) -> Result<(), EntryNumber> {
        let homes = self.homes();
        let control = self.control();
        let directory = self.directory();
        let _guard = homes.lock(self.owner);
        for home in homes.all() {
            homes.set_logical(home, order::LogicalFrame(home.0));
        }
        for entry in Position::each(control.ends.front()..control.ends.rear()).map(|at| self.entry_of(at)) {
            let state = directory.state(entry);
            if state & VALID == 0 {
                continue;
            }
            let home = homes.of_entry(entry);
            if home.0 >= homes.geometry.homes || homes.state(home) == HomeState::Used {
                return Err(entry);
            }
            homes.home(home).entry.store(entry.0, Relaxed);
            homes.set_state(home, HomeState::Used);
            homes.came(home, homes.key(&directory.id(entry)), state & DIRTY != 0);
        }
        // The first ones are given out first.
        for home in homes.all().rev().filter(|&home| homes.state(home) == HomeState::Free) {
            homes.push_free(home);
        }
        Ok(())
    }

    /// Checks the rules at the head of `in_place`. For tests, while nothing else uses the tier.
    ///
    /// # Panics
    /// If one does not hold.
    pub(crate) fn check_homes(&self) {
        let homes = self.homes();
        let directory = self.directory();
        let count = homes.geometry.homes;
        let _guard = homes.lock(self.owner);
        let placed = homes.control;
        let ordered = homes.order().visit(order::Check(count));
        let mut dirty = 0;
        if let Some(order) = homes.dirty_order() {
            dirty = order.visit(order::Check(count)).iter().filter(|ordered| **ordered).count() as u64;
        }
        assert_eq!(placed.dirty.get(), dirty, "the number of pages in the order of the dirty ones");
        let mut counts = [0u64; 7];
        for home in homes.all() {
            let there = homes.home(home);
            let state = homes.state(home);
            counts[state as usize] += 1;
            let logical = there.logical();
            if let Some(slots) = homes.slots {
                slots.check(home, state, there.version());
            }
            assert_eq!(homes.home_of_logical(logical), home, "each home is one logical frame");
            assert_eq!(
                ordered[logical.0 as usize],
                state == HomeState::Used,
                "the order has the homes in use: {home:?}"
            );
            if matches!(state, HomeState::Used | HomeState::Leaving | HomeState::Kept) {
                let entry = there.entry();
                assert_eq!(homes.of_entry(entry), home, "a home and its entry name each other");
                assert_ne!(directory.state(entry) & VALID, 0, "the page of a home is linked");
            }
        }
        let linked =
            EntryNumber::all(self.geometry.entries()).filter(|&entry| directory.state(entry) & VALID != 0);
        for entry in linked {
            let home = homes.of_entry(entry);
            assert!(
                matches!(homes.state(home), HomeState::Used | HomeState::Leaving | HomeState::Kept),
                "a linked page has a home"
            );
            assert_eq!(homes.home(home).entry(), entry, "a home and its entry name each other");
        }
        assert_eq!(counts[HomeState::Free as usize], placed.free.get(), "homes that are free");
        assert_eq!(counts[HomeState::Leaving as usize], placed.leaving.get(), "homes whose pages leave");
        assert_eq!(
            counts[HomeState::Deferred as usize],
            homes.deferred_frees(),
            "homes whose pages are gone, not free yet"
        );
        assert_eq!(counts[HomeState::Bad as usize], placed.bad.get(), "homes that are left out");
        for index in 0..placed.free.get() {
            let home = homes.free[index as usize].get();
            assert_eq!(homes.state(home), HomeState::Free, "the list of free homes");
        }
        for index in placed.deferred_first.get()..placed.deferred_end.get() {
            let home = homes.deferred[(index % homes.deferred.len() as u64) as usize].home.get();
            assert_eq!(homes.state(home), HomeState::Deferred, "the list of homes that become free");
        }
    }
}
