//! Counts of lookups, which must cost them nothing to speak of.
//!
//! A locked instruction would make each lookup wait for the memory of the one before. So every thread
//! counts in a cache line of its own, which it claims on first use, by plain loads and stores. Threads
//! that find their line claimed by others share one line and add atomically. No count is lost either
//! way: a claim names the process and the thread, and a thread's number goes to a new thread only
//! after the thread has ended.

use std::sync::{Mutex, PoisonError};

use crate::config::Geometry;
use crate::region::{Region, Word, shared};

/// Lines for counts that threads may claim; one more is shared.
pub(crate) const STRIPES: usize = 64;

/// What a lookup found.
#[derive(Clone, Copy)]
pub(crate) enum Found {
    InMemory,
    OnFlash,
    Nothing,
}

/// One line of counts.
#[repr(C, align(64))]
pub(crate) struct Stripe {
    /// Who counts here: owner and thread; 0 is nobody.
    claim: Word,
    counts: [Word; 3],
}
const _: () = assert!(size_of::<Stripe>() == 64);

shared!(Stripe);

/// The counts of a tier as seen by one process.
#[derive(Clone, Copy)]
pub(crate) struct Tally<'r> {
    stripes: &'r [Stripe],
    owner: u32,
}

impl<'r> Tally<'r> {
    #[inline]
    pub(crate) fn new(region: &'r Region, geometry: &Geometry, owner: u32) -> Self {
        Self { stripes: region.slice(geometry.layout.tally, STRIPES + 1), owner }
    }

    #[inline]
    pub(crate) fn count(&self, found: Found) {
        let me = thread_number();
        let claim = u64::from(self.owner) << 32 | u64::from(me);
        let own = &self.stripes[(self.owner.wrapping_mul(7).wrapping_add(me)) as usize % STRIPES];
        let index = found as usize;
        if own.claim.get() == claim || (me != SHARED && own.claim.claim(claim)) {
            own.counts[index].set(own.counts[index].get() + 1);
        } else {
            self.count_shared(index);
        }
    }

    #[cold]
    fn count_shared(&self, index: usize) {
        self.stripes[STRIPES].counts[index].count(1);
    }

    /// Gives the lines of an owner that has died to others; what was counted in them stays.
    pub(crate) fn abandon(&self, dead: u32) {
        for stripe in &self.stripes[..STRIPES] {
            if stripe.claim.get() >> 32 == dead.into() {
                stripe.claim.set(0);
            }
        }
    }

    /// Lookups answered from memory, answered from flash, and not answered.
    pub(crate) fn sums(&self) -> (u64, u64, u64) {
        let sum = |index: usize| self.stripes.iter().map(|stripe| stripe.counts[index].get()).sum();
        (sum(Found::InMemory as usize), sum(Found::OnFlash as usize), sum(Found::Nothing as usize))
    }
}

/// Stands for a thread without a number.
const SHARED: u32 = 0;

/// The numbers of this process's threads: dense, so that few threads find their lines taken.
struct Numbers {
    last: u32,
    returned: Vec<u32>,
}

static NUMBERS: Mutex<Numbers> = Mutex::new(Numbers { last: SHARED, returned: Vec::new() });

/// A thread's number, given back when the thread ends.
struct ThreadNumber(u32);

thread_local! {
    static ME: ThreadNumber = ThreadNumber::take();
}

/// The number of this thread, if it has one of its own: not while it is torn down, nor as one of the
/// coroutines that tests of orders call threads.
#[inline]
fn thread_number() -> u32 {
    if cfg!(feature = "interleave") { SHARED } else { ME.try_with(|me| me.0).unwrap_or(SHARED) }
}

impl ThreadNumber {
    fn take() -> Self {
        let mut numbers = NUMBERS.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(number) = numbers.returned.pop() {
            return Self(number);
        }
        numbers.last += 1;
        Self(numbers.last)
    }
}

impl Drop for ThreadNumber {
    fn drop(&mut self) {
        NUMBERS.lock().unwrap_or_else(PoisonError::into_inner).returned.push(self.0);
    }
}
