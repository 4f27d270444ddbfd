//! The running server: pages come in through the pool and leave it for the tier, by whichever of its
//! processes.

use mezzanine_device::Device;
use mezzanine_engine::{PageId, Sequence, SyncMode};
use mezzanine_ffi::host::Host;
use mezzanine_ffi::pages::{Found, Written};
use mezzanine_ffi::read_at_once::AtOnce;

use super::machine::redo_point;
use super::scenario::PAGE;
use super::world::World;
use crate::crash::database::contents::{self, Content};
use crate::crash::database::log::Lsn;
use crate::crash::database::logging::Logging;
use crate::crash::database::places::{Extent, Place, Unit};
use crate::crash::database::pool::{Buffer, Pool};
use crate::crash::database::relied::Relied;
use crate::crash::driver::{Invariant, Stop};

/// A checkpoint under way, and what of it is done.
#[derive(Debug, Clone, Copy)]
struct Checkpoint {
    redo: Lsn,
    /// Groups that were durable when the tier had been synced for it; none without a tier.
    synced: Sequence,
    phase: Phase,
}

#[derive(Debug, Clone, Copy)]
enum Phase {
    WritingPages,
    SyncingFiles,
    Superblock,
    ControlFile,
    Confirming,
}

/// From the start of the server to its end.
pub(super) struct Server<'w> {
    pub(super) world: &'w mut World,
    /// Each process's view of the tier; none when the server does without it.
    pub(super) hosts: Vec<Host>,
    pub(super) pool: Pool,
    checkpoint: Option<Checkpoint>,
    /// The redo pointer of the last checkpoint that began: pages not changed since are logged as images.
    pub(super) redo_begun: Lsn,
}

impl<'w> Server<'w> {
    pub(super) fn new(world: &'w mut World, hosts: Vec<Host>) -> Self {
        let redo_begun = world.machine.control.read().redo;
        Self { world, hosts, pool: Pool::default(), checkpoint: None, redo_begun }
    }

    pub(super) fn live(&mut self) -> Result<(), Stop> {
        self.redo()?;
        if self.world.life.random.chance(1, 2) {
            self.checkpoint_at_once()?;
        }
        // A server whose tier nobody needs goes on without flash, so it may not have noticed.
        self.world.life.power_is_on()?;
        self.world.life.opening = false;
        self.world.life.plan_cut(self.world.scenario.cut_after_max);
        self.check_all()?;
        for _ in 0..self.world.life.random.magnitude(300) {
            if !self.world.life.operates() {
                continue;
            }
            self.world.do_harm();
            self.operate()?;
            self.world.life.power_is_on()?;
        }
        self.world.life.ends();
        let in_order = self.world.life.random.chance(1, 2);
        if in_order {
            self.shut_down()?;
            self.world.life.power_is_on()?;
        }
        self.world.process_died(in_order);
        Ok(())
    }

    /// Any process of a server that has a tier.
    pub(super) fn host(&mut self) -> &Host {
        let number = self.world.life.random.below(self.hosts.len() as u64) as usize;
        &self.hosts[number]
    }

    fn operate(&mut self) -> Result<(), Stop> {
        self.world.life.operations += 1;
        match self.world.life.random.below(100) {
            0..40 => {
                let place = self.place();
                let changed = self.change_page(place);
                self.without_page(changed)
            }
            40..60 => {
                let place = self.place();
                self.check(place)
            }
            60..65 => self.commit(),
            65..68 => {
                let written = self.world.machine.log.write();
                self.world.done("write the log", written)
            }
            68..73 => match self.pool.victim(8, &mut self.world.life.random) {
                Some(victim) => self.evict(victim),
                None => Ok(()),
            },
            73..83 => self.work(),
            83..96 => self.step_checkpoint(),
            _ => self.drop_any(),
        }
    }

    fn place(&mut self) -> Place {
        let places = self.world.scenario.space.places();
        let places = if self.world.life.random.chance(1, 2) { places } else { places.div_ceil(4) };
        self.world.life.random.below(places.into()) as Place
    }

    /// Carries out a job, if there is one.
    pub(super) fn work(&mut self) -> Result<(), Stop> {
        let flash_alone = self.world.life.random.chance(1, 4);
        if self.hosts.is_empty() {
            return Ok(());
        }
        let host = self.host();
        if flash_alone {
            host.write_flash();
        } else {
            host.work();
        }
        // Whoever has carried out a job looks for that; others may come first.
        let failed = self.hosts[0].tier().failure().is_some();
        if failed && self.world.life.random.chance(1, 2) {
            self.tier_in_use()?;
        }
        Ok(())
    }

