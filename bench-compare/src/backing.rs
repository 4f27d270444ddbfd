//! The database behind the caches: of each page its version; what is in it follows from that.

use std::sync::atomic::{AtomicU64, Ordering};

use mezzanine_device::{Capabilities, Device, DeviceError, DeviceErrorKind, Request};

use crate::PAGE;

pub struct Backing {
    versions: Vec<AtomicU64>,
    miss_ms: u64,
}

/// What a page holds: its number and version at both ends, and bytes that follow from them.
pub fn fill(page: u32, version: u64, bytes: &mut [u8]) {
    bytes.fill((page as u8) ^ (version as u8));
    bytes[0..8].copy_from_slice(&u64::from(page).to_le_bytes());
    bytes[8..16].copy_from_slice(&version.to_le_bytes());
    let end = bytes.len() - 16;
    bytes[end..end + 8].copy_from_slice(&u64::from(page).to_le_bytes());
    bytes[end + 8..].copy_from_slice(&version.to_le_bytes());
}

/// The version of a page that is whole and the right one.
///
/// # Panics
/// If it is another page, or not whole.
pub fn version_of(page: u32, bytes: &[u8]) -> u64 {
    let word = |at: usize| u64::from_le_bytes(bytes[at..at + 8].try_into().expect("8 bytes"));
    let end = bytes.len() - 16;
    assert!(
        bytes.len() == PAGE && word(0) == u64::from(page) && word(end) == word(0) && word(8) == word(end + 8),
        "page {page} is another page, or torn"
    );
    word(8)
}

impl Backing {
    pub fn new(pages: u32, miss_ms: u64) -> Backing {
        Backing { versions: (0..pages).map(|_| AtomicU64::new(0)).collect(), miss_ms }
    }

    pub fn version(&self, page: u32) -> u64 {
        self.versions[page as usize].load(Ordering::Acquire)
    }

    pub fn read(&self, page: u32, bytes: &mut [u8]) {
        fill(page, self.version(page), bytes);
    }

    pub fn write(&self, page: u32, bytes: &[u8]) {
        self.versions[page as usize].store(version_of(page, bytes), Ordering::Release);
    }
}

/// As a volume's disk: whole pages.
impl Device for Backing {
    fn capabilities(&self) -> Capabilities {
        Capabilities {
            len: (self.versions.len() * PAGE) as u64,
            block_size: 4096,
            atomic_write: PAGE as u32,
            volatile_cache: false,
            can_resize: false,
            zones: None,
        }
    }

    fn run(&self, batch: &mut [Request<'_>]) -> Vec<Result<(), DeviceError>> {
        for request in batch.iter_mut() {
            match request {
                Request::Read { offset, buf } => {
                    if self.miss_ms > 0 {
                        std::thread::sleep(std::time::Duration::from_millis(self.miss_ms));
                    }
                    for (page, bytes) in (*offset / PAGE as u64..).zip(buf.chunks_mut(PAGE)) {
                        self.read(page as u32, bytes);
                    }
                }
                Request::Write { offset, buf } => {
                    for (page, bytes) in (*offset / PAGE as u64..).zip(buf.chunks(PAGE)) {
                        self.write(page as u32, bytes);
                    }
                }
                Request::Flush | Request::Discard { .. } => {}
            }
        }
        batch.iter().map(|_| Ok(())).collect()
    }

    fn set_len(&self, _: u64) -> Result<(), DeviceError> {
        Err(DeviceError::new(DeviceErrorKind::Unsupported, "resize", self.describe()))
    }

    fn describe(&self) -> String {
        "the database".to_owned()
    }
}
