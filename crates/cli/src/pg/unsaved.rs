//! The pages that a drain has not brought to disk: those that flash does not give back, and those that their
//! files do not take.

use std::path::Path;

use mezzanine_engine::PageId;
use serde::Serialize;

use super::cluster::{Cluster, Running};
use crate::failure::Failure;
use crate::tier::{OnlyCopy, file_of, only_copies, page_name};

/// Pages that are shown to people; a script gets all.
const SHOWN: usize = 20;

/// Why a page is not on disk.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Why {
    /// Only flash had its newest version, and cannot give it back.
    Lost,
    /// Its file is missing, or does not take it.
    NotTaken,
}

/// A page that is newer in the tier than on disk, and stays so.
#[derive(Debug, PartialEq, Eq, Serialize)]
pub(super) struct Unsaved {
    why: Why,
    database: u32,
    tablespace: u32,
    relfilenode: u32,
    fork: u32,
    block: u32,
    /// The file that it belongs to, below the data directory.
    path: String,
}

/// Those of a tier at rest: everything that it has and the files of this data directory have not.
pub(super) fn at_rest(flash: &Path, data: &Path) -> Result<Vec<Unsaved>, Failure> {
    let named = |page: &OnlyCopy| {
        let [database, tablespace, relfilenode, fork, block] = page.id.relation_parts();
        let why = if page.damaged { Why::Lost } else { Why::NotTaken };
        Unsaved { why, database, tablespace, relfilenode, fork, block, path: file_of(&page.id) }
    };
    let mut unsaved: Vec<Unsaved> = only_copies(flash, data)?.iter().map(named).collect();
    unsaved.sort_by_key(|page| (page.database, page.tablespace, page.relfilenode, page.fork, page.block));
    Ok(unsaved)
}

/// Those of a server that goes on: what it knows to be lost. It has new pages all the time that are not on
/// disk either.
pub(super) fn ask(cluster: &Cluster, server: &Running) -> Result<Vec<Unsaved>, String> {
    let answer = cluster.query(
        server,
        "SELECT islost, reldatabase, reltablespace, relfilenode, relforknumber, relblocknumber \
         FROM pg_mezzanine_frames WHERE islost ORDER BY 2, 3, 4, 5, 6",
    )?;
    answer
        .lines()
        .filter(|line| !line.is_empty())
        .map(|line| parse(line).ok_or_else(|| format!("pg_mezzanine_frames has a page '{line}'")))
        .collect()
}

fn parse(line: &str) -> Option<Unsaved> {
    let (lost, numbers) = line.split_once('|')?;
    let numbers: Vec<u32> = numbers.split('|').map(|number| number.parse().ok()).collect::<Option<_>>()?;
    let [database, tablespace, relfilenode, fork, block] = numbers[..] else { return None };
    let path = file_of(&PageId::relation(database, tablespace, relfilenode, fork, block));
    let why = if lost == "t" { Why::Lost } else { Why::NotTaken };
    Some(Unsaved { why, database, tablespace, relfilenode, fork, block, path })
}

/// Lines for people; none if there are none.
pub(super) fn lines(unsaved: &[Unsaved]) -> String {
    let mut text = String::new();
    for (why, head) in [
        (Why::Lost, "lost: only flash had them, and it does not give them back"),
        (Why::NotTaken, "still in the tier alone: their files are missing or did not take them"),
    ] {
        let pages: Vec<&Unsaved> = unsaved.iter().filter(|page| page.why == why).collect();
        if pages.is_empty() {
            continue;
        }
        text.push_str(&format!("\n{head}\n"));
        for page in pages.iter().take(SHOWN) {
            let Unsaved { database, tablespace, relfilenode, fork, block, .. } = **page;
            let id = PageId::relation(database, tablespace, relfilenode, fork, block);
            text.push_str(&format!("  {}\n", page_name(&id)));
        }
        if let Some(more) = pages.len().checked_sub(SHOWN).filter(|more| *more > 0) {
            text.push_str(&format!("  ... and {more} more; --json has all\n"));
        }
    }
    text
}

/// What can be done about them.
pub(super) fn next_steps(unsaved: &[Unsaved]) -> String {
    let any = |why| unsaved.iter().any(|page| page.why == why);
    let mut steps = Vec::new();
    if any(Why::Lost) {
        steps.push(
            "a server goes on with its tier but for the lost ones: write them anew, drop their relations, or \
             give them up by name with mezzanine_give_up(relation, block), and drain again",
        );
    }
    if any(Why::NotTaken) {
        steps.push(
            "the server's log says which files are missing or full: bring them back or make room, and drain \
             again; nothing is lost while the tier is there",
        );
    }
    steps.join("\n  ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_server_answers_names_a_page_and_its_file() {
        let page = parse("t|5|1663|16384|1|131072").expect("a page");
        assert_eq!((page.why, page.block, page.path.as_str()), (Why::Lost, 131_072, "base/5/16384_fsm.1"));
        assert_eq!(parse("f|0|1664|1262|0|3").map(|page| page.why), Some(Why::NotTaken));
        for broken in ["", "t|5|1663|16384|1", "t|5|1663|16384|1|2|3", "t|5|1663|x|1|2"] {
            assert_eq!(parse(broken), None, "{broken}");
        }
    }

    #[test]
    fn people_see_the_first_of_each_kind_and_how_many_more() {
        assert_eq!(lines(&[]), "");
        let many: Vec<Unsaved> = (0..25).filter_map(|n| parse(&format!("t|5|1663|16384|0|{n}"))).collect();
        let text = lines(&many);
        assert!(text.contains("block 19, in file base/5/16384\n  ... and 5 more"), "{text}");
        assert!(!text.contains("did not take"), "{text}");
        assert!(next_steps(&many).contains("mezzanine_give_up"));
        assert!(!next_steps(&many).contains("make room"));
    }
}
