//! Greedy-Dual (N. Young, "On-line caching as cache size varies", SODA 1991; in the form of P. Cao and S.
//! Irani, "Cost-aware WWW proxy caching algorithms", USITS 1997): LRU for pages that cost unequally much to
//! do without. The replacement of CAC (X. Liu and K. Salem, "Hybrid storage management for database systems",
//! VLDB 2013).
//!
//! Every page has a value H. A reference sets it to L plus the page's cost; the page with the smallest H
//! leaves, and L becomes its H. So what is not referenced loses value against what is, and what costs more is
//! kept longer. With one cost for all it is LRU.
//!
//! A clean page costs what a read from flash is shorter than one from disk. A dirty one costs as much more as
//! a write to flash is shorter than one to disk: without the frame it has to be written to disk. Here there
//! are two costs and therefore no heap: L never falls, so the frames of each cost are in order of H if they
//! are in order of their references (the two lists of the paper's GD2L).
//!
//! What the papers leave open: of equal values the clean page leaves, since it costs no write. A page that
//! becomes clean has from then on at most L plus the cost of a clean one. docs/decisions/0011-cac-and-tac.md
//! has what of CAC this is and what not.
//!
//! 1. A frame in the order is in one of the two lists; in `clean` only clean ones.
//! 2. Both lists are in order of H.
//! 3. L <= H <= L + the cost of the frame's list.

use std::sync::atomic::Ordering::Relaxed;

use super::list::List;
use super::parameter::{Field, Parameter, ParameterDefault, ParameterKind, checked_frames};
use super::{Laid, Memory, PageKey, Replacement, piece};
use crate::config::ConfigError;
use crate::interleave::{AtomicU32, AtomicU64};
use crate::region::{Word, prefetch, shared};

#[repr(C)]
struct Block {
    /// H.
    value: AtomicU64,
    /// Whether disk has an older version of the page, and that costs something.
    dirty: AtomicU32,
    unused: AtomicU32,
}
shared!(Block);

/// Pages that cost more to do without stay longer.
pub struct GreedyDual<'r> {
    clean_cost: u64,
    dirty_cost: u64,
    /// L.
    floor: &'r Word,
    blocks: &'r [Block],
    clean: List<'r>,
    dirty: List<'r>,
}

/// Longest saving, in microseconds: more than a quarter of an hour.
const SAVING_MAX: u64 = 1_000_000_000;

// The defaults are the random reads and writes a second of a 15,000 rpm disk (409, 343) and of a Samsung 840
// Pro (65,803, 13,979) in Table 1 of "Flash as cache extension for online transactional workloads" (2015).
// Only their ratio matters.
const READ_SAVING: Parameter = Parameter {
    name: "read-saving",
    help: "Microseconds by which a read from flash is shorter than one from disk",
    kind: ParameterKind::Number(1, SAVING_MAX),
    default: ParameterDefault::Value(2_430),
};

const WRITE_SAVING: Parameter = Parameter {
    name: "write-saving",
    help: "Microseconds by which a write to flash is shorter than one to disk",
    kind: ParameterKind::Number(0, SAVING_MAX),
    default: ParameterDefault::Value(2_844),
};

/// What Greedy-Dual is configured by: its size, and what CAC's pages save while they are in flash. Only the
/// ratio of the two savings matters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Config {
    pub(super) frames: u32,
    read_saving_us: u32,
    write_saving_us: u32,
}

impl Config {
    /// The defaults for so many frames.
    ///
    /// # Errors
    /// If there can be no policy of so many.
    pub fn new(frames: u64) -> Result<Self, ConfigError> {
        let frames = checked_frames(frames)?;
        let [read_saving_us, write_saving_us] =
            [READ_SAVING, WRITE_SAVING].map(|saving| saving.default_of(frames) as u32);
        Ok(Self { frames, read_saving_us, write_saving_us })
    }

    /// By how many `microseconds` a read from flash is shorter than one from disk: the cost of a clean page.
    /// Default: 2430, that of the disk and the flash device of the papers' measurements (see the constant).
    ///
    /// # Errors
    /// If they are none, or more than a quarter of an hour.
    pub fn with_read_saving_us(self, microseconds: u64) -> Result<Self, ConfigError> {
        Ok(Self { read_saving_us: READ_SAVING.checked(microseconds)? as u32, ..self })
    }

    /// By how many `microseconds` a write to flash is shorter than one to disk: what a dirty page costs more
    /// than a clean one. Default: 2844, from the same measurements.
    ///
    /// # Errors
    /// If they are more than a quarter of an hour.
    pub fn with_write_saving_us(self, microseconds: u64) -> Result<Self, ConfigError> {
        Ok(Self { write_saving_us: WRITE_SAVING.checked(microseconds)? as u32, ..self })
    }
}

