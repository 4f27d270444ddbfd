//! Marks, and what waits for them.
#![allow(clippy::unwrap_used, missing_docs)]

use host::map::{FRAGMENT, SECOND, record, recovered, recovered_with, superblock, warm};
use host::{BLOCK, Host, carry_out};
use mezzanine_fragment::format::{BITMAP_AT, Record, RecordState, Superblock};
use mezzanine_fragment::{Cache, DeviceError, Health, Job, Next, ReadKind, Recovered, Recovery};
use mezzanine_ground::random::Random;

mod host;

#[test]
fn only_what_is_stable_waits_for_a_cache_device_that_does_not_answer() {
    let mut host = warm(4);
    host.write(0, FRAGMENT, &[1; 4096]);
    assert_eq!(host.statistics().writes_waited, 1);
    host.cache.forget(0).unwrap();
    host.work();
    host.populate(0, 3 * FRAGMENT);
    // From here on no job comes back. One of these fragments is unstable, one is absent.
    let begin =
        |host: &Host, fragment: u64| host.cache.write_begin(0, fragment * FRAGMENT, &[2; 4096]).unwrap();
    assert_eq!((begin(&host, 3).waits_for(), begin(&host, 0).waits_for()), (0, 0));
    let host = warm(2);
    let token = begin(&host, 0);
    assert!(token.waits_for() > host.cache.marks_durable());
    let Next::Job(stalled) = host.cache.next_map(0) else { panic!("the mark is written") };
    // Nothing of the cache is used any more, and nothing waits.
    host.cache.go_offline();
    assert!(token.waits_for() <= host.cache.marks_durable());
    host.cache.write_end(token, Ok(()));
    let past = begin(&host, 1);
    assert_eq!(past.waits_for(), 0);
    host.cache.write_end(past, Ok(()));
    assert_eq!(host.kind(0, FRAGMENT, 4096), ReadKind::Miss);
    assert_eq!((host.cache.health(), host.cache.outstanding()), (Health::Offline, 1));
    host.cache.done(stalled, Err(DeviceError));
    assert_eq!((host.cache.health(), host.cache.outstanding()), (Health::Offline, 0));
    assert!(!host.has_job());
}

#[test]
fn what_is_read_while_the_cache_goes_offline_does_not_count() {
    let host = warm(1);
    let mut pieces = Vec::new();
    assert_eq!(host.cache.read(0, 0, 4096, &mut pieces), Ok(ReadKind::Hit));
    host.cache.go_offline();
    assert!(!host.cache.confirm(&pieces[0]));
}

#[test]
fn one_commit_is_for_all_who_wait() {
    let host = warm(64);
    let before = host.statistics();
    let tokens: Vec<_> =
        (0..64).map(|at| host.cache.write_begin(0, at * FRAGMENT, &[1; 4096]).unwrap()).collect();
    let last = tokens.iter().map(|token| token.waits_for()).max().unwrap();
    while host.cache.marks_durable() < last {
        assert!(host.map_job());
    }
    let after = host.statistics();
    assert_eq!(after.marks - before.marks, 64);
    assert_eq!(after.map_blocks_written - before.map_blocks_written, 1, "their records lie in one block");
    assert_eq!(after.map_commits - before.map_commits, 1);
    tokens.into_iter().for_each(|token| host.cache.write_end(token, Ok(())));
}

/// What comes while a commit is under way is in the next one.
#[test]
fn a_mark_waits_for_the_commit_that_has_it() {
    let host = warm(2);
    let first = host.cache.write_begin(0, 0, &[1; 4096]).unwrap();
    let Next::Job(write) = host.cache.next_map(0) else { panic!("a block") };
    let second = host.cache.write_begin(0, FRAGMENT, &[1; 4096]).unwrap();
    assert_eq!(second.waits_for(), first.waits_for() + 1);
    // The fragment's mark is on its way.
    let third = host.cache.write_begin(0, 8192, &[1; 4096]).unwrap();
    assert_eq!(third.waits_for(), first.waits_for());
    host.cache.done(write, Ok(()));
    assert!(host.map_job(), "the flush");
    assert_eq!(host.cache.marks_durable(), first.waits_for());
    assert!(host.map_job() && host.map_job());
    assert_eq!(host.cache.marks_durable(), second.waits_for());
    [first, second, third].into_iter().for_each(|token| host.cache.write_end(token, Ok(())));
}

