//! A device with a volatile write cache, in sectors of any kind.
//!
//! Faults that it may show: what was not flushed may be lost when its power fails, sector by sector, in any
//! order; a flush that fails may have lost some of it as well, which is seen when it is opened again.

use mezzanine_ground::random::Random;

pub(crate) struct Device<S> {
    /// What is read.
    live: Vec<S>,
    durable: Vec<S>,
    /// Sectors that were written since, in order; the first is number `flushed`.
    pending: Vec<(usize, S)>,
    flushed: u64,
    has_failed: bool,
}

impl<S: Clone> Device<S> {
    pub(crate) fn new(sectors: Vec<S>) -> Self {
        Self { live: sectors.clone(), durable: sectors, pending: Vec::new(), flushed: 0, has_failed: false }
    }

    pub(crate) fn sectors(&self) -> &[S] {
        &self.live
    }

    pub(crate) fn write(&mut self, sector: usize, value: S) {
        self.live[sector] = value.clone();
        self.pending.push((sector, value));
    }

    /// A flush that begins now covers what was written before this number.
    pub(crate) fn flush_begin(&self) -> u64 {
        self.flushed + self.pending.len() as u64
    }

    pub(crate) fn flush_end(&mut self, until: u64) {
        let count = until.saturating_sub(self.flushed) as usize;
        for (sector, value) in self.pending.drain(..count) {
            self.durable[sector] = value;
        }
        self.flushed += count as u64;
    }

    /// The flush fails: what it covers is durable or never will be.
    pub(crate) fn flush_fails(&mut self, until: u64, random: &mut Random) {
        let count = until.saturating_sub(self.flushed) as usize;
        for (sector, value) in self.pending.drain(..count) {
            if random.chance(1, 2) {
                self.durable[sector] = value;
            }
        }
        self.flushed += count as u64;
        self.has_failed = true;
    }

    /// It is opened again: what it has lost is lost by now.
    pub(crate) fn reopened(&mut self, random: &mut Random) {
        if std::mem::take(&mut self.has_failed) {
            self.power_fails(random);
        }
    }

    /// Its power fails: of what was not flushed any sectors are kept.
    pub(crate) fn power_fails(&mut self, random: &mut Random) {
        let kept = random.below(5);
        self.flushed += self.pending.len() as u64;
        for (sector, value) in self.pending.drain(..) {
            if random.chance(kept, 4) {
                self.durable[sector] = value;
            }
        }
        self.live.clone_from(&self.durable);
    }
}
