//! Mezzanine's own format: its bytes, that nothing is lost, and that nothing wrong is believed.
#![allow(clippy::unwrap_used)]

mod common;

use common::{Scratch, random_requests, read, reader, refused};
use mezzanine_engine::PageId;
use mezzanine_trace::{Compression, Format, Header, Naming, Op, Request, TraceErrorKind, Writer};

const NUMBERS: Header = Header { page_bytes: 8192, naming: Naming::Numbers, timed: true, origin_unix_us: 7 };

/// The checksums of the trace below, worked out by another program.
const HEADER_CRC: [u8; 4] = [0xEA, 0x8D, 0x56, 0x27];
const BLOCK_CRC: [u8; 4] = [0xCB, 0xF3, 0x01, 0xF7];
const END_CRC: [u8; 4] = [0x5B, 0x04, 0xFD, 0x9F];

/// A trace written by hand: relation 1 is called "t"; client 3 reads page 5 of it at 200 ns in transaction 9,
/// writes page 4 at 201 ns, and commits at 201 ns; then, without client and transaction, page 300 of no
/// relation leaves dirty at 1,000 ns, and a checkpoint ends.
#[rustfmt::skip]
const GOLDEN: &[u8] = &[
    // The header.
    b'M', b'E', b'Z', b'Z', b'T', b'R', b'C', b'1', 1, 0, 0, 0,
    0, 0x20, 0, 0,  0, 0, 0, 0,  1, 0, 0, 0,  7, 0, 0, 0, 0, 0, 0, 0,
    0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0,
    HEADER_CRC[0], HEADER_CRC[1], HEADER_CRC[2], HEADER_CRC[3],
    // The head of a block of 24 bytes with five requests.
    1, 0, 0, 0,  24, 0, 0, 0,  5, 0, 0, 0,  HEADER_CRC[0], HEADER_CRC[1], HEADER_CRC[2], HEADER_CRC[3],
    0, 0, 0, 0, 0, 0, 0, 0,  0, 0, 0, 0, 0, 0, 0, 0,  0, 0, 0, 0,
    BLOCK_CRC[0], BLOCK_CRC[1], BLOCK_CRC[2], BLOCK_CRC[3],
    // The relation, and its name of one byte.
    0x0F, 1, b't',
    // A read: client 3 as 4, transaction 9 as 18, relation 1, after 200 ns, page 5 as 10.
    0x70, 4, 18, 1, 0xC8, 0x01, 10,
    // A write after 1 ns, one page back.
    0x01, 1, 1,
    // The commit after 0 ns.
    0x04, 0,
    // A dirty eviction: no client, no transaction, no relation, after 799 ns, page 300 as 600.
    0xD3, 0, 0, 0x9F, 0x06, 0xD8, 0x04,
    // A checkpoint after 0 ns, without a transaction.
    0x85, 0,
    // The end, behind five requests.
    2, 0, 0, 0,  0, 0, 0, 0,  0, 0, 0, 0,  BLOCK_CRC[0], BLOCK_CRC[1], BLOCK_CRC[2], BLOCK_CRC[3],
    5, 0, 0, 0, 0, 0, 0, 0,  0xE8, 3, 0, 0, 0, 0, 0, 0,  1, 0, 0, 0,
    END_CRC[0], END_CRC[1], END_CRC[2], END_CRC[3],
];

fn golden_requests() -> [Request; 5] {
    let known = |time_ns, op, page| Request {
        time_ns: Some(time_ns),
        client: Some(3),
        transaction: Some(9),
        relation: Some(1),
        ..Request::of(op, page)
    };
    [
        known(200, Op::Read, 5),
        known(201, Op::Write, 4),
        Request { relation: None, ..known(201, Op::Commit, 0) },
        Request { time_ns: Some(1_000), ..Request::of(Op::EvictDirty, 300) },
        Request { time_ns: Some(1_000), ..Request::of(Op::Checkpoint, 0) },
    ]
}

/// The file that these requests give, and its length as the writer states it.
fn written(scratch: &Scratch, header: Header, relations: &[&str], requests: &[Request]) -> Vec<u8> {
    let path = scratch.file("written");
    let mut writer = Writer::create(&path, Format::Mezzanine, Compression::None, header).unwrap();
    for name in relations {
        writer.relation(name).unwrap().unwrap();
    }
    for request in requests {
        writer.write(request).unwrap();
    }
    let written = writer.finish().unwrap();
    let bytes = std::fs::read(path).unwrap();
    assert_eq!((written.requests, written.file_bytes), (requests.len() as u64, bytes.len() as u64));
    bytes
}

