//! Miss-ratio curves: several designs and sizes in one pass over a trace.
//!
//! LRU with many sizes needs no caches, its curve follows from distances. Everything else runs side by side,
//! a batch of requests in one cache after the other, so that a cache's arrays are in the processor's caches
//! for a while.

use mezzanine_engine::SecondTouch;
use mezzanine_ground::replacement::Policy;

use super::cache::Cache;
use super::counts::{Access, Counts};
use super::distances::Distances;
use super::queue::Queue;
use super::setting::{Setting, Sizes};

/// Requests that are collected before the caches see them.
const BATCH: usize = 1 << 16;

/// From how many sizes on distances take less time than caches.
const SIZES_FOR_DISTANCES: usize = 4;

/// Most bytes that a page's name takes, in an array that is doubled.
const NAME_BYTES: u64 = 16;

/// Points of curves while requests come in.
pub struct Curve {
    points: Vec<(Setting, Runs)>,
    distances: Option<Distances>,
    batch: Vec<Access>,
    pages: u32,
    /// By number: the page, as far as [`Self::meet`] was told. Kept if a policy looks at neighbours.
    names: Option<Vec<u64>>,
}

/// Where a point's counts come from.
enum Runs {
    Cache(Box<Cache>),
    Queue(Box<Queue>),
    /// LRU of as many frames, from distances.
    Distances(u64),
}

/// Says which points follow from distances.
fn follows(points: &[Setting]) -> impl Fn(&Setting) -> bool + use<> {
    let is_lru = |point: &Setting| point.design().policy() == Some(Policy::Lru) && point.remembered() == 0;
    let many = points.iter().filter(|point| is_lru(point)).count() >= SIZES_FOR_DISTANCES;
    move |point| many && is_lru(point)
}

fn looks_at_neighbours(point: &Setting) -> bool {
    point.design().policy().is_some_and(Policy::looks_at_neighbours)
}

impl Curve {
    /// Empty caches for all points.
    pub fn new(points: Vec<Setting>) -> Self {
        let follows = follows(&points);
        let distances = points.iter().any(&follows).then(Distances::new);
        let runs = |point: Setting| {
            let runs = match point.sizes() {
                _ if follows(&point) => Runs::Distances(point.frames()),
                Sizes::InPlace(policy) => {
                    Runs::Cache(Box::new(Cache::new(*policy).second_touch(point.remembered())))
                }
                Sizes::Queue(geometry) => Runs::Queue(Box::new(Queue::new(geometry))),
            };
            (point, runs)
        };
        let names = points.iter().any(looks_at_neighbours).then(Vec::new);
        let points = points.into_iter().map(runs).collect();
        Self { points, distances, batch: Vec::with_capacity(BATCH), pages: 0, names }
    }

    /// Bytes of memory that all points take together when `pages` distinct pages have been met.
    pub fn bytes(points: &[Setting], pages: u64) -> u64 {
        let follows = follows(points);
        let of = |point: &Setting| match point.sizes() {
            Sizes::InPlace(policy) => {
                Cache::bytes(policy)
                    + SecondTouch::bytes(point.remembered()) as u64
                    + pages * Cache::BYTES_PER_PAGE
            }
            Sizes::Queue(geometry) => Queue::bytes(geometry),
        };
        let caches: u64 = points.iter().filter(|point| !follows(point)).map(of).sum();
        let distances = if points.iter().any(&follows) { pages * Distances::BYTES_PER_PAGE } else { 0 };
        let names = if points.iter().any(looks_at_neighbours) { pages * NAME_BYTES } else { 0 };
        caches + distances + names + (BATCH * size_of::<Access>()) as u64
    }

    /// Names the page that has the next number: numbers are given out from 0 on. Without it pages are called
    /// by their numbers, whose neighbours may be no neighbours.
    pub fn meet(&mut self, page: u64) {
        if let Some(names) = &mut self.names {
            names.push(page);
        }
    }

    /// Makes a request.
    #[inline]
    pub fn request(&mut self, access: Access) {
        self.pages = self.pages.max(access.page() + 1);
        self.batch.push(access);
        if self.batch.len() == BATCH {
            self.run_batch();
        }
    }

    fn run_batch(&mut self) {
        for (_, runs) in &mut self.points {
            match runs {
                Runs::Cache(cache) => match &self.names {
                    Some(names) if !names.is_empty() => cache.run_with_names(&self.batch, names),
                    _ => cache.run(&self.batch, self.pages),
                },
                Runs::Queue(queue) => queue.run(&self.batch),
                Runs::Distances(_) => {}
            }
        }
        if let Some(distances) = &mut self.distances {
            distances.run(&self.batch);
        }
        self.batch.clear();
    }

    /// Checks the invariants of everything that runs, as far as requests have been made. For tests.
    ///
    /// # Panics
    /// If one does not hold.
    pub fn check(&self) {
        for (_, runs) in &self.points {
            match runs {
                Runs::Cache(cache) => cache.check(),
                Runs::Queue(queue) => queue.check(),
                Runs::Distances(_) => {}
            }
        }
    }

    /// What each point has counted, in their order.
    pub fn finish(mut self) -> Vec<(Setting, Counts)> {
        self.run_batch();
        let distances = self.distances;
        let counts = |runs: &Runs| match runs {
            Runs::Cache(cache) => cache.counts(),
            Runs::Queue(queue) => queue.counts(),
            Runs::Distances(frames) => {
                distances.as_ref().map_or_else(Counts::default, |all| all.counts(*frames))
            }
        };
        self.points
            .into_iter()
            .map(|(point, runs)| {
                let counts = counts(&runs);
                (point, counts)
            })
            .collect()
    }
}
