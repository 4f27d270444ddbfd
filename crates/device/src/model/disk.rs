//! One disk: an arm, a turning platter, and a queue from which the disk chooses what it reaches soonest.
//!
//! What waits is kept, and choices are made lazily: [`DiskState::advance`] makes every choice that has come
//! due, each with exactly the requests that had arrived by then. So the outcome does not depend on who asks
//! when, and a disk shared by processes needs no thread of its own.
//!
//! An access takes seek + rotation + transfer, where seek = track + stroke * sqrt(distance) and the rotation
//! is that of the angle under the arm. Requests that continue where the arm is stream without a wait: reads
//! always (the disk reads ahead), writes if they were waiting already; a write that comes later has missed
//! its sector, as on a real disk whose write cache is off. Writes taken into a write cache complete at once
//! and are put on the medium when nothing else waits, when the cache is half full, or when a flush wants
//! them.
//!
//! Life of a slot: free -(add)-> waiting -(advance)-> served -(collect)-> free. Cached writes skip "served".
//! A served slot whose owner never collects it is taken back after [`ABANDONED_NS`].

use super::spec::DiskParameters;

/// Requests that wait or await collection at one disk; whoever finds no slot has to wait for one.
pub(super) const SLOTS: usize = 128;

/// Slots that cached writes leave to others.
const SLOTS_RESERVED: usize = 64;

/// A served request that nobody has asked for this long belonged to a process that is gone.
const ABANDONED_NS: u64 = 10_000_000_000;

const NS_PER_MS: f64 = 1e6;

const FREE: u32 = 0;
const WAITING: u32 = 1;
const SERVED: u32 = 2;

/// A request at one disk. All zero is a free slot.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
struct Slot {
    phase: u32,
    write: u32,
    cached: u32,
    _padding: u32,
    /// Tells the users of a slot apart.
    sequence: u64,
    arrival: u64,
    completion: u64,
    /// First byte on this disk.
    start: u64,
    len: u64,
    /// Where the arm has to be, as a fraction of the stroke.
    position: f64,
}

impl Slot {
    const EMPTY: Self = Self {
        phase: FREE,
        write: 0,
        cached: 0,
        _padding: 0,
        sequence: 0,
        arrival: 0,
        completion: 0,
        start: 0,
        len: 0,
        position: 0.0,
    };
}

/// State of one disk. All zero is an idle disk at time 0 with its arm at the rim.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub(super) struct DiskState {
    slots: [Slot; SLOTS],
    /// When the arm has finished what was chosen last.
    free_at: u64,
    /// Where the last transfer ended, in bytes on this disk, and the position of the arm.
    head: u64,
    head_position: f64,
    waiting: Waiting,
    cached_bytes: u64,
    /// Cached writes up to this sequence are wanted on the medium.
    flush_wanted: u64,
    /// When the last of them was on the medium.
    flushed_at: u64,
    sequence: u64,
    /// Time in ns the disk was busy.
    busy: u64,
}

/// Which slots wait, a bit each: most of what a disk does is to look at those.
#[repr(C)]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Waiting([u64; SLOTS / 64]);

impl Waiting {
    const NOBODY: Self = Self([0; SLOTS / 64]);

    fn insert(&mut self, slot: usize) {
        self.0[slot / 64] |= 1 << (slot % 64);
    }

    fn remove(&mut self, slot: usize) {
        self.0[slot / 64] &= !(1 << (slot % 64));
    }

    fn len(self) -> usize {
        self.0.iter().map(|word| word.count_ones() as usize).sum()
    }

    /// The slots in their order.
    #[inline]
    fn slots(self) -> impl Iterator<Item = usize> {
        (0..).step_by(64).zip(self.0).flat_map(|(first, mut word)| {
            std::iter::from_fn(move || {
                let bit = (word != 0).then(|| word.trailing_zeros() as usize)?;
                word &= word - 1;
                Some(first + bit)
            })
        })
    }
}

/// A request to add.
#[derive(Debug, Clone, Copy)]
pub(super) struct Piece {
    pub(super) write: bool,
    pub(super) start: u64,
    pub(super) len: u64,
    pub(super) position: f64,
}

