//! Many lookups in one call find what lookups one by one find.
#![allow(clippy::unwrap_used, missing_docs)]

mod common;

use common::{Host, page};
use mezzanine_engine::{Lookup, PageId, TierConfig};

const PAGE: usize = 4096;

/// What `lookup_each` finds of pages of file 1, and what is in the memory for each.
fn each(host: &Host, blocks: &[u64]) -> Vec<(Lookup, Vec<u8>)> {
    let mut memory = vec![0; blocks.len() * PAGE];
    let mut found = Vec::new();
    let ids = blocks.iter().map(|block| PageId::volume(1, *block));
    host.tier.lookup_each(ids.zip(memory.chunks_exact_mut(PAGE)), |lookup| found.push(lookup));
    found.into_iter().zip(memory.chunks_exact(PAGE).map(<[u8]>::to_vec)).collect()
}

fn one_by_one(host: &Host, blocks: &[u64]) -> Vec<(Lookup, Vec<u8>)> {
    let one = |block: &u64| {
        let mut memory = vec![0; PAGE];
        (host.tier.lookup(&PageId::volume(1, *block), &mut memory), memory)
    };
    blocks.iter().map(one).collect()
}

/// Pages in staging memory, on flash and in neither, some of them twice; batches of every length around the
/// number of pages that are under way at once.
#[test]
fn batches_find_what_single_lookups_find() {
    let mut host = Host::new(&TierConfig::new(PAGE as u32, 512), 3);
    for block in 0..300 {
        host.write(PageId::volume(1, block), &page(PAGE, block));
    }
    host.sync();
    while host.step() {}
    for block in 290..330 {
        host.write(PageId::volume(1, block), &page(PAGE, 1000 + block));
    }
    let mut kinds = [0; 3];
    for length in 0..70 {
        let blocks: Vec<u64> = (0..length).map(|_| host.random(400)).collect();
        let found = each(&host, &blocks);
        assert_eq!(found, one_by_one(&host, &blocks));
        for ((lookup, memory), block) in found.iter().zip(&blocks) {
            kinds[match lookup {
                Lookup::Memory => {
                    assert_eq!(*memory, page(PAGE, 1000 + block));
                    0
                }
                Lookup::Flash(_) => 1,
                Lookup::Miss(_) => 2,
            }] += 1;
        }
    }
    assert!(kinds.iter().all(|count| *count > 100), "in memory, on flash, in neither: {kinds:?}");
}

/// Each is counted.
#[test]
fn each_of_many_counts() {
    let mut host = Host::new(&TierConfig::new(PAGE as u32, 512), 3);
    host.write(PageId::volume(1, 0), &page(PAGE, 0));
    let before = host.tier.statistics();
    each(&host, &[0, 1, 0, 2, 3]);
    let after = host.tier.statistics();
    assert_eq!(after.hits_memory - before.hits_memory, 2);
    assert_eq!(after.misses - before.misses, 3);
}

#[test]
#[should_panic(expected = "a page of the wrong size")]
fn memory_of_another_size_is_refused() {
    let host = Host::new(&TierConfig::new(PAGE as u32, 512), 3);
    let mut short = [0; 512];
    host.tier.lookup_each([(PageId::volume(1, 0), &mut short[..])], |_| {});
}
