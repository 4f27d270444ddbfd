//! The simulated host: everything that is in it, and the loop over its events.
//!
//! Whoever can wait is a *task*: the clients, then the checkpointer and the cleaner. A task runs until it has
//! to wait; what it waits for enters an event for it. Events of one moment happen in the order in which they
//! were entered, so one setup has one course.
//!
//! 1. Every request of a client is answered once, by one of pool, staging memory, flash and disk.
//! 2. A task waits for one thing at a time, and is woken once for it.

use mezzanine_device::model::{Operation, OperationKind};
use mezzanine_engine::{FlashPage, Job, PageId, StageKind, SyncMode, Tier};
use mezzanine_workload::Random;

use super::clock::Clock;
use super::counts::Counts;
use super::drive::{Drive, Look};
use super::jobs::{Running, Workers};
use super::log::Log;
use super::measure::Measure;
use super::pool::Pool;
use super::processor::Servers;
use super::setup::{Configuration, LogDevice, Refusal, Setup, Sizes, WarmUp};
use super::source::Source;
use super::task::Task;
use crate::hollow::Hollow;

/// The only process that uses the tier.
pub(super) const OWNER: u32 = 1;
/// File that the pages are of.
const FILE: u64 = 1;
/// Over how much time the host measures how busy its disk is, as volumes do.
const PACE_NS: u64 = 250_000_000;
/// A run in which nothing was requested for so many of these, beside what clients think, will never end.
const IDLE_PACES_MAX: u64 = 40_000;
/// Nobody thinks so many times as long as is usual.
const THINKING_MAX: f64 = 100.0;

/// What happens.
#[derive(Debug, Clone, Copy)]
pub(super) enum Event {
    /// What a task waited for is there.
    Task(u32),
    /// An operation of a drive is to be looked at.
    Look(Which, u32),
    /// Idle workers look for jobs.
    Workers,
    /// A log write of fixed duration is complete.
    LogWritten,
    /// The host says how busy its disk is, and looks whether the warm-up is over.
    Pace,
    /// A checkpoint is due.
    Checkpoint,
    /// Measuring begins.
    Measure,
    /// An interval of the time series ends.
    Interval,
}

/// A drive.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Which {
    Disk,
    Flash,
    Log,
}

/// Who waits for an operation of a drive.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Whose {
    Task(u32),
    Job(u32),
    /// The log's write.
    Log,
    /// The flush behind it.
    LogFlush,
}

/// The simulated host.
pub(super) struct World<'t> {
    pub(super) setup: &'t Setup,
    pub(super) clock: Clock<Event>,
    pub(super) source: Source,
    pub(super) pool: Pool,
    pub(super) tier: Option<&'t Tier>,
    pub(super) flash_contents: Option<Hollow>,
    /// A page of zeros, and where lookups copy pages to.
    pub(super) zeros: Vec<u8>,
    pub(super) page: Vec<u8>,
    pub(super) zeros_checksum: u32,
    pub(super) disk: Drive<Whose>,
    pub(super) flash: Drive<Whose>,
    pub(super) log_drive: Option<Drive<Whose>>,
    pub(super) processor: Servers,
    pub(super) log: Log,
    log_end: u64,
    pub(super) tasks: Vec<Task>,
    /// Of each client: what comes behind it in line for a page, when its transaction began, and whether that
    /// has written.
    pub(super) next_waiter: Vec<u32>,
    pub(super) began: Vec<u64>,
    pub(super) wrote: Vec<bool>,
    /// Of each client: the page of the tier that it reads, or read last.
    pub(super) read_from_flash: Vec<Option<FlashPage>>,
    pub(super) finished: u32,
    pub(super) running: Vec<Option<Running<'t>>>,
    pub(super) workers: Workers,
    /// Tasks that wait until a job is complete.
    pub(super) stalled: Vec<u32>,
    /// Tasks that wait until a frame of the pool is no longer pinned.
    pub(super) frame_waiters: Vec<u32>,
    /// The last checkpoint's mark.
    pub(super) mark: u64,
    pub(super) counts: Counts,
    pub(super) measure: Measure,
    pub(super) think: Random,
    pub(super) cpu_ns: u64,
    memory_bytes: u64,
    /// Share of the stroke that stands for the whole of it, see [`Setup::disk_span`].
    span: f64,
    paced: (u64, u64),
    idle_paces: u64,
    pub(super) over: bool,
}

