//! The condition that a drive is in when work begins.

use std::str::FromStr;

use bytemuck::Zeroable;
use mezzanine_ground::random::Random;
use serde::{Deserialize, Serialize};

use crate::counters::Counters;
use crate::ftl::{Frame, MAP, MOVED};
use crate::nand::Found;
use crate::state::{Parts, Words};

use super::Ssd;

/// The condition that a drive is in when work begins.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Condition {
    /// Nothing was ever written.
    #[default]
    Fresh,
    /// Everything was written once, from the first byte to the last.
    Filled,
    /// Everything was written once, and then twice as much as fits, a unit at a time at places drawn evenly:
    /// collection works as it does from then on.
    Steady,
}

impl Condition {
    /// Its name in model files.
    pub fn name(self) -> &'static str {
        match self {
            Self::Fresh => "fresh",
            Self::Filled => "filled",
            Self::Steady => "steady",
        }
    }
}

impl FromStr for Condition {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        [Self::Fresh, Self::Filled, Self::Steady]
            .into_iter()
            .find(|condition| condition.name() == text)
            .ok_or_else(|| format!("unknown condition '{text}'; known: fresh, filled, steady"))
    }
}

/// How many times its capacity is written to bring a drive into steady state.
const STEADY_PASSES: u64 = 2;

/// Units that are drawn before they are written.
const DRAWN_AHEAD: usize = 4;

impl Ssd {
    /// Brings an idle drive into a condition. It takes no time of the model, and nothing of it is counted but
    /// wear.
    pub fn prepare(&self, state: &mut [u64], condition: Condition, seed: u64) {
        state.fill(0);
        self.prepare_zeros(state, condition, seed);
    }

    /// Switches a drive off in order, and on again: everything is in flash, time begins anew at 0, and what
    /// was counted, but wear, is forgotten.
    pub fn rest(&self, state: &mut [u64]) {
        let mut parts = self.ready(state);
        self.settle(&mut parts);
    }

    pub(super) fn prepare_unused(&self, state: &mut [u64]) {
        self.prepare_zeros(state, self.condition, 1);
    }

    /// Makes a state that is all zero the one of flash that was found as it is.
    pub(crate) fn prepare_restart(
        &self,
        state: &mut [u64],
        erases: &[u32],
        is_written: impl Fn(u32) -> bool,
    ) {
        let mut parts = self.parts(state);
        self.make(&mut parts);
        let (per_block, per_page) =
            (self.config.geometry.units_per_block(), self.config.geometry.units_per_page());
        let ftl = &self.config.ftl;
        let mut streams: Vec<usize> = [MOVED, MAP].into_iter().chain(0..ftl.streams as usize).collect();
        // A block whose stream nobody writes would never be collected.
        let is_written_to = |stream: usize| stream != MAP || ftl.journal;
        streams.retain(|stream| ftl.frontier_of(*stream) == *stream && is_written_to(*stream));
        let found = Found {
            streams: &streams,
            endurance: ftl.endurance_erases,
            spare: self.config.spare_blocks_per_plane(),
        };
        let written = |block: u32| {
            let first = block * per_block;
            let last = (first..first + per_block).rev().find(|unit| is_written(*unit));
            last.map_or(0, |last| (last - first) / per_page * per_page + per_page)
        };
        let mut blocks: Vec<(u32, u32)> =
            (0..erases.len() as u32).map(|block| (written(block), block)).collect();
        // The one with the most room is for what collection moves.
        blocks.sort_unstable();
        // Those that are erased come last: a plane counts all of its blocks as erased before they are found,
        // and would give the last ones up that are worn out.
        let first_written = blocks.partition_point(|(written, _)| *written == 0);
        blocks.rotate_left(first_written);
        for (written, block) in blocks {
            parts.ftl.array.found(block, written, erases[block as usize], &found);
        }
    }

    fn prepare_zeros(&self, state: &mut [u64], condition: Condition, seed: u64) {
        let mut parts = self.parts(state);
        self.make(&mut parts);
        if condition == Condition::Fresh {
            return;
        }
        let logical = self.config.logical_units();
        for unit in 0..logical {
            self.put(&mut parts, unit);
        }
        if condition == Condition::Steady {
            let mut random = Random::new(seed);
            let mut draw = || random.below(u64::from(logical)) as u32;
            // Some are drawn ahead, so that what the map says of them is here when their turn has come.
            let mut drawn: [u32; DRAWN_AHEAD] = std::array::from_fn(|_| draw());
            for write in 0..STEADY_PASSES * u64::from(logical) {
                let unit = std::mem::replace(&mut drawn[write as usize % DRAWN_AHEAD], draw());
                parts.ftl.prefetch(drawn[write as usize % DRAWN_AHEAD], 0);
                self.put(&mut parts, unit);
            }
        }
        self.settle(&mut parts);
    }

    fn put(&self, parts: &mut Parts<'_>, unit: u32) {
        let now = parts.words.now;
        let filled = self.fill(parts.words, &mut parts.ftl, now, unit, 0);
        // As fast as flash takes it: a write is there when there is a frame for it.
        parts.words.now = filled;
        self.start_waiting(parts.words, &mut parts.ftl, filled);
    }

    /// All is in flash, all clocks begin anew.
    fn settle(&self, parts: &mut Parts<'_>) {
        let now = parts.words.now;
        self.program_all(parts.words, &mut parts.ftl, now);
        for plane in parts.ftl.array.planes.iter_mut() {
            plane.free_at = 0;
        }
        parts.ftl.clock.settle();
        parts.ftl.clock.format(parts.ftl.array.planes);
        parts.ftl.journal.settle();
        // The buffer is as one that was never used: no frame of it has been in use until a time of before.
        parts.ftl.frames.fill(Frame::zeroed());
        parts.queue.settle();
        *parts.words = Words { made: parts.words.made, ..Words::zeroed() };
        *parts.ftl.settled_at = 0;
        *parts.ftl.counters = Counters::default();
    }
}
