//! Whether a tier has numbers left.

use super::{Bound, NUMBERS_LEFT, UsedUp};
use crate::control::Control;
use crate::core::Tier;
use crate::planted::{self, Bug};

impl Control {
    /// The next numbers that will be given out.
    fn rising(&self) -> [(Bound, u64); 5] {
        [
            (Bound::Position, self.ends.rear().number()),
            (Bound::Sequence, self.groups.next().number()),
            (Bound::Version, self.append.next_version().number()),
            (Bound::Segment, self.segments.next_number()),
            (Bound::Epoch, self.epoch.get()),
        ]
    }
}

impl Tier {
    /// Why the tier takes no more pages although nobody has stopped it: one of its numbers comes to an end.
    /// Whatever is in it can still be read, drained and closed.
    pub fn used_up(&self) -> Option<UsedUp> {
        let mut rising = self.control().rising().into_iter();
        let (bound, next) = rising.find(|(bound, next)| *next >= bound.reserve())?;
        Some(UsedUp { bound, next })
    }

    /// Whether a tier that was just recovered has numbers left to be used and left in order.
    pub(crate) fn can_go_on(&self) -> Result<(), UsedUp> {
        let short = |(bound, next): &(Bound, u64)| {
            // Of epochs whoever opens has asked.
            *bound != Bound::Epoch && !bound.holds(&[next.saturating_add(NUMBERS_LEFT)])
        };
        match self.control().rising().into_iter().find(short) {
            Some((bound, next)) if !planted::is(Bug::LastNumbersOpened) => Err(UsedUp { bound, next }),
            _ => Ok(()),
        }
    }

    /// A group of so many frames is about to be opened: asserts that it is given only numbers that exist, and
    /// has pages refused from now on if few are left. Under the control lock.
    pub(crate) fn spend_numbers(&self, frames: u64) {
        if self.used_up().is_some() && !planted::is(Bug::NumbersSpent) {
            self.control().stopped.set(1);
        }
        let records = u64::from(self.geometry.records_max);
        for (bound, next) in self.control().rising() {
            let taken = match bound {
                Bound::Position => frames,
                Bound::Version => records,
                _ => 0,
            };
            assert!(next + taken < bound.end(), "{}", UsedUp { bound, next });
        }
    }
}

/// For tests, whose lives are short.
#[cfg(feature = "planted")]
impl crate::format::Age {
    fn at(mut number: impl FnMut(Bound) -> u64) -> Self {
        Self {
            epoch: number(Bound::Epoch) as u32,
            generation: number(Bound::Generation),
            sequence: crate::ids::Sequence::from_number(number(Bound::Sequence)),
            position: crate::ids::Position::from_number(number(Bound::Position)),
            version: crate::ids::Version::from_number(number(Bound::Version)),
            segment: number(Bound::Segment),
        }
    }

    /// So many before the reserve of each number.
    pub fn before_reserve(by: u64) -> Self {
        Self::at(|bound| bound.reserve() - by)
    }

    /// So many before the end of each number.
    pub fn before_end(by: u64) -> Self {
        Self::at(|bound| bound.end() - by)
    }
}
