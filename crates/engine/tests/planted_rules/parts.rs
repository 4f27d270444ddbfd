//! What threads make of metadata segments together is what one makes of them alone, down to the last byte of
//! the tier's memory; and it is what was in the tier.

use std::collections::HashSet;

use mezzanine_engine::planted::{Bug, only_with};
use mezzanine_engine::{
    Design, IdRange, InTurn, LastingMemory, Lookup, PageId, SyncMode, Tier, TierConfig, Workers,
};
use mezzanine_ground::interleave::thread;

use crate::common::{Host, page};

const PAGE: usize = 4096;
const FILES: u64 = 3;
const BLOCKS: u64 = 300;

/// Threads of the system's.
struct Threads(usize);

impl Workers for Threads {
    fn count(&self) -> usize {
        self.0
    }

    fn run(&self, _records: usize, work: &(dyn Fn() + Sync), meanwhile: &mut dyn FnMut()) {
        thread::share("recovery", self.0 - 1, work, meanwhile);
    }
}

fn ids() -> impl Iterator<Item = PageId> {
    (1..=FILES).flat_map(|file| (0..BLOCKS).map(move |block| PageId::volume(file, block)))
}

/// A tier with a history, synced, and what was invalidated in it last.
fn used(seed: u64, design: Design) -> (Host, HashSet<PageId>) {
    let mut config = TierConfig::new(PAGE as u32, 1024);
    (config.design, config.sync_mode) = (design, SyncMode::Drained);
    (config.segment_frames, config.group_pages, config.survivors_max) = (32, 8, 3);
    let mut host = Host::new(&config, seed);
    let mut gone = HashSet::new();
    for number in 0..4000 {
        let (file, block) = (1 + host.random(FILES), host.random(BLOCKS));
        let id = PageId::volume(file, block);
        match host.random(100) {
            0..80 => {
                host.write(id, &page(PAGE, number));
                gone.remove(&id);
            }
            80..90 => {
                // A page that comes from disk is taken.
                host.read(id);
                gone.remove(&id);
            }
            chance => {
                let range = match chance {
                    90..95 => IdRange { start: id, count: 1, shift: 0 },
                    95..98 => IdRange::blocks(file, block, 1 + host.random(20)),
                    98 => IdRange::blocks_from(file, BLOCKS - host.random(50)),
                    _ if number % 4 == 0 => IdRange::blocks_from(file, 0),
                    _ => IdRange::blocks(file, block, 1),
                };
                while host.tier.invalidate_range(&range).is_err() {
                    assert!(host.step(), "a full tier must have a job");
                }
                let of_range = ids().filter(|id| range.contains(id));
                gone.extend(of_range.inspect(|id| drop(host.disk.remove(id))));
            }
        }
        while host.random(3) == 0 && host.step() {}
    }
    host.sync();
    (host, gone)
}

/// The memory of the tier that comes out, and the tier.
fn recovered(host: &mut Host, workers: &dyn Workers) -> (Vec<u8>, Tier, u64) {
    let superblock = host.superblock.clone();
    let memory = LastingMemory::filled(superblock.config.geometry().unwrap().region_bytes(), 0);
    let found = Tier::recover_with(memory.region(), &superblock, 1, &mut host.flash, workers).unwrap();
    let mut bytes = vec![0; memory.bytes()];
    memory.region().copy_out(0, &mut bytes);
    (bytes, found.tier, found.report.segments_read)
}

/// What the tier answers for a page.
fn held(tier: &Tier, host: &Host, id: &PageId) -> Option<Vec<u8>> {
    let mut page = vec![0; PAGE];
    match tier.lookup(id, &mut page) {
        Lookup::Memory => Some(page),
        Lookup::Flash(found) => Some(host.flash.0[found.offset as usize..][..PAGE].to_vec()),
        Lookup::Miss(_) => None,
    }
}

/// Damages the records of a segment, but not of the newest: its groups stand in for it.
fn rot(host: &mut Host) {
    let geometry = host.superblock.config.geometry().unwrap();
    let [.., first_segment, first_frame] = geometry.probes();
    let headers = (first_segment as usize..first_frame as usize).step_by(4096);
    let number = |at: &usize| u64::from_le_bytes(*host.flash.0[at + 32..].first_chunk().unwrap());
    let mut segments: Vec<usize> =
        headers.filter(|at| host.flash.0[*at..].starts_with(b"MEZZSEG1")).collect();
    segments.sort_by_key(number);
    let back = 2 + host.random(segments.len() as u64 / 3) as usize;
    host.flash.0[segments[segments.len() - back] + 4096 + 100] ^= 1;
}

#[test]
fn it_does_not_matter_who_replays() {
    for seed in 0..40 {
        let design = [Design::FaceBasic, Design::FaceGr, Design::FaceGsc, Design::Lc][seed as usize % 4];
        let (mut host, _) = used(seed, design);
        if seed % 3 == 0 && design != Design::Lc {
            rot(&mut host);
        }
        let (alone, ..) = recovered(&mut host, &InTurn(1));
        for workers in [&InTurn(2) as &dyn Workers, &InTurn(5), &Threads(2), &Threads(3)] {
            let (bytes, tier, segments) = recovered(&mut host, workers);
            assert!(segments > 3, "{segments} segments");
            tier.check();
            let differs = bytes.iter().zip(&alone).position(|(one, other)| one != other);
            assert_eq!(differs, None, "seed {seed}, {design:?}, {} workers", workers.count());
        }
    }
}

#[test]
fn what_was_in_the_tier_is_found_by_any_number_of_parts() {
    let bugs = [Bug::RangeTombstoneOfOnePart, Bug::AppearancesNotedLast, Bug::SegmentsOutOfOrder];
    only_with(&bugs, || {
        (0..6).all(|seed| {
            let (mut host, gone) = used(seed, Design::FaceGsc);
            let before: Vec<_> = ids().map(|id| held(&host.tier, &host, &id)).collect();
            let (_, tier, _) = recovered(&mut host, &InTurn(3));
            ids().zip(before).all(|(id, before)| {
                let now = held(&tier, &host, &id);
                (before.is_none() || now == before) && !(gone.contains(&id) && now.is_some())
            })
        })
    });
}
