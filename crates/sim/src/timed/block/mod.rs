//! Block requests in virtual time: clients of a block device, a cache below them, and two devices.
//!
//! This is [`timed`](super) without a database: no pool, no pages and no log; requests of one block or
//! several go to whoever stands between them and the backing device: the fragment cache that ships, the
//! page engine as volumes host it, one of their rivals, or nobody. Those are one interface (`between.rs`).
//!
//! Data are hollow, maps are real. The same setup gives the same outcome, to the last bit.

mod between;

mod station;

mod setup;
mod source;

mod pages;
mod rivals;
mod sce;

mod world;

mod outcome;
mod passes;
mod sizing;

#[cfg(test)]
mod tests;

pub use between::Device;
pub use rivals::map_bytes;

pub use outcome::{BlockInterval, BlockOutcome};
pub use passes::{Traffic, run_passes};
pub use setup::{BlockCache, BlockSetup, Order, SceSetup, Writes};
pub use sizing::{SizedRow, SizingOutcome, run_sizing};
pub use source::BlockLoad;
pub use station::{BlockDevice, Stalls};

pub use mezzanine_fragment::{Admission, Stage};

use between::{Between, Nobody};
use mezzanine_fragment::Cache;

use super::setup::Refusal;
use crate::hollow::new_tier;

/// Runs what a setup says.
///
/// # Errors
/// Names the parameter that cannot be used.
///
/// # Panics
/// If a rule of whoever stands between does not hold at the end.
pub fn run_blocks(setup: &BlockSetup) -> Result<BlockOutcome, Refusal> {
    setup.check()?;
    let cache = match setup.cache {
        BlockCache::Sce(sce) => Some(Cache::heap(setup.sce_config(&sce).geometry()?)),
        _ => None,
    };
    let tier = match setup.cache {
        BlockCache::Pages { is_durable } => Some(new_tier(&setup.page_geometry(is_durable)?, pages::OWNER)),
        _ => None,
    };
    let between: Box<dyn Between + '_> = match (&setup.cache, &cache) {
        (BlockCache::Pages { is_durable }, None) => {
            let tier = tier.as_ref().expect("it was made above");
            Box::new(pages::Pages::new(tier, !is_durable, setup.clients))
        }
        (BlockCache::Sce(sce), Some(cache)) => Box::new(sce::Sce::new(cache, setup.clients, sce.resize)),
        (_, Some(_)) => unreachable!("nobody else has such a cache"),
        (BlockCache::Nothing, None) => Box::new(Nobody::new(Device::Backing)),
        (BlockCache::AllFlash, None) => Box::new(Nobody::new(Device::Cache)),
        (_, None) => rivals::new(setup)?,
    };
    let mut world = world::World::new(setup, between)?;
    world.run();
    world.check();
    Ok(BlockOutcome::of(setup, world))
}
