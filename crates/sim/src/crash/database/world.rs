//! One world: a machine, a database on it, and what is known of them.

use std::fmt::Display;

use mezzanine_device::memory::Image;
use mezzanine_engine::Tier;

use super::contents;
use super::history::History;
use super::log::Lsn;
use super::logging::page_lsn;
use super::machine::{Control, Machine};
use super::places::{Extent, Place, Unit};
use super::relied::Relied;
use super::scenario::{Scenario, Tearing};
use crate::crash::driver::drives::Tally;
use crate::crash::driver::life::{self, Life, Outcome};
use crate::crash::driver::{Planned, Stop, Terms};

/// A world. See the module.
pub struct World {
    pub(super) life: Life,
    pub(super) scenario: Scenario,
    pub(super) machine: Machine,
    /// What the drives behind its devices have done.
    pub(super) drives_done: Tally,
    pub(super) history: History,
    /// Up to where the log was promised to survive.
    pub(super) acknowledged: Lsn,
    /// Where each relation was last dropped as a whole: its number is free when the redo pointer has passed
    /// that.
    pub(super) dropped: Vec<Lsn>,
    /// Where each relation last lost any page.
    pub(super) thinned: Vec<Lsn>,
    /// Relations that may have pages which no record knows, from loads that did not end.
    pub(super) orphaned: Vec<bool>,
    /// How often the flash device was formatted or begun to be; makes each tier's identity its own.
    pub(super) formats: u64,
    /// The right flash device's contents, while another is in its place.
    pub(super) swapped: Option<Image>,
    /// The flash device's contents at some earlier moment.
    pub(super) older_flash: Option<Image>,
    /// The error that a device is to report.
    pub(super) failing: Option<Planned>,
    /// What the last checkpoint relied on.
    pub(super) relied: Option<Relied>,
    /// The tier was given up in this session.
    pub(super) given_up: bool,
    /// The last session ended on an error that may not cost the tier.
    pub(super) tier_must_be_there: bool,
    /// Jobs that someone waited for in the operation under way.
    pub(super) waits: u32,
    /// This is a copy whose flash device was damaged.
    pub(super) damaged: Option<Damaged>,
    /// What was read last.
    pub(super) page: Vec<u8>,
    /// What is on its way out.
    pub(super) leaving: Vec<u8>,
}

/// What a copy whose flash device is damaged came to.
#[derive(Debug, Default)]
pub(super) struct Damaged {
    /// A page was found as it was earlier, as far as a reader without the history can tell.
    pub(super) older: bool,
}

impl World {
    /// The world of `seed` on these terms.
    pub fn on(seed: u64, terms: &Terms) -> Self {
        let world = Self::of(Scenario::draw_on(seed, terms));
        Self { life: Life::on(seed, terms, &world.machine.power), ..world }
    }

    /// The world of `seed` on these terms, with flash that has zones.
    pub fn on_zones(seed: u64, terms: &Terms) -> Self {
        let world = Self::of(Scenario::draw_on(seed, terms).on_zones());
        Self { life: Life::on(seed, terms, &world.machine.power), ..world }
    }

    /// The world of `seed` on these terms, with flash and disk that are drives modelled from the inside.
    pub fn on_drives(seed: u64, terms: &Terms) -> Self {
        let world = Self::of(Scenario::draw_on(seed, terms).on_drives());
        Self { life: Life::on(seed, terms, &world.machine.power), ..world }
    }

    /// The world of `seed`, before its first start.
    pub fn new(seed: u64) -> Self {
        Self::of(Scenario::draw(seed))
    }

    /// A world whose configuration was changed after it was drawn.
    pub fn of(scenario: Scenario) -> Self {
        let page = vec![0; scenario.page_bytes()];
        let relations = scenario.space.all_relations() as usize;
        let mut machine = Machine::new(
            scenario.flash_bytes(),
            scenario.disk_bytes(),
            scenario.disk_piece(),
            Control { redo: 0, tier: [0; 16], disk_suffices: true },
        );
        if let Some(zones) = scenario.zones {
            machine.flash_has_zones(zones);
        }
        let drives_done = match &scenario.drives {
            Some([flash, disk]) => machine.is_on_drives(flash, disk),
            None => Tally::default(),
        };
        Self {
            drives_done,
            life: Life::of(scenario.seed, &machine.power),
            machine,
            history: History::new(&scenario.space),
            acknowledged: 0,
            dropped: vec![0; relations],
            thinned: vec![0; relations],
            orphaned: vec![false; relations],
            formats: 0,
            swapped: None,
            older_flash: None,
            failing: None,
            relied: None,
            given_up: false,
            tier_must_be_there: false,
            waits: 0,
            damaged: None,
            leaving: page.clone(),
            page,
            scenario,
        }
    }

