//! What the last page of a file holds past its end after a crash, and cannot be cut off at once because the
//! page cannot be read in that moment.

#![allow(clippy::unwrap_used)]

mod common;

use common::bad_places::spoil;
use common::one_file::{InUse, WRITE_BACK, begin, durable, read, write};
use common::{PAGE, open, page};
use mezzanine_device::DeviceErrorKind;
use mezzanine_device::memory::{Bad, Fault, Injection, Operation};
use mezzanine_engine::planted::{Bug, only_with};
use mezzanine_volume::{Design, VolumeErrorKind};

/// Where the file's last page begins, and how much of that the file has.
const LAST: u64 = 4 * PAGE as u64;
const END: usize = 1000;

/// A file after a crash. Its last page was written whole, and that was not synced: bytes past the end are in
/// the tier.
fn after_a_crash(design: Design) -> InUse {
    let config = durable(design);
    let InUse { flash, backing, volume, file } = begin(&config);
    (0..4).for_each(|block| write(&file, block, 1));
    file.write_at(&page(4, 1)[..END], LAST).unwrap();
    file.sync().unwrap();
    (4..24).for_each(|block| write(&file, block, 2));
    while volume.step() {}
    drop((file, volume));
    let volume = open(&flash, &config);
    let file = backing.attach(&volume).unwrap();
    assert_eq!(file.len(), LAST + END as u64, "the length that was synced");
    // So that the opening has started, and the file is not ready for changes.
    volume.forget(&[]).unwrap();
    InUse { flash, backing, volume, file }
}

/// The next reads of flash fail. What reads now is only what makes the file ready for its first change.
fn fails(with: &InUse, count: u64) {
    let fault = Fault::Error(DeviceErrorKind::Io);
    with.flash.inject(Injection { operation: Operation::Read, after: 0, count, fault });
}

/// How the file comes to have more of its last page.
#[derive(Debug, Clone, Copy)]
enum Growth {
    Length,
    Write,
    /// After its pages have left the tier.
    PastTier,
    /// After another crash.
    Later,
}

/// The file's first change goes well though the last page cannot be read for a moment. Then the file grows:
/// what that adds of the last page is zero. It was what the crash had cut off.
fn what_was_cut_off_is_gone(design: Design, count: u64, growth: Growth) -> bool {
    let mut with = after_a_crash(design);
    fails(&with, count);
    write(&with.file, 1, 3);
    with.flash.heal();
    match growth {
        Growth::Length => with.file.set_len(LAST + PAGE as u64).unwrap(),
        Growth::Write => write(&with.file, 6, 3),
        Growth::PastTier => {
            with.volume.stop_admission().unwrap();
            with.file.set_len(LAST + PAGE as u64).unwrap();
        }
        Growth::Later => {
            with.file.sync().unwrap();
            let InUse { flash, backing, volume, file } = with;
            drop((file, volume));
            let volume = open(&flash, &durable(design));
            let file = backing.attach(&volume).unwrap();
            file.set_len(LAST + PAGE as u64).unwrap();
            with = InUse { flash, backing, volume, file };
        }
    }
    let found = read(&with.file, 4).unwrap();
    assert_eq!(read(&with.file, 1), Ok(page(1, 3)));
    found[END..].iter().all(|byte| *byte == 0)
}

#[test]
fn what_a_crash_has_cut_off_the_last_page_does_not_come_back() {
    for design in WRITE_BACK {
        for growth in [Growth::Length, Growth::Write, Growth::PastTier, Growth::Later] {
            for count in 0..10 {
                assert!(
                    what_was_cut_off_is_gone(design, count, growth),
                    "{design:?}, {count} reads, {growth:?}"
                );
            }
        }
    }
    // The page is read three times, and the probes behind the second and the third.
    for count in [6, 7] {
        only_with(&[Bug::TailForgotten], || what_was_cut_off_is_gone(Design::FaceGr, count, Growth::Length));
    }
}

/// What keeps the last page from being read when a write over it begins, and that write from being done.
#[derive(Debug, Clone, Copy)]
enum Unread {
    /// The device answers nothing for a while.
    Silence,
    /// The last page and the one before it are lost for good.
    Lost,
}

/// What follows the write that has failed.
#[derive(Debug, Clone, Copy)]
enum Then {
    Nothing,
    /// After its pages have left the tier, if they can.
    PastTier,
    /// After another crash.
    Crash,
    /// After another crash that a sync came before.
    SyncedCrash,
}

