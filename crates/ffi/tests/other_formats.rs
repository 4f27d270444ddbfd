//! A server starts on a flash device with a tier of another version of the format.
#![allow(clippy::unwrap_used)]

use std::os::unix::fs::FileExt;

use machine::{Machine, start, write};
use mezzanine_engine::SyncMode;
use mezzanine_engine::format::{SUPERBLOCK_BYTES, SUPERBLOCK_OFFSETS};
use mezzanine_ffi::startup::Adoption;

mod machine;

/// Gives both superblocks another version of the format, under checksums that are right.
fn rewrite_version(machine: &Machine, version: u32) {
    let file = std::fs::File::options().read(true).write(true).open(machine.root.join("flash")).unwrap();
    for offset in SUPERBLOCK_OFFSETS {
        let mut bytes = vec![0; SUPERBLOCK_BYTES];
        file.read_exact_at(&mut bytes, offset).unwrap();
        bytes[8..12].copy_from_slice(&version.to_le_bytes());
        let checksum = crc32c::crc32c(&bytes[..SUPERBLOCK_BYTES - 4]);
        bytes[SUPERBLOCK_BYTES - 4..].copy_from_slice(&checksum.to_le_bytes());
        file.write_all_at(&bytes, offset).unwrap();
    }
}

/// A machine on which a server has had a tier in this mode, with pages in it.
fn left_in(mode: SyncMode) -> Machine {
    let machine = Machine::new(mode);
    let (host, _) = machine.start(10).unwrap();
    for block in 0..100 {
        write(&host, block, 1);
    }
    machine
}

fn flash(machine: &Machine) -> Vec<u8> {
    std::fs::read(machine.root.join("flash")).unwrap()
}

/// It was formatted over once: a directory whose own tier was elsewhere, in a mode in which losing it costs
/// nothing, was pointed at a device with another cluster's tier of an older format, which had the only copy
/// of pages.
#[test]
fn a_tier_of_another_format_that_is_not_ours_stays_as_it_is() {
    for version in [2, 99] {
        let (ours, theirs) = (left_in(SyncMode::Drained), left_in(SyncMode::Durable));
        rewrite_version(&theirs, version);
        std::fs::copy(theirs.root.join("flash"), ours.root.join("flash")).unwrap();
        let before = flash(&ours);
        let refusal = ours.refusal(&start(10));
        assert!(refusal.message.contains("does not use"), "{refusal:?}");
        assert!(refusal.detail.contains(&format!("version {version}")), "{refusal:?}");
        assert!(refusal.hint.contains("mezz pg drain"), "{refusal:?}");
        assert!(flash(&ours) == before, "it was written to");
    }
}

#[test]
fn our_own_tier_of_an_older_format_is_kept_while_it_has_the_only_copies() {
    let machine = left_in(SyncMode::Durable);
    rewrite_version(&machine, 2);
    let before = flash(&machine);
    assert!(machine.refusal(&start(10)).hint.contains("mezz pg drain"));
    assert!(flash(&machine) == before, "it was written to");
}

#[test]
fn our_own_tier_of_an_older_format_is_made_anew_where_that_loses_nothing() {
    for mode in [SyncMode::Through, SyncMode::Drained] {
        let machine = left_in(mode);
        rewrite_version(&machine, 2);
        let (_, started) = machine.start(10).unwrap();
        assert_eq!(started.adoption, Adoption::Formatted);
        assert!(started.reason.contains("version 2"), "{}", started.reason);
    }
}
