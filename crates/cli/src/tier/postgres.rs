//! The tier of a PostgreSQL cluster at rest: whose it is, what it holds of each relation, what its loss would
//! cost.
//!
//! It is looked at here and never drained: what a server that was killed has not got on disk is partly in its
//! log, and only redo, which reads the tier, makes pages of that. `mezz pg drain` has the server do it.

use std::collections::BTreeMap;

use mezzanine_engine::format::{ClusterName, RedoPoint, Superblock, TierState};
use mezzanine_engine::{Admission, PageId, SyncMode, Tier};
use mezzanine_report::Table;
use serde::Serialize;

/// Frames looked at in one step of a pass.
const FRAMES_PER_STEP: usize = 4096;
/// Relations that are shown to people; a script gets all.
const RELATIONS_SHOWN: usize = 20;

/// PostgreSQL's tablespaces of every cluster.
const DEFAULT_TABLESPACE: u32 = 1663;
const GLOBAL_TABLESPACE: u32 = 1664;
/// The directory of this major version in every other tablespace.
const TABLESPACE_VERSION: &str = "PG_17_202406281";
/// Names of a relation's files after its number, by fork.
const FORKS: [&str; 4] = ["", "_fsm", "_vm", "_init"];
/// Blocks of one file of a relation: 1 GiB.
pub(super) const SEGMENT_BLOCKS: u32 = 131_072;

/// What a tier says of its cluster.
#[derive(Serialize)]
pub(super) struct Cluster {
    /// As `pg_controldata` shows it.
    system_identifier: u64,
    checksums: bool,
    /// Redo begins there by the control file, or at the pending place if the server died between the two.
    redo: String,
    redo_pending: Option<String>,
    /// Of the log; 0 if no checkpoint has told it.
    timeline: u32,
    /// What the data directory is without this tier.
    files: &'static str,
    /// Most dirty pages first.
    relations: Vec<Relation>,
}

#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
struct Relation {
    database: u32,
    tablespace: u32,
    relfilenode: u32,
    /// Its first file below the data directory.
    path: String,
    pages: u64,
    pages_dirty: u64,
}

/// The cluster that a tier belongs to, if PostgreSQL made it; with what was recovered of its pages.
pub(super) fn cluster(superblock: &Superblock, tier: &Tier) -> Option<Cluster> {
    let name = ClusterName::of(&superblock.database_uuid)?;
    let relations = relations(tier);
    let dirty: u64 = relations.iter().map(|relation| relation.pages_dirty).sum();
    let (confirmed, pending) = (superblock.confirmed, superblock.pending);
    Some(Cluster {
        system_identifier: name.system_identifier,
        checksums: name.checksums,
        redo: place(confirmed),
        redo_pending: (pending != confirmed).then(|| place(pending)),
        timeline: confirmed.timeline,
        files: files(superblock, dirty),
        relations,
    })
}

/// A position in the log as PostgreSQL writes it.
fn place(point: RedoPoint) -> String {
    format!("{:X}/{:X}", point.redo >> 32, point.redo as u32)
}

/// What may be done with the data directory alone.
fn files(superblock: &Superblock, dirty: u64) -> &'static str {
    let config = &superblock.config;
    let never_ahead = config.sync_mode == SyncMode::Through || config.admission == Admission::Clean;
    if superblock.state == TierState::Drained || never_ahead {
        "complete without this tier"
    } else if config.sync_mode == SyncMode::Drained {
        "complete with their log: without this tier the server does a crash recovery"
    } else if superblock.state == TierState::Open {
        "OUT OF DATE without this tier; mezz pg drain completes them"
    } else if dirty > 0 {
        "OUT OF DATE without this tier; mezz pg drain completes them, as does a start and stop"
    } else {
        "complete without this tier"
    }
}

/// Whether the server gets by without a tier that is damaged: the files and the log have everything.
pub(super) fn can_be_redone(superblock: &Superblock) -> bool {
    ClusterName::of(&superblock.database_uuid).is_some() && superblock.config.sync_mode == SyncMode::Drained
}

