//! Erase blocks and the lists that they are in.

use super::{Block, BlockState, Dimensions, Plane};

/// What blocks that a start finds may be.
pub(crate) struct Found<'a> {
    /// Streams that have open blocks.
    pub(crate) streams: &'a [usize],
    /// Erases after which a block is worn out.
    pub(crate) endurance: u32,
    /// How many of those a plane does without.
    pub(crate) spare: u32,
}

/// A flash array over memory that somebody else keeps.
#[derive(Debug)]
pub struct Array<'s> {
    pub(crate) geometry: &'s Dimensions,
    pub(crate) planes: &'s mut [Plane],
    pub(crate) blocks: &'s mut [Block],
    /// The closed blocks of a plane with this many valid units; number + 1, 0 = none.
    pub(crate) heads: &'s mut [u32],
    /// The spare area of each unit: the owner's word, 0 = padding.
    pub(crate) spare: &'s mut [u32],
    /// A bit for each unit that somebody vouches for.
    pub(crate) vouched: &'s mut [u64],
    /// Blocks closed so far.
    pub(crate) closings: &'s mut u64,
}

impl<'s> Array<'s> {
    pub(crate) fn new(
        geometry: &'s Dimensions,
        planes: &'s mut [Plane],
        blocks: &'s mut [Block],
        heads: &'s mut [u32],
        spare: &'s mut [u32],
        vouched: &'s mut [u64],
        closings: &'s mut u64,
    ) -> Self {
        Self { geometry, planes, blocks, heads, spare, vouched, closings }
    }

    /// Makes erased blocks of an array that is all zero, but for those that `is_bad` names.
    pub fn format(&mut self, is_bad: impl Fn(u32) -> bool) {
        for block in 0..self.blocks.len() as u32 {
            if !is_bad(block) {
                self.add_erased(block);
            }
        }
        for plane in self.planes.iter_mut() {
            plane.fewest = self.geometry.units_per_block();
        }
    }

    /// The block that a unit is in.
    pub fn block_of(&self, unit: u32) -> u32 {
        self.geometry.block_of(unit)
    }

    /// Where a block is.
    pub fn state(&self, block: u32) -> BlockState {
        BlockState::of(self.blocks[block as usize].state)
    }

    /// Units of a block that somebody vouches for.
    pub fn valid(&self, block: u32) -> u32 {
        self.blocks[block as usize].valid
    }

    /// Units of a block programmed since its last erase.
    pub(crate) fn written(&self, block: u32) -> u32 {
        self.blocks[block as usize].written
    }

    /// Erases of a block so far.
    pub fn erases(&self, block: u32) -> u32 {
        self.blocks[block as usize].erases
    }

    /// Erased blocks of a plane.
    pub fn erased(&self, plane: u32) -> u32 {
        self.planes[plane as usize].erased
    }

    /// The owner's word of a unit.
    pub fn spare(&self, unit: u32) -> u32 {
        self.spare[unit as usize]
    }

    /// Takes an erased block of a plane to program: of the first few the least worn one (dynamic wear
    /// levelling).
    pub fn open(&mut self, plane: u32) -> Option<u32> {
        /// Erased blocks that are looked at. A drive in steady state has no more.
        const LOOK: usize = 16;
        let mut candidate = self.planes[plane as usize].erased_head;
        let mut best = candidate;
        for _ in 0..LOOK {
            if candidate == 0 {
                break;
            }
            let block = &self.blocks[candidate as usize - 1];
            if block.erases < self.blocks[best as usize - 1].erases {
                best = candidate;
            }
            candidate = block.next;
        }
        let block = best.checked_sub(1)?;
        self.begin(plane, block);
        Some(block)
    }

    /// Takes the block of a plane that was erased first, whatever its wear.
    pub fn open_first_erased(&mut self, plane: u32) -> Option<u32> {
        let block = self.planes[plane as usize].erased_head.checked_sub(1)?;
        self.begin(plane, block);
        Some(block)
    }

