//! A server's flash path leads to something of others: it is refused, and stays as it is.
#![allow(clippy::unwrap_used)]

use std::fs::{self, File};
use std::io::{Seek, SeekFrom, Write};
use std::os::unix::fs::{FileExt, MetadataExt, PermissionsExt};
use std::path::PathBuf;

use machine::{Machine, checkpoint, start, write};
use mezzanine_device::Device;
use mezzanine_device::memory::MemoryDevice;
use mezzanine_engine::SyncMode;
use mezzanine_engine::format::{SUPERBLOCK_BYTES, SUPERBLOCK_OFFSETS, Superblock, TierState};
use mezzanine_engine::planted::{Bug, only_with};
use mezzanine_ffi::message::Refusal;
use mezzanine_ffi::startup::{Adoption, Start, Started};

mod machine;

/// Another cluster than that of [`start`].
const OTHER: u64 = 78;

fn flash(machine: &Machine) -> PathBuf {
    machine.root.join("flash")
}

/// How a server leaves its tier.
#[derive(Clone, Copy, PartialEq, Debug)]
enum Left {
    Killed,
    Closed,
    Drained,
}

/// A machine whose server has had a tier in this mode.
fn left(mode: SyncMode, how: Left, system_identifier: u64) -> Machine {
    let machine = Machine::new(mode);
    let host = machine.open().unwrap();
    host.start(&Start { system_identifier, ..start(10) }).unwrap();
    for block in 0..100 {
        write(&host, block, 1);
    }
    checkpoint(&host, 10);
    if how != Left::Killed {
        host.close(how == Left::Drained).unwrap();
    }
    drop(host);
    machine
}

/// A machine whose server has had a tier that nobody needs any more, and whose path now leads to nothing.
fn marked() -> Machine {
    let machine = left(SyncMode::Drained, Left::Drained, start(10).system_identifier);
    fs::remove_file(flash(&machine)).unwrap();
    machine
}

/// Whether its superblock says so: a tier that never has the only copy is drained whenever it is closed.
fn is_drained(machine: &Machine) -> bool {
    is_drained_in(&fs::read(flash(machine)).unwrap())
}

fn is_drained_in(image: &[u8]) -> bool {
    Superblock::decode(&image[..SUPERBLOCK_BYTES]).unwrap().state == TierState::Drained
}

fn try_start(machine: &Machine) -> Result<Started, Refusal> {
    machine.open()?.start(&start(10))
}

fn put(machine: &Machine, bytes: &[u8]) {
    fs::write(flash(machine), bytes).unwrap();
    fs::set_permissions(flash(machine), fs::Permissions::from_mode(0o600)).unwrap();
}

/// Whether the server refuses what its path leads to, says what it is and what to do, and leaves it as it
/// was.
fn refuses(machine: &Machine, message: &str) -> bool {
    let before = (fs::read(flash(machine)).unwrap(), fs::metadata(flash(machine)).unwrap().mtime_nsec());
    let Err(refusal) = try_start(machine) else { return false };
    assert!(refusal.message.contains(message), "{refusal}");
    assert!(refusal.message.contains(&flash(machine).display().to_string()), "{refusal}");
    assert!(refusal.detail.contains("left as it is"), "{refusal}");
    assert!(refusal.hint.contains("mezzanine.flash_path"), "{refusal}");
    let after = (fs::read(flash(machine)).unwrap(), fs::metadata(flash(machine)).unwrap().mtime_nsec());
    before == after
}

/// It was formatted over once if the data directory had a marker.
#[test]
fn a_file_of_others_is_refused_also_by_a_server_that_has_had_a_tier() {
    only_with(&[Bug::ForeignFormatted], || {
        let machine = marked();
        put(&machine, "a letter\n".repeat(1000).as_bytes());
        let refused = refuses(&machine, "no flash tier");
        let fresh = Machine::new(SyncMode::Drained);
        put(&fresh, b"a letter");
        refused && refuses(&fresh, "no flash tier")
    });
}

/// 64 kB were looked at once: a disk image, or a file with a hole where its head will be, was formatted.
#[test]
fn a_file_that_begins_with_zeros_is_no_empty_file() {
    only_with(&[Bug::BeginningTakenForAll], || {
        let machine = marked();
        let mut bytes = vec![0; 3 << 20];
        *bytes.last_mut().unwrap() = 1;
        put(&machine, &bytes);
        let written = refuses(&machine, "no flash tier");
        // The same with a hole before it, that is larger than anybody would read.
        fs::remove_file(flash(&machine)).unwrap();
        let mut sparse = File::create_new(flash(&machine)).unwrap();
        sparse.set_permissions(fs::Permissions::from_mode(0o600)).unwrap();
        sparse.seek(SeekFrom::Start(1 << 40)).unwrap();
        sparse.write_all(b"here").unwrap();
        written && try_start(&machine).is_err_and(|refusal| refusal.message.contains("no flash tier"))
    });
}

