//! Carrying out the tier's jobs, in whatever process has reason to.

use mezzanine_device::zones::{ZoneBegun, reset_and_write};
use mezzanine_device::{DeviceError, Request};
use mezzanine_engine::planted::{self, Bug};
use mezzanine_engine::{Job, JobError, PageId, Tier};

use crate::host::{FlashIo, Host};
use crate::message::Refusal;

/// How often who waits for room has stage-out try again what disk refuses.
const ATTEMPTS_MAX: u32 = 2;

/// How often who cannot do without room does. Half of the tier may be moved on each time: after two all that
/// disk takes has left, and others may have taken that room.
const ATTEMPTS_AT_ANY_COST_MAX: u32 = 4;

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
                let refused = self.server.write_pages(&pages);
                if !refused.is_empty() && planted::is(Bug::RefusedEndsServer) {
                    return Err(JobError);
                }
                refused.iter().for_each(|page| job.refuse(page));
                return Ok(());
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
        let (flash, geometry) = (&self.flash, self.tier().geometry());
        let in_stream = |(offset, buf)| Request::write_in(geometry.stream_at(offset), buf, offset);
        match job {
            Job::WriteGroup(job) if geometry.zones().is_some() => {
                let begun = job.zones_begun().map(|(zone, left)| ZoneBegun { zone, left });
                reset_and_write(&**flash, begun, job.writes())
            }
            Job::WriteGroup(job) => {
                let mut writes: Vec<Request<'_>> = job.writes().map(in_stream).collect();
                flash.run(&mut writes).into_iter().collect()
            }
            Job::WriteSegment(job) => flash.run_one(in_stream(job.write())),
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

    /// [`Self::work_until`] for what is dropped, which cannot be refused. At rest, once nobody has anything
    /// in hand that makes room, stage-out moves on again and again as far as it can, and leaves behind what
    /// was dropped before.
    ///
    /// # Errors
    /// If a device has failed so that it can never be done.
    pub(crate) fn drop_until(&self, mut dropped: impl FnMut() -> bool) -> Result<(), Refusal> {
        let tier = self.tier();
        let mut asked = false;
        self.work_until(|| {
            if dropped() {
                return true;
            }
            let waits_in_vain = tier.rests_for_disk() && !tier.may_make_room();
            // Not twice without a pause: disk says the same.
            asked = waits_in_vain && !asked;
            if asked {
                tier.retry_disk_at_any_cost();
                self.server.progressed();
            }
            false
        })
    }

    /// Where stage-out rests because disk refuses pages, and this process has found no job, it has stage-out
    /// try again, once nobody else has anything in hand that makes room, nor has made some since this
    /// [`Tier::progress`] was `seen`. Counts `attempts`.
    ///
    /// # Errors
    /// If the attempts came to nothing.
    pub(crate) fn ask_disk(&self, seen: u64, attempts: &mut u32) -> Result<(), Refusal> {
        let tier = self.tier();
        if !tier.rests_for_disk() || planted::is(Bug::RefusedAwaited) {
            return Ok(());
        }
        if tier.may_make_room() && !planted::is(Bug::OthersUnawaited) {
            return Ok(());
        }
        // Only now: the last that was in hand may have been completed since, and made room.
        if tier.progress() != seen && !planted::is(Bug::RoomJustMadeMissed) {
            return Ok(());
        }
        let at_any_cost = self.server.error_ends_server() && !planted::is(Bug::RoomRefusedToRedo);
        if *attempts == if at_any_cost { ATTEMPTS_AT_ANY_COST_MAX } else { ATTEMPTS_MAX } {
            return Err(self.disk_refuses("there is no room for a page", at_any_cost));
        }
        *attempts += 1;
        match at_any_cost {
            true => tier.retry_disk_at_any_cost(),
            false => tier.retry_disk(),
        }
        self.server.progressed();
        Ok(())
    }

    /// What is said where pages cannot go to their files. Where this `ends_server`, there is nobody who could
    /// try again, or drop the relation, before the next start: that must come past the same place.
    pub(crate) fn disk_refuses(&self, consequence: &str, ends_server: bool) -> Refusal {
        Refusal::new(format!(
            "{consequence}: pages in the flash tier on \"{}\" cannot be written to their files",
            self.flash_path().display()
        ))
        .detail("They stay in the tier, and nothing is lost.")
        .hint(match ends_server {
            true => "Mount what is not mounted, put files back that are missing, or make room where a file system is full. Then start the server again. A file that is lost for good and keeps the server from starting is to be made with its old length (truncate -s BYTES FILE): then start the server and drop the relation.",
            false => "See the messages before this one: put files back that are missing, make room where a file system is full, and try again. To drop a relation needs no file of it.",
        })
        .of_refused_pages()
    }

    /// What is said of a failed device.
    pub(crate) fn failed(&self, failure: mezzanine_engine::Failure) -> Refusal {
        Refusal::new(format!("the flash tier on \"{}\" has failed: {failure}", self.flash_path().display()))
            .hint("See the messages before this one, and the kernel's log.")
    }
}
