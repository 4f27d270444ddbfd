//! The slot directory: on flash, for each home, which page lies there, current at every moment. For designs that are known by it (see `designs`);
//! they have no journal and no metadata segments, and a tier is recovered from it alone (`recovery::slots`).
//!
//! ```text
//!   page comes in        its group is durable, disk synced    the page is about to change    durable: now the host
//!   home's slot: invalid ---------------------------> VALID ------------------------> invalid ----------> may write disk
//!                          one write of its block            or it leaves: one write   ---------> the home becomes free
//! ```
//!
//! 1. *What memory says of a slot may be written at any time.* It is valid only while its home holds that version, durably, and disk holds it as well,
//!    durably. Invalid is always true, since disk has everything.
//! 2. *Invalidated first.* No version of a page goes to disk while a slot that flash may still show as valid names an older one: [`Tier::holds_back`]
//!    has the host wait. So a crash at any moment finds disk newer than flash only where no slot is valid.
//! 3. *No home is free* before its slot is invalid, durably. What is valid on flash is therefore where its slot says.
//! 4. *One job at a time* writes blocks of slots: of two writes of one block the older could come last.
//!
//! Changed blocks are *listed*, in their order, each once until a job takes it. The number of a change is its block's in that list, counted from 1;
//! it is durable when a flush has begun after the job that wrote it was done: `changes <= durable <= written <= taken <= listed`. Changes that share a
//! block until it is taken are one write.
//!
//! Whether disk has a version durably is the host's to say ([`Tier::disk_synced`]): it syncs the disk for reasons of its own.
//!
//! All of it is guarded by the lock of homes.

use std::sync::atomic::Ordering::Relaxed;

use super::{Homes, USED};
use crate::config::{PlacedGeometry, SlotGeometry};
use crate::directory::Directory;
use crate::format::{SLOT_BLOCK_BYTES, SLOT_BYTES, SlotEntry, SlotHead};
use crate::ids::PageId;
use crate::interleave::AtomicU32;
use crate::layout::NOTE_BYTES;
use crate::planted::{self, Bug};
use crate::region::{REGION_ALIGNMENT, Region, Word, shared};
use crate::tier::Tier;

const IDLE: u64 = 0;
/// The owner of the job that has taken blocks has died: they are to be written again.
const TO_WRITE: u64 = 1;
const WRITING: u64 = 2;

/// Slots in a block.
const PER_BLOCK: u32 = (SLOT_BLOCK_BYTES / SLOT_BYTES) as u32;

/// Ends of the lists, and what is under way.
#[repr(C, align(64))]
struct SlotControl {
    /// Changed blocks that were listed, taken by a job, written; those that the flush under way covers, and those that are durable.
    listed: Word,
    taken: Word,
    written: Word,
    covered: Word,
    durable: Word,
    /// Up to which somebody waits for durable ones; and up to which somebody waited when the last flush that counted was done: the next one
    /// begins when so many are written, whoever comes to wait meanwhile.
    wanted: Word,
    goal: Word,
    /// Whether a job has blocks in hand, and whose.
    job: Word,
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
    /// The version in its home that is durable; and one that must not become valid, because it is being replaced.
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
    /// The hash of the page whose present reference the policy knows of already, though it has found no room yet.
    counted: Word,
}

