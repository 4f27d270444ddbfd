//! Which pages come in, for policies that choose (`selective`).

use super::{Homes, InPlace, order};
use crate::ids::PageId;

impl InPlace<'_> {
    /// Whether the policy takes a page that is not there. The reference counts once, however often it is
    /// asked again until the page has found room. Under the lock of the page's shard.
    pub(crate) fn is_admitted(&self, id: &PageId, referenced: bool) -> bool {
        let homes = self.homes();
        if !homes.geometry.selective {
            return true;
        }
        let _guard = homes.lock(self.owner);
        homes.tell_of_all(self.owner);
        if let Some(counted) = homes.slots.filter(|_| referenced).map(|slots| slots.counted(id)) {
            if counted.get() != id.hash() | 1 {
                homes.order().visit(order::Miss(homes.key(id)));
                counted.set(id.hash() | 1);
            }
        }
        let admitted = homes.has_room() || homes.order().visit(order::Admit(homes.key(id)));
        if !admitted {
            homes.reference_counted(id);
        }
        admitted
    }

    /// Tells a policy that chooses of a page that was looked for and is not there.
    pub(super) fn miss(&self, id: &PageId) {
        let homes = self.homes();
        if homes.geometry.selective {
            let _guard = homes.lock(self.owner);
            homes.order().visit(order::Miss(homes.key(id)));
        }
    }
}

impl Homes<'_> {
    /// The reference that the policy knows of has led to something.
    pub(super) fn reference_counted(&self, id: &PageId) {
        if let Some(slots) = self.slots {
            slots.counted(id).set(0);
        }
    }
}
