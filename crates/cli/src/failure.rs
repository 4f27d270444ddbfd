//! How `mezz` ends: exit codes that scripts can use, and messages of three parts.

use std::fmt;
use std::process::ExitCode;

/// Why a command did not succeed; the number is the exit code and part of the interface.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Exit {
    /// What was asked for was done, and what it checked does not hold.
    CheckFailed = 1,
    /// The command line makes no sense (clap ends with the same code by itself).
    Usage = 2,
    /// Refused before anything was changed, or an error of the system on the way.
    Refused = 3,
}

/// A failure that names the thing, the reason and the next step.
#[derive(Debug)]
pub(crate) struct Failure {
    exit: Exit,
    thing: String,
    reason: String,
    next: Option<String>,
}

impl Failure {
    /// Refused, or failed on the way (exit code 3).
    pub(crate) fn refused(thing: impl fmt::Display, reason: impl fmt::Display) -> Failure {
        Failure { exit: Exit::Refused, thing: thing.to_string(), reason: reason.to_string(), next: None }
    }

    /// A check that does not hold (exit code 1).
    pub(crate) fn check(thing: impl fmt::Display, reason: impl fmt::Display) -> Failure {
        Failure { exit: Exit::CheckFailed, ..Failure::refused(thing, reason) }
    }

    /// Options that contradict each other (exit code 2).
    pub(crate) fn usage(thing: impl fmt::Display, reason: impl fmt::Display) -> Failure {
        Failure { exit: Exit::Usage, ..Failure::refused(thing, reason) }
    }

    /// Adds what to do about it.
    pub(crate) fn next(self, step: impl fmt::Display) -> Failure {
        Failure { next: Some(step.to_string()), ..self }
    }

    /// Adds to what to do about it.
    pub(crate) fn and(self, step: impl fmt::Display) -> Failure {
        let next = self.next.iter().map(|next| format!("{next}\n  ")).collect::<String>();
        Failure { next: Some(format!("{next}{step}")), ..self }
    }

    /// Thing, reason and next step, to be told to another process.
    pub(crate) fn parts(&self) -> (String, String, Option<String>) {
        (self.thing.clone(), self.reason.clone(), self.next.clone())
    }

    /// The same once more, for whoever else is to be told.
    pub(crate) fn again(&self) -> Failure {
        let (thing, reason, next) = self.parts();
        Failure { exit: self.exit, thing, reason, next }
    }

    /// Ends the process with it, where nobody is left to return it to.
    pub(crate) fn end(self) -> ! {
        eprintln!("mezz: {self}");
        std::process::exit(self.exit as i32)
    }

    /// The code the process ends with.
    pub(crate) fn exit_code(&self) -> ExitCode {
        ExitCode::from(self.exit as u8)
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Errors from below name the thing themselves.
        if self.reason.contains(&self.thing) {
            f.write_str(&self.reason)?;
        } else {
            write!(f, "{}: {}", self.thing, self.reason)?;
        }
        if let Some(next) = &self.next {
            write!(f, "\n  {next}")?;
        }
        Ok(())
    }
}

/// An error with all its sources on one line, for reasons that come from below; a source that only repeats
/// its parent is left out.
pub(crate) fn chain(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(inner) = source {
        let inner_text = inner.to_string();
        if !text.contains(&inner_text) {
            text.push_str(": ");
            text.push_str(&inner_text);
        }
        source = inner.source();
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_names_the_thing_once_the_reason_and_the_next_step() {
        let short = Failure::refused("/flash", "it is full").next("free some space");
        assert_eq!(short.to_string(), "/flash: it is full\n  free some space");
        let named = Failure::refused("/flash", "cannot open /flash: no such file");
        assert_eq!(named.to_string(), "cannot open /flash: no such file");
    }
}
