//! Experiments: what the papers print and state, what comes out here, and a verdict.
//!
//! An experiment is a table, a figure or a passage of a paper. What it says is in `data/published.toml`; a
//! function here answers each of its statements, from the shipped models of drives, from sizes that the
//! engine computes, or from runs of the papers' test beds in virtual time ([`crate::timed`]). `verdict.rs`
//! compares by the same rules everywhere. Where ours is not what was published, `data/reasons.toml` says why.
//!
//! A new experiment is its figures in `data/published.toml`, a function, and a line in [`CATALOGUE`].

mod published;

mod answers;
mod verdict;

mod comparisons;
mod kept;
mod points;
mod runs;
mod threads;

mod admission;
mod against_lc;
mod block_cache;
mod costs;
mod drives;
mod inside;
mod operations;
mod redundant;
mod restart;
mod sce;
mod three_tier;
mod versions;
mod wear;
mod worn;

mod reasons;
mod report;

use std::num::NonZero;

use answers::Answers;
use comparisons::Comparisons;
pub use points::Measured;
use points::Point;
pub use published::{Along, Claim, Document, Mark, Op, Published, Source, Statement};
pub use report::{Line, Report, Stream};
use sce::{BlockPoint, BlockRuns};

pub use runs::{Bed, LeftAside, RunError, Runs, SCALE_MAX};
pub use verdict::{NEAR_PART, NEAR_POINTS, Ours, Part, Verdict};

use crate::three_tier::BufferTrace;
use crate::timed::Refusal;

/// Where an experiment's answers come from.
enum Work {
    /// From models and sizes.
    Computed(fn(&Source, &mut Answers)),
    /// From points in virtual time.
    Timed { points: fn() -> Vec<Point>, answers: fn(&Runs, &mut Answers) },
    /// From three-tier caches under these traces of the paper.
    ThreeTier { traces: &'static [BufferTrace], answers: fn(&Comparisons, &mut Answers) },
    /// From block caches on the test bed of SCE.
    Blocks { points: fn() -> Vec<BlockPoint>, answers: fn(&BlockRuns, &mut Answers) },
}

/// An experiment.
pub struct Experiment {
    /// Its id, as in `data/published.toml`.
    pub id: &'static str,
    work: Work,
}

const fn computed(id: &'static str, answers: fn(&Source, &mut Answers)) -> Experiment {
    Experiment { id, work: Work::Computed(answers) }
}

const fn timed(id: &'static str, points: fn() -> Vec<Point>, answers: fn(&Runs, &mut Answers)) -> Experiment {
    Experiment { id, work: Work::Timed { points, answers } }
}

const fn three_tier(
    id: &'static str,
    traces: &'static [BufferTrace],
    answers: fn(&Comparisons, &mut Answers),
) -> Experiment {
    Experiment { id, work: Work::ThreeTier { traces, answers } }
}

const fn blocks(
    id: &'static str,
    points: fn() -> Vec<BlockPoint>,
    answers: fn(&BlockRuns, &mut Answers),
) -> Experiment {
    Experiment { id, work: Work::Blocks { points, answers } }
}

/// Every experiment, in the order in which they are listed.
pub const CATALOGUE: &[Experiment] = &[
    timed("face.headline", against_lc::figure_8_points, against_lc::headline),
    computed("face.table1", drives::table),
    computed("face.device_claims", drives::claims),
    computed("face.table2", wear::table_2),
    computed("face.breakeven", drives::break_even),
    timed("face.fig5", admission::figure_5_points, admission::figure_5),
    timed("face.table4", admission::table_4_points, admission::table_4),
    timed("face.table5", admission::table_5_points, admission::table_5),
    timed("face.fig6", against_lc::figure_6_points, against_lc::figure_6),
    timed("face.fig7", against_lc::figure_7_points, against_lc::figure_7),
    timed("face.fig8", against_lc::figure_8_points, against_lc::figure_8),
    timed("face.fig9", block_cache::points, block_cache::figure_9),
    timed("face.table6", block_cache::table_6_points, block_cache::table_6),
    timed("face.fig10", block_cache::points, block_cache::figure_10),
    timed("face.fig11", costs::figure_11_points, costs::figure_11),
    timed("face.table7", wear::table_7_points, wear::table_7),
    timed("face.fig12", costs::figure_12_points, costs::figure_12),
    timed("face.fig13", costs::figure_13_points, costs::figure_13),
    computed("face.recovery", restart::recovery),
    computed("slides.ssd_table", drives::table),
    computed("slides.mvfifo_example", versions::example),
    timed("slides.table5", costs::slides_table_5_points, costs::slides_table_5),
    computed("durassd.table1", inside::flushes),
    computed("durassd.table2", inside::page_sizes),
    computed("durassd.headline", redundant::headline),
    computed("nfa.table1", three_tier::table_1),
    computed("nfa.table2", operations::table_2),
    three_tier("nfa.fig5", &BufferTrace::ALL, three_tier::figure_5),
    three_tier("nfa.fig6", &BufferTrace::ALL, three_tier::figure_6),
    three_tier("nfa.fig7", &[BufferTrace::Tpcc], three_tier::figure_7),
    three_tier("nfa.fig8", &[BufferTrace::Tpcc], three_tier::figure_8),
    three_tier("nfa.fig9", &[BufferTrace::Tpcc], three_tier::figure_9),
    blocks("sce.headline", sce::headline_points, sce::headline),
    blocks("sce.table1", sce::table_1_points, sce::table_1),
    computed("sce.fig1", sce::figure_1),
    blocks("sce.fig2", sce::figure_2_points, sce::figure_2),
    computed("sce.memory_model", sce::memory_model),
    blocks("sce.fig7", sce::figure_7_points, sce::figure_7),
    blocks("sce.fig8", sce::figure_8_points, sce::figure_8),
    blocks("sce.fig9", sce::figure_9_points, sce::figure_9),
    blocks("sce.fig10", sce::figure_10_points, sce::figure_10),
    blocks("sce.fig11", sce::figure_11_points, sce::figure_11),
    blocks("sce.fig12", sce::figure_12_points, sce::figure_12),
    computed("sce.fig13", sce::figure_13),
    computed("sce.race", sce::race),
];

/// The experiment with this id.
pub fn find(id: &str) -> Option<&'static Experiment> {
    CATALOGUE.iter().find(|experiment| experiment.id == id)
}

