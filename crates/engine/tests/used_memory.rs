//! A tier is built in memory that was used before. Nothing of what was there is part of it.
//!
//! Invariants checked, for every design and sync mode, whatever the tier on flash was left like, and whatever
//! the memory held:
//! 1. Recovery returns what it returns in zeroed memory, and leaves the same bytes, each of them.
//! 2. What happens to the tier from then on is the same: every byte on flash and on disk.
#![allow(clippy::unwrap_used, missing_docs)]

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::PathBuf;
use std::sync::atomic::{AtomicU32, Ordering};

use common::{Flash, Host, page};
use mezzanine_device::SharedMemory;
use mezzanine_engine::format::Superblock;
use mezzanine_engine::{
    AttachError, Blank, Design, PageId, Recovered, RecoveryError, Region, SyncMode, Tier, TierConfig,
};
use mezzanine_ground::random::Random;

mod common;

/// Memory that one tier after the other is built in, and that can be looked at from outside.
struct Memory {
    path: PathBuf,
    outside: SharedMemory,
}

impl Memory {
    fn new(bytes: usize) -> Self {
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let name = format!("used-memory-{}-{number}", std::process::id());
        let path = std::path::Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
        let (outside, setup) = SharedMemory::create(&path, bytes).unwrap();
        setup.share().unwrap();
        Self { path, outside }
    }

    fn region(&self) -> Region {
        Region::owning(SharedMemory::join(&self.path).unwrap())
    }

    fn fill(&mut self, mut next: impl FnMut() -> u8) {
        self.outside.as_mut().fill_with(&mut next);
    }

    fn bytes(&mut self) -> &[u8] {
        self.outside.as_mut()
    }
}

impl Drop for Memory {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.path);
    }
}

/// What memory held before.
#[derive(Clone, Copy, Debug)]
enum Before {
    Ones,
    Random,
    /// A tier of the same shape, in the middle of its life.
    Tier,
    /// The same, and one of its locks is poisoned.
    PoisonedTier,
}

/// How the tier on flash was left.
#[derive(Clone, Copy, Debug)]
enum Left {
    /// It is a new one.
    New,
    /// In use.
    Open,
    Closed,
    /// What it holds is not to be believed: it is discarded in the memory in which it was just recovered.
    Discarded,
    /// With another number of frames, in use.
    Resized,
}

fn config(design: Design, mode: SyncMode) -> Option<TierConfig> {
    let mut config = TierConfig::of(design, 4096, 512);
    (config.group_pages, config.survivors_max, config.staging_groups) = (8, 3, 4);
    (config.segment_frames, config.band_frames, config.shards) = (32, 16, 4);
    config.frames_max = if design.writes_in_place() { 0 } else { 600 };
    (config.sync_mode, config.policy.write_back) = (mode, design == Design::Exadata);
    config.geometry().is_ok().then_some(config)
}

fn host(recovered: Recovered, mut flash: Flash, seed: u64) -> Host {
    for (offset, bytes) in recovered.writes {
        flash.write(offset, &bytes);
    }
    let page_size = recovered.tier.geometry().page_size();
    let (tier, superblock) = (recovered.tier, recovered.superblock);
    Host { tier, superblock, flash, disk: Default::default(), page_size, numbers: Random::new(seed) }
}

fn live(host: &mut Host, steps: u64) {
    for step in 1..=steps {
        let block = host.random(700);
        let id = PageId::volume(1, block);
        match host.random(10) {
            0..5 => host.write(id, &page(4096, step << 32 | block)),
            5..8 => drop(host.read(id)),
            8 => drop(host.step()),
            _ => host.sync(),
        }
    }
    host.sync();
}

/// A tier's flash and superblock, left like this.
fn left(config: &TierConfig, how: Left) -> (Vec<u8>, Superblock) {
    let mut host = Host::new(config, 11);
    if matches!(how, Left::New) {
        let superblock = Superblock::new(host.tier.geometry(), [7; 16], [9; 16]);
        return (host.flash.0, superblock);
    }
    live(&mut host, 1200);
    match how {
        Left::Closed => {
            host.tier.begin_drain();
            while host.step() {}
            host.sync();
            host.superblock = host.tier.closed(&host.superblock);
        }
        Left::Resized if config.frames_max > 0 => {
            host.tier.begin_resize(600).unwrap();
            while host.tier.frames() != 600 {
                live(&mut host, 50);
            }
        }
        _ => {}
    }
    (host.flash.0, host.superblock)
}

fn prepare(memory: &mut Memory, before: Before, config: &TierConfig) {
    let mut random = Random::new(1);
    match before {
        Before::Ones => memory.fill(|| 0xFF),
        Before::Random => memory.fill(|| random.next_u64() as u8),
        Before::Tier | Before::PoisonedTier => {
            let geometry = config.geometry().unwrap();
            let superblock = Superblock::new(&geometry, [3; 16], [9; 16]);
            let mut flash = Flash(vec![0; geometry.flash_bytes() as usize]);
            let recovered = Tier::recover(memory.region(), &superblock, 1, &mut flash).unwrap();
            let mut host = host(recovered, flash, 5);
            host.tier.publish(&host.superblock);
            live(&mut host, 900);
            if matches!(before, Before::PoisonedTier) {
                // Under the control lock it finds that no resize waits.
                let died = catch_unwind(AssertUnwindSafe(|| host.tier.resized(&host.superblock)));
                assert!(died.is_err() && host.tier.is_poisoned());
            }
        }
    }
}

type Seen = (Superblock, String, Vec<u8>, Vec<u8>, Vec<(PageId, Vec<u8>)>, String);

