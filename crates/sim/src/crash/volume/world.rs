//! One world: a machine, a volume on it, the model of its files, and what is known of them.

use std::sync::Arc;

use mezzanine_engine::format::{SUPERBLOCK_BYTES, SUPERBLOCK_OFFSETS};
use mezzanine_ground::random::splitmix;
use mezzanine_volume::{AttachOptions, HeaderGuard, Volume, VolumeConfig, VolumeError, VolumeStatistics};

use super::failing::Faults;
use super::holes::File;
use super::machine::{Flash, Machine, first_bytes};
use super::model::{Drained, FileModel};
use super::moments::{Backup, Histories};
use super::runners::Runners;
use super::scenario::Scenario;
use crate::crash::driver::ages;
use crate::crash::driver::harm::lying_flush;
use crate::crash::driver::life::{self, Life, Outcome};
use crate::crash::driver::{Invariant, Stop, Terms};

/// Tells what happens on standard error, in a world that was asked to.
macro_rules! trace {
    ($world:expr, $($text:tt)+) => {
        $world.life.tell(|| format!($($text)+));
    };
}

pub(super) use trace;

/// What stands at the head of a guarded file on disk while it is not current there.
pub(super) const GUARD: &[u8] = b"not current on disk: in use by a simulated tier\n";

/// A world. See the module.
pub struct World {
    pub(super) life: Life,
    pub(super) scenario: Scenario,
    pub(super) machine: Machine,
    pub(super) models: Vec<FileModel>,
    /// The number of the last change that was issued: the version that stands in the contents.
    pub(super) version: u32,
    /// How complete the disks are on their own.
    pub(super) drained: Drained,
    /// How often the flash device was formatted or begun to be; makes each tier's identity its own.
    pub(super) formats: u64,
    /// The flash device is being replaced, or was when the power failed.
    pub(super) replacing: bool,
    /// The volume had no tier in use when the last replacement began, or one before it that failed in this
    /// session.
    pub(super) without_tier: bool,
    /// Which flash device is used was decided by what that had not flushed: after a power cut somebody
    /// decides anew.
    pub(super) chosen_by_cache: bool,
    pub(super) formatted: bool,
    /// The last session closed the volume in order, and flash says so.
    pub(super) closed: bool,
    /// The same of the session before, and the superblocks that it left.
    pub(super) found: (bool, Vec<u8>),
    pub(super) faults: Faults,
    /// Pages were lost by reads of flash that failed, and not written anew durably yet.
    pub(super) pages_lost: bool,
    /// A state of the machine from before.
    pub(super) backup: Option<Backup>,
    /// Other moments of its life, and lives that went on from them.
    pub(super) histories: Histories,
    /// Writes go to disk first, though the scenario's sync mode may not say so.
    pub(super) disk_first: bool,
    /// The power failed in a switch of the sync mode: the superblock may have either.
    pub(super) mode_in_doubt: bool,
    /// Which files were written to since they were attached.
    pub(super) written: Vec<bool>,
    /// Threads that carry out jobs in the session under way.
    pub(super) runners: Option<Runners>,
    /// Reused for what is written and read.
    pub(super) buffer: Vec<u8>,
}

/// An open volume and its files.
pub(super) struct Session {
    pub(super) volume: Arc<Volume>,
    pub(super) files: Vec<File>,
}

impl World {
    /// The world of `seed` on these terms.
    pub fn on(seed: u64, terms: &Terms) -> Self {
        Self::of(Scenario::draw_on(seed, terms)).living(seed, terms)
    }

    /// The same world, with flash, disks and sidecars put back to earlier moments.
    pub fn of_histories(seed: u64, terms: &Terms) -> Self {
        Self::of(Scenario::draw_on(seed, terms).of_histories()).living(seed, terms)
    }

