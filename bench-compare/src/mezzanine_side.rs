//! A volume with a pool in front: what leaves the pool changed is written to the volume, what the pool does
//! not have is read from it.

use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, PoisonError, RwLock};
use std::time::Instant;

use mezzanine_device::{Device, DirectIo, FileDevice, OpenOptions};
use mezzanine_volume::{
    Admission, AttachOptions, Design, MemorySidecar, SyncMode, TierConfig, Volume, VolumeConfig, VolumeFile,
    VolumeStatistics,
};

use crate::backing::{Backing, fill, version_of};
use crate::pool::Pool;
use crate::work::{Part, Progress, Work};
use crate::{Failure, Measured, Options, PAGE, fresh};

/// Writes and reads of the same page exclude each other by one of these.
const STRIPES: usize = 1024;

struct Side {
    pool: Pool,
    volume: Volume,
    file: VolumeFile,
    /// Of each page the newest version, whether it has reached the backing store or not.
    newest: Vec<AtomicU64>,
    stripes: Vec<RwLock<()>>,
}

fn config(options: &Options) -> Result<VolumeConfig, Failure> {
    let mut tier = TierConfig::for_flash_bytes(PAGE as u32, options.flash_mib << 20);
    let by_name =
        |known: &[&str], name: &str| known.iter().position(|it| *it == name).ok_or(format!("no such {name}"));
    tier.design =
        Design::ALL[by_name(&Design::ALL.iter().map(|it| it.name()).collect::<Vec<_>>(), &options.design)?];
    tier.admission = Admission::ALL
        [by_name(&Admission::ALL.iter().map(|it| it.name()).collect::<Vec<_>>(), &options.admission)?];
    tier.sync_mode = SyncMode::ALL
        [by_name(&SyncMode::ALL.iter().map(|it| it.name()).collect::<Vec<_>>(), &options.sync_mode)?];
    (tier.returning_only, tier.remembered_pages) = (options.returning_only, options.remembered_pages);
    Ok(VolumeConfig { workers: options.workers, ..VolumeConfig::new(tier) })
}

pub fn run(
    options: &Options,
    flash: &Path,
    work: &Work,
    backing: &Arc<Backing>,
) -> Result<Measured, Failure> {
    fresh(flash)?;
    let config = config(options)?;
    let geometry = config.tier.geometry().map_err(|e| e.reason)?;
    let direct = if options.buffered { DirectIo::Never } else { DirectIo::Always };
    let open = OpenOptions {
        len: Some(geometry.flash_bytes()),
        preallocate: true,
        direct,
        ..OpenOptions::read_write_create()
    };
    let device: Arc<dyn Device> = Arc::new(FileDevice::open(flash, &open)?);
    Volume::format(&*device, &config, false)?;
    let volume = Volume::open(device, config)?;
    let sidecar = Arc::new(MemorySidecar::default());
    let file = volume.attach("database".as_ref(), backing.clone(), sidecar, AttachOptions::default())?;
    // The tier's memory, but for its directory, counts as buffers.
    let buffers = geometry.staging_bytes() as u64;
    let pool =
        (options.memory_mib << 20).checked_sub(buffers).ok_or("--memory-mib is less than the buffers")?;
    eprintln!(
        "mezzanine: {} frames, flash file {} MiB, region {} KiB of which staging {} KiB, pool {} KiB",
        geometry.frames(),
        geometry.flash_bytes() >> 20,
        geometry.region_bytes() >> 10,
        geometry.staging_bytes() >> 10,
        pool >> 10
    );
    let side = Side {
        pool: Pool::new(pool),
        volume,
        file,
        newest: (0..options.pages).map(|_| 0.into()).collect(),
        stripes: (0..STRIPES).map(|_| RwLock::new(())).collect(),
    };
    let [warm_up, measured] = work.parts();
    side.serve(&warm_up, options.threads)?;
    let before = side.volume.statistics();
    let started = Instant::now();
    let mut progress = side.serve(&measured, options.threads)?;
    let seconds = started.elapsed().as_secs_f64();
    let done = side.volume.statistics().since(&before);
    // A request that neither the pool nor the tier had went to disk.
    progress.flash_hits = (done.page_hits_flash + done.page_hits_memory).min(progress.requests);
    let flash_bytes_written = written(&done);
    let own = done.tier.as_ref().map_or_else(Default::default, |tier| {
        serde_json::json!({
            "staged_clean": tier.staged_clean,
            "staged_dirty": tier.staged_dirty,
            "clean_first_seen": tier.clean_first_seen,
            "clean_dropped": tier.dropped_busy + tier.dropped_stale + tier.dropped_present,
            "second_chances": tier.second_chances,
            "flushes": tier.flushes,
            "jobs_by_callers": done.jobs_by_callers,
        })
    });
    side.volume.close()?;
    Ok(Measured { seconds, progress, flash_bytes_written, own })
}

fn written(done: &VolumeStatistics) -> u64 {
    done.tier.as_ref().map_or(0, |tier| tier.flash_bytes_written())
}

impl Side {
    fn serve(&self, part: &Part<'_>, threads: usize) -> Result<Progress, Failure> {
        let results: Vec<Result<Progress, Failure>> = std::thread::scope(|scope| {
            let threads: Vec<_> = (0..threads).map(|_| scope.spawn(|| self.serve_one(part))).collect();
            threads.into_iter().map(|thread| thread.join().expect("no panic")).collect()
        });
        let mut all = Progress::default();
        for result in results {
            all.add(&result?);
        }
        Ok(all)
    }

    fn serve_one(&self, part: &Part<'_>) -> Result<Progress, Failure> {
        let mut progress = Progress::default();
        let mut bytes = mezzanine_device::AlignedBuf::zeroed(PAGE);
        loop {
            let mut any = false;
            for request in part.take() {
                any = true;
                progress.requests += 1;
                let (page, stripe) = (request.page, &self.stripes[request.page as usize % STRIPES]);
                let newest = &self.newest[page as usize];
                if request.is_write {
                    let _page = stripe.write().unwrap_or_else(PoisonError::into_inner);
                    let version = newest.load(Ordering::Relaxed) + 1;
                    fill(page, version, &mut bytes);
                    self.put(page, &bytes, true)?;
                    // Whether the page was there is not asked: a write of all of it needs nothing of what
                    // was.
                    progress.memory_hits += 1;
                    newest.store(version, Ordering::Relaxed);
                    continue;
                }
                let _page = stripe.read().unwrap_or_else(PoisonError::into_inner);
                if self.pool.read(page, &mut bytes) {
                    progress.memory_hits += 1;
                } else {
                    self.file.read_at(&mut bytes, u64::from(page) * PAGE as u64)?;
                    self.put(page, &bytes, false)?;
                }
                let found = version_of(page, &bytes);
                progress.stale += u64::from(found != newest.load(Ordering::Relaxed));
            }
            if !any {
                return Ok(progress);
            }
        }
    }

    fn put(&self, page: u32, bytes: &[u8], dirty: bool) -> Result<(), Failure> {
        self.pool.put(page, bytes, dirty, |page, bytes| {
            self.file.write_at(bytes, u64::from(page) * PAGE as u64)
        })?;
        Ok(())
    }
}
