//! The database starts: it judges the tier by the control file and recovers it. Then it repeats the log from
//! the redo pointer ([`super::logging`]).

use mezzanine_device::Device;
use mezzanine_engine::format::{Superblock, TierState, read_superblock};
use mezzanine_engine::{Blank, InTurn, Recovered, RecoveryError, Tier};
use mezzanine_ground::random::splitmix;

use super::checkpoint::redo_point;
use super::jobs::SERVER;
use super::machine::{Control, Reader};
use super::scenario::Tearing;
use super::world::World;
use crate::crash::driver::ages;
use crate::crash::driver::tiers::draw_policy_parameters;
use crate::crash::driver::{Invariant, Stop};

/// The database's name in its tiers.
const DATABASE: [u8; 16] = *b"simulated server";

impl World {
    /// Opens the tier, or makes one.
    pub(super) fn open_tier(&mut self) -> Result<(Tier, Superblock), Stop> {
        // What is read now must still be there after the next power cut.
        let log = &mut self.machine.log;
        let forced = log.force(log.end());
        self.done("force the log", forced)?;
        let flushed = self.machine.disk.flush().and_then(|()| self.machine.flash.flush());
        self.done("flush the devices", flushed)?;
        let control = self.machine.control.read();
        let found = read_superblock(&mut Reader(&self.machine.flash)).map_err(|error| error.to_string());
        self.life.power_is_on()?;
        let found = found.and_then(|superblock| match Self::fits(&superblock, &control) {
            Ok(()) => Ok(superblock),
            Err(reason) => Err(reason),
        });
        let superblock = match found {
            Ok(superblock) => superblock,
            Err(reason) if self.tier_must_be_there && self.swapped.is_none() => {
                let text = format!("an error that may not cost the tier did: {reason}");
                return Err(Stop::violated(Invariant::KnownTier, text));
            }
            Err(reason) if control.disk_suffices => {
                self.life.tell(|| format!("a new tier, for {reason}"));
                self.format(&control)?
            }
            Err(reason) => return Err(Stop::Refused(reason)),
        };
        self.tier_must_be_there = false;
        self.recover_tier(superblock, &control)
    }

    /// Whether the tier is the one that belongs to the database as the control file describes it.
    fn fits(superblock: &Superblock, control: &Control) -> Result<(), String> {
        let redo = redo_point(control.redo);
        if superblock.tier_uuid != control.tier {
            Err("another tier lies on the flash device".to_owned())
        } else if !superblock.knows(redo) {
            let Superblock { confirmed, pending, .. } = superblock;
            Err(format!("the tier knows {confirmed:?} and {pending:?}, and redo begins at {redo:?}"))
        } else {
            Ok(())
        }
    }

    fn format(&mut self, control: &Control) -> Result<Superblock, Stop> {
        self.formats += 1;
        self.relied = None;
        let mut uuid = [0; 16];
        uuid[..8].copy_from_slice(&splitmix(self.scenario.seed ^ self.formats).to_le_bytes());
        uuid[8..].copy_from_slice(&self.formats.to_le_bytes());
        let geometry = self.scenario.tier.geometry().map_err(|error| {
            Stop::violated(Invariant::NoUnprovokedError, format!("a configuration was refused: {error}"))
        })?;
        let confirmed = redo_point(control.redo);
        let superblock = Superblock { confirmed, ..Superblock::new(&geometry, uuid, DATABASE) };
        let written =
            self.machine.erase_superblocks().and_then(|()| self.machine.write_superblock(&superblock));
        self.done("format the tier", written)?;
        let aged = self.scenario.age.and_then(|age| ages::apply(&age, &self.machine.flash));
        let superblock = aged.unwrap_or(superblock);
        // Pages that stage-out writes from now on may be torn, and where only the tier mends them, disk and
        // log do not suffice.
        let disk_suffices = control.disk_suffices && self.scenario.tearing != Tearing::TierAlone;
        let replaced = self.machine.control.replace(Control { tier: uuid, disk_suffices, ..*control });
        self.done("replace the control file", replaced)?;
        self.swapped = None;
        Ok(superblock)
    }

    fn recover_tier(&mut self, found: Superblock, control: &Control) -> Result<(Tier, Superblock), Stop> {
        let superblock = self.merged(found).started_at(redo_point(control.redo));
        let geometry = superblock.config.geometry().map_err(|error| {
            Stop::violated(Invariant::NoUnprovokedError, format!("a configuration was refused: {error}"))
        })?;
        let recover = |superblock: &Superblock| {
            let region = Blank::heap(geometry.region_bytes());
            Tier::recover_with(region, superblock, SERVER, &mut Reader(&self.machine.flash), &InTurn(3))
        };
        let recovered = match recover(&superblock) {
            Err(RecoveryError::Damaged { what, .. }) if control.disk_suffices && self.swapped.is_some() => {
                self.life.tell(|| format!("discarded, for {what}"));
                self.relied = None;
                recover(&superblock.discarded())
            }
            Err(RecoveryError::Damaged { what, .. }) if self.swapped.is_some() => {
                return Err(Stop::Refused(what));
            }
            recovered => recovered,
        };
        self.life.power_is_on()?;
        // Whatever lies in the slot has been accepted. It may be as an earlier checkpoint left it that had
        // the same redo pointer. On a copy nobody has put it there.
        if self.swapped.take().is_some() && self.damaged.is_none() {
            self.relied = None;
        }
        let recovered = recovered
            .map_err(|error| Stop::violated(Invariant::NoUnprovokedError, format!("recovery: {error}")))?;
        let Recovered { tier, writes, superblock, report, .. } = recovered;
        self.life.tell(|| format!("recovered: {report:?}"));
        self.relied.map_or(Ok(()), |relied| relied.judge(&superblock, control.redo))?;
        let flash = &self.machine.flash;
        let segments = writes.iter().try_for_each(|(offset, bytes)| flash.write_at(bytes, *offset));
        let written =
            segments.and_then(|()| flash.flush()).and_then(|()| self.machine.write_superblock(&superblock));
        self.done("write the superblock", written)?;
        Ok((tier, superblock))
    }

    /// The superblock as the tier is to be opened: policies may differ from those it was left with, as far as
    /// that is safe.
    fn merged(&self, found: Superblock) -> Superblock {
        let wanted = &self.scenario.tier;
        let mut config = found.config.clone();
        config.design = wanted.design;
        if found.state == TierState::Drained {
            config.admission = wanted.admission;
            config.sync_mode = wanted.sync_mode;
        }
        draw_policy_parameters(&mut config);
        Superblock { config, ..found }
    }
}
