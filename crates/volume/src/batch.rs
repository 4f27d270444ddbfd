//! What stage-out has written to a file's disk last: the blocks and their checksums, for the sidecar.
//!
//! A sidecar that says `dirty` names some pages of the last batches that were synced. When the file is
//! attached they are looked at: on the disk that the file was last used with each is as it was written then,
//! unless the tier holds it in a newer version that is still to be staged out and may have been torn. So a
//! disk that was put back alone is told from the newest one, also a block device, beside which nothing is
//! written at all.
//!
//! Stage-out also writes pages of a file that is current: after a close in order the tier may find pages that
//! a drain had brought to disk, and flash does not know it. Writes go past the tier to such a file, and its
//! guard is put up, without a word to this list. So it begins empty whenever the sidecar comes to say `dirty`
//! (`arm`); from then on whoever changes the disk in another way has it forget what was there.

use std::collections::VecDeque;

use mezzanine_engine::planted::{self, Bug};

use crate::shared::plain::{Kept, Quiet};

/// Pages that a sidecar names.
const NAMED_MAX: usize = 32;

/// A block and the CRC-32C of the page on disk, filled up with zeros.
pub(crate) type Written = (u64, u32);

/// What was written, of one file.
#[derive(Debug, Default)]
pub(crate) struct Batch {
    /// Not covered by a sync yet.
    since: VecDeque<Written>,
    /// What the sync under way will cover.
    syncing: Vec<Written>,
    /// One is under way.
    under_way: bool,
    /// Covered by a sync, the last ones first.
    synced: Vec<Written>,
}

/// Words of a list: how many it has, then a block and a checksum for each.
const LIST_WORDS: usize = 1 + 2 * NAMED_MAX;

/// Words that a batch is kept in: whether a sync is under way, and three lists.
pub(crate) const BATCH_WORDS: usize = 1 + 3 * LIST_WORDS;

fn load_list<L: FromIterator<Written>>(words: &[Quiet]) -> L {
    let count = words[0].get() as usize;
    words[1..=2 * count].chunks_exact(2).map(|pair| (pair[0].get(), pair[1].get() as u32)).collect()
}

fn store_list<'w>(list: impl ExactSizeIterator<Item = &'w Written>, words: &[Quiet]) {
    assert!(list.len() <= NAMED_MAX, "no list of a batch has more pages than a sidecar names");
    words[0].set(list.len() as u64);
    for ((block, checksum), pair) in list.zip(words[1..].chunks_exact(2)) {
        pair[0].set(*block);
        pair[1].set(u64::from(*checksum));
    }
}

impl Kept for Batch {
    fn load(words: &[Quiet]) -> Self {
        let mut lists = words[1..].chunks_exact(LIST_WORDS);
        let mut next = || lists.next().unwrap_or_default();
        let (since, syncing, synced) = (next(), next(), next());
        Self {
            under_way: words[0].get() != 0,
            since: load_list(since),
            syncing: load_list(syncing),
            synced: load_list(synced),
        }
    }

    fn store(&self, words: &[Quiet]) {
        words[0].set(u64::from(self.under_way));
        let mut lists = words[1..].chunks_exact(LIST_WORDS);
        let mut next = || lists.next().unwrap_or_default();
        store_list(self.since.iter(), next());
        store_list(self.syncing.iter(), next());
        store_list(self.synced.iter(), next());
    }
}

/// The checksum of a page of which so much was written, and zeros stand behind that.
pub(crate) fn checksum_of(kept: &[u8], page_size: usize) -> u32 {
    let missing = vec![0; page_size - kept.len()];
    crc32c::crc32c_append(crc32c::crc32c(kept), &missing)
}

impl Batch {
    /// A page was written. Only so many of a batch are noted, the first ones. Of another what was noted
    /// before is no longer right once this is synced; until then the tier holds it in a newer version.
    pub(crate) fn wrote(&mut self, block: u64, checksum: u32) {
        let known = self.since.iter().position(|(known, _)| *known == block);
        if known.is_none() && self.since.len() == NAMED_MAX {
            self.syncing.retain(|(noted, _)| *noted != block);
            self.synced.retain(|(noted, _)| *noted != block);
            return;
        }
        match known {
            Some(at) => self.since[at].1 = checksum,
            None => self.since.push_back((block, checksum)),
        }
    }

