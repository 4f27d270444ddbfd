//! Each policy against a model that is as plain as its description and as slow: over random operations the
//! victims are the same.
#![allow(clippy::unwrap_used)]

mod by_hand;
mod models;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Debug;

use mezzanine_ground::random::Random;
use mezzanine_ground::replacement::{PageKey, Policy, PolicyConfig, Replacement, Visitor, clock, lru_k};
use models::{Fifo, GreedyDual, Lru, Model, Tac, lru_2};

/// A cache whose policy is compared with a model while pages come, are referenced, leave and are dropped.
struct Compared<'a> {
    frames: u32,
    seed: u64,
    model: &'a mut dyn Model,
}

const OPERATIONS: usize = 4000;

impl Visitor for Compared<'_> {
    type Output = Result<(), String>;

    fn visit<P: Replacement>(self, policy: &P) -> Result<(), String> {
        let mut random = Random::new(self.seed);
        let mut free: BTreeSet<u32> = (0..self.frames).collect();
        let mut held: BTreeMap<u64, u32> = BTreeMap::new();
        // Some of the pages fit, some of the time.
        let pages = u64::from(self.frames) * (1 + random.below(3)) + 1;
        for operation in 0..OPERATIONS {
            let page = random.below(pages).min(random.below(pages));
            if random.below(20) == 0 {
                if let Some(frame) = held.remove(&page) {
                    policy.removed(frame);
                    self.model.removed(frame);
                    free.insert(frame);
                }
            } else if random.below(400) == 0 {
                // Everything leaves, and then there is nothing more.
                for _ in 0..=held.len() {
                    same(operation, policy.victim(), self.model.victim())?;
                }
                free.extend(held.values());
                held.clear();
            } else if let Some(&frame) = held.get(&page) {
                match random.below(9) {
                    0 => {
                        policy.cleaned(frame);
                        self.model.cleaned(frame);
                        continue;
                    }
                    1..=3 => {
                        policy.dirtied(frame);
                        self.model.dirtied(frame);
                    }
                    _ => {}
                }
                policy.referenced(frame);
                self.model.referenced(frame);
            } else {
                policy.missed(PageKey(page));
                self.model.missed(page);
                if free.is_empty() {
                    let admits = self.model.admits(page);
                    same(operation, policy.admits(PageKey(page)), admits)?;
                    // Who has to bring it in all the same may.
                    if !admits && random.below(5) != 0 {
                        continue;
                    }
                }
                // Free frames in any order.
                let frame = match free.iter().nth(random.below(free.len().max(1) as u64) as usize).copied() {
                    Some(free) => free,
                    None => same(operation, policy.victim(), self.model.victim())?.unwrap(),
                };
                free.remove(&frame);
                held.retain(|_, other| *other != frame);
                held.insert(page, frame);
                policy.inserted(frame, PageKey(page));
                self.model.inserted(frame, page);
                if random.below(3) == 0 {
                    policy.dirtied(frame);
                    self.model.dirtied(frame);
                }
            }
            if operation % 16 == 0 {
                policy.check();
                let in_order =
                    (0..self.frames).filter(|frame| policy.contains(*frame)).collect::<BTreeSet<_>>();
                assert_eq!(in_order, held.values().copied().collect(), "operation {operation}");
            }
        }
        Ok(())
    }
}

/// What a policy answers, if the model answers the same.
fn same<T: PartialEq + Debug>(operation: usize, is: T, ought: T) -> Result<T, String> {
    if is == ought { Ok(is) } else { Err(format!("operation {operation}: {is:?}, and not {ought:?}")) }
}

