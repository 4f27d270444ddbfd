//! One tier, several processes.
//!
//! The process that has recovered a tier in shared memory *publishes* it: a header at the start of the region
//! says what lies there, with the superblock that was made durable. Another process maps the same memory,
//! wherever the mapping happens to lie, and *attaches* knowing nothing but its own owner number.
//!
//! ```text
//!   bytes 0..64      Header
//!   64..4160         superblock as on flash, with its checksum: published an even number of times
//!   4160..8256       the same for an odd number of times
//!   then             Control and the rest, see `layout`
//! ```

pub(crate) mod header;

use std::fmt;

use mezzanine_ground::lock::OWNER_MAX;
use mezzanine_ground::region::Region;

use crate::attach::header::Header;
use crate::attach::header::{HEADER_BYTES, MAGIC, REGION_VERSION, header};
use crate::config::{ConfigError, TierConfig};
use crate::core::Tier;
use crate::format::{FormatError, SUPERBLOCK_BYTES, Superblock};
use crate::planted;

/// Why a process cannot join a tier.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AttachError {
    /// The memory holds something else.
    NotARegion,
    /// Nobody has set up a tier here, or is still at it: try again, or recover it yourself.
    NotReady,
    /// Set up by a build with another layout: its version, and that of this build. The same version with
    /// another size of its structures is told by the size of the region.
    OtherVersion {
        /// Layout version and bytes of the region found.
        found: (u64, u64),
        /// Layout version and bytes of the region as this build would lay it out.
        known: (u64, u64),
    },
    /// The mapping is shorter than the region.
    TooSmall {
        /// Bytes of the region.
        needed: usize,
        /// Bytes of the mapping.
        mapped: usize,
    },
    /// What the header says makes no sense.
    Damaged(FormatError),
    /// A process died inside a critical section: rebuild the tier from flash in new memory.
    Poisoned,
    /// The owner number cannot be used.
    Owner(ConfigError),
}

impl fmt::Display for AttachError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotARegion => write!(f, "this memory holds no tier"),
            Self::NotReady => write!(f, "the tier in this memory is not set up yet; try again"),
            Self::OtherVersion { found, known } => write!(
                f,
                "the tier in this memory was set up by another build (layout {}, {} bytes; this build: layout {}, \
                 {} bytes); let all processes run the same build",
                found.0, found.1, known.0, known.1
            ),
            Self::TooSmall { needed, mapped } => {
                write!(f, "only {mapped} bytes are mapped of a region of {needed} bytes; map all of it")
            }
            Self::Damaged(error) => write!(f, "the header of the region: {error}"),
            Self::Poisoned => write!(f, "{}", crate::failure::latch::Poisoned),
            Self::Owner(error) => write!(f, "{error}"),
        }
    }
}

impl std::error::Error for AttachError {}

/// An owner number names a process in locks and jobs; others mean something else there.
pub(crate) fn check_owner(owner: u32) -> Result<(), ConfigError> {
    if (1..=OWNER_MAX).contains(&owner) {
        return Ok(());
    }
    let advice = format!("give every process that uses the tier a number of its own, from 1 to {OWNER_MAX}");
    Err(ConfigError::new("owner", format!("{owner} is reserved"), advice))
}

impl Tier {
    /// Lets other processes [attach](Self::attach), once everything that recovery returned is durable.
    /// `superblock` is the one that was made durable; a host that writes another one later may publish
    /// that as well.
    ///
    /// # Panics
    /// If the superblock is another tier's or states another configuration.
    pub fn publish(&self, superblock: &Superblock) {
        assert_eq!(superblock.tier_uuid, self.uuid, "a superblock of another tier");
        // The frames in use and the sync mode may have changed since the tier was opened.
        let opened = self.geometry.config();
        let config = TierConfig {
            frames: opened.frames,
            ahead_frames: opened.ahead_frames,
            sync_mode: opened.sync_mode,
            ..superblock.config.clone()
        };
        assert_eq!(&config, opened, "a superblock of another configuration");
        let _guard = self.control().lock.lock(self.owner);
        let header = header(&self.region);
        let published = header.published.get() + 1;
        self.region.copy_in(superblock_at(published), &superblock.encode());
        planted::inside("publish: superblock copied");
        header.bytes.set(self.geometry.region_bytes() as u64);
        header.version.set(REGION_VERSION);
        header.magic.set(MAGIC);
        header.published.set(published);
    }

    /// The superblock that was [published](Self::publish) last, if one was.
    pub fn published(&self) -> Option<Superblock> {
        let _guard = self.control().lock.lock(self.owner);
        read(&self.region).ok()
    }

    /// Joins the tier that another process has recovered and published in this memory. `owner` names this
    /// process in locks and jobs: from 1 to [`OWNER_MAX`], and no other process's, dead ones included until
    /// [`Tier::abandon`] has been called for them.
    ///
    /// # Errors
    /// [`AttachError`]: nothing was changed.
    pub fn attach(region: Region, owner: u32) -> Result<Self, AttachError> {
        check_owner(owner).map_err(AttachError::Owner)?;
        let superblock = read(&region)?;
        let odd = |error: ConfigError| AttachError::Damaged(FormatError::Damaged(error.to_string()));
        let geometry = superblock.config.geometry().map_err(odd)?;
        let header = header(&region);
        let (found, known) = (header.bytes.get(), geometry.region_bytes() as u64);
        if found != known {
            return Err(AttachError::OtherVersion {
                found: (REGION_VERSION, found),
                known: (REGION_VERSION, known),
            });
        }
        let (needed, mapped) = (geometry.region_bytes(), region.bytes());
        if mapped < needed {
            return Err(AttachError::TooSmall { needed, mapped });
        }
        let tier = Self::over(region, geometry, superblock.tier_uuid, owner);
        if tier.is_poisoned() { Err(AttachError::Poisoned) } else { Ok(tier) }
    }

    /// The number that names this process in locks.
    pub fn owner(&self) -> u32 {
        self.owner
    }

    /// Whether a process has died, or a thread panicked, inside a critical section. Every call that needs the
    /// lock concerned panics then, in every process; the tier is rebuilt from flash in new memory
    /// (invariant 12).
    pub fn is_poisoned(&self) -> bool {
        self.control().lock.is_poisoned() || self.directory().is_poisoned() || self.placement().is_poisoned()
    }
}

fn superblock_at(published: u64) -> usize {
    size_of::<Header>() + (published % 2) as usize * SUPERBLOCK_BYTES
}

/// What was published in a region last, whole.
fn read(region: &Region) -> Result<Superblock, AttachError> {
    let mapped = region.bytes();
    if mapped < HEADER_BYTES {
        return Err(AttachError::TooSmall { needed: HEADER_BYTES, mapped });
    }
    let header = header(region);
    match header.magic.get() {
        MAGIC => {}
        0 => return Err(AttachError::NotReady),
        _ => return Err(AttachError::NotARegion),
    }
    let version = header.version.get();
    if version != REGION_VERSION {
        let (found, known) = ((version, header.bytes.get()), (REGION_VERSION, 0));
        return Err(AttachError::OtherVersion { found, known });
    }
    let mut bytes = [0; SUPERBLOCK_BYTES];
    loop {
        let published = header.published.get();
        if published == 0 {
            return Err(AttachError::NotReady);
        }
        region.copy_out(superblock_at(published), &mut bytes);
        if header.published.get() == published {
            return Superblock::decode(&bytes).map_err(AttachError::Damaged);
        }
    }
}
