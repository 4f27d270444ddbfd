//! Invariants checked: what was flushed is there after a power cut at any operation, and of what was not each
//! block is as one of the writes since has left it; what was written is read, also around errors.

#![allow(clippy::unwrap_used)]

mod cuts;

mod errors;

mod damage;

mod ends;

mod giving_up;

mod shown;

mod noticed;

use mezzanine_ground::random::Random;

use super::*;
use crate::MemoryDevice;
use crate::memory::{Bad, Fault, Injection, Operation, Power};

const BLOCK: u64 = BLOCK_BYTES as u64;

fn zones_of(conventional: u64, capacity: u64) -> Zones {
    let zone_len = capacity.next_multiple_of(BLOCK) + BLOCK;
    Zones { zone_len, zone_capacity: capacity, count: 64, conventional, open_max: 0, active_max: 0 }
}

/// A device, its area, and what the blocks of that may hold.
struct Case {
    device: Arc<MemoryDevice>,
    area: TwoZones<Arc<dyn Device>>,
    /// Of each block what it was at the last flush, and what each write since has made of it.
    held: Vec<Vec<Vec<u8>>>,
}

impl Case {
    fn new(zones: Zones, blocks: u64) -> Self {
        let device = Arc::new(MemoryDevice::zoned(&Power::new(), "zoned drive", zones));
        let area = TwoZones::format(Arc::clone(&device) as Arc<dyn Device>, blocks * BLOCK, blocks * BLOCK);
        Self { device, area: area.unwrap(), held: vec![vec![vec![0; BLOCK_BYTES]]; blocks as usize] }
    }

    fn find(&self) -> Result<Option<TwoZones<Arc<dyn Device>>>, DeviceError> {
        TwoZones::find(Arc::clone(&self.device) as Arc<dyn Device>)
    }

    fn reopen(&mut self) {
        self.area = self.find().unwrap().unwrap();
    }

    fn bytes(&self) -> u64 {
        self.held.len() as u64 * BLOCK
    }

    fn write(&mut self, offset: u64, bytes: &[u8]) -> Result<(), DeviceError> {
        let mut whole: Vec<u8> = self.held.iter().flat_map(|held| held.last().unwrap()).copied().collect();
        whole[offset as usize..offset as usize + bytes.len()].copy_from_slice(bytes);
        for block in offset / BLOCK..(offset + bytes.len() as u64).div_ceil(BLOCK) {
            let at = (block * BLOCK) as usize;
            self.held[block as usize].push(whole[at..at + BLOCK_BYTES].to_vec());
        }
        self.area.write_at(bytes, offset)
    }

    fn write_random(&mut self, random: &mut Random) -> Result<(), DeviceError> {
        let unit = *random.pick(&[1, 512, BLOCK, BLOCK]);
        let most = random.magnitude(9);
        let len = random.between(1, (self.bytes() / unit).min(most).max(1)) * unit;
        let offset = random.below((self.bytes() - len) / unit + 1) * unit;
        let (first, step) = (random.below(256) as u8, random.below(7) as u8);
        let bytes: Vec<u8> = (0..len).map(|at| first.wrapping_add(step.wrapping_mul(at as u8))).collect();
        self.write(offset, &bytes)
    }

    fn flush(&mut self) -> Result<(), DeviceError> {
        self.area.flush()?;
        for held in &mut self.held {
            held.drain(..held.len() - 1);
        }
        Ok(())
    }

    /// Every block is read as one of what it may hold; that is what it holds from then on.
    fn check(&mut self, exactly: bool, when: &str) {
        for (number, held) in self.held.iter_mut().enumerate() {
            let mut bytes = vec![1; BLOCK_BYTES];
            self.area.read_at(&mut bytes, number as u64 * BLOCK).unwrap();
            let may_be = if exactly { &held[held.len() - 1..] } else { &held[..] };
            assert!(
                may_be.contains(&bytes),
                "{when}: block {number} is none of {} that it may be",
                may_be.len()
            );
            if !exactly {
                held.push(bytes);
            }
        }
    }

    /// Power fails in the `after`-th operation from now; what the cut leaves is opened again.
    fn cut(&mut self, after: u64, seed: u64, random: &mut Random) {
        self.device.power().crash_after(after);
        for _ in 0..10 * after {
            let done = if random.chance(1, 4) { self.flush() } else { self.write_random(random) };
            if let Err(error) = done {
                assert!(!self.device.power().is_on(), "{error}");
                break;
            }
        }
        self.device.power_cut(seed);
        self.device.power().restore();
        self.reopen();
        self.check(false, "after a cut");
        // What was read is on flash: what is not there can come back no more.
        for held in &mut self.held {
            held.drain(..held.len() - 1);
        }
    }
}
