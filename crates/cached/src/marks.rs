//! How writes wait for marks, and how a map is given up that the cache device does not take.
//!
//! ```text
//!              a mark is refused, or takes too long     the voucher is revoked
//!   Vouched ───────────────────────────────────► Failing ─────────────────► Void
//!      │                                            │ refused: tried again      ▲
//!      │                                            └──┘ (who waits goes on     │
//!      └──────────── nobody vouches from the beginning      waiting) ───────────┘
//! ```
//!
//! A void map counts after an orderly end at most, so nothing waits for it. A write that still waits when the
//! cache ends fails ([`Marks::end_waits`]): it was not sent, so its mark is not needed.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::SeqCst};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError, TryLockError};
use std::time::{Duration, Instant};

use crate::host::Shared;
use crate::latency::Served;
use crate::patience::{Patience, STEP_MAX};
use crate::voucher::Voucher;

/// How often who waits looks by itself: whoever makes marks durable says so.
const LOOK_AGAIN: Duration = Duration::from_millis(50);
const _: () = assert!(LOOK_AGAIN.as_nanos() < STEP_MAX.as_nanos());
/// How long after a voucher could not be revoked that is tried again.
const TRY_AGAIN: Duration = Duration::from_secs(1);

/// Whether the map of a cache counts after a crash.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Survival {
    /// What was settled is in the cache again after a crash.
    Crash,
    /// The cache goes on after an orderly end alone, since nobody vouches for its map.
    OrderlyEnd,
    /// The cache begins empty, for this reason.
    Nothing(String),
}

#[derive(Default)]
pub(crate) struct Marks {
    voucher: Option<Box<dyn Voucher>>,
    /// Nothing vouches for the map.
    is_void: AtomicBool,
    waiting: AtomicU64,
    /// Nobody waits any more: what has no mark is not sent.
    waits_ended: AtomicBool,
    /// For those that wait.
    changed: Condvar,
    quiet: Mutex<()>,
    /// Who revokes the voucher: the others do not wait for the device that it lies on.
    revoking: Mutex<()>,
    giving_up: Mutex<GivingUp>,
}

#[derive(Default)]
struct GivingUp {
    /// Why the map is given up.
    why: Option<String>,
    /// When revoking the voucher may be tried again, and why it could not be revoked.
    refused: Option<(Instant, String)>,
}

impl Marks {
    pub(crate) fn new(voucher: Option<Box<dyn Voucher>>) -> Self {
        Self { is_void: AtomicBool::new(voucher.is_none()), voucher, ..Self::default() }
    }

    /// Whether a crash costs everything anyway, so that nothing waits.
    pub(crate) fn are_void(&self) -> bool {
        self.is_void.load(SeqCst)
    }

    /// Writes that wait now.
    pub(crate) fn waiting(&self) -> u64 {
        self.waiting.load(SeqCst)
    }

    /// A mark may have become durable.
    pub(crate) fn look(&self) {
        if self.waiting() > 0 {
            self.tell_all();
        }
    }

    fn tell_all(&self) {
        drop(self.quiet());
        self.changed.notify_all();
    }

    /// Has those that wait fail, and those that would.
    pub(crate) fn end_waits(&self) {
        self.waits_ended.store(true, SeqCst);
        self.tell_all();
    }

    fn quiet(&self) -> MutexGuard<'_, ()> {
        self.quiet.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn giving_up(&self) -> MutexGuard<'_, GivingUp> {
        self.giving_up.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Revokes the voucher, unless somebody is at it or has failed just now. True if nothing vouches any
    /// more.
    fn revoke(&self) -> bool {
        let _revoking = match self.revoking.try_lock() {
            Ok(revoking) => revoking,
            Err(TryLockError::Poisoned(poisoned)) => poisoned.into_inner(),
            Err(TryLockError::WouldBlock) => return false,
        };
        if self.are_void() {
            return true;
        }
        let is_early = matches!(&self.giving_up().refused, Some((at, _)) if *at > Instant::now());
        let Some(voucher) = self.voucher.as_ref().filter(|_| !is_early) else { return false };
        match voucher.revoke() {
            Ok(()) => self.is_void.store(true, SeqCst),
            Err(error) => self.giving_up().refused = Some((Instant::now() + TRY_AGAIN, error.to_string())),
        }
        self.are_void()
    }

    /// What of the cache is there again after its end.
    pub(crate) fn survival(&self) -> Survival {
        let giving_up = self.giving_up();
        match (&giving_up.why, &giving_up.refused, self.are_void()) {
            (Some(why), _, true) => Survival::Nothing(why.clone()),
            (Some(why), Some((_, refused)), false) => {
                Survival::Nothing(format!("{why}; its voucher cannot be revoked: {refused}"))
            }
            (_, _, true) => Survival::OrderlyEnd,
            (_, _, false) => Survival::Crash,
        }
    }
}

/// What waiting for a mark has come to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Waited {
    /// The write may be sent, and had not to wait.
    No,
    /// It may be sent now.
    Yes,
    /// The cache ends, and the mark is not durable: it must not be sent.
    InVain,
}

impl Shared {
    /// Whether a write with this mark may be sent (the engine's invariant 10).
    pub(crate) fn may_be_sent(&self, mark: u64) -> bool {
        mark <= self.cache.marks_durable() || self.marks.are_void()
    }

    /// Returns when a write with this mark may be sent, or when nobody waits any more.
    pub(crate) fn wait_for_mark(&self, mark: u64) -> Waited {
        if self.may_be_sent(mark) {
            return Waited::No;
        }
        let (marks, since) = (&self.marks, Instant::now());
        marks.waiting.fetch_add(1, SeqCst);
        let mut patience = Patience::new(self.mark_within);
        let waited = loop {
            if self.may_be_sent(mark) {
                break Waited::Yes;
            }
            if marks.waits_ended.load(SeqCst) {
                break Waited::InVain;
            }
            // A process that was stopped has not looked, and the cache device may have answered meanwhile.
            if patience.is_over() {
                let reason =
                    format!("the cache device has not made a mark durable in {:?}", self.mark_within);
                self.give_up(&reason);
            } else if self.health.is_lost() {
                self.give_up("the cache device is lost");
            } else {
                let quiet = marks.quiet();
                // What became durable before is seen, and what does later is told.
                if !self.may_be_sent(mark) && !marks.waits_ended.load(SeqCst) {
                    drop(marks.changed.wait_timeout(quiet, LOOK_AGAIN));
                }
            }
        };
        marks.waiting.fetch_sub(1, SeqCst);
        self.latencies.record(Served::Mark, since);
        waited
    }

    /// Gives the map up: nothing of the cache is used any more, and as soon as that is certain after a crash
    /// as well, nothing waits for it. Returns after a moment if it is not certain yet.
    pub(crate) fn give_up(&self, why: &str) {
        self.health.lose();
        let marks = &self.marks;
        marks.giving_up().why.get_or_insert_with(|| why.to_owned());
        if !marks.are_void() && !marks.revoke() {
            std::thread::sleep(LOOK_AGAIN);
            return;
        }
        self.cache.go_offline();
        marks.tell_all();
    }
}
