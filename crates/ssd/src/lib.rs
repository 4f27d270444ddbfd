//! A flash drive from the inside.
//!
//! From the bottom up: [`nand`] is the flash array, with erase before write and pages programmed in order,
//! and channels and planes that are busy for as long as their operations take; the translation layer maps
//! units of the host to it, collects blocks, levels wear and keeps its map; the write buffer is none,
//! volatile or durable; [`Ssd`] is the drive, which times operations of a host
//! ([`Timing`](mezzanine_device::model::Timing)) in virtual or in real time. Beside it, [`three_tier`] has
//! caches between a buffer pool and a disk, one of which manages the array itself.
//!
//! Sources: "Durable Write Cache in Flash Memory SSD for Relational and NoSQL Databases" (SIGMOD 2014),
//! sections 2.3 and 3, and "Towards an Efficient Flash-Based Mid-Tier Cache" (DEXA 2012).
//!
//! *Architecture invariant:* nothing here knows the engine, its tier or volumes, and no server links it. Of a
//! database [`three_tier`] alone knows that it has pages.
#![forbid(unsafe_code)]

mod error;

mod geometry;

mod divisor;

mod config;

mod counters;

pub mod nand;

mod ftl;

mod state;

mod link;

mod drive;

pub mod power;

mod contents;

pub mod zoned;

mod model;

mod kept;

mod work;

pub mod load;

pub mod fit;

mod inside;

pub mod three_tier;

pub use config::{
    CacheConfig, CacheKind, Collection, CollectionFrontier, CollectionPace, DumpConfig, FlushRule, FlushTime,
    FtlConfig, HostConfig, STREAMS_MAX, SsdConfig,
};
pub use contents::{Loss, SsdDevice};
pub use counters::Counters;
pub use drive::{Condition, InHand, Ssd};
pub use error::ConfigError;
pub use geometry::{Geometry, NandTimings, UNITS_PER_PAGE_MAX};
pub use inside::{Inside, behind_translation_layer};
pub use model::{open_drive, timing};
pub use power::{Anomaly, PowerLossConfig};
pub use work::DriveWork;
