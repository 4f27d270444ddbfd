//! The interface of every device.
//!
//! What a device promises, and what it does not:
//! 1. A completed write is visible to every later read of this device, from any thread.
//! 2. A completed write is durable only after a later [`Request::Flush`] has completed without error. Until
//!    then a power cut may lose it, keep it, keep part of it, or keep it and lose an older one.
//! 3. The requests of one batch are not ordered among themselves. A flush covers what had completed before
//!    the call, and nothing of its own batch.
//! 4. After a failed flush nothing is known about what is durable. The device refuses writes and flushes from
//!    then on (kind `FlushFailed`) and keeps serving reads; nothing is retried, because the kernel reports a
//!    lost write once.
//! 5. A failed flush is seen by everyone who waited for it: every call that asked for a flush before it
//!    failed, and was not answered by one that had succeeded, returns an error, whichever of them carried it
//!    out. So nobody takes a success that another's error belongs to. Among processes each answers for its
//!    own calls: those that share a descriptor ask for one of their own ([`Device::flush_apart`]).
//! 6. Overlapping writes in flight at the same time leave any mixture of the two.
//! 7. A zone that is no conventional one is written front to back and reset as a whole (see `zones`). A power
//!    cut leaves of what happened to a zone since the flush a part from its beginning: some of its resets,
//!    writes and finishes, the last of them perhaps in part, and none after one that is lost. Where that
//!    leaves more zones written in part than the device allows, it has finished some of them itself.

use std::ops::Range;
use std::sync::Arc;

use crate::zones::{Zone, Zones};
use crate::{DeviceError, DeviceErrorKind, ReadsAhead};

/// What a device is and can do. Asked, never assumed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Capabilities {
    /// Length in bytes at the moment of the call.
    pub len: u64,
    /// The alignment in bytes of offset, length and memory that goes without a copy; 1 if any does. A power
    /// of two.
    pub block_size: u32,
    /// The largest aligned write in bytes that a power cut leaves whole or absent; 0 when nothing is
    /// promised.
    pub atomic_write: u32,
    /// Whether a completed write can be lost by a power cut before a flush.
    pub volatile_cache: bool,
    /// Whether [`Device::set_len`] works.
    pub can_resize: bool,
    /// Whether [`Request::WriteThrough`] works. [`Device::write_through`] does without as well.
    pub write_through: bool,
    /// Geometry of a zoned device.
    pub zones: Option<Zones>,
}

/// One operation of a batch. Offsets and lengths are in bytes.
#[derive(Debug)]
pub enum Request<'a> {
    /// Fills `buf` from `offset`. Past the end of the device: `UnexpectedEnd`.
    Read {
        /// First byte to read.
        offset: u64,
        /// Where the bytes go; its length is how many.
        buf: &'a mut [u8],
    },
    /// Writes `buf` at `offset`. A file grows; anything else answers `OutOfRange` past its end.
    Write {
        /// First byte to write.
        offset: u64,
        /// The bytes.
        buf: &'a [u8],
        /// With what the drive keeps them together: a drive with write streams has erase blocks of its own
        /// for each. What it holds is the same whatever this says, so all others take no notice. 0 of whoever
        /// tells nothing apart.
        stream: u8,
    },
    /// Writes `buf` at `offset` and is complete when that is durable, whatever else is (FUA).
    /// `Unsupported` unless the capabilities say `write_through`.
    WriteThrough {
        /// First byte to write.
        offset: u64,
        /// The bytes.
        buf: &'a [u8],
    },
    /// Writes `buf` where a zone goes on, and says where that was. For zoned devices.
    Append {
        /// First byte of the zone.
        zone: u64,
        /// The bytes.
        buf: &'a [u8],
        /// First byte that was written, if the request succeeds.
        at: &'a mut u64,
    },
    /// Empties a zone, which is written from its beginning again. For zoned devices.
    Reset {
        /// First byte of the zone.
        zone: u64,
    },
    /// Ends a zone that is written in part: it is full from then on, until it is reset, and none of those
    /// that the device counts (see [`Zones`]). For zoned devices.
    Finish {
        /// First byte of the zone.
        zone: u64,
    },
    /// Makes durable whatever had completed before the batch was submitted.
    Flush,
    /// Gives up the contents of a range: it reads as anything (files: zeros) until written again.
    Discard {
        /// First byte to give up.
        offset: u64,
        /// How many bytes.
        len: u64,
    },
}

impl<'a> Request<'a> {
    /// Writes `buf` at `offset`, told apart from nothing else.
    pub fn write(buf: &'a [u8], offset: u64) -> Self {
        Self::Write { offset, buf, stream: 0 }
    }

