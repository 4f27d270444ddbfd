//! Asynchronous write-through and its limits (sections 3.3, 3.4, 3.6 and 4.5 of the paper), a step at a time.
#![allow(clippy::unwrap_used, missing_docs)]

use host::{BLOCK, Host, blocks, carry_out, small};
use mezzanine_fragment::{DeviceError, Job, ReadKind, Source, WriteMode, WriteToken};

mod host;

const FRAGMENT: u64 = 128 << 10;

/// The first of four fragments is in the cache.
fn cached() -> Host {
    let mut host = Host::new(&small(2, &[4]));
    host.populate(0, 0);
    host
}

#[test]
fn a_write_is_valid_again_when_both_devices_have_it() {
    // Copies wait for the backing device only while there is memory enough.
    let mut host = Host::cached(4, 2);
    let data = blocks(2, 1);
    let token = host.cache.write_begin(0, BLOCK, &data).unwrap();
    assert_eq!(host.kind(0, 0, 4 * BLOCK), ReadKind::Partial, "its blocks come from the backing device");
    let mut flash = host.flash.clone();
    let mut job = host.copy();
    carry_out(&mut job, &host.backing, &mut flash);
    host.cache.done(job, Ok(()));
    assert_eq!(host.kind(0, BLOCK, BLOCK), ReadKind::Miss, "the backing device has not answered");
    host.backing[0][BLOCK as usize..][..data.len()].copy_from_slice(&data);
    host.cache.write_end(token, Ok(()));
    host.flash = flash;
    assert_eq!(host.kind(0, 0, 4 * BLOCK), ReadKind::Hit);
    assert_eq!(host.statistics().async_bytes_written, 2 * BLOCK);
    // The other way round.
    host.write(0, 0, &blocks(1, 2));
    assert_eq!(host.kind(0, 0, BLOCK), ReadKind::Miss, "the cache device does not have it");
    assert_eq!(host.work(), [1, 0, 0]);
    assert_eq!(host.kind(0, 0, BLOCK), ReadKind::Hit);
}

/// "The pages are validated at once when the last write request completes."
#[test]
fn duplicates_are_validated_when_the_last_write_completes() {
    let mut host = cached();
    host.write(0, 0, &blocks(2, 1));
    let mut flash = host.flash.clone();
    let mut first = host.copy();
    carry_out(&mut first, &host.backing, &mut flash);
    let token = host.cache.write_begin(0, 0, &blocks(2, 2)).unwrap();
    host.cache.write_end(token, Ok(()));
    assert!(!host.has_job(), "the copies of a block are written one after the other");
    host.cache.done(first, Ok(()));
    assert_eq!(host.cache.location(0, 0), None, "not before the last");
    host.cache.done(host.copy(), Ok(()));
    assert!(host.cache.location(0, 0).is_some() && host.cache.location(0, BLOCK).is_some());
    assert_eq!(host.statistics().blocks_superseded, 2);
    assert_eq!(host.statistics().blocks_validated, 2);
}

/// What has not gone to the cache device when it is written again never does.
#[test]
fn a_copy_that_nobody_needs_is_not_written() {
    let mut host = cached();
    for value in 1..=5 {
        host.write(0, 0, &blocks(1, value));
    }
    assert_eq!(host.work(), [1, 0, 0]);
    assert_eq!(host.statistics().async_bytes_written, BLOCK);
    assert_eq!(host.kind(0, 0, BLOCK), ReadKind::Hit);
    // Of a longer one, what is left.
    host.write(0, 0, &blocks(5, 6));
    host.write(0, BLOCK, &blocks(1, 7));
    host.write(0, 3 * BLOCK, &blocks(1, 8));
    let job = host.copy();
    let Job::WriteBlocks(write) = &job else { unreachable!("a copy") };
    let offsets: Vec<_> = write.writes().map(|(offset, bytes)| (offset / BLOCK % 32, bytes.len())).collect();
    assert_eq!(offsets, [(0, 4096), (2, 4096), (4, 4096)]);
    let (mut job, mut flash) = (job, host.flash.clone());
    carry_out(&mut job, &host.backing, &mut flash);
    host.cache.done(job, Ok(()));
    host.flash = flash;
    host.work();
    assert_eq!(host.kind(0, 0, 5 * BLOCK), ReadKind::Hit);
}

