//! How fast the cache fills, and with what (sections 3.1, 3.5 and 3.6 of the paper).
#![allow(clippy::unwrap_used, missing_docs)]

use host::{BLOCK, Host, MS, small};
use mezzanine_fragment::{Config, Job, Load, Next, ReadKind, Throttle};

mod host;

const FRAGMENT: u64 = 128 << 10;

/// The stage that holds when so many of 1,000 reads miss and so many of 1,000 slots are free.
fn stage(misses: u64, slots_free: u64) -> usize {
    Load { reads: 1000, misses, slots: 1000, slots_free }.stage(&Throttle::default().stages)
}

/// "All of which run until the cache read miss rate becomes less than 35% or the percentage of free space in
/// the cache reaches 10% or less"; "until read cache miss-rate becomes less than 15%".
#[test]
fn stages_end_where_the_paper_says() {
    let workers = Throttle::default().stages.map(|stage| stage.workers);
    assert_eq!(workers, [8, 4, 1]);
    assert_eq!(Throttle::default().stages[2].period_ms, 500);
    assert_eq!(stage(350, 101), 0);
    assert_eq!(stage(349, 101), 1);
    assert_eq!(stage(350, 100), 1);
    assert_eq!(stage(1000, 0), 1);
    assert_eq!(stage(150, 1000), 1);
    assert_eq!(stage(149, 1000), 2);
    assert_eq!(stage(0, 1000), 2);
    // Before the first read, and back again when reads miss.
    let fresh = Load { reads: 0, misses: 0, slots: 1000, slots_free: 1000 };
    assert_eq!(fresh.stage(&Throttle::default().stages), 0);
}

/// A read that needs the backing device is a miss to the throttle, whatever the cache had of it.
#[test]
fn a_partial_hit_is_a_miss() {
    let mut host = Host::new(&small(2, &[2]));
    host.populate(0, 0);
    assert_eq!(host.kind(0, FRAGMENT - BLOCK, 2 * BLOCK), ReadKind::Partial);
    assert_eq!(host.kind(0, 0, BLOCK), ReadKind::Hit);
    let (load, _) = host.cache.load();
    assert_eq!((load.reads, load.misses), (3, 2));
    assert_eq!(host.statistics().hit_ratio(), Some(1.0 / 3.0));
}

/// The fragments that are read from the backing device at this moment, without one being done.
fn begun_at_once(host: &mut Host) -> usize {
    let mut jobs = Vec::new();
    while let Next::Job(job) = host.cache.next_job(host.now) {
        assert!(matches!(job, Job::ReadFragment(_)));
        jobs.push(job);
    }
    let begun = jobs.len();
    for job in jobs {
        host.cache.done(job, Ok(()));
    }
    begun
}

/// 200 slots, and reads of so many fragments that are not in the cache.
fn missed(config: &Config, fragments: u64) -> Host {
    let host = Host::new(config);
    for fragment in 0..fragments {
        assert_eq!(host.kind(0, fragment * FRAGMENT, 1), ReadKind::Miss);
    }
    host
}

#[test]
fn a_cycle_begins_with_sleep_and_eight_populate_at_first() {
    let mut host = missed(&small(200, &[400]), 20);
    assert!(matches!(host.cache.next_job(5), Next::NotBefore(at) if at == 5 + 100 * MS));
    host.now = 99 * MS;
    assert_eq!(begun_at_once(&mut host), 0);
    host.now = 101 * MS;
    assert_eq!(begun_at_once(&mut host), 8);
    // No more until those are done, and slept.
    host.work();
    assert_eq!(host.statistics().populations_done, 8);
    host.now += 99 * MS;
    assert_eq!(begun_at_once(&mut host), 0);
    host.now += MS;
    assert_eq!(begun_at_once(&mut host), 8);
}

