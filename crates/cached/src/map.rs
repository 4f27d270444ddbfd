//! A cache whose map survives: read, opened again, and closed.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use mezzanine_device::{AlignedBuf, Device};
use mezzanine_fragment::format::{FormatError, MAP_BLOCK_BYTES};
use mezzanine_fragment::{Cache, Geometry, Recovered, Recovery, Statistics};

use crate::error::{CachedError, CachedErrorKind};
use crate::host::{BlockCache, Drained, until};
use crate::patience::Patience;
use crate::settings::Settings;
use crate::voucher::Voucher;

/// What the map on a cache device says is in the cache. Nothing was written, and nothing is served.
pub struct ReadMap {
    pub(crate) cache: Cache,
    found: Recovered,
}

impl ReadMap {
    /// Reads all of a map; blocks that the device does not give back are as if they said nothing.
    ///
    /// # Errors
    /// If the map is of a later epoch than the geometry.
    ///
    /// # Panics
    /// If the geometry has no map.
    pub fn read(geometry: Geometry, flash: &dyn Device) -> Result<Self, CachedError> {
        let mut recovery = Recovery::heap(geometry);
        read_map(&mut recovery, flash).map_err(|error| {
            let next = "make a new cache there; the volumes have everything";
            CachedError::new(CachedErrorKind::Map, flash.describe(), error.to_string(), next)
        })?;
        let (cache, found) = recovery.finish();
        Ok(Self { cache, found })
    }

    /// What was found.
    pub fn found(&self) -> Recovered {
        self.found
    }
}

impl BlockCache {
    /// The cache that a map describes. As [`BlockCache::start`] otherwise; rule 5 says what the caller has to
    /// have done.
    ///
    /// # Errors
    /// As of [`BlockCache::start`], and if the cache device does not take what has to be written before
    /// anything is served, nor can the voucher be revoked.
    pub fn recover(
        map: ReadMap,
        flash: Arc<dyn Device>,
        backing: Vec<Option<Arc<dyn Device>>>,
        settings: Settings,
        voucher: Option<Box<dyn Voucher>>,
    ) -> Result<Self, CachedError> {
        let within = settings.end_within;
        let ReadMap { cache, found } = map;
        let cache = Self::of(cache, flash, backing, settings, voucher)?;
        // Nobody has a volume yet. Records that contradict one another are written over meanwhile.
        let shared = cache.shared();
        let reached = || shared.cache.marks_durable() >= found.waits_for;
        let mut patience = Patience::new(within);
        let late = || patience.is_over();
        cache.catch_up(late, |_| true, |found| found.copy_blocks_used, |_| reached());
        if !reached() {
            shared.give_up("the cache device has not made durable what was read of its map");
            if !shared.marks.are_void() {
                let reason =
                    "it does not make durable what was read of its map, and the voucher is not revoked";
                let next = "check the device, and the folder of vouchers; nothing was changed";
                let thing = shared.flash.describe();
                return Err(CachedError::new(CachedErrorKind::Map, thing, reason.to_owned(), next));
            }
        }
        Ok(cache)
    }

    /// Has writes and discards that wait for a mark fail, and those that would wait: they are not sent. For
    /// who ends a cache whose cache device does not take the marks, and whose voucher cannot be revoked, and
    /// has no more time. How many there were is counted (`writes_unmarked`).
    pub fn end_waits(&self) {
        self.shared().marks.end_waits();
    }

    /// Brings the map to its end: lets no request in any more, waits for those under way, populates nothing,
    /// writes what is on its way, and says whether the map is whole then. It takes so long at most; `go_on`
    /// as of [`BlockCache::drain`]. Requests that come later fail, and so do those that wait for a mark by
    /// then ([`BlockCache::end_waits`]).
    pub fn close(&self, within: Duration, go_on: impl FnMut(u64) -> bool) -> Drained {
        let shared = self.shared();
        // Before it is looked at what is on its way: nothing follows that could change what the map says.
        shared.is_closed.store(true, Ordering::SeqCst);
        shared.cache.quiesce();
        // Those that wait for their turn to populate hand their jobs back.
        shared.pace.stop();
        shared.offer_work();
        let left = |found: &Statistics| found.copy_blocks_used.max(found.unstable);
        let has_map = shared.has_map();
        let drained = self.catch_up(until(within), go_on, left, |drained| match has_map {
            true => drained.is_whole,
            false => drained.copies_left == 0,
        });
        self.end_waits();
        drained
    }
}

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
