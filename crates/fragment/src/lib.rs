//! The fragment cache: a flash cache under block devices, without any I/O of its own.
//!
//! It is SCE ("Flash-Conscious Cache Population for Enterprise Database Workloads", ADMS 2014, section 3).
//! Volumes are cached in *fragments* of 1 MiB: the hottest of those that were missed last are copied to the
//! cache device in the background (*population*, sections 3.1 and 3.2), and what is written to a cached
//! fragment follows without anybody waiting for it (*asynchronous write-through*, section 3.3). The volume's
//! own backing device always has everything; without the cache device it costs time alone. One that loses
//! what it had acknowledged while the cache is used has failed ([`Cache::go_offline`]).
//!
//! With a *map* ([`MapConfig`]) what is in the cache survives a restart. A fragment whose record in the map
//! is *stable* is there when the cache is opened again ([`Recovery`]); before it is written to the record is
//! made one that does not count, which is the only thing that a write ever waits for
//! ([`WriteToken::waits_for`]), and half a minute after the last write it settles again, or later if it is
//! written to regularly ([`MapConfig::waits_per_mille`]).
//!
//! A [`Cache`] lives in one [`Region`] of memory. The host calls short operations on it ([`Cache::read`] and
//! [`Cache::confirm`], [`Cache::write_begin`] and [`Cache::write_end`], [`Cache::discard_begin`]), carries
//! requests out on its devices, and does the [`Job`]s that [`Cache::next_job`] hands out. The cache opens no
//! files, reads no clocks, starts no threads and rolls no dice. Flushes, and writes that must be durable when
//! they are answered, are the backing device's alone: nothing that the cache has is ever newer.
//!
//! ```
//! use mezzanine_fragment::{Cache, Config, Job, Next, Source};
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! // A volume of 64 MiB behind a cache device of 16 MiB, both in memory.
//! let (mut volume, mut flash) = (vec![0u8; 64 << 20], vec![0u8; 16 << 20]);
//! let geometry = Config::new(flash.len() as u64, &[volume.len() as u64]).geometry()?;
//! let cache = Cache::heap(geometry);
//!
//! // A write is begun, carried out on the backing device, and ended.
//! let write = cache.write_begin(0, 8192, &[7; 4096])?;
//! volume[8192..12288].fill(7);
//! cache.write_end(write, Ok(()));
//!
//! // A read that misses makes its fragment a candidate, and a worker brings that in.
//! let mut pieces = Vec::new();
//! cache.read(0, 8192, 4096, &mut pieces)?;
//! for now in (0..1000).map(|ms| ms * 1_000_000) {
//!     while let Next::Job(mut job) = cache.next_job(now) {
//!         match &mut job {
//!             Job::ReadFragment(read) => {
//!                 let at = read.offset() as usize;
//!                 let buffer = read.buffer();
//!                 buffer.copy_from_slice(&volume[at..][..buffer.len()]);
//!             }
//!             Job::WriteFragment(write) => {
//!                 flash[write.offset() as usize..][..write.data().len()].copy_from_slice(write.data());
//!             }
//!             Job::WriteBlocks(write) => {
//!                 for (at, bytes) in write.writes() {
//!                     flash[at as usize..][..bytes.len()].copy_from_slice(bytes);
//!                 }
//!             }
//!             // A cache with a map has more to do; this one begins empty whenever it is made.
//!             Job::WriteMap(_) | Job::FlushCache(_) | Job::FlushBacking(_) => {}
//!         }
//!         cache.done(job, Ok(()));
//!     }
//! }
//!
//! // What comes from the cache device counts if that is confirmed.
//! cache.read(0, 8192, 4096, &mut pieces)?;
//! let Source::Cache(at) = pieces[0].source else { panic!("it is in the cache") };
//! let data = &flash[at as usize..][..4096];
//! assert!(cache.confirm(&pieces[0]) && data == [7; 4096]);
//! # Ok(())
//! # }
//! ```
//!
//! The invariants that the code refers to by number:
//!
//! 1. *One slot.* A fragment is in one slot of the cache device at most, and a slot has one fragment at most:
//!    the fragment table and the descriptors say the same. Only blocks that lie in the volume whole, of
//!    fragments that are in the cache, are valid.
//! 2. *Valid is current.* A block is valid only while the cache device has what the backing device has, or
//!    had before the one write that is under way (14). Any other write or discard takes validity away before
//!    the host sends it anywhere, and nothing gives it back before the backing device has answered. If that
//!    has failed, or the cache device has, it stays away.
//! 3. *Whole blocks.* What covers a part of a block never makes the block valid.
//! 4. *Population loses.* A population begins while no write or discard of its fragment is under way, and
//!    makes those blocks valid that none has touched since, whatever has become of it. All at once, at its
//!    end; until then its bitmap has the blocks that were touched.
//! 5. *The last write.* A write makes valid those of its blocks that no later write or discard has touched,
//!    and that no other one was on its way to the backing device with, whether there is a copy of that one or
//!    not. Copies of one block go to the cache device one at a time, in the order of their writes.
//! 6. *Reuse.* A slot changes hands only while nothing is on its way into it. One in which the cache device
//!    has refused a fragment is not the next to be taken.
//! 7. *Readers.* What was read from the cache device counts only if its fragment has been in its slot all the
//!    while and its blocks are valid afterwards. Nobody waits for a reader.
//! 8. *Bounded.* Flights, copies and buffers are a fixed number, and each is somebody's or free. What finds
//!    none goes past the cache. A copy's memory is its flight's until the job that writes it is done. A cache
//!    takes back nothing that another one has handed out.
//! 9. *Locks.* The planner's first, then one shard's, then that of the pools or that of the map. None is held
//!    while the host is called, nor while data are copied.
//! 10. *Marks.* A record that a crash can leave does not count from before a write or discard of its fragment
//!     is sent to the backing device, or a copy of one to its slot; and from before the slot is another
//!     fragment's, or what is written to the fragment goes past the cache.
//! 11. *Stable.* A record counts only if nothing of its fragment is under way, and what is valid of it is
//!     durable in the slot and on the backing device: both were flushed, and those flushes began after the
//!     last change had ended. A flush that has failed makes nothing durable, nor does a later one of that
//!     device.
//! 12. *Recovery.* Of the map those records are used that are stable, of this cache, of this slot, and of a
//!     volume that was attached all the while, and below the limit of the cache's size. What was read is
//!     durable, and records that cannot be read, contradict themselves or lie behind the limit are written
//!     over, before anything else happens.
//! 13. *Offline.* Of a cache that is offline nothing is read, and nothing waits for it.
//! 14. *Old, then new.* A block that was valid stays so while one write of all of it is under way whose copy
//!     has not gone to the cache device and does not before the backing device has answered. That ends with
//!     the answer, whatever it is, before the guest has it; with any other write or discard of the block; and
//!     with any read of it that the backing device has served, before the guest has that. So no read that
//!     begins after one which may have got the new contents gets the old ones.
//! 15. *Budget.* In any 24 hours no more bytes are written to the cache device than the budget says, but for
//!     blocks of the map, which are charged and never refused; and for populations that began before, a
//!     fragment of each worker at most: what they write is charged when they begin.
//! 16. *Yielding.* Copies and populations go on, if slowly, however slow reads of the cache device are.
//! 17. *Size.* A fragment comes in only below the limit of the cache's size. When it is resized, nothing lies
//!     behind that, and nothing is on its way there.
//! 18. *Holding.* A fragment that nobody writes to any more settles: 8,192 ticks after its last change at the
//!     latest, if flushes succeed.
//!
//! Why a reader need not be told of a write that came and went while it read: each sector that it has is then
//! from before that write or from it, and its read and the write were under way at the same time. Whatever of
//! that it gets, the backing device could have given it. Of a write that has failed that is not so, and it is
//! told ([`Cache::confirm`]).

