//! The loads that tell one parameter from another, beside those of the DuraSSD paper.
//!
//! - *Reads* of one and of several clients, small and large: what flash takes, what a channel, what the link.
//! - *Bursts* after idle: what a command and a unit take in an empty buffer, and how much one holds before
//!   writes wait for flash.
//! - *Sustained* writes: how much flash takes in a second.
//! - *Mixed* requests: whether reads wait for writes.
//! - *Collection*, over the whole drive: writes of more and more at a place. They cost the less, the more of
//!   an erase unit they fill.

use std::time::Duration;

use super::{Facts, Measurements};
use crate::load::{Load, LoadKind, Measured, Tally, VirtualDrive};

/// A mapping unit of the host's requests.
pub(super) const SMALL: u64 = 4096;
pub(super) const MIDDLE: u64 = 64 << 10;
/// The largest request.
pub(super) const LARGE: u64 = 256 << 10;
/// Clients of sustained writes.
const SUSTAINED_CLIENTS: usize = 8;
/// Clients of mixed requests, of large reads, and of the bursts that fill the queue.
pub(super) const SEVERAL: usize = 16;
/// Clients of mixed requests that fill any queue.
const MANY: usize = 64;
/// Of the time of a load, the share that clients rest after a burst, and all after a load,
const REST_SHARE: f64 = 0.2;
/// but no longer than this.
const REST_MS_MAX: u64 = 200;
/// Requests of 256 KiB in the largest burst: 64 MiB.
const BURST_MAX: u64 = 256;
/// Bytes at a place, over the whole drive.
const RUN_BYTES: [u64; 5] = [128 << 10, 1 << 20, 8 << 20, 64 << 20, 512 << 20];
/// Places of the largest run at least.
const PLACES_MIN: u64 = 16;
/// Clients of the small writes over the whole drive.
const COLLECTION_CLIENTS: usize = 32;

/// The loads over the measured part. They follow its filling at once, in this order: where units lie on flash
/// matters to reads.
pub fn identifying(clients: usize, time: Duration) -> Vec<Load> {
    let read = |bytes, clients| Load::new(LoadKind::RandomRead, bytes, clients);
    let mut loads = vec![
        read(SMALL, 1),
        read(SMALL, 4),
        read(SMALL, SEVERAL),
        read(SMALL, clients),
        read(MIDDLE, 1),
        read(LARGE, 1),
        read(LARGE, SEVERAL),
    ];
    loads.extend([small_burst(), middle_burst()]);
    // While there is erased flash, which there is more of on larger drives.
    loads.extend([sustained(), mixed(50, SEVERAL), mixed(70, MANY)]);
    loads.extend(large_bursts());
    resting(loads, time)
}

/// The loads with the rests that go with their time.
fn resting(mut loads: Vec<Load>, time: Duration) -> Vec<Load> {
    for load in loads.iter_mut().filter(|load| load.rest_ms > 0) {
        load.rest_ms = (rest(time).as_millis() as u64).max(1);
    }
    loads
}

/// How long nothing is done after a load of so much time, for the write cache to empty itself.
pub fn rest(time: Duration) -> Duration {
    time.mul_f64(REST_SHARE).min(Duration::from_millis(REST_MS_MAX))
}

/// The loads that wear flash and fill all of it: over the whole drive, filled before. Each size is written
/// in two halves, each of half the drive.
pub fn collecting(capacity_bytes: u64, time: Duration) -> Vec<Load> {
    let mut loads = Vec::new();
    let in_halves = |load: Load, halves: usize| {
        let of_each = capacity_bytes / 2 / load.request_bytes / load.clients as u64;
        let requests_max = of_each.div_ceil(load.run).max(1) * load.run;
        std::iter::repeat_n(Load { requests_max, ..load }, halves)
    };
    for bytes in RUN_BYTES.into_iter().rev().filter(|bytes| bytes * PLACES_MIN <= capacity_bytes) {
        let request = bytes.min(LARGE);
        let load = Load { run: bytes / request, ..Load::new(LoadKind::RandomWrite, request, 1) };
        loads.extend(in_halves(load, 2));
    }
    // Until collection goes on as it does.
    loads.extend(in_halves(Load::new(LoadKind::RandomWrite, SMALL, COLLECTION_CLIENTS), 4));
    loads.extend(large_bursts().skip(1));
    resting(loads, time)
}

