//! One setting at work: plays a trace to a stop, tries what the cut may leave there, and checks each.

use std::collections::HashSet;

use super::Counts;
use super::setting::Setting;
use super::step::Step;
use super::window::{self, Choice};
use crate::crash::checkers::{disk, pages, recovery};
use crate::crash::panics;
use crate::crash::report::Invariant;
use crate::crash::world::{Session, Stop, World};

/// Which case of a trace: the stop in its last step, the choice there, and the same inside the recovery. Without a choice
/// something was wrong before the power failed.
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

/// How a trace ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Ended {
    /// The planned stop came.
    Stopped,
    /// It did not; the machine is idle, with the process dead.
    Idle,
}

pub(super) struct Stage {
    setting: Setting,
    beginning: World,
    /// Where the trace is played.
    played: World,
    /// Where a case is recovered.
    recovered: World,
    /// Where power fails in the recovery of a case.
    nested: World,
    /// Where such a case is recovered then.
    twice: World,
}

impl Stage {
    pub(super) fn new(setting: Setting) -> Result<Self, Finding> {
        let begun = panics::catch(|| setting.begin());
        let beginning = flatten(begun).map_err(|(invariant, text)| {
            let text = format!("before any trace: {text}");
            Finding { case: Case::default(), invariant, text }
        })?;
        let world = || World::of(setting.scenario());
        Ok(Self { beginning, played: world(), recovered: world(), nested: world(), twice: world(), setting })
    }

    pub(super) fn setting(&self) -> &Setting {
        &self.setting
    }

