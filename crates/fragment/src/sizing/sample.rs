//! Which fragments are in the sample, and how large a miniature of a cache is.

use crate::config::{BLOCK_BYTES, Config, ConfigError, FRAGMENT_BYTES_MAX, FRAGMENT_BYTES_MIN};
use crate::geometry::Geometry;

use super::numbers::Numbers;
use super::{Miniature, SizingConfig, SizingPoint};

/// 2^64 over the golden ratio. Its multiples are spread so that any run of consecutive numbers has its share
/// of them below a threshold, to one or two (D. E. Knuth, "The Art of Computer Programming" 3, section 6.4).
const GOLDEN: u64 = 0x9e37_79b9_7f4a_7c15;

/// The threshold of a sample of all fragments.
const ALL: u64 = 1 << 32;

/// A miniature of fewer fragments says nothing: if there are so many, so many are in it.
const SLOTS_MIN: u64 = 256;

/// Names a fragment of a volume, of whichever size.
pub(super) fn key(volume: usize, unit: u64) -> u64 {
    (volume as u64) << 44 | unit
}

/// Mixes a key: each bit of it changes about half of all bits.
#[inline(always)]
pub(super) fn hash(key: u64) -> u64 {
    let mixed = (key ^ key >> 31).wrapping_mul(GOLDEN);
    let mixed = (mixed ^ mixed >> 32).wrapping_mul(0xd6e8_feb8_6659_fd93);
    mixed ^ mixed >> 32
}

/// A sample of the fragments of one size: those whose hash is below a threshold (C. A. Waldspurger and
/// others, "Efficient MRC Construction with SHARDS", FAST 2015, section 3.1). The hash keeps an order that
/// spreads neighbours evenly, so that tables and indexes have their share in the sample.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Sample {
    /// Of the size of a fragment, in bits.
    pub(super) shift: u32,
    pub(super) threshold: u64,
}

impl Sample {
    #[inline(always)]
    pub(super) fn has(self, key: u64) -> bool {
        key.wrapping_mul(GOLDEN) >> 32 < self.threshold
    }

    /// Whether one of a request's fragments is in the sample.
    #[inline(always)]
    pub(super) fn touches(self, volume: usize, offset: u64, bytes: u64) -> bool {
        let (first, last) = (offset >> self.shift, (offset + bytes - 1) >> self.shift);
        self.has(key(volume, first)) || (first < last && self.touches_more(volume, first + 1, last))
    }

    #[cold]
    fn touches_more(self, volume: usize, first: u64, last: u64) -> bool {
        (first..=last).any(|unit| self.has(key(volume, unit)))
    }

    /// Its share of all fragments.
    pub(super) fn share(self) -> f64 {
        self.threshold as f64 / ALL as f64
    }
}

/// How large the miniature of a cache is.
#[derive(Clone, Debug)]
pub(super) struct Scale {
    pub(super) point: SizingPoint,
    pub(super) sample: Sample,
    /// Fragments that it has room for.
    pub(super) sampled: u32,
}

impl Scale {
    /// The miniature of a cache: of `most` fragments at most if the cache has `of`, and of no larger a share
    /// than is allowed.
    fn new(point: SizingPoint, most: u64, of: u32, share_max: f64) -> Self {
        let slots = point.cache_bytes / point.fragment_bytes;
        let by_share = ((slots as f64 * share_max).round() as u64).max(SLOTS_MIN);
        // More of more: between as many of each and the same share of each.
        let most = (most as f64 * (slots as f64 / of as f64).sqrt()) as u64;
        let sampled = slots.min(by_share).min(most.max(1));
        let threshold = (u128::from(ALL) * u128::from(sampled)).div_ceil(slots.into()) as u64;
        let sample = Sample { shift: point.fragment_bytes.trailing_zeros(), threshold };
        Self { point, sample, sampled: sampled as u32 }
    }

