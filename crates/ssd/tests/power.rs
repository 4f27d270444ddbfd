//! Power cuts of a drive whose write cache capacitors carry, at any instant, also while it starts.
//!
//! Invariants checked: a unit reads as the last write or discard that was acknowledged, or as one that was
//! under way (whole); every invariant of the drive holds after each start (`Ssd::check`); a dump always fits
//! what the capacitors carry, and one that does not, since they are weak, is reported. Planted faults of dump
//! and recovery are noticed.
#![allow(clippy::unwrap_used)]

use mezzanine_device::model::{Operation, OperationKind, Timing};
use mezzanine_ground::random::Random;
use mezzanine_ssd::power::{PlantedFault, Recorder, RestartError, Version};
use mezzanine_ssd::{
    CacheConfig, CacheKind, Collection, DumpConfig, FlushRule, FlushTime, FtlConfig, Geometry, HostConfig,
    NandTimings, Ssd, SsdConfig,
};

const UNIT: u32 = 512;

fn drawn(random: &mut Random, kind: CacheKind) -> Ssd {
    let units_per_page = *random.pick(&[1, 2, 4]);
    let page_bytes = UNIT * units_per_page;
    let geometry = Geometry {
        channels: random.between(1, 2) as u32,
        packages_per_channel: 1,
        chips_per_package: random.between(1, 2) as u32,
        planes_per_chip: 1,
        blocks_per_plane: random.between(20, 40) as u32,
        pages_per_block: *random.pick(&[4, 8, 16]),
        page_bytes,
        unit_bytes: UNIT,
    };
    let streams = random.between(1, 2) as u32;
    let durable = kind == CacheKind::Durable;
    let mut config = SsdConfig {
        capacity_bytes: 0,
        geometry,
        timings: NandTimings { read_us: 50.0, program_us: 900.0, erase_us: 3500.0, channel_mb_per_s: 200.0 },
        ftl: FtlConfig {
            collection: *random.pick(&[Collection::Greedy, Collection::CostBenefit]),
            reserve_blocks_per_plane: streams + 2,
            streams,
            dirty_entries_max: 1024,
            journal: true,
            wear_gap_max: *random.pick(&[0, 5]),
            endurance_erases: u32::MAX,
            bad_blocks_per_thousand: 0,
        },
        cache: CacheConfig {
            kind,
            buffer_bytes: u64::from(page_bytes) * random.between(2, 12),
            flush: if durable && random.chance(1, 2) { FlushRule::OrderingPoint } else { FlushRule::Drain },
            flush_us: FlushTime::Same(100.0),
            dump: durable.then_some(DumpConfig { hold_up_ms: 10.0, mb_per_s: 100.0 }),
            reads_take_frames: random.chance(1, 2),
        },
        host: HostConfig {
            queue_depth: random.between(1, 32) as u32,
            ordered: random.chance(1, 2),
            link_mb_per_s: 550.0,
            command_us: 3.0,
            write_unit_us: 1.0,
            latency_us: 20.0,
        },
    };
    let most = config.capacity_units_max();
    config.capacity_bytes = u64::from(UNIT) * (most - random.below(most.div_ceil(3))).max(1);
    Ssd::new(config).unwrap()
}

/// What a unit may hold: what was acknowledged last, and what came since with the time of its
/// acknowledgement.
#[derive(Clone)]
struct Unit {
    acknowledged: Version,
    since: Vec<(u64, Version)>,
}

impl Unit {
    fn settle(&mut self, now: u64) {
        while let Some(at) = self.since.iter().rposition(|(done, _)| *done <= now) {
            self.acknowledged = self.since[at].1;
            self.since.drain(..=at);
        }
    }

    fn may_be(&self, version: Version) -> bool {
        self.acknowledged == version || self.since.iter().any(|(_, since)| *since == version)
    }
}

/// A life of a drive with many cuts. What was wrong, if anything was.
struct Life {
    random: Random,
    ssd: Ssd,
    state: Box<[u64]>,
    recorder: Recorder,
    units: Vec<Unit>,
    version: Version,
    now: u64,
}

impl Life {
    fn new(seed: u64, kind: CacheKind, fault: Option<PlantedFault>) -> Self {
        let mut random = Random::new(seed);
        let ssd = drawn(&mut random, kind);
        let mut recorder = Recorder::new(ssd.config());
        recorder.plant(fault);
        let units =
            vec![Unit { acknowledged: 0, since: Vec::new() }; (ssd.capacity() / u64::from(UNIT)) as usize];
        Self { state: ssd.idle(), random, ssd, recorder, units, version: 0, now: 0 }
    }

    fn operate(&mut self) {
        self.now += self.random.magnitude(3_000_000);
        let units = self.random.magnitude(6).min(self.units.len() as u64);
        // Some places are hot, so that versions meet in the buffer.
        let hot = self.random.chance(1, 2);
        let range = if hot { (self.units.len() as u64 / 8).max(1) } else { self.units.len() as u64 };
        let first = self.random.below(range).min(self.units.len() as u64 - units);
        let kind = match self.random.below(24) {
            0 => OperationKind::Flush,
            1 | 2 => OperationKind::Discard,
            3 => OperationKind::Read,
            _ => OperationKind::Write,
        };
        self.version += 1;
        self.recorder.writes(self.version);
        let operation = Operation {
            through: self.random.chance(1, 20),
            stream: self.random.below(2) as u8,
            ..self.ssd.operation(kind, first * u64::from(UNIT), units * u64::from(UNIT))
        };
        let done = self.ssd.submit_recorded(&mut self.state, &mut self.recorder, self.now, operation);
        let version = match kind {
            OperationKind::Write => self.version,
            OperationKind::Discard => 0,
            _ => return,
        };
        for unit in &mut self.units[first as usize..(first + units) as usize] {
            unit.settle(self.now);
            unit.since.push((done, version));
        }
    }

