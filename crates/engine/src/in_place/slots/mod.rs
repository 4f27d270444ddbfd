//! The slot directory: on flash, for each home, which page lies there, current at every moment. For designs
//! that are known by it (see `designs`); they have no journal and no metadata segments, and a tier is
//! recovered from it alone (`recovery::slots`).
//!
//! ```text
//!   page comes in        its group is durable, disk synced    the page is about to change    durable: now the host
//!   home's slot: invalid ---------------------------> VALID ------------------------> invalid ----------> may write disk
//!                          one write of its block            or it leaves: one write   ---------> the home becomes free
//! ```
//!
//! 1. *What memory says of a slot may be written at any time.* It is valid only while its home holds that
//!    version, durably, and disk holds it as well, durably. Invalid is always true, since disk has
//!    everything.
//! 2. *Invalidated first.* No version of a page goes to disk while a slot that flash may still show as valid
//!    names an older one: [`InPlace::slot_holds_back`] has the host wait. So a crash at any moment finds disk newer
//!    than flash only where no slot is valid.
//! 3. *No home is free* before its slot is invalid, durably. What is valid on flash is therefore where its
//!    slot says.
//! 4. *One job at a time* writes blocks of slots: of two writes of one block the older could come last.
//!
//! Changed blocks are *listed*, in their order, each once until a job takes it. The number of a change is its
//! block's in that list, counted from 1; it is durable when a flush has begun after the job that wrote it was
//! done: `changes <= durable <= written <= taken <= listed`. Changes that share a block until it is taken are
//! one write.
//!
//! Whether disk has a version durably is the host's to say ([`Tier::disk_synced`]): it syncs the disk for
//! reasons of its own.
//!
//! All of it is guarded by the lock of homes.

mod validity;

mod writing;

use std::sync::atomic::Ordering::Relaxed;

pub use validity::DiskMark;

use mezzanine_ground::interleave::AtomicU32;
use mezzanine_ground::region::{REGION_ALIGNMENT, Region, StateWord, Word, shared, states};

use super::{FrameWord, HomeState, InPlace};
use crate::config::{PlacedGeometry, SlotGeometry};
use crate::format::{SLOT_BLOCK_BYTES, SLOT_BYTES, SlotEntry};
use crate::ids::{Frame, PageId, Version};
use crate::planted::{self, Bug};

states! {
    /// How far the job is that writes blocks.
    pub(super) enum Stage {
        Idle = 0,
        /// The owner of the job that has taken blocks has died: they are to be written again.
        ToWrite = 1,
        Writing = 2,
    }
}

/// Slots in a block.
const PER_BLOCK: u32 = (SLOT_BLOCK_BYTES / SLOT_BYTES) as u32;

/// Ends of the lists, and what is under way.
#[repr(C, align(64))]
struct SlotControl {
    /// Changed blocks that were listed, taken by a job, written; those that the flush under way covers, and
    /// those that are durable.
    listed: Word,
    taken: Word,
    written: Word,
    covered: Word,
    durable: Word,
    /// Up to which somebody waits for durable ones; and up to which somebody waited when the last flush that
    /// counted was done: the next one begins when so many are written, whoever comes to wait meanwhile.
    wanted: Word,
    goal: Word,
    /// Whether a job has blocks in hand, and whose.
    job: StateWord<Stage>,
    job_owner: Word,
    /// Versions that may have gone to disk, counted; of these, those that a sync of the disk has covered.
    disk_writes: Word,
    disk_synced: Word,
    /// The last of them that was of a range of pages.
    range_write: Word,
    /// Homes that wait for a sync of the disk.
    waiting_first: Word,
    waiting_end: Word,
    /// Heads written, the copy that the last one went to, and its change.
    head_number: Word,
    head_copy: Word,
    head_change: Word,
}

