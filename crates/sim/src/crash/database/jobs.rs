//! The tier's jobs, carried out by several processes in any order and at any pace.

use mezzanine_device::zones::{ZoneBegun, reset_and_write};
use mezzanine_device::{Device, Request};
use mezzanine_engine::{Job, JobError, StageIn, StageKind};

use super::pool::Buffer;
use super::server::Server;
use crate::crash::driver::{Failing, Invariant, Stop};

/// The process that owns the region.
pub(super) const SERVER: u32 = 1;

/// The first of the processes that carry out jobs.
const FIRST_WORKER: u32 = 2;

/// After so many jobs in a row without anything else something is wrong.
const JOBS_IN_A_ROW_MAX: u32 = 10_000;

/// A job in somebody's hands.
pub(super) struct UnderWay<'t> {
    owner: u32,
    pub(super) job: Job<'t>,
    /// Its I/O is done.
    pub(super) carried_out: bool,
}

impl Server<'_> {
    /// Takes one job a part of its way, or what only the host can do for the tier. False if there is nothing.
    pub(super) fn work(&mut self) -> Result<bool, Stop> {
        if self.tier.resize_waits() {
            self.finish_resize()?;
            return Ok(true);
        }
        let scenario = &self.world.scenario;
        let (jobs_max, owners, patience) = (scenario.jobs_max, scenario.owners, scenario.patience);
        let under_way = self.jobs.len();
        if under_way == 0 || (under_way < jobs_max && self.world.life.random.chance(1, 2)) {
            let owner = FIRST_WORKER + self.world.life.random.below(owners.into()) as u32;
            let before = self.tier.progress();
            if let Some(job) = self.tier.next_job(owner) {
                self.jobs.push(UnderWay { owner, job, carried_out: false });
                if !self.world.life.random.chance(patience, 16) {
                    self.go_on(under_way)?;
                }
                return Ok(true);
            }
            if under_way == 0 {
                // Looking for a job may have taken the rear to where the ring is to be cut; or made room,
                // where a page leaves without a word to flash.
                let made_room =
                    self.tier.geometry().config().design.has_slots() && self.tier.progress() != before;
                return Ok(made_room || self.tier.resize_waits());
            }
        }
        let which = self.world.life.random.below(under_way as u64) as usize;
        self.go_on(which)?;
        Ok(true)
    }

    /// Takes the job with this number further.
    fn go_on(&mut self, which: usize) -> Result<(), Stop> {
        if let Job::PullPages(job) = &self.jobs[which].job {
            let pages = job.pages();
            let pull = self.jobs.swap_remove(which);
            self.give_pages(pages)?;
            self.tier.complete(pull.job, Ok(()));
            return Ok(());
        }
        if !self.jobs[which].carried_out {
            if let Err(stop) = self.carry_out(which) {
                let failed = self.jobs.swap_remove(which);
                if matches!(stop, Stop::DeviceFailed) {
                    let reads = matches!(failed.job, Job::ReadFront(_));
                    self.tier.complete(failed.job, Err(JobError));
                    if reads && self.tier.failure().is_none() && self.world.reads_again(Failing::Flash) {
                        return Ok(());
                    }
                    assert!(self.tier.failure().is_some(), "a failed job is remembered");
                }
                return Err(stop);
            }
            self.jobs[which].carried_out = true;
            if self.world.life.random.chance(self.world.scenario.patience, 16) {
                return Ok(());
            }
        }
        let done = self.jobs.swap_remove(which);
        self.tier.complete(done.job, Ok(()));
        Ok(())
    }

    pub(super) fn carry_out(&mut self, which: usize) -> Result<(), Stop> {
        let machine = &self.world.machine;
        let (flash, disk) = (&machine.flash, &machine.disk);
        let page_bytes = self.world.scenario.page_bytes() as u64;
        let (scenario, space) = (&self.world.scenario, self.world.scenario.space);
        let geometry = self.tier.geometry();
        let in_stream = |(offset, buf)| Request::write_in(geometry.stream_at(offset), buf, offset);
        let results = match &mut self.jobs[which].job {
            Job::WriteGroup(job) if scenario.zones.is_some() => {
                let begun = job.zones_begun().map(|(zone, left)| ZoneBegun { zone, left });
                vec![reset_and_write(&**flash, begun, job.writes())]
            }
            Job::WriteGroup(job) => {
                let mut writes: Vec<_> = job.writes().map(in_stream).collect();
                flash.run(&mut writes)
            }
            Job::WriteSegment(job) => vec![flash.run_one(in_stream(job.write()))],
            Job::FlushFlash(_) => vec![flash.flush()],
            Job::ReadFront(job) => {
                let mut reads: Vec<_> =
                    job.reads().into_iter().map(|(offset, buf)| Request::Read { offset, buf }).collect();
                flash.run(&mut reads)
            }
            Job::WriteDisk(job) => {
                let mut writes = Vec::new();
                for (id, buf) in job.pages() {
                    let Some(place) = space.place(&id) else {
                        let text = format!("a page of nobody goes to disk: {id:?}");
                        return Err(Stop::violated(Invariant::Versions, text));
                    };
                    writes.push(Request::write(buf, u64::from(place) * page_bytes));
                }
                disk.run(&mut writes)
            }
            Job::SyncDisk(_) => vec![disk.flush()],
            Job::PullPages(_) => vec![Ok(())],
        };
        let result = results.into_iter().collect::<Result<(), _>>();
        let on_disk = matches!(self.jobs[which].job, Job::WriteDisk(_) | Job::SyncDisk(_));
        let operation = if on_disk { "carry out a job of the disk" } else { "carry out a job of flash" };
        self.world.done(operation, result)
    }

    /// Stages in up to `pages` pages that would leave the pool next. They stay in it, clean.
    fn give_pages(&mut self, pages: u64) -> Result<(), Stop> {
        for buffer in self.pool.tail(pages as usize) {
            if !buffer.dirty {
                self.offer(buffer)?;
            } else if !self.give_dirty(buffer)? {
                return Ok(());
            }
            self.world.life.coverage.pages_pulled += 1;
        }
        Ok(())
    }

    fn give_dirty(&mut self, buffer: Buffer) -> Result<bool, Stop> {
        let forced = self.world.machine.log.force(buffer.lsn);
        self.world.done("force the log", forced)?;
        let id = self.world.scenario.space.id(buffer.place);
        let page = self.world.page_of(buffer.place, buffer.version);
        let kind = if buffer.before_mark { StageKind::DirtyBeforeMark } else { StageKind::Dirty };
        let staged = self.tier.stage_in(&id, &page, kind, buffer.lsn);
        let also_disk = match staged {
            StageIn::Staged { also_disk: true } => self.write_disk(buffer.place, &page),
            _ => Ok(()),
        };
        self.world.leaving = page;
        also_disk?;
        let taken = matches!(staged, StageIn::Staged { .. });
        if taken {
            self.pool.cleaned(buffer.place);
        }
        Ok(taken)
    }

    /// Works because someone waits for `what`; there must be something to do.
    pub(super) fn work_for(&mut self, what: &str) -> Result<(), Stop> {
        self.world.waits += 1;
        if self.world.waits > JOBS_IN_A_ROW_MAX {
            let text = format!("after {JOBS_IN_A_ROW_MAX} jobs there is still no {what}");
            return Err(Stop::violated(Invariant::Assertion, text));
        }
        if self.work()? {
            return Ok(());
        }
        Err(Stop::violated(Invariant::Assertion, format!("no job is left, and still no {what}")))
    }

    /// Works until there is nothing to do.
    pub(super) fn settle(&mut self) -> Result<(), Stop> {
        for _ in 0..JOBS_IN_A_ROW_MAX {
            if !self.work()? {
                return Ok(());
            }
        }
        Err(Stop::violated(Invariant::Assertion, "jobs follow jobs without end"))
    }

    /// A process takes a job and dies, with the I/O done or not; the job is to be done again. Nothing if
    /// there is no job.
    pub(super) fn job_outlives_owner(&mut self, owner: u32, done: bool) -> Result<(), Stop> {
        let Some(job) = self.tier.next_job(owner) else { return Ok(()) };
        self.jobs.push(UnderWay { owner, job, carried_out: false });
        let carried_out = if done { self.carry_out(self.jobs.len() - 1) } else { Ok(()) };
        self.jobs.retain(|job| job.owner != owner);
        carried_out?;
        self.abandon(owner)
    }

    /// A process that carries out jobs dies, with its jobs at any stage; another will do them again.
    pub(super) fn worker_dies(&mut self) -> Result<(), Stop> {
        let owner = FIRST_WORKER + self.world.life.random.below(self.world.scenario.owners.into()) as u32;
        self.jobs.retain(|job| job.owner != owner);
        self.abandon(owner)
    }

    fn abandon(&mut self, owner: u32) -> Result<(), Stop> {
        self.world.life.coverage.owners_killed += 1;
        match self.tier.abandon(owner) {
            Ok(()) => Ok(()),
            Err(poisoned) => Err(Stop::violated(Invariant::Assertion, poisoned.to_string())),
        }
    }
}
