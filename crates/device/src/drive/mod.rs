//! Modelled drives in real time.
//!
//! A [`Drive`] is a timing model with its state in memory that processes share. Devices, usually files, are
//! attached to it; their bytes go where they always go, and every operation is held back until the model says
//! that it is complete. So a killed process loses exactly what it would lose on the real drive: nothing that
//! had completed.
//!
//! What is not modelled: a failing machine. A flush waits as long as the model says and does not force the
//! attached file to the machine's own disk, unless [`Attachment::pass_flush`] asks for it.
//!
//! *Time scale.* All of a drive's times are multiplied by its time scale, which can be changed while it runs
//! and holds for all processes. 0 means no delay at all and no statistics, for loading.

mod clock;

mod region;

mod statistics;

mod powered;

mod ahead;

use std::ops::Range;
use std::path::Path;
use std::sync::Arc;

pub use clock::ModelClock;
pub use powered::{LosesPower, ModelledContents, PoweredDrive};
pub use statistics::Statistics;

use crate::model::{Full, Model, Operation, OperationKind, Progress, Submitted, Ticket, Timing};
use crate::{Capabilities, Device, DeviceError, ReadsAhead, Request, Zone};
use region::{Guard, Region};

/// Callers look at least this often whether the time scale has changed.
const LOOK_NS: u64 = 50_000_000;

/// A modelled drive, possibly shared with other processes.
pub struct Drive {
    model: Model,
    timing: Arc<dyn Timing>,
    region: Region,
}

/// How a device lies on a drive.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Attachment {
    /// Where on the drive the device's first byte lies. Addresses beyond the capacity start again at 0.
    pub base_offset: u64,
    /// How far the device is spread over the platters of a disk: seek distances are multiplied by this, as
    /// if it were that many times larger. So that a small database seeks as a large one would. 1 = as it
    /// is.
    pub spread: f64,
    /// Which share of the platters it keeps to, from the outside: positions beyond begin again at the first.
    /// So that a small database seeks as far as a large one that does not fill the disk. 1 = the whole
    /// disk.
    pub span: f64,
    /// Pass flushes on to the device, so that they hold even when this machine fails. They then take at
    /// least as long as the machine's own disk needs.
    pub pass_flush: bool,
}

impl Default for Attachment {
    fn default() -> Self {
        Self { base_offset: 0, spread: 1.0, span: 1.0, pass_flush: false }
    }
}

impl Drive {
    /// Opens a drive whose state lies in the file at `state`, together with everyone who opens the same file,
    /// or, without a file, in memory shared with children of this process. The first to open it sets the
    /// time scale.
    ///
    /// # Errors
    /// `InvalidState` if the file is in use for another model; `Unsupported` for a model whose times another
    /// crate computes; the errors of opening and mapping the file.
    pub fn open_shared(
        model: Model,
        state: Option<&Path>,
        time_scale: f64,
    ) -> Result<Arc<Self>, DeviceError> {
        let (timing, fingerprint) = (model.timing()?, model.fingerprint());
        Self::open_with(model, timing, fingerprint, state, time_scale)
    }

    /// [`Self::open_shared`] with a mechanism of another crate in the place of the one that the model has.
    /// The model says how large the drive is and whether its cache is volatile; `fingerprint` tells the
    /// states of mechanisms apart.
    ///
    /// # Errors
    /// As of [`Self::open_shared`].
    pub fn open_with(
        model: Model,
        timing: Arc<dyn Timing>,
        fingerprint: u64,
        state: Option<&Path>,
        time_scale: f64,
    ) -> Result<Arc<Self>, DeviceError> {
        let clock = ModelClock::starting(time_scale);
        let words = timing.state_words();
        let region = match state {
            Some(path) => Region::in_file(path, fingerprint, clock, words)?,
            None => Region::anonymous(fingerprint, clock, words)?,
        };
        Ok(Arc::new(Self { model, timing, region }))
    }

    /// The model.
    pub fn model(&self) -> &Model {
        &self.model
    }

    /// Puts a device on the drive at `base_offset`.
    pub fn attach(self: &Arc<Self>, inner: Arc<dyn Device>, base_offset: u64) -> Arc<dyn Device> {
        self.attach_as(inner, Attachment { base_offset, ..Attachment::default() })
    }

    /// Puts a device on the drive.
    pub fn attach_as(self: &Arc<Self>, inner: Arc<dyn Device>, attachment: Attachment) -> Arc<dyn Device> {
        Arc::new(Attached { drive: Arc::clone(self), inner, attachment })
    }

    /// The [`Attachment::spread`] with which a device of `len` bytes covers this share of the drive; at least
    /// 1.
    pub fn spread_to_cover(&self, len: u64, share: f64) -> f64 {
        (share * self.model.capacity_bytes as f64 / len.max(1) as f64).max(1.0)
    }

