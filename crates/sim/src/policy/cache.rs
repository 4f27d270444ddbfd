//! One policy with one number of frames.
//!
//! 1. `frame_of` and `page_of` are each other's inverse for the pages that are there.
//! 2. Exactly the frames below `used` have a page, and they are the ones in the policy's order.

use mezzanine_engine::{PageId, Region, SecondTouch};
use mezzanine_ground::replacement::{PageKey, PolicyConfig, Replacement, Visitor, prefetch};

use super::counts::{Access, Counts};

/// A cache that holds pages' numbers and no pages.
pub struct Cache {
    policy: PolicyConfig,
    /// What the policy keeps.
    region: Region,
    /// By page: its frame, counted from 1; 0 is none.
    frame_of: Vec<u32>,
    /// By frame: its page.
    page_of: Vec<u32>,
    used: u32,
    /// Missed pages, so many of which are remembered, if only those come in that return.
    remembered: Option<(Region, u64)>,
    /// Reads and writes, and those of them that missed.
    requests: [u64; 2],
    misses: [u64; 2],
    turned_away: u64,
}

/// File that the pages are of.
const FILE: u64 = 1;

impl Cache {
    /// An empty cache.
    pub fn new(policy: PolicyConfig) -> Self {
        Self {
            policy,
            region: policy.region(),
            frame_of: Vec::new(),
            page_of: vec![0; policy.frames() as usize],
            used: 0,
            remembered: None,
            requests: [0; 2],
            misses: [0; 2],
            turned_away: 0,
        }
    }

    /// The same cache with second-touch admission of pages that are read, so many that missed being
    /// remembered; 0 for all.
    #[must_use]
    pub fn second_touch(self, pages: u64) -> Self {
        let remembered = (pages > 0).then(|| (Region::heap(SecondTouch::bytes(pages)), pages));
        Self { remembered, ..self }
    }

    /// Bytes of memory that a cache takes when it is made. To these come up to [`Self::BYTES_PER_PAGE`] for
    /// each page that it meets.
    pub fn bytes(policy: &PolicyConfig) -> u64 {
        policy.bytes() as u64 + u64::from(policy.frames()) * 4
    }

    /// Most bytes for each distinct page; the array is made larger in steps of a half.
    pub const BYTES_PER_PAGE: u64 = 6;

    /// The policy.
    pub fn policy(&self) -> &PolicyConfig {
        &self.policy
    }

    /// Makes requests, all of whose pages' numbers are below `pages`. To the policy the numbers are the
    /// pages' names.
    ///
    /// # Panics
    /// If a page's number is not.
    pub fn run(&mut self, accesses: &[Access], pages: u32) {
        self.run_named(accesses, pages, |page| PageKey(page.into()));
    }

    /// The same with pages that have other names: `names` by number. Where neighbours are nothing to the
    /// policy numbers are as good, and are used.
    ///
    /// # Panics
    /// If a page's number has no name.
    pub fn run_with_names(&mut self, accesses: &[Access], names: &[u64]) {
        let pages = u32::try_from(names.len()).expect("pages have 31 bits");
        if self.policy.policy().looks_at_neighbours() {
            self.run_named(accesses, pages, |page| PageKey(names[page as usize]));
        } else {
            self.run(accesses, pages);
        }
    }

    fn run_named(&mut self, accesses: &[Access], pages: u32, name: impl Fn(u32) -> PageKey) {
        if self.frame_of.len() < pages as usize {
            let room = self.frame_of.len() + self.frame_of.len() / 2;
            self.frame_of.reserve_exact(room.max(pages as usize) - self.frame_of.len());
            self.frame_of.resize(pages as usize, 0);
        }
        let mut written = 0;
        let order = self.policy.open(&self.region, 0);
        let run = Run {
            accesses,
            name,
            frame_of: &mut self.frame_of,
            page_of: &mut self.page_of,
            used: &mut self.used,
            misses: &mut self.misses,
            written: &mut written,
            second_touch: self
                .remembered
                .as_ref()
                .map(|(region, pages)| SecondTouch::laid(region, 0, *pages)),
            turned_away: &mut self.turned_away,
        };
        order.visit(run);
        self.requests[0] += accesses.len() as u64 - written;
        self.requests[1] += written;
    }

