//! What `mezz demo` and `mezz pg bench` have in common: TPC-C on modelled drives, beside a processor that is
//! not modelled.

mod workspace;

use mezzanine_report::percent;

pub(crate) use workspace::{Workspace, leave_to_handler, when_interrupted};

/// How busy a run may keep the processor before its figures say more about the processor than about the
/// drives.
const CPU_BUSY_MAX: f64 = 0.70;
/// What an automatic time scale aims at, below the limit because a calibration of a few seconds is rough.
const CPU_BUSY_AIM: f64 = 0.55;
/// From here on, others keep the machine busy.
const MACHINE_BUSY_MAX: f64 = 0.9;

/// The time scale to use when a share `busy` of the processor was needed at time scale `at`: the time between
/// is what the drives took, and that part grows with the scale. From a processor that was nearly always busy
/// little can be told: measure again at the scale found.
pub(crate) fn time_scale_for(busy: f64, at: f64) -> f64 {
    const STEPS: [f64; 10] = [1.0, 1.5, 2.0, 3.0, 4.0, 6.0, 8.0, 12.0, 16.0, 24.0];
    let busy = busy.clamp(0.0, 0.999);
    let wanted = at * busy * (1.0 - CPU_BUSY_AIM) / (CPU_BUSY_AIM * (1.0 - busy));
    STEPS.into_iter().find(|step| *step >= wanted).unwrap_or(STEPS[STEPS.len() - 1])
}

/// How busy the runs of a benchmark kept the processor, as shares of all cores.
pub(crate) struct Busy<'a> {
    /// By run: its name, and what it used itself.
    pub(crate) runs: Vec<(&'a str, f64)>,
    /// The most that everything on the machine used during a run.
    pub(crate) machine: f64,
    /// That of the modelled drives; none if all drives are real, which nobody can slow down.
    pub(crate) time_scale: Option<f64>,
}

impl Busy<'_> {
    /// What that makes doubtful, each with what to do.
    pub(crate) fn warnings(&self) -> Vec<String> {
        let too_busy = self.runs.iter().filter(|(_, busy)| *busy > CPU_BUSY_MAX);
        let warnings: Vec<String> = too_busy
            .map(|(run, busy)| {
                let next = self.time_scale.map_or_else(String::new, |scale| {
                    format!("; repeat with --time-scale {}", scale * 2.0)
                });
                let busy = percent(*busy, 0);
                format!("{run} kept the processor {busy} busy, so that its figures are about the processor too{next}")
            })
            .collect();
        if !warnings.is_empty() || self.machine <= MACHINE_BUSY_MAX {
            return warnings;
        }
        let most = self.runs.iter().map(|(_, busy)| *busy).fold(0.0, f64::max);
        vec![format!(
            "other programs kept the processor busy ({} in all, {} by the runs); repeat on a quiet machine",
            percent(self.machine, 0),
            percent(most, 0)
        )]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_time_scale_brings_the_processor_below_the_aim() {
        assert_eq!(time_scale_for(0.2, 1.0), 1.0);
        assert_eq!(time_scale_for(0.55, 1.0), 1.0);
        // Busy 0.9: nine parts processor, one part drive; at the scale found the drive's part has grown
        // enough.
        let scale = time_scale_for(0.9, 1.0);
        assert!(0.9 / (0.9 + 0.1 * scale) <= CPU_BUSY_AIM, "{scale}");
        assert_eq!(time_scale_for(1.0, 1.0), 24.0);
        // A processor that has little to do at 24 would be as busy as aimed for at a much smaller scale.
        assert_eq!(time_scale_for(0.08, 24.0), 2.0);
    }

    #[test]
    fn a_busy_run_is_named_and_a_busy_neighbour_only_where_the_runs_were_not() {
        let busy = |runs, machine| Busy { runs, machine, time_scale: Some(2.0) }.warnings();
        assert!(busy(vec![("disk", 0.3), ("flash", 0.7)], 0.9).is_empty());
        let warnings = busy(vec![("disk", 0.3), ("flash", 0.8)], 0.95);
        assert_eq!(warnings.len(), 1);
        assert!(warnings[0].starts_with("flash kept the processor 80 % busy"), "{warnings:?}");
        assert!(warnings[0].ends_with("--time-scale 4"), "{warnings:?}");
        assert!(busy(vec![("disk", 0.3)], 0.95)[0].contains("95 % in all, 30 % by the runs"));
        let real = Busy { runs: vec![("disk", 0.8)], machine: 0.8, time_scale: None };
        assert!(real.warnings()[0].ends_with("about the processor too"), "a real drive has no time scale");
    }
}
