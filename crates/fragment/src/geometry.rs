//! From parameters to sizes, and from addresses to fragments and blocks.

use std::ops::Range;

use mezzanine_ground::counters::{STRIPES, Stripe};
use mezzanine_ground::region::{REGION_ALIGNMENT, Word, arrayed};

use crate::config::{BLOCK_BYTES, Config, ConfigError, FRAGMENTS_MAX};
use crate::control::Control;
use crate::descriptor::Descriptor;
use crate::flight::Flight;
use crate::format::{MAP_BLOCK_BYTES, record_bytes};
use crate::ids::{Fragment, Slot};
use crate::map::{MAP_BUFFERS, MapBlock, VolumeFlushes};
use crate::recent::Candidate;
use crate::shard::{Entry, Shard};

arrayed!(Control = 0, Shard = 1, Descriptor = 2, Entry = 3, Flight = 4);

/// Byte offsets of the parts of a region, in order.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Layout {
    pub(crate) control: usize,
    pub(crate) thread_counters: usize,
    pub(crate) shards: usize,
    pub(crate) candidates: usize,
    /// A bit for each block of the memory for copies.
    pub(crate) copies_taken: usize,
    pub(crate) flights: usize,
    pub(crate) entries: usize,
    pub(crate) descriptors: usize,
    pub(crate) validity: usize,
    /// What is known of each block of the map, and of the flushes of each volume.
    pub(crate) map_blocks: usize,
    pub(crate) volume_flushes: usize,
    /// Memory that is copied in and lent out: blocks of the map that are being written, buffers of the
    /// workers, copies of writes.
    pub(crate) map_buffers: usize,
    pub(crate) population: usize,
    pub(crate) copies: usize,
    pub(crate) bytes: usize,
}

/// What a cache's memory is for, in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MemoryUse {
    /// For each fragment that the cache device has room for: descriptor and validity bitmap.
    pub per_cached_fragment: u64,
    /// For each fragment of the volumes: its entry of the table.
    pub per_source_fragment: u64,
    /// The table.
    pub table: u64,
    /// All descriptors and bitmaps.
    pub descriptors: u64,
    /// Buffers of the population workers.
    pub population_buffers: u64,
    /// Copies of writes on their way to the cache device.
    pub copy_buffers: u64,
    /// What is known of those writes.
    pub in_flight: u64,
    /// What is known of flushes of the volumes, and, if there is a map, of its blocks; and those that are
    /// being written.
    pub map: u64,
    /// Locks, counters, candidates, and what alignment takes.
    pub other: u64,
    /// All of it.
    pub total: u64,
}

/// The sizes of a cache: checked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Geometry {
    config: Config,
    slots: u32,
    /// The first fragment of each volume, and the end of the last.
    first_of: Vec<u32>,
    pub(crate) layout: Layout,
}

impl Config {
    /// Checks the parameters and computes all sizes.
    ///
    /// # Errors
    /// Names the parameter that cannot be used, the reason and what to do.
    pub fn geometry(&self) -> Result<Geometry, ConfigError> {
        self.geometry_with(true)
    }

    /// The same without the memory that data lie in: for a cache whose requests are all hollow, and whose
    /// jobs are done without a look at what they carry.
    pub(crate) fn geometry_without_data(&self) -> Result<Geometry, ConfigError> {
        self.geometry_with(false)
    }