impl<'t> World<'t> {
    /// A host that has just been started.
    pub(super) fn new(
        setup: &'t Setup,
        sizes: &Sizes,
        tier: Option<&'t Tier>,
        source: Source,
        flash_state: Option<Box<[u64]>>,
    ) -> Result<Self, Refusal> {
        if let Some(tier) = tier {
            // Pages that are pulled would have to be written to disk in mode `through`, and the tier does not
            // wait for that.
            tier.set_pulling(setup.pull && setup.sync_mode != SyncMode::Through);
        }
        let page_size = tier.map_or(4096, |tier| tier.geometry().page_size());
        let zeros = vec![0; page_size];
        let kinds = source.kinds().len();
        let clients = setup.clients as usize;
        let drive = |parameter, model, state| {
            Drive::new(model, state)
                .map_err(|error| Refusal::new(parameter, error.to_string(), "mend the model"))
        };
        let disk = drive("disk_model", &setup.disk_model, None)?;
        let database_bytes = u64::from(sizes.pages) * u64::from(setup.page_bytes);
        let natural = database_bytes.max(1) as f64 / disk.capacity() as f64;
        let mut tasks = vec![Task::Run; clients];
        tasks.extend([Task::NoCheckpoint, Task::CleanerIdle]);
        Ok(Self {
            setup,
            clock: Clock::new(),
            pool: Pool::new(setup.pool_policy, sizes.pool_frames, sizes.pages),
            flash_contents: sizes.geometry.as_ref().map(Hollow::new),
            tier,
            zeros_checksum: crc32c::crc32c(&zeros),
            page: zeros.clone(),
            zeros,
            disk,
            flash: drive("flash_model", &setup.flash_model, flash_state)?,
            log_drive: match &setup.log {
                LogDevice::Fixed { .. } => None,
                LogDevice::Device { model, .. } => Some(drive("log", model, None)?),
            },
            processor: Servers::new(setup.cores),
            log: Log::new(),
            log_end: 0,
            tasks,
            next_waiter: vec![super::pool::NONE; clients],
            began: vec![0; clients],
            wrote: vec![false; clients],
            read_from_flash: vec![None; clients],
            finished: 0,
            running: Vec::new(),
            workers: Workers::new(if tier.is_some() { setup.workers } else { 0 }),
            stalled: Vec::new(),
            frame_waiters: Vec::new(),
            mark: tier.map_or(0, |tier| tier.mark().number()),
            counts: Counts::new(kinds),
            measure: Measure::new(setup),
            think: Random::stream(setup.seed, &[0x71]),
            cpu_ns: (setup.cpu_us_per_request * 1e3) as u64,
            memory_bytes: sizes.bytes,
            span: setup.disk_span.map_or(1.0, |span| span / natural.min(1.0)),
            paced: (0, 0),
            idle_paces: 0,
            over: false,
            source,
        })
    }

    /// Runs until all that is to be measured was measured.
    pub(super) fn run(&mut self) -> Result<(), Refusal> {
        for client in 0..self.setup.clients {
            self.clock.enter(0, Event::Task(client));
        }
        self.clock.enter(PACE_NS, Event::Pace);
        if let WarmUp::Seconds(seconds) = self.setup.warm_up {
            self.clock.enter(nanoseconds(seconds), Event::Measure);
        }
        if self.setup.checkpoint_seconds > 0.0 {
            self.clock.enter(nanoseconds(self.setup.checkpoint_seconds), Event::Checkpoint);
        }
        while !self.over {
            let event = self.clock.next().expect("the host always measures how busy its disk is");
            self.happens(event)?;
        }
        Ok(())
    }

