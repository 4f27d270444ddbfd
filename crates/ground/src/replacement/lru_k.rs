//! LRU-2 (E. O'Neil, P. O'Neil, G. Weikum, "The LRU-K page replacement algorithm for database disk
//! buffering", SIGMOD 1993): the page leaves whose last reference but one is the oldest. The replacement of
//! LC.
//!
//! The names are those of the paper's Figure 2.1, with K = 2: HIST(p, 1) is the time of the last reference to
//! p, HIST(p, 2) that of the one before, correlated ones apart; LAST(p) is the time of the last reference of
//! either kind. Time is the number of references.
//!
//! - References to a page that follow one another within the *correlated reference period* count as one
//!   (section 2.1.1): the work of one transaction says nothing of how soon the next wants the page. Until the
//!   period is over the page is not eligible for replacement.
//! - HIST of a page that has left is retained (section 2.1.2): here of so many pages as the parameter says,
//!   where the paper has a period of time.
//!
//! What the paper leaves open: among pages with one reference (HIST(p, 2) = 0) the one that was referenced
//! first leaves; if no page is eligible, the one that will be next.
//!
//! A reference changes nothing but the page's block. Where the page then belongs is looked at when somebody
//! looks for a victim and meets it:
//!
//! ```text
//!                  +---------+  referenced meanwhile, or remembered from before
//!   inserted ----> | arrived | ----------------------------------+------------+
//!                  +---------+                                   |            |
//!                       | not, and first                its period is over    | not over
//!                       v                                        v            v
//!                     leaves <-------- first -------------- +--------+   +---------+
//!                                                           | ranked |   | waiting |
//!                                                           +--------+   +---------+
//!                                                             |    ^        |   ^
//!                                                             |    +- over -+   |
//!                                                             +---- not over ---+
//! ```
//!
//! 1. A frame in the order is in one of `arrived`, `waiting` and `ranked`.
//! 2. `arrived` is in the order in which its pages came.
//! 3. `waiting` is in order of LAST (`lazy_heap`) and `ranked` of `LruK::rank` (`bucket_queue`), both of
//!    which only rise.
//! 4. HIST(p, 2) < HIST(p, 1) <= LAST(p) <= the time, and no two pages have the same HIST(p, 1), LAST(p), or
//!    HIST(p, 2) above 0.

use std::collections::BTreeSet;
use std::sync::atomic::Ordering::Relaxed;

use super::bucket_queue::{BucketQueue, Keys, LISTS};
use super::history::History;
use super::lazy_heap::{Key, LazyHeap};
use super::list::List;
use super::parameter::{Field, Parameter, ParameterDefault, ParameterKind, checked_frames};
use super::{Laid, Memory, PageKey, Replacement, piece};
use crate::config::ConfigError;
use crate::interleave::AtomicU64;
use crate::region::{Word, prefetch, shared};

/// What the paper calls the history control block of a page.
#[repr(C)]
struct Block {
    /// HIST(p, 1) and HIST(p, 2); 0 is never. The second has the bit [`RECALLED`] as long as it is what was
    /// remembered.
    hist: [AtomicU64; 2],
    last: AtomicU64,
    page: AtomicU64,
}
shared!(Block);

/// The last reference but one counts.
pub struct LruK<'r> {
    period: u64,
    /// References so far.
    time: &'r Word,
    blocks: &'r [Block],
    arrived: List<'r>,
    waiting: LazyHeap<'r, 1>,
    ranked: BucketQueue<'r, 1>,
    /// How many references a step of `ranked` is: the logarithm.
    step_shift: u32,
    history: History<'r>,
}

const CORRELATED_PERIOD: Parameter = Parameter {
    name: "correlated-period",
    help: "References after which another one to the same page counts as a new one",
    kind: ParameterKind::References,
    // Of what was tried on traces of databases and disks, the one that is nowhere far from the best; with 0
    // LRU-2 can be worse than LRU (docs/decisions/0007-what-replacement-leaves-open.md).
    default: ParameterDefault::FramesOver(8),
};