/// A write that begins in the page before the last one, of which it needs the rest, and goes so far. It fails
/// there. What the file has of the last page then is as it was, or as it was to be written; and what it
/// comes to have of that page later is written or zero.
fn nothing_is_back_after_a_failed_write(design: Design, unread: Unread, end: usize, then: Then) -> bool {
    const BEFORE: usize = 100;
    let mut with = after_a_crash(design);
    match unread {
        Unread::Silence => fails(&with, u64::MAX),
        Unread::Lost => {
            assert!(spoil(&with.flash, &page(4, 2), Bad::Unreadable) > 0);
            assert!(spoil(&with.flash, &page(3, 1), Bad::Unreadable) > 0);
        }
    }
    assert!(with.file.write_at(&vec![7; BEFORE + end], LAST - BEFORE as u64).is_err());
    if matches!(unread, Unread::Silence) {
        with.flash.heal();
    }
    match then {
        Then::Nothing => {}
        Then::PastTier => {
            let left = with.volume.stop_admission().map_err(|error| error.kind());
            let lost = Err(VolumeErrorKind::LostPage);
            assert_eq!(left, if matches!(unread, Unread::Lost) { lost } else { Ok(()) });
        }
        Then::Crash | Then::SyncedCrash => {
            if matches!(then, Then::SyncedCrash) {
                with.file.sync().unwrap();
            }
            let InUse { flash, backing, volume, file } = with;
            drop((file, volume));
            let volume = open(&flash, &durable(design));
            let file = backing.attach(&volume).unwrap();
            with = InUse { flash, backing, volume, file };
        }
    }
    match with.file.set_len(LAST + 3 * PAGE as u64).map_err(|error| error.kind()) {
        // The crash took the new version of the last page.
        Err(VolumeErrorKind::LostPage) if matches!((unread, then), (Unread::Lost, Then::Crash)) => {
            return true;
        }
        grown => grown.unwrap(),
    }
    let found = read(&with.file, 4).unwrap();
    let (kept, rest) = found.split_at(END);
    let written = end.min(PAGE) - END;
    assert!(kept == &page(4, 1)[..END] || kept == &page(4, 2)[..END] || kept.iter().all(|byte| *byte == 7));
    with.volume.check();
    rest[..written].iter().all(|byte| [0, 7].contains(byte)) && rest[written..].iter().all(|byte| *byte == 0)
}

#[test]
fn a_write_that_fails_does_not_bring_back_what_a_crash_has_cut_off() {
    for design in WRITE_BACK {
        for unread in [Unread::Silence, Unread::Lost] {
            for end in [END + 1, END + 500, PAGE, PAGE + 100, 2 * PAGE] {
                for then in [Then::Nothing, Then::PastTier, Then::Crash, Then::SyncedCrash] {
                    assert!(
                        nothing_is_back_after_a_failed_write(design, unread, end, then),
                        "{design:?}, {unread:?}, to {end}, {then:?}"
                    );
                }
            }
        }
    }
    only_with(&[Bug::TailOutgrown], || {
        nothing_is_back_after_a_failed_write(Design::FaceGr, Unread::Silence, 2 * PAGE, Then::Nothing)
    });
}

/// A write over the whole last page needs nothing of it: it goes well while the device answers nothing.
#[test]
fn a_write_over_the_last_page_needs_no_read() {
    for design in WRITE_BACK {
        for end in [END + 1, PAGE, 2 * PAGE + 100] {
            let with = after_a_crash(design);
            fails(&with, u64::MAX);
            with.file.write_at(&vec![7; end], LAST).unwrap();
            with.flash.heal();
            assert_eq!(with.file.len(), LAST + end as u64);
            with.file.sync().unwrap();
            with.file.set_len(LAST + 3 * PAGE as u64).unwrap();
            let mut found = vec![1; 3 * PAGE];
            with.file.read_at(&mut found, LAST).unwrap();
            assert!(found[..end].iter().all(|byte| *byte == 7), "{design:?}, to {end}");
            assert!(found[end..].iter().all(|byte| *byte == 0), "{design:?}, to {end}");
        }
    }
}

/// The last page is lost for good. The file does not grow over it; when the page is given up, or written
/// anew, it does. Nor does it leave the tier.
#[test]
fn a_file_that_ends_in_a_lost_page_grows_when_that_is_quiesced() {
    let quiesce: [fn(&InUse); 3] = [
        |with| with.file.give_up(LAST).unwrap(),
        |with| with.file.write_at(&page(4, 3)[..END], LAST).unwrap(),
        |with| with.file.write_at(&[0; 2 * PAGE][..PAGE + 100], LAST).unwrap(),
    ];
    for design in WRITE_BACK {
        for quiesce in quiesce {
            let with = after_a_crash(design);
            assert!(spoil(&with.flash, &page(4, 2), Bad::Unreadable) > 0);
            write(&with.file, 1, 3);
            let lost = Err(VolumeErrorKind::LostPage);
            assert_eq!(with.file.set_len(LAST + PAGE as u64).map_err(|error| error.kind()), lost);
            let behind = with.file.write_at(&page(6, 3), 6 * PAGE as u64);
            assert_eq!(behind.map_err(|error| error.kind()), lost);
            assert_eq!(with.volume.stop_admission().map_err(|error| error.kind()), lost);
            assert_eq!(with.file.len(), LAST + END as u64);
            quiesce(&with);
            with.file.set_len(LAST + 2 * PAGE as u64).unwrap();
            assert!(read(&with.file, 4).unwrap()[END..].iter().all(|byte| *byte == 0), "{design:?}");
            with.file.sync().unwrap();
            with.volume.check();
        }
    }
}
