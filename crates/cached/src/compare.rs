//! Whether the cache device has what the backing devices have, block by block, while everything goes on.

use mezzanine_device::{AlignedBuf, DeviceError, DeviceErrorKind};
use mezzanine_fragment::BLOCK_BYTES;

use crate::host::{BlockCache, Shared};

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
            Err(_) => Look::Unreadable,
            Ok(()) if cached[..] == backing[..] => Look::Same,
            Ok(()) => Look::Differs(at),
        })
    }
}
