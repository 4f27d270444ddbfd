//! Whether the cache device has what the backing devices have, block by block, while everything goes on.

use std::collections::HashSet;
use std::time::{Duration, Instant};

use mezzanine_device::{AlignedBuf, Device, DeviceError, DeviceErrorKind, Request};
use mezzanine_fragment::BLOCK_BYTES;
use mezzanine_ground::random::Random;

use crate::host::{BlockCache, Shared};
use crate::map::ReadMap;

/// A block that was written between the two reads differs; so it is looked at again before it counts.
const LOOKS: u32 = 20;

/// A block of which the cache device has something else than the backing device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Difference {
    /// The volume.
    pub volume: usize,
    /// Where the block begins in the volume, in bytes.
    pub offset: u64,
    /// Where it lies on the cache device, in bytes.
    pub cache_offset: u64,
}

/// What a comparison has found.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Compared {
    /// Blocks that were the same.
    pub blocks: u64,
    /// Blocks that left the cache, or were written again and again, before they could be compared.
    pub moved: u64,
    /// Blocks that the cache device did not give back.
    pub unreadable: u64,
    /// Blocks that differ; the first hundred.
    pub differences: Vec<Difference>,
    /// How many differ.
    pub differing: u64,
}

/// Differences that are listed.
const LISTED: usize = 100;

/// Blocks of a sample that are read at a time: a disk puts them in order.
const READ_TOGETHER: usize = 32;
/// Blocks of the volume that are looked at for each block of a sample, before it is given up to find more.
const TRIES: u64 = 200;

/// Some blocks of a volume that were compared before it is served.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Sampled {
    /// Blocks that were the same.
    pub same: u64,
    /// Blocks that were not.
    pub differing: u64,
    /// Where in the volume the first of these begins, in bytes.
    pub first: Option<u64>,
}

impl ReadMap {
    /// Compares so many blocks that a map says are in the cache with the volume's own device: the first and
    /// the last ones of the volume, and others drawn by `seed`. It stops early after `within`. Of `n` blocks
    /// that were compared of a volume of which a share `p` of what is cached was changed, none differs with a
    /// probability of `(1 - p)^n` alone.
    ///
    /// # Errors
    /// That of the volume's own device. Blocks that the cache device does not give back are passed over.
    ///
    /// # Panics
    /// If there is no such volume.
    pub fn compare_some(
        &self,
        volume: usize,
        flash: &dyn Device,
        backing: &dyn Device,
        (seed, blocks): (u64, usize),
        within: Duration,
    ) -> Result<Sampled, DeviceError> {
        let (deadline, mut found) = (Instant::now() + within, Sampled::default());
        let mut sample = self.draw(volume, seed, blocks);
        let block = BLOCK_BYTES as usize;
        let mut buffers = [0; 2].map(|_| AlignedBuf::zeroed(READ_TOGETHER * block));
        while !sample.is_empty() && found.first.is_none() && Instant::now() < deadline {
            let mut together = sample.split_off(sample.len().saturating_sub(READ_TOGETHER));
            together.sort_unstable();
            let [cached, own] = &mut buffers;
            let read =
                |device: &dyn Device, into: &mut AlignedBuf, offsets: &mut dyn Iterator<Item = u64>| {
                    let buffers = into.chunks_exact_mut(block);
                    let mut reads: Vec<_> =
                        offsets.zip(buffers).map(|(offset, buf)| Request::Read { offset, buf }).collect();
                    device.run(&mut reads)
                };
            let from_cache = read(flash, cached, &mut together.iter().map(|(_, at)| *at));
            let from_own = read(backing, own, &mut together.iter().map(|(offset, _)| *offset));
            let results = from_cache.into_iter().zip(from_own).zip(&together);
            for (number, ((from_cache, from_own), (offset, _))) in results.enumerate() {
                from_own?;
                let range = number * block..(number + 1) * block;
                if from_cache.is_err() {
                    continue;
                }
                if cached[range.clone()] == own[range] {
                    found.same += 1;
                } else {
                    found.differing += 1;
                    found.first.get_or_insert(*offset);
                }
            }
        }
        Ok(found)
    }

