//! The page engine on flash that does what drives do when their power is cut, each anomaly by itself.
//!
//! Invariants checked: a page reads as a version from the last one that was synced to the last one issued, or
//! it is an error; what was read after a start does not go back. With drives that reorder, tear or corrupt
//! what was under way nothing is an error. A drive that lies about flushes must be seen to lose in silence,
//! or this test is blind.
#![allow(clippy::unwrap_used, dead_code, unreachable_pub)]

use std::path::Path;
use std::rc::Rc;
use std::sync::Arc;

use drive::{SsdDevice, UNIT};
use mezzanine_device::memory::{MemoryDevice, Power};
use mezzanine_engine::{Admission, Design, PolicyParameters, SyncMode, TierConfig};
use mezzanine_ground::random::Random;
use mezzanine_ssd::{
    Anomaly, CacheConfig, CacheKind, Collection, CollectionFrontier, CollectionPace, FlushRule, FlushTime,
    FtlConfig, Geometry, HostConfig, NandTimings, PowerLossConfig, Ssd, SsdConfig,
};
use mezzanine_volume::{AttachOptions, Volume, VolumeConfig, VolumeError, VolumeErrorKind, VolumeFile};

use powered::PoweredSidecar;

mod drive;
#[path = "../../../volume/tests/common/powered.rs"]
mod powered;

const PAGES: u64 = 60;

/// What the drive is called in errors.
const NAME: &str = "the flash of this world";

/// A volatile drive of at least so many bytes.
fn flash(random: &mut Random, bytes: u64, drive: &Drive) -> Ssd {
    let units_per_page = *random.pick(&[1, 2]);
    let mut config = SsdConfig {
        capacity_bytes: bytes.next_multiple_of(UNIT as u64),
        geometry: Geometry {
            channels: 2,
            packages_per_channel: 1,
            chips_per_package: random.between(1, 2) as u32,
            planes_per_chip: 1,
            blocks_per_plane: 6,
            pages_per_block: *random.pick(&[4, 8]),
            page_bytes: UNIT as u32 * units_per_page,
            unit_bytes: UNIT as u32,
            paired_distance: drive.paired_distance,
        },
        timings: NandTimings { read_us: 50.0, program_us: 900.0, erase_us: 3500.0, channel_mb_per_s: 200.0 },
        ftl: FtlConfig {
            collection: Collection::Greedy,
            collection_frontier: CollectionFrontier::Separate,
            collection_pace: CollectionPace::Incremental,
            reserve_blocks_per_plane: 3,
            streams: 1,
            dirty_entries_max: 2048,
            journal: true,
            wear_gap_max: 0,
            endurance_erases: u32::MAX,
            bad_blocks_per_thousand: 0,
            backs_up_paired_pages: drive.backs_up,
        },
        cache: CacheConfig {
            kind: CacheKind::Volatile,
            buffer_bytes: UNIT as u64 * random.between(4, 64),
            flush: FlushRule::Drain,
            flush_us: FlushTime::Same(100.0),
            dump: None,
            reads_take_frames: false,
        },
        host: HostConfig {
            queue_depth: 32,
            ordered: false,
            link_mb_per_s: 550.0,
            command_us: 3.0,
            write_unit_us: 1.0,
            latency_us: 20.0,
        },
        power_loss: Some(PowerLossConfig { anomalies: drive.anomalies.to_vec() }),
    };
    while config.capacity_units_max() < config.capacity_bytes / UNIT as u64 {
        config.geometry.blocks_per_plane += 1;
    }
    Ssd::new(config).unwrap().named(NAME)
}

/// What is asked of the flash.
#[derive(Debug, Clone, Copy)]
struct Drive {
    anomalies: &'static [Anomaly],
    paired_distance: u32,
    backs_up: bool,
    /// Of so many operations of the host one is a sync.
    sync_one_in: u64,
}

impl Drive {
    const fn with(anomalies: &'static [Anomaly]) -> Self {
        Self { anomalies, paired_distance: 0, backs_up: false, sync_one_in: 12 }
    }
}

/// What has ended the lives of worlds.
#[derive(Debug, Default)]
struct Ends {
    cuts: u64,
    /// Units that were not as they had been written at a start.
    damaged: u64,
    /// Nothing, in all of its cuts.
    survived: u64,
    /// An error that says what is not to be had.
    told: u64,
    /// A page that is wrong, and passes for right.
    silent: u64,
    /// What was said last.
    last_told: String,
}

/// Why a life has ended.
#[derive(Debug)]
enum End {
    Told(VolumeError),
    Silent(String),
}

