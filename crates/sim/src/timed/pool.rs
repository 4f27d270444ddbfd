//! The database's buffer pool: which pages are in memory, and which leaves next.
//!
//! 1. `frame_of` and the frames' pages are each other's inverse.
//! 2. A frame is free, or holds a page and is in the order of replacement.
//! 3. A pinned frame is never a victim.

use mezzanine_ground::replacement::prefetch;

/// Number of no frame, and of no waiter.
pub(super) const NONE: u32 = u32::MAX;

/// How pages are replaced.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize)]
#[serde(rename_all = "lowercase")]
pub enum PoolPolicy {
    /// Least recently used.
    Lru,
    /// PostgreSQL's clock sweep: a page has a count of uses, at most five, that the passing hand takes one
    /// from.
    Clock,
}

impl std::fmt::Display for PoolPolicy {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.pad(match self {
            Self::Lru => "lru",
            Self::Clock => "clock",
        })
    }
}

impl std::str::FromStr for PoolPolicy {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "lru" => Ok(Self::Lru),
            "clock" => Ok(Self::Clock),
            _ => Err(format!("unknown pool policy '{text}'; known: lru, clock")),
        }
    }
}

/// A frame of the pool.
#[derive(Debug, Clone, Copy)]
pub(super) struct Frame {
    pub(super) page: u32,
    /// Clients that wait until it is loaded: the first, who knows the next.
    pub(super) waiter: u32,
    /// Position in the log of the last change.
    pub(super) lsn: u64,
    /// The checkpoint's mark when the page became dirty.
    pub(super) mark: u64,
    pub(super) pins: u16,
    pub(super) dirty: bool,
    /// Its page is being read.
    pub(super) loading: bool,
}

/// Pages in memory.
pub(super) struct Pool {
    /// By page: its frame; [`NONE`] without one.
    frame_of: Vec<u32>,
    frames: Vec<Frame>,
    free: Vec<u32>,
    order: Order,
}

enum Order {
    Lru(Lru),
    Clock { uses: Vec<u8>, hand: u32 },
}

/// A ring of frames, and one number more for its ends.
struct Lru {
    next: Vec<u32>,
    previous: Vec<u32>,
}

/// Most uses that the clock counts, as in PostgreSQL.
const USES_MAX: u8 = 5;

impl Pool {
    /// An empty pool, for pages with numbers below `pages` and those that [`Self::make_room`] adds.
    pub(super) fn new(policy: PoolPolicy, frames: u32, pages: u32) -> Self {
        let frame =
            Frame { page: NONE, waiter: NONE, lsn: 0, mark: 0, pins: 0, dirty: false, loading: false };
        let order = match policy {
            PoolPolicy::Lru => Order::Lru(Lru::new(frames)),
            PoolPolicy::Clock => Order::Clock { uses: vec![0; frames as usize], hand: 0 },
        };
        Self {
            frame_of: vec![NONE; pages as usize],
            frames: vec![frame; frames as usize],
            free: (0..frames).rev().collect(),
            order,
        }
    }

    /// Bytes of memory.
    pub(super) fn bytes(frames: u64, pages: u64) -> u64 {
        pages * 4 + frames * (size_of::<Frame>() as u64 + 4 + 8)
    }

    /// Has room for pages with numbers below `pages`.
    pub(super) fn make_room(&mut self, pages: u32) {
        if self.frame_of.len() < pages as usize {
            let len = (pages as usize).max(self.frame_of.len() * 3 / 2);
            self.frame_of.resize(len, NONE);
        }
    }

    /// The frame of a page.
    #[inline]
    pub(super) fn find(&self, page: u32) -> Option<u32> {
        let frame = self.frame_of[page as usize];
        (frame != NONE).then_some(frame)
    }

    /// Has what [`Self::find`] looks at come into the processor's cache.
    #[inline]
    pub(super) fn will_find(&self, page: u32) {
        if let Some(frame) = self.frame_of.get(page as usize) {
            prefetch(frame);
        }
    }

    /// A frame whose page may leave soon after that of this one, and the page.
    #[inline]
    pub(super) fn after_victim(&self, victim: u32) -> Option<(u32, u32)> {
        let next = match &self.order {
            Order::Lru(lru) => lru.previous[victim as usize],
            // The hand stands behind the victim already.
            Order::Clock { .. } => (victim + 1) % self.frames(),
        };
        let page = self.frames.get(next as usize)?.page;
        (page != NONE).then_some((next, page))
    }

