//! The locks of a WAL-index between the connections of one process.
//!
//! SQLite keeps the index of its write-ahead log in memory shared by all connections, guarded by eight slots
//! that are each held by one writer or any number of readers. Here all connections are in one process, so the
//! memory is this process's heap ([`SharedMemory`]) and a slot is a counter. The index is rebuilt from the
//! log at the first open: heap memory starts as zeros, which SQLite takes for "no index yet".

use std::ffi::c_void;
use std::ptr;
use std::sync::atomic::AtomicU64;

use crate::abi::SHM_SLOTS;
use crate::lock::Busy;

/// What one connection holds: a bit per slot.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Held {
    pub(crate) shared: u8,
    pub(crate) exclusive: u8,
}

/// The WAL-index of one database file.
#[derive(Default)]
pub(crate) struct WalIndex {
    /// Per slot: -1 for a writer, else the number of readers.
    slots: [i32; SHM_SLOTS],
    /// Connections that have mapped the index.
    users: usize,
    pub(crate) memory: SharedMemory,
}

/// The memory of a WAL-index: regions that stay where they are until the last connection leaves.
#[derive(Default)]
pub(crate) struct SharedMemory {
    /// Atomic, since SQLite writes to what is shared here; nothing else reads it.
    regions: Vec<Box<[AtomicU64]>>,
}

impl SharedMemory {
    /// Region number `index` of `bytes` bytes, zeros at first. Null if it does not exist and is not to be
    /// made; `None` if the size is not that of the other regions.
    pub(crate) fn region(&mut self, index: usize, bytes: usize, make: bool) -> Option<*mut c_void> {
        let words = bytes.div_ceil(size_of::<AtomicU64>());
        if words == 0 || self.regions.first().is_some_and(|region| region.len() != words) {
            return None;
        }
        while make && self.regions.len() <= index {
            self.regions.push((0..words).map(|_| AtomicU64::new(0)).collect());
        }
        Some(self.regions.get(index).map_or(ptr::null_mut(), |region| region.as_ptr().cast_mut().cast()))
    }
}

/// The mask of `count` slots from `first`, or nothing if there are no such slots.
fn mask(first: usize, count: usize) -> Option<u8> {
    (count > 0 && first.checked_add(count)? <= SHM_SLOTS).then(|| (((1u32 << count) - 1) << first) as u8)
}

impl WalIndex {
    /// A connection maps the index for the first time.
    pub(crate) fn enter(&mut self) {
        self.users += 1;
    }

    /// A connection leaves; its locks go, and with the last connection the memory.
    pub(crate) fn leave(&mut self, held: &mut Held) {
        assert!(self.users > 0, "more connections left than entered");
        self.release(held, u8::MAX);
        self.users -= 1;
        if self.users == 0 {
            assert!(self.slots == [0; SHM_SLOTS], "a lock of a WAL-index outlived its connection");
            self.memory = SharedMemory::default();
        }
    }

    /// Takes `count` slots from `first`, all or none.
    pub(crate) fn lock(
        &mut self,
        held: &mut Held,
        first: usize,
        count: usize,
        exclusive: bool,
    ) -> Result<(), Busy> {
        let Some(wanted) = mask(first, count) else { return Err(Busy) };
        let already = if exclusive { held.exclusive } else { held.shared | held.exclusive };
        let missing = wanted & !already;
        for slot in slots(missing) {
            let own_reader = i32::from(held.shared >> slot & 1 == 1);
            let blocked = if exclusive { self.slots[slot] != own_reader } else { self.slots[slot] < 0 };
            if blocked {
                return Err(Busy);
            }
        }
        for slot in slots(missing) {
            self.slots[slot] = if exclusive { -1 } else { self.slots[slot] + 1 };
        }
        if exclusive {
            held.exclusive |= missing;
            held.shared &= !missing;
        } else {
            held.shared |= missing;
        }
        Ok(())
    }

    /// Gives `count` slots from `first` back, whichever way they are held.
    pub(crate) fn unlock(&mut self, held: &mut Held, first: usize, count: usize) {
        self.release(held, mask(first, count).unwrap_or(0));
    }

    fn release(&mut self, held: &mut Held, mask: u8) {
        for slot in slots(held.exclusive & mask) {
            assert!(self.slots[slot] == -1, "a writer's slot is not marked so");
            self.slots[slot] = 0;
        }
        for slot in slots(held.shared & mask) {
            assert!(self.slots[slot] > 0, "a reader's slot has no readers");
            self.slots[slot] -= 1;
        }
        held.exclusive &= !mask;
        held.shared &= !mask;
    }
}

fn slots(mask: u8) -> impl Iterator<Item = usize> {
    (0..SHM_SLOTS).filter(move |slot| mask >> slot & 1 == 1)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn readers_share_a_slot_and_keep_a_writer_out() {
        let (mut index, mut a, mut b) = (WalIndex::default(), Held::default(), Held::default());
        index.enter();
        index.enter();
        index.lock(&mut a, 3, 1, false).unwrap();
        index.lock(&mut b, 3, 1, false).unwrap();
        assert_eq!(index.lock(&mut b, 3, 1, true), Err(Busy));
        index.unlock(&mut a, 3, 1);
        index.unlock(&mut b, 3, 1);
        index.lock(&mut b, 3, 1, true).unwrap();
        assert_eq!(index.lock(&mut a, 3, 1, false), Err(Busy));
    }

    #[test]
    fn a_range_is_taken_whole_or_not_at_all() {
        let (mut index, mut a, mut b) = (WalIndex::default(), Held::default(), Held::default());
        index.enter();
        index.enter();
        index.lock(&mut a, 5, 1, false).unwrap();
        assert_eq!(index.lock(&mut b, 3, 5, true), Err(Busy));
        assert_eq!(b, Held::default());
        index.lock(&mut b, 3, 2, true).unwrap();
        assert_eq!(index.lock(&mut a, 3, 1, false), Err(Busy));
    }

    #[test]
    fn leaving_gives_everything_back() {
        let (mut index, mut a, mut b) = (WalIndex::default(), Held::default(), Held::default());
        index.enter();
        index.enter();
        index.lock(&mut a, 0, 8, true).unwrap();
        index.leave(&mut a);
        index.lock(&mut b, 0, 8, true).unwrap();
        index.leave(&mut b);
        assert_eq!(index.users, 0);
    }

    #[test]
    fn regions_stay_in_place_and_go_with_the_last_connection() {
        let (mut index, mut a) = (WalIndex::default(), Held::default());
        index.enter();
        assert_eq!(index.memory.region(0, 32_768, false), Some(ptr::null_mut()));
        let first = index.memory.region(0, 32_768, true).unwrap();
        assert!(!first.is_null());
        index.memory.region(9, 32_768, true).unwrap();
        assert_eq!(index.memory.region(0, 32_768, false), Some(first));
        assert_eq!(index.memory.region(0, 4096, true), None);
        index.leave(&mut a);
        assert!(index.memory.regions.is_empty());
    }

    #[test]
    fn slots_that_do_not_exist_are_refused() {
        let (mut index, mut a) = (WalIndex::default(), Held::default());
        assert_eq!(index.lock(&mut a, 7, 2, false), Err(Busy));
        assert_eq!(index.lock(&mut a, usize::MAX, 1, true), Err(Busy));
        assert_eq!(index.lock(&mut a, 0, 0, true), Err(Busy));
    }
}