impl GreedyDual<'_> {
    #[inline(always)]
    fn value(&self, frame: u32) -> u64 {
        self.blocks[frame as usize].value.load(Relaxed)
    }

    #[inline(always)]
    fn is_dirty(&self, frame: u32) -> bool {
        self.blocks[frame as usize].dirty.load(Relaxed) != 0
    }

    /// Gives a frame in no list the value that a reference gives it.
    #[inline]
    fn set(&self, frame: u32) {
        let (list, cost) = if self.is_dirty(frame) {
            (&self.dirty, self.dirty_cost)
        } else {
            (&self.clean, self.clean_cost)
        };
        self.blocks[frame as usize].value.store(self.floor.get() + cost, Relaxed);
        list.append(frame);
    }

    #[inline]
    fn take(&self, frame: u32) {
        if self.clean.contains(frame) { self.clean.remove(frame) } else { self.dirty.remove(frame) }
    }
}

impl<'r> Laid<'r> for GreedyDual<'r> {
    type Config = Config;
    const FIELDS: &'static [Field<Config>] = &[
        Field {
            parameter: READ_SAVING,
            get: |config| config.read_saving_us.into(),
            with: Config::with_read_saving_us,
        },
        Field {
            parameter: WRITE_SAVING,
            get: |config| config.write_saving_us.into(),
            with: Config::with_write_saving_us,
        },
    ];

    fn bytes(config: &Config) -> usize {
        piece::<Word>(1) + piece::<Block>(config.frames as usize) + 2 * List::bytes(config.frames, 1)
    }

    fn laid(memory: &mut Memory<'r>, config: &Config) -> Self {
        let clean_cost = u64::from(config.read_saving_us);
        Self {
            clean_cost,
            dirty_cost: clean_cost + u64::from(config.write_saving_us),
            floor: memory.one(),
            blocks: memory.take(config.frames as usize),
            clean: List::laid(memory, config.frames, 1),
            dirty: List::laid(memory, config.frames, 1),
        }
    }
}

impl Replacement for GreedyDual<'_> {
    #[inline(always)]
    fn will_be_referenced(&self, frame: Option<u32>, _page: PageKey) {
        let Some(frame) = frame else { return };
        prefetch(&self.blocks[frame as usize]);
        self.clean.ahead(frame);
        self.dirty.ahead(frame);
    }

    #[inline]
    fn inserted(&self, frame: u32, _page: PageKey) {
        self.blocks[frame as usize].dirty.store(0, Relaxed);
        self.set(frame);
    }

    #[inline]
    fn referenced(&self, frame: u32) {
        if !self.is_dirty(frame) && self.clean.contains(frame) {
            self.blocks[frame as usize].value.store(self.floor.get() + self.clean_cost, Relaxed);
            self.clean.renew(frame);
        } else {
            self.take(frame);
            self.set(frame);
        }
    }

    #[inline]
    fn dirtied(&self, frame: u32) {
        // Where it costs no more, a dirty page is as good as a clean one.
        if !self.is_dirty(frame) && self.dirty_cost > self.clean_cost {
            self.blocks[frame as usize].dirty.store(1, Relaxed);
            self.take(frame);
            self.set(frame);
        }
    }

    #[inline]
    fn cleaned(&self, frame: u32) {
        if !self.is_dirty(frame) {
            return;
        }
        self.blocks[frame as usize].dirty.store(0, Relaxed);
        // What is worth less by now goes on losing value where it is.
        if self.value(frame) > self.floor.get() + self.clean_cost {
            self.take(frame);
            self.set(frame);
        }
    }

    #[inline]
    fn victim(&self) -> Option<u32> {
        let (clean, dirty) = (self.clean.oldest(), self.dirty.oldest());
        let frame = match (clean, dirty) {
            (Some(clean), Some(dirty)) if self.value(dirty) < self.value(clean) => dirty,
            (Some(clean), _) => clean,
            (None, dirty) => dirty?,
        };
        self.floor.set(self.value(frame));
        self.take(frame);
        Some(frame)
    }

    fn removed(&self, frame: u32) {
        self.take(frame);
    }

    fn contains(&self, frame: u32) -> bool {
        self.clean.contains(frame) || self.dirty.contains(frame)
    }

    fn check(&self) {
        let floor = self.floor.get();
        for (list, cost) in [(&self.clean, self.clean_cost), (&self.dirty, self.dirty_cost)] {
            list.check();
            let mut before = floor;
            for frame in list.iter() {
                assert!(before <= self.value(frame), "Greedy-Dual invariants 2 and 3: frame {frame}");
                assert!(self.value(frame) <= floor + cost, "Greedy-Dual invariant 3: frame {frame}");
                before = self.value(frame);
            }
        }
        for frame in self.clean.iter() {
            assert!(!self.is_dirty(frame), "Greedy-Dual invariant 1: frame {frame} is dirty");
            assert!(!self.dirty.contains(frame), "Greedy-Dual invariant 1: frame {frame} is in both lists");
        }
    }
}
