//! A file of a volume as a device of fixed length, for fronts that show it to the operating system.
//!
//! What a device promises (`mezzanine_device`), and why it holds here:
//! 1. A completed write is visible to every later read: the volume's own promise. Parts of pages, of any
//!    length at any offset, are put into their pages under the locks of these, so writes that share a page
//!    but no byte lose nothing to one another.
//! 2. A flush makes durable what had completed: [`VolumeFile::sync`]. In sync mode `durable` flash has it
//!    then, in `through` the file's own device. Several clients are one device, so one's flush covers all.
//! 3. After a sync that failed the volume refuses changes, and reads go on.
//! 4. What is discarded reads as anything until it is written again: the whole pages in the range are
//!    [abandoned](VolumeFile::abandon).

use mezzanine_device::{Capabilities, Device, DeviceError, DeviceErrorKind, Request};
use mezzanine_engine::TierConfig;

use crate::error::{VolumeError, VolumeErrorKind};
use crate::file::VolumeFile;

/// A file of a volume that keeps the length it has now.
#[derive(Debug, Clone)]
pub struct BlockDevice {
    file: VolumeFile,
    bytes: u64,
}

impl BlockDevice {
    /// The file as a device. Whoever has it leaves its length alone.
    pub fn new(file: VolumeFile) -> Self {
        let bytes = file.len();
        Self { file, bytes }
    }

    /// The policy of a tier that serves block devices: pages stay as long as overwrites make room. Below a
    /// front there is no buffer pool that has the pages which are read all the time, as the paper's has, and
    /// one that leaves costs the volume's own device a read, and if it is dirty a write.
    #[must_use]
    pub fn policy(tier: &TierConfig) -> TierConfig {
        TierConfig { keeps_unreferenced: true, ..tier.clone() }
    }

    /// The file.
    pub fn file(&self) -> &VolumeFile {
        &self.file
    }

    /// Refuses what lies past the end with an error of this kind.
    fn within(&self, request: &Request<'_>, kind: DeviceErrorKind) -> Result<(), DeviceError> {
        let Some((offset, len)) = request.range() else { return Ok(()) };
        if offset.checked_add(len).is_some_and(|end| end <= self.bytes) {
            return Ok(());
        }
        let error = DeviceError::new(kind, request.operation(), self.describe()).at(offset, len);
        Err(error.advise(format!("it ends at byte {}", self.bytes)))
    }
}

impl Device for BlockDevice {
    fn capabilities(&self) -> Capabilities {
        Capabilities {
            len: self.bytes,
            // Any range is taken; whole pages need not be read first.
            block_size: u32::try_from(self.file.page_size()).unwrap_or(1),
            // A page that is torn on its way to disk may be read so after a crash in sync mode `through`.
            atomic_write: 0,
            volatile_cache: true,
            can_resize: false,
            write_through: false,
            zones: None,
        }
    }

    fn run(&self, batch: &mut [Request<'_>]) -> Vec<Result<(), DeviceError>> {
        // Each by itself, in their order, which is more than a batch asks for.
        let mut results = Vec::with_capacity(batch.len());
        for request in batch {
            results.push(match request {
                Request::Read { offset, buf } => self.run_one(Request::Read { offset: *offset, buf }),
                Request::Write { offset, buf, .. } => self.run_one(Request::write(buf, *offset)),
                Request::Discard { offset, len } => {
                    self.run_one(Request::Discard { offset: *offset, len: *len })
                }
                Request::Flush => self.run_one(Request::Flush),
                other => Err(other.unsupported(self.describe())),
            });
        }
        results
    }

    fn run_one(&self, request: Request<'_>) -> Result<(), DeviceError> {
        let past = match request {
            Request::Read { .. } => DeviceErrorKind::UnexpectedEnd,
            _ => DeviceErrorKind::OutOfRange,
        };
        self.within(&request, past)?;
        let (operation, range) = (request.operation(), request.range());
        let done = match request {
            Request::Read { offset, buf } => self.file.read_at(buf, offset),
            Request::Write { offset, buf, .. } => self.file.write_at(buf, offset),
            Request::Flush => self.file.sync(),
            Request::Discard { offset, len } => self.file.abandon(offset, len),
            other => return Err(other.unsupported(self.describe())),
        };
        done.map_err(|error| {
            let refused = DeviceError::new(kind_of(&error), operation, self.describe());
            let refused = match range {
                Some((offset, len)) => refused.at(offset, len),
                None => refused,
            };
            refused.because(error)
        })
    }

    fn set_len(&self, _: u64) -> Result<(), DeviceError> {
        let error = DeviceError::new(DeviceErrorKind::Unsupported, "resize", self.describe());
        Err(error.advise("detach it from its tier, and attach it when it has its new length"))
    }

    fn describe(&self) -> String {
        self.file.path().display().to_string()
    }
}

/// What a device says of a volume's error.
fn kind_of(error: &VolumeError) -> DeviceErrorKind {
    match error.kind() {
        VolumeErrorKind::NoSpace => DeviceErrorKind::NoSpace,
        // Of a volume whose device failed, and not of one that somebody has protected: those are opened for
        // writing or not at all.
        VolumeErrorKind::ReadOnly => DeviceErrorKind::FlushFailed,
        VolumeErrorKind::ShortRead { .. } => DeviceErrorKind::UnexpectedEnd,
        _ => DeviceErrorKind::Io,
    }
}
