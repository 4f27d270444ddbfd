//! Loads that drives are measured under, and what their clients do one after the other: the same for a real
//! device, a modelled one, and a model that is being fitted to either.
//!
//! Most are those of Tables 1 and 2 of "Durable Write Cache in Flash Memory SSD for Relational and NoSQL
//! Databases" (SIGMOD 2014), sections 2.2 to 2.4.

mod virtual_time;

use std::time::Duration;

use mezzanine_ground::random::Random;
use serde::{Deserialize, Serialize};

pub use virtual_time::{FILL_BYTES, VirtualDrive};

/// What the clients of a load do.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum LoadKind {
    /// Writes at random places.
    RandomWrite,
    /// Reads at random places.
    RandomRead,
    /// Reads and writes at random places.
    Mixed,
    /// Writes one after the other, each followed by fdatasync: `wal_sync_method = fdatasync`.
    LogFdatasync,
    /// Writes one after the other to a file that was opened with O_DSYNC: `wal_sync_method = open_datasync`.
    LogDsync,
    /// Writes one after the other, each followed by a flush.
    GroupWrite,
}

/// One load.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, Serialize)]
pub struct Load {
    /// What its clients do.
    pub kind: LoadKind,
    /// Size of a request.
    pub request_bytes: u64,
    /// Null for none.
    pub writes_per_fsync: Option<u64>,
    /// Requests in flight.
    pub clients: usize,
    /// Requests one after the other from each random place on. Places are multiples of all their bytes.
    #[serde(default = "one", skip_serializing_if = "is_one")]
    pub run: u64,
    /// Of 100 requests of a mixed load, those that read.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub reads_percent: u64,
    /// How long each client does nothing after an fsync.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub rest_ms: u64,
    /// Whether it runs for as long before anything counts, so that no buffer is empty any more.
    #[serde(default, skip_serializing_if = "is_false")]
    pub warm_up: bool,
    /// Requests of each client after which it ends, also before its time. 0 = it ends with its time.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub requests_max: u64,
}

fn one() -> u64 {
    1
}

#[allow(clippy::trivially_copy_pass_by_ref, reason = "it is what serde calls")]
fn is_one(value: &u64) -> bool {
    *value == 1
}

#[allow(clippy::trivially_copy_pass_by_ref, reason = "it is what serde calls")]
fn is_zero(value: &u64) -> bool {
    *value == 0
}

#[allow(clippy::trivially_copy_pass_by_ref, reason = "it is what serde calls")]
fn is_false(value: &bool) -> bool {
    !value
}

impl Load {
    /// A load without fsyncs.
    pub fn new(kind: LoadKind, request_bytes: u64, clients: usize) -> Self {
        Self {
            kind,
            request_bytes,
            writes_per_fsync: None,
            clients,
            run: 1,
            reads_percent: 0,
            rest_ms: 0,
            warm_up: false,
            requests_max: 0,
        }
    }

    /// The same with an fsync of each client after so many of its writes.
    pub fn fsync_after(self, writes: u64) -> Self {
        Self { writes_per_fsync: Some(writes), ..self }
    }

    /// Whether places are drawn.
    pub fn is_random(self) -> bool {
        matches!(self.kind, LoadKind::RandomWrite | LoadKind::RandomRead | LoadKind::Mixed)
    }

    /// What a person calls it.
    pub fn describe(self) -> String {
        let size = size(self.request_bytes);
        if self.run > 1 {
            return format!("writes of {} in turn", self::size(self.request_bytes * self.run));
        }
        match (self.kind, self.writes_per_fsync, self.clients) {
            (LoadKind::RandomWrite | LoadKind::GroupWrite, Some(writes), _) if self.rest_ms > 0 => {
                format!("bursts of {writes} x {size}")
            }
            (LoadKind::RandomWrite, Some(writes), _) => format!("writes of {size}, {writes} per fsync"),
            (LoadKind::RandomWrite, None, 1) => format!("writes of {size}, no fsync"),
            (LoadKind::RandomWrite, None, clients) => format!("writes of {size}, {clients} clients"),
            (LoadKind::RandomRead, _, 1) => format!("reads of {size}, 1 client"),
            (LoadKind::RandomRead, _, clients) => format!("reads of {size}, {clients} clients"),
            (LoadKind::Mixed, _, clients) => {
                format!("{} % reads of {size}, {clients} clients", self.reads_percent)
            }
            (LoadKind::LogFdatasync, ..) => format!("a log of {size}, fdatasync"),
            (LoadKind::LogDsync, ..) => format!("a log of {size}, O_DSYNC"),
            (LoadKind::GroupWrite, Some(_), _) => format!("groups of {size}, flushed"),
            (LoadKind::GroupWrite, None, _) => format!("writes of {size}, one after the other"),
        }
    }

    /// Whether it is the same load, but for how long it rests and when it ends.
    pub fn is_like(self, other: Self) -> bool {
        let bare = |load: Self| Self { rest_ms: u64::from(load.rest_ms > 0), requests_max: 0, ..load };
        bare(self) == bare(other)
    }

    /// What the client with this number does over the first `span_bytes`, and from a seed of the load on.
    ///
    /// # Panics
    /// If the span has no room for a single place.
    pub fn client(self, number: usize, span_bytes: u64, seed: u64) -> Client {
        let places = span_bytes / (self.request_bytes * self.run);
        assert!(places > 0, "the span has no room for a request");
        let random = Random::new(seed.wrapping_add((number as u64) << 32));
        // Several that write one after the other are as far from one another as can be.
        let first = places * number as u64 / self.clients.max(1) as u64;
        Client { load: self, random, places, first, place: 0, requests: 0, owed: Owed::Nothing }
    }
}

