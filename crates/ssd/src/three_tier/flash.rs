//! The flash of a middle tier: one plane, a write pointer, and counts of operations (section 3.2, Algorithm
//! 2).
//!
//! What a page holds is one word, so that tests can tell its versions apart. The spare area of a flash page
//! has the number of whoever owns it: a slot of the cache, or a page of the database.
//!
//! Invariants, beside those of the array (N1 to N3), which it asserts:
//! - *F1*: at most one block is open, the one that the write pointer is in. What collection moves goes there
//!   as well.
//! - *F2*: collection takes a block, moves or drops all that is valid in it and erases it before it takes the
//!   next. It programs fewer pages than it erases: a free block at its beginning is enough, and it frees a page.

use serde::Serialize;

use crate::ConfigError;
use crate::geometry::Geometry;
use crate::nand::{BlockState, OwnedArray};

use super::costs::Operations;

/// The one plane.
const PLANE: u32 = 0;
/// The flash of the paper does not wear out.
const ENDURANCE: u32 = u32::MAX;
/// What a page holds is not stored, so its size is of no matter.
const PAGE_BYTES: u32 = 8192;

/// The flash of a middle tier, and when its blocks are collected.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FlashConfig {
    /// Erase blocks.
    pub blocks: u32,
    /// Pages of a block.
    pub pages_per_block: u32,
    /// With so many free blocks, or fewer, collection starts (w_l).
    pub low_watermark: u32,
    /// With so many it stops (w_h). They are the reserve.
    pub high_watermark: u32,
}

impl Default for FlashConfig {
    /// The flash of section 4: 512 blocks of 128 pages, and watermarks at 5 and 10 %.
    fn default() -> Self {
        Self::with_blocks(512, 128)
    }
}

impl FlashConfig {
    /// With the watermarks of section 4. Shares of blocks are rounded down: "at or below 25.6 blocks" is at
    /// or below 25, and the paper's 59,008 logical pages follow from a reserve of 51.
    pub fn with_blocks(blocks: u32, pages_per_block: u32) -> Self {
        Self { blocks, pages_per_block, low_watermark: blocks / 20, high_watermark: blocks / 10 }
    }

    /// Pages that the tier can hold beside its reserve: the slots of BL and LPD.
    pub fn logical_pages(&self) -> u32 {
        (self.blocks - self.high_watermark) * self.pages_per_block
    }

    /// # Errors
    /// The first number that cannot be, and what it may be.
    pub fn check(&self) -> Result<(), ConfigError> {
        if !(4..=1 << 20).contains(&self.blocks) {
            let reason = format!("must be from 4 to {}, not {}", 1 << 20, self.blocks);
            return Err(ConfigError::new("blocks", reason));
        }
        if self.pages_per_block < 2 {
            let reason = format!("must be at least 2, not {}", self.pages_per_block);
            return Err(ConfigError::new("pages_per_block", reason));
        }
        self.geometry().check()?;
        // One block that is open and one that can be collected are not free.
        let most = self.blocks - 2;
        if !(2..=most).contains(&self.high_watermark) {
            let reason = format!("must be from 2 to {most}, not {}", self.high_watermark);
            return Err(ConfigError::new("high_watermark", reason));
        }
        if !(1..self.high_watermark).contains(&self.low_watermark) {
            let most = self.high_watermark - 1;
            let reason = format!("must be from 1 to {most}, below the high one, not {}", self.low_watermark);
            return Err(ConfigError::new("low_watermark", reason));
        }
        Ok(())
    }

    fn geometry(&self) -> Geometry {
        Geometry::one_plane(self.blocks, self.pages_per_block, PAGE_BYTES)
    }
}

/// Blocks collected, by numbers of pages: none, one, and so on.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Collected {
    /// By the valid pages that they had when they were chosen.
    pub by_valid: Vec<u64>,
    /// By the pages that were moved: what was still valid when all others were dropped (Figure 7).
    pub by_moved: Vec<u64>,
}

impl Collected {
    fn new(pages_per_block: u32) -> Self {
        let none = vec![0; pages_per_block as usize + 1];
        Self { by_valid: none.clone(), by_moved: none }
    }
}

#[derive(Debug)]
pub(super) struct Flash {
    config: FlashConfig,
    array: OwnedArray,
    /// What each page holds.
    contents: Box<[u64]>,
    /// The block that the write pointer is in, as long as it has room (F1).
    open: Option<u32>,
    /// The block that is collected.
    taken: Option<u32>,
    /// Pages moved out of it so far.
    moved: usize,
    collected: Collected,
    collection: Operations,
    caching: Operations,
}

/// Who collects blocks of such flash when few are free.
pub(super) trait Collects {
    fn flash(&mut self) -> &mut Flash;

    /// Collects one block. False if there is none to collect.
    fn collect(&mut self) -> bool;

    /// Algorithm 2, which the paper calls common: it holds for translation layers as well. Moved pages go to
    /// the write pointer too, so that is looked at again when a batch of collections is over: they may have
    /// filled the block that it was put in.
    fn make_room(&mut self) {
        let FlashConfig { low_watermark, high_watermark, .. } = *self.flash().config();
        while self.flash().begin_block() {
            if self.flash().free_blocks() <= low_watermark {
                while self.flash().free_blocks() < high_watermark && self.collect() {}
            }
        }
    }
}

