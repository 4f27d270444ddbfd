//! What the superblock keeps of a backing device: the host's bytes of a volume's entry.
//!
//! | offset | bytes | |
//! |---|---|---|
//! | 0 | 32 | fingerprint |
//! | 32 | 1 | 1: in use, so that the fingerprint says nothing; 0: it was detached as the fingerprint says |
//! | 33 | 7 | zeros |
//! | 40 | 8 | when the file was last changed, in nanoseconds since 1970; 0: it is no file |
//! | 48 | 16 | zeros |

use mezzanine_fragment::format::HOST_BYTES;

use crate::fingerprint::{FINGERPRINT_BYTES, Fingerprint};

const IN_USE_AT: usize = FINGERPRINT_BYTES;
const CHANGED_AT: usize = 40;

/// A backing device as it was last seen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Backing {
    /// When it was detached, or made part of the cache.
    pub fingerprint: Fingerprint,
    /// It was attached and not detached since: written to in the meantime.
    pub in_use: bool,
    /// When it was last changed, if it is a file: in nanoseconds since 1970; else 0.
    pub changed_ns: u64,
}

impl Backing {
    /// As the superblock has it.
    pub fn encode(&self) -> [u8; HOST_BYTES] {
        let mut bytes = [0; HOST_BYTES];
        bytes[..FINGERPRINT_BYTES].copy_from_slice(&self.fingerprint.0);
        bytes[IN_USE_AT] = self.in_use.into();
        bytes[CHANGED_AT..CHANGED_AT + 8].copy_from_slice(&self.changed_ns.to_le_bytes());
        bytes
    }

    /// From the superblock. What is neither 0 nor 1 counts as in use: then nothing is believed.
    pub fn decode(bytes: &[u8; HOST_BYTES]) -> Self {
        let mut fingerprint = [0; FINGERPRINT_BYTES];
        fingerprint.copy_from_slice(&bytes[..FINGERPRINT_BYTES]);
        let mut changed = [0; 8];
        changed.copy_from_slice(&bytes[CHANGED_AT..CHANGED_AT + 8]);
        let (fingerprint, in_use) = (Fingerprint(fingerprint), bytes[IN_USE_AT] != 0);
        Self { fingerprint, in_use, changed_ns: u64::from_le_bytes(changed) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_kept_is_read_back() {
        for in_use in [false, true] {
            let fingerprint = Fingerprint([7; FINGERPRINT_BYTES]);
            let backing = Backing { fingerprint, in_use, changed_ns: u64::MAX - 7 };
            assert_eq!(Backing::decode(&backing.encode()), backing);
        }
        let mut odd = [0; HOST_BYTES];
        odd[IN_USE_AT] = 7;
        assert!(Backing::decode(&odd).in_use);
    }
}
