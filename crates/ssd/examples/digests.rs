//! What drives of every kind answer, as numbers to compare two builds by: a change that is to make the model
//! faster, and nothing else, prints the same lines as the build before it.
//!
//! `cargo run --release -p mezzanine-ssd --example digests -- 2000 > before`: how many drives are drawn. Each
//! takes operations of every kind, small ones power cuts as well; its line has its seed, and a CRC-32C of all
//! completions, of its counters and of the erases of its blocks, without power cuts and with them. Every
//! invariant is checked on the way.
#![allow(clippy::unwrap_used)]

use mezzanine_device::model::{Operation, OperationKind, Timing};
use mezzanine_ground::random::Random;
use mezzanine_ssd::power::Recorder;
use mezzanine_ssd::{CacheKind, Condition, PowerLossConfig, Ssd, SsdConfig};

#[path = "../tests/drives/mod.rs"]
mod drives;

/// All that a drive has answered so far.
#[derive(Default)]
struct Digest(u32);

impl Digest {
    fn add(&mut self, text: &str) {
        self.0 = crc32c::crc32c_append(self.0, text.as_bytes());
    }

    fn add_number(&mut self, number: u64) {
        self.0 = crc32c::crc32c_append(self.0, &number.to_le_bytes());
    }

    /// What a drive has counted and how worn it is, all of whose invariants hold.
    fn look(&mut self, ssd: &Ssd, state: &mut [u64], seed: u64) {
        ssd.check(state).unwrap_or_else(|broken| panic!("seed {seed}: {broken}"));
        self.add(&format!("{:?}", ssd.counters(state)));
        self.add(&format!("{:?}", ssd.erases(state)));
    }
}

/// A drive of any kind; of every fourth pages share cells.
fn drawn(random: &mut Random) -> SsdConfig {
    let kind = *random.pick(&[CacheKind::None, CacheKind::Volatile, CacheKind::Durable]);
    let ranges = if random.chance(1, 2) { drives::ALL } else { drives::SMALL };
    let paired: &[u32] = if random.chance(1, 4) { &[1, 2] } else { &[0] };
    // Blocks of three pages have no room for pairs two apart.
    let pages: &[u32] = if paired[0] == 0 { ranges.pages_per_block } else { &[4, 8, 16] };
    // Enough blocks that something is left for the host.
    let blocks = (ranges.blocks_per_plane.0.max(30), ranges.blocks_per_plane.1);
    let ranges = drives::Ranges {
        paired_distances: paired,
        pages_per_block: pages,
        blocks_per_plane: blocks,
        ..ranges
    };
    let mut config = drives::drawn(random, &ranges, kind);
    config.ftl.backs_up_paired_pages = random.chance(1, 2);
    if kind != CacheKind::Durable && random.chance(1, 3) {
        config.power_loss = Some(PowerLossConfig { anomalies: Vec::new() });
    }
    config
}

fn operation(ssd: &Ssd, random: &mut Random) -> Operation {
    let unit_bytes = u64::from(ssd.config().geometry.unit_bytes);
    let units = random.magnitude(9);
    let address = unit_bytes * random.below(ssd.capacity() / unit_bytes) + *random.pick(&[0, 0, 512]);
    let kind = match random.below(24) {
        0 => OperationKind::Flush,
        1 | 2 => OperationKind::Discard,
        3..=7 => OperationKind::Read,
        _ => OperationKind::Write,
    };
    Operation {
        through: random.chance(1, 20),
        stream: random.below(4) as u8,
        ..ssd.operation(kind, address, unit_bytes * units)
    }
}

/// What a drive answers in a life without power cuts.
fn life(ssd: &Ssd, random: &mut Random, seed: u64) -> u32 {
    let (mut digest, mut state, mut now) = (Digest::default(), ssd.idle(), 0);
    let condition = *random.pick(&[Condition::Fresh, Condition::Filled, Condition::Steady]);
    ssd.prepare(&mut state, condition, seed);
    // As fast as the drive takes them, or with time in between.
    let pause = *random.pick(&[0, 10_000, 1_000_000]);
    let mut under_way = std::collections::VecDeque::new();
    for number in 0..3000 {
        if under_way.len() == 16 {
            now = under_way.pop_front().unwrap_or(now).max(now);
        }
        now += random.below(pause + 1);
        let submitted = ssd.submit(&mut state, now, operation(ssd, random)).unwrap();
        let done = submitted.ticket.completion().unwrap();
        under_way.push_back(done);
        digest.add_number(done);
        digest.add_number(submitted.sequential.into());
        if number % 700 == 0 {
            digest.look(ssd, &mut state, seed);
        }
    }
    ssd.rest(&mut state);
    digest.look(ssd, &mut state, seed);
    digest.0
}

/// What a drive answers that is stopped several times, and what is there after each start.
fn life_with_cuts(ssd: &Ssd, random: &mut Random, seed: u64) -> u32 {
    let (mut digest, mut state, mut now) = (Digest::default(), ssd.idle(), 0);
    let mut recorder = Recorder::new(ssd.config());
    let charge = (ssd.config().cache.kind == CacheKind::Durable).then_some(1.0);
    for cut in 0..4 {
        for version in 0..200 {
            now += random.magnitude(2_000_000);
            recorder.writes(1000 * cut + version + 1);
            let operation = operation(ssd, random);
            digest.add_number(ssd.submit_recorded(&mut state, &mut recorder, now, operation));
        }
        digest.look(ssd, &mut state, seed);
        let at = now + random.magnitude(8_000_000);
        let mut remains = recorder.cut(ssd.config(), ssd.erases(&state), at, charge);
        let restarted = ssd.restart(&mut state, &mut recorder, &mut remains).unwrap();
        digest.add(&format!("{restarted:?}"));
        digest.look(ssd, &mut state, seed);
        for unit in 0..ssd.config().logical_units() {
            let contents = recorder.read(ssd, &mut state, unit).unwrap();
            digest.add(&format!("{contents:?}"));
        }
        now = 0;
    }
    digest.0
}

fn main() {
    let drives: u64 = std::env::args().nth(1).map_or(200, |text| text.parse().unwrap());
    for seed in 0..drives {
        let mut random = Random::new(seed);
        let config = drawn(&mut random);
        let ssd = Ssd::new(config).unwrap_or_else(|error| panic!("seed {seed}: {error}"));
        let answers = life(&ssd, &mut random, seed);
        // What recorders keep of large drives takes long to look at.
        let small = ssd.config().logical_units() < 4000;
        let after_cuts = small.then(|| life_with_cuts(&ssd, &mut random, seed));
        println!("{seed} {answers:08x} {}", after_cuts.map_or("-".to_owned(), |crc| format!("{crc:08x}")));
    }
}
