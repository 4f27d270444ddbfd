//! Lives of drives whose power is cut, and what their units may hold afterwards.
#![allow(dead_code, clippy::unwrap_used)] // Each test uses a part.

use mezzanine_device::model::{Operation, OperationKind, Timing};
use mezzanine_ground::random::Random;
use mezzanine_ssd::power::{Contents, Recorder, Remains, RestartError, Restarted, Version};
use mezzanine_ssd::{CacheKind, Ssd, SsdConfig};

/// From when on a host relies on a write.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Trust {
    /// When it is acknowledged.
    InAcknowledgements,
    /// When a flush is acknowledged that came after its acknowledgement; or at once if it was a write that
    /// has to be in flash, of which there are no others without a cache.
    InFlushes,
}

/// A write or a discard of a unit.
#[derive(Debug, Clone, Copy)]
struct Write {
    /// What it left; 0 = nothing.
    left: Version,
    came: u64,
    acknowledged: u64,
    /// When the host began to rely on it.
    relied: u64,
}

/// What was written to a unit since what it must have at least, which is the first.
#[derive(Debug, Clone)]
struct Unit {
    writes: Vec<Write>,
}

impl Trust {
    /// What a drive with a cache of this kind promises.
    pub(crate) fn of(kind: CacheKind) -> Self {
        if kind == CacheKind::Durable { Self::InAcknowledgements } else { Self::InFlushes }
    }
}

impl Unit {
    fn with(version: Version) -> Self {
        Self { writes: vec![Write { left: version, came: 0, acknowledged: 0, relied: 0 }] }
    }

    fn settle(&mut self, now: u64) {
        if let Some(last) = self.writes.iter().rposition(|write| write.relied <= now) {
            self.writes.drain(..last);
        }
    }
}

/// What a cut did to what a host relied on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Harm {
    /// An older version, or nothing, passes for it.
    Lost,
    /// Parts of two versions.
    Shorn,
    /// Wrong bits.
    Corrupt,
    /// What was written to another unit.
    OfAnother,
    /// The drive says that it cannot be read.
    Unreadable,
}

/// What a start has found.
#[derive(Debug, Default)]
pub(crate) struct Found {
    /// Units that came to harm.
    pub(crate) harm: Vec<(u32, Harm)>,
    /// Whether a write is there that came after the acknowledgement of one that is not.
    pub(crate) reordered: bool,
    /// Bytes of the dump that are missing.
    pub(crate) bytes_missing: u64,
}

/// Why a drive cannot be used after a cut.
#[derive(Debug)]
pub(crate) enum Broken {
    /// It does not start.
    Dead(RestartError),
    /// Its books are wrong, whatever it promises.
    Books(String),
}

/// How a life goes on.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Course {
    /// Operations before the first cut can come.
    pub(crate) before: u64,
    /// Operations between cuts at most.
    pub(crate) operations_max: u64,
    /// One operation in so many is a flush.
    pub(crate) flush_one_in: u64,
    pub(crate) cuts: u64,
}

/// As many operations between cuts as wear a small drive.
const LONG: Course = Course { before: 0, operations_max: 120, flush_one_in: 24, cuts: 50 };

/// Cuts of a drive that has hardly started.
pub(crate) const SHORT: Course = Course { before: 300, operations_max: 20, flush_one_in: 6, cuts: 60 };

impl Course {
    /// The first thing that is wrong in a life, and after how many cuts.
    pub(crate) fn first_wrong(&self, life: &mut Life, cuts_max: u64) -> (u64, Option<String>) {
        for _ in 0..self.before {
            life.operate(24);
        }
        for cuts in 1..=self.cuts.min(cuts_max) {
            for _ in 0..life.random.magnitude(self.operations_max) {
                life.operate(self.flush_one_in);
            }
            match life.cut(8_000_000, 1.0) {
                Ok(found) if found.harm.is_empty() && found.bytes_missing == 0 => {}
                Ok(found) => return (cuts, Some(format!("{found:?}"))),
                Err(broken) => return (cuts, Some(format!("{broken:?}"))),
            }
        }
        (self.cuts.min(cuts_max), None)
    }
}

