//! The one error type of this crate: the file, the position in it, the reason, and what to do.

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};

/// Why a trace cannot be read or written, in terms a caller can decide by. New kinds may be added.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum TraceErrorKind {
    /// The operating system reported a failure.
    Io,
    /// There is no request in the trace.
    Empty,
    /// The trace ends inside a record, or without its end.
    Truncated,
    /// Something in the trace cannot be.
    Damaged,
    /// The file is of another format than was named.
    WrongFormat,
    /// A request is earlier than the one before it.
    Unsorted,
    /// The file is of a version that this software does not know.
    UnknownVersion,
    /// What was asked for makes no sense, or the format has no place for it.
    Invalid,
}

/// Where in a trace. For a compressed file positions count what comes out of the decompression.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Position {
    /// Bytes before it, for binary formats.
    Byte(u64),
    /// Number of the line, from 1, for text.
    Line(u64),
}

impl fmt::Display for Position {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Position::Byte(byte) => write!(f, "byte {byte}"),
            Position::Line(line) => write!(f, "line {line}"),
        }
    }
}

/// A trace that cannot be read or written.
pub struct TraceError(Box<Inner>);

struct Inner {
    kind: TraceErrorKind,
    file: PathBuf,
    position: Option<Position>,
    decompressed: bool,
    reason: String,
    advice: Option<String>,
    source: Option<io::Error>,
}

impl TraceError {
    pub(crate) fn new(kind: TraceErrorKind, file: &Path, reason: impl Into<String>) -> Self {
        let (file, reason) = (file.to_owned(), reason.into());
        Self(Box::new(Inner {
            kind,
            file,
            position: None,
            decompressed: false,
            reason,
            advice: None,
            source: None,
        }))
    }

    pub(crate) fn from_io(file: &Path, reason: impl Into<String>, source: io::Error) -> Self {
        let mut error = Self::new(TraceErrorKind::Io, file, reason);
        error.0.source = Some(source);
        error
    }

    pub(crate) fn at(mut self, position: Position, decompressed: bool) -> Self {
        self.0.position = Some(position);
        self.0.decompressed = decompressed;
        self
    }

    pub(crate) fn advise(mut self, advice: impl Into<String>) -> Self {
        self.0.advice = Some(advice.into());
        self
    }

    /// The stable kind.
    pub fn kind(&self) -> TraceErrorKind {
        self.0.kind
    }

    /// The trace.
    pub fn file(&self) -> &Path {
        &self.0.file
    }

    /// Where in the trace, if the error has a place there.
    pub fn position(&self) -> Option<Position> {
        self.0.position
    }
}

impl fmt::Display for TraceError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let inner = &*self.0;
        write!(f, "{}: ", inner.file.display())?;
        if let Some(position) = inner.position {
            let after = if inner.decompressed { " of what was compressed" } else { "" };
            write!(f, "{position}{after}: ")?;
        }
        f.write_str(&inner.reason)?;
        if let Some(source) = &inner.source {
            write!(f, " ({source})")?;
        }
        if let Some(advice) = &inner.advice {
            write!(f, "; {advice}")?;
        }
        Ok(())
    }
}

impl fmt::Debug for TraceError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "TraceError({:?}: {self})", self.0.kind)
    }
}

impl std::error::Error for TraceError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        self.0.source.as_ref().map(|source| source as _)
    }
}
