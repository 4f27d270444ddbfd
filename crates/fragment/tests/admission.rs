//! Which misses bring a fragment in: reads and writes apart from each other.
#![allow(clippy::unwrap_used, missing_docs)]

use host::{BLOCK, Host, MS, small};
use mezzanine_fragment::{Admission, Config};

mod host;

const FRAGMENT: u64 = 128 << 10;

fn with(reads: u32, writes: u32) -> Host {
    Host::new(&Config { admission: Admission { reads, writes }, ..small(4, &[8]) })
}

/// Reads and writes a fragment as often as that; whether it comes in.
fn comes_in(host: &mut Host, fragment: u64, reads: u32, writes: u32) -> bool {
    for _ in 0..reads {
        host.kind(0, fragment * FRAGMENT, BLOCK);
    }
    for _ in 0..writes {
        host.write(0, fragment * FRAGMENT, &[1; BLOCK as usize]);
    }
    for _ in 0..4 {
        host.now += 500 * MS;
        host.work();
    }
    host.cache.location(0, fragment * FRAGMENT).is_some()
}

#[test]
fn as_published_a_read_does_and_no_write() {
    let mut host = Host::new(&small(4, &[8]));
    assert!(comes_in(&mut host, 0, 1, 0) && !comes_in(&mut host, 1, 0, 9));
    let statistics = host.statistics();
    assert_eq!((statistics.populations_for_reads, statistics.populations_for_writes), (1, 0));
    assert_eq!((statistics.misses_of_reads, statistics.misses_of_writes), (0, 9));
}

#[test]
fn so_many_reads_or_so_many_writes() {
    let mut host = with(3, 2);
    assert!(!comes_in(&mut host, 0, 2, 1), "neither is enough, nor are both together");
    assert!(comes_in(&mut host, 0, 1, 0), "the third read");
    assert!(!comes_in(&mut host, 1, 0, 1) && comes_in(&mut host, 1, 0, 1), "the second write");
    let statistics = host.statistics();
    assert_eq!((statistics.populations_for_reads, statistics.populations_for_writes), (1, 1));
    assert_eq!(statistics.misses_too_few, 4);
}

#[test]
fn writes_alone_and_nothing_at_all() {
    let mut host = with(0, 1);
    assert!(!comes_in(&mut host, 0, 5, 0) && comes_in(&mut host, 1, 0, 1));
    assert_eq!(host.statistics().misses_of_reads, 5);
    host.cache.set_admission(Admission { reads: 0, writes: 0 });
    assert!(!comes_in(&mut host, 2, 5, 5));
    host.cache.set_admission(Admission::default());
    assert_eq!(host.cache.admission(), Admission { reads: 1, writes: 0 });
    assert!(comes_in(&mut host, 2, 1, 0));
}
