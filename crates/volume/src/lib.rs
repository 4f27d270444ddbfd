//! The in-process host of the page tier: positional reads and writes, and `sync` as the durability barrier,
//! over backing devices ("the disk") and one flash device.
//!
//! A [`Volume`] is one flash tier and the files whose pages it holds. Each file is [attached](Volume::attach)
//! and then used through its [`VolumeFile`]. What was written before a [`VolumeFile::sync`] returned survives
//! anything but the loss of a device that is not expendable: in sync mode `through` the disk alone is enough,
//! in sync mode `durable` the flash device is part of the database.

#![deny(unsafe_code)]

mod config;

mod error;

mod statistics;

mod sidecar;

mod host_metadata;

mod path_table;

mod identity;

mod shared;

mod health;

mod signal;
mod start;

mod batch;

mod guard;

mod backing;

mod recovery_threads;

mod registry;

mod core;

mod open;

mod agreed;

mod attach;

mod parted;

mod marks;

mod ready;

mod reread;

mod read;

mod write;

mod forget;

mod give_up;

mod truncate;

mod abandon;

mod jobs;

mod quiesce;

mod pacing;

mod resize;

mod online;

mod replace;

mod record;

mod file;

mod block_device;

mod volume;

pub use block_device::BlockDevice;
pub use config::{AttachOptions, GUARD_NAME_BYTES, HeaderGuard, VolumeConfig};
pub use error::{VolumeError, VolumeErrorKind};
pub use file::VolumeFile;
pub use forget::Forgotten;
pub use mezzanine_engine::format::Nonce;
pub use mezzanine_engine::{Admission, Design, PolicyParameters, SyncMode, TierConfig};
pub use mezzanine_trace::Written as Recorded;
pub use open::{create_flash, create_flash_for, largest_on_zones, open_flash};
pub use path_table::known_files;
pub use recovery_threads::RecoveryThreads;
pub use registry::OpenReport;
pub use replace::ReplaceOptions;
pub use resize::{ResizeProgress, ResizeWanted};
pub use sidecar::{MemorySidecar, PathSidecar, Sidecar, SidecarState, SidecarStore, give_to_owner_of};
pub use statistics::VolumeStatistics;
pub use volume::{Volume, VolumeState};
