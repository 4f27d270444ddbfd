//! What caches move when the same requests come again and again, one after the other: the microbenchmark of
//! "Flash-Conscious Cache Population for Enterprise Database Workloads" (ADMS 2014), section 2, Figure 1.

use std::collections::HashSet;

use mezzanine_device::model::OperationKind;
use mezzanine_ground::random::Random;

use super::super::setup::Refusal;
use super::between::{Ask, Between, Device, Next, Request};
use super::rivals;
use super::setup::BlockSetup;

/// What a round takes, in ns: nothing hangs on it but how often the index of bcache is written.
const ROUND_NS: u64 = 1_000_000;

/// What a pass has moved, in MiB.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Traffic {
    /// Read from the cache device.
    pub cache_read: f64,
    /// Written there.
    pub cache_written: f64,
    /// Read from the backing device.
    pub backing_read: f64,
    /// Written there.
    pub backing_written: f64,
}

impl Traffic {
    fn add(&mut self, ask: &Ask) {
        let mib = ask.bytes as f64 / f64::from(1 << 20);
        match (ask.device, ask.kind == OperationKind::Write) {
            (Device::Cache, false) => self.cache_read += mib,
            (Device::Cache, true) => self.cache_written += mib,
            (Device::Backing, false) => self.backing_read += mib,
            (Device::Backing, true) => self.backing_written += mib,
        }
    }
}

/// One client, and all that is done in the background before its next request.
struct Host {
    between: Box<dyn Between>,
    now: u64,
    round: Vec<Ask>,
    traffic: Traffic,
}

impl Host {
    /// The round is complete; whether there was one.
    fn complete(&mut self) -> bool {
        self.now += ROUND_NS;
        self.round.iter().for_each(|ask| self.traffic.add(ask));
        let had_one = !self.round.is_empty();
        self.round.clear();
        had_one
    }

    fn request(&mut self, request: Request) {
        self.between.begin(0, request, self.now, &mut self.round);
        while self.complete() {
            self.between.go_on(0, self.now, &mut self.round);
        }
        self.work();
    }

    fn work(&mut self) {
        while self.between.may_have_job(self.now) {
            let Next::Job(job) = self.between.next_job(self.now, &mut self.round) else { return };
            while self.complete() {
                self.between.job_goes_on(job, self.now, &mut self.round);
            }
        }
    }
}

/// So many requests anywhere on the volume, each place once, reads or writes as the write share says (all or
/// none), and the same ones again in the same order, `passes` times. The cache is one of the rivals of the
/// fragment cache. Devices, clients and times of the setup are not used.
///
/// # Errors
/// Names the parameter that cannot be used.
pub fn run_passes(setup: &BlockSetup, passes: usize, requests: usize) -> Result<Vec<Traffic>, Refusal> {
    setup.check()?;
    if rivals::map_bytes(setup.cache, setup.cache_bytes).is_none() {
        let reason = format!("'{}' is none of the rivals", setup.cache.name());
        return Err(Refusal::new("cache", reason, "use flashcache, EnhanceIO, bcache or dm-cache"));
    }
    if setup.write_share != 0.0 && setup.write_share != 1.0 {
        let reason = format!("{} is neither 0 nor 1", setup.write_share);
        return Err(Refusal::new("write_share", reason, "use 0 for reads, or 1 for writes"));
    }
    let bytes = setup.request_bytes;
    let places = setup.volume_bytes / bytes;
    if requests as u64 > places / 2 {
        let reason = format!("{places} places have no room for {requests} requests far from each other");
        return Err(Refusal::new("volume_bytes", reason, "use a larger volume"));
    }
    let mut random = Random::new(setup.seed);
    let mut drawn = HashSet::new();
    let anywhere = std::iter::repeat_with(|| random.below(places)).filter(|place| drawn.insert(*place));
    let order: Vec<u64> = anywhere.take(requests).collect();
    let between = rivals::new(setup)?;
    let mut host = Host { between, now: 0, round: Vec::new(), traffic: Traffic::default() };
    let pass = |_| {
        for place in &order {
            let is_write = setup.write_share == 1.0;
            host.request(Request { is_write, offset: place * bytes, bytes });
        }
        std::mem::take(&mut host.traffic)
    };
    let moved = (0..passes).map(pass).collect();
    host.between.check();
    Ok(moved)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::super::setup::{BlockCache, Order, Writes};
    use super::*;

    fn setup(cache: BlockCache, write_share: f64) -> BlockSetup {
        let (volume_bytes, cache_bytes) = (64 << 20, 128 << 20);
        BlockSetup {
            cache,
            volume_bytes,
            cache_bytes,
            request_bytes: 4096,
            write_share,
            ..BlockSetup::default()
        }
    }

    #[test]
    fn what_was_read_once_comes_from_the_cache_device() {
        let flashcache = BlockCache::Flashcache(Order::Fifo, Writes::Through);
        let moved = run_passes(&setup(flashcache, 0.0), 2, 512).unwrap();
        let first = Traffic { backing_read: 2.0, cache_written: 2.0, ..Traffic::default() };
        assert_eq!(moved, [first, Traffic { cache_read: 2.0, ..Traffic::default() }]);
    }

    #[test]
    fn written_through_goes_to_both_devices_and_written_back_to_one() {
        for (writes, backing_written) in [(Writes::Through, 2.0), (Writes::Back, 0.0)] {
            let moved = run_passes(&setup(BlockCache::EnhanceIo(writes), 1.0), 2, 512).unwrap();
            assert_eq!(moved[1], Traffic { backing_written, cache_written: 2.0, ..Traffic::default() });
        }
        let back = run_passes(&setup(BlockCache::EnhanceIo(Writes::Back), 1.0), 1, 512).unwrap();
        assert_eq!(back[0].cache_written, 4.0, "a block of metadata for each that becomes dirty");
    }

    #[test]
    fn parameters_that_cannot_be_are_named() {
        let refused = |setup: &BlockSetup, requests| run_passes(setup, 1, requests).unwrap_err().to_string();
        let mixed = refused(&setup(BlockCache::DmCache, 0.5), 1);
        assert!(mixed.starts_with("write_share: 0.5 is neither 0 nor 1"), "{mixed}");
        let nobody = refused(&setup(BlockCache::Nothing, 0.0), 1);
        assert!(nobody.starts_with("cache: 'none' is none of the rivals"), "{nobody}");
        let many = refused(&setup(BlockCache::DmCache, 0.0), 10_000);
        assert!(many.starts_with("volume_bytes: "), "{many}");
    }
}
