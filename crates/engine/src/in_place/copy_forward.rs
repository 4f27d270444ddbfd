//! Records at the front of the queue are appended again, for pages that stay where they are.
//!
//! A record keeps its version, like a second chance, and is the newest when it is appended (invariant 7).
//! Nothing is read, and of what is written only the summary that holds the record.

use std::sync::atomic::Ordering::Relaxed;

use super::InPlace;
use crate::directory::{DIRTY, HEAD, HOMED, VALID};
use crate::format::RecordKind;
use crate::groups::group::{Replaced, Reserve};
use crate::ids::Position;
use crate::planted::{self, Bug};

impl InPlace<'_> {
    /// Takes the group at the front of the queue of records if room is wanted there; the batch rests
    /// meanwhile, so that what it carries stays where it is. Under the control lock.
    pub(crate) fn take_copy_forward(&self) -> bool {
        let control = self.control();
        let rests = control.batch.is_idle() && control.draining.get() == 0;
        // Pages that a drain is marking clean are not moved behind its end.
        if !rests || control.drain.is_marking() {
            return false;
        }
        let position = control.passed.cleaned();
        if !self.group_wanted(position) {
            return false;
        }
        let head = self.group_at(position);
        control.batch.take_groups(position, self.page_position(position, head.pages.into()));
        control.batch.scan();
        control.batch.owned_by(self.owner);
        planted::inside("copy_forward: group taken");
        true
    }

    /// Copies forward what is valid of the group that was taken; false if some of it has to wait.
    pub(crate) fn copy_forward(&self) -> bool {
        let control = self.control();
        let groups: Vec<_> = self.batch_groups().collect();
        let mut positions =
            groups.iter().flat_map(|(group, head)| Position::each(self.pages_of(*group, head)));
        let all = positions.all(|position| self.copy_record_forward(position));
        planted::outside("copy_forward: records appended");
        let _guard = control.lock.lock(self.owner);
        if all {
            self.group_cleaned();
        } else {
            control.batch.over();
        }
        all
    }

    /// Appends the record at `position` again if it is valid; false if that has to wait.
    fn copy_record_forward(&self, position: Position) -> bool {
        let directory = self.directory();
        let old = self.entry_of(position);
        let unchecked = planted::is(Bug::RelocatedUnchecked) && directory.head(old).is_none();
        if directory.state(old) & VALID == 0 && !unchecked {
            return true;
        }
        let homes = self.homes();
        let id = directory.id(old);
        let shard = directory.lock(directory.hashed(&id), self.owner);
        let newest = shard.find(&id);
        if newest != Some(old) && !(unchecked && newest.is_some()) {
            return true;
        }
        let home = homes.of_entry(old);
        let state = directory.state(old);
        let recorded = self.recorded_at(home);
        let checksum = directory.checksum(old);
        let dirty = state & DIRTY != 0;
        let kind = RecordKind::Page {
            id,
            dirty,
            second_chance: true,
            lost: false,
            lsn: recorded.lsn,
            checksum,
            home,
        };
        let replaced = Some(Replaced { state, position });
        let place = self.append(kind, Some((recorded.epoch, recorded.version)), Reserve::StageOut, replaced);
        let Some(place) = place else { return false };
        planted::inside("copy_forward: record appended");
        if let Some(newest) = newest {
            shard.unlink(newest);
        }
        shard.link(place.entry, &id, state & !(VALID | HEAD) | HOMED, checksum);
        planted::inside("copy_forward: linked, not counted as filled");
        {
            let _guard = homes.lock(self.owner);
            homes.home(home).entry.store(place.entry.0, Relaxed);
        }
        self.filled(place);
        self.control().counters.relocated.count(1);
        true
    }
}
