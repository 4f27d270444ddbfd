//! A drive from what was measured of it from outside.
//!
//! [`fit`] is a function of measurements: of each load what its requests and flushes took. It looks for a
//! drive ([`SsdConfig`]) that takes as long, by running the same loads on drafts of it, in virtual time, and
//! says of each parameter whether anything that was measured depends on it, and how far the drive that came
//! out is from each measurement.
//!
//! The order: what kind of cache there is (`cache`); host and flash, each parameter by the figure that
//! depends on it most (`host`); flushes, and the size of the buffer (`cache`); what reads wait for (`order`);
//! erase unit and spare space, if the whole drive was written over (`collection`).

mod bench;
mod draft;

mod loads;

mod host;

mod cache;

mod collection;

mod quality;

mod model_file;

use serde::{Deserialize, Serialize};

use crate::ConfigError;
use crate::config::SsdConfig;
use crate::load::{Load, LoadKind, Measured};
use draft::Draft;

pub use loads::{collecting, collection_bytes, identifying, measure, rest};
pub use quality::{Compared, Parameter};

/// What is known of a drive besides measurements.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, Serialize)]
pub struct Facts {
    /// Bytes of the whole drive.
    pub capacity_bytes: u64,
    /// The first bytes of it, which most loads were measured over.
    pub span_bytes: u64,
    /// Whether it says that completed writes can be lost with the power.
    pub volatile_cache: Option<bool>,
    /// Whether a write that is to be durable goes through the cache alone (FUA), and not with a flush.
    pub has_fua: bool,
}

/// What was measured of a drive.
#[derive(Debug, Clone, PartialEq)]
pub struct Measurements {
    /// What is known besides.
    pub facts: Facts,
    /// The loads over the measured part.
    pub rows: Vec<Measured>,
    /// Those over the whole drive (`collection`), in their order; none if it was not written over.
    pub collection: Vec<Measured>,
}

impl Measurements {
    /// What a load came to.
    fn row(&self, load: Load) -> Option<&Measured> {
        self.rows.iter().find(|row| row.load.is_like(load) && row.requests > 0)
    }

    /// Clients of the loads with many.
    fn clients(&self) -> usize {
        let reads = self.rows.iter().filter(|row| row.load.kind == LoadKind::RandomRead);
        reads.map(|row| row.load.clients).max().unwrap_or(1)
    }
}

/// What came of a fit.
#[derive(Debug, Clone, PartialEq)]
pub struct Fit {
    /// The drive.
    pub config: SsdConfig,
    /// Its parameters, with what each was found by, or why it was taken.
    pub parameters: Vec<Parameter>,
    /// What was measured, beside what the drive makes of it.
    pub compared: Vec<Compared>,
}

impl Fit {
    /// How far the drive is from what was measured, as a mean over all loads: a share.
    pub fn off_mean(&self) -> f64 {
        let sum: f64 = self.compared.iter().map(|one| one.off.abs()).sum();
        sum / self.compared.len().max(1) as f64
    }

    /// The load that it is furthest from.
    pub fn furthest(&self) -> Option<&Compared> {
        self.compared.iter().max_by(|a, b| a.off.abs().total_cmp(&b.off.abs()))
    }

    /// Whether a parameter was determined, by its name.
    pub fn is_determined(&self, name: &str) -> bool {
        self.parameters.iter().any(|parameter| parameter.name == name && parameter.determined)
    }
}

/// Looks for the drive behind measurements.
///
/// # Errors
/// If what comes out is no drive that there can be.
pub fn fit(measured: &Measurements) -> Result<Fit, ConfigError> {
    let kind = cache::kind(measured);
    let draft = Draft { kind, flush: cache::rule(kind, measured), ..Draft::usual() };
    let mut nearest = host::fit(&draft, measured);
    let mut is_buffer_seen = false;
    for _ in 0..2 {
        // Each is a condition of the other.
        cache::fit_buffer(&mut nearest.draft, measured);
        host::again(&mut nearest, measured);
        is_buffer_seen = cache::fit_buffer(&mut nearest.draft, measured);
    }
    let mut draft = nearest.draft;
    cache::fit_flush(&mut draft, measured);
    let collected = collection::fit(&mut draft, measured);
    Ok(Fit {
        config: draft.config(measured.facts.capacity_bytes)?,
        parameters: quality::parameters(&draft, measured, is_buffer_seen, collected),
        compared: quality::compare(&draft, measured),
    })
}