shared!(SlotControl, Slot, Trace);

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
    waiting: &'r [AtomicU32],
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

    fn slot(&self, home: u32) -> &'r Slot {
        &self.slots[home as usize]
    }

    fn trace(&self, id: &PageId) -> &'r Trace {
        &self.traces[(((id.hash() >> 32) * self.traces.len() as u64) >> 32) as usize]
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

    fn store(&self, home: u32, bytes: &[u8; SLOT_BYTES]) -> u64 {
        self.region.copy_in(self.layout.image + home as usize * SLOT_BYTES, bytes);
        self.list(home / PER_BLOCK)
    }

    pub(super) fn is_valid(&self, home: u32) -> bool {
        self.slot(home).valid.load(Relaxed) != 0
    }

    /// The page of a home is no longer what its slot says, or is about to be.
    pub(super) fn invalidate(&self, home: u32, id: &PageId) {
        let slot = self.slot(home);
        if slot.valid.swap(0, Relaxed) == 0 || planted::is(Bug::SlotLeftValid) {
            return;
        }
        let change = self.store(home, &[0; SLOT_BYTES]);
        slot.invalidated.set(change);
        self.trace(id).invalidated.set(change);
    }

    /// Whether flash says durably that nothing lies in a home.
    pub(super) fn is_clear(&self, home: u32) -> bool {
        !self.is_valid(home) && self.slot(home).invalidated.get() <= self.control.durable.get()
    }

    /// Another version of a page may go to disk from now on.
    fn disk_write(&self, id: &PageId) {
        self.trace(id).disk_write.set(self.control.disk_writes.bump(1) + 1);
    }

    /// Whether disk durably has the version of a page that was staged in last.
    fn on_disk(&self, id: &PageId) -> bool {
        let last = self.trace(id).disk_write.get().max(self.control.range_write.get());
        last <= self.control.disk_synced.get() || planted::is(Bug::SlotBeforeDiskSync)
    }

    fn wait_for_disk(&self, home: u32) {
        if self.slot(home).waits.swap(1, Relaxed) == 0 {
            let end = self.control.waiting_end.bump(1);
            self.waiting[(end % self.waiting.len() as u64) as usize].store(home, Relaxed);
        }
    }

    fn pop_waiting(&self) -> u32 {
        let first = self.control.waiting_first.bump(1);
        let home = self.waiting[(first % self.waiting.len() as u64) as usize].load(Relaxed);
        self.slot(home).waits.store(0, Relaxed);
        home
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

    /// Whether there is a reason to write what is listed now.
    fn is_urgent(&self, pressing: bool) -> bool {
        let control = self.control;
        let (listed, taken) = (control.listed.get(), control.taken.get());
        let many = u64::from(self.geometry.batch / 2).max(1);
        listed > taken && (pressing || control.wanted.get() > taken || listed - taken >= many)
    }

    /// Copies listed blocks to the job's buffer, as many as it holds.
    fn take(&self, epoch: u32, uuid: &[u8; 16], note: &[u8; NOTE_BYTES]) {
        let control = self.control;
        let first = control.taken.get();
        let end = control.listed.get().min(first + u64::from(self.geometry.batch));
        for number in first..end {
            let mut bytes = [0; SLOT_BLOCK_BYTES];
            match self.listed_block(number) {
                block if block == self.head() => {
                    // While the last head may be torn the other copy is the one that counts.
                    let durable = control.head_change.get() <= control.durable.get();
                    control.head_copy.set(control.head_copy.get() ^ u64::from(durable));
                    control.head_change.set(number + 1);
                    let head = SlotHead { epoch, number: control.head_number.bump(1) + 1, note: *note };
                    let head = head.encode(uuid);
                    bytes[..head.len()].copy_from_slice(&head);
                }
                block => {
                    self.region.copy_out(self.layout.image + block as usize * SLOT_BLOCK_BYTES, &mut bytes);
                }
            }
            self.region.copy_in(self.layout.buffer + (number - first) as usize * SLOT_BLOCK_BYTES, &bytes);
        }
        control.taken.set(end);
    }

    fn listed_block(&self, number: u64) -> u32 {
        self.list[(number % self.list.len() as u64) as usize].load(Relaxed)
    }

    /// What the job that has blocks in hand writes.
    fn writes(&self) -> Vec<(u64, &'r [u8])> {
        let control = self.control;
        let first = control.written.get();
        let write = |number| {
            let offset = match self.listed_block(number) {
                block if block == self.head() => self.geometry.head_offset(control.head_copy.get()),
                block => self.geometry.block_offset(block),
            };
            let at = self.layout.buffer + (number - first) as usize * SLOT_BLOCK_BYTES;
            (offset, self.region.lease(at, SLOT_BLOCK_BYTES))
        };
        (first..control.taken.get()).map(write).collect()
    }

    /// For tests.
    pub(super) fn check(&self, home: u32, state: u32, version: u64) {
        let (slot, control) = (self.slot(home), self.control);
        if self.is_valid(home) {
            assert!(
                matches!(state, USED | super::LEAVING),
                "a valid slot is that of a page that is there: home {home}"
            );
            assert_eq!(slot.durable.get(), version, "a valid slot is that of a durable version: home {home}");
            assert_ne!(
                slot.barred.get(),
                version,
                "no slot is valid whose page is being replaced: home {home}"
            );
        }
        if state == super::FREE {
            assert!(self.is_clear(home), "a free home has no slot on flash: home {home}");
        }
        let order = [&control.durable, &control.covered, &control.written, &control.taken, &control.listed];
        assert!(order.windows(2).all(|pair| pair[0].get() <= pair[1].get()), "the order of changes");
    }
}

