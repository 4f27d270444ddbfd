//! libCacheSim's oracleGeneral: packed little-endian records of 24 bytes.
//!
//! | offset | bytes | field |
//! |---|---|---|
//! | 0 | 4 | time in seconds |
//! | 4 | 8 | object |
//! | 12 | 4 | size in bytes |
//! | 16 | 8 | number, from 1, of the request that asks for the object next, or -1; not used on the way in |
//!
//! The format has objects, not addresses: nothing says that object 8 lies behind object 7. So an object that
//! is larger than a page becomes pages of its own, of which the first has the object's number and the others
//! numbers that are mixed from it.

use std::collections::HashMap;
use std::fs::File;
use std::io::{self, BufWriter, Read, Seek, SeekFrom, Write};
use std::path::Path;

use mezzanine_ground::random::splitmix;

use crate::dense::Hashing;
use crate::error::TraceError;
use crate::input::Input;
use crate::output;
use crate::own::EncodeError;
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

/// The number of page `index` of an object. Two pages of different objects share one with a probability of
/// about n^2 / 2^65 for n pages, so once in a million traces of six million pages.
pub(crate) fn page_of_object(object: u64, index: u64) -> u64 {
    if index == 0 {
        return object;
    }
    splitmix(splitmix(object).wrapping_add(index))
}

/// How many records are looked at together on the way back.
const RECORDS_AT_ONCE: u64 = 1 << 16;

/// Writes records whose next accesses are only known in the end.
///
/// They go to a file without a name; then they are gone through from the last to the first, which takes
/// memory for each distinct page and none for the others; then they are copied to where they belong.
pub(crate) struct OracleWriter {
    scratch: BufWriter<File>,
    records: u64,
}

impl OracleWriter {
    pub(crate) fn new(path: &Path) -> Result<OracleWriter, TraceError> {
        Ok(OracleWriter { scratch: BufWriter::new(output::scratch(path)?), records: 0 })
    }

    pub(crate) fn request(&mut self, request: &Request, page_bytes: u32) -> Result<(), EncodeError> {
        let time_s = request.time_ns.unwrap_or(0) / 1_000_000_000;
        let Ok(time_s) = u32::try_from(time_s) else {
            let reason = format!("oracle-general has 32 bits for the time, too few for {time_s} seconds");
            return Err(EncodeError::Invalid(reason));
        };
        let mut record = [0; RECORD_BYTES];
        record[0..4].copy_from_slice(&time_s.to_le_bytes());
        record[4..12].copy_from_slice(&request.page.to_le_bytes());
        record[12..16].copy_from_slice(&page_bytes.to_le_bytes());
        self.scratch.write_all(&record)?;
        self.records += 1;
        Ok(())
    }

    /// Copies the records to `out`, each with its next access.
    pub(crate) fn finish<W: Write>(self, mut out: W) -> io::Result<W> {
        let mut file = self.scratch.into_inner()?;
        fill_next_accesses(&mut file, self.records)?;
        file.seek(SeekFrom::Start(0))?;
        io::copy(&mut file, &mut out)?;
        Ok(out)
    }
}

fn fill_next_accesses(file: &mut File, records: u64) -> io::Result<()> {
    let mut next: HashMap<u64, i64, Hashing> = HashMap::default();
    let mut buffer = vec![0; RECORDS_AT_ONCE as usize * RECORD_BYTES];
    let mut end = records;
    while end > 0 {
        let begin = end.saturating_sub(RECORDS_AT_ONCE);
        let some = &mut buffer[..(end - begin) as usize * RECORD_BYTES];
        let place = SeekFrom::Start(begin * RECORD_BYTES as u64);
        file.seek(place)?;
        file.read_exact(some)?;
        for (index, record) in some.chunks_exact_mut(RECORD_BYTES).enumerate().rev() {
            let mut object = [0; 8];
            object.copy_from_slice(&record[4..12]);
            // Requests are numbered from 1.
            let number = (begin + index as u64 + 1) as i64;
            let access = next.insert(u64::from_le_bytes(object), number).unwrap_or(-1);
            record[16..24].copy_from_slice(&access.to_le_bytes());
        }
        file.seek(place)?;
        file.write_all(some)?;
        end = begin;
    }
    Ok(())
}
