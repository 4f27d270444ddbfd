//! The handle of one file.

use std::path::Path;
use std::sync::Arc;

use mezzanine_engine::planted::{self, Bug};
use mezzanine_trace::Op;

use crate::backing::FileInner;
use crate::core::{Local, lock, shared};
use crate::error::{VolumeError, VolumeErrorKind};
use crate::statistics::count;

/// A file of a volume. Clones are handles of the same file; all methods may be called from any thread.
#[derive(Clone)]
pub struct VolumeFile {
    inner: Arc<FileInner>,
    local: Arc<Local>,
    /// Whose handle it is, in a recording.
    client: Option<u32>,
}

impl VolumeFile {
    pub(crate) fn new(inner: Arc<FileInner>, local: Arc<Local>) -> Self {
        Self { inner, local, client: None }
    }

    /// A handle of the same file for one client (a connection, a user), which a recording then names.
    #[must_use]
    pub fn for_client(&self, client: u32) -> Self {
        Self { client: Some(client), ..self.clone() }
    }

    /// The path under which it was attached.
    pub fn path(&self) -> &Path {
        &self.inner.path
    }

    /// Length in bytes.
    pub fn len(&self) -> u64 {
        self.inner.len()
    }

    /// Bytes of a page of the tier, in which a file is cached and brought to disk.
    pub fn page_size(&self) -> u64 {
        self.inner.page_size
    }

    /// Whether the file has no bytes.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Fills `buf` from `offset`. A page is read as it was before or after any write of it that goes on
    /// meanwhile.
    ///
    /// # Errors
    /// `ShortRead` if the file ends before `buf` is full: the bytes that it has were read, the rest of `buf`
    /// is zero. `LostPage` if the newest version of a page cannot be read; `Io`, also while the flash
    /// device that has it answers no read at all; `Closed`.
    pub fn read_at(&self, buf: &mut [u8], offset: u64) -> Result<(), VolumeError> {
        self.local.health.check_readable("read", &self.inner.name)?;
        count(&self.local.counters().reads, 1);
        self.local.start_if_worthwhile();
        let layout = shared(&self.inner.layout);
        let available = self.len().saturating_sub(offset).min(buf.len() as u64) as usize;
        let (bytes, beyond) = buf.split_at_mut(available);
        self.local.read_range(layout.as_deref(), &self.inner, bytes, offset)?;
        if self.local.recording.is_on() && available > 0 {
            self.local.recording.pages(Op::Read, &self.inner, self.client, offset, available as u64);
        }
        if beyond.is_empty() {
            return Ok(());
        }
        beyond.fill(0);
        let reason = format!("the file ends {available} bytes further on, of {} bytes asked for", buf.len());
        Err(VolumeError::new(VolumeErrorKind::ShortRead { available }, "read", &self.inner.name, reason)
            .at(offset))
    }

    /// Writes all of `buf` at `offset`; the file grows as needed, and a gap reads as zeros.
    ///
    /// # Errors
    /// `ReadOnly`, `NoSpace`, `Io`, `FileNotAttached`, `Closed`. After an error any part of the range may be
    /// old or new.
    pub fn write_at(&self, buf: &[u8], offset: u64) -> Result<(), VolumeError> {
        count(&self.local.counters().writes, 1);
        if buf.is_empty() {
            return Ok(());
        }
        self.local.write_range(&self.inner, buf, offset)?;
        if self.local.recording.is_on() {
            self.local.recording.pages(Op::Write, &self.inner, self.client, offset, buf.len() as u64);
        }
        Ok(())
    }

    /// Whether the file can be changed as far as the other files of the volume are concerned. For hosts that
    /// cannot go back once they have begun a change, as a database cannot that has a journal of it: what
    /// would be refused then is refused here.
    ///
    /// # Errors
    /// `FileNotAttached`, `ReadOnly`, `Closed`, or the failure to start the opening; nothing of the file was
    /// changed.
    pub fn may_change(&self) -> Result<(), VolumeError> {
        self.local.may_change(&self.inner)
    }

    /// Makes every completed change of this file durable, perhaps of others too. Does no I/O if there was
    /// none.
    ///
    /// # Errors
    /// The failure; nothing that was written since the last successful sync may be taken for durable, now or
    /// later.
    pub fn sync(&self) -> Result<(), VolumeError> {
        self.sync_as(Op::Commit)
    }

