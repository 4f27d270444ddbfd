//! Pages go for good: the log first, then the tier's tombstones, then the disk.
//!
//! The log is forced before a tombstone can become durable, or a crash could lose the record and keep the
//! tombstone, and pages that are still wanted would be gone. The redo pointer does not pass the record before
//! the tombstone is durable, because a checkpoint begins before the record or after the tombstone, and syncs
//! the tier.

use mezzanine_device::Device;

use super::log::Lsn;
use super::places::{Extent, Unit};
use super::server::Server;
use crate::crash::driver::Stop;

impl Server<'_> {
    /// What a drop does to pool, tier and disk; also in redo.
    pub(super) fn forget_extent(&mut self, extent: &Extent, lsn: Lsn) -> Result<(), Stop> {
        self.pool.forget(extent);
        let ids = self.world.scenario.space.ids(extent);
        let page = self.world.scenario.space.id(extent.first);
        while match extent.unit {
            Unit::Page => self.tier.invalidate(&page).is_err(),
            _ => self.tier.invalidate_range(&ids).is_err(),
        } {
            self.work_for("a tombstone")?;
        }
        // A write of these pages that is under way would come after whatever is written there next.
        while self.tier.stage_out_touches(&ids) {
            self.work_for("the end of a stage-out")?;
        }
        if self.world.life.random.chance(1, 2) {
            let len = u64::from(extent.count) * self.world.scenario.page_bytes() as u64;
            let discarded = self.world.machine.disk.discard(self.offset(extent.first), len);
            self.world.done("discard", discarded)?;
        }
        self.world.extent_dropped(extent, lsn);
        Ok(())
    }
}
