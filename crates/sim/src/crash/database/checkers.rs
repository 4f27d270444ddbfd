//! What is looked at, and when. The checkers know the history and the devices; of the tier they use what
//! every reader uses.
//!
//! Invariants checked:
//! - `versions`: after redo every page is exactly what the durable log makes of it.
//! - `no-resurrection`: what was dropped is in the tier no more.
//! - `disk-alone`: where the control file says that disk and log suffice, they do, without a look at flash.
//! - `commits`: whatever was acknowledged is in the log.

use super::contents::{self, Content};
use super::history::{History, Verdict};
use super::log::{Log, Lsn};
use super::places::Place;
use super::reading::Source;
use super::server::Server;
use super::world::World;
use crate::crash::driver::{Invariant, Stop};
use mezzanine_device::memory::MemoryDevice;
use mezzanine_engine::Lookup;

impl Server<'_> {
    /// Right after redo: everything, or some pages.
    pub(super) fn check_after_redo(&mut self) -> Result<(), Stop> {
        let places = self.world.scenario.space.places();
        if self.world.life.random.chance(self.world.scenario.full_checks, 16) {
            self.tier.check();
            for place in 0..places {
                self.check(place)?;
            }
            return Ok(());
        }
        for _ in 0..self.world.life.random.magnitude(8) {
            let place = self.world.life.random.below(places.into()) as Place;
            self.check(place)?;
        }
        Ok(())
    }

    pub(super) fn check(&mut self, place: Place) -> Result<(), Stop> {
        match self.world.history.now().version(place) {
            Some(_) => self.fetch(place).map(|_| ()),
            None => self.check_absent(place),
        }
    }

    /// The tier must not know a page that is not there.
    pub(super) fn check_absent(&mut self, place: Place) -> Result<(), Stop> {
        let relation = self.world.scenario.space.relation_of(place);
        if self.world.orphaned[relation as usize] {
            return Ok(());
        }
        let id = self.world.scenario.space.id(place);
        let (found, source) = match self.tier.lookup(&id, &mut self.world.page) {
            Lookup::Miss(_) => return Ok(()),
            Lookup::Memory => (contents::describe(&self.world.page, place), Source::Staging),
            Lookup::Flash(found) => (format!("{found:?}"), Source::Flash),
        };
        self.world.note_older(Content::Zeros, source);
        let text = format!("page {place} was dropped, and {source:?} has it: {found}");
        Err(Stop::violated(Invariant::NoResurrection, text))
    }
}

impl World {
    /// To be called right after a power cut, before the database starts again.
    pub(super) fn check_after_cut(&mut self) -> Result<(), Stop> {
        self.check_commits()?;
        if self.machine.control.read().disk_suffices && self.life.random.chance(1, 2) {
            self.check_disk_alone()?;
        }
        Ok(())
    }

    pub(super) fn check_commits(&self) -> Result<(), Stop> {
        check_commits(&self.machine.log, self.acknowledged)
    }

    pub(super) fn check_disk_alone(&mut self) -> Result<(), Stop> {
        self.check_backup(self.machine.control.read().redo)
    }

    /// As [`compare_backup`], with the disk as it is now.
    pub(super) fn check_backup(&mut self, redo: Lsn) -> Result<(), Stop> {
        let (log, disk, page_bytes) = (&self.machine.log, &self.machine.disk, self.scenario.page_bytes());
        let compared = compare_backup(&self.history, log, disk, page_bytes, redo);
        self.life.coverage.disks_compared += 1;
        compared.map_err(|wrong| Stop::violated(Invariant::DiskAlone, wrong.text))
    }
}

/// Whatever was acknowledged must be in the log.
pub(crate) fn check_commits(log: &Log, acknowledged: Lsn) -> Result<(), Stop> {
    if log.end() < acknowledged {
        let text = format!("the log ends at {} before {acknowledged}", log.end());
        return Err(Stop::violated(Invariant::Commits, text));
    }
    Ok(())
}

/// A page of a backup that is not what it must be.
pub(crate) struct Mismatch {
    pub(crate) found: Content,
    pub(crate) text: String,
}

/// Repeats the log from `redo` over the disk as it is, in memory, and compares the outcome with the history:
/// a backup of the disk taken now, together with the log. An error says what is wrong.
pub(crate) fn compare_backup(
    history: &History,
    log: &Log,
    disk: &MemoryDevice,
    page_bytes: usize,
    redo: Lsn,
) -> Result<(), Mismatch> {
    let mut found: Vec<Content> = disk.view(|image| {
        let page = |place: usize| image.range(place * page_bytes..(place + 1) * page_bytes);
        let places = 0..image.len() / page_bytes;
        places.map(|place| contents::identify(&page(place), place as Place)).collect()
    });
    for (lsn, change) in log.records_from(redo) {
        let Some((place, version)) = change.page() else { continue };
        let content = &mut found[place as usize];
        match history.judge(log, lsn, place, *content) {
            Verdict::Apply => *content = Content::Version(version),
            Verdict::Skip | Verdict::Doomed => {}
            verdict => {
                let text = format!("{verdict:?}: page {place} is {content:?} at record {lsn}, {change:?}");
                return Err(Mismatch { found: *content, text });
            }
        }
    }
    for place in history.now().existing() {
        let expected = history.now().version(place);
        let content = found[place as usize];
        if Some(content) != expected.map(Content::Version) {
            let text = format!("page {place} is {content:?} on disk instead of version {expected:?}");
            return Err(Mismatch { found: content, text });
        }
    }
    Ok(())
}
