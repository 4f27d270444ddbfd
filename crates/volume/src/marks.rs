//! A file's sidecar, and the marks in it: what tells a file and a sidecar that were put back together from
//! those that the tier was last used with.
//!
//! A file is *marked* whenever the tier is about to count on something that only the newest file has: the
//! sidecar takes the next number, durably, and then the table of files in the tier's host metadata, before
//! any group that depends on it is composed. So a table that is ahead of the sidecar has seen a newer file
//! ([`crate::identity`]), and a sidecar that is ahead of the table is what a crash between the two leaves.
//! Marked is a file
//! - when the disk has, synced, what stage-out wrote: before flash may say that the pages are clean, or state
//!   a front past them (`sync_staged_out`);
//! - when its sidecar says `dirty`: before the tier takes the first page whose only copy it is (`arm`);
//! - before the tombstone of a discard, and when its disk has been truncated (`truncate`);
//! - when it is current on disk again: before writes go past the tier (`declare_current`).
//!
//! Marks are counted from the start of the opening on, or from the attachment after it, and so are ordered by
//! epoch first. Before the start a sidecar goes on with the epoch that it has, and its marks. Where writes go
//! to disk first the tier counts for nothing after a crash, and nothing is marked.
//!
//! A sidecar also says below which number the tier's groups were durable when it was written: a flash device
//! that lacks them is an older copy, though it may be of the same opening.

use std::ops::Deref;

use mezzanine_engine::planted::{self, Bug};

use crate::backing::FileInner;
use crate::core::{Local, TierHost, lock};
use crate::error::{VolumeError, VolumeErrorKind};
use crate::host_metadata::MARK_MAX;
use crate::sidecar::{Sidecar, SidecarState, SidecarStore, read_sidecar};

/// Where a sidecar belongs.
pub(crate) enum Place<'f> {
    /// Where the file was opened.
    Beside(&'f dyn SidecarStore),
    /// Where the file has been moved to.
    Moved(Box<dyn SidecarStore>),
}

impl<'f> Deref for Place<'f> {
    type Target = dyn SidecarStore + 'f;

    fn deref(&self) -> &Self::Target {
        match self {
            Self::Beside(store) => *store,
            Self::Moved(store) => &**store,
        }
    }
}

impl FileInner {
    /// The newest mark that the sidecar has, or may have: a replacement that failed may be in place.
    pub(crate) fn mark(&self) -> u64 {
        self.shared.marks.mark().min(MARK_MAX)
    }
}

impl Local {
    /// Marks a file: replaces its sidecar, which says `state` from now on, with the next mark, and then tells
    /// the tier. What depends on it is given to the tier after that.
    pub(crate) fn mark(
        &self,
        host: &TierHost,
        file: &FileInner,
        state: SidecarState,
    ) -> Result<(), VolumeError> {
        // Also one whose replacement fails is not given again.
        file.shared.marks.next_mark();
        let mark = file.mark();
        self.write_sidecar(host, file, state)?;
        let mut state = host.table();
        if let Some(entry) = state.table.get_mut(file.number) {
            entry.mark = entry.mark.max(mark);
        }
        self.tell_table(host, &mut state);
        Ok(())
    }

    /// The sidecar of a file as it should be now.
    pub(crate) fn sidecar_of(&self, host: &TierHost, file: &FileInner, state: SidecarState) -> Sidecar {
        // One that names an opening whose epoch is not durable would be ahead of its tier.
        let found = file.shared.marks.opening();
        let (epoch, nonce) =
            if host.has_begun() { (host.epoch, host.nonce) } else { (found.epoch, found.nonce) };
        Sidecar {
            state,
            volume_uuid: host.database_uuid,
            tier_uuid: host.tier.uuid(),
            tier_path: host.flash_name.clone(),
            epoch,
            nonce,
            mark: file.mark(),
            groups: host.tier.durable_groups().number(),
            file: file.number,
            former: file.shared.marks.former(),
            distrusted: file.shared.marks.distrusted(),
            sync_mode: host.tier.sync_mode(),
            page_size: host.page_size() as u32,
            length: file.len(),
            discarding: file.shared.marks.discarding(),
            written: file.shared.stage_out.named(),
            guard: file.shared.guards.guard(),
            head: file.shared.guards.head(),
            fingerprint: Vec::new(),
            reason: String::new(),
        }
    }

    /// The sidecar of a file that is current on disk, its head in place.
    pub(crate) fn plain_sidecar(&self, host: &TierHost, file: &FileInner) -> Sidecar {
        let current = self.sidecar_of(host, file, SidecarState::Current);
        Sidecar { written: Vec::new(), guard: Vec::new(), head: Vec::new(), ..current }
    }

    /// The sidecar of a file that has left the tier, current on disk: the tier is not to be believed for it.
    pub(crate) fn detached_sidecar(&self, host: &TierHost, file: &FileInner, reason: &str) -> Sidecar {
        let plain = self.plain_sidecar(host, file);
        Sidecar { state: SidecarState::Detached, reason: reason.to_owned(), ..plain }
    }

    /// Replaces the sidecar of a file, durably.
    pub(crate) fn write_sidecar(
        &self,
        host: &TierHost,
        file: &FileInner,
        state: SidecarState,
    ) -> Result<(), VolumeError> {
        self.replace_sidecar(file, || self.sidecar_of(host, file, state))
    }

    /// Replaces the sidecar of a file by what `make` makes, durably.
    ///
    /// One at a time, from the making to the end: several threads do this, and one that was held up must not
    /// put what another has changed since back to what it was.
    pub(crate) fn replace_sidecar(
        &self,
        file: &FileInner,
        make: impl FnOnce() -> Sidecar,
    ) -> Result<(), VolumeError> {
        let failed = |error| VolumeError::from_io("write the sidecar", file.sidecar.describe(), error);
        let alone = (!planted::is(Bug::SidecarsAtOnce)).then(|| lock(&file.replacing));
        let sidecar = make();
        let replaced = self
            .place_of_sidecar(file, &sidecar)
            .and_then(|place| place.map_or(Ok(()), |place| place.replace(&sidecar.encode()).map_err(failed)));
        drop(alone);
        replaced
    }

    /// Where this sidecar belongs; nowhere if its file was removed. Where another file has taken the file's
    /// place, that may have brought its own. With a folder that was renamed the sidecar has moved as well:
    /// what is said of it in the tier from now on is to be found there.
    ///
    /// # Errors
    /// The file was moved to where another one's sidecar stands.
    pub(crate) fn place_of_sidecar<'f>(
        &self,
        file: &'f FileInner,
        ours: &Sidecar,
    ) -> Result<Option<Place<'f>>, VolumeError> {
        let is_ours = |there: &Sidecar| (there.tier_uuid, there.file) == (ours.tier_uuid, ours.file);
        let is_found =
            |store: &dyn SidecarStore| matches!(read_sidecar(store), Ok(Some(Ok(there))) if is_ours(&there));
        if file.sidecar.is_beside_its_file() || is_found(&*file.sidecar) {
            return Ok(Some(Place::Beside(&*file.sidecar)));
        }
        let Some(moved) = file.sidecar.where_moved() else { return Ok(None) };
        match read_sidecar(&*moved) {
            Ok(None) => Ok(Some(Place::Moved(moved))),
            _ if is_found(&*moved) => Ok(Some(Place::Moved(moved))),
            _ => Err(VolumeError::new(
                VolumeErrorKind::ChangedFile,
                "write the sidecar of",
                &file.name,
                format!("it was moved to where the sidecar of another file stands, {}", moved.describe()),
            )
            .advise("move that sidecar away, or the file back")),
        }
    }
}