impl Flash {
    pub(super) fn new(config: FlashConfig) -> Result<Self, ConfigError> {
        config.check()?;
        let array = OwnedArray::new(config.geometry())?;
        Ok(Self {
            contents: vec![0; array.geometry().units() as usize].into(),
            array,
            open: None,
            taken: None,
            moved: 0,
            collected: Collected::new(config.pages_per_block),
            collection: Operations::default(),
            caching: Operations::default(),
            config,
        })
    }

    pub(super) fn config(&self) -> &FlashConfig {
        &self.config
    }

    pub(super) fn pages(&self) -> u32 {
        self.array.geometry().units()
    }

    pub(super) fn free_blocks(&self) -> u32 {
        self.array.erased(PLANE)
    }

    pub(super) fn block_of(&self, at: u32) -> u32 {
        at / self.config.pages_per_block
    }

    /// The flash pages of a block.
    pub(super) fn pages_of(&self, block: u32) -> std::ops::Range<u32> {
        let first = block * self.config.pages_per_block;
        first..first + self.config.pages_per_block
    }

    /// Whose version a flash page has, valid or not. `None` if it is free, and perhaps nobody's.
    pub(super) fn owner(&self, at: u32) -> Option<u32> {
        self.array.spare(at).checked_sub(1)
    }

    fn operations(&mut self) -> &mut Operations {
        if self.taken.is_some() { &mut self.collection } else { &mut self.caching }
    }

    pub(super) fn read(&mut self, at: u32) -> u64 {
        self.operations().reads += 1;
        self.contents[at as usize]
    }

    /// Moves the write pointer to a free block, if it is at the end of one (Algorithm 2, lines 1 and 2). Says
    /// whether it did.
    ///
    /// # Panics
    /// If no block is free (F2).
    pub(super) fn begin_block(&mut self) -> bool {
        if self.open.is_some() {
            return false;
        }
        let opened = self.array.array().open_first_erased(PLANE);
        assert!(opened.is_some(), "F2: no block is free for what is programmed");
        self.open = opened;
        true
    }

    /// Programs the flash page at the write pointer, and returns which one it was.
    pub(super) fn program(&mut self, owner: u32, content: u64) -> u32 {
        self.begin_block();
        let block = self.open.expect("F1: the write pointer is in a block");
        let (at, is_full) = self.array.array().program(block, &[owner + 1]);
        if is_full {
            self.open = None;
        }
        self.contents[at as usize] = content;
        self.operations().programs += 1;
        self.moved += usize::from(self.taken.is_some());
        at
    }

    pub(super) fn invalidate(&mut self, at: u32) {
        self.array.array().invalidate(at);
    }

    /// The garbage block of the greedy policy: the fully written block with the fewest valid pages, and how
    /// many those are. The one with the write pointer is none.
    pub(super) fn fewest_valid(&mut self) -> Option<(u32, u32)> {
        let mut array = self.array.array();
        let block = array.fewest_valid(PLANE)?;
        Some((block, array.valid(block)))
    }

    /// The fully written block for which `key` is least; of equals the one with the lower number.
    pub(super) fn least(&mut self, key: impl Fn(u32) -> u64) -> Option<u32> {
        let blocks = 0..self.config.blocks;
        let array = self.array.array();
        blocks.filter(|block| array.state(*block) == BlockState::Closed).min_by_key(|block| key(*block))
    }

    /// Whether a block is fully written.
    pub(super) fn is_written(&mut self, block: u32) -> bool {
        self.array.array().state(block) == BlockState::Closed
    }

    /// Begins to collect a block (F2). Operations count as collection until it is erased.
    pub(super) fn take(&mut self, block: u32) {
        assert!(self.taken.is_none(), "F2: one block after the other");
        let mut array = self.array.array();
        self.collected.by_valid[array.valid(block) as usize] += 1;
        array.take(block);
        self.taken = Some(block);
    }

    /// Ends it.
    pub(super) fn erase(&mut self) {
        self.operations().erases += 1;
        let block = self.taken.take().expect("F2: a block that was taken is erased");
        assert!(self.array.array().erase(block, ENDURANCE, u32::MAX), "flash does not wear out here");
        let moved = std::mem::take(&mut self.moved);
        assert!(moved < self.config.pages_per_block as usize, "F2: collecting block {block} freed nothing");
        self.collected.by_moved[moved] += 1;
    }

    pub(super) fn collected(&self) -> &Collected {
        &self.collected
    }

    pub(super) fn erases(&self) -> Vec<u32> {
        self.array.erases()
    }

    /// Operations of collection, and all others.
    pub(super) fn counted(&self) -> (Operations, Operations) {
        (self.collection, self.caching)
    }

    /// N1 to N3 and F1. `vouched` says of a flash page and its owner whether it is valid.
    pub(super) fn check(&mut self, vouched: impl Fn(u32, u32) -> bool) -> Result<(), String> {
        let array = self.array.array();
        array.check(|at| array.spare(at).checked_sub(1).is_some_and(|owner| vouched(at, owner)))?;
        for block in 0..self.config.blocks {
            let is_open = array.state(block) == BlockState::Open;
            if is_open != (self.open == Some(block)) {
                return Err(format!("F1: block {block} is open, and the write pointer is elsewhere"));
            }
        }
        Ok(())
    }
}
