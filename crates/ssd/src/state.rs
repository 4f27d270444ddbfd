//! The state of a drive as a row of words that the caller keeps, in memory that processes may share.

use std::mem::size_of;

use bytemuck::{Pod, Zeroable};

use crate::config::SsdConfig;
use crate::counters::Counters;
use crate::divisor::Divisor;
use crate::ftl::{Frame, Frames, Ftl, Journal};
use crate::nand::{Array, Block, Dimensions, NandClock, NandTimes, Plane};

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

/// What a state begins with.
#[derive(Debug, Clone, Copy, Pod, Zeroable)]
#[repr(C)]
struct Head {
    words: Words,
    /// As of [`Ftl`].
    settled_at: u64,
    journal: Journal,
    counters: Counters,
    closings: u64,
}

/// How long the parts of a state are that follow its [`Head`], in elements, in the order in which they lie.
/// All that are halves of words lie together.
#[derive(Debug, Clone)]
pub(crate) struct Layout {
    queue: usize,
    channels: usize,
    planes: usize,
    blocks: usize,
    frames: usize,
    tournament: usize,
    heads: usize,
    map: usize,
    spare: usize,
    vouched: usize,
    /// All of them and the head, in words.
    words: usize,
    dimensions: Dimensions,
    /// Blocks that each plane can lose.
    spare_blocks: u32,
    by_frames: Divisor,
    by_queue: Divisor,
}

/// When the commands that came last were complete, one after the other in turn.
#[derive(Debug)]
pub(crate) struct Queue<'s> {
    pub(crate) done: &'s mut [u64],
    by_length: Divisor,
}

impl<'s> Queue<'s> {
    pub(crate) fn new(done: &'s mut [u64], by_length: Divisor) -> Self {
        Self { done, by_length }
    }

    /// A place that is free at `now` for the command with this number, or the one that is free first: when
    /// its command is complete, to be replaced by when this one is. Commands need not be complete in the
    /// order they came in, and hold a place until they are.
    #[inline]
    pub(crate) fn place(&self, number: u64, now: u64) -> usize {
        // The oldest, as a rule, has been complete for long.
        let oldest = self.by_length.remainder_of_count(number) as usize;
        if self.done[oldest] <= now { oldest } else { self.first_free() }
    }

    #[cold]
    fn first_free(&self) -> usize {
        let first = self.done.iter().enumerate().min_by_key(|(_, done)| **done);
        first.map_or(0, |(place, _)| place)
    }

    /// All of them were complete when time begins.
    pub(crate) fn settle(&mut self) {
        self.done.fill(0);
    }
}

/// A state taken apart.
#[derive(Debug)]
pub(crate) struct Parts<'s> {
    pub(crate) words: &'s mut Words,
    pub(crate) queue: Queue<'s>,
    pub(crate) ftl: Ftl<'s>,
}

/// Words that elements of this kind take.
const fn words<T>(count: usize) -> usize {
    (size_of::<T>() * count).div_ceil(8)
}

/// Takes elements off the front of what is left of a state.
#[inline]
fn take<'s, T: Pod>(rest: &mut &'s mut [u64], count: usize) -> &'s mut [T] {
    let (taken, after) = std::mem::take(rest).split_at_mut(words::<T>(count));
    *rest = after;
    bytemuck::cast_slice_mut(taken)
}

impl Layout {
    pub(crate) fn new(config: &SsdConfig) -> Self {
        let geometry = &config.geometry;
        let planes = geometry.planes() as usize;
        let logical = u64::from(config.logical_units()) + config.map_units();
        let queue = config.host.queue_depth;
        let mut layout = Self {
            queue: queue as usize,
            channels: geometry.channels as usize,
            planes,
            blocks: geometry.blocks() as usize,
            frames: config.buffer_frames() as usize,
            tournament: NandClock::tournament_words(geometry.planes()),
            heads: planes * (geometry.units_per_block() as usize + 1),
            map: logical as usize,
            spare: geometry.units() as usize,
            vouched: (geometry.units() as usize).div_ceil(64),
            words: 0,
            dimensions: Dimensions::new(*geometry).with_gain(config.gain_units_min()),
            spare_blocks: config.spare_blocks_per_plane(),
            by_frames: Divisor::new(config.buffer_frames()),
            by_queue: Divisor::new(queue),
        };
        layout.words = layout.blocks_at()
            + words::<Block>(layout.blocks)
            + words::<Frame>(layout.frames)
            + words::<u32>(layout.halves())
            + layout.vouched;
        layout
    }

    /// Where the erase blocks are, in words.
    fn blocks_at(&self) -> usize {
        words::<Head>(1) + self.queue + self.channels + words::<Plane>(self.planes)
    }

    /// All that are halves of words.
    fn halves(&self) -> usize {
        self.tournament + self.heads + self.map + self.spare
    }

    /// Words of a whole state.
    pub(crate) fn len(&self) -> usize {
        self.words
    }

    /// Whether a state was ever made: all zero is a drive that was never used.
    #[inline]
    pub(crate) fn is_made(&self, state: &[u64]) -> bool {
        Self::head(state).words.made != 0
    }

    /// What was counted.
    pub(crate) fn counters(&self, state: &[u64]) -> Counters {
        Self::head(state).counters
    }

    #[inline]
    fn head(state: &[u64]) -> &Head {
        &bytemuck::cast_slice(&state[..words::<Head>(1)])[0]
    }

    /// The erase blocks.
    pub(crate) fn blocks<'s>(&self, state: &'s [u64]) -> &'s [Block] {
        bytemuck::cast_slice(&state[self.blocks_at()..][..words::<Block>(self.blocks)])
    }

    /// # Panics
    /// If the state has another length.
    #[inline]
    pub(crate) fn parts<'s>(
        &'s self,
        config: &'s SsdConfig,
        times: &'s NandTimes,
        state: &'s mut [u64],
    ) -> Parts<'s> {
        assert_eq!(state.len(), self.len(), "the state is that of another drive");
        let mut rest = state;
        let Head { words, settled_at, journal, counters, closings } = &mut take(&mut rest, 1)[0];
        let queue = take(&mut rest, self.queue);
        let channels = take(&mut rest, self.channels);
        let planes = take(&mut rest, self.planes);
        let blocks = take(&mut rest, self.blocks);
        let frames = Frames::new(take(&mut rest, self.frames), self.by_frames);
        let halves = take(&mut rest, self.halves());
        let (tournament, halves) = halves.split_at_mut(self.tournament);
        let (heads, halves) = halves.split_at_mut(self.heads);
        let (map, spare) = halves.split_at_mut(self.map);
        let spare = &mut spare[..self.spare];
        let array = Array::new(&self.dimensions, planes, blocks, heads, spare, rest, closings);
        let clock = NandClock::new(times, channels, tournament);
        Parts {
            words,
            queue: Queue::new(queue, self.by_queue),
            ftl: Ftl {
                config: &config.ftl,
                spare_blocks: self.spare_blocks,
                array,
                clock,
                map,
                frames,
                settled_at,
                journal,
                counters,
                record: None,
            },
        }
    }
}