/// Points of the experiments that are kept and will be run again all the same.
pub fn left_aside(experiments: &[&Experiment], runs: &Runs) -> LeftAside {
    runs.left_aside(experiments.iter().flat_map(|experiment| experiment.points()).collect())
}

impl Experiment {
    /// How many points it needs beyond those that are there or kept: runs in virtual time, and comparisons of
    /// three-tier caches under a trace.
    pub fn points_missing(&self, runs: &mut Runs) -> usize {
        let points = self.points();
        runs.take_kept(&points);
        runs.missing(points).len()
            + runs.comparisons.missing(self.traces()).len()
            + runs.blocks.missing(self.block_points()).len()
    }

    /// Traces that three-tier caches are compared under.
    fn traces(&self) -> &'static [BufferTrace] {
        match self.work {
            Work::ThreeTier { traces, .. } => traces,
            Work::Computed(_) | Work::Timed { .. } | Work::Blocks { .. } => &[],
        }
    }

    fn points(&self) -> Vec<Point> {
        match self.work {
            Work::Computed(_) | Work::ThreeTier { .. } | Work::Blocks { .. } => Vec::new(),
            Work::Timed { points, .. } => points(),
        }
    }

    /// What block caches run.
    fn block_points(&self) -> Vec<BlockPoint> {
        match self.work {
            Work::Blocks { points, .. } => points(),
            Work::Computed(_) | Work::Timed { .. } | Work::ThreeTier { .. } => Vec::new(),
        }
    }

    /// Whether it runs in virtual time.
    pub fn is_timed(&self) -> bool {
        matches!(self.work, Work::Timed { .. })
    }

    /// Bytes of memory that its largest point takes.
    ///
    /// # Errors
    /// The parameter of a point that cannot be run.
    pub fn point_bytes_max(&self, bed: &Bed) -> Result<u64, Refusal> {
        let mut bytes = self.points().into_iter().map(|point| bed.setup(&point).memory_bytes());
        let most = bytes.try_fold(0, |most, bytes| Ok::<_, Refusal>(bytes?.max(most)))?;
        let of_blocks = self.block_points().into_iter().map(|point| point.memory_bytes(bed));
        Ok(of_blocks.max().unwrap_or(0).max(most))
    }

    /// Runs it: the points that are missing from `runs` on so many threads, `done` after each of them.
    ///
    /// # Errors
    /// The parameter of a point that cannot be run, with the reason; or the file that points are kept in.
    ///
    /// # Panics
    /// If `published` has no such experiment, which the one that ships has.
    pub fn run(
        &self,
        published: &Published,
        runs: &mut Runs,
        threads: NonZero<usize>,
        done: &(dyn Fn() + Sync),
    ) -> Result<Report, RunError> {
        let source = published.source(self.id).expect("every experiment has something to compare with");
        let mut answers = Answers::default();
        match self.work {
            Work::Computed(answer) => answer(source, &mut answers),
            Work::Timed { points, answers: answer } => {
                runs.run(points(), threads, done)?;
                answer(runs, &mut answers);
            }
            Work::Blocks { points, answers: answer } => {
                let bed = *runs.bed();
                runs.blocks.run(points(), &bed, threads, done).map_err(RunError::Refused)?;
                answer(&runs.blocks, &mut answers);
            }
            Work::ThreeTier { traces, answers: answer } => {
                let seed = runs.bed().seed;
                runs.comparisons.run(traces, seed, threads, done);

                answer(&runs.comparisons, &mut answers);
            }
        }
        let bed = match self.work {
            Work::Timed { .. } => Some(*runs.bed()),
            Work::Blocks { .. } => Some(sce::as_run(runs.bed(), &self.block_points())),
            Work::Computed(_) | Work::ThreeTier { .. } => None,
        };
        let streams = runs.comparisons.streams(self.traces(), runs.bed().seed);
        Ok(Report::new(published, source, answers.in_order(source), bed, streams))
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::three_tier::Until;

    #[test]
    fn every_experiment_has_figures_and_every_figure_an_experiment() {
        let published = Published::shipped();
        let ids: Vec<_> = published.sources().iter().map(|source| source.id.as_str()).collect();
        for experiment in CATALOGUE {
            assert!(ids.contains(&experiment.id), "{} has nothing to compare with", experiment.id);
        }
        for id in ids {
            assert!(find(id).is_some(), "nobody answers {id}");
        }
    }

    #[test]
    fn three_tier_caches_answer_every_statement() {
        let published = Published::shipped();
        let mut runs = Runs::new(Bed::default());
        runs.comparisons.until = Until { collections: 40, ..Until::PUBLISHED };
        for experiment in CATALOGUE.iter().filter(|experiment| experiment.id.starts_with("nfa.")) {
            let report = experiment.run(&published, &mut runs, NonZero::<usize>::MIN, &|| {}).unwrap();
            assert_eq!(report.streams.len(), experiment.traces().len(), "{}", experiment.id);
            assert_eq!(experiment.points_missing(&mut runs), 0, "{}", experiment.id);
        }
    }
}
