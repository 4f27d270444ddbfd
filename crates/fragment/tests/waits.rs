//! How many writes wait for a mark, and how much of the cache a crash leaves, under a load shaped like TPC-E
//! in virtual time: the references of the generator of `mezzanine-trace`, at the rate that the SCE paper's
//! system had ("Flash-Conscious Cache Population for Enterprise Database Workloads", section 4.1: 160 GiB,
//! about 88 transactions a second of 88 requests), per byte of the database.
//!
//! Most of its writes go to what is written to all the time. Of the others each may be the first one of its
//! fragment for half an hour, and waits: the longer fragments are left to settle, the fewer wait, and the
//! fewer are there after a crash.
#![allow(clippy::unwrap_used)]

use mezzanine_fragment::format::Superblock;
use mezzanine_fragment::{Cache, Job, Next, Statistics};
use mezzanine_trace::{Generate, Op, Shape};

const GIB: u64 = 1 << 30;
const PAGE: u64 = 4096;
const SECOND: u64 = 1_000_000_000;
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

/// Shares of the writes that waited and of the cached fragments that were stable, of the second half of so
/// many minutes, looked at each minute.
fn shares(settle_s: u64, minutes: u64) -> [f64; 2] {
    let superblock = Superblock::new([1; 16], DATABASE_BYTES + GIB, 1 << 20).unwrap();
    let superblock = superblock.with_volume([2; 16], "tpce", DATABASE_BYTES, [0; 64]).unwrap().opened();
    let mut config = superblock.config();
    config.map.as_mut().unwrap().settle_ms = settle_s * 1000;
    let cache = Cache::heap(config.geometry().unwrap());
    let pages = (DATABASE_BYTES / PAGE) as u32;
    let requests = REQUESTS_PER_SECOND * minutes * 60;
    let load = Generate::new(Shape::Tpce, pages, requests, 1).generate().unwrap();
    let (mut pieces, mut now, mut minute) = (Vec::new(), 0, 0);
    let mut half: Option<Statistics> = None;
    let (mut stable, mut cached) = (0, 0);
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
            // The database flushes its log.
            Op::Commit => {
                let token = cache.flush_begin(0).unwrap();
                cache.flush_end(token, Ok(()));
                continue;
            }
            _ => continue,
        }
        now += SECOND / REQUESTS_PER_SECOND;
        work(&cache, now);
        if now / (60 * SECOND) > minute {
            minute = now / (60 * SECOND);
            let found = cache.statistics();
            if minute >= minutes / 2 {
                stable += found.slots_used.saturating_sub(found.unstable);
                cached += found.slots_used;
                half.get_or_insert(found);
            }
        }
    }
    let (before, after) = (half.unwrap(), cache.statistics());
    let (waited, writes) = (after.writes_waited - before.writes_waited, after.writes - before.writes);
    let shares = [waited as f64 / writes as f64, stable as f64 / cached as f64];
    println!(
        "settled after {settle_s} s: {waited} of {writes} writes waited ({:.2} %), {:.0} % of {} cached fragments were stable",
        shares[0] * 100.0,
        shares[1] * 100.0,
        after.slots_used
    );
    shares
}

#[test]
fn fewer_writes_of_tpc_e_wait_where_less_survives_a_crash() {
    let minutes: u64 = std::env::var("MEZZANINE_MINUTES").map_or(240, |minutes| minutes.parse().unwrap());
    let found = [30, 300, 1800].map(|settle_s| shares(settle_s, minutes));
    let [[waited, stable], [_, _], [least_waited, least_stable]] = found;
    assert!(waited < 0.1 && stable > 0.8, "{found:?}");
    assert!(least_waited < 0.01, "{found:?}");
    assert!(found.windows(2).all(|pair| pair[1][0] < pair[0][0] && pair[1][1] < pair[0][1]), "{found:?}");
    assert!(least_stable > 0.0, "{found:?}");
}