/// Lives with so many cuts in all, begun as `new` says for a seed. Returns the first thing that was wrong,
/// and after how many cuts. `MEZZANINE_SEED` says which seed comes first.
pub(crate) fn first_wrong(cuts_max: u64, new: impl Fn(u64) -> Life) -> Option<(u64, String)> {
    let first = std::env::var("MEZZANINE_SEED").map_or(0, |text| text.parse().expect("a number"));
    first_wrong_of(&LONG, first, cuts_max, new)
}

/// As that, of lives of this course from this seed on.
pub(crate) fn first_wrong_of(
    course: &Course,
    first: u64,
    cuts_max: u64,
    new: impl Fn(u64) -> Life,
) -> Option<(u64, String)> {
    let mut cuts = 0;
    for seed in first.. {
        let (more, wrong) = course.first_wrong(&mut new(seed), cuts_max - cuts);
        cuts += more;
        match wrong {
            Some(what) => return Some((cuts, format!("seed {seed}: {what}"))),
            None if cuts == cuts_max => return None,
            None => {}
        }
    }
    None
}

/// A drive and its host.
pub(crate) struct Life {
    pub(crate) random: Random,
    pub(crate) ssd: Ssd,
    pub(crate) state: Box<[u64]>,
    pub(crate) recorder: Recorder,
    pub(crate) now: u64,
    trust: Trust,
    units: Vec<Unit>,
    version: Version,
}

impl Life {
    pub(crate) fn new(seed: u64, trust: Trust, config: impl FnOnce(&mut Random) -> SsdConfig) -> Self {
        let mut random = Random::new(seed);
        let ssd = Ssd::new(config(&mut random)).unwrap().named("the drive under test");
        let units = vec![Unit::with(0); ssd.config().logical_units() as usize];
        let (state, recorder) = (ssd.idle(), Recorder::new(ssd.config()));
        Self { random, ssd, state, recorder, now: 0, trust, units, version: 0 }
    }

    /// The operation of a host that is drawn at random: one in so many is a flush.
    pub(crate) fn operate(&mut self, flush_one_in: u64) {
        self.now += self.random.magnitude(3_000_000);
        let count = self.units.len() as u64;
        let units = self.random.magnitude(6).min(count);
        // Some places are hot, so that versions meet in the buffer.
        let hot = self.random.chance(1, 2);
        let range = if hot { (count / 8).max(1) } else { count };
        let first = self.random.below(range).min(count - units);
        let kind = match self.random.below(24) {
            _ if self.random.chance(1, flush_one_in) => OperationKind::Flush,
            0 | 1 => OperationKind::Discard,
            2 => OperationKind::Read,
            _ => OperationKind::Write,
        };
        let through = self.random.chance(1, 20);
        let stream = self.random.below(2) as u8;
        self.submit(kind, first as u32, units as u32, through, stream);
    }

    /// Enters an operation now. Returns when it is complete.
    pub(crate) fn submit(
        &mut self,
        kind: OperationKind,
        first: u32,
        units: u32,
        through: bool,
        stream: u8,
    ) -> u64 {
        let unit_bytes = u64::from(self.ssd.config().geometry.unit_bytes);
        self.version += 1;
        self.recorder.writes(self.version);
        let operation = Operation {
            through,
            stream,
            ..self.ssd.operation(kind, u64::from(first) * unit_bytes, u64::from(units) * unit_bytes)
        };
        let now = self.now;
        let done = self.ssd.submit_recorded(&mut self.state, &mut self.recorder, now, operation);
        let is_write = kind == OperationKind::Write;
        match kind {
            OperationKind::Read => {}
            OperationKind::Reset | OperationKind::Finish => unreachable!("these drives have no zones"),
            OperationKind::Flush => {
                for write in self.units.iter_mut().flat_map(|unit| &mut unit.writes) {
                    if write.acknowledged <= now {
                        write.relied = write.relied.min(done);
                    }
                }
            }
            OperationKind::Write | OperationKind::Discard => {
                let in_flash = through || self.ssd.config().cache.kind == CacheKind::None;
                let at_once = self.trust == Trust::InAcknowledgements || is_write && in_flash;
                let left = if is_write { self.version } else { 0 };
                let relied = if at_once { done } else { u64::MAX };
                for unit in &mut self.units[first as usize..(first + units) as usize] {
                    unit.settle(now);
                    unit.writes.push(Write { left, came: now, acknowledged: done, relied });
                }
            }
        }
        done
    }

