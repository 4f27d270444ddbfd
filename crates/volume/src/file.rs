//! One file of a volume.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use mezzanine_device::Device;

use crate::error::{VolumeError, VolumeErrorKind};
use crate::statistics::VolumeStatistics;
use crate::volume::Shared;

/// A file of a volume. Clones are handles of the same file; all methods may be called from any thread.
#[derive(Clone)]
pub struct VolumeFile {
    inner: Arc<FileInner>,
    shared: Arc<Shared>,
}

pub(crate) struct FileInner {
    path: PathBuf,
    backing: Arc<dyn Device>,
    unsynced: AtomicBool,
    reads: AtomicU64,
    bytes_read: AtomicU64,
    writes: AtomicU64,
    bytes_written: AtomicU64,
    syncs: AtomicU64,
    flushes: AtomicU64,
}

impl FileInner {
    pub(crate) fn new(path: &Path, backing: Arc<dyn Device>) -> Self {
        Self {
            path: path.to_owned(),
            backing,
            unsynced: AtomicBool::new(false),
            reads: AtomicU64::new(0),
            bytes_read: AtomicU64::new(0),
            writes: AtomicU64::new(0),
            bytes_written: AtomicU64::new(0),
            syncs: AtomicU64::new(0),
            flushes: AtomicU64::new(0),
        }
    }
}

impl VolumeFile {
    pub(crate) fn new(inner: FileInner, shared: Arc<Shared>) -> Self {
        Self { inner: Arc::new(inner), shared }
    }

    fn name(&self) -> String {
        self.inner.path.display().to_string()
    }

    fn failed(&self, operation: &'static str) -> impl FnOnce(mezzanine_device::DeviceError) -> VolumeError {
        let name = self.name();
        move |error| VolumeError::from_device(operation, name, error)
    }

    /// The path under which it was attached.
    pub fn path(&self) -> &Path {
        &self.inner.path
    }

    /// Length in bytes.
    pub fn len(&self) -> u64 {
        self.inner.backing.len()
    }

    /// Whether the file has no bytes.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Fills `buf` from `offset`.
    ///
    /// # Errors
    /// `ShortRead` if the file ends before `buf` is full: the bytes that it has were read, the rest of `buf` is zero.
    /// `LostPage` if the newest version of a page cannot be read; `Io`; `Closed`.
    pub fn read_at(&self, buf: &mut [u8], offset: u64) -> Result<(), VolumeError> {
        self.shared.check_open("read", &self.name())?;
        let available = self.inner.backing.read_at_or_zero(buf, offset).map_err(self.failed("read"))?;
        self.inner.reads.fetch_add(1, Ordering::Relaxed);
        self.inner.bytes_read.fetch_add(available as u64, Ordering::Relaxed);
        if available < buf.len() {
            return Err(VolumeError::new(
                VolumeErrorKind::ShortRead { available },
                "read",
                self.name(),
                format!("the file ends {available} bytes further on, of {} bytes asked for", buf.len()),
            )
            .at(offset));
        }
        Ok(())
    }

    /// Writes all of `buf` at `offset`; the file grows as needed, and a gap reads as zeros.
    ///
    /// # Errors
    /// `ReadOnly`, `NoSpace`, `Io`, `Closed`. After an error any part of the range may be old or new.
    pub fn write_at(&self, buf: &[u8], offset: u64) -> Result<(), VolumeError> {
        self.shared.check_open("write", &self.name())?;
        self.inner.unsynced.store(true, Ordering::Release);
        self.inner.backing.write_at(buf, offset).map_err(self.failed("write"))?;
        self.inner.writes.fetch_add(1, Ordering::Relaxed);
        self.inner.bytes_written.fetch_add(buf.len() as u64, Ordering::Relaxed);
        Ok(())
    }

    /// Makes every completed change of this file durable. Does no I/O if there was none since the last sync.
    ///
    /// # Errors
    /// The failure; nothing that was written since the last successful sync may be taken for durable, now or later.
    pub fn sync(&self) -> Result<(), VolumeError> {
        self.shared.check_open("sync", &self.name())?;
        self.inner.syncs.fetch_add(1, Ordering::Relaxed);
        if self.inner.unsynced.swap(false, Ordering::AcqRel) {
            self.inner.flushes.fetch_add(1, Ordering::Relaxed);
            self.inner.backing.flush().map_err(self.failed("sync"))?;
        }
        Ok(())
    }

    /// Turns a range into zeros and gives its space back where the disk can. Durable on return.
    ///
    /// # Errors
    /// As for writing and syncing.
    pub fn discard(&self, offset: u64, len: u64) -> Result<(), VolumeError> {
        self.shared.check_open("discard", &self.name())?;
        let end = offset.saturating_add(len).min(self.len());
        let zeros = vec![0; 1 << 16];
        let mut at = offset;
        while at < end {
            let part = (end - at).min(zeros.len() as u64);
            self.write_at(&zeros[..part as usize], at)?;
            at += part;
        }
        self.sync()
    }

    /// Sets the length in bytes. What lies past a shorter end is gone: a later extension reads zeros there. Shortening
    /// is durable on return, lengthening with the next sync.
    ///
    /// # Errors
    /// As for writing and syncing.
    pub fn set_len(&self, len: u64) -> Result<(), VolumeError> {
        self.shared.check_open("set the length of", &self.name())?;
        let shorter = len < self.len();
        self.inner.unsynced.store(true, Ordering::Release);
        self.inner.backing.set_len(len).map_err(self.failed("set the length of"))?;
        if shorter { self.sync() } else { Ok(()) }
    }

    pub(crate) fn count_into(&self, total: &mut VolumeStatistics) {
        let inner = &self.inner;
        total.reads += inner.reads.load(Ordering::Relaxed);
        total.disk_reads += inner.reads.load(Ordering::Relaxed);
        total.disk_bytes_read += inner.bytes_read.load(Ordering::Relaxed);
        total.writes += inner.writes.load(Ordering::Relaxed);
        total.disk_writes += inner.writes.load(Ordering::Relaxed);
        total.disk_bytes_written += inner.bytes_written.load(Ordering::Relaxed);
        total.syncs += inner.syncs.load(Ordering::Relaxed);
        total.disk_flushes += inner.flushes.load(Ordering::Relaxed);
        total.syncs_without_io +=
            inner.syncs.load(Ordering::Relaxed).saturating_sub(inner.flushes.load(Ordering::Relaxed));
    }
}

impl std::fmt::Debug for VolumeFile {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("VolumeFile").field("path", &self.inner.path).finish_non_exhaustive()
    }
}
