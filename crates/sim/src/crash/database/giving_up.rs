//! What an error of a device may cost the database (docs/reliability.md, *What an error may cost*), and the
//! giving up of a tier whose device cannot be written.
//!
//! 1. A read that goes well when it is repeated costs nothing (flash), or the operation that asked for it
//!    (disk).
//! 2. After a failed write to flash everything that left the pool reaches the disk: it costs the tier, and
//!    nothing is repeated from the log for it.
//! 3. After any other failure the server restarts, on the tier that it had.
//! 4. Nothing fails but what has to do with the device that failed.

use mezzanine_device::Device;
use mezzanine_device::memory::Operation;
use mezzanine_engine::{DrainCursor, Failure, Job, JobError};

use super::contents::{self, Content};
use super::machine::Control;
use super::server::Server;
use super::world::World;
use crate::crash::driver::{Failing, Invariant, Stop};

/// Pages that are saved at a time.
const BATCH: usize = 16;

impl World {
    /// Whether an operation of this name may fail: it needs the device that was to fail, and has.
    pub(super) fn may_fail(&self, operation: &str) -> bool {
        self.struck().is_some_and(|planned| match planned.failing {
            Failing::Flash => matches!(operation, "carry out a job of flash" | "write the superblock"),
            Failing::Disk => {
                matches!(
                    operation,
                    "carry out a job of the disk" | "write to disk" | "sync the disk" | "discard"
                )
            }
        })
    }

    /// Whether a read that has failed is to be repeated: it was to fail, once.
    pub(super) fn reads_again(&mut self, failing: Failing) -> bool {
        let again = self.machine.power.is_on()
            && self.struck().is_some_and(|p| p.failing == failing && p.operation == Operation::Read);
        self.life.coverage.errors_outlived += u64::from(again);
        again
    }
}

impl Server<'_> {
    /// A device has failed, and the database stops. If it is flash that cannot be written, the tier is given
    /// up first, and that is all that is lost.
    pub(super) fn count_costs(&mut self) -> Result<(), Stop> {
        let failure = self.tier.failure();
        let planned = self.world.failing.map(|planned| (planned.failing, planned.operation));
        // None if the host was told by the device itself, outside of a job.
        let right = match failure {
            None => true,
            Some(Failure::FlashRead { .. }) => false,
            Some(Failure::FlashWrite) => planned == Some((Failing::Flash, Operation::Write)),
            Some(Failure::FlashSync) => planned == Some((Failing::Flash, Operation::Flush)),
            Some(Failure::DiskWrite) => planned == Some((Failing::Disk, Operation::Write)),
            Some(Failure::DiskSync) => planned == Some((Failing::Disk, Operation::Flush)),
        };
        if !right {
            let text = format!("{:?} has failed, and the tier says {failure:?}", self.world.failing);
            return Err(Stop::violated(Invariant::NoUnprovokedError, text));
        }
        if failure == Some(Failure::FlashWrite) { self.give_up_tier() } else { Ok(()) }
    }

    /// Everything that is newer in the tier than on disk goes there, and the next start makes a new tier.
    fn give_up_tier(&mut self) -> Result<(), Stop> {
        // A cut meanwhile may tear pages that had left the pool and were durable nowhere (*Not covered* in
        // docs/reliability.md).
        self.world.machine.power.restore();
        self.tier.stop_admission();
        self.end_jobs()?;
        self.save_dirty()?;
        let control = self.world.machine.control.read();
        let replaced =
            self.world.machine.control.replace(Control { tier: [0; 16], disk_suffices: true, ..control });
        self.world.done("replace the control file", replaced)?;
        self.world.life.tell(|| "the tier was given up".to_owned());
        self.check_left_pool()?;
        self.world.check_backup(control.redo)?;
        self.world.given_up = true;
        Ok(())
    }

    /// Jobs that are under way come to their end: those of flash fail, the others are carried out.
    fn end_jobs(&mut self) -> Result<(), Stop> {
        while let Some(mut under_way) = self.jobs.pop() {
            let of_flash =
                matches!(under_way.job, Job::WriteGroup(_) | Job::WriteSegment(_) | Job::FlushFlash(_));
            let mut outcome = Ok(());
            if of_flash && !under_way.carried_out {
                outcome = Err(JobError);
            } else if !under_way.carried_out {
                self.jobs.push(under_way);
                self.carry_out(self.jobs.len() - 1)?;
                let Some(done) = self.jobs.pop() else { return Ok(()) };
                under_way = done;
            }
            self.tier.complete(under_way.job, outcome);
        }
        Ok(())
    }

    fn save_dirty(&mut self) -> Result<(), Stop> {
        let mut cursor = DrainCursor::default();
        let mut page = vec![0; self.world.scenario.page_bytes()];
        loop {
            let pages = self.tier.drain_batch(&mut cursor, BATCH);
            if pages.is_empty() {
                break;
            }
            for dirty in &pages {
                if !self.tier.read_staged(&dirty.flash, &mut page) {
                    let read = self.world.machine.flash.read_at(&mut page, dirty.flash.offset);
                    if read.is_err() || !self.tier.verify(&dirty.flash, &page) {
                        let text = format!(
                            "flash cannot be written, and {:?} cannot be read there: {read:?}",
                            dirty.id
                        );
                        return Err(Stop::violated(Invariant::NoUnprovokedError, text));
                    }
                }
                let Some(place) = self.world.scenario.space.place(&dirty.id) else {
                    let text = format!("the tier has a page of nobody: {:?}", dirty.id);
                    return Err(Stop::violated(Invariant::Versions, text));
                };
                self.write_disk(place, &page)?;
            }
        }
        let synced = self.world.machine.disk.flush();
        self.world.done("sync the disk", synced)
    }

    /// Every page that is not in the pool is on disk as it was written last: of what left the pool nothing is
    /// to be repeated.
    fn check_left_pool(&mut self) -> Result<(), Stop> {
        let world = &*self.world;
        if world.life.opening {
            // Redo has not come to all of them.
            return Ok(());
        }
        let space = world.scenario.space;
        for place in world.history.now().existing() {
            let elsewhere =
                self.pool.find(place).is_some() || world.orphaned[space.relation_of(place) as usize];
            let Some(expected) = world.history.now().version(place).filter(|_| !elsewhere) else { continue };
            let page_bytes = world.scenario.page_bytes();
            let at = place as usize * page_bytes;
            let found =
                world.machine.disk.view(|image| contents::identify(&image.range(at..at + page_bytes), place));
            if found != Content::Version(expected) {
                let text = format!(
                    "the tier was given up, and page {place} is {found:?} on disk instead of version {expected}"
                );
                return Err(Stop::violated(Invariant::DiskAlone, text));
            }
        }
        Ok(())
    }
}
