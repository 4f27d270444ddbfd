//! What one world is like, drawn from its seed.

use mezzanine_device::Zones;
use mezzanine_engine::format::Age;
use mezzanine_engine::{SyncMode, TierConfig};
use mezzanine_ground::random::Random;

use super::places::Space;
use crate::crash::driver::ages;
use crate::crash::driver::tiers::{self, Wanted};
use crate::crash::driver::weights::weights;
use crate::crash::driver::{Drive, Feature, Focus, Terms};

/// Makes the seed of a draw of its own.
const DRAINS_EARLY: u64 = 0x6561_726c_7900;

/// The sync modes of a tier below a log, as often as they are drawn.
pub(crate) const SYNC_MODES: [SyncMode; 5] =
    [SyncMode::Durable, SyncMode::Durable, SyncMode::Drained, SyncMode::Drained, SyncMode::Through];

/// What protects pages of the disk that a power cut tears.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Tearing {
    /// The disk writes whole pages or nothing.
    AtomicDisk,
    /// The first change of a page after a redo pointer is logged as an image of the page.
    FullPageImages,
    /// Nothing but the tier, which keeps each dirty page until its disk copy is synced.
    TierAlone,
}

/// The configuration of one world.
#[derive(Debug, Clone)]
pub struct Scenario {
    /// The seed.
    pub seed: u64,
    /// The tier's configuration.
    pub tier: TierConfig,
    /// What pages there can be.
    pub space: Space,
    /// Pages that the pool holds.
    pub buffers: usize,
    /// Of 16 victims, how many are the least recently used page; the others are any.
    pub lru_share: u64,
    /// Places that take most of the accesses.
    pub places_hot: u32,
    /// Of 16 accesses, how many go to them.
    pub hot_share: u64,
    /// What protects torn pages.
    pub tearing: Tearing,
    /// How often each operation is drawn.
    pub weights: Weights,
    /// How many processes carry out jobs.
    pub owners: u32,
    /// The most jobs under way at once.
    pub jobs_max: usize,
    /// Of 16 times that a job could be taken further, how often it is left where it is.
    pub patience: u64,
    /// Whether a checkpoint's drain begins with the checkpoint already, beside the one at its end.
    pub drains_early: bool,
    /// Whether the tier may ask for pages from the tail of the pool.
    pub pulling: bool,
    /// The most device operations before a power cut.
    pub cut_after_max: u64,
    /// Of 16 recoveries, after how many every page is read and checked at once.
    pub full_checks: u64,
    /// Whether other flash devices are put in the place of the right one now and then.
    pub swaps: bool,
    /// Whether requests to resize the queue that are drawn are carried out. If not, all else stays what it
    /// was.
    pub resizes: bool,
    /// The same of switches of the sync mode, and of stops and starts of admission.
    pub switches: bool,
    /// How far the numbers of every new tier have come, if not nowhere.
    pub age: Option<Age>,
    /// Whether devices report errors now and then. The database stops then, and starts again.
    pub errors: bool,
    /// Whether others go on while somebody waits for a device. In every world that is drawn they do.
    pub interruptions: bool,
    /// Whether a flush is now and then reported and not done. Never drawn: no software survives that, and a
    /// world that finds nothing wrong with it is blind.
    pub lying_flushes: bool,
    /// What is asked of every policy that is drawn.
    pub focus: Focus,
    /// The zones of the flash device, if it has some.
    pub zones: Option<Zones>,
    /// The drives behind flash and disk, if they are modelled from the inside.
    pub drives: Option<[Drive; 2]>,
}

weights! {
    change "Changes of one page, each a record of the log.",
    read "Reads of one page.",
    commit "Ends of transactions.",
    write_log "The log handed to the operating system in the background.",
    evict "Evictions for no reason.",
    work "Carrying out a part of one job.",
    settle "Carrying out jobs until there are none.",
    checkpoint "Steps of a checkpoint.",
    drop "Drops of anything.",
    load "Loads of a relation without a log.",
    admission "Stops and starts of admission.",
    death "Deaths of a process that carries out jobs.",
    resize "Requests to grow or shrink the queue.",
    switch "Switches of the sync mode.",
}