    fn geometry_with(&self, data: bool) -> Result<Geometry, ConfigError> {
        self.check()?;
        let slots =
            self.with_records(self.cache_bytes.saturating_sub(self.data_offset) / self.fragment_bytes);
        if slots == 0 {
            let least = self.data_offset.saturating_add(self.fragment_bytes);
            let reason = format!("{} bytes have no room for a fragment", self.cache_bytes);
            let advice = format!("use a cache device of at least {least} bytes, or smaller fragments");
            return Err(ConfigError::new("cache_bytes", reason, advice));
        }
        let too_many = |name, count: u128| {
            let reason = format!("{count} fragments are more than {FRAGMENTS_MAX}");
            Err(ConfigError::new(name, reason, "use larger fragments".into()))
        };
        if slots > FRAGMENTS_MAX {
            return too_many("cache_bytes", slots.into());
        }
        if u64::from(self.slots_limit) > slots {
            let reason =
                format!("{} fragments are more than the {slots} there is room for", self.slots_limit);
            return Err(ConfigError::new("slots_limit", reason, format!("use {slots} at most")));
        }
        let mut first_of = vec![0];
        let mut fragments = 0u128;
        for bytes in &self.volumes {
            fragments += u128::from(bytes.div_ceil(self.fragment_bytes));
            if fragments > FRAGMENTS_MAX.into() {
                return too_many("volumes", fragments);
            }
            first_of.push(fragments as u32);
        }
        self.check_map(slots)?;
        let mut geometry =
            Geometry { config: self.clone(), slots: slots as u32, first_of, layout: Layout::default() };
        geometry.layout = Layout::compute(&geometry, data).ok_or_else(|| {
            let reason = "what has to be in memory is more than this machine can address".to_owned();
            ConfigError::new("cache_bytes", reason, "use larger fragments".into())
        })?;
        Ok(geometry)
    }
}

impl Config {
    /// So many slots, or one fewer if the last would have needed one more block of the map than there is: the
    /// layout of a cache device leaves it out, and its place empty.
    fn with_records(&self, slots: u64) -> u64 {
        let Some(map) = &self.map else { return slots };
        let blocks = self.data_offset.saturating_sub(map.offset) / MAP_BLOCK_BYTES;
        let records = blocks * (MAP_BLOCK_BYTES / record_bytes(self.fragment_bytes));
        if slots == records + 1 { records } else { slots }
    }

    /// Whether the map of so many slots ends before the first of them.
    fn check_map(&self, slots: u64) -> Result<(), ConfigError> {
        let Some(map) = &self.map else {
            return Ok(());
        };
        let blocks = slots.div_ceil(MAP_BLOCK_BYTES / record_bytes(self.fragment_bytes));
        let end = map.offset.saturating_add(blocks * MAP_BLOCK_BYTES);
        if end > self.data_offset {
            let reason = format!("the map of {slots} slots from {} on ends at {end}", map.offset);
            return Err(ConfigError::new("data_offset", reason, format!("use at least {end}")));
        }
        Ok(())
    }
}

impl Layout {
    /// `None` if it is more than an address can name. `data`: with buffers for populations and copies.
    fn compute(geometry: &Geometry, data: bool) -> Option<Self> {
        let config = &geometry.config;
        let mut next = 0usize;
        let mut take = |bytes: usize, alignment: usize| {
            let at = next.checked_next_multiple_of(alignment)?;
            next = at.checked_add(bytes)?;
            (next <= isize::MAX as usize / 2).then_some(at)
        };
        let slots = geometry.slots as usize;
        let copy_blocks = (config.copy_bytes / BLOCK_BYTES) as usize;
        let workers = config.population_workers as usize;
        let data_bytes = |bytes: usize| if data { bytes } else { 0 };
        let mut layout = Self {
            control: take(size_of::<Control>(), 64)?,
            thread_counters: take((STRIPES + 1) * size_of::<Stripe>(), 64)?,
            shards: take(config.shards as usize * size_of::<Shard>(), 64)?,
            candidates: take(config.recent_fragments as usize * size_of::<Candidate>(), 64)?,
            copies_taken: take(copy_blocks.div_ceil(64) * size_of::<Word>(), 64)?,
            flights: take(config.flights as usize * size_of::<Flight>(), 64)?,
            entries: take(geometry.fragments() as usize * size_of::<Entry>(), 64)?,
            descriptors: take(slots.checked_mul(size_of::<Descriptor>())?, 64)?,
            validity: take(slots.checked_mul(geometry.validity_words() * size_of::<Word>())?, 64)?,
            map_blocks: take(geometry.map_blocks() as usize * size_of::<MapBlock>(), 64)?,
            volume_flushes: take(config.volumes.len() * size_of::<VolumeFlushes>(), 64)?,
            map_buffers: take(geometry.map_buffers() * MAP_BLOCK_BYTES as usize, REGION_ALIGNMENT)?,
            population: take(data_bytes(workers * config.fragment_bytes as usize), REGION_ALIGNMENT)?,
            copies: take(data_bytes(config.copy_bytes as usize), REGION_ALIGNMENT)?,
            bytes: 0,
        };
        layout.bytes = next.checked_next_multiple_of(REGION_ALIGNMENT)?;
        Some(layout)
    }
}

