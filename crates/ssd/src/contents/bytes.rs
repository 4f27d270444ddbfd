//! The bytes behind versions.

use std::collections::HashMap;

use mezzanine_ground::random::splitmix;

use crate::power::{Contents, Recorder, SECTOR_BYTES, Version};

/// Versions of which nothing is left are looked for when so many have come, and an eighth of those that were
/// kept.
const SWEPT_AFTER: usize = 4096;

/// What was written, by version and unit: what is in flash or in the buffer, and what a power cut may bring
/// back.
pub(super) struct Bytes {
    unit_bytes: usize,
    of_version: HashMap<(Version, u32), Box<[u8]>>,
    /// So many are there when they are looked through next.
    swept_at: usize,
}

/// The drive knows that it cannot read the unit.
pub(super) struct Unreadable;

impl Bytes {
    pub(super) fn new(unit_bytes: u32) -> Self {
        Self { unit_bytes: unit_bytes as usize, of_version: HashMap::new(), swept_at: SWEPT_AFTER }
    }

    /// Bytes of memory for so many versions, at most: some more are there before it is looked which are
    /// needed.
    pub(super) fn memory_max(versions: u64, unit_bytes: u32) -> u64 {
        let kept = versions + versions / 8 + SWEPT_AFTER as u64;
        // Of the table, which is never full, and of the allocator.
        let beside = 2 * size_of::<((Version, u32), Box<[u8]>)>() as u64 + 16;
        kept * (u64::from(unit_bytes) + 2 * beside)
    }

    pub(super) fn put(&mut self, version: Version, unit: u32, bytes: Box<[u8]>) {
        assert_eq!(bytes.len(), self.unit_bytes, "a version is of a whole unit");
        self.of_version.insert((version, unit), bytes);
    }

    /// Forgets what no read can return any more. Not between a power cut and the start after it, when what
    /// there is lies in what the cut has left.
    pub(super) fn sweep(&mut self, recorder: &Recorder) {
        if self.of_version.len() < self.swept_at {
            return;
        }
        let mut kept = HashMap::with_capacity(self.of_version.len());
        recorder.each_version(|unit, version| {
            if let Some(bytes) = self.of_version.remove(&(version, unit)) {
                kept.insert((version, unit), bytes);
            }
        });
        self.swept_at = kept.len() + kept.len() / 8 + SWEPT_AFTER;
        self.of_version = kept;
    }

    /// Versions that are kept.
    pub(super) fn kept(&self) -> usize {
        self.of_version.len()
    }

    fn of(&self, version: Version, unit: u32) -> Box<[u8]> {
        match version {
            0 => vec![0; self.unit_bytes].into(),
            version => self.of_version[&(version, unit)].clone(),
        }
    }

    /// What a unit with these contents reads as.
    pub(super) fn read(&self, contents: Contents, unit: u32) -> Result<Box<[u8]>, Unreadable> {
        Ok(match contents {
            Contents::Nothing => self.of(0, unit),
            Contents::Whole(version) => self.of(version, unit),
            Contents::Shorn { version, sectors, before } => {
                let mut bytes = self.of(before, unit);
                let there = (sectors * SECTOR_BYTES) as usize;
                bytes[..there].copy_from_slice(&self.of(version, unit)[..there]);
                bytes
            }
            Contents::Corrupt(version) => {
                let mut bytes = self.of(version, unit);
                // Which bit it is follows from what it is: it is wrong in the same way each time.
                let bit = splitmix(version ^ u64::from(unit)) as usize % (8 * self.unit_bytes);
                bytes[bit / 8] ^= 1 << (bit % 8);
                bytes
            }
            Contents::OfAnother { unit, version } => self.of(version, unit),
            Contents::Unreadable => return Err(Unreadable),
        })
    }
}