#[test]
fn what_holds_nothing_is_formatted() {
    for len in [0, 1, 5 << 20, 20 << 20] {
        let machine = marked();
        put(&machine, &vec![0; len]);
        assert_eq!(try_start(&machine).unwrap().adoption, Adoption::Formatted, "{len} zeros");
        let machine = marked();
        put(&machine, b"");
        File::options().write(true).open(flash(&machine)).unwrap().set_len(len as u64).unwrap();
        assert_eq!(try_start(&machine).unwrap().adoption, Adoption::Formatted, "a hole of {len}");
    }
    // No byte of it is read.
    let machine = marked();
    put(&machine, b"");
    File::options().write(true).open(flash(&machine)).unwrap().set_len(1 << 42).unwrap();
    assert_eq!(try_start(&machine).unwrap().adoption, Adoption::Formatted);
}

/// The tiers in use of other clusters were formatted over once where it cost those clusters no pages.
#[test]
fn another_clusters_tier_is_refused_unless_it_was_drained() {
    only_with(&[Bug::ForeignCacheFormatted], || {
        let mut all = true;
        for mode in [SyncMode::Through, SyncMode::Drained, SyncMode::Durable] {
            for how in [Left::Killed, Left::Closed, Left::Drained] {
                for machine in [marked(), Machine::new(SyncMode::Drained)] {
                    let theirs = left(mode, how, OTHER);
                    fs::copy(flash(&theirs), flash(&machine)).unwrap();
                    if is_drained(&theirs) {
                        assert_eq!(try_start(&machine).unwrap().adoption, Adoption::Formatted, "{mode:?}");
                        continue;
                    }
                    if mode == SyncMode::Durable {
                        let refusal = try_start(&machine).unwrap_err();
                        assert!(refusal.message.contains("another cluster's pages"), "{refusal}");
                        continue;
                    }
                    all &= refuses(&machine, "is another server's");
                }
            }
        }
        all
    });
}

#[test]
fn our_own_tier_is_made_anew_where_that_loses_nothing() {
    for mode in [SyncMode::Through, SyncMode::Drained] {
        for how in [Left::Killed, Left::Closed, Left::Drained] {
            let mut machine = left(mode, how, start(10).system_identifier);
            let image = fs::read(flash(&machine)).unwrap();
            machine.flash_mb = 8;
            assert!(try_start(&machine).is_ok(), "{mode:?}, {how:?}");
            // Where a backup was restored, the marker in it names another one.
            fs::write(flash(&machine), &image).unwrap();
            let restored = Start { from_backup: true, ..start(10) };
            assert_eq!(machine.open().unwrap().start(&restored).unwrap().adoption, Adoption::Formatted);
            // A copy of the cluster has its system identifier, and is no reason to take its tier.
            let copy = left(mode, how, start(10).system_identifier);
            fs::write(flash(&copy), &image).unwrap();
            let started = try_start(&copy);
            let drained = is_drained_in(&image);
            assert_eq!(started.is_ok(), drained, "{mode:?}, {how:?}");
            assert!(drained || started.unwrap_err().detail.contains("another data directory"), "{mode:?}");
        }
    }
}

/// The superblocks of our own tier rot: what their first sectors say is enough to know it, and nothing less.
#[test]
fn a_rotten_tier_is_known_by_the_first_sectors_of_its_superblocks() {
    for (mode, spared, starts) in [
        (SyncMode::Drained, [true, true], true),
        (SyncMode::Drained, [true, false], true),
        (SyncMode::Drained, [false, true], true),
        (SyncMode::Drained, [false, false], false),
        (SyncMode::Durable, [true, true], false),
    ] {
        let machine = left(mode, Left::Killed, start(10).system_identifier);
        let file = File::options().write(true).open(flash(&machine)).unwrap();
        for (offset, spared) in SUPERBLOCK_OFFSETS.into_iter().zip(spared) {
            file.write_all_at(&[0xA5; 64], offset + if spared { 600 } else { 0 }).unwrap();
        }
        match try_start(&machine) {
            Ok(started) => assert!(starts && started.adoption == Adoption::Formatted, "{mode:?} {spared:?}"),
            Err(refusal) => assert!(!starts, "{mode:?} {spared:?}: {refusal}"),
        }
        // Another cluster's, as rotten, is nobody's that we know.
        let other = marked();
        fs::copy(flash(&left(mode, Left::Killed, OTHER)), flash(&other)).unwrap();
        let file = File::options().write(true).open(flash(&other)).unwrap();
        SUPERBLOCK_OFFSETS
            .into_iter()
            .for_each(|offset| file.write_all_at(&[0xA5; 64], offset + 600).unwrap());
        assert!(refuses(&other, "no flash tier"));
    }
}

/// A memory device is no file that could be told to have holes, and here as a block device it cannot be
/// resized.
#[test]
fn a_memory_device_says_where_its_data_may_be() {
    let device = MemoryDevice::new(1 << 20);
    assert_eq!(device.data_from(4096).unwrap(), Some(4096..1 << 20));
    assert_eq!(device.data_from(1 << 20).unwrap(), None);
}
