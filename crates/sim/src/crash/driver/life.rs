//! What every life has, whatever lives it: its numbers, its course, and what it went through.
//!
//! ```text
//!           begins -> takes its course, one operation after the other -> ends
//!            ^                                                            |
//!            +---------------- (power cut anywhere) <---------------------+
//! ```

use std::fmt::Display;

use mezzanine_device::memory::Power;
use mezzanine_ground::random::{Random, splitmix};

use super::course::Course;
use super::excerpt::Excerpt;
use super::panics;
use super::report::{Coverage, Invariant, VERSION, Violation};
use super::stop::Stop;
use super::terms::{Feature, Terms};

/// What one world went through.
#[derive(Debug, Default)]
pub struct Outcome {
    /// Power cuts.
    pub cuts: u64,
    /// Operations carried out.
    pub operations: u64,
    /// What was reached.
    pub coverage: Coverage,
    /// What was found, if anything: it ends the world.
    pub violation: Option<Violation>,
    /// The course that it took.
    pub lived: Excerpt,
}

/// The life of one world.
pub(crate) struct Life {
    seed: u64,
    terms: Terms,
    course: Course,
    cuts: u64,
    /// What the devices run on.
    power: Power,
    /// The numbers of the part of the course that is under way.
    pub(crate) random: Random,
    pub(crate) coverage: Coverage,
    pub(crate) operations: u64,
    /// What happens is told on standard error.
    pub(crate) traced: bool,
    /// What lives is being opened, and not in use yet.
    pub(crate) opening: bool,
}

impl Life {
    /// The life that `seed` decides on these terms, with devices that run on `power`.
    pub(crate) fn on(seed: u64, terms: &Terms, power: &Power) -> Self {
        Self {
            seed,
            terms: terms.clone(),
            course: Course::new(seed, terms.only.clone()),
            cuts: 0,
            power: power.clone(),
            random: Random::new(splitmix(seed)),
            coverage: Coverage::default(),
            operations: 0,
            traced: false,
            opening: false,
        }
    }

    /// The whole life that `seed` decides.
    pub(crate) fn of(seed: u64, power: &Power) -> Self {
        Self::on(seed, &Terms::default(), power)
    }

    /// The life of a copy of the world, out of a number of this one. It has been through nothing yet, and has
    /// devices of its own.
    pub(crate) fn of_copy(&mut self, power: &Power) -> Self {
        let random = Random::new(self.random.next_u64());
        Self { random, traced: self.traced, ..Self::of(self.seed, power) }
    }

    /// The same, in which sessions that are asked for are others.
    pub(crate) fn of_copy_with_a_course(&mut self, power: &Power) -> Self {
        let course = Course::new(self.random.next_u64(), None);
        Self { course, ..self.of_copy(power) }
    }

    /// How often the power has failed.
    pub(crate) fn cuts(&self) -> u64 {
        self.cuts
    }

    /// The next session begins. False when there is none.
    pub(crate) fn begins(&mut self) -> bool {
        self.course.session().map(|random| self.random = random).is_some()
    }

    /// Mostly plans a power cut for what follows the opening, in one of so many device operations.
    pub(crate) fn plan_cut(&mut self, operations_max: u64) {
        if self.random.chance(7, 8) {
            let after = self.random.magnitude(operations_max);
            self.course.plan_cut(&self.power, after);
        }
    }

    /// The next operation begins. False if it is left out.
    pub(crate) fn operates(&mut self) -> bool {
        self.course.operation(&self.power).map(|random| self.random = random).is_some()
    }

    /// The session ends in one of the ways in which the devices keep their power.
    pub(crate) fn ends(&mut self) {
        self.random = self.course.ending();
    }

    /// The power has failed: what survives is drawn next.
    pub(crate) fn power_failed(&mut self) {
        self.random = self.course.after_cut(&self.power);
        self.count_cut();
    }

    /// The power has failed.
    pub(crate) fn count_cut(&mut self) {
        self.cuts += 1;
        match self.opening {
            true => self.coverage.cuts_inside_recovery += 1,
            false => self.coverage.cuts_in_use += 1,
        }
    }

    /// Tells what happens, in a life that was asked to.
    pub(crate) fn tell(&self, text: impl FnOnce() -> String) {
        if self.traced {
            eprintln!("{:>6} {}", self.power.operations(), text());
        }
    }

    /// Ends the session if the power has failed without anyone noticing.
    pub(crate) fn power_is_on(&self) -> Result<(), Stop> {
        if self.power.is_on() { Ok(()) } else { Err(Stop::PowerFailed) }
    }

    /// What a failed operation means: nothing when the power has failed, the end of the session when a device
    /// may have failed it, else a finding.
    pub(crate) fn done<T, E: Display>(
        &self,
        operation: &str,
        result: Result<T, E>,
        may_fail: impl FnOnce() -> bool,
    ) -> Result<T, Stop> {
        result.map_err(|error| match self.power.is_on() {
            false => Stop::PowerFailed,
            true if may_fail() => Stop::DeviceFailed,
            true => Stop::violated(Invariant::NoUnprovokedError, format!("{operation} failed: {error}")),
        })
    }
}

/// A kind of world, of which every seed makes one. Its text is what it is asked for by.
pub(crate) trait Seeded: Copy + Display {
    /// Runs the world of `seed` through `cuts` power cuts or to its first violation.
    fn run(self, seed: u64, cuts: u64, terms: &Terms) -> Outcome;

    /// Whether the world of `seed` has this feature.
    fn has(self, seed: u64, terms: &Terms, feature: Feature) -> bool;
}

/// What leads a life.
pub(crate) trait World: Sized {
    /// In one of so many sessions a power cut is planned from their beginning on.
    const CUTS_WHILE_OPENING: u64;

    /// Its life.
    fn life(&mut self) -> &mut Life;

    /// Its life, which is over.
    fn into_life(self) -> Life;

    /// The kind of world, as it is asked for again.
    fn kind(&self) -> &'static str;

    /// Where it is in its life, and how it is configured, in one line.
    fn summary(&self) -> String;

    /// One session, and what is done before the next. An error ends the life.
    fn session(&mut self) -> Result<(), Stop>;
}

/// Lives through `cuts` power cuts or to the first violation.
pub(crate) fn live(mut world: impl World, cuts: u64) -> Outcome {
    let found = match panics::catch(|| sessions(&mut world, cuts)) {
        Ok(ended) => ended.err().and_then(Stop::finding),
        Err(message) => Some((Invariant::Assertion, message)),
    };
    let (kind, summary) = (world.kind(), world.summary());
    let Life { seed, terms, course, cuts, coverage, operations, .. } = world.into_life();
    let violation = found.map(|(invariant, text)| Violation {
        invariant,
        seed,
        cut: cuts,
        version: VERSION.to_owned(),
        text: format!("{text}; {summary}"),
        replay: terms.replay(kind, seed, cuts + 1),
    });
    Outcome { cuts, operations, coverage, violation, lived: course.into_lived() }
}

/// One session after the other, up to the last cut.
fn sessions<W: World>(world: &mut W, cuts: u64) -> Result<(), Stop> {
    loop {
        let life = world.life();
        if life.cuts >= cuts || !life.begins() {
            return Ok(());
        }
        if life.random.chance(1, W::CUTS_WHILE_OPENING) {
            life.power.crash_after(life.random.magnitude(64));
        }
        world.session()?;
    }
}
