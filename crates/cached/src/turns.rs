//! Writes of one block, one after the other.
//!
//! Of two writes of a block that are under way at a time nobody knows which came last, so the engine leaves a
//! hole there until the next one, and one that begins before the copy of an earlier one is written has the
//! block come from the backing device until its own is (decision 41). So a write waits until earlier ones of
//! its blocks are answered, and then for their copies, but not long: a cache device that stands still holds
//! nobody up.
//!
//! 1. Whoever waits has begun nothing, so nobody waits for one who waits.
//! 2. That nothing is ahead, and that the write has begun, is one step under the lock of a lane: of several
//!    that waited for one answer, one begins and the others wait on. Requests that overlap and begin in
//!    different fragments have different lanes and may pass one another, as batches and discards do, which
//!    wait for nothing: the engine is right in any case.

use std::sync::atomic::{AtomicUsize, Ordering::SeqCst, fence};
use std::sync::{Condvar, Mutex, PoisonError};
use std::time::{Duration, Instant};

use mezzanine_fragment::{BLOCK_BYTES, WriteMode};

use crate::host::Shared;

/// More than threads that write at a time, mostly.
const LANES: usize = 64;
/// How long copies of answered writes are waited for: a copy takes a flash device less, if nothing is wrong
/// there.
const COPY_PATIENCE: Duration = Duration::from_micros(100);
/// Who waits for an answer looks at least so often, whoever forgets to wake it.
const LOOK_EVERY: Duration = Duration::from_millis(5);
/// Nobody waits longer, in all: a write whose thread has ended without an answer is never answered.
const PATIENCE: Duration = Duration::from_secs(30);

#[derive(Default)]
struct Lane {
    begins: Mutex<()>,
    answered: Condvar,
    waiting: AtomicUsize,
}

pub(crate) struct Turns {
    lanes: [Lane; LANES],
    /// In all lanes.
    waiting: AtomicUsize,
}

impl Default for Turns {
    fn default() -> Self {
        Self { lanes: std::array::from_fn(|_| Lane::default()), waiting: AtomicUsize::new(0) }
    }
}

impl Turns {
    /// A write or discard was answered, or a copy written, and the engine knows.
    pub(crate) fn answered(&self) {
        fence(SeqCst);
        if self.waiting.load(SeqCst) == 0 {
            return;
        }
        for lane in self.lanes.iter().filter(|lane| lane.waiting.load(SeqCst) > 0) {
            // Who has looked and does not sleep yet has the lock.
            drop(lane.begins.lock().unwrap_or_else(PoisonError::into_inner));
            lane.answered.notify_all();
        }
    }
}

impl Shared {
    /// Begins a write when it is its turn: at once, where it makes no block valid.
    pub(crate) fn in_turn<T>(
        &self,
        volume: usize,
        (offset, bytes): (u64, u64),
        begin: impl FnOnce() -> T,
    ) -> T {
        let whole = offset % BLOCK_BYTES == 0 && bytes % BLOCK_BYTES == 0;
        if !whole || self.cache.write_mode() == WriteMode::Around {
            return begin();
        }
        let fragment = offset / self.cache.geometry().config().fragment_bytes;
        let lane = &self.turns.lanes[(fragment as usize).wrapping_add(volume.wrapping_mul(31)) % LANES];
        let mut begins = lane.begins.lock().unwrap_or_else(PoisonError::into_inner);
        // What does not lie in the volume is refused when it begins. The copies of a device that is not used
        // again are never written.
        let ahead = |of_unanswered| {
            let found = match of_unanswered {
                true => self.cache.overlaps_unanswered_write(volume, offset, bytes),
                false => self.cache.overlaps_write(volume, offset, bytes),
            };
            found.unwrap_or(false) && !self.health.is_lost()
        };
        if !ahead(false) {
            return begin();
        }
        lane.waiting.fetch_add(1, SeqCst);
        self.turns.waiting.fetch_add(1, SeqCst);
        let (mut copies_until, given_up_at) = (None, Instant::now() + PATIENCE);
        while Instant::now() < given_up_at {
            fence(SeqCst);
            let left = if ahead(true) {
                copies_until = None;
                LOOK_EVERY
            } else if ahead(false) {
                let until = *copies_until.get_or_insert_with(|| Instant::now() + COPY_PATIENCE);
                until.saturating_duration_since(Instant::now())
            } else {
                Duration::ZERO
            };
            if left.is_zero() {
                break;
            }
            begins = lane.answered.wait_timeout(begins, left).unwrap_or_else(PoisonError::into_inner).0;
        }
        lane.waiting.fetch_sub(1, SeqCst);
        self.turns.waiting.fetch_sub(1, SeqCst);
        let begun = begin();
        drop(begins);
        begun
    }
}
