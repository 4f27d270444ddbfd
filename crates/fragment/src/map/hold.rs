//! How long a fragment stays unstable after a write, so that few writes wait and as much as that allows
//! survives a crash.
//!
//! A fragment that is written to again after it has settled has that write wait. Whoever knew how long it is
//! until the next write of each fragment would *hold* those unstable that are written to often, and let the
//! others settle at once: of two fragments that cost a crash the same the one with the shorter interval saves
//! more waits. So each descriptor has its *pace*, the smoothed interval between writes, and the cache has a
//! *reach*: fragments of a pace within it are held, the others settle after [`QUIET_TICKS`]. The reach grows
//! while more writes wait than [`MapConfig::waits_per_mille`](crate::MapConfig) allows, and shrinks when it
//! is fewer than half as many.
//!
//! Both are in eighths of octaves of ticks, so that they are one small number for anything from a tick to
//! hours, and so that smoothing is of ratios. A record has no pace: what recovery brings back has none until
//! it was written to twice.

use mezzanine_ground::region::{Word, shared};

use super::LockedMap;
use crate::cache::Cache;
use crate::config::WAITS_PER_MILLE_MAX;
use crate::descriptor::Descriptor;
use crate::planted::{self, Bug};
use crate::small::Small;
use crate::statistics::Event;

/// So many ticks after the last change a fragment settles that is not held: four whole ones.
pub(super) const QUIET_TICKS: u32 = 5;

/// A fragment is held for so many eighths of octaves beyond its pace: for eight intervals. Of exponential
/// intervals, whose smoothed logarithm is some 0.6 of their mean, one in a hundred is longer.
const BEYOND_PACE: u32 = 24;
/// And for no more than that beyond the reach: for four times as long.
const BEYOND_REACH: u32 = 16;
/// An interval changes a pace by a quarter of the difference.
const SMOOTHING: u32 = 4;

/// The reach of a cache that begins, in ticks: four minutes, if fragments settle after half a minute.
const REACH_TICKS_FIRST: u32 = 32;
/// The longest reach: four hours and a quarter.
const REACH_TICKS_MAX: u32 = 2048;
/// No fragment is held for longer than that (invariant 18).
pub(super) const HOLD_TICKS_MAX: u32 = REACH_TICKS_MAX * 4;
const _: () = assert!(ticks_of(pace_of(REACH_TICKS_MAX) + BEYOND_REACH) == HOLD_TICKS_MAX);

/// The share of waits is looked at when there were so many writes since the last time, and at least so many
/// ticks: a minute, if fragments settle after half a minute.
const WRITES_MIN: u64 = 1000;
const TICKS_MIN: u32 = 8;

/// An interval of so many ticks, at least one, in eighths of octaves; between two powers of two linearly.
const fn pace_of(ticks: u32) -> u32 {
    let octave = ticks.ilog2();
    octave * 8 + ((((ticks as u64) << 3) >> octave) as u32 & 7)
}

/// The least number of ticks of a pace.
const fn ticks_of(pace: u32) -> u32 {
    (((8 + pace as u64 % 8) << (pace / 8)) >> 3) as u32
}

/// What the reach is decided by. Changed under the map's lock; `reach` is read without.
#[repr(C)]
pub(crate) struct Reach {
    reach: Small,
    /// When the share of waits was looked at last.
    looked_at: Small,
    /// How many writes there had been then, and how many of them had waited.
    writes: Word,
    waited: Word,
}
shared!(Reach);

impl Cache {
    /// The reach of a cache that begins.
    pub(super) fn begin_reach(&self) {
        let map = self.map_control();
        let is_holding = self.waits_per_mille() < WAITS_PER_MILLE_MAX;
        map.reach.reach.set(pace_of(if is_holding { REACH_TICKS_FIRST } else { 1 }));
        map.reach.looked_at.set(map.tick.get() as u32);
    }

    fn waits_per_mille(&self) -> u32 {
        self.geometry.config().map.as_ref().map_or(WAITS_PER_MILLE_MAX, |map| map.waits_per_mille)
    }

    /// A fragment is written to: under the lock of its shard, when the write was counted there. Writes that
    /// follow each other before it could have settled are as one, and so are those under way at a time.
    pub(super) fn learn_pace(&self, descriptor: &Descriptor) {
        let (changed, quiet) = (descriptor.changed.get(), self.quiet_ticks(descriptor));
        // What recovery has brought back has no stamp, and was left alone for nobody knows how long.
        let is_one_of_many = descriptor.writes.get() > 1;
        if changed == 0 || quiet < QUIET_TICKS || is_one_of_many {
            return;
        }
        let (pace, found) = (descriptor.pace(), pace_of(quiet));
        let step = pace.abs_diff(found).div_ceil(SMOOTHING);
        descriptor.set_pace(match pace {
            0 => found,
            _ if found > pace => pace + step,
            _ => pace - step,
        });
    }

    /// For how many ticks after its last change a fragment stays unstable.
    pub(super) fn hold_ticks(&self, descriptor: &Descriptor) -> u32 {
        let (pace, reach) = (descriptor.pace(), self.map_control().reach.reach.get());
        if pace == 0 || pace > reach {
            return QUIET_TICKS;
        }
        if planted::is(Bug::HeldForGood) {
            return u32::MAX;
        }
        let ticks = ticks_of((pace + BEYOND_PACE).min(reach + BEYOND_REACH)).max(QUIET_TICKS);
        assert!(ticks <= HOLD_TICKS_MAX, "invariant 18: a fragment that is left alone settles");
        ticks
    }
}

impl LockedMap<'_> {
    /// Has the reach grow or shrink with the share of the writes that have waited. What it changes shows
    /// after the fragments that it is about were written to, so it is left as it is for as long as it
    /// reaches.
    pub(super) fn adjust_reach(&self) {
        let Reach { reach, looked_at, writes, waited } = &self.map.reach;
        let (now, per_mille) = (self.map.tick.get() as u32, self.cache.waits_per_mille());
        let is_early = now.saturating_sub(looked_at.get()) < ticks_of(reach.get()).max(TICKS_MIN);
        if is_early || per_mille >= WAITS_PER_MILLE_MAX {
            return;
        }
        let (all, late) = (self.cache.counted(Event::Write), self.cache.counters().writes_waited.get());
        let (since, since_late) = (all - writes.get(), late - waited.get());
        if since < WRITES_MIN {
            return;
        }
        looked_at.set(now);
        writes.set(all);
        waited.set(late);
        // In ten thousandths of the writes, so that nine tenths of the limit are a whole number.
        let (share, limit) = (since_late * 10_000 / since, u64::from(per_mille) * 10);
        let grown = match share {
            _ if share > limit * 4 => reach.get() + 8,
            _ if share * 10 > limit * 9 => reach.get() + 2,
            _ if share * 2 < limit => reach.get().saturating_sub(2),
            _ => reach.get(),
        };
        reach.set(grown.clamp(pace_of(QUIET_TICKS), pace_of(REACH_TICKS_MAX)));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paces_are_eighths_of_octaves() {
        assert_eq!([1, 2, 3, 4, 5, 8, 9, 1024].map(pace_of), [0, 8, 12, 16, 18, 24, 25, 80]);
        for ticks in 1..10_000 {
            let back = ticks_of(pace_of(ticks));
            assert!(back <= ticks && u64::from(ticks) * 8 < u64::from(back) * 9 + 8, "{ticks} {back}");
        }
        assert_eq!(pace_of(u32::MAX), 255, "it has eight bits");
    }
}