/// Nine of ten writes go to a tenth of the fragments, the others to half of them: to each of those one in 100
/// seconds. The rest is only read.
#[test]
fn fewer_than_one_in_a_hundred_writes_wait() {
    let mut host = warm(400);
    let mut random = Random::new(1);
    let mut write = |host: &mut Host, seconds: u64| {
        for _ in 0..seconds * 20 {
            let fragment = if random.chance(9, 10) { random.below(40) } else { random.below(200) };
            host.write(0, fragment * FRAGMENT + BLOCK * random.below(32), &[1; 4096]);
            host.now += SECOND / 20;
            if random.chance(1, 20) {
                host.work();
            }
        }
    };
    // The first write of each fragment waits, and how often it is written to has to be learnt.
    write(&mut host, 1200);
    let before = host.statistics();
    write(&mut host, 900);
    let after = host.statistics();
    let (waited, writes) = (after.writes_waited - before.writes_waited, after.writes - before.writes);
    println!("{waited} of {writes} writes waited; {} of 400 fragments are stable", 400 - after.unstable);
    assert!(after.unstable <= 200, "what is not written to stays stable");
    assert!(waited * 100 < writes, "{waited} of {writes}");
}

#[test]
fn a_fragment_is_stable_half_a_minute_after_the_last_write() {
    let mut host = warm(2);
    host.write(0, 0, &[1; 4096]);
    host.pass(15);
    host.write(0, 8192, &[1; 4096]);
    host.pass(20);
    assert_eq!((host.statistics().unstable, host.statistics().writes_waited), (1, 1));
    host.pass(60);
    assert_eq!(host.statistics().unstable, 0);
}

/// Written to every 80 seconds, so that it is held for eight times as long.
fn what_was_held_settles() -> bool {
    let mut host = warm(2);
    for _ in 0..3 {
        host.write(0, 0, &[1; 4096]);
        host.pass(80);
    }
    assert_eq!(host.statistics().writes_waited, 2, "the third write was expected");
    host.pass(400);
    assert_eq!(host.statistics().unstable, 1);
    host.pass(400);
    host.statistics().unstable == 0
}

#[test]
fn what_is_written_to_regularly_is_held_until_that_ends() {
    assert!(what_was_held_settles());
}

#[cfg(feature = "planted")]
#[test]
fn what_is_held_for_good_is_noticed() {
    use mezzanine_fragment::planted::{Bug, only_with};
    only_with(&[Bug::HeldForGood], what_was_held_settles);
}

/// A host that says that any number of writes may wait.
#[test]
fn nothing_is_held_if_all_writes_may_wait() {
    let superblock = superblock(2);
    let mut config = superblock.config();
    let mut map = vec![0; superblock.layout.map_bytes as usize];
    map[..32].copy_from_slice(&record(&superblock, 0, 0));
    config.map.as_mut().unwrap().waits_per_mille = 1000;
    let (mut host, _) = recovered_with(&superblock, config, &map);
    for write in 1..=5 {
        host.write(0, 0, &[1; 4096]);
        host.pass(80);
        assert_eq!((host.statistics().writes_waited, host.statistics().unstable), (write, 0));
    }
}

/// Nobody marks what lies behind the limit when it is written to, so it must not count when the cache has
/// grown. All of these are stable: nothing else has their block of the map written.
fn nothing_comes_back_from_behind_the_limit() -> bool {
    let whole = superblock(4);
    let smaller = whole.resized(whole.layout.end_of(2)).unwrap();
    let mut map = vec![0; whole.layout.map_bytes as usize];
    for slot in 0..4 {
        map[slot as usize * 32..][..32].copy_from_slice(&record(&whole, slot, slot));
    }
    let (mut host, _) = recovered(&smaller, &map);
    host.pass(60);
    let map = &host.flash[whole.layout.map_offset as usize..][..map.len()];
    recovered(&whole, map).1.fragments == 2
}