/// Names a request that was added.
#[derive(Debug, Clone, Copy)]
pub(super) struct Handle {
    slot: u32,
    sequence: u64,
}

/// What became of an added request.
#[derive(Debug, Clone, Copy)]
pub(super) enum Added {
    /// Waits at the disk.
    Waits(Handle),
    /// Is in the write cache at this time, and so complete.
    Cached(u64),
}

/// How far a request is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Reached {
    /// Complete at this time.
    At(u64),
    /// Not before this time can more be said.
    NotBefore(u64),
}

#[derive(Debug, Clone)]
struct Direction {
    seek_track: f64,
    seek_stroke: f64,
    choice: u64,
    window: usize,
    ns_per_byte: f64,
}

/// Parameters of one disk, in ns.
#[derive(Debug, Clone)]
pub(super) struct Disk {
    read: Direction,
    write: Direction,
    revolution: f64,
    track_bytes: f64,
    capacity: f64,
    aging: f64,
    cache_bytes: u64,
}

impl Disk {
    /// A disk of `capacity` bytes.
    pub(super) fn new(parameters: &DiskParameters, capacity: u64) -> Self {
        let read = Direction {
            seek_track: parameters.read_seek_track_ms * NS_PER_MS,
            seek_stroke: parameters.read_seek_stroke_ms * NS_PER_MS,
            choice: (parameters.read_choice_ms * NS_PER_MS) as u64,
            window: parameters.read_window as usize,
            ns_per_byte: 1e3 / parameters.read_media_mb_per_s,
        };
        let write = Direction {
            seek_track: parameters.write_seek_track_ms * NS_PER_MS,
            seek_stroke: parameters.write_seek_stroke_ms * NS_PER_MS,
            choice: (parameters.write_choice_ms * NS_PER_MS) as u64,
            window: parameters.write_window as usize,
            ns_per_byte: 1e3 / parameters.write_media_mb_per_s,
        };
        let revolution = parameters.revolution_ms * NS_PER_MS;
        let track_bytes = revolution / read.ns_per_byte;
        let (aging, cache_bytes) = (parameters.aging, parameters.write_cache_bytes);
        Self { read, write, revolution, track_bytes, capacity: capacity as f64, aging, cache_bytes }
    }

    fn direction(&self, slot: &Slot) -> &Direction {
        if slot.write != 0 { &self.write } else { &self.read }
    }

    /// Time in ns from `now` until `slot` is transferred, if the arm goes there now.
    fn access(&self, state: &DiskState, slot: &Slot, now: u64) -> u64 {
        let direction = self.direction(slot);
        let transfer = slot.len as f64 * direction.ns_per_byte;
        let continues = slot.start == state.head;
        let missed = slot.write != 0 && now > state.free_at;
        if continues && !missed {
            return transfer as u64;
        }
        let distance = (slot.position - state.head_position).abs().min(1.0);
        let near = distance * self.capacity <= self.track_bytes;
        let seek = if near { 0.0 } else { direction.seek_track + direction.seek_stroke * distance.sqrt() };
        let angle = fraction(slot.start as f64 / self.track_bytes);
        let phase = fraction((now as f64 + seek) / self.revolution);
        let behind = angle - phase;
        let turn = (if behind < 0.0 { behind + 1.0 } else { behind }) * self.revolution;
        (seek + turn + transfer) as u64
    }
}

/// What is behind the point of a number that is not negative, without a call of the library where a processor
/// rounds only to integers.
#[inline]
fn fraction(number: f64) -> f64 {
    number - number as i64 as f64
}

impl DiskState {
    pub(super) const EMPTY: Self = Self {
        slots: [Slot::EMPTY; SLOTS],
        free_at: 0,
        head: 0,
        head_position: 0.0,
        waiting: Waiting::NOBODY,
        cached_bytes: 0,
        flush_wanted: 0,
        flushed_at: 0,
        sequence: 0,
        busy: 0,
    };

    #[cfg(test)]
    pub(super) fn leave_torn(&mut self) {
        (self.free_at, self.waiting, self.cached_bytes) = (u64::MAX, Waiting([3; SLOTS / 64]), u64::MAX);
        self.slots.iter_mut().for_each(|slot| slot.phase = WAITING);
    }