const HISTORY: Parameter = Parameter {
    name: "history",
    help: "Pages that have left whose last reference is remembered",
    kind: ParameterKind::Pages,
    default: ParameterDefault::FramesOver(1),
};

/// What LRU-2 is configured by: its size, and what the paper calls its two periods.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Config {
    pub(super) frames: u32,
    /// In references.
    correlated_period: u64,
    /// In pages.
    history: u32,
}

impl Config {
    /// The defaults for so many frames.
    ///
    /// # Errors
    /// If there can be no policy of so many.
    pub fn new(frames: u64) -> Result<Self, ConfigError> {
        let frames = checked_frames(frames)?;
        let correlated_period = CORRELATED_PERIOD.default_of(frames);
        Ok(Self { frames, correlated_period, history: HISTORY.default_of(frames) as u32 })
    }

    /// The correlated reference period (section 2.1.1), in `references`: after so many another one to the
    /// same page counts as a new one. Default: an eighth of the frames.
    ///
    /// # Errors
    /// If they are more than can be counted.
    pub fn with_correlated_period(self, references: u64) -> Result<Self, ConfigError> {
        Ok(Self { correlated_period: CORRELATED_PERIOD.checked(references)?, ..self })
    }

    /// The `pages` that have left whose last reference is remembered: what the paper's retained information
    /// period comes to (section 2.1.2). Default: as many as there are frames.
    ///
    /// # Errors
    /// If they are more than there can be frames.
    pub fn with_history(self, pages: u64) -> Result<Self, ConfigError> {
        Ok(Self { history: HISTORY.checked(pages)? as u32, ..self })
    }
}

