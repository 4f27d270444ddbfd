//! The map of a drive without a durable cache, when it starts.
//!
//! The spare area of a page says which units it has, and which of the host's writes each is. So the map that
//! is on flash is brought up to date: of a unit the newest copy that can be read counts, if it is no older
//! than what the map and its journal say of it. Whatever was flushed is found by both ways. Where the drive
//! keeps the order of writes, what came behind the first that is not in flash is left out, for good.
//!
//! A drive that shows `corrupt_map` or `dead` takes the map as its pages and its journal have it, though
//! blocks that it names may have been erased and programmed since.

use super::{Anomaly, Contents, Entry, Held, PlantedFault, Recorder, Remains, Stamp, Version};
use crate::drive::Ssd;
use crate::ftl::Location;

/// The newest copies of a unit of the host: whose write they are, and where.
#[derive(Debug, Clone, Copy, Default)]
struct Copies {
    /// One that can be read; of several the one that the journal names.
    readable: Option<(Stamp, bool, u32)>,
    /// One that was taken along by a program into the same cells.
    taken: Option<(Stamp, u32)>,
}

impl Ssd {
    /// What has changed of the map on flash that the recorder has. What is left out for good is so in the
    /// recorder's flash.
    pub(super) fn roll_forward(&self, recorder: &mut Recorder, remains: &Remains) -> Vec<(u32, Entry)> {
        if self.config().shows(Anomaly::CorruptMap) || self.config().shows(Anomaly::Dead) {
            return Vec::new();
        }
        let mut copies = vec![Copies::default(); recorder.journalled.len()];
        for (unit, held) in recorder.units.iter().enumerate() {
            let unit = unit as u32;
            if held.stamp() > remains.in_order_to {
                continue;
            }
            match *held {
                Held::Data { logical, stamp, .. } => {
                    let named = recorder.journalled[logical as usize].word == Location::Flash(unit).word();
                    let readable = &mut copies[logical as usize].readable;
                    *readable = (*readable).max(Some((stamp, named, unit)));
                }
                Held::Taken { logical, stamp } => {
                    let taken = &mut copies[logical as usize].taken;
                    *taken = (*taken).max(Some((stamp, unit)));
                }
                Held::Erased | Held::Map(_) | Held::Nothing | Held::Torn => {}
            }
        }
        let mut changed = Vec::new();
        for (logical, (known, copies)) in recorder.journalled.iter().zip(&copies).enumerate() {
            let word = copies.of(*known).map_or(0, |unit| Location::Flash(unit).word());
            if word != known.word {
                let stamp = Location::of(word)
                    .unit()
                    .map_or(known.stamp, |unit| recorder.units[unit as usize].stamp());
                changed.push((logical as u32, Entry { word, stamp }));
            }
        }
        recorder.fill_up_shorn(remains.in_order_to);
        if !recorder.is_planted(PlantedFault::LeftOutReturns) {
            let left_out = recorder.units.iter_mut().filter(|held| held.stamp() > remains.in_order_to);
            // They would be the newest at the next start.
            left_out.for_each(|held| *held = Held::Nothing);
        }
        changed
    }
}

impl Copies {
    /// Which of them is the unit's, by what the map on flash knows of it.
    fn of(&self, known: Entry) -> Option<u32> {
        // A copy that is older was written over, or given up, and what followed is gone.
        let is_new = |stamp: &Stamp| *stamp >= known.stamp;
        if let Some((_, _, unit)) = self.readable.filter(|(stamp, ..)| is_new(stamp)) {
            return Some(unit);
        }
        // An error is better than an older version of what was flushed, or than nothing.
        let (_, unit) = self.taken.filter(|(stamp, _)| known.word != 0 && is_new(stamp))?;
        Some(unit)
    }
}

impl Recorder {
    /// A unit of which only the first sectors are there has the others from the version before.
    fn fill_up_shorn(&mut self, in_order_to: Stamp) {
        let is_shorn = |held: &Held| matches!(held, Held::Data { contents: Contents::Shorn { .. }, .. });
        let shorn: Vec<usize> = (0..self.units.len()).filter(|unit| is_shorn(&self.units[*unit])).collect();
        for unit in shorn {
            let Held::Data { logical, stamp, contents } = self.units[unit].clone() else { continue };
            let Contents::Shorn { version, sectors, before: 0 } = contents else { continue };
            if stamp > in_order_to {
                continue;
            }
            let before = self.version_before(logical, stamp);
            // Of a copy that collection was making the rest is the same.
            let contents = match before == version {
                true => Contents::Whole(version),
                false => Contents::Shorn { version, sectors, before },
            };
            self.units[unit] = Held::Data { logical, stamp, contents };
        }
    }

    /// The newest whole version of a unit up to this write, if the map on flash knows of nothing newer.
    fn version_before(&self, logical: u32, stamp: Stamp) -> Version {
        let known = self.journalled[logical as usize].stamp;
        let whole = self.units.iter().filter_map(|held| match held {
            Held::Data { logical: owner, stamp: at, contents: Contents::Whole(version) } => {
                (*owner == logical && (known..=stamp).contains(at)).then_some((*at, *version))
            }
            _ => None,
        });
        whole.max().map_or(0, |(_, version)| version)
    }
}
