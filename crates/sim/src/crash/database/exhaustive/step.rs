//! The grammar of the traces of a database: what one step does.

use crate::crash::database::logging::Logging;
use crate::crash::database::places::{Place, Unit};
use crate::crash::database::server::Server;
use crate::crash::driver::Stop;
use crate::crash::driver::exhaustive::subject::steps;

/// Pages that one step fills.
const FILLED: Place = 6;

/// Which page the steps in the middle of the relation are about; the others are about its first page.
const FAR: Place = 3;

/// The relation that the traces are about, and the one that is loaded.
const RELATION: u32 = 0;
const LOADED: u32 = 1;

/// Processes that take a job and die.
const DOOMED: [u32; 2] = [7, 8];

steps! {
    Change = 'c' "change the first page, which stays in the pool",
    Write = 'w' "change the first page, and let it leave",
    WriteFar = 'v' "change a page in the middle, and let it leave",
    Fill = 'f' "change the first six pages, one after the other, and let each leave",
    Read = 'r' "read the page in the middle, and let it leave",
    Commit = 'o' "commit",
    Jobs = 'j' "carry out all jobs",
    Orphan = 'y' "let a process die with a job untouched, another with a job done, and then carry out all",
    Drop = 'd' "drop the page in the middle",
    DropRelation = 'e' "drop the relation",
    Load = 'l' "load another relation without a log",
    Begin = 'm' "begin a checkpoint",
    Checkpoint = 'p' "a checkpoint",
    Drain = 'x' "a checkpoint after which disk and log suffice",
    Kill = 'k' "kill the server and start it again",
    Close = 'z' "shut the server down and start it again",
}

impl Step {
    /// Whether doing it twice in a row is the same as doing it once.
    pub(super) fn is_idempotent(self) -> bool {
        matches!(
            self,
            Self::Read | Self::Jobs | Self::Orphan | Self::Begin | Self::Drain | Self::Kill | Self::Close
        )
    }

    /// Whether the step ends the session.
    pub(super) fn ends(self) -> bool {
        matches!(self, Self::Kill | Self::Close)
    }

    /// Carries the step out.
    pub(super) fn take(self, server: &mut Server<'_>) -> Result<(), Stop> {
        server.world.waits = 0;
        match self {
            Self::Change => server.change_page(0),
            Self::Write => change_and_evict(server, 0),
            Self::WriteFar => change_and_evict(server, FAR),
            Self::Fill => (0..FILLED).try_for_each(|place| change_and_evict(server, place)),
            Self::Read => {
                server.check(FAR)?;
                evict(server, FAR)
            }
            Self::Commit => server.commit(),
            Self::Jobs => server.settle(),
            Self::Orphan => {
                server.job_outlives_owner(DOOMED[0], false)?;
                server.job_outlives_owner(DOOMED[1], true)?;
                server.settle()
            }
            Self::Drop => server.drop_extent(server.world.scenario.space.extent(Unit::Page, FAR, 1)),
            Self::DropRelation => server.drop_extent(server.world.scenario.space.relation(RELATION)),
            Self::Load => server.load_relation(LOADED),
            Self::Begin => {
                if server.checkpoint.is_none() {
                    server.begin_checkpoint_that(false);
                }
                Ok(())
            }
            Self::Checkpoint | Self::Drain => {
                server.finish_checkpoint()?;
                server.begin_checkpoint_that(self == Self::Drain);
                server.finish_checkpoint()
            }
            Self::Kill => Ok(()),
            Self::Close => server.shut_down(),
        }
    }
}

pub(super) fn change_and_evict(server: &mut Server<'_>, place: Place) -> Result<(), Stop> {
    server.change_page(place)?;
    evict(server, place)
}

pub(super) fn evict(server: &mut Server<'_>, place: Place) -> Result<(), Stop> {
    server.pool.find(place).map_or(Ok(()), |buffer| server.evict(buffer))
}
