//! Recovery of a design with a slot directory: what its valid slots say is what the tier holds, whether or
//! not it was left in order.
//!
//! A valid slot names a page that lies in its home and that disk has in the same version (see
//! `placed::slots`). So nothing is scanned or verified here: a page that was damaged is noticed when it is
//! read, and then disk answers. A slot that is damaged is one that is not valid.
//!
//! It must be so on flash as well. A page whose slot is invalid may change on disk without a word to flash.
//! If the slot was not damaged, and only came so on its way from the device, the next recovery would believe
//! it, and an older page would come back. So what is neither valid nor zeros is read again, and its block is
//! written anew if it stays so, before any page can change.
//!
//! The queue of records begins anew, in memory, with the pages in the order of their versions. Nothing on
//! flash refers to it.

use std::collections::{BTreeMap, HashMap};

use super::{Chain, ReadFlash, Recovered, RecoveryError, RecoveryReport, damaged, read_patiently};
use crate::bounds::can_be_opened;
use crate::config::SlotGeometry;
use crate::core::Tier;
use crate::directory::GroupHead;
use crate::format::{
    LogPosition, Record, RecordKind, SLOT_BLOCK_BYTES, SLOT_BYTES, SLOT_HEADS, SlotEntry, SlotHead,
    Superblock, TierState,
};
use crate::ids::{Frame, PageId, Position, Sequence, Version};
use crate::layout::HOST_METADATA_BYTES;
use crate::planted::{self, Bug};

/// Blocks that are read together.
const BLOCKS_AT_ONCE: usize = 256;
/// Slots in a block.
const PER_BLOCK: u32 = (SLOT_BLOCK_BYTES / SLOT_BYTES) as u32;

/// What the directory on flash says.
#[derive(Default)]
struct Found {
    /// The newest head and its copy.
    head: Option<(u64, SlotHead)>,
    /// Homes and their valid slots.
    slots: Vec<(Frame, SlotEntry)>,
    /// Copies of the head that were not whole, and the first homes of blocks with slots that were not.
    wrong_heads: Vec<u64>,
    wrong: Vec<Frame>,
    bytes_read: u64,
    /// The latest epoch that a head or slot of this tier names, current or not.
    epoch_seen: u32,
}

pub(super) fn recover(
    tier: Tier,
    superblock: &Superblock,
    flash: &mut dyn ReadFlash,
) -> Result<Recovered, RecoveryError> {
    let mut found = read(&tier, superblock, flash)?;
    let outdated = keep_newest(&mut found.slots);
    found.slots.sort_unstable_by_key(|(_, slot)| slot.version);
    // As where groups and segments are: a later epoch than the superblock knows is not given again.
    let reused = planted::is(Bug::LostEpochReused);
    let latest = superblock.epoch.max(if reused { 0 } else { found.epoch_seen });
    let counts = is_empty(superblock) && found.epoch_seen >= superblock.origin_epoch && !reused;
    // Then the tier begins with an epoch behind all that is there, in which nobody writes: in use it is never
    // in the epoch that it began with, which is how one is told that holds nothing.
    let origin_epoch = if counts { latest + 1 } else { superblock.origin_epoch };
    let apart = counts && !planted::is(Bug::UsedTakenForEmpty);
    let epoch = latest + 1 + u32::from(apart);
    can_be_opened(epoch - 1, superblock.generation).map_err(RecoveryError::UsedUp)?;
    let superblock = Superblock {
        generation: superblock.generation + 1,
        epoch,
        origin_epoch,
        nonces: superblock.nonces.after(epoch - superblock.epoch),
        epoch_sequence: Sequence::ZERO,
        front: Position::ZERO,
        state: TierState::Open,
        drained_epoch: superblock.last_drained(),
        ..superblock.clone()
    };
    let end = layout_end(&tier, found.slots.len() as u64);
    let next_version = found.slots.last().map_or(Version::ZERO.next(), |(_, slot)| slot.version.next());
    tier.start(&superblock, end, Position::ZERO, next_version);
    tier.can_go_on().map_err(RecoveryError::UsedUp)?;
    link(&tier, &found.slots);
    let (number, copy, host_metadata) = match &found.head {
        Some((copy, head)) => (head.number, *copy, head.host_metadata),
        None => (0, 0, [0; HOST_METADATA_BYTES]),
    };
    tier.adopt_host_metadata(&host_metadata);
    if let Some(in_place) = tier.in_place() {
        in_place.adopt_slots((number, copy), &found.slots);
    }
    if let Err(entry) = tier.placement().settle() {
        let position = tier.position_of(entry);
        let what = format!("the slot at position {position} names a page twice");
        return Err(damaged(&what, tier.geometry.slot_directory().map_or(0, |slots| slots.offset)));
    }
    // Of two slots with one page the older goes, durably, before the page can change.
    let anew = outdated.into_iter().chain(found.wrong);
    let mut blocks: BTreeMap<u64, Vec<u8>> =
        anew.filter_map(|home| tier.in_place()?.slot_block(home)).collect();
    if let Some(directory) = tier.geometry.slot_directory() {
        let heads = found.wrong_heads.iter().map(|&copy| directory.head_offset(copy));
        blocks.extend(heads.map(|offset| (offset, vec![0; SLOT_BLOCK_BYTES])));
    }
    let (valid, dirty) = tier.valid_and_dirty();
    let report = RecoveryReport { bytes_read: found.bytes_read, valid, dirty, ..RecoveryReport::default() };
    // A slot directory goes with sync mode `through` alone, and has no groups that could carry it.
    let log = LogPosition::default();
    Ok(Recovered { tier, writes: blocks.into_iter().collect(), superblock, report, host_metadata, log })
}