fn size(bytes: u64) -> String {
    if bytes < 1 << 20 || bytes % (1 << 20) != 0 {
        format!("{} KiB", bytes >> 10)
    } else {
        format!("{} MiB", bytes >> 20)
    }
}

/// What a client does next.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Step {
    /// Reads a request from this offset on.
    Read(u64),
    /// Writes one.
    Write(u64),
    /// Writes one that is durable when it is complete.
    WriteThrough(u64),
    /// Flushes.
    Fsync,
    /// Does nothing.
    Rest(Duration),
}

/// What a client does before its next request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Owed {
    Nothing,
    Fsync,
    Rest,
}

/// One client of a load.
#[derive(Debug, Clone)]
pub struct Client {
    load: Load,
    random: Random,
    places: u64,
    /// Where it begins, if it draws no places.
    first: u64,
    place: u64,
    requests: u64,
    owed: Owed,
}

impl Client {
    /// Whether it may end here: a round of writes and fsync is not left in the middle.
    pub fn may_end(&self) -> bool {
        self.owed == Owed::Nothing
            && self.load.writes_per_fsync.is_none_or(|writes| self.requests % writes == 0)
    }

    /// Whether it has done all that it is to do.
    pub fn is_over(&self) -> bool {
        self.load.requests_max > 0 && self.requests >= self.load.requests_max && self.may_end()
    }

    /// What it does next. It is asked when the step before is complete.
    pub fn step(&mut self) -> Step {
        match std::mem::replace(&mut self.owed, Owed::Nothing) {
            Owed::Nothing => {}
            Owed::Fsync => {
                if self.load.rest_ms > 0 {
                    self.owed = Owed::Rest;
                }
                return Step::Fsync;
            }
            Owed::Rest => return Step::Rest(Duration::from_millis(self.load.rest_ms)),
        }
        let Load { kind, request_bytes, run, .. } = self.load;
        let within = self.requests % run;
        if within == 0 {
            self.place = if self.load.is_random() {
                self.random.below(self.places)
            } else {
                (self.first + self.requests / run) % self.places
            };
        }
        let offset = (self.place * run + within) * request_bytes;
        self.requests += 1;
        if self.load.writes_per_fsync.is_some_and(|writes| self.requests % writes == 0) {
            self.owed = Owed::Fsync;
        }
        match kind {
            LoadKind::RandomRead => Step::Read(offset),
            LoadKind::Mixed if self.random.chance(self.load.reads_percent, 100) => Step::Read(offset),
            LoadKind::LogDsync => Step::WriteThrough(offset),
            _ => Step::Write(offset),
        }
    }
}

/// What is told of a load as it runs: how long each thing took.
pub trait Observer {
    /// A read is complete.
    fn read(&mut self, took: Duration);

    /// A write is complete.
    fn write(&mut self, took: Duration);

    /// A flush is.
    fn fsync(&mut self, took: Duration);
}

/// Counts and sums of what was observed.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Tally {
    /// Reads, and nanoseconds of all of them.
    pub reads: (u64, u64),
    /// Writes.
    pub writes: (u64, u64),
    /// Flushes.
    pub fsyncs: (u64, u64),
}

impl Observer for Tally {
    fn read(&mut self, took: Duration) {
        add(&mut self.reads, took);
    }

    fn write(&mut self, took: Duration) {
        add(&mut self.writes, took);
    }

    fn fsync(&mut self, took: Duration) {
        add(&mut self.fsyncs, took);
    }
}

fn add(sum: &mut (u64, u64), took: Duration) {
    sum.0 += 1;
    sum.1 += took.as_nanos() as u64;
}

/// What came out of a load, as far as a fit asks for it.
#[derive(Debug, Clone, PartialEq, Deserialize, Serialize)]
pub struct Measured {
    /// The load.
    #[serde(flatten)]
    pub load: Load,
    /// Requests completed; fsyncs are none.
    pub requests: u64,
    /// How long it took, fsyncs and rests included.
    pub seconds: f64,
    /// Requests a second.
    pub per_second: f64,
    /// Of a request.
    pub latency_us_mean: f64,
    /// Of a read of a mixed load.
    #[serde(default)]
    pub read_us_mean: Option<f64>,
    /// Null without fsyncs.
    pub fsync_us_mean: Option<f64>,
}

impl Measured {
    /// What was observed of a load in this time.
    pub fn new(load: Load, seen: &Tally, time: Duration) -> Self {
        let us = |(count, ns): (u64, u64)| (count > 0).then(|| ns as f64 / count as f64 / 1e3);
        let requests = (seen.reads.0 + seen.writes.0, seen.reads.1 + seen.writes.1);
        let seconds = time.as_secs_f64().max(1e-9);
        Self {
            load,
            requests: requests.0,
            seconds,
            per_second: requests.0 as f64 / seconds,
            latency_us_mean: us(requests).unwrap_or(0.0),
            read_us_mean: if load.kind == LoadKind::Mixed { us(seen.reads) } else { None },
            fsync_us_mean: us(seen.fsyncs),
        }
    }

    /// Bytes a second in 10^6.
    pub fn mb_per_s(&self) -> f64 {
        self.per_second * self.load.request_bytes as f64 / 1e6
    }
}
