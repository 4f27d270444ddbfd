//! Numbers and encodings of the protocol. All integers are big-endian.

pub(super) const SERVER_MAGIC: u64 = 0x4e42_444d_4147_4943;
pub(super) const OPTION_MAGIC: u64 = 0x4948_4156_454f_5054;
pub(super) const OPTION_REPLY_MAGIC: u64 = 0x0003_e889_0455_65a9;
pub(super) const REQUEST_MAGIC: u32 = 0x2560_9513;
pub(super) const SIMPLE_REPLY_MAGIC: u32 = 0x6744_6698;
pub(super) const STRUCTURED_REPLY_MAGIC: u32 = 0x668e_33ef;

/// Handshake flags; a client answers with the same bits.
pub(super) const FLAG_FIXED_NEWSTYLE: u16 = 1;
pub(super) const FLAG_NO_ZEROES: u16 = 2;

/// Options of a client.
pub(super) mod option {
    pub(crate) const EXPORT_NAME: u32 = 1;
    pub(crate) const ABORT: u32 = 2;
    pub(crate) const LIST: u32 = 3;
    pub(crate) const STARTTLS: u32 = 5;
    pub(crate) const INFO: u32 = 6;
    pub(crate) const GO: u32 = 7;
    pub(crate) const STRUCTURED_REPLY: u32 = 8;
    pub(crate) const LIST_META_CONTEXT: u32 = 9;
    pub(crate) const SET_META_CONTEXT: u32 = 10;
}

/// Types of replies to options; those of errors have the highest bit.
pub(super) mod reply {
    pub(crate) const ACK: u32 = 1;
    pub(crate) const SERVER: u32 = 2;
    pub(crate) const INFO: u32 = 3;
    pub(crate) const META_CONTEXT: u32 = 4;
    const ERROR: u32 = 1 << 31;
    pub(crate) const ERR_UNSUP: u32 = ERROR | 1;
    pub(crate) const ERR_POLICY: u32 = ERROR | 2;
    pub(crate) const ERR_INVALID: u32 = ERROR | 3;
    pub(crate) const ERR_TLS_REQD: u32 = ERROR | 5;
    pub(crate) const ERR_UNKNOWN: u32 = ERROR | 6;
    pub(crate) const ERR_TOO_BIG: u32 = ERROR | 9;
}

/// Types of information in replies to INFO and GO.
pub(super) mod info {
    pub(crate) const EXPORT: u16 = 0;
    pub(crate) const NAME: u16 = 1;
    pub(crate) const DESCRIPTION: u16 = 2;
    pub(crate) const BLOCK_SIZE: u16 = 3;
}

/// Transmission flags: what an export can do.
pub(super) mod transmission {
    pub(crate) const HAS_FLAGS: u16 = 1;
    pub(crate) const READ_ONLY: u16 = 1 << 1;
    pub(crate) const SEND_FLUSH: u16 = 1 << 2;
    pub(crate) const SEND_FUA: u16 = 1 << 3;
    pub(crate) const ROTATIONAL: u16 = 1 << 4;
    pub(crate) const SEND_TRIM: u16 = 1 << 5;
    pub(crate) const SEND_WRITE_ZEROES: u16 = 1 << 6;
    pub(crate) const SEND_DF: u16 = 1 << 7;
    pub(crate) const CAN_MULTI_CONN: u16 = 1 << 8;
    pub(crate) const SEND_CACHE: u16 = 1 << 10;
}

/// Types of requests.
pub(super) mod command {
    pub(crate) const READ: u16 = 0;
    pub(crate) const WRITE: u16 = 1;
    pub(crate) const DISC: u16 = 2;
    pub(crate) const FLUSH: u16 = 3;
    pub(crate) const TRIM: u16 = 4;
    pub(crate) const CACHE: u16 = 5;
    pub(crate) const WRITE_ZEROES: u16 = 6;
    pub(crate) const BLOCK_STATUS: u16 = 7;
}

