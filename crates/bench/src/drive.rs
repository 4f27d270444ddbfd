//! Modelled drives: operations that a core computes in a second, of a drive from the inside and of one that
//! is known by its times alone.

use std::collections::VecDeque;
use std::time::Instant;

use mezzanine_device::model::{OperationKind, Progress, Ticket, Timing, find};
use mezzanine_ground::random::Random;
use mezzanine_ssd::{Condition, DriveWork, Ssd, SsdConfig};

use crate::report::{Outcome, Row, Scale, median};

/// The drive whose flash is taken, and how much of it is the host's.
const MODEL: &str = "durassd";
const UTILISATION: f64 = 0.80;
/// What the same writes are timed on beside it.
const TIMES_ALONE: &str = "samsung-840-pro";

const UNIT_BYTES: u64 = 4096;
/// Writes under way at a time.
const DEPTH: usize = 32;
const ROUNDS: usize = 3;

pub(crate) fn run(scale: Scale, gigabytes: &[u64]) -> Outcome {
    let writes = scale.pick(10_000_000, 20_000);
    let alone = find(TIMES_ALONE)?.timing()?;
    let mut random = Random::new(1);
    let mut state = alone.idle();
    let units = alone.capacity() / UNIT_BYTES;
    let beside = median(
        (0..ROUNDS).map(|_| writes_a_second(&*alone, &mut state, units, writes, &mut random)).collect(),
    );
    let mut rows = Vec::new();
    for gigabytes in gigabytes {
        let ssd = Ssd::new(of_size(*gigabytes)?)?;
        let config = ssd.config();
        eprintln!("{gigabytes} GB: a state of {} MiB is filled", ssd.state_bytes() >> 20);
        let mut state = ssd.idle();
        ssd.prepare(&mut state, Condition::Steady, 1);
        let units = u64::from(config.logical_units());
        let before = ssd.counters(&state);
        let figures = (0..ROUNDS).map(|_| writes_a_second(&ssd, &mut state, units, writes, &mut random));
        let figure = median(figures.collect());
        let work = DriveWork::between(config, &before, &ssd.counters(&state), &ssd.erases(&state), 1.0);
        let amplification = work.write_amplification.unwrap_or(f64::NAN);
        let name = format!(
            "random 4 KiB writes, {MODEL}'s flash, {gigabytes} GB of {:.3}, written {amplification:.2} times",
            config.effective_utilisation()
        );
        let times_alone = format!("{TIMES_ALONE}, its times alone");
        rows.push(Row::new(name, figure / 1e6, "million/s").beside(times_alone, beside / 1e6));
        let unit = ssd.state_bytes() as f64 / f64::from(config.geometry.units());
        rows.push(Row::new(format!("its state for each unit of flash, {gigabytes} GB"), unit, "bytes"));
    }
    Ok(rows)
}

/// The drive with so much flash that this capacity is the wanted share of what is not held back.
fn of_size(gigabytes: u64) -> Result<SsdConfig, Box<dyn std::error::Error>> {
    let model = find(MODEL)?;
    let ssd = Ssd::of_model(&model)?.ok_or("the model has no inside")?;
    let mut config = ssd.config().clone();
    let units = (gigabytes * 1_000_000_000 / UNIT_BYTES) as f64;
    let per_block = f64::from(config.geometry.planes()) * f64::from(config.geometry.units_per_block());
    let blocks = units / UTILISATION / per_block + f64::from(config.ftl.reserve_blocks_per_plane);
    config.geometry.blocks_per_plane = blocks.ceil() as u32;
    config.ftl.bad_blocks_per_thousand = 0;
    config.capacity_bytes = (units as u64).min(config.capacity_units_max()) * UNIT_BYTES;
    Ok(config)
}

fn writes_a_second(
    timing: &dyn Timing,
    state: &mut [u64],
    units: u64,
    writes: u64,
    random: &mut Random,
) -> f64 {
    let mut queue = VecDeque::with_capacity(DEPTH);
    let mut now = 0;
    let began = Instant::now();
    for _ in 0..writes {
        if queue.len() == DEPTH {
            let first: u64 = queue.pop_front().unwrap_or(now);
            now = first.max(now);
        }
        let write = timing.operation(OperationKind::Write, UNIT_BYTES * random.below(units), UNIT_BYTES);
        if let Ok(submitted) = timing.submit(state, now, write) {
            queue.push_back(completion(timing, state, now, submitted.ticket));
        }
    }
    writes as f64 / began.elapsed().as_secs_f64()
}

fn completion(timing: &dyn Timing, state: &mut [u64], mut now: u64, mut ticket: Ticket) -> u64 {
    loop {
        match timing.progress(state, now, &mut ticket) {
            Progress::At(at) => return at,
            Progress::NotBefore(at) => now = at,
        }
    }
}
