//! What the superblock keeps of a backing device: the host's bytes of a volume's entry.
//!
//! | offset | bytes | |
//! |---|---|---|
//! | 0 | 32 | fingerprint |
//! | 32 | 1 | 1: in use, so that the fingerprint says nothing; 0: it was detached as the fingerprint says |
//! | 33 | 31 | zeros |

use mezzanine_fragment::format::HOST_BYTES;

use crate::fingerprint::{FINGERPRINT_BYTES, Fingerprint};

const IN_USE_AT: usize = FINGERPRINT_BYTES;

/// A backing device as it was last seen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Backing {
    /// When it was detached, or made part of the cache.
    pub fingerprint: Fingerprint,
    /// It was attached and not detached since: written to in the meantime.
    pub in_use: bool,
}

impl Backing {
    /// As the superblock has it.
    pub fn encode(&self) -> [u8; HOST_BYTES] {
        let mut bytes = [0; HOST_BYTES];
        bytes[..FINGERPRINT_BYTES].copy_from_slice(&self.fingerprint.0);
        bytes[IN_USE_AT] = self.in_use.into();
        bytes
    }

    /// From the superblock. What is neither 0 nor 1 counts as in use: then nothing is believed.
    pub fn decode(bytes: &[u8; HOST_BYTES]) -> Self {
        let mut fingerprint = [0; FINGERPRINT_BYTES];
        fingerprint.copy_from_slice(&bytes[..FINGERPRINT_BYTES]);
        Self { fingerprint: Fingerprint(fingerprint), in_use: bytes[IN_USE_AT] != 0 }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_kept_is_read_back() {
        for in_use in [false, true] {
            let backing = Backing { fingerprint: Fingerprint([7; FINGERPRINT_BYTES]), in_use };
            assert_eq!(Backing::decode(&backing.encode()), backing);
        }
        let mut odd = [0; HOST_BYTES];
        odd[IN_USE_AT] = 7;
        assert!(Backing::decode(&odd).in_use);
    }
}
