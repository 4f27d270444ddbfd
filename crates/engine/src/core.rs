//! A tier: its region, and its parts in it.

use mezzanine_ground::counters::{STRIPES, Stripe};
use mezzanine_ground::region::Region;

use crate::config::Geometry;
use crate::control::Control;
use crate::directory::bucket::Bucket;
use crate::directory::{COUNTERS_PER_SHARD, ChangeCounter, Directory, Entry, Shard};
use crate::groups::group::StagingGroup;
use crate::ids::Sequence;

/// A flash tier in a region. Cheap to share: every method takes `&self` and may run on any thread.
pub struct Tier {
    pub(crate) region: Region,
    pub(crate) geometry: Geometry,
    pub(crate) uuid: [u8; 16],
    pub(crate) owner: u32,
}

impl Tier {
    /// A tier over a region, which is laid out for it.
    pub(crate) fn over(mut region: Region, geometry: Geometry, uuid: [u8; 16], owner: u32) -> Self {
        let layout = &geometry.layout;
        let shards = geometry.config().shards as usize;
        region.place::<Control>(layout.control, 1);
        region.place::<Shard>(layout.shards, shards);
        region.place::<ChangeCounter>(layout.counters, shards * COUNTERS_PER_SHARD);
        region.place::<Bucket>(layout.bucket_table, layout.buckets);
        region.place::<Entry>(layout.entries, geometry.entries() as usize);
        region.place::<Stripe>(layout.thread_counters, STRIPES + 1);
        Self { region, geometry, uuid, owner }
    }

    #[inline(always)]
    pub(crate) fn control(&self) -> &Control {
        self.region.at(0).expect("laid out when the tier was made")
    }

    pub(crate) fn staging_groups(&self) -> &[StagingGroup] {
        self.region.slice(self.geometry.layout.staging_groups, self.geometry.config().staging_groups as usize)
    }

    #[inline]
    pub(crate) fn group_of(&self, sequence: Sequence) -> &StagingGroup {
        let groups = self.staging_groups();
        &groups[(sequence.number() % groups.len() as u64) as usize]
    }

    #[inline]
    pub(crate) fn directory(&self) -> Directory<'_> {
        Directory::new(&self.region, &self.geometry)
    }
}
