//! Points carried out in virtual time, each once, on all cores.

use std::io;
use std::num::NonZero;
use std::path::Path;

use mezzanine_device::model::{self, Model};
use serde::{Deserialize, Serialize};

use super::comparisons::Comparisons;
use super::kept::{Found, Kept, Why};
use super::points::{Inside, Measured, Point, System};
use super::sce::BlockRuns;
use super::threads::each;
use super::worn::WORN;
use crate::timed::{self, Configuration, Outcome, Refusal, Setup, WarmUp, Workload};

/// How the papers' test beds are run.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Bed {
    /// Database, memory and flash are that many times smaller than published; disks, drives and clients stay
    /// as they are.
    pub scale: u32,
    /// Simulated seconds that are measured, after the flash has been filled three times.
    pub seconds: f64,
    /// Seed of the clients.
    pub seed: u64,
}

impl Default for Bed {
    fn default() -> Self {
        Self { scale: 10, seconds: 30.0, seed: 1 }
    }
}

/// Largest scale: less than 10 warehouses are no TPC-C any more.
pub const SCALE_MAX: u32 = 20;

/// How often the flash is filled before measuring begins.
const ROUNDS: u32 = 3;

fn model(name: &str) -> Model {
    model::find(name).expect("test beds are made of shipped models")
}

/// The model of a RAID-0 of so many disks.
fn disks(count: u32) -> Model {
    match count {
        1 => model("cheetah-15k"),
        _ => model(&format!("cheetah-15k-x{count}")),
    }
}

impl Bed {
    /// The point at this scale.
    pub(super) fn setup(&self, point: &Point) -> Setup {
        let scaled = |megabytes: u32| u64::from(megabytes) * 1_000_000 / u64::from(self.scale);
        let mut setup = Setup {
            workload: Workload::Tpcc { warehouses: (point.warehouses / self.scale).max(1) },
            pool_bytes: scaled(point.memory_mb),
            disk_model: disks(point.disks),
            flash_model: model(point.drive),
            warm_up: WarmUp::Rounds(ROUNDS),
            seconds: self.seconds,
            seed: self.seed,
            ..Setup::default()
        };
        match point.system {
            System::Disks => setup.configuration = Configuration::Disk,
            System::Flash => setup.configuration = Configuration::Flash,
            System::Tier { design, admission, sync_mode, flash_mb } => {
                setup.configuration = Configuration::Tier(design);
                setup.flash_bytes = scaled(flash_mb);
                setup.admission = admission;
                setup.sync_mode = sync_mode;
            }
        }
        if let Some(inside) = point.inside {
            let worn = WORN.iter().find(|worn| worn.key == point.drive);
            let worn = worn.expect("points from the inside are on drives whose wear was measured");
            // The share of the drive that the cache has stays that of the paper.
            let whole = setup.flash_model.capacity_bytes / u64::from(self.scale);
            setup.flash_model = worn.model(match inside {
                Inside::Part => whole,
                Inside::All => setup.flash_bytes,
            });
        }
        setup
    }
}

/// Points of one bed, and what came out of them.
#[derive(Debug)]
pub struct Runs {
    bed: Bed,
    done: Vec<(Point, Measured)>,
    kept: Option<Kept>,
    /// Three-tier caches, which are no points and are not kept.
    pub(super) comparisons: Comparisons,
    /// Block caches, likewise.
    pub(super) blocks: BlockRuns,
}

/// Points that were asked for and are in the file, but are to be run again, by the reason.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct LeftAside {
    /// They were run at another scale, for other seconds or with another seed.
    pub bed: usize,
    /// They were run by another version of the program, or before its sources were changed.
    pub code: usize,
    /// Their parameters have changed since.
    pub setup: usize,
}

/// Why points did not run.
#[derive(Debug)]
pub enum RunError {
    /// A parameter of a point cannot be used.
    Refused(Refusal),
    /// The file that points are kept in.
    Kept(io::Error),
}

impl Runs {
    /// Nothing yet.
    pub fn new(bed: Bed) -> Self {
        Self {
            bed,
            done: Vec::new(),
            kept: None,
            comparisons: Comparisons::default(),
            blocks: BlockRuns::default(),
        }
    }

