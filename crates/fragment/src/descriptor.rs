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

states! {
    /// What a crash may leave of the slot's record in the map (invariant 10).
    ///
    /// ```text
    ///              settles (a record that says so is handed out)
    ///   Unstable ----------------------------------------------> Stable
    ///    ^                                                          | a write begins, it is to leave
    ///    | the cache device was flushed                             v
    ///   Committing <----------------------------------------- Wanted
    ///                      its block is handed out
    /// ```
    pub(crate) enum Recorded {
        /// Nothing that recovery would use.
        Unstable = 0,
        /// Its fragment as it is now, or nothing.
        Stable = 1,
        /// As `Stable`, and a record that does not count has to be written.
        Wanted = 2,
        /// As `Stable`, and such a record is on its way.
        Committing = 3,
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
    /// State, reference counter, what the map says, whether the fragment is leaving, its pace, whether its
    /// record names one: see [`Bits`]. Its parts are changed at a time, so each in one atomic step.
    flags: Small,
    /// When the fragment or what its slot holds was last changed, or brought in: in ticks.
    pub(crate) changed: Small,
    /// Parts of writes and discards that the backing device has not answered.
    pub(crate) writes: Small,
    /// Of these, those that have no flight: it is not known which blocks they touch, and as long as there are
    /// any, what is written to the fragment has flights that owe nothing.
    pub(crate) untracked: Small,
    /// The first of the fragment's flights; of a free or retired one, the next of its list.
    pub(crate) flights: Link,
}

const _: () = assert!(size_of::<Descriptor>() == 40, "72 bytes with the bitmap of a fragment of 1 MiB");

/// A number within a word: its lowest bit, and how many bits it has.
struct Bits(u32, u32);

/// [`SlotState`].
const STATE: Bits = Bits(0, 2);
/// How often CLOCK's hand passes before the fragment leaves.
const REFERENCES: Bits = Bits(2, 3);
/// [`Recorded`].
const RECORDED: Bits = Bits(5, 2);
/// 1 if the fragment leaves as soon as its record does not count.
const LEAVING: Bits = Bits(7, 1);
/// The interval between writes of the fragment, smoothed, in eighths of octaves of ticks; 0: not known yet.
const PACE: Bits = Bits(8, 8);
/// 1 if the slot's record in the map, as it was written last, names a fragment.
const NAMED: Bits = Bits(16, 1);

impl Bits {
    fn get(&self, word: u32) -> u32 {
        word >> self.0 & ((1 << self.1) - 1)
    }

    fn with(&self, word: u32, value: u32) -> u32 {
        debug_assert!(value < 1 << self.1);
        word & !(((1 << self.1) - 1) << self.0) | value << self.0
    }
}

impl Descriptor {
    fn set(&self, bits: &Bits, value: u32) {
        self.flags.change(|word| Some(bits.with(word, value)));
    }

    pub(crate) fn state(&self) -> SlotState {
        SlotState::of_code(STATE.get(self.flags.get()).into())
    }

    pub(crate) fn set_state(&self, state: SlotState) {
        self.set(&STATE, state.code() as u32);
    }

    pub(crate) fn recorded(&self) -> Recorded {
        Recorded::of_code(RECORDED.get(self.flags.get()).into())
    }

    pub(crate) fn set_recorded(&self, recorded: Recorded) {
        self.set(&RECORDED, recorded.code() as u32);
    }

    pub(crate) fn is_leaving(&self) -> bool {
        LEAVING.get(self.flags.get()) == 1
    }

    pub(crate) fn set_leaving(&self, leaves: bool) {
        self.set(&LEAVING, leaves.into());
    }

    pub(crate) fn pace(&self) -> u32 {
        PACE.get(self.flags.get())
    }

    pub(crate) fn set_pace(&self, pace: u32) {
        self.set(&PACE, pace);
    }

    pub(crate) fn is_named(&self) -> bool {
        NAMED.get(self.flags.get()) == 1
    }

    pub(crate) fn set_named(&self, is_named: bool) {
        self.set(&NAMED, is_named.into());
    }

    pub(crate) fn fragment(&self) -> Option<Fragment> {
        self.fragment.get().map(Fragment)
    }

    pub(crate) fn set_fragment(&self, fragment: Option<Fragment>) {
        self.fragment.set(fragment.map(|fragment| fragment.0));
    }

    /// Whether something of the fragment is under way: writes to it, or copies of such.
    pub(crate) fn is_used(&self) -> bool {
        self.writes.get() > 0 || self.flights.get().is_some()
    }

    pub(crate) fn references(&self) -> u32 {
        REFERENCES.get(self.flags.get())
    }

    /// A fragment comes in as one that was referenced once, as in PostgreSQL, whose sweep the paper names.
    pub(crate) fn begin_references(&self) {
        self.set(&REFERENCES, 1);
    }

    /// The fragment was accessed.
    #[inline]
    pub(crate) fn refer(&self) {
        // Looked at first, because a store would take the cache line away from everybody.
        if self.references() < REFERENCES_MAX {
            self.flags.change(|word| {
                let references = REFERENCES.get(word);
                (references < REFERENCES_MAX).then(|| REFERENCES.with(word, references + 1))
            });
        }
    }

    /// CLOCK's hand passes; false if the counter was 0.
    pub(crate) fn pass(&self) -> bool {
        self.flags.change(|word| Some(REFERENCES.with(word, REFERENCES.get(word).checked_sub(1)?)))
    }
}
