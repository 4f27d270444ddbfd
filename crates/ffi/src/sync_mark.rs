//! Sync marks: what tells a data directory of an earlier moment of a session from the newest.
//!
//! Where flash is part of the database, stage-out brings pages to disk which the log has no more, and flash
//! forgets them: it says that they are clean, that they are gone, or that its front has passed them. A
//! directory from before that lacks them, and session and redo point may be the same. So flash is about to
//! count on something that only the newest directory has whenever a sync of the disk has covered what the
//! tier wrote there. Then, in this order:
//! 1. the marker takes the next number, durably ([`Host::sync_disk`]);
//! 2. the tier's host metadata has it: every group that is closed from then on carries it;
//! 3. the engine is told that the disk was synced. A group states a front, a tombstone or a clean page
//!    together with the host metadata of when it was closed, or a later one; metadata segments and
//!    superblocks state only what a durable group has stated.
//!
//! Host metadata that is ahead of the marker has seen a newer directory. A marker that is ahead of the host
//! metadata is what a crash between the two leaves, or flash of an earlier moment, from which redo goes on.
//!
//! No number is given twice in a session: a failure ends it, and the next one, which has another nonce
//! ([`crate::session`]), goes on from what the marker has.
//!
//! With sync mode `drained` everything from before the redo point is on disk, also in a directory of then,
//! and with `through` flash counts for nothing after a crash: neither is marked.

use mezzanine_engine::planted::{self, Bug};
use mezzanine_engine::{HOST_METADATA_BYTES, Recovered, SyncMode, Tier};
use mezzanine_ground::fields::{Reader, Visitor, Writer};

use crate::host::Host;
use crate::marker::Marker;
use crate::message::Refusal;

/// What a server's host metadata has.
fn show(visitor: &mut impl Visitor, mark: &mut u64) {
    visitor.field(0, mark);
}

fn mark_in(host_metadata: &[u8; HOST_METADATA_BYTES]) -> u64 {
    let mut mark = 0;
    show(&mut Reader(host_metadata), &mut mark);
    mark
}

fn host_metadata_with(mut mark: u64) -> [u8; HOST_METADATA_BYTES] {
    let mut host_metadata = [0; HOST_METADATA_BYTES];
    show(&mut Writer::new(&mut host_metadata), &mut mark);
    host_metadata
}

/// The mark that a tier in use was given last.
pub(crate) fn mark_of(tier: &Tier) -> u64 {
    mark_in(&tier.host_metadata())
}

/// Why the data directory of this marker is older than what was recovered from flash; `None` if nothing
/// says so.
pub(crate) fn is_ahead(recovered: &Recovered, marker: Option<&Marker>) -> Option<String> {
    let (flash, directory) = (mark_in(&recovered.host_metadata), marker.map_or(0, Marker::mark));
    (flash > directory && !planted::is(Bug::SyncMarkUnchecked)).then(|| {
        format!(
            "the data directory is the older one, for the disk was synced {} times since then for pages of the tier",
            flash - directory
        )
    })
}

/// Has the groups of a tier that begins a session carry the mark that its marker has, where marks count.
pub(crate) fn go_on(tier: &Tier, mark: u64) {
    if tier.sync_mode() == SyncMode::Durable && mark_of(tier) != mark {
        tier.set_host_metadata(&host_metadata_with(mark));
    }
}

impl Host {
    /// Makes durable whatever was written to disk for the tier, and then that the data directory has it. Only
    /// after that may the tier be told. False if that failed; the reason was logged.
    pub(crate) fn sync_disk(&self) -> bool {
        if !self.server.sync_pages() {
            return false;
        }
        if planted::is(Bug::SyncUnmarked) {
            return true;
        }
        match self.mark_synced() {
            Ok(()) => true,
            Err(refusal) => {
                self.server.flash_failed(&refusal.to_string());
                false
            }
        }
    }

    fn mark_synced(&self) -> Result<(), Refusal> {
        let tier = self.tier();
        if tier.sync_mode() != SyncMode::Durable || self.is_provably_clean() {
            return Ok(());
        }
        // One process at a time, from the number to the host metadata: the marker must not go back.
        let _alone = self.lock_superblock();
        if tier.failure().is_some() {
            // Flash is told nothing any more, and the marker may say by now that the tier was given up.
            return Ok(());
        }
        let next = mark_of(tier) + 1;
        self.marker_of(&self.superblock(), true).marked(next).write(&*self.marker)?;
        tier.set_host_metadata(&host_metadata_with(next));
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use mezzanine_ground::fields::Offsets;
    use mezzanine_ground::fields::table::assert_is_as_listed;

    use super::*;

    #[test]
    fn the_mark_lies_where_the_format_says() {
        let host_metadata = host_metadata_with(0x1112_1314_1516_1718);
        assert_eq!(host_metadata[..8], [0x18, 0x17, 0x16, 0x15, 0x14, 0x13, 0x12, 0x11]);
        assert_eq!(host_metadata[8..], [0; HOST_METADATA_BYTES - 8]);
        assert_eq!(mark_in(&host_metadata), 0x1112_1314_1516_1718);
        let (document, mut offsets) = (include_str!("../../../docs/format.md"), Offsets::default());
        show(&mut offsets, &mut 0);
        assert_is_as_listed(document, "offset in a server's host metadata", &offsets.0, &[]);
    }
}