/// Compares a policy with models over caches of many sizes.
fn compare(
    policy: Policy,
    given: &[(&'static str, u64)],
    model: impl Fn(&PolicyConfig) -> Box<dyn Model>,
) -> Result<(), String> {
    for (seed, frames) in [1, 2, 3, 7, 31, 64, 65, 200].into_iter().enumerate() {
        let config = policy.configured(frames, given).unwrap();
        let region = config.region();
        let order = config.open(&region, 0);
        let seed = seed as u64 + 100;
        let compared = Compared { frames: config.frames(), seed, model: &mut *model(&config) };
        order
            .visit(compared)
            .map_err(|what| format!("{policy} {given:?}, {frames} frames, seed {seed}: {what}"))?;
    }
    Ok(())
}

#[test]
fn fifo_and_lru_are_queues() {
    compare(Policy::Fifo, &[], |_| Box::new(Fifo::default())).unwrap();
    compare(Policy::Lru, &[], |_| Box::new(Lru::default())).unwrap();
}

#[test]
fn clock_is_a_dial_with_a_hand() {
    for set in [false, true] {
        let given = [("clock-insert-referenced", u64::from(set))];
        compare(Policy::Clock, &given, |config| models::clock(config, set)).unwrap();
    }
}

#[test]
fn lru_2_is_figure_2_1() {
    for period in [0, 1, 5, 40, 1000] {
        for history in [0, 1, 20, 1000] {
            let given = [("correlated-period", period), ("history", history)];
            compare(Policy::LruK, &given, |_| lru_2(period, history)).unwrap();
        }
    }
    compare(Policy::LruK, &[], |config| lru_2(u64::from(config.frames()) / 8, config.frames().into()))
        .unwrap();
}

#[test]
fn greedy_dual_takes_the_smallest_value_from_all() {
    for (read, write) in [(1, 0), (1, 1), (3, 2), (10, 25), (2_430, 2_844), (1, 1_000_000_000)] {
        let given = [("read-saving", read), ("write-saving", write)];
        compare(Policy::GreedyDual, &given, |_| Box::new(GreedyDual::new(read, write))).unwrap();
    }
    compare(Policy::GreedyDual, &[], |_| Box::new(GreedyDual::new(2_430, 2_844))).unwrap();
}

#[test]
fn temperatures_are_sums_that_are_halved() {
    let extents = [(1, 0), (1, 1000), (2, 1), (8, 3), (32, 100), (1 << 31, 2)];
    for period in [0, 5, 64, 1000] {
        for ((extent_pages, extents), random_weight) in extents.into_iter().zip([1, 94, 1 << 16].repeat(2)) {
            let given = [
                ("ageing-period", period),
                ("extent-pages", extent_pages),
                ("extents", extents),
                ("random-weight", random_weight),
            ];
            compare(Policy::Temperature, &given, |config| Box::new(Tac::new(config))).unwrap();
        }
    }
    compare(Policy::Temperature, &[], |config| Box::new(Tac::new(config))).unwrap();
}

/// A policy with parameters, beside the model of another.
type Mistaken = (Policy, &'static [(&'static str, u64)], fn(&PolicyConfig) -> Box<dyn Model>);

#[test]
fn other_models_are_told_apart() {
    let mistaken: [Mistaken; 14] = [
        (Policy::Fifo, &[], |_| Box::new(Lru::default())),
        (Policy::Lru, &[], |_| Box::new(Fifo::default())),
        (Policy::Clock, &[], |config| models::clock(config, true)),
        (Policy::LruK, &[], |_| lru_2(0, 0)),
        (Policy::LruK, &[("correlated-period", 5)], |config| lru_2(4, config.frames().into())),
        (Policy::LruK, &[("correlated-period", 5)], |config| lru_2(6, config.frames().into())),
        (Policy::LruK, &[("history", 20)], |_| lru_2(0, 19)),
        (Policy::GreedyDual, &[], |_| Box::new(Lru::default())),
        (Policy::GreedyDual, &[("write-saving", 3_000)], |_| Box::new(GreedyDual::new(1_200, 3_000))),
        (Policy::GreedyDual, &[("write-saving", 10)], |_| Box::new(GreedyDual::new(2_430, 0))),
        (Policy::Temperature, &[("extent-pages", 2)], |config| {
            Tac::new(config).but(|tac| tac.extent_pages = 3)
        }),
        (Policy::Temperature, &[("ageing-period", 50)], |config| Tac::new(config).but(|tac| tac.period = 51)),
        (Policy::Temperature, &[("extent-pages", 4), ("random-weight", 9)], |config| {
            Tac::new(config).but(|tac| tac.random_weight = 8.0)
        }),
        (Policy::Temperature, &[("extent-pages", 1), ("extents", 20)], |config| {
            Tac::new(config).but(|tac| tac.remembered = 21)
        }),
    ];
    for (policy, given, model) in mistaken {
        let found = compare(policy, given, model);
        assert!(found.is_err(), "{policy} {given:?} does what another model does");
    }
}

