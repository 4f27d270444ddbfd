//! What went wrong, in words.

use std::fmt;

/// A check that failed, or something that kept it from being made.
#[derive(Debug, Clone)]
pub(crate) struct Failure(pub(crate) String);

pub(crate) type Checked<T = ()> = Result<T, Failure>;

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl From<std::io::Error> for Failure {
    fn from(error: std::io::Error) -> Self {
        Self(error.to_string())
    }
}

impl From<postgres::Error> for Failure {
    fn from(error: postgres::Error) -> Self {
        Self(words(&error))
    }
}

/// What the server said, which the error itself leaves out.
pub(crate) fn words(error: &postgres::Error) -> String {
    let Some(said) = error.as_db_error() else { return error.to_string() };
    let more =
        |name: &str, text: Option<&str>| text.map_or(String::new(), |text| format!("; {name}: {text}"));
    format!("{} ({}){}", said.message(), said.code().code(), more("detail", said.detail()))
        + &more("context", said.where_())
}

/// Fails with `what` unless `holds`.
pub(crate) fn demand(holds: bool, what: impl FnOnce() -> String) -> Checked {
    if holds { Ok(()) } else { Err(Failure(what())) }
}

/// Puts words before a failure's own.
pub(crate) trait While<T> {
    /// Says what was being done.
    fn during(self, what: impl FnOnce() -> String) -> Checked<T>;
}

impl<T, E: Into<Failure>> While<T> for Result<T, E> {
    fn during(self, what: impl FnOnce() -> String) -> Checked<T> {
        self.map_err(|error| Failure(format!("{}: {}", what(), error.into())))
    }
}
