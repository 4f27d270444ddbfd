//! Rivals of the fragment cache, from what is published of them, in the simulator alone.
//!
//! Each is a file that can be held beside its description. None of their code is here: what is kept is which
//! blocks are brought in, when, who waits for it, what leaves, what is written to the cache device beside
//! data, and when what was written back reaches the backing device. Each file says what is left out.
//!
//! Operations that are asked for at once and lie side by side are one: the block layer below such caches
//! merges them.

mod links;

mod cleaning;
mod sets;

mod enhanceio;
mod flashcache;

mod bcache;

mod dm_cache;
mod smq;

#[cfg(test)]
mod tests;

use super::super::setup::Refusal;
use super::between::{Ask, Between};
use super::setup::{BlockCache, BlockSetup};

/// The rival that a setup names.
///
/// # Errors
/// If the cache device is too small for it.
pub(super) fn new(setup: &BlockSetup) -> Result<Box<dyn Between>, Refusal> {
    Ok(match setup.cache {
        BlockCache::Flashcache(order, writes) => Box::new(flashcache::new(setup, order, writes)?),
        BlockCache::EnhanceIo(writes) => Box::new(enhanceio::new(setup, writes)?),
        BlockCache::Bcache(writes) => Box::new(bcache::Bcache::new(setup, writes)?),
        BlockCache::DmCache => Box::new(dm_cache::DmCache::new(setup)?),
        BlockCache::Nothing | BlockCache::AllFlash | BlockCache::Sce(_) | BlockCache::Pages { .. } => {
            unreachable!("{} is no rival", setup.cache.name())
        }
    })
}

/// Bytes of memory that the map of a rival takes, of a cache device of so many bytes; `None` of what is no
/// rival.
pub fn map_bytes(cache: BlockCache, cache_bytes: u64) -> Option<u64> {
    let blocks = cache_bytes / super::setup::BLOCK_BYTES;
    match cache {
        BlockCache::Flashcache(..) => Some(blocks * flashcache::BYTES_PER_BLOCK),
        BlockCache::EnhanceIo(_) => Some(blocks * enhanceio::BYTES_PER_BLOCK),
        BlockCache::Bcache(_) => Some(cache_bytes / bcache::BUCKET_BYTES * bcache::BYTES_PER_BUCKET),
        BlockCache::DmCache => Some(cache_bytes / dm_cache::UNIT_BYTES * dm_cache::BYTES_PER_UNIT),
        BlockCache::Nothing | BlockCache::AllFlash | BlockCache::Sce(_) | BlockCache::Pages { .. } => None,
    }
}

/// What is no slot and no block.
const NONE: u32 = u32::MAX;

/// Refuses a cache device with less room than a rival needs.
fn at_least(setup: &BlockSetup, bytes: u64, what: &str) -> Result<(), Refusal> {
    if setup.cache_bytes >= bytes {
        return Ok(());
    }
    let reason = format!("{} bytes have no room for {what}", setup.cache_bytes);
    Err(Refusal::new("cache_bytes", reason, format!("use {bytes} bytes or more")))
}

/// Units of `unit` bytes that a volume has, in numbers of 32 bits.
fn units(setup: &BlockSetup, unit: u64) -> Result<u32, Refusal> {
    let units = setup.volume_bytes.div_ceil(unit);
    u32::try_from(units).ok().filter(|units| *units < NONE).ok_or_else(|| {
        let reason = format!("it has {units} blocks, and the rivals count to {NONE}");
        Refusal::new("volume_bytes", reason, "use a smaller volume")
    })
}

/// Asks for an operation, as a part of the last one if it lies behind that.
pub(super) fn merge(round: &mut Vec<Ask>, ask: Ask) {
    if let Some(last) = round.last_mut() {
        if last.device == ask.device && last.kind == ask.kind && last.offset + last.bytes == ask.offset {
            last.bytes += ask.bytes;
            return;
        }
    }
    round.push(ask);
}
