//! Memory of the maps (sections 3.4 and 4.7 of the SCE paper): of the fragment cache as it computes it before
//! it starts, of its rivals by the bytes that they have for a block.

use mezzanine_fragment::{Config, MemoryUse};

use super::super::answers::Answers;
use super::super::published::Source;
use super::super::verdict::{Ours, Part};
use crate::timed::block::{BlockCache, Order, Writes, map_bytes};

const MIB: f64 = (1 << 20) as f64;
const GIB: f64 = (1 << 30) as f64;
const TIB_BYTES: u64 = 1 << 40;

fn memory(cache_bytes: u64, volume_bytes: u64, fragment_bytes: u64) -> MemoryUse {
    let config = Config { fragment_bytes, ..Config::new(cache_bytes, &[volume_bytes]) };
    config.geometry().expect("the published sizes can be").memory()
}

/// What grows with the sizes: descriptors, bitmaps and the table.
fn map(cache_bytes: u64, volume_bytes: u64) -> f64 {
    let memory = memory(cache_bytes, volume_bytes, 1 << 20);
    (memory.descriptors + memory.table) as f64
}

pub(in crate::experiment) fn memory_model(_: &Source, answers: &mut Answers) {
    let one = memory(TIB_BYTES, TIB_BYTES, 1 << 20);
    let two = memory(TIB_BYTES, TIB_BYTES, 2 << 20);
    let set = |answers: &mut Answers, key: &str, value: f64| answers.set(key, Ours::Value(value));
    set(answers, "fragment", (one.per_cached_fragment + one.per_source_fragment) as f64);
    // Twice as many blocks have twice as many bits, and nothing else.
    set(answers, "bitmap", (two.per_cached_fragment - one.per_cached_fragment) as f64);
    let ours = map(2 * TIB_BYTES, 2 * TIB_BYTES);
    set(answers, "sce-2tib", ours / MIB);
    let large = memory(16 * TIB_BYTES, 100 * TIB_BYTES, 1 << 20);
    set(answers, "table-100tib", large.table as f64 / MIB);
    set(answers, "descriptors-16tib", large.descriptors as f64 / MIB);
    set(answers, "all-1pib", map(256 * TIB_BYTES, 1024 * TIB_BYTES) / GIB);
    let of = |cache| map_bytes(cache, 2 * TIB_BYTES).expect("rivals have maps") as f64 / ours;
    set(answers, "flashcache-2tib", of(BlockCache::Flashcache(Order::Fifo, Writes::Through)));
    set(answers, "enhanceio-2tib", of(BlockCache::EnhanceIo(Writes::Through)));
}

/// The memory of a rival over all that the fragment cache takes, 1 TiB.
pub(super) fn over_sce(cache: BlockCache) -> f64 {
    let ours = memory(TIB_BYTES, TIB_BYTES, 1 << 20).total;
    map_bytes(cache, TIB_BYTES).expect("rivals have maps") as f64 / ours as f64
}

pub(in crate::experiment) fn figure_13(_: &Source, answers: &mut Answers) {
    let flashcache = over_sce(BlockCache::Flashcache(Order::Fifo, Writes::Through));
    let enhanceio = over_sce(BlockCache::EnhanceIo(Writes::Through));
    let bcache = over_sce(BlockCache::Bcache(Writes::Through));
    answers.set("flashcache", Ours::Value(flashcache));
    answers.set("enhanceio", Ours::Value(enhanceio));
    let said = format!("bcache takes {bcache:.2} of what SCE takes");
    answers.set("bcache", Ours::Shape(vec![Part { said, holds: bcache < 1.0 && bcache < enhanceio }]));
}
