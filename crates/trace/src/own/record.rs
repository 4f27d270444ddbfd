//! Records: what has changed since the record before, in as few bytes as that takes.
//!
//! A record begins with its tag: the kind in the lower four bits, and above them which fields follow. Numbers
//! are varints: seven bits a byte, the lowest first, the top bit of all bytes but the last set. Differences
//! are folded so that small ones of either sign are small numbers (0, -1, 1, -2, ... are 0, 1, 2, 3, ...).

use super::naming::{Naming, PREFIX_BYTES, RELATIONS_MAX, Relation, page_number, parts_of};
use crate::request::{Op, Request};

const KIND_MASK: u8 = 0x0F;
/// Kinds below it are places in [`Op::ALL`].
const KIND_RELATION: u8 = 0x0F;
/// The client is another than that of the record before, and follows.
const CLIENT: u8 = 0x10;
/// The number of the transaction is another, and follows.
const TRANSACTION: u8 = 0x20;
/// The relation is another, and follows.
const RELATION: u8 = 0x40;
/// There is no transaction.
const NO_TRANSACTION: u8 = 0x80;

const NAME_BYTES_MAX: usize = 255;

/// The longest record: a relation with the longest name.
pub(super) const RECORD_BYTES_MAX: usize = 1 + PREFIX_BYTES + 1 + NAME_BYTES_MAX;

/// What a record of a block is compared with. Starts anew in every block.
#[derive(Debug, Default)]
pub(super) struct Previous {
    client: Option<u32>,
    transaction: u64,
    relation: u32,
    /// The page before in each relation, with the number of the block that it is from.
    pages: Vec<(u64, u64)>,
    block: u64,
}

impl Previous {
    /// Forgets the block before.
    pub(super) fn begin_block(&mut self) {
        (self.client, self.transaction, self.relation) = (None, 0, 0);
        self.block += 1;
    }

    /// The page before in a relation, to be replaced; 0 at first.
    fn page(&mut self, relation: u32) -> &mut u64 {
        let at = relation as usize;
        if self.pages.len() <= at {
            self.pages.resize(at + 1, (0, 0));
        }
        let (block, page) = &mut self.pages[at];
        if *block != self.block {
            (*block, *page) = (self.block, 0);
        }
        page
    }
}

/// What goes into a record.
#[derive(Debug, Clone, Copy)]
pub(super) struct Fields {
    pub(super) op: Op,
    pub(super) client: Option<u32>,
    pub(super) transaction: Option<u64>,
    /// 0 for none.
    pub(super) relation: u32,
    /// Since the request before; 0 in a trace without times.
    pub(super) time_ns: u64,
    /// In the whole trace or in the relation, as pages are named.
    pub(super) page: u64,
}

/// Appends a request.
pub(super) fn encode(fields: &Fields, timed: bool, previous: &mut Previous, out: &mut Vec<u8>) {
    let tag_at = out.len();
    out.push(fields.op.index() as u8);
    let mut tag = 0;
    if fields.client != previous.client {
        tag |= CLIENT;
        put(out, fields.client.map_or(0, |client| u64::from(client) + 1));
        previous.client = fields.client;
    }
    match fields.transaction {
        None => tag |= NO_TRANSACTION,
        Some(transaction) if transaction != previous.transaction => {
            tag |= TRANSACTION;
            put(out, fold(transaction.wrapping_sub(previous.transaction)));
            previous.transaction = transaction;
        }
        Some(_) => {}
    }
    if !fields.op.is_mark() && fields.relation != previous.relation {
        tag |= RELATION;
        put(out, fields.relation.into());
        previous.relation = fields.relation;
    }
    if timed {
        put(out, fields.time_ns);
    }
    if !fields.op.is_mark() {
        let before = previous.page(fields.relation);
        put(out, fold(fields.page.wrapping_sub(*before)));
        *before = fields.page;
    }
    out[tag_at] |= tag;
}

/// Appends the definition of a relation, whose name has at most 255 bytes.
pub(super) fn encode_relation(relation: &Relation, naming: Naming, out: &mut Vec<u8>) {
    out.push(KIND_RELATION);
    if naming != Naming::Numbers {
        out.extend_from_slice(&relation.prefix);
    }
    let name = relation.name.as_bytes();
    assert!(name.len() <= NAME_BYTES_MAX, "the caller has made it shorter");
    out.push(name.len() as u8);
    out.extend_from_slice(name);
}

/// A name that fits a record: its beginning, as far as whole characters go.
pub(super) fn name_that_fits(name: &str) -> String {
    let end = (0..=name.len().min(NAME_BYTES_MAX)).rev().find(|end| name.is_char_boundary(*end)).unwrap_or(0);
    name[..end].to_owned()
}

pub(super) enum Decoded {
    /// A request, and the time since the one before.
    Request(Request, u64),
    Relation(Relation),
}

