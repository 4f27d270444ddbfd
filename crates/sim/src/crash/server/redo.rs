//! What redo and changes ask of this server.

use super::running::Server;
use crate::crash::database::contents::Content;
use crate::crash::database::log::Lsn;
use crate::crash::database::logging::{Logging, Parts};
use crate::crash::database::places::{Extent, Place};
use crate::crash::driver::{NoPower, Stop};

impl Logging for Server<'_> {
    /// The host does not say where it has a page from.
    type Source = ();

    fn parts(&mut self) -> Parts<'_> {
        let world = &mut *self.world;
        Parts {
            redo: world.machine.control.read().redo,
            life: &mut world.life,
            log: &mut world.machine.log,
            history: &mut world.history,
            pool: &mut self.pool,
            acknowledged: &mut world.acknowledged,
        }
    }

    fn forced(&self, result: Result<(), NoPower>) -> Result<(), Stop> {
        self.world.done("force the log", result)
    }

    fn bring(&mut self, place: Place) -> Result<u32, Stop> {
        self.fetch(place)
    }

    fn make_room_in_pool(&mut self) -> Result<(), Stop> {
        self.make_room()
    }

    fn may_make(&self, place: Place) -> bool {
        let relation = self.world.scenario.space.relation_of(place) as usize;
        self.world.dropped[relation] <= self.world.machine.control.read().redo
    }

    fn logs_image(&self, page_lsn: Lsn) -> bool {
        page_lsn <= self.redo_begun && !self.world.scenario.atomic_disk
    }

    fn forget(&mut self, extent: &Extent, lsn: Lsn) -> Result<(), Stop> {
        self.forget_extent(extent, lsn)
    }

    fn carry_out_a_job(&mut self) -> Result<(), Stop> {
        self.work()
    }

    fn read_for_redo(&mut self, place: Place) -> Result<(Content, ()), Stop> {
        self.read(place).map(|found| (found, ()))
    }

    fn has_found(&mut self, found: Content, _source: Option<()>) {
        self.world.note_older(found);
    }

    fn describe_found(&self, place: Place, found: Content, _source: Option<()>) -> String {
        format!("page {place} as {found:?}")
    }
}
