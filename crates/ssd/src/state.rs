//! The state of a drive as a row of words that the caller keeps, in memory that processes may share.

use std::mem::size_of;
use std::ops::Range;

use bytemuck::{Pod, Zeroable};

use crate::config::SsdConfig;
use crate::counters::Counters;
use crate::ftl::{Frame, Ftl, Journal};
use crate::nand::{Array, Block, NandClock, NandTimes, Plane};

/// What is there once.
#[derive(Debug, Clone, Copy, Pod, Zeroable)]
#[repr(C)]
pub(crate) struct Words {
    /// Whether the rest has been made; all zero is a drive that was never used.
    pub(crate) made: u64,
    /// The latest time that an operation has arrived at.
    pub(crate) now: u64,
    /// From when on the link is free.
    pub(crate) link_free_at: u64,
    /// From when on commands may begin that have to wait for a flush.
    pub(crate) flushed_at: u64,
    /// When the frame that was released last became free: frames are freed in their order.
    pub(crate) free_from: u64,
    /// The latest time by which frames were released: what they took the place of may be erased, so nothing
    /// begins before it.
    pub(crate) settled_at: u64,
    /// Units written since the last flush.
    pub(crate) units_since_flush: u64,
    /// Commands so far.
    pub(crate) commands: u64,
    /// When the last of them was complete.
    pub(crate) completed_at: u64,
    /// The end of what was written last, to tell sequential writes.
    pub(crate) written_to: u64,
    /// The end of what was read last.
    pub(crate) read_to: u64,
    /// Frames of the buffer: those before are free again,
    pub(crate) released: u64,
    /// those before are on their way to flash,
    pub(crate) started: u64,
    /// those before are filled.
    pub(crate) filled: u64,
    /// Of these, how many wait for their way to flash.
    pub(crate) waiting: u64,
}

/// Where the parts of a state are, in words.
#[derive(Debug, Clone)]
pub(crate) struct Layout {
    words: Range<usize>,
    journal: Range<usize>,
    counters: Range<usize>,
    closings: Range<usize>,
    queue: Range<usize>,
    channels: Range<usize>,
    planes: Range<usize>,
    blocks: Range<usize>,
    frames: Range<usize>,
    tournament: Range<usize>,
    heads: Range<usize>,
    map: Range<usize>,
    spare: Range<usize>,
    vouched: Range<usize>,
}

/// A state taken apart.
#[derive(Debug)]
pub(crate) struct Parts<'s> {
    pub(crate) words: &'s mut Words,
    /// When the commands that came last were complete, one after the other in turn.
    pub(crate) queue: &'s mut [u64],
    pub(crate) ftl: Ftl<'s>,
}

impl Layout {
    pub(crate) fn new(config: &SsdConfig) -> Self {
        let geometry = &config.geometry;
        let mut end = 0;
        let mut take = |bytes: usize| {
            let start = end;
            end += bytes.div_ceil(8);
            start..end
        };
        let planes = geometry.planes() as usize;
        let logical = u64::from(config.logical_units()) + config.map_units();
        Self {
            words: take(size_of::<Words>()),
            journal: take(size_of::<Journal>()),
            counters: take(size_of::<Counters>()),
            closings: take(8),
            queue: take(8 * config.host.queue_depth as usize),
            channels: take(8 * geometry.channels as usize),
            planes: take(size_of::<Plane>() * planes),
            blocks: take(size_of::<Block>() * geometry.blocks() as usize),
            frames: take(size_of::<Frame>() * config.buffer_frames() as usize),
            tournament: take(4 * NandClock::tournament_words(geometry.planes())),
            heads: take(4 * planes * (geometry.units_per_block() as usize + 1)),
            map: take(4 * logical as usize),
            spare: take(4 * geometry.units() as usize),
            vouched: take((geometry.units() as usize).div_ceil(8)),
        }
    }

    /// Words of a whole state.
    pub(crate) fn len(&self) -> usize {
        self.vouched.end
    }

    /// What was counted.
    pub(crate) fn counters(&self, state: &[u64]) -> Counters {
        *bytemuck::from_bytes(bytemuck::cast_slice(&state[self.counters.clone()]))
    }

    /// The erase blocks.
    pub(crate) fn blocks<'s>(&self, state: &'s [u64]) -> &'s [Block] {
        bytemuck::cast_slice(&state[self.blocks.clone()])
    }

    /// # Panics
    /// If the state has another length.
    pub(crate) fn parts<'s>(&self, config: &SsdConfig, times: NandTimes, state: &'s mut [u64]) -> Parts<'s> {
        assert_eq!(state.len(), self.len(), "the state is that of another drive");
        let mut rest = state;
        let mut part = |range: &Range<usize>| {
            let (taken, after) = std::mem::take(&mut rest).split_at_mut(range.len());
            rest = after;
            taken
        };
        // In the order in which they lie.
        let words = bytemuck::from_bytes_mut(bytemuck::cast_slice_mut(part(&self.words)));
        let journal = bytemuck::from_bytes_mut(bytemuck::cast_slice_mut(part(&self.journal)));
        let counters = bytemuck::from_bytes_mut(bytemuck::cast_slice_mut(part(&self.counters)));
        let closings = &mut part(&self.closings)[0];
        let queue = part(&self.queue);
        let channels = part(&self.channels);
        let planes = bytemuck::cast_slice_mut(part(&self.planes));
        let blocks = bytemuck::cast_slice_mut(part(&self.blocks));
        let frames = bytemuck::cast_slice_mut(part(&self.frames));
        let tournament = bytemuck::cast_slice_mut(part(&self.tournament));
        let heads = bytemuck::cast_slice_mut(part(&self.heads));
        let map = bytemuck::cast_slice_mut(part(&self.map));
        let spare = bytemuck::cast_slice_mut(part(&self.spare));
        let vouched = part(&self.vouched);
        let array = Array::new(config.geometry, planes, blocks, heads, spare, vouched, closings);
        let clock = NandClock::new(times, channels, tournament);
        Parts {
            words,
            queue,
            ftl: Ftl { config: config.ftl, array, clock, map, frames, journal, counters, record: None },
        }
    }
}
