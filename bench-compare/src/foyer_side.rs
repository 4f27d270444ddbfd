//! foyer's hybrid cache. What is written goes to the backing store and into the cache, since foyer writes
//! nothing back.

use std::path::Path;
use std::sync::Arc;
use std::time::Instant;

use foyer::{
    BlockEngineConfig, DeviceBuilder, FsDeviceBuilder, HybridCache, HybridCacheBuilder, IoEngineConfig,
    PsyncIoEngineConfig, Source, Statistics, StorageFilter, StorageFilterCondition, StorageFilterResult,
    UringIoEngineConfig,
};
use mezzanine_engine::{PageId, Region, SecondTouch};
use tokio::sync::RwLock;

use crate::backing::{Backing, fill, version_of};
use crate::work::{Part, Progress, Work};
use crate::{Failure, FoyerIo, Measured, Options, PAGE, fresh};

const STRIPES: usize = 1024;

struct Side {
    cache: HybridCache<u64, Vec<u8>>,
    backing: Arc<Backing>,
    stripes: Vec<RwLock<()>>,
    miss_ms: u64,
}

/// Takes in what was offered before, and everything until the flash has been filled once, as Mezzanine does
/// with `returning_only`; but foyer is not told which pages were written.
struct SecondTouchFilter {
    region: Region,
    pages: u64,
    /// Bytes that fill the flash.
    fill_bytes: u64,
}

impl std::fmt::Debug for SecondTouchFilter {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("SecondTouchFilter").field("pages", &self.pages).finish_non_exhaustive()
    }
}

impl StorageFilterCondition for SecondTouchFilter {
    fn filter(&self, statistics: &Arc<Statistics>, hash: u64, _: usize) -> StorageFilterResult {
        let admitted = SecondTouch::laid(&self.region, 0, self.pages).admits(&PageId::volume(0, hash));
        match admitted || (statistics.disk_write_bytes() as u64) < self.fill_bytes {
            true => StorageFilterResult::Admit,
            false => StorageFilterResult::Reject,
        }
    }
}

pub fn run(
    options: &Options,
    flash: &Path,
    work: &Arc<Work>,
    backing: &Arc<Backing>,
) -> Result<Measured, Failure> {
    fresh(flash)?;
    std::fs::create_dir(flash)?;
    let runtime =
        tokio::runtime::Builder::new_multi_thread().worker_threads(options.threads).enable_all().build()?;
    runtime.block_on(measure(options, flash, Arc::clone(work), Arc::clone(backing)))
}

async fn measure(
    options: &Options,
    flash: &Path,
    work: Arc<Work>,
    backing: Arc<Backing>,
) -> Result<Measured, Failure> {
    let device = FsDeviceBuilder::new(flash)
        .with_capacity((options.flash_mib << 20) as usize)
        .with_direct(!options.buffered)
        .build()?;
    let statistics = Arc::clone(device.statistics());
    let buffers = (options.buffers_mib << 20) as usize;
    let io: Box<dyn IoEngineConfig> = match options.foyer_io {
        FoyerIo::Psync => PsyncIoEngineConfig::new().boxed(),
        FoyerIo::Uring => UringIoEngineConfig::new().boxed(),
    };
    // Threads of its own for what it does in the background, which would wait behind the tasks that make
    // requests.
    let own = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()?;
    let admission = options.foyer_returning.map_or_else(StorageFilter::new, |pages| {
        let region = Region::heap(SecondTouch::bytes(pages));
        StorageFilter::new().with_condition(SecondTouchFilter {
            region,
            pages,
            fill_bytes: options.flash_mib << 20,
        })
    });
    let cache: HybridCache<u64, Vec<u8>> = HybridCacheBuilder::new()
        .with_flush_on_close(false)
        .memory((options.memory_mib << 20) as usize - buffers)
        .with_shards(64)
        .with_weighter(|_, page: &Vec<u8>| page.len())
        .storage()
        .with_io_engine_config(io)
        .with_spawner(own.into())
        .with_engine_config(
            BlockEngineConfig::new(device)
                .with_block_size((options.foyer_block_mib << 20) as usize)
                .with_admission_filter(admission)
                .with_buffer_pool_size(buffers)
                .with_submit_queue_size_threshold(buffers * 2),
        )
        .build()
        .await?;
    let stripes = (0..STRIPES).map(|_| RwLock::new(())).collect();
    let side = Arc::new(Side { cache, backing, stripes, miss_ms: options.miss_ms });
    let parts = Box::leak(Box::new(work)).parts();
    let [warm_up, measured] = parts.map(|part| &*Box::leak(Box::new(part)));
    side.serve(warm_up, options.threads).await?;
    let before = statistics.disk_write_bytes();
    let started = Instant::now();
    let progress = side.serve(measured, options.threads).await?;
    let seconds = started.elapsed().as_secs_f64();
    let flash_bytes_written = (statistics.disk_write_bytes() - before) as u64;
    side.cache.close().await?;
    Ok(Measured { seconds, progress, flash_bytes_written, ..Measured::default() })
}

impl Side {
    async fn serve(
        self: &Arc<Side>,
        part: &'static Part<'static>,
        tasks: usize,
    ) -> Result<Progress, Failure> {
        let tasks: Vec<_> = (0..tasks)
            .map(|_| {
                let side = Arc::clone(self);
                tokio::spawn(async move { side.serve_one(part).await })
            })
            .collect();
        let mut all = Progress::default();
        for task in tasks {
            all.add(&task.await??);
        }
        Ok(all)
    }

    async fn serve_one(&self, part: &'static Part<'static>) -> Result<Progress, Failure> {
        let mut progress = Progress::default();
        loop {
            let mut any = false;
            for request in part.take() {
                any = true;
                progress.requests += 1;
                let (page, stripe) = (request.page, &self.stripes[request.page as usize % STRIPES]);
                let key = u64::from(page);
                if request.is_write {
                    let _page = stripe.write().await;
                    let mut bytes = vec![0; PAGE];
                    fill(page, self.backing.version(page) + 1, &mut bytes);
                    self.backing.write(page, &bytes);
                    // What is on flash is older from now on. The new version may never get there: foyer drops
                    // what its queue has no room for, and would then answer with the old one.
                    self.cache.storage().delete(&key);
                    self.cache.insert(key, bytes);
                    progress.memory_hits += 1;
                    continue;
                }
                let _page = stripe.read().await;
                let (backing, miss_ms) = (Arc::clone(&self.backing), self.miss_ms);
                let entry = self
                    .cache
                    .get_or_fetch(&key, || async move {
                        if miss_ms > 0 {
                            tokio::time::sleep(std::time::Duration::from_millis(miss_ms)).await;
                        }
                        let mut bytes = vec![0; PAGE];
                        backing.read(page, &mut bytes);
                        Ok::<_, foyer::Error>(bytes)
                    })
                    .await?;
                match entry.source() {
                    Source::Memory => progress.memory_hits += 1,
                    Source::Disk => progress.flash_hits += 1,
                    _ => {}
                }
                // foyer hands out the page itself; a database copies it into its own.
                let mut bytes = [0; PAGE];
                bytes.copy_from_slice(entry.value());
                progress.stale += u64::from(version_of(page, &bytes) != self.backing.version(page));
            }
            if !any {
                return Ok(progress);
            }
        }
    }
}