/// Reads heads and slots, and leaves out what is not whole or from before the tier was discarded.
fn read(tier: &Tier, superblock: &Superblock, flash: &mut dyn ReadFlash) -> Result<Found, RecoveryError> {
    let mut found = Found::default();
    let Some(directory) = tier.geometry.slot_directory() else { return Ok(found) };
    if is_empty(superblock) && !planted::is(Bug::UnreadableEndsStart) {
        // Whoever writes does so in an epoch of his own. So nothing here is current, and nobody asks whether
        // it can be read; only that epoch is to be one that nothing here has.
        let mut there = Found::default();
        let frames = tier.geometry.frames() as u32;
        let _ = read_heads(&mut there, directory, superblock, flash);
        let _ = read_slots(&mut there, directory, frames, superblock, flash);
        found.epoch_seen = there.epoch_seen;
        return Ok(found);
    }
    read_heads(&mut found, directory, superblock, flash)?;
    read_slots(&mut found, directory, tier.geometry.frames() as u32, superblock, flash)?;
    found.bytes_read = directory.bytes();
    if planted::is(Bug::WrongSlotKept) {
        (found.wrong, found.wrong_heads) = (Vec::new(), Vec::new());
    }
    Ok(found)
}

/// Whether the tier is new, or was just discarded: no epoch has followed the one that it began with.
fn is_empty(superblock: &Superblock) -> bool {
    superblock.epoch == superblock.origin_epoch
}

/// Whether the superblock knows of an epoch. What is of a later one would count by the next superblock.
fn is_known(superblock: &Superblock, epoch: u32) -> bool {
    epoch <= superblock.epoch || planted::is(Bug::LostEpochReused)
}

fn is_current(superblock: &Superblock, epoch: u32) -> bool {
    epoch >= superblock.origin_epoch && epoch <= superblock.epoch
}

fn is_zeros(bytes: &[u8]) -> bool {
    bytes.iter().all(|&byte| byte == 0)
}

fn read_heads(
    found: &mut Found,
    directory: &SlotGeometry,
    superblock: &Superblock,
    flash: &mut dyn ReadFlash,
) -> Result<(), RecoveryError> {
    let mut bytes = vec![0; SLOT_BLOCK_BYTES];
    let decode = |bytes: &[u8]| SlotHead::decode(bytes, &superblock.tier_uuid);
    for copy in 0..SLOT_HEADS {
        let whole = |bytes: &[u8]| {
            decode(bytes).is_some_and(|head| is_known(superblock, head.epoch)) || is_zeros(bytes)
        };
        if !read_patiently(flash, directory.head_offset(copy), &mut bytes, whole)? {
            found.wrong_heads.push(copy);
        }
        let head = decode(&bytes);
        found.epoch_seen = found.epoch_seen.max(head.as_ref().map_or(0, |head| head.epoch));
        let head = head.filter(|head| is_current(superblock, head.epoch));
        let best = found.head.as_ref().map_or(0, |(_, head)| head.number);
        found.head = head.filter(|head| head.number > best).map(|head| (copy, head)).or(found.head.take());
    }
    Ok(())
}

