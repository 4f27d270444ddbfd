//! One world: a machine, a server on it, and what is known of them.

use std::fmt::Display;

use mezzanine_device::memory::Image;
use mezzanine_engine::LastingMemory;
use mezzanine_ffi::host::Host;

use super::kept::{Directory, Tampered};
use super::machine::{Control, MarkerFile};
use super::scenario::Scenario;
use crate::crash::database::checkers::compare_backup;
use crate::crash::database::history::History;
use crate::crash::database::log::Lsn;
use crate::crash::database::machine::Machine;
use crate::crash::database::relied::Relied;
use crate::crash::driver::harm::Harm;
use crate::crash::driver::life::{self, Life, Outcome};
use crate::crash::driver::{Feature, Invariant, Planned, Stop, Terms};

/// A world. See the module.
pub struct World {
    pub(super) life: Life,
    pub(super) scenario: Scenario,
    pub(super) machine: Machine<Control>,
    pub(super) marker: MarkerFile,
    pub(super) history: History,
    /// Up to where the log was promised to survive.
    pub(super) acknowledged: Lsn,
    /// Where each relation was last dropped as a whole: its number is free when the redo pointer has passed
    /// that.
    pub(super) dropped: Vec<Lsn>,
    /// The memory that the last server left behind; none after the loss of power.
    pub(super) memory: Option<LastingMemory>,
    /// What somebody did to the machine at rest.
    pub(super) tampered: Option<Tampered>,
    /// The flash device's contents at some earlier moment.
    pub(super) older_flash: Option<Image>,
    /// The data directory at some earlier moment.
    pub(super) older_directory: Option<Directory>,
    /// A device may report an error.
    pub(super) failing: bool,
    /// The one error that is to be reported, where that is known.
    pub(super) planned: Option<Planned>,
    /// What the last checkpoint relied on.
    pub(super) relied: Option<Relied>,
    /// The last server went on without its tier, which may not be used again, and none has started since.
    pub(super) given_up: bool,
    /// How often a server was started; makes each new tier's identity its own.
    pub(super) starts: u64,
    /// What is done to the flash device of this copy while the server runs.
    pub(super) harm: Option<Harm>,
    /// The flash device of this copy is damaged; whether a page was found as it was earlier.
    pub(super) damaged: Option<bool>,
}

impl World {
    /// The world of `seed` on these terms.
    pub fn on(seed: u64, terms: &Terms) -> Self {
        let world = Self::of(Scenario::draw(seed, terms));
        Self { life: Life::on(seed, terms, &world.machine.power), ..world }
    }

    pub(super) fn of(scenario: Scenario) -> Self {
        let machine = Machine::new(
            scenario.settings.flash_bytes,
            scenario.disk_bytes(),
            scenario.disk_piece(),
            Control { redo: 0, files_lack_pages: false },
        );
        Self {
            life: Life::of(scenario.seed, &machine.power),
            marker: MarkerFile::on(&machine.power),
            machine,
            history: History::new(&scenario.space),
            acknowledged: 0,
            dropped: vec![0; scenario.space.all_relations() as usize],
            memory: None,
            tampered: None,
            older_flash: None,
            older_directory: None,
            failing: false,
            planned: None,
            relied: None,
            given_up: false,
            starts: 0,
            harm: None,
            damaged: None,
            scenario,
        }
    }

    /// Whether the world of `seed` has this feature.
    pub(crate) fn has(seed: u64, terms: &Terms, feature: Feature) -> bool {
        Scenario::draw(seed, terms).has(feature)
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
        Self::on(seed, &Terms::default()).live(cuts)
    }

    /// Lives through `cuts` power cuts or to the first violation.
    pub fn live(self, cuts: u64) -> Outcome {
        life::live(self, cuts)
    }

    /// What is not durable may be gone, with all memory, and the power is back.
    pub(super) fn devices_lose_power(&mut self) {
        self.machine.cut(&mut self.life.random);
        self.marker.0.cut(&mut self.life.random);
        self.memory = None;
        self.history.log_cut(&self.machine.log);
    }

    /// The server's processes are gone, and its memory is still there.
    pub(super) fn process_died(&mut self, in_order: bool) {
        self.life.tell(|| format!("the server is gone, in order: {in_order}"));
        self.life.coverage.kills += u64::from(!in_order);
        self.life.coverage.records_lost += self.machine.log.process_died();
        self.history.log_cut(&self.machine.log);
    }

    /// Forgets an error that did not come.
    pub(super) fn forget_error(&mut self) {
        self.planned = None;
        if std::mem::take(&mut self.failing) {
            self.machine.flash.heal();
            self.machine.disk.heal();
            // What is bad stays so.
            if let Some(harm) = &self.harm {
                harm.forget_planned(&self.machine.flash);
            }
        }
    }

    /// What a failed operation means, and what came of one that did not fail.
    pub(super) fn done<T, E: Display>(&self, operation: &str, result: Result<T, E>) -> Result<T, Stop> {
        self.life.done(operation, result, || self.may_fail())
    }

    /// Disk and log must be the whole database, without the tier.
    pub(super) fn check_disk_alone(&mut self, when: &str) -> Result<(), Stop> {
        let redo = self.machine.control.read().redo;
        let page = scenario_page();
        let compared = compare_backup(&self.history, &self.machine.log, &self.machine.disk, page, redo);
        self.life.coverage.disks_compared += 1;
        compared.map_err(|wrong| {
            self.note_older(wrong.found);
            // Under a harmed tier it is a page that may be older, wherever that is seen first.
            let invariant = if self.damaged.is_some() { Invariant::Versions } else { Invariant::DiskAlone };
            Stop::violated(invariant, format!("{when}: {}", wrong.text))
        })
    }

    /// Adds what a tier did in one session.
    pub(super) fn count(&mut self, host: &Host) {
        let tier = host.tier();
        self.life.coverage.count_tier(tier.geometry().config(), &tier.statistics());
    }
}

/// Bytes of a page.
fn scenario_page() -> usize {
    super::scenario::PAGE as usize
}