impl Weights {
    fn draw(random: &mut Random) -> Self {
        Self {
            change: *random.pick(&[20, 50, 90]),
            read: *random.pick(&[5, 30, 90]),
            commit: *random.pick(&[1, 5, 20]),
            write_log: random.between(0, 5),
            evict: random.between(0, 10),
            work: *random.pick(&[0, 5, 20, 60]),
            settle: random.between(0, 3),
            checkpoint: *random.pick(&[2, 10, 30]),
            drop: random.between(0, 4),
            load: random.between(0, 2),
            admission: random.below(2),
            death: random.below(2),
            resize: random.between(0, 4),
            switch: random.below(2),
        }
    }
}

impl Scenario {
    /// The world of `seed`.
    pub fn draw(seed: u64) -> Self {
        Self::draw_in(seed, Focus::default())
    }

    /// The world of `seed` on these terms.
    pub fn draw_on(seed: u64, terms: &Terms) -> Self {
        let mut scenario = Self::draw_in(seed, terms.focus);
        terms.without.iter().for_each(|feature| scenario.leave_out(*feature));
        scenario
    }

    /// Whether there is anything that [`Self::leave_out`] could leave out.
    pub(crate) fn has(&self, feature: Feature) -> bool {
        match feature {
            Feature::Owners => self.owners > 1,
            Feature::Swaps => self.swaps,
            Feature::Pulling => self.pulling,
            Feature::Errors => self.errors,
            Feature::Resizes => self.resizes && self.weights.resize > 0,
            Feature::Switches => self.switches && self.weights.switch + self.weights.admission > 0,
            Feature::Ahead => self.tier.ahead_frames > 0,
            Feature::Ages => self.age.is_some(),
            Feature::Files
            | Feature::Guards
            | Feature::Fingerprints
            | Feature::Replacements
            | Feature::Holes
            | Feature::Later
            | Feature::Sectors
            | Feature::Spares
            | Feature::Runners => false,
        }
    }

    /// Leaves out what makes the world more difficult.
    fn leave_out(&mut self, feature: Feature) {
        match feature {
            Feature::Owners => self.owners = 1,
            Feature::Swaps => self.swaps = false,
            Feature::Pulling => self.pulling = false,
            Feature::Errors => self.errors = false,
            Feature::Resizes => self.resizes = false,
            Feature::Switches => self.switches = false,
            Feature::Ahead => self.tier.ahead_frames = 0,
            Feature::Ages => self.age = None,
            Feature::Files
            | Feature::Guards
            | Feature::Fingerprints
            | Feature::Replacements
            | Feature::Holes
            | Feature::Later
            | Feature::Sectors
            | Feature::Spares
            | Feature::Runners => {}
        }
    }

    fn draw_in(seed: u64, focus: Focus) -> Self {
        let mut random = Random::new(seed);
        let page_size = *random.pick(&[4096, 4096, 4096, 4096, 4096, 4096, 8192, 16384]);
        let tier = draw_tier(page_size, focus, seed, &mut random);
        let pages = random.between(8, 96) * 4096 / u64::from(page_size) + 4;
        let space = draw_space(pages as u32, &mut random);
        let heals = tiers::mends_torn_pages(&tier);
        let tearing = match random.below(if heals { 4 } else { 3 }) {
            0 | 1 => Tearing::AtomicDisk,
            2 => Tearing::FullPageImages,
            _ => Tearing::TierAlone,
        };
        let mut weights = Weights::draw(&mut random);
        if tearing == Tearing::TierAlone {
            // While admission is stopped, pages go to the disk directly, and nothing mends them if they are
            // torn.
            (weights.admission, weights.switch) = (0, 0);
        }
        Self {
            seed,
            buffers: random.between(2, 16) as usize,
            lru_share: *random.pick(&[0, 8, 16]),
            places_hot: random.magnitude(space.places().into()) as u32,
            hot_share: random.between(4, 15),
            tearing,
            owners: random.between(1, 4) as u32,
            jobs_max: random.between(1, 6) as usize,
            patience: *random.pick(&[0, 4, 12]),
            // Drawn apart, so that the worlds of the seeds that are known stay what they were, but for this.
            drains_early: Random::new(seed ^ DRAINS_EARLY).chance(1, 3),
            pulling: random.chance(1, 2),
            cut_after_max: *random.pick(&[32, 128, 512, 1024]),
            full_checks: *random.pick(&[4, 8, 16]),
            swaps: random.chance(1, 4),
            resizes: true,
            switches: true,
            age: ages::draw_for(seed),
            errors: random.chance(1, 4),
            interruptions: true,
            lying_flushes: false,
            zones: None,
            drives: None,
            focus,
            weights,
            space,
            tier,
        }
    }

