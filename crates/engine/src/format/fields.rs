//! Sequential little-endian fields.

/// Writes fields one after the other into a buffer that is known to be large enough.
pub(super) struct Writer<'b> {
    buffer: &'b mut [u8],
    at: usize,
}

impl<'b> Writer<'b> {
    pub(super) fn new(buffer: &'b mut [u8]) -> Self {
        Self { buffer, at: 0 }
    }

    pub(super) fn bytes(&mut self, bytes: &[u8]) -> &mut Self {
        self.buffer[self.at..self.at + bytes.len()].copy_from_slice(bytes);
        self.at += bytes.len();
        self
    }

    pub(super) fn u8(&mut self, value: u8) -> &mut Self {
        self.bytes(&[value])
    }

    pub(super) fn u32(&mut self, value: u32) -> &mut Self {
        self.bytes(&value.to_le_bytes())
    }

    pub(super) fn u64(&mut self, value: u64) -> &mut Self {
        self.bytes(&value.to_le_bytes())
    }

    pub(super) fn at(&self) -> usize {
        self.at
    }
}

/// Reads fields one after the other from a buffer whose length the caller has checked.
pub(super) struct Reader<'b> {
    buffer: &'b [u8],
    at: usize,
}

impl<'b> Reader<'b> {
    pub(super) fn new(buffer: &'b [u8]) -> Self {
        Self { buffer, at: 0 }
    }

    pub(super) fn bytes<const N: usize>(&mut self) -> [u8; N] {
        let mut out = [0; N];
        out.copy_from_slice(&self.buffer[self.at..self.at + N]);
        self.at += N;
        out
    }

    pub(super) fn u8(&mut self) -> u8 {
        self.bytes::<1>()[0]
    }

    pub(super) fn u32(&mut self) -> u32 {
        u32::from_le_bytes(self.bytes())
    }

    pub(super) fn u64(&mut self) -> u64 {
        u64::from_le_bytes(self.bytes())
    }
}
