//! One world: a machine, a volume on it, the model of its files, and the life that they lead from cut to cut.
//!
//! Invariants checked:
//! - `versions`, `no-going-back`, `no-resurrection`, `whole-pages`, `read-your-writes`: by
//!   [`super::checkers::pages`], on every page that is read.
//! - `repeatable-recovery`: by [`super::checkers::recovery`].
//! - `damage-noticed`: by [`super::checkers::damage`] and [`super::checkers::later`], on copies.
//! - `pairing`: by [`super::checkers::pairing`], on copies.
//! - `disk-alone`, `flash-expendable`, `guarded`: by [`super::checkers::disk`], on the images of the disks.
//! - `no-unprovoked-error`, `assertion`: everywhere; where devices fail, as `faults` says.
//!
//! ```text
//!           open -> check -> operate ... -> close | close_drained | kill
//!            ^                                              |
//!            +---------------- (power cut anywhere) <-------+
//! ```

use std::sync::Arc;

use mezzanine_device::memory::{Fault, Injection, Operation, Random, splitmix};
use mezzanine_engine::format::{SUPERBLOCK_BYTES, SUPERBLOCK_OFFSETS};
use mezzanine_volume::{AttachOptions, HeaderGuard, Volume, VolumeConfig, VolumeError, VolumeState};

use super::beside;
use super::checkers::pairing::Backup;
use super::checkers::{damage, disk, later, pages, pairing, recovery, sidecars};
use super::faults::Faults;
use super::histories::{self, Histories};
use super::holes::File;
use super::machine::Machine;
use super::model::FileModel;
use super::operations;
use super::replacement;
use super::runners::Runners;
use super::scenario::{Scenario, draw_policy};
use crate::crash::driver::ages;
use crate::crash::driver::course::Course;
use crate::crash::driver::excerpt::Excerpt;
use crate::crash::driver::panics;
use crate::crash::driver::report::{Coverage, Invariant, VERSION, Violation};
use crate::crash::driver::terms::Terms;
use crate::crash::kind::Kind;

/// Tells what happens on standard error, in a world that was asked to.
macro_rules! trace {
    ($world:expr, $($text:tt)+) => {
        if $world.traced {
            eprintln!("{:>6} {}", $world.machine.power.operations(), format_args!($($text)+));
        }
    };
}

pub(super) use trace;

/// What stands at the head of a guarded file on disk while it is not current there.
pub(super) const GUARD: &[u8] = b"not current on disk: in use by a simulated tier\n";

/// Why a session ended before its time.
#[derive(Debug)]
pub(super) enum Stop {
    PowerFailed,
    /// An operation failed after a device had.
    DeviceFailed,
    Violated(Invariant, String),
}

/// How complete the disks are on their own.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Drained {
    /// Something changed since the last drain.
    No,
    /// All pages are there.
    Pages,
    /// Nothing has been written since a drained close.
    Files,
}

/// What one world went through.
#[derive(Debug, Default)]
pub struct Outcome {
    /// Power cuts.
    pub cuts: u64,
    /// Operations carried out.
    pub operations: u64,
    /// What was reached.
    pub coverage: Coverage,
    /// What was found, if anything: it ends the world.
    pub violation: Option<Violation>,
    /// The course that it took.
    pub lived: Excerpt,
}