/// A part of a request: what of it lies in one fragment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Part {
    pub(crate) fragment: Fragment,
    /// Bytes from the fragment's beginning.
    pub(crate) start: u64,
    pub(crate) end: u64,
}

impl Part {
    /// The blocks that are touched, if only in part.
    pub(crate) fn touched(&self) -> Range<u32> {
        (self.start / BLOCK_BYTES) as u32..self.end.div_ceil(BLOCK_BYTES) as u32
    }

    /// The blocks that are covered whole: none, if the end is not behind the start.
    pub(crate) fn whole(&self) -> Range<u32> {
        self.start.div_ceil(BLOCK_BYTES) as u32..(self.end / BLOCK_BYTES) as u32
    }
}

impl Geometry {
    /// The parameters.
    pub fn config(&self) -> &Config {
        &self.config
    }

    /// Fragments that the cache device has room for.
    pub fn slots(&self) -> u32 {
        self.slots
    }

    /// Fragments that the cache has room for at first.
    pub fn slots_limit(&self) -> u32 {
        if self.config.slots_limit == 0 { self.slots } else { self.config.slots_limit }
    }

    /// Bytes of the cache device that a cache with room for so many fragments needs, from its beginning on.
    pub fn end_of(&self, slots: u32) -> u64 {
        self.slot_offset(Slot(slots))
    }

    /// Fragments of all volumes.
    pub fn fragments(&self) -> u32 {
        self.first_of[self.first_of.len() - 1]
    }

    /// Where on the cache device the first slot begins, in bytes.
    pub fn data_offset(&self) -> u64 {
        self.config.data_offset
    }

    /// Bytes of memory that the cache needs.
    pub fn region_bytes(&self) -> usize {
        self.layout.bytes
    }

    /// What the memory is for.
    pub fn memory(&self) -> MemoryUse {
        let config = &self.config;
        let per_slot = size_of::<Descriptor>() + self.validity_words() * size_of::<Word>();
        let mut memory = MemoryUse {
            per_cached_fragment: per_slot as u64,
            per_source_fragment: size_of::<Entry>() as u64,
            table: size_of::<Entry>() as u64 * u64::from(self.fragments()),
            descriptors: per_slot as u64 * u64::from(self.slots),
            population_buffers: u64::from(config.population_workers) * config.fragment_bytes,
            copy_buffers: config.copy_bytes,
            in_flight: u64::from(config.flights) * size_of::<Flight>() as u64,
            map: (self.map_blocks() as usize * size_of::<MapBlock>()
                + config.volumes.len() * size_of::<VolumeFlushes>()
                + self.map_buffers() * MAP_BLOCK_BYTES as usize) as u64,
            other: 0,
            total: self.layout.bytes as u64,
        };
        let named = memory.table
            + memory.descriptors
            + memory.population_buffers
            + memory.copy_buffers
            + memory.in_flight
            + memory.map;
        memory.other = memory.total - named;
        memory
    }

    /// Where on the cache device the map lies and how long it is, in bytes; `None` without one. It is a
    /// multiple of 4,096 bytes long.
    pub fn map(&self) -> Option<(u64, u64)> {
        let map = self.config.map.as_ref()?;
        Some((map.offset, u64::from(self.map_blocks()) * MAP_BLOCK_BYTES))
    }

    /// Slots whose records lie in one block of the map.
    pub(crate) fn records_per_block(&self) -> u32 {
        (MAP_BLOCK_BYTES / record_bytes(self.config.fragment_bytes)) as u32
    }