    /// The same world, with threads that carry out jobs beside its operations.
    pub fn of_runners(seed: u64, terms: &Terms) -> Self {
        Self::of(Scenario::draw_on(seed, terms).of_runners(terms)).living(seed, terms)
    }

    /// The same world, with flash devices that have zones.
    pub fn on_zones(seed: u64, terms: &Terms) -> Self {
        Self::of(Scenario::draw_on(seed, terms).on_zones()).living(seed, terms)
    }

    /// The same world, with flash devices that are drives modelled from the inside.
    pub fn on_drives(seed: u64, terms: &Terms) -> Self {
        Self::of(Scenario::draw_on(seed, terms).on_drives(terms)).living(seed, terms)
    }

    fn living(self, seed: u64, terms: &Terms) -> Self {
        Self { life: Life::on(seed, terms, &self.machine.power), ..self }
    }

    /// The world of `seed`, before its first opening.
    pub fn new(seed: u64) -> Self {
        Self::of(Scenario::draw(seed))
    }

    /// A world whose configuration was changed after it was drawn.
    pub fn of(scenario: Scenario) -> Self {
        let page = scenario.page_bytes();
        let model = |file| FileModel::new(file as u8, page, (scenario.pages_max + 4) * page);
        let flash = Flash::of(&scenario);
        let machine = Machine::new(flash, scenario.files, scenario.fingerprints, scenario.seed);
        Self {
            life: Life::of(scenario.seed, &machine.power),
            machine,
            models: (0..scenario.files).map(model).collect(),
            version: 0,
            drained: Drained::Files,
            formats: 0,
            replacing: false,
            without_tier: false,
            chosen_by_cache: false,
            formatted: false,
            closed: false,
            found: (false, Vec::new()),
            faults: Faults::default(),
            pages_lost: false,
            backup: None,
            histories: Histories::default(),
            disk_first: false,
            mode_in_doubt: false,
            written: Vec::new(),
            runners: None,
            buffer: Vec::new(),
            scenario,
        }
    }

    /// Makes this world what `other` is, which has the same scenario: machine and unflushed changes, models,
    /// and what is known of both. Coverage, counts of cuts and the generator stay.
    pub(super) fn copy_from(&mut self, other: &Self) {
        self.machine.copy_from(&other.machine);
        self.models.clone_from(&other.models);
        self.version = other.version;
        self.drained = other.drained;
        self.formats = other.formats;
        self.formatted = other.formatted;
        self.life.opening = other.life.opening;
        (self.disk_first, self.mode_in_doubt) = (other.disk_first, other.mode_in_doubt);
        self.written.clone_from(&other.written);
    }

    /// Lets the world tell on standard error what it does.
    #[must_use]
    pub fn traced(mut self) -> Self {
        self.life.traced = true;
        self
    }

    /// Runs the world of `seed` through `cuts` power cuts or to its first violation. The same seed always
    /// leads the same life; more cuts only make it longer.
    pub fn run(seed: u64, cuts: u64) -> Outcome {
        Self::new(seed).live(cuts)
    }

    /// Lives through `cuts` power cuts or to the first violation.
    pub fn live(self, cuts: u64) -> Outcome {
        life::live(self, cuts)
    }

    /// Puts another flash device into the machine: an empty one, or one full of rubbish.
    pub(super) fn lose_flash(&mut self) {
        let mut image = vec![0; self.scenario.flash_bytes() as usize];
        if self.life.random.chance(1, 2) {
            image
                .chunks_exact_mut(8)
                .for_each(|word| word.copy_from_slice(&self.life.random.next_u64().to_le_bytes()));
        }
        self.machine.flash.load(&image);
        self.formatted = false;
        self.life.coverage.flash_losses += 1;
        trace!(self, "the flash device is lost");
    }

    /// Power fails and comes back. Returns nothing but counts.
    pub(super) fn cut_again(&mut self) {
        self.life.count_cut();
        self.devices_lose_power();
    }