    /// An erased block is programmed from now on.
    fn begin(&mut self, plane: u32, block: u32) {
        self.remove_erased(plane, block);
        let opened = &mut self.blocks[block as usize];
        debug_assert!(
            opened.valid == 0 && opened.written == 0,
            "N1: a block is erased before it is programmed"
        );
        opened.state = BlockState::Open as u32;
    }

    /// Ends programming of an open block before it is full.
    pub fn close(&mut self, block: u32) {
        *self.closings += 1;
        let closed = &mut self.blocks[block as usize];
        closed.state = BlockState::Closed as u32;
        closed.stamp = *self.closings;
        let plane = self.geometry.plane_of(block);
        self.link(plane, block);
    }

    /// The first unit from `from` on and before `end` that somebody vouches for.
    #[inline]
    pub fn next_valid(&self, from: u32, end: u32) -> Option<u32> {
        let mut at = from;
        while at < end {
            let rest = self.vouched[at as usize / 64] >> (at % 64);
            if rest != 0 {
                let found = at + rest.trailing_zeros();
                return (found < end).then_some(found);
            }
            at = (at / 64 + 1) * 64;
        }
        None
    }

    /// The next units from `from` on and before `end` that somebody vouches for, as many as `found` has room
    /// for. Returns how many there are.
    #[inline]
    pub(crate) fn next_valid_ones(&self, from: u32, end: u32, found: &mut [u32]) -> usize {
        let (mut at, mut count) = (from, 0);
        while at < end {
            let mut rest = self.vouched[at as usize / 64] >> (at % 64);
            while rest != 0 {
                let unit = at + rest.trailing_zeros();
                if unit >= end || count == found.len() {
                    return count;
                }
                found[count] = unit;
                count += 1;
                rest &= rest - 1;
            }
            at = (at / 64 + 1) * 64;
        }
        count
    }

    /// Nobody vouches for a unit any more of a block that was taken for collection. To be followed by
    /// [`Self::moved`] once for some of them.
    ///
    /// # Panics
    /// If nobody did before (N3).
    #[inline]
    pub(crate) fn invalidate_taken(&mut self, unit: u32) {
        let (word, bit) = (&mut self.vouched[unit as usize / 64], 1 << (unit % 64));
        assert!(*word & bit != 0, "N3: unit {unit} is given up twice");
        *word &= !bit;
    }

    /// So many units of a block were invalidated that was taken for collection.
    #[inline]
    pub(crate) fn moved(&mut self, block: u32, units: u32) {
        self.blocks[block as usize].valid -= units;
    }

    /// Nobody vouches for a unit any more.
    ///
    /// # Panics
    /// If nobody did before (N3).
    #[inline]
    pub fn invalidate(&mut self, unit: u32) {
        let block = self.block_of(unit);
        let number = block as usize;
        let (word, bit) = (&mut self.vouched[unit as usize / 64], 1 << (unit % 64));
        assert!(*word & bit != 0, "N3: unit {unit} is given up twice");
        *word &= !bit;
        let found = &mut self.blocks[number];
        found.valid -= 1;
        if found.state == BlockState::Closed as u32 {
            let (previous, next, valid) = (found.previous, found.next, found.valid);
            self.move_down(block, previous, next, valid);
        }
    }

    /// A closed block goes from the list of one valid unit more to the one that it belongs in.
    #[inline]
    fn move_down(&mut self, block: u32, previous: u32, next: u32, valid: u32) {
        let plane = self.geometry.plane_of(block);
        let head = self.head(plane, valid);
        let [to, from] = &mut self.heads[head..head + 2] else { unreachable!("two lists side by side") };
        match previous.checked_sub(1) {
            None => *from = next,
            Some(previous) => self.blocks[previous as usize].next = next,
        }
        if let Some(next) = next.checked_sub(1) {
            self.blocks[next as usize].previous = previous;
        }
        let first = std::mem::replace(to, block + 1);
        if let Some(first) = first.checked_sub(1) {
            self.blocks[first as usize].previous = block + 1;
        }
        let moved = &mut self.blocks[block as usize];
        (moved.previous, moved.next) = (0, first);
        let fewest = &mut self.planes[plane as usize].fewest;
        *fewest = valid.min(*fewest);
    }

