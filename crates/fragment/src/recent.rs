//! The fragments that were missed last, and their heat (section 3.1 of the paper).
//!
//! A fragment's heat is the number of misses since it came into the list; it is forgotten when the
//! fragment leaves the list, by being populated or since others were missed after it. Fragments that are in
//! the cache are not in the list, so that hits do not crowd it.

use mezzanine_ground::region::{Word, shared};

use crate::cache::Cache;
use crate::ids::Fragment;
use crate::planner::LockedPlanner;
use crate::planted::{self, Bug};
use crate::shard::Place;
use crate::small::{Link, Small};

/// A place of the list: zero is empty.
#[repr(C)]
pub(crate) struct Candidate {
    fragment: Link,
    heat: Small,
    /// The number of the fragment's last miss.
    last: Word,
}
shared!(Candidate);

impl Candidate {
    fn clear(&self) {
        self.fragment.set(None);
        self.heat.set(0);
        self.last.set(0);
    }
}

impl Cache {
    /// A request has missed the fragment. If somebody else is at the list the miss is not noted: a request
    /// never waits for it.
    pub(crate) fn note_miss(&self, fragment: Fragment) {
        // What ends a volume may be less than a block.
        if self.geometry.blocks_of(fragment) == 0 {
            return;
        }
        match self.try_lock_planner() {
            Some(planner) => planner.note(fragment),
            None => self.counters().misses_unnoted.count(1),
        }
    }

    /// The candidates for population with their heat, those first that were missed last: volume, offset in
    /// bytes and heat of each.
    pub fn candidates(&self) -> Vec<(usize, u64, u32)> {
        let planner = self.lock_planner();
        let mut all: Vec<_> =
            planner.candidates().iter().filter(|one| one.fragment.get().is_some()).collect();
        all.sort_by_key(|one| std::cmp::Reverse(one.last.get()));
        let shown = |one: &&Candidate| {
            let fragment = Fragment(one.fragment.get()?);
            let geometry = &self.geometry;
            Some((geometry.volume_of(fragment), geometry.offset_of(fragment), one.heat.get()))
        };
        all.iter().filter_map(shown).collect()
    }
}

impl<'c> LockedPlanner<'c> {
    fn candidates(&self) -> &'c [Candidate] {
        let geometry = &self.cache.geometry;
        self.cache.region.slice(geometry.layout.candidates, geometry.config().recent_fragments as usize)
    }

    fn note(&self, fragment: Fragment) {
        let number = self.planner.notes.bump(1) + 1;
        let candidates = self.candidates();
        let found = candidates.iter().find(|one| one.fragment.get() == Some(fragment.0));
        let place = match found {
            Some(place) => place,
            None => {
                // Empty places have the lowest number.
                let oldest = candidates.iter().min_by_key(|one| one.last.get());
                let place = oldest.expect("there is a place for at least one");
                place.fragment.set(Some(fragment.0));
                place.heat.set(0);
                place
            }
        };
        place.heat.set(place.heat.get().saturating_add(1));
        place.last.set(number);
    }

    /// The hottest candidate that can be populated now; of equally hot ones the one that was missed last.
    pub(crate) fn hottest(&self) -> Option<Fragment> {
        let mut hottest: Option<(u32, u64, Fragment)> = None;
        for one in self.candidates() {
            let Some(fragment) = one.fragment.get().map(Fragment) else {
                continue;
            };
            // Without the shard's lock: whoever is about to populate it looks again.
            match self.cache.entry(fragment).place() {
                Place::At(_) => one.clear(),
                Place::Absent { writes } if writes > 0 && !planted::is(Bug::PopulationBesideWrites) => {
                    self.cache.counters().populations_deferred.count(1);
                }
                Place::Absent { .. } => {
                    let (heat, last) = (one.heat.get(), one.last.get());
                    if hottest.is_none_or(|found| (found.0, found.1) < (heat, last)) {
                        hottest = Some((heat, last, fragment));
                    }
                }
            }
        }
        hottest.map(|found| found.2)
    }

    /// The fragment is populated: its heat is forgotten.
    pub(crate) fn forget(&self, fragment: Fragment) {
        let found = self.candidates().iter().find(|one| one.fragment.get() == Some(fragment.0));
        if let Some(one) = found {
            one.clear();
        }
    }
}
