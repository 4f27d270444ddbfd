//! The cache manager of BL and LPD: slots over a translation layer (section 3.1).
//!
//! A slot is a logical page of the translation layer. How a free one is found when a page comes in is what
//! the two differ in: `baseline.rs` and `lpd.rs`.
//!
//! Invariants:
//! - *C1*: a slot is free or occupied; occupied ones have a page that maps to them and are in the LRU order.
//! - *C2*: a slot that is not dirty has what disk has.

use crate::ConfigError;

use super::costs::Counts;
use super::disk::{Disk, slot_of};
use super::flash::{Collected, FlashConfig};
use super::ftl::Ftl;
use super::recency::Recency;
use super::{Found, MiddleTier};

#[derive(Debug)]
pub(super) struct Cache {
    ftl: Ftl,
    disk: Disk,
    /// Of each page of the database, its slot (m_LPD); + 1, 0 = none.
    slots: Vec<u32>,
    /// Of each slot, its page; + 1, 0 = free.
    pages: Box<[u32]>,
    /// Of each slot, whether its page is newer than disk has it.
    dirty: Box<[bool]>,
    /// F.
    free: Vec<u32>,
    /// S, in LRU order.
    occupied: Recency,
    counts: Counts,
}

/// How a slot is found for a page that comes in.
pub(super) trait Allocate: std::fmt::Debug {
    /// A slot that is in neither F nor S.
    fn allocate(&self, cache: &mut Cache) -> u32;
}

impl Cache {
    pub(super) fn new(config: FlashConfig) -> Result<Self, ConfigError> {
        let ftl = Ftl::new(config)?;
        let count = config.logical_pages();
        Ok(Self {
            ftl,
            disk: Disk::default(),
            slots: Vec::new(),
            pages: vec![0; count as usize].into(),
            dirty: vec![false; count as usize].into(),
            // The first ones come first.
            free: (0..count).rev().collect(),
            occupied: Recency::new("blocks", count)?,
            counts: Counts::default(),
        })
    }

    /// Takes a slot out of F.
    pub(super) fn take_free(&mut self) -> Option<u32> {
        self.free.pop()
    }

    /// Takes the victim out of S, and evicts the page that is cached in it.
    pub(super) fn evict_victim(&mut self) -> Option<u32> {
        let slot = self.occupied.victim()?;
        let page = std::mem::take(&mut self.pages[slot as usize]) - 1;
        self.slots[page as usize] = 0;
        if std::mem::take(&mut self.dirty[slot as usize]) {
            let content = self.ftl.read(slot);
            self.disk.write_back(page, content);
        }
        Some(slot)
    }

    /// Tells the translation layer that a slot's version is not needed, and adds it to F: with its eviction,
    /// the page is dropped.
    pub(super) fn delete(&mut self, slot: u32) {
        self.ftl.delete(slot);
        self.free.push(slot);
        self.counts.dropped += 1;
    }

    fn occupy(&mut self, slot: u32, page: u32, content: u64, dirty: bool) {
        self.ftl.write(slot, content);
        *slot_of(&mut self.slots, page) = slot + 1;
        self.pages[slot as usize] = page + 1;
        self.dirty[slot as usize] = dirty;
        self.occupied.inserted(slot);
    }

    pub(super) fn read(&mut self, page: u32, allocate: &impl Allocate) -> Found {
        self.counts.reads += 1;
        if let Some(slot) = slot_of(&mut self.slots, page).checked_sub(1) {
            self.counts.read_hits += 1;
            self.occupied.used(slot);
            return Found { content: self.ftl.read(slot), is_hit: true };
        }
        let content = self.disk.fetch(page);
        let slot = allocate.allocate(self);
        self.occupy(slot, page, content, false);
        Found { content, is_hit: false }
    }

    pub(super) fn write(&mut self, page: u32, content: u64, allocate: &impl Allocate) -> bool {
        self.counts.writes += 1;
        if let Some(slot) = slot_of(&mut self.slots, page).checked_sub(1) {
            self.counts.write_hits += 1;
            self.occupied.used(slot);
            self.dirty[slot as usize] = true;
            self.ftl.write(slot, content);
            return true;
        }
        // All of the page is written, so nothing of it is fetched.
        let slot = allocate.allocate(self);
        self.occupy(slot, page, content, true);
        false
    }

    pub(super) fn counts(&self) -> Counts {
        self.counts.beside(&self.disk, &self.ftl.flash)
    }

    pub(super) fn collected(&self) -> &Collected {
        self.ftl.flash.collected()
    }

    pub(super) fn erases(&self) -> Vec<u32> {
        self.ftl.flash.erases()
    }

    pub(super) fn cached_pages(&self) -> u32 {
        self.pages.iter().filter(|page| **page != 0).count() as u32
    }

    pub(super) fn check(&mut self) -> Result<(), String> {
        self.ftl.check()?;
        let free = self.free.len() + self.cached_pages() as usize;
        if free != self.pages.len() {
            return Err(format!("C1: {} slots, and {free} are free or occupied", self.pages.len()));
        }
        let mapped =
            self.slots.iter().enumerate().filter_map(|(page, slot)| Some((page, slot.checked_sub(1)?)));
        let mut count = 0;
        for (page, slot) in mapped {
            count += 1;
            if self.pages[slot as usize] != page as u32 + 1 {
                return Err(format!("C1: page {page} maps to slot {slot}, which is another's"));
            }
        }
        if count != self.cached_pages() {
            return Err(format!("C1: {count} pages map to a slot, and {} have one", self.cached_pages()));
        }
        Ok(())
    }
}

/// A cache manager with a way to find slots is a middle tier.
impl<A: Allocate> MiddleTier for (Cache, A) {
    fn read(&mut self, page: u32) -> Found {
        self.0.read(page, &self.1)
    }

    fn write(&mut self, page: u32, content: u64) -> bool {
        self.0.write(page, content, &self.1)
    }

    fn counts(&self) -> Counts {
        self.0.counts()
    }

    fn collected(&self) -> &Collected {
        self.0.collected()
    }

    fn erases(&self) -> Vec<u32> {
        self.0.erases()
    }

    fn cached_pages(&self) -> u32 {
        self.0.cached_pages()
    }

    fn check(&mut self) -> Result<(), String> {
        self.0.check()
    }
}
