//! Model files: what they say, and what is refused.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use serde::{Deserialize, Serialize};

use super::array::DISKS_MAX;
use crate::{DeviceError, DeviceErrorKind};

/// A drive: what it is called, where its figures come from, and how its operations take their time.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Model {
    /// The name to ask for it by.
    pub name: String,
    /// What it is, for people.
    pub title: String,
    /// Where the figures come from as a whole.
    pub source: String,
    /// Addressable bytes.
    pub capacity_bytes: u64,
    /// Whether a write that has completed can be lost by a power cut before a flush.
    pub volatile_cache: bool,
    /// What was published or measured, and has to come out of the model again.
    pub figures: Figures,
    /// How operations take their time.
    pub mechanism: Mechanism,
    /// Source of each figure and parameter, by key.
    pub sources: BTreeMap<String, String>,
}

/// A model as its file says it: one of the kinds as a table of that name.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ModelFile {
    name: String,
    title: String,
    source: String,
    capacity_bytes: u64,
    volatile_cache: bool,
    figures: Figures,
    drive: Option<TableParameters>,
    hdd: Option<DiskParameters>,
    ssd: Option<toml::Table>,
    sources: BTreeMap<String, String>,
}

/// Throughput figures of a drive, as data sheets and papers print them.
#[derive(Debug, Clone, PartialEq, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Figures {
    /// Random reads per second.
    pub read_random_iops: f64,
    /// Random writes per second in steady state.
    pub write_random_iops: f64,
    /// Sequential reading in 10^6 bytes per second.
    pub read_sequential_mb_per_s: f64,
    /// Sequential writing in 10^6 bytes per second.
    pub write_sequential_mb_per_s: f64,
    /// Size of the random requests in bytes.
    pub random_request_bytes: u64,
    /// Size of the sequential requests in bytes.
    pub sequential_request_bytes: u64,
    /// Requests in flight while measuring.
    pub queue_depth: u32,
}

/// The kinds of model.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Mechanism {
    /// Costs computed from a table of figures.
    Drive(TableParameters),
    /// Moving heads over turning platters, one spindle or several in RAID-0.
    Hdd(DiskParameters),
    /// A flash drive from the inside, whose parameters another crate reads and whose times it computes.
    Ssd(toml::Table),
}

/// How the cost of an operation and the cost of its bytes add up in a table-driven drive.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum CostRule {
    /// Random operations cost a fixed amount and their bytes; sequential ones only their bytes.
    Sum,
    /// Every operation costs the larger of the two, as with the two limits of a rented volume.
    Larger,
}

/// Parameters of a table-driven drive beyond its [`Figures`].
#[derive(Debug, Clone, PartialEq, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct TableParameters {
    /// Time of a lone random read of the stated size.
    pub read_latency_us_min: f64,
    /// Time of a lone random write of the stated size.
    pub write_latency_us_min: f64,
    /// Time of a flush of an idle drive.
    pub flush_us: f64,
    /// Whether a flush waits for everything in flight and holds up everything after it, as on SATA.
    pub flush_drains_queue: bool,
    /// How the costs add up.
    pub cost: CostRule,
}

/// Parameters of a disk or of a RAID-0 of equal disks. Seeks take `track + stroke * sqrt(distance)`, the
/// distance as a fraction of the full stroke.
#[derive(Debug, Clone, PartialEq, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct DiskParameters {
    /// Number of disks.
    pub disks: u32,
    /// Bytes on one disk before the next one is used.
    pub stripe_bytes: u64,
    /// Time of one revolution.
    pub revolution_ms: f64,
    /// Constant part of a read seek.
    pub read_seek_track_ms: f64,
    /// Part of a read seek that grows with the distance.
    pub read_seek_stroke_ms: f64,
    /// Constant part of a write seek, which settles longer.
    pub write_seek_track_ms: f64,
    /// Part of a write seek that grows with the distance.
    pub write_seek_stroke_ms: f64,
    /// Media rate of one disk while reading, in 10^6 bytes per second.
    pub read_media_mb_per_s: f64,
    /// Media rate of one disk while writing, in 10^6 bytes per second.
    pub write_media_mb_per_s: f64,
    /// Time the disk needs to choose and start a read when several requests wait.
    pub read_choice_ms: f64,
    /// The same for a write.
    pub write_choice_ms: f64,
    /// How many of its oldest waiting reads a disk chooses from.
    pub read_window: u32,
    /// How many of its oldest waiting writes a disk chooses from.
    pub write_window: u32,
    /// By how much waiting counts against a longer access: 0 = shortest access first without aging.
    pub aging: f64,
    /// Bytes of the volatile write cache of one disk; 0 = writes complete on the medium.
    pub write_cache_bytes: u64,
    /// Time of a flush when nothing is cached.
    pub flush_ms: f64,
    /// Limit of all disks together while reading, in 10^6 bytes per second.
    pub array_read_mb_per_s_max: Option<f64>,
    /// Limit of all disks together while writing, in 10^6 bytes per second.
    pub array_write_mb_per_s_max: Option<f64>,
}

