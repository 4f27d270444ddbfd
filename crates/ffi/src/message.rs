//! What a person is told when something cannot be done: the thing and the reason, more about it, and what to
//! do next.

use std::fmt;

/// Why something could not be done.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Refusal {
    /// The thing and the reason.
    pub message: String,
    /// More about it; may be empty.
    pub detail: String,
    /// What to do next; may be empty.
    pub hint: String,
    /// The flash device did not do what it was asked for: a server that does not need it may go on without.
    pub(crate) device_failed: bool,
    /// The flash device is not where it is to be.
    pub(crate) device_absent: bool,
    /// What was asked for cannot be done because pages are lost that it needs. Nothing has failed, and the
    /// tier is in use as before.
    pub(crate) lost_pages: bool,
    /// The same because disk does not take pages: they stay in the tier.
    pub(crate) disk_refuses: bool,
}

impl Refusal {
    /// A refusal without a detail and a hint.
    pub fn new(message: impl Into<String>) -> Self {
        Self {
            message: message.into(),
            detail: String::new(),
            hint: String::new(),
            device_failed: false,
            device_absent: false,
            lost_pages: false,
            disk_refuses: false,
        }
    }

    /// Of a flash device that has failed.
    #[must_use]
    pub(crate) fn of_failed_device(mut self) -> Self {
        self.device_failed = true;
        self
    }

    /// Of a flash device that is not there, if that is so.
    #[must_use]
    pub(crate) fn of_absent_device(mut self, absent: bool) -> Self {
        self.device_absent = absent;
        self
    }

    /// Of pages that are lost.
    #[must_use]
    pub(crate) fn of_lost_pages(mut self) -> Self {
        self.lost_pages = true;
        self
    }

    /// Of pages that disk does not take.
    #[must_use]
    pub(crate) fn of_refused_pages(mut self) -> Self {
        self.disk_refuses = true;
        self
    }

    /// Whether it was refused because of lost pages alone: whoever has asked is told, and everything else
    /// goes on.
    pub fn is_of_lost_pages(&self) -> bool {
        self.lost_pages
    }

    /// Whether it was refused because disk does not take pages, which stay in the tier.
    pub fn is_of_refused_pages(&self) -> bool {
        self.disk_refuses
    }

    /// With more about it.
    #[must_use]
    pub fn detail(mut self, detail: impl fmt::Display) -> Self {
        self.detail = detail.to_string();
        self
    }

    /// With what to do next.
    #[must_use]
    pub fn hint(mut self, hint: impl fmt::Display) -> Self {
        self.hint = hint.to_string();
        self
    }
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.message)?;
        for more in [&self.detail, &self.hint] {
            if !more.is_empty() {
                write!(f, "; {more}")?;
            }
        }
        Ok(())
    }
}

impl std::error::Error for Refusal {}
