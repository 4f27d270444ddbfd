//! What came of a fit as a model file.

use std::collections::BTreeMap;

use mezzanine_device::model::{ClosedLoop, Figures, Operation, OperationKind, Timing, closed_loop};
use mezzanine_ground::random::Random;
use serde::Serialize;

use super::Fit;
use crate::config::{CacheConfig, CacheKind, FtlConfig, HostConfig, SsdConfig};
use crate::drive::{Condition, Ssd};
use crate::geometry::{Geometry, NandTimings};

/// Requests that a figure of the model is taken over.
const OPERATIONS: u64 = 10_000;
/// Blocks of a plane that a figure is taken with.
const BLOCKS: u32 = 32;
const RANDOM_BYTES: u64 = 4096;
const SEQUENTIAL_BYTES: u64 = 128 << 10;
const QUEUE_DEPTH: u32 = 32;

#[derive(Serialize)]
struct ModelFile<'f> {
    name: &'f str,
    title: &'f str,
    source: &'f str,
    capacity_bytes: u64,
    volatile_cache: bool,
    figures: Figures,
    sources: BTreeMap<&'static str, String>,
    ssd: SsdTable<'f>,
}

#[derive(Serialize)]
struct SsdTable<'f> {
    geometry: &'f Geometry,
    timings: &'f NandTimings,
    ftl: &'f FtlConfig,
    cache: &'f CacheConfig,
    host: &'f HostConfig,
}

impl Fit {
    /// The text of a model file: `name` is what the model is called, `title` what it is, for people, and
    /// `source` where its figures come from. Each parameter says what it was found by.
    pub fn to_toml(&self, name: &str, title: &str, source: &str) -> Result<String, toml::ser::Error> {
        let mut sources: BTreeMap<&'static str, String> = self
            .parameters
            .iter()
            .map(|parameter| {
                let how = if parameter.determined { "fitted" } else { "not determined" };
                (parameter.name, format!("{how}: {}", parameter.why))
            })
            .collect();
        sources.insert("figures", "those of the model, full".to_owned());
        sources.insert(
            "the others",
            "the usual ones: nothing that is measured from outside depends on them".to_owned(),
        );
        let SsdConfig { capacity_bytes, geometry, timings, ftl, cache, host, power_loss: _ } = &self.config;
        toml::to_string(&ModelFile {
            name,
            title,
            source,
            capacity_bytes: *capacity_bytes,
            volatile_cache: cache.kind == CacheKind::Volatile,
            figures: figures(&self.config),
            sources,
            ssd: SsdTable { geometry, timings, ftl, cache, host },
        })
    }
}

/// The figures of a drive that was filled.
fn figures(config: &SsdConfig) -> Figures {
    let small = config.with_blocks_per_plane(BLOCKS.min(config.geometry.blocks_per_plane));
    let ssd = Ssd::new(small.unwrap_or_else(|_| config.clone()));
    let run = |next: &mut dyn FnMut(&Ssd, u64) -> Operation| {
        let Ok(ssd) = &ssd else { return (0.0, 0.0) };
        let ssd = ssd.clone().beginning(Condition::Filled);
        let setup =
            ClosedLoop { clients: QUEUE_DEPTH as usize, warm_up: OPERATIONS / 4, operations: OPERATIONS };
        let found = closed_loop(&ssd, setup, |number| next(&ssd, number));
        (found.per_second.round(), found.mb_per_s.round())
    };
    let random = |kind| {
        let mut random = Random::new(1);
        run(&mut |ssd, _| {
            let place = random.below(ssd.capacity() / RANDOM_BYTES);
            ssd.operation(kind, place * RANDOM_BYTES, RANDOM_BYTES)
        })
        .0
    };
    let sequential =
        |kind| run(&mut |ssd, number| ssd.operation(kind, number * SEQUENTIAL_BYTES, SEQUENTIAL_BYTES)).1;
    Figures {
        read_random_iops: random(OperationKind::Read),
        write_random_iops: random(OperationKind::Write),
        read_sequential_mb_per_s: sequential(OperationKind::Read),
        write_sequential_mb_per_s: sequential(OperationKind::Write),
        random_request_bytes: RANDOM_BYTES,
        sequential_request_bytes: SEQUENTIAL_BYTES,
        queue_depth: QUEUE_DEPTH,
    }
}
