//! The pages of a tier at rest that are lost, by the names that their host has for them.

use std::collections::BTreeMap;
use std::path::PathBuf;

use mezzanine_engine::format::{ClusterName, Superblock};
use mezzanine_engine::{PageId, Tier};
use mezzanine_volume::known_files;
use serde::Serialize;

use super::open::Flash;
use super::postgres::{file_of, page_name};

/// Lost pages that are shown to people; a script gets all.
const SHOWN: usize = 20;

/// How pages are named: a volume's by file and block, a cluster's by relation, fork and block.
pub(super) struct Names {
    of_cluster: bool,
    files: BTreeMap<u32, PathBuf>,
    page_bytes: u64,
}

/// A lost page.
#[derive(Debug, Serialize)]
pub(super) struct LostPage {
    /// For people.
    name: String,
    #[serde(flatten)]
    place: Place,
}

#[derive(Debug, Serialize)]
#[serde(untagged)]
enum Place {
    Relation { database: u32, tablespace: u32, relfilenode: u32, fork: u32, block: u32, path: String },
    File { file: u64, path: Option<PathBuf>, block: u64, byte: u64 },
}

impl Names {
    pub(super) fn of(flash: &Flash, superblock: &Superblock) -> Names {
        let of_cluster = ClusterName::of(&superblock.database_uuid).is_some();
        Names {
            of_cluster,
            files: if of_cluster { BTreeMap::new() } else { known_files(&*flash.device) },
            page_bytes: superblock.config.page_size.into(),
        }
    }

    pub(super) fn are_of_cluster(&self) -> bool {
        self.of_cluster
    }

    fn path(&self, id: &PageId) -> Option<&PathBuf> {
        self.files.get(&u32::try_from(id.file()).ok()?)
    }

    /// A page as its host's people call it.
    pub(super) fn page(&self, id: &PageId) -> String {
        if self.of_cluster {
            return page_name(id);
        }
        match self.path(id) {
            Some(path) => format!("block {} of {}", id.block(), path.display()),
            None => format!("block {} of file number {}", id.block(), id.file()),
        }
    }

    fn place(&self, id: &PageId) -> Place {
        if self.of_cluster {
            let [database, tablespace, relfilenode, fork, block] = id.relation_parts();
            return Place::Relation { database, tablespace, relfilenode, fork, block, path: file_of(id) };
        }
        let byte = id.block().saturating_mul(self.page_bytes);
        Place::File { file: id.file(), path: self.path(id).cloned(), block: id.block(), byte }
    }

    /// The pages that the tier knows to be lost.
    pub(super) fn lost(&self, tier: &Tier) -> Vec<LostPage> {
        tier.lost().iter().map(|id| LostPage { name: self.page(id), place: self.place(id) }).collect()
    }
}

/// Lines for people; none if nothing is lost.
pub(super) fn lines(lost: &[LostPage]) -> String {
    if lost.is_empty() {
        return String::new();
    }
    let mut text =
        "\nlost: reads of these fail until they are written anew, dropped or given up by name\n".to_owned();
    for page in lost.iter().take(SHOWN) {
        text.push_str(&format!("  {}\n", page.name));
    }
    if let Some(more) = lost.len().checked_sub(SHOWN).filter(|more| *more > 0) {
        text.push_str(&format!("  ... and {more} more; --json has all\n"));
    }
    text
}
