//! Drives: the shipped models, measured in virtual time as fio measured the drives.

use mezzanine_device::model::{self, ClosedLoop, Model, OperationKind, Outcome, closed_loop};
use mezzanine_ground::random::Random;

use super::answers::Answers;
use super::published::Source;
use super::verdict::Ours;

/// Requests that are counted, after a quarter as many that are not.
const REQUESTS: u64 = 20_000;

/// What fio measured: requests per second of random ones, MB/s of sequential ones.
#[derive(Debug, Clone, Copy)]
struct Figures {
    random_reads: f64,
    random_writes: f64,
    sequential_reads: f64,
    sequential_writes: f64,
}

fn random(model: &Model, kind: OperationKind) -> Outcome {
    let bytes = model.figures.random_request_bytes;
    let places = model.capacity_bytes / bytes;
    let mut numbers = Random::new(1);
    requests(model, kind, bytes, |_| numbers.next_u64() % places * bytes)
}

fn sequential(model: &Model, kind: OperationKind) -> Outcome {
    let bytes = model.figures.sequential_request_bytes;
    requests(model, kind, bytes, |number| number * bytes)
}

fn requests(model: &Model, kind: OperationKind, bytes: u64, mut address: impl FnMut(u64) -> u64) -> Outcome {
    let timing = mezzanine_ssd::timing(model).expect("shipped models are valid");
    let clients = model.figures.queue_depth as usize;
    let setup = ClosedLoop { clients, warm_up: REQUESTS / 4, operations: REQUESTS };
    closed_loop(&*timing, setup, |number| timing.operation(kind, address(number), bytes))
}

fn measure(name: &str) -> Figures {
    let model = model::find(name).expect("published drives are shipped models");
    Figures {
        random_reads: random(&model, OperationKind::Read).per_second,
        random_writes: random(&model, OperationKind::Write).per_second,
        sequential_reads: sequential(&model, OperationKind::Read).mb_per_s,
        sequential_writes: sequential(&model, OperationKind::Write).mb_per_s,
    }
}

/// A table whose rows are drives, by the names of their models.
pub(super) fn table(source: &Source, answers: &mut Answers) {
    for statement in &source.statements {
        let measured = measure(&statement.key);
        let row = [
            measured.random_reads,
            measured.random_writes,
            measured.sequential_reads,
            measured.sequential_writes,
        ];
        answers.set(&statement.key, Ours::Row(row.to_vec()));
    }
}

/// Bandwidth in MB/s of so many requests of 4 KiB a second. The papers' ratios come out with 4 KiB in units
/// of 1,024 KiB.
fn megabytes(per_second: f64) -> f64 {
    per_second * 4.0 / 1024.0
}

pub(super) fn claims(_: &Source, answers: &mut Answers) {
    let drives = ["samsung-840-pro", "intel-dc-s3500", "intel-p3700"].map(|name| (name, measure(name)));
    for (name, measured) in &drives {
        let ratio = measured.sequential_writes / megabytes(measured.random_writes);
        answers.set(name, Ours::Value(ratio));
    }
    let of_sata = |share: fn(&Figures) -> f64| Ours::spread(drives[..2].iter().map(|(_, f)| share(f)));
    answers.set(
        "random-writes",
        of_sata(|figures| 100.0 * megabytes(figures.random_writes) / figures.sequential_writes),
    );
    answers.set(
        "random-reads",
        of_sata(|figures| 100.0 * megabytes(figures.random_reads) / figures.sequential_reads),
    );
}

/// Equation (1): the cost of an access is the time between two of them.
pub(super) fn break_even(_: &Source, answers: &mut Answers) {
    let (disk, flash) = (measure("cheetah-15k"), measure("samsung-840-pro"));
    let exponent = |disk: f64, flash: f64| {
        let (disk, flash) = (1.0 / disk, 1.0 / flash);
        disk / (disk - flash)
    };
    answers.set("exponent-read", Ours::Value(exponent(disk.random_reads, flash.random_reads)));
    answers.set("exponent-write", Ours::Value(exponent(disk.random_writes, flash.random_writes)));
}