    /// What is not durable may be gone, and the power is back.
    pub(super) fn devices_lose_power(&mut self) {
        trace!(self, "power cut {} (opening: {})", self.life.cuts(), self.life.opening);
        self.models_crashed();
        let (flash, disks) = self.machine.cut(&mut self.life.random);
        self.life.coverage.count_cut(flash, disks);
        self.life.coverage.count_drives(&self.machine.take_drives_done());
    }

    /// Whatever is not known to be durable is in doubt from now on.
    pub(super) fn models_crashed(&mut self) {
        // A page that goes to disk because its tier fails may be torn there.
        let whole = self.pages_are_whole() && !self.has_fault_struck();
        self.models.iter_mut().for_each(|model| model.crashed(whole));
    }

    /// Whether a page that was not synced is found whole after a cut.
    pub(super) fn pages_are_whole(&self) -> bool {
        self.scenario.pages_are_whole() && !self.disk_first
    }

    /// Both superblocks, as they lie on flash.
    pub(super) fn superblocks(&self) -> Vec<u8> {
        const END: usize = SUPERBLOCK_OFFSETS[1] as usize + SUPERBLOCK_BYTES;
        first_bytes(&self.machine.flash.snapshot(), self.scenario.zones, END)
    }

    /// Whether nothing says on flash that this session has opened the volume.
    pub(super) fn has_not_started(&self) -> bool {
        self.superblocks() == self.found.1
    }

    /// Ends a session like a killed process: without power nothing that dropping the volume does can reach a
    /// device.
    pub(super) fn release(&mut self, session: Session) {
        self.count(&session.volume.statistics());
        self.pages_lost |= !session.volume.lost_pages().is_empty();
        let was_on = self.machine.power.is_on();
        if was_on {
            self.machine.power.crash_after(1);
        }
        self.end_runners();
        drop(session);
        if was_on {
            self.machine.power.restore();
        }
    }

    /// Adds what a volume did in one session.
    fn count(&mut self, statistics: &VolumeStatistics) {
        let (coverage, config) = (&mut self.life.coverage, &self.scenario.tier);
        coverage.hits += statistics.page_hits_memory + statistics.page_hits_flash;
        let Some(tier) = &statistics.tier else { return };
        coverage.count_queue(config, tier);
        // At least so many groups had more than one page.
        let beyond_the_first = tier.pages_written.saturating_sub(tier.groups_written - tier.groups_empty);
        coverage.groups_of_several_pages +=
            beyond_the_first.div_ceil(u64::from(config.group_pages.max(2) - 1));
    }

    /// Formats if need be, opens the volume and attaches all files.
    pub(super) fn open(&mut self) -> Result<Session, Stop> {
        self.life.opening = true;
        trace!(self, "open");
        let mut config = self.scenario.volume();
        if !self.formatted {
            self.formats += 1;
            config.identity_seed = Some(splitmix(self.scenario.seed ^ self.formats));
            let formatted = Volume::format(&*self.machine.flash, &config, true);
            self.done("format", formatted)?;
            self.scenario.age.and_then(|age| ages::apply(&age, &self.machine.flash));
            self.formatted = true;
        }
        let mut config = self.config_to_open();
        config.nonce_seed = self.next_nonce();
        let mut opened = self.try_open_with(&self.machine, config.clone());
        // Asked only now: a copy of the superblock that could be read once may be unreadable the next time.
        if opened.as_ref().is_err_and(|(_, error)| self.may_refuse(&config, error)) {
            trace!(self, "refused in sync mode through");
            config = VolumeConfig { nonce_seed: config.nonce_seed, ..self.scenario.volume() };
            opened = self.try_open_with(&self.machine, config.clone());
        }
        let mode = config.tier.sync_mode;
        let session = opened.map_err(|(operation, error)| self.failed(operation, &error))?;
        self.life.power_is_on()?;
        self.life.opening = false;
        self.was_opened();
        self.pages_lost = !session.volume.lost_pages().is_empty();
        (self.scenario.tier.sync_mode, self.mode_in_doubt, self.disk_first) = (mode, false, false);
        self.written = vec![false; self.models.len()];
        if self.scenario.lying_flushes {
            let lie = lying_flush(&mut self.life.random);
            self.machine.disks.iter().chain([&self.machine.flash]).for_each(|device| device.inject(lie));
        }
        Ok(session)
    }

