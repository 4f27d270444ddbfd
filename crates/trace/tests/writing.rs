//! Traces written in each format: what is in them, what has no place in them, and when they are there.
#![allow(clippy::unwrap_used)]

mod common;

use common::{Scratch, at, random_requests, read};
use mezzanine_trace::{Compression, Format, Header, Naming, Op, Request, TraceErrorKind, Writer, open};

const HEADER: Header = Header { page_bytes: 4096, naming: Naming::Numbers, timed: true, origin_unix_us: 0 };

/// The file that these requests give, and how many were left out.
fn written(format: Format, compression: Compression, requests: &[Request]) -> (Vec<u8>, u64) {
    let scratch = Scratch::new();
    let path = scratch.file("trace");
    let mut writer = Writer::create(&path, format, compression, HEADER).unwrap();
    for name in ["a", "b", "c"] {
        writer.relation(name).unwrap();
    }
    for request in requests {
        writer.write(request).unwrap();
    }
    let written = writer.finish().unwrap();
    let bytes = std::fs::read(&path).unwrap();
    assert_eq!(written.file_bytes, bytes.len() as u64);
    assert_eq!(written.requests + written.left_out, requests.len() as u64);
    (bytes, written.left_out)
}

/// Page 7 is read at 1.5 s and 2 s, page 8 written in between; then one of each kind that other formats do
/// not have.
fn some() -> Vec<Request> {
    let times = [1_500_000_000, 1_600_000_000, 2_000_000_000];
    vec![
        at(times[0], Op::Read, 7),
        at(times[1], Op::Write, 8),
        at(times[2], Op::Read, 7),
        at(times[2], Op::EvictClean, 7),
        at(times[2], Op::EvictDirty, 8),
        at(times[2], Op::Commit, 0),
        at(times[2], Op::Checkpoint, 0),
    ]
}

#[test]
fn text_is_as_others_write_it() {
    assert_eq!(written(Format::Plain, Compression::None, &some()), (b"7\n8\n7\n".to_vec(), 4));
    assert_eq!(written(Format::Lis, Compression::None, &some()), (b"7 2 0 0\n7 1 0 1\n".to_vec(), 4));
    let ends = [Request::of(Op::Read, u64::MAX), Request::of(Op::Read, 0)];
    let lines = format!("{} 1 0 0\n0 1 0 1\n", u64::MAX);
    assert_eq!(written(Format::Lis, Compression::None, &ends).0, lines.as_bytes());
}

#[test]
#[rustfmt::skip]
fn oracle_general_knows_the_next_access() {
    let (bytes, left_out) = written(Format::OracleGeneral, Compression::None, &some());
    assert_eq!(bytes, [
        1, 0, 0, 0,  7, 0, 0, 0, 0, 0, 0, 0,  0, 0x10, 0, 0,  3, 0, 0, 0, 0, 0, 0, 0,
        1, 0, 0, 0,  8, 0, 0, 0, 0, 0, 0, 0,  0, 0x10, 0, 0,  255, 255, 255, 255, 255, 255, 255, 255,
        2, 0, 0, 0,  7, 0, 0, 0, 0, 0, 0, 0,  0, 0x10, 0, 0,  255, 255, 255, 255, 255, 255, 255, 255,
    ]);
    assert_eq!(left_out, 4);
}

#[test]
#[rustfmt::skip]
fn vscsi_is_version_1() {
    let (bytes, left_out) = written(Format::Vscsi, Compression::None, &some());
    assert_eq!(bytes, [
        0, 0, 0, 0,  0, 0x10, 0, 0,  1, 0, 0, 0,  0x28, 0, 0, 1,  56, 0, 0, 0, 0, 0, 0, 0,  0x60, 0xE3, 0x16, 0, 0, 0, 0, 0,
        1, 0, 0, 0,  0, 0x10, 0, 0,  1, 0, 0, 0,  0x2A, 0, 0, 1,  64, 0, 0, 0, 0, 0, 0, 0,  0x00, 0x6A, 0x18, 0, 0, 0, 0, 0,
        2, 0, 0, 0,  0, 0x10, 0, 0,  1, 0, 0, 0,  0x28, 0, 0, 1,  56, 0, 0, 0, 0, 0, 0, 0,  0x80, 0x84, 0x1E, 0, 0, 0, 0, 0,
    ]);
    assert_eq!(left_out, 4);
    let large = [at(0, Op::Read, 1 << 40), at(0, Op::Write, 1 << 40)];
    let (bytes, _) = written(Format::Vscsi, Compression::None, &large);
    assert_eq!((bytes[12], bytes[44]), (0x88, 0x8A), "block numbers of more than 32 bits");
    assert_eq!(read(&bytes, Format::Vscsi).unwrap(), large);
}

#[test]
fn next_accesses_are_right_over_many_pieces() {
    let mut random = mezzanine_workload::Random::stream(9, &[]);
    let requests: Vec<Request> =
        (0..200_000).map(|_| at(0, Op::Read, random.uniform(0, 50_000).into())).collect();
    let (bytes, _) = written(Format::OracleGeneral, Compression::None, &requests);
    // Forwards: what an earlier request of the page named as the next must be this one.
    let mut named = std::collections::HashMap::new();
    for (index, record) in bytes.chunks_exact(24).enumerate() {
        let page = u64::from_le_bytes(record[4..12].try_into().unwrap());
        let next = i64::from_le_bytes(record[16..24].try_into().unwrap());
        if let Some(before) = named.insert(page, next) {
            assert_eq!(before, index as i64 + 1);
        }
    }
    assert!(named.values().all(|next| *next == -1), "the last request of a page names none");
}

