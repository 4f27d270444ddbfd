//! A server starts on a flash device of which something cannot be read.
#![allow(clippy::unwrap_used)]

use std::sync::Arc;

use machine::{Kept, Machine, PAGE, checkpoint, give_memory, read, start, write};
use mezzanine_device::memory::{Bad, Fault, Injection, MemoryDevice, Operation};
use mezzanine_device::{Device, DeviceErrorKind};
use mezzanine_engine::planted::{Bug, only_with};
use mezzanine_engine::{Design, SyncMode};
use mezzanine_ffi::host::Host;
use mezzanine_ffi::marker::MarkerStore;
use mezzanine_ffi::message::Refusal;
use mezzanine_ffi::settings::Settings;
use mezzanine_ffi::startup::Adoption;

mod machine;

const FLASH_BYTES: u64 = 2 << 20;
const BLOCK: u64 = 4096;
const BLOCKS: u32 = 60;

fn open(machine: &Machine, design: Design, flash: &Arc<MemoryDevice>, marker: &Kept) -> Host {
    open_with(machine, design, FLASH_BYTES, flash, marker)
}

fn open_with(
    machine: &Machine,
    design: Design,
    flash_bytes: u64,
    flash: &Arc<MemoryDevice>,
    marker: &Kept,
) -> Host {
    let settings = Settings { flash_bytes, flash_bytes_max: 0, group_pages: 2, design, ..machine.settings() };
    let flash: Arc<dyn Device> = Arc::<MemoryDevice>::clone(flash);
    let server = Box::new(machine::Relations(Arc::clone(&machine.disk)));
    let mut host = Host::on_device(settings, flash, Box::new(marker.clone()), server).unwrap();
    give_memory(&mut host);
    host
}

/// A tier in use, in which every block has a version that disk has as well.
fn used(machine: &Machine, design: Design, flash: &Arc<MemoryDevice>, marker: &Kept) -> Host {
    let host = open(machine, design, flash, marker);
    host.start(&start(10)).unwrap();
    for version in 1..4 {
        for block in 0..BLOCKS {
            if write(&host, block, version) != mezzanine_ffi::pages::Written::Taken {
                let mut disk = machine.disk.pages.lock().unwrap();
                disk.insert(*machine::id(block).as_bytes(), vec![version; PAGE]);
            }
        }
        while host.work() {}
        checkpoint(&host, 10 + u64::from(version));
    }
    host
}

/// It was so once that a read which failed in a recovery was the end of the start: of the tier, in a mode in
/// which the disk suffices anyway, until the next start; and of the server, where power had failed in a
/// shutdown between the superblock, which said that the tier was drained, and the marker. What the log and
/// the disk have is not worth a refusal: the tier is emptied.
#[test]
fn what_nobody_needs_and_cannot_be_read_costs_neither_the_start_nor_the_tier() {
    for case in CASES {
        start_with_each_block_unreadable(case);
    }
}

/// Each kind of tier without the rule.
#[cfg(feature = "planted")]
#[test]
fn that_is_seen_where_the_rule_is_taken_out() {
    use mezzanine_engine::planted::{Bug, set};
    for case in [CASES[0], CASES[2], CASES[4]] {
        set(Some(Bug::UnreadableEndsStart));
        let seen = std::panic::catch_unwind(|| start_with_each_block_unreadable(case));
        set(None);
        assert!(seen.is_err(), "{case:?}");
    }
}

/// The device of a tier that has the only copies of pages answers nothing for a moment at the start: the
/// server starts with all of them, or is told to try again. It was told that its tier is on another device,
/// or to restore a backup.
#[test]
fn a_start_beside_silence_is_repeated_and_loses_nothing() {
    assert!(start_beside_silence(Design::FaceGsc), "FaceGsc");
    assert!(start_beside_silence(Design::FaceGr), "FaceGr");
}