/// Nobody knows which of them the backing device carries out last.
#[test]
fn of_two_writes_at_a_time_neither_makes_their_common_blocks_valid() {
    let mut host = cached();
    let one = host.cache.write_begin(0, 0, &blocks(3, 1)).unwrap();
    let two = host.cache.write_begin(0, 2 * BLOCK, &blocks(3, 2)).unwrap();
    host.backing[0][..3 * BLOCK as usize].fill(1);
    host.backing[0][2 * BLOCK as usize..5 * BLOCK as usize].fill(2);
    host.cache.write_end(two, Ok(()));
    host.cache.write_end(one, Ok(()));
    host.work();
    assert_eq!(host.kind(0, 0, 2 * BLOCK), ReadKind::Hit);
    assert_eq!(host.kind(0, 2 * BLOCK, BLOCK), ReadKind::Miss);
    assert_eq!(host.kind(0, 3 * BLOCK, 2 * BLOCK), ReadKind::Hit);
    assert_eq!(host.statistics().bypass_block_concurrent, 1);
}

/// "If the source write fails, then SCE invalidates the pages again after the SSD write completes. If the SSD
/// write fails, then the previously invalidated pages are not re-validated."
#[test]
fn a_write_that_one_device_refuses_leaves_its_blocks_invalid() {
    let mut host = Host::cached(4, 1);
    for backing_first in [true, false] {
        let token = host.cache.write_begin(0, 0, &blocks(1, 1)).unwrap();
        if backing_first {
            host.cache.write_end(token, Err(DeviceError));
            assert_eq!(host.work(), [0, 0, 0], "there is nothing to copy");
        } else {
            host.cache.done(host.copy(), Ok(()));
            host.cache.write_end(token, Err(DeviceError));
        }
        assert_eq!(host.kind(0, 0, BLOCK), ReadKind::Miss);
    }
    host.write(0, BLOCK, &blocks(1, 1));
    host.cache.done(host.copy(), Err(DeviceError));
    assert_eq!(host.kind(0, BLOCK, BLOCK), ReadKind::Miss);
    let statistics = host.statistics();
    assert_eq!(
        (statistics.backing_failed, statistics.async_failed, statistics.bypass_read_invalid),
        (2, 1, 3)
    );
    // What is written later is valid again.
    for block in 0..2 {
        host.write(0, block * BLOCK, &blocks(1, 3));
        host.work();
    }
    assert_eq!(host.kind(0, 0, 2 * BLOCK), ReadKind::Hit);
}

/// "If that is not sufficient, e.g., due to a very high write rate, then SCE adopts a write-around policy."
#[test]
fn without_memory_or_flights_writes_go_around() {
    let mut config = small(1, &[1]);
    config.copy_bytes = 4 * BLOCK;
    config.flights = 2;
    let mut host = Host::new(&config);
    host.populate(0, 0);
    host.write(0, 0, &blocks(3, 1));
    host.write(0, 8 * BLOCK, &blocks(2, 1));
    assert_eq!(host.statistics().bypass_write_no_memory, 1);
    host.write(0, 16 * BLOCK, &blocks(1, 1));
    host.write(0, 24 * BLOCK, &blocks(1, 1));
    assert_eq!(host.statistics().bypass_write_no_flight, 1);
    assert_eq!(host.work(), [2, 0, 0]);
    for (block, kind) in [(0, ReadKind::Hit), (8, ReadKind::Miss), (16, ReadKind::Hit), (24, ReadKind::Miss)]
    {
        assert_eq!((block, host.kind(0, block * BLOCK, BLOCK)), (block, kind));
    }
    assert_eq!(host.statistics().copy_blocks_used, 0);
}

