//! Reads of disk that something is decided by for good, and that no checksum covers.
//!
//! A read may bring what does not lie there: a bit that flips on its way. The header of a file is read when
//! the file is attached, before anything says what it must be, and what that read brings decides whether the
//! file is refused, or what becomes its header. So such a read is repeated until two in a row agree.

use mezzanine_engine::planted::{self, Bug};

/// How often it is read at most.
const READS_MAX: u32 = 5;

/// Whether two reads in a row have brought the same to `bytes`.
///
/// # Errors
/// As of `read`.
pub(crate) fn read_agreed<E>(
    bytes: &mut [u8],
    mut read: impl FnMut(&mut [u8]) -> Result<(), E>,
) -> Result<bool, E> {
    read(bytes)?;
    if planted::is(Bug::OneReadBelieved) {
        return Ok(true);
    }
    let mut before = bytes.to_vec();
    for _ in 1..READS_MAX {
        read(bytes)?;
        if *bytes == *before {
            return Ok(true);
        }
        before.copy_from_slice(bytes);
    }
    Ok(false)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(brought: &[u8]) -> (Result<bool, ()>, u8) {
        let mut next = brought.iter();
        let mut bytes = [0];
        let read = read_agreed(&mut bytes, |out| next.next().map(|byte| out[0] = *byte).ok_or(()));
        (read, bytes[0])
    }

    #[test]
    fn what_two_reads_in_a_row_bring_counts() {
        assert_eq!(of(&[7, 7]), (Ok(true), 7));
        assert_eq!(of(&[1, 7, 7]), (Ok(true), 7));
        assert_eq!(of(&[7, 1, 7, 7]), (Ok(true), 7));
        assert_eq!(of(&[1, 2, 3, 4, 5]).0, Ok(false));
        assert_eq!(of(&[1]).0, Err(()));
    }
}
