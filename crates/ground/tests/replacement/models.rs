//! What policies do, without a thought for time and memory.

use std::collections::{BTreeMap, VecDeque};

use mezzanine_ground::replacement::PolicyConfig;

/// A policy's plain description. What most need not know has nothing as its default.
pub(crate) trait Model {
    fn missed(&mut self, _page: u64) {}
    fn admits(&mut self, _page: u64) -> bool {
        true
    }
    fn dirtied(&mut self, _frame: u32) {}
    fn cleaned(&mut self, _frame: u32) {}
    fn inserted(&mut self, frame: u32, page: u64);
    fn referenced(&mut self, frame: u32);
    fn victim(&mut self) -> Option<u32>;
    fn removed(&mut self, frame: u32);
}

#[derive(Default)]
pub(crate) struct Fifo(VecDeque<u32>);

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
pub(crate) struct Lru(VecDeque<u32>);

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

pub(crate) fn clock(config: &PolicyConfig, insert_referenced: bool) -> Box<dyn Model> {
    Box::new(Clock { dial: vec![None; config.frames() as usize], hand: 0, insert_referenced })
}

pub(crate) fn lru_2(period: u64, history: u64) -> Box<dyn Model> {
    let history = history as usize;
    Box::new(Lru2 { period, history, time: 0, frames: BTreeMap::new(), left: VecDeque::new() })
}

/// Young's Greedy-Dual as it stands: when a page leaves, every other one loses what it was worth.
pub(crate) struct GreedyDual {
    read: u64,
    write: u64,
    /// What moment it is, for ties.
    moment: u64,
    frames: BTreeMap<u32, Valued>,
}

struct Valued {
    value: u64,
    /// Whether the page was dirty when it got its value.
    as_dirty: bool,
    since: u64,
    is_dirty: bool,
}

impl GreedyDual {
    pub(crate) fn new(read: u64, write: u64) -> Self {
        Self { read, write, moment: 0, frames: BTreeMap::new() }
    }

    fn cost(&self, is_dirty: bool) -> u64 {
        if is_dirty { self.read + self.write } else { self.read }
    }

    fn set(&mut self, frame: u32, is_dirty: bool) {
        self.moment += 1;
        let valued = Valued { value: self.cost(is_dirty), as_dirty: is_dirty, since: self.moment, is_dirty };
        self.frames.insert(frame, valued);
    }
}

impl Model for GreedyDual {
    fn inserted(&mut self, frame: u32, _page: u64) {
        self.set(frame, false);
    }

    fn referenced(&mut self, frame: u32) {
        self.set(frame, self.frames[&frame].is_dirty);
    }

    fn dirtied(&mut self, frame: u32) {
        if !self.frames[&frame].is_dirty && self.write > 0 {
            self.set(frame, true);
        }
    }

    fn cleaned(&mut self, frame: u32) {
        if self.frames[&frame].value > self.cost(false) {
            self.set(frame, false);
        }
        self.frames.get_mut(&frame).unwrap().is_dirty = false;
    }

    fn victim(&mut self) -> Option<u32> {
        let first = self.frames.iter().min_by_key(|(_, of)| (of.value, of.as_dirty, of.since));
        let frame = *first?.0;
        let lost = self.frames.remove(&frame).unwrap().value;
        self.frames.values_mut().for_each(|other| other.value -= lost);
        Some(frame)
    }

    fn removed(&mut self, frame: u32) {
        self.frames.remove(&frame);
    }
}

/// TAC with temperatures that are halved one by one.
pub(crate) struct Tac {
    pub(crate) extent_pages: u64,
    pub(crate) period: u64,
    pub(crate) random_weight: f64,
    pub(crate) remembered: usize,
    time: u64,
    /// By extent: temperature, last reference and its page.
    known: BTreeMap<u64, (f64, u64, Option<u64>)>,
    /// Frames and their pages, in the order in which they came.
    frames: Vec<(u32, u64)>,
    /// Extents without a page here, in the order in which they are forgotten.
    away: VecDeque<u64>,
}

