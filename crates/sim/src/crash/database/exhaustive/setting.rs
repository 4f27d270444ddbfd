//! The configurations and beginnings that every trace of a database is tried in.

use std::fmt;

use mezzanine_engine::{Admission, Design, SyncMode, TierConfig};

use super::{session, step};
use crate::crash::database::places::{Place, Space};
use crate::crash::database::scenario::{Scenario, Tearing};
use crate::crash::database::server::Server;
use crate::crash::database::world::World;
use crate::crash::driver::exhaustive::subject::{Broken, Scene, broken};
use crate::crash::driver::stop::Stop;
use crate::crash::volume::scenario::draw_placement;

/// Rounds after which the queue must have come round.
const ROUNDS_MAX: u32 = 1000;

/// Pages that the pool holds.
const BUFFERS: usize = 3;

/// What the machine is like when a trace begins.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum Beginning {
    /// An unformatted flash device and an empty database.
    New,
    /// A queue that has come round and in which most pages are valid, so that the next ones to leave go to
    /// disk or get a second chance; a relation with all its pages; changes since the last checkpoint; and
    /// a server that was killed.
    Used,
}

/// One configuration with one beginning.
#[derive(Debug, Clone)]
pub(crate) struct Setting {
    tier: TierConfig,
    beginning: Beginning,
}

/// Every setting: each sync mode with each design, groups of one page and of two by turns, and the other
/// admissions with the third design. A sync mode or a design that is asked for leaves only its own.
fn settings(sync_mode: Option<SyncMode>, design: Option<Design>) -> Vec<Setting> {
    let fixed = design.is_some_and(Design::has_slots);
    let wanted = |mode: &SyncMode| sync_mode.is_none_or(|only| only == *mode);
    let modes =
        SyncMode::ALL.iter().copied().filter(wanted).filter(|mode| !fixed || *mode == SyncMode::Through);
    let mut settings = Vec::new();
    for mode in modes {
        // Those that write in place have traces of their own length: they are asked for one by one.
        let wanted = |one: &Design| design.map_or(!one.writes_in_place(), |only| only == *one);
        for wanted in Design::ALL.iter().copied().filter(wanted) {
            for admission in [Admission::Both, Admission::Dirty, Admission::Clean] {
                if admission != Admission::Both && wanted != design.unwrap_or(Design::FaceGsc) {
                    continue;
                }
                for beginning in [Beginning::New, Beginning::Used] {
                    for group_pages in [1, 2] {
                        settings
                            .push(Setting { tier: tier(mode, wanted, admission, group_pages), beginning });
                    }
                }
            }
        }
    }
    settings
}

/// The smallest tier of this kind, so that a short trace goes a long way in it.
fn tier(sync_mode: SyncMode, design: Design, admission: Admission, group_pages: u32) -> TierConfig {
    let mut tier = TierConfig::new(4096, 1);
    tier.group_pages = group_pages;
    tier.staging_groups = 2;
    tier.segment_frames = 8;
    tier.shards = 1;
    tier.survivors_max = group_pages - 1;
    tier.band_frames = u64::from(group_pages);
    (tier.sync_mode, tier.design, tier.admission) = (sync_mode, design, admission);
    draw_placement(&mut tier);
    while tier.geometry().is_err() {
        tier.frames += 1;
    }
    tier
}

impl Setting {
    /// The world in which every trace of this setting begins.
    pub(super) fn begin(&self) -> Result<World, Broken> {
        let mut world = World::of(self.scenario());
        if self.beginning == Beginning::Used {
            session(&mut world, |server| self.use_up(server)).map_err(broken)?;
            super::process_died(&mut world);
        }
        Ok(world)
    }

    fn use_up(&self, server: &mut Server<'_>) -> Result<(), Stop> {
        let pages = self.pages();
        let round = self.tier.frames * u64::from(self.tier.page_size);
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

    /// Pages of a relation: one more than the queue holds, so that pages leave it with their newest version.
    fn pages(&self) -> Place {
        let pages = match self.beginning {
            Beginning::New => 8,
            // As many as there are homes, of which some are kept free.
            Beginning::Used if self.tier.design.writes_in_place() => self.tier.frames,
            Beginning::Used => self.tier.geometry().map_or(8, |geometry| {
                let groups = (self.tier.frames - self.tier.band_frames) / geometry.group_frames();
                (groups - 6) * geometry.group_pages()
            }),
        };
        pages as Place
    }

    /// What protects pages of the disk that a cut tears: by turns.
    fn tearing(&self) -> Tearing {
        let heals = self.tier.sync_mode == SyncMode::Durable && self.tier.admission != Admission::Clean;
        match self.tier.group_pages {
            1 if heals => Tearing::TierAlone,
            1 => Tearing::FullPageImages,
            _ => Tearing::AtomicDisk,
        }
    }

    pub(super) fn scenario(&self) -> Scenario {
        Scenario {
            tier: self.tier.clone(),
            space: Space { databases: 1, relations: 2, forks: 1, blocks: self.pages() },
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
        settings(sync_mode, design)
    }
}

impl fmt::Display for Setting {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { tier, beginning } = self;
        let beginning = match beginning {
            Beginning::New => "new",
            Beginning::Used => "used",
        };
        let (mode, design, admission) = (tier.sync_mode, tier.design, tier.admission);
        write!(f, "database/{beginning}/{mode}/{design}/{admission}/{}", tier.group_pages)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_used_queue_has_come_round_and_pages_have_left_it() {
        for setting in settings(None, None) {
            let world = setting.begin().unwrap_or_else(|broken| panic!("{setting}: {broken:?}"));
            let coverage = &world.life.coverage;
            if setting.beginning == Beginning::New {
                assert_eq!(coverage.groups, 0);
                continue;
            }
            assert!(coverage.wraps > 0, "{setting}");
            assert!(coverage.checkpoints > 0, "{setting}");
            let holds_dirty =
                setting.tier.sync_mode != SyncMode::Through && setting.tier.admission != Admission::Clean;
            assert_eq!(coverage.stage_outs > 0, holds_dirty, "{setting}");
            assert!(world.machine.log.end() > world.machine.control.read().redo, "{setting}");
        }
    }
}