    /// What was counted.
    pub fn counts(&self) -> Counts {
        Counts { turned_away: self.turned_away, ..Counts::of(self.requests, self.misses) }
    }

    /// Checks the invariants, and the policy's. For tests.
    ///
    /// # Panics
    /// If one does not hold.
    pub fn check(&self) {
        let present = self.frame_of.iter().filter(|frame| **frame != 0).count();
        assert_eq!(present, self.used as usize, "invariant 1");
        for (frame, page) in self.page_of.iter().enumerate().take(self.used as usize) {
            assert_eq!(self.frame_of[*page as usize], frame as u32 + 1, "invariant 1");
        }
        let order = self.policy.open(&self.region, 0);
        order.visit(Check { frames: self.policy.frames(), used: self.used });
    }
}

/// How many requests ahead the policy is told of pages, and how many the table is read.
const AHEAD: usize = 8;
const FAR_AHEAD: usize = 16;

/// The loop over requests, which every policy has a copy of.
struct Run<'a, N> {
    accesses: &'a [Access],
    /// A page's name by its number.
    name: N,
    frame_of: &'a mut [u32],
    page_of: &'a mut [u32],
    used: &'a mut u32,
    misses: &'a mut [u64; 2],
    written: &'a mut u64,
    second_touch: Option<SecondTouch<'a>>,
    turned_away: &'a mut u64,
}

impl<N: Fn(u32) -> PageKey> Visitor for Run<'_, N> {
    type Output = ();

    fn visit<P: Replacement>(self, policy: &P) {
        for (at, access) in self.accesses.iter().enumerate() {
            // So that it is in the processor's cache when its turn comes: what follows depends on it, and
            // cannot be foretold.
            if let Some(far) = self.accesses.get(at + FAR_AHEAD) {
                prefetch(&self.frame_of[far.page() as usize]);
            }
            if let Some(near) = self.accesses.get(at + AHEAD) {
                let frame = self.frame_of[near.page() as usize].checked_sub(1);
                policy.will_be_referenced(frame, (self.name)(near.page()));
            }
            *self.written += u64::from(access.is_write());
            let page = access.page();
            if let Some(frame) = self.frame_of[page as usize].checked_sub(1) {
                if access.is_write() {
                    policy.dirtied(frame);
                }
                policy.referenced(frame);
                continue;
            }
            self.misses[usize::from(access.is_write())] += 1;
            let key = (self.name)(page);
            policy.missed(key);
            let is_offer = !access.is_write();
            // The tier's own order: a page that comes while the cache fills is remembered, too.
            let admitted = is_offer
                && self
                    .second_touch
                    .is_none_or(|second_touch| second_touch.admits(&PageId::volume(FILE, page.into())));
            let frame = if (*self.used as usize) < self.page_of.len() {
                *self.used += 1;
                *self.used - 1
            } else if is_offer && !admitted {
                *self.turned_away += 1;
                continue;
            } else if policy.admits(key) {
                let frame = policy.victim().expect("a full cache has a victim");
                self.frame_of[self.page_of[frame as usize] as usize] = 0;
                frame
            } else {
                continue;
            };
            self.frame_of[page as usize] = frame + 1;
            self.page_of[frame as usize] = page;
            policy.inserted(frame, key);
            if access.is_write() {
                policy.dirtied(frame);
            }
        }
    }
}

struct Check {
    frames: u32,
    used: u32,
}

impl Visitor for Check {
    type Output = ();

    fn visit<P: Replacement>(self, policy: &P) {
        policy.check();
        for frame in 0..self.frames {
            assert_eq!(policy.contains(frame), frame < self.used, "invariant 2");
        }
    }
}
