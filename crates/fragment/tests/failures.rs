//! A cache device that fails in places: the rest of the cache goes on.
#![allow(clippy::unwrap_used, missing_docs)]

use host::{Host, carry_out, small};
use mezzanine_fragment::{DeviceError, Job, Next};

mod host;

const FRAGMENT: u64 = 128 << 10;

/// Reads all fragments again and again, and does all jobs. The cache device refuses fragments at offsets for
/// which `refuses`.
fn run(host: &mut Host, rounds: u64, refuses: impl Fn(u64) -> bool) {
    let fragments = host.backing[0].len() as u64 / FRAGMENT;
    for _ in 0..rounds {
        for fragment in 0..fragments {
            host.kind(0, fragment * FRAGMENT, 1);
        }
        host.now += 500_000_000;
        while let Next::Job(mut job) = host.cache.next_job(host.now) {
            let bad = matches!(&job, Job::WriteFragment(write) if refuses(write.offset()));
            if !bad {
                carry_out(&mut job, &host.backing, &mut host.flash);
            }
            host.cache.done(job, if bad { Err(DeviceError) } else { Ok(()) });
        }
        host.cache.check();
    }
}

/// One worker, four slots, the second of which is bad.
fn one_bad_slot() -> Host {
    let mut config = small(4, &[3]);
    config.population_workers = 1;
    let mut host = Host::new(&config);
    run(&mut host, 20, |offset| offset == FRAGMENT);
    host
}

#[test]
fn one_bad_slot_does_not_stop_population() {
    let found = one_bad_slot().statistics();
    assert_eq!((found.populations_failed, found.populations_done), (1, 3));
    assert_eq!((found.slots_used, found.slots_retired), (3, 1));
    #[cfg(feature = "planted")]
    {
        use mezzanine_fragment::planted::{Bug, set};
        set(Some(Bug::RefusedSlotFree));
        let found = one_bad_slot().statistics();
        set(None);
        assert_eq!(found.populations_done, 1, "the planted fault went unnoticed");
    }
}

/// A device that has failed for a while fills again.
#[test]
fn half_of_the_slots_are_retired_at_most() {
    let mut host = Host::new(&small(4, &[4]));
    run(&mut host, 20, |_| true);
    let found = host.statistics();
    assert_eq!((found.slots_used, found.slots_retired, found.populations_done), (0, 2, 0));
    run(&mut host, 20, |_| false);
    assert_eq!(host.statistics().slots_used, 2);
    let mut host = Host::new(&small(1, &[1]));
    run(&mut host, 5, |_| true);
    assert_eq!(host.statistics().slots_retired, 0);
    run(&mut host, 5, |_| false);
    assert_eq!(host.statistics().slots_used, 1);
}

/// Nor of a cache that was made smaller, whenever they were retired: it fills again, too.
#[test]
fn half_of_the_slots_of_a_smaller_cache_are_retired_at_most() {
    for retired_before in [true, false] {
        let mut host = Host::new(&small(8, &[8]));
        if retired_before {
            run(&mut host, 40, |_| true);
            assert_eq!(host.statistics().slots_retired, 4);
        }
        host.cache.resize(4 * FRAGMENT).unwrap();
        run(&mut host, 40, |_| true);
        assert!(host.cache.is_resized());
        let found = host.statistics();
        assert!(found.slots_used == 0 && found.slots_retired <= 2, "{found:?}");
        run(&mut host, 40, |_| false);
        assert!(host.statistics().slots_used >= 2, "{:?}", host.statistics());
    }
}

/// What is left of a fragment that the cache device does not give back is nothing: its slot is of use to
/// others.
#[test]
fn a_fragment_leaves_with_the_last_block_that_cannot_be_read() {
    let mut host = Host::new(&small(1, &[1]));
    host.populate(0, 0);
    let mut pieces = Vec::new();
    for (offset, bytes, left) in [(0, 4096, 1), (4096, FRAGMENT - 4096, 0)] {
        host.cache.read(0, offset, bytes, &mut pieces).unwrap();
        host.cache.read_failed(&pieces[0]);
        assert_eq!(host.statistics().slots_used, left);
    }
    assert_eq!(host.statistics().fragments_emptied, 1);
    host.cache.check();
    host.populate(0, 0);
}
