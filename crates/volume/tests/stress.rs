//! Many threads on one file: versions never go back, pages are never mixed, and drains and syncs go on in between.

#![allow(clippy::unwrap_used)]

mod common;

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use common::{Backing, PAGE, config, every_configuration, formatted, open};
use mezzanine_device::memory::Random;
use mezzanine_volume::{Volume, VolumeFile};

const PAGES: u64 = 120;
const WRITERS: u64 = 2;

fn fill(block: u64, version: u64) -> Vec<u8> {
    (block << 32 | version).to_le_bytes().iter().copied().cycle().take(PAGE).collect()
}

fn version_in(page: &[u8], block: u64) -> u64 {
    let word = u64::from_le_bytes(page[..8].try_into().unwrap());
    assert!(page.chunks_exact(8).all(|other| other == &page[..8]), "page {block} is a mixture");
    assert!(word == 0 || word >> 32 == block, "page {block} holds page {}", word >> 32);
    word & 0xFFFF_FFFF
}

struct Versions {
    begun: Vec<AtomicU64>,
    done: Vec<AtomicU64>,
}

fn write(file: &VolumeFile, versions: &Versions, seed: u64, steps: u64) {
    let mut random = Random::new(seed);
    for _ in 0..steps {
        // Each writer has its own pages, so that their versions only grow.
        let block = random.below(PAGES / WRITERS) * WRITERS + seed % WRITERS;
        let slot = &versions.begun[block as usize];
        let version = slot.fetch_add(1, Ordering::SeqCst) + 1;
        file.write_at(&fill(block, version), block * PAGE as u64).unwrap();
        versions.done[block as usize].store(version, Ordering::SeqCst);
        if random.chance(1, 40) {
            file.sync().unwrap();
        }
    }
}

fn read(file: &VolumeFile, versions: &Versions, seed: u64, stop: &AtomicBool) {
    let mut random = Random::new(seed);
    let mut seen = vec![0; PAGES as usize];
    let mut reads = 0;
    while !stop.load(Ordering::Relaxed) || reads < 100 {
        let block = random.below(PAGES - 8);
        let count = if random.chance(1, 4) { 8 } else { 1 };
        let least: Vec<u64> =
            (block..block + count).map(|at| versions.done[at as usize].load(Ordering::SeqCst)).collect();
        let mut found = vec![0; PAGE * count as usize];
        file.read_at(&mut found, block * PAGE as u64).unwrap();
        for (at, page) in (block..block + count).zip(found.chunks_exact(PAGE)) {
            let version = version_in(page, at);
            assert!(
                version >= seen[at as usize],
                "page {at} went back from {} to {version}",
                seen[at as usize]
            );
            assert!(version >= least[(at - block) as usize], "page {at} is older than a completed write");
            assert!(version <= versions.begun[at as usize].load(Ordering::SeqCst));
            seen[at as usize] = version;
        }
        reads += 1;
    }
}

fn run(workers: usize) {
    for (design, admission, sync_mode) in every_configuration() {
        println!("{design}, {admission}, {sync_mode}");
        let config = config(design, admission, sync_mode, workers);
        let volume: Volume = open(&formatted(&config), &config);
        let file = Backing::guarded("a").attach(&volume).unwrap();
        file.write_at(&vec![0; PAGES as usize * PAGE], 0).unwrap();
        let zeros = || (0..PAGES).map(|_| AtomicU64::new(0)).collect();
        let versions = Versions { begun: zeros(), done: zeros() };
        let stop = AtomicBool::new(false);
        std::thread::scope(|scope| {
            let writers: Vec<_> = (0..WRITERS)
                .map(|seed| {
                    scope.spawn({
                        let (file, versions) = (&file, &versions);
                        move || write(file, versions, seed, 1500)
                    })
                })
                .collect();
            for seed in 0..2 {
                let (file, versions, stop) = (&file, &versions, &stop);
                scope.spawn(move || read(file, versions, seed, stop));
            }
            volume.drain().unwrap();
            writers.into_iter().for_each(|writer| writer.join().unwrap());
            stop.store(true, Ordering::Relaxed);
        });
        for block in 0..PAGES {
            let mut page = vec![0; PAGE];
            file.read_at(&mut page, block * PAGE as u64).unwrap();
            assert_eq!(version_in(&page, block), versions.done[block as usize].load(Ordering::SeqCst));
        }
        volume.close().unwrap();
    }
}

#[test]
fn with_workers() {
    run(2);
}

#[test]
fn where_callers_do_the_work() {
    run(0);
}
