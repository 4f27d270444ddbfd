//! The top tier: a buffer pool in memory under LRU, which makes the requests of the middle tier (section 4).

use crate::ConfigError;

use super::disk::slot_of;
use super::recency::Recency;

/// Largest number of pages that requests can name.
pub const PAGES_MAX: u32 = 1 << 31;

/// A page that the top tier lacks, or a dirty one that leaves it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Request(u32);

impl Request {
    /// The top tier lacks this page.
    ///
    /// # Panics
    /// If the number is not below [`PAGES_MAX`]; so with writes.
    pub fn read(page: u32) -> Self {
        assert!(page < PAGES_MAX, "page {page} is not below {PAGES_MAX}");
        Self(page << 1)
    }

    /// This page leaves it, and is dirty.
    pub fn write(page: u32) -> Self {
        Self(Self::read(page).0 | 1)
    }

    /// The page.
    pub fn page(self) -> u32 {
        self.0 >> 1
    }

    /// Whether it is a write.
    pub fn is_write(self) -> bool {
        self.0 & 1 == 1
    }
}

/// The buffer pool.
#[derive(Debug)]
pub struct TopTier {
    /// Of each page, its frame; + 1, 0 = none.
    frames: Vec<u32>,
    pages: Box<[u32]>,
    dirty: Box<[bool]>,
    used: u32,
    order: Recency,
}

impl TopTier {
    /// The size of the paper's.
    pub const PUBLISHED_FRAMES: u32 = 10_000;

    /// An empty one of so many frames.
    ///
    /// # Errors
    /// If there can be none of so many.
    pub fn new(frames: u32) -> Result<Self, ConfigError> {
        Ok(Self {
            frames: Vec::new(),
            order: Recency::new("top_frames", frames)?,
            pages: vec![0; frames as usize].into(),
            dirty: vec![false; frames as usize].into(),
            used: 0,
        })
    }

    /// The database refers to a page, and perhaps changes it. What comes of it for the middle tier is handed
    /// to `request`, in order: a dirty page that makes room, and the page itself.
    pub fn refer(&mut self, page: u32, changes: bool, mut request: impl FnMut(Request)) {
        if let Some(frame) = slot_of(&mut self.frames, page).checked_sub(1) {
            self.order.used(frame);
            self.dirty[frame as usize] |= changes;
            return;
        }
        let frame = if (self.used as usize) < self.pages.len() {
            self.used += 1;
            self.used - 1
        } else {
            let frame = self.order.victim().expect("all frames are in use");
            let victim = self.pages[frame as usize];
            self.frames[victim as usize] = 0;
            if self.dirty[frame as usize] {
                request(Request::write(victim));
            }
            frame
        };
        request(Request::read(page));
        self.frames[page as usize] = frame + 1;
        self.pages[frame as usize] = page;
        self.dirty[frame as usize] = changes;
        self.order.inserted(frame);
    }
}
