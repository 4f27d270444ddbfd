//! Carrying out the tier's jobs.

use std::collections::BTreeMap;
use std::sync::Arc;

use mezzanine_device::zones::{ZoneBegun, reset_and_write};
use mezzanine_device::{DeviceError, DeviceErrorKind, Request};
use mezzanine_engine::planted::{self, Bug};
use mezzanine_engine::{Failure, Job, JobError};
use mezzanine_ground::interleave::turns;

use crate::backing::FileInner;
use crate::batch::Batch;
use crate::core::{Local, TierHost, exclusive, lock, shared};
use crate::error::VolumeError;
use crate::health::{Mode, Route};
use crate::shared::plain::OWNER;
use crate::sidecar::SidecarState;
use crate::statistics::count;

fn flash_write<'b>(host: &TierHost, (offset, buf): (u64, &'b [u8])) -> Request<'b> {
    Request::write_in(host.tier.geometry().stream_at(offset), buf, offset)
}

impl Local {
    /// Looks for a job and carries it out. Returns whether there was one.
    pub(crate) fn run_job(&self, host: &TierHost) -> bool {
        if host.is_held() {
            return false;
        }
        // Not a look that counts: who quiesces the volume would see somebody at work and be woken for
        // nothing, and so would the other runners, again and again.
        if self.health.mode() != Mode::Normal && !planted::is(Bug::LooksWhileSettled) {
            return false;
        }
        host.shared.jobs.begins();
        let found = self.run_one(host, Mode::Normal);
        if found && host.tier.failure().is_some() {
            self.handle_failure(host);
        }
        // Before the count goes down: whoever sees that nobody is working sees the progress that was made.
        if found {
            self.signal.made_progress();
        }
        host.shared.jobs.ends();
        // Who quiesces the volume waits for those that were only looking, too.
        if self.health.mode() != Mode::Normal {
            self.signal.made_progress();
        }
        found
    }

    /// Carries out one job if the volume is in `mode`.
    pub(crate) fn run_one(&self, host: &TierHost, mode: Mode) -> bool {
        let gate = shared(&host.disk_gate);
        // Looked at under the gate: who quiesces the volume closes the gate after changing the mode. The mode
        // first: if it is that of a volume whose tier was replaced, this one is retired.
        if self.health.mode() != mode || host.is_retired() {
            return false;
        }
        if host.tier.resize_waits() && host.tier.failure().is_none() {
            self.write_resize(host);
            return true;
        }
        self.pacing.tell(&host.tier);
        let (before, worked) = (host.tier.progress(), host.tier.failure().is_none());
        let Some(mut job) = host.tier.next_job(OWNER) else {
            // Frames may have left the queue while this thread looked for a job: others wait for the room. Or
            // it turned out that there never will be room.
            return host.tier.progress() != before || worked && host.tier.failure().is_some();
        };
        // The gate stays shared from the hand-out of disk work to its end, and while the list for it is made.
        let on_disk = matches!(job, Job::WriteDisk(_) | Job::ReadFront(_) | Job::SyncDisk(_));
        let gate = on_disk.then_some(gate);
        let outcome = self.carry_out(host, &mut job);
        // The last thing: from here on others may take up what follows from it.
        host.tier.complete(job, outcome.map_err(|_| JobError));
        planted::outside("a job is completed");
        turns::point();
        drop(gate);
        true
    }

