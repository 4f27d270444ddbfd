//! What of a tier is chosen by name: its design, what it admits, and when dirty pages reach disk.

use std::fmt;

use crate::designs::{self, InPlace};

/// Which pages leave, and how: the FaCE designs append to a queue, the others write in place (a file each in
/// `designs`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Design {
    /// Multi-version FIFO: pages at the front are read and written to disk one by one
    /// ("Flash as cache extension for online transactional workloads", section 4.3, Algorithm 1).
    FaceBasic,
    /// Group replacement: a whole group is read at the front with one I/O.
    FaceGr,
    /// Group second chance: as [`Design::FaceGr`], and referenced pages go to the rear again
    /// (section 4.3, "Group second chance").
    FaceGsc,
    /// Pages are written in place; the one leaves that was not referenced for the longest time.
    Lru,
    /// Pages are written in place and leave in the order in which they came.
    Fifo,
    /// Pages are written in place; a hand passes over them and takes one that was not referenced since it
    /// passed last.
    Clock,
    /// Lazy Cleaning: LRU-2, in place, with a cleaner in the background.
    Lc,
    /// Pages enter when they are read; LRU, in place; writes go around flash or back to it.
    Exadata,
    /// Cost-adjusted caching: Greedy-Dual, in place; pages that save more stay longer.
    Cac,
    /// Temperature-aware caching: pages enter when they are read, if their extent is hotter than the coldest;
    /// in place, written through, with a slot directory.
    Tac,
}

impl Design {
    /// How the design works if it writes in place; `None` for the queue of the FaCE designs.
    pub(crate) const fn in_place(self) -> Option<&'static InPlace> {
        match self {
            Self::FaceBasic | Self::FaceGr | Self::FaceGsc => None,
            Self::Lru => Some(&designs::LRU),
            Self::Fifo => Some(&designs::FIFO),
            Self::Clock => Some(&designs::CLOCK),
            Self::Lc => Some(&designs::LC),
            Self::Exadata => Some(&designs::EXADATA),
            Self::Cac => Some(&designs::CAC),
            Self::Tac => Some(&designs::TAC),
        }
    }

    /// Whether pages are written in place, at random, instead of being appended to a queue. Such a tier has
    /// another layout on flash.
    pub const fn writes_in_place(self) -> bool {
        self.in_place().is_some()
    }

    /// Whether a tier that was formatted for one of the two can be used with the other: both lay their pages
    /// and what is said of them out alike.
    pub const fn is_laid_out_like(self, other: Self) -> bool {
        const fn layout(design: Design) -> (bool, bool) {
            match design.in_place() {
                Some(design) => (true, design.slots),
                None => (false, false),
            }
        }
        let (own, other) = (layout(self), layout(other));
        own.0 == other.0 && own.1 == other.1
    }

    /// Whether a slot directory on flash says at every moment what the tier holds: see
    /// [`crate::Tier::disk_synced`].
    pub const fn has_slots(self) -> bool {
        match self.in_place() {
            Some(design) => design.slots,
            None => false,
        }
    }

    /// Whether a page is to be offered when it was read from disk, and not when it leaves the host's memory.
    pub const fn admits_on_entry(self) -> bool {
        match self.in_place() {
            Some(design) => design.on_entry,
            None => false,
        }
    }
}

/// Which pages may enter (the same paper, section 4.2.3).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Admission {
    /// Clean pages only; dirty ones go to disk.
    Clean,
    /// Dirty pages only.
    Dirty,
    /// Clean and dirty pages.
    Both,
}

/// What a dirty page's entry into flash means for its disk copy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SyncMode {
    /// To flash and disk at once: losing the flash device loses nothing.
    Through,
    /// To flash first; everything older than the redo pointer is on disk before a database's checkpoint
    /// completes, so that losing the flash device costs an ordinary crash recovery. For hosts with a log.
    Drained,
    /// Flash is part of the database: FaCE as published.
    Durable,
}

macro_rules! names {
    ($type:ident, $what:literal, $($variant:ident = $code:literal $name:literal),+) => {
        impl $type {
            /// Every value.
            pub const ALL: &'static [Self] = &[$(Self::$variant),+];

            pub(crate) const fn code(self) -> u8 {
                match self { $(Self::$variant => $code),+ }
            }

            pub(crate) const fn from_code(code: u8) -> Option<Self> {
                match code { $($code => Some(Self::$variant),)+ _ => None }
            }

            /// The name used in configuration and output.
            pub const fn name(self) -> &'static str {
                match self { $(Self::$variant => $name),+ }
            }
        }

        impl fmt::Display for $type {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.pad(self.name())
            }
        }

        impl std::str::FromStr for $type {
            type Err = String;

            fn from_str(text: &str) -> Result<Self, String> {
                Self::ALL.iter().copied().find(|value| value.name() == text).ok_or_else(|| {
                    let known: Vec<_> = Self::ALL.iter().map(|value| value.name()).collect();
                    format!("unknown {} '{text}'; known: {}", $what, known.join(", "))
                })
            }
        }
    };
}

names!(
    Design, "design", FaceBasic = 1 "face-basic", FaceGr = 2 "face-gr", FaceGsc = 3 "face-gsc", Lru = 4 "lru",
    Fifo = 5 "fifo", Clock = 6 "clock", Lc = 7 "lc", Exadata = 8 "exadata", Cac = 9 "cac",
    Tac = 10 "tac"
);
names!(Admission, "admission", Clean = 1 "clean", Dirty = 2 "dirty", Both = 3 "both");
names!(SyncMode, "sync mode", Through = 1 "through", Drained = 2 "drained", Durable = 3 "durable");
