//! Moments of a life that are kept, and what is known of them.

use std::sync::Arc;

use mezzanine_volume::TierConfig;

use super::machine::Snapshot;
use super::model::{Drained, FileModel};

/// All bytes of each file.
pub(super) type Contents = Vec<Vec<u8>>;

/// A state of the machine from before, and what its files held.
pub(super) struct Backup {
    pub(super) snapshot: Snapshot,
    pub(super) contents: Contents,
}

/// The machine at one moment, and what is known of it.
pub(super) struct Moment {
    /// Ascending in every life.
    pub(super) id: usize,
    pub(super) snapshot: Snapshot,
    pub(super) models: Vec<FileModel>,
    pub(super) tier: TierConfig,
    pub(super) drained: Drained,
    pub(super) disk_first: bool,
    pub(super) mode_in_doubt: bool,
    pub(super) closed: bool,
    pub(super) accepted_only: bool,
}

/// What lies before a moment in a life.
struct Before {
    /// The moment of the flash device.
    flash: usize,
    /// Those of the files, where they are others: the life goes on with what was put together.
    files: Option<Vec<usize>>,
}

/// The moments of all lives so far.
#[derive(Default)]
pub(super) struct Histories {
    pub(super) moments: Vec<Arc<Moment>>,
    /// For each moment ever noted, by number, what lies before it. Number 0 is the beginning.
    before: Vec<Before>,
    /// The last moment of the present life.
    pub(super) now: usize,
    /// Those of the files until the next one, where they are others.
    pub(super) files_now: Option<Vec<usize>>,
    pub(super) openings: u64,
    /// What was put together was accepted in the present sync mode, and not opened since: another mode may
    /// refuse it.
    pub(super) accepted_only: bool,
    /// How often a disk was given another state than its sidecar saw.
    pub(super) disks_replaced: u64,
}

impl Histories {
    /// Whether the one moment lies before the other in the life of the flash device, or is it.
    pub(super) fn is_before(&self, earlier: usize, later: usize) -> bool {
        let mut at = later;
        while at > earlier {
            at = self.flash_before(at);
        }
        at == earlier
    }

    /// The same in the life of a file. They differ once a flash device goes on with an older file that lacks
    /// nothing: what became of the file in between is another copy's life then.
    pub(super) fn is_before_in_file(&self, file: usize, earlier: usize, later: usize) -> bool {
        let mut at = later;
        while at > earlier {
            let before = self.before.get(at - 1).and_then(|before| before.files.as_ref());
            at = before.map_or_else(|| self.flash_before(at), |files| files[file]);
        }
        at == earlier
    }

    /// The last moment that the lives of two flash devices have in common.
    pub(super) fn last_common(&self, one: usize, other: usize) -> usize {
        let mut at = one.min(other);
        while !(self.is_before(at, one) && self.is_before(at, other)) {
            at = self.flash_before(at);
        }
        at
    }

    fn flash_before(&self, moment: usize) -> usize {
        self.before.get(moment - 1).map_or(0, |before| before.flash)
    }

    /// The number of a moment that is noted now.
    pub(super) fn next(&mut self) -> usize {
        self.before.push(Before { flash: self.now, files: self.files_now.take() });
        self.now = self.before.len();
        self.now
    }
}
