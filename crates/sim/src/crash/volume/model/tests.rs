#![allow(clippy::unwrap_used)]

use super::*;

const PAGE: u64 = 4096;

fn page_of(version: u32, page: u64) -> Vec<u8> {
    let mut bytes = vec![0; PAGE as usize];
    pattern::fill(&mut bytes, 0, version, page * PAGE);
    bytes
}

/// A file of four pages at version 1, synced, whose page 0 was then written as version 2.
fn file() -> FileModel {
    let mut file = FileModel::new(0, PAGE, 8 * PAGE);
    file.write_issued(1, 0, 4 * PAGE);
    file.sync_acknowledged();
    file.write_issued(2, 0, PAGE);
    file
}

#[test]
fn without_a_crash_only_the_last_version_is_right() {
    let mut file = file();
    file.observed(0, &page_of(2, 0)).unwrap();
    assert_eq!(file.observed(0, &page_of(1, 0)), Err((0, Mismatch::Other)));
    assert_eq!(file.observed(PAGE, &page_of(2, 1)), Err((8, Mismatch::Other)));
}

#[test]
fn after_a_crash_synced_and_later_versions_are_right_until_one_was_read() {
    let mut file = file();
    file.crashed(true);
    assert!(file.is_in_doubt(0, 1) && !file.is_in_doubt(PAGE, PAGE));
    file.len_observed(4 * PAGE).unwrap();
    assert_eq!(file.observed(0, &page_of(2, 0)), Ok(8));
    file.crashed(true);
    assert_eq!(file.observed(0, &page_of(1, 0)), Err((0, Mismatch::WentBack(Floor::Observed))));
}

#[test]
fn after_a_sync_the_older_version_is_wrong() {
    let mut file = file();
    file.sync_acknowledged();
    file.crashed(true);
    assert_eq!(file.observed(0, &page_of(1, 0)), Err((0, Mismatch::WentBack(Floor::Synced))));
    assert_eq!(file.observed(0, &[0; PAGE as usize]), Err((0, Mismatch::WentBack(Floor::Synced))));
}

#[test]
fn a_torn_page_is_possible_sector_by_sector_but_not_whole() {
    let mut file = file();
    file.crashed(true);
    let mut torn = page_of(1, 0);
    torn[512..1024].copy_from_slice(&page_of(2, 0)[512..1024]);
    assert!(!file.is_whole(0, &torn));
    assert!(file.is_whole(0, &page_of(1, 0)) && file.is_whole(0, &page_of(2, 0)));
    file.observed(0, &torn).unwrap();
    let mut mixed = page_of(1, 1);
    mixed[100..108].copy_from_slice(&page_of(2, 1)[100..108]);
    mixed[100..].fill(0);
    assert!(matches!(file.observed(PAGE, &mixed), Err((8, Mismatch::Mixed))));
}

#[test]
fn what_was_cut_off_never_returns() {
    let mut file = file();
    file.len_issued(PAGE + 100);
    file.zero_issued(3, PAGE + 100, 8 * PAGE - PAGE - 100);
    let mut crashed_inside = file.len();
    assert_eq!(crashed_inside, PAGE + 100);
    file.len_acknowledged();
    file.zero_acknowledged(3, PAGE + 100, 8 * PAGE - PAGE - 100);
    file.crashed(true);
    assert!(file.len_observed(4 * PAGE).is_err());
    crashed_inside = PAGE + 100;
    file.len_observed(crashed_inside).unwrap();
    file.len_issued(3 * PAGE);
    assert_eq!(file.observed(2 * PAGE, &page_of(1, 2)), Err((16, Mismatch::WentBack(Floor::Zeroed))));
    file.observed(2 * PAGE, &[0; PAGE as usize]).unwrap();
    let mut boundary = page_of(1, 1);
    assert!(file.observed(PAGE, &boundary).is_err());
    boundary[100..].fill(0);
    file.observed(PAGE, &boundary).unwrap();
}

