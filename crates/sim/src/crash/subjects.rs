//! What lives in the worlds of each kind.

use super::driver::life::{Outcome, Seeded};
use super::driver::{Feature, Terms};
use super::kind::Kind;
use super::{database, server, volume};

impl Kind {
    /// Runs the world of `seed` through `cuts` power cuts or to its first violation.
    pub fn run(self, seed: u64, cuts: u64, terms: &Terms) -> Outcome {
        match self {
            Self::Volume => volume::World::on(seed, terms).live(cuts),
            Self::Database => database::World::on(seed, terms).live(cuts),
            Self::Server => server::World::on(seed, terms).live(cuts),
            Self::Histories => volume::World::of_histories(seed, terms).live(cuts),
            Self::Runners => volume::World::of_runners(seed, terms).live(cuts),
            Self::Zones => database::World::on_zones(seed, terms).live(cuts),
            Self::ZonedVolume => volume::World::on_zones(seed, terms).live(cuts),
            Self::Drives => volume::World::on_drives(seed, terms).live(cuts),
            Self::DriveDatabase => database::World::on_drives(seed, terms).live(cuts),
        }
    }
}

impl Seeded for Kind {
    fn run(self, seed: u64, cuts: u64, terms: &Terms) -> Outcome {
        self.run(seed, cuts, terms)
    }

    fn has(self, seed: u64, terms: &Terms, feature: Feature) -> bool {
        let volume = || volume::Scenario::draw_on(seed, terms);
        match self {
            Self::Volume => volume().has(feature),
            Self::Database => database::Scenario::draw_on(seed, terms).has(feature),
            Self::Server => server::World::has(seed, terms, feature),
            Self::Histories => volume().of_histories().has(feature),
            Self::Runners => volume().of_runners(terms).has(feature),
            Self::Zones => database::Scenario::draw_on(seed, terms).on_zones().has(feature),
            Self::ZonedVolume => volume().on_zones().has(feature),
            Self::Drives => volume().on_drives(terms).has(feature),
            // Drives have all features that databases have.
            Self::DriveDatabase => database::Scenario::draw_on(seed, terms).has(feature),
        }
    }
}
