//! The server starts: [`Host::start`] judges, recovers and publishes the tier, other processes attach, and
//! redo begins ([`crate::crash::database::logging`]).

use std::sync::{Arc, Mutex};

use mezzanine_device::Device;
use mezzanine_engine::LastingMemory;
use mezzanine_ffi::host::Host;
use mezzanine_ffi::startup::{Adoption, Start, Started};
use mezzanine_ground::random::splitmix;

use super::machine::{Relations, redo_point};
use super::scenario::PAGE;
use super::world::World;
use crate::crash::driver::{Invariant, Stop};

/// The process that starts the server.
const STARTUP: u32 = 1;

impl World {
    /// Starts the server on the tier, and lets its processes attach. No process has a view of a tier that the
    /// server does without.
    pub(super) fn start(&mut self) -> Result<Vec<Host>, Stop> {
        // What is read now must still be there after the next power cut.
        let log = &mut self.machine.log;
        let forced = log.force(log.end());
        self.done("force the log", forced)?;
        let flushed = self.machine.disk.flush();
        self.done("flush the disk", flushed)?;
        self.starts += 1;
        let mut host = self.host()?;
        let fresh = self.give_memory(&mut host);
        let control = self.machine.control.read();
        let mut new_uuid = [0; 16];
        new_uuid[..8].copy_from_slice(&splitmix(self.scenario.seed ^ self.starts).to_le_bytes());
        new_uuid[8..].copy_from_slice(&self.starts.to_le_bytes());
        let start = Start {
            system_identifier: 77,
            checksums: true,
            redo: redo_point(control.redo),
            from_backup: false,
            files_lack_pages: control.files_lack_pages,
            owner: STARTUP,
            new_uuid,
            new_session: new_uuid.map(|byte| !byte),
        };
        let started = host.start(&start);
        self.life.tell(|| format!("started in memory that is fresh: {fresh}, with {control:?}: {started:?}"));
        self.life.power_is_on()?;
        let started = started.map_err(|refusal| Stop::Refused(refusal.to_string()))?;
        let tampered = self.tampered.is_some();
        match started.adoption {
            Adoption::Unusable => self.tampered_stays(),
            // Whatever lies in the slot and in the data directory has been accepted.
            _ => self.tampered = None,
        }
        if !self.judge_start(&host, &started)? {
            return Ok(Vec::new());
        }
        let lied_to = self.harm.as_ref().is_some_and(|harm| harm.damaged);
        if tampered || lied_to || started.adoption != Adoption::Adopted {
            // What lies there may be as an earlier checkpoint left it that had the same redo pointer.
            self.relied = None;
        }
        if let (Some(relied), Some(adopted)) = (self.relied, self.superblock()) {
            relied.judge(&adopted, control.redo)?;
        }
        let mut hosts = vec![host];
        for owner in STARTUP + 1..=self.scenario.processes {
            let mut other = self.host()?;
            other.use_lasting_memory(self.memory.as_ref().expect("the server has memory"), false);
            let attached = other.attach(owner);
            self.done("attach a process", attached)?;
            hosts.push(other);
        }
        Ok(hosts)
    }

    /// A process of the server, with its own view of the devices.
    fn host(&self) -> Result<Host, Stop> {
        let machine = &self.machine;
        let relations = Relations {
            disk: Arc::clone(&machine.disk),
            control: Arc::clone(&machine.control),
            log: machine.log.shared_ends(),
            space: self.scenario.space,
            page_bytes: PAGE.into(),
            waits: Mutex::new(0),
        };
        let flash: Arc<dyn Device> = Arc::clone(&machine.flash) as Arc<dyn Device>;
        let settings = self.scenario.settings.clone();
        let host = Host::on_device(settings, flash, Box::new(self.marker.clone()), Box::new(relations));
        self.life.power_is_on()?;
        host.map_err(|refusal| Stop::violated(Invariant::NoUnprovokedError, refusal.to_string()))
    }

    /// Memory of the server before, if it is still there; else the system's, zeroed. Whether it is fresh.
    fn give_memory(&mut self, host: &mut Host) -> bool {
        let bytes = host.memory_bytes();
        let again =
            self.memory.take().filter(|memory| memory.bytes() >= bytes && !self.life.random.chance(1, 8));
        let fresh = again.is_none();
        let memory = again.unwrap_or_else(|| LastingMemory::filled(bytes, 0));
        host.use_lasting_memory(&memory, fresh);
        self.memory = Some(memory);
        fresh
    }

    /// A tier that was not adopted holds nothing. Whether there is one.
    fn judge_start(&mut self, host: &Host, started: &Started) -> Result<bool, Stop> {
        let given_up = std::mem::take(&mut self.given_up);
        // A start that was cut off may have made a new one, which nobody has used.
        if started.adoption == Adoption::Adopted && !given_up {
            return Ok(true);
        }
        self.life.coverage.tiers_emptied += 1;
        if started.adoption == Adoption::Unusable && self.harm.is_some() {
            // The server goes on without a tier, until its next start.
            return Err(Stop::Lost);
        }
        if started.adoption == Adoption::Unusable && self.struck() {
            self.given_up = true;
            self.life.coverage.errors_outlived += 1;
            self.check_without_tier()?;
            return Ok(false);
        }
        if started.adoption == Adoption::Unusable {
            let text = format!("a device that works is not used: {}", started.reason);
            return Err(Stop::violated(Invariant::NoUnprovokedError, text));
        }
        let space = self.scenario.space;
        let held = (0..space.places()).find(|place| host.holds(&space.id(*place)));
        if let Some(place) = held {
            let text =
                format!("a tier that was {:?} ({}) has page {place}", started.adoption, started.reason);
            return Err(Stop::violated(Invariant::NoResurrection, text));
        }
        Ok(true)
    }
}
