//! Each policy against a model that is as plain as its description and as slow: over random operations the victims are the same.
#![allow(clippy::unwrap_used)]

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use mezzanine_engine::replacement::{PageKey, Policy, Replacement, Shape, Visitor};

/// What a policy does, without a thought for time and memory.
trait Model {
    fn inserted(&mut self, frame: u32, page: u64);
    fn referenced(&mut self, frame: u32);
    fn victim(&mut self) -> Option<u32>;
    fn removed(&mut self, frame: u32);
}

#[derive(Default)]
struct Fifo(VecDeque<u32>);

impl Model for Fifo {
    fn inserted(&mut self, frame: u32, _page: u64) {
        self.0.push_back(frame);
    }

    fn referenced(&mut self, _frame: u32) {}

    fn victim(&mut self) -> Option<u32> {
        self.0.pop_front()
    }

    fn removed(&mut self, frame: u32) {
        self.0.retain(|other| *other != frame);
    }
}

#[derive(Default)]
struct Lru(VecDeque<u32>);

impl Model for Lru {
    fn inserted(&mut self, frame: u32, _page: u64) {
        self.0.push_back(frame);
    }

    fn referenced(&mut self, frame: u32) {
        self.removed(frame);
        self.0.push_back(frame);
    }

    fn victim(&mut self) -> Option<u32> {
        self.0.pop_front()
    }

    fn removed(&mut self, frame: u32) {
        self.0.retain(|other| *other != frame);
    }
}

struct Clock {
    /// For each frame whether it is referenced, if it has a page.
    dial: Vec<Option<bool>>,
    hand: usize,
    insert_referenced: bool,
}

impl Model for Clock {
    fn inserted(&mut self, frame: u32, _page: u64) {
        self.dial[frame as usize] = Some(self.insert_referenced);
    }

    fn referenced(&mut self, frame: u32) {
        self.dial[frame as usize] = Some(true);
    }

    fn victim(&mut self) -> Option<u32> {
        if self.dial.iter().all(Option::is_none) {
            return None;
        }
        loop {
            let at = self.hand;
            self.hand = (at + 1) % self.dial.len();
            match &mut self.dial[at] {
                Some(referenced) if *referenced => *referenced = false,
                Some(_) => {
                    self.dial[at] = None;
                    return Some(at as u32);
                }
                None => {}
            }
        }
    }

    fn removed(&mut self, frame: u32) {
        self.dial[frame as usize] = None;
    }
}

/// Figure 2.1 of the paper, line by line.
struct Lru2 {
    period: u64,
    history: usize,
    time: u64,
    /// Page, HIST(p, 1), HIST(p, 2) and LAST(p) of each frame.
    frames: BTreeMap<u32, (u64, u64, u64, u64)>,
    /// Pages that have left, first left first, with HIST(p, 1).
    left: VecDeque<(u64, u64)>,
}

impl Model for Lru2 {
    fn inserted(&mut self, frame: u32, page: u64) {
        self.time += 1;
        let known = self.left.iter().position(|(left, _)| *left == page);
        let second = known.map_or(0, |index| self.left.remove(index).unwrap().1);
        self.frames.insert(frame, (page, self.time, second, self.time));
    }

    fn referenced(&mut self, frame: u32) {
        self.time += 1;
        let (_, first, second, last) = self.frames.get_mut(&frame).unwrap();
        if self.time - *last > self.period {
            *second = *last;
            *first = self.time;
        }
        *last = self.time;
    }

    fn victim(&mut self) -> Option<u32> {
        let now = self.time + 1;
        let eligible = |(_, (_, _, _, last)): &(&u32, &(u64, u64, u64, u64))| now - last > self.period;
        let ranked =
            self.frames.iter().filter(eligible).min_by_key(|(_, (_, first, second, _))| (*second, *first));
        let next = || self.frames.iter().min_by_key(|(_, (_, _, _, last))| *last);
        let frame = *ranked.or_else(next)?.0;
        let (page, first, ..) = self.frames.remove(&frame).unwrap();
        self.left.push_back((page, first));
        if self.left.len() > self.history {
            self.left.pop_front();
        }
        Some(frame)
    }

    fn removed(&mut self, frame: u32) {
        self.frames.remove(&frame);
    }
}

/// splitmix64.
struct Random(u64);