impl Homes<'_> {
    /// Makes the slot of a page valid, if flash and disk have the page; a page that disk may not have waits.
    fn validate(&self, slots: &Slots<'_>, directory: &Directory<'_>, uuid: &[u8; 16], home: u32) {
        let there = self.home(home);
        let (version, slot) = (there.version.get(), slots.slot(home));
        let durable = slot.durable.get() == version;
        let barred = slot.barred.get() == version && !planted::is(Bug::SlotValidWhileReplaced);
        if self.state(home) != USED || !durable || barred || slots.is_valid(home) {
            return;
        }
        let entry = there.entry.load(Relaxed);
        let id = directory.id(entry);
        if !slots.on_disk(&id) {
            slots.wait_for_disk(home);
            return;
        }
        let (epoch, lsn) = (there.epoch.load(Relaxed), there.lsn.get());
        let bytes =
            SlotEntry { id, checksum: directory.checksum(entry), epoch, version, lsn }.encode(uuid, home);
        slot.valid.store(1, Relaxed);
        slots.store(home, &bytes);
    }
}

/// How many pages have gone to disk, when a sync of the disk began.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DiskMark(u64);

impl Tier {
    /// Whether the host must not write another version of a page to disk yet, since flash may still say that the older one is what disk has: it
    /// carries out jobs and asks again. Otherwise it may from now on. Under the lock of the page's shard; `older` is its entry.
    pub(crate) fn holds_back(&self, id: &PageId, older: Option<u32>) -> bool {
        let Some(homes) = self.homes() else { return false };
        let Some(slots) = homes.slots else { return false };
        let _guard = homes.lock(self.owner);
        if let Some(entry) = older {
            let home = homes.of_entry(entry);
            slots.slot(home).barred.set(homes.home(home).version.get());
            slots.invalidate(home, id);
        }
        let change = slots.trace(id).invalidated.get();
        if change > slots.control.durable.get() && !planted::is(Bug::SlotInvalidUnflushed) {
            slots.want(change);
            return true;
        }
        slots.disk_write(id);
        false
    }

    /// The host has changed a page, or a range of pages, on disk, or is about to, and the tier forgets them.
    pub(crate) fn changed_on_disk(&self, page: Option<&PageId>) {
        let Some(homes) = self.homes() else { return };
        let Some(slots) = homes.slots else { return };
        let _guard = homes.lock(self.owner);
        match page {
            Some(id) => slots.disk_write(id),
            None => slots.control.range_write.set(slots.control.disk_writes.bump(1) + 1),
        }
    }

    /// For designs with a slot directory ([`crate::Design::has_slots`]): to be asked before a sync of the disk begins, at a moment at which every page that was
    /// staged in with `also_disk`, or refused, has been written there, and every range that was dropped is gone there. Whoever is still at that is done before
    /// the sync begins.
    pub fn disk_mark(&self) -> DiskMark {
        let slots = self.homes().and_then(|homes| homes.slots);
        DiskMark(slots.map_or(0, |slots| slots.control.disk_writes.get()))
    }

