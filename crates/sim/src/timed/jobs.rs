//! The tier's jobs, carried out by the host's workers and by tasks that find staging memory full.
//!
//! Each I/O of a job goes to a modelled drive, so many at once; the job is handed back when the last is
//! complete.

use mezzanine_device::model::OperationKind;
use mezzanine_engine::{Job, Tier};

use super::clock::Clock;
use super::world::{Event, Which, Whose, World};

/// A job that is being carried out.
pub(super) struct Running<'t> {
    job: Job<'t>,
    operations: Vec<Step>,
    /// Operations that were entered, and those of them that are not complete.
    entered: usize,
    under_way: u32,
    by: By,
}

/// An operation of a job.
#[derive(Debug, Clone, Copy)]
enum Step {
    Flash(OperationKind, u64, u64),
    WriteHome(u32),
    SyncDisk,
}

/// Who carries a job out.
#[derive(Debug, Clone, Copy)]
enum By {
    Worker(u32),
    Task(u32),
}

/// The host's threads for jobs.
pub(super) struct Workers {
    count: u32,
    idle: Vec<u32>,
    /// An event for the idle ones is entered.
    woken: bool,
    /// How often, one time after the other, the idle ones have found nothing to do and left the tier as it
    /// was, and what [`Tier::work`] was then.
    fruitless: u32,
    work: u64,
}

/// After so many looks that changed nothing the next one would not either, until something happens to the
/// tier.
const FRUITLESS_MAX: u32 = 2;

impl Workers {
    pub(super) fn new(count: u32) -> Self {
        Self { count, idle: (0..count).collect(), woken: false, fruitless: 0, work: 0 }
    }

    /// A page was staged in, and nothing else happened; most pages leave no work behind.
    pub(super) fn page_staged(&mut self, clock: &mut Clock<Event>, work: u64) {
        if self.fruitless < FRUITLESS_MAX || self.work != work {
            self.enter(clock);
        }
    }

    /// There may be work for those that are idle.
    pub(super) fn wake(&mut self, clock: &mut Clock<Event>) {
        self.fruitless = 0;
        self.enter(clock);
    }

    /// They have looked; `fruitless` if nothing came of it.
    fn looked(&mut self, fruitless: bool, work: u64) {
        let again = fruitless && self.work == work;
        self.fruitless = if again { self.fruitless + 1 } else { fruitless.into() };
        self.work = work;
    }

    fn enter(&mut self, clock: &mut Clock<Event>) {
        if !self.woken && !self.idle.is_empty() {
            self.woken = true;
            clock.enter(clock.now(), Event::Workers);
        }
    }
}

impl<'t> World<'t> {
    /// Idle workers look for jobs.
    pub(super) fn workers_look(&mut self) {
        self.workers.woken = false;
        let Some(tier) = self.tier else { return };
        let (before, mut fruitless) = (tier.progress(), true);
        let mut idle = std::mem::take(&mut self.workers.idle);
        idle.sort_unstable();
        for worker in idle {
            // Of several, one never lets staging memory wait for a disk.
            let flash_only = worker == 0 && self.workers.count > 1;
            loop {
                let Some(job) = self.next_job(flash_only) else {
                    self.workers.idle.push(worker);
                    break;
                };
                fruitless = false;
                if !self.begin_job(job, By::Worker(worker)) {
                    break;
                }
            }
        }
        self.workers.looked(fruitless && tier.progress() == before, tier.work());
    }

    /// A task has found no room in the tier: it carries out a job, or waits for those of others. True if it
    /// may try again at once.
    pub(super) fn work_or_wait(&mut self, who: u32) -> bool {
        // Whatever comes of it, there may be something else to do afterwards.
        self.workers.fruitless = 0;
        let progress = |world: &Self| world.tier.map(Tier::progress);
        let before = progress(self);
        match self.next_job(false) {
            Some(job) => {
                self.counts.foreground_jobs += 1;
                self.begin_job(job, By::Task(who))
            }
            // Looking for one has made room.
            None if progress(self) != before => true,
            None => {
                self.counts.waits_for_room += 1;
                self.stalled.push(who);
                false
            }
        }
    }

    /// Begins a job; true if it is complete already.
    fn begin_job(&mut self, mut job: Job<'t>, by: By) -> bool {
        let operations = self.operations_of(&mut job);
        if let Job::PullPages(pull) = &job {
            self.give_pages(pull.pages());
        }
        let running = Running { job, operations, entered: 0, under_way: 0, by };
        if running.operations.is_empty() {
            self.complete(running);
            return true;
        }
        let number = match self.running.iter().position(Option::is_none) {
            Some(number) => {
                self.running[number] = Some(running);
                number
            }
            None => {
                self.running.push(Some(running));
                self.running.len() - 1
            }
        };
        self.enter_operations(number as u32);
        false
    }

