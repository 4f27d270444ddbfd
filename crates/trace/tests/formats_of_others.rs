//! Each format of others, from bytes that were written by hand.
#![allow(clippy::unwrap_used)]

mod common;

use common::{at, pages, read, reader, refused};
use mezzanine_trace::{Compression, Dense, Format, Op, TraceErrorKind};

/// oracleGeneral: time 5, object 0x0102030405060708, 4,096 bytes, next access 2; the same object's neighbour,
/// 9,000 bytes; size 0.
const ORACLE: [u8; 72] = [
    5, 0, 0, 0, 8, 7, 6, 5, 4, 3, 2, 1, 0, 0x10, 0, 0, 2, 0, 0, 0, 0, 0, 0, 0, //
    5, 0, 0, 0, 9, 7, 6, 5, 4, 3, 2, 1, 0x28, 0x23, 0, 0, 255, 255, 255, 255, 255, 255, 255, 255, //
    7, 0, 0, 0, 8, 7, 6, 5, 4, 3, 2, 1, 0, 0, 0, 0, 255, 255, 255, 255, 255, 255, 255, 255,
];

/// vscsi version 1: a write of 512 bytes at block 15, then a read of 8,192 bytes at block 16, 1,000
/// microseconds later.
const VSCSI_1: [u8; 64] = [
    1, 0, 0, 0, 0, 2, 0, 0, 1, 0, 0, 0, 0x2A, 0, 0, 1, 15, 0, 0, 0, 0, 0, 0, 0, 0xE8, 3, 0, 0, 0, 0, 0,
    0, //
    2, 0, 0, 0, 0, 32, 0, 0, 1, 0, 0, 0, 0x28, 0, 0, 1, 16, 0, 0, 0, 0, 0, 0, 0, 0xD0, 7, 0, 0, 0, 0, 0, 0,
];

/// The same in version 2, the read beginning one block later.
const VSCSI_2: [u8; 80] = [
    0x2A, 0, 0, 2, 1, 0, 0, 0, 0, 2, 0, 0, 1, 0, 0, 0, 15, 0, 0, 0, 0, 0, 0, 0, 0xE8, 3, 0, 0, 0, 0, 0, 0, 9,
    0, 0, 0, 0, 0, 0, 0, //
    0x28, 0, 0, 2, 2, 0, 0, 0, 0, 32, 0, 0, 1, 0, 0, 0, 17, 0, 0, 0, 0, 0, 0, 0, 0xD0, 7, 0, 0, 0, 0, 0, 0,
    9, 0, 0, 0, 0, 0, 0, 0,
];

#[test]
fn plain_numbers_one_a_line() {
    assert_eq!(pages(b"7\n0\n18446744073709551615\n", Format::Plain), [7, 0, u64::MAX]);
    assert_eq!(pages(b"\n 7 \r\n\r\n9", Format::Plain), [7, 9], "blanks, and a last line without an end");
}

#[test]
fn arc_lines_are_runs_of_pages() {
    assert_eq!(pages(b"10 3 0 1\n5 1 0 2\n", Format::Lis), [10, 11, 12, 5]);
    let last = u64::MAX - 1;
    assert_eq!(pages(format!("{last} 2 0 1").as_bytes(), Format::Lis), [last, u64::MAX]);
}

#[test]
fn objects_larger_than_a_page_become_several() {
    let requests = read(&ORACLE, Format::OracleGeneral).unwrap();
    let object = 0x0102_0304_0506_0708;
    assert_eq!(requests[0], at(5_000_000_000, Op::Read, object));
    assert_eq!(requests[1], at(5_000_000_000, Op::Read, object + 1));
    assert_eq!(requests[4], at(7_000_000_000, Op::Read, object));
    assert_eq!(requests.len(), 5, "9,000 bytes are three pages, and no size counts as one");
    let mut dense = Dense::new();
    let numbers: Vec<u32> = requests.iter().map(|request| dense.number(request.page)).collect();
    assert_eq!(numbers, [0, 1, 2, 3, 0]);
    // The pages behind the first of an object are no pages of its neighbours.
    let mut neighbours = [&ORACLE[24..48], &ORACLE[24..48]].concat();
    neighbours[24 + 4] += 1;
    let neighbours: std::collections::HashSet<u64> =
        pages(&neighbours, Format::OracleGeneral).into_iter().collect();
    assert_eq!(neighbours.len(), 6);
    // The same pages each time.
    let twice = [&ORACLE[24..48], &ORACLE[24..48]].concat();
    let twice = pages(&twice, Format::OracleGeneral);
    assert_eq!(twice[..3], twice[3..]);
}

#[test]
fn scsi_requests_become_one_for_each_page_that_they_touch() {
    let requests = read(&VSCSI_1, Format::Vscsi).unwrap();
    assert_eq!(
        requests,
        [at(1_000_000, Op::Write, 1), at(2_000_000, Op::Read, 2), at(2_000_000, Op::Read, 3)]
    );
    let requests = read(&VSCSI_2, Format::Vscsi).unwrap();
    let read = |page| at(2_000_000, Op::Read, page);
    assert_eq!(requests, [at(1_000_000, Op::Write, 1), read(2), read(3), read(4)]);
}

