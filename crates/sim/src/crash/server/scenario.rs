//! What one world of a server is like, drawn from its seed.

use mezzanine_engine::{Admission, Design, SyncMode};
use mezzanine_ffi::settings::Settings;
use mezzanine_ground::random::Random;

use crate::crash::database::places::Space;
use crate::crash::database::scenario::SYNC_MODES;
use crate::crash::driver::tiers::draw_admission;
use crate::crash::driver::{Feature, Terms};

/// Bytes of a page.
pub(super) const PAGE: u32 = 4096;

/// The configuration of one world.
#[derive(Debug, Clone)]
pub(super) struct Scenario {
    pub(super) seed: u64,
    pub(super) settings: Settings,
    pub(super) space: Space,
    /// Pages that the pool holds.
    pub(super) buffers: usize,
    /// How many processes of the server use the tier.
    pub(super) processes: u32,
    /// The disk writes whole pages or nothing; if not, the log has an image of each page that changes after
    /// a redo pointer.
    pub(super) atomic_disk: bool,
    /// Whether devices report errors now and then.
    pub(super) errors: bool,
    /// Whether marker, superblock and device are lost, exchanged and damaged now and then.
    pub(super) swaps: bool,
    /// Whether copies live on with flash that comes to harm.
    pub(super) harm: bool,
    /// The most device operations before a power cut.
    pub(super) cut_after_max: u64,
    terms: Terms,
}

impl Scenario {
    pub(super) fn draw(seed: u64, terms: &Terms) -> Self {
        let mut random = Random::new(seed);
        let mut scenario = Self {
            seed,
            settings: settings(terms, &mut random),
            space: Space {
                databases: 1,
                relations: random.between(1, 3) as u32,
                forks: 1,
                blocks: random.between(4, 40) as u32,
            },
            buffers: random.between(2, 12) as usize,
            processes: random.between(1, 4) as u32,
            atomic_disk: random.chance(1, 2),
            errors: random.chance(1, 2) && !terms.without.contains(&Feature::Errors),
            swaps: random.chance(3, 4) && !terms.without.contains(&Feature::Swaps),
            harm: !terms.without.contains(&Feature::Later),
            cut_after_max: *random.pick(&[32, 128, 512, 1024]),
            terms: terms.clone(),
        };
        if terms.without.contains(&Feature::Owners) {
            scenario.processes = 1;
        }
        scenario
    }

    /// Whether there is anything that could be left out.
    pub(super) fn has(&self, feature: Feature) -> bool {
        match feature {
            Feature::Owners => self.processes > 1,
            Feature::Swaps => self.swaps,
            Feature::Errors => self.errors,
            Feature::Later => self.harm,
            _ => false,
        }
    }

    /// Draws what an operator may change before a start.
    pub(super) fn draw_policy(&mut self, random: &mut Random) {
        draw_policy(&mut self.settings, &self.terms, random);
    }

    /// The largest piece of the disk that a cut leaves whole, in bytes.
    pub(super) fn disk_piece(&self) -> u64 {
        if self.atomic_disk { PAGE.into() } else { 512 }
    }

    pub(super) fn disk_bytes(&self) -> u64 {
        u64::from(self.space.places()) * u64::from(PAGE)
    }

    /// The configuration in one line, for reports.
    pub(super) fn summary(&self) -> String {
        let Settings { design, admission, sync_mode, group_pages, flash_bytes, .. } = self.settings;
        format!(
            "{design} {admission} {sync_mode}, group {group_pages}, {flash_bytes} bytes, {} places, {} processes, {} buffers",
            self.space.places(),
            self.processes,
            self.buffers
        )
    }
}

fn settings(terms: &Terms, random: &mut Random) -> Settings {
    let mut settings = Settings {
        flash_path: "/simulated/flash".into(),
        flash_bytes: random.between(32, 128) * u64::from(PAGE),
        flash_bytes_max: 0,
        page_bytes: PAGE,
        design: Design::FaceGsc,
        admission: Admission::Both,
        returning_only: random.chance(1, 8),
        sync_mode: SyncMode::Durable,
        group_pages: random.between(1, 4) as u32,
        data_directory: "/simulated/data".into(),
        relation_files: None,
    };
    let in_place = random.chance(1, 4);
    let designs: Vec<_> =
        Design::ALL.iter().copied().filter(|design| design.writes_in_place() == in_place).collect();
    settings.design = terms.focus.design.unwrap_or(*random.pick(&designs));
    draw_policy(&mut settings, terms, random);
    while settings.tier_config().is_err() {
        settings.flash_bytes += 8 * u64::from(PAGE);
    }
    settings
}

fn draw_policy(settings: &mut Settings, terms: &Terms, random: &mut Random) {
    settings.admission = draw_admission(random);
    let drawn = *random.pick(&SYNC_MODES);
    settings.sync_mode = terms.focus.sync_mode.unwrap_or(drawn);
    if settings.design.has_slots() {
        settings.sync_mode = SyncMode::Through;
    }
    if settings.design == Design::Exadata {
        settings.admission = Admission::Clean;
    }
}