    /// Opens the volume on `machine`, which is this world's or a copy of it.
    pub(super) fn open_on(&self, machine: &Machine) -> Result<Session, Stop> {
        self.try_open_on(machine).map_err(|(operation, error)| self.failed(operation, &error))
    }

    /// The same; what failed, and how, is for the caller to judge.
    pub(super) fn try_open_on(&self, machine: &Machine) -> Result<Session, (&'static str, VolumeError)> {
        self.try_open_with(machine, self.scenario.volume())
    }

    pub(super) fn try_open_with(
        &self,
        machine: &Machine,
        config: VolumeConfig,
    ) -> Result<Session, (&'static str, VolumeError)> {
        let opened = Volume::open(machine.connect(&machine.flash), config);
        let volume = opened.map_err(|error| ("open", error))?;
        let files = self.attach_all(machine, &volume).map_err(|(_, error)| ("attach", error))?;
        Ok(Session { volume: Arc::new(volume), files })
    }

    /// Attaches every file of `machine`; what failed, and after how many.
    pub(super) fn attach_all(
        &self,
        machine: &Machine,
        volume: &Volume,
    ) -> Result<Vec<File>, (usize, VolumeError)> {
        let attach = |file| self.attach_one(machine, volume, file).map_err(|error| (file, error));
        (0..machine.disks.len()).map(attach).collect()
    }

    /// Attaches one file of `machine`.
    pub(super) fn attach_one(
        &self,
        machine: &Machine,
        volume: &Volume,
        file: usize,
    ) -> Result<File, VolumeError> {
        let guard = self.scenario.guards.then(|| HeaderGuard { bytes: GUARD.to_vec() });
        let hole = self.scenario.hole;
        let (disk, sidecar) = (machine.connect_disk(file, hole), machine.sidecars[file].clone());
        let attached = volume.attach(&Machine::path(file), disk, sidecar, AttachOptions { guard });
        Ok(File { file: attached?, hole })
    }

    /// What a failed operation means: nothing when the power has failed, else a finding.
    pub(super) fn failed(&self, operation: &str, error: &VolumeError) -> Stop {
        match self.machine.power.is_on() {
            false => Stop::PowerFailed,
            true if self.has_fault_struck() => {
                self.judge_failure(operation, error.kind(), &error.to_string())
            }
            true => Stop::Violated(Invariant::NoUnprovokedError, format!("{operation} failed: {error:?}")),
        }
    }

    /// Whether only the software can be at fault.
    pub(super) fn is_in_order(&self) -> bool {
        self.machine.power.is_on() && !self.has_fault_struck()
    }

    pub(super) fn done<T>(&self, operation: &str, result: Result<T, VolumeError>) -> Result<T, Stop> {
        result.map_err(|error| self.failed(operation, &error))
    }
}

impl World {
    /// The volume of a session is open.
    pub(super) fn start_runners(&mut self, session: &Session) {
        if self.scenario.runners > 0 {
            let runners = Runners::start(&session.volume, self.scenario.runners);
            runners.draw_from(&self.life.random);
            self.runners = Some(runners);
        }
    }

    /// Another part of the life begins.
    pub(super) fn tell_runners(&self) {
        if let Some(runners) = &self.runners {
            runners.draw_from(&self.life.random);
        }
    }

    /// The session is over. To be called when the power has failed.
    pub(super) fn end_runners(&mut self) {
        if let Some(runners) = self.runners.take() {
            self.life.coverage.turns += runners.end();
        }
    }
}
