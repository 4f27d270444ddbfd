//! A power cut and what it takes.

use std::collections::BTreeMap;

/// What becomes of a write that was not durable.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Fate {
    /// It is there.
    Kept,
    /// It never happened.
    Lost,
    /// Its first sectors are there.
    Torn {
        /// How many, of 512 bytes.
        sectors: u64,
    },
    /// Its last sectors are there, and the first are not: drives write sectors in any order.
    TornLast {
        /// How many, of 512 bytes.
        sectors: u64,
    },
}

impl Fate {
    /// Whether a part of it is there.
    pub fn is_torn(self) -> bool {
        matches!(self, Self::Torn { .. } | Self::TornLast { .. })
    }
}

/// A power cut: before the event `at` was answered. Of what was not durable then, what had been answered is
/// kept, and what was under way is lost, but for what is listed.
#[derive(Debug, Clone, PartialEq, Eq, Default, PartialOrd, Ord, Hash)]
pub struct Cut {
    /// So many events had been answered.
    pub at: u64,
    listed: BTreeMap<u64, Fate>,
}

impl Cut {
    /// One that takes nothing that was answered.
    pub fn before(at: u64) -> Self {
        Self { at, listed: BTreeMap::new() }
    }

    fn usual(&self, number: u64) -> Fate {
        if number < self.at { Fate::Kept } else { Fate::Lost }
    }

    /// The same, but for this.
    #[must_use]
    pub fn with(mut self, number: u64, fate: Fate) -> Self {
        if fate == self.usual(number) {
            self.listed.remove(&number);
        } else {
            self.listed.insert(number, fate);
        }
        self
    }

    /// The same, with this as it is usual.
    #[must_use]
    pub fn without(mut self, number: u64) -> Self {
        self.listed.remove(&number);
        self
    }

    /// The same at another time: of what was not durable the same is there.
    #[must_use]
    pub(crate) fn moved_to(&self, at: u64) -> Self {
        let listed = self.listed.iter();
        listed.fold(Self::before(at), |cut, (&number, &fate)| cut.with(number, fate))
    }

    /// What becomes of a write that was not durable.
    pub fn fate(&self, number: u64) -> Fate {
        self.listed.get(&number).copied().unwrap_or_else(|| self.usual(number))
    }

    /// Writes that were answered and are not there, or not whole; and those under way that are, in whole or
    /// in part.
    pub fn listed(&self) -> impl Iterator<Item = (u64, Fate)> + '_ {
        self.listed.iter().map(|(number, fate)| (*number, *fate))
    }
}
