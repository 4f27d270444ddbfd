//! The course of a life: what takes place in it, and out of which numbers.
//!
//! A life is a row of sessions, a session an opening, operations, and an end or a power cut. Each of these
//! draws from numbers of its own, which follow from the seed and its place in the course. So a part can be
//! left out and the others stay what they are, and a life in which something went wrong can be made shorter
//! ([`super::shrink`]).

use mezzanine_device::memory::Power;
use mezzanine_ground::random::{Random, splitmix};

use super::excerpt::{Excerpt, Lived};

/// Numbers of the parts of a session; operations follow.
const OPENING: u64 = 0;
const ENDING: u64 = 1;
const AFTER_CUT: u64 = 2;
const OPERATIONS: u64 = 3;

/// The course of one life.
#[derive(Debug)]
pub(crate) struct Course {
    seed: u64,
    /// What alone is to take place.
    only: Option<Excerpt>,
    /// How many sessions have begun, of those that take place.
    begun: usize,
    /// The operation of the session that comes next.
    operation: u64,
    /// How many device operations there had been when the last operation began.
    operation_began: u64,
    lived: Excerpt,
}

impl Course {
    /// The whole course that `seed` decides, or the part of it that `only` names.
    pub(crate) fn new(seed: u64, only: Option<Excerpt>) -> Self {
        Self { seed, only, begun: 0, operation: 0, operation_began: 0, lived: Excerpt::default() }
    }

    /// The next session begins: the numbers of its opening. `None` when there is none.
    pub(crate) fn session(&mut self) -> Option<Random> {
        let lived = match &self.only {
            None => Lived::new(self.begun as u64),
            // A cut that was planned and does not come has to be planned again, or another one would come.
            Some(only) => only.sessions.get(self.begun)?.without_operations(),
        };
        self.begun += 1;
        self.operation = 0;
        self.lived.sessions.push(lived);
        Some(self.random(OPENING))
    }

    fn random(&self, part: u64) -> Random {
        let session = self.lived.sessions.last().map_or(0, |lived| lived.session);
        Random::new(splitmix(self.seed) ^ splitmix((session << 20) + part))
    }

    /// What is to take place of the session under way.
    fn planned(&self) -> Option<&Lived> {
        self.only.as_ref()?.sessions.get(self.begun - 1)
    }

    /// Plans a power cut in the session under way, in the `after`-th device operation from now, unless the
    /// excerpt knows better. Power that has failed and nobody has noticed stays off: the cut has come
    /// already.
    pub(crate) fn plan_cut(&self, power: &Power, after: u64) {
        if !power.is_on() {
            return;
        }
        match self.planned() {
            Some(Lived { cut: Some(_), .. }) => power.restore(),
            _ => power.crash_after(after),
        }
    }

    /// The next operation begins: its numbers, or `None` if it is left out.
    pub(crate) fn operation(&mut self, power: &Power) -> Option<Random> {
        let number = self.operation;
        self.operation += 1;
        self.operation_began = power.operations();
        if let Some(planned) = self.planned() {
            if let Some((operation, after)) = planned.cut {
                if operation == number && power.is_on() {
                    power.crash_after(after);
                }
            }
            if !planned.has(number) {
                return None;
            }
        }
        if let Some(lived) = self.lived.sessions.last_mut() {
            lived.add(number);
        }
        Some(self.random(OPERATIONS + number))
    }

    /// The session ends in one of the ways in which the devices keep their power: the numbers for that.
    pub(crate) fn ending(&self) -> Random {
        self.random(ENDING)
    }

    /// Power has failed: the numbers that decide what survives.
    pub(crate) fn after_cut(&mut self, power: &Power) -> Random {
        if let (Some(failed_at), Some(lived)) = (power.failed_at(), self.lived.sessions.last_mut()) {
            // A cut in the opening comes again by itself, because nothing before it can be left out.
            if self.operation > 0 && failed_at >= self.operation_began {
                lived.cut = Some((self.operation - 1, failed_at - self.operation_began + 1));
            }
        }
        self.random(AFTER_CUT)
    }

    /// What took place.
    pub(crate) fn into_lived(self) -> Excerpt {
        self.lived
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    /// Power fails in an operation of which nobody asks how it ended; then the next cut is planned, by the
    /// whole course and by excerpts with and without a cut of their own.
    #[test]
    fn power_that_has_failed_stays_off() {
        for only in [None, Some("0:0"), Some("0:0!0.3")] {
            let mut course = Course::new(1, only.map(|only| only.parse().unwrap()));
            let power = Power::new();
            course.session().unwrap();
            power.crash_after(1);
            power.spend();
            assert!(!power.is_on());
            course.plan_cut(&power, 5);
            assert!(!power.is_on(), "{only:?}: a cut is planned");
            course.operation(&power).unwrap();
            assert!(!power.is_on(), "{only:?}: an operation begins");
        }
    }
}
