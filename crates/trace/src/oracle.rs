//! libCacheSim's oracleGeneral: packed little-endian records of 24 bytes.
//!
//! | offset | bytes | field |
//! |---|---|---|
//! | 0 | 4 | time in seconds |
//! | 4 | 8 | object |
//! | 12 | 4 | size in bytes |
//! | 16 | 8 | number of the request that asks for the object next, or -1; not used here |
//!
//! The format has objects, not addresses: nothing says that object 8 lies behind object 7. So an object that is larger than a page
//! becomes pages of its own, of which the first has the object's number and the others numbers that are mixed from it.

use crate::error::TraceError;
use crate::input::Input;
use crate::reader::Run;
use crate::request::{Op, Request};

const RECORD_BYTES: usize = 24;

pub(crate) fn record(input: &mut Input, page_bytes: u32) -> Result<Option<Run>, TraceError> {
    let Some(record) = input.record::<RECORD_BYTES>()? else { return Ok(None) };
    let [a, b, c, d, rest @ ..] = record;
    let time_s = u32::from_le_bytes([a, b, c, d]);
    let [a, b, c, d, e, f, g, h, rest @ ..] = rest;
    let object = u64::from_le_bytes([a, b, c, d, e, f, g, h]);
    let [a, b, c, d, ..] = rest;
    let size_bytes = u32::from_le_bytes([a, b, c, d]);
    let time_ns = Some(u64::from(time_s) * 1_000_000_000);
    // A size of 0 means that nobody noted it; the object was asked for all the same.
    let pages = size_bytes.div_ceil(page_bytes).max(1);
    Ok(Some(Run::object(Request { time_ns, ..Request::of(Op::Read, object) }, u64::from(pages))))
}

/// The number of page `index` of an object. Two pages of different objects share one with a probability of about n^2 / 2^65 for n pages,
/// so once in a million traces of six million pages.
pub(crate) fn page_of_object(object: u64, index: u64) -> u64 {
    if index == 0 {
        return object;
    }
    // The finisher of SplitMix64, once for each of the two numbers.
    mixed(mixed(object).wrapping_add(index))
}

fn mixed(value: u64) -> u64 {
    let mut z = value.wrapping_add(0x9E37_79B9_7F4A_7C15);
    z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    z ^ (z >> 31)
}