#[test]
fn the_bytes_are_as_documented() {
    let mut trace = reader(GOLDEN, Format::Mezzanine).unwrap();
    assert_eq!(trace.header(), NUMBERS);
    let requests: Vec<Request> = trace.by_ref().map(Result::unwrap).collect();
    assert_eq!(requests, golden_requests());
    assert_eq!(trace.relations().iter().map(|r| r.name()).collect::<Vec<_>>(), ["t"]);
    assert_eq!(written(&Scratch::new(), NUMBERS, &["t"], &golden_requests()), GOLDEN);
}

#[test]
fn what_is_written_is_read() {
    let scratch = Scratch::new();
    for seed in 0..20 {
        let timed = seed % 2 == 0;
        let header = Header { timed, ..NUMBERS };
        // Enough for several blocks.
        let requests = random_requests(seed, 30_000, timed);
        let bytes = written(&scratch, header, &["a", "b", "c"], &requests);
        assert!(bytes.len() > 3 << 16, "{} bytes", bytes.len());
        assert_eq!(read(&bytes, Format::Mezzanine).unwrap(), requests);
    }
}

#[test]
fn page_ids_come_back() {
    let scratch = Scratch::new();
    let ids = [
        (Naming::Volume, PageId::volume(7, (1 << 40) - 1), PageId::volume(u64::MAX, 0)),
        (
            Naming::Postgres,
            PageId::relation(5, 1663, 16_384, 0, u32::MAX),
            PageId::relation(5, 1663, 16_384, 3, 0),
        ),
    ];
    for (naming, one, other) in ids {
        let path = scratch.file("ids");
        let header = Header { naming, timed: false, ..NUMBERS };
        let mut writer = Writer::create(&path, Format::Mezzanine, Compression::Zstd, header).unwrap();
        for id in [one, other, one] {
            let page = writer.page(&id).unwrap();
            writer.write(&Request::of(Op::Read, page)).unwrap();
        }
        writer.finish().unwrap();
        let mut trace = mezzanine_trace::open(&path, Format::Mezzanine, 1).unwrap();
        let requests: Vec<Request> = trace.by_ref().map(Result::unwrap).collect();
        let ids: Vec<PageId> = requests.iter().map(|r| trace.page_id(r.page).unwrap()).collect();
        assert_eq!(ids, [one, other, one]);
        assert_eq!(requests.iter().map(|r| r.relation).collect::<Vec<_>>(), [Some(1), Some(2), Some(1)]);
        assert_eq!(trace.header(), header, "the trace knows its page size better than the caller");
    }
}

#[test]
fn a_trace_that_names_pages_one_way_takes_no_others() {
    let scratch = Scratch::new();
    let path = scratch.file("trace");
    let create = |naming| {
        let header = Header { naming, timed: false, ..NUMBERS };
        Writer::create(&path, Format::Mezzanine, Compression::None, header).unwrap()
    };
    let volume = PageId::volume(1, 1 << 40);
    for (naming, id) in [
        (Naming::Numbers, PageId::volume(1, 2)),
        (Naming::Volume, volume),
        (Naming::Volume, PageId::relation(1, 2, 3, 4, 5)),
    ] {
        let error = create(naming).page(&id).unwrap_err();
        assert_eq!(error.kind(), TraceErrorKind::Invalid);
        assert!(error.to_string().contains(naming.name()), "{error}");
    }
    assert_eq!(create(Naming::Volume).relation("t").unwrap_err().kind(), TraceErrorKind::Invalid);
    for page in [3, (1 << 40) + 3] {
        let error = create(Naming::Volume).write(&Request::of(Op::Read, page)).unwrap_err();
        assert!(error.to_string().contains("not defined"), "{error}");
    }
    let request = Request { relation: Some(1), ..Request::of(Op::Read, 3) };
    assert!(create(Naming::Numbers).write(&request).unwrap_err().to_string().contains("not defined"));
}

#[test]
fn no_bit_of_a_trace_can_change_unnoticed() {
    for at in 0..GOLDEN.len() {
        for bit in 0..8 {
            let mut bytes = GOLDEN.to_vec();
            bytes[at] ^= 1 << bit;
            assert!(read(&bytes, Format::Mezzanine).is_err(), "bit {bit} of byte {at}");
        }
    }
}

