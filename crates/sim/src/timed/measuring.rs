//! When measuring begins and ends, and what is noted meanwhile.

use super::measure::{Latencies, Sums};
use super::setup::{Refusal, WarmUp};
use super::world::{Event, World, nanoseconds};

/// Times that old versions are counted, which takes a pass over the directory.
const OLD_VERSION_SAMPLES: u64 = 10;

impl World<'_> {
    /// All sums now.
    pub(super) fn sums(&self) -> Sums {
        Sums {
            at: self.clock.now(),
            counts: self.counts.clone(),
            tier: self.tier.map(|tier| tier.statistics()).unwrap_or_default(),
            disk: (self.disk.load(), self.disk.busy()),
            flash: (self.flash.load(), self.flash.busy()),
            flash_inside: self.flash.inside(),
            processor: self.processor.load(),
            log: self.log.load,
        }
    }

    /// Begins to measure if the warm-up is over.
    pub(super) fn check_warm_up(&mut self, now: u64) {
        if self.measure.has_begun() {
            return;
        }
        let is_late = now >= nanoseconds(self.setup.warm_up_seconds_max);
        let is_over = match self.setup.warm_up {
            WarmUp::Auto => self.is_filled(1),
            WarmUp::Rounds(rounds) => self.is_filled(rounds.into()),
            WarmUp::Seconds(_) => false,
            WarmUp::Transactions(transactions) => self.counts.transactions() >= transactions,
        };
        if is_over || is_late {
            self.begin_measuring();
        }
    }

    /// Whether the cache below the pool, or without one the pool, has been filled so many times.
    fn is_filled(&mut self, rounds: u64) -> bool {
        match self.tier {
            Some(tier) if self.setup.writes_in_place() => self.measure.looks.is_filled(tier, rounds),
            Some(tier) => tier.rear().number() >= rounds * tier.geometry().frames(),
            None => self.counts.evicted >= 2 * rounds * u64::from(self.pool.frames()),
        }
    }

    pub(super) fn begin_measuring(&mut self) {
        if self.measure.has_begun() {
            return;
        }
        self.measure.filled = self.is_filled(1);
        self.measure.latencies = Latencies::default();
        self.measure.sums.push(self.sums());
        self.enter_interval();
    }

    fn enter_interval(&mut self) {
        let began = self.measure.sums[0].at;
        let done = self.measure.sums.len() as f64;
        let end = (done * self.setup.interval_seconds).min(self.setup.seconds);
        self.clock.enter(began + nanoseconds(end), Event::Interval);
    }

    pub(super) fn end_interval(&mut self) {
        self.measure.sums.push(self.sums());
        let done = self.measure.sums.len() as u64 - 1;
        let every = self.measure.intervals.div_ceil(OLD_VERSION_SAMPLES);
        if done % every == 0 || done == self.measure.intervals {
            self.measure.old_versions.extend(self.old_version_share());
        }
        if done >= self.measure.intervals {
            self.over = true;
        } else {
            self.enter_interval();
        }
    }

    /// Share of the queue's frames that hold a version that is no longer the newest: those that were appended
    /// and have neither left nor are valid.
    fn old_version_share(&self) -> Option<f64> {
        let tier = self.tier.filter(|_| !self.setup.writes_in_place())?;
        let statistics = tier.statistics();
        let appended = statistics.staged_dirty + statistics.staged_clean + statistics.second_chances;
        let left = statistics.left_invalid + statistics.left_clean;
        let valid = tier.valid_and_dirty().0;
        let old = appended.saturating_sub(left).saturating_sub(valid);
        Some(old as f64 / tier.geometry().frames() as f64)
    }

    /// The trace is at its end.
    pub(super) fn trace_ended(&mut self) -> Result<(), Refusal> {
        if !self.measure.has_begun() {
            let reason = "the trace is at its end before the warm-up is".to_owned();
            return Err(Refusal::new(
                "warm_up",
                reason,
                "warm up for less, with a number of seconds or transactions",
            ));
        }
        self.measure.sums.push(self.sums());
        self.measure.old_versions.extend(self.old_version_share());
        self.over = true;
        Ok(())
    }
}