    /// Makes this world what `other` is, which has the same scenario: the machine with what is not durable
    /// yet, the history, and what is known of both. Coverage, counts of cuts and the course stay.
    pub(super) fn copy_from(&mut self, other: &Self) {
        self.machine.copy_with_unflushed(&other.machine);
        self.history.clone_from(&other.history);
        self.life.random = other.life.random.clone();
        self.acknowledged = other.acknowledged;
        self.dropped.clone_from(&other.dropped);
        self.thinned.clone_from(&other.thinned);
        self.orphaned.clone_from(&other.orphaned);
        self.formats = other.formats;
        self.relied = other.relied;
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

    /// The process is gone, with what it had not handed over of its log.
    pub(super) fn process_died(&mut self, in_order: bool) {
        self.life.tell(|| format!("the process is gone, in order: {in_order}"));
        self.life.coverage.kills += u64::from(!in_order);
        self.life.coverage.records_lost += self.machine.log.process_died();
        self.history.log_cut(&self.machine.log);
        if in_order && self.life.random.chance(1, 4) && self.scenario.tearing != Tearing::TierAlone {
            self.scenario.draw_policy(&mut self.life.random);
        }
    }

    /// Adds what a tier did in one session.
    pub(super) fn count(&mut self, tier: &Tier) {
        self.life.coverage.count_tier(tier.geometry().config(), &tier.statistics());
    }

    /// What a failed operation means, and what came of one that did not fail.
    pub(super) fn done<T, E: Display>(&self, operation: &str, result: Result<T, E>) -> Result<T, Stop> {
        self.life.done(operation, result, || self.may_fail(operation))
    }

    /// The LSN of a page in this version: 0 if it was written without a log.
    pub(super) fn page_lsn(&self, version: u32) -> Lsn {
        page_lsn(&self.machine.log, &self.history, version)
    }

    /// A page with this version on it. Its memory is given back as `leaving`.
    pub(super) fn page_of(&mut self, place: Place, version: u32) -> Vec<u8> {
        let mut page = std::mem::take(&mut self.leaving);
        page.resize(self.scenario.page_bytes(), 0);
        contents::fill(&mut page, place, version);
        page
    }

    /// Notes that an extent was dropped by the record at `lsn`, and all its pages forgotten.
    pub(super) fn extent_dropped(&mut self, extent: &Extent, lsn: Lsn) {
        let space = self.scenario.space;
        let relations = space.relation_of(extent.first)..=space.relation_of(extent.first + extent.count - 1);
        for relation in relations.map(|relation| relation as usize) {
            self.thinned[relation] = self.thinned[relation].max(lsn);
            if matches!(extent.unit, Unit::Relation | Unit::Database) {
                self.dropped[relation] = self.dropped[relation].max(lsn);
                self.orphaned[relation] = false;
            }
        }
    }

    /// Whether a page may be made at `place`: a relation's number is used again only when the redo pointer
    /// has passed its drop.
    pub(super) fn may_use(&self, place: Place) -> bool {
        let relation = self.scenario.space.relation_of(place) as usize;
        !self.orphaned[relation] && self.dropped[relation] <= self.machine.control.read().redo
    }

    /// Whether a relation can be loaded without a log: it has no pages, and redo would drop none.
    pub(super) fn may_load(&self, relation: u32) -> bool {
        let redo = self.machine.control.read().redo;
        let pages = self.scenario.space.relation(relation).places();
        !self.orphaned[relation as usize]
            && self.thinned[relation as usize] <= redo
            && pages.into_iter().all(|place| self.history.now().version(place).is_none())
    }
}