    /// What a file has, which points are added to. It is created if it is not there.
    ///
    /// # Errors
    /// If the file cannot be read or written, or is something else.
    pub fn kept(bed: Bed, path: &Path) -> io::Result<Self> {
        Ok(Self { kept: Some(Kept::open(path)?), ..Self::new(bed) })
    }

    /// How the points are run.
    pub fn bed(&self) -> &Bed {
        &self.bed
    }

    /// What came out of a point.
    ///
    /// # Panics
    /// If it was not run.
    pub(super) fn of(&self, point: &Point) -> &Measured {
        self.find(point).unwrap_or_else(|| panic!("{point:?} is not among the points that were declared"))
    }

    fn find(&self, point: &Point) -> Option<&Measured> {
        self.done.iter().find(|(known, _)| known == point).map(|(_, measured)| measured)
    }

    /// Takes what the file has of the points.
    pub(super) fn take_kept(&mut self, points: &[Point]) {
        let Some(kept) = &self.kept else { return };
        for point in self.missing(points.to_vec()) {
            if let Found::Same(measured) = kept.find(&self.bed, &point) {
                self.done.push((point, measured));
            }
        }
    }

    /// Those of the points that the file has and that are not taken, each once.
    pub(super) fn left_aside(&self, points: Vec<Point>) -> LeftAside {
        let mut aside = LeftAside::default();
        let Some(kept) = &self.kept else { return aside };
        for point in self.missing(points) {
            match kept.find(&self.bed, &point) {
                Found::Other(Why::Bed) => aside.bed += 1,
                Found::Other(Why::Code) => aside.code += 1,
                Found::Other(Why::Setup) => aside.setup += 1,
                Found::Same(_) | Found::Nothing => {}
            }
        }
        aside
    }

    /// Those of the points that are not there yet, each once.
    pub(super) fn missing(&self, points: Vec<Point>) -> Vec<Point> {
        let mut missing: Vec<Point> = Vec::new();
        for point in points {
            if self.find(&point).is_none() && !missing.contains(&point) {
                missing.push(point);
            }
        }
        missing
    }

    /// Runs those of the points that are not there yet on so many threads; `done` is called after each.
    ///
    /// # Errors
    /// What stopped the first thread that stopped.
    pub(super) fn run(
        &mut self,
        points: Vec<Point>,
        threads: NonZero<usize>,
        done: &(dyn Fn() + Sync),
    ) -> Result<(), RunError> {
        self.take_kept(&points);
        let points = self.missing(points);
        let (bed, kept) = (self.bed, self.kept.as_ref());
        let run = |point: Point| -> Result<_, RunError> {
            let outcome = timed::run(&bed.setup(&point)).map_err(RunError::Refused)?;
            let taken = take(&outcome);
            if let Some(kept) = kept {
                kept.add(&bed, &point, &taken).map_err(RunError::Kept)?;
            }
            done();
            Ok((point, taken))
        };
        self.done.extend(each(points, threads, run)?);
        Ok(())
    }
}

fn take(outcome: &Outcome) -> Measured {
    let flash = outcome.resources.iter().find(|resource| resource.name == "flash");
    let throughput = &outcome.throughput;
    Measured {
        transactions: throughput.new_orders_per_minute.unwrap_or(throughput.transactions_per_minute),
        hits: 100.0 * outcome.hits.tier_ratio,
        writes_saved: 100.0 * outcome.writes.write_reduction.unwrap_or(0.0),
        old_versions: 100.0 * outcome.flash.old_version_share.unwrap_or(0.0),
        flash_busy: flash.map_or(0.0, |flash| 100.0 * flash.utilisation),
        flash_pages_per_second: outcome.flash.pages_per_second,
        flash_write_kib: outcome.flash.write_bytes_mean.unwrap_or(0.0) / 1024.0,
        flash_sequential: 100.0 * outcome.flash.write_sequential_share.unwrap_or(0.0),
        write_amplification: outcome.flash.inside.and_then(|inside| inside.write_amplification),
    }
}