fn relations(tier: &Tier) -> Vec<Relation> {
    let mut found: BTreeMap<[u32; 3], (u64, u64)> = BTreeMap::new();
    let mut cursor = tier.first_page();
    while let Some(pages) = tier.pages(&mut cursor, FRAMES_PER_STEP) {
        for page in pages {
            let [database, tablespace, relation, ..] = page.id.relation_parts();
            let counts = found.entry([database, tablespace, relation]).or_default();
            counts.0 += 1;
            counts.1 += u64::from(page.flash.dirty);
        }
    }
    let mut relations: Vec<Relation> = found
        .into_iter()
        .map(|([database, tablespace, relfilenode], (pages, pages_dirty))| Relation {
            database,
            tablespace,
            relfilenode,
            path: path(database, tablespace, relfilenode, 0, 0),
            pages,
            pages_dirty,
        })
        .collect();
    relations.sort_by_key(|relation| (u64::MAX - relation.pages_dirty, u64::MAX - relation.pages));
    relations
}

/// The file of a block below the data directory.
fn path(database: u32, tablespace: u32, relation: u32, fork: u32, block: u32) -> String {
    let directory = match tablespace {
        GLOBAL_TABLESPACE => "global".to_owned(),
        DEFAULT_TABLESPACE => format!("base/{database}"),
        _ => format!("pg_tblspc/{tablespace}/{TABLESPACE_VERSION}/{database}"),
    };
    let fork = FORKS.get(fork as usize).map_or_else(|| format!("_{fork}"), |name| (*name).to_owned());
    match block / SEGMENT_BLOCKS {
        0 => format!("{directory}/{relation}{fork}"),
        segment => format!("{directory}/{relation}{fork}.{segment}"),
    }
}

/// The file that a page lies in.
pub(crate) fn file_of(id: &PageId) -> String {
    let [database, tablespace, relation, fork, block] = id.relation_parts();
    path(database, tablespace, relation, fork, block)
}

/// A page as PostgreSQL's messages name it, with the file that it lies in.
pub(crate) fn page_name(id: &PageId) -> String {
    let [.., block] = id.relation_parts();
    format!("block {block}, in file {}", file_of(id))
}

impl Cluster {
    /// Lines for people, beside those of every tier.
    pub(super) fn facts(&self) -> Vec<(&'static str, String)> {
        let checksums = if self.checksums { "with" } else { "without" };
        let pending = self.redo_pending.as_ref().map_or_else(String::new, |place| format!(", or at {place}"));
        vec![
            (
                "PostgreSQL",
                format!("cluster {}, pages {checksums} PostgreSQL's checksums", self.system_identifier),
            ),
            ("redo", format!("begins at {}{pending}, on timeline {}", self.redo, self.timeline)),
            ("files", self.files.to_owned()),
        ]
    }

    /// What the tier holds of each relation, and of each database.
    pub(super) fn table(&self) -> String {
        let mut databases: BTreeMap<u32, (u64, u64)> = BTreeMap::new();
        for relation in &self.relations {
            let counts = databases.entry(relation.database).or_default();
            counts.0 += relation.pages;
            counts.1 += relation.pages_dirty;
        }
        if databases.is_empty() {
            return String::new();
        }
        let mut table = Table::new(["database", "pages", "newer than disk"]);
        for (database, (pages, dirty)) in &databases {
            let name = if *database == 0 { "shared".to_owned() } else { database.to_string() };
            table.row([name, pages.to_string(), dirty.to_string()]);
        }
        let mut text = format!("\n{}\n", table.render());
        let mut table = Table::new(["relation", "pages", "newer than disk"]);
        for relation in self.relations.iter().take(RELATIONS_SHOWN) {
            table.row([relation.path.clone(), relation.pages.to_string(), relation.pages_dirty.to_string()]);
        }
        text.push_str(&table.render());
        if let Some(more) = self.relations.len().checked_sub(RELATIONS_SHOWN).filter(|more| *more > 0) {
            text.push_str(&format!("... and {more} more; --json has all\n"));
        }
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_are_found_in_the_files_that_postgresql_has_for_them() {
        assert_eq!(path(5, 1663, 16_384, 0, 0), "base/5/16384");
        assert_eq!(path(5, 1663, 16_384, 1, 3), "base/5/16384_fsm");
        assert_eq!(path(0, 1664, 1262, 2, 0), "global/1262_vm");
        assert_eq!(path(5, 16_400, 16_401, 0, 131_071), "pg_tblspc/16400/PG_17_202406281/5/16401");
        assert_eq!(path(5, 1663, 16_384, 0, 131_072), "base/5/16384.1");
    }
}