/// While the cache device stalls, a write to a fragment that is written to all the time stays short.
#[test]
fn a_fragment_has_so_many_flights_and_no_more() {
    let mut host = cached();
    for write in 0..130 {
        host.write(0, write % 32 * BLOCK, &blocks(1, write as u8));
    }
    assert_eq!((host.statistics().flights_used, host.statistics().bypass_write_crowded), (128, 2));
    assert_eq!(host.work(), [30, 0, 0], "of each block the last copy, but for the two");
    assert_eq!(host.kind(0, 0, 2 * BLOCK), ReadKind::Miss);
    assert_eq!(host.kind(0, 2 * BLOCK, 30 * BLOCK), ReadKind::Hit);
}

/// Writes blocks 8 to 23 one after the other, each begun before the one before has ended, so that `first` and
/// the fragment are never without a write. How many of them became valid.
fn overlapping(host: &mut Host, first: WriteToken) -> usize {
    let mut before = first;
    for block in 8..24 {
        let token = host.cache.write_begin(0, block * BLOCK, &blocks(1, block as u8)).unwrap();
        host.cache.write_end(before, Ok(()));
        host.backing[0][(block * BLOCK) as usize..][..BLOCK as usize].fill(block as u8);
        before = token;
        host.work();
    }
    host.cache.write_end(before, Ok(()));
    host.work();
    (8..24).filter(|block| host.cache.location(0, block * BLOCK).is_some()).count()
}

/// What has no copy is known by its blocks: others are copied beside it.
#[test]
fn a_write_without_a_copy_touches_its_own_blocks_alone() {
    // A discard, a write in the other mode, and one for which there is no memory.
    let mut host = cached();
    let token = host.cache.discard_begin(0, 0, 8 * BLOCK).unwrap();
    assert_eq!(overlapping(&mut host, token), 16);
    host.cache.set_write_mode(WriteMode::Around);
    let token = host.cache.write_begin(0, 0, &blocks(8, 0)).unwrap();
    host.cache.set_write_mode(WriteMode::Through);
    assert_eq!(overlapping(&mut host, token), 16);
    let mut config = small(1, &[1]);
    config.copy_bytes = 16 * BLOCK;
    let mut host = Host::new(&config);
    host.populate(0, 0);
    let token = host.cache.write_begin(0, 0, &blocks(17, 0)).unwrap();
    assert_eq!(host.statistics().bypass_write_no_memory, 1);
    assert_eq!(overlapping(&mut host, token), 15, "but for the one that was written at a time with it");
    assert_eq!(host.statistics().bypass_write_untracked, 0);
    assert_eq!(host.statistics().flights_used, 0);
}

/// A write for which there is no flight is forgotten when it has ended, and not when the fragment has a
/// moment without any write.
#[test]
fn a_write_without_a_flight_does_not_outlast_itself() {
    let mut config = small(1, &[1]);
    config.flights = 3;
    let mut host = Host::new(&config);
    host.populate(0, 0);
    for block in 0..3 {
        host.write(0, block * BLOCK, &blocks(1, 0));
    }
    let token = host.cache.write_begin(0, 3 * BLOCK, &blocks(1, 0)).unwrap();
    host.work();
    assert_eq!(host.statistics().bypass_write_no_flight, 1);
    assert_eq!(overlapping(&mut host, token), 15, "but for the one that begins beside it");
}

/// A discard of everything leaves flights to writes.
#[test]
fn a_discard_takes_half_of_the_flights_at_most() {
    let mut config = small(8, &[8]);
    config.flights = 4;
    let mut host = Host::new(&config);
    for fragment in 0..8 {
        host.populate(0, fragment * FRAGMENT);
    }
    let token = host.cache.discard_begin(0, 0, 7 * FRAGMENT).unwrap();
    assert_eq!(host.statistics().flights_used, 2);
    host.write(0, 7 * FRAGMENT, &blocks(1, 1));
    host.cache.write_end(token, Ok(()));
    host.work();
    assert_eq!(host.kind(0, 7 * FRAGMENT, BLOCK), ReadKind::Hit);
    assert_eq!((host.statistics().fragments_emptied, host.statistics().flights_used), (7, 0));
}

