//! The threaded host of the fragment cache: a [`CachedVolume`] is a [`Device`](mezzanine_device::Device) that
//! stands on a backing device and is served from a cache device where that has the bytes.
//!
//! A [`BlockCache`] is one cache device with the backing devices of its volumes. It does the engine's jobs
//! (populations and copies of writes) on threads of its own; requests run on the threads of their callers.
//! What is cached, and when, is [`mezzanine_fragment`]'s affair, and SCE's ("Flash-Conscious Cache Population
//! for Enterprise Database Workloads", ADMS 2014, section 3).
//!
//! ```
//! use std::sync::Arc;
//!
//! use mezzanine_cached::{BlockCache, Settings};
//! use mezzanine_device::{Device, MemoryDevice};
//! use mezzanine_fragment::Config;
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let (disk, flash) = (Arc::new(MemoryDevice::new(64 << 20)), Arc::new(MemoryDevice::new(16 << 20)));
//! let geometry = Config::new(flash.len(), &[disk.len()]).geometry()?;
//! let cache = BlockCache::start(geometry, flash, vec![Some(disk)], Settings::default())?;
//! let volume = cache.volume(0).expect("its backing device was given");
//! volume.write_at(&[7; 4096], 8192)?;
//! volume.flush()?;
//! let mut found = [0; 4096];
//! volume.read_at(&mut found, 8192)?;
//! assert_eq!(found, [7; 4096]);
//! # Ok(())
//! # }
//! ```
//!
//! What holds, numbered for reference:
//! 1. *The backing device has everything.* A write, discard or flush is answered with what the backing device
//!    said of it. A flush, and a write that is to be durable, are the backing device's alone.
//! 2. *The cache device fails nobody.* Whatever it refuses is read from the backing device, and counted with
//!    its reason. The backing device's errors are the caller's.
//! 3. *Gone is gone.* A cache device that has vanished, lost its power or become shorter may come back with
//!    less than it had acknowledged, so it is not used again ([`Health::Lost`]).
//! 4. *Ends are bounded.* Threads end with the last handle, each after the request that it is in. One that a
//!    device does not give back is waited for no longer than [`Settings::end_within`]; it keeps what it
//!    stands on until it ends. A write that waits for its mark when a cache was closed fails, unsent.
//! 5. *A map is vouched for.* A write waits until the mark of its fragment is durable, if it needs one (the
//!    engine's invariant 10), so a map counts after a crash as well, as long as a [`Voucher`] says so. Who
//!    opens a cache ([`BlockCache::recover`]) has noted before, durably, that it is in use, and by which
//!    opening. When the cache device does not take a mark the voucher is revoked, durably, and then nothing
//!    waits for marks any more. While that is refused, writes that need a mark wait, for as long as the cache
//!    is open.
//! 6. *Without a voucher* no write waits, and the map counts after an orderly end alone: when
//!    [`BlockCache::close`] has said that it is whole, and nothing comes after it.

#![forbid(unsafe_code)]

mod error;

mod settings;

mod fingerprint;

mod voucher;

mod identity;

mod superblocks;

mod health;

mod latency;

mod statistics;

mod pace;

mod patience;

mod marks;

mod parking;

mod turns;

mod host;

mod map;

mod read;

mod batch;

mod volume;

mod jobs;

mod compare;

mod resize;

pub use compare::{Compared, Difference, Sampled};
pub use error::{CachedError, CachedErrorKind};
pub use fingerprint::{FINGERPRINT_BYTES, Fingerprint};
pub use health::{DeviceFailures, Health};
pub use host::{BlockCache, Drained};
pub use identity::{Attachment, Backing, Label, opening_of, set_opening};
pub use latency::{Latency, Served};
pub use map::ReadMap;
pub use marks::Survival;
pub use resize::{Resized, make_room, resize_at_rest};
pub use settings::Settings;
pub use statistics::{Bypassed, CachedStatistics, VolumeStatistics};
pub use superblocks::{read_superblocks, write_superblock};
pub use volume::CachedVolume;
pub use voucher::{FileVoucher, Opening, Voucher};
