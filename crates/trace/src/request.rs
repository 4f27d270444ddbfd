//! What a trace consists of.

use std::fmt;

/// What happened.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Op {
    /// The database asked for a page. Formats that do not tell reads from writes have only these.
    Read,
    /// The database changed a page, or wrote it.
    Write,
    /// A page left the database's buffer pool unchanged.
    EvictClean,
    /// A page left the database's buffer pool, newer than its copy on disk.
    EvictDirty,
    /// A transaction was committed.
    Commit,
    /// A checkpoint was completed.
    Checkpoint,
}

impl Op {
    /// All of them; [`index`](Self::index) is the place in here.
    pub const ALL: [Op; 6] =
        [Self::Read, Self::Write, Self::EvictClean, Self::EvictDirty, Self::Commit, Self::Checkpoint];

    /// From 0 to 5.
    pub fn index(self) -> usize {
        self as usize
    }

    /// The name as tables and JSON print it.
    pub fn name(self) -> &'static str {
        ["read", "write", "evict_clean", "evict_dirty", "commit", "checkpoint"][self.index()]
    }

    /// Whether a page left the buffer pool.
    pub fn is_eviction(self) -> bool {
        matches!(self, Self::EvictClean | Self::EvictDirty)
    }

    /// Whether it is a mark, which has no page.
    pub fn is_mark(self) -> bool {
        matches!(self, Self::Commit | Self::Checkpoint)
    }
}

impl fmt::Display for Op {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// One request for one page, or a mark.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Request {
    /// Which page: the same number for the same page throughout the trace. 0, and of no meaning, for a mark.
    pub page: u64,
    /// Nanoseconds since an origin of the trace's own, never less than the request before; `None` if the
    /// format has no time.
    pub time_ns: Option<u64>,
    /// What happened.
    pub op: Op,
    /// Which client of the database (connection, process) caused it, where the trace says so.
    pub client: Option<u32>,
    /// Number of the transaction it belongs to, where the trace says so.
    pub transaction: Option<u64>,
    /// Number of the relation (table, index, file) that the page belongs to, where the trace says so.
    pub relation: Option<u32>,
}

impl Request {
    /// A request for a page of which nothing more is known.
    pub fn of(op: Op, page: u64) -> Request {
        Request { page, time_ns: None, op, client: None, transaction: None, relation: None }
    }
}
