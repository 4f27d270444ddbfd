//! What a flash tier stands on: files, block devices, memory, and timing models of disks and drives.
//!
//! Everything above speaks to a [`Device`]: positional reads and writes, a flush as the durability barrier,
//! discard. Capabilities are asked, not assumed. A batch of [`Request`]s is one queue submission, so that a
//! caller who has several things to do at once gets the parallelism of the device without threads of its own.
//!
//! *Architecture invariant:* nothing here knows about pages, tiers or databases.

mod error;

mod buffer;

mod device;

mod ahead;

pub mod zones;

pub mod two_zones;

mod mapping;

mod shared;

pub mod fork;

pub mod file;

pub mod memory;

mod huge_pages;

mod runs;

mod null;

mod sleeping;

pub mod model;

pub mod drive;

pub use ahead::ReadsAhead;
pub use buffer::{AlignedBuf, BUFFER_ALIGNMENT};
pub use device::{Capabilities, Device, Request};
pub use drive::{Attachment, Drive, PoweredDrive, Statistics};
pub use error::{DeviceError, DeviceErrorKind};
pub use file::{DirectIo, FileDevice, IoEngine, OpenOptions};
pub use huge_pages::prefer_huge_pages;
pub use memory::MemoryDevice;
pub use model::Model;
pub use null::NullDevice;
pub use runs::{Run, runs};
pub use shared::{Setup, SharedMemory};
pub use sleeping::sleep_at_locks;
pub use two_zones::TwoZones;
pub use zones::{Zone, Zones};
