//! How long a file is, on disk and in truth.

use mezzanine_ground::interleave::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use crate::shared::plain::plain;

plain! {
    /// Lengths in bytes. Those of the file only grow under its shared layout lock, and are set under the
    /// exclusive one; that on disk follows what is done there. What is to be trimmed changes under the file's
    /// `arming` or its exclusive layout lock.
    pub(crate) struct Lengths {
        /// Logical length.
        len: AtomicU64,
        /// Pages are written to disk up to here: the logical length, but while a truncation is not yet
        /// durable the old one.
        write_limit: AtomicU64,
        /// Length on disk; only this volume changes it.
        physical: AtomicU64,
        /// Pages past the end may be in the tier, from before a crash.
        trim: AtomicBool,
        /// So may bytes past the end be in its last page, which could not be read when the others were cut
        /// off.
        tail: AtomicBool,
    }
}

impl Lengths {
    /// Of a file that is about to be attached, and has this length on disk.
    pub(crate) fn begin(&self, len: u64) {
        self.set(len);
        self.disk_has(len);
        self.set_trim(false);
        self.set_tail(false);
    }

    pub(crate) fn len(&self) -> u64 {
        self.len.load(Ordering::Acquire)
    }

    pub(crate) fn write_limit(&self) -> u64 {
        self.write_limit.load(Ordering::Acquire)
    }

    pub(crate) fn physical(&self) -> u64 {
        self.physical.load(Ordering::SeqCst)
    }

    pub(crate) fn set(&self, len: u64) {
        self.truncating(len);
        self.write_limit.store(len, Ordering::Release);
    }

    /// A truncation begins, which is not durable yet: disk still gets what lies past the new end.
    pub(crate) fn truncating(&self, len: u64) {
        self.len.store(len, Ordering::Release);
    }

    /// The file reaches to `end` at least.
    pub(crate) fn grow(&self, end: u64) {
        self.grow_len(end);
        self.grow_write_limit(end);
    }

    pub(crate) fn grow_len(&self, end: u64) {
        self.len.fetch_max(end, Ordering::AcqRel);
    }

    /// Before the length does, where what goes to disk must not lack what the file is about to have.
    pub(crate) fn grow_write_limit(&self, end: u64) {
        self.write_limit.fetch_max(end, Ordering::AcqRel);
    }

    /// The file reaches to `end` on disk at least.
    pub(crate) fn disk_grows(&self, end: u64) {
        self.physical.fetch_max(end, Ordering::SeqCst);
    }

    /// The file is about to end there on disk, unless it ends before.
    pub(crate) fn disk_shrinks(&self, len: u64) {
        self.physical.fetch_min(len, Ordering::SeqCst);
    }

    pub(crate) fn disk_has(&self, len: u64) {
        self.physical.store(len, Ordering::SeqCst);
    }

    pub(crate) fn must_trim(&self) -> bool {
        self.trim.load(Ordering::Acquire)
    }

    pub(crate) fn set_trim(&self, trim: bool) {
        self.trim.store(trim, Ordering::Release);
    }

    pub(crate) fn has_tail(&self) -> bool {
        self.tail.load(Ordering::Acquire)
    }

    pub(crate) fn set_tail(&self, tail: bool) {
        self.tail.store(tail, Ordering::Release);
    }
}
