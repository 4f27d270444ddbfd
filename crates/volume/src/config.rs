//! What a volume can be told.

/// Which replacement design the tier follows (FaCE, sections 3 and 4).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Design {
    /// Multi-version FIFO, page by page.
    FaceBasic,
    /// Group replacement.
    FaceGr,
    /// Group replacement with second chances.
    FaceGsc,
}

/// Which pages the tier takes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Admission {
    /// Pages read from disk only; writes go to disk.
    Clean,
    /// Written pages only.
    Dirty,
    /// Both.
    Both,
}

/// Where a written page must be before it counts as safe.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SyncMode {
    /// On disk: the flash device may be lost at any time.
    Through,
    /// On flash: the flash device is part of the database.
    Durable,
}

/// Shape and policy of a tier.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TierConfig {
    /// Page size in bytes: a power of two from 4,096 to 32,768.
    pub page_size: u32,
    /// Number of page-sized slots on flash.
    pub frames: u64,
    /// Pages written together in one sequential write.
    pub group_pages: u32,
    /// Groups that fit into staging memory.
    pub staging_groups: u32,
    /// Frames that one metadata segment describes.
    pub segment_frames: u32,
    /// Independent parts of the directory.
    pub shards: u32,
    /// Replacement.
    pub design: Design,
    /// Admission.
    pub admission: Admission,
    /// Sync mode.
    pub sync_mode: SyncMode,
    /// Most pages of a group that may get a second chance.
    pub survivors_max: u32,
    /// Frames staged out between two syncs of the disk.
    pub band_frames: u64,
}

impl TierConfig {
    /// A tier of `frames` pages of `page_size` bytes with the defaults: `face-gsc`, `both`, `durable`.
    pub fn new(page_size: u32, frames: u64) -> Self {
        Self {
            page_size,
            frames,
            group_pages: 64,
            staging_groups: 8,
            segment_frames: 16_384,
            shards: 16,
            design: Design::FaceGsc,
            admission: Admission::Both,
            sync_mode: SyncMode::Durable,
            survivors_max: 32,
            band_frames: (frames / 16).max(64),
        }
    }
}

/// What a volume is made of besides its devices.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct VolumeConfig {
    /// The tier. When a formatted tier is opened its shape comes from flash; design, admission and sync mode from here.
    pub tier: TierConfig,
    /// Threads that carry out the tier's jobs. With 0 the callers do it themselves, one thread at a time being enough,
    /// and the volume is deterministic: the same calls cause the same I/O.
    pub workers: usize,
    /// Where the identities of a newly formatted tier come from: `None` asks the operating system for random bytes, a
    /// seed makes them reproducible.
    pub identity_seed: Option<u64>,
}

impl VolumeConfig {
    /// A volume with one worker.
    pub fn new(tier: TierConfig) -> Self {
        Self { tier, workers: 1, identity_seed: None }
    }
}

/// How a file is attached.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct AttachOptions {
    /// Replaces the first bytes on disk while the file is not current there.
    pub guard: Option<HeaderGuard>,
}

/// Bytes that stand at the start of a file on disk while its newest pages are in the tier only, so that software which
/// does not know the tier refuses the file instead of reading old pages. Readers of the volume never see them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HeaderGuard {
    /// What stands there: 1 to 512 bytes, so that it lies in one sector and is written whole or not at all.
    pub bytes: Vec<u8>,
}
