//! Carrying out the tier's jobs, in whatever process has reason to.

use mezzanine_device::{DeviceError, Request};
use mezzanine_engine::{Job, JobError, PageId, Tier};

use crate::host::{FlashIo, Host};
use crate::message::Refusal;

impl Host {
    /// Looks for a job and carries it out. False if there is nothing to do now.
    pub fn work(&self) -> bool {
        self.work_at(|tier| tier.next_job(tier.owner()))
    }

    /// The same for jobs that write to flash only, so that these never wait for a disk. Others must do the
    /// rest.
    pub fn write_flash(&self) -> bool {
        self.work_at(|tier| tier.next_flash_write(tier.owner()))
    }

    fn work_at(&self, next: impl for<'t> FnOnce(&'t Tier) -> Option<Job<'t>>) -> bool {
        let tier = self.tier();
        let before = tier.progress();
        let Some(mut job) = next(tier) else {
            // Frames may have left the queue while this process looked for a job: others wait for the room.
            let moved = self.cut_ring() || tier.progress() != before;
            if moved {
                self.server.progressed();
            }
            return moved;
        };
        let outcome = self.carry_out(&mut job);
        tier.complete(job, outcome);
        self.server.progressed();
        true
    }

    fn carry_out(&self, job: &mut Job<'_>) -> Result<(), JobError> {
        let io = match job {
            Job::WriteGroup(_) | Job::WriteSegment(_) => FlashIo::Write,
            Job::FlushFlash(_) => FlashIo::Sync,
            Job::ReadFront(_) => FlashIo::Read,
            Job::WriteDisk(job) => {
                let pages: Vec<(PageId, &[u8])> = job.pages().collect();
                return if self.server.write_pages(&pages) { Ok(()) } else { Err(JobError) };
            }
            Job::SyncDisk(_) => return if self.sync_disk() { Ok(()) } else { Err(JobError) },
            // Never asked for: `Tier::set_pulling` is not called.
            Job::PullPages(_) => return Ok(()),
        };
        self.server.flash_begins(io);
        let done = self.run_on_flash(job);
        self.server.flash_ended(io);
        done.map_err(|error| {
            self.server.flash_failed(&error.to_string());
            JobError
        })
    }

    fn run_on_flash(&self, job: &mut Job<'_>) -> Result<(), DeviceError> {
        let flash = &self.flash;
        match job {
            Job::WriteGroup(job) => {
                let mut writes: Vec<Request<'_>> =
                    job.writes().map(|(offset, buf)| Request::Write { offset, buf }).collect();
                flash.run(&mut writes).into_iter().collect()
            }
            Job::WriteSegment(job) => {
                let (offset, buf) = job.write();
                flash.write_at(buf, offset)
            }
            Job::FlushFlash(_) => flash.flush(),
            Job::ReadFront(job) => {
                let mut reads: Vec<Request<'_>> =
                    job.reads().into_iter().map(|(offset, buf)| Request::Read { offset, buf }).collect();
                flash.run(&mut reads).into_iter().collect()
            }
            Job::WriteDisk(_) | Job::SyncDisk(_) | Job::PullPages(_) => unreachable!("not a job on flash"),
        }
    }

    /// Carries out a job if this process may.
    pub(crate) fn help(&self) -> bool {
        self.server.may_work() && self.work()
    }

    /// Works, or waits for others to, until `done` says so.
    ///
    /// # Errors
    /// If a device has failed so that it can never be done.
    pub(crate) fn work_until(&self, mut done: impl FnMut() -> bool) -> Result<(), Refusal> {
        let tier = self.tier();
        loop {
            if done() {
                return Ok(());
            }
            if let Some(failure) = tier.failure() {
                return Err(self.failed(failure));
            }
            let seen = tier.progress();
            if !self.help() && !done() {
                self.server.wait(seen);
            }
        }
    }

    /// What is said of a failed device.
    pub(crate) fn failed(&self, failure: mezzanine_engine::Failure) -> Refusal {
        Refusal::new(format!("the flash tier on \"{}\" has failed: {failure}", self.flash_path().display()))
            .hint("See the messages before this one, and the kernel's log.")
    }
}
