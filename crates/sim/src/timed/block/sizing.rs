//! What the fragment cache says of other sizes while it runs, beside runs with caches of those sizes.

use mezzanine_fragment::{Cache, Sizing, SizingConfig, SizingPoint, SizingRow, SizingTable};
use serde::Serialize;

use super::super::setup::Refusal;
use super::sce::Sce;
use super::setup::{BlockCache, BlockSetup, SceSetup};
use super::world::World;
use super::{BlockInterval, run_blocks};

/// Intervals of a run whose last ones are compared.
const INTERVALS: f64 = 30.0;

/// What is said of a size, and what is so.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct SizedRow {
    /// What the cache says.
    pub estimate: SizingRow,
    /// A run with a cache of this size, in the same part of the time.
    pub run: BlockInterval,
    /// Of that, bytes written to the cache device in a day.
    pub written_per_day: f64,
}

/// The table, and the truth beside it.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct SizingOutcome {
    /// What the cache says of itself and of others.
    pub table: SizingTable,
    /// By size, in the order of the table.
    pub rows: Vec<SizedRow>,
}

/// Runs a setup with the fragment cache, which says at the end how it would do at other sizes; and then runs
/// those. The table is of the last two thirds of the time. Clients wait for answers, so that a better cache
/// is asked for more in the same time, which no estimate knows.
///
/// # Errors
/// Names the parameter that cannot be used.
///
/// # Panics
/// If a rule of the cache does not hold at the end.
pub fn run_sizing(setup: &BlockSetup) -> Result<SizingOutcome, Refusal> {
    setup.check()?;
    let BlockCache::Sce(sce) = setup.cache else {
        let reason = format!("'{}' cannot say how it would do at other sizes", setup.cache.name());
        return Err(Refusal::new("cache", reason, "use sce"));
    };
    if sce.resize.is_some() {
        let reason = "what a cache says of other sizes is said for one size of its own".to_owned();
        return Err(Refusal::new("resize", reason, "leave one of the two out"));
    }
    let geometry = setup.sce_config(&sce).geometry()?;
    let sizing = SizingConfig {
        window_seconds: ((setup.seconds / 3.0).floor() as u64).max(1),
        ..SizingConfig::of(&geometry)
    };
    let cache = Cache::heap(geometry.clone()).with_sizing(Sizing::new(&geometry, &sizing)?);
    let mut world = World::new(setup, Box::new(Sce::new(&cache, setup.clients, None)))?;
    world.run();
    world.check();
    drop(world);
    let table = cache.sizing_table().expect("the cache was made with a sizing");
    let share = (table.seconds / setup.seconds).min(1.0);
    let row = |(estimate, point): (&SizingRow, &SizingPoint)| {
        let run = run_of(setup, &sce, point)?;
        let outcome = run_blocks(&run)?;
        let last = outcome.last(share);
        let written = (last.populated_mib + last.followed_mib) * f64::from(1 << 20);
        let written_per_day = written * 86_400.0 / (setup.seconds * share);
        Ok(SizedRow { estimate: estimate.clone(), run: last, written_per_day })
    };
    let rows = table.rows.iter().zip(&sizing.points).map(row).collect::<Result<_, Refusal>>()?;
    Ok(SizingOutcome { table, rows })
}

/// The same with a cache of another size.
fn run_of(setup: &BlockSetup, sce: &SceSetup, point: &SizingPoint) -> Result<BlockSetup, Refusal> {
    let sce = SceSetup { fragment_bytes: point.fragment_bytes, ..*sce };
    let run = BlockSetup {
        cache: BlockCache::Sce(sce),
        cache_bytes: point.cache_bytes,
        interval_seconds: setup.seconds / INTERVALS,
        ..setup.clone()
    };
    run.check()?;
    Ok(run)
}
