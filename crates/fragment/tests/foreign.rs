//! What one cache hands out is nothing to another one, though both are in the same process.
#![allow(clippy::unwrap_used, missing_docs)]

use std::panic::{AssertUnwindSafe, catch_unwind};

use host::{BLOCK, Host, small};
use mezzanine_fragment::{DeviceError, Job, Next};

mod host;

/// Two caches that are at the same step of everything, so that the numbers of what they hand out are the
/// same.
fn two() -> [Host; 2] {
    [0, 1].map(|_| {
        let mut host = Host::new(&small(2, &[4]));
        host.populate(0, 0);
        host
    })
}

fn is_refused(call: impl FnOnce()) -> bool {
    catch_unwind(AssertUnwindSafe(call)).is_err_and(|panic| {
        let text = panic.downcast_ref::<String>().cloned().unwrap_or_default();
        assert!(text.contains("of another cache"), "{text}");
        true
    })
}

/// Whether a copy's memory stays its job's when the job is handed to another cache, which has one like it.
fn memory_stays_the_jobs() -> bool {
    let [one, two] = two();
    for (host, value) in [(&one, 1), (&two, 2)] {
        let token = host.cache.write_begin(0, 0, &[value; BLOCK as usize]).unwrap();
        host.cache.write_end(token, Ok(()));
    }
    let (mine, theirs) = (one.copy(), two.copy());
    let Job::WriteBlocks(lent) = &theirs else { unreachable!("a copy") };
    let before = lent.writes().next().unwrap().1.to_vec();
    let refused = is_refused(|| two.cache.done(mine, Ok(())));
    // Of the memory that a job still has, nobody else may be given any.
    let used = two.cache.statistics().copy_blocks_used;
    assert_eq!(before[0], 2);
    if refused {
        two.cache.done(theirs, Ok(()));
        two.cache.check();
    }
    assert_eq!(refused, used == 1);
    refused
}

#[test]
fn a_job_is_its_caches() {
    assert!(memory_stays_the_jobs());
    #[cfg(feature = "planted")]
    {
        use mezzanine_fragment::planted::{Bug, set};
        set(Some(Bug::ForeignTaken));
        let refused = memory_stays_the_jobs();
        set(None);
        assert!(!refused, "the planted fault went unnoticed");
    }
}

#[test]
fn a_population_is_its_caches() {
    let [mut one, two] = two();
    one.kind(0, 256 << 10, 1);
    let job = loop {
        one.now += 500_000_000;
        if let Next::Job(job) = one.cache.next_job(one.now) {
            break job;
        }
    };
    assert!(is_refused(|| two.cache.done(job, Err(DeviceError))));
}

#[test]
fn a_write_and_a_piece_are_their_caches() {
    let [one, two] = two();
    let token = one.cache.write_begin(0, 0, &[1; BLOCK as usize]).unwrap();
    let _other = two.cache.write_begin(0, 0, &[2; BLOCK as usize]).unwrap();
    assert!(is_refused(|| two.cache.write_end(token, Ok(()))));
    let mut pieces = Vec::new();
    one.cache.read(0, BLOCK, 1, &mut pieces).unwrap();
    assert!(is_refused(|| {
        two.cache.confirm(&pieces[0]);
    }));
    assert!(is_refused(|| two.cache.read_failed(&pieces[0])));
    assert!(one.cache.confirm(&pieces[0]));
    assert!(two.cache.location(0, BLOCK).is_some());
}