impl LruK<'_> {
    #[inline(always)]
    fn block(&self, frame: u32) -> &Block {
        &self.blocks[frame as usize]
    }

    #[inline(always)]
    fn last(&self, frame: u32) -> u64 {
        self.block(frame).last.load(Relaxed)
    }

    /// By what frames leave: those with one reference before all others, by HIST(p, 1), the others by HIST(p,
    /// 2).
    #[inline(always)]
    fn rank(&self, frame: u32) -> u64 {
        let hist = &self.block(frame).hist;
        match hist[1].load(Relaxed) {
            0 => hist[0].load(Relaxed),
            second => second & !RECALLED | TWICE,
        }
    }

    /// Whether nothing has happened to the page since it came: then LAST is when that was.
    #[inline(always)]
    fn is_untouched(&self, frame: u32) -> bool {
        let (hist, last) = (&self.block(frame).hist, self.last(frame));
        let second = hist[1].load(Relaxed);
        (second == 0 || second & RECALLED != 0) && hist[0].load(Relaxed) == last
    }

    #[inline(always)]
    fn last_key(&self, frame: u32) -> Key<1> {
        [self.last(frame)]
    }

    /// The time of the reference that is being made.
    #[inline(always)]
    fn tick(&self) -> u64 {
        // Under the host's lock: nobody else counts.
        let now = self.time.get() + 1;
        self.time.set(now);
        now
    }

    /// Whether a reference at `now` is one of its own after one at `last`.
    #[inline(always)]
    fn uncorrelated(&self, now: u64, last: u64) -> bool {
        now - last > self.period
    }

    /// Puts a frame that is nowhere where it belongs at `now`.
    #[inline]
    fn place(&self, frame: u32, now: u64) {
        if self.uncorrelated(now, self.last(frame)) {
            self.ranked.insert(frame, self);
        } else {
            self.waiting.insert(frame, self.last_key(frame));
        }
    }

    /// The first frame of `waiting`.
    #[inline(always)]
    fn first_waiting(&self) -> Option<u32> {
        self.waiting.smallest(|frame| self.last_key(frame), |frame| prefetch(self.block(frame)))
    }

    /// Ranks the frames whose period is over at `now`.
    #[inline]
    fn rank_eligible(&self, now: u64) {
        while let Some(frame) = self.first_waiting() {
            if !self.uncorrelated(now, self.last(frame)) {
                break;
            }
            self.waiting.remove(frame);
            self.ranked.insert(frame, self);
        }
    }

    /// The first frame of `arrived`, if it is eligible and has one reference, or not eligible and untouched.
    /// Those before it go where they belong.
    #[inline]
    fn first_arrived(&self, now: u64) -> Option<u32> {
        while let Some(frame) = self.arrived.oldest() {
            if let Some(next) = self.arrived.after(frame) {
                prefetch(self.block(next));
            }
            let has_once = self.block(frame).hist[1].load(Relaxed) == 0;
            if self.is_untouched(frame) && (has_once || !self.uncorrelated(now, self.last(frame))) {
                return Some(frame);
            }
            self.arrived.remove(frame);
            self.place(frame, now);
        }
        None
    }

    /// The first frame of `ranked`, which is then eligible, if its rank is below a limit.
    #[inline]
    fn first_ranked(&self, now: u64, limit: u64) -> Option<u32> {
        while self.ranked.is_below([limit]) {
            let frame = self.ranked.smallest(self)?;
            if self.uncorrelated(now, self.last(frame)) {
                return Some(frame).filter(|frame| self.rank(*frame) < limit);
            }
            self.ranked.remove(frame);
            self.waiting.insert(frame, self.last_key(frame));
        }
        None
    }

    /// Takes the frame that is to leave out of the order.
    #[inline]
    fn take_victim(&self) -> Option<u32> {
        let now = self.time.get() + 1;
        self.rank_eligible(now);
        let arrived = self.first_arrived(now);
        // What came later than an untouched page that is not eligible is not eligible either.
        let eligible = arrived.filter(|frame| self.uncorrelated(now, self.last(*frame)));
        let limit = eligible.map_or(u64::MAX, |frame| self.rank(frame));
        if let Some(frame) = self.first_ranked(now, limit) {
            self.ranked.remove(frame);
            return Some(frame);
        }
        // If none is eligible: all others of `arrived` were referenced later than its first.
        let waiting = if eligible.is_some() { None } else { self.first_waiting() };
        match (arrived, waiting) {
            (Some(arrived), Some(waiting)) if self.last(waiting) < self.last(arrived) => {
                self.waiting.remove(waiting);
                Some(waiting)
            }
            (Some(arrived), _) => {
                self.arrived.remove(arrived);
                Some(arrived)
            }
            (None, waiting) => {
                self.waiting.remove(waiting?);
                waiting
            }
        }
    }

    /// Takes a frame out of the order.
    #[inline]
    fn take(&self, frame: u32) {
        if self.waiting.contains(frame) {
            self.waiting.remove(frame);
        } else {
            // Or of `arrived`, which is one of its lists.
            self.ranked.remove(frame);
        }
    }
}

/// Steps of `ranked` in as many references as there are frames.
const STEPS_PER_FRAMES: u32 = 32;
/// In a rank: that the page was referenced twice.
const TWICE: u64 = 1 << 63;
/// In HIST(p, 2): that it is of an earlier stay.
const RECALLED: u64 = 1 << 62;

impl<'r> Laid<'r> for LruK<'r> {
    type Config = Config;
    const FIELDS: &'static [Field<Config>] = &[
        Field {
            parameter: CORRELATED_PERIOD,
            get: |config| config.correlated_period,
            with: Config::with_correlated_period,
        },
        Field { parameter: HISTORY, get: |config| config.history.into(), with: Config::with_history },
    ];

    fn bytes(config: &Config) -> usize {
        let frames = config.frames;
        let own = piece::<Word>(1) + piece::<Block>(frames as usize);
        let heaps = LazyHeap::<1>::bytes(frames, frames) + BucketQueue::<1>::bytes(frames, frames);
        own + List::bytes(frames, 1 + LISTS) + heaps + History::bytes(config.history)
    }

    fn laid(memory: &mut Memory<'r>, config: &Config) -> Self {
        let (time, blocks) = (memory.one(), memory.take(config.frames as usize));
        let arrived = List::laid(memory, config.frames, 1 + LISTS);
        Self {
            period: config.correlated_period,
            time,
            blocks,
            arrived,
            waiting: LazyHeap::laid(memory, config.frames, config.frames),
            ranked: BucketQueue::laid(memory, config.frames, config.frames, arrived),
            step_shift: (config.frames / STEPS_PER_FRAMES).max(1).ilog2(),
            history: History::laid(memory, config.history),
        }
    }
}

