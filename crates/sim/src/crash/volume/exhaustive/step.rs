//! The grammar of the traces: what one step does.

use crate::crash::driver::Stop;
use crate::crash::driver::exhaustive::subject::steps;
use crate::crash::volume::checkers::pages;
use crate::crash::volume::model::Drained;
use crate::crash::volume::model::FileModel;
use crate::crash::volume::operations;
use crate::crash::volume::world::{Session, World};

/// The file that all traces are about.
pub(super) const FILE: usize = 0;

/// Pages that one step fills.
const FILLED: u64 = 6;

/// Which page the steps in the middle of the file are about; the others are about its first page, which a
/// guard may cover.
const FAR: u64 = 3;

steps! {
    Write = 'w' "write the first page",
    WriteFar = 'v' "write a page in the middle",
    WritePart = 'p' "write a part of the first page",
    Fill = 'f' "write the first six pages, one after the other",
    Read = 'r' "read the page in the middle",
    Sync = 's' "sync",
    Jobs = 'j' "carry out all jobs",
    Discard = 'd' "discard the page in the middle",
    Shrink = 't' "cut the last page off",
    Grow = 'g' "lengthen the file by half a page",
    Drain = 'x' "drain",
    Kill = 'k' "kill the process and open again",
    Close = 'c' "close and open again",
    CloseDrained = 'z' "close drained and open again",
}

impl Step {
    /// Whether doing it twice in a row is the same as doing it once.
    pub(super) fn is_idempotent(self) -> bool {
        matches!(
            self,
            Self::Read
                | Self::Sync
                | Self::Jobs
                | Self::Drain
                | Self::Kill
                | Self::Close
                | Self::CloseDrained
        )
    }

    /// Carries the step out; those that end the session are [`Self::end`]'s.
    pub(super) fn take(self, world: &mut World, session: &Session) -> Result<(), Stop> {
        let page = world.scenario.page_bytes();
        let len = world.models[FILE].len();
        let most = world.scenario.pages_max * page;
        match self {
            Self::Write => operations::write(world, session, FILE, 0, page),
            Self::WriteFar => operations::write(world, session, FILE, FAR * page, page),
            Self::WritePart => operations::write(world, session, FILE, 300, 700),
            Self::Fill => (0..FILLED)
                .try_for_each(|number| operations::write(world, session, FILE, number * page, page)),
            Self::Read => pages::read(world, session, FILE, FAR, 1),
            Self::Sync => operations::sync(world, session, FILE),
            Self::Jobs => {
                operations::settle(world, session);
                Ok(())
            }
            Self::Discard if len > FAR * page => {
                let count = page.min(len - FAR * page);
                operations::discard_range(world, session, FILE, FAR * page, count)
            }
            Self::Shrink if len > 0 => operations::shrink_to(world, session, FILE, (len - 1) / page * page),
            Self::Grow if len + page / 2 <= most => {
                operations::extend_to(world, session, FILE, len + page / 2)
            }
            Self::Drain => operations::drain(world, session),
            _ => Ok(()),
        }?;
        world.life.power_is_on()
    }

    /// Whether the step ends the session.
    pub(super) fn ends(self) -> bool {
        matches!(self, Self::Kill | Self::Close | Self::CloseDrained)
    }

    /// Ends the session in the manner of the step.
    pub(super) fn end(self, world: &mut World, session: &Session) -> Result<(), Stop> {
        match self {
            Self::Close => world.done("close", session.volume.close())?,
            Self::CloseDrained => world.done("close drained", session.volume.close_drained())?,
            _ => {
                world.models_crashed();
                return Ok(());
            }
        }
        world.models.iter_mut().for_each(FileModel::sync_acknowledged);
        if self == Self::CloseDrained {
            world.drained = Drained::Files;
        }
        Ok(())
    }
}