#[test]
fn fewer_populate_the_fewer_reads_miss() {
    let mut config = small(200, &[400]);
    config.throttle.window_reads = 100;
    let mut host = missed(&config, 20);
    host.work();
    host.now += 100 * MS;
    host.work();
    assert_eq!(host.statistics().populations_done, 8);
    let cached = (0..20).find(|fragment| host.cache.location(0, fragment * FRAGMENT).is_some()).unwrap();
    let hits = |host: &Host, count| {
        for _ in 0..count {
            assert_eq!(host.kind(0, cached * FRAGMENT, 1), ReadKind::Hit);
        }
    };
    // 20 of 80 reads miss: 25 %.
    hits(&host, 60);
    assert_eq!(host.cache.load().1, 1);
    host.now += 100 * MS;
    assert_eq!(begun_at_once(&mut host), 4);
    host.work();
    // 20 of 200 miss: 10 %. One is left, and sleeps longer.
    hits(&host, 120);
    assert_eq!(host.cache.load().1, 2);
    host.now += 1000 * MS;
    assert_eq!(begun_at_once(&mut host), 1);
    host.work();
    let begun = host.statistics().populations_begun;
    host.now += 499 * MS;
    assert_eq!(begun_at_once(&mut host), 0);
    host.now += MS;
    assert_eq!(begun_at_once(&mut host), 1);
    assert_eq!(host.statistics().populations_begun, begun + 1);
    host.work();
    // Reads miss again: all are back.
    for fragment in 100..300 {
        host.kind(0, fragment * FRAGMENT, 1);
    }
    assert_eq!(host.cache.load().1, 0);
    host.now += 1000 * MS;
    assert_eq!(begun_at_once(&mut host), 8);
}

#[test]
fn four_populate_when_a_tenth_of_the_cache_is_free() {
    let mut host = missed(&small(20, &[400]), 100);
    while host.statistics().populations_done < 16 {
        host.work();
        host.now += 100 * MS;
    }
    // With the second one 18 of 20 are in use, and there are four from then on.
    assert_eq!(begun_at_once(&mut host), 4);
    assert_eq!(host.statistics().slots_used, 20);
    host.work();
    host.now += 100 * MS;
    assert_eq!(begun_at_once(&mut host), 4, "at a full cache others leave for them");
    assert_eq!(host.statistics().evictions, 4);
}

/// "The hottest fragment among the 100 MRU fragments."
#[test]
fn the_hottest_of_the_100_that_were_missed_last_comes_in() {
    let mut config = small(200, &[400]);
    config.population_workers = 1;
    let mut host = missed(&config, 101);
    // The first one was forgotten for the last.
    let candidates = host.cache.candidates();
    assert_eq!(candidates.len(), 100);
    assert_eq!(candidates[0], (0, 100 * FRAGMENT, 1));
    assert_eq!(candidates[99], (0, FRAGMENT, 1));
    for _ in 0..3 {
        host.kind(0, 7 * FRAGMENT + 5 * BLOCK, 1);
        host.kind(0, 9 * FRAGMENT, BLOCK);
    }
    host.kind(0, 9 * FRAGMENT, BLOCK);
    let mut order = Vec::new();
    for _ in 0..4 {
        host.work();
        host.now += 500 * MS;
        let came = |fragment: &u64| host.cache.location(0, fragment * FRAGMENT).is_some();
        order.extend((0..101).filter(came).filter(|fragment| !order.contains(fragment)).collect::<Vec<_>>());
    }
    // By heat; of equally hot ones the one that was missed last.
    assert_eq!(order, [9, 7, 100]);
    assert_eq!(host.cache.candidates().len(), 97);
}