    /// Time in ns the disk was busy since it came into being.
    pub(super) fn busy(&self) -> u64 {
        self.busy
    }

    /// Whether a request could be added now.
    pub(super) fn has_room(&self, now: u64) -> bool {
        self.free_slot(now).is_some()
    }

    /// When the next slot may become free.
    pub(super) fn room_not_before(&self, now: u64) -> u64 {
        self.free_at.max(now.saturating_add(1))
    }

    fn free_slot(&self, now: u64) -> Option<usize> {
        self.slots.iter().position(|slot| {
            let abandoned = slot.phase == SERVED && slot.completion.saturating_add(ABANDONED_NS) < now;
            slot.phase == FREE || slot.phase > SERVED || abandoned
        })
    }

    /// Adds a request that arrives at `now`; `None` if there is no slot.
    pub(super) fn add(&mut self, disk: &Disk, now: u64, piece: Piece) -> Option<Added> {
        let index = self.free_slot(now)?;
        self.sequence += 1;
        let cached = piece.write && self.cache_has_room(disk, piece.len);
        self.slots[index] = Slot {
            phase: WAITING,
            write: u32::from(piece.write),
            cached: u32::from(cached),
            sequence: self.sequence,
            arrival: now,
            start: piece.start,
            len: piece.len,
            position: piece.position,
            ..Slot::EMPTY
        };
        self.waiting.insert(index);
        if cached {
            self.cached_bytes += piece.len;
            let transfer = (piece.len as f64 * disk.write.ns_per_byte) as u64;
            return Some(Added::Cached(now + transfer));
        }
        Some(Added::Waits(Handle { slot: index as u32, sequence: self.sequence }))
    }

    fn cache_has_room(&self, disk: &Disk, len: u64) -> bool {
        let fits = self.cached_bytes.saturating_add(len) <= disk.cache_bytes;
        fits && self.waiting.len() < SLOTS - SLOTS_RESERVED
    }

    /// Makes every choice that is due before `now`, or, with `inclusive`, at `now` too.
    pub(super) fn advance(&mut self, disk: &Disk, now: u64, inclusive: bool) {
        while self.waiting != Waiting::NOBODY {
            // A choice comes no earlier than this, whatever waits.
            if self.free_at > now || (self.free_at == now && !inclusive) {
                return;
            }
            let Some(start) = self.start() else {
                self.waiting = Waiting::NOBODY;
                return;
            };
            if start > now || (start == now && !inclusive) {
                return;
            }
            let Some((index, choice)) = self.choose(disk, start) else { return };
            self.serve(disk, index, start, choice);
        }
    }

    /// The requests that wait, with the numbers of their slots. What a process that died had in hand is left
    /// out.
    #[inline]
    fn waiting(&self) -> impl Iterator<Item = (usize, &Slot)> {
        let slots = self.waiting.slots().map(|index| (index, &self.slots[index]));
        slots.filter(|(_, slot)| slot.phase == WAITING)
    }

    /// When the next choice is made: as soon as the arm is free and a request is there. `None` if none waits.
    fn start(&self) -> Option<u64> {
        let mut first = None;
        for (_, slot) in self.waiting() {
            // Most of the time one has come while the arm was busy, and it does not matter which.
            if slot.arrival <= self.free_at {
                return Some(self.free_at);
            }
            first = Some(first.map_or(slot.arrival, |first: u64| first.min(slot.arrival)));
        }
        first
    }