/// Temperatures have so many bits; what is too small beside the rest is dropped.
fn truncated(temperature: f64) -> f64 {
    f64::from_bits(temperature.to_bits() & !((1 << 21) - 1))
}

impl Tac {
    pub(crate) fn new(config: &PolicyConfig) -> Self {
        let value = |name| config.parameters().iter().find(|(known, _)| known.name == name).unwrap().1;
        Self {
            extent_pages: value("extent-pages"),
            period: value("ageing-period"),
            random_weight: value("random-weight") as f64,
            remembered: (value("extents") as usize).max(2),
            time: 0,
            known: BTreeMap::new(),
            frames: Vec::new(),
            away: VecDeque::new(),
        }
    }

    /// The same, but for what is changed.
    pub(crate) fn but(mut self, change: fn(&mut Self)) -> Box<dyn Model> {
        change(&mut self);
        Box::new(self)
    }

    fn is_away(&self, extent: u64) -> bool {
        self.frames.iter().all(|(_, page)| page / self.extent_pages != extent)
    }

    fn send_away(&mut self, extent: u64) {
        self.away.retain(|other| *other != extent);
        self.away.push_back(extent);
        if self.away.len() > self.remembered {
            let forgotten = self.away.pop_front().unwrap();
            self.known.remove(&forgotten);
        }
    }

    fn warm(&mut self, page: u64) {
        self.time += 1;
        let (temperature, last, before) =
            self.known.entry(page / self.extent_pages).or_insert((0.0, 0, None));
        let in_sequence = before.is_some_and(|before| before + 1 == page);
        *before = Some(page);
        *temperature = truncated(*temperature + if in_sequence { 1.0 } else { self.random_weight });
        *last = self.time;
        if self.period > 0 && self.time % self.period == 0 {
            self.known.values_mut().for_each(|(temperature, ..)| *temperature /= 2.0);
        }
    }

    fn coldest(&self) -> Option<usize> {
        let warmth = |(_, page): &(u32, u64)| {
            let (temperature, last, _) = self.known[&(page / self.extent_pages)];
            (temperature, last)
        };
        let places = 0..self.frames.len();
        places.min_by(|a, b| warmth(&self.frames[*a]).partial_cmp(&warmth(&self.frames[*b])).unwrap())
    }

    fn take(&mut self, place: usize) -> u32 {
        let (frame, page) = self.frames.remove(place);
        let extent = page / self.extent_pages;
        if self.is_away(extent) {
            self.send_away(extent);
        }
        frame
    }
}

impl Model for Tac {
    fn missed(&mut self, page: u64) {
        let extent = page / self.extent_pages;
        if self.is_away(extent) {
            self.send_away(extent);
        }
        self.warm(page);
    }

    fn admits(&mut self, page: u64) -> bool {
        let Some(coldest) = self.coldest() else { return true };
        let temperature = |page: u64| self.known[&(page / self.extent_pages)].0;
        temperature(page) > temperature(self.frames[coldest].1)
    }

    fn inserted(&mut self, frame: u32, page: u64) {
        self.frames.push((frame, page));
        let extent = page / self.extent_pages;
        // What had to leave for it may have made it forgotten.
        self.known.entry(extent).or_insert((0.0, 0, None));
        self.away.retain(|other| *other != extent);
    }

    fn referenced(&mut self, frame: u32) {
        let page = self.frames.iter().find(|(other, _)| *other == frame).unwrap().1;
        self.warm(page);
    }

    fn victim(&mut self) -> Option<u32> {
        let coldest = self.coldest()?;
        Some(self.take(coldest))
    }

    fn removed(&mut self, frame: u32) {
        let place = self.frames.iter().position(|(other, _)| *other == frame).unwrap();
        self.take(place);
    }
}