/// Recovers a tier in this memory and lives on with it; returns all there is to compare.
fn recover_and_live(memory: &mut Memory, (flash, superblock): &(Vec<u8>, Superblock), how: Left) -> Seen {
    let mut flash = Flash(flash.clone());
    let mut superblock = superblock.clone();
    if matches!(how, Left::Discarded) {
        drop(Tier::recover(memory.region(), &superblock, 1, &mut flash).unwrap());
        superblock = superblock.discarded();
    }
    let recovered = Tier::recover(memory.region(), &superblock, 1, &mut flash).unwrap();
    assert_eq!(Tier::attach(memory.region(), 2).err(), Some(AttachError::NotReady));
    let report = format!("{:?} {:?} {:?}", recovered.report, recovered.writes, recovered.host_metadata);
    let bytes = memory.bytes().to_vec();
    let superblock = recovered.superblock.clone();
    recovered.tier.check();
    let mut host = host(recovered, flash, 23);
    live(&mut host, 600);
    host.tier.check();
    let mut disk: Vec<_> = host.disk.into_iter().collect();
    disk.sort_by_key(|(id, _)| *id.as_bytes());
    (superblock, report, bytes, host.flash.0, disk, format!("{:?}", host.tier.statistics()))
}

fn same_as_in_zeroed_memory(config: &TierConfig, how: Left) {
    let left = left(config, how);
    let bytes = config.geometry().unwrap().region_bytes();
    let zeroed = recover_and_live(&mut Memory::new(bytes), &left, how);
    for before in [Before::Ones, Before::Random, Before::Tier, Before::PoisonedTier] {
        let mut memory = Memory::new(bytes);
        prepare(&mut memory, before, config);
        let used = recover_and_live(&mut memory, &left, how);
        let what = format!("{:?} {:?} {how:?} {before:?}", config.design, config.sync_mode);
        assert_eq!((&used.0, &used.1), (&zeroed.0, &zeroed.1), "what recovery returned: {what}");
        let differs = used.2.iter().zip(&zeroed.2).position(|(used, zeroed)| used != zeroed);
        assert_eq!(differs, None, "a byte of the region after recovery: {what}");
        assert!(used.3 == zeroed.3, "flash, after some life: {what}");
        assert!(used.4 == zeroed.4, "disk, after some life: {what}");
        assert_eq!(used.5, zeroed.5, "what was counted: {what}");
    }
}

fn every_mode(how: Left) {
    let mut configurations = 0;
    for &design in Design::ALL {
        for &mode in SyncMode::ALL {
            if let Some(config) = config(design, mode) {
                same_as_in_zeroed_memory(&config, how);
                configurations += 1;
            }
        }
    }
    assert!(configurations > 2 * Design::ALL.len(), "{configurations} configurations are too few");
}

#[test]
fn a_new_tier() {
    every_mode(Left::New);
}

#[test]
fn a_tier_that_was_in_use() {
    every_mode(Left::Open);
}

#[test]
fn a_tier_that_was_closed() {
    every_mode(Left::Closed);
}

#[test]
fn a_tier_that_was_discarded() {
    every_mode(Left::Discarded);
}

#[test]
fn a_tier_that_was_resized() {
    every_mode(Left::Resized);
}

/// Pages that a tier answers for after it was discarded because of damage, in the memory in which the damage
/// was found.
fn answered_after_damage() -> usize {
    let config = config(Design::FaceGsc, SyncMode::Drained).unwrap();
    let mut host = Host::new(&config, 3);
    for block in 0..300 {
        host.write(PageId::volume(1, block), &page(4096, block));
    }
    host.sync();
    // A segment and a group that it stands for, behind others that are whole.
    let number = |frame: &[u8], at: usize| u64::from_le_bytes(frame[at..at + 8].try_into().unwrap());
    let of = |magic: &[u8; 8]| {
        let frames = host.flash.0.chunks_exact(4096).enumerate();
        let of_this = frames.filter(|(_, frame)| frame[..8] == *magic);
        of_this.map(|(frame, bytes)| (frame * 4096, bytes)).collect::<Vec<_>>()
    };
    let mut segments = of(b"MEZZSEG1");
    segments.sort_by_key(|(_, header)| number(header, 32));
    let (segment, header) = segments[segments.len() / 2];
    let groups = of(b"MEZZGRP1");
    let (group, _) = *groups.iter().find(|(_, summary)| number(summary, 48) == number(header, 40)).unwrap();
    for at in [segment + 4096 + 100, group + 100] {
        host.flash.0[at] ^= 1;
    }
    let memory = Memory::new(config.geometry().unwrap().region_bytes());
    let damaged = Tier::recover(memory.region(), &host.superblock, 1, &mut host.flash).err();
    assert!(matches!(damaged, Some(RecoveryError::Damaged { .. })), "{damaged:?}");
    let discarded = host.superblock.discarded();
    // The host says that the memory is fresh, which it was.
    let memory = Blank::fresh(memory.region());
    let recovered = Tier::recover(memory, &discarded, 1, &mut host.flash).unwrap();
    let mut out = vec![0; 4096];
    let held = |block: &u64| {
        let found = recovered.tier.lookup(&PageId::volume(1, *block), &mut out);
        !matches!(found, mezzanine_engine::Lookup::Miss(_))
    };
    (0..300).filter(held).count()
}

/// A recovery that finds damage has linked what it has replayed until then.
#[test]
fn a_tier_discarded_for_damage_holds_nothing() {
    assert_eq!(answered_after_damage(), 0);
}

#[cfg(feature = "planted")]
#[test]
fn memory_that_is_not_wiped_is_noticed() {
    use mezzanine_engine::planted::{Bug, set};
    set(Some(Bug::UsedMemoryKept));
    let answered = answered_after_damage();
    set(None);
    assert!(answered > 0, "UsedMemoryKept went unnoticed");
}
