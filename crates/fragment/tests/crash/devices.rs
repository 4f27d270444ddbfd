//! The devices of a cache, which outlive it: what lies where on them.

use mezzanine_fragment::format::Superblock;
use mezzanine_ground::random::Random;

use crate::device::Device;

/// What a power cut leaves whole in slots and on backing devices: half a block, so that blocks tear.
pub(crate) const HALF: u64 = 2048;
/// The same in the map.
pub(crate) const SECTOR: usize = 512;

pub(crate) struct Devices {
    pub(crate) superblock: Superblock,
    /// In the order of the superblock's volumes.
    pub(crate) backing: Vec<Device<u64>>,
    pub(crate) slots: Device<u64>,
    pub(crate) map: Device<[u8; SECTOR]>,
    /// Halves of a slot that any fragment reaches.
    reach: u64,
    ids: u8,
}

impl Devices {
    /// Large fragments of many small volumes; or small fragments, of two volumes. Now and then such large
    /// ones that each has its record in a sector of its own: they take long to make memory for.
    pub(crate) fn new(random: &mut Random) -> Self {
        let large = random.chance(2, 3);
        let fragment: u64 = match large {
            true if random.chance(1, 10) => 8 << 20,
            true => 1 << 20,
            false => 128 << 10,
        };
        let slots = if large { 9 } else { 5 };
        let superblock = Superblock::new([1; 16], (1 << 20) + slots * fragment, fragment).unwrap();
        let slots = superblock.layout.slots;
        let reach = if large { 16 } else { fragment / HALF };
        let map = (superblock.layout.map_bytes as usize) / SECTOR;
        let mut devices = Self {
            superblock,
            backing: Vec::new(),
            slots: Device::new(vec![u64::MAX; (slots * reach) as usize]),
            map: Device::new(vec![[0xEE; SECTOR]; map]),
            reach,
            ids: 1,
        };
        for _ in 0..if large { 14 } else { 2 } {
            devices.attach(if large { random.between(2, 15) } else { 4 * reach - random.below(7) });
        }
        devices
    }

    /// A new volume of so many halves of blocks.
    fn attach(&mut self, halves: u64) {
        self.ids = self.ids.wrapping_add(1).max(2);
        let name = format!("volume-{}", self.superblock.next_volume);
        let id = u128::from(self.superblock.next_volume).to_le_bytes();
        let bytes = halves * HALF;
        self.superblock = self.superblock.with_volume(id, &name, bytes.max(4096), [0; 64]).unwrap();
        self.backing.push(Device::new(vec![0; halves.max(2) as usize]));
    }

    /// What hosts do between two openings: attach volumes, begin with an empty cache, resize it. A volume
    /// that is detached comes back as a new one, with other contents.
    pub(crate) fn change(&mut self, random: &mut Random, value: u64) {
        if random.chance(1, 20) {
            let id = random.pick(&self.superblock.volumes).id;
            let at = self.superblock.volumes.iter().position(|volume| volume.id == id).unwrap();
            self.superblock = self.superblock.without_volume(&id).unwrap();
            let halves = self.backing.remove(at).sectors().len();
            self.attach(halves as u64);
            self.backing.last_mut().unwrap().write(0, value);
        }
        if random.chance(1, 50) {
            self.reinitialise();
        }
        if random.chance(1, 30) {
            self.resize(random);
        }
    }

    /// The superblock says another size from now on, or the same: in bytes for fragments.
    pub(crate) fn resize(&mut self, random: &mut Random) -> u64 {
        let layout = self.superblock.layout;
        let slots = random.between(1, layout.slots);
        self.superblock = self.superblock.resized(layout.end_of(slots)).unwrap();
        slots * layout.fragment_bytes
    }

    /// Where on the cache device the slots end that are used by the superblock.
    pub(crate) fn end(&self) -> u64 {
        self.superblock.layout.end_of(self.superblock.slots_limit)
    }

    pub(crate) fn reinitialise(&mut self) {
        self.ids = self.ids.wrapping_add(1).max(2);
        let mut id = self.superblock.cache_id;
        id[15] = self.ids;
        id[14] = id[14].wrapping_add(1);
        self.superblock = self.superblock.reinitialised(id);
    }

    /// The half of a slot that lies at an offset of the cache device.
    pub(crate) fn slot_half(&self, offset: u64) -> usize {
        let layout = &self.superblock.layout;
        let at = offset - layout.data_offset;
        let (slot, within) = (at / layout.fragment_bytes, at % layout.fragment_bytes / HALF);
        assert!(within < self.reach, "no fragment reaches so far");
        (slot * self.reach + within) as usize
    }

    pub(crate) fn flush_cache_begin(&self) -> (u64, u64) {
        (self.slots.flush_begin(), self.map.flush_begin())
    }

    pub(crate) fn flush_cache_end(&mut self, (slots, map): (u64, u64)) {
        self.slots.flush_end(slots);
        self.map.flush_end(map);
    }

    /// The process has ended, and with it the power of the cache device, of the backing devices, of both or
    /// of none has failed.
    pub(crate) fn power_fails(&mut self, random: &mut Random) {
        if random.chance(1, 2) {
            self.slots.power_fails(random);
            self.map.power_fails(random);
        }
        if random.chance(1, 2) {
            self.backing.iter_mut().for_each(|volume| volume.power_fails(random));
        }
        self.backing.iter_mut().for_each(|volume| volume.reopened(random));
        self.slots.reopened(random);
        self.map.reopened(random);
    }
}

/// The values of some bytes, half a block at a time.
pub(crate) fn values(bytes: &[u8]) -> impl Iterator<Item = u64> {
    bytes.chunks_exact(HALF as usize).map(|half| u64::from_le_bytes(half[..8].try_into().unwrap()))
}
