//! Whether a tier may be discarded.

use mezzanine_engine::format::{Superblock, TierState};
use mezzanine_engine::{Admission, SyncMode, TierConfig};

/// Whether a tier of this configuration never holds the only copy of a page.
pub fn provably_clean(config: &TierConfig) -> bool {
    config.sync_mode == SyncMode::Through || config.admission == Admission::Clean
}

/// Whether nothing is lost if the tier is discarded: every page that matters is on disk, or can be redone
/// from the log.
pub(crate) fn expendable(superblock: &Superblock) -> bool {
    superblock.state == TierState::Drained
        || provably_clean(&superblock.config)
        || superblock.config.sync_mode == SyncMode::Drained
}
