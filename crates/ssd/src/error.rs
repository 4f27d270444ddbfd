//! What is wrong with a drive that somebody describes.

use std::fmt;

/// A parameter that cannot be: which, and why.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ConfigError {
    key: &'static str,
    reason: String,
}

impl ConfigError {
    pub(crate) fn new(key: &'static str, reason: String) -> Self {
        Self { key, reason }
    }

    /// The parameter.
    pub fn key(&self) -> &'static str {
        self.key
    }
}

impl fmt::Display for ConfigError {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{} {}", self.key, self.reason)
    }
}

impl std::error::Error for ConfigError {}
