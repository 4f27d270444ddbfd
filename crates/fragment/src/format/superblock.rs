//! The superblock: identity of a cache, its epoch, sizes, and volumes.
//!
//! It is kept twice. A host that changes it makes the new one ([`Superblock::opened`] and those beside it),
//! writes it to the place that [`Superblocks`] names, flushes, writes it to the other one, flushes. The whole
//! copy with the higher sequence number counts. So a change, a new cache in the place of an old one above
//! all, has happened for good or not at all: the map is of the cache whose id the superblock has.

use mezzanine_ground::fields::{Reader, Visitor, Writer, field_at, put_at};

use super::layout::DeviceLayout;
use super::volume::{ENTRY_BYTES, VolumeEntry};
use super::{FORMAT_VERSION, FormatError};
use crate::config::{Config, ConfigError, MapConfig, SETTLE_MS, VOLUMES_MAX, WAITS_PER_MILLE};

/// Most bytes of one copy, with all volumes that there can be.
pub const SUPERBLOCK_BYTES_MAX: usize = HEADER_BYTES + VOLUMES_MAX * ENTRY_BYTES;
/// Where the copies lie.
pub const SUPERBLOCK_OFFSETS: [u64; 2] = [0, 256 << 10];
/// How a copy begins.
pub const SUPERBLOCK_MAGIC: [u8; 8] = *b"MEZZFRAG";
/// Bytes that a host keeps with the cache, and with each volume.
pub const HOST_BYTES: usize = 64;

const HEADER_BYTES: usize = 4096;
const CHECKSUM_AT: usize = HEADER_BYTES - 4;
const VERSION_AT: usize = 8;
const COUNT_AT: usize = 12;
/// Sequence numbers, epochs and numbers of volumes end here; what is beyond is damage, so that the next one
/// can always be formed.
const NUMBERS_END: u64 = u32::MAX as u64;

/// What a cache device says of itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Superblock {
    /// Names the cache: random, and another one whenever the cache begins empty.
    pub cache_id: [u8; 16],
    /// Counts the superblocks written.
    pub sequence: u64,
    /// Counts the openings of the cache with this id.
    pub epoch: u64,
    /// The number that the next volume gets.
    pub next_volume: u32,
    /// Where things lie.
    pub layout: DeviceLayout,
    /// How many of its slots are used, from the first on: the size of the cache.
    pub slots_limit: u64,
    /// The host's.
    pub host: [u8; HOST_BYTES],
    /// The volumes, in the order in which the fragment table has them.
    pub volumes: Vec<VolumeEntry>,
}

impl Superblock {
    /// That of a new, empty cache without volumes.
    ///
    /// # Errors
    /// If the sizes cannot be used.
    pub fn new(cache_id: [u8; 16], cache_bytes: u64, fragment_bytes: u64) -> Result<Self, ConfigError> {
        let layout = DeviceLayout::new(cache_bytes, fragment_bytes)?;
        let (slots_limit, host, volumes) = (layout.slots, [0; HOST_BYTES], Vec::new());
        Ok(Self { cache_id, sequence: 1, epoch: 0, next_volume: 1, layout, slots_limit, host, volumes })
    }

    fn changed(&self) -> Self {
        Self { sequence: self.sequence + 1, ..self.clone() }
    }

    /// The superblock by which the cache is opened: of the next epoch. Durable before anything is served.
    #[must_use]
    pub fn opened(&self) -> Self {
        Self { epoch: self.epoch + 1, ..self.changed() }
    }

    /// The superblock of an empty cache with the same volumes in the place of this one. It has another id,
    /// which the host has drawn, so that no record of this one is ever its own.
    ///
    /// # Panics
    /// If the id is the same.
    #[must_use]
    pub fn reinitialised(&self, cache_id: [u8; 16]) -> Self {
        assert_ne!(cache_id, self.cache_id, "a cache that begins empty has a new id");
        Self { cache_id, epoch: 0, ..self.changed() }
    }

