//! Recording: what many threads do becomes one trace, in order and whole, and what a killed process leaves
//! can be read.
#![allow(clippy::unwrap_used)]

mod common;

use std::path::{Path, PathBuf};
use std::time::Duration;

use common::Scratch;
use mezzanine_engine::PageId;
use mezzanine_trace::{Event, Format, Naming, Op, Reader, Recorder, Request, TraceErrorKind, open};

fn read(block: u64) -> Event {
    Event::of(Op::Read, PageId::volume(7, block))
}

fn requests(reader: &mut Reader) -> Vec<Request> {
    reader.by_ref().map(|request| request.unwrap()).collect()
}

fn unfinished(path: &Path) -> PathBuf {
    let name = path.file_name().unwrap().to_str().unwrap();
    path.with_file_name(format!("{name}.{}.unfinished", std::process::id()))
}

#[test]
fn what_many_threads_do_is_in_the_order_of_time_and_nothing_is_lost() {
    const THREADS: u64 = 20;
    const EVENTS: u64 = 10_000;
    let scratch = Scratch::new();
    let path = scratch.file("trace");
    let recorder = Recorder::create(&path, 8192, Naming::Volume).unwrap();
    recorder.name(&PageId::volume(7, 0), "the file");
    std::thread::scope(|scope| {
        for thread in 0..THREADS {
            let recorder = &recorder;
            scope.spawn(move || {
                for block in 0..EVENTS {
                    let event =
                        Event { client: Some(thread as u32), transaction: Some(block / 10), ..read(block) };
                    recorder.record(event);
                }
            });
        }
    });
    let written = recorder.finish().unwrap();
    assert_eq!((written.requests, written.left_out), (THREADS * EVENTS, 0));
    recorder.record(read(1));
    assert_eq!(recorder.finish().unwrap_err().kind(), TraceErrorKind::Invalid, "finished before");
    let mut reader = open(&path, Format::Mezzanine, 1).unwrap();
    assert_eq!((reader.page_bytes(), reader.header().timed), (8192, true));
    assert!(reader.header().origin_unix_us > 1_700_000_000_000_000);
    let mut next = [0; THREADS as usize];
    let mut last_ns = 0;
    for request in requests(&mut reader) {
        let next = &mut next[request.client.unwrap() as usize];
        assert_eq!(reader.page_id(request.page), Some(PageId::volume(7, *next)), "each thread in its order");
        assert_eq!((request.transaction, request.relation), (Some(*next / 10), Some(1)));
        *next += 1;
        assert!(request.time_ns.unwrap() >= last_ns);
        last_ns = request.time_ns.unwrap();
    }
    assert_eq!(next, [EVENTS; THREADS as usize]);
    assert_eq!(reader.relations()[0].name(), "the file");
    assert!(!reader.was_unfinished());
}

#[test]
fn what_a_killed_process_leaves_is_read_as_far_as_its_blocks_are_whole() {
    let scratch = Scratch::new();
    let path = scratch.file("trace");
    let recorder = Recorder::create(&path, 4096, Naming::Volume).unwrap();
    for block in 0..30_000 {
        recorder.record(read(block));
    }
    std::thread::sleep(Duration::from_millis(1_050));
    recorder.record(read(30_000));
    // As if the process ended here: nothing is written any more, and nothing removed.
    std::mem::forget(recorder);
    assert!(!path.exists());
    let left = std::fs::read(unfinished(&path)).unwrap();
    let whole = requests(&mut open(&unfinished(&path), Format::Mezzanine, 1).unwrap().without_end());
    assert!(whole.len() >= 30_000, "all that is older than a second: {}", whole.len());
    let strict: Result<Vec<_>, _> = open(&unfinished(&path), Format::Mezzanine, 1).unwrap().collect();
    assert_eq!(strict.unwrap_err().kind(), TraceErrorKind::Truncated);
    let mut lengths = Vec::new();
    for end in (64..left.len()).step_by(997).chain([left.len()]) {
        let source = std::io::Cursor::new(left[..end].to_vec());
        let mut reader = Reader::new(source, "cut".as_ref(), Format::Mezzanine, 1).unwrap().without_end();
        let read: Result<Vec<_>, _> = reader.by_ref().collect();
        match read {
            Ok(read) => {
                assert!(read == whole[..read.len()] && reader.was_unfinished());
                lengths.push(read.len());
            }
            Err(error) => assert!(lengths.is_empty() && error.kind() == TraceErrorKind::Empty, "{error}"),
        }
    }
    lengths.dedup();
    assert!(lengths.len() >= 2, "several blocks: {lengths:?}");
    // What is damaged is so without an end as well.
    let mut damaged = left.clone();
    damaged[200] ^= 1;
    let mut reader = Reader::new(std::io::Cursor::new(damaged), "damaged".as_ref(), Format::Mezzanine, 1)
        .unwrap()
        .without_end();
    assert_eq!(reader.find_map(Result::err).unwrap().kind(), TraceErrorKind::Damaged);
}