/// Hits do not make candidates; a fragment that has gone and is missed again begins anew.
#[test]
fn heat_is_that_of_misses() {
    let mut host = Host::new(&small(1, &[3]));
    host.populate(0, 0);
    for _ in 0..5 {
        assert_eq!(host.kind(0, 0, BLOCK), ReadKind::Hit);
    }
    assert_eq!(host.cache.candidates(), []);
    host.write(0, FRAGMENT, &[1; 4096]);
    assert_eq!(host.cache.candidates(), [], "writes count if that is wanted");
    let mut config = small(1, &[3]);
    config.admission.writes = 1;
    let mut host = Host::new(&config);
    host.write(0, FRAGMENT, &[1; 4096]);
    assert_eq!(host.cache.candidates(), [(0, FRAGMENT, 1)]);
}

/// "Incremented, up to a ceiling value (set to 4). As the clock hand moves past the fragment, the counter is
/// decremented; a fragment having a reference counter of 0 is eligible for eviction."
#[test]
fn the_counter_of_clock_has_a_ceiling_of_four() {
    let mut host = Host::new(&small(3, &[8]));
    for fragment in 0..3 {
        host.populate(0, fragment * FRAGMENT);
        assert_eq!(host.cache.references(0, fragment * FRAGMENT), Some(1));
    }
    for _ in 0..10 {
        host.kind(0, 0, BLOCK);
    }
    assert_eq!(host.cache.references(0, 0), Some(4));
    host.write(0, FRAGMENT, &[1; 4096]);
    host.work();
    assert_eq!(host.cache.references(0, FRAGMENT), Some(2), "a write is an access");
    // Passed twice, the third one was at 1: it leaves when the hand comes round.
    host.populate(0, 3 * FRAGMENT);
    assert_eq!(host.cache.references(0, 2 * FRAGMENT), None);
    assert_eq!(host.cache.references(0, FRAGMENT), Some(0));
    assert_eq!(host.cache.references(0, 0), Some(2));
    // The hand stands behind the third. The first is passed at 2, the second leaves.
    host.populate(0, 4 * FRAGMENT);
    assert_eq!(host.cache.references(0, FRAGMENT), None);
    assert_eq!(host.cache.references(0, 0), Some(1));
    assert_eq!(host.statistics().evictions, 2);
}

/// A cache all of which is being written to evicts nothing, and says so by doing nothing.
#[test]
fn nothing_leaves_that_is_being_written_to() {
    let mut host = Host::new(&small(1, &[2]));
    host.populate(0, 0);
    let token = host.cache.write_begin(0, 0, &[7; 4096]).unwrap();
    host.kind(0, FRAGMENT, 1);
    for _ in 0..20 {
        while let Next::Job(job) = host.cache.next_job(host.now) {
            assert!(matches!(job, Job::WriteBlocks(_)));
            host.cache.done(job, Ok(()));
        }
        host.now += 500 * MS;
    }
    assert_eq!(host.statistics().evictions, 0);
    host.cache.write_end(token, Ok(()));
    for _ in 0..4 {
        host.now += 500 * MS;
        host.work();
    }
    assert_eq!(host.statistics().evictions, 1);
}

/// Who asks for the load again and again changes nothing.
#[test]
fn asking_for_the_load_does_not_move_its_window() {
    let mut config = small(200, &[400]);
    config.throttle.window_reads = 10;
    let loads = [true, false].map(|asks| {
        let host = missed(&config, 5);
        for fragment in 5..25 {
            host.kind(0, fragment * FRAGMENT, 1);
            if asks {
                host.cache.load();
            }
        }
        host.cache.load()
    });
    assert_eq!(loads[0], loads[1]);
}

/// Copies that never end do not keep population away.
#[test]
fn population_goes_on_beside_copies() {
    let mut host = Host::new(&small(2, &[2]));
    host.populate(0, 0);
    host.kind(0, FRAGMENT, 1);
    for round in 0..100 {
        host.write(0, 0, &[round; 4096]);
        let Next::Job(mut job) = host.cache.next_job(host.now) else { panic!("there is a copy") };
        host::carry_out(&mut job, &host.backing, &mut host.flash);
        host.cache.done(job, Ok(()));
        host.now += 100 * MS;
    }
    assert_eq!(host.statistics().populations_done, 2);
}
