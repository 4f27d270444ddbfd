//! Counters of a cache.

use mezzanine_ground::region::Word;

/// What [`mezzanine_ground::counters`] counts for a cache.
#[derive(Clone, Copy)]
pub(crate) enum Event {
    ReadHit,
    ReadPartial,
    ReadMiss,
    Write,
    Begun,
    Ended,
}

macro_rules! counters {
    (
        elsewhere { $($(#[doc = $outside_doc:literal])+ $outside:ident,)+ }
        here { $($(#[doc = $doc:literal])+ $name:ident,)+ }
    ) => {
        /// The counters as they live in the region.
        #[repr(C)]
        pub(crate) struct Counters {
            $(pub(crate) $name: Word,)+
        }

        /// What a cache has done since it was made, and what of it is in use. Requests, parts of requests
        /// (what lies in one fragment), fragments and blocks are counts; names that begin with `bypass` say
        /// why something went past the cache.
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
        pub struct Statistics {
            $($(#[doc = $outside_doc])+ pub $outside: u64,)+
            $($(#[doc = $doc])+ pub $name: u64,)+
        }

        impl Counters {
            pub(crate) fn snapshot(&self) -> Statistics {
                Statistics { $($name: self.$name.get(),)+ ..Statistics::default() }
            }
        }

        impl Statistics {
            /// Every counter with its name, in order.
            pub fn named(&self) -> Vec<(&'static str, u64)> {
                vec![$((stringify!($outside), self.$outside),)+ $((stringify!($name), self.$name)),+]
            }
        }
    };
}

counters! {
    elsewhere {
        /// Fragments that the cache has room for.
        slots,
        /// Of these, those in use.
        slots_used,
        /// Of the others, those that are kept back since the cache device has refused a fragment there: half
        /// of them all at most.
        slots_retired,
        /// Parts of writes that are on their way to the cache device, and parts of writes and discards
        /// without a copy that are on their way to a backing device.
        flights_used,
        /// Fragments in the cache, and on their way there, that a crash would lose.
        unstable,
        /// Blocks of memory that hold copies of writes.
        copy_blocks_used,
        /// Reads all of which the cache had.
        reads_hit,
        /// Reads a part of which the cache had.
        reads_partial,
        /// Reads of which the cache had nothing.
        reads_missed,
        /// Writes.
        writes,
    }
    here {
        /// Bytes that reads were sent to the cache device for.
        read_bytes_cache,
        /// Bytes that reads were sent to backing devices for; not those of pieces that were not confirmed.
        read_bytes_backing,
        /// Parts of reads whose fragment was not in the cache.
        bypass_read_absent,
        /// Parts of reads whose fragment was on its way into the cache.
        bypass_read_populating,
        /// Parts of reads to blocks of a cached fragment that are not valid.
        bypass_read_invalid,
        /// Reads that would have changed between the devices too often.
        bypass_read_scattered,
        /// Reads of a cache that is offline.
        bypass_read_offline,
        /// Writes and discards of a cache that is offline.
        bypass_write_offline,
        /// Pieces whose blocks changed while they were read from the cache device.
        bypass_read_unconfirmed,
        /// Pieces that the cache device did not give back.
        bypass_read_failed,
        /// Parts of writes that went through: of some blocks at least a copy went on its way to the cache
        /// device.
        writes_through,
        /// Parts of writes whose fragment was not in the cache.
        bypass_write_absent,
        /// Parts of writes whose fragment was on its way into the cache.
        bypass_write_populating,
        /// Parts of writes in the mode `around`.
        bypass_write_around,
        /// Parts of writes for some of whose blocks there was no memory for copies.
        bypass_write_no_memory,
        /// Parts of writes for which there was no flight.
        bypass_write_no_flight,
        /// Parts of writes to a fragment that had too many flights already.
        bypass_write_crowded,
        /// Parts of writes beside one to the same fragment of which it is not known what it touches.
        bypass_write_untracked,
        /// Parts of writes for which the budget of bytes written to the cache device had not enough left.
        bypass_write_budget,
        /// Blocks that a write covered in part only, so that they are not valid.
        bypass_block_partial,
        /// Blocks that two writes covered at a time, so that nobody knows which came last.
        bypass_block_concurrent,
        /// Blocks that a later write took over before the cache device had them (duplicates).
        blocks_superseded,
        /// Blocks that asynchronous write-through made valid again.
        blocks_validated,
        /// Blocks that stayed valid while they were written: reads got what was there before.
        blocks_kept,
        /// Of these, blocks that did not to the end, since somebody had read them from the backing device.
        blocks_seen,
        /// Discards.
        discards,
        /// Writes and discards that the backing device refused.
        backing_failed,
        /// Copies that were written to the cache device.
        async_writes,
        /// Bytes of them.
        async_bytes_written,
        /// Copies that the cache device refused.
        async_failed,
        /// Fragments that a worker began to populate.
        populations_begun,
        /// Of these, those that reads have made candidates.
        populations_for_reads,
        /// Of these, those that only writes have.
        populations_for_writes,
        /// Fragments that were populated.
        populations_done,
        /// Of these, those with blocks that were written or discarded meanwhile, so that they are not valid.
        populations_with_holes,
        /// Populations that writes and discards ended, of all blocks.
        populations_aborted,
        /// Populations that a device ended.
        populations_failed,
        /// Times that a candidate could not be populated just then, since it was being written to.
        populations_deferred,
        /// Times that a candidate was not populated, since the budget had not enough left.
        bypass_population_budget,
        /// Times that copies of writes were not written just then, since reads of the cache device were slow.
        copies_yielded,
        /// The same of populations.
        populations_yielded,
        /// Bytes that population has read from backing devices.
        population_bytes_read,
        /// Bytes that population has written to the cache device.
        population_bytes_written,
        /// Misses that did not make their fragment a candidate, since the list was in use.
        misses_unnoted,
        /// The same of reads, as those are not to.
        misses_of_reads,
        /// The same of writes, as those are not to.
        misses_of_writes,
        /// The same of either, as more are wanted.
        misses_too_few,
        /// Fragments that left for others.
        evictions,
        /// Fragments that left, or were to leave, since the cache has shrunk.
        fragments_shrunk,
        /// Fragments that left since none of their blocks was valid.
        fragments_emptied,
        /// Of all that left, those that had to wait for their record.
        fragments_left,
        /// Fragments whose record was made one that does not count.
        marks,
        /// Writes and discards that had to wait for such a record.
        writes_waited,
        /// Fragments whose record was made one that counts.
        settled,
        /// Blocks of the map that were written.
        map_blocks_written,
        /// Times that the cache device was flushed for the map.
        map_commits,
        /// Blocks of the map and flushes that the cache device refused.
        map_failed,
        /// Flushes that a backing device refused.
        backing_flushes_failed,
    }
}

impl Statistics {
    /// Reads.
    pub fn reads(&self) -> u64 {
        self.reads_hit + self.reads_partial + self.reads_missed
    }

    /// Share of the reads that needed no backing device; `None` without reads.
    pub fn hit_ratio(&self) -> Option<f64> {
        (self.reads() > 0).then(|| self.reads_hit as f64 / self.reads() as f64)
    }

    /// Bytes written to the cache device.
    pub fn cache_bytes_written(&self) -> u64 {
        self.async_bytes_written
            + self.population_bytes_written
            + self.map_blocks_written * crate::format::MAP_BLOCK_BYTES
    }
}
