//! What a volume believes and says after a device has failed it: found by the crash simulator, one by one.

#![allow(clippy::unwrap_used)]

mod common;

use common::slow::{Held, Slow};
use common::{Backing, PAGE, durable, formatted, open, page, through};
use mezzanine_device::memory::{Fault, Injection, MemoryDevice, Operation};
use mezzanine_device::{Device, DeviceErrorKind};
use mezzanine_volume::{AttachOptions, VolumeErrorKind, VolumeState};

fn fail(device: &MemoryDevice, operation: Operation, after: u64, count: u64) {
    device.inject(Injection { operation, after, count, fault: Fault::Error(DeviceErrorKind::Io) });
}

#[test]
fn a_tier_that_was_given_up_is_not_valid_again_when_the_disk_fails_too() {
    let flash = formatted(&through());
    let backing = Backing::new("a");
    let volume = open(&flash, &through());
    let file = backing.attach(&volume).unwrap();
    file.write_at(&page(0, 1), 0).unwrap();
    fail(&flash, Operation::Write, 0, u64::MAX);
    // Until a group is full and fails.
    for n in 1..20 {
        file.write_at(&page(n, 1), n * PAGE as u64).unwrap();
    }
    assert!(matches!(volume.state(), VolumeState::Bypass { .. }));
    file.write_at(&page(0, 2), 0).unwrap();
    fail(&backing.disk, Operation::Flush, 0, 1);
    file.sync().unwrap_err();
    assert!(matches!(volume.state(), VolumeState::ReadOnly { .. }));
    let mut found = vec![0; PAGE];
    file.read_at(&mut found, 0).unwrap();
    assert!(found == page(0, 2), "the tier has the old page, and the disk the new one");
}

#[test]
fn a_discard_in_the_middle_of_which_the_tier_is_given_up_leaves_the_file_detached() {
    for after in 0..4 {
        let flash = formatted(&durable());
        let backing = Backing::guarded("a");
        let volume = open(&flash, &durable());
        let file = backing.attach(&volume).unwrap();
        for n in 0..6 {
            file.write_at(&page(n, 1), n * PAGE as u64).unwrap();
        }
        fail(&flash, Operation::Write, after, u64::MAX);
        file.discard(PAGE as u64, 4 * PAGE as u64).unwrap();
        file.write_at(&page(0, 2), 0).unwrap();
        file.sync().unwrap();
        drop(volume);
        flash.heal();
        let volume = open(&flash, &durable());
        let file = backing.attach(&volume).unwrap();
        let mut found = vec![0; 6 * PAGE];
        file.read_at(&mut found, 0).unwrap();
        let expected = [page(0, 2), vec![0; 4 * PAGE], page(5, 1)].concat();
        assert!(found == expected, "flash failed after {after} writes");
    }
}

/// Flash fails in a discard of two bytes, before which so many pages are written, and the power fails after
/// it. Are they zeros? `None` if the tier is not given up.
fn zeros_are_durable(pages: u64, seed: u64) -> Option<bool> {
    let flash = formatted(&durable());
    let backing = Backing::new("a");
    let volume = open(&flash, &durable());
    let file = backing.attach(&volume).unwrap();
    for n in 0..pages {
        file.write_at(&page(n, 1), n * PAGE as u64).unwrap();
    }
    fail(&flash, Operation::Write, 0, u64::MAX);
    file.discard(PAGE as u64 + 100, 2).unwrap();
    let given_up = matches!(volume.state(), VolumeState::Bypass { .. });
    drop(file);
    drop(volume);
    flash.heal();
    flash.power_cut(seed);
    backing.disk.power_cut(seed);
    let volume = open(&flash, &durable());
    let file = backing.attach(&volume).unwrap();
    let mut found = [1; 2];
    file.read_at(&mut found, PAGE as u64 + 100).unwrap();
    given_up.then_some(found == [0; 2])
}