    /// A sync of the disk, all of it, is complete that began after [`Self::disk_mark`]. Pages that were written before may be named on flash from now on,
    /// so that a crash does not lose them there. A host that never calls it loses, in a crash, what it has written since the tier was opened, and
    /// nothing else.
    pub fn disk_synced(&self, mark: DiskMark) {
        let Some(homes) = self.homes() else { return };
        let Some(slots) = homes.slots else { return };
        let waiting = {
            let _guard = homes.lock(self.owner);
            let control = slots.control;
            control.disk_synced.set(control.disk_synced.get().max(mark.0));
            control.waiting_end.get() - control.waiting_first.get()
        };
        for _ in 0..waiting {
            let guard = homes.lock(self.owner);
            if slots.control.waiting_first.get() == slots.control.waiting_end.get() {
                return;
            }
            let home = slots.pop_waiting();
            homes.validate(&slots, &self.directory(), &self.uuid, home);
            drop(guard);
            planted::outside("slots: one page that waited for disk looked at");
        }
    }

    /// A version is durable in its home. Under the control lock.
    pub(crate) fn version_durable(&self, home: u32, version: u64) {
        let Some(homes) = self.homes() else { return };
        let Some(slots) = homes.slots else { return };
        let _guard = homes.lock(self.owner);
        if homes.home(home).version.get() == version {
            slots.slot(home).durable.set(version);
            homes.validate(&slots, &self.directory(), &self.uuid, home);
        }
    }

    /// The host's bytes have changed. False if it is groups that carry them. Under the control lock.
    pub(crate) fn note_listed(&self) -> bool {
        let Some(homes) = self.homes() else { return false };
        let Some(slots) = homes.slots else { return false };
        let _guard = homes.lock(self.owner);
        slots.list(slots.head());
        true
    }

    /// Takes the next write of slots, if there is one and it is time. Under the control lock.
    pub(crate) fn take_slots(&self, owner: u32, pressing: bool) -> bool {
        let Some(homes) = self.homes() else { return false };
        let Some(slots) = homes.slots else { return false };
        let note = self.current_note();
        let control = slots.control;
        let _guard = homes.lock(self.owner);
        match control.job.get() {
            IDLE if slots.is_urgent(pressing) => {
                slots.take(self.control().epoch.get() as u32, &self.uuid, &note);
            }
            TO_WRITE => {}
            _ => return false,
        }
        control.job.set(WRITING);
        planted::inside("slots: taken");
        control.job_owner.set(owner.into());
        true
    }

    /// What the job that was handed out writes.
    pub(crate) fn slot_writes(&self) -> Vec<(u64, &[u8])> {
        let geometry = &self.geometry;
        let (Some(placed), Some(slots)) = (&geometry.placed, geometry.slot_directory()) else {
            return Vec::new();
        };
        Slots::new(&self.region, placed, slots, &geometry.layout.placed.slots).writes()
    }

    /// The job's blocks are on the device. Under the control lock.
    pub(crate) fn slots_written(&self) {
        let Some(homes) = self.homes() else { return };
        let Some(slots) = homes.slots else { return };
        let _guard = homes.lock(self.owner);
        let control = slots.control;
        assert_eq!(control.job.get(), WRITING, "a job completed twice");
        let blocks = control.taken.get() - control.written.get();
        self.control().counters.metadata_bytes_written.count(blocks * SLOT_BLOCK_BYTES as u64);
        control.written.set(control.taken.get());
        control.job.set(IDLE);
    }

    /// Whether a flush is worth its cost for slots that were written. Under the control lock.
    pub(crate) fn slots_want_flush(&self, pressing: bool) -> bool {
        let Some(slots) = self.homes().and_then(|homes| homes.slots) else { return false };
        let control = slots.control;
        let durable = control.durable.get();
        let (written, goal) = (control.written.get(), control.goal.get());
        written > durable && (pressing || goal > durable && written >= goal)
    }

    /// A flush of flash begins. Under the control lock.
    pub(crate) fn slots_flush_begins(&self) {
        if let Some(slots) = self.homes().and_then(|homes| homes.slots) {
            slots.control.covered.set(slots.control.written.get());
        }
    }

