//! What tests hold up: a device that keeps whoever comes, and a voucher that cannot be revoked.

use std::io;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::SeqCst};
use std::sync::{Arc, Condvar, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use mezzanine_cached::Voucher;
use mezzanine_device::{Capabilities, Device, DeviceError, MemoryDevice, Request};

/// A device that keeps whoever comes until it is told to let go.
pub(crate) struct Sticky {
    inner: MemoryDevice,
    held: Mutex<bool>,
    let_go: Condvar,
    /// Bytes that were discarded.
    pub(crate) discarded: AtomicU64,
}

impl Sticky {
    pub(crate) fn new(bytes: u64) -> Arc<Self> {
        let (inner, held, let_go) = (MemoryDevice::new(bytes), Mutex::new(false), Condvar::new());
        Arc::new(Self { inner, held, let_go, discarded: AtomicU64::new(0) })
    }

    pub(crate) fn hold(&self, hold: bool) {
        *self.held.lock().unwrap() = hold;
        self.let_go.notify_all();
    }
}

impl Device for Sticky {
    fn capabilities(&self) -> Capabilities {
        self.inner.capabilities()
    }

    fn run(&self, batch: &mut [Request<'_>]) -> Vec<Result<(), DeviceError>> {
        let mut held = self.held.lock().unwrap();
        while *held {
            held = self.let_go.wait(held).unwrap();
        }
        drop(held);
        for request in batch.iter() {
            if let Request::Discard { len, .. } = request {
                self.discarded.fetch_add(*len, SeqCst);
            }
        }
        self.inner.run(batch)
    }

    fn set_len(&self, len: u64) -> Result<(), DeviceError> {
        self.inner.set_len(len)
    }

    fn describe(&self) -> String {
        "sticky drive".to_owned()
    }
}

/// Lets go of what a test holds when it fails, before anybody waits for its threads: they would never end,
/// and nobody would hear of the failure. To be made where the threads are begun.
pub(crate) struct IfItFails<F: Fn()>(pub(crate) F);

impl<F: Fn()> Drop for IfItFails<F> {
    fn drop(&mut self) {
        if thread::panicking() {
            (self.0)();
        }
    }
}

/// Refuses until it is told not to.
#[derive(Default)]
pub(crate) struct Stubborn {
    pub(crate) refuses: AtomicBool,
    pub(crate) asked: AtomicU64,
    pub(crate) is_revoked: AtomicBool,
}

/// The one that a cache has.
pub(crate) struct Shared(pub(crate) Arc<Stubborn>);

impl Voucher for Shared {
    fn revoke(&self) -> io::Result<()> {
        self.0.asked.fetch_add(1, SeqCst);
        if self.0.refuses.load(SeqCst) {
            return Err(io::Error::other("the folder is read-only"));
        }
        self.0.is_revoked.store(true, SeqCst);
        Ok(())
    }
}

/// Waits for what comes in time on any machine.
pub(crate) fn wait(what: &str, mut done: impl FnMut() -> bool) {
    let begun = Instant::now();
    while !done() {
        assert!(begun.elapsed() < Duration::from_secs(120), "{what} does not come");
        thread::sleep(Duration::from_millis(2));
    }
}
