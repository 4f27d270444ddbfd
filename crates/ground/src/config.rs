//! What is said of a parameter that cannot be used.

use std::fmt;

/// Most frames of one cache: a frame is named by 32 bits, and one number says that there is none.
pub const FRAMES_MAX: u64 = u32::MAX as u64 - 1;

/// A parameter that cannot be used.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConfigError {
    /// The parameter.
    pub parameter: &'static str,
    /// Why its value cannot be used.
    pub reason: String,
    /// What to do.
    pub advice: String,
}

impl ConfigError {
    /// Says why a parameter cannot be used, and what to do.
    pub fn new(parameter: &'static str, reason: String, advice: String) -> Self {
        Self { parameter, reason, advice }
    }

    /// Adds to the reason.
    #[must_use]
    pub fn explained(mut self, why: &str) -> Self {
        self.reason = format!("{}: {why}", self.reason);
        self
    }
}

impl fmt::Display for ConfigError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}; {}", self.parameter, self.reason, self.advice)
    }
}

impl std::error::Error for ConfigError {}