    /// The same world with flash that has zones. Its tier is a queue and keeps its size.
    #[must_use]
    pub fn on_zones(mut self) -> Self {
        self.zones = Some(tiers::lay_on_zones(&mut self.tier, self.seed));
        self.resizes = false;
        self
    }

    /// The same world on drives modelled from the inside. That of the disk leaves pages whole where the
    /// database relies on it, by units as large as they are.
    #[must_use]
    pub fn on_drives(mut self) -> Self {
        let unit_bytes = if self.tearing == Tearing::AtomicDisk { self.tier.page_size } else { 512 };
        let flash = Drive::draw(self.seed, self.flash_bytes(), &[]);
        self.drives = Some([flash, Drive::draw_disk(self.seed, self.disk_bytes(), unit_bytes)]);
        self
    }

    /// The page size in bytes.
    pub fn page_bytes(&self) -> usize {
        self.tier.page_size as usize
    }

    /// Bytes of flash that the tier needs.
    pub fn flash_bytes(&self) -> u64 {
        tiers::flash_bytes(&self.tier)
    }

    /// Bytes of the disk.
    pub fn disk_bytes(&self) -> u64 {
        u64::from(self.space.places()) * u64::from(self.tier.page_size)
    }

    /// The largest piece of the disk that a power cut leaves whole, in bytes.
    pub fn disk_piece(&self) -> u64 {
        match self.tearing {
            Tearing::AtomicDisk => self.tier.page_size.into(),
            Tearing::FullPageImages | Tearing::TierAlone => 512,
        }
    }

    /// The configuration in one line, for reports.
    pub fn summary(&self) -> String {
        let Self { tier, tearing, buffers, space, .. } = self;
        let TierConfig { design, admission, sync_mode, .. } = tier;
        let (dimensions, places) = (tiers::dimensions(tier), space.places());
        let zones = self.zones.map_or_else(String::new, |zones| format!(", {zones:?}"));
        let drives = self.drives.iter().flatten().map(|drive| format!(", {drive}")).collect::<String>();
        format!(
            "{design} {admission} {sync_mode} {tearing:?}, {dimensions}, {buffers} buffers, {places} places{zones}{drives}"
        )
    }

    /// Draws what may differ from one opening of a tier without only copies to the next.
    pub(super) fn draw_policy(&mut self, random: &mut Random) {
        tiers::draw_policy(&mut self.tier, &SYNC_MODES, self.focus, random);
    }
}

fn draw_tier(page_size: u32, focus: Focus, seed: u64, random: &mut Random) -> TierConfig {
    let wanted = Wanted { group_pages: &[1, 2, 2, 3, 4, 4, 6, 8], sync_modes: &SYNC_MODES, focus };
    let mut tier = wanted.draw(page_size, seed, random);
    tier.ahead_frames = random.below(tier.frames / 2);
    let room = if random.chance(1, 2) { random.magnitude(64) } else { 0 };
    tier.frames_max = tier.frames + if tier.design.writes_in_place() { 0 } else { room };
    tier
}

/// Databases, relations and forks that hold about `pages` pages.
fn draw_space(pages: u32, random: &mut Random) -> Space {
    let databases = random.between(1, 2) as u32;
    let relations = random.between(1, 4) as u32;
    let forks = random.between(1, 2) as u32;
    Space { databases, relations, forks, blocks: (pages / (databases * relations * forks)).max(2) }
}
