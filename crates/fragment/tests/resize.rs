//! The cache grows and shrinks while it is used (invariant 17).
#![allow(clippy::unwrap_used, missing_docs)]

use host::{BLOCK, Host, MS, small};
use mezzanine_fragment::{Config, MapConfig, Next, ReadKind};

mod host;

const FRAGMENT: u64 = 128 << 10;

/// All of so many fragments in a cache that has room for four.
fn full(config: &Config, fragments: u64) -> Host {
    let mut host = Host::new(config);
    for fragment in 0..fragments {
        host.populate(0, fragment * FRAGMENT);
    }
    host
}

fn with_map() -> Config {
    let mut config = small(4, &[8]);
    config.data_offset = BLOCK;
    config.cache_bytes += BLOCK;
    let (cache_id, volume_numbers) = ([9; 16], vec![1]);
    config.map =
        Some(MapConfig { cache_id, epoch: 1, volume_numbers, offset: 0, settle_ms: 4, waits_per_mille: 10 });
    config
}

/// Slots in which something lies.
fn slots(host: &Host) -> Vec<u64> {
    let data = host.cache.geometry().data_offset();
    let at = (0..8).filter_map(|fragment| host.cache.location(0, fragment * FRAGMENT));
    let mut slots: Vec<_> = at.map(|at| (at - data) / FRAGMENT).collect();
    slots.sort_unstable();
    slots
}

fn until_resized(host: &mut Host) {
    for _ in 0..100 {
        host.work();
        host.now += 20 * MS;
        if host.cache.is_resized() {
            return;
        }
    }
    panic!("it does not come to an end: {:?}", host.statistics());
}

#[test]
fn what_lies_behind_the_limit_leaves_and_nothing_comes_in_there() {
    for config in [small(4, &[8]), with_map()] {
        let mut host = full(&config, 4);
        host.cache.resize(2 * FRAGMENT).unwrap();
        assert!(!host.cache.is_resized());
        until_resized(&mut host);
        assert_eq!(slots(&host), [0, 1]);
        let statistics = host.statistics();
        assert_eq!((statistics.slots, statistics.slots_used, statistics.fragments_shrunk), (2, 2, 2));
        for fragment in 4..8 {
            host.populate(0, fragment * FRAGMENT);
        }
        assert_eq!(slots(&host), [0, 1], "others leave for what comes in");
        assert_eq!(host.cache.load().0.slots_free, 0);
    }
}

#[test]
fn what_was_withdrawn_is_used_again() {
    let mut host = full(&small(4, &[8]), 4);
    for (size, now) in [(1, 1), (3, 3), (2, 2), (4, 4)] {
        host.cache.resize(size * FRAGMENT).unwrap();
        until_resized(&mut host);
        for fragment in (0..8).rev() {
            if host.cache.location(0, fragment * FRAGMENT).is_none() && slots(&host).len() < now {
                host.populate(0, fragment * FRAGMENT);
            }
        }
        assert_eq!(slots(&host).len(), now, "with a size of {size}");
        assert_eq!(host.statistics().slots_used, now as u64);
    }
    // Never used before it shrank.
    let mut host = full(&small(4, &[8]), 1);
    host.cache.resize(2 * FRAGMENT).unwrap();
    until_resized(&mut host);
    assert_eq!(host.cache.load().0.slots_free, 1);
    host.populate(0, FRAGMENT);
    host.populate(0, 2 * FRAGMENT);
    assert_eq!(slots(&host), [0, 1]);
    host.cache.resize(4 * FRAGMENT).unwrap();
    host.populate(0, 3 * FRAGMENT);
    assert_eq!(slots(&host), [0, 1, 2]);
}

/// What is being written to stays until that is over, and a reader is told.
#[test]
fn nothing_leaves_under_a_write_or_a_reader() {
    let mut host = full(&small(4, &[8]), 4);
    let behind = |host: &Host| {
        (0..4).find(|fragment| host.cache.location(0, fragment * FRAGMENT).unwrap() >= 3 * FRAGMENT).unwrap()
    };
    let fragment = behind(&host);
    let mut pieces = Vec::new();
    host.cache.read(0, fragment * FRAGMENT, BLOCK, &mut pieces).unwrap();
    let token = host.cache.write_begin(0, fragment * FRAGMENT + BLOCK, &[1; BLOCK as usize]).unwrap();
    host.cache.resize(3 * FRAGMENT).unwrap();
    for _ in 0..10 {
        host.work();
        host.now += 20 * MS;
    }
    assert!(!host.cache.is_resized() && host.cache.confirm(&pieces[0]));
    host.backing[0][(fragment * FRAGMENT + BLOCK) as usize..][..BLOCK as usize].fill(1);
    host.cache.write_end(token, Ok(()));
    until_resized(&mut host);
    assert!(!host.cache.confirm(&pieces[0]), "the fragment is not there any more");
    assert_eq!(host.kind(0, fragment * FRAGMENT, BLOCK), ReadKind::Miss);
}

/// A population that has begun goes on, and what it brings in leaves then.
#[test]
fn a_population_behind_the_limit_ends_first() {
    let mut host = full(&small(4, &[8]), 3);
    assert_eq!(host.kind(0, 3 * FRAGMENT, BLOCK), ReadKind::Miss);
    host.now += 1000 * MS;
    let mut jobs = Vec::new();
    for _ in 0..5 {
        if let Next::Job(job) = host.cache.next_job(host.now) {
            jobs.push(job);
        }
        host.now += 500 * MS;
    }
    assert_eq!(jobs.len(), 1);
    host.cache.resize(3 * FRAGMENT).unwrap();
    assert!(matches!(host.cache.next_job(host.now), Next::NotBefore(_)) && !host.cache.is_resized());
    for mut job in jobs {
        host::carry_out(&mut job, &host.backing, &mut host.flash);
        host.cache.done(job, Ok(()));
    }
    until_resized(&mut host);
    assert_eq!(slots(&host), [0, 1, 2]);
}

#[test]
fn a_size_that_cannot_be_is_refused() {
    let host = full(&small(4, &[8]), 1);
    for bytes in [0, FRAGMENT - 1, 4 * FRAGMENT + 1] {
        let refused = host.cache.resize(bytes).unwrap_err().to_string();
        assert!(refused.starts_with("size: "), "{refused}");
    }
    assert_eq!(host.cache.slots_limit(), 4);
}

/// A cache that was made for more than it has at first grows up to that.
#[test]
fn a_cache_begins_with_a_part_of_its_slots() {
    let mut config = small(4, &[8]);
    config.slots_limit = 2;
    let mut host = full(&config, 4);
    assert_eq!((host.cache.slots_limit(), slots(&host)), (2, vec![0, 1]));
    assert_eq!((host.cache.load().0.slots, host.cache.load().0.slots_free), (2, 0));
    host.cache.resize(3 * FRAGMENT).unwrap();
    let absent = (0..4).find(|fragment| host.cache.location(0, fragment * FRAGMENT).is_none()).unwrap();
    host.populate(0, absent * FRAGMENT);
    assert_eq!(slots(&host), [0, 1, 2]);
    host.cache.resize(FRAGMENT).unwrap();
    assert_eq!(host.cache.fragments_behind_limit(), 2);
    until_resized(&mut host);
    assert_eq!(host.cache.fragments_behind_limit(), 0);
    config.slots_limit = 5;
    let refused = config.geometry().unwrap_err().to_string();
    assert_eq!(refused, "slots_limit: 5 fragments are more than the 4 there is room for; use 4 at most");
}
