//! What redo and changes ask of this database.

use super::contents::{self, Content};
use super::log::Lsn;
use super::logging::{Logging, Parts};
use super::places::{Extent, Place};
use super::reading::Source;
use super::scenario::Tearing;
use super::server::Server;
use crate::crash::driver::{NoPower, Stop};

impl Logging for Server<'_> {
    type Source = Source;

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
        self.world.may_use(place)
    }

    /// As PostgreSQL with full_page_writes: the first change after a redo pointer.
    fn logs_image(&self, page_lsn: Lsn) -> bool {
        page_lsn <= self.redo_begun && self.world.scenario.tearing == Tearing::FullPageImages
    }

    fn forget(&mut self, extent: &Extent, lsn: Lsn) -> Result<(), Stop> {
        self.forget_extent(extent, lsn)
    }

    fn carry_out_a_job(&mut self) -> Result<(), Stop> {
        self.work().map(|_| ())
    }

    fn comes_to_record(&mut self) {
        self.world.waits = 0;
    }

    fn read_for_redo(&mut self, place: Place) -> Result<(Content, Source), Stop> {
        self.read(place)
    }

    fn has_found(&mut self, found: Content, source: Option<Source>) {
        if let Some(source) = source {
            self.world.note_older(found, source);
        }
    }

    fn describe_found(&self, place: Place, found: Content, source: Option<Source>) -> String {
        let page = if source.is_some() { &self.world.page[..] } else { &[] };
        format!("page {place} from {source:?} with {found:?}: {}", contents::describe(page, place))
    }
}
