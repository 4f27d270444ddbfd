//! The negotiation over a connection: messages in, answers out, and how a connection can end.

use std::fmt;
use std::io::{self, Read, Write};

use super::negotiation::{Agreed, Negotiation, Step};
use super::wire::{FLAG_FIXED_NEWSTYLE, FLAG_NO_ZEROES, Fields, OPTION_MAGIC, greeting};

/// Options of one client, at most; real ones send ten.
const OPTIONS_MAX: u32 = 128;
/// Data of an option that is looked at, in bytes: a name of the longest kind and a hundred queries.
const OPTION_BYTES_MAX: u32 = 64 << 10;
/// Data of an option that is skipped, in bytes; whoever sends more is not negotiating.
const SKIPPED_BYTES_MAX: u32 = 1 << 20;

/// Why a connection has ended.
#[derive(Debug)]
pub enum Ended {
    /// The client said that it was done.
    Done,
    /// The client closed the connection between two messages.
    Closed,
    /// The server was told to end it.
    Stopped,
    /// The client has done what the protocol has no answer to.
    Violation(Violation),
    /// The connection failed.
    Failed(io::Error),
}

/// What a client has done that ends its connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Violation(pub(super) &'static str);

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.0)
    }
}

impl fmt::Display for Ended {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Done => f.write_str("the client is done"),
            Self::Closed => f.write_str("the client has closed the connection"),
            Self::Stopped => f.write_str("the server has ended it"),
            Self::Violation(what) => write!(f, "the client has broken the protocol: {what}"),
            Self::Failed(error) => write!(f, "the connection failed: {error}"),
        }
    }
}

impl From<io::Error> for Ended {
    fn from(error: io::Error) -> Self {
        match error.kind() {
            io::ErrorKind::UnexpectedEof => Self::Violation(Violation("it ends in the middle of a message")),
            io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut => {
                Self::Violation(Violation("its negotiation takes too long"))
            }
            _ => Self::Failed(error),
        }
    }
}

/// What haggling has led to.
#[derive(Debug)]
pub(super) enum Haggled {
    Transmit(Agreed),
    StartTls,
}

/// Fills `buf`; false if there is nothing at all any more.
pub(super) fn read_message(reader: &mut dyn Read, buf: &mut [u8]) -> io::Result<bool> {
    let mut done = 0;
    while done < buf.len() {
        match reader.read(&mut buf[done..]) {
            Ok(0) if done == 0 => return Ok(false),
            Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
            Ok(more) => done += more,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(true)
}

/// Reads what nobody looks at.
pub(super) fn skip(reader: &mut dyn Read, len: u64) -> io::Result<()> {
    let skipped = io::copy(&mut reader.take(len), &mut io::sink())?;
    if skipped == len { Ok(()) } else { Err(io::ErrorKind::UnexpectedEof.into()) }
}

/// The greeting and the client's flags. Returns whether both do without the zeroes of the old option.
pub(super) fn greet(reader: &mut dyn Read, writer: &mut dyn Write) -> Result<bool, Ended> {
    writer.write_all(&greeting())?;
    writer.flush()?;
    let mut flags = [0; 4];
    if !read_message(reader, &mut flags)? {
        return Err(Ended::Closed);
    }
    let flags = u32::from_be_bytes(flags);
    let known = u32::from(FLAG_FIXED_NEWSTYLE | FLAG_NO_ZEROES);
    if flags & !known != 0 {
        return Err(Ended::Violation(Violation("it wants what this server does not know")));
    }
    if flags & u32::from(FLAG_FIXED_NEWSTYLE) == 0 {
        return Err(Ended::Violation(Violation("it does not know the fixed newstyle negotiation")));
    }
    Ok(flags & u32::from(FLAG_NO_ZEROES) != 0)
}

/// Answers options until one leads on. Reads no byte behind that one: encryption may begin there.
pub(super) fn haggle(
    reader: &mut dyn Read,
    writer: &mut dyn Write,
    negotiation: &mut Negotiation<'_>,
) -> Result<Haggled, Ended> {
    for _ in 0..OPTIONS_MAX {
        let mut header = [0; 16];
        if !read_message(reader, &mut header)? {
            return Err(Ended::Closed);
        }
        let mut fields = Fields(&header);
        let magic = fields.u64();
        let Some((option, len)) = fields.u32().zip(fields.u32()).filter(|_| magic == Some(OPTION_MAGIC))
        else {
            return Err(Ended::Violation(Violation("an option does not begin as options do")));
        };
        let mut out = Vec::new();
        let step = if len <= OPTION_BYTES_MAX {
            let mut data = vec![0; len as usize];
            if len > 0 && !read_message(reader, &mut data)? {
                return Err(io::Error::from(io::ErrorKind::UnexpectedEof).into());
            }
            negotiation.answer(option, &data, &mut out)
        } else if len <= SKIPPED_BYTES_MAX {
            skip(reader, u64::from(len))?;
            negotiation.too_long(option, &mut out)
        } else {
            return Err(Ended::Violation(Violation("an option is longer than any is")));
        };
        writer.write_all(&out)?;
        writer.flush()?;
        match step {
            Step::Haggle => {}
            Step::StartTls => return Ok(Haggled::StartTls),
            Step::Transmit(agreed) => return Ok(Haggled::Transmit(agreed)),
            Step::Abort => return Err(Ended::Done),
            Step::Refuse(why) => return Err(Ended::Violation(Violation(why))),
        }
    }
    Err(Ended::Violation(Violation("it sends options without end")))
}
