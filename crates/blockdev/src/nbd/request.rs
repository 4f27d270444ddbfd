//! Requests: parsed, and judged by what was agreed, without input or output.

use super::export::Offer;
use super::negotiation::Agreed;
use super::wire::{ErrorNumber, Fields, REQUEST_MAGIC, command, command_flag};

/// Length of a request without its payload, in bytes.
pub(super) const HEADER_BYTES: usize = 28;

/// A request as the client sent it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Header {
    flags: u16,
    kind: u16,
    /// What the client calls it.
    pub(super) cookie: u64,
    offset: u64,
    len: u32,
}

/// What is to be done. Offsets and lengths are in bytes, lie within the export and are not too long.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Command {
    Read { offset: u64, len: u32 },
    Write { offset: u64, len: u32, durable: bool },
    WriteZeroes { offset: u64, len: u32, durable: bool, may_punch: bool },
    Trim { offset: u64, len: u32, durable: bool },
    Cache { offset: u64, len: u32 },
    BlockStatus { offset: u64, len: u32, one: bool },
    Flush,
    Disconnect,
}

/// Why a request is not carried out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Refusal {
    pub(super) error: ErrorNumber,
    pub(super) why: &'static str,
}

impl Header {
    /// `None` if it does not begin as requests do: then nobody knows where the next one would.
    pub(super) fn parse(bytes: &[u8; HEADER_BYTES]) -> Option<Self> {
        let mut fields = Fields(bytes);
        fields.u32().filter(|magic| *magic == REQUEST_MAGIC)?;
        let (flags, kind, cookie) = (fields.u16()?, fields.u16()?, fields.u64()?);
        Some(Self { flags, kind, cookie, offset: fields.u64()?, len: fields.u32()? })
    }

    /// How many bytes follow, whatever becomes of the request.
    pub(super) fn payload(&self) -> u32 {
        if self.kind == command::WRITE { self.len } else { 0 }
    }

    /// What the request is for.
    ///
    /// # Errors
    /// The error to answer it with.
    pub(super) fn command(&self, offer: &Offer, agreed: &Agreed) -> Result<Command, Refusal> {
        let Self { flags, offset, len, .. } = *self;
        let durable = flags & command_flag::FUA != 0;
        let (known, wanted) = match self.kind {
            command::READ => (command_flag::DF, Command::Read { offset, len }),
            command::WRITE => (0, Command::Write { offset, len, durable }),
            command::WRITE_ZEROES => {
                let may_punch = flags & command_flag::NO_HOLE == 0;
                (command_flag::NO_HOLE, Command::WriteZeroes { offset, len, durable, may_punch })
            }
            command::TRIM => (0, Command::Trim { offset, len, durable }),
            command::CACHE => (0, Command::Cache { offset, len }),
            command::BLOCK_STATUS if agreed.allocation => {
                let one = flags & command_flag::REQ_ONE != 0;
                (command_flag::REQ_ONE, Command::BlockStatus { offset, len, one })
            }
            command::BLOCK_STATUS => return refuse("no meta context was agreed on"),
            command::FLUSH => (0, Command::Flush),
            // It has no answer, so nothing about it can be refused.
            command::DISC => return Ok(Command::Disconnect),
            _ => return refuse("this server has no such command"),
        };
        // FUA says nothing of what does not write, and is no mistake there.
        if flags & !(known | command_flag::FUA) != 0 {
            return refuse("the command has no such flag");
        }
        let changes =
            matches!(wanted, Command::Write { .. } | Command::WriteZeroes { .. } | Command::Trim { .. });
        if changes && offer.read_only {
            return Err(Refusal { error: ErrorNumber::NotPermitted, why: "the export is read-only" });
        }
        if wanted == Command::Flush {
            return Ok(wanted);
        }
        check_range(offer, wanted, offset, len)?;
        Ok(wanted)
    }
}