#[test]
fn what_lies_behind_the_limit_does_not_come_back() {
    assert!(nothing_comes_back_from_behind_the_limit());
}

#[cfg(feature = "planted")]
#[test]
fn what_is_kept_behind_the_limit_is_noticed() {
    use mezzanine_fragment::planted::{Bug, only_with};
    only_with(&[Bug::BehindLimitKept], nothing_comes_back_from_behind_the_limit);
}

#[test]
fn forgetting_a_volume_says_when_no_crash_brings_it_back() {
    let mut host = warm(3);
    let number = host.cache.forget(0).unwrap();
    assert!(number > host.cache.marks_durable());
    assert_eq!(host.kind(0, 0, 4096), ReadKind::Miss);
    while host.cache.marks_durable() < number {
        assert!(host.map_job());
    }
    assert_eq!((host.statistics().slots_used, host.cache.invalidate_all()), (0, 0));
    host.populate(0, 0);
    host.cache.invalidate_all();
    host.work();
    assert_eq!(host.statistics().slots_used, 0);
    assert!(host.cache.forget(1).is_err());
}

#[test]
fn a_volume_whose_flush_has_failed_is_not_cached_any_more() {
    let mut host = warm(3);
    let flush = host.cache.flush_begin(0).unwrap();
    host.cache.flush_end(flush, Err(DeviceError));
    host.kind(0, 0, 4096);
    host.pass(60);
    let found = host.statistics();
    assert_eq!((found.slots_used, found.populations_begun, found.backing_flushes_failed), (0, 0, 1));
}

#[test]
fn what_is_outstanding_is_counted() {
    let host = warm(1);
    let token = host.cache.write_begin(0, 0, &[1; 4096]).unwrap();
    let flush = host.cache.flush_begin(0).unwrap();
    let Next::Job(job) = host.cache.next_job(0) else { panic!("a mark") };
    assert_eq!(host.cache.outstanding(), 3);
    host.cache.done(job, Ok(()));
    host.cache.flush_end(flush, Ok(()));
    host.cache.write_end(token, Ok(()));
    assert_eq!(host.cache.outstanding(), 0);
}

/// Of a fragment that cannot be read: its populations become rare, and those of others do not.
#[test]
fn populations_that_come_to_nothing_are_put_off() {
    let mut host = Host::new(&superblock(3).config());
    for _ in 0..200 {
        host.kind(0, 0, 4096);
        host.now += SECOND / 2;
        while let Next::Job(mut job) = host.cache.next_job(host.now) {
            let bad = matches!(&job, Job::ReadFragment(read) if read.offset() == 0);
            if !bad {
                carry_out(&mut job, &host.backing, &mut host.flash);
            }
            host.cache.done(job, if bad { Err(DeviceError) } else { Ok(()) });
        }
    }
    let failed = host.statistics().populations_failed;
    assert!((5..=9).contains(&failed), "{failed} in 100 seconds: after 0.5, 1, 2, 4, ... seconds");
    host.populate(0, FRAGMENT);
}

/// A candidate that is written to for long is deferred once.
#[test]
fn a_deferral_is_counted_once() {
    let mut host = Host::new(&superblock(3).config());
    let token = host.cache.write_begin(0, 0, &[1; 4096]).unwrap();
    host.kind(0, 0, 4096);
    host.pass(20);
    assert_eq!(host.statistics().populations_deferred, 1);
    host.cache.write_end(token, Ok(()));
    host.pass(2);
    assert_eq!((host.statistics().populations_deferred, host.statistics().populations_done), (1, 1));
}

fn lost(superblock: &Superblock, records: &[[u8; 32]]) -> (Cache, Recovered) {
    let mut map = records.concat();
    map.resize(superblock.layout.map_bytes as usize, 0);
    let (host, found) = recovered(superblock, &map);
    (host.cache, found)
}

