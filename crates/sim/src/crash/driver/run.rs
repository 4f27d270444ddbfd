//! A run: worlds with one seed after the other, on all threads, watched, and what is found made shorter.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

use super::life::{Outcome, Seeded};
use super::shrink::shrink;
use super::terms::Terms;
use super::threads::on_threads;
use super::watch::{ENDLESS_AFTER, Endless, Watch};

/// Power cuts in the life of one world. Long enough that a tiny queue wraps many times, short enough that
/// many configurations get their turn.
pub const CUTS_PER_WORLD: u64 = 64;

/// Called with the number of cuts done so far, from any of the threads, in no particular order.
pub type Progress<'a> = &'a (dyn Fn(u64) + Sync);

/// A row of worlds.
pub(crate) struct Run<'a> {
    /// The seed of the first world; the following worlds have the following seeds.
    pub(crate) seed: u64,
    /// How many power cuts to simulate, at least.
    pub(crate) cuts: u64,
    pub(crate) terms: &'a Terms,
    pub(crate) threads: usize,
    pub(crate) progress: Option<Progress<'a>>,
    pub(crate) endless: Option<Endless<'a>>,
}

impl Run<'_> {
    /// Runs as many worlds as the cuts need, each of the kind of its seed. `take` is given what came of each,
    /// in no particular order, and says whether to go on.
    pub(crate) fn worlds<K: Seeded>(
        &self,
        kind: impl Fn(u64) -> K + Sync,
        take: impl FnMut(K, Outcome) -> bool + Send,
    ) {
        let worlds = if self.terms.only.is_some() { 1 } else { self.cuts.div_ceil(CUTS_PER_WORLD) };
        let (next, done, enough) = (AtomicU64::new(0), AtomicU64::new(0), AtomicBool::new(false));
        let take = Mutex::new(take);
        let watch = Watch::new(ENDLESS_AFTER, self.threads);
        let work = || {
            while !enough.load(Ordering::Relaxed) {
                let number = next.fetch_add(1, Ordering::Relaxed);
                if number >= worlds {
                    break;
                }
                let cuts = CUTS_PER_WORLD.min(self.cuts - number * CUTS_PER_WORLD);
                let seed = self.seed.wrapping_add(number);
                let outcome = watch.over(seed, || kind(seed).run(seed, cuts, self.terms));
                let outcome = self.shortened(kind(seed), outcome);
                let sum = done.fetch_add(outcome.cuts, Ordering::Relaxed) + outcome.cuts;
                let go_on = take.lock().unwrap_or_else(PoisonError::into_inner)(kind(seed), outcome);
                enough.fetch_or(!go_on, Ordering::Relaxed);
                if let Some(progress) = self.progress {
                    progress(sum);
                }
            }
        };
        std::thread::scope(|scope| {
            if let Some(endless) = self.endless {
                let (watch, kind) = (&watch, &kind);
                scope.spawn(move || {
                    watch.watch(|seed| endless(&self.terms.replay(kind(seed), seed, CUTS_PER_WORLD)));
                });
            }
            let _until_over = watch.until_over();
            on_threads(self.threads, work);
        });
    }

    /// With what was found made shorter, where nothing was left out yet.
    fn shortened(&self, kind: impl Seeded, mut outcome: Outcome) -> Outcome {
        if self.terms.only.is_none() {
            let lived = std::mem::take(&mut outcome.lived);
            outcome.violation = outcome.violation.map(|found| shrink(kind, self.terms, found, lived));
        }
        outcome
    }
}