    /// The closed block of a plane with the fewest valid units.
    pub fn fewest_valid(&mut self, plane: u32) -> Option<u32> {
        let heads = &self.heads[self.head(plane, 0)..=self.head(plane, self.geometry.units_per_block())];
        let fewest = &mut self.planes[plane as usize].fewest;
        while (*fewest as usize) < heads.len() - 1 && heads[*fewest as usize] == 0 {
            *fewest += 1;
        }
        heads[*fewest as usize].checked_sub(1)
    }

    /// As [`Self::fewest_valid`], looked for anew.
    pub(crate) fn fewest_valid_now(&self, plane: u32) -> Option<u32> {
        let heads = self.planes[plane as usize].fewest..=self.geometry.units_per_block();
        heads.map(|valid| self.heads[self.head(plane, valid)]).find(|head| *head != 0)?.checked_sub(1)
    }

    /// Whether collecting a block frees as much as it has to at least: a page, as what is moved fills whole
    /// ones, or more where moves are journalled.
    pub fn has_garbage(&self, block: u32) -> bool {
        self.blocks[block as usize].valid + self.geometry.gain_units_min() <= self.geometry.units_per_block()
    }

    /// The closed block of a plane that has garbage and for which `score` is largest; of equals the one with
    /// the lower number. `score` is given the valid units, and how many blocks of the drive were closed since
    /// this one.
    pub fn best(&self, plane: u32, score: impl Fn(u32, u64) -> f64) -> Option<u32> {
        let first = plane * self.geometry.blocks_per_plane;
        let mut best: Option<(f64, u32)> = None;
        for block in first..first + self.geometry.blocks_per_plane {
            let seen = &self.blocks[block as usize];
            if seen.state != BlockState::Closed as u32 || !self.has_garbage(block) {
                continue;
            }
            let score = score(seen.valid, *self.closings - seen.stamp);
            if best.is_none_or(|(before, _)| score > before) {
                best = Some((score, block));
            }
        }
        best.map(|(_, block)| block)
    }

    /// Takes a closed block for collection.
    pub fn take(&mut self, block: u32) {
        let plane = self.geometry.plane_of(block);
        self.unlink(plane, block);
        self.blocks[block as usize].state = BlockState::Taken as u32;
    }

    /// Erases a block that was taken. One that has been erased `endurance` times then is bad from now on, as
    /// long as its plane has lost fewer than `spare` in that way. Returns whether it is not.
    ///
    /// # Panics
    /// If it holds anything that somebody vouches for (N3), or was not taken.
    pub fn erase(&mut self, block: u32, endurance: u32, spare: u32) -> bool {
        let erased = &mut self.blocks[block as usize];
        assert!(erased.state == BlockState::Taken as u32, "block {block} is erased and was not taken");
        assert!(erased.valid == 0, "N3: block {block} is erased with {} valid units", erased.valid);
        erased.written = 0;
        // What is left of the number once whoever changed it died may be the largest.
        erased.erases = erased.erases.saturating_add(1);
        if self.is_spared(block, endurance, spare) {
            return false;
        }
        self.add_erased(block);
        true
    }

    /// Takes a block that is in no list out of use if it is worn out and its plane has others.
    fn is_spared(&mut self, block: u32, endurance: u32, spare: u32) -> bool {
        let plane = &mut self.planes[self.geometry.plane_of(block) as usize];
        let worn = &mut self.blocks[block as usize];
        // A plane with fewer erased ones beside it could not open a block (T3).
        if worn.erases < endurance || plane.worn_out >= spare || plane.erased < 2 {
            return false;
        }
        plane.worn_out += 1;
        worn.state = BlockState::Bad as u32;
        true
    }