#[test]
fn a_trace_without_its_end_is_not_whole() {
    for length in 1..GOLDEN.len() {
        let error = read(&GOLDEN[..length], Format::Mezzanine).unwrap_err();
        assert_eq!(error.kind(), TraceErrorKind::Truncated, "{length} bytes: {error}");
        assert!(error.position().is_some(), "{error}");
    }
    refused(&GOLDEN[..100], Format::Mezzanine, TraceErrorKind::Truncated, &["byte 64", "without its end"]);
    refused(
        &GOLDEN[..110],
        Format::Mezzanine,
        TraceErrorKind::Truncated,
        &["byte 64", "24 bytes", "6 are there"],
    );
}

#[test]
fn blocks_that_are_missing_repeated_or_foreign_are_noticed() {
    let scratch = Scratch::new();
    let one = written(&scratch, NUMBERS, &["a", "b", "c"], &random_requests(1, 40_000, true));
    let elsewhere = Header { origin_unix_us: 8, ..NUMBERS };
    let other = written(&scratch, elsewhere, &["a", "b", "c"], &random_requests(2, 40_000, true));
    let blocks = |bytes: &[u8]| -> Vec<std::ops::Range<usize>> {
        let mut begin = 64;
        let mut ranges = Vec::new();
        while begin < bytes.len() {
            let length = u32::from_le_bytes(bytes[begin + 4..begin + 8].try_into().unwrap()) as usize;
            ranges.push(begin..begin + 40 + length);
            begin += 40 + length;
        }
        ranges
    };
    let (ours, theirs) = (blocks(&one), blocks(&other));
    assert!(ours.len() > 4);
    let with = |range: std::ops::Range<usize>, instead: &[u8]| {
        let mut bytes = one.clone();
        bytes.splice(range, instead.iter().copied());
        bytes
    };
    let second = ours[1].clone();
    let repeated = [&one[second.clone()], &one[second.clone()]].concat();
    for (what, bytes) in [
        ("missing", with(second.clone(), &[])),
        ("repeated", with(second.clone(), &repeated)),
        ("foreign", with(second.clone(), &other[theirs[1].clone()])),
        (
            "swapped",
            with(ours[1].start..ours[2].end, &[&one[ours[2].clone()], &one[second.clone()]].concat()),
        ),
        ("all foreign", [&one[..64], &other[64..]].concat()),
    ] {
        let read = read(&bytes, Format::Mezzanine).map(|requests| requests.len());
        let error = read.expect_err(what);
        assert_eq!(error.kind(), TraceErrorKind::Damaged, "{what}: {error}");
    }
    let more = [&one[..], b"x"].concat();
    let end = format!("byte {}", one.len());
    refused(&more, Format::Mezzanine, TraceErrorKind::Damaged, &[&end, "behind the end"]);
}

#[test]
fn an_unknown_version_is_refused_by_its_number() {
    let mut bytes = GOLDEN.to_vec();
    bytes[8] = 2;
    refused(&bytes, Format::Mezzanine, TraceErrorKind::UnknownVersion, &["version 2", "reads version 1"]);
}

#[test]
fn other_files_are_answered_with_what_they_look_like() {
    use TraceErrorKind::WrongFormat;
    refused(b"7\n9\n", Format::Mezzanine, WrongFormat, &["no trace of the format mezzanine", "format plain"]);
    refused(&[200; 80], Format::Mezzanine, WrongFormat, &["no trace of the format mezzanine"]);
    for format in [Format::Plain, Format::Lis, Format::OracleGeneral, Format::Vscsi] {
        refused(GOLDEN, format, WrongFormat, &["looks like the format mezzanine"]);
    }
}

#[test]
fn a_trace_of_no_request_is_refused() {
    let empty = {
        let mut head = [0; 36];
        head[0] = 2;
        head[12..16].copy_from_slice(&HEADER_CRC);
        let checksum = crc32c::crc32c(&head).to_le_bytes();
        [&GOLDEN[..64], &head, &checksum].concat()
    };
    refused(&empty, Format::Mezzanine, TraceErrorKind::Empty, &["no request"]);
}

