//! How many writes wait for a mark, under a load shaped like TPC-E in virtual time: the references of the
//! generator of `mezzanine-trace`, at the rate that the SCE paper's system had ("Flash-Conscious Cache
//! Population for Enterprise Database Workloads", section 4.1: 160 GiB, about 88 transactions a second of 88
//! requests), per byte of the database. A slower one leaves fragments more time to settle, and has more writes
//! wait.
#![allow(clippy::unwrap_used)]

use mezzanine_fragment::format::Superblock;
use mezzanine_fragment::{Cache, Job, Next};
use mezzanine_trace::{Generate, Op, Shape};

const GIB: u64 = 1 << 30;
const PAGE: u64 = 4096;
const SECOND: u64 = 1_000_000_000;
/// The paper's is 160 GiB, with 88 × 88 requests a second.
const DATABASE_BYTES: u64 = 8 * GIB;
const REQUESTS_PER_SECOND: u64 = 88 * 88 * 8 / 160;

/// Carries out everything that there is to do at this time. Nothing takes time.
fn work(cache: &Cache, now: u64) {
    while let Next::Job(mut job) = cache.next_job(now) {
        if let Job::ReadFragment(read) = &mut job {
            let _ = read.buffer();
        }
        cache.done(job, Ok(()));
    }
}

#[test]
fn fewer_than_one_in_a_hundred_writes_of_tpc_e_wait() {
    let minutes: u64 = std::env::var("MEZZANINE_MINUTES").map_or(40, |minutes| minutes.parse().unwrap());
    let superblock = Superblock::new([1; 16], DATABASE_BYTES + GIB, 1 << 20).unwrap();
    let superblock = superblock.with_volume([2; 16], "tpce", DATABASE_BYTES, [0; 64]).unwrap().opened();
    let cache = Cache::heap(superblock.config().geometry().unwrap());
    let mut pieces = Vec::new();
    let (mut now, mut before, mut hour) = (0, cache.statistics(), 0);
    let half = minutes / 2;
    let requests = REQUESTS_PER_SECOND * minutes * 60;
    let load = Generate::new(Shape::Tpce, (DATABASE_BYTES / PAGE) as u32, requests, 1).generate().unwrap();
    let mut measured = None;
    for request in load {
        let offset = request.page * PAGE;
        match request.op {
            Op::Read => {
                cache.read(0, offset, PAGE, &mut pieces).unwrap();
            }
            Op::Write => {
                let token = cache.write_begin_hollow(0, offset, PAGE).unwrap();
                while token.waits_for() > cache.marks_durable() {
                    let Next::Job(job) = cache.next_map(now) else { panic!("the mark is under way") };
                    cache.done(job, Ok(()));
                }
                cache.write_end(token, Ok(()));
            }
            // The database flushes its log, and its checkpoints the rest.
            Op::Commit => {
                let token = cache.flush_begin(0).unwrap();
                cache.flush_end(token, Ok(()));
                continue;
            }
            _ => continue,
        }
        now += SECOND / REQUESTS_PER_SECOND;
        work(&cache, now);
        if now / (60 * SECOND) >= hour + 5 {
            hour = now / (60 * SECOND);
            let found = cache.statistics();
            let (waited, writes) = (found.writes_waited - before.writes_waited, found.writes - before.writes);
            println!(
                "minute {hour}: {waited} of {writes} writes waited ({:.2} %), {} of {} fragments in the cache are stable",
                waited as f64 * 100.0 / writes.max(1) as f64,
                found.slots_used.saturating_sub(found.unstable),
                found.slots_used
            );
            if hour > half {
                let (all_waited, all_writes) = measured.unwrap_or((0, 0));
                measured = Some((all_waited + waited, all_writes + writes));
            }
            before = found;
        }
    }
    let (waited, writes) = measured.unwrap();
    println!("{waited} of {writes} writes of the second half waited");
    assert!(writes > 10_000 && cache.statistics().settled > 0);
    assert!(waited * 100 < writes, "{waited} of {writes}");
}
