//! What is to be run, and how a point is known again.

use mezzanine_sim::policy::{Design, Setting};
use sha2::{Digest, Sha256};

use super::super::parameters::{Parameters, Variation};
use super::traces::Trace;
use crate::failure::Failure;

/// A trace, a design, its frames and its parameters.
pub(super) struct Point {
    /// The same for the same point, whenever and wherever it is run.
    pub(super) key: String,
    /// Which of the traces.
    pub(super) trace: usize,
    pub(super) setting: Setting,
}

/// All points of a trace, in the order of designs, parameters, sizes.
pub(super) fn of(
    trace: &Trace,
    designs: &[Design],
    sizes: &[u64],
    parameters: &Parameters,
    vary: &[Variation],
    pages: u64,
) -> Result<Vec<Point>, Failure> {
    parameters.refuse_senseless(vary, designs)?;
    let mut points = Vec::new();
    for design in designs {
        for combination in parameters.combinations(vary, *design) {
            let combination = combination.limited(pages);
            for setting in combination.points(&[*design], sizes, "--sizes")? {
                points.push(Point { key: key(trace, &setting), trace: trace.number, setting });
            }
        }
    }
    Ok(points)
}

/// Of what program a result is. One version is built of more than one state of the sources while it is worked
/// on.
pub(super) fn program() -> String {
    format!("mezz {} {}", env!("CARGO_PKG_VERSION"), mezzanine_sim::SOURCES)
}

/// A hash of everything that the result depends on.
fn key(trace: &Trace, setting: &Setting) -> String {
    let mut text =
        format!("{} policy-only\n{}\n{} {}\n", program(), trace.identity, setting.design(), setting.frames());
    for (name, value) in setting.parameters() {
        text.push_str(&format!("{name}={value}\n"));
    }
    hex::encode(&Sha256::digest(text)[..16])
}
