//! LRU-2 (E. O'Neil, P. O'Neil, G. Weikum, "The LRU-K page replacement algorithm for database disk buffering", SIGMOD 1993): the page
//! leaves whose last reference but one is the oldest. The replacement of LC.
//!
//! The names are those of the paper's Figure 2.1, with K = 2: HIST(p, 1) is the time of the last reference to p, HIST(p, 2) that of
//! the one before, correlated ones apart; LAST(p) is the time of the last reference of either kind. Time is the number of references.
//!
//! - References to a page that follow one another within the *correlated reference period* count as one (section 2.1.1): the
//!   work of one transaction says nothing of how soon the next wants the page. Until the period is over the page is not eligible for replacement.
//! - HIST of a page that has left is retained (section 2.1.2): here of so many pages as the parameter says, where the paper has a period of time.
//!
//! What the paper leaves open: among pages with one reference (HIST(p, 2) = 0) the one that was referenced first leaves; if no page is eligible,
//! the one that will be next.
//!
//! 1. A frame in the order is either in `recent` or in `ranked`.
//! 2. `recent` is in the order of LAST, all of which are younger than those of frames in `ranked`.
//! 3. `ranked` is a heap by HIST(p, 2), then HIST(p, 1). All its frames are eligible.
//! 4. HIST(p, 2) < HIST(p, 1) <= LAST(p) <= the time, and no two pages have the same HIST(p, 1) or LAST(p).

use std::sync::atomic::Ordering::Relaxed;

use super::heap::Heap;
use super::history::History;
use super::list::List;
use super::{Laid, Memory, PageKey, Parameter, ParameterDefault, ParameterKind, Replacement, Shape, piece};
use crate::interleave::AtomicU64;
use crate::region::{Word, shared};

/// What the paper calls the history control block of a page.
#[repr(C)]
struct Block {
    /// HIST(p, 1) and HIST(p, 2); 0 is never.
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
    /// Frames that were referenced lately; not all of them need still be within the period.
    recent: List<'r>,
    ranked: Heap<'r>,
    history: History<'r>,
}

const CORRELATED_PERIOD: Parameter = Parameter {
    name: "correlated-period",
    help: "References after which another one to the same page counts as a new one",
    kind: ParameterKind::References,
    // Of what was tried on traces of databases and disks, the one that is nowhere far from the best; with 0 LRU-2 can be worse than LRU
    // (docs/decisions/0007-what-replacement-leaves-open.md).
    default: ParameterDefault::FramesOver(8),
};

const HISTORY: Parameter = Parameter {
    name: "history",
    help: "Pages that have left whose last reference is remembered",
    kind: ParameterKind::Pages,
    default: ParameterDefault::FramesOver(1),
};

impl LruK<'_> {
    #[inline(always)]
    fn block(&self, frame: u32) -> &Block {
        &self.blocks[frame as usize]
    }

    /// What `ranked` is ordered by.
    #[inline(always)]
    fn rank(&self, frame: u32) -> (u64, u64) {
        let hist = &self.block(frame).hist;
        (hist[1].load(Relaxed), hist[0].load(Relaxed))
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

    /// Ranks the frames whose period is over at `now`.
    #[inline]
    fn rank_eligible(&self, now: u64) {
        while let Some(frame) = self.recent.oldest() {
            if !self.uncorrelated(now, self.block(frame).last.load(Relaxed)) {
                break;
            }
            self.recent.remove(frame);
            self.ranked.insert(frame, |frame| self.rank(frame));
        }
    }

    /// Takes a frame out of the order.
    #[inline]
    fn take(&self, frame: u32) {
        if self.ranked.contains(frame) {
            self.ranked.remove(frame, |frame| self.rank(frame));
        } else {
            self.recent.remove(frame);
        }
    }
}

impl<'r> Laid<'r> for LruK<'r> {
    const PARAMETERS: &'static [Parameter] = &[CORRELATED_PERIOD, HISTORY];

    fn bytes(shape: &Shape) -> usize {
        let frames = shape.frames;
        let own = piece::<Word>(1) + piece::<Block>(frames as usize);
        own + List::bytes(frames) + Heap::bytes(frames) + History::bytes(shape.value(&HISTORY) as u32)
    }

    fn laid(memory: &mut Memory<'r>, shape: &Shape) -> Self {
        Self {
            period: shape.value(&CORRELATED_PERIOD),
            time: memory.one(),
            blocks: memory.take(shape.frames as usize),
            recent: List::laid(memory, shape.frames),
            ranked: Heap::laid(memory, shape.frames),
            history: History::laid(memory, shape.value(&HISTORY) as u32),
        }
    }
}

impl Replacement for LruK<'_> {
    #[inline]
    fn inserted(&self, frame: u32, page: PageKey) {
        let now = self.tick();
        let block = self.block(frame);
        block.hist[1].store(self.history.recall(page).unwrap_or(0), Relaxed);
        block.hist[0].store(now, Relaxed);
        block.last.store(now, Relaxed);
        block.page.store(page.0, Relaxed);
        self.recent.append(frame);
    }

    #[inline]
    fn referenced(&self, frame: u32) {
        let now = self.tick();
        // Before its rank changes (heap invariant 1).
        self.take(frame);
        let block = self.block(frame);
        let last = block.last.load(Relaxed);
        if self.uncorrelated(now, last) {
            // The correlated references that followed the last one count as one with it: it ends where they do.
            let correlated = last - block.hist[0].load(Relaxed);
            block.hist[1].store(block.hist[0].load(Relaxed) + correlated, Relaxed);
            block.hist[0].store(now, Relaxed);
        }
        block.last.store(now, Relaxed);
        self.recent.append(frame);
    }

    #[inline]
    fn victim(&self) -> Option<u32> {
        self.rank_eligible(self.time.get() + 1);
        let frame = self.ranked.smallest().or_else(|| self.recent.oldest())?;
        self.take(frame);
        let block = self.block(frame);
        self.history.remember(PageKey(block.page.load(Relaxed)), block.hist[0].load(Relaxed));
        Some(frame)
    }

    fn removed(&self, frame: u32) {
        self.take(frame);
    }

    fn contains(&self, frame: u32) -> bool {
        self.ranked.contains(frame) || self.recent.contains(frame)
    }

    fn check(&self) {
        self.recent.check();
        self.ranked.check(|frame| self.rank(frame));
        self.history.check();
        let last = |frame| self.block(frame).last.load(Relaxed);
        let frames = 0..self.blocks.len() as u32;
        let mut before =
            frames.clone().filter(|frame| self.ranked.contains(*frame)).map(last).max().unwrap_or(0);
        for frame in self.recent.iter() {
            assert!(!self.ranked.contains(frame), "LRU-2 invariant 1: frame {frame}");
            assert!(last(frame) > before, "LRU-2 invariant 2: frame {frame}");
            before = last(frame);
        }
        for frame in frames.filter(|frame| self.contains(*frame)) {
            let (second, first) = self.rank(frame);
            let ordered = second < first && first <= last(frame) && last(frame) <= self.time.get();
            assert!(ordered, "LRU-2 invariant 4: frame {frame}");
            let eligible = self.uncorrelated(self.time.get() + 1, last(frame));
            assert!(eligible || !self.ranked.contains(frame), "LRU-2 invariant 3: frame {frame}");
        }
    }
}
