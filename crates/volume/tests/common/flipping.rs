//! A device that brings another bit than lies there, in reads of one place.

#![allow(dead_code, unreachable_pub)]

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use mezzanine_device::memory::MemoryDevice;
use mezzanine_device::{Capabilities, Device, DeviceError, Request};

/// A device of which so many reads of one byte bring one bit that is another; what lies there stays as it is.
pub struct Flipping {
    inner: Arc<MemoryDevice>,
    at: u64,
    left: AtomicU64,
    struck: AtomicU64,
}

impl Flipping {
    pub fn at(inner: &Arc<MemoryDevice>, at: u64, reads: u64) -> Arc<Self> {
        let (left, struck) = (AtomicU64::new(reads), AtomicU64::new(0));
        Arc::new(Self { inner: Arc::clone(inner), at, left, struck })
    }

    /// So many reads from now on.
    pub fn strike(&self, reads: u64) {
        self.left.store(reads, Ordering::SeqCst);
    }

    /// How many reads have brought something else.
    pub fn struck(&self) -> u64 {
        self.struck.load(Ordering::SeqCst)
    }

    fn run_one(&self, request: &mut Request<'_>) -> Result<(), DeviceError> {
        self.inner.run(std::slice::from_mut(request)).remove(0)?;
        if let Request::Read { offset, buf } = request {
            let byte = self.at.checked_sub(*offset).and_then(|at| buf.get_mut(at as usize));
            let one_less = |left: u64| left.checked_sub(1);
            if let Some(byte) = byte {
                if self.left.fetch_update(Ordering::SeqCst, Ordering::SeqCst, one_less).is_ok() {
                    *byte ^= 1;
                    self.struck.fetch_add(1, Ordering::SeqCst);
                }
            }
        }
        Ok(())
    }
}

impl Device for Flipping {
    fn capabilities(&self) -> Capabilities {
        self.inner.capabilities()
    }

    fn run(&self, batch: &mut [Request<'_>]) -> Vec<Result<(), DeviceError>> {
        batch.iter_mut().map(|request| self.run_one(request)).collect()
    }

    fn set_len(&self, len: u64) -> Result<(), DeviceError> {
        self.inner.set_len(len)
    }

    fn describe(&self) -> String {
        self.inner.describe()
    }
}