    /// The superblock with one more volume, none of which is in the cache. Its number is given here.
    ///
    /// # Errors
    /// If there is a volume of this id or name, there are too many, or sizes do not fit.
    pub fn with_volume(
        &self,
        id: [u8; 16],
        name: &str,
        bytes: u64,
        host: [u8; HOST_BYTES],
    ) -> Result<Self, ConfigError> {
        let entry = VolumeEntry { id, bytes, number: self.next_volume, name: name.to_owned(), host };
        entry.check()?;
        if self.volumes.iter().any(|one| one.id == id || one.name == name) {
            let reason = format!("the cache has one of the id or the name of {name}");
            return Err(ConfigError::new("volume", reason, "detach that first, or use another name".into()));
        }
        let mut with = Self { next_volume: self.next_volume + 1, ..self.changed() };
        with.volumes.push(entry);
        with.config().geometry()?;
        Ok(with)
    }

    /// The superblock without a volume: what of it is in the cache never counts again. `None` if there is no
    /// volume of this id.
    pub fn without_volume(&self, id: &[u8; 16]) -> Option<Self> {
        let at = self.volumes.iter().position(|one| one.id == *id)?;
        let mut without = self.changed();
        without.volumes.remove(at);
        Some(without)
    }

    /// The superblock with a volume that is attached anew: what of it is in the cache never counts again, as
    /// it gets another number. `None` if there is no volume of this id.
    pub fn reattached(&self, id: &[u8; 16]) -> Option<Self> {
        let at = self.volumes.iter().position(|one| one.id == *id)?;
        let mut anew = self.changed();
        anew.volumes[at].number = self.next_volume;
        anew.next_volume += 1;
        Some(anew)
    }

    /// The superblock with a volume whose backing device has another length: attached anew as well. `None` if
    /// there is no volume of this id.
    ///
    /// # Errors
    /// If a volume cannot have so many bytes.
    pub fn reattached_with(&self, id: &[u8; 16], bytes: u64) -> Result<Option<Self>, ConfigError> {
        let Some(mut anew) = self.reattached(id) else { return Ok(None) };
        for volume in anew.volumes.iter_mut().filter(|volume| volume.id == *id) {
            volume.bytes = bytes;
            volume.check()?;
        }
        anew.config().geometry().map(|_| Some(anew))
    }

    /// The superblock of the cache when it uses so many bytes of its device, from the beginning on. It is
    /// written before the cache is resized, or while that is not open.
    ///
    /// # Errors
    /// As of [`DeviceLayout::slots_within`].
    pub fn resized(&self, bytes: u64) -> Result<Self, ConfigError> {
        Ok(Self { slots_limit: self.layout.slots_within(bytes)?, ..self.changed() })
    }

    /// Bytes of the cache device that are used, from its beginning on: the size of the cache.
    pub fn size(&self) -> u64 {
        let DeviceLayout { cache_bytes, slots, .. } = self.layout;
        if self.slots_limit == slots { cache_bytes } else { self.layout.end_of(self.slots_limit) }
    }

    /// The parameters of the cache: the paper's, on this device with these volumes, and with its map.
    pub fn config(&self) -> Config {
        let volumes: Vec<u64> = self.volumes.iter().map(|volume| volume.bytes).collect();
        let mut config = Config::new(self.layout.cache_bytes, &volumes);
        config.fragment_bytes = self.layout.fragment_bytes;
        config.data_offset = self.layout.data_offset;
        config.slots_limit = u32::try_from(self.slots_limit).unwrap_or(u32::MAX);
        config.map = Some(MapConfig {
            cache_id: self.cache_id,
            epoch: self.epoch,
            volume_numbers: self.volumes.iter().map(|volume| volume.number).collect(),
            offset: self.layout.map_offset,
            settle_ms: SETTLE_MS,
            waits_per_mille: WAITS_PER_MILLE,
        });
        config
    }

