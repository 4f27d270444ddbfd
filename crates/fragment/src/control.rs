//! The cache's shared state outside of its tables.

use mezzanine_ground::region::{StateWord, Word, states};

use crate::config::WriteMode;
use crate::map::MapControl;
use crate::planner::Planner;
use crate::pools::Pools;
use crate::statistics::Counters;
use crate::yielding::Yielding;

states! {
    /// [`WriteMode`], as it lies in a region.
    pub(crate) enum Mode {
        Through = 0,
        Around = 1,
    }
}

impl From<WriteMode> for Mode {
    fn from(mode: WriteMode) -> Self {
        match mode {
            WriteMode::Through => Self::Through,
            WriteMode::Around => Self::Around,
        }
    }
}

/// Everything that there is one of.
#[repr(C, align(64))]
pub(crate) struct Control {
    pub(crate) map: MapControl,
    pub(crate) planner: Planner,
    pub(crate) pools: Pools,
    pub(crate) write_mode: StateWord<Mode>,
    /// Workers that may begin a population.
    pub(crate) population_workers: Word,
    /// Of [`Admission`](crate::Admission).
    pub(crate) admit_reads: Word,
    pub(crate) admit_writes: Word,
    /// Rises whenever there may be a job that there was not before.
    pub(crate) work: Word,
    /// Copies handed out since a population was last asked for.
    pub(crate) copies_in_a_row: Word,
    pub(crate) yielding: Yielding,
    pub(crate) counters: Counters,
}