/// What became of it with any number of pages before that staging memory has room for, and more.
fn all_zeros_are_durable() -> bool {
    let cases = (2..40).flat_map(|pages| (0..4).map(move |seed| (pages, seed)));
    let found: Vec<bool> = cases.filter_map(|(pages, seed)| zeros_are_durable(pages, seed)).collect();
    assert!(!found.is_empty());
    found.into_iter().all(|zeros| zeros)
}

/// Found by the crash worlds (seed 20399500).
#[test]
fn zeros_of_a_discard_that_go_to_disk_because_the_tier_is_given_up_are_durable() {
    assert!(all_zeros_are_durable());
}

#[cfg(feature = "planted")]
#[test]
fn that_zeros_of_a_discard_are_not_synced_shows() {
    use mezzanine_engine::planted::{Bug, set};
    set(Some(Bug::DiscardUnflushed));
    let durable = all_zeros_are_durable();
    set(None);
    assert!(!durable, "the planted fault went unnoticed");
}

#[test]
fn a_guard_that_could_not_be_written_whole_does_not_stay() {
    for operation in [Operation::Write, Operation::Flush] {
        let flash = formatted(&durable());
        let backing = Backing::guarded("a");
        backing.disk.load(&page(0, 1));
        let volume = open(&flash, &durable());
        let file = backing.attach(&volume).unwrap();
        fail(&backing.disk, operation, 0, 1);
        assert_eq!(file.write_at(&page(0, 2), 0).unwrap_err().kind(), VolumeErrorKind::Io);
        backing.disk.heal();
        volume.close().unwrap();
        backing.disk.inspect(|disk| assert!(disk == page(0, 1), "{operation:?}"));
        let volume = open(&flash, &durable());
        let mut found = vec![0; PAGE];
        backing.attach(&volume).unwrap().read_at(&mut found, 0).unwrap();
        assert!(found == page(0, 1));
    }
}

#[test]
fn a_sidecar_that_says_dirty_though_its_replacement_failed_is_taken_back() {
    let flash = formatted(&durable());
    let backing = Backing::new("a");
    let volume = open(&flash, &durable());
    let file = backing.attach(&volume).unwrap();
    *backing.sidecar.fails.lock().unwrap() = true;
    file.write_at(&page(0, 1), 0).unwrap_err();
    *backing.sidecar.fails.lock().unwrap() = false;
    volume.close_drained().unwrap();
    let volume = open(&flash, &durable());
    let file = backing.attach(&volume).unwrap();
    file.write_at(&page(0, 2), 0).unwrap();
    file.sync().unwrap();
}

/// Numbers that a file had before stay in its sidecar until the tier has forgotten them durably, also when
/// the tier is given up before that.
#[test]
fn former_numbers_survive_a_tier_that_is_given_up() {
    let flash = formatted(&durable());
    let backings = [Backing::new("a"), Backing::new("b")];
    let attach = || {
        let volume = open(&flash, &durable());
        let files = backings.each_ref().map(|backing| backing.attach(&volume).unwrap());
        (volume, files)
    };
    let (volume, files) = attach();
    files[1].write_at(&page(0, 1), 0).unwrap();
    files[1].sync().unwrap();
    drop(volume);
    // The first file gets a new number, and flash fails before it knows.
    let (volume, files) = attach();
    fail(&flash, Operation::Write, 0, u64::MAX);
    files[1].write_at(&page(0, 2), 0).unwrap();
    files[1].sync().unwrap();
    assert!(matches!(volume.state(), VolumeState::Bypass { .. }));
    drop(volume);
    flash.heal();
    let (_volume, files) = attach();
    for file in &files {
        file.write_at(&page(0, 3), 0).unwrap();
        file.sync().unwrap();
    }
}