#[test]
fn an_extension_that_was_not_synced_may_be_lost_and_then_leaves_nothing() {
    let mut file = file();
    file.write_issued(3, 4 * PAGE, 2 * PAGE);
    file.crashed(true);
    for len in [3 * PAGE, 6 * PAGE + 1] {
        assert!(file.len_observed(len).is_err(), "{len}");
    }
    file.len_observed(4 * PAGE + 700).unwrap();
    let expected = page_of(3, 4);
    file.observed(4 * PAGE, &expected[..700]).unwrap();
    file.len_issued(6 * PAGE);
    assert!(file.observed(5 * PAGE, &page_of(3, 5)).is_err());
    let mut head = expected;
    head[700..].fill(0);
    file.observed(4 * PAGE, &head).unwrap();
}

#[test]
fn a_history_does_not_double_with_each_failed_change_of_a_file_that_ends_inside_a_unit() {
    let mut file = file();
    let len = 3 * PAGE + 100;
    let unit = len as usize / UNIT_BYTES;
    file.zero_issued(3, len, file.bytes_max() - len);
    file.len_issued(len);
    file.change_failed(2, 3, len).unwrap();
    let once = file.units[unit].history.len();
    for version in 4..20 {
        file.change_failed(version - 1, version, len).unwrap();
    }
    // Each failure adds the one content that the cut makes of all others, and no more.
    assert_eq!(file.units[unit].history.len(), once + 16);
    // None of what may be there was forgotten: the end was cut off, or the file is as long as it was.
    let mut image: Vec<_> =
        [2, 1, 1, 1].iter().zip(0..).flat_map(|(version, page)| page_of(*version, page)).collect();
    file.is_possible(&Image::from(&image[..])).unwrap();
    image.truncate(len as usize);
    file.is_possible(&Image::from(&image[..])).unwrap();
    image[len as usize - 1] ^= 1;
    file.is_possible(&Image::from(&image[..])).unwrap_err();
}

#[test]
fn the_image_of_a_disk_is_compared_without_settling_anything() {
    let mut file = file();
    file.crashed(true);
    let mut image: Vec<u8> = (0..4).flat_map(|page| page_of(1, page)).collect();
    file.is_possible(&Image::from(&image[..])).unwrap();
    image[..PAGE as usize].copy_from_slice(&page_of(2, 0));
    file.is_possible(&Image::from(&image[..])).unwrap();
    image[0] ^= 1;
    assert!(file.is_possible(&Image::from(&image[..])).unwrap_err().contains("byte 0"));
    file.is_possible(&Image::from(&image[..PAGE as usize])).unwrap_err();
    assert!(file.is_in_doubt(0, PAGE));
}

/// Found by the world with seed 662607053259.
#[test]
fn what_a_broken_off_discard_zeroed_is_remembered_until_something_is_acknowledged() {
    let seen = |version: u32, page: u64| {
        let mut file = FileModel::new(0, PAGE, 8 * PAGE);
        file.write_issued(1, 0, 4 * PAGE);
        file.sync_acknowledged();
        file.discard_issued(2, 0, PAGE);
        file.crashed(true);
        file.observed(0, &[0; PAGE as usize]).unwrap();
        file.was_possible_before_a_discard(page as usize * 8, &page_of(version, page)[..UNIT_BYTES])
            .then_some(file)
    };
    let mut file = seen(1, 0).unwrap();
    assert!(seen(1, 1).is_none() && seen(3, 0).is_none());
    assert!(!file.unit_is_possible(0, &page_of(1, 0)[..UNIT_BYTES]));
    // A sync with nothing to do says nothing to flash.
    file.sync_acknowledged();
    assert!(file.was_possible_before_a_discard(0, &page_of(1, 0)[..UNIT_BYTES]));
    file.write_issued(4, PAGE, PAGE);
    file.sync_acknowledged();
    assert!(!file.was_possible_before_a_discard(0, &page_of(1, 0)[..UNIT_BYTES]));
}

#[test]
fn what_a_truncation_zeroed_is_not_remembered() {
    let mut file = file();
    file.zero_issued(3, 0, PAGE);
    file.crashed(true);
    file.observed(0, &[0; PAGE as usize]).unwrap();
    assert!(!file.was_possible_before_a_discard(0, &page_of(1, 0)[..UNIT_BYTES]));
}
