//! From points to an answer, for sweeps of either kind: what has no result is run, and the results of all are
//! printed.

use std::time::Instant;

use serde::Serialize;

use super::SweepArgs;
use super::pool::Pool;
use super::results::{Line, Results};
use crate::failure::Failure;
use crate::output;

/// What is run, in passes that give one result or several.
pub(super) struct Work<T, B, W> {
    pub(super) tasks: Vec<T>,
    /// Memory that all of them may have together, and how much one takes.
    pub(super) memory: u64,
    pub(super) bytes: B,
    pub(super) run: W,
}

#[derive(Serialize)]
struct Sweep<'a, R> {
    results: String,
    shard: String,
    /// Points of this part, of which so many had a result before.
    points: u64,
    found: u64,
    seconds: f64,
    rows: Vec<&'a R>,
}

/// What the ends of a sweep have in common.
pub(super) struct Outcome<'a, R> {
    pub(super) args: &'a SweepArgs,
    pub(super) started: Instant,
    pub(super) results: Results<R>,
    /// Keys of all points of this part, in the order of the command line.
    pub(super) keys: Vec<&'a str>,
}

impl<R: Line + Send> Outcome<'_, R> {
    /// Carries the work out and prints the results of all points, as JSON or as a table.
    pub(super) fn complete<T, B, W>(
        mut self,
        work: Work<T, B, W>,
        json: bool,
        table: impl FnOnce(&[&R]) -> String,
    ) -> Result<(), Failure>
    where
        T: Sync,
        B: Fn(&T) -> u64 + Sync,
        W: Fn(&T) -> Result<Vec<R>, Failure> + Sync,
    {
        let found = self.keys.iter().filter(|key| self.results.has(key)).count() as u64;
        let points = self.keys.len() as u64;
        let bar = output::progress(points, &format!("sweeping to {}", self.args.results.display()));
        bar.set_position(found);
        let pool = Pool { threads: self.args.threads(), memory: work.memory };
        let results = &mut self.results;
        pool.run(&work.tasks, work.bytes, work.run, |rows: Vec<R>| {
            bar.inc(rows.len() as u64);
            results.add(rows)
        })?;
        self.results.complete()?;
        bar.finish_and_clear();
        let rows: Vec<&R> = self.keys.iter().filter_map(|key| self.results.of(key)).collect();
        if !json {
            return output::print(&table(&rows));
        }
        output::json(&Sweep {
            results: self.args.results.display().to_string(),
            shard: self.args.shard.to_string(),
            points,
            found,
            seconds: self.started.elapsed().as_secs_f64(),
            rows,
        })
    }
}
