//! A device before which somebody writes down what is asked of it.

use std::fs::File;
use std::io::{self, BufWriter, Write as _};
use std::ops::Range;
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use mezzanine_device::{Capabilities, Device, DeviceError, DeviceErrorKind, Request};

use crate::history::Kind;
use crate::log::{FOLLOW_BYTES_MAX, Fields, Head};

/// What is looked at and recorded at once of the contents before, in bytes.
const PIECE_BYTES: u64 = 256 << 10;

/// A device that records what is asked of it. What cannot be recorded fails, so that a recording is whole.
pub struct Recorder {
    device: Arc<dyn Device>,
    recording: Mutex<Recording>,
}

struct Recording {
    file: BufWriter<File>,
    events: u64,
    /// Something is missing: nothing behind it can be read.
    is_broken: bool,
}

impl Recording {
    fn put(&mut self, kind: Kind, begun: u64, range: (u64, u64), bytes: &[u8]) -> io::Result<()> {
        self.check()?;
        if bytes.len() as u64 > FOLLOW_BYTES_MAX {
            return Err(io::Error::other(format!("{} bytes at once are too many", bytes.len())));
        }
        // Until all of it is written.
        self.is_broken = true;
        self.write(kind, begun, range, bytes)?;
        self.is_broken = false;
        Ok(())
    }

    fn check(&self) -> io::Result<()> {
        let broken = || io::Error::other("an earlier event could not be written: begin a new recording");
        if self.is_broken { Err(broken()) } else { Ok(()) }
    }

    fn write(&mut self, kind: Kind, begun: u64, range: (u64, u64), bytes: &[u8]) -> io::Result<()> {
        let (offset, len) = range;
        let fields = Fields { kind: kind.code(), begun, offset, len, follow: bytes.len() as u64 };
        self.file.write_all(&fields.encode(bytes))?;
        self.file.write_all(bytes)?;
        self.events += 1;
        Ok(())
    }
}

impl Recorder {
    /// Begins a recording in a new file, with what the device has now. Nobody else may use the device.
    ///
    /// # Errors
    /// A file that exists or cannot be written to, and errors of the device.
    pub fn begin(device: Arc<dyn Device>, path: &Path) -> io::Result<Self> {
        let file = File::options().write(true).create_new(true).open(path)?;
        let mut recording =
            Recording { file: BufWriter::with_capacity(1 << 20, file), events: 0, is_broken: false };
        recording.file.write_all(&Head::encode(device.len()))?;
        let end = device.len();
        let mut at = 0;
        while let Some(data) = device.data_from(at).map_err(io::Error::other)?.filter(|data| data.start < end)
        {
            at = data.start;
            while at < data.end.min(end) {
                let mut piece = vec![0; PIECE_BYTES.min(data.end.min(end) - at) as usize];
                device.read_at(&mut piece, at).map_err(io::Error::other)?;
                if piece.iter().any(|&byte| byte != 0) {
                    recording.put(Kind::Before, recording.events, (at, piece.len() as u64), &piece)?;
                }
                at += piece.len() as u64;
            }
        }
        recording.file.flush()?;
        Ok(Self { device, recording: Mutex::new(recording) })
    }

    fn recording(&self) -> MutexGuard<'_, Recording> {
        self.recording.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Notes what the client says: behind everything that was answered before, and before everything that
    /// begins when this has returned.
    ///
    /// # Errors
    /// Of the file.
    pub fn mark(&self, text: &str) -> io::Result<()> {
        let mut recording = self.recording();
        let begun = recording.events;
        recording.put(Kind::Mark, begun, (0, 0), text.as_bytes())
    }

    /// Events so far.
    pub fn events(&self) -> u64 {
        self.recording().events
    }

    /// Writes out what is recorded so far. Also done when the recorder is dropped, which tells of no error.
    ///
    /// # Errors
    /// Of the file.
    pub fn save(&self) -> io::Result<()> {
        let mut recording = self.recording();
        recording.check()?;
        recording.file.flush()
    }

    /// What has failed may have changed the device all the same, and promises nothing; what was refused has
    /// not.
    fn note(
        &self,
        request: &Request<'_>,
        begun: u64,
        result: &Result<(), DeviceError>,
    ) -> Result<(), DeviceError> {
        let is_done = result.is_ok();
        let refused = [
            DeviceErrorKind::Unsupported,
            DeviceErrorKind::Misaligned,
            DeviceErrorKind::OutOfRange,
            DeviceErrorKind::ReadOnly,
        ];
        if result.as_ref().is_err_and(|error| refused.contains(&error.kind())) {
            return Ok(());
        }
        let (kind, bytes): (_, &[u8]) = match request {
            Request::Read { .. } => return Ok(()),
            Request::Write { buf, .. } | Request::WriteThrough { buf, .. } if !is_done => {
                (Kind::TriedWrite, buf)
            }
            Request::Write { buf, .. } => (Kind::Write, buf),
            Request::WriteThrough { buf, .. } => (Kind::WriteThrough, buf),
            Request::Discard { .. } if !is_done => (Kind::TriedDiscard, &[]),
            Request::Discard { .. } => (Kind::Discard, &[]),
            Request::Flush if is_done => (Kind::Flush, &[]),
            Request::Flush => return Ok(()),
            Request::Append { .. } | Request::Reset { .. } | Request::Finish { .. } => {
                return Err(self.unrecorded(request, "zones are not recorded"));
            }
        };
        let range = request.range().unwrap_or((0, 0));
        let noted = self.recording().put(kind, begun, range, bytes);
        noted.map_err(|error| self.unrecorded(request, &format!("it cannot be recorded: {error}")))
    }

    fn unrecorded(&self, request: &Request<'_>, reason: &str) -> DeviceError {
        DeviceError::new(DeviceErrorKind::Io, request.operation(), self.describe()).advise(reason)
    }
}

impl Device for Recorder {
    fn capabilities(&self) -> Capabilities {
        Capabilities { can_resize: false, zones: None, ..self.device.capabilities() }
    }

    fn run(&self, batch: &mut [Request<'_>]) -> Vec<Result<(), DeviceError>> {
        let begun = self.events();
        let results = self.device.run(batch);
        let each = batch.iter().zip(results);
        each.map(|(request, result)| self.note(request, begun, &result).and(result)).collect()
    }

    fn set_len(&self, len: u64) -> Result<(), DeviceError> {
        let error = DeviceError::new(DeviceErrorKind::Unsupported, "resize", self.describe());
        Err(error.at(0, len))
    }

    fn data_from(&self, offset: u64) -> Result<Option<Range<u64>>, DeviceError> {
        self.device.data_from(offset)
    }

    fn describe(&self) -> String {
        self.device.describe()
    }
}