mod ids;

mod small;

mod config;

pub mod format;

mod geometry;

mod validity;

mod descriptor;

mod shard;

mod flight;

mod flights;

mod pools;

mod budget;

mod yielding;

mod resize;

mod recent;

mod throttle;

mod clock;

mod planner;

mod control;

mod cache;

mod read;

mod write;

mod answer;

mod hollow;

mod map;

mod recovery;

mod forget;

mod jobs;

mod population;

mod memory;

mod statistics;

mod sizing;

mod check;

pub mod planted;

pub use cache::Cache;
pub use config::{
    Admission, BLOCK_BYTES, COPY_BYTES_MAX, Config, ConfigError, FLIGHTS_MAX, FRAGMENT_BYTES_MAX,
    FRAGMENT_BYTES_MIN, FRAGMENTS_MAX, MapConfig, RECENT_FRAGMENTS, RECENT_FRAGMENTS_MAX, REFERENCES_MAX,
    SETTLE_MS, Stage, Throttle, VOLUMES_MAX, WAITS_PER_MILLE, WAITS_PER_MILLE_MAX, WORKERS_MAX, WriteMode,
};
pub use geometry::{Geometry, MemoryUse, RequestError};
pub use jobs::{
    DeviceError, FlushBacking, FlushCache, Job, Next, ReadFragment, WriteBlocks, WriteFragment, WriteMap,
};
pub use map::{FlushToken, Health};
pub use mezzanine_ground::region::{REGION_ALIGNMENT, Region};
pub use read::{PIECES_MAX, Piece, ReadKind, Source};
pub use recovery::{Recovered, Recovery};
pub use sizing::{Sizing, SizingConfig, SizingPoint, SizingRow, SizingTable};
pub use statistics::Statistics;
pub use throttle::Load;
pub use write::WriteToken;
