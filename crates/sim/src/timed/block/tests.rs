//! Whole runs of block requests.
#![allow(clippy::unwrap_used)]

use super::*;

/// A small and short race.
fn short(cache: BlockCache) -> BlockSetup {
    BlockSetup {
        cache,
        volume_bytes: 32 << 20,
        cache_bytes: 64 << 20,
        seconds: 20.0,
        ..BlockSetup::default()
    }
}

#[test]
fn nothing_between_is_the_device_alone() {
    let outcome = run_blocks(&short(BlockCache::Nothing)).unwrap();
    // 2.5 ms and 8,192 bytes at 150 MB/s, one after the other.
    let exact = 1e9 / 2_554_613.0;
    assert!((outcome.whole.iops / exact - 1.0).abs() < 0.001, "{} for {exact}", outcome.whole.iops);
    // Eight clients: each waits for the seven others (Little's law).
    assert!((outcome.whole.request_us / (8.0 * 2554.613) - 1.0).abs() < 0.001);
    assert!(outcome.whole.backing_busy_percent > 99.9 && outcome.whole.read_hit_percent == 0.0);
    let flash = run_blocks(&short(BlockCache::AllFlash)).unwrap();
    assert!((flash.whole.iops / (8.0 / 80e-6) - 1.0).abs() < 0.001, "{}", flash.whole.iops);
}

#[test]
fn everything_that_fits_is_found_in_the_end_and_runs_can_be_repeated() {
    for cache in BlockCache::ALL.into_iter().filter(|cache| *cache != BlockCache::Nothing) {
        let setup = short(cache);
        let outcome = run_blocks(&setup).unwrap();
        let last = outcome.last(0.5);
        assert!(last.read_hit_percent > 99.0, "{}: {last:?}", setup.cache.name());
        assert!(last.iops > 20_000.0, "{}: {last:?}", setup.cache.name());
        assert_eq!(outcome, run_blocks(&setup).unwrap(), "{}", setup.cache.name());
    }
}

#[test]
fn a_cache_that_is_too_small_still_keeps_its_rules() {
    for cache in BlockCache::ALL {
        let load = BlockLoad::Regions { bytes: 1 << 20, exponent: 0.9, turnover: 20_000 };
        let setup = BlockSetup {
            cache_bytes: 8 << 20,
            load,
            write_share: 0.3,
            request_bytes: 4096,
            clients: 16,
            ..short(cache)
        };
        let outcome = run_blocks(&setup).unwrap();
        let whole = &outcome.whole;
        assert!(whole.iops > 300.0, "{}: {whole:?}", setup.cache.name());
        let written = whole.populated_mib + whole.followed_mib + whole.index_mib;
        // What is under way at the end was counted by one and not by the other.
        assert!((whole.cache_written_mib - written).abs() < 12.0, "{}: {whole:?}", setup.cache.name());
    }
}

/// The race with three writes in ten requests.
fn with_writes(cache: BlockCache) -> BlockSetup {
    BlockSetup { cache, write_share: 0.3, seconds: 120.0, ..BlockSetup::default() }
}

#[test]
fn only_writing_back_does_more_writes_than_the_backing_device_can() {
    // What a device of one operation of 2.55 ms at a time can do where every write goes to it.
    let bound = 1e9 / 2_554_613.0 / 0.3;
    let through = run_blocks(&with_writes(BlockCache::Pages { is_durable: false })).unwrap();
    let last = through.last(0.5).iops;
    // Not all of the volume is on flash then, and reads wait behind writes.
    assert!((0.85 * bound..=1.02 * bound).contains(&last), "{last} of {bound}");
    let back = run_blocks(&with_writes(BlockCache::Pages { is_durable: true })).unwrap();
    let last = back.last(0.5);
    // By the paper's rule it was 4.4 times the bound: pages left a cache with room for all of them.
    assert!(last.iops > 10.0 * bound, "{last:?}");
    // What leaves the queue is written home, once for many writes of it.
    assert!(back.whole.backing_written_mib < 0.06 * back.whole.followed_mib, "{:?}", back.whole);
}

/// A run with some of the fragment cache's options beside one without.
fn with(setup: &BlockSetup, change: impl Fn(&mut SceSetup)) -> [BlockOutcome; 2] {
    let mut sce = SceSetup::PUBLISHED;
    let without = run_blocks(&BlockSetup { cache: BlockCache::Sce(sce), ..setup.clone() }).unwrap();
    change(&mut sce);
    [without, run_blocks(&BlockSetup { cache: BlockCache::Sce(sce), ..setup.clone() }).unwrap()]
}

