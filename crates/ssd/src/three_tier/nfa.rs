//! NFA, native flash access: a cache that manages flash itself, without a translation layer (section 3.2,
//! Algorithms 2 and 3).
//!
//! There is no replacement of single pages. Room comes from collection, which drops the pages of a block that
//! were not used since a threshold, and moves the others.
//!
//! Invariants:
//! - *A1*: a flash page is valid if and only if the map names it, so a page has one version here at most.
//! - *A2*: a valid page that is not dirty has what disk has; a dirty one is written to disk when it is
//!   dropped.
//! - *A3*: collecting a block frees at least one page.
//! - *A4*: a block that is fully written was last used when the latest of its pages was.

use crate::ConfigError;

use super::costs::Counts;
use super::disk::{Disk, slot_of};
use super::flash::{Collected, Collects, Flash, FlashConfig};
use super::{Found, MiddleTier};

/// The block management structures, flash page by flash page and block by block. Validity follows from the
/// map (A1), and a valid page's address (BTA) is in the spare area.
#[derive(Debug)]
struct Blocks {
    /// Of each flash page, whether its page is newer than disk has it.
    dirty: Box<[bool]>,
    /// Of each flash page, when its page was last used.
    used: Box<[u64]>,
    /// Of each block, the latest of these.
    block_used: Box<[u64]>,
}

/// The cache.
#[derive(Debug)]
pub(super) struct Nfa {
    flash: Flash,
    disk: Disk,
    /// Of each page of the database, its flash page (m_NFA); + 1, 0 = none.
    map: Vec<u32>,
    blocks: Blocks,
    /// The page-dropping threshold (t). It outlives a collection.
    threshold: u64,
    /// Requests so far: the clock that pages are used by. The first one is at 1, after the first threshold.
    now: u64,
    counts: Counts,
}

impl Nfa {
    pub(super) fn new(config: FlashConfig) -> Result<Self, ConfigError> {
        let flash = Flash::new(config)?;
        let pages = flash.pages() as usize;
        let blocks = Blocks {
            dirty: vec![false; pages].into(),
            used: vec![0; pages].into(),
            block_used: vec![0; config.blocks as usize].into(),
        };
        Ok(Self {
            flash,
            disk: Disk::default(),
            map: Vec::new(),
            blocks,
            threshold: 0,
            now: 0,
            counts: Counts::default(),
        })
    }

    /// The page on this flash page was used.
    fn use_page(&mut self, at: u32, when: u64) {
        self.blocks.used[at as usize] = when;
        let block = &mut self.blocks.block_used[self.flash.block_of(at) as usize];
        *block = when.max(*block);
    }

    /// Stores a version of a page at the write pointer, instead of the one that is there. Collection does not
    /// use what it moves: `when` is the last use of the page.
    fn store(&mut self, page: u32, content: u64, dirty: bool, when: u64) {
        let at = self.flash.program(page, content);
        self.blocks.dirty[at as usize] = dirty;
        self.use_page(at, when);
        let before = std::mem::replace(slot_of(&mut self.map, page), at + 1);
        if let Some(before) = before.checked_sub(1) {
            self.flash.invalidate(before);
        }
    }

    /// The page leaves the cache, to disk if it is dirty.
    fn drop(&mut self, page: u32, at: u32) {
        if self.blocks.dirty[at as usize] {
            let content = self.flash.read(at);
            self.disk.write_back(page, content);
        }
        self.map[page as usize] = 0;
        self.flash.invalidate(at);
        self.counts.dropped += 1;
    }
}

impl Collects for Nfa {
    fn flash(&mut self) -> &mut Flash {
        &mut self.flash
    }

    /// Algorithm 3. False if there is no block to collect.
    fn collect(&mut self) -> bool {
        // Line 1.
        let Some((mut block, valid)) = self.flash.fewest_valid() else { return false };
        // Lines 2 to 4. That the block with the fewest valid pages is all valid says that every block is, so
        // it makes no difference to the choice whether pages that have become invalid count as used.
        if valid == self.flash.config().pages_per_block {
            block = self.flash.least(|block| self.blocks.block_used[block as usize]).unwrap_or(block);
            self.threshold = self.blocks.block_used[block as usize];
        }
        self.flash.take(block);
        // Lines 5 to 9, of the pages that are valid.
        for at in self.flash.pages_of(block) {
            let Some(page) = self.flash.owner(at) else { continue };
            if self.map[page as usize] != at + 1 {
                continue;
            }
            if self.blocks.used[at as usize] <= self.threshold {
                self.drop(page, at);
            } else {
                let content = self.flash.read(at);
                self.store(page, content, self.blocks.dirty[at as usize], self.blocks.used[at as usize]);
            }
        }
        // Line 10.
        self.flash.erase();
        self.blocks.block_used[block as usize] = 0;
        true
    }
}

impl MiddleTier for Nfa {
    fn read(&mut self, page: u32) -> Found {
        self.now += 1;
        self.counts.reads += 1;
        if let Some(at) = slot_of(&mut self.map, page).checked_sub(1) {
            self.counts.read_hits += 1;
            self.use_page(at, self.now);
            return Found { content: self.flash.read(at), is_hit: true };
        }
        let content = self.disk.fetch(page);
        self.make_room();
        self.store(page, content, false, self.now);
        Found { content, is_hit: false }
    }

    fn write(&mut self, page: u32, content: u64) -> bool {
        self.now += 1;
        self.counts.writes += 1;
        let is_hit = *slot_of(&mut self.map, page) != 0;
        self.counts.write_hits += u64::from(is_hit);
        // The version before stays valid until this one is programmed.
        self.make_room();
        self.store(page, content, true, self.now);
        is_hit
    }

    fn counts(&self) -> Counts {
        self.counts.beside(&self.disk, &self.flash)
    }

    fn collected(&self) -> &Collected {
        self.flash.collected()
    }

    fn erases(&self) -> Vec<u32> {
        self.flash.erases()
    }

    fn cached_pages(&self) -> u32 {
        self.map.iter().filter(|at| **at != 0).count() as u32
    }

    fn check(&mut self) -> Result<(), String> {
        let map = &self.map;
        self.flash.check(|at, page| map[page as usize] == at + 1)?;
        for (page, at) in self.map.iter().enumerate() {
            let Some(at) = at.checked_sub(1) else { continue };
            if self.flash.owner(at) != Some(page as u32) {
                return Err(format!("A1: page {page} is in flash page {at}, which is another's"));
            }
        }
        for block in 0..self.flash.config().blocks {
            let latest = self.flash.pages_of(block).map(|at| self.blocks.used[at as usize]).max();
            if self.flash.is_written(block) && latest != Some(self.blocks.block_used[block as usize]) {
                return Err(format!("A4: block {block} was not last used when its pages were"));
            }
        }
        Ok(())
    }
}
