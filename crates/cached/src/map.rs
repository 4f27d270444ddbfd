//! A cache whose map survives an orderly end: opened again, and closed.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::thread;
use std::time::{Duration, Instant};

use mezzanine_device::{AlignedBuf, Device};
use mezzanine_fragment::format::{FormatError, MAP_BLOCK_BYTES};
use mezzanine_fragment::{Geometry, Health, Recovered, Recovery};

use crate::error::{CachedError, CachedErrorKind};
use crate::host::{BlockCache, LOOK_EVERY, check};
use crate::settings::Settings;

/// What closing a cache has come to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Closed {
    /// Blocks of copies of writes that did not get to the cache device in time.
    pub copies_left: u64,
    /// The map is whole and durable, and says what is in the cache.
    pub is_whole: bool,
}

impl BlockCache {
    /// The cache that a map on the cache device describes. As [`BlockCache::start`] otherwise; rule 5 says
    /// what the caller has to have done.
    ///
    /// # Errors
    /// As of [`BlockCache::start`], and if the map is of a later epoch than the geometry.
    ///
    /// # Panics
    /// If the geometry has no map.
    pub fn recover(
        geometry: Geometry,
        flash: Arc<dyn Device>,
        backing: Vec<Option<Arc<dyn Device>>>,
        settings: Settings,
    ) -> Result<(Self, Recovered), CachedError> {
        check(&geometry, &*flash, &backing)?;
        let mut recovery = Recovery::heap(geometry);
        read_map(&mut recovery, &*flash).map_err(|error| {
            let next = "make a new cache there; the volumes have everything";
            CachedError::new(CachedErrorKind::Map, flash.describe(), error.to_string(), next)
        })?;
        let (cache, found) = recovery.finish();
        let within = settings.end_within;
        let cache = Self::of(cache, flash, backing, settings)?;
        // Nobody has a volume yet. Records that contradict one another are written over meanwhile.
        let shared = cache.shared();
        let deadline = Instant::now() + within;
        while shared.cache.marks_durable() < found.waits_for {
            if shared.health.is_lost() || Instant::now() >= deadline {
                shared.health.lose();
                shared.cache.go_offline();
                break;
            }
            thread::sleep(LOOK_EVERY);
        }
        Ok((cache, found))
    }

    /// Brings the map to its end: lets no request in any more, waits for those under way, populates nothing,
    /// writes what is on its way, and says whether the map is whole then. It takes so long at most. Requests
    /// that come later fail.
    pub fn close(&self, within: Duration, mut progress: impl FnMut(u64)) -> Closed {
        let shared = self.shared();
        let (deadline, mut told) = (Instant::now() + within, Instant::now());
        // Before it is looked at what is on its way: nothing follows that could change what the map says.
        shared.is_closed.store(true, Ordering::SeqCst);
        shared.cache.quiesce();
        // Those that wait for their turn to populate hand their jobs back.
        shared.pace.stop();
        shared.offer_work();
        loop {
            let found = shared.cache.statistics();
            let is_used = !shared.health.is_lost() && shared.cache.health() == Health::Serving;
            let is_quiet = shared.under_way.load(Ordering::SeqCst) == 0;
            let is_whole = shared.has_map() && is_used && is_quiet && shared.cache.is_settled();
            let is_done = is_whole || (!shared.has_map() && found.copy_blocks_used == 0);
            if is_done || !is_used || Instant::now() >= deadline {
                return Closed { copies_left: found.copy_blocks_used, is_whole };
            }
            if told.elapsed() >= Duration::from_millis(200) {
                progress(found.copy_blocks_used.max(found.unstable));
                told = Instant::now();
            }
            thread::sleep(LOOK_EVERY);
        }
    }

    /// Has all of a volume leave the cache: its backing device was changed by somebody else.
    pub fn forget(&self, volume: usize) {
        // Rule 5: no crash brings it back, so there is nothing to wait for.
        let _ = self.shared().cache.forget(volume);
        self.shared().offer_work();
    }
}

/// Reads all of the map; blocks that the device does not give back are as if they said nothing.
fn read_map(recovery: &mut Recovery, flash: &dyn Device) -> Result<(), FormatError> {
    let block = MAP_BLOCK_BYTES as usize;
    while let Some((offset, bytes)) = recovery.next() {
        let mut buffer = AlignedBuf::zeroed(bytes);
        if flash.read_at(&mut buffer, offset).is_ok() {
            recovery.take(&buffer)?;
            continue;
        }
        for (at, piece) in buffer.chunks_exact_mut(block).enumerate() {
            let read = flash.read_at(piece, offset + (at * block) as u64);
            match read {
                Ok(()) => recovery.take(piece)?,
                Err(_) => recovery.unreadable(block),
            }
        }
    }
    Ok(())
}
