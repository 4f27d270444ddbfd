//! What other threads do while one waits for a device, without threads: a device calls back before or after a read.
//!
//! So a run stays repeatable from its seed, and a reader finds the tier changed between its lookup and its confirmation, or
//! between its miss and its offer of the page.

use std::sync::{Arc, Mutex, PoisonError};

use mezzanine_device::memory::MemoryDevice;
use mezzanine_device::{Capabilities, Device, DeviceError, Request};

/// What is to happen, and at which read from now.
struct Planned {
    reads_before: u64,
    after_the_read: bool,
    work: Box<dyn FnOnce() + Send>,
}

/// The one thing that is to happen during a read of any of the devices that share this.
#[derive(Clone, Default)]
pub struct Meanwhile(Arc<Mutex<Option<Planned>>>);

impl Meanwhile {
    /// Plans `work` for the read after the next `reads_before`: between its call and its execution, or, with
    /// `after_the_read`, between its execution and its return. Reads by `work` itself are not interrupted.
    pub fn plan(&self, reads_before: u64, after_the_read: bool, work: impl FnOnce() + Send + 'static) {
        *self.planned() = Some(Planned { reads_before, after_the_read, work: Box::new(work) });
    }

    /// Does now what did not happen because there were too few reads.
    pub fn make_up(&self) {
        let planned = self.planned().take();
        if let Some(Planned { work, .. }) = planned {
            work();
        }
    }

    fn planned(&self) -> std::sync::MutexGuard<'_, Option<Planned>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The work, if it belongs to the read that begins now.
    fn due(&self) -> Option<Planned> {
        let mut planned = self.planned();
        match planned.as_mut() {
            Some(Planned { reads_before: 0, .. }) => planned.take(),
            Some(Planned { reads_before, .. }) => {
                *reads_before -= 1;
                None
            }
            None => None,
        }
    }
}

/// A device at whose reads something may happen.
pub struct InterruptedDevice {
    inner: Arc<MemoryDevice>,
    meanwhile: Meanwhile,
}

impl InterruptedDevice {
    /// `inner`, with whatever is planned in `meanwhile`.
    pub fn new(inner: Arc<MemoryDevice>, meanwhile: Meanwhile) -> Self {
        Self { inner, meanwhile }
    }

    fn around<T>(&self, reads: bool, run: impl FnOnce() -> T) -> T {
        // Once the power has failed whoever reads is cleaning up after that, and nobody else would come through.
        let due = if reads && self.inner.power().is_on() { self.meanwhile.due() } else { None };
        match due {
            Some(Planned { work, after_the_read: true, .. }) => {
                let result = run();
                work();
                result
            }
            Some(Planned { work, .. }) => {
                work();
                run()
            }
            None => run(),
        }
    }
}

impl Device for InterruptedDevice {
    fn capabilities(&self) -> Capabilities {
        self.inner.capabilities()
    }

    fn run(&self, batch: &mut [Request<'_>]) -> Vec<Result<(), DeviceError>> {
        let reads = batch.iter().any(|request| matches!(request, Request::Read { .. }));
        self.around(reads, || self.inner.run(batch))
    }

    fn run_one(&self, request: Request<'_>) -> Result<(), DeviceError> {
        self.around(matches!(request, Request::Read { .. }), || self.inner.run_one(request))
    }

    fn set_len(&self, len: u64) -> Result<(), DeviceError> {
        self.inner.set_len(len)
    }

    fn describe(&self) -> String {
        self.inner.describe()
    }
}