/// "If a mapped fragment exists in the flash cache, the written pages are invalidated."
#[test]
fn write_around_makes_holes_that_nobody_fills() {
    let mut host = cached();
    host.cache.set_write_mode(WriteMode::Around);
    host.write(0, BLOCK, &blocks(1, 1));
    assert_eq!(host.work(), [0, 0, 0]);
    assert_eq!(host.kind(0, 0, 4 * BLOCK), ReadKind::Partial);
    assert_eq!(host.kind(0, BLOCK, BLOCK), ReadKind::Miss);
    assert_eq!(host.statistics().bypass_write_around, 1);
    assert_eq!(host.cache.candidates(), [], "nor is it a candidate");
    host.cache.set_write_mode(WriteMode::Through);
    host.write(0, BLOCK, &blocks(1, 2));
    host.work();
    assert_eq!(host.kind(0, 0, 4 * BLOCK), ReadKind::Hit, "a write of a whole block does");
}

#[test]
fn a_part_of_a_block_never_makes_it_valid() {
    let mut host = cached();
    host.write(0, 512, &[1; 1024]);
    assert_eq!(host.work(), [0, 0, 0]);
    assert_eq!(host.kind(0, 0, 512), ReadKind::Miss);
    // Its ends cover a part, its middle is whole.
    host.write(0, 8 * BLOCK - 512, &vec![2; 2 * BLOCK as usize + 1024]);
    assert_eq!(host.work(), [1, 0, 0]);
    assert_eq!(host.kind(0, 7 * BLOCK, BLOCK), ReadKind::Miss);
    assert_eq!(host.kind(0, 8 * BLOCK, 2 * BLOCK), ReadKind::Hit);
    assert_eq!(host.kind(0, 10 * BLOCK, 512), ReadKind::Miss);
    assert_eq!(host.statistics().bypass_block_partial, 3);
}

#[test]
fn a_write_to_what_is_not_cached_goes_to_its_volume_alone() {
    let mut host = cached();
    host.write(0, FRAGMENT, &blocks(4, 1));
    assert_eq!(host.work(), [0, 0, 0]);
    assert_eq!(host.statistics().bypass_write_absent, 1);
    // One across the end of the cached fragment is both.
    host.write(0, FRAGMENT - 2 * BLOCK, &blocks(4, 2));
    assert_eq!(host.work(), [1, 0, 0]);
    assert_eq!(host.kind(0, FRAGMENT - 2 * BLOCK, 4 * BLOCK), ReadKind::Partial);
    let statistics = host.statistics();
    assert_eq!((statistics.bypass_write_absent, statistics.writes_through, statistics.writes), (2, 1, 2));
}

#[test]
fn a_discard_ends_validity_and_an_empty_fragment_leaves() {
    let mut host = cached();
    let discard = |host: &mut Host, offset: u64, bytes: u64| {
        let token = host.cache.discard_begin(0, offset, bytes).unwrap();
        assert_eq!(host.kind(0, offset, bytes), ReadKind::Miss);
        host.backing[0][offset as usize..][..bytes as usize].fill(0);
        host.cache.write_end(token, Ok(()));
    };
    host.write(0, 0, &blocks(2, 5));
    discard(&mut host, BLOCK, BLOCK);
    host.work();
    assert_eq!(host.kind(0, 0, BLOCK), ReadKind::Hit, "the other half of the write");
    assert_eq!(host.kind(0, BLOCK, BLOCK), ReadKind::Miss);
    assert_eq!(host.statistics().slots_used, 1);
    discard(&mut host, 0, 2 * FRAGMENT);
    let statistics = host.statistics();
    assert_eq!((statistics.slots_used, statistics.fragments_emptied, statistics.discards), (0, 1, 2));
}

