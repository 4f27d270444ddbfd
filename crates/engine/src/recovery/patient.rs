//! What flash does not give back, or not whole, is read again, before recovery draws a conclusion from it.
//!
//! Recovery does without much that cannot be read: a page that is unreadable is not torn, for torn pages can
//! be read; a segment has its groups behind it; what lies behind the end tells of nothing. All this holds for
//! a bad place on a device that works. A device that answers nothing for a while (a controller that is reset,
//! a path that changes) may have anything there. So a read that fails is repeated, and behind each attempt a
//! superblock is read, the *probe*: whether the device answers at all. As in `reread`.
//!
//! And a read that goes well may bring what does not lie there. What is not whole (a checksum does not match,
//! or nothing can be decoded) is read again as well.

use super::{ReadError, ReadFlash, RecoveryError};
use crate::format::{SUPERBLOCK_BYTES, SUPERBLOCK_OFFSETS};
use crate::planted::{self, Bug};

/// How often a place is read before it counts as unreadable.
const ATTEMPTS: u32 = 3;

/// Reads a place of a flash device at rest, and again if that fails, or if what it brings is not `whole`: a
/// bit may flip on its way. What is torn or rotten is so each time. Returns whether it is whole. What the
/// opening of a tier concludes from a place that it cannot read, or cannot decode, it concludes from one of
/// these.
///
/// # Errors
/// [`RecoveryError::Read`] if the place cannot be read, and the device answers; [`RecoveryError::Silent`] if
/// it answers nothing.
pub fn read_patiently(
    flash: &mut dyn ReadFlash,
    offset: u64,
    bytes: &mut [u8],
    mut whole: impl FnMut(&[u8]) -> bool,
) -> Result<bool, RecoveryError> {
    for _ in 0..reads_of_wrong() {
        read_answered(flash, offset, bytes)?;
        if whole(bytes) {
            return Ok(true);
        }
    }
    Ok(false)
}

/// How often something is read before it counts as torn or rotten.
pub(super) fn reads_of_wrong() -> u32 {
    if planted::is(Bug::OneReadBelieved) { 1 } else { 2 }
}

/// Reads a place, and again if that fails; whatever it brings.
pub(super) fn read_answered(
    flash: &mut dyn ReadFlash,
    offset: u64,
    bytes: &mut [u8],
) -> Result<(), RecoveryError> {
    let mut attempts = 0;
    loop {
        let Err(error) = flash.read(offset, bytes) else { return Ok(()) };
        if !answers(flash) {
            return Err(RecoveryError::Silent(error));
        }
        attempts += 1;
        if attempts == ATTEMPTS {
            return Err(RecoveryError::Read(error));
        }
    }
}

/// Whether the device gives back either superblock, whatever it says.
fn answers(flash: &mut dyn ReadFlash) -> bool {
    let mut bytes = vec![0; SUPERBLOCK_BYTES];
    planted::is(Bug::SilentGroupBelieved)
        || SUPERBLOCK_OFFSETS.iter().any(|offset| flash.read(*offset, &mut bytes).is_ok())
}

/// Both copies of the superblock, as [`read_patiently`] reads: each is the other one's probe. If neither was
/// read in one of the attempts the device was silent then, and one copy alone does not count: it may be the
/// older. Nor does a copy count as torn for one read, for the other one may be.
pub(crate) fn read_superblocks(
    flash: &mut dyn ReadFlash,
    whole: impl Fn(&[u8]) -> bool,
) -> [Result<Vec<u8>, ReadError>; 2] {
    let mut known = [Known::default(), Known::default()];
    let (mut attempts, mut silent, mut failed) = (0, false, None);
    loop {
        // Together: a device answers two as fast as one.
        let mut reads = SUPERBLOCK_OFFSETS.map(|offset| (offset, vec![0; SUPERBLOCK_BYTES]));
        let mut results = flash.read_many(&mut reads).into_iter();
        let not_read = || Err(ReadError("it was not read".to_owned()));
        let copies = reads.map(|(_, bytes)| results.next().unwrap_or_else(not_read).map(|()| bytes));
        silent |= copies.iter().all(Result::is_err);
        for (known, copy) in known.iter_mut().zip(copies) {
            match copy {
                Ok(bytes) => known.was_read(bytes, &whole),
                Err(error) => failed = Some(error),
            }
        }
        attempts += 1;
        let settled = known.iter().all(Known::is_settled);
        if settled || attempts == ATTEMPTS || failed.is_some() && planted::is(Bug::OlderCopyAtOnce) {
            let error = failed.unwrap_or_else(|| ReadError("it was not read".to_owned()));
            return known.map(|copy| copy.bytes.filter(|_| settled || !silent).ok_or_else(|| error.clone()));
        }
    }
}

/// What is known of a copy of the superblock.
#[derive(Default)]
struct Known {
    bytes: Option<Vec<u8>>,
    reads: u32,
    whole: bool,
}

impl Known {
    fn was_read(&mut self, bytes: Vec<u8>, whole: &impl Fn(&[u8]) -> bool) {
        if !self.whole {
            self.whole = whole(&bytes);
            self.bytes = Some(bytes);
        }
        self.reads += 1;
    }

    fn is_settled(&self) -> bool {
        self.whole || self.reads >= reads_of_wrong()
    }
}
