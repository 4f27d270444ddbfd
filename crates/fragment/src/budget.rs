//! The budget of bytes written to the cache device.
//!
//! A quarter of the budget of a day may be written at once, and three quarters come in over the day: so in
//! any 24 hours it is no more than the budget (invariant 15), an empty cache fills fast, and no hour of the
//! day goes without. What is refused goes past the cache. Blocks of the map are written all the same, since
//! writes wait for them: they are charged, and what comes after has to do without. A population is charged
//! when it begins; one whose read takes long writes later, and one that began without a budget uncharged.
//!
//! All of it changes under the lock of the pools.

use mezzanine_ground::region::{Word, shared};

use crate::cache::Cache;
use crate::config::{Config, ConfigError};
use crate::ids::Fragment;
use crate::planted::{self, Bug};
use crate::pools::LockedPools;

/// Of the budget, what may be written at once: a quarter.
const AT_ONCE: u64 = 4;
const DAY_NS: u64 = 24 * 3600 * 1_000_000_000;

/// Zero is: there is none.
#[repr(C)]
pub(crate) struct Budget {
    /// Bytes; 0: no limit. Read without the lock.
    per_day: Word,
    /// Bytes that may be written now, an `i64`: below 0 after blocks of the map that had to be.
    left: Word,
    /// Until when, in nanoseconds of the host's clock, what has come in was reckoned; 0: it was not yet.
    since: Word,
}
shared!(Budget);

impl Budget {
    fn at_once(&self) -> i64 {
        (self.per_day.get() / AT_ONCE) as i64
    }

    fn left(&self) -> i64 {
        self.left.get() as i64
    }

    fn change(&self, by: i64) {
        self.left.set(self.left().saturating_add(by).min(self.at_once()) as u64);
    }
}

/// Whether a budget can be kept.
pub(crate) fn check(bytes: u64, config: &Config) -> Result<(), ConfigError> {
    let least = AT_ONCE * config.fragment_bytes;
    if bytes == 0 || (least..=1 << 60).contains(&bytes) {
        return Ok(());
    }
    let reason = format!("{bytes} is neither 0, for no limit, nor between {least} and {}", 1_u64 << 60);
    Err(ConfigError::new("write_budget", reason, format!("use {}", bytes.clamp(least, 1 << 60))))
}

impl Cache {
    /// Bytes that may be written to the cache device in a day; 0: no limit.
    pub fn write_budget(&self) -> u64 {
        self.control().pools.budget.per_day.get()
    }

    /// Has no more than these bytes be written to the cache device in any 24 hours from now on: fragments
    /// that are brought in, copies of writes, and the map. 0: no limit. A quarter may be written at once.
    ///
    /// # Errors
    /// If a quarter is less than a fragment.
    pub fn set_write_budget(&self, bytes: u64) -> Result<(), ConfigError> {
        check(bytes, self.geometry.config())?;
        let pools = self.lock_pools();
        let budget = &self.control().pools.budget;
        let before = budget.per_day.get();
        budget.per_day.set(bytes);
        if before == 0 {
            budget.left.set(budget.at_once() as u64);
            budget.since.set(0);
        }
        // No more than what a smaller one has at once.
        budget.change(0);
        drop(pools);
        self.control().work.add(1);
        Ok(())
    }

    /// What of the budget may be written now, in bytes; `None` without one.
    pub fn write_budget_left(&self) -> Option<u64> {
        let budget = &self.control().pools.budget;
        (budget.per_day.get() > 0).then(|| budget.left().max(0) as u64)
    }

    /// What has come in until now.
    pub(crate) fn reckon_budget(&self, now: u64) {
        if self.write_budget() == 0 {
            return;
        }
        let _pools = self.lock_pools();
        let budget = &self.control().pools.budget;
        let rate = u128::from(budget.per_day.get() - budget.per_day.get() / AT_ONCE);
        if budget.since.get() == 0 || rate == 0 {
            budget.since.set(now.max(1));
            return;
        }
        let elapsed = u128::from(now.saturating_sub(budget.since.get()).min(DAY_NS));
        let bytes = elapsed * rate / u128::from(DAY_NS);
        if bytes > 0 {
            // What is not a whole byte counts the next time.
            let reckoned = (bytes * u128::from(DAY_NS)).div_ceil(rate) as u64;
            budget.since.set(if elapsed == u128::from(DAY_NS) { now } else { budget.since.get() + reckoned });
            budget.change(bytes as i64);
        }
    }

    /// Whether there is so much left, without taking it.
    pub(crate) fn has_budget(&self, bytes: u64) -> bool {
        self.write_budget() == 0 || self.control().pools.budget.left() >= bytes as i64
    }

    /// Bytes of a fragment that a population writes.
    pub(crate) fn bytes_of(&self, fragment: Fragment) -> u64 {
        u64::from(self.geometry.blocks_of(fragment)) * crate::config::BLOCK_BYTES
    }
}

impl LockedPools<'_> {
    /// Takes so many bytes from the budget; false if there are fewer.
    pub(crate) fn afford(&self, bytes: u64) -> bool {
        let budget = self.budget();
        let affords = budget.per_day.get() == 0 || budget.left() >= bytes as i64;
        if affords && !planted::is(Bug::BudgetUncharged) {
            budget.change(-(bytes as i64));
        }
        affords
    }

    /// What had to be written, whatever is left.
    pub(crate) fn charge(&self, bytes: u64) {
        self.budget().change(-(bytes as i64));
    }

    /// What was taken and is not written after all.
    pub(crate) fn refund(&self, bytes: u64) {
        self.budget().change(bytes as i64);
    }
}