    fn carry_out(&self, host: &TierHost, job: &mut Job<'_>) -> Result<(), VolumeError> {
        let failed = |error: DeviceError| {
            // Another runner's flush has failed and is not reported yet; what follows is up to that.
            let refused = error.kind() == DeviceErrorKind::FlushFailed;
            if refused && !planted::is(Bug::RefusalTakenForFailure) {
                host.tier.report_failure(Failure::FlashSync);
            }
            VolumeError::from_device("use", &host.flash_name, error)
        };
        let result = match job {
            Job::WriteGroup(job) if host.tier.geometry().zones().is_some() => {
                let bytes: usize = job.writes().map(|(_, bytes)| bytes.len()).sum();
                count(&self.counters().flash_writes, job.writes().count() as u64);
                count(&self.counters().flash_bytes_written, bytes as u64);
                let begun = job.zones_begun().map(|(zone, left)| ZoneBegun { zone, left });
                reset_and_write(&*host.flash, begun, job.writes()).map_err(failed)
            }
            Job::WriteGroup(job) => {
                let mut writes: Vec<Request<'_>> =
                    job.writes().map(|write| flash_write(host, write)).collect();
                self.write_flash(host, &mut writes).map_err(failed)
            }
            Job::WriteSegment(job) => {
                self.write_flash(host, &mut [flash_write(host, job.write())]).map_err(failed)
            }
            Job::FlushFlash(_) => {
                count(&self.counters().flash_flushes, 1);
                host.flash.flush().map_err(failed)
            }
            Job::ReadFront(job) => {
                let mut reads: Vec<Request<'_>> =
                    job.reads().into_iter().map(|(offset, buf)| Request::Read { offset, buf }).collect();
                count(&self.counters().flash_reads, reads.len() as u64);
                host.flash.run(&mut reads).into_iter().collect::<Result<(), _>>().map_err(failed)
            }
            Job::WriteDisk(job) => {
                let mut by_file: BTreeMap<u32, Vec<(u64, &[u8])>> = BTreeMap::new();
                // The list was made when the front had been read. Writing what was cut off a file since then
                // would bring it back (invariant 6).
                for (id, page) in job.newest_pages() {
                    by_file.entry(id.file() as u32).or_default().push((id.block(), page));
                }
                by_file.iter().try_for_each(|(number, pages)| self.write_home(*number, pages))
            }
            Job::SyncDisk(_) => self.sync_staged_out(host),
            // Never asked for: a volume has no buffer pool.
            Job::PullPages(_) => Ok(()),
        };
        if let Err(error) = &result {
            let mut cause = lock(&host.cause);
            // A read that fails is repeated, and may be no failure after all: then it is not the cause of a
            // later one.
            if cause.is_none() || host.tier.failure().is_none() && !planted::is(Bug::PassedErrorNamed) {
                *cause = Some(error.to_string());
            }
        }
        result
    }

