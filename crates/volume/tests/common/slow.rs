//! A device that takes its time.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex};
use std::time::Duration;

use mezzanine_device::memory::MemoryDevice;
use mezzanine_device::{Capabilities, Device, DeviceError, Request};

/// What is held back.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Held {
    Nothing,
    Writes,
    Flushes,
    /// Reads that have not begun.
    Reads,
    /// Reads whose bytes are there, but that have not returned.
    ReadsDone,
}

/// A device whose requests of one kind hang until they are let go.
pub struct Slow {
    inner: Arc<MemoryDevice>,
    held: Mutex<Held>,
    changed: Condvar,
    hanging: AtomicU64,
    /// Requests that hang no longer, one at a time.
    let_go: AtomicU64,
}

impl Slow {
    pub fn new(inner: &Arc<MemoryDevice>) -> Arc<Self> {
        let (held, changed) = (Mutex::new(Held::Nothing), Condvar::new());
        Arc::new(Self {
            inner: Arc::clone(inner),
            held,
            changed,
            hanging: AtomicU64::new(0),
            let_go: AtomicU64::new(0),
        })
    }

    /// Holds requests of this kind back from now on, and lets all others go.
    pub fn hold(&self, held: Held) {
        *self.held.lock().unwrap() = held;
        self.changed.notify_all();
    }

    /// Lets one request go that hangs; the next one hangs again.
    pub fn let_one_go(&self) {
        let held = self.held.lock().unwrap();
        self.let_go.fetch_add(1, Ordering::SeqCst);
        drop(held);
        self.changed.notify_all();
        while self.let_go.load(Ordering::SeqCst) > 0 {
            std::thread::sleep(Duration::from_millis(1));
        }
        // Who takes it is counted as hanging until he lets this go.
        drop(self.held.lock().unwrap());
    }

    pub fn hangs(&self) -> bool {
        self.hanging.load(Ordering::SeqCst) > 0
    }

    pub fn wait_until_one_hangs(&self) {
        self.wait_until_hanging(1);
    }

    pub fn wait_until_hanging(&self, requests: u64) {
        while self.hanging.load(Ordering::SeqCst) < requests {
            std::thread::sleep(Duration::from_millis(1));
        }
    }

    fn pass(&self, kind: Held) {
        let mut held = self.held.lock().unwrap();
        if *held != kind {
            return;
        }
        self.hanging.fetch_add(1, Ordering::SeqCst);
        let goes = |left: u64| left.checked_sub(1);
        while *held == kind && self.let_go.fetch_update(Ordering::SeqCst, Ordering::SeqCst, goes).is_err() {
            held = self.changed.wait(held).unwrap();
        }
        self.hanging.fetch_sub(1, Ordering::SeqCst);
    }

    fn begin(&self, request: &Request<'_>) {
        match request {
            Request::Write { .. } | Request::WriteThrough { .. } | Request::Append { .. } => {
                self.pass(Held::Writes);
            }
            Request::Flush => self.pass(Held::Flushes),
            Request::Read { .. } => self.pass(Held::Reads),
            Request::Discard { .. } | Request::Reset { .. } | Request::Finish { .. } => {}
        }
    }

    fn end(&self, reads: bool) {
        if reads {
            self.pass(Held::ReadsDone);
        }
    }
}

impl Device for Slow {
    fn capabilities(&self) -> Capabilities {
        self.inner.capabilities()
    }
    fn run(&self, batch: &mut [Request<'_>]) -> Vec<Result<(), DeviceError>> {
        batch.iter().for_each(|request| self.begin(request));
        let results = self.inner.run(batch);
        self.end(batch.iter().any(|request| matches!(request, Request::Read { .. })));
        results
    }
    fn run_one(&self, request: Request<'_>) -> Result<(), DeviceError> {
        self.begin(&request);
        let reads = matches!(request, Request::Read { .. });
        let result = self.inner.run_one(request);
        self.end(reads);
        result
    }
    fn set_len(&self, len: u64) -> Result<(), DeviceError> {
        self.inner.set_len(len)
    }
    fn describe(&self) -> String {
        self.inner.describe()
    }
}