#[test]
fn a_recording_without_an_event_leaves_no_file_and_one_that_is_dropped_a_whole_one() {
    let scratch = Scratch::new();
    let path = scratch.file("trace");
    let recorder = Recorder::create(&path, 4096, Naming::Volume).unwrap();
    assert_eq!(recorder.finish().unwrap_err().kind(), TraceErrorKind::Empty);
    assert!(!path.exists() && !unfinished(&path).exists());
    let recorder = Recorder::create(&path, 4096, Naming::Volume).unwrap();
    recorder.record(Event::of(Op::Commit, PageId::volume(0, 0)));
    drop(recorder);
    let read = requests(&mut open(&path, Format::Mezzanine, 1).unwrap());
    assert_eq!(read.iter().map(|request| request.op).collect::<Vec<_>>(), [Op::Commit]);
    let again = Recorder::create(&path, 4096, Naming::Volume).err().unwrap();
    assert!(again.to_string().contains("nothing was overwritten"), "{again}");
    assert!(Recorder::create(&scratch.file("other"), 4096, Naming::Numbers).is_err());
}

#[test]
fn what_no_id_can_name_is_left_out_and_counted() {
    let scratch = Scratch::new();
    let recorder = Recorder::create(&scratch.file("trace"), 4096, Naming::Volume).unwrap();
    recorder.record(read(1 << 40));
    recorder.record(read((1 << 40) - 1));
    let written = recorder.finish().unwrap();
    assert_eq!((written.requests, written.left_out), (1, 1));
}

/// Not a test: what [`a_full_disk_ends_the_recording_and_nothing_else`] runs where files cannot become large.
#[test]
#[ignore = "another test runs it"]
fn records_to_a_disk_that_fills() {
    let Some(path) = std::env::var_os("MEZZANINE_TEST_FILLS").map(PathBuf::from) else { return };
    let recorder = Recorder::create(&path, 4096, Naming::Volume).unwrap();
    for block in 0..200_000 {
        recorder.record(read(block * 7919 % 100_000));
    }
    let error = recorder.finish().unwrap_err();
    assert_eq!(error.kind(), TraceErrorKind::Io, "{error}");
    let message = error.to_string();
    assert!(message.contains("cannot be written") && message.contains(".unfinished"), "{message}");
    let kept = unfinished(&path);
    let read = requests(&mut open(&kept, Format::Mezzanine, 1).unwrap().without_end());
    assert!(read.len() > 10_000 && read.len() < 200_000, "{}", read.len());
    println!("as it should be");
}

#[test]
fn a_full_disk_ends_the_recording_and_nothing_else() {
    let scratch = Scratch::new();
    // A quarter of a MiB, and no signal: writing beyond it is an error then, as on a full disk.
    let limited =
        "trap '' XFSZ; ulimit -f 512; exec \"$0\" --exact records_to_a_disk_that_fills --ignored --nocapture";
    let output = std::process::Command::new("sh")
        .args(["-c", limited])
        .arg(std::env::current_exe().unwrap())
        .env("MEZZANINE_TEST_FILLS", scratch.file("trace"))
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success() && said.contains("as it should be"), "{said}");
    assert!(!scratch.file("trace").exists());
}
