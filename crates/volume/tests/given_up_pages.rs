//! Lost pages that are given up by name: what stands in their place then, and for how long.

#![allow(clippy::unwrap_used)]

mod common;

use std::rc::Rc;
use std::sync::Arc;

use common::{Backing, PAGE, config, formatted, open, page};
use mezzanine_device::memory::{Bad, MemoryDevice};
use mezzanine_engine::given_up_page;
use mezzanine_engine::planted::{Bug, at_points, set};
use mezzanine_volume::{
    Admission, Design, SyncMode, Volume, VolumeConfig, VolumeErrorKind, VolumeFile, VolumeState,
};

/// The page that is lost.
const LOST: u64 = 5;

fn durable(design: Design) -> VolumeConfig {
    config(design, Admission::Both, SyncMode::Durable, 0)
}

/// Those that take a page that is written for the first time.
const WRITE_BACK: [Design; 4] = [Design::FaceBasic, Design::FaceGr, Design::FaceGsc, Design::Lc];

fn write(file: &VolumeFile, block: u64, version: u64) {
    file.write_at(&page(block, version), block * PAGE as u64).unwrap();
}

fn read(file: &VolumeFile, block: u64) -> Result<Vec<u8>, VolumeErrorKind> {
    let mut found = vec![0; PAGE];
    file.read_at(&mut found, block * PAGE as u64).map(|()| found).map_err(|error| error.kind())
}

fn given_up() -> Vec<u8> {
    let mut page = vec![0; PAGE];
    given_up_page(&mut page);
    page
}

fn spoil(flash: &MemoryDevice, bytes: &[u8]) {
    let image = flash.image();
    for at in (0..image.len() / PAGE).filter(|at| image[at * PAGE..(at + 1) * PAGE] == *bytes) {
        flash.spoil((at * PAGE + 1024) as u64, 512, Bad::Unreadable);
    }
}

/// A volume one of whose twelve pages is lost; `carried`, if the queue has come to it, and the tier knows.
fn with_a_lost_page(
    config: &VolumeConfig,
    flash: &Arc<MemoryDevice>,
    backing: &Backing,
    carried: bool,
) -> (Volume, VolumeFile) {
    let volume = open(flash, config);
    let file = backing.attach(&volume).unwrap();
    (0..12).for_each(|block| write(&file, block, 1));
    file.sync().unwrap();
    spoil(flash, &page(LOST, 1));
    for version in 100..if carried { 108 } else { 100 } {
        (200..330).for_each(|block| write(&file, block, version));
        file.sync().unwrap();
    }
    assert_eq!(read(&file, LOST), Err(VolumeErrorKind::LostPage));
    assert_eq!(volume.state(), VolumeState::Ok);
    (volume, file)
}

/// The power fails as soon as the page was given up. Then it is as it was left, and all is as with a page
/// that was never lost.
fn stays_given_up(design: Design, carried: bool) -> bool {
    let config = durable(design);
    let (flash, backing) = (formatted(&config), Backing::new("a"));
    {
        let (volume, file) = with_a_lost_page(&config, &flash, &backing, carried);
        assert_eq!(volume.statistics().lost_pages, u64::from(carried));
        file.give_up(LOST * PAGE as u64).unwrap();
        assert_eq!((volume.statistics().lost_pages, volume.statistics().pages_given_up), (0, 1));
        assert!(volume.lost_pages().is_empty());
        if read(&file, LOST) != Ok(given_up()) {
            return false;
        }
    }
    flash.power_cut(3);
    backing.disk.power_cut(3);
    let volume = open(&flash, &config);
    let file = backing.attach(&volume).unwrap();
    if read(&file, LOST) != Ok(given_up()) {
        return false;
    }
    assert!((0..12).all(|block| block == LOST || read(&file, block) == Ok(page(block, 1))));
    volume.close_drained().unwrap();
    backing.disk.inspect(|disk| disk[LOST as usize * PAGE..][..PAGE] == given_up())
}