#[test]
fn time_does_not_go_back_when_it_is_written() {
    let scratch = Scratch::new();
    let path = scratch.file("trace");
    let mut writer = Writer::create(&path, Format::Mezzanine, Compression::None, NUMBERS).unwrap();
    writer.write(&common::at(5, Op::Read, 1)).unwrap();
    let error = writer.write(&common::at(4, Op::Read, 1)).unwrap_err();
    assert_eq!(error.kind(), TraceErrorKind::Unsorted);
    assert!(error.to_string().contains("behind 1 requests"), "{error}");
    assert_eq!(writer.write(&Request::of(Op::Read, 1)).unwrap_err().kind(), TraceErrorKind::Invalid);
    let header = Header { timed: false, ..NUMBERS };
    let mut writer =
        Writer::create(&scratch.file("other"), Format::Mezzanine, Compression::None, header).unwrap();
    assert_eq!(writer.write(&common::at(5, Op::Read, 1)).unwrap_err().kind(), TraceErrorKind::Invalid);
}

#[test]
fn typical_requests_take_few_bytes() {
    // 50 clients at 10,000 requests a second on 2^20 pages of 8 relations, in transactions of 20 requests.
    let mut random = mezzanine_workload::Random::stream(3, &[]);
    let requests: Vec<Request> = (0..100_000u64)
        .map(|n| Request {
            time_ns: Some(n * 100_000),
            client: Some((n / 20 % 50) as u32),
            transaction: Some(1_000_000 + n / 20),
            relation: Some(random.uniform(1, 8)),
            ..Request::of(Op::Read, random.uniform(0, (1 << 20) - 1).into())
        })
        .collect();
    let names = ["a", "b", "c", "d", "e", "f", "g", "h"];
    let bytes = written(&Scratch::new(), NUMBERS, &names, &requests);
    let each = bytes.len() as f64 / requests.len() as f64;
    assert!(each < 9.0, "{each} bytes a request");
}

/// Makes the checksums of a trace right again, so that what is in the blocks gets looked at.
fn repaired(mut bytes: Vec<u8>) -> Vec<u8> {
    let mut before = crc32c::crc32c(&bytes[..60]).to_le_bytes();
    bytes[60..64].copy_from_slice(&before);
    let mut begin = 64;
    while begin < bytes.len() {
        let length = u32::from_le_bytes(bytes[begin + 4..begin + 8].try_into().unwrap()) as usize;
        bytes[begin + 12..begin + 16].copy_from_slice(&before);
        let (head, records) = (&bytes[begin..begin + 36], &bytes[begin + 40..begin + 40 + length]);
        before = crc32c::crc32c_append(crc32c::crc32c(head), records).to_le_bytes();
        bytes[begin + 36..begin + 40].copy_from_slice(&before);
        begin += 40 + length;
    }
    bytes
}

#[test]
fn whole_blocks_with_nonsense_in_them_are_refused_by_their_byte() {
    assert_eq!(repaired(GOLDEN.to_vec()), GOLDEN);
    // What is put at which byte of the records, and what the message says.
    let cases: &[(usize, &[u8], &[&str])] = &[
        (0, &[0x1F], &["byte 104", "definition of a relation"]),
        (2, &[0xFF], &["byte 104", "no text"]),
        (3, &[0x76], &["byte 107", "unknown kind"]),
        (3, &[0xF0], &["byte 107", "fields that it cannot have"]),
        (13, &[0x44], &["byte 117", "fields that it cannot have"]),
        (6, &[2], &["byte 107", "not defined"]),
        (7, &[0xC8, 0x80, 0], &["byte 107", "longer than it may be"]),
        (22, &[0x83], &["byte 126", "behind the end of its block"]),
    ];
    for (at, put, parts) in cases {
        let mut bytes = GOLDEN.to_vec();
        bytes[104 + at..104 + at + put.len()].copy_from_slice(put);
        refused(&repaired(bytes), Format::Mezzanine, TraceErrorKind::Damaged, parts);
    }
    for (at, value, parts) in [
        (64 + 8, 4, ["byte 126", "more requests than it says"]),
        (64 + 8, 6, ["byte 128", "fewer requests than it says"]),
        (64 + 16, 1, ["byte 64", "does not follow"]),
        (64 + 24, 1, ["byte 64", "does not go on"]),
        (64 + 32, 1, ["byte 64", "does not go on"]),
        (128 + 16, 6, ["byte 128", "6 requests do, 5 have been read"]),
        (20, 2, ["byte 0", "no header of version 1"]),
        (16, 3, ["byte 0", "no known way"]),
        (32, 1, ["byte 0", "no header of version 1"]),
    ] {
        let mut bytes = GOLDEN.to_vec();
        bytes[at] = value;
        refused(&repaired(bytes), Format::Mezzanine, TraceErrorKind::Damaged, &parts);
    }
}

