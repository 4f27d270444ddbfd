//! The one error type of this crate: a stable kind to decide by, and the context a person needs to act.

use std::fmt;
use std::io;

/// Why a request failed, in terms a caller can decide by. New kinds may be added.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum DeviceErrorKind {
    /// The medium or the kernel reported a failure that has no kind of its own.
    Io,
    /// The file system or device is full, or a limit on the file's size was reached.
    NoSpace,
    /// The device was opened for reading, or its medium is write-protected.
    ReadOnly,
    /// A read reached past the end of the device.
    UnexpectedEnd,
    /// Offset or length is no multiple of the device's block size.
    Misaligned,
    /// The request lies outside the device's fixed length.
    OutOfRange,
    /// A zone is written front to back, up to its capacity: this write begins elsewhere, does not fit, or
    /// lies in two zones; or what was to be reset is no zone.
    ZoneOrder,
    /// The device has as many zones that are written in part, or written to at once, as it allows.
    ZoneLimit,
    /// The device cannot do this at all.
    Unsupported,
    /// The power of a simulated device is off.
    PoweredOff,
    /// Somebody else has the device open exclusively.
    Busy,
    /// There is no such file or device.
    NotFound,
    /// A file that was to be created exists already.
    AlreadyExists,
    /// The operating system denies access.
    PermissionDenied,
    /// The path is a symbolic link and the caller asked not to follow one.
    SymbolicLink,
    /// An earlier flush failed, so what is durable is unknown; the device refuses everything but reads.
    FlushFailed,
    /// A timing model is not understood: syntax, a missing or an impossible figure.
    InvalidModel,
    /// The shared state of a modelled drive belongs to another model or version, or is damaged.
    InvalidState,
}

impl DeviceErrorKind {
    /// What the kind means, as the middle of a sentence.
    fn reason(self) -> &'static str {
        match self {
            Self::Io => "the operation failed",
            Self::NoSpace => "no space is left",
            Self::ReadOnly => "it is read-only",
            Self::UnexpectedEnd => "it ends before the requested bytes",
            Self::Misaligned => "the request is not aligned to the block size",
            Self::OutOfRange => "the request lies outside the device",
            Self::ZoneOrder => "a zone is written from its write pointer on, and reset as a whole",
            Self::ZoneLimit => "as many zones are in use as it allows: finish or reset one of them first",
            Self::Unsupported => "the device does not support this",
            Self::PoweredOff => "the device has no power",
            Self::Busy => "it is already open elsewhere",
            Self::NotFound => "it does not exist",
            Self::AlreadyExists => "it exists already",
            Self::PermissionDenied => "permission was denied",
            Self::SymbolicLink => "it is a symbolic link, which is not followed here",
            Self::FlushFailed => "an earlier flush failed, so it refuses further writes",
            Self::InvalidModel => "the timing model is invalid",
            Self::InvalidState => "the shared state of the drive is invalid",
        }
    }
}

/// A failed request: kind, operation, device, position and the operating system's own error where there is
/// one.
pub struct DeviceError(Box<Inner>);

struct Inner {
    kind: DeviceErrorKind,
    operation: &'static str,
    device: String,
    offset: Option<u64>,
    len: Option<u64>,
    advice: Option<String>,
    source: Option<io::Error>,
}

impl DeviceError {
    /// An error of `operation` (one word: "read", "open") on the device described by `device`.
    pub fn new(kind: DeviceErrorKind, operation: &'static str, device: impl Into<String>) -> Self {
        let device = device.into();
        Self(Box::new(Inner { kind, operation, device, offset: None, len: None, advice: None, source: None }))
    }

    /// An error with the kind that fits what the operating system said.
    pub fn from_io(operation: &'static str, device: impl Into<String>, source: io::Error) -> Self {
        let mut error = Self::new(kind_of(&source), operation, device);
        error.0.source = Some(source);
        error
    }

