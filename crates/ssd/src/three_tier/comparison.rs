//! Approaches under the same requests: one top tier, and a middle tier of each kind below it.

use crate::ConfigError;

use super::{Approach, Collected, Counts, Driver, FlashConfig, TopTier};

/// Middle tiers that are asked for the same pages.
#[derive(Debug)]
pub struct Comparison {
    top: TopTier,
    tiers: Vec<(Approach, Driver)>,
    references: u64,
    requests: u64,
}

/// What came of an approach.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Outcome {
    /// Which one.
    pub approach: Approach,
    /// What it counted.
    pub counts: Counts,
    /// Blocks collected, by their pages.
    pub collected: Collected,
    /// How often each block was erased.
    pub erases: Vec<u32>,
}

impl Comparison {
    /// Of these approaches, all of them empty.
    ///
    /// # Errors
    /// The first number that cannot be.
    pub fn new(approaches: &[Approach], flash: FlashConfig, top_frames: u32) -> Result<Self, ConfigError> {
        let tiers = approaches.iter().map(|approach| Ok((*approach, Driver::new(approach.tier(flash)?))));
        Ok(Self {
            top: TopTier::new(top_frames)?,
            tiers: tiers.collect::<Result<_, ConfigError>>()?,
            references: 0,
            requests: 0,
        })
    }

    /// The database refers to a page, and perhaps changes it. Says whether that made requests.
    pub fn refer(&mut self, page: u32, changes: bool) -> bool {
        let Self { top, tiers, references, requests } = self;
        *references += 1;
        let before = *requests;
        top.refer(page, changes, |request| {
            *requests += 1;
            for (_, driver) in tiers.iter_mut() {
                driver.make(request);
            }
        });
        *requests > before
    }

    /// References of the database so far.
    pub fn references(&self) -> u64 {
        self.references
    }

    /// Requests that they made of each middle tier.
    pub fn requests(&self) -> u64 {
        self.requests
    }

    /// Blocks that the first middle tier of this kind has collected.
    pub fn collections(&self, approach: Approach) -> Option<u64> {
        let (_, driver) = self.tiers.iter().find(|(known, _)| *known == approach)?;
        Some(driver.tier().counts().collections)
    }

    /// What came of each approach, in their order.
    pub fn outcomes(&self) -> Vec<Outcome> {
        let outcome = |(approach, driver): &(Approach, Driver)| Outcome {
            approach: *approach,
            counts: driver.tier().counts(),
            collected: driver.tier().collected().clone(),
            erases: driver.tier().erases(),
        };
        self.tiers.iter().map(outcome).collect()
    }
}
