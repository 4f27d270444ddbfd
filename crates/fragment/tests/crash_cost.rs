//! What a crash has cost, as the map tells it, and how that comes back.
#![allow(clippy::unwrap_used, missing_docs)]

use host::map::{FRAGMENT, SECOND, record, recovered, superblock, warm};
use host::{Host, MS, carry_out};
use mezzanine_fragment::format::{Record, RecordState, Superblock};
use mezzanine_fragment::{DeviceError, Job, Next, ReadKind, Recovered};

mod host;

/// What the crash has cost comes back at the pace of the first stage, though nearly all reads are hits.
#[test]
fn what_a_crash_has_cost_comes_back_fast() {
    let superblock = superblock(100);
    let mut map = vec![0; superblock.layout.map_bytes as usize];
    for slot in 0..100 {
        let mut place = record(&superblock, slot, slot);
        if slot >= 80 {
            let (epoch, volume, state) = (1, 1, RecordState::Unstable);
            Record { epoch, volume, fragment: slot, state }.encode(&mut place, &superblock.cache_id, slot);
        }
        map[slot as usize * 32..][..32].copy_from_slice(&place);
    }
    let (mut host, found) = recovered(&superblock, &map);
    assert_eq!((found.fragments, found.unstable), (80, 20));
    host.flash.fill(0);
    let mut stages = Vec::new();
    while host.statistics().slots_used < 100 {
        // One read in twenty misses.
        let used = host.statistics().slots_used;
        for read in 0..20 {
            host.kind(0, if read == 0 { used * FRAGMENT } else { read * FRAGMENT }, 4096);
        }
        stages.push(host.cache.load().1);
        host.now += 100 * MS;
        host.work();
    }
    assert!(stages.len() < 50 && stages.iter().all(|&stage| stage == 0), "{stages:?}");
    for read in 0..2000 {
        host.kind(0, read % 100 * FRAGMENT, 4096);
        host.now += 100 * MS;
        host.work();
    }
    assert_eq!(host.cache.load().1, 2);
}

/// A cache that is shrunk after a crash is full before as many have come in as the crash has cost.
#[test]
fn a_full_cache_has_back_what_the_crash_has_cost() {
    let superblock = superblock(4);
    let mut map = vec![0; superblock.layout.map_bytes as usize];
    for slot in 0..4 {
        let state = if slot == 0 { RecordState::Stable } else { RecordState::Unstable };
        let mut place = record(&superblock, slot, slot);
        let record = Record { epoch: 1, volume: 1, fragment: slot, state };
        record.encode(&mut place, &superblock.cache_id, slot);
        map[slot as usize * 32..][..32].copy_from_slice(&place);
    }
    let (mut host, found) = recovered(&superblock, &map);
    assert_eq!((found.fragments, found.unstable, host.cache.load().1), (1, 3, 0));
    host.flash.fill(0);
    host.cache.resize(2 * FRAGMENT).unwrap();
    // The second finds that no more slots are free, and another fragment leaves for it.
    host.populate(0, FRAGMENT);
    host.populate(0, 2 * FRAGMENT);
    assert_eq!(host.statistics().populations_done, 2);
    for _ in 0..20 {
        assert_eq!(host.kind(0, 2 * FRAGMENT, 4096), ReadKind::Hit);
    }
    let (load, stage) = host.cache.load();
    assert_eq!(stage, 2, "also with a slot that is free again: {load:?}");
}

/// What is found after a crash, and after the marks that opening waits for.
fn crash(host: &Host, superblock: &Superblock) -> Recovered {
    let map = &host.flash[superblock.layout.map_offset as usize..][..superblock.layout.map_bytes as usize];
    recovered(superblock, map).1
}

/// Fragments that are found after a crash, and those that it has cost.
fn found(host: &Host, superblock: &Superblock) -> (u64, u64) {
    let found = crash(host, superblock);
    assert_eq!((found.lost, found.behind_limit), (0, 0), "{found:?}");
    (found.fragments, found.unstable)
}

fn shrink(host: &mut Host, slots: u64) {
    host.cache.resize(slots * FRAGMENT).unwrap();
    while !host.cache.is_resized() {
        host.pass(1);
    }
}

fn settle(host: &mut Host) {
    host.cache.quiesce();
    while !host.cache.is_settled() {
        host.pass(1);
    }
}

/// Behind the limit of the size first, and within it when the cache has grown again.
#[test]
fn what_has_left_a_cache_that_was_shrunk_is_no_cost_of_a_crash() {
    let whole = superblock(4);
    for is_written in [false, true] {
        let mut host = warm(4);
        if is_written {
            // These are unstable already, so they leave without another mark.
            (2..4).for_each(|fragment| host.write(0, fragment * FRAGMENT, &[1; 4096]));
        }
        shrink(&mut host, 2);
        host.pass(60);
        let smaller = whole.resized(whole.layout.end_of(2)).unwrap();
        assert_eq!(found(&host, &smaller), (2, 0));
        host.cache.resize(4 * FRAGMENT).unwrap();
        assert_eq!(found(&host, &whole), (2, 0));
    }
}

