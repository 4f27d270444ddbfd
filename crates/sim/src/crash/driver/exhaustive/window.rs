//! What a power cut may leave of the unflushed changes of a machine: every choice that is tried.
//!
//! For a window of up to [`WHOLE_WINDOW`] changes all subsets survive in turn; for a longer one none, all,
//! each alone, all but each, and the oldest of each number. Changes of a file's length survive in their
//! order, so in turn every number of them does, whatever becomes of the bytes. What is no device, a log or a
//! control file, comes out of a cut in one of its ways: up to [`WAYS_MAX`] of them are tried with every
//! subset, of more the least and the most, and the others with none and with all. Then each write is torn at
//! 512 bytes, with all others lost and with all others kept: the newest write of a device at every sector and
//! in every sector alone, an older one at its first and at its last.

use mezzanine_device::memory::{Fate, MemoryDevice, Survival, Unflushed};

use super::subject::{Choice, Subject};

/// Windows of up to so many changes are tried in all their subsets.
const WHOLE_WINDOW: usize = 6;

/// So many ways are tried with every subset.
const WAYS_MAX: usize = 4;

/// The unflushed changes of each device, flash first.
struct Window(Vec<Vec<Unflushed>>);

impl Window {
    fn of(world: &impl Subject) -> Self {
        Self(world.devices().into_iter().map(MemoryDevice::window).collect())
    }

    /// All unflushed changes as (device, place in its window).
    fn changes(&self) -> Vec<(usize, usize)> {
        let of = |(device, window): (usize, &Vec<Unflushed>)| (0..window.len()).map(move |at| (device, at));
        self.0.iter().enumerate().flat_map(of).collect()
    }

    fn resizes(&self) -> u64 {
        self.0.iter().flatten().filter(|change| change.resizes).count() as u64
    }

    /// The choice in which `fate` says what becomes of each change, and `resizes` changes of each length
    /// survive.
    fn choice(
        &self,
        fate: impl Fn(usize, usize) -> Fate,
        resizes: u64,
        way: usize,
        torn: bool,
        nested: bool,
    ) -> Choice {
        let survival = |device: usize| {
            let fates = (0..self.0[device].len()).map(|at| fate(device, at)).collect();
            Survival { fates, resizes }
        };
        Choice { survivals: (0..self.0.len()).map(survival).collect(), way, torn, nested }
    }
}

/// Every choice for the world's present window, simplest first. A `nested` cut tears every write at its first
/// and last sector only.
pub(super) fn choices(world: &impl Subject, nested: bool) -> Vec<Choice> {
    let window = Window::of(world);
    let changes = window.changes();
    let mut choices = Vec::new();
    let ways = world.ways();
    for kept in subsets(changes.len()) {
        let of = |device, at| match changes.iter().zip(&kept).any(|(c, kept)| *c == (device, at) && *kept) {
            true => Fate::Kept,
            false => Fate::Lost,
        };
        for resizes in 0..=window.resizes() {
            for way in 0..ways {
                let extreme = way == 0 || way + 1 == ways || kept.iter().all(|one| *one == kept[0]);
                if ways <= WAYS_MAX || extreme {
                    choices.push(window.choice(of, resizes, way, false, true));
                }
            }
        }
    }
    let pieces: Vec<u64> = world.devices().into_iter().map(MemoryDevice::atomic_write).collect();
    for (device, at) in changes {
        let change = window.0[device][at];
        let newest = at + 1 == window.0[device].len();
        for (number, pattern) in
            tears(sectors(&change, pieces[device]), newest && !nested).into_iter().enumerate()
        {
            for others in [Fate::Lost, Fate::Kept] {
                let of = |d, a| if (d, a) == (device, at) { Fate::Torn(pattern) } else { others };
                let resizes = if others == Fate::Kept || change.resizes { u64::MAX } else { 0 };
                let nested = newest && number == 0;
                let way = if others == Fate::Kept { ways - 1 } else { 0 };
                choices.push(window.choice(of, resizes, way, true, nested));
            }
        }
    }
    choices
}

/// For each subset of `count` changes which of them are kept.
fn subsets(count: usize) -> Vec<Vec<bool>> {
    let kept = |keep: &dyn Fn(usize) -> bool| (0..count).map(keep).collect::<Vec<_>>();
    if count <= WHOLE_WINDOW {
        return (0..1u32 << count).map(|mask| kept(&|at| mask >> at & 1 == 1)).collect();
    }
    let mut subsets: Vec<_> = (0..=count).map(|oldest| kept(&|at| at < oldest)).collect();
    subsets.extend((0..count).map(|alone| kept(&|at| at == alone)));
    subsets.extend((0..count).map(|without| kept(&|at| at != without)));
    subsets
}

/// How many pieces of so many bytes, which a cut leaves whole, a change touches.
fn sectors(change: &Unflushed, piece: u64) -> u64 {
    (change.offset + change.len).div_ceil(piece) - change.offset / piece
}

/// Patterns of surviving sectors of a write: a torn last sector first.
fn tears(sectors: u64, thorough: bool) -> Vec<u64> {
    let sectors = sectors.min(64);
    if sectors < 2 {
        return Vec::new();
    }
    let all = u64::MAX >> (64 - sectors);
    let head = |count: u64| all >> (sectors - count);
    let mut patterns = vec![head(sectors - 1), all & !head(1)];
    if thorough {
        patterns.extend((1..sectors).map(head));
        patterns.extend((1..sectors).map(|count| all & !head(count)));
        patterns.extend((0..sectors).map(|alone| 1 << alone));
        patterns.extend((0..sectors).map(|without| all & !(1 << without)));
    }
    patterns
}

/// What decides the state of a world after a cut, for all stops of one step of one trace: two choices with
/// the same key leave the same bytes.
pub(super) fn key(world: &impl Subject, choice: &Choice) -> Vec<u64> {
    let mut key = Vec::new();
    for (device, survival) in world.devices().into_iter().zip(&choice.survivals) {
        let window = device.window();
        // All older changes are durable.
        key.push(window.first().map_or(device.changes() + 1, |change| change.number));
        let mut resized = 0;
        for (change, fate) in window.iter().zip(&survival.fates) {
            let resize_kept = change.resizes && resized < survival.resizes;
            resized += u64::from(change.resizes);
            let bytes = match fate {
                _ if change.shortens => 0,
                Fate::Kept => u64::MAX,
                Fate::Torn(pattern) => *pattern,
                Fate::Lost => 0,
            };
            if bytes != 0 || resize_kept {
                key.extend([change.number, bytes, u64::from(resize_kept)]);
            }
        }
        key.push(0);
    }
    key.push(world.way_key(choice.way));
    key
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_short_window_is_tried_in_all_its_subsets_and_a_long_one_in_the_telling_ones() {
        assert_eq!(subsets(0), [Vec::<bool>::new()]);
        assert_eq!(subsets(3).len(), 8);
        let long = subsets(WHOLE_WINDOW + 1);
        assert_eq!(long.len(), 8 + 7 + 7);
        assert!(long.contains(&vec![false; 7]) && long.contains(&vec![true; 7]));
    }

    #[test]
    fn a_write_is_torn_at_every_sector() {
        assert!(tears(1, true).is_empty());
        assert_eq!(tears(4, false), [0b0111, 0b1110]);
        let tears = tears(4, true);
        for pattern in [0b0001, 0b0011, 0b0111, 0b1110, 0b1100, 0b1000, 0b0010, 0b1011] {
            assert!(tears.contains(&pattern), "{pattern:b}");
        }
        assert!(tears.iter().all(|pattern| (1..0b1111).contains(pattern)));
    }
}
