//! A trace of Mezzanine, block by block.

use std::collections::HashSet;

use mezzanine_engine::PageId;

use super::header::{BadHeader, HEADER_BYTES, Header};
use super::naming::{Naming, PREFIX_BYTES, Relation, parts_of};
use super::record::{self, Decoded, Previous};
use super::{BLOCK_HEAD_BYTES, BlockHead, KIND_END, KIND_RECORDS, RECORDS_BYTES_MAX};
use crate::error::{Position, TraceError, TraceErrorKind};
use crate::input::Input;
use crate::request::Request;

/// The records of a trace whose header was read.
pub(crate) struct Blocks {
    header: Header,
    relations: Vec<Relation>,
    /// Where pages have ids: what the relations' ids begin with.
    prefixes: HashSet<[u8; PREFIX_BYTES]>,
    /// The block that is being read: its records, how far they are read, how many requests are still to
    /// come, and where it began.
    records: Vec<u8>,
    at: usize,
    left: u32,
    begin: u64,
    previous: Previous,
    /// Where the trace stands: as the next head has to say it.
    checksum: u32,
    requests: u64,
    time_ns: u64,
    ended: bool,
    /// A trace that stops without its end is read as far as its blocks are whole.
    without_end: bool,
    /// It was one.
    stopped: bool,
}

impl Blocks {
    pub(crate) fn new(input: &mut Input) -> Result<Blocks, TraceError> {
        let bytes = input.peek(HEADER_BYTES)?;
        let there = bytes.len();
        let decoded = match bytes.first_chunk() {
            Some(bytes) => Header::decode(bytes),
            None if bytes.starts_with(&super::MAGIC[..there.min(8)]) => {
                let reason = format!("the trace ends inside its header, after {there} bytes");
                return Err(input.error(TraceErrorKind::Truncated, Position::Byte(0), reason));
            }
            None => Err(BadHeader::Magic),
        };
        let (header, checksum) = decoded.map_err(|bad| {
            let (kind, reason) = match bad {
                BadHeader::Magic => {
                    (TraceErrorKind::WrongFormat, "this is no trace of the format mezzanine".to_owned())
                }
                BadHeader::Version(version) => (
                    TraceErrorKind::UnknownVersion,
                    format!("a trace of version {version}; this software reads version 1"),
                ),
                BadHeader::Damaged(reason) => (TraceErrorKind::Damaged, reason.to_owned()),
            };
            input.error(kind, Position::Byte(0), reason)
        })?;
        input.consume(HEADER_BYTES);
        Ok(Blocks {
            header,
            relations: Vec::new(),
            prefixes: HashSet::new(),
            records: Vec::new(),
            at: 0,
            left: 0,
            begin: HEADER_BYTES as u64,
            previous: Previous::default(),
            checksum,
            requests: 0,
            time_ns: 0,
            ended: false,
            without_end: false,
            stopped: false,
        })
    }

    /// Has a trace that stops without its end be one that ends there.
    pub(crate) fn allow_without_end(&mut self) {
        self.without_end = true;
    }

    /// Whether the trace had no end.
    pub(crate) fn has_stopped(&self) -> bool {
        self.stopped
    }

    pub(crate) fn header(&self) -> &Header {
        &self.header
    }

    /// The relations that were defined so far; number 1 is the first.
    pub(crate) fn relations(&self) -> &[Relation] {
        &self.relations
    }

    /// The id of a page of the trace.
    pub(crate) fn page_id(&self, page: u64) -> Option<PageId> {
        let (relation, block) = parts_of(page);
        let relation = self.relations.get((relation as usize).checked_sub(1)?)?;
        self.header.naming.join(&relation.prefix, block)
    }