    /// Makes room for a page in the pool.
    pub(super) fn make_room(&mut self) -> Result<(), Stop> {
        while self.pool.len() >= self.world.scenario.buffers {
            let Some(victim) = self.pool.victim(8, &mut self.world.life.random) else { return Ok(()) };
            self.evict(victim)?;
        }
        Ok(())
    }

    fn evict(&mut self, buffer: Buffer) -> Result<(), Stop> {
        if buffer.dirty {
            self.write_out(buffer)?;
        } else {
            let (id, page) = (self.world.scenario.space.id(buffer.place), page_of(buffer));
            if !self.hosts.is_empty() {
                let host = self.host();
                if let Some(token) = host.token_unless_held(&id) {
                    host.offer(&id, &page, buffer.lsn, token);
                }
            }
        }
        self.pool.remove(buffer.place);
        Ok(())
    }

    /// Writes a dirty page to where it belongs; it stays in the pool, clean.
    fn write_out(&mut self, buffer: Buffer) -> Result<(), Stop> {
        let forced = self.world.machine.log.force(buffer.lsn);
        self.world.done("force the log", forced)?;
        let (id, page) = (self.world.scenario.space.id(buffer.place), page_of(buffer));
        let mut written = None;
        if self.tier_in_use()? {
            let host = self.host();
            let since = (!buffer.before_mark).then(|| host.tier().mark());
            let taken = host.write(&id, &page, buffer.lsn, since);
            written = self.must("write a page", taken)?;
        }
        match written {
            // It may have come after the look at what had to be saved.
            Some(Written::Taken) if self.tier_in_use()? => {}
            Some(Written::Refused) => self.write_past_tier(buffer.place, &page)?,
            Some(Written::Taken | Written::AlsoDisk) | None => self.write_disk(buffer.place, &page)?,
        }
        self.pool.cleaned(buffer.place);
        self.world.life.coverage.pages_written_out += 1;
        Ok(())
    }

    fn write_disk(&mut self, place: Place, page: &[u8]) -> Result<(), Stop> {
        let written = self.world.machine.disk.write_at(page, u64::from(place) * u64::from(PAGE));
        self.world.done("write to disk", written)
    }

    fn sync_disk(&mut self) -> Result<(), Stop> {
        let synced = self.world.machine.disk.flush();
        self.world.done("sync the disk", synced)
    }

    fn write_past_tier(&mut self, place: Place, page: &[u8]) -> Result<(), Stop> {
        let space = self.world.scenario.space;
        let id = space.id(place);
        let only = space.ids(&space.extent(Unit::Page, place, 1));
        loop {
            self.write_disk(place, page)?;
            let host = self.host();
            if !host.is_provably_clean() {
                self.sync_disk()?;
            }
            let host = self.host();
            let forgotten = host.forget(&id);
            let forgotten = self.must("forget a page", forgotten)?;
            if forgotten == Some(true) {
                return Ok(());
            }
            if forgotten.is_some() {
                let host = self.host();
                let awaited = host.await_stage_out(&only);
                self.must("await a stage-out", awaited)?;
            }
            if self.hosts.is_empty() {
                // Whoever gave the tier up may have written an older version.
                return self.write_disk(place, page);
            }
        }
    }

    /// Reads the page at `place`, which is not in the pool.
    pub(super) fn read(&mut self, place: Place) -> Result<Content, Stop> {
        let id = self.world.scenario.space.id(place);
        let mut page = vec![0; PAGE as usize];
        let found = if self.hosts.is_empty() { Found::OnDisk } else { self.read_tier(&id, &mut page) };
        match found {
            Found::Here => {}
            Found::OnDisk => {
                let read = self.world.machine.disk.read_at(&mut page, u64::from(place) * u64::from(PAGE));
                self.world.done("read the disk", read)?;
            }
            Found::Unknown => {
                return self.world.done("read the disk", Err("it does not say whether it has a page"));
            }
            Found::Lost | Found::Silent => {
                self.world.life.power_is_on()?;
                if self.world.damaged.is_some() {
                    return Err(Stop::Lost);
                }
                let text = format!("page {place} is lost, and nothing was damaged");
                return Err(Stop::violated(Invariant::NoUnprovokedError, text));
            }
        }
        self.world.life.power_is_on()?;
        Ok(contents::identify(&page, place))
    }

