//! An experiment's outcome, statement by statement.

use serde::Serialize;

use super::published::{Claim, Document, Published, Source};
use super::reasons::reason;
use super::runs::Bed;
use super::verdict::{Ours, Verdict, judge};

/// What was published, what came out, and the verdicts.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Report {
    /// The experiment's id.
    pub id: String,
    /// What it is about.
    pub title: String,
    /// Where it was published.
    pub document: Document,
    /// Section or sections there.
    pub section: String,
    /// Table, figure or passage there.
    pub item: String,
    /// How it was run; nothing for what is computed from models and sizes.
    pub bed: Option<Bed>,
    /// Of three-tier caches: what stands for the paper's traces.
    pub streams: Vec<Stream>,
    /// Its statements.
    pub statements: Vec<Line>,
}

/// Page references that stand for a trace, and what the top tier made of them.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Stream {
    /// Name of the trace.
    pub trace: &'static str,
    /// Where its randomness begins.
    pub seed: u64,
    /// References of the database.
    pub references: u64,
    /// Different pages that they are for.
    pub distinct_pages: u64,
    /// Requests that they made of each middle tier.
    pub requests: u64,
}

/// A statement, published and ours.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Line {
    /// Names it within the experiment.
    pub key: String,
    /// What is measured.
    pub what: String,
    /// Unit of the figures.
    pub unit: String,
    /// What was published.
    pub published: Claim,
    /// What came out here.
    pub ours: Ours,
    /// How they compare.
    pub verdict: Verdict,
    /// Why ours is not what was published, if it is not and somebody knows.
    pub reason: Option<String>,
}

impl Report {
    pub(super) fn new(
        published: &Published,
        source: &Source,
        ours: Vec<Ours>,
        bed: Option<Bed>,
        streams: Vec<Stream>,
    ) -> Self {
        let lines = source.statements.iter().zip(ours).map(|(statement, ours)| {
            let verdict = judge(statement, &ours);
            let explained = verdict != Verdict::Reproduced;
            Line {
                key: statement.key.clone(),
                what: statement.what.clone(),
                unit: statement.unit.clone(),
                published: statement.claim.clone(),
                ours,
                verdict,
                reason: if explained { reason(&source.id, &statement.key) } else { None },
            }
        });
        Self {
            id: source.id.clone(),
            title: source.title.clone(),
            document: published.document(source).clone(),
            section: source.section.clone(),
            item: source.item.clone(),
            bed,
            streams,
            statements: lines.collect(),
        }
    }

    /// How many statements got this verdict.
    pub fn count(&self, verdict: Verdict) -> usize {
        self.statements.iter().filter(|line| line.verdict == verdict).count()
    }
}
