//! The database's log: records, of which a prefix is durable.
//!
//! It is a store of its own on the machine's power and not a device: what a crash leaves of a log is what its
//! reader finds before the first broken record, so a prefix that ends somewhere between what was flushed and
//! what was written.

use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;

use mezzanine_device::memory::{Power, Spent};
use mezzanine_ground::random::Random;

use super::places::{Extent, Place};
pub use crate::crash::driver::whole::NoPower;

/// A position in the log: how many records lie before it. A page's LSN is the position after its last change.
pub type Lsn = u64;

/// What a record says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Change {
    /// A page that was not there gets its first version.
    Init {
        /// The page.
        place: Place,
        /// What it becomes.
        version: u32,
    },
    /// A page turns from `previous` into `version`; redo needs the former.
    Update {
        /// The page.
        place: Place,
        /// What it was.
        previous: u32,
        /// What it becomes.
        version: u32,
    },
    /// As an update, with an image of the whole page: redo needs nothing.
    Image {
        /// The page.
        place: Place,
        /// What it becomes.
        version: u32,
    },
    /// A page that was written without a log has been made durable by the flush of a range.
    Load {
        /// The page.
        place: Place,
        /// What it became.
        version: u32,
    },
    /// Pages are dropped.
    Drop(Extent),
    /// A transaction is complete.
    Commit,
}

impl Change {
    /// The page and the version that the record gives it.
    pub fn page(&self) -> Option<(Place, u32)> {
        match *self {
            Self::Init { place, version }
            | Self::Update { place, version, .. }
            | Self::Image { place, version }
            | Self::Load { place, version } => Some((place, version)),
            Self::Drop(_) | Self::Commit => None,
        }
    }
}

/// The log.
pub struct Log {
    power: Power,
    records: Vec<Change>,
    ends: Arc<LogEnds>,
}

/// How much of the log survives what; seen by those, too, who have no hold of it.
#[derive(Debug, Default)]
pub struct LogEnds {
    /// Handed to the operating system: survives the process.
    written: AtomicU64,
    /// Survives everything.
    flushed: AtomicU64,
}

impl LogEnds {
    /// Up to where the log survives the death of the process.
    pub fn written(&self) -> Lsn {
        self.written.load(Relaxed)
    }

    /// Up to where it is durable.
    pub fn flushed(&self) -> Lsn {
        self.flushed.load(Relaxed)
    }
}

impl Log {
    /// An empty log on a supply of power.
    pub fn on(power: &Power) -> Self {
        Self { power: power.clone(), records: Vec::new(), ends: Arc::default() }
    }

    /// Makes this log what `other` is.
    pub fn copy_from(&mut self, other: &Self) {
        self.records.clone_from(&other.records);
        self.ends.written.store(other.ends.written(), Relaxed);
        self.ends.flushed.store(other.ends.flushed(), Relaxed);
    }

    /// The end: the LSN of the last record.
    pub fn end(&self) -> Lsn {
        self.records.len() as Lsn
    }

    /// Up to where it is durable.
    pub fn flushed(&self) -> Lsn {
        self.ends.flushed()
    }

    /// Where it ends, for those who have no hold of it.
    pub fn shared_ends(&self) -> Arc<LogEnds> {
        Arc::clone(&self.ends)
    }

    /// The records from `from` on, each with the LSN that it gives its page.
    pub fn records_from(&self, from: Lsn) -> impl Iterator<Item = (Lsn, &Change)> {
        (from + 1..).zip(&self.records[from as usize..])
    }

    /// The record that ends at `lsn`.
    pub fn record(&self, lsn: Lsn) -> Change {
        self.records[lsn as usize - 1]
    }

    /// Adds a record in memory and returns its LSN.
    pub fn append(&mut self, change: Change) -> Lsn {
        self.records.push(change);
        self.end()
    }

    fn spend(&self) -> Result<(), NoPower> {
        if self.power.spend() == Spent::On { Ok(()) } else { Err(NoPower) }
    }

    /// Hands everything to the operating system, as a log writer does in the background.
    ///
    /// # Errors
    /// [`NoPower`]: some of it may survive nevertheless.
    pub fn write(&mut self) -> Result<(), NoPower> {
        if self.ends.written() < self.end() {
            self.ends.written.store(self.end(), Relaxed);
            self.spend()?;
        }
        Ok(())
    }

    /// Makes the log durable at least up to `lsn`.
    ///
    /// # Errors
    /// [`NoPower`]: all of it may be durable nevertheless.
    pub fn force(&mut self, lsn: Lsn) -> Result<(), NoPower> {
        if self.flushed() < lsn {
            self.write()?;
            self.spend()?;
            self.ends.flushed.store(self.ends.written(), Relaxed);
        }
        Ok(())
    }

    /// The process died: what was not handed over is gone. Returns how many records.
    pub fn process_died(&mut self) -> u64 {
        self.cut_at(self.ends.written())
    }

    /// Where the log may end after a loss of power.
    pub fn ends(&self) -> std::ops::RangeInclusive<Lsn> {
        self.flushed()..=self.ends.written()
    }

    /// Power failed, and the log ends here, at one of its [ends](Self::ends).
    pub fn end_at(&mut self, end: Lsn) {
        assert!(self.ends().contains(&end), "a log keeps what was flushed, and no more than was written");
        self.cut_at(end);
    }

    /// Power failed: what was not flushed may be gone. Returns how many records are.
    pub fn power_failed(&mut self, random: &mut Random) -> u64 {
        let end = match random.below(4) {
            0 => self.flushed(),
            1 => self.ends.written(),
            _ => random.between(self.flushed(), self.ends.written()),
        };
        self.cut_at(end)
    }

    fn cut_at(&mut self, end: Lsn) -> u64 {
        let lost = self.end() - end;
        self.records.truncate(end as usize);
        self.ends.written.store(end, Relaxed);
        self.ends.flushed.fetch_min(end, Relaxed);
        lost
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_forced_survives_power_and_what_was_written_survives_the_process() {
        let power = Power::new();
        let mut log = Log::on(&power);
        let mut random = Random::new(1);
        for _ in 0..3 {
            log.append(Change::Commit);
        }
        log.force(2).expect("there is power");
        assert_eq!(log.flushed(), 3);
        log.append(Change::Commit);
        log.write().expect("there is power");
        log.append(Change::Commit);
        assert_eq!(log.process_died(), 1);
        assert_eq!(log.end(), 4);
        for _ in 0..32 {
            log.power_failed(&mut random);
            assert!(log.end() >= 3);
        }
        assert_eq!(log.end(), 3);
    }
}
