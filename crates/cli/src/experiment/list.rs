//! `mezz experiment list`.

use mezzanine_report::{Table, facts};
use mezzanine_sim::experiment::{Bed, CATALOGUE, Published, Runs};
use serde::Serialize;

use crate::failure::Failure;
use crate::output;

pub(super) const EXAMPLES: &str = "Examples:
  mezz experiment list
  mezz experiment list --json

Points are runs in virtual time, those of nfa.* three-tier caches under a trace, and those of sce.* block caches; experiments share them. An experiment without points is computed from the models of drives or from sizes, at once. \
`mezz experiment run ID` prints what was published beside what comes out here.";

#[derive(Serialize)]
struct Entry<'a> {
    id: &'a str,
    title: &'a str,
    document: &'a str,
    section: &'a str,
    item: &'a str,
    statements: usize,
    points: usize,
}

pub(super) fn run(json: bool) -> Result<(), Failure> {
    let published = Published::shipped();
    let mut none = Runs::new(Bed::default());
    let entries: Vec<Entry<'_>> = CATALOGUE
        .iter()
        .filter_map(|experiment| published.source(experiment.id).map(|source| (experiment, source)))
        .map(|(experiment, source)| Entry {
            id: &source.id,
            title: &source.title,
            document: &published.document(source).title,
            section: &source.section,
            item: &source.item,
            statements: source.statements.len(),
            points: experiment.points_missing(&mut none),
        })
        .collect();
    if json {
        return output::json(&entries);
    }
    let mut table = Table::new(["experiment", "published as", "statements", "points"]);
    for entry in &entries {
        let points = if entry.points == 0 { "-".to_owned() } else { entry.points.to_string() };
        let published_as = format!("{}, section {}", entry.item, entry.section);
        table.row([entry.id, &published_as, &entry.statements.to_string(), &points]);
    }
    let mut text = table.render();
    let titles = entries.iter().map(|entry| (entry.id, entry.title.to_owned()));
    let documents = published.documents().iter();
    let documents =
        documents.map(|document| (&*document.id, format!("{} ({})", document.title, document.venue)));
    for part in [titles.collect::<Vec<_>>(), documents.collect()] {
        text.push('\n');
        text.push_str(&facts(&part));
    }
    output::print(&text)
}
