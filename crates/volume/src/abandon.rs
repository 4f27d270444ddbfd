//! Giving up pages whose contents nobody needs any more, as block devices do (TRIM).
//!
//! The tier forgets them, and that is all: what it held of them does not go to disk, and takes no frames. The
//! disk keeps what it has, which may be older, and so does flash until the next sync makes it durable that
//! they are forgotten. Whoever needs zeros there, or needs them to stay, discards the range (`truncate`).

use mezzanine_engine::IdRange;

use crate::backing::FileInner;
use crate::core::{Local, exclusive, shared};
use crate::error::VolumeError;
use crate::health::Route;

impl Local {
    /// See [`crate::VolumeFile::abandon`].
    pub(crate) fn abandon(&self, file: &FileInner, offset: u64, len: u64) -> Result<(), VolumeError> {
        let size = file.page_size;
        let end = offset.saturating_add(len).min(file.len());
        // The last page of a file may be shorter.
        let last = if end == file.len() { end.div_ceil(size) } else { end / size };
        let first = offset.div_ceil(size);
        if first >= last {
            return Ok(());
        }
        self.ensure_started()?;
        let _changing = shared(&self.changing);
        self.prepare(file, "discard")?;
        // Nobody reads or writes one of them meanwhile: a part of a page that is being written stays with the
        // rest of it.
        let layout = exclusive(&file.layout);
        if let (Route::Tier, Some(host)) = (self.health.route("discard", &file.name)?, layout.as_deref()) {
            let range = IdRange::blocks(u64::from(file.number), first, last - first);
            self.with_room(host, || host.tier.invalidate_range(&range))?;
            if !host.disk_first() {
                host.changed();
            }
        }
        Ok(())
    }
}