    fn happens(&mut self, event: Event) -> Result<(), Refusal> {
        match event {
            Event::Task(who) => self.go_on(who)?,
            Event::Look(which, operation) => self.look(which, operation)?,
            Event::Workers => self.workers_look(),
            Event::LogWritten => self.log_written(),
            Event::Pace => self.pace()?,
            Event::Checkpoint => self.checkpoint_due(),
            Event::Measure => self.begin_measuring(),
            Event::Interval => self.end_interval(),
        }
        Ok(())
    }

    /// Ends: what the flash drive keeps when it is switched off.
    pub(super) fn flash_state(self) -> Option<Box<[u64]>> {
        self.flash.switched_off()
    }

    /// Nanoseconds since the beginning.
    pub(super) fn now(&self) -> u64 {
        self.clock.now()
    }

    pub(super) fn wake(&mut self, who: u32) {
        self.clock.enter(self.clock.now(), Event::Task(who));
    }

    fn drive(&mut self, which: Which) -> &mut Drive<Whose> {
        match which {
            Which::Disk => &mut self.disk,
            Which::Flash => &mut self.flash,
            Which::Log => self.log_drive.as_mut().expect("only a log on a device has operations"),
        }
    }

    fn look(&mut self, which: Which, operation: u32) -> Result<(), Refusal> {
        let now = self.clock.now();
        match self.drive(which).look(now, operation) {
            Look::Again(at) => self.clock.enter(at, Event::Look(which, operation)),
            Look::Done(Whose::Task(who)) => self.go_on(who)?,
            Look::Done(Whose::Job(job)) => self.operation_done(job),
            Look::Done(Whose::Log) => match &self.setup.log {
                LogDevice::Device { model, .. } if model.volatile_cache => {
                    self.submit(Which::Log, OperationKind::Flush, 0, 0, Whose::LogFlush);
                }
                _ => self.log_written(),
            },
            Look::Done(Whose::LogFlush) => self.log_written(),
        }
        Ok(())
    }

    /// Enters an operation of a drive; whoever waits for it is told when it is complete.
    pub(super) fn submit(&mut self, which: Which, kind: OperationKind, address: u64, len: u64, whose: Whose) {
        self.submit_in(0, which, kind, address, len, whose);
    }

    /// The same, of a stream of the tier.
    pub(super) fn submit_in(
        &mut self,
        stream: u8,
        which: Which,
        kind: OperationKind,
        address: u64,
        len: u64,
        whose: Whose,
    ) {
        let now = self.clock.now();
        let span = if which == Which::Disk { self.span } else { 1.0 };
        let drive = self.drive(which);
        let operation = Operation { stream, ..drive.operation(kind, address, len, span) };
        let look = drive.submit(now, operation, whose);
        self.clock.enter(look.at, Event::Look(which, look.operation));
    }

    /// Where the database lies.
    pub(super) fn home(&self) -> Which {
        if self.setup.configuration == Configuration::Flash { Which::Flash } else { Which::Disk }
    }

    /// Reads or writes a page at its home.
    pub(super) fn submit_home(&mut self, kind: OperationKind, page: u32, whose: Whose) {
        let len = u64::from(self.setup.page_bytes);
        let place = match self.source.places() {
            Some(places) => places[page as usize],
            None => u64::from(page),
        };
        let which = self.home();
        // A trace's pages may have any number; what lies beyond the end begins anew.
        let pages = self.drive(which).capacity() / len;
        match kind {
            OperationKind::Write => self.counts.disk_pages_written += 1,
            OperationKind::Read => self.counts.disk_pages_read += 1,
            OperationKind::Flush | OperationKind::Discard | OperationKind::Reset | OperationKind::Finish => {}
        }
        self.submit(which, kind, place % pages * len, len, whose);
    }

