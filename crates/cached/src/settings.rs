//! What a host can be told beside the engine's own parameters.

use std::time::Duration;

/// How a [`BlockCache`](crate::BlockCache) works.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Settings {
    /// Threads that only copies of writes and the cache device's own slowness can keep busy: as many more
    /// than there are population workers.
    pub copy_threads: u32,
    /// Bytes a second that populations read from backing devices at most, all together; 0: no limit.
    pub population_rate: u64,
    /// Reads that the cache device refuses one after the other before reads go past it for a while.
    pub refusals_max: u32,
    /// How long they do.
    pub suspended_for: Duration,
    /// How long a write waits for its mark before the map is given up, so that a cache device that hangs
    /// holds nobody up for longer. Time in which the process was stopped does not count.
    pub mark_within: Duration,
    /// How long the end waits for threads that are in a device's request.
    pub end_within: Duration,
    /// Whether the cache estimates how it would do at other sizes
    /// ([`BlockCache::sizing_table`](crate::BlockCache::sizing_table)). That takes a MiB of memory at most.
    pub sizing: bool,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            copy_threads: 2,
            population_rate: 0,
            refusals_max: 8,
            suspended_for: Duration::from_secs(1),
            mark_within: Duration::from_secs(5),
            end_within: Duration::from_secs(10),
            sizing: false,
        }
    }
}