    #[inline]
    pub(super) fn frame(&self, frame: u32) -> &Frame {
        &self.frames[frame as usize]
    }

    #[inline]
    pub(super) fn frame_mut(&mut self, frame: u32) -> &mut Frame {
        &mut self.frames[frame as usize]
    }

    pub(super) fn frames(&self) -> u32 {
        self.frames.len() as u32
    }

    pub(super) fn free(&self) -> usize {
        self.free.len()
    }

    /// A page was used.
    #[inline]
    pub(super) fn used(&mut self, frame: u32) {
        match &mut self.order {
            Order::Lru(lru) => lru.touch(frame),
            Order::Clock { uses, .. } => {
                let uses = &mut uses[frame as usize];
                *uses = (*uses + 1).min(USES_MAX);
            }
        }
    }

    pub(super) fn take_free(&mut self) -> Option<u32> {
        self.free.pop()
    }

    /// The frame whose page leaves next; `None` if all are pinned or free.
    pub(super) fn victim(&mut self) -> Option<u32> {
        let frames = &self.frames;
        let may_leave = |frame: u32| frames[frame as usize].page != NONE && frames[frame as usize].pins == 0;
        match &mut self.order {
            Order::Lru(lru) => lru.oldest_first().find(|frame| may_leave(*frame)),
            Order::Clock { uses, hand } => {
                // With nobody pinned all counts are 0 after so many turns.
                for _ in 0..(u64::from(USES_MAX) + 1) * frames.len() as u64 {
                    let frame = *hand;
                    *hand = (*hand + 1) % frames.len() as u32;
                    if !may_leave(frame) {
                        continue;
                    }
                    let uses = &mut uses[frame as usize];
                    if *uses == 0 {
                        return Some(frame);
                    }
                    *uses -= 1;
                }
                None
            }
        }
    }

    /// Frames whose pages will leave soon if nobody uses them, at most so many: the next one first. Pinned
    /// ones are left out.
    pub(super) fn tail(&self, most: usize) -> Vec<u32> {
        let may_leave = |frame: &u32| {
            let frame = &self.frames[*frame as usize];
            frame.page != NONE && frame.pins == 0
        };
        match &self.order {
            Order::Lru(lru) => lru.oldest_first().take(most).filter(may_leave).collect(),
            Order::Clock { uses, hand } => {
                let count = self.frames.len() as u32;
                let turn = (0..count).map(|step| (hand + step) % count);
                turn.filter(|frame| uses[*frame as usize] == 0).filter(may_leave).take(most).collect()
            }
        }
    }

    /// Gives a frame that is neither free nor mapped to a page.
    pub(super) fn map(&mut self, frame: u32, page: u32) {
        self.frame_of[page as usize] = frame;
        self.frames[frame as usize] =
            Frame { page, waiter: NONE, lsn: 0, mark: 0, pins: 0, dirty: false, loading: false };
        match &mut self.order {
            Order::Lru(lru) => lru.insert(frame),
            Order::Clock { uses, .. } => uses[frame as usize] = 1,
        }
    }

    /// Takes a clean, unpinned page out; its frame belongs to the caller.
    pub(super) fn unmap(&mut self, frame: u32) {
        let Frame { page, pins, dirty, .. } = self.frames[frame as usize];
        assert!(pins == 0 && !dirty, "invariant 3");
        self.frame_of[page as usize] = NONE;
        self.frames[frame as usize].page = NONE;
        if let Order::Lru(lru) = &mut self.order {
            lru.remove(frame);
        }
    }

    /// Gives an unmapped frame back.
    pub(super) fn release(&mut self, frame: u32) {
        debug_assert_eq!(self.frames[frame as usize].page, NONE);
        self.free.push(frame);
    }

    /// The frames of dirty pages, in the order of the pages.
    pub(super) fn dirty(&self) -> Vec<u32> {
        let mut dirty: Vec<u32> =
            (0..self.frames()).filter(|frame| self.frames[*frame as usize].dirty).collect();
        dirty.sort_by_key(|frame| self.frames[*frame as usize].page);
        dirty
    }

