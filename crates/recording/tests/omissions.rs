//! Flushes that a database leaves out are found and named; one that leaves out none is in order.
//!
//! Invariants checked: 1 and 2 of the crate, by a database that relies on them, at every cut that is drawn.
#![allow(clippy::unwrap_used)]

use std::convert::Infallible;
use std::fs;
use std::path::PathBuf;

use ledger::{LEN, LOG_AT, Omission, PAGES_AT, judge, record};
use mezzanine_recording::{
    Absent, Event, Explanation, Fate, History, Kind, ReadError, Search, Verdict, explain,
};

mod ledger;

/// At most so many cuts find an omission.
const CUTS: usize = 200;

struct Scratch(PathBuf);

impl Scratch {
    fn new(name: &str) -> Self {
        let folder =
            PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(format!("rec-{name}-{}", std::process::id()));
        fs::create_dir_all(&folder).unwrap();
        Self(folder)
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// The first cut that breaks it, explained, and how many were tried.
fn find(omission: Omission, seed: u64) -> (History, Option<(usize, Explanation)>) {
    let scratch = Scratch::new(&format!("{omission:?}-{seed}"));
    let (recording, image) = (scratch.0.join("recording"), scratch.0.join("image"));
    let history = record(&recording, omission, seed);
    let mut found = None;
    for (tried, cut) in Search::new(&history, seed).take(CUTS).enumerate() {
        if judge(&history, omission, &cut, &image) != Verdict::InOrder {
            let explained =
                explain::<Infallible>(&history, &cut, &mut |cut| Ok(judge(&history, omission, cut, &image)));
            let Ok(explained) = explained;
            found = Some((tried + 1, explained));
            break;
        }
    }
    (history, found)
}

/// The write behind which a flush is absent, and who trusts in it.
fn absent<'h>(history: &'h History, explained: &Explanation) -> (&'h Event, &'h Event) {
    let absent = explained.absent.unwrap_or_else(|| panic!("a flush is absent: {explained:?}"));
    let event = |number: u64| &history.events()[number as usize];
    (event(absent.after.unwrap()), event(absent.before))
}

#[test]
fn a_database_that_leaves_out_nothing_is_in_order_at_every_cut() {
    for seed in 0..10 {
        let (history, found) = find(Omission::Nothing, seed);
        assert_eq!(found, None, "seed {seed}");
        assert_eq!(history.count(Kind::Mark), 200);
        assert!(history.count(Kind::Flush) >= 200);
    }
}

#[test]
fn a_commit_that_is_not_flushed_is_named() {
    for seed in 0..10 {
        let (history, found) = find(Omission::LogFlush, seed);
        let (tried, explained) = found.expect("the omission is found");
        let (after, before) = absent(&history, &explained);
        assert_eq!((after.kind, before.kind), (Kind::Write, Kind::Mark), "{explained:?}");
        assert!((LOG_AT..PAGES_AT).contains(&after.offset), "seed {seed}, {tried} cuts: a record of the log");
        assert_eq!(explained.cut.listed().count(), 1, "one write is enough");
        // The mark says of the page what the record did.
        assert!(explained.why.contains("was acknowledged"), "{}", explained.why);
    }
}

#[test]
fn a_log_that_is_emptied_too_early_is_named() {
    for seed in 0..10 {
        let (history, found) = find(Omission::PageFlush, seed);
        let (_, explained) = found.expect("the omission is found");
        let (after, before) = absent(&history, &explained);
        assert!(after.offset >= PAGES_AT, "a page is lost: {explained:?}");
        assert_eq!((before.kind, before.offset), (Kind::Write, 0), "and the head says that the log is empty");
    }
}

/// What has to be whole, and is not: no flush helps.
#[test]
fn a_torn_page_is_no_absent_flush() {
    // Whoever trusts in the one end of a page is hurt by the other alone.
    for omission in [Omission::TornPages, Omission::TornPageEnds] {
        let mut told = 0;
        for seed in 0..10 {
            let (history, found) = find(omission, seed);
            let Some((_, explained)) = found else { continue };
            told += 1;
            assert_eq!(explained.absent, None, "{explained:?}");
            let taken: Vec<_> = explained.cut.listed().collect();
            let [(event, fate)] = taken[..] else { panic!("{taken:?}") };
            let is_last = matches!(fate, Fate::TornLast { .. });
            assert!(fate.is_torn() && is_last == (omission == Omission::TornPageEnds), "{fate:?}");
            assert!(history.events()[event as usize].offset >= PAGES_AT);
        }
        assert!(told >= 5, "found with {told} of 10 seeds, {omission:?}");
    }
}

/// The log comes first: a page is torn whose record is not there.
#[test]
fn a_page_that_is_written_before_its_record_is_named() {
    for seed in 0..10 {
        let (history, found) = find(Omission::LogFirst, seed);
        let (_, explained) = found.expect("the omission is found");
        let (after, before) = absent(&history, &explained);
        assert!((LOG_AT..PAGES_AT).contains(&after.offset), "a record is lost: {explained:?}");
        assert!(before.offset >= PAGES_AT, "and its page is there: {explained:?}");
    }
}

#[test]
fn a_recording_that_ends_in_the_middle_is_read_up_to_there() {
    let scratch = Scratch::new("middle");
    let path = scratch.0.join("recording");
    let whole = record(&path, Omission::Nothing, 1);
    let bytes = fs::read(&path).unwrap();
    for end in (32..bytes.len()).step_by(977) {
        fs::write(&path, &bytes[..end]).unwrap();
        let part = History::open(&path).unwrap();
        let same =
            part.events().iter().zip(whole.events()).all(|(a, b)| (a.kind, a.offset) == (b.kind, b.offset));
        assert!(same && part.events().len() <= whole.events().len());
        assert!(part.cut_off() < LEN + 100, "{} bytes are no event", part.cut_off());
    }
    for at in (0..bytes.len()).step_by(509) {
        let mut damaged = bytes.clone();
        damaged[at] ^= 0x40;
        fs::write(&path, &damaged).unwrap();
        match History::open(&path) {
            Ok(part) => assert!(part.events().len() < whole.events().len(), "byte {at} is damaged"),
            Err(ReadError::NotARecording | ReadError::Event(..)) => {}
            Err(error) => panic!("{error}"),
        }
    }
}

/// One block that is written again and again, and never flushed: whichever of its writes are lost, the flush
/// is absent behind one of them and before a mark.
#[test]
fn a_block_that_is_rewritten_is_explained() {
    use mezzanine_device::{Device, MemoryDevice};
    use mezzanine_recording::{Cut, Recorder};
    use std::sync::Arc;

    let scratch = Scratch::new("rewritten");
    let (path, image) = (scratch.0.join("recording"), scratch.0.join("image"));
    let recorder = Recorder::begin(Arc::new(MemoryDevice::new(16 << 10)), &path).unwrap();
    for value in 1..=3_u8 {
        recorder.write_at(&[value; 512], 4096).unwrap();
        recorder.mark(&value.to_string()).unwrap();
    }
    recorder.write_at(&[4; 512], 4096).unwrap();
    recorder.save().unwrap();
    let history = History::open(&path).unwrap();
    let judged = |cut: &Cut| {
        history.make(cut, &image).unwrap();
        let found = fs::read(&image).unwrap()[4096];
        let marks = history.marks(cut.at).unwrap();
        let least = marks.last().map_or(0, |(_, mark)| mark.parse().unwrap());
        if found < least { Verdict::Broken(format!("{found} and not {least}")) } else { Verdict::InOrder }
    };
    let mut broken = 0;
    for seed in 0..20 {
        for cut in Search::new(&history, seed).take(CUTS).filter(|cut| judged(cut) != Verdict::InOrder) {
            broken += 1;
            let Ok(explained) = explain::<Infallible>(&history, &cut, &mut |cut| Ok(judged(cut)));
            let absent = explained.absent.unwrap_or_else(|| panic!("{cut:?} as {explained:?}"));
            assert_eq!(history.events()[absent.before as usize].kind, Kind::Mark, "{explained:?}");
            assert!(absent.after.is_some_and(|after| after < absent.before), "{explained:?}");
        }
    }
    assert!(broken > 100, "{broken} cuts break it");
}

/// A write that trusts in one that nobody has asked for yet: found where it is there although it was under
/// way, as little as where it was answered, nothing had to be lost for it.
#[test]
fn what_is_trusted_in_before_it_is_written_is_named() {
    use mezzanine_device::{Device, MemoryDevice};
    use mezzanine_recording::{Cut, Recorder};
    use std::sync::Arc;

    let scratch = Scratch::new("unwritten");
    let (path, image) = (scratch.0.join("recording"), scratch.0.join("image"));
    let recorder = Recorder::begin(Arc::new(MemoryDevice::new(16 << 10)), &path).unwrap();
    recorder.write_at(&[1; 512], 0).unwrap();
    // The page, and its record behind it.
    recorder.write_at(&[2; 4096], 8192).unwrap();
    recorder.write_at(&[2; 512], 512).unwrap();
    recorder.flush().unwrap();
    recorder.save().unwrap();
    let history = History::open(&path).unwrap();
    let page = history.begins() + 1;
    let judged = |cut: &Cut| {
        history.make(cut, &image).unwrap();
        let found = fs::read(&image).unwrap();
        let is_broken = found[8192..12288].contains(&2) && found[512] != 2;
        if is_broken { Verdict::Broken("no record".to_owned()) } else { Verdict::InOrder }
    };
    for cut in [Cut::before(page).with(page, Fate::Kept), Cut::before(page + 1)] {
        let Ok(explained) = explain::<Infallible>(&history, &cut, &mut |cut| Ok(judged(cut)));
        assert_eq!(explained.absent, Some(Absent { after: None, before: page }), "{explained:?}");
    }
}

/// A write that failed may be there or not, at every cut; what was refused never is.
#[test]
fn what_has_failed_stays_open() {
    use mezzanine_device::memory::{Fault, Injection, Operation};
    use mezzanine_device::{Device, DeviceErrorKind, MemoryDevice};
    use mezzanine_recording::{Cut, Recorder};
    use std::sync::Arc;

    let scratch = Scratch::new("failed");
    let (path, image) = (scratch.0.join("recording"), scratch.0.join("image"));
    let device = Arc::new(MemoryDevice::new(16 << 10));
    device.inject(Injection {
        operation: Operation::Write,
        after: 1,
        count: 1,
        fault: Fault::Error(DeviceErrorKind::Io),
    });
    let recorder = Recorder::begin(device, &path).unwrap();
    recorder.write_at(&[1; 512], 0).unwrap();
    recorder.write_at(&[2; 512], 0).unwrap_err();
    recorder.write_at(&[3; 512], 1 << 20).unwrap_err();
    recorder.flush().unwrap();
    recorder.save().unwrap();
    let history = History::open(&path).unwrap();
    let kinds: Vec<Kind> = history.events().iter().map(|event| event.kind).collect();
    assert_eq!(kinds, [Kind::Write, Kind::TriedWrite, Kind::Flush]);
    assert_eq!(history.open_at(3), [1]);
    for (fate, expected) in [(Fate::Kept, 2), (Fate::Lost, 1)] {
        history.make(&Cut::before(3).with(1, fate), &image).unwrap();
        assert_eq!(fs::read(&image).unwrap()[0], expected);
    }
}

/// What a drive may lose, counted by hand.
#[test]
fn what_was_flushed_is_durable_and_nothing_else() {
    use mezzanine_device::{Device, MemoryDevice};
    use mezzanine_recording::{Cut, Recorder};
    use std::sync::Arc;

    let scratch = Scratch::new("by-hand");
    let (path, image) = (scratch.0.join("recording"), scratch.0.join("image"));
    let device = Arc::new(MemoryDevice::new(64 << 10));
    device.write_at(&[9; 4096], 8192).unwrap();
    let recorder = Recorder::begin(device, &path).unwrap();
    recorder.write_at(&[1; 512], 0).unwrap(); // begins + 0
    recorder.write_through(&[2; 512], 512).unwrap(); // 1
    recorder.flush().unwrap(); // 2
    recorder.write_at(&[3; 1024], 1024).unwrap(); // 3
    recorder.discard(8192, 4096).unwrap(); // 4
    recorder.mark("here").unwrap(); // 5
    recorder.flush().unwrap(); // 6
    recorder.save().unwrap();
    let history = History::open(&path).unwrap();
    let first = history.begins();
    assert_eq!(first, 1, "what it had before is one piece");
    let open = |at: u64| history.open_at(first + at).iter().map(|number| number - first).collect::<Vec<_>>();
    assert_eq!(open(0), [0], "it had begun, as nothing says that it had not");
    assert_eq!(open(1), [0, 1]);
    assert_eq!(open(2), [0], "written through");
    assert_eq!(open(3), [3]);
    assert_eq!(open(6), [3, 4]);
    assert_eq!(open(7), [] as [u64; 0]);
    assert_eq!(history.marks(first + 6).unwrap()[0].1, "here");
    assert!(history.marks(first + 5).unwrap().is_empty());
    let cut = Cut::before(first + 5).with(first + 3, Fate::Torn { sectors: 1 }).with(first + 4, Fate::Lost);
    history.make(&cut, &image).unwrap();
    let found = fs::read(&image).unwrap();
    assert_eq!(found[..2560], [[1; 512], [2; 512], [3; 512], [0; 512], [0; 512]].concat());
    assert_eq!(found[8192..12288], [9; 4096], "a discard is lost like a write");
    let cut = Cut::before(first + 5).with(first + 3, Fate::TornLast { sectors: 1 });
    history.make(&cut.with(first + 4, Fate::TornLast { sectors: 3 }), &image).unwrap();
    let found = fs::read(&image).unwrap();
    assert_eq!(found[1024..2048], [[0; 512], [3; 512]].concat(), "the first sector is as it was before");
    assert_eq!(found[8192..12288], [[9; 2560].as_slice(), &[0; 1536]].concat());
    history.make(&Cut::before(first + 5), &image).unwrap();
    assert_eq!(fs::read(&image).unwrap()[8192..12288], [0; 4096]);
}
