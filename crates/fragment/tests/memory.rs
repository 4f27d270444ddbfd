//! How much memory a cache takes: the figures of the paper's sections 3.4 and 3.6, and ours beside them.
#![allow(clippy::unwrap_used, missing_docs)]

use mezzanine_fragment::{Cache, Config, Geometry};
use mezzanine_ground::region::LastingMemory;

const KIB: u64 = 1 << 10;
const MIB: u64 = 1 << 20;
const GIB: u64 = 1 << 30;
const TIB: u64 = 1 << 40;
const PIB: u64 = 1 << 50;

fn geometry(cache: u64, source: u64) -> Geometry {
    Config::new(cache, &[source]).geometry().unwrap()
}

/// "We use roughly 76 bytes per cached fragment (1 MiB)"; "8 MiB (1 MiB x 8 threads)"; "another 8 MiB".
#[test]
fn a_fragment_of_a_mebibyte_takes_what_it_took_in_the_paper() {
    let memory = geometry(TIB, TIB).memory();
    assert_eq!(memory.per_cached_fragment, 72);
    assert_eq!(memory.per_source_fragment, 4);
    assert_eq!(memory.population_buffers, 8 * MIB);
    assert_eq!(memory.copy_buffers, 8 * MIB);
    let of_a_gibibyte = 1024 * (memory.per_cached_fragment + memory.per_source_fragment);
    assert_eq!(of_a_gibibyte, 76 * KIB);
}

/// Section 3.4: 152 MiB for 2 TiB of flash; 400 MiB and 1,152 MiB for 100 TiB of storage and 16 TiB of flash;
/// "about 22 GiB" for 1 PiB and 256 TiB.
#[test]
fn footprints_are_those_of_the_paper() {
    let footprint = |cache, source| {
        let memory = geometry(cache, source).memory();
        (memory.table, memory.descriptors)
    };
    let (table, descriptors) = footprint(2 * TIB, 2 * TIB);
    assert_eq!(table + descriptors, 152 * MIB);
    assert_eq!(footprint(16 * TIB, 100 * TIB), (400 * MIB, 1152 * MIB));
    assert_eq!(footprint(256 * TIB, PIB), (4 * GIB, 18 * GIB));
}

/// What is in flight and what there is one of does not grow with the cache.
#[test]
fn everything_else_is_bounded() {
    for (cache, source) in [(GIB, GIB), (16 * TIB, 100 * TIB)] {
        let memory = geometry(cache, source).memory();
        assert_eq!(memory.in_flight, 2048 * 64);
        assert!(memory.other <= 32 * KIB, "{memory:?}");
        let named = [memory.table, memory.descriptors, memory.population_buffers, memory.copy_buffers];
        let sum = named.iter().sum::<u64>() + memory.in_flight + memory.other;
        assert_eq!((sum, memory.total), (memory.total, geometry(cache, source).region_bytes() as u64));
    }
}

/// The other sizes of Figure 11, and those between.
#[test]
fn other_fragments_take_a_bit_for_each_block() {
    for (size, bytes) in [(128 * KIB, 48), (256 * KIB, 48), (512 * KIB, 56), (2 * MIB, 104), (8 * MIB, 296)] {
        let config = Config { fragment_bytes: size, ..Config::new(TIB, &[TIB]) };
        let memory = config.geometry().unwrap().memory();
        assert_eq!((size, memory.per_cached_fragment), (size, bytes));
        assert_eq!(memory.population_buffers, 8 * size);
    }
}

/// The sizes that were computed are those that are used: everything is laid out within them.
#[test]
fn a_cache_is_as_large_as_its_geometry_says() {
    for size in [128 * KIB, MIB, 8 * MIB] {
        let config = Config { fragment_bytes: size, ..Config::new(16 * size, &[100 * size, 4096]) };
        let geometry = config.geometry().unwrap();
        let cache = Cache::heap(geometry.clone());
        cache.check();
        assert_eq!((cache.geometry().slots(), cache.geometry().fragments()), (16, 101));
    }
}

/// A cache in memory of the host's begins empty, whatever lay there.
#[test]
fn nothing_is_kept_of_used_memory() {
    let geometry = Config::new(4 << 20, &[8 << 20]).geometry().unwrap();
    let memory = LastingMemory::filled(geometry.region_bytes(), 0xA7);
    let cache = Cache::in_region(memory.region(), geometry);
    cache.check();
    assert_eq!((cache.statistics().slots_used, cache.candidates().len()), (0, 0));
}