    pub(crate) fn write_flash(&self, host: &TierHost, writes: &mut [Request<'_>]) -> Result<(), DeviceError> {
        let bytes: u64 = writes.iter().filter_map(Request::range).map(|(_, len)| len).sum();
        count(&self.counters().flash_writes, writes.len() as u64);
        count(&self.counters().flash_bytes_written, bytes);
        host.flash.run(writes).into_iter().collect()
    }

    /// Writes pages of the file with this number to disk.
    pub(crate) fn write_home(&self, number: u32, pages: &[(u64, &[u8])]) -> Result<(), VolumeError> {
        let Some(file) = self.file(number) else {
            // A number that the tier gave up: its file has got another one, and its pages are tombstones by
            // now.
            return Ok(());
        };
        let written = file.write_pages(pages, self.counters());
        // Afterwards: a sync that another thread carries out meanwhile takes the mark away, and does not
        // cover this.
        file.shared.stage_out.has_written();
        written.map_err(|error| VolumeError::from_device("write pages of the tier to", &file.name, error))
    }

    /// Syncs every file that stage-out has written since it was last synced.
    pub(crate) fn sync_staged_out(&self, host: &TierHost) -> Result<(), VolumeError> {
        let written: Vec<Arc<FileInner>> =
            self.all_files().into_iter().filter(|file| file.shared.stage_out.take_unsynced()).collect();
        for file in written {
            count(&self.counters().disk_flushes, 1);
            file.shared.stage_out.batch(Batch::sync_begins);
            let flushed = file.backing.flush();
            file.shared.stage_out.batch(|batch| batch.sync_ends(flushed.is_err()));
            flushed.map_err(|error| VolumeError::from_device("sync", &file.name, error))?;
            self.mark_staged_out(host, &file)?;
        }
        Ok(())
    }

    /// The disk has what stage-out wrote: the file is marked, before flash may say so. If the first page of a
    /// guarded file was among it, its head goes to the sidecar at that, before the frame that still
    /// answers for the page may be reused.
    fn mark_staged_out(&self, host: &TierHost, file: &FileInner) -> Result<(), VolumeError> {
        if !file.shared.marks.may_be_dirty() {
            return Ok(());
        }
        let new_head = file.is_guarded() && file.shared.guards.has_new_head();
        if new_head && planted::is(Bug::HeadLeftBehind) || planted::is(Bug::StageOutUnmarked) && !new_head {
            return Ok(());
        }
        file.shared.guards.head_is_saved();
        if planted::is(Bug::StageOutUnmarked) {
            return self.write_sidecar(host, file, SidecarState::Dirty);
        }
        self.mark(host, file, SidecarState::Dirty)
    }

    /// Keeps disk jobs out while a file is truncated or a part of it discarded, so that the next one sees
    /// what the tier has forgotten: it leaves those pages out though they may be in its list. `change`
    /// answers whether there was room in the tier for it; if not, jobs are carried out with the gate open and
    /// all is done again. False if the tier is given up meanwhile: then only the disk counts.
    pub(crate) fn with_disk_jobs_out(
        &self,
        host: &TierHost,
        change: impl Fn() -> Result<bool, VolumeError>,
    ) -> Result<bool, VolumeError> {
        loop {
            let seen = self.signal.progress();
            if self.health.route("change", &host.flash_name)? == Route::Disk {
                return Ok(false);
            }
            let gate = exclusive(&host.disk_gate);
            let Some(inside) = host.enter(&self.health) else { continue };
            if change()? {
                return Ok(true);
            }
            drop(inside);
            drop(gate);
            self.work_or_wait(host, seen)?;
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use std::path::Path;
    use std::sync::Weak;
    use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

    use mezzanine_device::memory::MemoryDevice;
    use mezzanine_device::{Capabilities, Device};
    use mezzanine_engine::TierConfig;
    use mezzanine_ground::interleave::sync::Mutex;

    use super::*;
    use crate::config::{AttachOptions, VolumeConfig};
    use crate::sidecar::MemorySidecar;
    use crate::volume::Volume;

    /// A disk that is synced by another job in the middle of each of its writes, and counts its flushes.
    struct Overtaken {
        disk: MemoryDevice,
        volume: Mutex<Weak<Local>>,
        syncing: AtomicBool,
        flushes: AtomicU64,
    }

    impl Device for Overtaken {
        fn capabilities(&self) -> Capabilities {
            self.disk.capabilities()
        }
        fn run(&self, batch: &mut [Request<'_>]) -> Vec<Result<(), DeviceError>> {
            let volume = lock(&self.volume).upgrade();
            if let Some(volume) = volume.filter(|_| !self.syncing.swap(true, Ordering::SeqCst)) {
                volume.sync_staged_out(&volume.tier_in_use().unwrap()).unwrap();
                self.syncing.store(false, Ordering::SeqCst);
            }
            self.disk.run(batch)
        }
        fn run_one(&self, request: Request<'_>) -> Result<(), DeviceError> {
            self.flushes.fetch_add(u64::from(matches!(request, Request::Flush)), Ordering::SeqCst);
            self.disk.run_one(request)
        }
        fn set_len(&self, len: u64) -> Result<(), DeviceError> {
            self.disk.set_len(len)
        }
        fn describe(&self) -> String {
            "a disk".to_owned()
        }
    }

    /// Found by threads in many orders: while the volume was quiesced, each fruitless look for a job passed
    /// for progress, which woke all runners and who quiesced it to look again. With many of them somebody
    /// was at every moment found looking, and a drain, which waits until nobody is, could wait for ever.
    #[test]
    fn who_looks_for_a_job_while_the_volume_is_settled_disturbs_nobody() {
        let config = VolumeConfig { workers: 0, ..VolumeConfig::new(TierConfig::new(4096, 4096)) };
        let flash = Arc::new(MemoryDevice::new(config.tier.geometry().unwrap().flash_bytes()));
        Volume::format(&*flash, &config, false).unwrap();
        let volume = Volume::open(flash, config).unwrap();
        let (disk, sidecar) = (Arc::new(MemoryDevice::file(0)), Arc::new(MemorySidecar::default()));
        volume.attach(Path::new("a"), disk, sidecar, AttachOptions::default()).unwrap();
        let shared = &volume.local;
        assert!(shared.health.change(&[Mode::Normal], Mode::Quiescing, "a test"));
        let before = shared.signal.progress();
        assert!(!volume.step());
        assert_eq!(shared.signal.progress(), before, "a look for a job passes for progress");
    }

    /// Found by the crash worlds (seed 600035546): the mark was set before the write, and the sync took it
    /// away.
    #[test]
    fn a_write_that_a_sync_overtakes_is_covered_by_the_next_sync() {
        let config = VolumeConfig { workers: 0, ..VolumeConfig::new(TierConfig::new(4096, 4096)) };
        let flash = Arc::new(MemoryDevice::new(config.tier.geometry().unwrap().flash_bytes()));
        Volume::format(&*flash, &config, false).unwrap();
        let volume = Volume::open(flash, config).unwrap();
        let disk = Arc::new(Overtaken {
            disk: MemoryDevice::new(1 << 20),
            volume: Mutex::new(Arc::downgrade(&volume.local)),
            syncing: AtomicBool::new(false),
            flushes: AtomicU64::new(0),
        });
        let sidecar = Arc::new(MemorySidecar::default());
        volume.attach(Path::new("a"), disk.clone(), sidecar, AttachOptions::default()).unwrap();
        let shared = &volume.local;
        let number = shared.all_files()[0].number;
        shared.write_home(number, &[(3, &[7; 4096])]).unwrap();
        let before = disk.flushes.load(Ordering::SeqCst);
        shared.sync_staged_out(&shared.tier_in_use().unwrap()).unwrap();
        assert_eq!(disk.flushes.load(Ordering::SeqCst), before + 1, "nobody has synced what was written");
        shared.sync_staged_out(&shared.tier_in_use().unwrap()).unwrap();
        assert_eq!(disk.flushes.load(Ordering::SeqCst), before + 1, "nothing was written since");
    }
}
