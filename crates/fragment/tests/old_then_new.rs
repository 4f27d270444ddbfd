//! What is read of blocks while they are written (invariant 14): what was there before, until somebody may
//! have got what is new.
#![allow(clippy::unwrap_used, missing_docs)]

use host::{BLOCK, Host, blocks, small};
use mezzanine_fragment::{DeviceError, Piece, ReadKind, Source, WriteToken};

mod host;

fn begin(host: &Host, block: u64, count: u64) -> WriteToken {
    host.cache.write_begin(0, block * BLOCK, &blocks(count, 1)).unwrap()
}

fn pieces(host: &Host, block: u64, count: u64) -> Vec<Piece> {
    let mut pieces = Vec::new();
    host.cache.read(0, block * BLOCK, count * BLOCK, &mut pieces).unwrap();
    pieces
}

/// Which blocks of the first eight are valid.
fn valid(host: &Host) -> Vec<u64> {
    (0..8).filter(|block| host.cache.location(0, block * BLOCK).is_some()).collect()
}

#[test]
fn blocks_are_what_they_were_until_the_backing_device_answers() {
    let mut host = Host::cached(2, 16);
    let token = begin(&host, 2, 3);
    assert_eq!(host.kind(0, 0, 8 * BLOCK), ReadKind::Hit, "all of it is as it was");
    assert!(!host.has_job(), "the copy waits");
    let reader = pieces(&host, 2, 1);
    host.backing[0][2 * BLOCK as usize..5 * BLOCK as usize].fill(1);
    host.cache.write_end(token, Ok(()));
    assert!(!host.cache.confirm(&reader[0]), "it may have got what is old now");
    assert_eq!(valid(&host), [0, 1, 5, 6, 7]);
    assert_eq!(host.work(), [1, 0, 0]);
    assert_eq!(host.kind(0, 0, 8 * BLOCK), ReadKind::Hit, "all of it is new");
    let statistics = host.statistics();
    assert_eq!((statistics.blocks_kept, statistics.blocks_seen, statistics.blocks_validated), (3, 0, 3));
}

#[test]
fn a_write_that_fails_leaves_nothing_valid_and_nothing_to_copy() {
    let mut host = Host::cached(2, 16);
    let token = begin(&host, 2, 3);
    host.cache.write_end(token, Err(DeviceError));
    assert_eq!(valid(&host), [0, 1, 5, 6, 7], "nobody knows what the backing device has");
    assert_eq!(host.work(), [0, 0, 0]);
    assert_eq!((host.statistics().copy_blocks_used, host.statistics().flights_used), (0, 0));
}

/// A read that the backing device has served since before the fragment came in may have got what is new.
#[test]
fn who_has_read_the_backing_device_ends_it() {
    let mut config = small(2, &[2]);
    config.copy_bytes = 16 * BLOCK;
    let mut host = Host::new(&config);
    let reader = pieces(&host, 3, 1);
    assert_eq!(reader[0].source, Source::Backing);
    host.populate(0, 0);
    let token = begin(&host, 2, 3);
    assert_eq!(valid(&host), [0, 1, 2, 3, 4, 5, 6, 7]);
    assert!(host.cache.confirm(&reader[0]));
    assert_eq!(valid(&host), [0, 1, 2, 4, 5, 6, 7], "the next one is not to get what is old");
    host.cache.was_read(0, 4 * BLOCK + 512, 512).unwrap();
    assert_eq!(valid(&host), [0, 1, 2, 5, 6, 7]);
    assert_eq!((host.statistics().blocks_kept, host.statistics().blocks_seen), (3, 2));
    host.backing[0][2 * BLOCK as usize..5 * BLOCK as usize].fill(1);
    host.cache.write_end(token, Ok(()));
    host.work();
    assert_eq!(host.kind(0, 0, 8 * BLOCK), ReadKind::Hit, "the write follows all the same");
    assert!(host.cache.was_read(0, 2 << 20, 1).is_err());
}

#[test]
fn another_write_or_discard_ends_it() {
    let mut host = Host::cached(2, 16);
    let one = begin(&host, 2, 3);
    let two = begin(&host, 4, 2);
    assert_eq!(valid(&host), [0, 1, 2, 3, 5, 6, 7], "both have block 4");
    let three = host.cache.discard_begin(0, 2 * BLOCK, BLOCK).unwrap();
    assert_eq!(valid(&host), [0, 1, 3, 5, 6, 7]);
    for token in [three, one, two] {
        host.cache.write_end(token, Ok(()));
    }
    host.backing[0][3 * BLOCK as usize..6 * BLOCK as usize].fill(1);
    host.work();
    assert_eq!(valid(&host), [0, 1, 3, 5, 6, 7]);
}

/// A host may have the second of two writes wait for the first.
#[test]
fn a_write_that_would_meet_another_one_is_known() {
    let mut host = Host::cached(2, 16);
    let meets = |host: &Host, block: u64| host.cache.overlaps_write(0, block * BLOCK, 2 * BLOCK).unwrap();
    let token = begin(&host, 2, 3);
    let known = |host: &Host| (0..6).filter(|&block| meets(host, block)).collect::<Vec<_>>();
    let unanswered = |host: &Host| host.cache.overlaps_unanswered_write(0, 4 * BLOCK, BLOCK).unwrap();
    assert!(unanswered(&host));
    assert_eq!(known(&host), [1, 2, 3, 4]);
    host.backing[0][2 * BLOCK as usize..5 * BLOCK as usize].fill(1);
    host.cache.write_end(token, Ok(()));
    assert_eq!(known(&host), [1, 2, 3, 4], "its copy is on its way");
    assert!(!unanswered(&host), "but it was answered");
    host.work();
    assert_eq!(known(&host), []);
    assert!(
        !host.cache.overlaps_write(0, 32 * BLOCK, BLOCK).unwrap(),
        "what is not cached is nobody's affair"
    );
    assert!(host.cache.overlaps_write(0, 1 << 30, 1).is_err());
}

/// What waits takes memory for longer: where half of it is in use copies go beside the writes, and blocks
/// are not valid meanwhile.
#[test]
fn with_little_memory_copies_do_not_wait() {
    let mut host = Host::cached(2, 8);
    let first = begin(&host, 0, 4);
    let second = begin(&host, 4, 2);
    assert_eq!(valid(&host), [0, 1, 2, 3, 6, 7]);
    host.cache.done(host.copy(), Ok(()));
    assert_eq!(host.statistics().copy_blocks_used, 4, "its memory is of use to others");
    for token in [second, first] {
        host.cache.write_end(token, Ok(()));
    }
    host.work();
    assert_eq!(valid(&host), [0, 1, 2, 3, 4, 5, 6, 7]);
}

/// A part of a block has no copy.
#[test]
fn a_block_that_is_written_in_part_is_not_valid() {
    let host = Host::cached(2, 16);
    let token = host.cache.write_begin(0, 2 * BLOCK + 512, &vec![1; 2 * BLOCK as usize]).unwrap();
    assert_eq!(valid(&host), [0, 1, 3, 5, 6, 7]);
    host.cache.write_end(token, Err(DeviceError));
}
