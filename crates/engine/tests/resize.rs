//! The queue grows and shrinks while it is in use.
#![allow(clippy::unwrap_used)]

mod common;

use std::collections::HashMap;

use common::{Host, page};
use mezzanine_engine::{PageId, StageKind, TierConfig};

fn config(frames: u64, frames_max: u64, page_size: u32, group_pages: u32) -> TierConfig {
    TierConfig {
        group_pages,
        staging_groups: 4,
        segment_frames: 32,
        shards: 4,
        survivors_max: group_pages / 2,
        band_frames: 10,
        ahead_frames: 0,
        frames_max,
        ..TierConfig::new(page_size, frames)
    }
}

fn id(block: u64) -> PageId {
    PageId::volume(1, block)
}

struct Life {
    host: Host,
    newest: HashMap<u64, u64>,
    version: u64,
}

impl Life {
    fn new(config: &TierConfig, seed: u64) -> Self {
        Self { host: Host::new(config, seed), newest: HashMap::new(), version: 0 }
    }

    fn live(&mut self, operations: u64) {
        for _ in 0..operations {
            let block = self.host.random(300);
            if self.host.random(3) == 0 {
                self.read(block);
                continue;
            }
            self.version += 1;
            let bytes = page(self.host.page_size, self.version);
            self.host.write(id(block), &bytes);
            self.newest.insert(block, self.version);
        }
    }

    /// Lives until the rear stands at the cut, the host's part not done; false if it does not come to that.
    fn live_to_cut(&mut self, operations: u64) -> bool {
        let bytes = vec![0; self.host.page_size];
        for number in 0..operations {
            self.live(1);
            // An offer that finds no room is dropped, so it shows whether a group could be opened. One that
            // is in the tier already would need none.
            self.host.tier.stage_in(&id(1000 + number), &bytes, StageKind::Clean(None), 0);
            if self.host.tier.resize_waits() {
                return true;
            }
            while self.host.step() {}
        }
        false
    }

    fn read(&mut self, block: u64) {
        let wanted = page(self.host.page_size, self.newest.get(&block).copied().unwrap_or(0));
        let found = self.host.read(id(block));
        assert_eq!(found[..8], wanted[..8], "block {block}");
    }

    fn read_all(&mut self) {
        for block in 0..300 {
            self.read(block);
        }
        self.host.tier.check();
    }

    fn resize(&mut self, frames: u64) {
        self.host.tier.begin_resize(frames).unwrap();
        for _ in 0..2000 {
            if self.host.tier.resize_progress().is_none() {
                break;
            }
            self.live(50);
        }
        assert_eq!(self.host.tier.frames(), frames, "the resize takes effect");
        assert_eq!(self.host.tier.resize_progress(), None);
        self.read_all();
    }
}

#[test]
fn a_queue_that_grows_and_shrinks_keeps_every_page() {
    for (seed, page_size, group_pages) in [(1, 4096, 4), (2, 4096, 1), (3, 4096, 8), (4, 4096, 100)] {
        let frames = if group_pages == 100 { 2000 } else { 300 };
        let mut life = Life::new(&config(frames, 3 * frames, page_size, group_pages), seed);
        life.live(1000);
        for resized in [2 * frames, 3 * frames, frames + 57, 2 * frames + 1, frames] {
            life.resize(resized);
            life.live(3 * resized);
            life.host.sync();
            let Life { host, newest, version } = life;
            life = Life { host: host.reopen(resized % 2 == 0), newest, version };
            assert_eq!(life.host.tier.frames(), resized, "the superblock remembers the ring");
            life.read_all();
        }
    }
}

/// Stops before, between and after the steps of a resize.
#[test]
fn a_crash_at_any_moment_of_a_resize_loses_nothing() {
    let mut cuts = 0;
    for seed in 0..60 {
        let mut life = Life::new(&config(300, 900, 4096, 4), seed);
        life.live(600);
        let frames = 250 + life.host.random(600);
        life.host.tier.begin_resize(frames).unwrap();
        let at_most = life.host.random(3000);
        let at_cut = life.live_to_cut(at_most);
        cuts += u64::from(at_cut);
        let before = life.host.superblock.clone();
        life.host.sync();
        // The superblock may be durable though the ring in memory is not cut yet, and the other way round
        // not.
        if at_cut && life.host.random(2) == 0 {
            life.host.superblock = before;
        }
        let Life { host, newest, version } = life;
        life = Life { host: host.reopen(false), newest, version };
        life.read_all();
        life.live(1500);
        life.read_all();
    }
    assert!(cuts >= 28, "{cuts} of 60 crashes at the cut");
}

#[test]
fn sizes_that_cannot_be_are_refused_with_the_reason() {
    let life = Life::new(&config(300, 600, 4096, 4), 1);
    for (frames, parameter) in [(0, "frames"), (50, "frames"), (700, "frames"), (u64::MAX, "frames")] {
        let error = life.host.tier.begin_resize(frames).unwrap_err();
        assert_eq!(error.parameter, parameter, "{frames}: {error}");
        assert!(!error.advice.is_empty());
    }
    assert_eq!(life.host.tier.resize_progress(), None);
    life.host.tier.begin_resize(400).unwrap();
    assert_eq!(life.host.tier.resize_progress().unwrap().0, 400);
    life.host.tier.cancel_resize();
    assert_eq!(life.host.tier.resize_progress(), None);
}

/// Under writers that never pause, stage-out gets ahead all the same.
#[test]
fn shrinking_ends_under_load() {
    // What may be staged out ahead of need follows the size.
    let config = TierConfig { ahead_frames: 400, ..config(900, 900, 4096, 4) };
    let mut life = Life::new(&config, 7);
    life.live(3000);
    life.host.tier.begin_resize(300).unwrap();
    let mut operations = 0;
    while life.host.tier.resize_progress().is_some() {
        life.live(10);
        operations += 10;
        assert!(operations < 20_000, "the queue does not get shorter");
    }
    assert_eq!(life.host.tier.frames(), 300);
    life.read_all();
}
