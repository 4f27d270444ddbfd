//! The results file: lines of JSON, added to as results come.
//!
//! A process that was killed may leave a line without its end; it is dropped when the file is opened again.
//! Any other line that is no result means that this is another file, which is not added to.

use std::collections::{BTreeMap, HashMap};
use std::fs::{File, OpenOptions};
use std::io::{Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};

use mezzanine_sim::policy::Counts;
use rustix::fs::{FlockOperation, flock};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use super::super::parameters;
use super::points::Point;
use super::traces::Trace;
use crate::failure::Failure;

/// A line.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Row {
    pub(super) key: String,
    pub(super) trace: String,
    /// What the requests were, whatever the file is called.
    identity: String,
    distinct_pages: u64,
    pub(super) design: String,
    pub(super) frames: u64,
    parameters: BTreeMap<String, u64>,
    pub(super) requests: u64,
    hits: u64,
    pub(super) misses: u64,
    reads: u64,
    read_misses: u64,
    writes: u64,
    write_misses: u64,
    pub(super) miss_ratio: f64,
}

impl Row {
    pub(super) fn new(point: &Point, trace: &Trace, counts: Counts) -> Row {
        Row {
            key: point.key.clone(),
            trace: trace.source.name(),
            identity: trace.identity.clone(),
            distinct_pages: trace.pages,
            design: point.setting.design().name().to_owned(),
            frames: point.setting.frames(),
            parameters: parameters::as_map(&point.setting),
            requests: counts.requests,
            hits: counts.hits,
            misses: counts.misses,
            reads: counts.reads,
            read_misses: counts.read_misses,
            writes: counts.writes,
            write_misses: counts.write_misses,
            miss_ratio: counts.miss_ratio(),
        }
    }

    /// Names and values, for people.
    pub(super) fn parameters_text(&self) -> String {
        let parameters: Vec<_> =
            self.parameters.iter().map(|(name, value)| format!("{name} {value}")).collect();
        if parameters.is_empty() { "none".to_owned() } else { parameters.join(", ") }
    }
}

/// A result, which knows its point.
pub(super) trait Line: Serialize + DeserializeOwned {
    fn key(&self) -> &str;

    /// What is as exact again as it was before it became text.
    fn restored(self) -> Self {
        self
    }
}

impl Line for Row {
    fn key(&self) -> &str {
        &self.key
    }

    fn restored(self) -> Self {
        Row { miss_ratio: self.misses as f64 / self.requests.max(1) as f64, ..self }
    }
}

/// The file, and what is in it.
pub(super) struct Results<R> {
    path: PathBuf,
    file: File,
    rows: HashMap<String, R>,
}

impl<R: Line> Results<R> {
    /// Opens the file, or makes it, for this process alone.
    pub(super) fn open(path: &Path) -> Result<Results<R>, Failure> {
        let refused = |reason: String| Failure::refused(path.display(), reason);
        let mut file = OpenOptions::new()
            .read(true)
            .append(true)
            .create(true)
            .open(path)
            .map_err(|e| refused(format!("it cannot be opened: {e}")))?;
        flock(&file, FlockOperation::NonBlockingLockExclusive).map_err(|_| {
            refused("another sweep is writing to it".to_owned()).next("wait for that, or name another file")
        })?;
        let mut bytes = Vec::new();
        file.read_to_end(&mut bytes).map_err(|e| refused(e.to_string()))?;
        let whole = bytes.iter().rposition(|byte| *byte == b'\n').map_or(0, |last| last + 1);
        let mut rows = HashMap::new();
        for (number, line) in bytes[..whole].split_inclusive(|byte| *byte == b'\n').enumerate() {
            let row: R = serde_json::from_slice(line).map_err(|e| {
                refused(format!("line {}: this is no result of a sweep ({e})", number + 1))
                    .next("name another file for the results; nothing was changed")
            })?;
            rows.entry(row.key().to_owned()).or_insert(row.restored());
        }
        let torn = &bytes[whole..];
        if whole == 0 && !torn.is_empty() && !torn.starts_with(b"{\"key\":") {
            return Err(refused("this is no file of results".to_owned())
                .next("name another file for the results; nothing was changed"));
        }
        if !torn.is_empty() {
            file.set_len(whole as u64)
                .and_then(|()| file.seek(SeekFrom::End(0)))
                .map_err(|e| refused(format!("a torn line cannot be removed: {e}")))?;
        }
        Ok(Results { path: path.to_owned(), file, rows })
    }

    pub(super) fn has(&self, key: &str) -> bool {
        self.rows.contains_key(key)
    }

    pub(super) fn of(&self, key: &str) -> Option<&R> {
        self.rows.get(key)
    }

    /// Adds lines.
    pub(super) fn add(&mut self, rows: Vec<R>) -> Result<(), Failure> {
        for row in rows {
            let refused = |reason: String| {
                Failure::refused(self.path.display(), format!("a result cannot be written: {reason}"))
                    .next("the same command goes on from here")
            };
            let mut line = serde_json::to_vec(&row).map_err(|e| refused(e.to_string()))?;
            line.push(b'\n');
            self.file.write_all(&line).map_err(|e| refused(e.to_string()))?;
            self.rows.insert(row.key().to_owned(), row);
        }
        Ok(())
    }

    /// Waits until everything is on disk.
    pub(super) fn complete(&self) -> Result<(), Failure> {
        self.file.sync_all().map_err(|e| Failure::refused(self.path.display(), e))
    }
}