    /// Blocks of the map.
    pub(crate) fn map_blocks(&self) -> u32 {
        if self.config.map.is_some() { self.slots.div_ceil(self.records_per_block()) } else { 0 }
    }

    fn map_buffers(&self) -> usize {
        if self.config.map.is_some() { MAP_BUFFERS } else { 0 }
    }

    /// The fragments of a volume.
    pub(crate) fn fragments_of(&self, volume: usize) -> Range<u32> {
        self.first_of[volume]..self.first_of[volume + 1]
    }

    pub(crate) fn validity_words(&self) -> usize {
        (self.config.fragment_bytes / BLOCK_BYTES).div_ceil(u64::BITS.into()) as usize
    }

    /// Blocks of a fragment.
    pub(crate) fn fragment_blocks(&self) -> u32 {
        (self.config.fragment_bytes / BLOCK_BYTES) as u32
    }

    /// Blocks of the memory for copies.
    pub(crate) fn copy_blocks(&self) -> u32 {
        (self.config.copy_bytes / BLOCK_BYTES) as u32
    }

    pub(crate) fn volume_of(&self, fragment: Fragment) -> usize {
        self.first_of.partition_point(|&first| first <= fragment.0) - 1
    }

    /// Bytes of its volume before the fragment.
    pub(crate) fn offset_of(&self, fragment: Fragment) -> u64 {
        u64::from(fragment.0 - self.first_of[self.volume_of(fragment)]) * self.config.fragment_bytes
    }

    /// Blocks of a fragment that can be valid: those that lie in its volume whole.
    pub(crate) fn blocks_of(&self, fragment: Fragment) -> u32 {
        let bytes = self.config.volumes[self.volume_of(fragment)] - self.offset_of(fragment);
        (bytes.min(self.config.fragment_bytes) / BLOCK_BYTES) as u32
    }

    /// Where on the cache device a slot begins.
    pub(crate) fn slot_offset(&self, slot: Slot) -> u64 {
        self.config.data_offset + u64::from(slot.0) * self.config.fragment_bytes
    }

    /// The parts of a request, in order. The request lies in the volume.
    pub(crate) fn parts(&self, volume: usize, offset: u64, bytes: u64) -> impl Iterator<Item = Part> {
        let first = self.first_of[volume];
        let size = self.config.fragment_bytes;
        let (mut at, end) = (offset, offset + bytes);
        std::iter::from_fn(move || {
            (at < end).then(|| {
                let number = at / size;
                let start = at - number * size;
                at = end.min((number + 1) * size);
                Part { fragment: Fragment(first + number as u32), start, end: at - number * size }
            })
        })
    }

    /// Whether a request lies in its volume.
    pub(crate) fn check_request(&self, volume: usize, offset: u64, bytes: u64) -> Result<(), RequestError> {
        let Some(&size) = self.config.volumes.get(volume) else {
            return Err(RequestError::NoVolume { volume, volumes: self.config.volumes.len() });
        };
        match offset.checked_add(bytes) {
            Some(end) if end <= size => Ok(()),
            _ => Err(RequestError::OutOfRange { volume, offset, bytes, size }),
        }
    }
}

/// A request that cannot be carried out; nothing has changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RequestError {
    /// The cache has no such volume.
    NoVolume {
        /// The volume asked for.
        volume: usize,
        /// How many there are.
        volumes: usize,
    },
    /// The request ends behind the volume.
    OutOfRange {
        /// The volume.
        volume: usize,
        /// Where the request begins, in bytes.
        offset: u64,
        /// Its length in bytes.
        bytes: u64,
        /// Size of the volume in bytes.
        size: u64,
    },
}

impl std::fmt::Display for RequestError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::NoVolume { volume, volumes } => {
                write!(f, "volume {volume}: the cache has {volumes}, numbered from 0; name one of those")
            }
            Self::OutOfRange { volume, offset, bytes, size } => write!(
                f,
                "volume {volume}: {bytes} bytes at {offset} end behind its {size} bytes; ask for what lies within"
            ),
        }
    }
}

impl std::error::Error for RequestError {}