    /// Writes `buf` at `offset`, in this stream.
    pub fn write_in(stream: u8, buf: &'a [u8], offset: u64) -> Self {
        Self::Write { offset, buf, stream }
    }
}

impl Request<'_> {
    /// The word for this operation in messages.
    pub fn operation(&self) -> &'static str {
        match self {
            Self::Read { .. } => "read",
            Self::Write { .. } | Self::WriteThrough { .. } => "write",
            Self::Append { .. } => "append to",
            Self::Reset { .. } => "reset a zone of",
            Self::Finish { .. } => "finish a zone of",
            Self::Flush => "flush",
            Self::Discard { .. } => "discard from",
        }
    }

    /// Offset and length in bytes; a flush has none. Of a zone its beginning, and as much as is written to
    /// it.
    pub fn range(&self) -> Option<(u64, u64)> {
        match self {
            Self::Read { offset, buf } => Some((*offset, buf.len() as u64)),
            Self::Write { offset, buf, .. } | Self::WriteThrough { offset, buf } => {
                Some((*offset, buf.len() as u64))
            }
            Self::Append { zone, buf, .. } => Some((*zone, buf.len() as u64)),
            Self::Reset { zone } | Self::Finish { zone } => Some((*zone, 0)),
            Self::Discard { offset, len } => Some((*offset, *len)),
            Self::Flush => None,
        }
    }

    /// Whether it changes what the device holds.
    pub fn is_change(&self) -> bool {
        !matches!(self, Self::Read { .. } | Self::Flush)
    }

    /// The answer of a device that cannot do this: `Unsupported`, with what to do instead.
    pub fn unsupported(&self, device: impl Into<String>) -> DeviceError {
        let error = DeviceError::new(DeviceErrorKind::Unsupported, self.operation(), device);
        let error = match self.range() {
            Some((offset, len)) => error.at(offset, len),
            None => error,
        };
        match self {
            Self::WriteThrough { .. } => error.advise("write and flush"),
            Self::Append { .. } => error.advise("write at an offset"),
            Self::Reset { .. } => error.advise("it has no zones: write over what is there"),
            Self::Finish { .. } => error.advise("it has no zones: leave the rest as it is"),
            Self::Discard { .. } => error.advise("leave the range as it is, or write zeros"),
            Self::Read { .. } | Self::Write { .. } | Self::Flush => error,
        }
    }
}

/// A place for bytes. See the module's numbered promises.
pub trait Device: Send + Sync {
    /// What the device is and can do now.
    fn capabilities(&self) -> Capabilities;