struct World {
    power: Power,
    flash: Arc<SsdDevice>,
    disk: Arc<MemoryDevice>,
    sidecar: Arc<PoweredSidecar>,
    config: VolumeConfig,
    tears: bool,
    random: Random,
    /// Per page: what it may be, the oldest first; the last one is what it is without a cut.
    versions: Vec<Vec<Rc<[u8]>>>,
    next: u64,
    sync_one_in: u64,
}

fn page_of(version: u64, block: u64) -> Rc<[u8]> {
    let word = if version == 0 { 0 } else { version << 16 | block };
    word.to_le_bytes().iter().copied().cycle().take(UNIT).collect()
}

fn name_of(page: &[u8]) -> String {
    let mut words: Vec<u64> =
        page.chunks_exact(8).map(|word| u64::from_le_bytes(word.try_into().unwrap())).collect();
    words.dedup();
    words.iter().map(|word| format!("{}.{} ", word >> 16, word & 0xFFFF)).collect()
}

impl World {
    fn new(seed: u64, drive: &Drive) -> Self {
        let mut random = Random::new(seed);
        let design = *random.pick(&[Design::FaceBasic, Design::FaceGr, Design::FaceGsc, Design::Lc]);
        let tier = TierConfig {
            group_pages: 4,
            staging_groups: 3,
            segment_frames: 12,
            shards: 4,
            survivors_max: 2,
            band_frames: 8,
            design,
            admission: *random.pick(&[Admission::Both, Admission::Dirty]),
            sync_mode: SyncMode::Durable,
            policy: PolicyParameters::default(),
            ..TierConfig::new(UNIT as u32, 104)
        };
        let geometry = tier.geometry().unwrap();
        let power = Power::new();
        let ssd = flash(&mut random, geometry.flash_bytes(), drive);
        let flash = Arc::new(SsdDevice::new(ssd, &power, seed));
        let config = VolumeConfig { workers: 0, identity_seed: Some(seed), ..VolumeConfig::new(tier) };
        Volume::format(&*flash, &config, false).unwrap();
        Self {
            disk: Arc::new(MemoryDevice::on(&power, "disk", 0, true)),
            sidecar: Arc::new(PoweredSidecar::new(&power, seed ^ 1)),
            tears: geometry.provably_clean(),
            flash,
            power,
            config,
            random,
            versions: vec![vec![page_of(0, 0)]; PAGES as usize],
            next: 1,
            sync_one_in: drive.sync_one_in,
        }
    }

    fn open(&self) -> Result<(Volume, VolumeFile), VolumeError> {
        let volume = Volume::open(self.flash.clone(), self.config.clone())?;
        let (disk, sidecar) = (self.disk.clone(), self.sidecar.clone());
        let file = volume.attach(Path::new("a"), disk, sidecar, AttachOptions::default())?;
        Ok((volume, file))
    }

    /// Opens after a cut, reads everything, and makes what was read the base of what may be read later.
    fn check(&mut self) -> Result<(), End> {
        let (volume, file) = self.open().map_err(End::Told)?;
        volume.check();
        for block in 0..PAGES {
            let found = read(&file, block).map_err(End::Told)?;
            let versions = &mut self.versions[block as usize];
            let whole = versions.iter().any(|version| **version == *found);
            let torn = self.tears
                && found.chunks_exact(512).enumerate().all(|(at, sector)| {
                    versions.iter().any(|version| version[at * 512..(at + 1) * 512] == *sector)
                });
            if !whole && !torn {
                let known: Vec<String> = versions.iter().map(|version| name_of(version)).collect();
                return Err(End::Silent(format!("page {block} is {}, none of {known:?}", name_of(&found))));
            }
            *versions = vec![found.into()];
        }
        Ok(())
    }

    fn operate(&mut self, volume: &Volume, file: &VolumeFile) -> Result<(), End> {
        let block = self.random.below(PAGES);
        match self.random.below(22) {
            _ if self.random.chance(1, self.sync_one_in) => {
                file.sync().map_err(End::Told)?;
                for versions in &mut self.versions {
                    *versions = vec![versions.last().unwrap().clone()];
                }
                Ok(())
            }
            0..=15 => {
                let version = self.next;
                self.next += 1;
                self.versions[block as usize].push(page_of(version, block));
                file.write_at(&page_of(version, block), block * UNIT as u64).map_err(End::Told)
            }
            16..=18 => {
                let found = read(file, block).map_err(End::Told)?;
                let version = self.versions[block as usize].last().unwrap();
                if *found == **version {
                    return Ok(());
                }
                Err(End::Silent(format!("page {block} is {} before a cut", name_of(&found))))
            }
            _ => {
                volume.step();
                Ok(())
            }
        }
    }

