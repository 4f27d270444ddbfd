//! Detection of sequential access: does an operation begin where a recent one of its kind ended?

/// Streams remembered per kind. Drives keep about as many.
const STREAMS: usize = 8;

/// Ends of the most recent streams of one kind. All zero is the empty state.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub(super) struct Streams {
    /// One past the last byte of each stream, plus 1 so that 0 means none.
    ends: [u64; STREAMS],
    /// The slot that is replaced next.
    next: u64,
}

impl Streams {
    pub(super) const EMPTY: Self = Self { ends: [0; STREAMS], next: 0 };

    /// Notes an operation; whether it continues a stream.
    pub(super) fn note(&mut self, address: u64, len: u64) -> bool {
        let end = address.saturating_add(len).saturating_add(1);
        if let Some(stream) = self.ends.iter_mut().find(|end| **end == address + 1) {
            *stream = end;
            return true;
        }
        let slot = (self.next % STREAMS as u64) as usize;
        self.ends[slot] = end;
        self.next = self.next.wrapping_add(1);
        false
    }
}
