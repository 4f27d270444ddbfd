//! Per-thread counters: counts of what happens most often, which must cost nothing to speak of.
//!
//! A locked instruction would make each event wait for the memory of the one before. So every thread
//! counts in a cache line of its own, which it claims on first use, by plain loads and stores. Threads
//! that find their line claimed by others share one line and add atomically. No count is lost either
//! way: a claim names the process and the thread, and a thread's number goes to a new thread only
//! after the thread has ended.

use std::cell::Cell;
use std::sync::{Mutex, PoisonError};

use crate::region::{Arrayed, PART_OF_COUNTERS, Region, Word, shared};

/// Lines for counts that threads may claim; one more is shared.
pub const STRIPES: usize = 64;

/// Most kinds of events, which an engine numbers as it likes.
pub const EVENTS: usize = 7;

/// One line of counts. A region that is counted in has [`STRIPES`] of them and one more ([`Region::place`]).
#[repr(C, align(64))]
pub struct Stripe {
    /// Who counts here: owner and thread; 0 is nobody.
    claim: Word,
    counts: [Word; EVENTS],
}
const _: () = assert!(size_of::<Stripe>() == 64);
shared!(Stripe);

// SAFETY: the number is kept for this type.
unsafe impl Arrayed for Stripe {
    const PART: usize = PART_OF_COUNTERS;
}

/// Counts what a thread of a process has done: event number `event`. `owner`, which is not 0, names the
/// process.
///
/// # Panics
/// If `event` is not below [`EVENTS`], or the region has no lines.
#[inline(always)]
pub fn count(region: &Region, owner: u32, event: usize) {
    let claimed = CLAIMED.get();
    if claimed.owner == owner {
        if let Some(own) = region.at::<Stripe>(claimed.line as usize) {
            if own.claim.get() == claimed.claim() {
                let count = &own.counts[event];
                count.set(count.get() + 1);
                return;
            }
        }
    }
    count_elsewhere(region, owner, event);
}

/// Claims the thread's line, if nobody has it, or counts in the line of all.
#[cold]
#[inline(never)]
fn count_elsewhere(region: &Region, owner: u32, event: usize) {
    let line = |index| region.at::<Stripe>(index).expect("a region that is counted in has these lines");
    match claim_line(region, owner, thread_number()) {
        Some(claimed) => {
            CLAIMED.set(claimed);
            let count = &line(claimed.line as usize).counts[event];
            count.set(count.get() + 1);
        }
        None => line(STRIPES).counts[event].count(1),
    }
}

/// The line of a thread with this number, if it has one: claimed before, or now.
fn claim_line(region: &Region, owner: u32, thread: u32) -> Option<Claimed> {
    let claimed =
        Claimed { owner, thread, line: owner.wrapping_mul(7).wrapping_add(thread) % STRIPES as u32 };
    let own = region.at::<Stripe>(claimed.line as usize)?;
    let is_mine = || own.claim.get() == claimed.claim();
    let has = thread != SHARED && (is_mine() || (own.claim.get() == 0 && own.claim.claim(claimed.claim())));
    has.then_some(claimed)
}

/// The number, below [`STRIPES`], of the line that this thread alone counts in, for what else threads keep
/// apart in a region: nobody else has that number as long as the thread lives, nor its successor before.
/// `None` if others have claimed it; then the thread has no place of its own.
#[inline(always)]
pub fn own_line(region: &Region, owner: u32) -> Option<usize> {
    let claimed = CLAIMED.get();
    if claimed.owner == owner {
        if let Some(own) = region.at::<Stripe>(claimed.line as usize) {
            if own.claim.get() == claimed.claim() {
                return Some(claimed.line as usize);
            }
        }
    }
    claim_own_line(region, owner)
}

#[cold]
#[inline(never)]
fn claim_own_line(region: &Region, owner: u32) -> Option<usize> {
    // In an explored order the threads are coroutines of one: each has a line, and none is noted for the next
    // time.
    if let Some(thread) = explored_thread() {
        return Some(claim_line(region, owner, thread)?.line as usize);
    }
    let claimed = claim_line(region, owner, thread_number())?;
    CLAIMED.set(claimed);
    Some(claimed.line as usize)
}

#[cfg(feature = "interleave")]
use crate::interleave::explored_thread;

/// The number of the thread in the order that is explored: nowhere in shipped builds.
#[cfg(not(feature = "interleave"))]
fn explored_thread() -> Option<u32> {
    None
}

/// The line that a thread counted in last, for the next time.
#[derive(Clone, Copy)]
struct Claimed {
    /// 0, which no owner is, as long as there is none.
    owner: u32,
    thread: u32,
    line: u32,
}

impl Claimed {
    const NONE: Self = Self { owner: 0, thread: SHARED, line: 0 };

    #[inline(always)]
    fn claim(self) -> u64 {
        u64::from(self.owner) << 32 | u64::from(self.thread)
    }
}

/// Gives the lines of an owner that has died to others; what was counted in them stays.
pub fn abandon(region: &Region, dead: u32) {
    for stripe in (0..STRIPES).map_while(|index| region.at::<Stripe>(index)) {
        if stripe.claim.get() >> 32 == dead.into() {
            stripe.claim.set(0);
        }
    }
}

/// How often each event was counted, in their order.
pub fn sums(region: &Region) -> [u64; EVENTS] {
    let stripes = || (0..).map_while(|index| region.at::<Stripe>(index));
    std::array::from_fn(|event| stripes().map(|stripe| stripe.counts[event].get()).sum())
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
    // Apart, because what needs no destructor is found without asking whether it has run.
    static CLAIMED: Cell<Claimed> = const { Cell::new(Claimed::NONE) };
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
        CLAIMED.set(Claimed::NONE);
        NUMBERS.lock().unwrap_or_else(PoisonError::into_inner).returned.push(self.0);
    }
}