/// Bytes that the loads over the whole drive write at most, its filling included.
pub fn collection_bytes(capacity_bytes: u64) -> u64 {
    let loads = collecting(capacity_bytes, Duration::ZERO).into_iter().filter(|load| load.requests_max > 0);
    let halves: u64 = loads.map(|load| load.requests_max * load.request_bytes * load.clients as u64).sum();
    capacity_bytes.saturating_add(halves)
}

fn burst(kind: LoadKind, bytes: u64, writes: u64) -> Load {
    Load { rest_ms: REST_MS_MAX, ..Load::new(kind, bytes, 1).fsync_after(writes) }
}

pub(super) fn large_bursts() -> impl Iterator<Item = Load> {
    (0..)
        .map(|power| 1 << power)
        .take_while(|writes| *writes <= BURST_MAX)
        .map(|writes| burst(LoadKind::GroupWrite, LARGE, writes))
}

pub(super) fn small_burst() -> Load {
    burst(LoadKind::RandomWrite, SMALL, 16)
}

pub(super) fn middle_burst() -> Load {
    burst(LoadKind::RandomWrite, MIDDLE, 1)
}

fn mixed(reads_percent: u64, clients: usize) -> Load {
    Load { reads_percent, warm_up: true, ..Load::new(LoadKind::Mixed, SMALL, clients) }
}

pub(super) fn sustained() -> Load {
    Load { warm_up: true, ..Load::new(LoadKind::GroupWrite, LARGE, SUSTAINED_CLIENTS) }
}

/// What the loads say of a modelled drive, as the probe measures it: the same requests, in virtual time.
pub fn measure(
    drive: &mut VirtualDrive,
    facts: Facts,
    clients: usize,
    time: Duration,
    whole: bool,
) -> Measurements {
    let rest = rest(time);
    let one = |drive: &mut VirtualDrive, load: Load, span: u64, time: Duration, seed: u64| {
        let mut tally = Tally::default();
        let took = drive.run(load, span, time, seed, &mut tally);
        drive.settle(rest);
        Measured::new(load, &tally, took)
    };
    drive.fill(facts.span_bytes, &mut |_| {});
    let loads = identifying(clients, time).into_iter().chain(flushed());
    let rows = (1..).zip(loads).map(|(seed, load)| one(drive, load, facts.span_bytes, time, seed)).collect();
    let mut collected = Vec::new();
    if whole {
        drive.fill(facts.capacity_bytes, &mut |_| {});
        for (seed, load) in (1000..).zip(collecting(facts.capacity_bytes, time)) {
            let time = if load.requests_max > 0 { Duration::from_secs(1 << 30) } else { time };
            collected.push(one(drive, load, facts.capacity_bytes, time, seed));
        }
    }
    Measurements { facts, rows, collection: collected }
}

/// The loads of the DuraSSD paper, and of logs, that a fit asks for.
pub(super) fn flushed() -> impl Iterator<Item = Load> {
    const WRITES_PER_FSYNC: [u64; 8] = [1, 4, 8, 16, 32, 64, 128, 256];
    let writes = WRITES_PER_FSYNC
        .into_iter()
        .map(|writes| Load::new(LoadKind::RandomWrite, SMALL, 1).fsync_after(writes));
    writes.chain([Load::new(LoadKind::RandomWrite, SMALL, 1), through()])
}

/// Writes that go through the cache.
pub(super) fn through() -> Load {
    Load::new(LoadKind::LogDsync, 8192, 1)
}