/// Takes a record off the front of `records`.
///
/// # Errors
/// What is wrong with it.
pub(super) fn decode(
    records: &mut &[u8],
    naming: Naming,
    timed: bool,
    relations: usize,
    previous: &mut Previous,
) -> Result<Decoded, &'static str> {
    let tag = byte(records)?;
    let kind = tag & KIND_MASK;
    if kind == KIND_RELATION {
        if tag != KIND_RELATION {
            return Err("the definition of a relation has fields that it cannot have");
        }
        return decode_relation(records, naming, relations).map(Decoded::Relation);
    }
    let op = *Op::ALL.get(usize::from(kind)).ok_or("a record of an unknown kind")?;
    if op.is_mark() && tag & RELATION != 0 || tag & TRANSACTION != 0 && tag & NO_TRANSACTION != 0 {
        return Err("a record has fields that it cannot have");
    }
    if tag & CLIENT != 0 {
        let client = take(records)?;
        previous.client = match client {
            0 => None,
            n => Some(u32::try_from(n - 1).map_err(|_| "a client's number needs more than 32 bits")?),
        };
    }
    if tag & TRANSACTION != 0 {
        previous.transaction = previous.transaction.wrapping_add(unfold(take(records)?));
    }
    if tag & RELATION != 0 {
        let relation = take(records)?;
        if relation > relations as u64 {
            return Err("a relation that was not defined");
        }
        previous.relation = relation as u32;
    }
    let since = if timed { take(records)? } else { 0 };
    let mut request = Request::of(op, 0);
    request.client = previous.client;
    request.transaction = (tag & NO_TRANSACTION == 0).then_some(previous.transaction);
    if !op.is_mark() {
        let relation = previous.relation;
        let before = previous.page(relation);
        *before = before.wrapping_add(unfold(take(records)?));
        request.page = *before;
        request.relation = (relation != 0).then_some(relation);
        if naming != Naming::Numbers {
            if relation == 0 || !naming.has_block(*before) {
                return Err("a page whose id cannot be");
            }
            request.page = page_number(relation, *before);
        }
    }
    Ok(Decoded::Request(request, since))
}

fn decode_relation(records: &mut &[u8], naming: Naming, relations: usize) -> Result<Relation, &'static str> {
    if relations >= RELATIONS_MAX {
        return Err("more than 1,048,576 relations");
    }
    let mut prefix = [0; PREFIX_BYTES];
    if naming != Naming::Numbers {
        prefix.copy_from_slice(slice(records, PREFIX_BYTES)?);
        naming.join(&prefix, 0).ok_or("a relation whose pages no id can have")?;
    }
    let length = byte(records)?;
    let name = slice(records, length.into())?;
    let name = std::str::from_utf8(name).map_err(|_| "a relation's name is no text")?;
    Ok(Relation { prefix, name: name.to_owned() })
}

impl Naming {
    /// Whether a page can have this block number.
    fn has_block(self, block: u64) -> bool {
        match self {
            Naming::Numbers => true,
            Naming::Volume => parts_of(block) == (0, block),
            Naming::Postgres => u32::try_from(block).is_ok(),
        }
    }
}

/// A difference as a number that is small if the difference is, whatever its sign.
fn fold(difference: u64) -> u64 {
    let signed = difference as i64;
    ((signed << 1) ^ (signed >> 63)) as u64
}

fn unfold(folded: u64) -> u64 {
    (folded >> 1) ^ (folded & 1).wrapping_neg()
}

fn put(out: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        out.push(value as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}

/// A varint of the fewest bytes possible.
fn take(records: &mut &[u8]) -> Result<u64, &'static str> {
    let mut value = 0;
    for shift in (0..70).step_by(7) {
        let next = byte(records)?;
        let bits = u64::from(next & 0x7F);
        if shift == 63 && bits > 1 || shift > 0 && next == 0 {
            break;
        }
        value |= bits << shift;
        if next & 0x80 == 0 {
            return Ok(value);
        }
    }
    Err("a number that is longer than it may be")
}

fn byte(records: &mut &[u8]) -> Result<u8, &'static str> {
    Ok(slice(records, 1)?[0])
}

fn slice<'b>(records: &mut &'b [u8], count: usize) -> Result<&'b [u8], &'static str> {
    let (taken, rest) =
        records.split_at_checked(count).ok_or("a record goes on behind the end of its block")?;
    *records = rest;
    Ok(taken)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn differences_are_small_numbers_whatever_their_sign() {
        for (difference, folded) in
            [(0i64, 0), (-1, 1), (1, 2), (-2, 3), (i64::MAX, u64::MAX - 1), (i64::MIN, u64::MAX)]
        {
            assert_eq!(fold(difference as u64), folded);
            assert_eq!(unfold(folded), difference as u64);
        }
    }

    #[test]
    fn varints_of_all_lengths_come_back_and_longer_ones_than_needed_do_not() {
        for bits in 0..64 {
            for value in [1u64 << bits, (1 << bits) - 1, u64::MAX >> bits] {
                let mut out = Vec::new();
                put(&mut out, value);
                let mut rest = &out[..];
                assert_eq!((take(&mut rest), rest.len()), (Ok(value), 0));
                assert!(take(&mut &out[..out.len() - 1]).is_err());
            }
        }
        assert!(take(&mut &[0x80, 0][..]).is_err(), "two bytes for 0");
        assert!(
            take(&mut &[0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 2][..]).is_err(),
            "65 bits"
        );
    }

    #[test]
    fn names_are_cut_between_characters() {
        assert_eq!(name_that_fits("orders"), "orders");
        let long = "ä".repeat(200);
        assert_eq!(name_that_fits(&long), "ä".repeat(127));
    }
}
