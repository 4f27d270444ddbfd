//! A host that does one thing after the other, over devices in memory.
#![allow(dead_code, reason = "not every test uses all of it")]

pub(crate) mod map;

use mezzanine_fragment::{Cache, Config, DeviceError, Job, Next, ReadKind, Source, Statistics};

pub(crate) const BLOCK: u64 = 4096;
pub(crate) const MS: u64 = 1_000_000;

pub(crate) struct Host {
    pub(crate) cache: Cache,
    pub(crate) backing: Vec<Vec<u8>>,
    pub(crate) flash: Vec<u8>,
    pub(crate) now: u64,
}

/// Carries a job out.
pub(crate) fn carry_out(job: &mut Job<'_>, backing: &[Vec<u8>], flash: &mut [u8]) {
    match job {
        Job::WriteBlocks(write) => {
            for (offset, bytes) in write.writes() {
                flash[offset as usize..][..bytes.len()].copy_from_slice(bytes);
            }
        }
        Job::ReadFragment(read) => {
            let (volume, offset) = (read.volume(), read.offset() as usize);
            let buffer = read.buffer();
            buffer.copy_from_slice(&backing[volume][offset..][..buffer.len()]);
        }
        Job::WriteFragment(write) => {
            let bytes = write.data();
            flash[write.offset() as usize..][..bytes.len()].copy_from_slice(bytes);
        }
        Job::WriteMap(write) => {
            let bytes = write.data();
            flash[write.offset() as usize..][..bytes.len()].copy_from_slice(bytes);
        }
        Job::FlushCache(_) | Job::FlushBacking(_) => {}
    }
}

/// A configuration of the smallest fragments: so many of each volume, and so many slots.
pub(crate) fn small(slots: u64, fragments: &[u64]) -> Config {
    let fragment = 128 << 10;
    let volumes: Vec<u64> = fragments.iter().map(|count| count * fragment).collect();
    Config { fragment_bytes: fragment, ..Config::new(slots * fragment, &volumes) }
}

/// Blocks of one value.
pub(crate) fn blocks(count: u64, value: u8) -> Vec<u8> {
    vec![value; (count * BLOCK) as usize]
}

impl Host {
    pub(crate) fn new(config: &Config) -> Self {
        let cache = Cache::heap(config.geometry().unwrap());
        let backing = config.volumes.iter().map(|&bytes| vec![0; bytes as usize]).collect();
        Self { cache, backing, flash: vec![0xEE; config.cache_bytes as usize], now: 0 }
    }

    /// The first of so many fragments of a volume is in the cache, with memory for copies of so many blocks.
    pub(crate) fn cached(fragments: u64, copies: u64) -> Self {
        let mut host = Self::new(&Config { copy_bytes: copies * BLOCK, ..small(2, &[fragments]) });
        host.populate(0, 0);
        host
    }

    /// Reads, and says what of it the cache had.
    pub(crate) fn read(&self, volume: usize, offset: u64, bytes: u64) -> (ReadKind, Vec<u8>) {
        let (mut pieces, mut data) = (Vec::new(), Vec::new());
        let kind = self.cache.read(volume, offset, bytes, &mut pieces).unwrap();
        for piece in &pieces {
            let (device, at) = match piece.source {
                Source::Backing => (&self.backing[volume], piece.offset),
                Source::Cache(at) => (&self.flash, at),
            };
            data.extend_from_slice(&device[at as usize..][..piece.bytes as usize]);
            assert!(self.cache.confirm(piece), "nothing happens meanwhile");
        }
        assert!(
            data == self.backing[volume][offset as usize..][..bytes as usize],
            "a read gets what was written"
        );
        (kind, data)
    }

    pub(crate) fn kind(&self, volume: usize, offset: u64, bytes: u64) -> ReadKind {
        self.read(volume, offset, bytes).0
    }

    pub(crate) fn write(&mut self, volume: usize, offset: u64, data: &[u8]) {
        let token = self.cache.write_begin(volume, offset, data).unwrap();
        while token.waits_for() > self.cache.marks_durable() {
            let Next::Job(mut job) = self.cache.next_map(self.now) else { panic!("the mark is under way") };
            carry_out(&mut job, &self.backing, &mut self.flash);
            self.cache.done(job, Ok(()));
        }
        self.backing[volume][offset as usize..][..data.len()].copy_from_slice(data);
        self.cache.write_end(token, Ok(()));
    }

    /// Does all jobs that there are now; how many there were of each kind: copies, fragments read, fragments
    /// written.
    pub(crate) fn work(&mut self) -> [usize; 3] {
        let mut done = [0; 4];
        while let Next::Job(mut job) = self.cache.next_job(self.now) {
            carry_out(&mut job, &self.backing, &mut self.flash);
            done[match job {
                Job::WriteBlocks(_) => 0,
                Job::ReadFragment(_) => 1,
                Job::WriteFragment(_) => 2,
                Job::WriteMap(_) | Job::FlushCache(_) | Job::FlushBacking(_) => 3,
            }] += 1;
            self.cache.done(job, Ok(()));
        }
        self.cache.check();
        [done[0], done[1], done[2]]
    }

    /// The next job, which is a copy.
    pub(crate) fn copy(&self) -> Job<'_> {
        match self.cache.next_job(self.now) {
            Next::Job(job @ Job::WriteBlocks(_)) => job,
            _ => panic!("no copy is to be written"),
        }
    }

    pub(crate) fn has_job(&self) -> bool {
        match self.cache.next_job(self.now) {
            Next::Job(job) => {
                self.cache.done(job, Err(DeviceError));
                true
            }
            Next::NotBefore(_) => false,
        }
    }

    /// Has a fragment that is not in the cache come in.
    pub(crate) fn populate(&mut self, volume: usize, offset: u64) {
        assert_eq!(self.kind(volume, offset, 1), ReadKind::Miss);
        let before = self.cache.statistics().populations_done;
        for _ in 0..20 {
            self.work();
            self.now += 500 * MS;
        }
        assert!(self.cache.statistics().populations_done > before, "it came in");
    }

    pub(crate) fn statistics(&self) -> Statistics {
        self.cache.statistics()
    }
}