/// Found by the crash worlds (seed 600074720).
#[test]
fn a_file_shorter_than_its_guard_keeps_its_length_when_the_tier_is_given_up() {
    for after in 0..4 {
        let flash = formatted(&durable());
        let backing = Backing::guarded("a");
        let volume = open(&flash, &durable());
        let file = backing.attach(&volume).unwrap();
        fail(&flash, Operation::Write, after, u64::MAX);
        file.write_at(&[7; 10], 0).unwrap();
        file.sync().unwrap();
        // With more of its writes done, flash has the page before it fails.
        let given_up = matches!(volume.state(), VolumeState::Bypass { .. });
        assert!(given_up || after > 0, "{:?}", volume.state());
        drop(file);
        drop(volume);
        flash.heal();
        let volume = open(&flash, &durable());
        let file = backing.attach(&volume).unwrap();
        assert_eq!(file.len(), 10, "flash failed after {after} writes");
        let mut found = [0; 10];
        file.read_at(&mut found, 0).unwrap();
        assert_eq!(found, [7; 10]);
    }
}

/// Found by the crash worlds (seed 600066898).
#[test]
fn clean_pages_that_are_distrusted_stay_so_when_the_file_is_attached_warm() {
    let flash = formatted(&durable());
    let backing = Backing::new("a");
    backing.disk.load(&(0..8).flat_map(|n| page(n, 1)).collect::<Vec<u8>>());
    let volume = open(&flash, &durable());
    let file = backing.attach(&volume).unwrap();
    // A clean copy of the first page is on flash, durable.
    let mut found = vec![0; PAGE];
    file.read_at(&mut found, 0).unwrap();
    for n in 1..8 {
        file.write_at(&page(n, 2), n * PAGE as u64).unwrap();
    }
    file.sync().unwrap();
    // A newer version, of which flash has none, goes to disk; the tier is not given up to the end.
    fail(&flash, Operation::Write, 0, u64::MAX);
    fail(&backing.disk, Operation::Flush, 0, 1);
    file.write_at(&page(0, 3), 0).unwrap();
    file.sync().unwrap_err();
    assert!(matches!(volume.state(), VolumeState::ReadOnly { .. }), "{:?}", volume.state());
    drop(file);
    drop(volume);
    flash.heal();
    backing.disk.heal();
    // Not read there: that would give the tier a new copy.
    let volume = open(&flash, &durable());
    backing.attach(&volume).unwrap();
    volume.stop_admission().unwrap();
    volume.close().unwrap();
    drop(volume);
    backing.disk.inspect(|disk| assert!(disk[..PAGE] == page(0, 3)));
    let volume = open(&flash, &durable());
    backing.attach(&volume).unwrap().read_at(&mut found, 0).unwrap();
    assert!(found == page(0, 3), "a clean copy on flash that the disk is newer than has answered");
}

/// One thread changes a part of a page and has read the rest of it; the tier is given up; another thread
/// changes another part. Are both changes there?
fn both_parts_are_there(plant: impl Fn() + Sync) -> bool {
    let (flash, backing) = (formatted(&durable()), Backing::new("a"));
    backing.disk.write_at(&[page(0, 1), page(1, 1)].concat(), 0).unwrap();
    let disk = Slow::new(&backing.disk);
    let volume = open(&flash, &durable());
    let sidecar = backing.sidecar.clone();
    let file = volume.attach(&backing.path, disk.clone(), sidecar, AttachOptions::default()).unwrap();
    file.write_at(&page(0, 2), 0).unwrap();
    disk.hold(Held::ReadsDone);
    std::thread::scope(|scope| {
        let first = scope.spawn(|| file.write_at(&[7; 512], PAGE as u64).unwrap());
        disk.wait_until_one_hangs();
        fail(&flash, Operation::Write, 0, u64::MAX);
        for n in 10..30 {
            file.write_at(&page(n, 1), n * PAGE as u64).unwrap();
        }
        assert!(matches!(volume.state(), VolumeState::Bypass { .. }));
        let second = scope.spawn(|| {
            plant();
            file.write_at(&[8; 512], PAGE as u64 + 1024).unwrap();
        });
        // It may be done now, or only after the first one.
        for _ in 0..100 {
            if second.is_finished() {
                break;
            }
            std::thread::sleep(std::time::Duration::from_millis(2));
        }
        disk.hold(Held::Nothing);
        first.join().unwrap();
        second.join().unwrap();
    });
    let mut found = vec![0; PAGE];
    file.read_at(&mut found, PAGE as u64).unwrap();
    let mut expected = page(1, 1);
    expected[..512].fill(7);
    expected[1024..1536].fill(8);
    found == expected
}