/// Whose records an earlier opening has left, or another build.
#[test]
fn nor_is_what_had_left_before_the_cache_was_opened() {
    let whole = superblock(4);
    let smaller = whole.resized(whole.layout.end_of(2)).unwrap();
    let mut map = vec![0; whole.layout.map_bytes as usize];
    for slot in 0..4 {
        let state = if slot < 2 { RecordState::Stable } else { RecordState::Unstable };
        let mut place = record(&whole, slot, slot);
        Record { epoch: 1, volume: 1, fragment: slot, state }.encode(&mut place, &whole.cache_id, slot);
        map[slot as usize * 32..][..32].copy_from_slice(&place);
    }
    let (mut host, opened) = recovered(&smaller, &map);
    assert_eq!((opened.fragments, opened.unstable, host.cache.load().1), (2, 0, 1), "it is full");
    host.pass(60);
    host.cache.resize(4 * FRAGMENT).unwrap();
    assert_eq!(found(&host, &whole), (2, 0));
}

#[test]
fn nor_is_what_was_forgotten_or_discarded() {
    let whole = superblock(4);
    let mut host = warm(4);
    host.write(0, 0, &[1; 4096]);
    host.cache.forget(0).unwrap();
    host.pass(60);
    assert_eq!(found(&host, &whole), (0, 0));
    let mut host = warm(4);
    host.write(0, 0, &[1; 4096]);
    let discard = host.cache.discard_begin(0, 0, 2 * FRAGMENT).unwrap();
    while host.cache.marks_durable() < discard.waits_for() {
        host.work();
    }
    host.cache.write_end(discard, Ok(()));
    // An orderly end leaves nothing of them either.
    settle(&mut host);
    assert_eq!(found(&host, &whole), (2, 0));
}

/// In a slot that is free again, or in one that the cache device has refused it in.
#[test]
fn nor_is_a_population_that_came_to_nothing() {
    let whole = superblock(4);
    for is_refused in [false, true] {
        let mut host = warm(4);
        let discard = host.cache.discard_begin(0, 3 * FRAGMENT, FRAGMENT).unwrap();
        host.cache.write_end(discard, Ok(()));
        host.pass(60);
        assert_eq!((host.kind(0, 3 * FRAGMENT, 4096), host.statistics().slots_used), (ReadKind::Miss, 3));
        let Host { cache, backing, flash, now } = &mut host;
        let mut next = || loop {
            match cache.next_job(*now) {
                Next::Job(job @ (Job::ReadFragment(_) | Job::WriteFragment(_))) => break job,
                Next::Job(mut job) => {
                    carry_out(&mut job, backing, flash);
                    cache.done(job, Ok(()));
                }
                Next::NotBefore(_) => *now += 100 * MS,
            }
        };
        let mut job = next();
        if is_refused {
            cache.done(job, Ok(()));
            job = next();
        }
        // The mark of another takes its record along.
        let write = cache.write_begin(0, 0, &[1; 4096]).unwrap();
        while write.waits_for() > cache.marks_durable() {
            let Next::Job(mut job) = cache.next_map(*now) else { panic!("the mark is under way") };
            carry_out(&mut job, backing, flash);
            cache.done(job, Ok(()));
        }
        cache.write_end(write, Ok(()));
        cache.done(job, Err(DeviceError));
        settle(&mut host);
        assert_eq!(found(&host, &whole), (3, 0), "refused: {is_refused}");
    }
}

/// A slot that another fragment comes into at once is not written over before: else a block of the map would
/// be written with every fragment that leaves for another.
#[test]
fn what_leaves_for_another_has_no_block_of_the_map_written() {
    let empty = Superblock::new([7; 16], (1 << 20) + 2 * FRAGMENT, FRAGMENT).unwrap();
    let whole = empty.with_volume([1; 16], "volume", 512 * FRAGMENT, [0; 64]).unwrap().opened();
    let mut map = vec![0; whole.layout.map_bytes as usize];
    map[..32].copy_from_slice(&record(&whole, 0, 0));
    let (mut host, _) = recovered(&whole, &map);
    host.flash.fill(0);
    let come_in = |host: &mut Host, fragment: u64| {
        let before = host.statistics().populations_done;
        assert_eq!(host.kind(0, fragment * FRAGMENT, 4096), ReadKind::Miss);
        while host.statistics().populations_done == before {
            host.now += 100 * MS;
            host.work();
        }
    };
    let slots = host.statistics().slots;
    (1..slots).for_each(|fragment| come_in(&mut host, fragment));
    // The mark takes the records of all of them along.
    host.write(0, 0, &[1; 4096]);
    let (before, begun) = (host.statistics(), host.now);
    let mut evictions = 0;
    // A tick at least, and nothing settles.
    while host.now - begun < 12 * SECOND {
        come_in(&mut host, slots + evictions);
        evictions += 1;
    }
    let after = host.statistics();
    assert_eq!(after.evictions - before.evictions, evictions);
    assert_eq!(after.map_blocks_written - before.map_blocks_written, 0, "{evictions} evictions");
}