impl Model {
    /// Reads a model file.
    ///
    /// # Errors
    /// Those of reading the file; `InvalidModel` with the line or the key that is wrong.
    pub fn load(path: impl AsRef<Path>) -> Result<Self, DeviceError> {
        let path = path.as_ref();
        let text = fs::read_to_string(path)
            .map_err(|error| DeviceError::from_io("read", path.display().to_string(), error))?;
        Self::from_toml(&text, &path.display().to_string())
    }

    /// Reads a model from text; `origin` names it in errors.
    ///
    /// # Errors
    /// `InvalidModel` with the line or the key that is wrong.
    pub fn from_toml(text: &str, origin: &str) -> Result<Self, DeviceError> {
        let invalid = |reason: String| {
            let device = format!("the drive model {origin}");
            DeviceError::new(DeviceErrorKind::InvalidModel, "use", device).advise(reason)
        };
        let file: ModelFile = toml::from_str(text).map_err(|error| invalid(error.to_string()))?;
        let mechanism = match (file.drive, file.hdd, file.ssd) {
            (Some(parameters), None, None) => Mechanism::Drive(parameters),
            (None, Some(parameters), None) => Mechanism::Hdd(parameters),
            (None, None, Some(parameters)) => Mechanism::Ssd(parameters),
            _ => {
                let reason = "it needs exactly one of the tables [drive], [hdd] and [ssd]";
                return Err(invalid(reason.to_string()));
            }
        };
        let model = Self {
            name: file.name,
            title: file.title,
            source: file.source,
            capacity_bytes: file.capacity_bytes,
            volatile_cache: file.volatile_cache,
            figures: file.figures,
            mechanism,
            sources: file.sources,
        };
        model.validate().map_err(invalid)?;
        Ok(model)
    }

    /// The same disks in another number: capacity, limits and figures grow with it.
    ///
    /// # Errors
    /// `InvalidModel` if this is no array of disks or the number is out of range.
    pub fn with_disks(mut self, disks: u32) -> Result<Self, DeviceError> {
        let invalid = |name: &str, reason: String| {
            let device = format!("the drive model {name}");
            Err(DeviceError::new(DeviceErrorKind::InvalidModel, "use", device).advise(reason))
        };
        let Mechanism::Hdd(parameters) = &mut self.mechanism else {
            return invalid(&self.name, "only a model of disks can be made into an array".to_string());
        };
        if disks == 0 || disks as usize > DISKS_MAX {
            return invalid(&self.name, format!("an array has 1 to {DISKS_MAX} disks"));
        }
        let before = parameters.disks;
        let factor = f64::from(disks) / f64::from(before);
        parameters.disks = disks;
        for limit in [&mut parameters.array_read_mb_per_s_max, &mut parameters.array_write_mb_per_s_max] {
            *limit = limit.map(|limit| limit * factor);
        }
        self.capacity_bytes = self.capacity_bytes / u64::from(before) * u64::from(disks);
        let figures = &mut self.figures;
        figures.read_random_iops *= factor;
        figures.write_random_iops *= factor;
        figures.read_sequential_mb_per_s *= factor;
        figures.write_sequential_mb_per_s *= factor;
        figures.queue_depth = (f64::from(figures.queue_depth) * factor).round().max(1.0) as u32;
        self.title = format!("RAID-0 of {disks}, each as in: {}", self.title);
        self.name = format!("{}-x{disks}", self.name.trim_end_matches(&format!("-x{before}")));
        Ok(self)
    }

    /// Spindles or channels that work at the same time: what utilisation is a share of.
    pub fn servers(&self) -> u32 {
        match &self.mechanism {
            Mechanism::Drive(_) | Mechanism::Ssd(_) => 1,
            Mechanism::Hdd(parameters) => parameters.disks,
        }
    }

