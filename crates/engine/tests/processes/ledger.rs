//! What each process has done to each of its pages, in a file that all of them read: so that it outlives any
//! of them.
//!
//! Every change of a page has a number. A process states the number as *intended* before it calls the tier
//! and as *acknowledged* when the tier has taken it; as *synced* when a sync that was requested later is
//! durable. Only the process that a page belongs to writes its entry, or the one that settles its affairs
//! when it is dead.

use std::fs::{File, OpenOptions};
use std::os::unix::fs::FileExt;
use std::path::Path;

/// Pages of each process.
pub(crate) const BLOCKS: u64 = 170;
/// Processes that have pages: the one that survives, and those that die, one after the other.
pub(crate) const PROCESSES: u64 = 2;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Field {
    Intended,
    Acknowledged,
    Synced,
    /// The last change that dropped the page.
    Dropped,
    /// What the disk must have when the drain that the process asked for is done.
    ToDrain,
    /// Of block 0: 1 from when the process has asked for a drain of everything until it has looked at the
    /// result.
    Draining,
    /// Of block 0: 1 while the process writes a page to tier and disk, which must have the same (see
    /// `slots`).
    Writing,
}

const FIELDS: u64 = 7;

pub(crate) struct Ledger(File);

impl Ledger {
    pub(crate) fn open(path: &Path) -> Self {
        let file = OpenOptions::new().read(true).write(true).create(true).truncate(false).open(path).unwrap();
        file.set_len(PROCESSES * BLOCKS * FIELDS * 16).unwrap();
        Self(file)
    }

    fn at(process: u64, block: u64, field: Field) -> u64 {
        ((process * BLOCKS + block) * FIELDS + field as u64) * 16
    }

    pub(crate) fn set(&self, process: u64, block: u64, field: Field, value: u64) {
        let mut bytes = [0; 16];
        bytes[..8].copy_from_slice(&value.to_le_bytes());
        bytes[8..].copy_from_slice(&value.to_le_bytes());
        self.0.write_all_at(&bytes, Self::at(process, block, field)).unwrap();
    }

    /// A number, whole: it is there twice, so that one that is being written is seen to be.
    pub(crate) fn get(&self, process: u64, block: u64, field: Field) -> u64 {
        loop {
            let mut bytes = [0; 16];
            self.0.read_exact_at(&mut bytes, Self::at(process, block, field)).unwrap();
            let (first, second) = bytes.split_at(8);
            if first == second {
                return u64::from_le_bytes(first.try_into().unwrap());
            }
        }
    }

    /// The last number that a process has intended.
    pub(crate) fn last(&self, process: u64) -> u64 {
        (0..BLOCKS).map(|block| self.get(process, block, Field::Intended)).max().unwrap()
    }
}