    /// Tries every case of `trace` that none of its beginnings has: all stops in its last step (without steps, in the
    /// opening), and the one after it. With `only`, that case alone.
    pub(super) fn node(
        &mut self,
        trace: &[Step],
        only: Option<Case>,
        counts: &mut Counts,
    ) -> Result<(), Finding> {
        let mut seen = HashSet::new();
        for stop in 1.. {
            let found = panics::catch(|| self.play(trace, stop));
            let found = flatten(found);
            let case = Case { stop, ..Case::default() };
            let ended = found.map_err(|(invariant, text)| {
                self.played = World::of(self.setting.scenario());
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
        for (number, choice) in window::choices(&self.played.machine, false).into_iter().enumerate() {
            let case = Case { choice: Some(number), ..case };
            let is_new = seen.insert(window::key(&self.played.machine, &choice));
            if !is_new || only.is_some_and(|only| only.choice.is_some_and(|only| only != number)) {
                continue;
            }
            counts.cuts += 1;
            counts.torn += u64::from(choice.torn);
            let mut at = case;
            let found = panics::catch(|| self.case(&choice, only, &mut at, counts));
            flatten(found).map_err(|(invariant, text)| {
                for world in [&mut self.recovered, &mut self.nested, &mut self.twice] {
                    *world = World::of(self.setting.scenario());
                }
                Finding { case: at, invariant, text }
            })?;
        }
        Ok(())
    }

    /// Plays `trace` with power failing in the `stop`-th operation of its last step. What is unflushed then is left so.
    fn play(&mut self, trace: &[Step], stop: u64) -> Result<Ended, Stop> {
        let world = &mut self.played;
        world.copy_from(&self.beginning);
        let mut session = None;
        let played = play_steps(world, &mut session, trace, stop);
        if let Some(session) = session {
            world.release(session);
        }
        match played {
            Ok(()) => {
                world.models_crashed();
                Ok(Ended::Idle)
            }
            Err(Stop::PowerFailed) => {
                world.models_crashed();
                Ok(Ended::Stopped)
            }
            Err(violated) => Err(violated),
        }
    }

    /// Cuts the power of what was played, recovers and checks; then the same with another cut at each operation of the
    /// recovery. `at` follows, for a finding.
    fn case(
        &mut self,
        choice: &Choice,
        only: Option<Case>,
        at: &mut Case,
        counts: &mut Counts,
    ) -> Result<(), Stop> {
        let world = &mut self.recovered;
        world.copy_from(&self.played);
        choice.cut(&world.machine);
        disk::check_after_cut(world)?;
        let expected = recover(world, true)?;
        if choice.nested {
            self.nested_cuts(choice, &expected, only, at, counts)?;
        }
        if self.setting.scenario().flash_is_expendable() {
            let world = &mut self.recovered;
            world.copy_from(&self.played);
            choice.cut(&world.machine);
            world.machine.flash.load(&vec![0; world.scenario.flash_bytes() as usize]);
            world.formatted = false;
            recover(world, true)?;
        }
        Ok(())
    }

    fn nested_cuts(
        &mut self,
        choice: &Choice,
        expected: &recovery::Contents,
        only: Option<Case>,
        at: &mut Case,
        counts: &mut Counts,
    ) -> Result<(), Stop> {
        let mut seen = HashSet::new();
        for stop in 1.. {
            let world = &mut self.nested;
            world.copy_from(&self.played);
            choice.cut(&world.machine);
            world.machine.power.crash_after(stop);
            match world.open() {
                Ok(session) => {
                    world.release(session);
                    return Ok(());
                }
                Err(Stop::PowerFailed) => world.models_crashed(),
                Err(violated) => return Err(violated),
            }
            counts.stops_inside_recovery += 1;
            if only.and_then(|only| only.nested).is_some_and(|(only, _)| only != stop) {
                continue;
            }
            for (number, inner) in window::choices(&world.machine, true).into_iter().enumerate() {
                let is_new = seen.insert(window::key(&world.machine, &inner));
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
                inner.cut(&twice.machine);
                disk::check_after_cut(twice)?;
                let found = recover(twice, false)?;
                recovery::compare(twice, expected, &found)?;
            }
        }
        at.nested = None;
        Ok(())
    }
}

fn flatten<T>(caught: Result<Result<T, Stop>, String>) -> Result<T, (Invariant, String)> {
    match caught {
        Ok(Ok(value)) => Ok(value),
        Ok(Err(Stop::Violated(invariant, text))) => Err((invariant, text)),
        Ok(Err(Stop::PowerFailed | Stop::DeviceFailed)) => {
            Err((Invariant::NoUnprovokedError, "something failed that nobody broke".to_owned()))
        }
        Err(message) => Err((Invariant::Assertion, message)),
    }
}

/// Opens, plays the steps, and lets power fail in the `stop`-th operation of the last one. The session that is open at the
/// end is left in `open`.
fn play_steps(world: &mut World, open: &mut Option<Session>, trace: &[Step], stop: u64) -> Result<(), Stop> {
    let mut cut_at = None;
    if trace.is_empty() {
        cut_at = Some(arm(world, stop));
    }
    *open = Some(reopen(world)?);
    for (number, step) in trace.iter().enumerate() {
        if number + 1 == trace.len() {
            cut_at = Some(arm(world, stop));
        }
        if !step.ends() {
            if let Some(session) = open {
                step.take(world, session)?;
            }
            continue;
        }
        if let Some(session) = open.take() {
            let ended = step.end(world, &session);
            world.release(session);
            ended?;
            // The release forgot the planned cut, which has not come yet.
            if let Some(at) = cut_at {
                world.machine.power.crash_after(at + 1 - world.machine.power.operations());
            }
        }
        *open = Some(reopen(world)?);
    }
    Ok(())
}

/// Plans the cut in the `stop`-th operation from now, and returns its number.
fn arm(world: &World, stop: u64) -> u64 {
    world.machine.power.crash_after(stop);
    world.machine.power.operations() + stop - 1
}

/// Opens and compares the lengths. Pages are not read, because that changes what the tier holds.
fn reopen(world: &mut World) -> Result<Session, Stop> {
    let session = world.open()?;
    match pages::check_lengths(world, &session) {
        Ok(()) => Ok(session),
        Err(stop) => {
            world.release(session);
            Err(stop)
        }
    }
}

/// Opens, reads and compares everything. Returns what was read. With `close`, closes drained and looks at the disk alone.
fn recover(world: &mut World, close: bool) -> Result<recovery::Contents, Stop> {
    let session = reopen(world)?;
    let checked = check(world, &session, close);
    world.release(session);
    checked
}

fn check(world: &mut World, session: &Session, close: bool) -> Result<recovery::Contents, Stop> {
    for file in 0..world.models.len() {
        for page in 0..world.models[file].len().div_ceil(world.scenario.page_bytes()) {
            pages::read(world, session, file, page, 1)?;
        }
    }
    let contents = recovery::contents(world, session)?;
    session.volume.check();
    if close {
        world.done("close drained", session.volume.close_drained())?;
        disk::check_drained(world)?;
    }
    Ok(contents)
}
