//! What a volume can be told.

use mezzanine_engine::{Admission, SyncMode, TierConfig};

/// What a volume is made of besides its devices.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct VolumeConfig {
    /// The tier. When a formatted tier is opened its geometry comes from flash; design, admission with what
    /// belongs to it, and sync mode from here.
    pub tier: TierConfig,
    /// Threads that carry out the tier's jobs. With 0 the callers do it themselves and the volume is
    /// deterministic: the same calls cause the same I/O.
    pub workers: usize,
    /// Where the identities of a newly formatted tier come from: `None` asks the operating system for random
    /// bytes, a seed makes them reproducible.
    pub identity_seed: Option<u64>,
    /// Where the nonce of this opening comes from, which tells copies of one tier apart that were both
    /// opened: `None` takes what `identity_seed` says. Two copies that are opened with one seed cannot
    /// be told apart.
    pub nonce_seed: Option<u64>,
    /// The volume is opened to be drained: a tier of an older version of the format that this build can
    /// still read is opened as well.
    pub to_drain: bool,
}

impl VolumeConfig {
    /// A volume with one worker.
    pub fn new(tier: TierConfig) -> Self {
        Self { tier, workers: 1, identity_seed: None, nonce_seed: None, to_drain: false }
    }
}

/// Whether a tier of this configuration can never hold the only copy of a page.
pub(crate) fn provably_clean(config: &TierConfig) -> bool {
    config.sync_mode == SyncMode::Through || config.admission == Admission::Clean
}

/// How a file is attached.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct AttachOptions {
    /// Replaces the first bytes on disk while the file is not current there.
    pub guard: Option<HeaderGuard>,
}

/// Bytes that stand at the start of a file on disk while its newest pages are in the tier only, so that
/// software which does not know the tier refuses the file instead of reading old pages. Readers of the volume
/// never see them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HeaderGuard {
    /// What stands there: 1 to 512 bytes, so that it lies in one sector and is written whole or not at all.
    pub bytes: Vec<u8>,
}

/// Bytes that follow the guard on disk, if its sector has room for them: the identity of the tier and the
/// number of the file in it, so that files which have changed places are told apart.
pub const GUARD_NAME_BYTES: usize = 20;

/// Longest guard in bytes: what every disk writes as one.
pub(crate) const GUARD_BYTES_MAX: usize = 512;