    /// Hands every completed change of this file to the operating system, in a form that the next opening
    /// finds if the process is killed; perhaps of other files too. Nothing is flushed: if power fails, what
    /// was written since the last sync may be lost in part. For databases that do not sync, and yet survive a
    /// killed process.
    ///
    /// # Errors
    /// The failure.
    pub fn hand_over(&self) -> Result<(), VolumeError> {
        self.local.hand_over(&self.inner)
    }

    /// As [`Self::sync`], for a database that keeps a log elsewhere and now brings this file up to it: a
    /// recording has a checkpoint here and not a commit.
    ///
    /// # Errors
    /// As [`Self::sync`].
    pub fn checkpoint(&self) -> Result<(), VolumeError> {
        self.sync_as(Op::Checkpoint)
    }

    fn sync_as(&self, mark: Op) -> Result<(), VolumeError> {
        if self.local.sync_file(&self.inner)? {
            self.local.recording.mark(mark, self.client);
        }
        Ok(())
    }

    /// Whether the bytes on disk begin with the guard, because the newest ones may be elsewhere.
    pub fn is_guarded(&self) -> bool {
        self.inner.is_guarded()
    }

    /// Looks at the beginning of the file on disk, past the volume, while no guard is being put there or
    /// taken away: that takes a sync, and no device says when in that it happens. Returns what `look` does,
    /// and whether the guard stands there.
    pub fn look_at_head<T>(&self, look: impl FnOnce() -> T) -> (T, bool) {
        let _rests = (!planted::is(Bug::MovingGuardSeen)).then(|| lock(&self.inner.guard_moves));
        (look(), self.is_guarded())
    }

    /// Tells the volume that another program may have changed the file on disk. The tier is closed without a
    /// word for it then: at the next opening nothing that it knows of the file is believed.
    pub fn changed_by_others(&self) {
        self.inner.shared.marks.changed_by_others();
    }

    /// Tells a recording that a transaction was committed, in a log that is no file of the volume. Nothing
    /// else happens.
    pub fn committed(&self) {
        self.local.recording.mark(Op::Commit, self.client);
    }

    /// Turns a range into zeros and gives its space back where the disk can. Durable on return.
    ///
    /// # Errors
    /// As for writing and syncing.
    pub fn discard(&self, offset: u64, len: u64) -> Result<(), VolumeError> {
        self.local.discard(&self.inner, offset, len)
    }

    /// Gives up the whole pages in a range: what is read there until they are written anew may be what they
    /// held last, or what they held at any time before. The disk is not touched, so this is cheap where
    /// [`Self::discard`] is not. It waits for no device, and after a crash the pages may hold the same.
    ///
    /// # Errors
    /// As for writing.
    pub fn abandon(&self, offset: u64, len: u64) -> Result<(), VolumeError> {
        self.local.abandon(&self.inner, offset, len)
    }

    /// Gives up the lost page at `offset`: goes on without what it held. Its place then has a page that no
    /// database takes for one of its own (PostgreSQL calls its header invalid, SQLite the database
    /// malformed): never zeros, never the older version that disk may have. What the page held is gone for
    /// good then; so nothing but this call, by name, does it. Durable on return. Before it, a page may be
    /// saved by writing all of it anew.
    ///
    /// # Errors
    /// `NotLost` if a read brings the page, or the file has none at this offset, and `Io` if the flash device
    /// answers nothing just now: nothing was changed. And as for writing and syncing.
    pub fn give_up(&self, offset: u64) -> Result<(), VolumeError> {
        self.local.give_up(&self.inner, offset)?;
        if self.local.recording.is_on() {
            self.local.recording.pages(Op::Write, &self.inner, self.client, offset, 1);
        }
        Ok(())
    }

    /// Sets the length in bytes. What lies past a shorter end is gone: a later extension reads zeros there.
    /// Shortening is durable on return, lengthening with the next sync.
    ///
    /// # Errors
    /// As for writing and syncing.
    pub fn set_len(&self, len: u64) -> Result<(), VolumeError> {
        self.local.set_len(&self.inner, len)
    }
}

impl std::fmt::Debug for VolumeFile {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("VolumeFile").field("path", &self.inner.path).finish_non_exhaustive()
    }
}