    /// A sync begins, which covers what was written. There is one at a time: the tier hands out one job for
    /// it, and who quiesces the volume does so when no job is under way. Of two, the second would have the
    /// first one's end vouch for what it covers itself.
    ///
    /// # Panics
    /// If one is under way.
    pub(crate) fn sync_begins(&mut self) {
        assert!(!self.under_way, "one sync of a file's disk at a time");
        self.under_way = true;
        self.syncing = std::mem::take(&mut self.since).into();
    }

    /// It is over, and has covered that unless it `failed`: then nobody knows what the disk has.
    pub(crate) fn sync_ends(&mut self, failed: bool) {
        assert!(self.under_way, "only a sync that began ends");
        self.under_way = false;
        let batch = std::mem::take(&mut self.syncing);
        if failed {
            self.synced.clear();
        } else {
            self.found(batch);
        }
    }

    /// What the sidecar says of syncs before.
    pub(crate) fn found(&mut self, batch: Vec<Written>) {
        let before = std::mem::replace(&mut self.synced, batch);
        let kept =
            before.into_iter().filter(|(block, _)| !self.synced.iter().any(|(newer, _)| newer == block));
        let kept: Vec<Written> = kept.collect();
        self.synced.extend(kept);
        self.synced.truncate(NAMED_MAX);
    }

    /// The disk changes from `first` on up to `end` in another way: also what a sync under way covers is
    /// right no longer.
    pub(crate) fn forget(&mut self, first: u64, end: u64) {
        self.since.retain(|(block, _)| !(first..end).contains(block));
        if !planted::is(Bug::SyncedBatchRemembered) {
            self.syncing.retain(|(block, _)| !(first..end).contains(block));
        }
        self.synced.retain(|(block, _)| !(first..end).contains(block));
    }

    /// For the sidecar.
    pub(crate) fn named(&self) -> &[Written] {
        &self.synced
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PAGE: usize = 4096;

    fn wrote(batch: &mut Batch, blocks: std::ops::Range<u64>, version: u8) {
        blocks.for_each(|block| batch.wrote(block, checksum_of(&[version; PAGE], PAGE)));
    }

    /// A page was written again while a sync covered it, as one too many of its batch to be noted: its older
    /// version was named when the newer one was on disk, if a discard had made the next batch shorter.
    /// The file was refused for it.
    #[test]
    fn a_page_that_finds_no_room_in_its_batch_during_a_sync_is_not_named_as_it_was() {
        let mut batch = Batch::default();
        wrote(&mut batch, 7..8, 1);
        batch.sync_begins();
        let others = 100..100 + NAMED_MAX as u64;
        wrote(&mut batch, others.clone(), 1);
        wrote(&mut batch, 7..8, 2);
        batch.sync_ends(false);
        batch.forget(others.start, others.end - 5);
        batch.sync_begins();
        batch.sync_ends(false);
        assert!(!batch.named().iter().any(|(block, _)| *block == 7));
    }

    /// The end of the first would name what the second one covers, while that is still on its way.
    #[test]
    #[should_panic(expected = "one sync of a file's disk at a time")]
    fn two_syncs_of_a_disk_at_once_are_noticed() {
        let mut batch = Batch::default();
        wrote(&mut batch, 1..2, 1);
        batch.sync_begins();
        wrote(&mut batch, 2..3, 1);
        batch.sync_begins();
    }

    /// After a sync that failed the disk may have anything; a file must not be refused for what it has not.
    #[test]
    fn a_sync_that_failed_names_nothing() {
        let mut batch = Batch::default();
        wrote(&mut batch, 1..2, 1);
        batch.sync_begins();
        batch.sync_ends(false);
        wrote(&mut batch, 1..2, 2);
        batch.sync_begins();
        batch.sync_ends(true);
        assert_eq!(batch.named(), []);
        batch.sync_begins();
        batch.sync_ends(false);
    }
}
