//! The configurations and beginnings that every trace is tried in.

use std::fmt;

use mezzanine_engine::{Design, SyncMode};

use super::step::FILE;
use crate::crash::driver::Stop;
use crate::crash::driver::exhaustive::subject::Scene;
use crate::crash::driver::exhaustive::tiny::{Beginning, ROUNDS_MAX, Tiny};
use crate::crash::volume::checkers::pages;
use crate::crash::volume::operations;
use crate::crash::volume::scenario::Scenario;
use crate::crash::volume::world::World;

/// One configuration with one beginning.
#[derive(Debug, Clone)]
pub(crate) struct Setting(Tiny);

/// The sync modes that a volume can have: it has no log that `drained` could fall back on.
const SYNC_MODES: [SyncMode; 2] = [SyncMode::Through, SyncMode::Durable];

impl Setting {
    /// The world in which every trace of this setting begins.
    pub(super) fn begin(&self) -> Result<World, Stop> {
        let mut world = World::of(self.scenario());
        if self.0.beginning == Beginning::New {
            return Ok(world);
        }
        let page = world.scenario.page_bytes();
        let session = world.open()?;
        let round = self.0.tier.frames * page;
        let pages = world.scenario.pages_max;
        for number in 0..u64::from(ROUNDS_MAX) {
            operations::write(&mut world, &session, FILE, number % pages * page, page)?;
            // A page of which the newest version is in the queue, if anything is.
            pages::read(&mut world, &session, FILE, (number + pages - 3) % pages, 1)?;
            if number % 3 == 0 {
                operations::sync(&mut world, &session, FILE)?;
            }
            if number % 4 == 0 {
                operations::settle(&world, &session);
            }
            let written = session.volume.statistics().tier.map_or(0, |tier| tier.group_bytes_written);
            if written > 2 * round && number % 3 == 2 {
                break;
            }
        }
        operations::sync(&mut world, &session, FILE)?;
        world.models_crashed();
        world.release(session);
        Ok(world)
    }

    /// By turns: a used file has a guard where groups have one page, a new one where they have two.
    fn has_guards(&self) -> bool {
        (self.0.tier.group_pages == 1) == (self.0.beginning == Beginning::Used)
    }

    pub(super) fn scenario(&self) -> Scenario {
        Scenario {
            tier: self.0.tier.clone(),
            files: 1,
            pages_max: self.0.pages(),
            guards: self.has_guards(),
            fingerprints: true,
            errors: false,
            ..Scenario::draw(1)
        }
    }
}

impl Scene for Setting {
    fn all(sync_mode: Option<SyncMode>, design: Option<Design>) -> Vec<Self> {
        Tiny::all(&SYNC_MODES, sync_mode, design).into_iter().map(Self).collect()
    }
}

impl fmt::Display for Setting {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

#[cfg(test)]
mod tests {
    use mezzanine_engine::Admission;

    use super::*;

    #[test]
    fn a_used_queue_has_come_round_and_pages_have_left_it() {
        for setting in Setting::all(None, None) {
            let world = setting.begin().unwrap_or_else(|stop| panic!("{setting}: {stop:?}"));
            let coverage = &world.life.coverage;
            if setting.0.beginning == Beginning::New {
                assert_eq!(coverage.groups, 0);
                continue;
            }
            assert!(coverage.wraps > 0, "{setting}");
            let holds_dirty =
                setting.0.tier.sync_mode == SyncMode::Durable && setting.0.tier.admission != Admission::Clean;
            assert_eq!(coverage.stage_outs > 0, holds_dirty, "{setting}");
            let second_chances = setting.0.tier.design == Design::FaceGsc
                && setting.0.tier.survivors_max > 0
                && setting.0.tier.admission != Admission::Clean;
            assert_eq!(coverage.second_chances > 0, second_chances, "{setting}: {coverage:?}");
        }
    }
}
