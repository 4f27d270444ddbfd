//! What one world is like, drawn from its seed.

use mezzanine_device::Zones;
use mezzanine_ground::random::Random;
use mezzanine_volume::{Admission, SyncMode, TierConfig, VolumeConfig};

use mezzanine_engine::format::Age;

use super::holes::Hole;
use crate::crash::driver::ages;
use crate::crash::driver::tiers::{self, Wanted};
use crate::crash::driver::weights::weights;
use crate::crash::driver::{Drive, Feature, Focus, Terms};

/// The sync modes of a volume's tier, as often as they are drawn.
const SYNC_MODES: [SyncMode; 3] = [SyncMode::Durable, SyncMode::Durable, SyncMode::Through];

/// The configuration of one world.
#[derive(Debug, Clone)]
pub struct Scenario {
    /// The seed.
    pub seed: u64,
    /// The tier's configuration.
    pub tier: TierConfig,
    /// Number of files.
    pub files: usize,
    /// Greatest length of each file in pages.
    pub pages_max: u64,
    /// Pages of each file that take most of the accesses.
    pub pages_hot: u64,
    /// Of 16 accesses, how many go to them.
    pub hot_share: u64,
    /// How often each operation is drawn.
    pub weights: Weights,
    /// The most device operations before a power cut.
    pub cut_after_max: u64,
    /// Of 16 recoveries, after how many everything is read and checked at once.
    pub full_checks: u64,
    /// Whether sidecars can tell that their file was changed.
    pub fingerprints: bool,
    /// Whether the head of each file on disk is replaced while it is not current there.
    pub guards: bool,
    /// Whether the queue is made larger and smaller while it is in use.
    pub resizes: bool,
    /// Whether the sync mode is switched, and admission stopped and resumed, while files are in use.
    pub switches: bool,
    /// Whether the flash device is replaced while it is in use.
    pub replaces: bool,
    /// Whether devices fail in that, the spare one among them.
    pub spares: bool,
    /// The zones of the flash devices, if they have some.
    pub zones: Option<Zones>,
    /// The drive behind each flash device, if it is modelled from the inside.
    pub drive: Option<Drive>,
    /// How many threads carry out jobs beside the operations.
    pub runners: usize,
    /// The hole that each file has, if any.
    pub hole: Hole,
    /// Whether copies of the machine live on after their flash was damaged.
    pub later: bool,
    /// Whether sectors go bad in such lives.
    pub sectors: bool,
    /// How far the numbers of every new tier have come, if not nowhere.
    pub age: Option<Age>,
    /// Whether flash, disks and sidecars are put back to earlier moments.
    pub histories: bool,
    /// Whether devices report errors.
    pub errors: bool,
    /// Whether a flush is now and then reported and not done. Never drawn: no software survives that, and a
    /// world that finds nothing wrong with it is blind.
    pub lying_flushes: bool,
    /// What is asked of every policy that is drawn.
    pub focus: Focus,
}

weights! {
    write_page "Writes of one page.",
    write_pages "Writes of several pages.",
    write_bytes "Writes of any bytes.",
    read_page "Reads of one page.",
    read_bytes "Reads of any bytes.",
    sync "Syncs of one file.",
    step "Carrying out one job.",
    settle "Carrying out jobs until there are none.",
    discard "Discards.",
    shrink "Truncations.",
    extend "Extensions.",
    drain "Drains.",
}