    /// What a job asks of the drives. What it writes to flash is there from now on, and what it reads is
    /// read: nobody asks flash for a page whose job is not complete.
    fn operations_of(&mut self, job: &mut Job<'t>) -> Vec<Step> {
        // The queue may begin in conventional zones, where there is nothing to reset.
        let (zones, factor) = (self.flash.zones(), self.on_flash(1, 0).0);
        let is_reset = |zone: &u64| zones.is_none_or(|zones| zones.is_sequential(zone * factor));
        let contents = self.flash_contents.as_mut().expect("a tier has flash");
        match job {
            Job::WriteGroup(group) => {
                let resets = group.resets().filter(is_reset);
                let resets = resets.map(|zone| Step::Flash(OperationKind::Reset, zone, 0));
                let writes = group.writes().map(|(offset, bytes)| {
                    contents.write(offset, bytes);
                    Step::Flash(OperationKind::Write, offset, bytes.len() as u64)
                });
                resets.chain(writes).collect()
            }
            Job::ReadFront(front) => front
                .reads()
                .into_iter()
                .map(|(offset, bytes)| {
                    contents.read(offset, bytes);
                    Step::Flash(OperationKind::Read, offset, bytes.len() as u64)
                })
                .collect(),
            Job::WriteSegment(segment) => {
                let (offset, bytes) = segment.write();
                vec![Step::Flash(OperationKind::Write, offset, bytes.len() as u64)]
            }
            Job::FlushFlash(_) if self.setup.flash_flushes => vec![Step::Flash(OperationKind::Flush, 0, 0)],
            Job::FlushFlash(_) | Job::PullPages(_) => Vec::new(),
            Job::WriteDisk(write) => {
                write.pages().map(|(id, _)| Step::WriteHome(id.block() as u32)).collect()
            }
            Job::SyncDisk(_) => vec![Step::SyncDisk],
        }
    }

    /// Address and length on the flash device: the engine's pages are the smallest, the device's are the
    /// database's.
    pub(super) fn on_flash(&self, offset: u64, len: u64) -> (u64, u64) {
        let factor = u64::from(self.setup.page_bytes) / self.zeros.len() as u64;
        (offset * factor, len * factor)
    }

    /// Enters operations of a job, as many as may be under way at once.
    fn enter_operations(&mut self, number: u32) {
        loop {
            let depth = self.setup.job_depth;
            let Some(running) = &mut self.running[number as usize] else { return };
            if running.under_way == depth || running.entered == running.operations.len() {
                return;
            }
            let step = running.operations[running.entered];
            running.entered += 1;
            running.under_way += 1;
            let whose = Whose::Job(number);
            match step {
                Step::Flash(kind, offset, len) => {
                    let stream = self.tier.map_or(0, |tier| tier.geometry().stream_at(offset));
                    let (at, len) = self.on_flash(offset, len);
                    self.submit_in(stream, Which::Flash, kind, at, len, whose);
                }
                Step::WriteHome(page) => {
                    self.counts.disk_pages_staged_out += 1;
                    self.submit_home(OperationKind::Write, page, whose);
                }
                Step::SyncDisk => self.submit(Which::Disk, OperationKind::Flush, 0, 0, whose),
            }
        }
    }

    /// An operation of a job is complete.
    pub(super) fn operation_done(&mut self, number: u32) {
        let running = self.running[number as usize].as_mut().expect("its operation was under way");
        running.under_way -= 1;
        if running.under_way > 0 || running.entered < running.operations.len() {
            self.enter_operations(number);
        } else if let Some(running) = self.running[number as usize].take() {
            self.complete(running);
        }
    }

    /// Hands a job back.
    fn complete(&mut self, running: Running<'t>) {
        let tier = self.tier.expect("a job is a tier's");
        tier.complete(running.job, Ok(()));
        match running.by {
            // Whoever began it at once goes on by himself.
            By::Worker(_) | By::Task(_) if running.operations.is_empty() => {}
            By::Worker(worker) => self.workers.idle.push(worker),
            By::Task(who) => self.wake(who),
        }
        self.wake_stalled();
        self.workers.wake(&mut self.clock);
    }
}