#[test]
fn a_budget_of_bytes_written_is_kept_and_what_it_refuses_is_counted() {
    let setup = BlockSetup { write_share: 0.3, ..short(BlockCache::Nothing) };
    let [without, with] = with(&setup, |sce| sce.write_budget = 64 << 20);
    let written = with.whole.cache_written_mib;
    // A quarter at once, and what comes in of the rest within 20 s.
    assert!((14.0..=16.1).contains(&written), "{written} MiB of a budget of 64 a day");
    assert!(without.whole.cache_written_mib > 2.0 * written);
    assert!(with.reasons["bypass_write_budget"] > 0 && with.reasons["bypass_population_budget"] > 0);
    assert!(!without.reasons.contains_key("bypass_write_budget"), "{:?}", without.reasons);
}

/// A cache device that does one thing at a time, and a fragment takes it 2 ms.
#[test]
fn what_yields_leaves_reads_of_the_cache_device_their_time() {
    let setup = BlockSetup {
        cache_device: BlockDevice::Flat { latency_us: 80.0, depth: 1, mb_per_s: Some(500.0) },
        backing: BlockDevice::Flat { latency_us: 200.0, depth: 32, mb_per_s: None },
        load: BlockLoad::Regions { bytes: 1 << 20, exponent: 0.9, turnover: 50_000 },
        volume_bytes: 256 << 20,
        cache_bytes: 64 << 20,
        clients: 4,
        ..short(BlockCache::Nothing)
    };
    let [without, with] = with(&setup, |sce| sce.yield_us = 150);
    println!("{:?}\n{:?}\n{:?}", without.whole, with.whole, with.reasons);
    println!("{:?}\n{:?}", without.requests, with.requests);
    assert!(with.reasons["populations_yielded"] > 0, "{:?}", with.reasons);
    assert!(with.whole.populated_mib > 10.0, "nothing waits for good: {:?}", with.whole);
    assert!(with.requests.p99_us < without.requests.p99_us, "{:?}, {:?}", with.requests, without.requests);
}

#[test]
fn a_cache_that_shrinks_goes_on_with_less() {
    let setup = BlockSetup { interval_seconds: 5.0, write_share: 0.1, ..short(BlockCache::Nothing) };
    let [without, with] = with(&setup, |sce| sce.resize = Some((10, 8 << 20)));
    let hits = |outcome: &BlockOutcome, number: usize| outcome.series[number].read_hit_percent;
    assert_eq!(hits(&without, 1), hits(&with, 1), "until then they are the same");
    assert!(hits(&without, 3) > 99.0 && (10.0..90.0).contains(&hits(&with, 3)), "{:?}", with.series);
    assert_eq!(with.reasons["fragments_shrunk"], 24, "of 32 fragments");
}

/// A cache device that stands still for a second in five: a write is complete when the backing device has it,
/// which is deep enough for population beside that.
#[test]
fn writes_take_no_longer_than_without_a_cache_also_while_its_device_stands_still() {
    let mut sce = SceSetup::PUBLISHED;
    sce.admission.writes = 4;
    let stalls = Stalls { every_seconds: 5, lasts_ms: 1000 };
    for cache_stalls in [None, Some(stalls)] {
        let of = |cache| {
            let backing = BlockDevice::Flat { latency_us: 2500.0, depth: 64, mb_per_s: None };
            // Even: a write of what is being written waits for that.
            let load = BlockLoad::Uniform;
            let setup = BlockSetup { backing, load, write_share: 1.0, cache_stalls, ..short(cache) };
            run_blocks(&setup).unwrap()
        };
        let (alone, cached) = (of(BlockCache::Nothing), of(BlockCache::Sce(sce)));
        assert!(cached.whole.followed_mib > 10.0, "writes follow to the cache device: {:?}", cached.whole);
        assert!(cached.requests.p99_us <= 1.05 * alone.requests.p99_us, "{:?}", cached.requests);
        assert!(cached.requests.max_us < 3.0 * alone.requests.max_us, "{:?}", cached.requests);
        println!("{:?}\n{:?}", alone.requests, cached.requests);
    }
}