    /// A number that differs between models that time operations differently.
    pub fn fingerprint(&self) -> u64 {
        let text = format!("{:?} {:?} {}", self.figures, self.mechanism, self.capacity_bytes);
        // FNV-1a: stable across builds, which the standard library's hashers do not promise.
        text.bytes().fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
            (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3)
        })
    }

    fn validate(&self) -> Result<(), String> {
        let figures = &self.figures;
        positive("read_random_iops", figures.read_random_iops)?;
        positive("write_random_iops", figures.write_random_iops)?;
        positive("read_sequential_mb_per_s", figures.read_sequential_mb_per_s)?;
        positive("write_sequential_mb_per_s", figures.write_sequential_mb_per_s)?;
        positive("random_request_bytes", figures.random_request_bytes as f64)?;
        positive("sequential_request_bytes", figures.sequential_request_bytes as f64)?;
        positive("queue_depth", f64::from(figures.queue_depth))?;
        positive("capacity_bytes", self.capacity_bytes as f64)?;
        match &self.mechanism {
            Mechanism::Drive(parameters) => parameters.validate(figures),
            Mechanism::Hdd(parameters) => parameters.validate(self.capacity_bytes),
            // By who computes its times.
            Mechanism::Ssd(_) => Ok(()),
        }
    }
}

fn positive(key: &str, value: f64) -> Result<(), String> {
    if value.is_finite() && value > 0.0 && value < 1e18 {
        Ok(())
    } else {
        Err(format!("{key} must be above 0, not {value}"))
    }
}

fn not_negative(key: &str, value: f64) -> Result<(), String> {
    if value.is_finite() && (0.0..1e9).contains(&value) {
        Ok(())
    } else {
        Err(format!("{key} must not be negative nor beyond reason, not {value}"))
    }
}

impl TableParameters {
    fn validate(&self, figures: &Figures) -> Result<(), String> {
        not_negative("read_latency_us_min", self.read_latency_us_min)?;
        not_negative("write_latency_us_min", self.write_latency_us_min)?;
        not_negative("flush_us", self.flush_us)?;
        let bytes = figures.random_request_bytes as f64;
        let checks = [
            ("read", figures.read_random_iops, figures.read_sequential_mb_per_s, self.read_latency_us_min),
            (
                "write",
                figures.write_random_iops,
                figures.write_sequential_mb_per_s,
                self.write_latency_us_min,
            ),
        ];
        for (word, iops, mb_per_s, latency_us) in checks {
            if iops * bytes > mb_per_s * 1e6 {
                return Err(format!("{word}_random_iops exceeds what {word}_sequential_mb_per_s can carry"));
            }
            if f64::from(figures.queue_depth) * 1e6 < iops * latency_us {
                return Err(format!(
                    "{word}_random_iops is out of reach with this queue_depth and {word}_latency_us_min"
                ));
            }
        }
        Ok(())
    }
}

impl DiskParameters {
    fn validate(&self, capacity_bytes: u64) -> Result<(), String> {
        if self.disks == 0 || self.disks as usize > DISKS_MAX {
            return Err(format!("disks must be from 1 to {DISKS_MAX}, not {}", self.disks));
        }
        if self.stripe_bytes == 0 || self.stripe_bytes > capacity_bytes / u64::from(self.disks) {
            return Err("stripe_bytes must be above 0 and at most the capacity of a disk".to_string());
        }
        positive("revolution_ms", self.revolution_ms)?;
        positive("read_media_mb_per_s", self.read_media_mb_per_s)?;
        positive("write_media_mb_per_s", self.write_media_mb_per_s)?;
        positive("read_window", f64::from(self.read_window))?;
        positive("write_window", f64::from(self.write_window))?;
        for (key, value) in [
            ("read_seek_track_ms", self.read_seek_track_ms),
            ("read_seek_stroke_ms", self.read_seek_stroke_ms),
            ("write_seek_track_ms", self.write_seek_track_ms),
            ("write_seek_stroke_ms", self.write_seek_stroke_ms),
            ("read_choice_ms", self.read_choice_ms),
            ("write_choice_ms", self.write_choice_ms),
            ("aging", self.aging),
            ("flush_ms", self.flush_ms),
        ] {
            not_negative(key, value)?;
        }
        for (key, limit) in [
            ("array_read_mb_per_s_max", self.array_read_mb_per_s_max),
            ("array_write_mb_per_s_max", self.array_write_mb_per_s_max),
        ] {
            limit.map_or(Ok(()), |limit| positive(key, limit))?;
        }
        Ok(())
    }
}