#[test]
fn records_that_contradict_each_other_are_of_no_use() {
    let superblock = superblock(8);
    let of = |slot: u32, fragment: u32| record(&superblock, slot, fragment);
    let (cache, found) = lost(&superblock, &[of(0, 0), of(1, 3), of(2, 3), of(3, 3), of(4, 1)]);
    assert_eq!((found.fragments, found.lost), (2, 3));
    assert_eq!((cache.location(0, 3 * FRAGMENT), cache.statistics().slots_used), (None, 2));
    // Behind the volume, or with a bit for a block that no fragment has.
    let mut beyond = of(1, 5);
    beyond[BITMAP_AT + 5] = 1;
    let again = Record { epoch: 1, volume: 1, fragment: 5, state: RecordState::Stable };
    again.encode(&mut beyond, &superblock.cache_id, 1);
    let (_, found) = lost(&superblock, &[of(0, 8), beyond]);
    assert_eq!((found.fragments, found.lost), (0, 2));
    // Of another slot.
    assert_eq!(lost(&superblock, &[of(1, 0)]).1.fragments, 0);
}

#[test]
fn a_superblock_that_is_older_than_the_map_is_refused() {
    let superblock = superblock(8);
    let mut map = vec![0; superblock.layout.map_bytes as usize];
    let record = Record { epoch: 2, volume: 1, fragment: 0, state: RecordState::Unstable };
    record.encode(&mut map[..32], &superblock.cache_id, 0);
    let mut recovery = Recovery::heap(superblock.config().geometry().unwrap());
    let said = recovery.take(&map).unwrap_err().to_string();
    assert!(said.starts_with("damaged: epoch of a record: slot 0 has 2, and the superblock 1;"), "{said}");
}

/// What cannot be read is written over before anything is served, and its slots are of use then.
#[test]
fn records_that_cannot_be_read_are_written_over() {
    let superblock = superblock(200);
    let mut map = vec![0; superblock.layout.map_bytes as usize];
    map[4096..4128].copy_from_slice(&record(&superblock, 128, 5));
    let mut recovery = Recovery::heap(superblock.config().geometry().unwrap());
    assert_eq!(recovery.next(), Some((superblock.layout.map_offset, 8192)));
    recovery.unreadable(4096);
    recovery.take(&map[4096..]).unwrap();
    let (cache, found) = recovery.finish();
    assert_eq!((found.fragments, found.lost, cache.statistics().slots_used), (1, 128, 129));
    let mut written = Vec::new();
    while cache.marks_durable() < found.waits_for {
        let Next::Job(job) = cache.next_map(0) else { panic!("what waits is written") };
        if let Job::WriteMap(write) = &job {
            written.push((write.offset(), write.data().iter().all(|&byte| byte == 0)));
        }
        cache.done(job, Ok(()));
    }
    assert_eq!(written, [(superblock.layout.map_offset, true)]);
    assert_eq!(cache.statistics().slots_used, 1);
    cache.check();
}

#[test]
#[should_panic(expected = "a cache that was opened 2 times has a map; open it with Recovery")]
fn a_cache_that_was_opened_before_is_not_begun_empty() {
    Cache::heap(superblock(2).opened().config().geometry().unwrap());
}

/// Bytes that somebody has sealed: whatever they say, the cache is a whole one.
#[test]
fn hostile_maps_never_panic() {
    let superblock = superblock(8);
    let mut random = Random::new(5);
    for _ in 0..200 {
        let mut records = Vec::new();
        for slot in 0..8 {
            let mut place = record(&superblock, slot, random.below(9) as u32);
            for _ in 0..random.below(3) {
                place[random.below(32) as usize] = random.below(256) as u8;
            }
            let record = Record {
                epoch: random.below(2),
                volume: random.magnitude(u32::MAX.into()).max(1) as u32,
                fragment: if random.chance(3, 4) { random.below(9) as u32 } else { u32::MAX },
                state: RecordState::Stable,
            };
            record.encode(&mut place, &superblock.cache_id, slot);
            records.push(place);
        }
        lost(&superblock, &records);
    }
}