/// Found by the storm (`tests/storm`): a write past the tier did not wait for one that had begun before,
/// which then wrote the whole page as it had been. What had been written and synced in between was gone.
#[test]
fn a_write_past_the_tier_is_not_undone_by_one_that_began_before() {
    assert!(both_parts_are_there(|| {}));
}

#[cfg(feature = "planted")]
#[test]
fn that_a_write_past_the_tier_does_not_wait_shows() {
    use mezzanine_engine::planted::{Bug, set};
    assert!(!both_parts_are_there(|| set(Some(Bug::GivenUpUnlocked))), "the planted fault went unnoticed");
}

/// The flash device is replaced while another thread has met its failure and gives the tier up. Is it
/// replaced?
#[cfg(feature = "planted")]
fn is_replaced(bug: Option<mezzanine_engine::planted::Bug>) -> bool {
    use std::rc::Rc;
    use std::sync::mpsc::channel;

    use mezzanine_engine::planted::{at_points, set};
    use mezzanine_volume::ReplaceOptions;

    let (flash, backing) = (formatted(&durable()), Backing::new("a"));
    let disk = Slow::new(&backing.disk);
    let volume = open(&flash, &durable());
    let sidecar = backing.sidecar.clone();
    let file = volume.attach(&backing.path, disk.clone(), sidecar, AttachOptions::default()).unwrap();
    // A full group, which nobody has written yet.
    for block in 0..4 {
        file.write_at(&page(block, 1), block * PAGE as u64).unwrap();
    }
    fail(&flash, Operation::Write, 0, u64::MAX);
    disk.hold(Held::Writes);
    let (failed, has_failed) = channel();
    let (go_on, may_go_on) = channel();
    let replaced = std::thread::scope(|scope| {
        scope.spawn(|| {
            at_points(Some(Rc::new(move |point| {
                if point == "a job is completed" {
                    failed.send(()).unwrap();
                    may_go_on.recv().unwrap();
                }
            })));
            volume.step();
            at_points(None);
        });
        has_failed.recv().unwrap();
        let replacing = scope.spawn(|| {
            let disk = disk.clone();
            at_points(Some(Rc::new(move |point| {
                if point == "quiescing has failed" {
                    go_on.send(()).unwrap();
                    disk.wait_until_one_hangs();
                }
            })));
            set(bug);
            let options = ReplaceOptions::new(durable().tier);
            let replaced = volume.replace_flash(common::flash_for(&durable()), &options).is_ok();
            set(None);
            at_points(None);
            replaced
        });
        disk.wait_until_one_hangs();
        std::thread::sleep(std::time::Duration::from_millis(50));
        disk.hold(Held::Nothing);
        replacing.join().unwrap()
    });
    let mut found = vec![0; 4 * PAGE];
    file.read_at(&mut found, 0).unwrap();
    assert!(found == (0..4).flat_map(|block| page(block, 1)).collect::<Vec<_>>());
    replaced
}

/// Found by the storm: the replacement met the failure, too, saw that somebody else was seeing to it, and
/// reported it, though the tier was given up in order a moment later, and a device of which that is so can be
/// replaced.
#[cfg(feature = "planted")]
#[test]
fn a_device_is_replaced_while_another_thread_gives_it_up() {
    use mezzanine_engine::planted::Bug;
    assert!(is_replaced(None));
    assert!(!is_replaced(Some(Bug::GivingUpUnawaited)), "the planted fault went unnoticed");
}