    /// What the arm goes for at `now`, and how long choosing takes.
    fn choose(&self, disk: &Disk, now: u64) -> Option<(usize, u64)> {
        let (mut waiting, mut waiters, mut cached) = ([0_u8; SLOTS], 0, 0);
        for (index, slot) in self.waiting() {
            waiting[waiters] = index as u8;
            waiters += 1;
            cached += usize::from(slot.cached != 0);
        }
        let half_full = self.cached_bytes.saturating_mul(2) > disk.cache_bytes;
        let urgent = half_full || cached * 2 > SLOTS - SLOTS_RESERVED;
        let (mut indexes, mut count) = ([0_u8; SLOTS], 0);
        for eager in [false, true] {
            for &index in &waiting[..waiters] {
                let slot = &self.slots[usize::from(index)];
                let streams = slot.start == self.head;
                let held_back = slot.cached != 0 && !urgent && !streams && slot.sequence > self.flush_wanted;
                if slot.arrival <= now && (eager || !held_back) {
                    indexes[count] = index;
                    count += 1;
                }
            }
            if count > 0 {
                break;
            }
        }
        let candidates = &mut indexes[..count];
        if count > disk.read.window.min(disk.write.window) {
            candidates.sort_unstable_by_key(|&index| self.slots[usize::from(index)].sequence);
        }
        let (mut reads, mut writes) = (0, 0);
        let mut best: Option<(i64, usize)> = None;
        for &mut index in candidates {
            let index = usize::from(index);
            let slot = &self.slots[index];
            let (seen, window) = if slot.write != 0 {
                (&mut writes, disk.write.window)
            } else {
                (&mut reads, disk.read.window)
            };
            if *seen >= window {
                continue;
            }
            *seen += 1;
            let credit = ((now - slot.arrival) as f64 * disk.aging) as i64;
            let score = disk.access(self, slot, now) as i64 - credit;
            if best.is_none_or(|(lowest, _)| score < lowest) {
                best = Some((score, index));
            }
        }
        let (_, index) = best?;
        let slot = &self.slots[index];
        let streams = slot.start == self.head;
        let choice = if reads + writes > 1 && !streams { disk.direction(slot).choice } else { 0 };
        Some((index, choice))
    }

    fn serve(&mut self, disk: &Disk, index: usize, start: u64, choice: u64) {
        let slot = self.slots[index];
        let completion = start + choice + disk.access(self, &slot, start).max(1);
        self.busy += completion - start;
        self.free_at = completion;
        self.head = slot.start.saturating_add(slot.len);
        self.head_position = slot.position;
        self.waiting.remove(index);
        let served = &mut self.slots[index];
        served.completion = completion;
        served.phase = SERVED;
        if slot.cached != 0 {
            self.cached_bytes = self.cached_bytes.saturating_sub(slot.len);
            served.phase = FREE;
            if slot.sequence <= self.flush_wanted {
                self.flushed_at = completion;
            }
        }
    }

    /// How far a request is at `now`; its slot is free once its completion is known.
    pub(super) fn collect(&mut self, disk: &Disk, now: u64, handle: Handle) -> Reached {
        self.advance(disk, now, true);
        let Some(slot) =
            self.slots.get_mut(handle.slot as usize).filter(|slot| slot.sequence == handle.sequence)
        else {
            // The state was reset, or the slot was taken back: whatever this was, it is long over.
            return Reached::At(now);
        };
        if slot.phase == SERVED {
            slot.phase = FREE;
            return Reached::At(slot.completion);
        }
        Reached::NotBefore(self.free_at.max(now + 1))
    }

    /// Asks for everything cached so far to be put on the medium; the number to wait for.
    pub(super) fn want_flushed(&mut self, disk: &Disk, now: u64) -> u64 {
        // What was chosen before now was chosen without knowing of the flush.
        self.advance(disk, now, false);
        self.flush_wanted = self.sequence;
        // What is on its way to the medium counts too.
        self.flushed_at = if disk.cache_bytes > 0 { self.free_at } else { 0 };
        self.sequence
    }

    /// How far the flush of everything cached up to `wanted` is.
    pub(super) fn flushed(&mut self, disk: &Disk, now: u64, wanted: u64) -> Reached {
        self.advance(disk, now, true);
        if self.waiting().any(|(_, slot)| slot.cached != 0 && slot.sequence <= wanted) {
            Reached::NotBefore(self.free_at.max(now + 1))
        } else {
            Reached::At(self.flushed_at)
        }
    }

    /// Forgets everything that waits, after a process died in the middle of a change. Sequence numbers go on,
    /// so that no handle of before is mistaken for one of after.
    pub(super) fn reset(&mut self, now: u64) {
        let (sequence, busy) = (self.sequence.wrapping_add(1 << 32), self.busy);
        *self = Self { sequence, busy, free_at: now, ..Self::EMPTY };
    }
}