    /// It is done. Under the control lock.
    pub(crate) fn slots_flushed(&self) {
        if let Some(slots) = self.homes().and_then(|homes| homes.slots) {
            slots.control.durable.set(slots.control.covered.get());
            slots.set_goal();
        }
    }

    /// The number of the last change so far, which is wanted durable now; 0 without a slot directory.
    pub(crate) fn want_slots(&self) -> u64 {
        let Some(homes) = self.homes() else { return 0 };
        let Some(slots) = homes.slots else { return 0 };
        let _guard = homes.lock(self.owner);
        slots.want(slots.control.listed.get());
        slots.control.listed.get()
    }

    /// Changes of slots that are durable.
    pub(crate) fn slots_durable(&self) -> u64 {
        self.homes().and_then(|homes| homes.slots).map_or(0, |slots| slots.control.durable.get())
    }

    /// Whether the policy takes a page that is not there. The reference counts once, however often it is asked again until the page has found
    /// room. Under the lock of the page's shard.
    pub(crate) fn is_admitted(&self, id: &PageId, referenced: bool) -> bool {
        let Some(homes) = self.homes().filter(|homes| homes.geometry.selective) else { return true };
        let _guard = homes.lock(self.owner);
        if let Some(trace) = homes.slots.filter(|_| referenced).map(|slots| slots.trace(id)) {
            if trace.counted.get() != id.hash() | 1 {
                homes.order().visit(super::order::Miss(homes.key(id)));
                trace.counted.set(id.hash() | 1);
            }
        }
        let admitted = homes.has_room() || homes.order().visit(super::order::Admit(homes.key(id)));
        if !admitted {
            homes.reference_counted(id);
        }
        admitted
    }

    /// Tells a policy that chooses of a page that was looked for and is not there.
    pub(crate) fn missed(&self, id: &PageId) {
        if let Some(homes) = self.homes().filter(|homes| homes.geometry.selective) {
            let _guard = homes.lock(self.owner);
            homes.order().visit(super::order::Miss(homes.key(id)));
        }
    }

    /// Hands the blocks of an owner that has died out again. Under the control lock.
    pub(crate) fn abandon_slots(&self, dead: u64) {
        let Some(slots) = self.homes().and_then(|homes| homes.slots) else { return };
        if slots.control.job.get() == WRITING && slots.control.job_owner.get() == dead {
            slots.control.job.set(TO_WRITE);
            if planted::is(Bug::DeadWriteCounts) {
                slots.control.written.set(slots.control.taken.get());
                slots.control.job.set(IDLE);
            }
        }
    }

    /// Takes up the slots of a tier that was just recovered from them; `head` counts the heads written and says which copy is the newest.
    pub(crate) fn adopt_slots(&self, head: (u64, u64), valid: &[(u32, SlotEntry)]) {
        let Some(homes) = self.homes() else { return };
        let Some(slots) = homes.slots else { return };
        let _guard = homes.lock(self.owner);
        slots.control.head_number.set(head.0);
        slots.control.head_copy.set(head.1);
        for (home, entry) in valid {
            let bytes = entry.encode(&self.uuid, *home);
            slots.region.copy_in(slots.layout.image + *home as usize * SLOT_BYTES, &bytes);
            slots.slot(*home).valid.store(1, Relaxed);
            slots.slot(*home).durable.set(entry.version);
        }
    }

    /// Offset and contents of the block that has the slot of a home, as memory has it.
    pub(crate) fn slot_block(&self, home: u32) -> Option<(u64, Vec<u8>)> {
        let slots = self.homes()?.slots?;
        let block = home / PER_BLOCK;
        let mut bytes = vec![0; SLOT_BLOCK_BYTES];
        slots.region.copy_out(slots.layout.image + block as usize * SLOT_BLOCK_BYTES, &mut bytes);
        Some((slots.geometry.block_offset(block), bytes))
    }
}

impl Homes<'_> {
    /// The reference that the policy knows of has led to something.
    pub(super) fn reference_counted(&self, id: &PageId) {
        if let Some(slots) = self.slots {
            slots.trace(id).counted.set(0);
        }
    }
}
