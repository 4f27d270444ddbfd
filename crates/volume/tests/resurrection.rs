//! What was cut off or discarded does not come back (invariant 6): not by growing again, not by a crash, not
//! by a restart.

#![allow(clippy::unwrap_used)]

mod common;

use std::sync::Arc;

use common::{Backing, PAGE, every_configuration, formatted, open, page};
use mezzanine_device::memory::MemoryDevice;
use mezzanine_volume::{VolumeConfig, VolumeFile};

const PAGES: u64 = 40;

fn fill(file: &VolumeFile, version: u64) {
    for n in 0..PAGES {
        file.write_at(&page(n, version), n * PAGE as u64).unwrap();
    }
}

fn assert_zero(file: &VolumeFile, from: u64, to: u64) {
    let mut found = vec![1; (to - from) as usize];
    file.read_at(&mut found, from).unwrap();
    let at = found.iter().position(|&byte| byte != 0);
    assert_eq!(at.map(|at| from + at as u64), None, "a byte came back");
}

/// Runs `cut` after the file has been filled, and looks again at once, after a power cut, and after a clean
/// restart.
fn check(config: &VolumeConfig, cut: impl Fn(&VolumeFile), zero: (u64, u64)) {
    let flash: Arc<MemoryDevice> = formatted(config);
    let backing = Backing::guarded("a");
    let volume = open(&flash, config);
    let file = backing.attach(&volume).unwrap();
    fill(&file, 1);
    file.sync().unwrap();
    fill(&file, 2);
    cut(&file);
    drop(volume);
    flash.power_cut(3);
    backing.disk.power_cut(4);
    for _ in 0..2 {
        let volume = open(&flash, config);
        let file = backing.attach(&volume).unwrap();
        if file.len() < zero.1 {
            file.set_len(zero.1).unwrap();
        }
        assert_zero(&file, zero.0, zero.1);
        // New pages push everything through the queue.
        for round in 0..6 {
            for n in PAGES..2 * PAGES {
                file.write_at(&page(n, round), n * PAGE as u64).unwrap();
            }
        }
        assert_zero(&file, zero.0, zero.1);
        volume.close().unwrap();
    }
}

#[test]
fn after_shortening() {
    for (design, admission, sync_mode) in every_configuration() {
        let config = common::config(design, admission, sync_mode, 0);
        for len in [0, 10, 3 * PAGE as u64, 5 * PAGE as u64 + 77] {
            check(&config, |file| file.set_len(len).unwrap(), (len, PAGES * PAGE as u64));
            let shrink_and_grow = |file: &VolumeFile| {
                file.set_len(len).unwrap();
                file.set_len(PAGES * PAGE as u64).unwrap();
                assert_zero(file, len, PAGES * PAGE as u64);
            };
            check(&config, shrink_and_grow, (len, PAGES * PAGE as u64));
        }
    }
}

#[test]
fn after_a_discard() {
    for (design, admission, sync_mode) in every_configuration() {
        let config = common::config(design, admission, sync_mode, 0);
        for (from, to) in [(0, PAGES), (0, 1), (7, 30)] {
            let (from, to) = (from * PAGE as u64, to * PAGE as u64);
            check(&config, |file| file.discard(from, to - from).unwrap(), (from, to));
            check(&config, |file| file.discard(from + 9, to - from - 18).unwrap(), (from + 9, to - 9));
        }
    }
}
