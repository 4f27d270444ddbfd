//! Writes and discards to a fragment on its way into the cache (section 3.2 of the paper), a step at a time.
#![allow(clippy::unwrap_used, missing_docs)]

use host::{BLOCK, Host, carry_out, small};
use mezzanine_fragment::{Job, Next, ReadKind};

mod host;

const FRAGMENT: u64 = 128 << 10;

fn next<'c>(host: &'c Host, now: &mut u64) -> Job<'c> {
    for _ in 0..10 {
        if let Next::Job(job) = host.cache.next_job(*now) {
            return job;
        }
        *now += 500_000_000;
    }
    panic!("no job in ten periods");
}

/// A population of the first fragment, with writes of so many blocks while it is read, before it is written
/// and while it is written. The last of them ends after the population.
fn populated_beside(writes: [(u64, u64); 3]) -> Host {
    let mut host = Host::new(&small(1, &[1]));
    host.kind(0, 0, 1);
    let (mut now, mut flash, mut backing) = (0, host.flash.clone(), host.backing.clone());
    let (mut left, mut tokens) = (writes.iter(), Vec::new());
    let mut write = |host: &Host, backing: &mut Vec<Vec<u8>>| {
        let &(first, count) = left.next().unwrap();
        let data = vec![7; (count * BLOCK) as usize];
        tokens.push(host.cache.write_begin(0, first * BLOCK, &data).unwrap());
        backing[0][(first * BLOCK) as usize..][..data.len()].copy_from_slice(&data);
    };
    let mut job = next(&host, &mut now);
    carry_out(&mut job, &backing, &mut flash);
    write(&host, &mut backing);
    host.cache.done(job, Ok(()));
    write(&host, &mut backing);
    if let Next::Job(mut job) = host.cache.next_job(now) {
        carry_out(&mut job, &backing, &mut flash);
        write(&host, &mut backing);
        host.cache.done(job, Ok(()));
    }
    (host.flash, host.backing) = (flash, backing);
    tokens.into_iter().for_each(|token| host.cache.write_end(token, Ok(())));
    host.cache.check();
    host
}

#[test]
fn what_is_written_during_a_population_is_a_hole() {
    let mut host = populated_beside([(0, 1), (4, 2), (8, 1)]);
    for (block, kind) in [(0, ReadKind::Miss), (1, ReadKind::Hit), (4, ReadKind::Miss), (8, ReadKind::Miss)] {
        assert_eq!((block, host.kind(0, block * BLOCK, BLOCK)), (block, kind));
    }
    assert_eq!(host.kind(0, 9 * BLOCK, FRAGMENT - 9 * BLOCK), ReadKind::Hit);
    let found = host.statistics();
    assert_eq!((found.populations_done, found.populations_with_holes), (1, 1));
    // Which a later write fills.
    host.write(0, 0, &[9; BLOCK as usize]);
    host.work();
    assert_eq!(host.kind(0, 0, 4 * BLOCK), ReadKind::Hit);
}

/// All of it is written between the read and the write: nothing is written to the cache device.
#[test]
fn a_population_of_which_nothing_would_be_valid_is_not_written() {
    let host = populated_beside([(0, 16), (16, 16), (0, 0)]);
    let found = host.statistics();
    assert_eq!((found.populations_aborted, found.population_bytes_written, found.slots_used), (1, 0, 0));
}