#[test]
fn a_page_that_was_given_up_is_neither_zeros_nor_old_and_stays_so() {
    for design in WRITE_BACK {
        for carried in [false, true] {
            assert!(stays_given_up(design, carried), "{design:?}, carried: {carried}");
        }
    }
    for bug in [Bug::GivenUpAsZeros, Bug::GivenUpUnsynced] {
        set(Some(bug));
        let held = stays_given_up(Design::FaceGr, true);
        set(None);
        assert!(!held, "{bug:?} went unnoticed");
    }
}

/// Somebody writes the page anew, whole, between the look whether it is lost and the giving up.
fn what_is_written_anew_stays() -> bool {
    let config = durable(Design::FaceGr);
    let (flash, backing) = (formatted(&config), Backing::new("a"));
    let (_volume, file) = with_a_lost_page(&config, &flash, &backing, true);
    let writer = file.clone();
    at_points(Some(Rc::new(move |point| {
        if point == "give up: page not locked" {
            std::thread::scope(|scope| {
                scope.spawn(|| write(&writer, LOST, 3));
            });
        }
    })));
    let outcome = file.give_up(LOST * PAGE as u64).map_err(|error| error.kind());
    at_points(None);
    outcome == Err(VolumeErrorKind::NotLost) && read(&file, LOST) == Ok(page(LOST, 3))
}

#[test]
fn what_is_written_anew_meanwhile_is_not_given_up() {
    assert!(what_is_written_anew_stays());
    set(Some(Bug::GivenUpThoughWritten));
    let held = what_is_written_anew_stays();
    set(None);
    assert!(!held, "a page that was written anew was given up");
}

/// What can be read is never thrown away by a slip in a name.
#[test]
fn only_what_is_lost_is_given_up() {
    let config = durable(Design::FaceGsc);
    let (flash, backing) = (formatted(&config), Backing::new("a"));
    let (volume, file) = with_a_lost_page(&config, &flash, &backing, true);
    let size = PAGE as u64;
    for (offset, part) in [
        (4 * size, "a read brings the page"),
        (100 * size, "a read brings the page"),
        (LOST * size + 512, "no page begins there"),
        (330 * size, "the file ends at byte"),
        (u64::MAX / size * size, "the file ends at byte"),
    ] {
        let error = file.give_up(offset).unwrap_err();
        assert_eq!((error.kind(), error.offset()), (VolumeErrorKind::NotLost, Some(offset)));
        assert!(error.to_string().contains(part), "{error}");
    }
    assert_eq!(read(&file, 4), Ok(page(4, 1)));
    assert_eq!(volume.statistics().pages_given_up, 0);
    file.give_up(LOST * size).unwrap();
    assert_eq!(file.give_up(LOST * size).unwrap_err().kind(), VolumeErrorKind::NotLost, "once is enough");
    volume.set_sync_mode(SyncMode::Through).unwrap();
    assert_eq!(read(&file, LOST), Ok(given_up()));
    assert_eq!(file.give_up(LOST * size).unwrap_err().kind(), VolumeErrorKind::NotLost);
}

/// The page that the file ends in: behind the end there are zeros, also when the file grows.
#[test]
fn of_the_last_page_what_the_file_has_is_given_up() {
    const END: usize = 1000;
    let config = durable(Design::FaceGr);
    let (flash, backing) = (formatted(&config), Backing::new("a"));
    {
        let volume = open(&flash, &config);
        let file = backing.attach(&volume).unwrap();
        (0..4).for_each(|block| write(&file, block, 1));
        file.write_at(&page(4, 1)[..END], 4 * PAGE as u64).unwrap();
        file.sync().unwrap();
    }
    let mut last = page(4, 1);
    last[END..].fill(0);
    spoil(&flash, &last);
    let volume = open(&flash, &config);
    let file = backing.attach(&volume).unwrap();
    file.give_up(4 * PAGE as u64).unwrap();
    file.set_len(5 * PAGE as u64).unwrap();
    let mut expected = given_up();
    expected[END..].fill(0);
    assert_eq!(read(&file, 4), Ok(expected));
}