/// A trace whose header names pages in this way, with these records of so many requests in its only block,
/// and the end.
fn trace_of(naming: u8, records: &[u8], requests: u8, relations: u8) -> Vec<u8> {
    let mut bytes = GOLDEN[..64].to_vec();
    (bytes[16], bytes[20]) = (naming, 0);
    let mut head = [0; 40];
    (head[0], head[8]) = (1, requests);
    head[4..8].copy_from_slice(&(records.len() as u32).to_le_bytes());
    bytes.extend_from_slice(&head);
    bytes.extend_from_slice(records);
    let mut end = [0; 40];
    (end[0], end[16], end[32]) = (2, requests, relations);
    bytes.extend_from_slice(&end);
    repaired(bytes)
}

#[test]
fn ids_that_cannot_be_are_refused() {
    let relation = |last: u8| [&[0x0F][..], &[0; 15], &[last, 0]].concat();
    let read_of_block = [0xC0, 1, 8];
    let good = [relation(0), read_of_block.to_vec()].concat();
    for naming in [1, 2] {
        assert_eq!(read(&trace_of(naming, &good, 1, 1), Format::Mezzanine).unwrap()[0].page, (1 << 40) + 4);
    }
    let cases: [(u8, &[u8], &str); 4] = [
        (1, &[relation(0), relation(0)].concat(), "defined before"),
        (1, &relation(1), "no id can have"),
        // Block 2^32 of PostgreSQL's, 2^40 of a volume's.
        (2, &[relation(0), vec![0xC0, 1, 0x80, 0x80, 0x80, 0x80, 0x20]].concat(), "whose id cannot be"),
        (1, &[relation(0), vec![0xC0, 1, 0x80, 0x80, 0x80, 0x80, 0x80, 0x40]].concat(), "whose id cannot be"),
    ];
    for (naming, records, part) in cases {
        refused(&trace_of(naming, records, 1, 1), Format::Mezzanine, TraceErrorKind::Damaged, &[part]);
    }
    // Without a relation there is no id.
    refused(
        &trace_of(1, &[0x80, 8], 1, 0),
        Format::Mezzanine,
        TraceErrorKind::Damaged,
        &["whose id cannot be"],
    );
}

#[test]
fn a_block_can_be_read_without_those_before_it() {
    let header = Header { timed: false, ..NUMBERS };
    let bytes = written(&Scratch::new(), header, &[], &{
        let mut requests = random_requests(4, 20_000, false);
        requests.iter_mut().for_each(|request| request.relation = None);
        requests
    });
    let all = read(&bytes, Format::Mezzanine).unwrap();
    let second = 64 + 40 + u32::from_le_bytes(bytes[68..72].try_into().unwrap()) as usize;
    let before = u32::from_le_bytes(bytes[72..76].try_into().unwrap()) as usize;
    let mut rest = [&bytes[..64], &bytes[second..]].concat();
    // Each block has one fewer block before it.
    let mut begin = 64;
    while begin < rest.len() {
        let length = u32::from_le_bytes(rest[begin + 4..begin + 8].try_into().unwrap()) as usize;
        let requests = u64::from_le_bytes(rest[begin + 16..begin + 24].try_into().unwrap()) - before as u64;
        rest[begin + 16..begin + 24].copy_from_slice(&requests.to_le_bytes());
        begin += 40 + length;
    }
    assert_eq!(read(&repaired(rest), Format::Mezzanine).unwrap(), all[before..]);
}

#[test]
fn there_is_room_for_a_million_relations() {
    let scratch = Scratch::new();
    let mut writer =
        Writer::create(&scratch.file("trace"), Format::Mezzanine, Compression::None, NUMBERS).unwrap();
    for number in 1..=1 << 20 {
        assert_eq!(writer.relation("").unwrap(), Some(number));
    }
    assert!(writer.relation("").unwrap_err().to_string().contains("1048576 relations"));
    let last = Request { relation: Some(1 << 20), ..common::at(0, Op::Read, 1) };
    writer.write(&last).unwrap();
    writer.finish().unwrap();
    let bytes = std::fs::read(scratch.file("trace")).unwrap();
    assert_eq!(read(&bytes, Format::Mezzanine).unwrap(), [last]);
}
