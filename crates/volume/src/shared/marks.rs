//! What the sidecar of a file says, and what is to be said in it (see `crate::marks`).

use mezzanine_engine::format::Nonce;
use mezzanine_ground::interleave::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use mezzanine_ground::region::states;

use crate::host_metadata::FILES_MAX;
use crate::shared::plain::{Kept, Quiet, Record, Typed, plain, words_of_bytes};

states! {
    /// What a sidecar says of its file.
    pub(crate) enum Says {
        /// The disk is current.
        Current = 0,
        /// `dirty`, perhaps: a replacement that failed may be in place.
        PerhapsDirty = 1,
        /// `dirty`, for certain.
        Dirty = 2,
    }
}

plain! {
    /// Changes under the file's `arming`, or by who attaches it or has the volume to himself; what is being
    /// discarded under the exclusive layout lock; `foreign` by anyone. Read without.
    pub(crate) struct Marks {
        says: Typed<Says>,
        /// The file may be changed: its sidecar is durable in the state that this needs.
        ready: AtomicBool,
        /// Another program may have changed it on disk: its sidecar is not to vouch for that.
        foreign: AtomicBool,
        /// How often it was marked in this epoch.
        mark: AtomicU64,
        /// Clean pages that the tier took before this position of its queue may differ from the disk; 0 for
        /// none.
        distrusted: AtomicU64,
        /// Epoch and nonce that its sidecar had when it was attached.
        opening: Record<Opening, 3>,
        /// Numbers that it had before and that the tier may still know.
        former: Record<Former, { 1 + FILES_MAX }>,
        /// Pages that are being discarded.
        discarding: Record<Option<(u64, u64)>, 3>,
    }
}

/// Epoch and nonce of an opening.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Opening {
    pub(crate) epoch: u32,
    pub(crate) nonce: Nonce,
}

impl Kept for Opening {
    fn load(words: &[Quiet]) -> Self {
        let mut nonce = Nonce::default();
        for (eight, word) in nonce.chunks_exact_mut(8).zip(&words[1..]) {
            eight.copy_from_slice(&word.get().to_le_bytes());
        }
        Self { epoch: words[0].get() as u32, nonce }
    }

    fn store(&self, words: &[Quiet]) {
        words[0].set(u64::from(self.epoch));
        for (eight, word) in self.nonce.chunks_exact(8).zip(&words[1..]) {
            word.set(u64::from_le_bytes(eight.try_into().expect("eight bytes")));
        }
    }
}

/// Numbers of files: those that a table of files has, so no more than find room there.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Former(Vec<u32>);

impl Kept for Former {
    fn load(words: &[Quiet]) -> Self {
        let count = words[0].get() as usize;
        Self(words[1..=count].iter().map(|word| word.get() as u32).collect())
    }

    fn store(&self, words: &[Quiet]) {
        assert!(self.0.len() < words.len(), "a file has more former numbers than a table has files");
        words[0].set(self.0.len() as u64);
        for (word, number) in words[1..].iter().zip(&self.0) {
            word.set(u64::from(*number));
        }
    }
}

const _: () = assert!(words_of_bytes(size_of::<Nonce>()) == 3, "an epoch and a nonce are three words");

impl Marks {
    /// Of a file that is about to be attached.
    pub(crate) fn begin(&self) {
        self.says.set(Says::Current);
        self.set_ready(false);
        self.foreign.store(false, Ordering::Release);
        self.set_mark(0);
        self.distrust(0);
        self.opening.set(Opening::default());
        self.former.set(Former::default());
        self.discarding.set(None);
    }

    /// The sidecar that was found belongs to this opening, and has this mark.
    pub(crate) fn found(&self, opening: Opening, mark: u64) {
        self.opening.set(opening);
        self.set_mark(mark);
    }

    /// Of the sidecar that was found.
    pub(crate) fn opening(&self) -> Opening {
        self.opening.get()
    }

    /// Whether the sidecar says `dirty`, or may.
    pub(crate) fn may_be_dirty(&self) -> bool {
        self.says.get() != Says::Current
    }

    pub(crate) fn is_dirty(&self) -> bool {
        self.says.get() == Says::Dirty
    }

    pub(crate) fn say(&self, says: Says) {
        self.says.set(says);
    }

    pub(crate) fn is_ready(&self) -> bool {
        self.ready.load(Ordering::Acquire)
    }

    pub(crate) fn set_ready(&self, ready: bool) {
        self.ready.store(ready, Ordering::Release);
    }

    pub(crate) fn mark(&self) -> u64 {
        self.mark.load(Ordering::Acquire)
    }

    pub(crate) fn set_mark(&self, mark: u64) {
        self.mark.store(mark, Ordering::Release);
    }

    /// Goes on to the next mark, which is given once.
    pub(crate) fn next_mark(&self) {
        self.mark.fetch_add(1, Ordering::AcqRel);
    }

    pub(crate) fn distrusted(&self) -> u64 {
        self.distrusted.load(Ordering::Acquire)
    }

    pub(crate) fn distrust(&self, before: u64) {
        self.distrusted.store(before, Ordering::Release);
    }

    pub(crate) fn is_foreign(&self) -> bool {
        self.foreign.load(Ordering::Acquire)
    }

    pub(crate) fn changed_by_others(&self) {
        self.foreign.store(true, Ordering::Release);
    }

    pub(crate) fn former(&self) -> Vec<u32> {
        self.former.get().0
    }

    /// A sidecar may name one twice.
    pub(crate) fn set_former(&self, numbers: &[u32]) {
        let mut once: Vec<u32> = Vec::with_capacity(numbers.len());
        for number in numbers {
            if !once.contains(number) {
                once.push(*number);
            }
        }
        self.former.set(Former(once));
    }

    /// First and end of the pages that are being discarded.
    pub(crate) fn discarding(&self) -> Option<(u64, u64)> {
        self.discarding.get()
    }

    pub(crate) fn discard(&self, pages: Option<(u64, u64)>) {
        self.discarding.set(pages);
    }
}
