//! Files with a hole: what lies behind it has offsets beyond 4 GiB, and block numbers to match, while the
//! disk keeps as few bytes as that of any other file. The world counts without the hole; the volume counts
//! with it.
//!
//! 1. Nobody asks for what lies in the hole. Whoever reads or writes the disk there has lost his way, and
//!    gets an error.

use std::sync::Arc;

use mezzanine_device::{Capabilities, Device, DeviceError, DeviceErrorKind, Request};
use mezzanine_volume::{VolumeError, VolumeErrorKind, VolumeFile};

/// Where the hole of a file is, in bytes: it begins and ends with a page.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Hole {
    /// Bytes before it.
    pub at: u64,
    /// Its length; 0 if there is none.
    pub bytes: u64,
}

impl Hole {
    /// Where the volume has the byte that the world counts so.
    pub(super) fn place(self, offset: u64) -> u64 {
        if offset >= self.at { offset + self.bytes } else { offset }
    }

    /// The length that a file has for the volume.
    fn outer(self, len: u64) -> u64 {
        if len > self.at { len + self.bytes } else { len }
    }

    /// The length that a file has for the world; `None` if it would end in the hole.
    fn inner(self, len: u64) -> Option<u64> {
        match len {
            len if len <= self.at => Some(len),
            len => len.checked_sub(self.bytes).filter(|len| *len > self.at),
        }
    }

    /// Bytes of a range that lie before the hole.
    fn before(self, offset: u64, len: u64) -> u64 {
        self.at.saturating_sub(offset).min(len)
    }
}

/// A file of a volume, as the world counts.
#[derive(Clone)]
pub(super) struct File {
    pub(super) file: VolumeFile,
    pub(super) hole: Hole,
}

impl File {
    pub(super) fn len(&self) -> u64 {
        let len = self.file.len();
        self.hole.inner(len).unwrap_or(len)
    }

    pub(super) fn read_at(&self, buf: &mut [u8], offset: u64) -> Result<(), VolumeError> {
        let (before, behind) = buf.split_at_mut(self.hole.before(offset, buf.len() as u64) as usize);
        let next = offset + before.len() as u64;
        if !before.is_empty() || behind.is_empty() {
            self.file.read_at(before, offset)?;
        }
        if behind.is_empty() { Ok(()) } else { self.file.read_at(behind, self.hole.place(next)) }
    }

    /// The same; how many bytes the file had, the others being zeros then.
    pub(super) fn read_up_to(&self, buf: &mut [u8], offset: u64) -> Result<usize, VolumeError> {
        let (before, behind) = buf.split_at_mut(self.hole.before(offset, buf.len() as u64) as usize);
        let next = offset + before.len() as u64;
        let mut found = 0;
        for (part, offset) in [(before, offset), (behind, self.hole.place(next))] {
            match self.file.read_at(part, offset).map_err(|error| (error.kind(), error)) {
                Ok(()) => found += part.len(),
                Err((VolumeErrorKind::ShortRead { available }, _)) => found += available,
                Err((_, error)) => return Err(error),
            }
        }
        Ok(found)
    }

    pub(super) fn write_at(&self, buf: &[u8], offset: u64) -> Result<(), VolumeError> {
        let (before, behind) = buf.split_at(self.hole.before(offset, buf.len() as u64) as usize);
        if !before.is_empty() {
            self.file.write_at(before, offset)?;
        }
        if behind.is_empty() {
            return Ok(());
        }
        self.file.write_at(behind, self.hole.place(offset + before.len() as u64))
    }

    /// How the world counts the byte that the volume counts so.
    pub(super) fn counted(&self, offset: u64) -> u64 {
        if offset >= self.hole.at { offset.saturating_sub(self.hole.bytes) } else { offset }
    }

    pub(super) fn sync(&self) -> Result<(), VolumeError> {
        self.file.sync()
    }

