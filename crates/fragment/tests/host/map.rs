//! Hosts of a cache whose map is in the memory of a test.

use mezzanine_fragment::format::{BITMAP_AT, Record, RecordState, Superblock};
use mezzanine_fragment::{Config, Next, Recovered, Recovery};

use super::{Host, MS, carry_out};

pub(crate) const FRAGMENT: u64 = 128 << 10;
pub(crate) const SECOND: u64 = 1000 * MS;

/// A cache with room for so many fragments, of one volume of as many.
pub(crate) fn superblock(slots: u64) -> Superblock {
    let empty = Superblock::new([7; 16], (1 << 20) + slots * FRAGMENT, FRAGMENT).unwrap();
    empty.with_volume([1; 16], "volume", slots * FRAGMENT, [0; 64]).unwrap().opened()
}

/// The record of a slot: a stable fragment all of which is valid.
pub(crate) fn record(superblock: &Superblock, slot: u32, fragment: u32) -> [u8; 32] {
    let mut place = [0; 32];
    place[BITMAP_AT..BITMAP_AT + 4].fill(0xFF);
    let record = Record { epoch: 1, volume: 1, fragment, state: RecordState::Stable };
    record.encode(&mut place, &superblock.cache_id, slot);
    place
}

pub(crate) fn recovered(superblock: &Superblock, map: &[u8]) -> (Host, Recovered) {
    recovered_with(superblock, superblock.config(), map)
}

pub(crate) fn recovered_with(superblock: &Superblock, mut config: Config, map: &[u8]) -> (Host, Recovered) {
    config.copy_bytes = 256 << 10;
    let mut recovery = Recovery::heap(config.geometry().unwrap());
    while let Some((offset, bytes)) = recovery.next() {
        let at = (offset - superblock.layout.map_offset) as usize;
        recovery.take(&map[at..at + bytes]).unwrap();
    }
    let (cache, found) = recovery.finish();
    // An empty one, for its devices.
    config.map = None;
    let mut host = Host { cache, ..Host::new(&config) };
    host.flash[superblock.layout.map_offset as usize..][..map.len()].copy_from_slice(map);
    while host.cache.marks_durable() < found.waits_for {
        let Next::Job(mut job) = host.cache.next_map(host.now) else { panic!("what waits is written") };
        carry_out(&mut job, &host.backing, &mut host.flash);
        host.cache.done(job, Ok(()));
    }
    host.cache.check();
    (host, found)
}

/// A host all of whose fragments are in the cache, stable.
pub(crate) fn warm(slots: u32) -> Host {
    let superblock = superblock(slots.into());
    let mut map = vec![0; superblock.layout.map_bytes as usize];
    for slot in 0..slots {
        map[slot as usize * 32..][..32].copy_from_slice(&record(&superblock, slot, slot));
    }
    let (mut host, found) = recovered(&superblock, &map);
    assert_eq!((found.fragments, found.lost), (slots.into(), 0));
    host.flash.fill(0);
    host
}

impl Host {
    /// Carries out a job of the map; false if there is none.
    pub(crate) fn map_job(&self) -> bool {
        let Next::Job(job) = self.cache.next_map(self.now) else { return false };
        self.cache.done(job, Ok(()));
        true
    }

    /// Time goes on, and jobs are carried out.
    pub(crate) fn pass(&mut self, seconds: u64) {
        for _ in 0..seconds {
            self.now += SECOND;
            self.work();
        }
    }
}