    /// Blocks of a volume that are in the cache: their places in the volume and on the cache device, those at
    /// its ends last, as these are compared first.
    fn draw(&self, volume: usize, seed: u64, blocks: usize) -> Vec<(u64, u64)> {
        let in_volume = self.cache.geometry().config().volumes[volume] / BLOCK_BYTES;
        let ends = (0..16).flat_map(|at| [at, in_volume.saturating_sub(1 + at)]);
        let mut random = Random::new(seed);
        let tries = (blocks as u64).saturating_mul(TRIES);
        let drawn = (0..tries).map(|_| random.below(in_volume.max(1)));
        let mut seen = HashSet::new();
        let placed = ends.chain(drawn).filter(|at| *at < in_volume && seen.insert(*at)).filter_map(|at| {
            let offset = at * BLOCK_BYTES;
            self.cache.location(volume, offset).map(|place| (offset, place))
        });
        let mut sample: Vec<_> = placed.take(blocks).collect();
        sample.reverse();
        sample
    }
}

enum Look {
    Same,
    Differs(u64),
    Moved,
    Unreadable,
}

impl BlockCache {
    /// Compares every valid block of the cache device with the backing device. Nothing of the engine changes
    /// by it, and nobody waits for it. `progress` is told how many bytes of how many have been gone through.
    ///
    /// # Errors
    /// That of a backing device; `Io` of the cache device if it is not used any more.
    pub fn compare(&self, mut progress: impl FnMut(u64, u64)) -> Result<Compared, DeviceError> {
        let shared = &self.running.shared;
        shared.check_used()?;
        let volumes = &shared.cache.geometry().config().volumes;
        let total = volumes.iter().sum();
        let (mut found, mut before) = (Compared::default(), 0);
        let mut buffers = [0; 2].map(|_| AlignedBuf::zeroed(BLOCK_BYTES as usize));
        for (volume, &size) in volumes.iter().enumerate() {
            for offset in (0..size / BLOCK_BYTES).map(|block| block * BLOCK_BYTES) {
                if offset % (64 << 20) == 0 {
                    progress(before + offset, total);
                }
                if shared.backing[volume].is_some() {
                    shared.compare_block(volume, offset, &mut buffers, &mut found)?;
                }
            }
            before += size;
        }
        progress(total, total);
        // What was not even begun in a cache that is not used any more is no difference.
        shared.check_used()?;
        Ok(found)
    }
}

impl Shared {
    fn check_used(&self) -> Result<(), DeviceError> {
        if !self.health.is_lost() {
            return Ok(());
        }
        let error = DeviceError::new(DeviceErrorKind::Io, "compare", self.flash.describe());
        Err(error
            .advise("it is not used any more, so nothing of it is served: detach it and attach it again"))
    }

    fn compare_block(
        &self,
        volume: usize,
        offset: u64,
        buffers: &mut [AlignedBuf; 2],
        found: &mut Compared,
    ) -> Result<(), DeviceError> {
        let Some(mut at) = self.cache.location(volume, offset) else { return Ok(()) };
        let mut differs = None;
        for _ in 0..LOOKS {
            match self.look(volume, offset, at, buffers)? {
                Look::Same => {
                    found.blocks += 1;
                    return Ok(());
                }
                Look::Unreadable => {
                    found.unreadable += 1;
                    return Ok(());
                }
                Look::Differs(place) => differs = Some(place),
                Look::Moved => differs = None,
            }
            std::thread::yield_now();
            match self.cache.location(volume, offset) {
                Some(now) => at = now,
                None => break,
            }
        }
        match differs {
            Some(cache_offset) if self.cache.location(volume, offset) == Some(cache_offset) => {
                found.differing += 1;
                if found.differences.len() < LISTED {
                    found.differences.push(Difference { volume, offset, cache_offset });
                }
            }
            _ => found.moved += 1,
        }
        Ok(())
    }

    fn look(
        &self,
        volume: usize,
        offset: u64,
        at: u64,
        [cached, backing]: &mut [AlignedBuf; 2],
    ) -> Result<Look, DeviceError> {
        let read = self.flash.read_at(cached, at);
        self.backing(volume).read_at(backing, offset)?;
        Ok(match read {
            _ if self.cache.location(volume, offset) != Some(at) => Look::Moved,
            // While a block is written the backing device may have what the cache has not yet.
            _ if self.cache.overlaps_write(volume, offset, BLOCK_BYTES).unwrap_or(true) => Look::Moved,
            Err(_) => Look::Unreadable,
            Ok(()) if cached[..] == backing[..] => Look::Same,
            Ok(()) => Look::Differs(at),
        })
    }
}