    /// Has the power fail, and the drive start again. `Err` says what is lost.
    fn cut(&mut self, charge: Option<f64>) -> Result<u64, String> {
        let at = self.now + self.random.magnitude(8_000_000);
        let erases = self.ssd.erases(&self.state);
        let mut remains = self.recorder.cut(self.ssd.config(), erases, at, charge);
        while self.random.chance(1, 4) {
            self.started(|ssd, state, recorder| ssd.restart_cut_off(state, recorder, &mut remains))?;
        }
        let missing = self.started(|ssd, state, recorder| ssd.restart(state, recorder, &mut remains))?;
        self.ssd.check(&mut self.state)?;
        for (number, unit) in self.units.iter_mut().enumerate() {
            unit.settle(at);
            let found = self.recorder.read(&self.ssd, &mut self.state, number as u32)?;
            if !unit.may_be(found) && missing == 0 {
                return Err(format!(
                    "unit {number} has version {found} and not {}, or {:?}",
                    unit.acknowledged, unit.since
                ));
            }
            (unit.acknowledged, unit.since) = (found, Vec::new());
        }
        self.now = 0;
        Ok(missing)
    }

    fn started<T>(&mut self, start: T) -> Result<u64, String>
    where
        T: FnOnce(&Ssd, &mut [u64], &mut Recorder) -> Result<mezzanine_ssd::power::Restarted, RestartError>,
    {
        let started = start(&self.ssd, &mut self.state, &mut self.recorder);
        started.map(|started| started.bytes_missing).map_err(|error| error.to_string())
    }
}

/// Lives with this many cuts in all. Returns the first thing that was wrong, and after how many cuts.
fn lives(kind: CacheKind, fault: Option<PlantedFault>, cuts_max: u64) -> Option<(u64, String)> {
    let mut cuts = 0;
    for seed in 0.. {
        let mut life = Life::new(seed, kind, fault);
        for _ in 0..50 {
            for _ in 0..life.random.magnitude(120) {
                life.operate();
            }
            cuts += 1;
            let charge = (kind == CacheKind::Durable).then_some(1.0);
            match life.cut(charge) {
                Ok(0) => {}
                Ok(missing) => {
                    return Some((cuts, format!("seed {seed}: {missing} bytes of the dump are missing")));
                }
                Err(what) => return Some((cuts, format!("seed {seed}: {what}"))),
            }
            if cuts == cuts_max {
                return None;
            }
        }
    }
    None
}

#[test]
fn nothing_acknowledged_is_lost_or_torn_by_a_durable_cache() {
    let cuts = std::env::var("MEZZANINE_CUTS").map_or(20_000, |text| text.parse().expect("a number"));
    let wrong = lives(CacheKind::Durable, None, cuts);
    assert!(wrong.is_none(), "after {} cuts: {}", wrong.as_ref().unwrap().0, wrong.as_ref().unwrap().1);
}

#[test]
fn planted_faults_of_dump_and_recovery_are_noticed() {
    use PlantedFault as Fault;
    for fault in [
        Fault::DumpWithoutEntries,
        Fault::DumpWithoutFramesUnderWay,
        Fault::DumpOfOlderVersion,
        Fault::RestoredInReverse,
        Fault::ClearedTooEarly,
        Fault::JournalUnread,
        Fault::JournalAhead,
    ] {
        match lives(CacheKind::Durable, Some(fault), 200_000) {
            Some((cuts, what)) => println!("{fault:?}: {cuts} cuts, {what}"),
            None => panic!("{fault:?} went unnoticed in 200,000 cuts"),
        }
    }
}

#[test]
fn weak_capacitors_are_reported() {
    let mut reported = 0;
    for seed in 0..200 {
        let mut life = Life::new(seed, CacheKind::Durable, None);
        for _ in 0..60 {
            life.operate();
        }
        match life.cut(Some(0.002)) {
            Ok(missing) => reported += u64::from(missing > 0),
            // Without its entries the map may be of no use, and is not used.
            Err(what) => assert!(what.contains("the drive is dead"), "seed {seed}: {what}"),
        }
    }
    assert!(reported > 20, "only {reported} of 200 starts say that the dump was cut short");
}

#[test]
fn a_volatile_cache_loses_what_a_client_trusted_it_with() {
    let (mut lost, mut dead) = (0, 0);
    for seed in 0..300 {
        let mut life = Life::new(seed, CacheKind::Volatile, None);
        for _ in 0..life.random.magnitude(3000) {
            life.operate();
        }
        match life.cut(None) {
            Ok(_) => {}
            Err(what) if what.contains("the drive is dead") => dead += 1,
            Err(_) => lost += 1,
        }
    }
    println!("{lost} lost acknowledged writes, {dead} did not start");
    assert!(lost > 50 && dead > 0, "{lost} lost, {dead} dead");
}
