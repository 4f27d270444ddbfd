//! The descriptor of a slot: which fragment lies there, and in what state (section 3.4 of the paper).
//!
//! ```text
//!          begin (population)                 populated
//!   Free ----------------------> Populating ------------> Cached
//!    ^                               |                      |
//!    |       abort (population)      |                      |
//!    +-------------------------------+     victim (clock), leave_if_empty
//!    +------------------------------------------------------+
//!
//!   Populating -> Retired (the cache device has refused the fragment) -> Free (retire_slot of another one)
//! ```
//!
//! Everything here but `references` changes under the lock of the shard of the slot's fragment; a free slot
//! is changed by whoever took it out of the free list, or under the lock of the pools.

use mezzanine_ground::region::{State, Word, states};

use crate::config::REFERENCES_MAX;
use crate::ids::Fragment;
use crate::small::{Link, Small};

states! {
    /// What a slot is used for.
    pub(crate) enum SlotState {
        /// Nothing.
        Free = 0,
        /// A worker copies its fragment there. No block is valid; the bitmap has those that were written or
        /// discarded since.
        Populating = 1,
        /// Its fragment is in the cache.
        Cached = 2,
        /// Nothing: the cache device has refused a fragment there.
        Retired = 3,
    }
}

/// What is known of a slot beside its validity bitmap.
#[repr(C)]
pub(crate) struct Descriptor {
    /// Rises whenever what was read from the slot before may be what no backing device ever had: when the
    /// slot is given to a fragment or taken from one, and when a write of either device has failed.
    pub(crate) incarnation: Word,
    /// The fragment's version: rises with every write and discard of any part of it.
    pub(crate) version: Word,
    /// The fragment. `None` in a free one.
    fragment: Link,
    state: Small,
    /// How often CLOCK's hand passes before the fragment leaves.
    references: Small,
    /// Parts of writes and discards that the backing device has not answered.
    pub(crate) writes: Small,
    /// Of these, those that have no flight: it is not known which blocks they touch, and as long as there are
    /// any, what is written to the fragment has flights that owe nothing.
    pub(crate) untracked: Small,
    /// The first of the fragment's flights; of a free or retired one, the next of its list.
    pub(crate) flights: Link,
}

const _: () = assert!(size_of::<Descriptor>() == 40, "72 bytes with the bitmap of a fragment of 1 MiB");

impl Descriptor {
    pub(crate) fn state(&self) -> SlotState {
        SlotState::of_code(self.state.get().into())
    }

    pub(crate) fn set_state(&self, state: SlotState) {
        self.state.set(state.code() as u32);
    }

    pub(crate) fn fragment(&self) -> Option<Fragment> {
        self.fragment.get().map(Fragment)
    }

    pub(crate) fn set_fragment(&self, fragment: Option<Fragment>) {
        self.fragment.set(fragment.map(|fragment| fragment.0));
    }

    pub(crate) fn references(&self) -> u32 {
        self.references.get()
    }

    /// A fragment comes in as one that was referenced once, as in PostgreSQL, whose sweep the paper names.
    pub(crate) fn begin_references(&self) {
        self.references.set(1);
    }

    /// The fragment was accessed.
    #[inline]
    pub(crate) fn refer(&self) {
        // Looked at first, because a store would take the cache line away from everybody.
        if self.references.get() < REFERENCES_MAX {
            self.references.change(|references| (references < REFERENCES_MAX).then_some(references + 1));
        }
    }

    /// CLOCK's hand passes; false if the counter was 0.
    pub(crate) fn pass(&self) -> bool {
        self.references.change(|references| references.checked_sub(1))
    }
}
