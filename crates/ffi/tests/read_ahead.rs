//! Pages that are read ahead of their need: what a read then takes is the newest version or nothing.

#![allow(clippy::unwrap_used, missing_docs)]

mod machine;

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::FileExt;
use std::sync::atomic::Ordering;

use machine::{Machine, PAGE, checkpoint, flash_offset, id, offer, page, read, write};
use mezzanine_engine::planted::{Bug, only_with};
use mezzanine_engine::{IdRange, PageId, SyncMode};
use mezzanine_ffi::host::Host;
use mezzanine_ffi::pages::Found;
use mezzanine_ffi::read_ahead::AheadCounts;
use mezzanine_ffi::read_at_once::AtOnce;
use mezzanine_ground::random::Random;

const BLOCKS: u32 = 512;

fn ids(blocks: impl Iterator<Item = u32>) -> Vec<PageId> {
    blocks.map(id).collect()
}

/// A tier with so many blocks on flash, each with the version of its number modulo 251.
fn filled(machine: &Machine) -> Host {
    let (host, _) = machine.start(10).unwrap();
    for block in 0..BLOCKS {
        write(&host, block, (block % 251) as u8);
    }
    checkpoint(&host, 20);
    while host.work() {}
    host
}

/// Where this machine reads nothing ahead there is nothing to be seen; that is said aloud.
fn reads_ahead(host: &Host) -> bool {
    host.read_ahead(&[id(0)], 1);
    host.forget_ahead();
    match host.ahead_way() {
        Some(Ok(_)) => true,
        way => {
            eprintln!("left out: {way:?}");
            false
        }
    }
}

#[test]
fn what_is_read_ahead_is_taken_once() {
    let machine = Machine::new(SyncMode::Drained);
    let host = filled(&machine);
    if !reads_ahead(&host) {
        return;
    }
    let before = host.ahead_counts();
    let (hits, asked) = (host.tier().statistics().lookups(), machine.disk.flash_reads.load(Ordering::SeqCst));
    assert!(host.read_ahead(&ids(100..132), 32), "the tier has all of them");
    assert!(!host.read_ahead(&[id(100), id(BLOCKS)], 32), "and not this one");
    assert_eq!(host.ahead_bytes(), 32 * PAGE);
    assert_eq!(host.tier().statistics().lookups(), hits, "nothing was looked up");
    assert_eq!(machine.disk.flash_reads.load(Ordering::SeqCst), asked, "nobody has waited");
    for block in 100..116 {
        assert_eq!(read(&host, &machine, block), Some(block as u8));
    }
    // Several in one call, of which some were read ahead.
    let blocks: Vec<u32> = (112..136).collect();
    let mut bytes = vec![0; blocks.len() * PAGE];
    let mut buffers: Vec<&mut [u8]> = bytes.chunks_exact_mut(PAGE).collect();
    let found = host.read_at_once(&ids(blocks.iter().copied()), &mut buffers);
    assert_eq!(found, [AtOnce::FromFlash; 24]);
    for (block, page) in blocks.iter().zip(bytes.chunks_exact(PAGE)) {
        assert_eq!(u32::from(page[PAGE - 1]), *block);
    }
    let counts = host.ahead_counts();
    let expected = AheadCounts { begun: before.begun + 32, used: before.used + 32, ..before };
    assert_eq!(counts, expected);
    assert_eq!(read(&host, &machine, 100), Some(100));
    assert_eq!(host.ahead_counts(), expected, "taken once");
    assert!(host.read_ahead(&ids(100..132), 0), "asked for no read");
    assert_eq!(host.ahead_counts(), expected);
}

#[test]
fn reads_ahead_are_bounded_and_forgotten() {
    let machine = Machine::new(SyncMode::Drained);
    let host = filled(&machine);
    if !reads_ahead(&host) {
        return;
    }
    let before = host.ahead_counts();
    host.read_ahead(&ids(0..64), 16);
    assert_eq!(host.ahead_bytes(), 16 * PAGE);
    for block in 0..64 {
        assert_eq!(read(&host, &machine, block), Some(block as u8));
    }
    let counts = host.ahead_counts();
    let of = |counts: AheadCounts| {
        [
            counts.begun - before.begun,
            counts.used - before.used,
            counts.stale - before.stale,
            counts.unused - before.unused,
        ]
    };
    // With all places under way nothing is begun: how often that was depends on the machine.
    let [begun, used, stale, unused] = of(counts);
    assert!((16..=64).contains(&begun), "{counts:?}");
    assert_eq!([used, stale, unused], [16, 0, begun - 16], "sixteen were kept");
    host.read_ahead(&ids(0..10), 16);
    host.forget_ahead();
    assert_eq!(of(host.ahead_counts()), [begun + 10, 16, 0, begun - 6]);
    assert_eq!(read(&host, &machine, 3), Some(3));
    host.read_ahead(&ids(0..10), 16);
    host.read_ahead(&ids(20..22), 8);
    let [begun, used, stale, unused] = of(host.ahead_counts());
    assert_eq!([used, stale, unused], [16, 0, begun - 18], "another depth gives up what was under way");
    assert_eq!(host.ahead_bytes(), 8 * PAGE);
    assert_eq!(read(&host, &machine, 20), Some(20));
    assert_eq!(of(host.ahead_counts()), [begun, 17, 0, begun - 18]);
}

