//! What one world is like, drawn from its seed.

use mezzanine_device::memory::Random;
use mezzanine_volume::{Admission, Design, Placement, SyncMode, TierConfig, VolumeConfig};

use mezzanine_engine::format::Age;

use super::holes::Hole;
use crate::crash::driver::ages;
use crate::crash::driver::terms::{Feature, Focus, Terms};

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

/// How often each operation is drawn, as shares of their sum.
#[derive(Debug, Clone, Copy)]
pub struct Weights {
    /// Writes of one page.
    pub write_page: u64,
    /// Writes of several pages.
    pub write_pages: u64,
    /// Writes of any bytes.
    pub write_bytes: u64,
    /// Reads of one page.
    pub read_page: u64,
    /// Reads of any bytes.
    pub read_bytes: u64,
    /// Syncs of one file.
    pub sync: u64,
    /// Carrying out one job.
    pub step: u64,
    /// Carrying out jobs until there are none.
    pub settle: u64,
    /// Discards.
    pub discard: u64,
    /// Truncations.
    pub shrink: u64,
    /// Extensions.
    pub extend: u64,
    /// Drains.
    pub drain: u64,
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

    /// All shares, in the order of the fields.
    pub fn shares(&self) -> [u64; 12] {
        let Self {
            write_page,
            write_pages,
            write_bytes,
            read_page,
            read_bytes,
            sync,
            step,
            settle,
            discard,
            shrink,
            extend,
            drain,
        } = *self;
        [
            write_page,
            write_pages,
            write_bytes,
            read_page,
            read_bytes,
            sync,
            step,
            settle,
            discard,
            shrink,
            extend,
            drain,
        ]
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
        let mut tier = TierConfig::new(page_size, 0);
        tier.group_pages = *random.pick(&[1, 2, 2, 3, 4, 4, 6, 8, 16]);
        tier.staging_groups = random.between(2, 4) as u32;
        tier.segment_frames = *random.pick(&[8, 8, 10, 13, 20, 33]);
        tier.shards = *random.pick(&[1, 2, 16]);
        tier.survivors_max = random.below(u64::from(tier.group_pages)) as u32;
        tier.band_frames = random.between(1, 2 * u64::from(tier.group_pages));
        if random.chance(1, 4) {
            // Many small groups under way at once, and bands of many groups: orders that a small staging
            // memory never sees.
            tier.group_pages = *random.pick(&[1, 1, 2, 3]);
            tier.survivors_max = random.below(u64::from(tier.group_pages)) as u32;
            tier.staging_groups = random.between(6, 12) as u32;
            tier.band_frames = random.between(2, 9) * (u64::from(tier.group_pages) + 1);
        }
        draw_policy(&mut tier, focus, &mut random);
        draw_in_place(&mut tier, focus, seed);
        draw_returning(&mut tier, seed);
        tier.frames = random.magnitude(64);
        // From there on the least number that the configuration can have, so that the queue comes round
        // often.
        while tier.geometry().is_err() {
            tier.frames += random.magnitude(8);
        }
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
            runners: 0,
            hole: draw_hole(seed, u64::from(page_size), pages_max),
            later: true,
            sectors: true,
            age: draw_age(seed),
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

    /// Bytes of flash that the tier needs.
    pub fn flash_bytes(&self) -> u64 {
        self.tier.geometry().map_or(0, |geometry| geometry.flash_bytes())
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
        let tier = &self.tier;
        format!(
            "{:?} {:?} {:?}, page {}, {} frames, group {}, staging {}, band {}, segment {}, survivors {}, {} files of {} pages",
            tier.design,
            tier.admission,
            tier.sync_mode,
            tier.page_size,
            tier.frames,
            tier.group_pages,
            tier.staging_groups,
            tier.band_frames,
            tier.segment_frames,
            tier.survivors_max,
            self.files,
            self.pages_max
        )
    }

    /// Whether a page that was not synced is found whole after a cut: not where it goes to the disk as well,
    /// or alone.
    pub fn pages_are_whole(&self) -> bool {
        self.tier.sync_mode == SyncMode::Durable && self.tier.admission != Admission::Clean
    }
}

/// Designs whose tiers differ in their policies alone, so that one may follow the other; as often as they are
/// drawn.
const QUEUES: [Design; 4] = [Design::FaceGsc, Design::FaceGsc, Design::FaceGr, Design::FaceBasic];
const IN_PLACE: [Design; 7] =
    [Design::Lc, Design::Lru, Design::Exadata, Design::Clock, Design::Cac, Design::Lc, Design::Fifo];

/// One world in three has a design that writes in place. From numbers of its own, so that the others stay
/// what they were.
pub(crate) fn draw_in_place(tier: &mut TierConfig, focus: Focus, seed: u64) {
    let mut random = Random::new(seed ^ 0x696e_5f70_6c61_6365);
    if focus.design.is_none() && random.chance(1, 3) {
        tier.design = *random.pick(&IN_PLACE);
        let through = focus.sync_mode.is_none_or(|mode| mode == SyncMode::Through);
        if through && Random::new(seed ^ 0x736c_6f74_735f).chance(1, 8) {
            tier.design = Design::Tac;
        }
    }
    draw_placement(tier);
}

/// In one world of six clean pages enter only if they return; few are remembered, many or the default. From
/// numbers of its own, as above.
pub(crate) fn draw_returning(tier: &mut TierConfig, seed: u64) {
    let mut random = Random::new(seed ^ 0x7265_7475_726e_696e);
    tier.returning_only = random.chance(1, 6);
    tier.remembered_pages = *random.pick(&[Some(1), Some(40), None]);
    tier.remembered_pages = tier.remembered_pages.filter(|_| tier.returning_only);
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

/// The tiers of one world in four are old. From numbers of its own, as above.
pub(crate) fn draw_age(seed: u64) -> Option<Age> {
    let mut random = Random::new(seed ^ 0x6f6c_645f_6167_6573);
    random.chance(1, 4).then(|| ages::draw(&mut random))
}

/// A design like the one that the tier has: by number, so that no other draw depends on which kind it is.
pub(crate) fn draw_design(tier: &mut TierConfig, random: &mut Random) {
    let number = *random.pick(&[0, 1, 2, 3]);
    // A tier with a slot directory is not opened with any other design.
    if tier.design.has_slots() {
        return;
    }
    tier.design = if tier.design.writes_in_place() { IN_PLACE[number] } else { QUEUES[number] };
}

/// Parameters that go with the design and the admission, and the sync mode if the design has but one.
pub(crate) fn draw_placement(tier: &mut TierConfig) {
    tier.placement = Placement::default();
    match tier.design {
        Design::Exadata => tier.placement.write_back = tier.admission != Admission::Clean,
        Design::Lc => tier.placement.dirty_percent = Some([5, 30, 100][tier.band_frames as usize % 3]),
        Design::Tac => {
            tier.sync_mode = SyncMode::Through;
            // So that extents differ in worlds that are so small, and change places.
            tier.placement.extent_pages = Some([1, 2, 4][tier.band_frames as usize % 3]);
            tier.placement.random_weight = Some([1, 94][tier.frames as usize % 2]);
        }
        _ => {}
    }
}

/// Draws what may differ from one opening of a tier to the next.
pub fn draw_policy(tier: &mut TierConfig, focus: Focus, random: &mut Random) {
    draw_design(tier, random);
    tier.admission = *random.pick(&[Admission::Both, Admission::Both, Admission::Dirty, Admission::Clean]);
    tier.sync_mode = *random.pick(&[SyncMode::Durable, SyncMode::Durable, SyncMode::Through]);
    focus.apply(tier);
    draw_placement(tier);
}