impl Keys<1> for LruK<'_> {
    #[inline(always)]
    fn key(&self, frame: u32) -> Key<1> {
        [self.rank(frame)]
    }

    /// Pages with one reference are few here: most leave from `arrived`.
    #[inline(always)]
    fn step(&self, [rank]: Key<1>) -> u64 {
        if rank & TWICE == 0 { 0 } else { 1 + ((rank & !TWICE) >> self.step_shift) }
    }

    #[inline(always)]
    fn ahead(&self, frame: u32) {
        prefetch(self.block(frame));
    }
}

impl Replacement for LruK<'_> {
    #[inline(always)]
    fn will_be_referenced(&self, frame: Option<u32>, page: PageKey) {
        prefetch(self.block(frame.unwrap_or(0)));
        self.history.ahead(page, frame.is_none());
    }

    #[inline]
    fn inserted(&self, frame: u32, page: PageKey) {
        let now = self.tick();
        let block = self.block(frame);
        let remembered = self.history.recall(page).map_or(0, |time| time | RECALLED);
        block.hist[1].store(remembered, Relaxed);
        block.hist[0].store(now, Relaxed);
        block.last.store(now, Relaxed);
        block.page.store(page.0, Relaxed);
        self.arrived.append(frame);
    }

    #[inline(always)]
    fn referenced(&self, frame: u32) {
        let now = self.tick();
        let block = self.block(frame);
        let last = block.last.load(Relaxed);
        // The correlated references that followed the last one count as one with it: it ends where they do.
        // Chosen without a branch, whose outcome the processor could not foretell.
        let [first, second] = [0, 1].map(|nth| block.hist[nth].load(Relaxed));
        let is_new = u64::from(self.uncorrelated(now, last)).wrapping_neg();
        block.hist[1].store(second ^ ((second ^ last) & is_new), Relaxed);
        block.hist[0].store(first ^ ((first ^ now) & is_new), Relaxed);
        block.last.store(now, Relaxed);
    }

    #[inline]
    fn victim(&self) -> Option<u32> {
        let frame = self.take_victim()?;
        let block = self.block(frame);
        self.history.remember(PageKey(block.page.load(Relaxed)), block.hist[0].load(Relaxed));
        // Those that are looked at first the next time.
        let ahead = |frame| prefetch(self.block(frame));
        self.arrived.iter().take(2).for_each(ahead);
        self.waiting.tell_ahead(ahead);
        self.ranked.tell_ahead(self);
        Some(frame)
    }

    fn removed(&self, frame: u32) {
        self.take(frame);
    }

    fn contains(&self, frame: u32) -> bool {
        self.waiting.contains(frame) || self.ranked.contains(frame)
    }

    fn check(&self) {
        self.waiting.check(|frame| self.last_key(frame));
        let ranked: BTreeSet<u32> = self.ranked.check(self).into_iter().collect();
        let arrived: BTreeSet<u32> = self.arrived.iter().collect();
        self.history.check();
        let mut before = 0;
        for frame in self.arrived.iter().filter(|frame| self.is_untouched(*frame)) {
            assert!(self.last(frame) > before, "LRU-2 invariant 2: frame {frame}");
            before = self.last(frame);
        }
        for frame in (0..self.blocks.len() as u32).filter(|frame| self.contains(*frame)) {
            let places = [arrived.contains(&frame), self.waiting.contains(frame), ranked.contains(&frame)];
            let count = places.into_iter().filter(|is_there| *is_there).count();
            assert_eq!(count, 1, "LRU-2 invariant 1: frame {frame}");
            let (hist, last) = (&self.block(frame).hist, self.last(frame));
            let (first, second) = (hist[0].load(Relaxed), hist[1].load(Relaxed) & !RECALLED);
            let ordered = second < first && first <= last && last <= self.time.get();
            assert!(ordered, "LRU-2 invariant 4: frame {frame}");
        }
    }
}