    /// The next request; `None` behind the last, when the end has been found as it should be.
    pub(crate) fn request(&mut self, input: &mut Input) -> Result<Option<Request>, TraceError> {
        loop {
            if self.at == self.records.len() {
                if self.left > 0 {
                    return Err(self.damaged(input, "the block has fewer requests than it says"));
                }
                if self.ended || !self.next_block(input)? {
                    return Ok(None);
                }
                continue;
            }
            let mut rest = &self.records[self.at..];
            let (naming, timed) = (self.header.naming, self.header.timed);
            let decoded = record::decode(&mut rest, naming, timed, self.relations.len(), &mut self.previous);
            let end = self.records.len() - rest.len();
            match decoded {
                Err(reason) => return Err(self.damaged(input, reason)),
                Ok(Decoded::Relation(relation)) => {
                    // A page would have two numbers.
                    if naming != Naming::Numbers && !self.prefixes.insert(relation.prefix) {
                        return Err(self.damaged(input, "a relation that was defined before"));
                    }
                    self.relations.push(relation);
                }
                Ok(Decoded::Request(mut request, since)) => {
                    let Some(left) = self.left.checked_sub(1) else {
                        return Err(self.damaged(input, "the block has more requests than it says"));
                    };
                    let Some(time_ns) = self.time_ns.checked_add(since) else {
                        return Err(self.damaged(input, "a time that needs more than 64 bits of nanoseconds"));
                    };
                    (self.left, self.time_ns, self.at) = (left, time_ns, end);
                    self.requests += 1;
                    request.time_ns = timed.then_some(time_ns);
                    return Ok(Some(request));
                }
            }
            self.at = end;
        }
    }

    /// An error at the record that is being read.
    fn damaged(&self, input: &Input, reason: impl Into<String>) -> TraceError {
        let position = Position::Byte(self.begin + (BLOCK_HEAD_BYTES + self.at) as u64);
        input.error(TraceErrorKind::Damaged, position, reason)
    }

    /// Goes on to the next block; false if that is the end.
    fn next_block(&mut self, input: &mut Input) -> Result<bool, TraceError> {
        let begin = input.position();
        let wrong =
            |input: &Input, kind, reason: String| Err(input.error(kind, Position::Byte(begin), reason));
        let bytes = input.peek(BLOCK_HEAD_BYTES)?;
        let there = bytes.len();
        let Some(bytes) = bytes.first_chunk() else {
            if self.stops_here() {
                return Ok(false);
            }
            let reason = format!("the trace is not whole: after {there} more bytes it stops without its end");
            return wrong(input, TraceErrorKind::Truncated, reason);
        };
        let (head, checksum) = BlockHead::decode(bytes);
        let length = head.bytes as usize;
        if length > RECORDS_BYTES_MAX || ![KIND_RECORDS, KIND_END].contains(&head.kind) {
            return wrong(input, TraceErrorKind::Damaged, "no block where one begins".to_owned());
        }
        let whole = input.peek(BLOCK_HEAD_BYTES + length)?;
        let records = &whole[BLOCK_HEAD_BYTES..];
        if records.len() < length {
            let there = records.len();
            if self.stops_here() {
                return Ok(false);
            }
            let reason =
                format!("the trace is not whole: of the {length} bytes of a block {there} are there");
            return wrong(input, TraceErrorKind::Truncated, reason);
        }
        if crc32c::crc32c_append(crc32c::crc32c(&whole[..BLOCK_HEAD_BYTES - 4]), records) != checksum {
            return wrong(
                input,
                TraceErrorKind::Damaged,
                "the checksum of the block does not match it".to_owned(),
            );
        }
        self.records.clear();
        self.records.extend_from_slice(records);
        if let Some(reason) = self.misplaced(&head) {
            return wrong(input, TraceErrorKind::Damaged, reason);
        }
        input.consume(BLOCK_HEAD_BYTES + length);
        (self.at, self.left, self.begin, self.checksum) = (0, head.requests, begin, checksum);
        self.previous.begin_block();
        if head.kind == KIND_RECORDS {
            return Ok(true);
        }
        self.ended = true;
        if !input.peek(1)?.is_empty() {
            let reason = "there is more behind the end of the trace";
            return Err(input.error(TraceErrorKind::Damaged, Position::Byte(input.position()), reason));
        }
        Ok(false)
    }

    /// What comes next is not whole: whether that may be the end.
    fn stops_here(&mut self) -> bool {
        (self.ended, self.stopped) = (self.without_end, self.without_end);
        self.without_end
    }

    /// What is wrong with a whole block in this place.
    fn misplaced(&self, head: &BlockHead) -> Option<String> {
        if head.before != self.checksum || head.requests_before != self.requests {
            let (says, is) = (head.requests_before, self.requests);
            return Some(format!(
                "the block does not follow what stands before it: it says that {says} requests do, {is} have been read"
            ));
        }
        if head.time_ns != self.time_ns || head.relations as usize != self.relations.len() {
            return Some("the block does not go on where the one before it ends".to_owned());
        }
        let is_empty = head.bytes == 0 && head.requests == 0;
        (is_empty != (head.kind == KIND_END))
            .then(|| "a block without records, or an end with some".to_owned())
    }
}
