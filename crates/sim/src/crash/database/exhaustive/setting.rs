//! The configurations and beginnings that every trace of a database is tried in.

use std::fmt;

use mezzanine_engine::{Design, SyncMode};

use super::{session, step};
use crate::crash::database::logging::Logging;
use crate::crash::database::places::{Place, Space};
use crate::crash::database::scenario::{Scenario, Tearing};
use crate::crash::database::server::Server;
use crate::crash::database::world::World;
use crate::crash::driver::Stop;
use crate::crash::driver::exhaustive::subject::{Broken, Scene, broken};
use crate::crash::driver::exhaustive::tiny::{Beginning, ROUNDS_MAX, Tiny};
use crate::crash::driver::tiers::mends_torn_pages;

/// Pages that the pool holds.
const BUFFERS: usize = 3;

/// One configuration with one beginning.
#[derive(Debug, Clone)]
pub(crate) struct Setting(Tiny);

impl Setting {
    /// The world in which every trace of this setting begins.
    pub(super) fn begin(&self) -> Result<World, Broken> {
        let mut world = World::of(self.scenario());
        if self.0.beginning == Beginning::Used {
            session(&mut world, |server| self.use_up(server)).map_err(broken)?;
            super::process_died(&mut world);
        }
        Ok(world)
    }

    fn use_up(&self, server: &mut Server<'_>) -> Result<(), Stop> {
        let pages = self.0.pages() as Place;
        let round = self.0.tier.frames * u64::from(self.0.tier.page_size);
        for number in 0..ROUNDS_MAX {
            server.world.waits = 0;
            step::change_and_evict(server, number % pages)?;
            // A page of which the newest version is in the queue, if anything is.
            let place = (number + pages - 3) % pages;
            server.check(place)?;
            step::evict(server, place)?;
            if number % 3 == 0 {
                server.commit()?;
            }
            if number % 4 == 0 {
                server.settle()?;
            }
            if number % 8 == 7 {
                server.checkpoint_under_way_to_its_end()?;
            }
            if server.tier.statistics().group_bytes_written > 2 * round && number % 8 == 2 {
                break;
            }
        }
        server.commit()
    }

    /// What protects pages of the disk that a cut tears: by turns.
    fn tearing(&self) -> Tearing {
        match self.0.tier.group_pages {
            1 if mends_torn_pages(&self.0.tier) => Tearing::TierAlone,
            1 => Tearing::FullPageImages,
            _ => Tearing::AtomicDisk,
        }
    }

    pub(super) fn scenario(&self) -> Scenario {
        Scenario {
            tier: self.0.tier.clone(),
            space: Space { databases: 1, relations: 2, forks: 1, blocks: self.0.pages() as Place },
            buffers: BUFFERS,
            lru_share: 16,
            tearing: self.tearing(),
            owners: 1,
            jobs_max: 1,
            patience: 0,
            drains_early: false,
            pulling: false,
            interruptions: false,
            swaps: false,
            errors: false,
            age: None,
            ..Scenario::draw(1)
        }
    }
}

impl Scene for Setting {
    fn all(sync_mode: Option<SyncMode>, design: Option<Design>) -> Vec<Self> {
        Tiny::all(SyncMode::ALL, sync_mode, design).into_iter().map(Self).collect()
    }
}

impl fmt::Display for Setting {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "database/{}", self.0)
    }
}

#[cfg(test)]
mod tests {
    use mezzanine_engine::Admission;

    use super::*;

    #[test]
    fn a_used_queue_has_come_round_and_pages_have_left_it() {
        for setting in Setting::all(None, None) {
            let world = setting.begin().unwrap_or_else(|broken| panic!("{setting}: {broken:?}"));
            let coverage = &world.life.coverage;
            if setting.0.beginning == Beginning::New {
                assert_eq!(coverage.groups, 0);
                continue;
            }
            assert!(coverage.wraps > 0, "{setting}");
            assert!(coverage.checkpoints > 0, "{setting}");
            let holds_dirty =
                setting.0.tier.sync_mode != SyncMode::Through && setting.0.tier.admission != Admission::Clean;
            assert_eq!(coverage.stage_outs > 0, holds_dirty, "{setting}");
            assert!(world.machine.log.end() > world.machine.control.read().redo, "{setting}");
        }
    }
}
