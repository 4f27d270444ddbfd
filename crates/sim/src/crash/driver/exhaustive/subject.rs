//! What traces are played on. There are two kinds: files on a volume, and a database with a log.

use std::fmt::Display;

use mezzanine_device::memory::{MemoryDevice, Survival};
use mezzanine_engine::{Design, SyncMode};

use crate::crash::driver::report::Invariant;
use crate::crash::driver::stop::Stop;

/// An invariant that does not hold, and what was found.
pub(crate) type Broken = (Invariant, String);

/// What one cut leaves.
#[derive(Debug, Clone)]
pub(crate) struct Choice {
    /// Of each device, flash first.
    pub(crate) survivals: Vec<Survival>,
    /// Of what is no device: which of its ways.
    pub(crate) way: usize,
    /// One write survives in part.
    pub(super) torn: bool,
    /// A further cut inside the recovery is tried.
    pub(super) nested: bool,
}

/// How a trace ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Ended {
    /// The planned stop came.
    Stopped,
    /// It did not; the machine is idle, with the process dead.
    Idle,
}

/// How a trace ended that stopped so.
pub(crate) fn ended(played: Result<(), Stop>) -> Result<Ended, Broken> {
    match played {
        Ok(()) => Ok(Ended::Idle),
        Err(Stop::PowerFailed) => Ok(Ended::Stopped),
        Err(stop) => Err(broken(stop)),
    }
}

/// What a stop means that is not a planned one.
pub(crate) fn broken(stop: Stop) -> Broken {
    match stop {
        Stop::Violated(invariant, text) => (invariant, text),
        Stop::Refused(reason) => (Invariant::KnownTier, format!("the right tier was refused: {reason}")),
        Stop::PowerFailed | Stop::DeviceFailed | Stop::Lost => {
            (Invariant::NoUnprovokedError, "something failed that nobody broke".to_owned())
        }
    }
}

/// One step of a grammar.
pub(crate) trait Grammar: Copy + PartialEq + Display + Send + Sync + 'static {
    /// Every step.
    const ALL: &'static [Self];

    /// Its letter in the name of a trace.
    fn letter(self) -> char;

    /// What it does.
    fn text(self) -> &'static str;

    /// Whether doing it twice in a row is the same as doing it once.
    fn is_idempotent(self) -> bool;

    /// The step of a letter.
    fn of(letter: char) -> Option<Self> {
        Self::ALL.iter().copied().find(|step| step.letter() == letter)
    }
}

/// A configuration and a beginning in which every trace is played. Its text is its name.
pub(crate) trait Scene: Clone + Display + Send + Sync {
    /// Every setting, or those of a sync mode and a design.
    fn all(sync_mode: Option<SyncMode>, design: Option<Design>) -> Vec<Self>;

    /// The setting of a name.
    fn named(name: &str) -> Option<Self> {
        Self::all(None, None).into_iter().find(|setting| setting.to_string() == name)
    }
}

/// A world in which traces can be played, copied and cut.
pub(crate) trait Subject: Sized {
    /// Its configurations.
    type Setting: Scene;
    /// Its grammar.
    type Step: Grammar;
    /// What a recovery finds.
    type Contents;

    /// The world of a setting, before anything.
    fn blank(setting: &Self::Setting) -> Self;

    /// The world in which every trace of this setting begins.
    fn beginning(setting: &Self::Setting) -> Result<Self, Broken>;

    /// Makes this world what `other` is, unflushed changes included.
    fn copy_from(&mut self, other: &Self);

    /// Opens, and plays `trace` with power failing in the `stop`-th operation of its last step; without
    /// steps, in the opening. What is unflushed then is left so.
    fn play(&mut self, trace: &[Self::Step], stop: u64) -> Result<Ended, Broken>;

    /// Its devices, flash first.
    fn devices(&self) -> Vec<&MemoryDevice>;

    /// In how many ways that which is no device may come out of a cut now. The first of them keeps least, the
    /// last most.
    fn ways(&self) -> usize;

    /// Decides, with the bytes of the devices, the state after a cut in which this of the ways was taken.
    fn way_key(&self, way: usize) -> u64;

    /// Lets the power come back with what `choice` leaves.
    fn cut(&mut self, choice: &Choice);

    /// Looks at what can be seen right after a cut, without the software.
    fn check_after_cut(&mut self) -> Result<(), Broken>;

    /// Opens with power failing in the `stop`-th operation of that. Whether it did.
    fn open_until(&mut self, stop: u64) -> Result<Ended, Broken>;

    /// Opens, reads and compares everything; with `close` leaves in order, so that disk must suffice, and
    /// looks at that.
    fn recover(&mut self, close: bool) -> Result<Self::Contents, Broken>;

    /// Compares what a repeated recovery has found with what the first one had.
    fn compare(&self, expected: &Self::Contents, found: &Self::Contents) -> Result<(), Broken>;

    /// Replaces the flash device with an empty one, where nothing may be lost with it. False where something
    /// may.
    fn lose_flash(&mut self) -> bool;
}

/// Makes an enum of steps, each with its letter and what it does.
macro_rules! steps {
    ($($step:ident = $letter:literal $text:literal),+ $(,)?) => {
        /// One step of a trace.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
        pub enum Step { $(#[doc = $text] $step),+ }

        impl Step {
            /// Every step.
            pub const ALL: &'static [Self] = &[$(Self::$step),+];

            /// Its letter in the name of a trace.
            pub const fn letter(self) -> char {
                match self { $(Self::$step => $letter),+ }
            }

            /// What it does.
            pub const fn text(self) -> &'static str {
                match self { $(Self::$step => $text),+ }
            }
        }

        impl std::fmt::Display for Step {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                write!(f, "{}", self.letter())
            }
        }

        impl $crate::crash::driver::exhaustive::subject::Grammar for Step {
            const ALL: &'static [Self] = Self::ALL;

            fn letter(self) -> char {
                self.letter()
            }

            fn text(self) -> &'static str {
                self.text()
            }

            fn is_idempotent(self) -> bool {
                self.is_idempotent()
            }
        }
    };
}

pub(crate) use steps;
