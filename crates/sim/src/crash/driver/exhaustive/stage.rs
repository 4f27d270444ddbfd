//! One setting at work: plays a trace to a stop, tries what the cut may leave there, and checks each.

use std::collections::HashSet;

use super::counts::Counts;
use super::subject::{Broken, Choice, Ended, Subject};
use super::window;
use crate::crash::driver::panics;
use crate::crash::driver::report::Invariant;

/// Which case of a trace: the stop in its last step, the choice there, and the same inside the recovery.
/// Without a choice something was wrong before the power failed.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Case {
    /// Counted from 1; 0 stands for all.
    pub(super) stop: u64,
    pub(super) choice: Option<usize>,
    pub(super) nested: Option<(u64, usize)>,
}

/// What was found in a case.
#[derive(Debug)]
pub(super) struct Finding {
    pub(super) case: Case,
    pub(super) invariant: Invariant,
    pub(super) text: String,
}

pub(super) struct Stage<S: Subject> {
    setting: S::Setting,
    beginning: S,
    /// Where the trace is played.
    played: S,
    /// Where a case is recovered.
    recovered: S,
    /// Where power fails in the recovery of a case.
    nested: S,
    /// Where such a case is recovered then.
    twice: S,
}

impl<S: Subject> Stage<S> {
    pub(super) fn new(setting: S::Setting) -> Result<Self, Finding> {
        let begun = panics::catch(|| S::beginning(&setting));
        let beginning = flatten(begun).map_err(|(invariant, text)| {
            let text = format!("before any trace: {text}");
            Finding { case: Case::default(), invariant, text }
        })?;
        let world = || S::blank(&setting);
        let (played, recovered, nested, twice) = (world(), world(), world(), world());
        Ok(Self { beginning, played, recovered, nested, twice, setting })
    }

    pub(super) fn setting(&self) -> &S::Setting {
        &self.setting
    }

    /// Tries every case of `trace` that none of its beginnings has: all stops in its last step (without
    /// steps, in the opening), and the one after it. With `only`, that case alone.
    pub(super) fn node(
        &mut self,
        trace: &[S::Step],
        only: Option<Case>,
        counts: &mut Counts,
    ) -> Result<(), Finding> {
        let mut seen = HashSet::new();
        for stop in 1.. {
            let found = panics::catch(|| {
                self.played.copy_from(&self.beginning);
                self.played.play(trace, stop)
            });
            let case = Case { stop, ..Case::default() };
            let ended = flatten(found).map_err(|(invariant, text)| {
                self.played = S::blank(&self.setting);
                Finding { case, invariant, text }
            })?;
            counts.stops += 1;
            if ended == Ended::Idle {
                // What was under way is acknowledged: the same bytes are another case.
                seen.clear();
            }
            if only.is_none_or(|only| only.stop == 0 || only.stop == stop) {
                self.choices(case, only, &mut seen, counts)?;
            }
            if ended == Ended::Idle {
                break;
            }
        }
        counts.traces += 1;
        Ok(())
    }

    fn choices(
        &mut self,
        case: Case,
        only: Option<Case>,
        seen: &mut HashSet<Vec<u64>>,
        counts: &mut Counts,
    ) -> Result<(), Finding> {
        for (number, choice) in window::choices(&self.played, false).into_iter().enumerate() {
            let case = Case { choice: Some(number), ..case };
            let is_new = seen.insert(window::key(&self.played, &choice));
            if !is_new || only.is_some_and(|only| only.choice.is_some_and(|only| only != number)) {
                continue;
            }
            counts.cuts += 1;
            counts.torn += u64::from(choice.torn);
            let mut at = case;
            let found = panics::catch(|| self.case(&choice, only, &mut at, counts));
            flatten(found).map_err(|(invariant, text)| {
                for world in [&mut self.recovered, &mut self.nested, &mut self.twice] {
                    *world = S::blank(&self.setting);
                }
                Finding { case: at, invariant, text }
            })?;
        }
        Ok(())
    }

    /// Cuts the power of what was played, recovers and checks; then the same with another cut at each
    /// operation of the recovery. `at` follows, for a finding.
    fn case(
        &mut self,
        choice: &Choice,
        only: Option<Case>,
        at: &mut Case,
        counts: &mut Counts,
    ) -> Result<(), Broken> {
        let world = &mut self.recovered;
        world.copy_from(&self.played);
        world.cut(choice);
        world.check_after_cut()?;
        let expected = world.recover(true)?;
        if choice.nested {
            self.nested_cuts(choice, &expected, only, at, counts)?;
        }
        let world = &mut self.recovered;
        world.copy_from(&self.played);
        world.cut(choice);
        if world.lose_flash() {
            world.recover(true)?;
        }
        Ok(())
    }

    fn nested_cuts(
        &mut self,
        choice: &Choice,
        expected: &S::Contents,
        only: Option<Case>,
        at: &mut Case,
        counts: &mut Counts,
    ) -> Result<(), Broken> {
        let mut seen = HashSet::new();
        for stop in 1.. {
            let world = &mut self.nested;
            world.copy_from(&self.played);
            world.cut(choice);
            if world.open_until(stop)? == Ended::Idle {
                return Ok(());
            }
            counts.stops_inside_recovery += 1;
            if only.and_then(|only| only.nested).is_some_and(|(only, _)| only != stop) {
                continue;
            }
            for (number, inner) in window::choices(world, true).into_iter().enumerate() {
                let is_new = seen.insert(window::key(world, &inner));
                let is_other = only.and_then(|only| only.nested).is_some_and(|(_, only)| only != number);
                if !is_new || is_other {
                    continue;
                }
                at.nested = Some((stop, number));
                counts.cuts += 1;
                counts.cuts_inside_recovery += 1;
                counts.torn += u64::from(inner.torn);
                let twice = &mut self.twice;
                twice.copy_from(world);
                twice.cut(&inner);
                twice.check_after_cut()?;
                let found = twice.recover(false)?;
                twice.compare(expected, &found)?;
            }
        }
        at.nested = None;
        Ok(())
    }
}

fn flatten<T>(caught: Result<Result<T, Broken>, String>) -> Result<T, Broken> {
    caught.unwrap_or_else(|message| Err((Invariant::Assertion, message)))
}