/// A block that was read ahead is written, goes to flash in another place, is dropped, or is overwritten past
/// the tier. Returns whether every read brought what was newest.
fn changes_are_seen() -> bool {
    let machine = Machine::new(SyncMode::Drained);
    let host = filled(&machine);
    if !reads_ahead(&host) {
        // Nothing can be stale; what a planted fault would spoil is spoilt.
        return !mezzanine_engine::planted::is(Bug::StaleReadAheadUsed);
    }
    let before = host.ahead_counts();
    host.read_ahead(&ids(40..44), 16);
    write(&host, 40, 201);
    write(&host, 41, 202);
    let in_memory = read(&host, &machine, 40) == Some(201);
    checkpoint(&host, 30);
    while host.work() {}
    // Others, until the new version has left staging memory.
    for block in 0..BLOCKS {
        write(&host, block + BLOCKS, 9);
    }
    checkpoint(&host, 40);
    while host.work() {}
    let elsewhere = read(&host, &machine, 41) == Some(202);
    host.drop_range(&IdRange { start: id(42), count: 1, shift: 0 }).unwrap();
    let dropped = host.read(&id(42), &mut page(0)) == Found::OnDisk;
    host.overwrite(&id(43)).unwrap();
    machine.disk.pages.lock().unwrap().insert(*id(43).as_bytes(), page(77));
    let past = read(&host, &machine, 43) == Some(77);
    let counts = host.ahead_counts();
    let good = in_memory && elsewhere && dropped && past;
    if good {
        assert_eq!((counts.stale - before.stale, counts.used), (4, before.used));
    }
    good
}

#[test]
fn a_page_that_has_changed_since_is_read_anew() {
    only_with(&[Bug::StaleReadAheadUsed], changes_are_seen);
}

#[test]
fn a_page_that_comes_damaged_is_judged_by_itself() {
    let machine = Machine::new(SyncMode::Drained);
    let host = filled(&machine);
    if !reads_ahead(&host) {
        return;
    }
    let flash = fs::File::options().write(true).open(machine.settings().flash_path).unwrap();
    flash.write_all_at(&[0xA5; 8], flash_offset(&host, 107) + 100).unwrap();
    let before = host.ahead_counts();
    host.read_ahead(&ids(106..109), 16);
    // It is clean, and on disk as well.
    assert_eq!(host.read(&id(107), &mut page(0)), Found::OnDisk);
    assert_eq!(read(&host, &machine, 106), Some(106));
    assert_eq!(read(&host, &machine, 108), Some(108));
    let counts = host.ahead_counts();
    assert_eq!((counts.used - before.used, counts.stale - before.stale), (2, 1));
}

/// Everything that a server does with pages, in any order, while pages are read ahead all the time: each read
/// brings the version that was written last. The tier is small, so frames go to other pages all the time.
#[test]
fn whatever_happens_in_between_a_read_brings_the_newest_version() {
    for seed in [1, 2] {
        let mut machine = Machine::new(SyncMode::Drained);
        machine.flash_mb = 2;
        let (host, _) = machine.start(10).unwrap();
        let mut random = Random::new(seed);
        let mut newest: BTreeMap<u32, u8> = BTreeMap::new();
        let mut redo = 20;
        for step in 0..2500_u32 {
            let block = random.below(400) as u32;
            match random.below(20) {
                0..6 => {
                    let version = (step % 250) as u8 + 1;
                    write(&host, block, version);
                    newest.insert(block, version);
                }
                6..12 => {
                    let first = block;
                    host.read_ahead(&ids((first..first + 8).filter(|block| block % 3 > 0)), 24);
                }
                12..18 => {
                    let newest = newest.get(&block).copied();
                    assert_eq!(
                        read(&host, &machine, block),
                        newest,
                        "seed {seed}, step {step}, block {block}"
                    );
                    // What was read from disk is offered when it leaves the pool.
                    if let Some(version) = newest.filter(|_| !host.holds(&id(block))) {
                        offer(&host, &id(block), &page(version), 0);
                    }
                }
                18 if random.below(8) == 0 => {
                    host.drop_range(&IdRange { start: id(block), count: 1, shift: 0 }).unwrap();
                    machine.disk.pages.lock().unwrap().remove(id(block).as_bytes());
                    newest.remove(&block);
                }
                18 => while host.work() {},
                _ if random.below(10) == 0 => {
                    redo += 10;
                    checkpoint(&host, redo);
                    host.forget_ahead();
                }
                _ => drop(host.work()),
            }
        }
        let counts = host.ahead_counts();
        if reads_ahead(&host) {
            assert!(counts.used > 20 && counts.stale > 5 && counts.unused > 20, "seed {seed}: {counts:?}");
        }
    }
}