/// What there is to know of one slot beyond its bytes.
#[repr(C)]
struct Slot {
    /// The change that made it invalid.
    invalidated: Word,
    /// The version in its home that is durable; and one that must not become valid, because it is being
    /// replaced.
    durable: Word,
    barred: Word,
    valid: AtomicU32,
    /// In the list of those that wait for the disk.
    waits: AtomicU32,
}

/// What is known of the pages that share a hash.
#[repr(C)]
struct Trace {
    /// The last change that made a slot of one of them invalid.
    invalidated: Word,
    /// The last version that may have gone to disk.
    disk_write: Word,
    /// The hash of the page whose present reference the policy knows of already, though it has found no room
    /// yet.
    counted: Word,
}

shared!(SlotControl, Slot, Trace);

impl Slot {
    fn durable(&self) -> Version {
        Version::from_number(self.durable.get())
    }

    fn barred(&self) -> Version {
        Version::from_number(self.barred.get())
    }
}

/// Byte offsets of the parts in a region.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct SlotLayout {
    control: usize,
    slots: usize,
    traces: usize,
    waiting: usize,
    /// For each block, and after them for the head: its last number in the list.
    numbers: usize,
    list: usize,
    image: usize,
    buffer: usize,
}

impl SlotLayout {
    pub(super) fn compute(
        placed: &PlacedGeometry,
        geometry: &SlotGeometry,
        take: &mut dyn FnMut(usize, usize) -> usize,
    ) -> Self {
        let homes = placed.homes as usize;
        let blocks = geometry.blocks as usize + 1;
        Self {
            control: take(size_of::<SlotControl>(), 64),
            slots: take(homes * size_of::<Slot>(), 64),
            traces: take(homes * size_of::<Trace>(), 64),
            waiting: take(homes * 4, 64),
            numbers: take(blocks * 8, 64),
            list: take(2 * blocks * 4, 64),
            image: take(geometry.blocks as usize * SLOT_BLOCK_BYTES, 64),
            buffer: take(geometry.batch as usize * SLOT_BLOCK_BYTES, REGION_ALIGNMENT),
        }
    }
}

/// The parts in a region.
#[derive(Clone, Copy)]
pub(crate) struct Slots<'r> {
    control: &'r SlotControl,
    slots: &'r [Slot],
    traces: &'r [Trace],
    waiting: &'r [FrameWord],
    numbers: &'r [Word],
    list: &'r [AtomicU32],
    region: &'r Region,
    geometry: &'r SlotGeometry,
    layout: &'r SlotLayout,
}

impl<'r> Slots<'r> {
    pub(super) fn new(
        region: &'r Region,
        placed: &'r PlacedGeometry,
        geometry: &'r SlotGeometry,
        layout: &'r SlotLayout,
    ) -> Self {
        let (homes, blocks) = (placed.homes as usize, geometry.blocks as usize + 1);
        Self {
            control: region.value(layout.control),
            slots: region.slice(layout.slots, homes),
            traces: region.slice(layout.traces, homes),
            waiting: region.slice(layout.waiting, homes),
            numbers: region.slice(layout.numbers, blocks),
            list: region.slice(layout.list, 2 * blocks),
            region,
            geometry,
            layout,
        }
    }

