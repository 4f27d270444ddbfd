//! The one error type of this crate: a stable kind to decide by, and a message that names the thing, the
//! reason and the next step.

use std::error::Error as StdError;
use std::ffi::c_int;
use std::fmt;
use std::io;

use mezzanine_device::{DeviceError, DeviceErrorKind};
use mezzanine_volume::{VolumeError, VolumeErrorKind};

use crate::abi;

/// Why an operation failed, in terms a caller can decide by. New kinds may be added.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ErrorKind {
    /// Neither the database's URI nor the VFS names a flash file.
    NoFlash,
    /// A URI parameter or a builder's argument is not understood.
    BadParameter,
    /// The database or the flash file is in use by another process, or connections are still open.
    Busy,
    /// It belongs to a process from which this one was forked.
    Forked,
    /// The logs beside the database do not fit together.
    StrayLog,
    /// The path of the open database leads to another file by now, or to none.
    Moved,
    /// SQLite refused to register the VFS, or is too old.
    Register,
    /// The operating system reported a failure.
    Io,
    /// The volume reported a failure.
    Volume(VolumeErrorKind),
}

/// A failed operation.
pub struct Error(Box<Inner>);

struct Inner {
    kind: ErrorKind,
    operation: &'static str,
    subject: String,
    reason: String,
    advice: Option<&'static str>,
    source: Option<Box<dyn StdError + Send + Sync>>,
}

impl Error {
    pub(crate) fn new(
        kind: ErrorKind,
        operation: &'static str,
        subject: impl fmt::Display,
        reason: impl fmt::Display,
    ) -> Self {
        Self(Box::new(Inner {
            kind,
            operation,
            subject: subject.to_string(),
            reason: reason.to_string(),
            advice: None,
            source: None,
        }))
    }

    pub(crate) fn io(operation: &'static str, subject: impl fmt::Display, source: io::Error) -> Self {
        let reason = source.to_string();
        let mut error = Self::new(ErrorKind::Io, operation, subject, reason);
        error.0.source = Some(Box::new(source));
        error
    }

    pub(crate) fn device(operation: &'static str, subject: impl fmt::Display, source: DeviceError) -> Self {
        let kind = if source.kind() == DeviceErrorKind::Busy { ErrorKind::Busy } else { ErrorKind::Io };
        let reason = source.to_string();
        let mut error = Self::new(kind, operation, subject, reason);
        error.0.source = Some(Box::new(source));
        error
    }

    pub(crate) fn advise(mut self, advice: &'static str) -> Self {
        self.0.advice = Some(advice);
        self
    }

    /// The stable kind.
    pub fn kind(&self) -> ErrorKind {
        self.0.kind
    }

    /// The operation that failed.
    pub fn operation(&self) -> &'static str {
        self.0.operation
    }

    /// The database, flash file or parameter concerned.
    pub fn subject(&self) -> &str {
        &self.0.subject
    }

    /// The result code that SQLite is told. Of failed writes only a full device is told apart: SQLite gives
    /// up a transaction whose write failed after FULL and the IOERR family, and might go on after any other
    /// code. A log that does not begin has none of the transaction.
    pub(crate) fn code(&self, otherwise: c_int) -> c_int {
        match self.0.kind {
            ErrorKind::Volume(VolumeErrorKind::NoSpace) => abi::FULL,
            ErrorKind::Moved => abi::READONLY_DBMOVED,
            _ => otherwise,
        }
    }

    /// The operating system's number for it, or 0.
    pub(crate) fn errno(&self) -> c_int {
        let mut cause: Option<&(dyn StdError + 'static)> = StdError::source(self);
        while let Some(error) = cause {
            if let Some(number) = error.downcast_ref::<io::Error>().and_then(io::Error::raw_os_error) {
                return number;
            }
            cause = error.source();
        }
        0
    }
}

impl From<VolumeError> for Error {
    fn from(source: VolumeError) -> Self {
        let kind = match source.kind() {
            VolumeErrorKind::Busy => ErrorKind::Busy,
            kind => ErrorKind::Volume(kind),
        };
        let mut error = Self::new(kind, source.operation(), source.subject(), &source);
        error.0.source = Some(Box::new(source));
        error
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // A volume's message says it all: operation, subject, reason and advice.
        if self.0.source.as_ref().is_some_and(|source| source.is::<VolumeError>()) {
            return f.write_str(&self.0.reason);
        }
        write!(f, "cannot {} {}: {}", self.0.operation, self.0.subject, self.0.reason)?;
        if let Some(advice) = self.0.advice {
            write!(f, "; {advice}")?;
        }
        Ok(())
    }
}

impl fmt::Debug for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}: {self}", self.0.kind)
    }
}

impl StdError for Error {
    fn source(&self) -> Option<&(dyn StdError + 'static)> {
        self.0.source.as_deref().map(|source| source as &(dyn StdError + 'static))
    }
}