    /// Uses the volume until power fails.
    fn live(&mut self) -> Result<(), End> {
        let (volume, file) = self.open().map_err(End::Told)?;
        for _ in 0..self.random.between(1, 600) {
            self.operate(&volume, &file)?;
        }
        Ok(())
    }

    /// Lives through a cut, and starts again. Whether power may fail in the start too.
    fn cut(&mut self) -> Result<(), End> {
        self.power.crash_after(self.random.magnitude(1200) + 1);
        self.unless_power_failed(Self::live)?;
        let mut again = self.random.below(3);
        loop {
            self.flash.lose_power();
            self.disk.power_cut(self.random.next_u64());
            self.power.restore();
            if again == 0 {
                return self.check();
            }
            again -= 1;
            self.power.crash_after(self.random.magnitude(60) + 1);
            self.unless_power_failed(Self::check)?;
        }
    }

    /// Without power everything is an error.
    fn unless_power_failed(&mut self, work: impl FnOnce(&mut Self) -> Result<(), End>) -> Result<(), End> {
        match work(self) {
            Err(End::Told(_)) if !self.power.is_on() => Ok(()),
            other => other,
        }
    }
}

/// What is past the end counts as zeros.
fn read(file: &VolumeFile, block: u64) -> Result<Vec<u8>, VolumeError> {
    let mut found = vec![0; UNIT];
    match file.read_at(&mut found, block * UNIT as u64) {
        Err(error) if !matches!(error.kind(), VolumeErrorKind::ShortRead { .. }) => Err(error),
        _ => Ok(found),
    }
}

/// Worlds on such drives, each through six cuts or to its first loss.
fn worlds(count: u64, drive: &Drive) -> Ends {
    let mut ends = Ends::default();
    for seed in 0..count {
        let mut world = World::new(seed, drive);
        let mut lived = Ok(());
        for _ in 0..6 {
            ends.cuts += 1;
            lived = world.cut();
            if lived.is_err() {
                break;
            }
        }
        ends.damaged += world.flash.damaged();
        match lived {
            Ok(()) => ends.survived += 1,
            Err(End::Told(error)) => {
                ends.told += 1;
                ends.last_told = format!("{error}");
            }
            Err(End::Silent(what)) => {
                println!("{drive:?}, seed {seed}: {what}");
                ends.silent += 1;
            }
        }
    }
    println!("{drive:?}: {ends:?}");
    ends
}

#[test]
fn a_drive_in_order_and_anomalies_of_what_was_not_flushed_cost_nothing() {
    let drives: [&[Anomaly]; 5] = [
        &[],
        &[Anomaly::Reordered],
        &[Anomaly::Shorn],
        &[Anomaly::BitCorruption],
        &[Anomaly::Reordered, Anomaly::Shorn],
    ];
    for anomalies in drives {
        let ends = worlds(150, &Drive::with(anomalies));
        assert_eq!(ends.survived, 150, "{anomalies:?}: {ends:?}");
        let does_damage = anomalies.iter().any(|anomaly| *anomaly != Anomaly::Reordered);
        assert_eq!(ends.damaged > 50, does_damage, "{anomalies:?}: {ends:?}");
    }
}

#[test]
fn what_a_corrupt_map_has_lost_is_told() {
    // A map is soon up to date again where syncs are frequent.
    let ends = worlds(300, &Drive { sync_one_in: 100, ..Drive::with(&[Anomaly::CorruptMap]) });
    assert!(ends.told > 0 && ends.silent == 0, "{ends:?}");
}

#[test]
fn a_dead_drive_is_told_by_its_name() {
    let ends = worlds(150, &Drive::with(&[Anomaly::Dead]));
    assert!(ends.told > 0 && ends.silent == 0, "{ends:?}");
    assert!(ends.last_told.contains(NAME) && ends.last_told.contains("is dead"), "{}", ends.last_told);
}

#[test]
fn pages_that_were_taken_along_are_told() {
    for paired_distance in [1, 2] {
        let drive = Drive { paired_distance, ..Drive::with(&[Anomaly::Reordered]) };
        let ends = worlds(150, &drive);
        assert!(ends.told > 10 && ends.silent == 0, "{ends:?}");
        let ends = worlds(60, &Drive { backs_up: true, ..drive });
        assert_eq!(ends.survived, 60, "copied before: {ends:?}");
    }
}

#[test]
fn a_drive_that_lies_about_flushes_is_seen_to_lose_in_silence() {
    let ends = worlds(60, &Drive::with(&[Anomaly::Lost]));
    assert!(ends.silent > 3, "{ends:?}");
}
