//! The frames of the write buffer: a ring.

use std::ops::{Deref, DerefMut};

use bytemuck::{Pod, Zeroable};

use crate::divisor::Divisor;

/// Turns from a frame to one for which something is fetched already.
const AHEAD: usize = 4;

/// A frame of the buffer, as words that processes may share.
#[derive(Debug, Clone, Copy, Pod, Zeroable)]
#[repr(C)]
pub(crate) struct Frame {
    /// When it was filled.
    pub(crate) filled_at: u64,
    /// When it is in flash; 0 as long as nothing has begun.
    pub(crate) done_at: u64,
    /// The unit of the host; + 1, 0 = given up.
    pub(crate) logical: u32,
    pub(crate) stream: u32,
    /// Where it goes in flash: a word of the map.
    pub(crate) target: u32,
    /// Where the version before it is: a word of the map.
    pub(crate) before: u32,
}

impl Frame {
    /// Whether what it holds is in flash by `now`.
    #[inline]
    pub(crate) fn is_in_flash(&self, now: u64) -> bool {
        (1..=now).contains(&self.done_at)
    }
}

/// The frames over memory that somebody else keeps.
#[derive(Debug)]
pub(crate) struct Frames<'s> {
    frames: &'s mut [Frame],
    /// How many there are, to divide by.
    by_frames: Divisor,
}

impl<'s> Frames<'s> {
    /// `by_frames` is their number.
    #[inline]
    pub(crate) fn new(frames: &'s mut [Frame], by_frames: Divisor) -> Self {
        Self { frames, by_frames }
    }

    /// The number of the frame of a turn.
    #[inline]
    pub(crate) fn number(&self, turn: u64) -> u32 {
        self.by_frames.remainder_of_count(turn)
    }

    /// The frame of a turn.
    #[inline]
    pub(crate) fn of_turn(&mut self, turn: u64) -> &mut Frame {
        let number = self.number(turn);
        &mut self.frames[number as usize]
    }

    /// A frame some turns after this one.
    #[inline]
    pub(crate) fn ahead_of(&self, number: u32) -> &Frame {
        let ahead = number as usize + AHEAD;
        &self.frames[if ahead < self.frames.len() { ahead } else { number as usize }]
    }

    /// The number of the frame after this one.
    #[inline]
    pub(crate) fn after(&self, number: u32) -> u32 {
        if number as usize + 1 == self.frames.len() { 0 } else { number + 1 }
    }
}

impl Deref for Frames<'_> {
    type Target = [Frame];

    #[inline]
    fn deref(&self) -> &[Frame] {
        self.frames
    }
}

impl DerefMut for Frames<'_> {
    #[inline]
    fn deref_mut(&mut self) -> &mut [Frame] {
        self.frames
    }
}
