//! Work in the background yields to reads of the cache device that guests wait for (invariant 16).
#![allow(clippy::unwrap_used, missing_docs)]

use host::{BLOCK, Host, MS, small};
use mezzanine_fragment::Config;

mod host;

const FRAGMENT: u64 = 128 << 10;
const US: u64 = 1000;

fn yielding() -> Host {
    let mut host = Host::new(&Config { yield_us: 500, copy_bytes: 64 * BLOCK, ..small(8, &[8]) });
    host.populate(0, 0);
    host
}

/// Reads of the cache device that take so long, one every millisecond, and all jobs that there are: copies
/// and steps of populations in so many milliseconds.
fn beside_reads(host: &mut Host, took: u64, milliseconds: u64) -> (usize, usize) {
    let (mut copies, mut steps) = (0, 0);
    for _ in 0..milliseconds {
        host.now += MS;
        host.cache.cache_read_took(host.now, took);
        let [copied, read, written] = host.work();
        copies += copied;
        steps += read + written;
    }
    (copies, steps)
}

fn write_and_miss(host: &mut Host) {
    for block in 0..24 {
        host.write(0, block * BLOCK, &[1; BLOCK as usize]);
    }
    for fragment in 1..6 {
        host.kind(0, fragment * FRAGMENT, BLOCK);
    }
}

#[test]
fn beside_fast_reads_nothing_waits() {
    let mut host = yielding();
    write_and_miss(&mut host);
    let (copies, steps) = beside_reads(&mut host, 100 * US, 300);
    assert_eq!((copies, steps), (24, 10));
    assert_eq!((host.statistics().copies_yielded, host.statistics().populations_yielded), (0, 0));
}

/// A copy every 10 ms, a step every 100 ms.
fn trickles() -> bool {
    let mut host = yielding();
    beside_reads(&mut host, 5000 * US, 50);
    write_and_miss(&mut host);
    let (copies, steps) = beside_reads(&mut host, 5000 * US, 200);
    let yielded = (host.statistics().copies_yielded, host.statistics().populations_yielded);
    yielded.0 > 0 && yielded.1 > 0 && (18..=21).contains(&copies) && (1..=3).contains(&steps)
}

#[test]
fn beside_slow_reads_it_trickles() {
    assert!(trickles());
}

#[cfg(feature = "planted")]
#[test]
fn work_that_does_not_yield_is_noticed() {
    mezzanine_fragment::planted::only_with(&[mezzanine_fragment::planted::Bug::NeverYields], trickles);
}

#[test]
fn without_readers_nothing_waits() {
    let mut host = yielding();
    beside_reads(&mut host, 5000 * US, 50);
    write_and_miss(&mut host);
    assert!(host.work()[0] <= 1, "somebody has just read");
    host.now += 11 * MS;
    assert!(host.work()[0] >= 23, "nobody has for a while");
    assert!(host.statistics().copies_yielded > 0);
}

/// Reads that are fast again count soon; and the limit may be changed.
#[test]
fn reads_that_are_fast_again_let_it_go_on() {
    let mut host = yielding();
    beside_reads(&mut host, 2000 * US, 50);
    write_and_miss(&mut host);
    let (copies, _) = beside_reads(&mut host, 50 * US, 30);
    assert_eq!(copies, 24);
    beside_reads(&mut host, 2000 * US, 50);
    write_and_miss(&mut host);
    host.cache.set_yield_us(0);
    assert_eq!((host.work()[0], host.cache.yield_us()), (24, 0));
}

/// What writes need comes first: they would go around for want of memory.
#[test]
fn copies_do_not_wait_when_memory_is_short() {
    let mut host = yielding();
    beside_reads(&mut host, 5000 * US, 50);
    for block in 0..32 {
        host.write(0, block * BLOCK, &[1; BLOCK as usize]);
    }
    host.work();
    for block in 0..28 {
        host.write(0, block * BLOCK, &[2; BLOCK as usize]);
    }
    let before = host.statistics().copy_blocks_used;
    host.work();
    assert!(before > 32 && host.statistics().copy_blocks_used <= 32, "{before}");
}
