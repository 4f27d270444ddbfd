//! The one error type of this crate.

use std::fmt;

use mezzanine_device::DeviceError;

/// What was wrong, in terms a caller can decide by. New kinds may be added.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum CachedErrorKind {
    /// A device is not as long as the geometry says.
    Length,
    /// A device that has to be written in zones.
    Zoned,
    /// Not one place for a backing device for each volume.
    Volumes,
    /// The system has no more threads.
    Threads,
    /// The map of the cache device cannot be used.
    Map,
    /// The cache cannot have this size.
    Size,
    /// There is no estimate of other sizes for this geometry.
    Sizing,
    /// A device has failed.
    Device,
}

/// Thing, reason and next step.
#[derive(Debug)]
pub struct CachedError {
    kind: CachedErrorKind,
    thing: String,
    reason: String,
    next: &'static str,
    source: Option<Box<dyn std::error::Error + Send + Sync>>,
}

impl CachedError {
    pub(crate) fn new(kind: CachedErrorKind, thing: String, reason: String, next: &'static str) -> Self {
        Self { kind, thing, reason, next, source: None }
    }

    pub(crate) fn of_device(thing: String, error: DeviceError) -> Self {
        let (reason, source) = ("the device has failed".to_owned(), Some(error.into()));
        Self { kind: CachedErrorKind::Device, thing, reason, next: "check the device", source }
    }

    /// The stable kind.
    pub fn kind(&self) -> CachedErrorKind {
        self.kind
    }
}

impl fmt::Display for CachedError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}; {}", self.thing, self.reason, self.next)
    }
}

impl std::error::Error for CachedError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        self.source.as_deref().map(|source| source as _)
    }
}