#[test]
fn rivals_that_write_back_do_more_writes_than_the_backing_device_can() {
    let of = |cache| run_blocks(&BlockSetup { write_share: 0.3, ..short(cache) }).unwrap();
    for (through, back) in [
        (
            BlockCache::Flashcache(Order::Fifo, Writes::Through),
            BlockCache::Flashcache(Order::Fifo, Writes::Back),
        ),
        (BlockCache::EnhanceIo(Writes::Through), BlockCache::EnhanceIo(Writes::Back)),
    ] {
        let [through, back] = [of(through), of(back)];
        assert!(back.whole.iops > 10.0 * through.whole.iops, "{:?}, {:?}", through.whole, back.whole);
        // What is written home was written more than once since it had been last.
        assert!(back.whole.backing_written_mib < 0.2 * back.whole.followed_mib, "{:?}", back.whole);
    }
    // Its buckets are soon dirty in part, and then writes go to both devices.
    let back = of(BlockCache::Bcache(Writes::Back)).whole;
    assert!(back.backing_written_mib < 0.9 * back.followed_mib, "{back:?}");
}

#[test]
fn reads_and_writes_are_admitted_apart_from_each_other() {
    let setup = BlockSetup { write_share: 1.0, ..short(BlockCache::Nothing) };
    let [without, with] = with(&setup, |sce| sce.admission.writes = 4);
    assert!(without.whole.populated_mib == 0.0 && with.whole.populated_mib > 10.0, "{:?}", with.whole);
    assert!(without.reasons["misses_of_writes"] > 0 && with.reasons["misses_too_few"] > 0);
}

#[test]
fn parameters_that_cannot_be_are_named() {
    let refused = |setup: BlockSetup| run_blocks(&setup).unwrap_err().to_string();
    let small = BlockSetup { cache_bytes: 4096, ..BlockSetup::default() };
    for cache in
        [BlockCache::Bcache(Writes::Through), BlockCache::DmCache, BlockCache::EnhanceIo(Writes::Through)]
    {
        let text = refused(BlockSetup { cache, ..small.clone() });
        assert!(text.starts_with("cache_bytes: 4096 bytes have no room for"), "{text}");
    }
    assert!(refused(small).starts_with("cache_bytes: "));
    let odd = BlockSetup { request_bytes: 5000, ..BlockSetup::default() };
    assert_eq!(refused(odd), "request_bytes: 5000 is not a number of blocks of 4096 bytes; use 4096");
    let stalls = Some(Stalls { every_seconds: 2, lasts_ms: 2000 });
    let still = BlockSetup { cache_stalls: stalls, ..BlockSetup::default() };
    assert_eq!(refused(still), "cache_stalls: 2000 is not between 0 and 1999; use 1999");
    let shares = BlockSetup { write_share: 1.5, ..BlockSetup::default() };
    assert_eq!(refused(shares), "write_share: 1.5 is not between 0 and 1; use 1");
}

/// What the cache says of other sizes, beside what those do; and no rival can say that.
#[test]
fn other_sizes_are_said_and_run() {
    let setup = BlockSetup {
        backing: BlockDevice::Flat { latency_us: 500.0, depth: 32, mb_per_s: None },
        load: BlockLoad::Regions { bytes: 1 << 20, exponent: 0.9, turnover: 0 },
        volume_bytes: 256 << 20,
        cache_bytes: 64 << 20,
        seconds: 30.0,
        ..short(BlockCache::Sce(SceSetup::PUBLISHED))
    };
    let outcome = run_sizing(&setup).unwrap();
    let mebibytes: Vec<_> = outcome.rows.iter().map(|row| row.estimate.cache_bytes >> 20).collect();
    assert_eq!(mebibytes, [32, 64, 128, 256, 64, 64, 64, 64, 64, 64]);
    for row in &outcome.rows {
        let said = 100.0 * row.estimate.hit_ratio.unwrap();
        println!("{row:?}");
        assert!((said - row.run.read_hit_percent).abs() < 10.0, "{row:?}");
    }
    assert_eq!(outcome, run_sizing(&setup).unwrap());
    let refused = run_sizing(&BlockSetup { cache: BlockCache::DmCache, ..setup }).unwrap_err();
    assert!(refused.to_string().starts_with("cache: 'dm-cache' cannot say"), "{refused}");
}
