//! Miss-ratio curves: several designs and sizes in one pass over a trace.
//!
//! LRU with many sizes needs no caches, its curve follows from distances. Everything else runs side by side, a batch of requests
//! in one cache after the other, so that a cache's arrays are in the processor's caches for a while.

use mezzanine_engine::replacement::{Policy, Shape};

use super::Design;
use super::cache::Cache;
use super::counts::{Access, Counts};
use super::distances::Distances;

/// Requests that are collected before the caches see them.
const BATCH: usize = 1 << 16;

/// A design with a number of frames and parameters.
#[derive(Clone, Copy, Debug)]
pub struct Point {
    /// The design.
    pub design: Design,
    /// Frames and parameters.
    pub shape: Shape,
}

/// From how many sizes on distances take less time than caches.
const SIZES_FOR_DISTANCES: usize = 4;

/// Points of curves while requests come in.
pub struct Curve {
    points: Vec<Point>,
    /// In the order of the points; none for those that follow from distances.
    caches: Vec<Option<Cache>>,
    distances: Option<Distances>,
    batch: Vec<Access>,
    pages: u32,
}

/// Says which points follow from distances.
fn follows(points: &[Point]) -> impl Fn(&Point) -> bool + use<> {
    let is_lru = |point: &Point| point.design.policy() == Policy::Lru;
    let many = points.iter().filter(|point| is_lru(point)).count() >= SIZES_FOR_DISTANCES;
    move |point| many && is_lru(point)
}

impl Curve {
    /// Empty caches for all points.
    pub fn new(points: Vec<Point>) -> Self {
        let follows = follows(&points);
        let distances = points.iter().any(&follows).then(Distances::new);
        let cache = |point: &Point| (!follows(point)).then(|| Cache::new(point.design.policy(), point.shape));
        let caches = points.iter().map(cache).collect();
        Self { points, caches, distances, batch: Vec::with_capacity(BATCH), pages: 0 }
    }

    /// Bytes of memory that all points take together when `pages` distinct pages have been met.
    pub fn bytes(points: &[Point], pages: u64) -> u64 {
        let follows = follows(points);
        let cache =
            |point: &Point| Cache::bytes(point.design.policy(), &point.shape) + pages * Cache::BYTES_PER_PAGE;
        let caches: u64 = points.iter().filter(|point| !follows(point)).map(cache).sum();
        let distances = if points.iter().any(&follows) { pages * Distances::BYTES_PER_PAGE } else { 0 };
        caches + distances + (BATCH * size_of::<Access>()) as u64
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
        for cache in self.caches.iter_mut().flatten() {
            cache.run(&self.batch, self.pages);
        }
        if let Some(distances) = &mut self.distances {
            distances.run(&self.batch);
        }
        self.batch.clear();
    }

    /// What each point has counted, in their order.
    pub fn finish(mut self) -> Vec<(Point, Counts)> {
        self.run_batch();
        let distances = self.distances.as_ref();
        let counts = |(point, cache): (Point, &Option<Cache>)| {
            let from_distances = || distances.map(|all| all.counts(point.shape.frames().into()));
            let counts = cache.as_ref().map(Cache::counts).or_else(from_distances).unwrap_or_default();
            (point, counts)
        };
        self.points.iter().copied().zip(&self.caches).map(counts).collect()
    }
}
