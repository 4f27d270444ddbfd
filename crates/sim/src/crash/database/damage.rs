//! Damages the flash device of a copy of the machine at rest, and lets the database start on it.
//!
//! Invariant checked: `damage-noticed`:
//! - The database starts with every page right, or a page is reported as lost, or the start is refused as
//!   damaged; rubbish and pages of other places are never read.
//! - Where disk and log suffice, the tier is discarded and every page is right.
//! - Every group that the last checkpoint relied on is there. After a crash, damage to later ones looks like
//!   a torn write: redo has what they held. But where the power cut tore one after them that had taken the
//!   place of older pages, redo may find a page older than its record says, which the database sees by the
//!   page's LSN.
//!
//! The machine itself is not touched.

use mezzanine_device::memory::Image;
use mezzanine_engine::format::{TierState, read_superblock};

use super::contents::Content;
use super::logging::Logging;
use super::machine::Reader;
use super::reading::Source;
use super::scenario::Tearing;
use super::server::Server;
use super::world::{Damaged, World};
use crate::crash::driver::Stop;
use crate::crash::driver::harm::{damage_at_rest, judge_start};

impl World {
    /// To be called between two sessions.
    pub(super) fn look_at_damage(&mut self) -> Result<(), Stop> {
        // Another device may lie in the slot.
        if self.swapped.is_some() {
            return Ok(());
        }
        let Ok(found) = read_superblock(&mut Reader(&self.machine.flash)) else { return Ok(()) };
        let mut copy = self.copy();
        for done in damage_at_rest(&copy.machine.flash, self.scenario.page_bytes(), &mut copy.life.random) {
            copy.life.tell(|| format!("on the copy {done}"));
        }
        let outcome = copy.start_damaged();
        self.life.coverage.damages += 1;
        self.life.coverage.damage_refetched += copy.life.coverage.damage_refetched;
        let suffices = self.machine.control.read().disk_suffices;
        let older = copy.damaged.is_some_and(|damaged| damaged.older) && found.state == TierState::Open;
        judge_start(outcome, || !suffices, older, &mut self.life.coverage)
    }

    /// The same database on a copy of the machine, at rest.
    fn copy(&mut self) -> Self {
        let mut copy = Self::of(self.scenario.clone());
        copy.machine.copy_from(&self.machine);
        copy.history = self.history.clone();
        copy.life = self.life.of_copy(&copy.machine.power);
        copy.acknowledged = self.acknowledged;
        copy.dropped.clone_from(&self.dropped);
        copy.thinned.clone_from(&self.thinned);
        copy.orphaned.clone_from(&self.orphaned);
        copy.formats = self.formats;
        copy.relied = self.relied;
        // What is refused or discarded then is so on good grounds.
        copy.swapped = Some(Image::default());
        copy.damaged = Some(Damaged::default());
        copy
    }

    fn start_damaged(&mut self) -> Result<(), Stop> {
        let (tier, superblock) = self.open_tier()?;
        let mut server = Server::new(self, &tier, superblock);
        let outcome = server.redo().and_then(|()| {
            let places = server.world.scenario.space.places();
            (0..places).try_for_each(|place| server.check(place))
        });
        outcome.map_err(|stop| if tier.failure().is_some() { stop.of_failed_tier() } else { stop })
    }

    /// Notes that a page was not what it must be, in a way that the loss of the newest groups explains: an
    /// earlier version, none, or what a power cut left on a disk that tears pages.
    pub(super) fn note_older(&mut self, found: Content, source: Source) {
        let torn = source == Source::Disk && self.scenario.tearing != Tearing::AtomicDisk;
        if let Some(damaged) = self.damaged.as_mut() {
            damaged.older = found != Content::Other || torn;
        }
    }
}
