//! What other threads do while one waits for a device, without threads: a device calls back before or after a
//! request. So every request may take long, and be carried out or reported after others that came later.
//!
//! So a run stays repeatable from its seed, and a reader finds the tier changed between its lookup and its
//! confirmation, or between its miss and its offer of the page.

use std::sync::{Arc, Mutex, PoisonError};

use mezzanine_device::memory::MemoryDevice;
use mezzanine_device::{Capabilities, Device, DeviceError, Request, Zone};
use mezzanine_ground::interleave::turns;

/// Which requests something may happen at.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum At {
    /// Reads.
    Reads,
    /// Reads that are no batch, as those of a reader of one page. What a job reads is a batch, and whoever
    /// waits for that job in this one thread waits for ever.
    LoneReads,
    /// Requests of any kind.
    Any,
}

/// What is to happen, and at which request from now.
struct Planned {
    at: At,
    requests_before: u64,
    after: bool,
    work: Box<dyn FnOnce() + Send>,
}

/// The one thing that is to happen during a request to any of the devices that share this.
#[derive(Clone, Default)]
pub struct Meanwhile(Arc<Mutex<Option<Planned>>>);

impl Meanwhile {
    /// Plans `work` for the request after the next `requests_before` of those that `at` says: between its
    /// call and its execution, or, with `after`, between its execution and its return. Requests by `work`
    /// itself are not interrupted.
    pub fn plan(&self, at: At, requests_before: u64, after: bool, work: impl FnOnce() + Send + 'static) {
        *self.planned() = Some(Planned { at, requests_before, after, work: Box::new(work) });
    }

    /// Does now what did not happen because there were too few requests.
    pub fn make_up(&self) {
        let planned = self.planned().take();
        if let Some(Planned { work, .. }) = planned {
            work();
        }
    }

    fn planned(&self) -> std::sync::MutexGuard<'_, Option<Planned>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The work, if it belongs to the request that begins now.
    fn due(&self, reads: bool, lone: bool) -> Option<Planned> {
        let mut planned = self.planned();
        match planned.as_mut() {
            Some(Planned { at: At::Reads, .. }) if !reads => None,
            Some(Planned { at: At::LoneReads, .. }) if !(reads && lone) => None,
            Some(Planned { requests_before: 0, .. }) => planned.take(),
            Some(Planned { requests_before, .. }) => {
                *requests_before -= 1;
                None
            }
            None => None,
        }
    }
}

/// A device at whose requests something may happen.
pub struct InterruptedDevice {
    inner: Arc<MemoryDevice>,
    meanwhile: Meanwhile,
    halves_bytes: u64,
}

impl InterruptedDevice {
    /// `inner`, with whatever is planned in `meanwhile`. So many bytes at its beginning are the halves of an
    /// area, which are read and written under the lock of that: whoever waits for it in this one thread waits
    /// for ever. Its flushes may be under it as well.
    pub fn new(inner: Arc<MemoryDevice>, meanwhile: Meanwhile, halves_bytes: u64) -> Self {
        Self { inner, meanwhile, halves_bytes }
    }

    fn may_be_of_area(&self, request: &Request<'_>) -> bool {
        self.halves_bytes > 0 && request.range().is_none_or(|(offset, _)| offset < self.halves_bytes)
    }

    fn around<T>(&self, reads: bool, lone: bool, apart: bool, run: impl FnOnce() -> T) -> T {
        // Once the power has failed whoever comes here is cleaning up after that, and nobody else would come
        // through.
        turns::point();
        let due = if self.inner.power().is_on() && !apart { self.meanwhile.due(reads, lone) } else { None };
        let result = match due {
            Some(Planned { work, after: true, .. }) => {
                let result = run();
                work();
                result
            }
            Some(Planned { work, .. }) => {
                work();
                run()
            }
            None => run(),
        };
        turns::point();
        result
    }
}

impl Device for InterruptedDevice {
    fn capabilities(&self) -> Capabilities {
        self.inner.capabilities()
    }

    fn run(&self, batch: &mut [Request<'_>]) -> Vec<Result<(), DeviceError>> {
        let reads = batch.iter().any(|request| matches!(request, Request::Read { .. }));
        let apart = batch.iter().any(|request| self.may_be_of_area(request));
        self.around(reads, false, apart, || self.inner.run(batch))
    }

    fn run_one(&self, request: Request<'_>) -> Result<(), DeviceError> {
        let apart = self.may_be_of_area(&request);
        self.around(matches!(request, Request::Read { .. }), true, apart, || self.inner.run_one(request))
    }

    fn set_len(&self, len: u64) -> Result<(), DeviceError> {
        turns::point();
        self.inner.set_len(len)
    }

    fn zone_at(&self, offset: u64) -> Result<Zone, DeviceError> {
        turns::point();
        self.inner.zone_at(offset)
    }

    fn describe(&self) -> String {
        self.inner.describe()
    }
}
