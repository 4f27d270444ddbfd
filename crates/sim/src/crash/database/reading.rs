//! Pages come in: from the tier, or else from disk, while other things go on.

use mezzanine_device::Device;
use mezzanine_engine::{Lookup, PageId, StageKind};

use super::contents::{self, Content};
use super::places::Place;
use super::server::Server;
use crate::crash::driver::{Failing, Invariant, Stop};

/// Where a page came from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Source {
    Staging,
    Flash,
    Disk,
}

impl Server<'_> {
    /// Reads the page at `place`, which is not in the pool, and says what it is. Its bytes stay in
    /// `world.page`.
    pub(super) fn read(&mut self, place: Place) -> Result<(Content, Source), Stop> {
        let id = self.world.scenario.space.id(place);
        let mut page = std::mem::take(&mut self.world.page);
        let source = self.read_into(place, &id, &mut page);
        let source = source.map(|source| (contents::identify(&page, place), source));
        self.world.page = page;
        source
    }

    fn read_into(&mut self, place: Place, id: &PageId, page: &mut [u8]) -> Result<Source, Stop> {
        loop {
            let found = match self.tier.lookup(id, page) {
                Lookup::Memory => return Ok(Source::Staging),
                Lookup::Flash(found) => found,
                Lookup::Miss(token) => {
                    let mut read = self.world.machine.disk.read_at(page, self.offset(place));
                    // The operation fails, and is tried again.
                    if read.is_err() && self.world.reads_again(Failing::Disk) {
                        read = self.world.machine.disk.read_at(page, self.offset(place));
                    }
                    self.world.done("read the disk", read)?;
                    if self.world.life.random.chance(1, 16) {
                        self.meanwhile()?;
                        // An offer of what the disk holds; whatever happened to the page since, the token
                        // tells.
                        let _ = self.tier.stage_in(id, page, StageKind::Clean(Some(token)), 0);
                    }
                    return Ok(Source::Disk);
                }
            };
            self.meanwhile()?;
            let mut read = self.world.machine.flash.read_at(page, found.offset);
            if read.is_err() && self.world.reads_again(Failing::Flash) {
                read = self.world.machine.flash.read_at(page, found.offset);
            }
            self.world.done("read flash", read)?;
            self.meanwhile()?;
            // The frame may have gone to others while it was read; if not, it is what was staged in.
            if !self.tier.confirm(&found) {
                self.world.life.coverage.reads_interrupted += 1;
                continue;
            }
            if self.tier.verify(&found, page) {
                return Ok(Source::Flash);
            }
            if self.world.damaged.is_some() {
                self.world.life.coverage.damage_refetched += 1;
                if found.dirty && !self.tier.on_disk(id, &found) {
                    return Err(Stop::Lost);
                }
                // Invariant 11: the disk has the same bytes.
                self.tier.invalidate_clean(id, &found);
                continue;
            }
            let text = format!("the frame of page {place} at {found:?}: {}", contents::describe(page, place));
            return Err(Stop::violated(Invariant::Versions, text));
        }
    }

    /// What others do while someone waits for a device: jobs, and evictions.
    fn meanwhile(&mut self) -> Result<(), Stop> {
        if !self.world.scenario.interruptions || !self.world.life.random.chance(1, 8) {
            return Ok(());
        }
        if self.world.life.random.chance(1, 64) {
            return self.long_while();
        }
        for _ in 0..self.world.life.random.magnitude(12) {
            if self.world.life.random.chance(1, 3) {
                if let Some(victim) = self.victim() {
                    self.evict(victim)?;
                }
            } else if !self.work()? {
                return Ok(());
            }
        }
        Ok(())
    }

    /// As [`Self::meanwhile`], for so long that the queue may come round: the pages of the pool are written
    /// again and again.
    fn long_while(&mut self) -> Result<(), Stop> {
        for _ in 0..self.world.life.random.magnitude(4 * self.world.scenario.tier.frames) {
            self.world.waits = 0;
            let Some(buffer) = self.victim() else { return Ok(()) };
            self.write_out(buffer)?;
            self.work()?;
        }
        Ok(())
    }

    /// Brings a page into the pool that must be there, and compares it with what it must be. Returns its
    /// version.
    pub(super) fn fetch(&mut self, place: Place) -> Result<u32, Stop> {
        let expected = self.world.history.now().version(place);
        if let Some(buffer) = self.pool.touch(place) {
            return Ok(buffer.version);
        }
        self.make_room()?;
        let (found, source) = self.read(place)?;
        let Some(expected) = expected else {
            return Err(Stop::violated(
                Invariant::Assertion,
                format!("page {place} was asked for and is not there"),
            ));
        };
        if found != Content::Version(expected) {
            self.world.note_older(found, source);
            let found = contents::describe(&self.world.page, place);
            let text = format!("page {place} from {source:?} is {found} instead of version {expected}");
            return Err(Stop::violated(Invariant::Versions, text));
        }
        let lsn = self.world.page_lsn(expected);
        self.pool.put(place, expected, lsn, false);
        Ok(expected)
    }
}
