//! After the death of a process that had the state in hand.
//!
//! Nothing is known of what it was changing, so nothing is trusted but what can be checked: a unit of the map
//! counts if flash has it as that unit's, and a block is as full as it says, or as its units show. Everything
//! else is made anew from that, as at a start; what was in the buffer is where it was before, or where it was
//! going.

use crate::ftl::Location;
use crate::nand::BlockState;

use super::Ssd;

impl Ssd {
    /// Makes a state usable again, whatever its words are. What was under way is over at `now`.
    pub(super) fn repair_state(&self, state: &mut [u64], now: u64) {
        if self.parts(state).words.made != 1 {
            state.fill(0);
            return;
        }
        let units = self.config.geometry.units();
        let per_block = self.config.geometry.units_per_block();
        let parts = self.parts(state);
        let ftl = &parts.ftl;
        // Where a unit is: the first place that flash has as its own, from the newest to the oldest.
        let owned = |logical: u32, word: u32| match Location::of(word) {
            Location::Flash(unit) => unit < units && ftl.array.spare(unit) == logical + 1,
            Location::Nowhere | Location::Buffer(_) => false,
        };
        let place = |logical: u32| {
            let mut word = ftl.map[logical as usize];
            for _ in 0..=ftl.frames.len() {
                if owned(logical, word) {
                    return word;
                }
                let Location::Buffer(frame) = Location::of(word) else { return 0 };
                let Some(frame) = ftl.frames.get(frame as usize) else { return 0 };
                if owned(logical, frame.target) {
                    return frame.target;
                }
                word = frame.before;
            }
            0
        };
        let logical = u64::from(self.config.logical_units()) + self.config.map_units();
        let places: Vec<u32> = (0..logical as u32).map(place).collect();
        let mut written: Vec<u32> = (0..self.config.geometry.blocks())
            .map(|block| match ftl.array.state(block) {
                BlockState::Erased => 0,
                _ => ftl.array.written(block).min(per_block),
            })
            .collect();
        for word in &places {
            if let Location::Flash(unit) = Location::of(*word) {
                let block = &mut written[(unit / per_block) as usize];
                *block = (*block).max(unit % per_block + 1);
            }
        }
        let erases = self.erases(state);
        let counters = self.counters(state).repaired();
        state.fill(0);
        self.prepare_restart(state, &erases, |unit| unit % per_block < written[(unit / per_block) as usize]);
        let mut parts = self.parts(state);
        for (logical, word) in places.into_iter().enumerate() {
            if let Location::Flash(unit) = Location::of(word) {
                parts.ftl.adopt(logical as u32, unit);
            }
        }
        parts.ftl.adopted();
        *parts.ftl.counters = counters;
        let words = parts.words;
        (words.now, words.link_free_at, words.flushed_at) = (now, now, now);
    }
}