/// A volume's end is no fragment's and no block's.
#[test]
fn volumes_share_a_device_and_end_anywhere() {
    let mut config = small(3, &[1, 1]);
    config.volumes = vec![FRAGMENT + 3 * BLOCK + 512, FRAGMENT];
    let mut host = Host::new(&config);
    for (volume, value) in [(0, 1), (1, 2)] {
        let all = vec![value; host.backing[volume].len()];
        host.write(volume, 0, &all);
    }
    host.populate(0, FRAGMENT);
    host.populate(1, 0);
    assert_eq!(host.kind(0, FRAGMENT, 3 * BLOCK), ReadKind::Hit);
    assert_eq!(host.kind(0, FRAGMENT, 3 * BLOCK + 512), ReadKind::Partial);
    assert_eq!(host.kind(0, FRAGMENT + 3 * BLOCK, 512), ReadKind::Miss);
    assert_eq!(host.kind(1, 0, FRAGMENT), ReadKind::Hit);
    assert_eq!(host.kind(0, 0, BLOCK), ReadKind::Miss);
    assert_eq!(host.statistics().population_bytes_read, FRAGMENT + 3 * BLOCK);
}

/// A fragment of many holes is no faster than the backing device.
#[test]
fn a_read_of_too_many_pieces_is_one_of_the_backing_device() {
    let mut host = cached();
    host.cache.set_write_mode(WriteMode::Around);
    for hole in 0..15 {
        host.write(0, 2 * hole * BLOCK, &blocks(1, 1));
    }
    let mut pieces = Vec::new();
    host.cache.read(0, 0, 16 * BLOCK, &mut pieces).unwrap();
    assert_eq!(pieces.len(), 16);
    assert_eq!(host.cache.read(0, 0, 17 * BLOCK, &mut pieces).unwrap(), ReadKind::Miss);
    assert_eq!((pieces.len(), pieces[0].source, pieces[0].bytes), (1, Source::Backing, 17 * BLOCK));
    assert_eq!(host.statistics().bypass_read_scattered, 1);
}

#[test]
fn what_the_cache_device_does_not_give_back_is_not_valid() {
    let host = cached();
    let mut pieces = Vec::new();
    assert_eq!(host.cache.read(0, BLOCK, 2 * BLOCK, &mut pieces).unwrap(), ReadKind::Hit);
    host.cache.read_failed(&pieces[0]);
    assert_eq!(host.kind(0, 0, 4 * BLOCK), ReadKind::Partial);
    assert_eq!(host.kind(0, BLOCK, 2 * BLOCK), ReadKind::Miss);
    assert_eq!(host.statistics().bypass_read_failed, 1);
}

/// Longer than a flight, over several fragments.
#[test]
fn a_long_write_is_copied_whole() {
    let mut config = small(2, &[2]);
    config.fragment_bytes = 1 << 20;
    config.cache_bytes = 2 << 20;
    config.volumes = vec![2 << 20];
    let mut host = Host::new(&config);
    host.populate(0, 0);
    host.populate(0, 1 << 20);
    let data: Vec<u8> = (0..2 << 20).map(|at: u32| (at / 4096) as u8).collect();
    host.write(0, 512, &data[512..data.len() - 512]);
    assert_eq!(host.work(), [8, 0, 0]);
    assert_eq!(host.kind(0, BLOCK, (2 << 20) - 2 * BLOCK), ReadKind::Hit);
    let statistics = host.statistics();
    assert_eq!(statistics.async_bytes_written, (2 << 20) - 2 * BLOCK);
    assert_eq!((statistics.flights_used, statistics.copy_blocks_used), (0, 0));
}

/// As many pieces as fragments are no reason to go to the backing device.
#[test]
fn a_long_read_of_what_is_cached_comes_from_the_cache() {
    let mut host = Host::new(&small(20, &[20]));
    for fragment in 0..20 {
        host.populate(0, fragment * FRAGMENT);
    }
    assert_eq!(host.kind(0, 0, 20 * FRAGMENT), ReadKind::Hit);
    assert_eq!(host.statistics().bypass_read_scattered, 0);
    // What is not copied is not counted as what went through.
    host.write(0, 512, &[1; 512]);
    assert_eq!(host.statistics().writes_through, 0);
}
