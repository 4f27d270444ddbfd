//! Cuts that are drawn.

use std::collections::BTreeSet;

use mezzanine_ground::random::Random;

use crate::cut::{Cut, Fate};
use crate::history::{Event, History, Kind};

/// What somebody who knows the database says of its contents.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Verdict {
    /// It is in order.
    InOrder,
    /// It is not, and why.
    Broken(String),
}

/// Draws are given up after so many in a row that have come before.
const DRAWS_MAX: u32 = 1000;

/// Draws cuts of a recording, each once. Mistakes that hurt are one write that is missing behind others, so
/// that is drawn most.
#[derive(Debug)]
pub struct Search<'h> {
    history: &'h History,
    random: Random,
    drawn: BTreeSet<Cut>,
    /// Behind each mark, and before each flush is answered.
    marks: Vec<u64>,
    flushes: Vec<u64>,
    /// For each flush how much was open at all of them so far.
    open_up_to: Vec<u64>,
}

impl<'h> Search<'h> {
    /// Whose whole sequence follows from `seed`.
    pub fn new(history: &'h History, seed: u64) -> Self {
        let of = |kind: Kind| {
            let events = history.events().iter().enumerate();
            events.filter(move |(_, event)| event.kind == kind).map(|(number, _)| number as u64)
        };
        let flushes: Vec<u64> = of(Kind::Flush).collect();
        let open = history.how_many_open();
        let open_up_to = flushes.iter().scan(0, |all, &flush| {
            *all += open[flush as usize];
            Some(*all)
        });
        Self {
            open_up_to: open_up_to.collect(),
            history,
            random: Random::new(seed),
            drawn: BTreeSet::new(),
            marks: of(Kind::Mark).map(|mark| mark + 1).collect(),
            flushes,
        }
    }

    fn draw(&mut self) -> Cut {
        let random = &mut self.random;
        let (begins, end) = (self.history.begins(), self.history.events().len() as u64);
        let all_open = self.open_up_to.last().copied().unwrap_or(0);
        let at = match random.below(4) {
            0 if !self.marks.is_empty() => *random.pick(&self.marks),
            1 if !self.flushes.is_empty() => *random.pick(&self.flushes),
            // Where much can be lost, and little is done often: a checkpoint among commits.
            2 if all_open > 0 => {
                let drawn = random.below(all_open);
                self.flushes[self.open_up_to.partition_point(|&up_to| up_to <= drawn)]
            }
            _ => random.between(begins, end),
        };
        let open = self.history.open_at(at);
        let mut cut = Cut::before(at);
        if open.is_empty() {
            return cut;
        }
        let one = *random.pick(&open);
        let lose = |cut: Cut, number: &u64| cut.with(*number, Fate::Lost);
        cut = match random.below(8) {
            // One is lost, or there although it was under way.
            0..=3 => cut.with(one, if one < at { Fate::Lost } else { Fate::Kept }),
            4 => open.iter().filter(|&&other| other >= one).fold(cut, lose),
            5 => open.iter().filter(|&&other| other != one).fold(cut.with(one, Fate::Kept), lose),
            _ => open.iter().fold(cut, |cut, &other| {
                cut.with(other, if random.chance(1, 2) { Fate::Lost } else { Fate::Kept })
            }),
        };
        if random.chance(1, 2) {
            let torn = *random.pick(&open);
            let event: &Event = &self.history.events()[torn as usize];
            if event.sectors() > 1 {
                let sectors = random.between(1, event.sectors() - 1);
                let is_last = random.chance(1, 3);
                let fate = if is_last { Fate::TornLast { sectors } } else { Fate::Torn { sectors } };
                cut = cut.with(torn, fate);
            }
        }
        cut
    }
}

impl Iterator for Search<'_> {
    type Item = Cut;

    /// The next one; none if it seems that there are no others.
    fn next(&mut self) -> Option<Cut> {
        (0..DRAWS_MAX).find_map(|_| {
            let cut = self.draw();
            self.drawn.insert(cut.clone()).then_some(cut)
        })
    }
}
