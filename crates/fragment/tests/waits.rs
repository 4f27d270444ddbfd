//! How many writes wait for a mark, and what a crash leaves of the cache, under a load shaped like TPC-E in
//! virtual time: the references of the generator of `mezzanine-trace`, at the rate that the SCE paper's
//! system had ("Flash-Conscious Cache Population for Enterprise Database Workloads", section 4.1: 160 GiB,
//! about 88 transactions a second of 88 requests), per byte of the database.
//!
//! Most of its writes go to what is written to all the time. Of the others each may be the first one of its
//! fragment for half an hour, and waits unless the fragment was held: the fewer wait, the less is there after
//! a crash.
#![allow(clippy::unwrap_used)]

use std::cell::RefCell;

use mezzanine_fragment::format::Superblock;
use mezzanine_fragment::{Cache, Config, Job, Next, Recovery, Statistics};
use mezzanine_trace::{Generate, Op, Request, Shape};

const GIB: u64 = 1 << 30;
const PAGE: u64 = 4096;
const SECOND: u64 = 1_000_000_000;
const MINUTE: u64 = 60 * SECOND;
const DATABASE_BYTES: u64 = 8 * GIB;
const REQUESTS_PER_SECOND: u64 = 88 * 88 * 8 / 160;
/// Minutes after a crash that are looked at.
const AFTERWARDS: u64 = 21;

/// A cache in virtual time, and what its device has of the map. Nothing takes time.
struct Host {
    cache: Cache,
    map_offset: u64,
    map: RefCell<Vec<u8>>,
}

impl Host {
    fn new(superblock: &Superblock, config: &Config) -> Self {
        let map = RefCell::new(vec![0; superblock.layout.map_bytes as usize]);
        let cache = Cache::heap(config.geometry().unwrap());
        Self { cache, map_offset: superblock.layout.map_offset, map }
    }

    /// What is there after a crash at this moment.
    fn crashed(&self, config: &Config) -> Self {
        let mut recovery = Recovery::heap(config.geometry().unwrap());
        let map = self.map.borrow().clone();
        while let Some((offset, bytes)) = recovery.next() {
            recovery.take(&map[(offset - self.map_offset) as usize..][..bytes]).unwrap();
        }
        let (cache, found) = recovery.finish();
        let host = Self { cache, map_offset: self.map_offset, map: RefCell::new(map) };
        host.wait(found.waits_for, 0);
        host
    }

    fn done(&self, mut job: Job<'_>) {
        match &mut job {
            Job::ReadFragment(read) => {
                let _ = read.buffer();
            }
            Job::WriteMap(write) => {
                let at = (write.offset() - self.map_offset) as usize;
                self.map.borrow_mut()[at..][..write.data().len()].copy_from_slice(write.data());
            }
            _ => {}
        }
        self.cache.done(job, Ok(()));
    }

    /// Until a mark is durable.
    fn wait(&self, mark: u64, now: u64) {
        while mark > self.cache.marks_durable() {
            let Next::Job(job) = self.cache.next_map(now) else { panic!("the mark is under way") };
            self.done(job);
        }
    }

    /// A request, and everything that there is to do then.
    fn request(&self, request: &Request, now: u64) {
        let offset = request.page * PAGE;
        match request.op {
            Op::Read => {
                self.cache.read(0, offset, PAGE, &mut Vec::new()).unwrap();
            }
            Op::Write => {
                let token = self.cache.write_begin_hollow(0, offset, PAGE).unwrap();
                self.wait(token.waits_for(), now);
                self.cache.write_end(token, Ok(()));
            }
            // The database flushes its log.
            Op::Commit => {
                let token = self.cache.flush_begin(0).unwrap();
                self.cache.flush_end(token, Ok(()));
                return;
            }
            _ => return,
        }
        while let Next::Job(job) = self.cache.next_job(now) {
            self.done(job);
        }
    }

    /// Reads that were hits, and all.
    fn reads(&self) -> [u64; 2] {
        let Statistics { reads_hit, reads_partial, reads_missed, .. } = self.cache.statistics();
        [reads_hit, reads_hit + reads_partial + reads_missed]
    }
}

fn hits(after: [u64; 2], before: [u64; 2]) -> f64 {
    (after[0] - before[0]) as f64 / (after[1] - before[1]) as f64
}

#[derive(Debug, Clone, Copy, Default)]
struct Shares {
    /// Of the writes, those that waited, in the second half of the time.
    waited: f64,
    /// Of the cached fragments, those that a crash would leave, looked at each minute of the second half.
    stable: f64,
    /// Of the reads of a minute, hits, when so many minutes have gone by since a crash: of a cache that has
    /// begun with what the crash has left, and of one that had no crash.
    hits: [f64; 2],
    /// Bytes written to the map in a day.
    map_bytes: f64,
}

