//! The configurations and beginnings that every trace is tried in.

use std::fmt;

use mezzanine_volume::{Admission, Design, SyncMode, TierConfig};

use super::step::FILE;
use crate::crash::driver::exhaustive::subject::Scene;
use crate::crash::driver::stop::Stop;
use crate::crash::volume::checkers::pages;
use crate::crash::volume::operations;
use crate::crash::volume::scenario::{Scenario, draw_placement};
use crate::crash::volume::world::World;

/// Rounds after which the queue must have come round.
const ROUNDS_MAX: u64 = 1000;

/// What the machine is like when a trace begins.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Beginning {
    /// An unformatted flash device and an empty file.
    New,
    /// A queue that has come round and in which most pages are valid, so that the next ones to leave go to
    /// disk or get a second chance; a file with all its pages; and a process that was killed after a
    /// sync.
    Used,
}

/// One configuration with one beginning.
#[derive(Debug, Clone)]
pub(crate) struct Setting {
    pub(super) tier: TierConfig,
    pub(super) guards: bool,
    pub(super) beginning: Beginning,
}

/// The sync modes that a volume can have: it has no log that `drained` could fall back on.
const SYNC_MODES: [SyncMode; 2] = [SyncMode::Through, SyncMode::Durable];

/// Every setting: each sync mode with each design and both kinds of page, groups of one page and of two by
/// turns, and the other admissions with the third design. A sync mode or a design that is asked for leaves
/// only its own.
fn settings(sync_mode: Option<SyncMode>, design: Option<Design>) -> Vec<Setting> {
    let fixed = design.is_some_and(Design::has_slots);
    let wanted = |mode: &SyncMode| sync_mode.is_none_or(|only| only == *mode);
    let modes = SYNC_MODES.into_iter().filter(wanted).filter(|mode| !fixed || *mode == SyncMode::Through);
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
                        let tier = tier(mode, wanted, admission, group_pages);
                        let guards = (group_pages == 1) == (beginning == Beginning::Used);
                        settings.push(Setting { tier, guards, beginning });
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
    pub(super) fn begin(&self) -> Result<World, Stop> {
        let mut world = World::of(self.scenario());
        if self.beginning == Beginning::New {
            return Ok(world);
        }
        let page = world.scenario.page_bytes();
        let session = world.open()?;
        let round = self.tier.frames * page;
        let pages = world.scenario.pages_max;
        for number in 0..ROUNDS_MAX {
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

    /// Length of the file in pages: one more than the queue holds, so that pages leave it with their newest
    /// version.
    fn pages(&self) -> u64 {
        match self.beginning {
            Beginning::New => 8,
            // As many as there are homes, of which some are kept free.
            Beginning::Used if self.tier.design.writes_in_place() => self.tier.frames,
            Beginning::Used => self.tier.geometry().map_or(8, |geometry| {
                let groups = (self.tier.frames - self.tier.band_frames) / geometry.group_frames();
                (groups - 6) * geometry.group_pages()
            }),
        }
    }

    pub(super) fn scenario(&self) -> Scenario {
        Scenario {
            tier: self.tier.clone(),
            files: 1,
            pages_max: self.pages(),
            guards: self.guards,
            fingerprints: true,
            errors: false,
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
        let Self { tier, beginning, .. } = self;
        let beginning = match beginning {
            Beginning::New => "new",
            Beginning::Used => "used",
        };
        let (mode, design, admission) = (tier.sync_mode, tier.design, tier.admission);
        write!(f, "{beginning}/{mode}/{design}/{admission}/{}", tier.group_pages)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_used_queue_has_come_round_and_pages_have_left_it() {
        for setting in settings(None, None) {
            let world = setting.begin().unwrap_or_else(|stop| panic!("{setting}: {stop:?}"));
            let coverage = &world.life.coverage;
            if setting.beginning == Beginning::New {
                assert_eq!(coverage.groups, 0);
                continue;
            }
            assert!(coverage.wraps > 0, "{setting}");
            let holds_dirty =
                setting.tier.sync_mode == SyncMode::Durable && setting.tier.admission != Admission::Clean;
            assert_eq!(coverage.stage_outs > 0, holds_dirty, "{setting}");
            let second_chances = setting.tier.design == Design::FaceGsc
                && setting.tier.survivors_max > 0
                && setting.tier.admission != Admission::Clean;
            assert_eq!(coverage.second_chances > 0, second_chances, "{setting}: {coverage:?}");
        }
    }
}
