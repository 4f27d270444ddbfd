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

fn model(name: &str) -> Model {
    model::find(name).expect("published drives are shipped models")
}

fn ssd(name: &str) -> Ssd {
    Ssd::of_model(&model(name)).expect("shipped models are valid").expect("a drive from the inside")
}

/// Writes a second of one client at places drawn evenly, with a flush after so many of them.
fn writes(timing: &dyn Timing, bytes: u64, per_flush: Option<u64>) -> f64 {
    let mut state = timing.idle();
    let (mut random, mut now) = (Random::new(1), 0);
    let mut complete = |state: &mut [u64], operation: Operation| {
        let submitted = timing.submit(state, now, operation);
        let mut ticket = submitted.expect("room for one operation").ticket;
        loop {
            match timing.progress(state, now, &mut ticket) {
                model::Progress::At(at) => break now = now.max(at),
                model::Progress::NotBefore(later) => now = now.max(later),
            }
        }
        now
    };
    let mut end = 0;
    for number in 1..=WRITES {
        let place = random.below(timing.capacity() / bytes) * bytes;
        end = complete(&mut state, timing.operation(OperationKind::Write, place, bytes));
        if per_flush.is_some_and(|per_flush| number % per_flush == 0) {
            end = complete(&mut state, Operation::FLUSH);
        }
    }
    WRITES as f64 / (end as f64 / 1e9)
}

/// Table 1: a row for each drive and setting of its cache, along writes per flush.
pub(super) fn flushes(source: &Source, answers: &mut Answers) {
    for statement in &source.statements {
        let row = [1, 4, 8, 16, 32, 64, 128, 256].map(Some).into_iter().chain([None]);
        let row = |timing: &dyn Timing, flushed: bool| -> Vec<f64> {
            row.map(|per_flush| writes(timing, PAGE_BYTES, per_flush.filter(|_| flushed))).collect()
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
                let name = key.strip_suffix("-on").unwrap_or(key);
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
    for statement in &source.statements {
        let rate = |bytes: u64| match statement.key.as_str() {
            "read" => clients(&full, OperationKind::Read, bytes),
            "write-no-barrier" => clients(&drive, OperationKind::Write, bytes),
            "write-1" => writes(&drive, bytes, Some(1)),
            _ => writes(&drive, bytes, Some(256)),
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
