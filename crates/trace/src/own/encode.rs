//! Writing a trace of Mezzanine.

use std::collections::HashMap;
use std::io::{self, Write};

use mezzanine_engine::PageId;

use super::header::Header;
use super::naming::{Naming, PREFIX_BYTES, RELATIONS_MAX, Relation, page_number, parts_of};
use super::record::{self, Fields, Previous, RECORD_BYTES_MAX};
use super::{BlockHead, KIND_END, KIND_RECORDS, RECORDS_BYTES_MAX};
use crate::request::Request;

/// Why something was not written.
pub(crate) enum EncodeError {
    Io(io::Error),
    /// The request cannot be in such a trace.
    Invalid(String),
    /// The request is earlier than the one before.
    Unsorted(String),
}

impl From<io::Error> for EncodeError {
    fn from(error: io::Error) -> EncodeError {
        EncodeError::Io(error)
    }
}

/// Encodes requests into blocks.
pub(crate) struct Encoder<W> {
    out: W,
    header: Header,
    relations: Vec<Relation>,
    /// Numbers of relations by their prefix, where pages have ids.
    numbers: HashMap<[u8; PREFIX_BYTES], u32>,
    records: Vec<u8>,
    previous: Previous,
    /// The head of the block that is being filled.
    head: BlockHead,
    requests: u64,
    time_ns: u64,
}

impl<W: Write> Encoder<W> {
    /// Writes the header.
    pub(crate) fn new(mut out: W, header: Header) -> io::Result<Encoder<W>> {
        let (bytes, before) = header.encode();
        out.write_all(&bytes)?;
        let head = BlockHead {
            kind: KIND_RECORDS,
            bytes: 0,
            requests: 0,
            before,
            requests_before: 0,
            time_ns: 0,
            relations: 0,
        };
        let mut previous = Previous::default();
        previous.begin_block();
        Ok(Encoder {
            out,
            header,
            relations: Vec::new(),
            numbers: HashMap::new(),
            records: Vec::with_capacity(RECORDS_BYTES_MAX),
            previous,
            head,
            requests: 0,
            time_ns: 0,
        })
    }

    pub(crate) fn relations(&self) -> &[Relation] {
        &self.relations
    }

    /// Defines a relation of which only the name is known, in a trace whose pages are numbers.
    pub(crate) fn named(&mut self, name: &str) -> Result<u32, EncodeError> {
        if self.header.naming != Naming::Numbers {
            let reason =
                "relations follow from the ids of the pages in this trace, and are not defined by name";
            return Err(EncodeError::Invalid(reason.to_owned()));
        }
        self.relation(Relation { prefix: [0; PREFIX_BYTES], name: name.to_owned() })
    }

    /// Defines a relation and returns its number.
    pub(crate) fn relation(&mut self, relation: Relation) -> Result<u32, EncodeError> {
        if self.relations.len() >= RELATIONS_MAX {
            return Err(EncodeError::Invalid(format!(
                "a trace has no room for more than {RELATIONS_MAX} relations"
            )));
        }
        self.make_room()?;
        let relation = Relation { name: record::name_that_fits(&relation.name), ..relation };
        record::encode_relation(&relation, self.header.naming, &mut self.records);
        let number = self.relations.len() as u32 + 1;
        self.numbers.insert(relation.prefix, number);
        self.relations.push(relation);
        Ok(number)
    }

    /// The number that a request has for the page with this id; defines its relation at the first of them.
    pub(crate) fn page(&mut self, id: &PageId) -> Result<u64, EncodeError> {
        let Some((prefix, block)) = self.header.naming.split(id) else {
            let naming = self.header.naming.name();
            return Err(EncodeError::Invalid(format!(
                "a trace whose pages are named as '{naming}' has no page {id:?}"
            )));
        };
        let relation = match self.numbers.get(&prefix) {
            Some(number) => *number,
            None => self.relation(Relation { prefix, name: String::new() })?,
        };
        Ok(page_number(relation, block))
    }