#[test]
fn a_scsi_request_for_nothing_touches_no_page() {
    let mut bytes = VSCSI_1;
    bytes[4..8].fill(0);
    assert_eq!(pages(&bytes, Format::Vscsi), [2, 3]);
}

#[test]
fn what_is_compressed_is_told_by_its_bytes() {
    for (bytes, format) in [
        (&b"7\n9\n"[..], Format::Plain),
        (b"7 1 0 1\n", Format::Lis),
        (&ORACLE, Format::OracleGeneral),
        (&VSCSI_1, Format::Vscsi),
        (&VSCSI_2, Format::Vscsi),
    ] {
        let mut packed = zstd::encode_all(bytes, 3).unwrap();
        assert_eq!(read(&packed, format).unwrap(), read(bytes, format).unwrap());
        assert_eq!(reader(&packed, format).unwrap().compression(), Compression::Zstd);
        assert_eq!(reader(bytes, format).unwrap().compression(), Compression::None);
        // Several frames in a row are one file, also if the first is to be skipped.
        packed.splice(..0, [0x50, 0x2A, 0x4D, 0x18, 1, 0, 0, 0, 77]);
        assert_eq!(read(&packed, format).unwrap(), read(bytes, format).unwrap());
    }
    let two = [zstd::encode_all(&b"7\n"[..], 3).unwrap(), zstd::encode_all(&b"9\n"[..], 3).unwrap()].concat();
    assert_eq!(pages(&two, Format::Plain), [7, 9]);
}

#[test]
fn a_trace_may_be_longer_than_any_buffer() {
    let numbers: Vec<u64> = (0..200_000).map(|n: u64| n.wrapping_mul(0x9E37_79B9_7F4A_7C15)).collect();
    let text: String = numbers.iter().map(|n| format!("{n}\n")).collect();
    assert_eq!(pages(text.as_bytes(), Format::Plain), numbers);
    let records: Vec<u8> = numbers
        .iter()
        .flat_map(|n| [&[1, 0, 0, 0][..], &n.to_le_bytes(), &[0, 16, 0, 0], &[255; 8]].concat())
        .collect();
    assert_eq!(pages(&records, Format::OracleGeneral), numbers);
}

#[test]
fn formats_are_found_by_their_names() {
    for &format in Format::all() {
        assert_eq!(format.to_string().parse(), Ok(format));
    }
    let error = "oracle".parse::<Format>().unwrap_err().to_string();
    assert!(error.contains("'oracle'") && error.contains("oracle-general"), "{error}");
}

#[test]
fn text_that_is_wrong_is_refused_by_its_line() {
    use TraceErrorKind::{Damaged, WrongFormat};
    refused(b"7\n+9\n", Format::Plain, WrongFormat, &["line 2", "'+9'", "decimal number"]);
    refused(b"7\n-9\n", Format::Plain, WrongFormat, &["line 2"]);
    refused(b"18446744073709551616\n", Format::Plain, WrongFormat, &["line 1", "2^64"]);
    refused(b"30000000000000000000\n", Format::Plain, WrongFormat, &["line 1", "2^64"]);
    refused(b"10 3 0\n", Format::Lis, WrongFormat, &["line 1", "four decimal numbers"]);
    refused(b"10 3 0 1 7\n", Format::Lis, WrongFormat, &["line 1"]);
    refused(b"1 1 0 1\n10 0 0 1\n", Format::Lis, Damaged, &["line 2", "a run of 0 pages"]);
    refused(b"10 4294967297 0 1\n", Format::Lis, Damaged, &["line 1", "4294967297 pages"]);
    refused(b"18446744073709551615 2 0 1\n", Format::Lis, Damaged, &["line 1", "largest page number"]);
    refused(&[b'7'; 1 << 20], Format::Plain, WrongFormat, &["line 1", "4096 bytes or more"]);
}

#[test]
fn a_record_that_ends_too_early_is_refused_by_its_byte() {
    use TraceErrorKind::Truncated;
    refused(&ORACLE[..71], Format::OracleGeneral, Truncated, &["byte 48", "23 bytes", "24"]);
    refused(&VSCSI_1[..40], Format::Vscsi, Truncated, &["byte 32", "8 bytes", "32"]);
    refused(&VSCSI_2[..79], Format::Vscsi, Truncated, &["byte 40", "39 bytes", "40"]);
    refused(&VSCSI_1[..20], Format::Vscsi, Truncated, &["byte 0", "20 bytes", "32"]);
    refused(&VSCSI_1[..10], Format::Vscsi, Truncated, &["byte 0", "after 10 bytes"]);
    let packed = zstd::encode_all(&ORACLE[..], 3).unwrap();
    let cut = &packed[..packed.len() - 1];
    refused(cut, Format::OracleGeneral, Truncated, &["of what was compressed", "ends too early"]);
}

