//! What goes through a volume becomes a trace of exactly that, and nothing while nobody asks for it.

#![allow(clippy::unwrap_used)]

mod common;

use std::path::PathBuf;

use common::{Backing, PAGE, durable, formatted, open, page, through};
use mezzanine_engine::PageId;
use mezzanine_trace::{Format, Op, Reader};
use mezzanine_volume::{Volume, VolumeErrorKind};

/// The name of a trace, which is removed again.
struct Trace(PathBuf);

impl Trace {
    fn new(name: &str) -> Trace {
        Trace(std::env::temp_dir().join(format!("mezzanine-volume-{}-{name}", std::process::id())))
    }
}

impl Drop for Trace {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.0);
    }
}

/// What is in a trace: kind, file and block of each request, and its client; marks have no page.
type Seen = Vec<(Op, Option<(String, u64)>, Option<u32>)>;

fn seen(reader: &mut Reader) -> Seen {
    let requests: Vec<_> = reader.by_ref().map(|request| request.unwrap()).collect();
    let name = |relation: u32| reader.relations()[relation as usize - 1].name().to_owned();
    let page = |page| reader.page_id(page).unwrap().block();
    let seen = requests.iter().map(|request| {
        let place = request.relation.map(|relation| (name(relation), page(request.page)));
        (request.op, place, request.client)
    });
    seen.collect()
}

fn at(name: &str, block: u64) -> Option<(String, u64)> {
    Some((name.to_owned(), block))
}

#[test]
fn a_trace_has_what_was_read_written_and_synced_and_by_whom() {
    for config in [durable(), through()] {
        let trace = Trace::new(&format!("whole-{}", config.tier.sync_mode));
        let flash = formatted(&config);
        let volume = open(&flash, &config);
        let a = Backing::new("a").attach(&volume).unwrap();
        a.write_at(&page(9, 1), 9 * PAGE as u64).unwrap();
        volume.record(&trace.0).unwrap();
        assert_eq!(volume.recorded_to(), Some(trace.0.clone()));
        // A file that comes later, and a client of it.
        let b = Backing::new("b").attach(&volume).unwrap().for_client(7);
        b.write_at(&[page(0, 1), page(1, 1), page(2, 1)].concat(), 0).unwrap();
        let mut bytes = vec![0; 2 * PAGE];
        b.read_at(&mut bytes[..PAGE], PAGE as u64).unwrap();
        a.write_at(&[1; 100], 3 * PAGE as u64 - 50).unwrap();
        a.sync().unwrap();
        a.read_at(&mut bytes, 2 * PAGE as u64).unwrap();
        let short = b.read_at(&mut bytes, 2 * PAGE as u64).unwrap_err();
        assert_eq!(short.kind(), VolumeErrorKind::ShortRead { available: PAGE });
        b.read_at(&mut bytes, 3 * PAGE as u64).unwrap_err();
        b.committed();
        b.write_at(&page(0, 2), 0).unwrap();
        b.checkpoint().unwrap();
        b.sync().unwrap();
        volume.drain().unwrap();
        let recorded = volume.stop_recording().unwrap().unwrap();
        a.write_at(&page(0, 3), 0).unwrap();
        let mut reader = mezzanine_trace::open(&trace.0, Format::Mezzanine, 1).unwrap();
        assert_eq!(reader.page_bytes(), PAGE as u32);
        let found = seen(&mut reader);
        let (read, write, mine) = (Op::Read, Op::Write, Some(7));
        let expected: Seen = vec![
            (write, at("b", 0), mine),
            (write, at("b", 1), mine),
            (write, at("b", 2), mine),
            (read, at("b", 1), mine),
            (write, at("a", 2), None),
            (write, at("a", 3), None),
            (Op::Commit, None, None),
            (read, at("a", 2), None),
            (read, at("a", 3), None),
            (read, at("b", 2), mine),
            (Op::Commit, None, mine),
            (write, at("b", 0), mine),
            (Op::Checkpoint, None, mine),
            // The sync found nothing to do.
            (Op::Checkpoint, None, None),
        ];
        assert_eq!(found, expected);
        assert_eq!(recorded.requests, expected.len() as u64);
        volume.close().unwrap();
    }
}

#[test]
fn recordings_are_refused_by_name_and_end_with_the_volume() {
    let trace = Trace::new("refused");
    let config = durable();
    let flash = formatted(&config);
    let volume = open(&flash, &config);
    assert!(volume.stop_recording().unwrap().is_none());
    volume.record(&trace.0).unwrap();
    let again = volume.record(&trace.0).unwrap_err();
    assert_eq!(again.kind(), VolumeErrorKind::Busy);
    assert!(again.to_string().contains(&*trace.0.to_string_lossy()), "{again}");
    assert_eq!(volume.stop_recording().unwrap_err().kind(), VolumeErrorKind::NothingRecorded);
    assert!(!trace.0.exists());
    let nowhere = volume.record("/no/such/directory/trace".as_ref()).unwrap_err();
    assert!(nowhere.to_string().contains("/no/such/directory/trace"), "{nowhere}");
    volume.record(&trace.0).unwrap();
    let file = Backing::new("a").attach(&volume).unwrap();
    file.write_at(&page(5, 1), 5 * PAGE as u64).unwrap();
    volume.close().unwrap();
    drop((file, volume));
    let found = seen(&mut mezzanine_trace::open(&trace.0, Format::Mezzanine, 1).unwrap());
    assert_eq!(found, [(Op::Write, at("a", 5), None)], "completed when the last handle had gone");
    let taken = open(&formatted(&config), &config).record(&trace.0).unwrap_err();
    assert!(taken.to_string().contains("nothing was overwritten"), "{taken}");
}

#[test]
fn a_volume_without_a_tier_is_recorded_as_well() {
    let trace = Trace::new("bypass");
    let volume = Volume::without_tier();
    volume.record(&trace.0).unwrap();
    let file = Backing::new("a").attach(&volume).unwrap();
    file.write_at(&[7; 5000], 0).unwrap();
    file.sync().unwrap();
    assert_eq!(volume.stop_recording().unwrap().unwrap().requests, 3);
    let mut reader = mezzanine_trace::open(&trace.0, Format::Mezzanine, 1).unwrap();
    let found = seen(&mut reader);
    assert_eq!(
        found,
        [(Op::Write, at("a", 0), None), (Op::Write, at("a", 1), None), (Op::Commit, None, None)]
    );
    assert_eq!(reader.page_id(reader.relations().len() as u64 * (1 << 40)), Some(PageId::volume(1, 0)));
}