    /// The header's fields but for the checksum; `count` is that of the volumes.
    pub(super) fn show(&mut self, count: &mut u32, visitor: &mut impl Visitor) {
        visitor.always(0, SUPERBLOCK_MAGIC);
        visitor.always(VERSION_AT, FORMAT_VERSION);
        visitor.field(COUNT_AT, count);
        visitor.field(16, &mut self.cache_id);
        visitor.field(32, &mut self.sequence);
        visitor.field(40, &mut self.epoch);
        visitor.field(48, &mut self.layout.cache_bytes);
        visitor.field(56, &mut self.layout.fragment_bytes);
        visitor.field(64, &mut self.layout.map_offset);
        visitor.field(72, &mut self.layout.map_bytes);
        visitor.field(80, &mut self.layout.data_offset);
        visitor.field(88, &mut self.layout.slots);
        visitor.field(96, &mut self.next_volume);
        visitor.field(104, &mut self.host);
        visitor.field(168, &mut self.slots_limit);
    }

    /// The bytes of a copy: a multiple of 4,096 of them, [`SUPERBLOCK_BYTES_MAX`] at most.
    pub fn encode(&self) -> Vec<u8> {
        let used = HEADER_BYTES + self.volumes.len() * ENTRY_BYTES;
        assert!(used <= SUPERBLOCK_BYTES_MAX, "there are no more than {VOLUMES_MAX} volumes");
        let mut out = vec![0; used.next_multiple_of(HEADER_BYTES)];
        self.clone().show(&mut (self.volumes.len() as u32), &mut Writer::new(&mut out));
        for (volume, place) in self.volumes.iter().zip(out[HEADER_BYTES..].chunks_exact_mut(ENTRY_BYTES)) {
            volume.encode(place);
        }
        let checksum = checksum(&out[..used]);
        put_at(&mut out, CHECKSUM_AT, checksum);
        out
    }

    /// Reads one copy, which may be followed by anything.
    ///
    /// # Errors
    /// If the bytes are no superblock, of a newer format, or damaged.
    pub fn decode(bytes: &[u8]) -> Result<Self, FormatError> {
        if bytes.len() < HEADER_BYTES || !bytes.starts_with(&SUPERBLOCK_MAGIC) {
            return Err(FormatError::Unrecognised);
        }
        let count: u32 = field_at(bytes, COUNT_AT);
        if count as usize > VOLUMES_MAX {
            let reason = format!("there are {count}, and {VOLUMES_MAX} at most");
            return Err(FormatError::damaged("number of volumes", reason));
        }
        let Some(copy) = bytes.get(..HEADER_BYTES + count as usize * ENTRY_BYTES) else {
            let reason = format!("{count} volumes are more than {} bytes hold", bytes.len());
            return Err(FormatError::damaged("number of volumes", reason));
        };
        if field_at::<u32>(copy, CHECKSUM_AT) != checksum(copy) {
            return Err(FormatError::damaged("checksum", "it does not match"));
        }
        // Only a number that was written so is another build's.
        match field_at(copy, VERSION_AT) {
            FORMAT_VERSION => {}
            0 => return Err(FormatError::damaged("format version", "it is 0")),
            newer => return Err(FormatError::NewerFormat(newer)),
        }
        let none = DeviceLayout {
            cache_bytes: 0,
            fragment_bytes: 0,
            map_offset: 0,
            map_bytes: 0,
            data_offset: 0,
            slots: 0,
        };
        let mut superblock = Self {
            cache_id: [0; 16],
            sequence: 0,
            epoch: 0,
            next_volume: 0,
            layout: none,
            slots_limit: 0,
            host: [0; HOST_BYTES],
            volumes: Vec::new(),
        };
        superblock.show(&mut { count }, &mut Reader(copy));
        if superblock.slots_limit == 0 {
            // Of a build that knew one size alone.
            superblock.slots_limit = superblock.layout.slots;
        }
        for entry in copy[HEADER_BYTES..].chunks_exact(ENTRY_BYTES) {
            superblock.volumes.push(VolumeEntry::decode(entry)?);
        }
        superblock.check()?;
        Ok(superblock)
    }

