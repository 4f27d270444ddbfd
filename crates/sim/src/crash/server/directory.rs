//! A data directory of an earlier moment is put back beside the flash device: files, log, control file and
//! marker, as a copy of them was while the server was down.
//!
//! What the server must be from then on is what it was at that moment, if it starts: where nothing but the
//! tier has pages it refuses, and else the tier is emptied.

use super::kept::Directory;
use super::world::World;
use crate::crash::database::log::Log;

impl World {
    /// The data directory as it is.
    pub(super) fn directory(&self) -> Directory {
        let mut log = Log::on(&self.machine.power);
        log.copy_from(&self.machine.log);
        Directory {
            disk: self.machine.disk.snapshot(),
            log,
            control: self.machine.control.read(),
            marker: self.marker.0.read(),
            given_up: self.given_up,
            history: self.history.clone(),
            acknowledged: self.acknowledged,
            dropped: self.dropped.clone(),
        }
    }

    /// Puts a copy of the data directory in its place.
    pub(super) fn put_back(&mut self, directory: Directory) {
        let newest = std::mem::replace(&mut self.history, directory.history);
        // What was written since is none of it, and no later version has its name.
        self.history.number_on_from(&newest);
        self.machine.disk.put_back(&directory.disk);
        self.machine.log.copy_from(&directory.log);
        self.machine.control.put(directory.control);
        self.marker.0.put(directory.marker);
        self.given_up = directory.given_up;
        self.acknowledged = directory.acknowledged;
        self.dropped = directory.dropped;
    }
}
