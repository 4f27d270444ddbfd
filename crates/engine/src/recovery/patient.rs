//! What flash does not give back is read again, before recovery draws a conclusion from it.
//!
//! Recovery does without much that cannot be read: a page that is unreadable is not torn, for torn pages can
//! be read; a segment has its groups behind it; what lies behind the end tells of nothing. All this holds for
//! a bad place on a device that works. A device that answers nothing for a while (a controller that is reset, a
//! path that changes) may have anything there. So a read that fails is repeated, and behind each attempt a
//! superblock is read, the *probe*: whether the device answers at all. As in `reread` of the lanes.

use super::{ReadError, ReadFlash, RecoveryError};
use crate::format::{SUPERBLOCK_BYTES, SUPERBLOCK_OFFSETS};
use crate::planted::{self, Bug};

/// How often a place is read before it counts as unreadable.
const ATTEMPTS: u32 = 3;

/// Reads a place of a flash device at rest, and again if that fails. What the opening of a tier concludes from
/// a read that fails it concludes from one of these.
///
/// # Errors
/// [`RecoveryError::Read`] if the place cannot be read, and the device answers; [`RecoveryError::Silent`] if it
/// answers nothing.
pub fn read_patiently(flash: &mut dyn ReadFlash, offset: u64, bytes: &mut [u8]) -> Result<(), RecoveryError> {
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
/// older.
pub(crate) fn read_superblocks(flash: &mut dyn ReadFlash) -> [Result<Vec<u8>, ReadError>; 2] {
    let mut known = [None, None];
    let (mut attempts, mut silent) = (0, false);
    loop {
        let copies = SUPERBLOCK_OFFSETS.map(|offset| {
            let mut bytes = vec![0; SUPERBLOCK_BYTES];
            flash.read(offset, &mut bytes).map(|()| bytes)
        });
        for (known, copy) in known.iter_mut().zip(&copies) {
            *known = copy.as_ref().ok().cloned().or(known.take());
        }
        attempts += 1;
        silent |= copies.iter().all(Result::is_err);
        let error = copies.iter().find_map(|copy| copy.as_ref().err().cloned());
        if let [Some(first), Some(second)] = known {
            return [Ok(first), Ok(second)];
        }
        if let (Some(error), true) = (error, attempts == ATTEMPTS || planted::is(Bug::OlderCopyAtOnce)) {
            return known.map(|known| known.filter(|_| !silent).ok_or_else(|| error.clone()));
        }
    }
}
