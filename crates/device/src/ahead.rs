//! Reads that go on while whoever has begun them does other things.
//!
//! They need memory of their own, since the caller's buffers are only borrowed for a call: [`ReadsAhead`] has
//! a row of *places*, each for one read of a fixed length. No thread is needed: the kernel carries the reads
//! out, or a modelled drive's clock goes on.
//!
//! Rules:
//! 1. What a place holds says what the device had there at some moment between [`ReadsAhead::begin`] and the
//!    return of [`ReadsAhead::finish`], and nothing about later: whether that is still of use is for the
//!    caller to find out.
//! 2. A read that fails is not reported: whoever reads the same bytes by itself learns the reason.
//! 3. While the kernel may still write to a place, its memory is not freed and not given to another read.
//! 4. A child that is forked has no part in the reads: there, nothing begins, and all that was begun has
//!    failed.

use std::sync::Arc;

use crate::{AlignedBuf, Device};

/// Places for reads that are under way; see the module's rules.
pub trait ReadsAhead: Send {
    /// Begins to read from byte `offset` on into a place. A read that was begun there before is given up, but
    /// waited for: the kernel may still write to the place.
    /// False if nothing was begun.
    ///
    /// # Panics
    /// If there is no such place.
    fn begin(&mut self, place: usize, offset: u64) -> bool;

    /// Returns when the read that was begun in a place has completed, with what it has brought; `None` if it
    /// failed, or nothing was begun there since the last call.
    ///
    /// # Panics
    /// If there is no such place.
    fn finish(&mut self, place: usize) -> Option<&[u8]>;

    /// Whether a read goes on in a place, so that [`begin`](Self::begin) and [`finish`](Self::finish) would
    /// wait for it. Does not wait.
    ///
    /// # Panics
    /// If there is no such place.
    fn is_under_way(&mut self, place: usize) -> bool;

    /// By what the reads go on, in a few words for a person.
    fn describe(&self) -> String;
}

/// Reads nothing ahead: each is carried out when somebody waits for it. For contents that lie in memory, and
/// for devices above that make something else go on meanwhile.
pub(crate) struct ReadLate {
    device: Arc<dyn Device>,
    offsets: Vec<Option<u64>>,
    buf: AlignedBuf,
}

impl ReadLate {
    pub(crate) fn new(device: Arc<dyn Device>, places: usize, bytes: usize) -> Self {
        Self { device, offsets: vec![None; places], buf: AlignedBuf::zeroed(bytes) }
    }
}

impl ReadsAhead for ReadLate {
    fn begin(&mut self, place: usize, offset: u64) -> bool {
        self.offsets[place] = Some(offset);
        true
    }

    fn finish(&mut self, place: usize) -> Option<&[u8]> {
        let offset = self.offsets[place].take()?;
        self.device.read_at(&mut self.buf, offset).ok()?;
        Some(&self.buf)
    }

    fn is_under_way(&mut self, _place: usize) -> bool {
        false
    }

    fn describe(&self) -> String {
        "nothing: it lies in memory".to_owned()
    }
}
