//! The crate's one public error.

use std::error::Error as StdError;
use std::fmt;

/// What went wrong, stable enough to match on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ErrorKind {
    /// Another transaction was in the way (busy, deadlock, serialisation failure). The database keeps nothing
    /// of the transaction once it is rolled back, and the same transaction may succeed when run again.
    Conflict,
    /// The database failed in a way that running the transaction again does not cure.
    Database,
    /// A row that the population guarantees is missing, or a column has another type than the schema gives
    /// it.
    Corrupt,
    /// The database holds no completed TPC-C population.
    NotLoaded,
    /// The database already holds TPC-C tables.
    AlreadyLoaded,
    /// A configuration that makes no sense; the message names the setting and its bounds.
    Configuration,
    /// The acknowledgement log cannot be written.
    Log,
    /// The acknowledgement log cannot be understood.
    LogFormat,
}

/// An error of the workload or of the database under it.
#[derive(Debug)]
pub struct Error {
    kind: ErrorKind,
    context: String,
    source: Option<Box<dyn StdError + Send + Sync>>,
}

impl Error {
    /// An error without a cause below it. `context` names the thing, the reason and what to do.
    pub fn new(kind: ErrorKind, context: impl Into<String>) -> Self {
        Self { kind, context: context.into(), source: None }
    }

    /// An error that another one caused.
    pub fn with_source(
        kind: ErrorKind,
        context: impl Into<String>,
        source: impl Into<Box<dyn StdError + Send + Sync>>,
    ) -> Self {
        Self { kind, context: context.into(), source: Some(source.into()) }
    }

    /// What went wrong.
    pub fn kind(&self) -> ErrorKind {
        self.kind
    }

    /// Whether rolling back and running the same transaction again may succeed.
    pub fn is_retryable(&self) -> bool {
        self.kind == ErrorKind::Conflict
    }

    /// The same error with what was being done put in front of its message.
    #[must_use]
    pub fn during(mut self, operation: &str) -> Self {
        self.context = format!("{operation}: {}", self.context);
        self
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.context)?;
        if let Some(source) = &self.source {
            write!(f, ": {source}")?;
        }
        Ok(())
    }
}

impl StdError for Error {
    fn source(&self) -> Option<&(dyn StdError + 'static)> {
        self.source.as_deref().map(|source| source as &(dyn StdError + 'static))
    }
}

/// A result of this crate.
pub type Result<T> = std::result::Result<T, Error>;