    /// Whether what a copy says can be.
    fn check(&self) -> Result<(), FormatError> {
        let numbers = [
            ("sequence number", self.sequence),
            ("epoch", self.epoch),
            ("number of the next volume", self.next_volume.into()),
        ];
        if let Some((field, number)) = numbers.into_iter().find(|(_, number)| *number >= NUMBERS_END) {
            return Err(FormatError::damaged(field, format!("{number} is beyond all that are given")));
        }
        let layout = &self.layout;
        let wanted = DeviceLayout::new(layout.cache_bytes, layout.fragment_bytes)
            .map_err(|error| FormatError::damaged(error.parameter, error.reason))?;
        let places = [
            ("offset of the map", layout.map_offset, wanted.map_offset),
            ("length of the map", layout.map_bytes, wanted.map_bytes),
            ("offset of the first slot", layout.data_offset, wanted.data_offset),
            ("slots", layout.slots, wanted.slots),
        ];
        if let Some((field, found, wanted)) = places.into_iter().find(|(_, found, wanted)| found != wanted) {
            let reason = format!("it is {found}, and {wanted} by the sizes of device and fragments");
            return Err(FormatError::damaged(field, reason));
        }
        if self.slots_limit > layout.slots {
            let reason = format!("{} are more than the {} slots", self.slots_limit, layout.slots);
            return Err(FormatError::damaged("slots in use", reason));
        }
        for (at, volume) in self.volumes.iter().enumerate() {
            if volume.number >= self.next_volume {
                let reason = format!("{} of volume {} was not given yet", volume.number, volume.name);
                return Err(FormatError::damaged("volume number", reason));
            }
            let before = &self.volumes[..at];
            if before.iter().any(|one| one.number == volume.number || one.id == volume.id) {
                let reason = format!("volume {} has that of another one", volume.name);
                return Err(FormatError::damaged("volume id or number", reason));
            }
        }
        if !self.volumes.is_empty() {
            let geometry = self.config().geometry();
            geometry.map_err(|error| FormatError::damaged(error.parameter, error.reason))?;
        }
        Ok(())
    }

    #[cfg(test)]
    pub(super) fn example() -> Self {
        let empty = Self::new([3; 16], 1 << 40, 1 << 20).expect("sizes that can be used");
        let volumes = (1..=3).map(VolumeEntry::example).collect();
        Self { sequence: 9, epoch: 5, next_volume: 4, host: [8; HOST_BYTES], volumes, ..empty }
    }
}

/// Of a header and the entries behind it.
fn checksum(copy: &[u8]) -> u32 {
    crc32c::crc32c_append(crc32c::crc32c(&copy[..CHECKSUM_AT]), &copy[HEADER_BYTES..])
}

/// The superblock of a cache device, from its two copies.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Superblocks {
    /// The one that counts.
    pub newest: Superblock,
    /// Which of [`SUPERBLOCK_OFFSETS`] is written first when it changes: that which is worth less. The other
    /// one is written when that is durable.
    pub write_first: usize,
}

impl Superblocks {
    /// Looks at the two copies, [`SUPERBLOCK_BYTES_MAX`] bytes each, or as many as the device has; `None` is
    /// one that cannot be read.
    ///
    /// # Errors
    /// If neither is whole: what is wrong with them. A whole one of a newer format is refused by its number
    /// even if the other one could be read.
    pub fn read(copies: [Option<&[u8]>; 2]) -> Result<Self, FormatError> {
        let mut best: Option<Self> = None;
        let mut worst = FormatError::Unrecognised;
        for (place, copy) in copies.into_iter().enumerate() {
            match copy.map_or(Err(FormatError::Unreadable), Superblock::decode) {
                Ok(newest) => {
                    if best.as_ref().is_none_or(|best| best.newest.sequence < newest.sequence) {
                        best = Some(Self { newest, write_first: 1 - place });
                    }
                }
                Err(error @ FormatError::NewerFormat(_)) => return Err(error),
                Err(FormatError::Unrecognised) => {}
                // What cannot be read may be the whole one.
                Err(_) if worst == FormatError::Unreadable => {}
                Err(error) => worst = error,
            }
        }
        best.ok_or(worst)
    }
}

#[cfg(test)]
mod tests;