impl Random {
    fn below(&mut self, bound: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let z = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        let z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        (z ^ (z >> 31)) % bound
    }
}

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
        let mut random = Random(self.seed);
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
            } else if let Some(frame) = held.get(&page) {
                policy.referenced(*frame);
                self.model.referenced(*frame);
            } else {
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

fn same(operation: usize, is: Option<u32>, ought: Option<u32>) -> Result<Option<u32>, String> {
    if is == ought { Ok(is) } else { Err(format!("operation {operation}: {is:?} leaves, not {ought:?}")) }
}

/// Compares a policy with models over caches of many sizes.
fn compare(
    policy: Policy,
    given: &[(&'static str, u64)],
    model: impl Fn(&Shape) -> Box<dyn Model>,
) -> Result<(), String> {
    for (seed, frames) in [1, 2, 3, 7, 31, 64, 65, 200].into_iter().enumerate() {
        let shape = policy.shape(frames, given).unwrap();
        let region = policy.region(&shape);
        let order = policy.open(&region, 0, &shape);
        let seed = seed as u64 + 100;
        let compared = Compared { frames: shape.frames(), seed, model: &mut *model(&shape) };
        order
            .visit(compared)
            .map_err(|what| format!("{policy} {given:?}, {frames} frames, seed {seed}: {what}"))?;
    }
    Ok(())
}

fn clock(shape: &Shape, insert_referenced: bool) -> Box<dyn Model> {
    Box::new(Clock { dial: vec![None; shape.frames() as usize], hand: 0, insert_referenced })
}

fn lru_2(period: u64, history: u64) -> Box<dyn Model> {
    let history = history as usize;
    Box::new(Lru2 { period, history, time: 0, frames: BTreeMap::new(), left: VecDeque::new() })
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
        compare(Policy::Clock, &given, |shape| clock(shape, set)).unwrap();
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
    compare(Policy::LruK, &[], |shape| lru_2(u64::from(shape.frames()) / 8, shape.frames().into())).unwrap();
}

/// A policy with parameters, beside the model of another.
type Mistaken = (Policy, &'static [(&'static str, u64)], fn(&Shape) -> Box<dyn Model>);

#[test]
fn other_models_are_told_apart() {
    let mistaken: [Mistaken; 7] = [
        (Policy::Fifo, &[], |_| Box::new(Lru::default())),
        (Policy::Lru, &[], |_| Box::new(Fifo::default())),
        (Policy::Clock, &[], |shape| clock(shape, true)),
        (Policy::LruK, &[], |_| lru_2(0, 0)),
        (Policy::LruK, &[("correlated-period", 5)], |shape| lru_2(4, shape.frames().into())),
        (Policy::LruK, &[("correlated-period", 5)], |shape| lru_2(6, shape.frames().into())),
        (Policy::LruK, &[("history", 20)], |_| lru_2(0, 19)),
    ];
    for (policy, given, model) in mistaken {
        let found = compare(policy, given, model);
        assert!(found.is_err(), "{policy} {given:?} does what another model does");
    }
}

#[test]
fn what_lies_in_the_memory_is_found_there_again() {
    for policy in Policy::ALL {
        let shape = policy.shape(8, &[]).unwrap();
        let region = policy.region(&shape);
        let each = |work: &dyn Fn(&dyn Replacement)| policy.open(&region, 0, &shape).visit(Each(work));
        for frame in 0..8 {
            each(&|order| order.inserted(frame, PageKey(frame.into())));
        }
        each(&|order| assert!(order.contains(3)));
        each(&|order| order.removed(3));
        let mut left = BTreeSet::new();
        for _ in 0..7 {
            each(&|order| order.check());
            policy.open(&region, 0, &shape).visit(Each(&|order| assert!(!order.contains(3))));
            left.insert(policy.open(&region, 0, &shape).visit(Victim).unwrap());
        }
        assert_eq!(left, [0, 1, 2, 4, 5, 6, 7].into(), "{policy}");
        assert_eq!(policy.open(&region, 0, &shape).visit(Victim), None, "{policy}");
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
        let error = policy.shape(frames, given).unwrap_err().to_string();
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
    assert!("mru".parse::<Policy>().unwrap_err().contains("fifo, lru, clock, lru-2"));
}

#[test]
fn the_size_is_told_beforehand() {
    let bytes_per_frame = |policy: Policy| {
        let frames = 1 << 20;
        policy.bytes(&policy.shape(frames, &[]).unwrap()) as f64 / frames as f64
    };
    for (policy, bytes) in
        [(Policy::Fifo, 8.0), (Policy::Lru, 8.0), (Policy::Clock, 0.25), (Policy::LruK, 80.0)]
    {
        let is = bytes_per_frame(policy);
        assert!((bytes..bytes + 0.01).contains(&is), "{policy}: {is}");
    }
}