    /// How many times slower than real time the drive is; 0 = no delay.
    pub fn time_scale(&self) -> f64 {
        self.lock().clock.scale()
    }

    /// Changes the time scale for all users from now on; whoever is being held back notices within 50 ms. A
    /// scale that is negative or not a number counts as 0.
    pub fn set_time_scale(&self, time_scale: f64) {
        self.lock().clock.set_scale(time_scale);
    }

    /// What all users together have done since the drive was first opened.
    pub fn statistics(&self) -> Statistics {
        let body = self.lock();
        body.counters.statistics(body.clock.now(), self.timing.busy(body.state()), self.timing.servers())
    }

    fn lock(&self) -> Guard<'_> {
        let (mut body, holder_died) = self.region.lock();
        if holder_died {
            let now = body.clock.now();
            self.timing.repair(body.parts().1, now);
        }
        if body.counters.began_at == 0 {
            body.counters.began_at = body.clock.now();
        }
        body
    }

    /// Enters operations that arrive together; `None` if there is no delay now.
    fn enter(&self, operations: impl Iterator<Item = Operation>) -> Option<Pending> {
        let mut body = self.lock();
        if body.clock.scale() == 0.0 {
            return None;
        }
        let now = body.clock.now();
        let mut pending = Pending { waiting: Vec::new(), known: now, awaited: 0 };
        pending.waiting.extend(operations.map(|operation| Waiting { operation, entered: now, ticket: None }));
        self.look(&mut body, now, &mut pending, false);
        Some(pending)
    }

    /// Enters what had no room before, and asks for the completion of the rest unless it was only just
    /// entered: whatever else arrives now should have its chance. Returns when to look again; completions
    /// that are known are taken out.
    fn look(&self, body: &mut Guard<'_>, now: u64, pending: &mut Pending, ask: bool) -> u64 {
        let (mut later, mut retry): (Option<u64>, u64) = (None, u64::MAX);
        let (body, state) = body.parts();
        pending.waiting.retain_mut(|waiting| {
            let Operation { kind, len, .. } = waiting.operation;
            if waiting.ticket.is_none() {
                match self.timing.submit(state, now, waiting.operation) {
                    Ok(Submitted { sequential, ticket }) => {
                        body.counters.entered(kind, len, sequential);
                        waiting.ticket = Some(ticket);
                    }
                    Err(Full { not_before }) => {
                        retry = retry.min(not_before);
                        return true;
                    }
                }
            }
            let Some(ticket) = &mut waiting.ticket else { return true };
            if !ask && !ticket.is_known() {
                return true;
            }
            match self.timing.progress(state, now, ticket) {
                Progress::At(at) => {
                    body.counters.completed(kind, at.saturating_sub(waiting.entered));
                    pending.known = pending.known.max(at);
                    false
                }
                Progress::NotBefore(at) => {
                    later = later.max(Some(at));
                    true
                }
            }
        });
        later.unwrap_or(u64::MAX).min(retry)
    }

    /// [`Self::wait`] for what was entered some time ago, while nobody waited.
    fn wait_from_now(&self, pending: Pending) {
        let awaited = self.lock().clock.now();
        self.wait(Pending { awaited, ..pending });
    }

    /// Holds the caller back until everything it entered is complete.
    fn wait(&self, mut pending: Pending) {
        loop {
            let mut body = self.lock();
            let now = body.clock.now();
            if body.clock.scale() == 0.0 {
                return;
            }
            let again = self.look(&mut body, now, &mut pending, true);
            let model_deadline = if pending.waiting.is_empty() { pending.known } else { again };
            if pending.waiting.is_empty() && now >= pending.known {
                let due = pending.known.max(pending.awaited);
                body.counters.late_ns = body.counters.late_ns.wrapping_add(now.saturating_sub(due));
                return;
            }
            let real_deadline = body.clock.real_at(model_deadline);
            drop(body);
            clock::wait_until(real_deadline.min(clock::monotonic_ns() + LOOK_NS));
        }
    }
}

/// Operations of one caller under way.
struct Pending {
    waiting: Vec<Waiting>,
    /// The latest completion known so far, in model time.
    known: u64,
    /// From when on somebody waits for them: nobody is let go too late before.
    awaited: u64,
}

struct Waiting {
    operation: Operation,
    entered: u64,
    /// `None` while the drive has no room for it.
    ticket: Option<Ticket>,
}

/// A device on a drive.
struct Attached {
    drive: Arc<Drive>,
    inner: Arc<dyn Device>,
    attachment: Attachment,
}

