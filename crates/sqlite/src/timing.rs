//! The time that syncs of log files take on a drive other than the one that their bytes are on.
//!
//! SQLite writes its logs in small pieces into the operating system's cache and then syncs. Bytes therefore
//! go to real files at once, so that a killed process loses nothing that a real one would keep, and the drive
//! is charged when they would reach it: at the sync, in runs as long as the cache would make them.

use std::path::Path;
use std::sync::Arc;

use mezzanine_device::{Device, DeviceError, Request};

/// A run of bytes of a log file that was written since its last sync.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Extent {
    /// Offset in the file, in bytes.
    pub offset: u64,
    /// Length in bytes.
    pub len: u64,
}

/// Whether the sync of the real file still takes place.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RealSync {
    /// Yes: what was committed survives a power cut of this machine.
    Keep,
    /// No: the modelled drive stands for the real one. Commits survive the end of the process, not a power
    /// cut of this machine.
    Skip,
}

/// Is told of each sync of a journal or write-ahead log, and returns when the drive that it stands for would
/// have completed it.
pub trait LogTimer: Send + Sync {
    /// `log` is about to be synced, with these extents, sorted and apart, written since the sync before.
    ///
    /// # Errors
    /// The drive's failure, which SQLite is told as a failed sync.
    fn sync(&self, log: &Path, extents: &[Extent]) -> Result<RealSync, DeviceError>;
}

/// Charges the syncs of log files to a device, such as a modelled drive: the extents as one batch of writes,
/// then a flush.
pub struct LogDrive {
    device: Arc<dyn Device>,
    base_offset: u64,
    real_sync: RealSync,
}

/// No request is longer; a drive sees a longer run as several requests in sequence.
const REQUEST_MAX: u64 = 1 << 20;

impl LogDrive {
    /// Logs lie on `device` from `base_offset` on. Their bytes are not stored there, only written; attach
    /// [`NullDevice`](mezzanine_device::NullDevice) to a modelled drive to get a device that only takes time.
    pub fn new(device: Arc<dyn Device>, base_offset: u64) -> Self {
        Self { device, base_offset, real_sync: RealSync::Keep }
    }

    /// Leaves the syncs of the real files out; see [`RealSync::Skip`].
    #[must_use]
    pub fn without_real_sync(mut self) -> Self {
        self.real_sync = RealSync::Skip;
        self
    }
}

impl LogTimer for LogDrive {
    fn sync(&self, _log: &Path, extents: &[Extent]) -> Result<RealSync, DeviceError> {
        let block = u64::from(self.device.capabilities().block_size.max(512));
        let mut ranges = Vec::new();
        for extent in extents {
            let mut at = extent.offset / block * block;
            let end = (extent.offset + extent.len).div_ceil(block) * block;
            while at < end {
                let len = (end - at).min(REQUEST_MAX);
                ranges.push((self.base_offset + at, len));
                at += len;
            }
        }
        let longest = ranges.iter().map(|(_, len)| *len).max().unwrap_or(0);
        let zeros = vec![0; longest as usize];
        let mut batch: Vec<Request<'_>> =
            ranges.iter().map(|&(offset, len)| Request::write(&zeros[..len as usize], offset)).collect();
        if !batch.is_empty() {
            self.device.run(&mut batch).into_iter().collect::<Result<(), _>>()?;
        }
        self.device.flush()?;
        Ok(self.real_sync)
    }
}

/// Extents that were written since the last sync, merged as they come.
#[derive(Debug, Default)]
pub(crate) struct Unsynced {
    extents: Vec<Extent>,
}

impl Unsynced {
    /// Adds a write. Logs are appended to, so looking at the newest extent first finds most neighbours.
    pub(crate) fn add(&mut self, offset: u64, len: u64) {
        let end = offset.saturating_add(len);
        if let Some(last) = self.extents.last_mut() {
            if offset >= last.offset && offset <= last.offset + last.len {
                last.len = last.len.max(end - last.offset);
                return;
            }
        }
        self.extents.push(Extent { offset, len });
    }

    /// Forgets what lies past a new end.
    pub(crate) fn truncate(&mut self, len: u64) {
        self.extents.retain_mut(|extent| {
            extent.len = extent.len.min(len.saturating_sub(extent.offset));
            extent.len > 0
        });
    }

    /// The extents, sorted and merged; nothing is unsynced afterwards.
    pub(crate) fn take(&mut self) -> Vec<Extent> {
        let mut all = std::mem::take(&mut self.extents);
        all.sort_by_key(|extent| extent.offset);
        let mut merged: Vec<Extent> = Vec::with_capacity(all.len());
        for extent in all {
            match merged.last_mut() {
                Some(last) if extent.offset <= last.offset + last.len => {
                    last.len = last.len.max(extent.offset + extent.len - last.offset);
                }
                _ => merged.push(extent),
            }
        }
        merged
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn appends_become_one_extent_and_rewrites_join_it() {
        let mut unsynced = Unsynced::default();
        unsynced.add(32, 24);
        unsynced.add(56, 4096);
        unsynced.add(0, 32);
        unsynced.add(9000, 10);
        assert_eq!(unsynced.take(), [Extent { offset: 0, len: 4152 }, Extent { offset: 9000, len: 10 }]);
        assert_eq!(unsynced.take(), []);
    }

    #[test]
    fn a_truncated_log_owes_nothing_past_its_end() {
        let mut unsynced = Unsynced::default();
        unsynced.add(0, 100);
        unsynced.add(200, 100);
        unsynced.truncate(50);
        assert_eq!(unsynced.take(), [Extent { offset: 0, len: 50 }]);
    }
}