    /// Names the relation of a page before the first request for it.
    pub(crate) fn name(&mut self, id: &PageId, name: &str) -> Result<(), EncodeError> {
        match self.header.naming.split(id) {
            Some((prefix, _)) if !self.numbers.contains_key(&prefix) => {
                self.relation(Relation { prefix, name: name.to_owned() }).map(|_| ())
            }
            Some(_) => Ok(()),
            None => Err(EncodeError::Invalid(format!("no page of this trace has the id {id:?}"))),
        }
    }

    /// Hands on what was encoded, so that a reader of a trace without its end finds it.
    pub(crate) fn flush(&mut self) -> io::Result<()> {
        if !self.records.is_empty() {
            self.write_block()?;
        }
        self.out.flush()
    }

    pub(crate) fn output(&mut self) -> &mut W {
        &mut self.out
    }

    pub(crate) fn request(&mut self, request: &Request) -> Result<(), EncodeError> {
        let fields = self.fields(request)?;
        self.make_room()?;
        record::encode(&fields, self.header.timed, &mut self.previous, &mut self.records);
        self.time_ns += fields.time_ns;
        self.requests += 1;
        self.head.requests += 1;
        Ok(())
    }

    fn fields(&self, request: &Request) -> Result<Fields, EncodeError> {
        let time_ns = match (self.header.timed, request.time_ns) {
            (true, Some(time_ns)) => time_ns.checked_sub(self.time_ns).ok_or_else(|| {
                let before = self.time_ns;
                EncodeError::Unsorted(format!("a request at {time_ns} ns follows one at {before} ns"))
            })?,
            (false, None) => 0,
            (true, None) => {
                return Err(EncodeError::Invalid("a request without a time in a trace with times".into()));
            }
            (false, Some(_)) => {
                return Err(EncodeError::Invalid("a request with a time in a trace without times".into()));
            }
        };
        let mut fields = Fields {
            op: request.op,
            client: request.client,
            transaction: request.transaction,
            relation: request.relation.unwrap_or(0),
            time_ns,
            page: request.page,
        };
        if request.op.is_mark() {
            return Ok(fields);
        }
        if self.header.naming != Naming::Numbers {
            (fields.relation, fields.page) = parts_of(request.page);
        }
        let is_defined = fields.relation as usize <= self.relations.len();
        let is_named = self.header.naming == Naming::Numbers
            || fields.relation != 0 && fields.relation == request.relation.unwrap_or(fields.relation);
        if !is_defined || !is_named {
            let (page, relation) = (request.page, fields.relation);
            return Err(EncodeError::Invalid(format!(
                "page {page} of relation {relation}, which was not defined"
            )));
        }
        Ok(fields)
    }

    /// Room for one more record.
    fn make_room(&mut self) -> io::Result<()> {
        if self.records.len() + RECORD_BYTES_MAX > RECORDS_BYTES_MAX { self.write_block() } else { Ok(()) }
    }

    fn write_block(&mut self) -> io::Result<()> {
        let head = BlockHead { bytes: self.records.len() as u32, ..self.head };
        let bytes = head.encode(&self.records);
        self.out.write_all(&bytes)?;
        self.out.write_all(&self.records)?;
        self.records.clear();
        self.previous.begin_block();
        self.head = BlockHead {
            kind: KIND_RECORDS,
            bytes: 0,
            requests: 0,
            before: BlockHead::decode(&bytes).1,
            requests_before: self.requests,
            time_ns: self.time_ns,
            relations: self.relations.len() as u32,
        };
        Ok(())
    }

    /// Writes what is left, and the end.
    pub(crate) fn finish(mut self) -> io::Result<W> {
        if !self.records.is_empty() {
            self.write_block()?;
        }
        self.head.kind = KIND_END;
        self.out.write_all(&self.head.encode(&[]))?;
        Ok(self.out)
    }
}