    /// Checks the invariants. For tests.
    ///
    /// # Panics
    /// If one does not hold.
    pub(super) fn check(&self) {
        let mapped = self.frame_of.iter().filter(|frame| **frame != NONE).count();
        let held = self.frames.iter().filter(|frame| frame.page != NONE).count();
        assert_eq!(mapped, held, "invariant 1");
        for (page, frame) in self.frame_of.iter().enumerate().filter(|(_, frame)| **frame != NONE) {
            assert_eq!(self.frames[*frame as usize].page, page as u32, "invariant 1");
        }
        assert!(self.free.iter().all(|frame| self.frames[*frame as usize].page == NONE), "invariant 2");
        if let Order::Lru(lru) = &self.order {
            assert_eq!(lru.oldest_first().count(), held, "invariant 2");
        }
    }
}

impl Lru {
    fn new(frames: u32) -> Self {
        let mut lru =
            Self { next: vec![NONE; frames as usize + 1], previous: vec![NONE; frames as usize + 1] };
        (lru.next[frames as usize], lru.previous[frames as usize]) = (frames, frames);
        lru
    }

    fn end(&self) -> u32 {
        self.next.len() as u32 - 1
    }

    fn insert(&mut self, frame: u32) {
        let end = self.end();
        let first = self.next[end as usize];
        (self.next[frame as usize], self.previous[frame as usize]) = (first, end);
        (self.previous[first as usize], self.next[end as usize]) = (frame, frame);
    }

    fn remove(&mut self, frame: u32) {
        let (next, previous) = (self.next[frame as usize], self.previous[frame as usize]);
        self.next[previous as usize] = next;
        self.previous[next as usize] = previous;
    }

    fn touch(&mut self, frame: u32) {
        if self.next[self.end() as usize] != frame {
            self.remove(frame);
            self.insert(frame);
        }
    }

    fn oldest_first(&self) -> impl Iterator<Item = u32> + '_ {
        let end = self.end();
        let mut at = end;
        std::iter::from_fn(move || {
            at = self.previous[at as usize];
            (at != end).then_some(at)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn use_page(pool: &mut Pool, page: u32) -> Option<u32> {
        if let Some(frame) = pool.find(page) {
            pool.used(frame);
            return None;
        }
        let (frame, left) = match pool.take_free() {
            Some(frame) => (frame, None),
            None => {
                let frame = pool.victim().expect("nobody is pinned");
                let left = pool.frame(frame).page;
                pool.unmap(frame);
                (frame, Some(left))
            }
        };
        pool.map(frame, page);
        left
    }

    #[test]
    fn the_least_recently_used_page_leaves() {
        let mut pool = Pool::new(PoolPolicy::Lru, 3, 10);
        let left: Vec<_> = [1, 2, 3, 1, 4, 2, 5].map(|page| use_page(&mut pool, page)).into();
        assert_eq!(left, [None, None, None, None, Some(2), Some(3), Some(1)]);
        assert_eq!(pool.tail(2).iter().map(|frame| pool.frame(*frame).page).collect::<Vec<_>>(), [4, 2]);
        pool.check();
    }

    #[test]
    fn the_clock_counts_uses() {
        let mut pool = Pool::new(PoolPolicy::Clock, 3, 10);
        // Pages 1 and 3 have one use each when the hand comes, 2 has three.
        let left: Vec<_> = [1, 2, 3, 2, 2, 4, 5].map(|page| use_page(&mut pool, page)).into();
        assert_eq!(left, [None, None, None, None, None, Some(1), Some(3)]);
        pool.check();
    }

    #[test]
    fn a_pinned_page_stays() {
        for policy in [PoolPolicy::Lru, PoolPolicy::Clock] {
            let mut pool = Pool::new(policy, 2, 10);
            use_page(&mut pool, 1);
            use_page(&mut pool, 2);
            let first = pool.find(1).expect("it is there");
            pool.frame_mut(first).pins = 1;
            assert_eq!(use_page(&mut pool, 3), Some(2), "{policy}");
            let third = pool.find(3).expect("it is there");
            pool.frame_mut(third).pins = 1;
            assert_eq!(pool.victim(), None, "{policy}");
        }
    }
}
