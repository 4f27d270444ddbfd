//! CLOCK: LRU for one bit a page (Corbató, "A paging experiment with the Multics system", 1968).
//!
//! The frames are a dial with a hand. A page that is referenced has its bit set. Where a frame is wanted, the
//! hand goes on: a page whose bit is set stays, and the bit is cleared; the first page whose bit is clear
//! leaves, and the hand stops behind it.
//!
//! Whether a page that comes in has its bit set at once is a matter of the implementation, and moves the
//! number of misses (PostgreSQL sets its usage count to 1; the textbook's page fault leaves the bit to the
//! next reference). Here it is clear unless the parameter says otherwise.
//!
//! 1. `present` has the bits of the frames in the order, and `referenced` no other.
//! 2. `hand` is a frame, or the number of frames, which is as good as 0.
//!
//! [`Replacement::referenced`] changes nothing but one bit of `referenced`, in one atomic step, so it needs
//! no lock as long as the frame stays in the order meanwhile. If it leaves, its next page may start with the
//! bit set, which no page's correctness depends on.

use std::sync::atomic::Ordering::Relaxed;

use super::parameter::{Field, Parameter, ParameterDefault, ParameterKind, checked_frames};
use super::{Laid, Memory, PageKey, Replacement, piece};
use crate::config::ConfigError;
use crate::interleave::{AtomicU32, AtomicU64};
use crate::region::shared;

/// A bit for each of 64 frames.
#[repr(transparent)]
struct Bits(AtomicU64);
shared!(Bits);

/// A hand passes over the frames.
pub struct Clock<'r> {
    frames: u32,
    /// Whether a page comes in with its bit set.
    insert_referenced: bool,
    hand: &'r AtomicU32,
    present: &'r [Bits],
    referenced: &'r [Bits],
}

const INSERT_REFERENCED: Parameter = Parameter {
    name: "clock-insert-referenced",
    help: "A page comes in with its reference bit set, so that the hand passes it once even if it is not referenced again",
    kind: ParameterKind::Switch,
    default: ParameterDefault::Value(0),
};

/// What CLOCK is configured by: its size, and what the literature leaves to implementations.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Config {
    pub(super) frames: u32,
    insert_referenced: bool,
}

impl Config {
    /// The defaults for so many frames.
    ///
    /// # Errors
    /// If there can be no policy of so many.
    pub fn new(frames: u64) -> Result<Self, ConfigError> {
        Ok(Self { frames: checked_frames(frames)?, insert_referenced: false })
    }

    /// Whether a page comes in with its reference bit set, so that the hand passes it once even if it is not
    /// referenced again. Default: no, as with the page fault of textbooks; PostgreSQL does it (see the head
    /// of this file).
    #[must_use]
    pub fn with_insert_referenced(self, insert_referenced: bool) -> Self {
        Self { insert_referenced, ..self }
    }
}

fn words(frames: u32) -> usize {
    frames.div_ceil(u64::BITS) as usize
}

/// The word of a frame's bit, and the bit.
#[inline(always)]
fn place(frame: u32) -> (usize, u64) {
    ((frame / u64::BITS) as usize, 1 << (frame % u64::BITS))
}

impl Clock<'_> {
    /// Takes the first frame from `from` to the end of its word that is present and not referenced, and
    /// clears the bits of those before it.
    #[inline]
    fn sweep(&self, from: u32) -> Option<u32> {
        let (word, first) = place(from);
        let ahead = self.present[word].0.load(Relaxed) & first.wrapping_neg();
        let referenced = self.referenced[word].0.load(Relaxed);
        let candidates = ahead & !referenced;
        let found = candidates & candidates.wrapping_neg();
        // Everything that the hand passes: up to the one that was found, or to the end of the word.
        let passed = ahead & found.wrapping_sub(1) & referenced;
        if passed != 0 {
            self.referenced[word].0.fetch_and(!passed, Relaxed);
        }
        (found != 0).then(|| word as u32 * u64::BITS + found.trailing_zeros())
    }

    fn is_empty(&self) -> bool {
        self.present.iter().all(|word| word.0.load(Relaxed) == 0)
    }

    /// Takes a frame out of the order.
    #[inline]
    fn take(&self, frame: u32) {
        assert!(self.contains(frame), "only what is on the dial leaves it");
        let (word, bit) = place(frame);
        self.present[word].0.store(self.present[word].0.load(Relaxed) & !bit, Relaxed);
        self.referenced[word].0.fetch_and(!bit, Relaxed);
    }
}

impl<'r> Laid<'r> for Clock<'r> {
    type Config = Config;
    const FIELDS: &'static [Field<Config>] = &[Field {
        parameter: INSERT_REFERENCED,
        get: |config| config.insert_referenced.into(),
        with: |config, value| Ok(config.with_insert_referenced(INSERT_REFERENCED.checked(value)? != 0)),
    }];

    fn bytes(config: &Config) -> usize {
        piece::<AtomicU32>(1) + 2 * piece::<Bits>(words(config.frames))
    }

    fn laid(memory: &mut Memory<'r>, config: &Config) -> Self {
        Self {
            frames: config.frames,
            insert_referenced: config.insert_referenced,
            hand: memory.one(),
            present: memory.take(words(config.frames)),
            referenced: memory.take(words(config.frames)),
        }
    }
}

impl Replacement for Clock<'_> {
    #[inline]
    fn inserted(&self, frame: u32, _page: PageKey) {
        assert!(frame < self.frames && !self.contains(frame), "a frame comes onto the dial once");
        let (word, bit) = place(frame);
        self.present[word].0.store(self.present[word].0.load(Relaxed) | bit, Relaxed);
        if self.insert_referenced {
            self.referenced[word].0.fetch_or(bit, Relaxed);
        }
    }

    #[inline]
    fn referenced(&self, frame: u32) {
        let (word, bit) = place(frame);
        // Looked at first, because a store would take the cache line away from everybody.
        if self.referenced[word].0.load(Relaxed) & bit == 0 {
            self.referenced[word].0.fetch_or(bit, Relaxed);
        }
    }

    #[inline]
    fn victim(&self) -> Option<u32> {
        let mut hand = self.hand.load(Relaxed);
        // The second time round no bit is set any more, unless somebody sets it meanwhile.
        let mut turns = 0;
        loop {
            if hand >= self.frames {
                hand = 0;
                turns += 1;
                if turns > 1 && self.is_empty() {
                    return None;
                }
            }
            if let Some(found) = self.sweep(hand) {
                self.take(found);
                self.hand.store(found + 1, Relaxed);
                return Some(found);
            }
            hand = (hand / u64::BITS + 1) * u64::BITS;
        }
    }

    fn removed(&self, frame: u32) {
        self.take(frame);
    }

    #[inline]
    fn contains(&self, frame: u32) -> bool {
        let (word, bit) = place(frame);
        self.present[word].0.load(Relaxed) & bit != 0
    }

    fn check(&self) {
        assert!(self.hand.load(Relaxed) <= self.frames, "CLOCK invariant 2");
        for (word, (present, referenced)) in self.present.iter().zip(self.referenced).enumerate() {
            let (present, referenced) = (present.0.load(Relaxed), referenced.0.load(Relaxed));
            assert_eq!(referenced & !present, 0, "CLOCK invariant 1: word {word}");
            let beyond = (word as u64 + 1) * u64::from(u64::BITS) > self.frames.into();
            let tail = self.frames % u64::BITS;
            assert!(!beyond || present >> tail == 0, "CLOCK invariant 1: frames that there are not");
        }
    }
}