    /// As a server does: half of the pages in a call for several, and what that leaves open by themselves.
    fn read_tier(&mut self, id: &PageId, page: &mut [u8]) -> Found {
        if id.relation_parts()[4] % 2 == 0 {
            match self.host().read_at_once(&[*id], &mut [&mut *page])[..] {
                [AtOnce::FromMemory | AtOnce::FromFlash] => return Found::Here,
                [AtOnce::OnDisk] => return Found::OnDisk,
                _ => {}
            }
        }
        self.host().read(id, page)
    }

    /// Brings a page into the pool that must be there, and compares it with what it must be. Returns its
    /// version.
    pub(super) fn fetch(&mut self, place: Place) -> Result<u32, Stop> {
        if let Some(buffer) = self.pool.touch(place) {
            return Ok(buffer.version);
        }
        self.make_room()?;
        let Some(expected) = self.world.history.now().version(place) else {
            return Err(Stop::violated(Invariant::Assertion, "a page was asked for that is not there"));
        };
        let found = match self.read(place) {
            Err(Stop::Lost) => return Err(self.lost(place, expected)),
            read => read?,
        };
        if found != Content::Version(expected) {
            self.world.note_older(found);
            let text = format!("page {place} is {found:?} instead of version {expected}");
            return Err(Stop::violated(Invariant::Versions, text));
        }
        let lsn = self.world.history.lsn(expected).unwrap_or(0);
        self.pool.put(place, expected, lsn, false);
        Ok(expected)
    }

    /// A page was reported as lost: a violation if disk has its newest version. Where flash was changed and
    /// not only spoilt, the tier may take an older one for that.
    fn lost(&self, place: Place, newest: u32) -> Stop {
        let mut page = vec![0; PAGE as usize];
        let sectors = self.world.harm.as_ref().is_some_and(|harm| harm.sectors);
        let read = self.world.machine.disk.read_at(&mut page, u64::from(place) * u64::from(PAGE));
        if sectors && read.is_ok() && contents::identify(&page, place) == Content::Version(newest) {
            let text = format!("page {place} is lost, and disk has its newest version {newest}");
            return Stop::violated(Invariant::DamageNoticed, text);
        }
        Stop::Lost
    }

    pub(super) fn check(&mut self, place: Place) -> Result<(), Stop> {
        if self.world.history.now().version(place).is_some() {
            let fetched = self.fetch(place).map(|_| ());
            return self.without_page(fetched);
        }
        let id = self.world.scenario.space.id(place);
        if !self.hosts.is_empty() && self.host().holds(&id) {
            self.world.note_older(Content::Zeros);
            let text = format!("page {place} was dropped, and the tier has it");
            return Err(Stop::violated(Invariant::NoResurrection, text));
        }
        Ok(())
    }

    /// Where a page that cannot be read costs that page alone, the server goes on.
    fn without_page(&mut self, done: Result<(), Stop>) -> Result<(), Stop> {
        match done {
            Err(Stop::Lost)
                if self.world.harm.is_some()
                    && self
                        .hosts
                        .first()
                        .is_some_and(|host| host.tier().sync_mode() == SyncMode::Durable) =>
            {
                self.world.life.coverage.damage_reported += 1;
                Ok(())
            }
            done => done,
        }
    }

    /// Every page, and the tier's own rules.
    pub(super) fn check_all(&mut self) -> Result<(), Stop> {
        if !self.hosts.is_empty() {
            self.host().tier().check();
        }
        (0..self.world.scenario.space.places()).try_for_each(|place| self.check(place))
    }

    fn drop_any(&mut self) -> Result<(), Stop> {
        let unit =
            *self.world.life.random.pick(&[Unit::Page, Unit::Page, Unit::Blocks, Unit::Tail, Unit::Relation]);
        let (place, count) = (self.place(), self.world.life.random.magnitude(8) as u32);
        let extent = self.world.scenario.space.extent(unit, place, count);
        self.drop_extent(extent)
    }

