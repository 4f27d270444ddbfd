//! What stands over the header of a file on disk, and the header that belongs there (see `crate::backing`).

use mezzanine_ground::interleave::sync::atomic::{AtomicU64, Ordering};

use crate::config::GUARD_BYTES_MAX;
use crate::shared::plain::{Kept, Quiet, Record, plain, words_of_bytes};

const BYTES: usize = words_of_bytes(GUARD_BYTES_MAX);

plain! {
    /// Guard and head are one sector each at most. Who has both locked has the guard's first.
    pub(crate) struct Guards {
        /// Counts how often a guard was put up or taken away: odd while readers put the head over what they
        /// read. Only who has the file's `guard_moves`, or is about to attach it, changes that.
        guarding: AtomicU64,
        /// What stands on disk instead of the head while the file is not current; empty if nothing does.
        /// Changes only while the file is current.
        guard: Record<Vec<u8>, BYTES>,
        head: Record<Head, { 1 + BYTES }>,
    }
}

/// The true first bytes of a guarded file: the sector that its guard stands in, whole, so that after a crash
/// they come all from the sidecar, as a disk would have kept all of a sector or nothing.
#[derive(Debug, Default)]
pub(crate) struct Head {
    pub(crate) bytes: Vec<u8>,
    /// Newer than the head in the sidecar.
    pub(crate) changed: bool,
}

impl Kept for Head {
    fn load(words: &[Quiet]) -> Self {
        Self { changed: words[0].get() != 0, bytes: Vec::load(&words[1..]) }
    }

    fn store(&self, words: &[Quiet]) {
        words[0].set(u64::from(self.changed));
        self.bytes.store(&words[1..]);
    }
}

impl Guards {
    /// Of a file that is about to be attached, with this guard if it gets one.
    pub(crate) fn begin(&self, guard: Vec<u8>) {
        self.guarding.store(0, Ordering::SeqCst);
        self.head.set(Head { bytes: empty_head(&guard), changed: false });
        self.guard.set(guard);
    }

    /// To be noted before a read: odd while a guard stands.
    pub(crate) fn guarding(&self) -> u64 {
        self.guarding.load(Ordering::SeqCst)
    }

    pub(crate) fn is_up(&self) -> bool {
        is_odd(self.guarding())
    }

    /// From now on readers put the head over what they read, or no longer do. Nobody else changes that
    /// meanwhile.
    pub(crate) fn put_up(&self, up: bool) {
        if self.is_up() != up {
            self.guarding.fetch_add(1, Ordering::SeqCst);
        }
    }

    pub(crate) fn guard(&self) -> Vec<u8> {
        self.guard.get()
    }

    pub(crate) fn set_guard(&self, guard: Vec<u8>) {
        self.guard.set(guard);
    }

    pub(crate) fn head(&self) -> Vec<u8> {
        self.head.get().bytes
    }

    /// The head as it was read from disk, or as a sidecar has it.
    pub(crate) fn set_head(&self, bytes: Vec<u8>) {
        self.head.lock().bytes = bytes;
    }

    /// A first page was written, which ends at byte `end`: its head belongs to the file, and to the sidecar.
    /// What lies past the end is zero in the head too.
    pub(crate) fn head_written(&self, page: &[u8], end: u64) {
        let mut head = self.head.lock();
        let len = head.bytes.len();
        head.bytes.copy_from_slice(&page[..len]);
        head.zero_past(end);
        head.changed = true;
    }

    /// What lies past the end of the file is zero in its head too.
    pub(crate) fn zero_past(&self, end: u64) {
        self.head.lock().zero_past(end);
    }

    /// Whether the head is newer than that in the sidecar.
    pub(crate) fn has_new_head(&self) -> bool {
        self.head.get().changed
    }

    /// The sidecar is about to get the head.
    pub(crate) fn head_is_saved(&self) {
        self.head.lock().changed = false;
    }
}

impl Head {
    fn zero_past(&mut self, end: u64) {
        let keep = usize::try_from(end).unwrap_or(usize::MAX).min(self.bytes.len());
        self.bytes[keep..].fill(0);
    }
}

/// The head of an empty file with this guard.
pub(crate) fn empty_head(guard: &[u8]) -> Vec<u8> {
    vec![0; if guard.is_empty() { 0 } else { GUARD_BYTES_MAX }]
}

/// Whether a count of changes that come in pairs is in the middle of one.
pub(crate) fn is_odd(count: u64) -> bool {
    count % 2 == 1
}
