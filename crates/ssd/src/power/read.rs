//! What the host reads.

use super::{Entry, Held, Recorder, Version};
use crate::drive::Ssd;
use crate::ftl::Location;

/// What a unit of the host reads as.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Contents {
    /// Nothing: never written, or given up.
    Nothing,
    /// A version as it was written.
    Whole(Version),
    /// Parts of two versions.
    Shorn {
        /// What the first sectors have,
        version: Version,
        /// so many of 512 bytes each.
        sectors: u32,
        /// What the rest has; 0 = nothing.
        before: Version,
    },
    /// A version with wrong bits, which the drive takes for right ones.
    Corrupt(Version),
    /// What another unit of the host has written.
    OfAnother {
        /// Which.
        unit: u32,
        /// What.
        version: Version,
    },
    /// An error of the drive, which knows that it cannot be read.
    Unreadable,
}

impl Contents {
    /// Whether a checksum of the host over what it has written and where finds nothing wrong. It does not
    /// tell an older version from the newest.
    pub fn passes_checksum(self) -> bool {
        matches!(self, Self::Nothing | Self::Whole(_))
    }

    /// The version, if it is there as it was written; 0 = nothing.
    pub fn version(self) -> Option<Version> {
        match self {
            Self::Nothing => Some(0),
            Self::Whole(version) => Some(version),
            Self::Shorn { .. } | Self::Corrupt(_) | Self::OfAnother { .. } | Self::Unreadable => None,
        }
    }
}

impl Recorder {
    /// What a read of a unit gets at the end of all that was entered.
    ///
    /// # Errors
    /// What is wrong in the drive's own books, whatever it promises.
    pub fn read(&self, ssd: &Ssd, state: &mut [u64], logical: u32) -> Result<Contents, String> {
        if let Some(unit) = self.misplaced.get(&logical) {
            return Ok(self.at_wrong_place(logical, *unit));
        }
        match ssd.parts(state).ftl.location(logical) {
            Location::Nowhere => Ok(Contents::Nothing),
            Location::Buffer(frame) => {
                let newest = self.buffered.iter().rev().find(|buffered| buffered.frame == frame);
                let filling = newest.and_then(|buffered| buffered.fillings.last());
                filling
                    .map(|filling| Contents::Whole(filling.version))
                    .ok_or_else(|| format!("frame {frame} has nothing"))
            }
            Location::Flash(unit) => match &self.units[unit as usize] {
                Held::Data { logical: owner, contents, .. } if *owner == logical => Ok(*contents),
                Held::Taken { logical: owner, .. } if *owner == logical => Ok(Contents::Unreadable),
                other => Err(format!("unit {unit} of flash has {other:?}")),
            },
        }
    }

    /// Bytes of memory that is kept for a unit of flash, beside its contents.
    pub(crate) const BYTES_PER_UNIT: u64 = (size_of::<Held>() + size_of::<Entry>()) as u64;

    /// Shows each unit of the host and version that a read may return, now or after a power cut.
    pub(crate) fn each_version(&self, mut show: impl FnMut(u32, Version)) {
        let undone = self.changes.iter().flat_map(|change| &change.before);
        for held in self.units.iter().chain(undone) {
            let Held::Data { logical, contents, .. } = held else { continue };
            match *contents {
                Contents::Whole(version) | Contents::Corrupt(version) => show(*logical, version),
                Contents::Shorn { version, before, .. } => {
                    show(*logical, version);
                    show(*logical, before);
                }
                Contents::OfAnother { unit, version } => show(unit, version),
                Contents::Nothing | Contents::Unreadable => {}
            }
        }
        for buffered in &self.buffered {
            buffered.fillings.iter().for_each(|filling| show(buffered.logical, filling.version));
        }
    }

    /// What is there now, whatever became of the place since.
    fn at_wrong_place(&self, logical: u32, unit: u32) -> Contents {
        match &self.units[unit as usize] {
            Held::Data { logical: owner, contents, .. } if *owner == logical => *contents,
            Held::Data { logical: owner, contents: Contents::Whole(version), .. } => {
                Contents::OfAnother { unit: *owner, version: *version }
            }
            _ => Contents::Unreadable,
        }
    }
}