#[test]
fn damage_is_refused_by_its_byte() {
    use TraceErrorKind::{Damaged, WrongFormat};
    let mut bytes = VSCSI_1;
    bytes[47] = 2;
    refused(&bytes, Format::Vscsi, Damaged, &["byte 32", "another version"]);
    let mut bytes = VSCSI_2;
    bytes[40] = 0x12;
    refused(&bytes, Format::Vscsi, Damaged, &["byte 40", "0x12"]);
    let mut bytes = VSCSI_1;
    bytes[56..64].fill(255);
    refused(&bytes, Format::Vscsi, Damaged, &["byte 32", "microseconds"]);
    refused(&[200; 64], Format::Vscsi, WrongFormat, &["byte 0", "no version 1 or 2"]);
    let mut packed = zstd::encode_all(&ORACLE[..], 3).unwrap();
    let last = packed.len() - 2;
    packed[last] ^= 1;
    refused(&packed, Format::OracleGeneral, Damaged, &["it cannot be decompressed"]);
}

#[test]
fn time_that_goes_back_is_refused() {
    let mut bytes = ORACLE;
    bytes[48] = 4;
    refused(
        &bytes,
        Format::OracleGeneral,
        TraceErrorKind::Unsorted,
        &["byte 48", "4000000000", "5000000000"],
    );
    let mut bytes = VSCSI_1;
    bytes[57] = 0;
    refused(&bytes, Format::Vscsi, TraceErrorKind::Unsorted, &["byte 32", "order of time"]);
}

#[test]
fn a_trace_without_a_request_is_refused() {
    for &format in Format::all() {
        refused(b"", format, TraceErrorKind::Empty, &["the trace is empty"]);
        refused(
            &zstd::encode_all(&b""[..], 3).unwrap(),
            format,
            TraceErrorKind::Empty,
            &["the trace is empty"],
        );
    }
    refused(b"\n  \n", Format::Plain, TraceErrorKind::Empty, &["no request"]);
    let mut bytes = VSCSI_1;
    bytes[4..8].fill(0);
    refused(&bytes[..32], Format::Vscsi, TraceErrorKind::Empty, &["no request"]);
}

#[test]
fn a_wrong_format_is_answered_with_the_right_one() {
    use TraceErrorKind::WrongFormat;
    let looks = |format: Format| format!("looks like the format {format}");
    let text = b"7\n9\n7\n11\n13\n15\n17\n19\n21\n";
    let lis = b"10 3 0 1\n5 1 0 2\n10 3 0 1\n5 1 0 2\n";
    refused(text, Format::Lis, WrongFormat, &[&looks(Format::Plain)]);
    refused(lis, Format::Plain, WrongFormat, &[&looks(Format::Lis)]);
    for format in [Format::OracleGeneral, Format::Vscsi] {
        refused(text, format, WrongFormat, &[&looks(Format::Plain)]);
        refused(lis, format, WrongFormat, &[&looks(Format::Lis)]);
    }
    for bytes in [&VSCSI_1[..], &VSCSI_2] {
        for format in [Format::Plain, Format::Lis, Format::OracleGeneral] {
            refused(bytes, format, WrongFormat, &[&looks(Format::Vscsi)]);
        }
    }
    for format in [Format::Plain, Format::Lis, Format::Vscsi] {
        refused(&ORACLE, format, WrongFormat, &[]);
    }
    refused(b"time,page\n1,2\n", Format::Plain, WrongFormat, &["'time,page'", "not known here"]);
    refused(b"\x1F\x8B\x08\0....", Format::Plain, WrongFormat, &["gzip", "zstd instead"]);
}

#[test]
fn after_an_error_there_is_nothing_more() {
    let mut reader = reader(b"1\nx\n2\n", Format::Plain).unwrap();
    assert_eq!(reader.next().unwrap().unwrap().page, 1);
    assert!(reader.next().unwrap().is_err());
    assert!(reader.next().is_none());
}

#[test]
fn files_are_named_in_errors() {
    let missing = std::path::Path::new("/nonexistent/trace");
    let error = mezzanine_trace::open(missing, Format::Plain, 4096).err().unwrap();
    assert_eq!(error.kind(), TraceErrorKind::Io);
    assert!(error.to_string().contains("/nonexistent/trace: it cannot be opened"), "{error}");
    let error = mezzanine_trace::open(missing, Format::Plain, 0).err().unwrap();
    assert!(error.to_string().contains("/nonexistent/trace"), "{error}");
}

#[test]
fn pages_are_numbered_as_they_appear() {
    let mut dense = Dense::with_capacity(2);
    assert!(dense.is_empty());
    let numbers: Vec<u32> = [9, u64::MAX, 9, 0, u64::MAX].iter().map(|&page| dense.number(page)).collect();
    assert_eq!(numbers, [0, 1, 0, 2, 1]);
    assert_eq!((dense.get(0), dense.get(1), dense.len()), (Some(2), None, 3));
}