fn read_slots(
    found: &mut Found,
    directory: &SlotGeometry,
    homes: u32,
    superblock: &Superblock,
    flash: &mut dyn ReadFlash,
) -> Result<(), RecoveryError> {
    let mut bytes = Vec::new();
    for first in (0..directory.blocks).step_by(BLOCKS_AT_ONCE) {
        let blocks = (directory.blocks - first).min(BLOCKS_AT_ONCE as u32);
        bytes.resize(blocks as usize * SLOT_BLOCK_BYTES, 0);
        // Blocks of which no read has brought every slot.
        let mut wrong: Vec<u32> = (0..blocks).collect();
        let block_of = |bytes: &[u8], index: u32| {
            let block = &bytes[index as usize * SLOT_BLOCK_BYTES..][..SLOT_BLOCK_BYTES];
            decode_block(block, (first + index) * PER_BLOCK, homes, superblock)
        };
        let whole = |bytes: &[u8]| {
            wrong.retain(|&index| {
                let (slots, whole, latest) = block_of(bytes, index);
                found.epoch_seen = found.epoch_seen.max(latest);
                found.slots.extend(slots.into_iter().filter(|_| whole));
                !whole
            });
            wrong.is_empty()
        };
        read_patiently(flash, directory.block_offset(first), &mut bytes, whole)?;
        for index in wrong {
            found.slots.extend(block_of(&bytes, index).0);
            found.wrong.push(Frame((first + index) * PER_BLOCK));
        }
    }
    Ok(())
}

/// The valid slots of a block, whether all others are zeros, or valid ones of before the tier was discarded,
/// and the latest epoch of all.
fn decode_block(
    block: &[u8],
    first_home: u32,
    homes: u32,
    superblock: &Superblock,
) -> (Vec<(Frame, SlotEntry)>, bool, u32) {
    let (mut slots, mut whole, mut latest) = (Vec::new(), true, 0);
    for (home, bytes) in (first_home..homes).map(Frame).zip(block.chunks_exact(SLOT_BYTES)) {
        let slot = bytes.first_chunk().and_then(|slot| SlotEntry::decode(slot, &superblock.tier_uuid, home));
        whole &= slot.as_ref().is_some_and(|slot| is_known(superblock, slot.epoch)) || is_zeros(bytes);
        latest = latest.max(slot.as_ref().map_or(0, |slot| slot.epoch));
        slots.extend(slot.filter(|slot| is_current(superblock, slot.epoch)).map(|slot| (home, slot)));
    }
    (slots, whole, latest)
}

/// Leaves the newest slot of each page, and returns the homes of the others: a crash came between two writes,
/// of which one made the older one invalid. Their pages are alike.
fn keep_newest(slots: &mut Vec<(Frame, SlotEntry)>) -> Vec<Frame> {
    let mut newest: HashMap<PageId, (Version, Frame)> = HashMap::with_capacity(slots.len());
    for (home, slot) in slots.iter() {
        let known = newest.entry(slot.id).or_default();
        *known = (slot.version, *home).max(*known);
    }
    let mut outdated = Vec::new();
    slots.retain(|(home, slot)| {
        let keep = newest.get(&slot.id) == Some(&(slot.version, *home));
        if !keep {
            outdated.push(*home);
        }
        keep
    });
    outdated
}

/// Where the queue of records ends that holds so many pages.
fn layout_end(tier: &Tier, pages: u64) -> Chain {
    let groups = pages.div_ceil(tier.geometry.group_pages());
    Chain {
        sequence: Sequence::from_number(groups),
        position: Position::ZERO + groups * tier.geometry.summary_frames() + pages,
        checksum: 0,
    }
}

/// Links the pages at the positions of such a queue.
fn link(tier: &Tier, slots: &[(Frame, SlotEntry)]) {
    let mut position = Position::ZERO;
    let groups = slots.chunks(tier.geometry.group_pages() as usize);
    for (sequence, group) in (0..).map(Sequence::from_number).zip(groups) {
        let pages = group.len() as u32;
        let head = GroupHead { sequence, pages, records: pages, checksum: 0 };
        tier.directory().set_head(tier.entry_of(position), &head);
        position += tier.geometry.summary_frames();
        for (home, slot) in group {
            let SlotEntry { id, checksum, epoch, version, lsn } = *slot;
            let kind = RecordKind::Page {
                id,
                dirty: false,
                second_chance: false,
                lost: false,
                lsn,
                checksum,
                home: *home,
            };
            position = tier.replay(&Record { kind, epoch, version }, position, Position::ZERO);
        }
    }
}