    /// Adds the byte range that was asked for.
    #[must_use]
    pub fn at(mut self, offset: u64, len: u64) -> Self {
        self.0.offset = Some(offset);
        self.0.len = Some(len);
        self
    }

    /// Adds what the reader of the message should know or do next.
    #[must_use]
    pub fn advise(mut self, advice: impl Into<String>) -> Self {
        self.0.advice = Some(advice.into());
        self
    }

    /// Adds what it comes from, where that is something else than a call of the operating system.
    #[must_use]
    pub fn because(mut self, source: impl std::error::Error + Send + Sync + 'static) -> Self {
        self.0.source = Some(io::Error::other(source));
        self
    }

    /// The stable kind.
    pub fn kind(&self) -> DeviceErrorKind {
        self.0.kind
    }

    /// The operation that failed: "read", "write", "flush", "discard", "open", ...
    pub fn operation(&self) -> &'static str {
        self.0.operation
    }

    /// The device as it describes itself: its path or its model.
    pub fn device(&self) -> &str {
        &self.0.device
    }

    /// Offset and length in bytes of the failed request, where it has a position.
    pub fn range(&self) -> Option<(u64, u64)> {
        self.0.offset.zip(self.0.len)
    }

    /// The operating system's error number, where it reported one.
    pub fn raw_os_error(&self) -> Option<i32> {
        self.0.source.as_ref().and_then(io::Error::raw_os_error)
    }
}

/// The kind that fits an error of the operating system.
fn kind_of(source: &io::Error) -> DeviceErrorKind {
    match source.raw_os_error() {
        Some(libc::ENOSPC | libc::EDQUOT | libc::EFBIG) => return DeviceErrorKind::NoSpace,
        Some(libc::EROFS) => return DeviceErrorKind::ReadOnly,
        Some(libc::EOPNOTSUPP | libc::ENOTTY | libc::ENOSYS) => return DeviceErrorKind::Unsupported,
        Some(libc::EWOULDBLOCK | libc::EBUSY | libc::ETXTBSY) => return DeviceErrorKind::Busy,
        Some(libc::ELOOP) => return DeviceErrorKind::SymbolicLink,
        _ => {}
    }
    match source.kind() {
        io::ErrorKind::NotFound => DeviceErrorKind::NotFound,
        io::ErrorKind::AlreadyExists => DeviceErrorKind::AlreadyExists,
        io::ErrorKind::PermissionDenied => DeviceErrorKind::PermissionDenied,
        io::ErrorKind::UnexpectedEof => DeviceErrorKind::UnexpectedEnd,
        io::ErrorKind::Unsupported => DeviceErrorKind::Unsupported,
        _ => DeviceErrorKind::Io,
    }
}

impl fmt::Display for DeviceError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let inner = &*self.0;
        write!(f, "cannot {} {}", inner.operation, inner.device)?;
        if let (Some(offset), Some(len)) = (inner.offset, inner.len) {
            write!(f, " ({len} bytes at offset {offset})")?;
        }
        write!(f, ": {}", inner.kind.reason())?;
        if let Some(source) = &inner.source {
            write!(f, " ({source})")?;
        }
        if let Some(advice) = &inner.advice {
            write!(f, "; {advice}")?;
        }
        Ok(())
    }
}

impl fmt::Debug for DeviceError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "DeviceError({:?}: {self})", self.0.kind)
    }
}

impl std::error::Error for DeviceError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        self.0.source.as_ref().map(|source| source as _)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_names_the_thing_the_reason_and_the_next_step() {
        let source = io::Error::from_raw_os_error(libc::ENOSPC);
        let error =
            DeviceError::from_io("write", "/data/flash", source).at(8192, 4096).advise("free some space");
        assert_eq!(error.kind(), DeviceErrorKind::NoSpace);
        let text = error.to_string();
        for part in ["write", "/data/flash", "4096 bytes at offset 8192", "no space", "free some space"] {
            assert!(text.contains(part), "{part:?} is missing in {text:?}");
        }
    }
}