    /// Carries out all requests as one queue submission and returns when all have completed: one result per
    /// request, in the order of the batch.
    fn run(&self, batch: &mut [Request<'_>]) -> Vec<Result<(), DeviceError>>;

    /// Sets the length in bytes; a longer file reads zeros at its new end.
    ///
    /// # Errors
    /// `Unsupported` unless the capabilities say `can_resize`.
    fn set_len(&self, len: u64) -> Result<(), DeviceError>;

    /// Makes the device at least `len` bytes long and takes the space for all of them now, where the file
    /// system can, so that no later write finds it full. What is there stays.
    ///
    /// # Errors
    /// `NoSpace`; `Unsupported` if the device is shorter and cannot be resized. The length is then as before.
    fn reserve(&self, len: u64) -> Result<(), DeviceError> {
        if self.len() < len { self.set_len(len) } else { Ok(()) }
    }

    /// What to call this device in a message: its path, or its model.
    fn describe(&self) -> String;

    /// Length in bytes.
    fn len(&self) -> u64 {
        self.capabilities().len
    }

    /// Whether the device has no bytes at all.
    fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Carries out one request. Implementors override this where a single request has a cheaper path than a
    /// batch.
    ///
    /// # Errors
    /// That of the request.
    fn run_one(&self, request: Request<'_>) -> Result<(), DeviceError> {
        let mut results = self.run(&mut [request]);
        debug_assert_eq!(results.len(), 1, "one result per request");
        results.pop().unwrap_or_else(|| Err(DeviceError::new(DeviceErrorKind::Io, "run", self.describe())))
    }

    /// Fills `buf` from `offset`.
    ///
    /// # Errors
    /// `UnexpectedEnd` if the device ends before `buf` is full (its contents are then unspecified), or the
    /// failure.
    fn read_at(&self, buf: &mut [u8], offset: u64) -> Result<(), DeviceError> {
        self.run_one(Request::Read { offset, buf })
    }

    /// Writes all of `buf` at `offset`.
    ///
    /// # Errors
    /// `NoSpace`, `ReadOnly`, `OutOfRange`, `FlushFailed`, or the failure.
    fn write_at(&self, buf: &[u8], offset: u64) -> Result<(), DeviceError> {
        self.run_one(Request::write(buf, offset))
    }

    /// Makes every completed write durable.
    ///
    /// # Errors
    /// The failure; from then on the device refuses writes and flushes.
    fn flush(&self) -> Result<(), DeviceError> {
        self.run_one(Request::Flush)
    }

    /// Writes all of `buf` at `offset`, durably: as one operation where the device can, else with a flush.
    ///
    /// # Errors
    /// As of [`Self::write_at`] and [`Self::flush`].
    fn write_through(&self, buf: &[u8], offset: u64) -> Result<(), DeviceError> {
        if self.capabilities().write_through {
            return self.run_one(Request::WriteThrough { offset, buf });
        }
        self.write_at(buf, offset)?;
        self.flush()
    }

    /// Writes `buf` where the zone goes on that begins at byte `zone`; returns the offset.
    ///
    /// # Errors
    /// As of [`Self::write_at`]; `ZoneOrder` if the zone has no room for it; `Unsupported` without zones.
    fn append(&self, buf: &[u8], zone: u64) -> Result<u64, DeviceError> {
        let mut at = zone;
        self.run_one(Request::Append { zone, buf, at: &mut at })?;
        Ok(at)
    }

    /// Empties the zone that begins at byte `zone`.
    ///
    /// # Errors
    /// As of [`Self::write_at`]; `Unsupported` without zones.
    fn reset_zone(&self, zone: u64) -> Result<(), DeviceError> {
        self.run_one(Request::Reset { zone })
    }

    /// Ends the zone that begins at byte `zone`: it is full, whatever was written to it.
    ///
    /// # Errors
    /// As of [`Self::write_at`]; `Unsupported` without zones.
    fn finish_zone(&self, zone: u64) -> Result<(), DeviceError> {
        self.run_one(Request::Finish { zone })
    }

    /// What the device says of the zone that `offset` lies in.
    ///
    /// # Errors
    /// `Unsupported` without zones; `OutOfRange`; that of asking.
    fn zone_at(&self, offset: u64) -> Result<Zone, DeviceError> {
        let error = DeviceError::new(DeviceErrorKind::Unsupported, "report a zone of", self.describe());
        Err(error.at(offset, 0).advise("it has no zones"))
    }

    /// From now on this process's flushes are reported to it and to nobody else. For processes that have this
    /// device from the one that forked them, before they first flush it: the kernel reports a lost write
    /// once for each time that a file was opened, so of two that share that one could be told of a
    /// success that is none. Devices that are no file of the system's have nothing to do.
    ///
    /// # Errors
    /// If the file cannot be opened once more. Then the next flush tries that again, and fails if it cannot:
    /// whoever never flushes may go on without.
    fn flush_apart(&self) -> Result<(), DeviceError> {
        Ok(())
    }

    /// The first range at or after `offset` that may hold something other than zeros; `None` if there is
    /// none. A sparse file says which of its ranges are holes; whoever cannot tell has one range up to the
    /// end.
    ///
    /// # Errors
    /// That of asking.
    fn data_from(&self, offset: u64) -> Result<Option<Range<u64>>, DeviceError> {
        let len = self.len();
        Ok((offset < len).then_some(offset..len))
    }

    /// Places for `places` reads of `bytes` bytes each that go on while their caller does other things, on
    /// memory of their own. They start no threads. For the calling process alone.
    ///
    /// # Errors
    /// `Unsupported` where the device, or the system, does one thing after the other, with the reason.
    fn reads_ahead(
        self: Arc<Self>,
        _places: usize,
        _bytes: usize,
    ) -> Result<Box<dyn ReadsAhead>, DeviceError> {
        Err(DeviceError::new(DeviceErrorKind::Unsupported, "read ahead from", self.describe()))
    }

    /// Gives up the contents of a range.
    ///
    /// # Errors
    /// `Unsupported` where the device cannot; the contents are then unchanged.
    fn discard(&self, offset: u64, len: u64) -> Result<(), DeviceError> {
        self.run_one(Request::Discard { offset, len })
    }
    /// Fills `buf` from `offset`, with zeros past the end, as if the device were a sparse file without end.
    /// Returns how many bytes came from the device.
    ///
    /// # Errors
    /// That of the read. A device that shrinks meanwhile gives `UnexpectedEnd`.
    fn read_at_or_zero(&self, buf: &mut [u8], offset: u64) -> Result<usize, DeviceError> {
        let available = self.len().saturating_sub(offset).min(buf.len() as u64) as usize;
        let (head, tail) = buf.split_at_mut(available);
        tail.fill(0);
        if !head.is_empty() {
            self.read_at(head, offset)?;
        }
        Ok(available)
    }
}