/// Whether a range may be asked for.
fn check_range(offer: &Offer, wanted: Command, offset: u64, len: u32) -> Result<(), Refusal> {
    let minimum = u64::from(offer.minimum);
    if offset % minimum != 0 || u64::from(len) % minimum != 0 {
        return refuse("offset or length is no multiple of the smallest block of the export");
    }
    let transfers = matches!(wanted, Command::Read { .. } | Command::Write { .. });
    if transfers && len > offer.maximum {
        return refuse("the request is longer than the largest block of the export");
    }
    if len == 0 && matches!(wanted, Command::BlockStatus { .. }) {
        return refuse("a range without bytes has no status");
    }
    match offset.checked_add(u64::from(len)) {
        Some(end) if end <= offer.len => Ok(()),
        _ => {
            let why = "the range reaches past the end of the export";
            // As of a disk that is full.
            let adds = matches!(wanted, Command::Write { .. } | Command::WriteZeroes { .. });
            Err(Refusal { error: if adds { ErrorNumber::NoSpace } else { ErrorNumber::Invalid }, why })
        }
    }
}

fn refuse<T>(why: &'static str) -> Result<T, Refusal> {
    Err(Refusal { error: ErrorNumber::Invalid, why })
}

#[cfg(test)]
mod tests {
    use super::*;

    const AGREED: Agreed = Agreed { export: 0, structured: true, allocation: true };

    fn offer(minimum: u32, read_only: bool) -> Offer {
        Offer {
            name: String::new(),
            description: String::new(),
            len: 1 << 20,
            read_only,
            minimum,
            preferred: 4096,
            maximum: 1 << 16,
            rotational: false,
        }
    }

    fn header(kind: u16, flags: u16, offset: u64, len: u32) -> Header {
        Header { flags, kind, cookie: 7, offset, len }
    }

    #[test]
    fn a_request_is_parsed_byte_for_byte() {
        let mut bytes = *b"\x25\x60\x95\x13\0\x01\0\x01ABCDEFGH\0\0\0\0\0\0\x10\0\0\0\x02\0";
        let header = Header::parse(&bytes).expect("a request");
        assert_eq!((header.cookie, header.payload()), (u64::from_be_bytes(*b"ABCDEFGH"), 512));
        assert_eq!(
            header.command(&offer(512, false), &AGREED),
            Ok(Command::Write { offset: 4096, len: 512, durable: true })
        );
        bytes[0] ^= 1;
        assert_eq!(Header::parse(&bytes), None);
    }

    #[test]
    fn what_may_not_be_is_answered_with_the_number_that_the_protocol_has_for_it() {
        use ErrorNumber::{Invalid, NoSpace, NotPermitted};
        use command::*;
        let (end, large) = (1 << 20, (1 << 16) + 512);
        for (kind, flags, offset, len, error) in [
            (READ, 0, end - 512, 1024, Invalid),
            (READ, 0, u64::MAX - 511, 512, Invalid),
            (WRITE, 0, end, 512, NoSpace),
            (WRITE_ZEROES, 0, end - 512, 1024, NoSpace),
            (TRIM, 0, end, 512, Invalid),
            (READ, 0, 0, large, Invalid),
            (WRITE, 0, 0, large, Invalid),
            (READ, 0, 1, 512, Invalid),
            (WRITE, 0, 0, 511, Invalid),
            (READ, command_flag::NO_HOLE, 0, 512, Invalid),
            (TRIM, 1 << 9, 0, 512, Invalid),
            (BLOCK_STATUS, 0, 0, 0, Invalid),
            (8, 0, 0, 0, Invalid),
            (u16::MAX, 0, 0, 0, Invalid),
        ] {
            let refused = header(kind, flags, offset, len).command(&offer(512, false), &AGREED);
            assert_eq!(refused.map_err(|refusal| refusal.error), Err(error), "{kind} {offset} {len}");
        }
        for kind in [WRITE, WRITE_ZEROES, TRIM] {
            let refused = header(kind, 0, 0, 512).command(&offer(512, true), &AGREED);
            assert_eq!(refused.map_err(|refusal| refusal.error), Err(NotPermitted), "{kind}");
        }
        let silent = Agreed { allocation: false, ..AGREED };
        assert!(header(BLOCK_STATUS, 0, 0, 512).command(&offer(512, false), &silent).is_err());
    }

    #[test]
    fn what_moves_no_bytes_may_be_longer_than_the_largest_block() {
        let offer = offer(1, false);
        for kind in [command::WRITE_ZEROES, command::TRIM, command::CACHE, command::BLOCK_STATUS] {
            assert!(header(kind, 0, 0, 1 << 20).command(&offer, &AGREED).is_ok(), "{kind}");
        }
        // A flush has no range, whatever stands there.
        assert_eq!(header(command::FLUSH, 0, 3, u32::MAX).command(&offer, &AGREED), Ok(Command::Flush));
    }
}
