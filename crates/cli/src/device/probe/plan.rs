//! What is measured of a device in all, and the measuring of it.

use std::time::Duration;

use indicatif::ProgressBar;
use mezzanine_device::DeviceError;
use mezzanine_report::number;
use mezzanine_ssd::fit;

use super::ProbeArgs;
use super::load::{Load, Row, loads};
use super::subject::{self, Subject};
use crate::output;
use crate::size::Size;

/// A load over a whole drive ends at the latest after this.
const WHOLE_LOAD_TIME_MAX: Duration = Duration::from_secs(1800);

/// How far the measuring got.
#[derive(Default)]
pub(super) struct Measured {
    pub(super) rows: Vec<Row>,
    pub(super) identifying: Vec<Row>,
    pub(super) collection: Vec<Row>,
    pub(super) stopped: Option<Stopped>,
}

/// A device that answered no more.
pub(super) struct Stopped {
    pub(super) during: String,
    pub(super) error: DeviceError,
}

/// What is to be measured.
pub(super) struct Plan {
    time: Duration,
    rows: Vec<Load>,
    identifying: Vec<Load>,
    collection: Vec<Load>,
    /// Of the whole drive, if all of it is to be written over.
    whole_bytes: u64,
}

impl Plan {
    pub(super) fn of(args: &ProbeArgs, capacity_bytes: Option<u64>) -> Plan {
        let (clients, time) = (args.clients.into(), Duration::from_secs_f64(args.seconds));
        let whole_bytes = capacity_bytes.filter(|_| args.whole).unwrap_or(0);
        Plan {
            time,
            rows: loads(clients),
            identifying: fit::identifying(clients, time),
            collection: if whole_bytes > 0 { fit::collecting(whole_bytes, time) } else { Vec::new() },
            whole_bytes,
        }
    }

    pub(super) fn loads(&self) -> usize {
        self.rows.len() + self.identifying.len() + self.collection.len()
    }
}

/// Progress in thousandths of a load; to fill takes as much of the bar as four of them.
const LOAD_STEPS: u64 = 1000;
const FILL_STEPS: u64 = 4 * LOAD_STEPS;

/// Measuring under way.
struct Run<'r> {
    subject: &'r mut dyn Subject,
    bar: ProgressBar,
    steps: u64,
    seed: u64,
    stopped: Option<Stopped>,
}

impl Run<'_> {
    /// Writes over the first so many bytes.
    fn fill(&mut self, bytes: u64) {
        if self.stopped.is_some() {
            return;
        }
        self.bar.set_message("filling");
        let (bar, steps) = (&self.bar, self.steps);
        let filled =
            self.subject.fill(&mut |filled| bar.set_position(steps + FILL_STEPS * filled / bytes.max(1)));
        self.steps += FILL_STEPS;
        if let Err(error) = filled {
            self.stopped = Some(Stopped { during: "filling".to_owned(), error });
        }
    }

    /// Runs loads until one fails.
    fn measure(&mut self, loads: &[Load], time: Duration, rest: Duration) -> Vec<Row> {
        let mut rows = Vec::new();
        for load in loads {
            if self.stopped.is_some() {
                break;
            }
            begin(&self.bar, self.steps, &load.describe());
            // What ends with its requests has as long as it takes.
            let time = if load.requests_max > 0 { WHOLE_LOAD_TIME_MAX } else { time };
            match subject::measure(self.subject, *load, time, rest, self.seed) {
                Ok(row) => rows.push(row),
                Err(error) => self.stopped = Some(Stopped { during: load.describe(), error }),
            }
            (self.steps, self.seed) = (self.steps + LOAD_STEPS, self.seed.wrapping_add(1));
        }
        rows
    }
}

/// Fills the first `span_bytes`, if it `fills`, and runs all loads, until one fails.
pub(super) fn measure_all(
    args: &ProbeArgs,
    plan: &Plan,
    subject: &mut dyn Subject,
    span_bytes: u64,
    fills: bool,
) -> Measured {
    let steps = 3 * FILL_STEPS + LOAD_STEPS * plan.loads() as u64;
    let bar = output::progress(steps, &format!("filling {}", args.target));
    let mut run = Run { subject, bar, steps: 0, seed: args.seed, stopped: None };
    let mut measured = Measured::default();
    if fills {
        run.fill(span_bytes);
    }
    measured.rows = run.measure(&plan.rows, plan.time, Duration::ZERO);
    // Where units lie matters to large reads: from the first byte to the last again.
    if fills {
        run.fill(span_bytes);
    }
    let rest = fit::rest(plan.time);
    measured.identifying = run.measure(&plan.identifying, plan.time, rest);
    if plan.whole_bytes > 0 && run.stopped.is_none() {
        tell_time(plan, &measured);
        run.subject.use_bytes(plan.whole_bytes);
        run.fill(plan.whole_bytes);
        measured.collection = run.measure(&plan.collection, plan.time, rest);
    }
    run.bar.finish_and_clear();
    measured.stopped = run.stopped;
    measured
}

/// Says how long it takes to write over a whole drive, before it is done.
fn tell_time(plan: &Plan, measured: &Measured) {
    let bytes = fit::collection_bytes(plan.whole_bytes);
    let rate = measured.identifying.iter().filter(|row| row.load.warm_up).map(|row| row.mb_per_s);
    let rate = rate.fold(0.0, f64::max).max(1e-3);
    output::note(&format!(
        "writing {} over all of the drive now: {} minutes at the {} MB/s that it takes for long, and more as it \
         collects; no load of it takes more than {} minutes",
        Size(bytes),
        number(bytes as f64 / rate / 60e6, 0),
        number(rate, 0),
        WHOLE_LOAD_TIME_MAX.as_secs() / 60
    ));
}

fn begin(bar: &ProgressBar, position: u64, what: &str) {
    bar.set_position(position);
    bar.set_message(what.to_owned());
}
