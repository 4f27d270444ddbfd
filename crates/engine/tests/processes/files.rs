//! The files that the processes of the test share: the flash device, a disk for each of them, locks and the
//! ledger; and what stands in a page.

use std::fs::{File, OpenOptions};
use std::os::unix::fs::FileExt;
use std::path::Path;

use mezzanine_engine::format::{Superblock, read_superblock, write_superblock};
use mezzanine_engine::planted::outside;
use mezzanine_engine::{Design, PageId, ReadError, ReadFlash, TierConfig, WriteFlash};
use rustix::fs::{FlockOperation, flock};

use crate::ledger::{BLOCKS, Ledger, PROCESSES};

pub(crate) const PAGE: usize = 4096;

/// So small that the queue wraps all the time. The folder says of which design.
pub(crate) fn config(directory: &Path) -> TierConfig {
    let design = std::fs::read_to_string(directory.join(DESIGN)).unwrap().parse::<Design>().unwrap();
    let frames_max = if design.writes_in_place() { 0 } else { FRAMES_MAX };
    TierConfig { frames_max, ..TierConfig::of(design, PAGE as u32, 256) }
}

/// The file with the design's name.
pub(crate) const DESIGN: &str = "design";

/// As far as the queue is made to grow and shrink.
pub(crate) const FRAMES_MAX: u64 = 320;
pub(crate) const FRAMES_MIN: u64 = 200;

/// The files of the test.
pub(crate) struct Files {
    pub(crate) flash: File,
    disks: Vec<File>,
    /// Locked by whoever writes a superblock; and by whoever switches the sync mode, as long as admission
    /// has stopped. The system frees them when their process dies.
    superblock: File,
    switch: File,
    pub(crate) ledger: Ledger,
}

/// A lock between processes that is held.
pub(crate) struct Alone<'f>(&'f File);

impl Drop for Alone<'_> {
    fn drop(&mut self) {
        flock(self.0, FlockOperation::Unlock).unwrap();
    }
}

impl Files {
    pub(crate) fn open(directory: &Path) -> Self {
        let open = |name: &str| {
            let path = directory.join(name);
            OpenOptions::new().read(true).write(true).create(true).truncate(false).open(path).unwrap()
        };
        let flash = open("flash");
        flash.set_len(config(directory).geometry().unwrap().flash_bytes()).unwrap();
        let disks: Vec<File> = (0..PROCESSES).map(|process| open(&format!("disk-{process}"))).collect();
        for disk in &disks {
            disk.set_len(BLOCKS * PAGE as u64).unwrap();
        }
        let (superblock, switch) = (open("superblock.lock"), open("switch.lock"));
        Self { flash, disks, superblock, switch, ledger: Ledger::open(&directory.join("ledger")) }
    }

    /// Waits until nobody else writes a superblock.
    pub(crate) fn superblock_alone(&self) -> Alone<'_> {
        flock(&self.superblock, FlockOperation::LockExclusive).unwrap();
        Alone(&self.superblock)
    }

    /// `None` while somebody else switches the sync mode.
    pub(crate) fn switch_alone(&self) -> Option<Alone<'_>> {
        let locked = flock(&self.switch, FlockOperation::NonBlockingLockExclusive);
        locked.is_ok().then(|| Alone(&self.switch))
    }

    /// The newest superblock on flash: it may be that of a process that died before anybody else learnt of
    /// it.
    pub(crate) fn newest_superblock(&self) -> Superblock {
        read_superblock(&mut &*self).unwrap()
    }

    pub(crate) fn put_superblock(&self, superblock: &Superblock) {
        write_superblock(&mut &*self, superblock).unwrap();
    }

    pub(crate) fn disk(&self, id: &PageId) -> (&File, u64) {
        (&self.disks[id.file() as usize], id.block() * PAGE as u64)
    }
}

impl ReadFlash for &Files {
    fn read(&mut self, offset: u64, bytes: &mut [u8]) -> Result<(), ReadError> {
        self.flash.read_exact_at(bytes, offset).map_err(|error| ReadError(error.to_string()))
    }
}

impl WriteFlash for &Files {
    type Error = std::io::Error;

    fn write(&mut self, offset: u64, bytes: &[u8]) -> std::io::Result<()> {
        self.flash.write_all_at(bytes, offset)
    }

    /// No device is flushed: the kernel outlives every process here.
    fn flush(&mut self) -> std::io::Result<()> {
        outside("host: one copy of a superblock written");
        Ok(())
    }
}

/// The page of a process with one of its changes in it.
pub(crate) fn page(process: u64, block: u64, version: u64) -> Vec<u8> {
    let words = [process, block].into_iter().chain(std::iter::repeat(version));
    words.take(PAGE / 8).flat_map(u64::to_le_bytes).collect()
}

/// The change in a page; none if it is torn or another page's.
pub(crate) fn version_of(bytes: &[u8], process: u64, block: u64) -> Option<u64> {
    let version = u64::from_le_bytes(bytes[16..24].try_into().unwrap());
    let never = version == 0 && bytes.iter().all(|&byte| byte == 0);
    (never || bytes == page(process, block, version)).then_some(version)
}