    pub(super) fn discard(&self, offset: u64, len: u64) -> Result<(), VolumeError> {
        let before = self.hole.before(offset, len);
        if before > 0 {
            self.file.discard(offset, before)?;
        }
        if before == len {
            return Ok(());
        }
        self.file.discard(self.hole.place(offset + before), len - before)
    }

    pub(super) fn set_len(&self, len: u64) -> Result<(), VolumeError> {
        self.file.set_len(self.hole.outer(len))
    }
}

/// A disk that keeps no hole, as the volume counts.
pub(super) struct HoledDevice {
    pub(super) inner: Arc<dyn Device>,
    pub(super) hole: Hole,
}

impl HoledDevice {
    fn lost(&self, request: &Request<'_>) -> DeviceError {
        let error = DeviceError::new(DeviceErrorKind::OutOfRange, request.operation(), self.describe());
        match request.range() {
            Some((offset, len)) => error.at(offset, len),
            None => error,
        }
    }

    /// Where a range lies on the disk, if it lies on one side of the hole.
    fn on_disk(&self, offset: u64, len: u64) -> Option<u64> {
        match offset {
            offset if offset + len <= self.hole.at => Some(offset),
            offset if offset >= self.hole.at + self.hole.bytes => Some(offset - self.hole.bytes),
            _ => None,
        }
    }
}

impl Device for HoledDevice {
    fn capabilities(&self) -> Capabilities {
        let capabilities = self.inner.capabilities();
        Capabilities { len: self.hole.outer(capabilities.len), ..capabilities }
    }

    fn run(&self, batch: &mut [Request<'_>]) -> Vec<Result<(), DeviceError>> {
        let mut lost: Vec<Option<DeviceError>> = batch.iter().map(|_| None).collect();
        let mut moved = Vec::with_capacity(batch.len());
        for (request, lost) in batch.iter_mut().zip(&mut lost) {
            let place = request.range().map(|(offset, len)| self.on_disk(offset, len));
            if place == Some(None) {
                *lost = Some(self.lost(request));
                continue;
            }
            let offset = place.flatten().unwrap_or(0);
            moved.push(match request {
                Request::Read { buf, .. } => Request::Read { offset, buf },
                Request::Write { buf, stream, .. } => Request::write_in(*stream, buf, offset),
                Request::Flush => Request::Flush,
                Request::Discard { len, .. } => Request::Discard { offset, len: *len },
                Request::WriteThrough { buf, .. } => Request::WriteThrough { offset, buf },
                // Files have no zones.
                Request::Append { .. } | Request::Reset { .. } | Request::Finish { .. } => {
                    Request::Reset { zone: offset }
                }
            });
        }
        let mut done = if moved.is_empty() { Vec::new() } else { self.inner.run(&mut moved) }.into_iter();
        lost.into_iter().map(|lost| lost.map_or_else(|| done.next().unwrap_or(Ok(())), Err)).collect()
    }

    fn run_one(&self, request: Request<'_>) -> Result<(), DeviceError> {
        let Some((offset, len)) = request.range() else { return self.inner.run_one(request) };
        let Some(place) = self.on_disk(offset, len) else { return Err(self.lost(&request)) };
        self.inner.run_one(match request {
            Request::Read { buf, .. } => Request::Read { offset: place, buf },
            Request::Write { buf, stream, .. } => Request::write_in(stream, buf, place),
            Request::Discard { len, .. } => Request::Discard { offset: place, len },
            Request::WriteThrough { buf, .. } => Request::WriteThrough { offset: place, buf },
            Request::Append { .. } | Request::Reset { .. } | Request::Finish { .. } => {
                Request::Reset { zone: place }
            }
            Request::Flush => Request::Flush,
        })
    }

    fn set_len(&self, len: u64) -> Result<(), DeviceError> {
        match self.hole.inner(len) {
            Some(len) => self.inner.set_len(len),
            None => Err(DeviceError::new(DeviceErrorKind::OutOfRange, "resize", self.describe())),
        }
    }

    fn describe(&self) -> String {
        self.inner.describe()
    }
}
