//! How PostgreSQL's relations lie in a data directory: in which directories, and what their files' names say.

use std::fs;
use std::path::Path;

/// How the server's relations lie in its data directory.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RelationFiles {
    /// Blocks of one file of a fork; the next ones lie in the next file.
    pub segment_blocks: u32,
    /// The directory within a tablespace that this release of the server uses.
    pub tablespace_directory: String,
}

/// PostgreSQL's numbers of the tablespaces that are no directory of their own.
const DEFAULT_TABLESPACE: u32 = 1663;
const GLOBAL_TABLESPACE: u32 = 1664;

/// The suffixes of forks, by their numbers; the main one has none.
const FORKS: [(&str, u32); 3] = [("fsm", 1), ("vm", 2), ("init", 3)];

/// A directory with files of relations.
pub(crate) struct Directory {
    /// Within the data directory.
    pub(crate) path: String,
    pub(crate) tablespace: u32,
    pub(crate) database: u32,
}

impl RelationFiles {
    /// The directories of relations that there are in a data directory.
    pub(crate) fn directories(&self, data: &Path) -> Vec<Directory> {
        let databases = |path: &str, tablespace| {
            let of = |database| Directory { path: format!("{path}/{database}"), tablespace, database };
            numbered(&data.join(path)).into_iter().map(of).collect::<Vec<_>>()
        };
        let mut found = databases("base", DEFAULT_TABLESPACE);
        found.push(Directory { path: "global".into(), tablespace: GLOBAL_TABLESPACE, database: 0 });
        for tablespace in numbered(&data.join("pg_tblspc")) {
            let path = format!("pg_tblspc/{tablespace}/{}", self.tablespace_directory);
            found.extend(databases(&path, tablespace));
        }
        found
    }
}

/// Directories whose names are numbers.
fn numbered(directory: &Path) -> Vec<u32> {
    let Ok(entries) = fs::read_dir(directory) else { return Vec::new() };
    entries.flatten().filter_map(|entry| number(entry.file_name().to_str()?)).collect()
}

/// A number as PostgreSQL writes it.
fn number(text: &str) -> Option<u32> {
    let plain = text.bytes().all(|byte| byte.is_ascii_digit()) && !text.starts_with('0');
    text.parse().ok().filter(|_| plain)
}

/// Relation, fork and number of the file that has this name; `None` if it is none of a relation.
pub(crate) fn parse_name(name: &str) -> Option<(u32, u32, u32)> {
    let (fork, segment) = match name.split_once('.') {
        Some((fork, segment)) => (fork, number(segment)?),
        None => (name, 0),
    };
    let (relation, fork) = match fork.split_once('_') {
        Some((relation, suffix)) => (relation, FORKS.iter().find(|(name, _)| *name == suffix)?.1),
        None => (fork, 0),
    };
    Some((number(relation)?, fork, segment))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_files() {
        let known = [
            ("16384", Some((16384, 0, 0))),
            ("16384.1", Some((16384, 0, 1))),
            ("16384_fsm", Some((16384, 1, 0))),
            ("16384_vm.12", Some((16384, 2, 12))),
            ("16384_init", Some((16384, 3, 0))),
        ];
        let others =
            ["t3_16384", "pg_filenode.map", "PG_VERSION", "016384", "16384.", "16384_", "16384.x", ""];
        for (name, parsed) in known.into_iter().chain(others.map(|name| (name, None))) {
            assert_eq!(parse_name(name), parsed, "{name}");
        }
    }
}
