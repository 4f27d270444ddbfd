//! A file that is replaced as a whole, durably.

use std::fmt;
use std::sync::{Mutex, MutexGuard, PoisonError};

use mezzanine_device::memory::{Power, Spent};
use mezzanine_ground::random::Random;

/// The machine has no power.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NoPower;

impl fmt::Display for NoPower {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the machine has no power")
    }
}

impl std::error::Error for NoPower {}

/// A file of one value: when power fails in its replacement, it is the old one or the new one.
pub struct Whole<T> {
    power: Power,
    /// The value, and the one that power failed in the writing of.
    state: Mutex<(T, Option<T>)>,
}

impl<T: Clone> Whole<T> {
    /// On a supply of power, with this in it.
    pub(crate) fn new(power: &Power, value: T) -> Self {
        Self { power: power.clone(), state: Mutex::new((value, None)) }
    }

    fn state(&self) -> MutexGuard<'_, (T, Option<T>)> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What is there.
    pub(crate) fn read(&self) -> T {
        self.state().0.clone()
    }

    /// The value that power failed in the writing of.
    pub(crate) fn under_way(&self) -> Option<T> {
        self.state().1.clone()
    }

    /// Puts another one in its place.
    pub(crate) fn replace(&self, value: T) -> Result<(), NoPower> {
        match self.power.spend() {
            Spent::On => {
                self.state().0 = value;
                Ok(())
            }
            Spent::Cut => {
                self.state().1 = Some(value);
                Err(NoPower)
            }
            Spent::Off => Err(NoPower),
        }
    }

    /// What somebody puts there while the machine is at rest.
    pub(crate) fn put(&self, value: T) {
        *self.state() = (value, None);
    }

    /// Makes it what `other` is, with what was under way.
    pub(crate) fn copy_from(&self, other: &Self) {
        self.state().clone_from(&other.state());
    }

    /// Power has failed. If that was in a replacement, `replaced` says which value is there.
    pub(crate) fn cut_as(&self, replaced: impl FnOnce() -> bool) {
        let mut state = self.state();
        if let Some(value) = state.1.take().filter(|_| replaced()) {
            state.0 = value;
        }
    }

    /// The same, by a draw.
    pub(crate) fn cut(&self, random: &mut Random) {
        self.cut_as(|| random.chance(1, 2));
    }
}