#[test]
fn every_format_keeps_what_it_has_a_place_for() {
    for seed in 0..10 {
        // Pages and times of which every format has some.
        let mut requests = random_requests(seed, 5_000, true);
        for request in &mut requests {
            request.page &= (1 << 50) - 1;
            request.time_ns = request.time_ns.map(|time| time / 1_000_000_000_000 * 1_000_000_000);
        }
        for compression in [Compression::None, Compression::Zstd] {
            for &format in Format::all() {
                let (bytes, left_out) = written(format, compression, &requests);
                let kept: Vec<Request> =
                    requests.iter().filter_map(|request| kept(format, request)).collect();
                assert_eq!(read(&bytes, format).unwrap(), kept, "{format}, seed {seed}");
                assert_eq!(left_out as usize, requests.len() - kept.len());
            }
        }
    }
}

/// What is left of a request in a format.
fn kept(format: Format, request: &Request) -> Option<Request> {
    if format == Format::Mezzanine {
        return Some(*request);
    }
    let op = if format == Format::Vscsi { request.op } else { Op::Read };
    let time_ns = request.time_ns.filter(|_| matches!(format, Format::Vscsi | Format::OracleGeneral));
    let is_request = matches!(request.op, Op::Read | Op::Write);
    is_request.then_some(Request { time_ns, ..Request::of(op, request.page) })
}

#[test]
fn what_is_not_finished_is_not_there() {
    for &format in Format::all() {
        let scratch = Scratch::new();
        let path = scratch.file("trace");
        std::fs::write(&path, "before").unwrap();
        let mut writer = Writer::create(&path, format, Compression::Zstd, HEADER).unwrap();
        for request in random_requests(1, 50_000, true) {
            let page = request.page & 0xFFFF_FFFF;
            writer.write(&Request { page, time_ns: Some(0), relation: None, ..request }).unwrap();
        }
        assert_eq!(std::fs::read(&path).unwrap(), b"before", "{format}");
        drop(writer);
        assert_eq!(std::fs::read(&path).unwrap(), b"before", "{format}");
        assert_eq!(scratch.names(), ["trace"], "{format} leaves something behind");
    }
}

#[test]
fn a_trace_without_a_request_is_not_written() {
    for &format in Format::all() {
        let scratch = Scratch::new();
        let path = scratch.file("trace");
        let mut writer = Writer::create(&path, format, Compression::None, HEADER).unwrap();
        if format != Format::Mezzanine {
            writer.write(&at(0, Op::Commit, 0)).unwrap();
        }
        assert_eq!(writer.finish().unwrap_err().kind(), TraceErrorKind::Empty);
        assert!(scratch.names().is_empty(), "{format}");
    }
}

#[test]
fn what_a_format_cannot_say_is_an_error() {
    let scratch = Scratch::new();
    let path = scratch.file("trace");
    let create = |format, page_bytes| {
        Writer::create(&path, format, Compression::None, Header { page_bytes, ..HEADER })
    };
    for &format in Format::all() {
        assert_eq!(create(format, 0).err().unwrap().kind(), TraceErrorKind::Invalid);
    }
    assert!(create(Format::Vscsi, 1000).err().unwrap().to_string().contains("multiple"));
    let mut vscsi = create(Format::Vscsi, 4096).unwrap();
    let error = vscsi.write(&Request::of(Op::Read, 1 << 61)).unwrap_err();
    assert!(error.to_string().contains("no block number for page 2305843009213693952"), "{error}");
    let mut oracle = create(Format::OracleGeneral, 4096).unwrap();
    let error = oracle.write(&at((1 << 32) * 1_000_000_000, Op::Read, 1)).unwrap_err();
    assert!(error.to_string().contains("4294967296 seconds"), "{error}");
    let id = mezzanine_engine::PageId::volume(1, 1);
    assert_eq!(vscsi.page(&id).unwrap_err().kind(), TraceErrorKind::Invalid);
}

#[test]
fn a_place_that_cannot_be_written_is_named() {
    let scratch = Scratch::new();
    let path = scratch.file("missing").join("trace");
    for &format in Format::all() {
        let error = Writer::create(&path, format, Compression::None, HEADER).err().unwrap();
        assert_eq!(error.kind(), TraceErrorKind::Io);
        assert!(error.to_string().contains("missing/trace"), "{error}");
    }
    std::fs::create_dir(scratch.file("directory")).unwrap();
    let mut writer =
        Writer::create(&scratch.file("directory"), Format::Plain, Compression::None, HEADER).unwrap();
    writer.write(&Request::of(Op::Read, 1)).unwrap();
    assert_eq!(writer.finish().unwrap_err().kind(), TraceErrorKind::Io);
    assert_eq!(scratch.names(), ["directory"]);
}

#[test]
fn relations_follow_a_trace_into_another() {
    let scratch = Scratch::new();
    let header = Header { naming: Naming::Volume, timed: false, ..HEADER };
    let create = |name: &str| {
        Writer::create(&scratch.file(name), Format::Mezzanine, Compression::None, header).unwrap()
    };
    let ids: Vec<_> = (0..50_000).map(|n| mezzanine_engine::PageId::volume(n % 70, n * n % 997)).collect();
    let mut writer = create("one");
    for id in &ids {
        let page = writer.page(id).unwrap();
        writer.write(&Request::of(Op::Read, page)).unwrap();
    }
    writer.finish().unwrap();
    let mut reader = open(&scratch.file("one"), Format::Mezzanine, 1).unwrap();
    let mut writer = create("two");
    while let Some(request) = reader.next() {
        writer.follow_relations(&reader).unwrap();
        writer.write(&request.unwrap()).unwrap();
    }
    writer.finish().unwrap();
    assert_eq!(std::fs::read(scratch.file("one")).unwrap(), std::fs::read(scratch.file("two")).unwrap());
}