    /// Begins a write of the log if somebody waits for one.
    pub(super) fn begin_log(&mut self) {
        let now = self.clock.now();
        let Some(commits) = self.log.begin(now) else { return };
        match &self.setup.log {
            LogDevice::Fixed { us } => {
                // Time passes in any case, or a run whose pages are all in the pool would never end.
                self.clock.enter(now + ((us * 1e3) as u64).max(1), Event::LogWritten);
            }
            LogDevice::Device { bytes, .. } => {
                let len = (bytes * commits).next_multiple_of(4096);
                let at = self.log_end;
                self.log_end += len;
                self.submit(Which::Log, OperationKind::Write, at, len, Whose::Log);
            }
        }
    }

    fn log_written(&mut self) {
        let now = self.clock.now();
        for who in self.log.written(now) {
            self.wake(who);
        }
        self.begin_log();
    }

    /// How a dirty page in a frame of the pool is staged in.
    pub(super) fn dirty_kind(&self, frame: u32) -> StageKind {
        StageKind::DirtySince(mezzanine_engine::Mark::from_number(self.pool.frame(frame).mark))
    }

    /// The tier's name of a page.
    pub(super) fn id(page: u32) -> PageId {
        PageId::volume(FILE, u64::from(page))
    }

    /// The next job of the tier. Whoever waits for room is woken if there is some now.
    pub(super) fn next_job(&mut self, flash_only: bool) -> Option<Job<'t>> {
        let tier = self.tier?;
        let before = tier.progress();
        let job = if flash_only { tier.next_flash_write(OWNER) } else { tier.next_job(OWNER) };
        if tier.progress() != before {
            self.wake_stalled();
        }
        job
    }

    pub(super) fn wake_stalled(&mut self) {
        for who in std::mem::take(&mut self.stalled) {
            self.wake(who);
        }
    }

    /// A frame of the pool is no longer pinned.
    pub(super) fn unpinned(&mut self) {
        for who in std::mem::take(&mut self.frame_waiters) {
            self.wake(who);
        }
    }

    fn pace(&mut self) -> Result<(), Refusal> {
        let now = self.clock.now();
        let (wait_before, requests_before) = self.paced;
        let requests = self.counts.reads.requests + self.counts.writes.requests;
        let waited = self.counts.disk_wait - wait_before;
        if let Some(tier) = self.tier {
            // Requests side by side count each, up to the whole time.
            tier.set_disk_utilisation((waited * 1000 / PACE_NS).min(1000) as u32);
        }
        self.idle_paces = if requests == requests_before { self.idle_paces + 1 } else { 0 };
        let thinking = (self.setup.think_us * 1e3 * THINKING_MAX) as u64 / PACE_NS;
        assert!(self.idle_paces < IDLE_PACES_MAX + thinking, "nobody has requested a page for a long time");
        self.paced = (self.counts.disk_wait, requests);
        if let Some(places) = self.source.places() {
            let bytes = self.memory_bytes + places.len() as u64 * super::setup::TRACE_BYTES_PER_PAGE;
            self.setup.check_memory(bytes)?;
        }
        if self.finished == self.setup.clients {
            self.trace_ended()?;
        }
        self.check_warm_up(now);
        self.workers.wake(&mut self.clock);
        self.clock.enter(now + PACE_NS, Event::Pace);
        Ok(())
    }
}

/// Seconds as ns.
pub(super) fn nanoseconds(seconds: f64) -> u64 {
    (seconds * 1e9) as u64
}

impl World<'_> {
    /// Checks the invariants of pool, tier and counts. For tests.
    ///
    /// # Panics
    /// If one does not hold.
    pub(super) fn check(&self) {
        self.pool.check();
        if let Some(tier) = self.tier {
            tier.check();
        }
        let all = self.counts.reads.plus(&self.counts.writes);
        assert_eq!(all.requests, all.pool + all.staging + all.flash + all.disk, "invariant 1");
        let under_way = self.tasks.iter().filter(|task| task.is_loading()).count() as u64;
        assert_eq!(
            self.counts.loaded,
            all.pool_misses() + under_way,
            "invariant 1: each page read serves one request"
        );
    }
}
