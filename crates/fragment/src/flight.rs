//! Flights: parts of writes whose copies are on their way to the cache device (section 3.3 of the paper).
//!
//! ```text
//!          write_begin          queue            next_job               done
//!   Free -------------> Filling -------> Queued ------------> Writing ---------> Written
//!    ^                   |   |            ^ ^ |                                     |  settle: the
//!    |                   |   | await_     | | | next_job: another one of the        |  backing device
//!    |      nothing to   |   v answer     | | | same block is Writing               |  has answered
//!    |      copy         |  Held ---------+ | v                                     |
//!    |                   |     answered   Parked  (done of the other one queues it) |
//!    |                   +-> Written                                                |
//!    +------------------------------------------------------------------------------+
//! ```
//!
//! A `Held` one goes to the cache device only when the backing device has the write, so until then the slot
//! has what the blocks were before, and they stay valid if they were (invariant 14). The paper writes both
//! devices side by side; so do we when memory for copies is short, since copies that wait take it for longer.
//!
//! A flight *owes* the blocks that it is going to make valid: those that it has a whole copy of, until
//! a later write or discard takes them over. The paper keeps a bitmap of duplicate writes for that; here
//! each flight knows its blocks.
//!
//! A flight's words change under the lock of its fragment's shard; `next_queued`, and all of a free one,
//! under that of the pools. While it is `Filling` its copy belongs to the thread that began the write, while
//! it is `Writing` to the job. A `Queued` one is freed by nobody but who took it out of the queue.

use std::ops::Range;

use mezzanine_ground::region::{State, Word, states};

use crate::config::BLOCK_BYTES;
use crate::ids::{Fragment, Slot};
use crate::small::{Link, Small};
use crate::validity::{mask, runs};

/// Most blocks of a flight: it has a bit for each.
pub(crate) const FLIGHT_BLOCKS: u32 = u64::BITS;

/// Most flights of a fragment: each write to it looks through them.
pub(crate) const FLIGHTS_OF_FRAGMENT_MAX: usize = 128;

states! {
    /// Where a flight's copy is.
    pub(crate) enum FlightState {
        Free = 0,
        /// It is being made.
        Filling = 1,
        /// It waits for somebody who writes it.
        Queued = 2,
        /// It waits until another flight has written the same block.
        Parked = 3,
        /// It is being written.
        Writing = 4,
        /// There is none any more.
        Written = 5,
        /// It waits until the backing device has answered.
        Held = 6,
    }
}

states! {
    /// What has become of the write itself.
    pub(crate) enum Backing {
        /// The backing device has not answered.
        Pending = 0,
        /// It has.
        Answered = 1,
        /// It has not, and the copy goes to the cache device after that.
        Awaited = 2,
    }
}

/// A part of a write, of blocks of one fragment. Bit `n` of a mask is the block `first + n`. One that has
/// never owed anything says which blocks are being written, and may be of more than 64.
#[repr(C)]
pub(crate) struct Flight {
    /// Blocks that are to become valid.
    pub(crate) owed: Word,
    /// Blocks that a job is writing.
    pub(crate) writing: Word,
    fragment: Small,
    slot: Small,
    first: Small,
    blocks: Small,
    /// The first of its blocks that there is a copy of, and the number of them.
    pub(crate) copied_from: Small,
    pub(crate) copied: Small,
    /// Where in the memory for copies they lie, in blocks.
    pub(crate) copy: Small,
    state: Small,
    backing: Small,
    /// The next of its fragment's.
    pub(crate) next: Link,
    /// The next of the same request.
    pub(crate) next_of_request: Link,
    /// The next that waits to be written; of a free one, the next of the free list.
    pub(crate) next_queued: Link,
}

const _: () = assert!(size_of::<Flight>() == 64);

impl Flight {
    /// Makes a free one a flight without a copy.
    pub(crate) fn begin(&self, fragment: Fragment, slot: Slot, blocks: Range<u32>) {
        self.owed.set(0);
        self.writing.set(0);
        self.fragment.set(fragment.0);
        self.slot.set(slot.0);
        self.first.set(blocks.start);
        self.blocks.set(blocks.end - blocks.start);
        self.copied.set(0);
        self.set_state(FlightState::Written);
        self.backing.set(Backing::Pending.code() as u32);
        self.next.set(None);
        self.next_of_request.set(None);
    }

    pub(crate) fn fragment(&self) -> Fragment {
        Fragment(self.fragment.get())
    }

    pub(crate) fn slot(&self) -> Slot {
        Slot(self.slot.get())
    }

    pub(crate) fn first(&self) -> u32 {
        self.first.get()
    }

    /// The blocks that the write touches.
    pub(crate) fn touched(&self) -> Range<u32> {
        self.first()..self.first() + self.blocks.get()
    }

    pub(crate) fn state(&self) -> FlightState {
        FlightState::of_code(self.state.get().into())
    }

    pub(crate) fn set_state(&self, state: FlightState) {
        self.state.set(state.code() as u32);
    }

    pub(crate) fn is_pending(&self) -> bool {
        Backing::of_code(self.backing.get().into()) != Backing::Answered
    }

    /// Whether the backing device has not answered, and the copy waits for that.
    pub(crate) fn is_awaited(&self) -> bool {
        Backing::of_code(self.backing.get().into()) == Backing::Awaited
    }

    pub(crate) fn await_answer(&self) {
        self.backing.set(Backing::Awaited.code() as u32);
    }

    pub(crate) fn answered(&self) {
        self.backing.set(Backing::Answered.code() as u32);
    }

    /// The bits of those blocks of a range that are its own, of one that has a bit for each.
    pub(crate) fn bits(&self, blocks: &Range<u32>) -> u64 {
        let own = self.touched();
        assert!(own.end - own.start <= FLIGHT_BLOCKS, "a flight that owes blocks has a bit for each");
        let (start, end) = (blocks.start.max(own.start), blocks.end.min(own.end));
        if start < end { mask(start - own.start..end - own.start) } else { 0 }
    }

    /// The blocks that it owes.
    pub(crate) fn owed_blocks(&self) -> impl Iterator<Item = Range<u32>> + use<> {
        let first = self.first();
        runs(self.owed.get()).map(move |run| first + run.start..first + run.end)
    }

    /// The bits as those of blocks from `first` on, if they are fewer than 64 further on.
    pub(crate) fn bits_from(&self, bits: u64, first: u32) -> u64 {
        let (own, distance) = (self.first(), self.first().abs_diff(first));
        if distance >= u64::BITS {
            0
        } else if own >= first {
            bits << distance
        } else {
            bits >> distance
        }
    }

    /// Where in the memory for copies the copy of a block lies, in bytes.
    pub(crate) fn copy_of(&self, block: u32) -> u64 {
        u64::from(self.copy.get() + (block - self.copied_from.get())) * BLOCK_BYTES
    }
}