/// Flash fails in a drain, or in a drained closing: it is given up in order, or was not needed anyway. Is the
/// drain done then, by the disk?
fn a_drain_outlives_the_tier() -> bool {
    [(durable(), Operation::Write), (through(), Operation::Write), (through(), Operation::Flush)]
        .into_iter()
        .flat_map(|(config, operation)| [false, true].map(|closes| (config.clone(), operation, closes)))
        .all(|(config, operation, closes)| {
            let (flash, backing) = (formatted(&config), Backing::new("a"));
            let volume = open(&flash, &config);
            let file = backing.attach(&volume).unwrap();
            let pages: Vec<u8> = (0..3).flat_map(|block| page(block, 1)).collect();
            file.write_at(&pages, 0).unwrap();
            fail(&flash, operation, 0, u64::MAX);
            let done = if closes { volume.close_drained() } else { volume.drain() };
            let current = backing.disk.inspect(|disk| disk == pages);
            assert!(done.is_err() || current, "a drain was acknowledged and the disk is not current");
            done.is_ok() && (closes || matches!(volume.state(), VolumeState::Bypass { .. }))
        })
}

/// Found when the crash worlds held operations to the table of costs (seeds 138 and 923): the drain failed
/// with the error of flash, which had just been given up, and every page was on disk.
#[test]
fn a_drain_in_which_flash_fails_is_done_by_the_disk() {
    assert!(a_drain_outlives_the_tier());
    #[cfg(feature = "planted")]
    {
        use mezzanine_engine::planted::{Bug, set};
        set(Some(Bug::GivenUpFailsDrain));
        let noticed = !a_drain_outlives_the_tier();
        set(None);
        assert!(noticed, "the planted fault went unnoticed");
    }
}

/// One thread is about to change a part of a page in the tier, and loses the processor before it has looked
/// at the page; the tier is given up; another thread changes another part. Are both changes there?
#[cfg(feature = "planted")]
fn both_parts_are_there_of_a_page_in_the_tier(bug: Option<mezzanine_engine::planted::Bug>) -> bool {
    use mezzanine_engine::planted::{at_points, set};
    use std::rc::Rc;
    use std::sync::mpsc;

    let (flash, backing) = (formatted(&durable()), Backing::new("a"));
    let volume = open(&flash, &durable());
    let file = backing.attach(&volume).unwrap();
    file.write_at(&[page(0, 1), page(1, 1)].concat(), 0).unwrap();
    file.sync().unwrap();
    let ((waits, first_waits), (go_on, goes_on)) = (mpsc::channel(), mpsc::channel::<()>());
    std::thread::scope(|scope| {
        let first = scope.spawn(|| {
            set(bug);
            at_points(Some(Rc::new(move |point| {
                if point == "write: pages not locked" {
                    waits.send(()).unwrap();
                    goes_on.recv().unwrap();
                }
            })));
            file.write_at(&[7; 512], PAGE as u64).unwrap();
            at_points(None);
        });
        first_waits.recv().unwrap();
        fail(&flash, Operation::Write, 0, u64::MAX);
        for n in 10..30 {
            file.write_at(&page(n, 1), n * PAGE as u64).unwrap();
        }
        assert!(matches!(volume.state(), VolumeState::Bypass { .. }));
        file.write_at(&[8; 512], PAGE as u64 + 1024).unwrap();
        file.sync().unwrap();
        go_on.send(()).unwrap();
        first.join().unwrap();
    });
    let mut found = vec![0; PAGE];
    file.read_at(&mut found, PAGE as u64).unwrap();
    let mut expected = page(1, 1);
    expected[..512].fill(7);
    expected[1024..1536].fill(8);
    found == expected
}

/// The writer had gone to the tier, looked at the page there when others had written past it, and wrote all
/// of that over what they had synced.
#[cfg(feature = "planted")]
#[test]
fn a_page_of_a_tier_that_was_given_up_is_not_written_over_the_newer_one() {
    use mezzanine_engine::planted::Bug;
    assert!(both_parts_are_there_of_a_page_in_the_tier(None));
    let there = both_parts_are_there_of_a_page_in_the_tier(Some(Bug::GivenUpPageBelieved));
    assert!(!there, "the planted fault went unnoticed");
}