    /// The version that was written last.
    pub(crate) fn version(&self) -> Version {
        self.version
    }

    /// Has the power fail within so many ns from now, and the drive start again. A durable cache has so much
    /// of its charge.
    pub(crate) fn cut(&mut self, within: u64, charge: f64) -> Result<Found, Broken> {
        let at = self.now + self.random.magnitude(within);
        self.cut_at(at, charge)
    }

    pub(crate) fn cut_at(&mut self, at: u64, charge: f64) -> Result<Found, Broken> {
        let charge = (self.ssd.config().cache.kind == CacheKind::Durable).then_some(charge);
        let erases = self.ssd.erases(&self.state);
        let mut remains = self.recorder.cut(self.ssd.config(), erases, at, charge);
        while self.random.chance(1, 4) {
            self.started(&mut remains, Ssd::restart_cut_off)?;
        }
        let bytes_missing = self.started(&mut remains, Ssd::restart)?.bytes_missing;
        self.ssd.check(&mut self.state).map_err(Broken::Books)?;
        let found = self.found(at)?;
        self.now = 0;
        Ok(Found { bytes_missing, ..found })
    }

    fn started<T>(&mut self, remains: &mut Remains, start: T) -> Result<Restarted, Broken>
    where
        T: FnOnce(&Ssd, &mut [u64], &mut Recorder, &mut Remains) -> Result<Restarted, RestartError>,
    {
        start(&self.ssd, &mut self.state, &mut self.recorder, remains).map_err(Broken::Dead)
    }

    pub(crate) fn read(&mut self, unit: u32) -> Result<Contents, Broken> {
        self.recorder.read(&self.ssd, &mut self.state, unit).map_err(Broken::Books)
    }

    /// Compares all units with what they may hold after a cut at `at`, and takes them as they are.
    fn found(&mut self, at: u64) -> Result<Found, Broken> {
        let mut found = Found::default();
        let (mut first_lost, mut last_kept) = (u64::MAX, 0);
        for number in 0..self.units.len() as u32 {
            let contents = self.read(number)?;
            let unit = &mut self.units[number as usize];
            let version = contents.version();
            let there = unit.writes.iter().rposition(|write| Some(write.left) == version);
            // Nobody says when a discard takes effect, and damage is another matter.
            if version.is_some() && unit.writes.iter().all(|write| write.left != 0 || write.came == 0) {
                last_kept = there.map_or(0, |there| unit.writes[there].came).max(last_kept);
                let lost = &unit.writes[there.map_or(0, |there| there + 1)..];
                let acknowledged = lost.iter().map(|write| write.acknowledged).filter(|done| *done <= at);
                first_lost = acknowledged.min().unwrap_or(u64::MAX).min(first_lost);
            }
            unit.settle(at);
            let harm = match contents {
                Contents::Nothing | Contents::Whole(_) => {
                    let may_be = unit.writes.iter().any(|write| Some(write.left) == version);
                    (!may_be).then_some(Harm::Lost)
                }
                Contents::Shorn { .. } => Some(Harm::Shorn),
                Contents::Corrupt(_) => Some(Harm::Corrupt),
                Contents::OfAnother { .. } => Some(Harm::OfAnother),
                Contents::Unreadable => Some(Harm::Unreadable),
            };
            found.harm.extend(harm.map(|harm| (number, harm)));
            *unit = Unit::with(version.unwrap_or(0));
        }
        found.reordered = last_kept > first_lost;
        Ok(found)
    }
}