    /// Numbers of the miniature: what is in it or a candidate, and a quarter more, so that it is not looked
    /// through too often for those that are free.
    pub(super) fn numbers(&self, candidates: u32) -> u32 {
        let kept = self.sampled + candidates + 2;
        kept + (kept / 4).max(16)
    }

    /// The configuration of the miniature: what the cache itself has, in proportion.
    pub(super) fn config(&self, cache: &Config) -> Config {
        let recent = candidates(cache.recent_fragments, self.sample.share());
        let bytes = self.point.fragment_bytes;
        Config {
            fragment_bytes: bytes,
            cache_bytes: u64::from(self.sampled) * bytes,
            data_offset: 0,
            slots_limit: 0,
            volumes: vec![u64::from(self.numbers(recent)) * bytes],
            recent_fragments: recent,
            copy_bytes: bytes,
            // One request at a time, of one fragment.
            flights: (bytes / BLOCK_BYTES).div_ceil(64) as u32,
            shards: 1,
            map: None,
            ..cache.clone()
        }
    }

    /// Bytes of memory that the miniature takes.
    fn bytes(&self, cache: &Config) -> Result<u64, ConfigError> {
        let geometry = self.config(cache).geometry_without_data()?;
        Ok(Miniature::bytes(&geometry) + Numbers::bytes(geometry.fragments()))
    }
}

/// Candidates of a miniature. In proportion they would be too few to choose the hottest from; as many as the
/// cache has would keep their heat for longer. In between the two errors are about the same.
fn candidates(recent: u32, share: f64) -> u32 {
    ((f64::from(recent) * share.powf(2.0 / 3.0)).round() as u32).max(1)
}

/// The miniatures of all points: as large as memory allows.
pub(super) fn scales(config: &SizingConfig, geometry: &Geometry) -> Result<Vec<Scale>, ConfigError> {
    let cache = geometry.config();
    let with = |most: u64| -> Result<(Vec<Scale>, u64), ConfigError> {
        let all: Vec<Scale> = config
            .points
            .iter()
            .map(|point| Scale::new(*point, most, geometry.slots_limit(), config.share_max))
            .collect();
        let bytes = bytes(&all, cache)?;
        Ok((all, bytes))
    };
    // More would be a GiB.
    let (mut fits, mut not) = (0, 1 << 24);
    while not - fits > 1 {
        let most = (fits + not) / 2;
        if with(most)?.1 <= config.memory_bytes { fits = most } else { not = most }
    }
    if fits == 0 {
        let least = with(1)?.1;
        let reason =
            format!("{} bytes have no room for {} miniatures", config.memory_bytes, config.points.len());
        return Err(ConfigError::new("sizing.memory_bytes", reason, format!("use at least {least}")));
    }
    Ok(with(fits)?.0)
}

/// Half, the whole, twice and four times the room that a cache has, and the other sizes of fragments: those
/// that have room for a fragment.
pub(super) fn points(geometry: &Geometry) -> Vec<SizingPoint> {
    let fragment_bytes = geometry.config().fragment_bytes;
    let room = u64::from(geometry.slots_limit()) * fragment_bytes;
    let sizes = [room / 2, room, room.saturating_mul(2), room.saturating_mul(4)];
    let of_sizes = sizes.map(|cache_bytes| SizingPoint { cache_bytes, fragment_bytes });
    let fragments =
        (FRAGMENT_BYTES_MIN.trailing_zeros()..=FRAGMENT_BYTES_MAX.trailing_zeros()).map(|bits| 1 << bits);
    let others = fragments.filter(|bytes| *bytes != fragment_bytes);
    let of_fragments = others.map(|fragment_bytes| SizingPoint { cache_bytes: room, fragment_bytes });
    let all = of_sizes.into_iter().chain(of_fragments);
    all.filter(|point| point.cache_bytes >= point.fragment_bytes).collect()
}

/// Bytes of memory that the miniatures take.
pub(super) fn bytes(scales: &[Scale], cache: &Config) -> Result<u64, ConfigError> {
    scales.iter().try_fold(0, |bytes, scale| Ok(bytes + scale.bytes(cache)?))
}
