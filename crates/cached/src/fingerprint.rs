//! What a backing device is known by. Nothing is written to it, so its own bytes have to do.

use std::fmt;

use mezzanine_device::{AlignedBuf, Device, DeviceError};
use sha2::{Digest as _, Sha256};

/// Length of a fingerprint in bytes.
pub const FINGERPRINT_BYTES: usize = 32;
/// Bytes of either end that it is made of: partition tables, superblocks and labels lie there.
const END_BYTES: u64 = 64 << 10;

/// A digest of a device's length and of the first and the last 64 KiB of it. It says that a device is another
/// one, or that it was changed there; not that nothing was changed in between.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Fingerprint(pub [u8; FINGERPRINT_BYTES]);

impl Fingerprint {
    /// The fingerprint of a device as it is now.
    ///
    /// # Errors
    /// That of reading.
    pub fn of(device: &dyn Device) -> Result<Self, DeviceError> {
        let len = device.len();
        let mut digest = Sha256::new();
        digest.update(len.to_le_bytes());
        let part = len.min(END_BYTES);
        let mut bytes = AlignedBuf::zeroed(part as usize);
        for offset in [0, len - part] {
            device.read_at(&mut bytes, offset)?;
            digest.update(&bytes[..]);
        }
        Ok(Self(digest.finalize().into()))
    }
}

impl fmt::Display for Fingerprint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // As much as people compare.
        self.0[..8].iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl fmt::Debug for Fingerprint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Fingerprint({self})")
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use mezzanine_device::MemoryDevice;

    use super::*;

    #[test]
    fn it_changes_with_length_and_either_end() {
        let of = |len: u64, change: Option<u64>| {
            let device = MemoryDevice::new(len);
            if let Some(at) = change {
                device.write_at(&[1], at).unwrap();
            }
            Fingerprint::of(&device).unwrap()
        };
        let one = of(1 << 20, None);
        assert_eq!(one, of(1 << 20, None));
        for other in [
            of(1 << 21, None),
            of(1 << 20, Some(0)),
            of(1 << 20, Some(65535)),
            of(1 << 20, Some((1 << 20) - 1)),
        ] {
            assert_ne!(one, other);
        }
        assert_eq!(one, of(1 << 20, Some(1 << 19)), "what lies in between does not count");
        // Shorter than both ends.
        assert_ne!(of(4096, None), of(4096, Some(100)));
    }
}