    /// What a drop does to pool, tier and disk; also in redo.
    pub(super) fn forget_extent(&mut self, extent: &Extent, lsn: Lsn) -> Result<(), Stop> {
        self.pool.forget(extent);
        let space = self.world.scenario.space;
        if self.tier_in_use()? {
            let dropped = self.host().drop_range(&space.ids(extent));
            self.must("drop a range", dropped)?;
            // Whoever gives the tier up may be writing just these pages.
            self.tier_in_use()?;
        }
        if self.world.life.random.chance(1, 2) {
            let (offset, len) = (u64::from(extent.first), u64::from(extent.count));
            let discarded = self.world.machine.disk.discard(offset * u64::from(PAGE), len * u64::from(PAGE));
            self.world.done("discard", discarded)?;
        }
        if extent.unit == Unit::Relation {
            let relation = space.relation_of(extent.first) as usize;
            self.world.dropped[relation] = self.world.dropped[relation].max(lsn);
        }
        Ok(())
    }

    /// Begins a checkpoint, or takes the one under way a step further.
    fn step_checkpoint(&mut self) -> Result<(), Stop> {
        let Some(Checkpoint { redo, mut synced, phase }) = self.checkpoint else {
            let redo = self.world.machine.log.end();
            self.pool.mark();
            self.redo_begun = redo;
            if self.tier_in_use()? {
                self.host().checkpoint_marked();
            }
            self.world.life.tell(|| format!("checkpoint {redo} begins"));
            self.checkpoint = Some(Checkpoint { redo, synced: Sequence::ZERO, phase: Phase::WritingPages });
            return Ok(());
        };
        let phase = match phase {
            Phase::WritingPages => {
                if let Some(buffer) = self.pool.before_mark(&mut self.world.life.random) {
                    return self.write_out(buffer);
                }
                let all = self.world.life.random.chance(1, 8);
                if self.tier_in_use()? {
                    let written = self.host().checkpoint_written(all);
                    self.must("write a checkpoint", written)?;
                    synced = self.hosts.first().map_or(Sequence::ZERO, |host| host.tier().durable_groups());
                }
                Phase::SyncingFiles
            }
            Phase::SyncingFiles => {
                self.sync_disk()?;
                Phase::Superblock
            }
            Phase::Superblock => {
                let forced = self.world.machine.log.force(redo);
                self.world.done("force the log", forced)?;
                if self.tier_in_use()? {
                    let synced = self.host().checkpoint_synced(redo_point(redo));
                    self.must("sync a checkpoint", synced)?;
                }
                Phase::ControlFile
            }
            Phase::ControlFile => {
                let world = &mut *self.world;
                let control = super::machine::Control { redo, ..world.machine.control.read() };
                let replaced = world.machine.control.replace(control);
                world.done("replace the control file", replaced)?;
                world.history.redo_moved(&world.machine.log, redo);
                world.life.coverage.checkpoints += 1;
                world.relied = world.superblock().map(|superblock| Relied::on(&superblock, synced, redo));
                Phase::Confirming
            }
            Phase::Confirming => {
                if self.tier_in_use()? {
                    let done = self.host().checkpoint_done(redo_point(redo));
                    self.must("complete a checkpoint", done)?;
                }
                self.checkpoint = None;
                if !self.world.machine.control.read().files_lack_pages {
                    self.world.check_disk_alone("after a checkpoint of a server whose files lack nothing")?;
                }
                return Ok(());
            }
        };
        self.checkpoint = Some(Checkpoint { redo, synced, phase });
        Ok(())
    }

    fn finish_checkpoint(&mut self) -> Result<(), Stop> {
        while self.checkpoint.is_some() {
            self.step_checkpoint()?;
        }
        Ok(())
    }

    fn checkpoint_at_once(&mut self) -> Result<(), Stop> {
        self.finish_checkpoint()?;
        self.step_checkpoint()?;
        self.finish_checkpoint()
    }

    /// Leaves the server in order: a checkpoint, and then the tier.
    fn shut_down(&mut self) -> Result<(), Stop> {
        self.checkpoint_at_once()?;
        let drain = self.world.life.random.chance(1, 2);
        if !self.tier_in_use()? {
            return self.world.check_without_tier();
        }
        let closed = self.host().close(drain);
        let Some(closed) = self.must("close the tier", closed)? else {
            return self.world.check_without_tier();
        };
        self.world.life.coverage.closes += 1;
        if !closed.current {
            return Ok(());
        }
        if self.world.machine.control.read().files_lack_pages {
            let text = "the tier was drained, and the control file says that the files lack pages";
            return Err(Stop::violated(Invariant::DiskAlone, text));
        }
        self.world.check_disk_alone("after a shutdown that drained the tier")
    }
}

/// A page of the pool.
fn page_of(buffer: Buffer) -> Vec<u8> {
    let mut page = vec![0; PAGE as usize];
    contents::fill(&mut page, buffer.place, buffer.version);
    page
}
