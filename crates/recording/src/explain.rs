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
    /// The flush that would have made it impossible; none if what is taken is not enough to say one: then
    /// nothing that came later makes the difference, and the writes had to be there as a whole.
    pub absent: Option<Absent>,
    /// How many contents were judged for it.
    pub judged: u64,
}

/// A flush that was not asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Absent {
    /// It had to come behind this write,
    pub after: u64,
    /// and be answered before this began: a write or discard, or a mark.
    pub before: u64,
}

/// Somebody who judges the contents after a cut; an error ends it all.
type Judge<'j, E> = dyn FnMut(&Cut) -> Result<Verdict, E> + 'j;

/// Times are tried one after the other up to so many, and by halves then.
const ONE_BY_ONE: u64 = 64;

/// Shrinks a cut at which the contents are broken, and finds the flush that is absent.
///
/// Of what is taken everything is given back that is not needed. Then the cut is made earlier, as long as
/// they are broken: the event at which they begin to be is the one that trusts in what was lost.
///
/// # Errors
/// Of the judge.
///
/// # Panics
/// If nothing is broken there.
pub fn explain<E>(history: &History, cut: &Cut, judge: &mut Judge<'_, E>) -> Result<Explanation, E> {
    let mut judged = 0;
    let mut broken = |cut: &Cut| -> Result<Option<String>, E> {
        judged += 1;
        Ok(match judge(cut)? {
            Verdict::InOrder => None,
            Verdict::Broken(why) => Some(why),
        })
    };
    let first = broken(cut)?;
    let mut why = first.expect("what is explained is broken");
    let mut cut = cut.clone();
    // A torn write is the more special mistake: whole or lost is tried first.
    for (number, fate) in cut.clone().listed() {
        if let Fate::Torn { .. } = fate {
            for simpler in [Fate::Kept, Fate::Lost] {
                let simpler = cut.clone().with(number, simpler);
                if let Some(reason) = broken(&simpler)? {
                    (cut, why) = (simpler, reason);
                    break;
                }
            }
        }
    }
    // Halves are given back, then quarters, and single ones at last.
    let mut size = cut.listed().count().div_ceil(2).max(1);
    loop {
        let mut shrunk = false;
        let listed: Vec<u64> = cut.listed().map(|(number, _)| number).collect();
        for part in listed.chunks(size) {
            let less = part.iter().fold(cut.clone(), |cut, &number| cut.without(number));
            if let Some(reason) = broken(&less)? {
                (cut, why, shrunk) = (less, reason, true);
            }
        }
        if size == 1 && !shrunk {
            break;
        }
        size = (size / 2).max(1);
    }
    // The earliest time at which it is broken with these.
    let Some((first, last)) = cut.listed().next().zip(cut.listed().last()) else {
        // Nothing has to be lost: it is broken whatever is flushed.
        return Ok(Explanation { cut, why, absent: None, judged });
    };
    let (mut in_order, mut is_broken) = (None, cut.at.max(last.0 + 1));
    for at in last.0 + 1..=is_broken {
        let is_last = at == is_broken;
        let tried = in_order.map_or(0, |first: u64| at - first);
        if is_last || tried > ONE_BY_ONE {
            break;
        }
        let makes_no_difference = at > last.0 + 1 && history.events()[at as usize - 1].kind == Kind::Flush;
        if makes_no_difference {
            continue;
        }
        if let Some(reason) = broken(&cut.moved_to(at))? {
            (is_broken, why) = (at, reason);
            break;
        }
        in_order = Some(at);
    }
    while in_order.is_some_and(|at| is_broken - at > 1) {
        let middle = in_order.map_or(is_broken, |at| at + (is_broken - at) / 2);
        match broken(&cut.moved_to(middle))? {
            Some(reason) => (is_broken, why) = (middle, reason),
            None => in_order = Some(middle),
        }
    }
    // Whoever is there and trusts in the first that is not: an event behind all of them, or the last of
    // them, if that is there in part.
    let cut = if cut.at >= is_broken || cut.at > last.0 { cut.moved_to(is_broken) } else { cut };
    let trusting = if in_order.is_some() { is_broken - 1 } else { last.0 };
    let is_there = in_order.is_some() || !matches!(last.1, Fate::Lost);
    let absent = (is_there && trusting > first.0 && cut.fate(first.0) != Fate::Kept)
        .then_some(Absent { after: first.0, before: trusting });
    Ok(Explanation { cut, why, absent, judged })
}