impl Weights {
    fn draw(random: &mut Random) -> Self {
        let steps = *random.pick(&[0, 5, 20, 60]);
        Self {
            write_page: *random.pick(&[10, 30, 60]),
            write_pages: random.between(0, 8),
            write_bytes: random.between(0, 8),
            read_page: *random.pick(&[5, 30, 90]),
            read_bytes: random.between(0, 5),
            sync: *random.pick(&[1, 5, 20]),
            step: steps,
            settle: random.between(0, 4),
            discard: random.between(0, 3),
            shrink: random.between(0, 2),
            extend: random.between(0, 2),
            drain: random.below(2),
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

    /// The same, with its devices put back to earlier moments between sessions. What is done to copies of the
    /// machine elsewhere is left out.
    #[must_use]
    pub fn of_histories(self) -> Self {
        Self { histories: true, later: false, ..self }
    }

    /// The same, with threads that carry out jobs beside the operations, if they are not left out.
    #[must_use]
    pub fn of_runners(self, terms: &Terms) -> Self {
        let mut random = Random::new(self.seed ^ 0x7275_6e6e_6572_735f);
        if terms.without.contains(&Feature::Runners) {
            return self;
        }
        let mut also = |feature| random.chance(1, 2) && !terms.without.contains(&feature);
        // Changes of the tier as a whole, under the feet of whoever is in the middle of something.
        let switches = self.switches || also(Feature::Switches);
        let guards = self.guards || also(Feature::Guards);
        Self { switches, guards, runners: random.between(1, 3) as usize, ..self }
    }

    /// The same, with flash devices that have zones. Their tier is a queue and keeps its size.
    #[must_use]
    pub fn on_zones(mut self) -> Self {
        self.zones = Some(tiers::lay_on_any_zones(&mut self.tier, self.seed));
        Self { resizes: false, ..self }
    }

    /// The same, with flash devices that are drives modelled from the inside, which do wrong what the terms
    /// say.
    #[must_use]
    pub fn on_drives(self, terms: &Terms) -> Self {
        let drive = Drive::draw(self.seed, self.flash_bytes(), &terms.anomalies);
        Self { drive: Some(drive), ..self }
    }

    /// Whether there is anything that [`Self::leave_out`] could leave out.
    pub(crate) fn has(&self, feature: Feature) -> bool {
        match feature {
            Feature::Errors => self.errors,
            Feature::Files => self.files > 1,
            Feature::Guards => self.guards,
            Feature::Fingerprints => self.fingerprints,
            Feature::Resizes => self.resizes,
            Feature::Switches => self.switches,
            Feature::Replacements => self.replaces,
            Feature::Spares => self.replaces && self.spares,
            Feature::Ahead => self.tier.ahead_frames > 0,
            Feature::Ages => self.age.is_some(),
            Feature::Holes => self.hole.bytes > 0,
            Feature::Later => self.later,
            Feature::Sectors => self.later && self.sectors,
            Feature::Runners => self.runners > 0,
            Feature::Owners | Feature::Swaps | Feature::Pulling => false,
        }
    }

    /// Leaves out what makes the world more difficult.
    fn leave_out(&mut self, feature: Feature) {
        match feature {
            Feature::Errors => self.errors = false,
            Feature::Files => self.files = 1,
            Feature::Guards => self.guards = false,
            Feature::Fingerprints => self.fingerprints = false,
            Feature::Resizes => self.resizes = false,
            Feature::Switches => self.switches = false,
            Feature::Replacements => self.replaces = false,
            Feature::Spares => self.spares = false,
            Feature::Ahead => self.tier.ahead_frames = 0,
            Feature::Ages => self.age = None,
            Feature::Holes => self.hole = Hole::default(),
            Feature::Later => self.later = false,
            Feature::Sectors => self.sectors = false,
            Feature::Runners => self.runners = 0,
            Feature::Owners | Feature::Swaps | Feature::Pulling => {}
        }
    }

    fn draw_in(seed: u64, focus: Focus) -> Self {
        let mut random = Random::new(seed);
        let page_size = *random.pick(&[4096, 4096, 4096, 4096, 4096, 8192, 8192, 16384]);
        let wanted = Wanted { group_pages: &[1, 2, 2, 3, 4, 4, 6, 8, 16], sync_modes: &SYNC_MODES, focus };
        let mut tier = wanted.draw(page_size, seed, &mut random);
        // From numbers of its own, so that the other worlds stay what they were.
        let mut growth = Random::new(seed ^ 0x6f6e_6c69_6e65);
        let resizes = growth.chance(1, 4) && !tier.design.writes_in_place();
        tier.frames_max = if resizes { tier.frames + growth.magnitude(tier.frames) } else { tier.frames };
        if growth.chance(1, 4) {
            tier.ahead_frames = growth.below(tier.frames / 2);
        }
        let switches = growth.chance(1, 4);
        let pages_max = random.between(8, 96) * 4096 / u64::from(page_size).max(4096) + 2;
        let pages_hot = random.magnitude(pages_max);
        Self {
            seed,
            files: random.between(1, 2) as usize,
            pages_max,
            pages_hot,
            hot_share: random.between(4, 15),
            weights: Weights::draw(&mut random),
            cut_after_max: *random.pick(&[32, 128, 512, 1024]),
            full_checks: *random.pick(&[2, 8, 16]),
            fingerprints: random.chance(1, 2),
            guards: random.chance(1, 2),
            resizes,
            switches,
            // From numbers of its own as well.
            replaces: Random::new(seed ^ 0x7265_706c_6163_6564).chance(1, 8),
            spares: Random::new(seed ^ 0x7370_6172_6573).chance(1, 2),
            zones: None,
            drive: None,
            runners: 0,
            hole: draw_hole(seed, u64::from(page_size), pages_max),
            later: true,
            sectors: true,
            age: ages::draw_for(seed),
            histories: false,
            errors: random.chance(1, 8),
            lying_flushes: false,
            focus,
            tier,
        }
    }

    /// The page size in bytes.
    pub fn page_bytes(&self) -> u64 {
        u64::from(self.tier.page_size)
    }

    /// Bytes of flash that the tier needs, and its halves if it has some.
    pub fn flash_bytes(&self) -> u64 {
        self.zones.map_or_else(|| tiers::flash_bytes(&self.tier), |zones| zones.count * zones.zone_len)
    }

    /// The configuration of the volume.
    pub fn volume(&self) -> VolumeConfig {
        let mut config = VolumeConfig::new(self.tier.clone());
        config.workers = 0;
        config.identity_seed = Some(self.seed);
        config
    }

    /// Whether the loss of the flash device may lose nothing.
    pub fn flash_is_expendable(&self) -> bool {
        self.tier.sync_mode == SyncMode::Through || self.tier.admission == Admission::Clean
    }

    /// The configuration in one line, for reports.
    pub fn summary(&self) -> String {
        let Self { tier, files, pages_max, .. } = self;
        let (design, admission, mode) = (tier.design, tier.admission, tier.sync_mode);
        let dimensions = tiers::dimensions(tier);
        let zones = self.zones.map_or_else(String::new, |zones| format!(", {zones:?}"));
        let drive = self.drive.as_ref().map_or_else(String::new, |drive| format!(", {drive}"));
        let files = format!("{files} files of {pages_max} pages");
        format!("{design:?} {admission:?} {mode:?}, {dimensions}, {files}{zones}{drive}")
    }

    /// Draws what may differ from one opening of the tier to the next.
    pub(super) fn draw_policy(&mut self, random: &mut Random) {
        tiers::draw_policy(&mut self.tier, &SYNC_MODES, self.focus, random);
    }

    /// Whether a page that was not synced is found whole after a cut: not where it goes to the disk as well,
    /// or alone.
    pub fn pages_are_whole(&self) -> bool {
        tiers::mends_torn_pages(&self.tier)
    }
}

/// The files of one world in six have a hole, which ends near a number of bytes, or of pages, that has more
/// than 32 bits. From numbers of its own, as above.
fn draw_hole(seed: u64, page_bytes: u64, pages_max: u64) -> Hole {
    let mut random = Random::new(seed ^ 0x686f_6c65_735f);
    if !random.chance(1, 6) {
        return Hole::default();
    }
    let at = random.between(1, pages_max.div_ceil(2)) * page_bytes;
    let end = *random.pick(&[1 << 31, 1 << 32, 1 << 40, page_bytes << 32]);
    Hole { at, bytes: end - at - random.below(8) * page_bytes }
}
