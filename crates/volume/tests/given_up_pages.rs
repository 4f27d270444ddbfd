//! Lost pages that are given up by name: what stands in their place then, and for how long.

#![allow(clippy::unwrap_used)]

mod common;

use std::rc::Rc;

use common::bad_places::spoil;
use common::one_file::{InUse, WRITE_BACK, begin, durable, go_round, in_use, read, write};
use common::{PAGE, open, page};
use mezzanine_device::memory::Bad;
use mezzanine_engine::given_up_page;
use mezzanine_engine::planted::{Bug, at_points, only_with};
use mezzanine_volume::{Design, SyncMode, VolumeConfig, VolumeErrorKind, VolumeState};

/// The page that is lost.
const LOST: u64 = 5;

fn given_up() -> Vec<u8> {
    let mut page = vec![0; PAGE];
    given_up_page(&mut page);
    page
}

/// A volume one of whose twelve pages is lost; `carried`, if the queue has come to it, and the tier knows.
fn with_a_lost_page(config: &VolumeConfig, carried: bool) -> InUse {
    let with = in_use(config);
    assert_eq!(spoil(&with.flash, &page(LOST, 1), Bad::Unreadable), 1);
    if carried {
        go_round(&with.file, &with.volume, 8).unwrap();
    }
    assert_eq!(read(&with.file, LOST), Err(VolumeErrorKind::LostPage));
    assert_eq!(with.volume.state(), VolumeState::Ok);
    with
}

/// The power fails as soon as the page was given up. Then it is as it was left, and all is as with a page
/// that was never lost.
fn stays_given_up(design: Design, carried: bool) -> bool {
    let config = durable(design);
    let InUse { flash, backing, volume, file } = with_a_lost_page(&config, carried);
    assert_eq!(volume.statistics().lost_pages, u64::from(carried));
    file.give_up(LOST * PAGE as u64).unwrap();
    assert_eq!((volume.statistics().lost_pages, volume.statistics().pages_given_up), (0, 1));
    assert!(volume.lost_pages().is_empty());
    if read(&file, LOST) != Ok(given_up()) {
        return false;
    }
    drop((file, volume));
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
    only_with(&[Bug::GivenUpAsZeros, Bug::GivenUpUnsynced], || stays_given_up(Design::FaceGr, true));
}

/// Somebody writes the page anew, whole, between the look whether it is lost and the giving up.
fn what_is_written_anew_stays() -> bool {
    let InUse { file, .. } = &with_a_lost_page(&durable(Design::FaceGr), true);
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
    outcome == Err(VolumeErrorKind::NotLost) && read(file, LOST) == Ok(page(LOST, 3))
}

#[test]
fn what_is_written_anew_meanwhile_is_not_given_up() {
    only_with(&[Bug::GivenUpThoughWritten], what_is_written_anew_stays);
}

/// What can be read is never thrown away by a slip in a name.
#[test]
fn only_what_is_lost_is_given_up() {
    let InUse { volume, file, .. } = with_a_lost_page(&durable(Design::FaceGsc), true);
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
    let InUse { flash, backing, volume, file } = begin(&config);
    (0..4).for_each(|block| write(&file, block, 1));
    file.write_at(&page(4, 1)[..END], 4 * PAGE as u64).unwrap();
    file.sync().unwrap();
    drop((file, volume));
    let mut last = page(4, 1);
    last[END..].fill(0);
    assert!(spoil(&flash, &last, Bad::Unreadable) > 0);
    let volume = open(&flash, &config);
    let file = backing.attach(&volume).unwrap();
    file.give_up(4 * PAGE as u64).unwrap();
    file.set_len(5 * PAGE as u64).unwrap();
    let mut expected = given_up();
    expected[END..].fill(0);
    assert_eq!(read(&file, 4), Ok(expected));
}
