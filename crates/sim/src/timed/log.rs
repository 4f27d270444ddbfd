//! The database's log: positions, and group commit.
//!
//! 1. One write is under way at a time; whoever asks meanwhile is served by the next, all together.
//! 2. A write makes durable what was appended before it began.

/// The log. Positions count changes of pages.
pub(super) struct Log {
    appended: u64,
    durable: u64,
    /// What the write under way makes durable.
    target: u64,
    is_writing: bool,
    /// Who waits for the write under way, and for the next.
    writing: Vec<u32>,
    waiting: Vec<u32>,
    pub(super) load: LogLoad,
    began: u64,
}

/// What the log has done.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct LogLoad {
    pub(super) writes: u64,
    /// Those who asked for a write.
    pub(super) requests: u64,
    pub(super) busy: u64,
}

impl Log {
    pub(super) fn new() -> Self {
        Self {
            appended: 0,
            durable: 0,
            target: 0,
            is_writing: false,
            writing: Vec::new(),
            waiting: Vec::new(),
            load: LogLoad::default(),
            began: 0,
        }
    }

    /// Appends a change: its position.
    #[inline]
    pub(super) fn append(&mut self) -> u64 {
        self.appended += 1;
        self.appended
    }

    pub(super) fn is_durable(&self, position: u64) -> bool {
        position <= self.durable
    }

    /// Somebody waits until everything that is appended now is durable.
    pub(super) fn ask(&mut self, who: u32) {
        self.load.requests += 1;
        self.waiting.push(who);
    }

    /// Begins a write if one is wanted and none is under way: how many it serves.
    pub(super) fn begin(&mut self, now: u64) -> Option<u64> {
        if self.is_writing || self.waiting.is_empty() {
            return None;
        }
        std::mem::swap(&mut self.writing, &mut self.waiting);
        self.target = self.appended;
        self.is_writing = true;
        self.began = now;
        self.load.writes += 1;
        Some(self.writing.len() as u64)
    }

    /// The write is complete: who waited for it.
    pub(super) fn written(&mut self, now: u64) -> Vec<u32> {
        debug_assert!(self.is_writing, "invariant 1");
        self.is_writing = false;
        self.durable = self.target;
        self.load.busy += now - self.began;
        std::mem::take(&mut self.writing)
    }
}