impl Attached {
    /// Bytes of the device as an operation of the drive.
    fn placed(&self, kind: OperationKind, offset: u64, len: u64) -> Operation {
        let timing = &self.drive.timing;
        let Attachment { base_offset, spread, span, .. } = self.attachment;
        let mut operation = timing.operation(kind, base_offset.wrapping_add(offset), len);
        if spread != 1.0 || span != 1.0 {
            let stroke = timing.capacity() as f64 * span;
            let base = (base_offset % timing.capacity()) as f64;
            operation.position = ((base + offset as f64 * spread) / stroke).fract().abs() * span;
        }
        operation
    }

    /// What a request is to the drive.
    fn operation(&self, request: &Request<'_>) -> Option<Operation> {
        let kind = match request {
            Request::Read { .. } => OperationKind::Read,
            Request::Write { .. } | Request::WriteThrough { .. } | Request::Append { .. } => {
                OperationKind::Write
            }
            Request::Reset { .. } => OperationKind::Reset,
            Request::Finish { .. } => OperationKind::Finish,
            Request::Flush => return Some(Operation::FLUSH),
            Request::Discard { .. } => OperationKind::Discard,
        };
        let (offset, len) = request.range()?;
        let mut operation = self.placed(kind, offset, len);
        operation.through = matches!(request, Request::WriteThrough { .. });
        if let Request::Write { stream, .. } = request {
            operation.stream = *stream;
        }
        Some(operation)
    }

    fn count_discards(&self, batch: &[Request<'_>]) {
        let discards = batch.iter().filter(|request| matches!(request, Request::Discard { .. })).count();
        if discards > 0 {
            let mut body = self.drive.lock();
            body.counters.discards = body.counters.discards.wrapping_add(discards as u64);
        }
    }

    /// Carries out the requests on the device itself, flushes only where they are passed on.
    fn run_inner(&self, batch: &mut [Request<'_>]) -> Vec<Result<(), DeviceError>> {
        let is_flush = |request: &Request<'_>| matches!(request, Request::Flush);
        if self.attachment.pass_flush || !batch.iter().any(is_flush) {
            return self.inner.run(batch);
        }
        let mut results: Vec<Result<(), DeviceError>> = batch.iter().map(|_| Ok(())).collect();
        let (mut places, mut others) = (Vec::new(), Vec::new());
        for (index, request) in batch.iter_mut().enumerate().filter(|(_, request)| !is_flush(request)) {
            places.push(index);
            others.push(std::mem::replace(request, Request::Flush));
        }
        let outcomes = if others.is_empty() { Vec::new() } else { self.inner.run(&mut others) };
        for ((index, request), outcome) in places.into_iter().zip(others).zip(outcomes) {
            batch[index] = request;
            results[index] = outcome;
        }
        results
    }
}

impl Device for Attached {
    fn reads_ahead(self: Arc<Self>, places: usize, bytes: usize) -> Result<Box<dyn ReadsAhead>, DeviceError> {
        Ok(Box::new(ahead::DriveAhead::new(self, places, bytes)))
    }

    fn capabilities(&self) -> Capabilities {
        let volatile_cache = self.drive.model.volatile_cache;
        Capabilities { volatile_cache, ..self.inner.capabilities() }
    }

    fn run(&self, batch: &mut [Request<'_>]) -> Vec<Result<(), DeviceError>> {
        let pending = self.drive.enter(batch.iter().filter_map(|request| self.operation(request)));
        self.count_discards(batch);
        let results = self.run_inner(batch);
        if let Some(pending) = pending {
            self.drive.wait(pending);
        }
        results
    }

    fn run_one(&self, request: Request<'_>) -> Result<(), DeviceError> {
        let pending = self.drive.enter(self.operation(&request).into_iter());
        let result = match request {
            Request::Flush if !self.attachment.pass_flush => Ok(()),
            request => {
                self.count_discards(std::slice::from_ref(&request));
                self.inner.run_one(request)
            }
        };
        if let Some(pending) = pending {
            self.drive.wait(pending);
        }
        result
    }

    fn set_len(&self, len: u64) -> Result<(), DeviceError> {
        self.inner.set_len(len)
    }

    fn reserve(&self, len: u64) -> Result<(), DeviceError> {
        self.inner.reserve(len)
    }

    fn data_from(&self, offset: u64) -> Result<Option<Range<u64>>, DeviceError> {
        self.inner.data_from(offset)
    }

    fn flush_apart(&self) -> Result<(), DeviceError> {
        self.inner.flush_apart()
    }

    fn zone_at(&self, offset: u64) -> Result<Zone, DeviceError> {
        self.inner.zone_at(offset)
    }

    fn describe(&self) -> String {
        format!("{} on a modelled {}", self.inner.describe(), self.drive.model.title)
    }

    fn len(&self) -> u64 {
        self.inner.len()
    }
}
