//! References that threads have noted and the policy has not been told of.
//!
//! A lookup takes no lock. A thread notes the entries that it has found in a ring of its own; whoever holds
//! the lock of the homes tells the policy of them ("BP-Wrapper: A System Framework Making Any Replacement
//! Algorithms (Almost) Lock Contention Free", section 3).
//!
//! ```text
//!              begin            end
//!   | free       | noted         | free      |      `begin` by the holder of the lock, `end` by the thread
//! ```
//!
//! 1. Entries from `end` on, and `end`, are stored to by the one thread that has claimed the line of the
//!    counters with the ring's number; `begin` only under the lock of the homes.
//! 2. An entry is stored before the `end` that covers it, and read before the `begin` that gives its place
//!    back.
//! 3. Whoever takes the lock of the homes first tells what his own thread has noted. So to a policy that one
//!    thread alone uses, everything comes in the order in which it was done.
//! 4. Before the policy is asked who leaves, or whether a page comes in, it is told what all threads have
//!    noted.
//!
//! A thread tells the policy itself when half of its ring is full and nobody has the lock. If the ring is
//! full and somebody has it still, a reference is lost: a policy goes by what it is told, and nothing else
//! does. What was noted of a page that has left meanwhile is passed over. A thread that has no line (more
//! than [`STRIPES`] have, or two have claimed the same) takes the lock at each hit.

use std::sync::atomic::Ordering::Relaxed;

use mezzanine_ground::counters::{STRIPES, own_line};
use mezzanine_ground::interleave::AtomicU32;
use mezzanine_ground::region::{Word, shared};

use super::order::Refer;
use super::{HomeState, Homes, InPlace};
use crate::ids::{EntryNumber, Frame};
use crate::planted::{self, Bug};

/// Entries of one ring.
const NOTED_MAX: u64 = 32;
/// So many are told to the policy if nobody has its lock.
const TOLD_FROM: u64 = NOTED_MAX / 2;

/// What one thread has noted. What the thread stores to lies apart from what others do.
#[repr(C, align(64))]
pub(super) struct Noted {
    /// Entries told, ever.
    begin: Word,
    _begin_apart: [Word; 7],
    /// Entries noted, ever.
    end: Word,
    _end_apart: [Word; 7],
    entries: [AtomicU32; NOTED_MAX as usize],
}

shared!(Noted);
const _: () = assert!(size_of::<Noted>() == 256);

/// Bytes of the rings of all threads.
pub(super) const NOTED_BYTES: usize = STRIPES * size_of::<Noted>();

impl Noted {
    fn waiting(&self) -> u64 {
        self.end.get() - self.begin.get()
    }

    fn place(&self, number: u64) -> &AtomicU32 {
        &self.entries[(number % NOTED_MAX) as usize]
    }

    /// Notes an entry. False if there is no room.
    fn note(&self, entry: EntryNumber) -> bool {
        if self.waiting() >= NOTED_MAX {
            return false;
        }
        let end = self.end.get();
        let early = planted::is(Bug::NotedBeforeStored);
        if early {
            self.end.set(end + 1);
        }
        self.place(end).store(entry.0, Relaxed);
        if !early {
            self.end.set(end + 1);
        }
        true
    }
}

impl<'r> Homes<'r> {
    fn all_noted(&self) -> &'r [Noted] {
        self.region.slice(self.layout.noted, STRIPES)
    }

    /// Tells the policy what the thread with this line has noted. Under the lock.
    pub(super) fn tell_of(&self, line: usize) {
        let noted = &self.all_noted()[line];
        let (begin, end) = (noted.begin.get(), noted.end.get());
        if begin == end {
            return;
        }
        for number in begin..end {
            self.refer(EntryNumber(noted.place(number).load(Relaxed)));
        }
        noted.begin.set(end);
    }

    /// The same of all threads, the calling one first; from there in turn, so that the order does not hang on
    /// which numbers a process has for its threads. Under the lock.
    pub(super) fn tell_of_all(&self, owner: u32) {
        let used = self.control.noting.get() as usize;
        let own = own_line(self.region, owner).unwrap_or(0).min(used);
        (own..used).chain(0..own).for_each(|line| self.tell_of(line));
    }

    /// Tells the policy that the page at `entry` was referenced, unless it has left since it was seen. Under
    /// the lock.
    fn refer(&self, entry: EntryNumber) {
        let home = self.of_entry(entry);
        let Some(there) = self.homes.get(home.0 as usize) else { return };
        if self.state(home) != HomeState::Used || there.entry() != entry {
            return;
        }
        let logical = there.logical();
        self.order().visit(Refer(logical));
        if let Some(order) = self.dirty_order() {
            order.visit(Refer(logical));
        }
    }
}

impl InPlace<'_> {
    /// A lookup has found the page at `entry`: notes it for the policy, and returns the page's home.
    #[inline]
    pub(super) fn note_hit(&self, entry: EntryNumber) -> Frame {
        let Some(line) = own_line(&self.region, self.owner) else { return self.refer_at_once(entry) };
        let noted: &[Noted] = self.region.slice(self.geometry.layout.placed.noted, STRIPES);
        let noted = &noted[line];
        if noted.waiting() >= TOLD_FROM {
            self.tell_if_free(line);
        }
        if noted.end.get() == 0 {
            self.ends().noting.raise(line as u64 + 1);
        }
        noted.note(entry);
        self.home_of(entry)
    }

    #[cold]
    #[inline(never)]
    fn tell_if_free(&self, line: usize) {
        let homes = self.homes();
        if let Some(_guard) = homes.control.lock.try_lock(self.owner) {
            homes.tell_of(line);
        }
    }

    #[cold]
    #[inline(never)]
    fn refer_at_once(&self, entry: EntryNumber) -> Frame {
        let homes = self.homes();
        let _guard = homes.lock(self.owner);
        homes.refer(entry);
        homes.of_entry(entry)
    }
}