#[cfg(feature = "planted")]
#[test]
fn silence_is_judged_where_its_rule_is_taken_out() {
    use mezzanine_engine::planted::{Bug, set};
    set(Some(Bug::SilentDeviceJudged));
    let seen = !start_beside_silence(Design::FaceGr);
    set(None);
    assert!(seen);
}

fn start_beside_silence(design: Design) -> bool {
    let machine = Machine::new(SyncMode::Durable);
    let (flash, marker) = (Arc::new(MemoryDevice::new(FLASH_BYTES)), Kept::default());
    drop(used(&machine, design, &flash, &marker));
    let (image, text) = (flash.image(), marker.read().unwrap());
    let fault = Fault::Error(DeviceErrorKind::Io);
    // Whether all is right, and whether a read failed.
    let started = |after, count| {
        flash.heal();
        flash.load(&image);
        marker.0.lock().unwrap().clone_from(&text);
        let before = flash.faults_struck();
        flash.inject(Injection { operation: Operation::Read, after, count, fault });
        let host = open(&machine, design, &flash, &marker);
        let started = host.start(&start(13));
        let met = flash.faults_struck() > before;
        let right = match started {
            Ok(started) => {
                flash.heal();
                started.adoption == Adoption::Adopted
                    && (0..BLOCKS).all(|block| read(&host, &machine, block) == Some(3))
            }
            Err(refusal) => {
                drop(host);
                flash.heal();
                let again = open(&machine, design, &flash, &marker).start(&start(13));
                assert_eq!(again.unwrap().adoption, Adoption::Adopted);
                // Where it only fails to write its superblock it does not count the tier as lost either.
                refusal.detail == "Nothing is known to be lost."
                    || !refusal.to_string().contains("If it is lost")
            }
        };
        (right, met)
    };
    let each_read = |count| {
        let started = (0..).map(|after| started(after, count));
        started.take_while(|(_, met)| *met).all(|(right, _)| right)
    };
    [1, 2, 3, 6, 8, 12].into_iter().all(each_read)
}

/// The size that is configured was changed, so that the tier keeps its own until it is drained; and the
/// device answers nothing while the memory for it is computed.
#[test]
fn a_silence_before_the_start_tells_nobody_to_restore_a_backup() {
    only_with(&[Bug::SilentShapeKept], || started_after_silence(2 * FLASH_BYTES, FLASH_BYTES));
}

/// The tier was used as if it had the size configured, by which what is behind its queue is given back.
#[test]
fn a_silence_before_the_start_of_a_smaller_tier_is_told_as_well() {
    only_with(&[Bug::SilentShapeKept], || started_after_silence(FLASH_BYTES, 2 * FLASH_BYTES));
}

fn started_after_silence(before: u64, after: u64) -> bool {
    let machine = Machine::new(SyncMode::Durable);
    let (flash, marker) = (Arc::new(MemoryDevice::new(8 << 20)), Kept::default());
    let opened = |bytes| open_with(&machine, Design::FaceGsc, bytes, &flash, &marker);
    let host = opened(before);
    host.start(&start(10)).unwrap();
    (0..BLOCKS).for_each(|block| _ = write(&host, block, 1));
    checkpoint(&host, 11);
    drop(host);
    let (text, struck) = (marker.read().unwrap(), flash.faults_struck());
    let fault = Fault::Error(DeviceErrorKind::Io);
    flash.inject(Injection { operation: Operation::Read, after: 0, count: u64::MAX, fault });
    let host = opened(after);
    assert!(flash.faults_struck() > struck);
    flash.heal();
    let Err(refusal) = host.start(&start(11)) else { return false };
    drop(host);
    let unchanged = marker.read().unwrap() == text;
    let host = opened(after);
    let again = host.start(&start(11)).is_ok_and(|started| started.adoption == Adoption::Adopted);
    refusal.hint == "Start the server again."
        && unchanged
        && again
        && (0..BLOCKS).all(|block| read(&host, &machine, block) == Some(1))
}