#[test]
fn what_lies_in_the_memory_is_found_there_again() {
    for policy in Policy::ALL {
        let config = policy.configured(8, &[]).unwrap();
        let region = config.region();
        let each = |work: &dyn Fn(&dyn Replacement)| config.open(&region, 0).visit(Each(work));
        for frame in 0..8 {
            each(&|order| order.inserted(frame, PageKey(frame.into())));
        }
        each(&|order| assert!(order.contains(3)));
        each(&|order| order.removed(3));
        let mut left = BTreeSet::new();
        for _ in 0..7 {
            each(&|order| order.check());
            config.open(&region, 0).visit(Each(&|order| assert!(!order.contains(3))));
            left.insert(config.open(&region, 0).visit(Victim).unwrap());
        }
        assert_eq!(left, [0, 1, 2, 4, 5, 6, 7].into(), "{policy}");
        assert_eq!(config.open(&region, 0).visit(Victim), None, "{policy}");
    }
}

struct Each<'a>(&'a dyn Fn(&dyn Replacement));

impl Visitor for Each<'_> {
    type Output = ();

    fn visit<P: Replacement>(self, policy: &P) {
        (self.0)(policy);
    }
}

struct Victim;

impl Visitor for Victim {
    type Output = Option<u32>;

    fn visit<P: Replacement>(self, policy: &P) -> Option<u32> {
        policy.victim()
    }
}

#[test]
fn parameters_are_checked() {
    let wrong = |policy: Policy, frames, given: &[(&'static str, u64)], words: &[&str]| {
        let error = policy.configured(frames, given).unwrap_err().to_string();
        for word in words {
            assert!(error.contains(word), "{word:?} is missing in: {error}");
        }
    };
    wrong(Policy::Lru, 0, &[], &["frames", "0 is not between 1", "use 1"]);
    wrong(Policy::Lru, 1 << 32, &[], &["frames", "4294967296 is not between", "use 4294967294"]);
    wrong(Policy::Lru, 9, &[("history", 3)], &["history", "of lru-2, not of lru", "leave it out"]);
    wrong(
        Policy::LruK,
        9,
        &[("clock-insert-referenced", 1)],
        &["of clock, not of lru-2", "has correlated-period, history"],
    );
    wrong(Policy::Clock, 9, &[("clock-insert-referenced", 2)], &["between 0 and 1"]);
    wrong(Policy::LruK, 9, &[("history", 1 << 32)], &["history", "use 4294967294"]);
    wrong(Policy::Fifo, 9, &[("nonsense", 1)], &["no policy has"]);
    assert!("mru".parse::<Policy>().unwrap_err().contains("fifo, lru, clock, lru-2, greedy-dual"));
}

#[test]
fn each_parameter_is_one_field_of_its_policy() {
    for policy in Policy::ALL {
        let defaults = policy.configured(1000, &[]).unwrap();
        assert_eq!((defaults.policy(), defaults.frames()), (*policy, 1000));
        for (index, (parameter, default)) in defaults.parameters().into_iter().enumerate() {
            let other = if default == 0 { 1 } else { default - 1 };
            let changed = policy.configured(1000, &[(parameter.name, other)]).unwrap();
            let mut expected = defaults.parameters();
            expected[index].1 = other;
            assert_eq!(changed.parameters(), expected, "{policy} {}", parameter.name);
        }
    }
}

#[test]
fn a_typed_configuration_is_what_its_parameters_say() {
    let clock = clock::Config::new(9).unwrap().with_insert_referenced(true);
    assert_eq!(Ok(clock.into()), Policy::Clock.configured(9, &[("clock-insert-referenced", 1)]));
    let lru_2 = lru_k::Config::new(9).unwrap();
    assert_eq!(
        lru_2.with_correlated_period(4).and_then(|config| config.with_history(20)).map(PolicyConfig::LruK),
        Policy::LruK.configured(9, &[("correlated-period", 4), ("history", 20)])
    );
    let error = lru_2.with_history(1 << 32).unwrap_err();
    assert_eq!((error.parameter, error.advice.as_str()), ("history", "use 4294967294"));
}

#[test]
fn the_size_is_told_beforehand() {
    let bytes_per_frame = |policy: Policy| {
        let frames = 1 << 20;
        policy.configured(frames, &[]).unwrap().bytes() as f64 / frames as f64
    };
    for (policy, bytes) in [
        (Policy::Fifo, 8.0),
        (Policy::Lru, 8.0),
        (Policy::Clock, 0.25),
        (Policy::LruK, 116.0),
        (Policy::GreedyDual, 32.0),
        (Policy::Temperature, 144.0),
    ] {
        let is = bytes_per_frame(policy);
        assert!((bytes..bytes + 0.01).contains(&is), "{policy}: {is}");
    }
}
