//! Replacement alone, exactly: the misses on the synthetic trace `prod3` are those of independent
//! implementations.
#![allow(clippy::unwrap_used)]

use std::collections::HashSet;

use mezzanine_engine::Design as Face;
use mezzanine_ground::replacement::Policy;
use mezzanine_sim::policy::{Access, Cache, Counts, Curve, Design, Setting, prod3};

const REQUESTS: usize = 1_000_000;

/// The trace. Page numbers are small already: at most 65,536.
fn trace() -> Vec<Access> {
    prod3().take(REQUESTS).map(|page| Access::read(page as u32)).collect()
}

const PAGES: u32 = (1 << 16) + 1;

fn counts(trace: &[Access], policy: Policy, frames: u64, given: &[(&'static str, u64)]) -> Counts {
    let mut cache = Cache::new(policy.configured(frames, given).unwrap());
    cache.run(trace, PAGES);
    cache.check();
    cache.counts()
}

#[test]
fn the_trace_is_the_one_that_others_have() {
    let pages: Vec<u64> = prod3().take(REQUESTS).collect();
    assert_eq!(pages[..3], [16639, 10202, 3226]);
    assert_eq!(pages.iter().collect::<HashSet<_>>().len(), 48_269);
    assert!(pages.iter().all(|page| (1..=65_536).contains(page)));
}

#[test]
fn misses_are_exactly_those_of_others() {
    let trace = trace();
    // Every page that has left is remembered, and references in a row are references.
    let unlimited = [("history", PAGES.into()), ("correlated-period", 0)];
    let expected = [
        (Policy::Fifo, &[][..], [918_098, 687_050, 268_947]),
        (Policy::Lru, &[], [914_362, 654_376, 204_330]),
        (Policy::Clock, &[], [910_994, 638_395, 194_090]),
        (Policy::LruK, &unlimited, [861_866, 566_847, 166_837]),
    ];
    for (policy, given, misses) in expected {
        for (frames, misses) in [1_000, 5_000, 20_000].into_iter().zip(misses) {
            let counts = counts(&trace, policy, frames, given);
            assert_eq!(counts.misses, misses, "{policy}, {frames} frames");
            assert_eq!((counts.requests, counts.hits), (REQUESTS as u64, REQUESTS as u64 - misses));
        }
    }
}

/// The first requests of the trace, of which some are writes.
fn mixed(requests: usize) -> Vec<Access> {
    let access = |(request, page): (usize, u64)| {
        if request % 3 == 0 { Access::write(page as u32) } else { Access::read(page as u32) }
    };
    prod3().enumerate().map(access).take(requests).collect()
}

#[test]
fn a_curve_is_what_each_size_is_alone() {
    let trace = mixed(30_000);
    let sizes = [1, 2, 63, 64, 65, 1_000, 9_999, 60_000];
    // A queue cannot be as small as other caches.
    let of = |design: Design| match design {
        Design::InPlace(Policy::LruK) => (&[("correlated-period", 30), ("history", 500)][..], &sizes[..]),
        Design::InPlace(_) | Design::Exadata => (&[][..], &sizes[..]),
        Design::Queue(_) => (&[("group-pages", 16)][..], &[2_000][..]),
    };
    let points: Vec<Setting> = Design::all()
        .flat_map(|design| {
            of(design).1.iter().map(move |frames| Setting::new(design, *frames, of(design).0).unwrap())
        })
        .collect();
    let count = points.len();
    let mut curve = Curve::new(points);
    trace.iter().for_each(|access| curve.request(*access));
    let found = curve.finish();
    assert_eq!(found.len(), count);
    for (point, together) in found {
        let (design, frames) = (point.design(), point.frames());
        let mut alone = Curve::new(vec![point]);
        trace.iter().for_each(|access| alone.request(*access));
        alone.check();
        let (_, alone) = alone.finish().remove(0);
        assert_eq!(together, alone, "{design}, {frames} frames");
        assert_eq!((together.reads, together.writes), (20_000, 10_000));
        assert_eq!(together.misses, together.read_misses + together.write_misses);
        assert!(together.read_misses > 0 && together.write_misses > 0);
    }
}

#[test]
fn a_queue_is_fifo_and_second_chances_are_for_what_was_referenced() {
    let trace: Vec<Access> = trace().into_iter().take(100_000).collect();
    let frames = 5_000;
    let queue = |design, given: &[(&'static str, u64)]| {
        let setting = Setting::new(Design::Queue(design), frames, given).unwrap();
        let mut curve = Curve::new(vec![setting]);
        trace.iter().for_each(|access| curve.request(*access));
        curve.check();
        curve.finish()[0].1.misses
    };
    let fifo = |frames| counts(&trace, Policy::Fifo, frames, &[]).misses;
    let (basic, groups) = (queue(Face::FaceBasic, &[]), queue(Face::FaceGr, &[]));
    assert_eq!(basic, groups, "reading a group at once changes no replacement");
    // Of the frames some hold summaries and some are kept free; what is left is a FIFO queue.
    assert!(fifo(frames) < basic && basic < fifo(frames * 8 / 10), "{} {basic}", fifo(frames));
    let gsc = queue(Face::FaceGsc, &[]);
    assert!(gsc < basic, "second chances are worth something: {gsc}, {basic}");
    assert_eq!(
        queue(Face::FaceGsc, &[("survivors-max", 0)]),
        basic,
        "without survivors it is group replacement"
    );
}

#[test]
fn greedy_dual_with_one_cost_is_lru() {
    let trace = mixed(200_000);
    let only = |write: bool| -> Vec<Access> {
        let access =
            |access: &Access| if write { Access::write(access.page()) } else { Access::read(access.page()) };
        trace.iter().map(access).collect()
    };
    let misses = |trace: &[Access], policy, given: &[(&'static str, u64)]| {
        let counts = counts(trace, policy, 3_000, given);
        (counts.read_misses, counts.write_misses)
    };
    for trace in [only(false), only(true)] {
        assert_eq!(misses(&trace, Policy::GreedyDual, &[]), misses(&trace, Policy::Lru, &[]));
    }
    // Every third page is written whenever it is requested. Such pages are kept longer, at the cost of what
    // is only read.
    let split: Vec<Access> = trace
        .iter()
        .map(|access| access.page())
        .map(|page| if page % 3 == 0 { Access::write(page) } else { Access::read(page) })
        .collect();
    let (lru, dual) = (misses(&split, Policy::Lru, &[]), misses(&split, Policy::GreedyDual, &[]));
    assert!(dual.0 > lru.0 && dual.1 < lru.1, "{dual:?} {lru:?}");
    let dearer = misses(&split, Policy::GreedyDual, &[("write-saving", 1_000_000)]);
    assert!(dearer.0 > dual.0 && dearer.1 < dual.1, "{dearer:?} {dual:?}");
}

#[test]
fn exadata_is_lru() {
    let misses = |design| {
        let mut curve = Curve::new(vec![Setting::new(design, 2_000, &[]).unwrap()]);
        mixed(50_000).iter().for_each(|access| curve.request(*access));
        curve.finish()[0].1
    };
    assert_eq!(misses(Design::Exadata), misses(Design::InPlace(Policy::Lru)));
}

#[test]
fn extents_are_of_pages_and_not_of_their_numbers() {
    // Pages 0, 1000, 2000 and so on: each in an extent of its own, but with consecutive numbers.
    let misses = |extent_pages, distance: Option<u64>| {
        let given = [("extent-pages", extent_pages)];
        let tac = Setting::new(Design::InPlace(Policy::Temperature), 1_000, &given).unwrap();
        let mut curve = Curve::new(vec![tac]);
        if let Some(distance) = distance {
            (0..u64::from(PAGES)).for_each(|number| curve.meet(number * distance));
        }
        trace().iter().take(100_000).for_each(|access| curve.request(*access));
        curve.check();
        curve.finish()[0].1.misses
    };
    assert_eq!(misses(1, Some(1_000)), misses(32, Some(1_000)));
    assert_eq!(misses(32, Some(1)), misses(32, None), "a page without a name is called by its number");
    assert_ne!(misses(32, Some(1)), misses(32, Some(1_000)));
}

#[test]
fn nothing_cold_comes_into_a_full_cache() {
    // 64 hot pages, and a scan that no page is seen of twice. In LRU the scan displaces them.
    let hot = |at: u32| Access::read(at * 17 % 64);
    let trace: Vec<Access> =
        (0..20_000).flat_map(|at| [hot(at), hot(at + 7), Access::read(1_000 + at)]).collect();
    let misses = |policy: Policy, given: &[(&'static str, u64)]| {
        let mut cache = Cache::new(policy.configured(64, given).unwrap());
        cache.run(&trace, 30_000);
        cache.check();
        cache.counts().misses
    };
    // The first extent of the scan comes in while frames are free.
    let tac = misses(Policy::Temperature, &[("extent-pages", 8), ("ageing-period", 1_000)]);
    assert!((20_064..20_400).contains(&tac), "{tac}");
    assert!(misses(Policy::Lru, &[]) > 35_000);
}

#[test]
fn semantics_that_move_the_numbers() {
    let trace = trace();
    let misses = |policy, given: &[(&'static str, u64)]| counts(&trace, policy, 5_000, given).misses;
    // The reference bit of a page that comes in.
    assert_eq!(misses(Policy::Clock, &[]), 638_395);
    assert!(misses(Policy::Clock, &[("clock-insert-referenced", 1)]) > 638_395);
    // What LRU-2 remembers of pages that have left: as many as frames if nothing else is said. In requests
    // that know nothing of one another, as these, whatever is remembered longer misleads.
    let history = |pages| misses(Policy::LruK, &[("history", pages)]);
    assert_eq!(history(5_000), misses(Policy::LruK, &[]));
    assert!(history(0) < history(5_000) && history(5_000) < history(100_000));
    // References in a row: an eighth of the frames is the period if nothing else is said. With a period as
    // long as the trace nothing is ever eligible, and the order is LRU's.
    let longest = [("correlated-period", REQUESTS as u64)];
    assert_eq!(misses(Policy::LruK, &longest), misses(Policy::Lru, &[]));
    assert_eq!(misses(Policy::LruK, &[("correlated-period", 625)]), misses(Policy::LruK, &[]));
    assert!(misses(Policy::LruK, &[("correlated-period", 0)]) < misses(Policy::LruK, &[]));
}