/// Flags of requests.
pub(super) mod command_flag {
    pub(crate) const FUA: u16 = 1;
    pub(crate) const NO_HOLE: u16 = 1 << 1;
    pub(crate) const DF: u16 = 1 << 2;
    pub(crate) const REQ_ONE: u16 = 1 << 3;
}

/// Types of chunks of structured replies.
pub(super) mod chunk {
    pub(crate) const DONE: u16 = 1;
    pub(crate) const NONE: u16 = 0;
    pub(crate) const OFFSET_DATA: u16 = 1;
    pub(crate) const BLOCK_STATUS: u16 = 5;
    pub(crate) const ERROR: u16 = (1 << 15) | 1;
}

/// Error numbers of replies, which are those of Linux.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u32)]
pub(super) enum ErrorNumber {
    NotPermitted = 1,
    Io = 5,
    Invalid = 22,
    NoSpace = 28,
    NotSupported = 95,
    Shutdown = 108,
}

/// The one meta context that there is, and the number it goes by.
pub(super) const BASE_ALLOCATION: &str = "base:allocation";
pub(super) const BASE_ALLOCATION_ID: u32 = 1;
/// Flags of a range in that context: it has no space of its own, and it reads as zeros.
pub(super) const STATE_HOLE: u32 = 1;
pub(super) const STATE_ZERO: u32 = 2;

/// What a server says first.
pub(super) fn greeting() -> [u8; 18] {
    let mut bytes = [0; 18];
    bytes[..8].copy_from_slice(&SERVER_MAGIC.to_be_bytes());
    bytes[8..16].copy_from_slice(&OPTION_MAGIC.to_be_bytes());
    bytes[16..].copy_from_slice(&(FLAG_FIXED_NEWSTYLE | FLAG_NO_ZEROES).to_be_bytes());
    bytes
}

/// Appends a reply to an option.
pub(super) fn option_reply(out: &mut Vec<u8>, option: u32, kind: u32, data: &[u8]) {
    out.extend_from_slice(&OPTION_REPLY_MAGIC.to_be_bytes());
    out.extend_from_slice(&option.to_be_bytes());
    out.extend_from_slice(&kind.to_be_bytes());
    out.extend_from_slice(&(data.len() as u32).to_be_bytes());
    out.extend_from_slice(data);
}

/// The largest header that any reply has.
pub(super) const REPLY_HEADER_MAX: usize = 28;

/// What stands before the data of a reply, on the stack.
#[derive(Debug, Clone, Copy)]
pub(super) struct ReplyHeader {
    bytes: [u8; REPLY_HEADER_MAX],
    len: usize,
}

impl ReplyHeader {
    fn of(parts: &[&[u8]]) -> Self {
        let mut header = Self { bytes: [0; REPLY_HEADER_MAX], len: 0 };
        for part in parts {
            header.bytes[header.len..header.len + part.len()].copy_from_slice(part);
            header.len += part.len();
        }
        header
    }

    /// A simple reply; `error` 0 is success.
    pub(super) fn simple(cookie: u64, error: u32) -> Self {
        Self::of(&[&SIMPLE_REPLY_MAGIC.to_be_bytes(), &error.to_be_bytes(), &cookie.to_be_bytes()])
    }

    /// The last, or only, chunk of a structured reply, with a payload of `len` bytes behind it.
    pub(super) fn last_chunk(cookie: u64, kind: u16, len: u32) -> Self {
        Self::of(&[
            &STRUCTURED_REPLY_MAGIC.to_be_bytes(),
            &chunk::DONE.to_be_bytes(),
            &kind.to_be_bytes(),
            &cookie.to_be_bytes(),
            &len.to_be_bytes(),
        ])
    }

    /// The only chunk of a structured reply to a read of `len` bytes from `offset`.
    pub(super) fn data_chunk(cookie: u64, offset: u64, len: u32) -> Self {
        let mut header = Self::last_chunk(cookie, chunk::OFFSET_DATA, len.saturating_add(8));
        header.bytes[header.len..header.len + 8].copy_from_slice(&offset.to_be_bytes());
        header.len += 8;
        header
    }

