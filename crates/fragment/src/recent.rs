//! The fragments that were missed last, and their heat (section 3.1 of the paper).
//!
//! A fragment's heat is the number of misses since it came into the list; it is forgotten when the
//! fragment leaves the list, by being populated or since others were missed after it. Fragments that are in
//! the cache are not in the list, so that hits do not crowd it.

use mezzanine_ground::region::{Word, shared};

use crate::cache::Cache;
use crate::config::Admission;
use crate::ids::Fragment;
use crate::planner::LockedPlanner;
use crate::planted::{self, Bug};
use crate::shard::Place;
use crate::small::{Link, Small};

/// A place of the list: zero is empty.
#[repr(C)]
pub(crate) struct Candidate {
    fragment: Link,
    /// Misses of reads and of writes; together they are its heat.
    reads: Small,
    writes: Small,
    /// The number of the fragment's last miss.
    last: Word,
    /// Not to be populated before this time, in nanoseconds of the host's clock.
    not_before: Word,
    /// How often in a row its population has ended without anything.
    failures: Small,
    /// 1 since it was passed over for writes.
    deferred: Small,
}
shared!(Candidate);

impl Candidate {
    fn heat(&self) -> u32 {
        self.reads.get().saturating_add(self.writes.get())
    }

    /// Whether it may be populated: since reads or since writes have missed it.
    fn admitted_by(&self, admission: Admission) -> Option<Because> {
        let is = |misses: &Small, least: u32| least > 0 && misses.get() >= least;
        if is(&self.reads, admission.reads) {
            Some(Because::Reads)
        } else {
            is(&self.writes, admission.writes).then_some(Because::Writes)
        }
    }

    fn clear(&self) {
        self.fragment.set(None);
        self.reads.set(0);
        self.writes.set(0);
        self.last.set(0);
        self.not_before.set(0);
        self.failures.set(0);
        self.deferred.set(0);
    }
}

/// What has made a fragment a candidate.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Because {
    Reads,
    Writes,
}

/// After a population that came to nothing a fragment is left alone for a period of the last stage, and for
/// twice as long after each further one in a row: so many times.
const DOUBLED_MAX: u32 = 8;

impl Cache {
    /// A request has missed the fragment. If somebody else is at the list the miss is not noted: a request
    /// never waits for it.
    pub(crate) fn note_miss(&self, fragment: Fragment, is_write: bool) {
        let Admission { reads, writes } = self.admission();
        if (if is_write { writes } else { reads }) == 0 {
            let counters = self.counters();
            let misses = if is_write { &counters.misses_of_writes } else { &counters.misses_of_reads };
            misses.count(1);
            return;
        }
        // What ends a volume may be less than a block.
        if self.geometry.blocks_of(fragment) == 0 || self.has_failed(self.geometry.volume_of(fragment)) {
            return;
        }
        match self.try_lock_planner() {
            Some(planner) => planner.note(fragment, is_write),
            None => self.counters().misses_unnoted.count(1),
        }
    }

    /// The candidates for population with their heat, those first that were missed last: volume, offset in
    /// bytes and heat of each.
    pub fn candidates(&self) -> Vec<(usize, u64, u32)> {
        let planner = self.lock_planner();
        let mut all: Vec<_> = planner.candidates().iter().filter(|one| one.heat() > 0).collect();
        all.sort_by_key(|one| std::cmp::Reverse(one.last.get()));
        let shown = |one: &&Candidate| {
            let fragment = Fragment(one.fragment.get()?);
            let geometry = &self.geometry;
            Some((geometry.volume_of(fragment), geometry.offset_of(fragment), one.heat()))
        };
        all.iter().filter_map(shown).collect()
    }
}

impl<'c> LockedPlanner<'c> {
    fn candidates(&self) -> &'c [Candidate] {
        let geometry = &self.cache.geometry;
        self.cache.region.slice(geometry.layout.candidates, geometry.config().recent_fragments as usize)
    }

    fn note(&self, fragment: Fragment, is_write: bool) {
        let place = self.place_of(fragment);
        let misses = if is_write { &place.writes } else { &place.reads };
        misses.set(misses.get().saturating_add(1));
        if place.admitted_by(self.cache.admission()).is_none() {
            self.cache.counters().misses_too_few.count(1);
        }
        place.last.set(self.planner.notes.bump(1) + 1);
    }

    /// The fragment's place in the list, which is the oldest one's if it has none.
    fn place_of(&self, fragment: Fragment) -> &'c Candidate {
        let candidates = self.candidates();
        let found = candidates.iter().find(|one| one.fragment.get() == Some(fragment.0));
        found.unwrap_or_else(|| {
            // Empty places have the lowest number.
            let oldest = candidates.iter().min_by_key(|one| one.last.get());
            let place = oldest.expect("there is a place for at least one");
            place.clear();
            place.fragment.set(Some(fragment.0));
            place
        })
    }

    /// The fragment's population has come to nothing: it is not tried again at once, however hot it is.
    /// `failures` is how often in a row that was so before.
    pub(crate) fn put_off(&self, fragment: Fragment, failures: u32) {
        let place = self.place_of(fragment);
        let period_ms = self.cache.geometry.config().throttle.stages[2].period_ms;
        let wait = (u64::from(period_ms) * 1_000_000) << failures.min(DOUBLED_MAX);
        place.not_before.set(self.planner.now.get().saturating_add(wait));
        place.failures.set(failures.saturating_add(1));
        place.last.set(self.planner.notes.bump(1) + 1);
    }

    /// The hottest candidate that can be populated now; of equally hot ones the one that was missed last.
    pub(crate) fn hottest(&self, now: u64) -> Option<Fragment> {
        let mut hottest: Option<(u32, u64, Fragment)> = None;
        let admission = self.cache.admission();
        for one in self.candidates() {
            // One that was put off is of interest when it was missed since.
            let Some(fragment) = one.fragment.get().map(Fragment).filter(|_| one.heat() > 0) else {
                continue;
            };
            if self.cache.has_failed(self.cache.geometry.volume_of(fragment)) {
                one.clear();
                continue;
            }
            // Without the shard's lock: whoever is about to populate it looks again.
            match self.cache.entry(fragment).place() {
                Place::At(_) => one.clear(),
                Place::Absent { writes } if writes > 0 && !planted::is(Bug::PopulationBesideWrites) => {
                    self.cache.counters().populations_deferred.count(u64::from(one.deferred.get() == 0));
                    one.deferred.set(1);
                }
                Place::Absent { .. } if one.not_before.get() > now => {}
                Place::Absent { .. } if one.admitted_by(admission).is_none() => {}
                Place::Absent { .. } => {
                    one.deferred.set(0);
                    let (heat, last) = (one.heat(), one.last.get());
                    if hottest.is_none_or(|found| (found.0, found.1) < (heat, last)) {
                        hottest = Some((heat, last, fragment));
                    }
                }
            }
        }
        hottest.map(|found| found.2)
    }

    /// The fragment is populated: its heat is forgotten. How often in a row that has come to nothing.
    pub(crate) fn take(&self, fragment: Fragment) -> u32 {
        let found = self.candidates().iter().find(|one| one.fragment.get() == Some(fragment.0));
        found.map_or(0, |one| {
            let counters = self.cache.counters();
            match one.admitted_by(self.cache.admission()) {
                Some(Because::Writes) => counters.populations_for_writes.count(1),
                // Who has changed what counts meanwhile has it be as it was.
                Some(Because::Reads) | None => counters.populations_for_reads.count(1),
            }
            let failures = one.failures.get();
            one.clear();
            failures
        })
    }
}