/// A world. See the module.
pub struct World {
    pub(super) scenario: Scenario,
    pub(super) machine: Machine,
    pub(super) models: Vec<FileModel>,
    /// The numbers of the part of the course that is under way.
    pub(super) random: Random,
    pub(super) course: Course,
    terms: Terms,
    pub(super) coverage: Coverage,
    pub(super) operations: u64,
    pub(super) cuts: u64,
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
    pub(super) formatted: bool,
    /// The last session closed the volume in order, and flash says so.
    closed: bool,
    /// The same of the session before, and the superblocks that it left.
    found: (bool, Vec<u8>),
    pub(super) faults: Faults,
    /// Pages were lost by reads of flash that failed, and not written anew durably yet.
    pub(super) pages_lost: bool,
    /// A state of the machine from before.
    pub(super) backup: Option<Backup>,
    /// Other moments of its life, and lives that went on from them.
    pub(super) histories: Histories,
    pub(super) traced: bool,
    opening: bool,
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
        let world = Self::of(Scenario::draw_on(seed, terms));
        Self { course: Course::new(seed, terms.only.clone()), terms: terms.clone(), ..world }
    }

    /// The same world, with flash, disks and sidecars put back to earlier moments.
    pub fn of_histories(seed: u64, terms: &Terms) -> Self {
        let world = Self::of(Scenario::draw_on(seed, terms).of_histories());
        Self { course: Course::new(seed, terms.only.clone()), terms: terms.clone(), ..world }
    }

    /// The same world, with threads that carry out jobs beside its operations.
    pub fn of_runners(seed: u64, terms: &Terms) -> Self {
        let world = Self::of(Scenario::draw_on(seed, terms).of_runners(terms));
        Self { course: Course::new(seed, terms.only.clone()), terms: terms.clone(), ..world }
    }

    /// The world of `seed`, before its first opening.
    pub fn new(seed: u64) -> Self {
        Self::of(Scenario::draw(seed))
    }

    /// A world whose configuration was changed after it was drawn.
    pub fn of(scenario: Scenario) -> Self {
        let page = scenario.page_bytes();
        let model = |file| FileModel::new(file as u8, page, (scenario.pages_max + 4) * page);
        Self {
            machine: Machine::new(
                scenario.flash_bytes(),
                scenario.files,
                scenario.fingerprints,
                scenario.seed,
            ),
            models: (0..scenario.files).map(model).collect(),
            random: Random::new(splitmix(scenario.seed)),
            course: Course::new(scenario.seed, None),
            terms: Terms::default(),
            coverage: Coverage::default(),
            operations: 0,
            cuts: 0,
            version: 0,
            drained: Drained::Files,
            formats: 0,
            replacing: false,
            without_tier: false,
            formatted: false,
            closed: false,
            found: (false, Vec::new()),
            faults: Faults::default(),
            pages_lost: false,
            backup: None,
            histories: Histories::default(),
            traced: false,
            opening: false,
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
        self.opening = other.opening;
        (self.disk_first, self.mode_in_doubt) = (other.disk_first, other.mode_in_doubt);
        self.written.clone_from(&other.written);
    }

    /// Lets the world tell on standard error what it does.
    #[must_use]
    pub fn traced(mut self) -> Self {
        self.traced = true;
        self
    }

    /// Runs the world of `seed` through `cuts` power cuts or to its first violation. The same seed always
    /// leads the same life; more cuts only make it longer.
    pub fn run(seed: u64, cuts: u64) -> Outcome {
        Self::new(seed).live(cuts)
    }

    /// Lives through `cuts` power cuts or to the first violation.
    pub fn live(mut self, cuts: u64) -> Outcome {
        let found = match panics::catch(|| self.sessions(cuts)) {
            Ok(Stop::PowerFailed | Stop::DeviceFailed) => None,
            Ok(Stop::Violated(invariant, text)) => Some((invariant, text)),
            Err(message) => Some((Invariant::Assertion, message)),
        };
        let violation = found.map(|(invariant, text)| Violation {
            invariant,
            seed: self.scenario.seed,
            cut: self.cuts,
            version: VERSION.to_owned(),
            text: format!("{text}; operation {}, {}", self.version, self.scenario.summary()),
            replay: self.kind().replay(self.scenario.seed, self.cuts + 1, &self.terms),
        });
        let lived = self.course.into_lived();
        Outcome { cuts: self.cuts, operations: self.operations, coverage: self.coverage, violation, lived }
    }

    pub(super) fn was_closed(&self) -> bool {
        self.closed
    }

    pub(super) fn set_closed(&mut self, closed: bool) {
        self.closed = closed;
    }

    fn superblocks(&self) -> Vec<u8> {
        const END: usize = SUPERBLOCK_OFFSETS[1] as usize + SUPERBLOCK_BYTES;
        self.machine.flash.view(|flash| flash.range(0..END.min(flash.len())).into_owned())
    }

    /// Whether nothing says on flash that this session has opened the volume.
    pub(super) fn has_not_started(&self) -> bool {
        self.superblocks() == self.found.1
    }

    /// Whether flash says that the volume was closed in order, when it was: an opening that has changed
    /// nothing leaves what it has found, be that after a crash.
    fn says_closed(&self) -> bool {
        self.found.0 || !self.has_not_started()
    }

    fn kind(&self) -> Kind {
        match self.scenario {
            Scenario { histories: true, .. } => Kind::Histories,
            Scenario { runners: 0, .. } => Kind::Volume,
            _ => Kind::Runners,
        }
    }

    /// One session after the other; returns at the last cut, or what was violated.
    fn sessions(&mut self, cuts: u64) -> Stop {
        while self.cuts < cuts {
            let Some(random) = self.course.session() else { break };
            self.random = random;
            if self.random.chance(1, 4) {
                self.machine.power.crash_after(self.random.magnitude(64));
            }
            self.plan_faults();
            self.found = (self.closed, self.superblocks());
            self.closed = false;
            match self.session() {
                Ok(()) => {
                    self.coverage.errors_hidden += u64::from(self.has_fault_struck());
                    self.machine.power.restore();
                }
                Err(Stop::PowerFailed) => {
                    if let Err(stop) = self.power_failed() {
                        return stop;
                    }
                }
                Err(Stop::DeviceFailed) => self.end_after_failure(),
                Err(violated) => return violated,
            }
            if let Err(violated) = replacement::choose(self).and_then(|()| self.look_at_copies()) {
                return violated;
            }
        }
        Stop::PowerFailed
    }

    /// What would happen if, tried on copies of the machine.
    fn look_at_copies(&mut self) -> Result<(), Stop> {
        if self.scenario.histories {
            return histories::between_sessions(self);
        }
        // A page that is lost is so on a copy as well.
        if !self.formatted || self.faults.planned || self.pages_lost {
            return Ok(());
        }
        if self.random.chance(1, 64) {
            damage::check(self, self.closed)?;
        }
        if self.random.chance(1, 64) {
            pairing::check(self)?;
        }
        if self.random.chance(1, 64) {
            pairing::back_up(self)?;
        }
        if self.scenario.later {
            later::check(self)?;
            sidecars::check(self)?;
        }
        Ok(())
    }

    /// Opens, checks, operates and ends in one of the ways in which the devices keep their power.
    fn session(&mut self) -> Result<(), Stop> {
        let session = self.open()?;
        self.start_runners(&session);
        let result = self.use_session(&session);
        self.release(session);
        result
    }

    /// Ends a session like a killed process: without power nothing that dropping the volume does can reach a
    /// device.
    pub(super) fn release(&mut self, session: Session) {
        self.coverage.count(&self.scenario.tier, &session.volume.statistics());
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

    fn use_session(&mut self, session: &Session) -> Result<(), Stop> {
        // Runners are at work already, and the cut that was planned for the opening may have come.
        self.power_is_on()?;
        if self.random.chance(7, 8) {
            let after = self.random.magnitude(self.scenario.cut_after_max);
            self.course.plan_cut(&self.machine.power, after);
        }
        pages::check_lengths(self, session)?;
        self.write_lost_anew(session)?;
        pages::check_after_open(self, session)?;
        for _ in 0..self.random.magnitude(400) {
            let Some(random) = self.course.operation(&self.machine.power) else { continue };
            self.random = random;
            self.tell_runners();
            let reading = beside::begin(self, session)?;
            let before = self.version;
            match operations::one(self, session) {
                Err(Stop::DeviceFailed) if self.machine.power.is_on() && self.random.chance(3, 4) => {
                    self.go_on_after_failure(session, before)?;
                }
                done => done?,
            }
            beside::end(self, reading)?;
            self.power_is_on()?;
            self.hold_to_cost(session)?;
            histories::in_a_session(self);
        }
        self.end(session)
    }

    fn end(&mut self, session: &Session) -> Result<(), Stop> {
        self.random = self.course.ending();
        self.tell_runners();
        match self.random.below(4) {
            0 | 1 => {
                trace!(self, "kill");
                self.coverage.kills += 1;
                self.models_crashed();
                self.power_is_on()?;
                disk::check_guards(self)
            }
            2 => {
                trace!(self, "close");
                let closed = session.volume.close();
                self.done("close", closed)?;
                self.models.iter_mut().for_each(FileModel::sync_acknowledged);
                // If the disk has everything, it needs no power to be closed; and the tier was not told then.
                self.power_is_on()?;
                self.closed = self.says_closed();
                self.coverage.closes += 1;
                disk::check_guards(self)
            }
            _ => {
                trace!(self, "close drained");
                let tier_in_order = session.volume.state() == VolumeState::Ok;
                let closed = session.volume.close_drained();
                self.done("close drained", closed)?;
                self.models.iter_mut().for_each(FileModel::sync_acknowledged);
                self.power_is_on()?;
                self.closed = true;
                self.coverage.closes += 1;
                self.drained = Drained::Files;
                disk::check_drained(self)?;
                // One that fails in the closing is given up as well.
                self.change_what_may_change(tier_in_order && !self.has_fault_struck());
                Ok(())
            }
        }
    }

    /// After a drained close nothing depends on the tier: policies may change, and the flash device may be
    /// lost. Where the tier was given up before, the files are free of it, but it was not told and keeps
    /// its policies.
    fn change_what_may_change(&mut self, tier_in_order: bool) {
        if self.random.chance(1, 2) && tier_in_order {
            draw_policy(&mut self.scenario.tier, self.scenario.focus, &mut self.random);
        }
        if self.random.chance(1, 4) {
            self.lose_flash();
        }
    }

    /// Puts another flash device into the machine: an empty one, or one full of rubbish.
    pub(super) fn lose_flash(&mut self) {
        let mut image = vec![0; self.scenario.flash_bytes() as usize];
        if self.random.chance(1, 2) {
            image
                .chunks_exact_mut(8)
                .for_each(|word| word.copy_from_slice(&self.random.next_u64().to_le_bytes()));
        }
        self.machine.flash.load(&image);
        self.formatted = false;
        self.coverage.flash_losses += 1;
        trace!(self, "the flash device is lost");
    }

    /// Power fails and comes back. Returns nothing but counts.
    pub(super) fn cut_again(&mut self) {
        self.cuts += 1;
        trace!(self, "power cut {} (opening: {})", self.cuts, self.opening);
        match self.opening {
            true => self.coverage.cuts_inside_recovery += 1,
            false => self.coverage.cuts_in_use += 1,
        }
        self.models_crashed();
        let (flash, disks) = self.machine.cut(&mut self.random);
        self.coverage.torn_flash_writes += flash.torn;
        self.coverage.torn_disk_writes += disks.torn;
        self.coverage.lost_writes += flash.lost + disks.lost;
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

    /// The power has failed: decides what the devices keep, and looks at what can be seen without the
    /// software.
    fn power_failed(&mut self) -> Result<(), Stop> {
        self.random = self.course.after_cut(&self.machine.power);
        self.cut_again();
        self.coverage.replacements_cut += u64::from(self.replacing);
        replacement::choose(self)?;
        disk::check_after_cut(self)?;
        if self.formatted && !self.faults.planned && !self.pages_lost && self.random.chance(1, 32) {
            recovery::check_repeatable(self)?;
        }
        if self.scenario.flash_is_expendable() && self.random.chance(1, 16) {
            self.lose_flash();
        }
        Ok(())
    }

    /// Formats if need be, opens the volume and attaches all files.
    pub(super) fn open(&mut self) -> Result<Session, Stop> {
        self.opening = true;
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
        self.power_is_on()?;
        self.opening = false;
        self.was_opened();
        self.pages_lost = !session.volume.lost_pages().is_empty();
        (self.scenario.tier.sync_mode, self.mode_in_doubt, self.disk_first) = (mode, false, false);
        self.written = vec![false; self.models.len()];
        if self.scenario.lying_flushes {
            let after = self.random.magnitude(16);
            let lie = Injection { operation: Operation::Flush, after, count: 1, fault: Fault::Lie };
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

    /// Ends the session if the power has failed without anyone noticing, in the background.
    pub(super) fn power_is_on(&self) -> Result<(), Stop> {
        if self.machine.power.is_on() { Ok(()) } else { Err(Stop::PowerFailed) }
    }
}
