//! The five lock levels of a database file between the connections of one process.
//!
//! Invariants, checked after every change:
//! 1. At most one connection holds more than SHARED.
//! 2. While one holds EXCLUSIVE, no other holds anything.
//! 3. While one holds PENDING or EXCLUSIVE, nobody newly gets SHARED.
//!
//! ```text
//!   NONE -> SHARED -> RESERVED -> (PENDING) -> EXCLUSIVE        `lock`
//!              \--------------------------------^             hot-journal rollback, WAL alone
//!   any  -> SHARED | NONE                                       `unlock`
//! ```
//! PENDING is never asked for: it is where a connection waits for readers to leave on its way to EXCLUSIVE
//! ("File Locking And Concurrency In SQLite Version 3"). From SHARED nobody waits: a connection that may keep
//! its lock for ever (`locking_mode = exclusive`) would keep all new readers out (`unixLock` in `os_unix.c`).
//! Other processes are kept out altogether, by [`ProcessLock`](crate::database_file::ProcessLock), so these
//! locks live in memory.

use std::collections::HashMap;
use std::ffi::c_int;

use mezzanine_engine::planted::{self, Bug};

use crate::abi;

/// How much of a file a connection holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Level {
    None,
    Shared,
    Reserved,
    Pending,
    Exclusive,
}

// SQLite's numbers are ours.
const _: () = assert!(
    Level::None as c_int == abi::LOCK_NONE
        && Level::Shared as c_int == abi::LOCK_SHARED
        && Level::Reserved as c_int == abi::LOCK_RESERVED
        && Level::Pending as c_int == abi::LOCK_PENDING
        && Level::Exclusive as c_int == abi::LOCK_EXCLUSIVE
);

impl Level {
    /// The level of SQLite's number, if it is one that a connection may ask for.
    pub(crate) fn asked_for(number: c_int) -> Option<Self> {
        let all = [Self::None, Self::Shared, Self::Reserved, Self::Exclusive];
        all.into_iter().find(|level| *level as c_int == number)
    }
}

/// A lock could not be had because of another connection; the caller's busy handler decides what comes next.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Busy;

/// A connection's name in the lock table.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Holder(pub(crate) u64);

/// The lock table of one database file.
#[derive(Debug, Default)]
pub(crate) struct LockTable {
    held: HashMap<Holder, Level>,
}

impl LockTable {
    /// The level that `who` holds.
    pub(crate) fn level(&self, who: Holder) -> Level {
        self.held.get(&who).copied().unwrap_or(Level::None)
    }

    /// Whether nobody holds anything.
    pub(crate) fn is_free(&self) -> bool {
        self.held.is_empty()
    }

    /// The highest level that anybody holds.
    pub(crate) fn highest(&self) -> Level {
        self.held.values().copied().max().unwrap_or(Level::None)
    }

    /// Raises `who` to `wanted`. On the way from RESERVED to EXCLUSIVE a busy answer may leave PENDING
    /// behind, which keeps new readers out until `who` tries again or unlocks.
    pub(crate) fn lock(&mut self, who: Holder, wanted: Level) -> Result<(), Busy> {
        let own = self.level(who);
        if own >= wanted {
            return Ok(());
        }
        assert!(wanted != Level::Pending, "PENDING is never asked for");
        assert!(own != Level::None || wanted == Level::Shared, "a reader's lock comes first");
        let others =
            self.held.iter().filter(|(h, _)| **h != who).map(|(_, l)| *l).max().unwrap_or(Level::None);
        let grant = match wanted {
            Level::Shared if others >= Level::Pending => None,
            Level::Reserved | Level::Exclusive if others >= Level::Reserved => None,
            Level::Exclusive if others >= Level::Shared => {
                if own >= Level::Reserved || planted::is(Bug::ReaderLeftPending) {
                    self.held.insert(who, Level::Pending);
                }
                None
            }
            level => Some(level),
        };
        if let Some(level) = grant {
            self.held.insert(who, level);
        }
        self.check();
        grant.map(|_| ()).ok_or(Busy)
    }

    /// Lowers `who` to `wanted`, which is SHARED or NONE.
    pub(crate) fn unlock(&mut self, who: Holder, wanted: Level) {
        assert!(wanted <= Level::Shared, "one unlocks to SHARED or NONE");
        if self.level(who) <= wanted {
            return;
        }
        match wanted {
            Level::None => self.held.remove(&who),
            level => self.held.insert(who, level),
        };
        self.check();
    }

    fn check(&self) {
        let writers = self.held.values().filter(|l| **l > Level::Shared).count();
        assert!(writers <= 1, "two connections hold more than SHARED");
        if self.highest() == Level::Exclusive {
            assert!(self.held.len() == 1, "EXCLUSIVE beside another lock");
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    const A: Holder = Holder(1);
    const B: Holder = Holder(2);

    #[test]
    fn readers_share_and_one_writer_reserves() {
        let mut t = LockTable::default();
        t.lock(A, Level::Shared).unwrap();
        t.lock(B, Level::Shared).unwrap();
        t.lock(A, Level::Reserved).unwrap();
        assert_eq!(t.lock(B, Level::Reserved), Err(Busy));
        assert_eq!(t.highest(), Level::Reserved);
    }

    #[test]
    fn pending_keeps_new_readers_out_until_the_old_ones_leave() {
        let mut t = LockTable::default();
        t.lock(A, Level::Shared).unwrap();
        t.lock(B, Level::Shared).unwrap();
        t.lock(A, Level::Reserved).unwrap();
        assert_eq!(t.lock(A, Level::Exclusive), Err(Busy));
        assert_eq!(t.level(A), Level::Pending);
        assert_eq!(t.lock(Holder(3), Level::Shared), Err(Busy));
        t.unlock(B, Level::None);
        t.lock(A, Level::Exclusive).unwrap();
        assert_eq!(t.lock(B, Level::Shared), Err(Busy));
        t.unlock(A, Level::Shared);
        t.lock(B, Level::Shared).unwrap();
    }

    /// Was drawn: a connection with `locking_mode = exclusive` that could not have the database alone kept
    /// all new readers out.
    #[test]
    fn a_reader_that_cannot_have_it_alone_keeps_nobody_out() {
        planted::only_with(&[Bug::ReaderLeftPending], || {
            let mut t = LockTable::default();
            t.lock(A, Level::Shared).unwrap();
            t.lock(B, Level::Shared).unwrap();
            assert_eq!(t.lock(A, Level::Exclusive), Err(Busy));
            t.lock(Holder(3), Level::Shared).is_ok()
        });
    }

    #[test]
    fn a_hot_journal_goes_from_shared_to_exclusive_at_once() {
        let mut t = LockTable::default();
        t.lock(A, Level::Shared).unwrap();
        t.lock(A, Level::Exclusive).unwrap();
        t.unlock(A, Level::None);
        assert_eq!(t.highest(), Level::None);
    }

    #[test]
    fn two_waiting_for_exclusive_do_not_deadlock() {
        let mut t = LockTable::default();
        t.lock(A, Level::Shared).unwrap();
        t.lock(B, Level::Shared).unwrap();
        t.lock(A, Level::Reserved).unwrap();
        assert_eq!(t.lock(A, Level::Exclusive), Err(Busy));
        assert_eq!(t.lock(B, Level::Exclusive), Err(Busy));
        assert_eq!(t.level(B), Level::Shared);
        t.unlock(B, Level::None);
        t.lock(A, Level::Exclusive).unwrap();
    }
}
