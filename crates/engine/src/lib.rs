//! The page engine: a flash tier for a transactional database, without any I/O of its own.
//!
//! Pages that leave a database's memory are appended to flash in groups and serve reads from there
//! until they reach the front of the queue, where dirty ones go to disk and referenced ones get a
//! second chance. The design is FaCE ("Flash as cache extension for online transactional workloads",
//! VLDB Journal 2015), sections 4 and 5.
//!
//! A [`Tier`] lives in one [`Region`] of memory. The host calls short operations on it
//! ([`Tier::stage_in`], [`Tier::lookup`], [`Tier::invalidate`]) and carries out the [`Job`]s that
//! [`Tier::next_job`] hands out. The engine opens no files, reads no clocks, starts no threads and
//! rolls no dice, so a database, an in-process volume and a simulator run the same code.
//!
//! The durability invariants that the code refers to by number:
//!
//! 1. *Log first.* A page reaches flash or disk only after its log. (The host's part.)
//! 2. *One truth.* At most one valid frame per page, the newest; a read gets it, or else disk; never an
//!    invalid frame, never disk while a newer flash copy exists.
//! 3. *Durable* means flushed together with every earlier group. Staging memory counts as nothing.
//! 4. *Checkpoint.* A database's redo pointer passes a change only when the change is on disk and synced, or
//!    durable in flash. (For volumes: an acknowledged sync.)
//! 5. *Reuse.* A frame is overwritten only if its page is on disk and synced, or the same or a newer version
//!    is durable at a later position, or its invalidation is durable; and a durable front lies past it. No
//!    write covers the frames its contents came from.
//! 6. *No resurrection.* Invalidations and the front are durable before an acknowledged sync passes them. The
//!    tombstone of an overwrite becomes durable only after the overwriting disk write is synced.
//! 7. *Versions* are ordered by epoch, then sequence. Each recovery makes a new epoch durable before its
//!    first append. A second chance keeps the version and re-checks that it is still the newest.
//! 8. *Torn is absent only past the durable mark.* There a group is used whole and verified or not at all,
//!    and nothing beyond the first break of the chain is used. Below the mark damage is loss, and said. A
//!    page that the device answers with an error is not torn, for torn pages can be read: its group counts,
//!    and the page is met later like any other that cannot be read (see `unreadable`).
//! 9. *Recovery* is the metadata and a scan of the groups after it, bounded by two segments; it may be
//!    repeated after a crash inside it.
//! 10. *Identity.* Tier and database carry each other's identity and generation. (With the host.)
//! 11. *Errors.* A failed read of a dead page costs nothing; of a clean one it falls back to disk; of a dirty
//!     one it is an error, never old data, and costs that page. After a failed write admission stops; after a
//!     failed sync nothing is retried.
//! 12. *Processes die.* Jobs record their owner and are handed out again when it has died; a lock whose owner
//!     died poisons the region. No lock is held while the host is called; lock order: the host's, then a
//!     shard's, then the control lock.
//! 13. *Zones.* A zone of flash is reset only when invariant 5 lets every frame of it be overwritten, and
//!     within a zone groups are written in the order of their positions. What a crash has left behind the end
//!     of the queue is not written over: the queue goes on in the next zone, and one is kept for that.
//! 14. *Appearances.* Every record of a page in the queue is found by what its id begins with, or counts as
//!     forgotten; so a range of which nothing is found has nothing that a crash could bring back.

#[cfg(test)]
extern crate self as mezzanine_engine;

mod ids;

mod config;

mod designs;

mod layout;

mod bounds;

pub mod format;

mod blank;

mod attach;

mod control;

mod statistics;

mod page_memory;

mod core;

mod answers;

mod tier;

mod lookup;

mod mode;

mod directory;

mod appearances;

mod invalidation;

mod groups;

mod placement;

mod queue;

mod in_place;

mod jobs;

mod stage_out;

mod checkpoint;

mod failure;

mod log;

mod recovery;

mod pages;

mod check;

pub mod planted;

pub use answers::{FlashPage, Lookup, NoRoom, StageIn, StageKind, Token, Whereabouts};
pub use attach::AttachError;
pub use attach::header::REGION_VERSION;
pub use blank::Blank;
pub use bounds::UsedUp;
pub use checkpoint::drain::{DirtyPage, DrainCursor};
pub use checkpoint::request::{DrainScope, Mark};
pub use checkpoint::{DrainBusy, DrainState, DrainTicket};
pub use config::{
    Admission, ConfigError, Design, FRAMES_MAX, GROUP_PAGES_MAX, Geometry, PAGE_SIZE_MAX, PAGE_SIZE_MIN,
    PolicyParameters, STAGING_GROUPS_MAX, SegmentLayout, SyncMode, TierConfig, TierZones,
};
pub use core::Tier;
pub use directory::second_touch::SecondTouch;
pub use failure::latch::{Failure, Poisoned};
pub use format::{LogPosition, RedoPoint};
pub use groups::{SyncState, SyncTicket};
pub use ids::{Frame, IdRange, PAGE_ID_BYTES, PageId, Position, Sequence, Version};
pub use in_place::DiskMark;
pub use jobs::{
    FlushFlash, Job, JobError, PullPages, ReadFront, SyncDisk, WriteDisk, WriteGroup, WriteSegment,
};
pub use layout::HOST_METADATA_BYTES;
pub use mezzanine_ground::region::{LastingMemory, REGION_ALIGNMENT, Region};
pub use pages::{HeldPage, PageCursor};
pub use recovery::{
    InTurn, ReadError, ReadFlash, Recovered, RecoveryError, RecoveryReport, Workers, WriteFlash,
    read_patiently,
};
pub use stage_out::unreadable::given_up_page;
pub use statistics::Statistics;
