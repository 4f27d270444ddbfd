//! The one error type of this crate: a stable kind to decide by, and a message that names the thing, the
//! reason and the next step.

use std::error::Error;
use std::fmt;

use mezzanine_device::{DeviceError, DeviceErrorKind};

/// Why an operation failed, in terms a caller can decide by. New kinds may be added.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum VolumeErrorKind {
    /// A device or the kernel reported a failure that has no kind of its own.
    Io,
    /// A file system or device is full.
    NoSpace,
    /// The read reaches past the end of the file; what lies before it was read, the rest of the buffer is
    /// zero.
    ShortRead {
        /// Bytes that the file had.
        available: usize,
    },
    /// The volume refuses changes since an earlier failure, or a device cannot be written.
    ReadOnly,
    /// Somebody else has the flash device, the file or the volume open.
    Busy,
    /// The flash file or the backing file does not exist.
    Missing,
    /// The flash device holds something that is not a tier.
    Unrecognised,
    /// The tier or the sidecar was written by a newer version of the software.
    NewerFormat {
        /// The format's number.
        version: u32,
    },
    /// The tier was written by an older version of the software, in a format that this one reads at most to
    /// drain the tier.
    OlderFormat {
        /// The format's number.
        version: u32,
    },
    /// Bytes on the flash device or in the sidecar are damaged.
    Damaged,
    /// The flash device is shorter than the tier on it.
    Truncated,
    /// The tier belongs to another database.
    ForeignTier,
    /// The tier is an older snapshot than the database last used, or lacks its newest groups.
    OlderTier,
    /// The database is older than the tier: it was restored from a backup, or its sidecar was.
    NewerTier,
    /// The tier and the file were used apart since they were copied: each belongs to another copy of one
    /// pair.
    OtherCopy,
    /// The tier may hold the only copy of pages, which the requested operation would lose.
    OnlyCopy,
    /// A file that the tier knows was not attached.
    FileNotAttached,
    /// The sidecar of a file that is not current on disk is missing.
    SidecarMissing,
    /// The file on disk was changed behind the tier.
    ChangedFile,
    /// The newest version of a page cannot be read.
    LostPage,
    /// The page that is to be given up is not lost.
    NotLost,
    /// The volume has no tier, or gave it up.
    NoTier,
    /// The configuration is impossible.
    InvalidConfig,
    /// The file is attached already.
    AlreadyAttached,
    /// More files than one volume can have.
    TooManyFiles,
    /// A recording ended in which nothing had happened, so that there is no trace.
    NothingRecorded,
    /// The volume was closed.
    Closed,
}

/// A failed operation.
pub struct VolumeError(Box<Inner>);

struct Inner {
    kind: VolumeErrorKind,
    operation: &'static str,
    subject: String,
    reason: String,
    advice: Option<String>,
    offset: Option<u64>,
    /// See [`VolumeError::silence`].
    silent: bool,
    /// See [`VolumeError::unknown_on_disk`].
    unknown: bool,
    source: Option<Box<dyn Error + Send + Sync>>,
}

impl VolumeError {
    /// An error of `operation` (a verb: "attach", "read") on `subject` (a path or a device).
    pub fn new(
        kind: VolumeErrorKind,
        operation: &'static str,
        subject: impl Into<String>,
        reason: impl Into<String>,
    ) -> Self {
        Self(Box::new(Inner {
            kind,
            operation,
            subject: subject.into(),
            reason: reason.into(),
            advice: None,
            offset: None,
            silent: false,
            unknown: false,
            source: None,
        }))
    }

    /// The volume's view of a failed device request.
    pub fn from_device(operation: &'static str, subject: impl Into<String>, source: DeviceError) -> Self {
        let kind = match source.kind() {
            DeviceErrorKind::NoSpace => VolumeErrorKind::NoSpace,
            DeviceErrorKind::ReadOnly | DeviceErrorKind::FlushFailed => VolumeErrorKind::ReadOnly,
            DeviceErrorKind::Busy => VolumeErrorKind::Busy,
            DeviceErrorKind::NotFound => VolumeErrorKind::Missing,
            _ => VolumeErrorKind::Io,
        };
        Self::new(kind, operation, subject, source.to_string()).because(source)
    }