    /// Takes a block as it was before a start, with so many units written: one that is not full goes on as
    /// the open block of one of these streams that has none. To be called after [`Self::format`], and
    /// [`Self::adopted`] when all units that count are adopted. An erased one that is worn out is bad, as of
    /// [`Self::erase`].
    pub(crate) fn found(&mut self, block: u32, written: u32, erases: u32, found: &Found<'_>) {
        self.blocks[block as usize].erases = erases;
        if self.state(block) != BlockState::Erased {
            return;
        }
        let plane = self.geometry.plane_of(block);
        if written == 0 {
            self.remove_erased(plane, block);
            if !self.is_spared(block, found.endurance, found.spare) {
                self.add_erased(block);
            }
            return;
        }
        self.remove_erased(plane, block);
        self.blocks[block as usize].written = written;
        let state = &mut self.planes[plane as usize];
        let stream = found.streams.iter().find(|stream| state.open[**stream] == 0);
        if let Some(stream) = stream.filter(|_| written < self.geometry.units_per_block()) {
            state.open[*stream] = block + 1;
            self.blocks[block as usize].state = BlockState::Open as u32;
            return;
        }
        *self.closings += 1;
        let found = &mut self.blocks[block as usize];
        (found.state, found.stamp) = (BlockState::Closed as u32, *self.closings);
    }

    /// Somebody vouches for a unit that was programmed before a start.
    pub(crate) fn adopt(&mut self, unit: u32, owner: u32) {
        self.spare[unit as usize] = owner;
        self.vouched[unit as usize / 64] |= 1 << (unit % 64);
        let block = self.block_of(unit);
        self.blocks[block as usize].valid += 1;
    }

    /// Puts the blocks that were found into the lists of their valid units.
    pub(crate) fn adopted(&mut self) {
        for block in 0..self.blocks.len() as u32 {
            if self.state(block) == BlockState::Closed {
                self.link(self.geometry.plane_of(block), block);
            }
        }
    }

    fn add_erased(&mut self, block: u32) {
        let number = self.geometry.plane_of(block) as usize;
        let plane = &mut self.planes[number];
        let tail = plane.erased_tail;
        plane.erased_tail = block + 1;
        plane.erased += 1;
        match tail.checked_sub(1) {
            None => plane.erased_head = block + 1,
            Some(tail) => self.blocks[tail as usize].next = block + 1,
        }
        let added = &mut self.blocks[block as usize];
        (added.state, added.previous, added.next) = (BlockState::Erased as u32, tail, 0);
    }

    fn remove_erased(&mut self, plane: u32, block: u32) {
        let Block { previous, next, .. } = self.blocks[block as usize];
        let plane = &mut self.planes[plane as usize];
        plane.erased -= 1;
        match previous.checked_sub(1) {
            None => plane.erased_head = next,
            Some(previous) => self.blocks[previous as usize].next = next,
        }
        match next.checked_sub(1) {
            None => plane.erased_tail = previous,
            Some(next) => self.blocks[next as usize].previous = previous,
        }
    }

    pub(super) fn head(&self, plane: u32, valid: u32) -> usize {
        plane as usize * (self.geometry.units_per_block() as usize + 1) + valid as usize
    }

    fn link(&mut self, plane: u32, block: u32) {
        let valid = self.blocks[block as usize].valid;
        let head = self.head(plane, valid);
        let next = self.heads[head];
        self.heads[head] = block + 1;
        if let Some(next) = next.checked_sub(1) {
            self.blocks[next as usize].previous = block + 1;
        }
        let linked = &mut self.blocks[block as usize];
        (linked.previous, linked.next) = (0, next);
        let fewest = &mut self.planes[plane as usize].fewest;
        *fewest = valid.min(*fewest);
    }

    fn unlink(&mut self, plane: u32, block: u32) {
        let Block { previous, next, valid, .. } = self.blocks[block as usize];
        match previous.checked_sub(1) {
            None => {
                let head = self.head(plane, valid);
                self.heads[head] = next;
            }
            Some(previous) => self.blocks[previous as usize].next = next,
        }
        if let Some(next) = next.checked_sub(1) {
            self.blocks[next as usize].previous = previous;
        }
    }
}
