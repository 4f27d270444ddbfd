//! What the superblock keeps for the host: of a backing device in its volume's entry, and of the opening.
//!
//! | offset in an entry | bytes | |
//! |---|---|---|
//! | 0 | 32 | fingerprint |
//! | 32 | 1 | 0: detached, as the fingerprint says; 1: in use; 2: it was at a crash, and not since |
//! | 33 | 7 | zeros |
//! | 40 | 8 | when the file was last changed, in nanoseconds since 1970; 0: it is no file |
//! | 48 | 16 | digest of the name that the system has for the device for life; zeros: none |
//!
//! | offset in the cache's own | bytes | |
//! |---|---|---|
//! | 0 | 16 | the number of the opening that vouchers name; zeros: none |
//! | 16 | 48 | zeros |

use mezzanine_fragment::format::{HOST_BYTES, Superblock};
use sha2::{Digest as _, Sha256};

use crate::fingerprint::{FINGERPRINT_BYTES, Fingerprint};
use crate::voucher::Opening;

const STATE_AT: usize = FINGERPRINT_BYTES;
const CHANGED_AT: usize = 40;
const LABEL_AT: usize = 48;
const LABEL_BYTES: usize = 16;
const OPENING_BYTES: usize = 16;

/// Whether a volume was detached when it was last seen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Attachment {
    /// It was: the fingerprint says what it was then.
    Detached,
    /// The cache is open, or was when its process or machine crashed. The fingerprint says nothing.
    InUse,
    /// It was in use at a crash; the cache was opened again without it. The fingerprint says nothing.
    Abandoned,
}

/// A name that a device has for life, such as a WWID or a serial number; a digest of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Label([u8; LABEL_BYTES]);

impl Label {
    /// The label of a name.
    pub fn of(name: &str) -> Self {
        let mut bytes = [0; LABEL_BYTES];
        bytes.copy_from_slice(&Sha256::digest(name)[..LABEL_BYTES]);
        Self(bytes)
    }
}

/// A backing device as it was last seen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Backing {
    /// When it was detached, or made part of the cache.
    pub fingerprint: Fingerprint,
    /// Whether it was detached.
    pub attachment: Attachment,
    /// When it was last changed, if it is a file: in nanoseconds since 1970; else 0.
    pub changed_ns: u64,
    /// The name that the system has for it, if it has one.
    pub label: Option<Label>,
}

impl Backing {
    /// As the superblock has it.
    pub fn encode(&self) -> [u8; HOST_BYTES] {
        let mut bytes = [0; HOST_BYTES];
        bytes[..FINGERPRINT_BYTES].copy_from_slice(&self.fingerprint.0);
        bytes[STATE_AT] = match self.attachment {
            Attachment::Detached => 0,
            Attachment::InUse => 1,
            Attachment::Abandoned => 2,
        };
        bytes[CHANGED_AT..CHANGED_AT + 8].copy_from_slice(&self.changed_ns.to_le_bytes());
        if let Some(Label(label)) = self.label {
            bytes[LABEL_AT..LABEL_AT + LABEL_BYTES].copy_from_slice(&label);
        }
        bytes
    }

    /// From the superblock. A state that is not known counts as in use: then nothing is believed.
    pub fn decode(bytes: &[u8; HOST_BYTES]) -> Self {
        let mut fingerprint = [0; FINGERPRINT_BYTES];
        fingerprint.copy_from_slice(&bytes[..FINGERPRINT_BYTES]);
        let mut changed = [0; 8];
        changed.copy_from_slice(&bytes[CHANGED_AT..CHANGED_AT + 8]);
        let mut label = [0; LABEL_BYTES];
        label.copy_from_slice(&bytes[LABEL_AT..LABEL_AT + LABEL_BYTES]);
        let attachment = match bytes[STATE_AT] {
            0 => Attachment::Detached,
            2 => Attachment::Abandoned,
            _ => Attachment::InUse,
        };
        let label = (label != [0; LABEL_BYTES]).then_some(Label(label));
        let (fingerprint, changed_ns) = (Fingerprint(fingerprint), u64::from_le_bytes(changed));
        Self { fingerprint, attachment, changed_ns, label }
    }

    /// Whether the system says that they are two devices. It may have no name for one of them.
    pub fn is_labelled_otherwise(&self, other: &Self) -> bool {
        matches!((self.label, other.label), (Some(one), Some(other)) if one != other)
    }

    /// Whether one device was the same at both times, as far as is known of detached ones.
    pub fn is_as(&self, other: &Self) -> bool {
        let detached = [self, other].iter().all(|one| one.attachment == Attachment::Detached);
        let same = (self.fingerprint, self.changed_ns) == (other.fingerprint, other.changed_ns);
        detached && same && !self.is_labelled_otherwise(other)
    }
}

/// The opening that a superblock is of, if one was noted.
pub fn opening_of(superblock: &Superblock) -> Option<Opening> {
    let mut bytes = [0; OPENING_BYTES];
    bytes.copy_from_slice(&superblock.host[..OPENING_BYTES]);
    (bytes != [0; OPENING_BYTES]).then_some(Opening(bytes))
}

/// Notes the opening that a superblock is of.
pub fn set_opening(superblock: &mut Superblock, opening: Opening) {
    superblock.host = [0; HOST_BYTES];
    superblock.host[..OPENING_BYTES].copy_from_slice(&opening.0);
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    fn backing(attachment: Attachment, label: Option<&str>) -> Backing {
        let fingerprint = Fingerprint([7; FINGERPRINT_BYTES]);
        Backing { fingerprint, attachment, changed_ns: u64::MAX - 7, label: label.map(Label::of) }
    }

    #[test]
    fn what_is_kept_is_read_back() {
        for attachment in [Attachment::Detached, Attachment::InUse, Attachment::Abandoned] {
            for label in [None, Some("eui.0025385971b0e4f1")] {
                let backing = backing(attachment, label);
                assert_eq!(Backing::decode(&backing.encode()), backing);
            }
        }
        let mut odd = [0; HOST_BYTES];
        odd[STATE_AT] = 7;
        assert_eq!(Backing::decode(&odd).attachment, Attachment::InUse);
        let mut superblock = Superblock::new([1; 16], 8 << 20, 1 << 20).unwrap();
        assert_eq!(opening_of(&superblock), None);
        set_opening(&mut superblock, Opening([9; 16]));
        assert_eq!(opening_of(&superblock), Some(Opening([9; 16])));
    }

    #[test]
    fn two_devices_of_like_ends_are_told_apart_by_their_labels() {
        let of = |label| backing(Attachment::Detached, label);
        assert!(of(Some("a")).is_as(&of(Some("a"))));
        assert!(!of(Some("a")).is_as(&of(Some("b"))));
        // The system may have no name for it, as in a virtual machine.
        assert!(of(None).is_as(&of(Some("b"))) && of(Some("a")).is_as(&of(None)));
        assert!(!of(None).is_as(&backing(Attachment::InUse, None)));
    }
}
