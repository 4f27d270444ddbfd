//! Modelled drives: operations that a core computes in a second of its own time, of a drive from the inside
//! and of one that is known by its times alone.

use std::collections::VecDeque;
use std::hint::black_box;
use std::ptr::NonNull;

use mezzanine_device::model::{Operation, OperationKind, Progress, Ticket, Timing, find};
use mezzanine_device::prefer_huge_pages;
use mezzanine_ground::random::Random;
use mezzanine_ssd::{Condition, DriveWork, InHand, Ssd, SsdConfig};
use rustix::time::{ClockId, clock_gettime};

use crate::report::{Outcome, Row, Scale, median};

/// The drive whose flash is taken, and how much of it is the host's.
const MODEL: &str = "durassd";
const UTILISATION: f64 = 0.80;
/// What the same writes are timed on beside it.
const TIMES_ALONE: &str = "samsung-840-pro";

const UNIT_BYTES: u64 = 4096;
/// Operations under way at a time.
const DEPTH: usize = 32;
/// Operations that are drawn before they are submitted, and of which the drive is told.
const AHEAD: usize = 4;
const ROUNDS: usize = 5;

/// Percent of operations that are reads.
const READS: [(u64, &str); 3] = [(0, "writes"), (50, "reads and writes"), (100, "reads")];

