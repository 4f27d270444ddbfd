//! Why a session ended before its time.

use super::report::Invariant;

/// See the module.
#[derive(Debug)]
pub(crate) enum Stop {
    PowerFailed,
    /// A device has reported an error, and an operation has failed on that.
    DeviceFailed,
    /// The newest version of a page cannot be read: on a copy with a damaged tier.
    Lost,
    /// The database refuses to start: why.
    Refused(String),
    Violated(Invariant, String),
}

impl Stop {
    pub(crate) fn violated(invariant: Invariant, text: impl Into<String>) -> Self {
        Self::Violated(invariant, text.into())
    }

    /// What was violated, if a life ends like this.
    pub(crate) fn finding(self) -> Option<(Invariant, String)> {
        match self {
            Self::PowerFailed | Self::DeviceFailed | Self::Lost => None,
            Self::Refused(reason) => Some((Invariant::KnownTier, reason)),
            Self::Violated(invariant, text) => Some((invariant, text)),
        }
    }

    /// Whether a page was not the one that it must be, but may be an older one.
    pub(crate) fn is_of_older_page(&self) -> bool {
        use Invariant::{NoResurrection, RedoPromise, Versions};
        matches!(self, Self::Violated(RedoPromise | Versions | NoResurrection, _))
    }

    /// What this means where the tier has failed: stage-out came to a page that it cannot read, and whoever
    /// waits for room waits in vain.
    pub(crate) fn of_failed_tier(self) -> Self {
        match self {
            Self::Violated(Invariant::Assertion | Invariant::NoUnprovokedError, _) => Self::Lost,
            stop => stop,
        }
    }

    /// What this means where a tier was damaged: nothing if the damage was noticed, or if it may look like
    /// this.
    pub(crate) fn with_damaged_tier(self) -> Self {
        let text = match self {
            Self::Refused(text) => {
                format!("a damaged tier was not done without, though the disk suffices: {text}")
            }
            Self::Violated(invariant, text) => {
                format!("with a damaged tier {} broke: {text}", invariant.name())
            }
            stop => return stop,
        };
        Self::Violated(Invariant::DamageNoticed, text)
    }
}