    /// The volume's view of an error of the operating system.
    pub fn from_io(operation: &'static str, subject: impl Into<String>, source: std::io::Error) -> Self {
        let kind = match source.kind() {
            std::io::ErrorKind::StorageFull | std::io::ErrorKind::QuotaExceeded => VolumeErrorKind::NoSpace,
            std::io::ErrorKind::ReadOnlyFilesystem | std::io::ErrorKind::PermissionDenied => {
                VolumeErrorKind::ReadOnly
            }
            std::io::ErrorKind::NotFound => VolumeErrorKind::Missing,
            _ => VolumeErrorKind::Io,
        };
        Self::new(kind, operation, subject, source.to_string()).because(source)
    }

    /// Of a page that flash does not give back, and of which a read of the disk does not say whether that has
    /// it: it may be lost or not.
    pub(crate) fn unknown_on_disk(file: &str, source: DeviceError) -> Self {
        let reason = format!(
            "flash does not give back the newest version of this page, and the disk does not say whether it has that: \
             {source}"
        );
        let mut error = Self::new(VolumeErrorKind::Io, "read", file, reason)
            .advise(
                "see to the disk and try again, nothing is known to be lost; or write this page anew if its contents \
                 are known",
            )
            .because(source);
        error.0.unknown = true;
        error
    }

    /// Adds what the reader of the message should do next.
    #[must_use]
    pub fn advise(mut self, advice: impl Into<String>) -> Self {
        self.0.advice = Some(advice.into());
        self
    }

    /// Adds the byte offset in the file or device.
    #[must_use]
    pub fn at(mut self, offset: u64) -> Self {
        self.0.offset = Some(offset);
        self
    }

    /// Adds the error that caused this one.
    #[must_use]
    pub fn because(mut self, source: impl Error + Send + Sync + 'static) -> Self {
        self.0.source = Some(Box::new(source));
        self
    }

    /// It is about a flash device that answers nothing just now.
    pub(crate) fn silence(mut self) -> Self {
        self.0.silent = true;
        self
    }

    /// Whether all that failed is the reading of pages from flash, which are lost or cannot be had just now:
    /// nothing was changed, and everything else goes on.
    pub(crate) fn is_of_unread_pages(&self) -> bool {
        self.0.kind == VolumeErrorKind::LostPage || self.0.silent || self.0.unknown
    }

    /// Whether flash answered nothing.
    pub(crate) fn is_silence(&self) -> bool {
        self.0.silent
    }

    /// The stable kind.
    pub fn kind(&self) -> VolumeErrorKind {
        self.0.kind
    }

    /// The operation that failed.
    pub fn operation(&self) -> &'static str {
        self.0.operation
    }

    /// The path or device concerned.
    pub fn subject(&self) -> &str {
        &self.0.subject
    }

    /// Byte offset of the failure, where it has one.
    pub fn offset(&self) -> Option<u64> {
        self.0.offset
    }
}

impl fmt::Display for VolumeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "cannot {} {}", self.0.operation, self.0.subject)?;
        if let Some(offset) = self.0.offset {
            write!(f, " at offset {offset}")?;
        }
        write!(f, ": {}", self.0.reason)?;
        if let Some(advice) = &self.0.advice {
            write!(f, "; {advice}")?;
        }
        Ok(())
    }
}

impl fmt::Debug for VolumeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}: {self}", self.0.kind)
    }
}

impl Error for VolumeError {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        self.0.source.as_deref().map(|source| source as &(dyn Error + 'static))
    }
}

/// The error of a file whose first bytes are others at each read.
pub(crate) fn unsteady(operation: &'static str, name: &str) -> VolumeError {
    let reason = "its first bytes are others each time that they are read; nothing was changed";
    VolumeError::new(VolumeErrorKind::Io, operation, name, reason).advise("see to the disk and try again")
}
