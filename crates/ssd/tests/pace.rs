//! Collection keeps pace with what is programmed (T3), so that no plane has to collect whole blocks at once.
#![allow(clippy::unwrap_used)]

use drives::{ALL, Ranges, drawn};
use mezzanine_device::model::{Operation, OperationKind, Timing};
use mezzanine_ground::random::Random;
use mezzanine_ssd::{CacheKind, Collection, CollectionPace, Condition, DumpConfig, Geometry, Ssd, SsdConfig};

mod drives;

/// A drive of twelve planes with two mapping units a page, of which the host has all that it can.
fn full(kind: CacheKind) -> SsdConfig {
    const COLLECTIONS: &[Collection] = &[Collection::Greedy];
    const DUMP: DumpConfig = DumpConfig { hold_up_ms: 60.0, mb_per_s: 1600.0 };
    let ranges = Ranges { collections: COLLECTIONS, wear_gaps_max: &[0], dump: DUMP, ..ALL };
    let mut config = drawn(&mut Random::new(1), &ranges, kind);
    config.geometry = Geometry {
        channels: 4,
        packages_per_channel: 3,
        blocks_per_plane: 116,
        pages_per_block: 22,
        ..Geometry::one_plane(116, 22, 4096)
    };
    config.geometry.page_bytes = 8192;
    config.ftl.journal = true;
    config.ftl.collection_pace = CollectionPace::Incremental;
    config.ftl.dirty_entries_max = 1 << 14;
    config.cache.buffer_bytes = 4 << 20;
    config.capacity_bytes = 4096 * config.capacity_units_max();
    config
}

/// Pages that are not full use up flash as others do: a unit that is flushed alone, and the last of what a
/// block held. As long as collection was paid for units and not for pages, planes of a full drive ran out of
/// erased blocks, collected whole ones at once, and the others waited: a drive took 2,500 writes a second
/// where it takes 3,300.
#[test]
fn collection_keeps_pace_where_pages_are_not_full() {
    for (kind, fsync_after) in [(CacheKind::Volatile, 0), (CacheKind::Durable, 0), (CacheKind::Volatile, 7)] {
        let ssd = Ssd::new(full(kind)).unwrap();
        let mut state = ssd.idle();
        ssd.prepare(&mut state, Condition::Steady, 1);
        let before = ssd.counters(&state);
        let mut random = Random::new(2);
        let mut now = 0;
        for number in 0..200_000 {
            let place = random.below(ssd.capacity() / 4096);
            let operation = match number % 8 {
                7 if fsync_after > 0 => Operation::FLUSH,
                _ => ssd.operation(OperationKind::Write, 4096 * place, 4096),
            };
            now = ssd.submit(&mut state, now, operation).unwrap().ticket.completion().unwrap();
        }
        let counters = ssd.counters(&state);
        let padded = counters.units_padded - before.units_padded;
        assert!(padded > 5_000, "{kind:?}: {padded} units were left out of pages");
        assert!(counters.erases - before.erases > 5_000);
        assert_eq!(counters.collections_in_full, before.collections_in_full, "{kind:?}, {fsync_after}");
    }
}
