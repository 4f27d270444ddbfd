//! Which flush is absent.

use crate::cut::{Cut, Fate};
use crate::history::{History, Kind};
use crate::search::Verdict;

/// A cut shrunk to what matters.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Explanation {
    /// The earliest cut found, with as few writes taken as it needs.
    pub cut: Cut,
    /// What is wrong there.
    pub why: String,
    /// The flush that would have made it impossible. None if nothing that came later trusts in what is taken,
    /// which had to be there as a whole.
    pub absent: Option<Absent>,
    /// How many contents were judged for it.
    pub judged: u64,
}

/// A flush that was not asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Absent {
    /// It had to come behind this write; none if the flush would have had to bring about the writes, too:
    /// what is trusted in had not reached the device,
    pub after: Option<u64>,
    /// and be answered before this began: a write or discard, or a mark.
    pub before: u64,
}

/// Times are tried one after the other up to so many, and by halves then.
const ONE_BY_ONE: u64 = 64;

/// Somebody who judges the contents after a cut; an error ends it all.
type Judge<'j, E> = dyn FnMut(&Cut) -> Result<Verdict, E> + 'j;

/// Shrinks a cut at which the contents are broken, and finds the flush that is absent.
///
/// Of what is taken everything is given back that is not needed. Then the cut is made as early as they are
/// broken: the event at which they begin to be is the one that trusts in what was lost.
///
/// # Errors
/// Of the judge.
///
/// # Panics
/// If nothing is broken there.
pub fn explain<E>(history: &History, cut: &Cut, judge: &mut Judge<'_, E>) -> Result<Explanation, E> {
    let mut search = Shrinking { history, judge, judged: 0, why: String::new() };
    assert!(search.is_broken(cut)?, "what is explained is broken");
    let cut = search.without_tears(cut)?;
    let cut = search.give_back(cut)?;
    let Some((first, last)) = cut.listed().next().zip(cut.listed().last()) else {
        return search.with_nothing_lost(cut);
    };
    // What is not there need not have been written yet.
    let there = cut.listed().filter(|(_, fate)| *fate != Fate::Lost).map(|(number, _)| number + 1).max();
    // Everything is there that had begun: nothing that came before was lost, it had not been written.
    if cut.listed().all(|(_, fate)| fate == Fate::Kept) {
        let whole = Cut::before(last.0 + 1);
        if search.is_broken(&whole)? {
            return search.with_nothing_lost(whole);
        }
    }
    let Some(from) = search.earliest(&cut, there.unwrap_or(0).max(first.0 + 1))? else {
        // At once, with nothing behind it. It may have been trusted in before it was written;
        let early = Cut::before(first.0.min(cut.at));
        if search.is_broken(&early)? {
            return search.with_nothing_lost(early);
        }
        // or the last that is taken is there in part, and trusts in the first.
        let is_there = !matches!(last.1, Fate::Lost) && first.0 < last.0;
        let cut = cut.moved_to(cut.at.min(last.0 + 1));
        return Ok(search.end(cut, is_there.then_some(Absent { after: Some(first.0), before: last.0 })));
    };
    let absent = (first.1 != Fate::Kept).then_some(Absent { after: Some(first.0), before: from - 1 });
    Ok(search.end(cut.moved_to(from), absent))
}

struct Shrinking<'a, 'j, E> {
    history: &'a History,
    judge: &'a mut Judge<'j, E>,
    judged: u64,
    /// What was wrong at the last cut that was broken.
    why: String,
}

impl<E> Shrinking<'_, '_, E> {
    fn is_broken(&mut self, cut: &Cut) -> Result<bool, E> {
        self.judged += 1;
        Ok(match (self.judge)(cut)? {
            Verdict::InOrder => false,
            Verdict::Broken(why) => {
                self.why = why;
                true
            }
        })
    }

    /// Somebody trusts in what was never written.
    fn with_nothing_lost(mut self, cut: Cut) -> Result<Explanation, E> {
        let from = self.earliest(&cut, self.history.begins())?;
        let absent = from.map(|from| Absent { after: None, before: from - 1 });
        Ok(self.end(from.map_or(cut, Cut::before), absent))
    }

    fn end(self, cut: Cut, absent: Option<Absent>) -> Explanation {
        Explanation { cut, why: self.why, absent, judged: self.judged }
    }

    /// A torn write is the more special mistake: whether it may be whole, or lost.
    fn without_tears(&mut self, cut: &Cut) -> Result<Cut, E> {
        let mut cut = cut.clone();
        for (number, fate) in cut.clone().listed() {
            if fate.is_torn() {
                for simpler in [Fate::Kept, Fate::Lost] {
                    let simpler = cut.clone().with(number, simpler);
                    if self.is_broken(&simpler)? {
                        cut = simpler;
                        break;
                    }
                }
            }
        }
        Ok(cut)
    }

    /// What is taken that need not be is given back: halves first, then quarters, and single ones at last.
    fn give_back(&mut self, cut: Cut) -> Result<Cut, E> {
        let mut cut = cut;
        let mut size = cut.listed().count().div_ceil(2).max(1);
        loop {
            let mut shrunk = false;
            let listed: Vec<u64> = cut.listed().map(|(number, _)| number).collect();
            for part in listed.chunks(size) {
                let less = part.iter().fold(cut.clone(), |cut, &number| cut.without(number));
                if self.is_broken(&less)? {
                    (cut, shrunk) = (less, true);
                }
            }
            if size == 1 && !shrunk {
                return Ok(cut);
            }
            size = (size / 2).max(1);
        }
    }

    /// The earliest time from `from` on at which it is broken although it was in order before; none if it is
    /// broken at `from`, or if the cut comes earlier.
    fn earliest(&mut self, cut: &Cut, from: u64) -> Result<Option<u64>, E> {
        if cut.at <= from || self.is_broken(&cut.moved_to(from))? {
            return Ok(None);
        }
        let (mut in_order, mut broken) = (from, cut.at);
        let nearby = (from + 1..cut.at).take(ONE_BY_ONE as usize);
        for at in nearby.filter(|&at| self.history.events()[at as usize - 1].kind != Kind::Flush) {
            if self.is_broken(&cut.moved_to(at))? {
                return Ok(Some(at));
            }
            in_order = at;
        }
        while broken - in_order > 1 {
            let middle = in_order + (broken - in_order) / 2;
            match self.is_broken(&cut.moved_to(middle))? {
                true => broken = middle,
                false => in_order = middle,
            }
        }
        Ok(Some(broken))
    }
}