pub(crate) fn run(scale: Scale, gigabytes: &[u64]) -> Outcome {
    let count = scale.pick(1_000_000, 20_000);
    let alone = find(TIMES_ALONE)?.timing()?;
    let mut random = Random::new(1);
    let mut state = alone.idle();
    let units = alone.capacity() / UNIT_BYTES;
    let rounds = |round: &mut dyn FnMut() -> f64| median((0..ROUNDS).map(|_| round()).collect());
    let beside = rounds(&mut || submitted(&*alone, &mut state, units, count, &mut random));
    let mut rows = Vec::new();
    for gigabytes in gigabytes {
        let ssd = Ssd::new(of_size(*gigabytes)?)?;
        let config = ssd.config();
        eprintln!("{gigabytes} GB: a state of {} MiB is filled", ssd.state_bytes() >> 20);
        let mut state = ssd.idle();
        let began = processor_seconds();
        ssd.prepare(&mut state, Condition::Steady, 1);
        eprintln!("filled in {:.0} s of the processor", processor_seconds() - began);
        let units = u64::from(config.logical_units());
        // The buffer fills, and planes fall into step.
        in_hand(&ssd, &mut state, 0, count, &mut random);
        let before = ssd.counters(&state);
        let one_by_one = rounds(&mut || submitted(&ssd, &mut state, units, count, &mut random));
        let work = DriveWork::between(config, &before, &ssd.counters(&state), &ssd.erases(&state), 1.0);
        let amplification = work.write_amplification.unwrap_or(f64::NAN);
        let drive = format!("{MODEL}'s flash, {gigabytes} GB of {:.3}", config.effective_utilisation());
        let limit = rounds(&mut || bare_loop(config, amplification, count, &mut random));
        for (reads, name) in READS {
            let figure = rounds(&mut || in_hand(&ssd, &mut state, reads, count, &mut random));
            let row = Row::new(format!("random 4 KiB {name}, {drive}"), figure / 1e6, "million/s");
            rows.push(if reads == 0 {
                row.beside(format!("its {amplification:.2} changes of a map and counters alone"), limit / 1e6)
            } else {
                row
            });
        }
        let name = format!("random 4 KiB writes by `Timing::submit`, {drive}");
        let times_alone = format!("{TIMES_ALONE}, its times alone");
        rows.push(Row::new(name, one_by_one / 1e6, "million/s").beside(times_alone, beside / 1e6));
        let unit = ssd.state_bytes() as f64 / f64::from(config.geometry.units());
        rows.push(Row::new(format!("its state for each unit of flash, {gigabytes} GB"), unit, "bytes"));
        let page = unit * f64::from(config.geometry.units_per_page());
        rows.push(Row::new(format!("its state for each page of flash, {gigabytes} GB"), page, "bytes"));
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

/// What this thread has had of a processor, in seconds: neighbours take none of it, but of the caches.
fn processor_seconds() -> f64 {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    time.tv_sec as f64 + time.tv_nsec as f64 / 1e9
}

/// Operations that are under way at a time: when the next one comes.
struct Clients {
    under_way: VecDeque<u64>,
    now: u64,
}

impl Clients {
    fn new() -> Self {
        Self { under_way: VecDeque::with_capacity(DEPTH), now: 0 }
    }

    fn next(&mut self) -> u64 {
        if self.under_way.len() == DEPTH {
            let first = self.under_way.pop_front().unwrap_or(self.now);
            self.now = first.max(self.now);
        }
        self.now
    }
}

/// Operations a second, of which so many percent are reads, on a drive whose state is in hand and that is
/// told what comes.
fn in_hand(ssd: &Ssd, state: &mut [u64], reads: u64, count: u64, random: &mut Random) -> f64 {
    let units = u64::from(ssd.config().logical_units());
    let mut draw = || {
        let kind = if random.below(100) < reads { OperationKind::Read } else { OperationKind::Write };
        ssd.operation(kind, UNIT_BYTES * random.below(units), UNIT_BYTES)
    };
    let mut drawn: [Operation; AHEAD] = std::array::from_fn(|_| draw());
    let (mut clients, mut drive): (_, InHand<'_>) = (Clients::new(), ssd.in_hand(state));
    let began = processor_seconds();
    for number in 0..count {
        let place = &mut drawn[number as usize % AHEAD];
        let operation = std::mem::replace(place, draw());
        drive.expect(*place);
        let now = clients.next();
        clients.under_way.push_back(drive.submit(now, operation));
    }
    count as f64 / (processor_seconds() - began)
}

/// Writes a second, each with a call of [`Timing::submit`] and its completion asked for.
fn submitted(timing: &dyn Timing, state: &mut [u64], units: u64, count: u64, random: &mut Random) -> f64 {
    let mut clients = Clients::new();
    let began = processor_seconds();
    for _ in 0..count {
        let now = clients.next();
        let write = timing.operation(OperationKind::Write, UNIT_BYTES * random.below(units), UNIT_BYTES);
        if let Ok(submitted) = timing.submit(state, now, write) {
            clients.under_way.push_back(completion(timing, state, now, submitted.ticket));
        }
    }
    count as f64 / (processor_seconds() - began)
}

fn completion(timing: &dyn Timing, state: &mut [u64], mut now: u64, mut ticket: Ticket) -> u64 {
    loop {
        match timing.progress(state, now, &mut ticket) {
            Progress::At(at) => return at,
            Progress::NotBefore(at) => now = at,
        }
    }
}

/// Writes a second of which nothing is done but what any page mapping has to: for each unit that is
/// programmed for one, a random word of a map of the drive's size is changed, and the counters of two blocks.
fn bare_loop(config: &SsdConfig, amplification: f64, count: u64, random: &mut Random) -> f64 {
    let (units, places) = (config.logical_units(), config.geometry.units());
    let per_block = config.geometry.units_per_block();
    let mut map: Vec<u32> = vec![0; units as usize];
    let memory = NonNull::from(&mut map[..]);
    prefer_huge_pages(NonNull::slice_from_raw_parts(memory.cast(), size_of_val(&map[..])));
    map.iter_mut().zip(0..units).for_each(|(word, unit)| *word = unit);
    let mut valid = vec![per_block; config.geometry.blocks() as usize];
    let changes = (count as f64 * amplification) as u64;
    let mut next = units;
    let began = processor_seconds();
    for _ in 0..changes {
        next = if next + 1 == places { 0 } else { next + 1 };
        let before = std::mem::replace(&mut map[random.below(units.into()) as usize], next);
        let block = &mut valid[(before / per_block) as usize];
        *block = block.wrapping_sub(1);
        let block = &mut valid[(next / per_block) as usize];
        *block = block.wrapping_add(1);
    }
    black_box((&map, &valid));
    count as f64 / (processor_seconds() - began)
}