/// A place under each metadata segment in turn cannot be read. Where pages are written in place and only
/// flash has some, an older segment ends the start, which names the place; with that mended the server has
/// every page.
#[test]
fn a_bad_place_under_a_segment_ends_the_start_only_where_nothing_stands_in_for_it() {
    let machine = Machine::new(SyncMode::Durable);
    for (design, ends) in [(Design::FaceGsc, false), (Design::Lc, true)] {
        let (flash, marker) = (Arc::new(MemoryDevice::new(FLASH_BYTES)), Kept::default());
        drop(used(&machine, design, &flash, &marker));
        let (image, text) = (flash.image(), marker.read().unwrap());
        let started = || {
            marker.0.lock().unwrap().clone_from(&text);
            let host = open(&machine, design, &flash, &marker);
            assert_eq!(host.start(&start(13))?.adoption, Adoption::Adopted);
            (0..BLOCKS)
                .for_each(|block| assert_eq!(read(&host, &machine, block), Some(3), "{design} {block}"));
            Ok::<(), Refusal>(())
        };
        let mut refused = 0;
        for place in (0..FLASH_BYTES).step_by(BLOCK as usize) {
            if image[place as usize..][..8] != *b"MEZZSEG1" {
                continue;
            }
            flash.load(&image);
            flash.spoil(place, 512, Bad::Unreadable);
            let refusal = started().err();
            flash.heal();
            let Some(refusal) = refusal else { continue };
            refused += 1;
            assert!(refusal.message.contains(&format!("offset {place}")), "{refusal}");
            assert!(refusal.hint.contains("copy what can be read of it to another one"), "{refusal}");
            started().unwrap();
        }
        assert_eq!(refused > 0, ends, "{design}: {refused}");
    }
}

/// Sync mode, design, and whether the server was shut down.
type Case = (SyncMode, Design, bool);

const CASES: [Case; 5] = [
    (SyncMode::Drained, Design::FaceGsc, false),
    (SyncMode::Drained, Design::Lc, false),
    (SyncMode::Durable, Design::FaceGsc, true),
    (SyncMode::Through, Design::FaceGsc, true),
    (SyncMode::Through, Design::Tac, false),
];

fn start_with_each_block_unreadable((mode, design, closed): Case) {
    let machine = Machine::new(mode);
    let (flash, marker) = (Arc::new(MemoryDevice::new(FLASH_BYTES)), Kept::default());
    let host = used(&machine, design, &flash, &marker);
    if closed {
        // The power fails before the marker says so as well.
        assert!(host.close(true).unwrap().current);
        if let Some(text) = marker.0.lock().unwrap().as_mut() {
            *text = machine::editable(text)
                .replace("only_copies = false", &format!("only_copies = {}", mode == SyncMode::Durable));
        }
    }
    drop(host);
    let (image, text) = (flash.image(), marker.read().unwrap());
    let mut discarded = 0;
    for at in (0..FLASH_BYTES).step_by(BLOCK as usize) {
        flash.heal();
        flash.load(&image);
        flash.spoil(at, BLOCK, Bad::Unreadable);
        marker.0.lock().unwrap().clone_from(&text);
        let host = open(&machine, design, &flash, &marker);
        let started = host.start(&start(13)).unwrap_or_else(|refusal| panic!("{mode:?}, {at}: {refusal}"));
        assert_ne!(started.adoption, Adoption::Unusable, "{mode:?} {design:?}, {at}: {}", started.reason);
        if started.adoption == Adoption::Discarded {
            discarded += 1;
            assert_eq!(host.tier().valid_and_dirty(), (0, 0));
        }
        if closed || mode == SyncMode::Through {
            assert!((0..BLOCKS).all(|block| read(&host, &machine, block) == Some(3)), "{mode:?}, {at}");
        }
    }
    println!("{mode:?} {design:?}: discarded in {discarded} cases");
}