    pub(super) fn bytes(&self) -> &[u8] {
        &self.bytes[..self.len]
    }
}

/// The payload of a chunk that says that a request failed.
pub(super) fn error_payload(error: ErrorNumber, message: &str) -> Vec<u8> {
    // Longer ones are cut; a client must take 4,096 bytes of a string.
    let mut end = message.len().min(1024);
    while !message.is_char_boundary(end) {
        end -= 1;
    }
    let message = &message.as_bytes()[..end];
    let mut payload = Vec::with_capacity(6 + message.len());
    payload.extend_from_slice(&(error as u32).to_be_bytes());
    payload.extend_from_slice(&(message.len() as u16).to_be_bytes());
    payload.extend_from_slice(message);
    payload
}

/// Takes integers and strings from the front of bytes that somebody else has written.
#[derive(Debug, Clone, Copy)]
pub(super) struct Fields<'a>(pub(super) &'a [u8]);

impl<'a> Fields<'a> {
    pub(super) fn bytes(&mut self, len: usize) -> Option<&'a [u8]> {
        let (bytes, rest) = self.0.split_at_checked(len)?;
        self.0 = rest;
        Some(bytes)
    }

    fn array<const LEN: usize>(&mut self) -> Option<[u8; LEN]> {
        self.bytes(LEN)?.try_into().ok()
    }

    pub(super) fn u16(&mut self) -> Option<u16> {
        self.array().map(u16::from_be_bytes)
    }

    pub(super) fn u32(&mut self) -> Option<u32> {
        self.array().map(u32::from_be_bytes)
    }

    pub(super) fn u64(&mut self) -> Option<u64> {
        self.array().map(u64::from_be_bytes)
    }

    /// A string behind its length in 32 bits.
    pub(super) fn string(&mut self) -> Option<&'a [u8]> {
        let len = self.u32()?;
        self.bytes(usize::try_from(len).ok()?)
    }

    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Byte for byte as doc/proto.md has them.
    #[test]
    fn replies_are_laid_out_as_the_protocol_says() {
        assert_eq!(&greeting()[..], b"NBDMAGICIHAVEOPT\0\x03");
        assert_eq!(
            ReplyHeader::simple(0x0102_0304_0506_0708, 5).bytes(),
            b"\x67\x44\x66\x98\0\0\0\x05\x01\x02\x03\x04\x05\x06\x07\x08"
        );
        assert_eq!(
            ReplyHeader::data_chunk(9, 0x1000, 512).bytes(),
            b"\x66\x8e\x33\xef\0\x01\0\x01\0\0\0\0\0\0\0\x09\0\0\x02\x08\0\0\0\0\0\0\x10\0"
        );
        assert_eq!(error_payload(ErrorNumber::NoSpace, "full"), b"\0\0\0\x1c\0\x04full");
        let mut out = Vec::new();
        option_reply(&mut out, option::GO, reply::ERR_UNKNOWN, b"no");
        assert_eq!(out, b"\0\x03\xe8\x89\x04\x55\x65\xa9\0\0\0\x07\x80\0\0\x06\0\0\0\x02no");
    }

    #[test]
    fn a_long_message_is_cut_between_two_characters() {
        let payload = error_payload(ErrorNumber::Io, &"ü".repeat(600).replacen('ü', "u", 1));
        assert_eq!(payload.len(), 6 + 1023);
        assert!(std::str::from_utf8(&payload[6..]).is_ok());
    }

    #[test]
    fn fields_end_where_the_bytes_end() {
        let mut fields = Fields(b"\0\0\0\x02abc");
        assert_eq!(fields.string(), Some(&b"ab"[..]));
        assert_eq!((fields.u16(), fields.bytes(1), fields.is_empty()), (None, Some(&b"c"[..]), true));
        assert_eq!(Fields(b"\xff\xff\xff\xffab").string(), None);
    }
}
