//! Drives from the inside: what a flush, a cache and the size of a page cost them.

use mezzanine_device::model::{self, ClosedLoop, Model, Operation, OperationKind, Timing, closed_loop};
use mezzanine_ground::random::Random;
use mezzanine_ssd::{CacheKind, Condition, FlushRule, Ssd};

use super::answers::Answers;
use super::published::Source;
use super::verdict::Ours;

/// Bytes of the writes of Table 1.
const PAGE_BYTES: u64 = 4096;
/// Writes that are counted.
const WRITES: u64 = 8192;
/// Blocks of a plane of the drive that is read.
const BLOCKS_PER_PLANE: u32 = 32;
/// Clients of Table 2 where it says how many.
const CLIENTS: usize = 128;
/// The part of a command's latency that each of its units takes, fitted to pages of 16 KB.
const LATENCY_OF_UNITS: f64 = 0.67;
/// Time in ns from a command until the kernel's thread that writes a journal has sent the next. Ours.
const JOURNAL_WAKES: u64 = 50_000;
/// What an fsync writes to the journal of the file system: the block that describes it with that of the
/// inode, and behind them the block that commits it, once they are there.
const JOURNAL: [u64; 2] = [2 * PAGE_BYTES, PAGE_BYTES];

fn model(name: &str) -> Model {
    model::find(name).expect("published drives are shipped models")
}

fn ssd(name: &str) -> Ssd {
    Ssd::of_model(&model(name)).expect("shipped models are valid").expect("a drive from the inside")
}

/// What an fsync is to a drive.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Fsync {
    /// A flush.
    Flush,
    /// A flush, and one behind each write to the journal of a file system, in the middle of the drive.
    Journal,
}

/// Writes a second of one client at places drawn evenly, with an fsync after so many of them.
fn writes(timing: &dyn Timing, bytes: u64, per_fsync: Option<u64>, fsync: Fsync) -> f64 {
    let mut state = timing.idle();
    let mut journal = timing.capacity() / 2 / PAGE_BYTES * PAGE_BYTES;
    let (mut random, mut now) = (Random::new(1), 0);
    for number in 1..=WRITES {
        let place = random.below(timing.capacity() / bytes) * bytes;
        now = completion(timing, &mut state, now, timing.operation(OperationKind::Write, place, bytes));
        if per_fsync.is_none_or(|per_fsync| number % per_fsync != 0) {
            continue;
        }
        now = completion(timing, &mut state, now, Operation::FLUSH);
        for bytes in JOURNAL.into_iter().filter(|_| fsync == Fsync::Journal) {
            let write = timing.operation(OperationKind::Write, journal, bytes);
            now = completion(timing, &mut state, now + JOURNAL_WAKES, write);
            now = completion(timing, &mut state, now, Operation::FLUSH);
            journal += bytes;
        }
    }
    WRITES as f64 / (now as f64 / 1e9)
}

/// When an operation is complete that is submitted at `now`.
fn completion(timing: &dyn Timing, state: &mut [u64], mut now: u64, operation: Operation) -> u64 {
    let mut ticket = timing.submit(state, now, operation).expect("room for one operation").ticket;
    loop {
        match timing.progress(state, now, &mut ticket) {
            model::Progress::At(at) => return now.max(at),
            model::Progress::NotBefore(later) => now = now.max(later),
        }
    }
}

/// How the keys of rows end whose fsyncs write a journal.
const WITH_JOURNAL: &str = "-journal";

/// Table 1: a row for each drive and setting of its cache, along writes per fsync.
pub(super) fn flushes(source: &Source, answers: &mut Answers) {
    for statement in &source.statements {
        let row = [1, 4, 8, 16, 32, 64, 128, 256].map(Some).into_iter().chain([None]);
        let fsync = if statement.key.ends_with(WITH_JOURNAL) { Fsync::Journal } else { Fsync::Flush };
        let row = |timing: &dyn Timing, flushed: bool| -> Vec<f64> {
            row.map(|per_fsync| writes(timing, PAGE_BYTES, per_fsync.filter(|_| flushed), fsync)).collect()
        };
        let with_cache_off = |name| {
            let mut config = ssd(name).config().clone();
            config.cache.kind = CacheKind::None;
            (config.cache.flush, config.cache.dump) = (FlushRule::Drain, None);
            Ssd::new(config).expect("a drive with its cache off is one")
        };
        let ours = match statement.key.as_str() {
            "durassd-off" => row(&with_cache_off("durassd"), true),
            // What the host does not send costs nothing.
            "durassd-no-barrier" => row(&ssd("durassd"), false),
            key => {
                let name = key.strip_suffix("-on").or(key.strip_suffix(WITH_JOURNAL)).unwrap_or(key);
                let timing = mezzanine_ssd::timing(&model(name)).expect("shipped models are valid");
                row(&*timing, true)
            }
        };
        answers.set(&statement.key, Ours::Row(ours));
    }
}

/// Table 2: a row for each load, along pages of 16, 8 and 4 KB. Writes are to a drive that nothing was
/// written to, as in Table 1. Reads are of one that is full, since a read of what was never written asks no
/// flash; it has fewer blocks, so that it is soon full.
pub(super) fn page_sizes(source: &Source, answers: &mut Answers) {
    let drive = ssd("durassd");
    let fewer = drive.config().with_blocks_per_plane(BLOCKS_PER_PLANE);
    let full = fewer.and_then(Ssd::new).expect("fewer blocks do as well").beginning(Condition::Filled);
    let with_latency_of_units = |bytes: u64| {
        let mut config = drive.config().clone();
        let units = bytes as f64 / f64::from(config.geometry.unit_bytes);
        config.host.latency_us *= 1.0 + LATENCY_OF_UNITS * (units - 1.0);
        Ssd::new(config).expect("a slower drive is one")
    };
    for statement in &source.statements {
        let rate = |bytes: u64| match statement.key.as_str() {
            "read" => clients(&full, OperationKind::Read, bytes),
            "write-no-barrier" => clients(&drive, OperationKind::Write, bytes),
            "write-1" => writes(&drive, bytes, Some(1), Fsync::Flush),
            "write-256-units" => writes(&with_latency_of_units(bytes), bytes, Some(256), Fsync::Flush),
            _ => writes(&drive, bytes, Some(256), Fsync::Flush),
        };
        let row = [16, 8, 4].map(|kib| rate(kib * 1024));
        answers.set(&statement.key, Ours::Row(row.to_vec()));
    }
}

fn clients(drive: &Ssd, kind: OperationKind, bytes: u64) -> f64 {
    let mut random = Random::new(1);
    let setup = ClosedLoop { clients: CLIENTS, warm_up: WRITES, operations: 4 * WRITES };
    let place = move |_| drive.operation(kind, random.below(drive.capacity() / bytes) * bytes, bytes);
    closed_loop(drive, setup, place).per_second
}