    fn slot(&self, home: Frame) -> &'r Slot {
        &self.slots[home.0 as usize]
    }

    fn trace(&self, id: &PageId) -> &'r Trace {
        &self.traces[(((id.hash() >> 32) * self.traces.len() as u64) >> 32) as usize]
    }

    /// The hash of the page, of those that share its own, whose present reference the policy knows of
    /// already.
    pub(super) fn counted(&self, id: &PageId) -> &'r Word {
        &self.trace(id).counted
    }

    /// The number that stands for the head among the blocks.
    fn head(&self) -> u32 {
        self.geometry.blocks
    }

    /// Lists a block that was changed, unless it is and no job has taken it; returns the change's number.
    fn list(&self, block: u32) -> u64 {
        let control = self.control;
        let number = &self.numbers[block as usize];
        if number.get() <= control.taken.get() {
            let listed = control.listed.bump(1);
            self.list[(listed % self.list.len() as u64) as usize].store(block, Relaxed);
            number.set(listed + 1);
        }
        number.get()
    }

    fn store(&self, home: Frame, bytes: &[u8; SLOT_BYTES]) -> u64 {
        self.region.copy_in(self.layout.image + home.0 as usize * SLOT_BYTES, bytes);
        self.list(home.0 / PER_BLOCK)
    }

    pub(super) fn is_valid(&self, home: Frame) -> bool {
        self.slot(home).valid.load(Relaxed) != 0
    }

    /// The page of a home is no longer what its slot says, or is about to be.
    pub(super) fn invalidate(&self, home: Frame, id: &PageId) {
        let slot = self.slot(home);
        if slot.valid.swap(0, Relaxed) == 0 || planted::is(Bug::SlotLeftValid) {
            return;
        }
        let change = self.store(home, &[0; SLOT_BYTES]);
        slot.invalidated.set(change);
        self.trace(id).invalidated.set(change);
    }

    /// Whether flash says durably that nothing lies in a home.
    pub(super) fn is_clear(&self, home: Frame) -> bool {
        !self.is_valid(home) && self.slot(home).invalidated.get() <= self.control.durable.get()
    }

    fn want(&self, change: u64) {
        self.control.wanted.set(self.control.wanted.get().max(change));
        self.set_goal();
    }

    fn set_goal(&self) {
        let control = self.control;
        if control.goal.get() <= control.durable.get() {
            control.goal.set(control.wanted.get());
        }
    }

    /// For tests.
    pub(super) fn check(&self, home: Frame, state: HomeState, version: Version) {
        let (slot, control) = (self.slot(home), self.control);
        if self.is_valid(home) {
            assert!(
                matches!(state, HomeState::Used | HomeState::Leaving),
                "a valid slot is that of a page that is there: {home:?}"
            );
            assert_eq!(slot.durable(), version, "a valid slot is that of a durable version: {home:?}");
            assert_ne!(slot.barred(), version, "no slot is valid whose page is being replaced: {home:?}");
        }
        if state == HomeState::Free {
            assert!(self.is_clear(home), "a free home has no slot on flash: {home:?}");
        }
        let order = [&control.durable, &control.covered, &control.written, &control.taken, &control.listed];
        assert!(order.windows(2).all(|pair| pair[0].get() <= pair[1].get()), "the order of changes");
    }
}

impl InPlace<'_> {
    /// Takes up the slots of a tier that was just recovered from them; `head` counts the heads written and
    /// says which copy is the newest.
    pub(crate) fn adopt_slots(&self, head: (u64, u64), valid: &[(Frame, SlotEntry)]) {
        let homes = self.homes();
        let Some(slots) = homes.slots else { return };
        let _guard = homes.lock(self.owner);
        slots.control.head_number.set(head.0);
        slots.control.head_copy.set(head.1);
        for (home, entry) in valid {
            let bytes = entry.encode(&self.uuid, *home);
            slots.region.copy_in(slots.layout.image + home.0 as usize * SLOT_BYTES, &bytes);
            slots.slot(*home).valid.store(1, Relaxed);
            slots.slot(*home).durable.set(entry.version.number());
        }
    }

    /// Offset and contents of the block that has the slot of a home, as memory has it.
    pub(crate) fn slot_block(&self, home: Frame) -> Option<(u64, Vec<u8>)> {
        let slots = self.homes().slots?;
        let block = home.0 / PER_BLOCK;
        let mut bytes = vec![0; SLOT_BLOCK_BYTES];
        slots.region.copy_out(slots.layout.image + block as usize * SLOT_BLOCK_BYTES, &mut bytes);
        Some((slots.geometry.block_offset(block), bytes))
    }
}