/// So many minutes, then a crash, and what is there afterwards.
fn shares(settle_s: u64, waits_per_mille: u32, minutes: u64) -> Shares {
    let superblock = Superblock::new([1; 16], DATABASE_BYTES + GIB, 1 << 20).unwrap();
    let superblock = superblock.with_volume([2; 16], "tpce", DATABASE_BYTES, [0; 64]).unwrap().opened();
    let config = |superblock: &Superblock| {
        let mut config = superblock.config();
        let map = config.map.as_mut().unwrap();
        (map.settle_ms, map.waits_per_mille) = (settle_s * 1000, waits_per_mille);
        config
    };
    let host = Host::new(&superblock, &config(&superblock));
    let pages = (DATABASE_BYTES / PAGE) as u32;
    let requests = REQUESTS_PER_SECOND * (minutes + AFTERWARDS) * 60;
    let load = Generate::new(Shape::Tpce, pages, requests, 1).generate().unwrap();
    let (mut now, mut minute, mut half) = (0, 0, None);
    let (mut stable, mut cached, mut found) = (0, 0, Shares::default());
    let mut crashed: Option<(Host, [u64; 2], [u64; 2])> = None;
    for request in load {
        host.request(&request, now);
        if let Some((after, ..)) = &crashed {
            after.request(&request, now);
        }
        if request.op == Op::Commit {
            continue;
        }
        now += SECOND / REQUESTS_PER_SECOND;
        if now / MINUTE == minute {
            continue;
        }
        minute = now / MINUTE;
        let counters = host.cache.statistics();
        if let Some((after, reads, reads_after)) = &mut crashed {
            found.hits = [hits(after.reads(), *reads_after), hits(host.reads(), *reads)];
            (*reads, *reads_after) = (host.reads(), after.reads());
            let since = minute - minutes;
            if [1, 2, 5, 10, 20].contains(&since) {
                println!("  minute {since} after the crash: {:.3?} of the reads are hits", found.hits);
            }
            continue;
        }
        if minute >= minutes / 2 {
            stable += counters.slots_used.saturating_sub(counters.unstable);
            cached += counters.slots_used;
            half.get_or_insert(counters);
        }
        if minute == minutes {
            let before = half.unwrap();
            let (waited, writes) =
                (counters.writes_waited - before.writes_waited, counters.writes - before.writes);
            found.waited = waited as f64 / writes as f64;
            found.stable = stable as f64 / cached as f64;
            let blocks = counters.map_blocks_written - before.map_blocks_written;
            found.map_bytes = (blocks * PAGE) as f64 * 1440.0 / (minutes - minutes / 2) as f64;
            println!(
                "settled after {settle_s} s, {waits_per_mille} in 1,000 may wait: {waited} of {writes} writes waited \
                 ({:.2} %), {:.0} % of {} cached fragments were stable, {:.0} MB a day of the map",
                found.waited * 100.0,
                found.stable * 100.0,
                counters.slots_used,
                found.map_bytes / 1e6
            );
            // What is brought in is so many fragments a second, whatever the size of the cache is.
            let mut config = config(&superblock.opened());
            config.throttle.stages.iter_mut().for_each(|stage| stage.period_ms *= 20);
            let after = host.crashed(&config);
            println!("  a crash leaves {} fragments", after.cache.statistics().slots_used);
            let reads = after.reads();
            crashed = Some((after, host.reads(), reads));
        }
    }
    found
}

#[test]
fn marks_are_held_until_few_enough_writes_of_tpc_e_wait() {
    let minutes: u64 = std::env::var("MEZZANINE_MINUTES").map_or(240, |minutes| minutes.parse().unwrap());
    let found = [1000, 100, 10].map(|waits_per_mille| shares(30, waits_per_mille, minutes));
    let [never, one_in_ten, one_in_a_hundred] = found;
    assert!(never.waited > 0.1 && never.stable > 0.9, "{found:?}");
    assert!(one_in_ten.waited < 0.1 && one_in_ten.stable > 0.75, "{found:?}");
    assert!(one_in_a_hundred.waited < 0.01 && one_in_a_hundred.stable > 0.25, "{found:?}");
    assert!(found.windows(2).all(|pair| pair[1].map_bytes < pair[0].map_bytes), "{found:?}");
    // What the crash has cost is back.
    assert!(found.iter().all(|one| one.hits[0] > one.hits[1] - 0.03), "{found:?}");
}
