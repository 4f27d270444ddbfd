//! The files of a volume: a record of fixed size for each.

use std::ops::Deref;

use mezzanine_ground::interleave::sync::Arc;
use mezzanine_ground::interleave::sync::atomic::{AtomicBool, AtomicU32, Ordering};

use crate::batch::{BATCH_WORDS, Batch};
use crate::host_metadata::FILES_MAX;
use crate::shared::changes::Unsynced;
use crate::shared::guards::Guards;
use crate::shared::lengths::Lengths;
use crate::shared::marks::Marks;
use crate::shared::plain::{Record, plain};
use crate::shared::{Placed, Shared};

plain! {
    /// The shared side of an attached file.
    pub(crate) struct FileShared {
        /// Number of the file within the volume; 0 if the record is nobody's. Changes under the registry's
        /// lock, but that whose attachment has failed gives it back without.
        number: AtomicU32,
        pub(crate) lengths: Lengths,
        /// Direct changes of the disk.
        pub(crate) disk: Unsynced,
        pub(crate) stage_out: StageOut,
        pub(crate) marks: Marks,
        pub(crate) guards: Guards,
    }
}

plain! {
    /// What stage-out has written to the file's disk.
    pub(crate) struct StageOut {
        /// Since the last sync of the disk.
        unsynced: AtomicBool,
        /// Which pages, for the sidecar.
        batch: Record<Batch, BATCH_WORDS>,
    }
}

impl StageOut {
    fn begin(&self) {
        self.unsynced.store(false, Ordering::Release);
        self.batch.set(Batch::default());
    }

    /// Something was written. Said afterwards: a sync that another thread carries out meanwhile takes the
    /// word away, and does not cover this.
    pub(crate) fn has_written(&self) {
        self.unsynced.store(true, Ordering::Release);
    }

    /// A sync is about to begin: whether there is anything for it.
    pub(crate) fn take_unsynced(&self) -> bool {
        self.unsynced.swap(false, Ordering::AcqRel)
    }

    /// Does something with the pages written last.
    pub(crate) fn batch<T>(&self, with: impl FnOnce(&mut Batch) -> T) -> T {
        with(&mut self.batch.lock())
    }

    /// What the sidecar says of them.
    pub(crate) fn named(&self) -> Vec<crate::batch::Written> {
        self.batch.get().named().to_vec()
    }
}

impl FileShared {
    fn begin(&self, len: u64, guard: Vec<u8>) {
        self.lengths.begin(len);
        self.disk.begin();
        self.stage_out.begin();
        self.marks.begin();
        self.guards.begin(guard);
    }
}

plain! {
    /// The file table: as many files as a tier can know.
    pub(crate) struct Files {
        records: [FileShared; FILES_MAX],
    }
}

/// Where the record of a file lies.
///
/// A tier that is in use knows all files of its volume, and so they find room in the file table. A volume
/// without one, or whose tier was given up, may have any number: those that find none have a record to
/// themselves. What the disk alone answers for needs no memory that processes share.
pub(crate) enum FileHome {
    Table { memory: Arc<Placed<Shared>>, index: usize },
    Alone(Box<Placed<FileShared>>),
}

impl FileHome {
    /// A record for the file with this number, which is not 0, has this length on disk, and this guard.
    pub(crate) fn take(memory: &Arc<Placed<Shared>>, number: u32, len: u64, guard: Vec<u8>) -> Self {
        let taken = |record: &FileShared| {
            record.number.compare_exchange(0, number, Ordering::AcqRel, Ordering::Relaxed).is_ok()
        };
        let home = match memory.files.records.iter().position(taken) {
            Some(index) => Self::Table { memory: Arc::clone(memory), index },
            None => Self::Alone(Box::new(Placed::new())),
        };
        home.begin(len, guard);
        home
    }
}

impl Deref for FileHome {
    type Target = FileShared;

    #[inline]
    fn deref(&self) -> &FileShared {
        match self {
            Self::Table { memory, index } => &memory.files.records[*index],
            Self::Alone(record) => record,
        }
    }
}

impl Drop for FileHome {
    fn drop(&mut self) {
        self.number.store(0, Ordering::Release);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::shared::marks::Says;

    #[test]
    fn a_record_that_was_given_back_is_taken_again_as_a_new_one() {
        let memory = Arc::new(Placed::<Shared>::new());
        let mut homes: Vec<FileHome> =
            (1..=FILES_MAX as u32 + 1).map(|number| FileHome::take(&memory, number, 7, vec![1; 9])).collect();
        assert!(matches!(homes.pop(), Some(FileHome::Alone(_))), "it is one more than a tier knows");
        let file = homes.swap_remove(3);
        file.lengths.set_trim(true);
        file.lengths.set_tail(true);
        file.disk.changed();
        file.stage_out.has_written();
        file.stage_out.batch(|batch| batch.found(vec![(3, 4)]));
        file.marks.say(Says::Dirty);
        file.marks.set_ready(true);
        file.marks.found(crate::shared::marks::Opening { epoch: 3, nonce: [4; 16] }, 5);
        file.marks.distrust(6);
        file.marks.changed_by_others();
        file.marks.set_former(&[1, 2, 1]);
        assert_eq!(file.marks.former(), [1, 2]);
        file.marks.discard(Some((1, 2)));
        file.guards.put_up(true);
        file.guards.head_written(&[5; 4096], 100);
        drop(file);
        let file = FileHome::take(&memory, 20, 8192, Vec::new());
        assert!(matches!(file, FileHome::Table { index: 3, .. }));
        assert_eq!(
            (file.lengths.len(), file.lengths.write_limit(), file.lengths.physical()),
            (8192, 8192, 8192)
        );
        assert!(!file.lengths.must_trim() && !file.lengths.has_tail() && !file.disk.may_have_been_read());
        assert!(!file.stage_out.take_unsynced() && file.stage_out.named().is_empty());
        assert!(!file.marks.may_be_dirty() && !file.marks.is_ready() && !file.marks.is_foreign());
        assert_eq!((file.marks.opening(), file.marks.mark()), (Default::default(), 0));
        assert_eq!((file.marks.distrusted(), file.marks.former()), (0, Vec::new()));
        assert_eq!(file.marks.discarding(), None);
        assert!(!file.guards.is_up() && !file.guards.has_new_head());
        assert_eq!((file.guards.guard(), file.guards.head()), (Vec::new(), Vec::new()));
    }
}
