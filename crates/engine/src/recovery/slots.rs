//! Recovery of a design with a slot directory: what its valid slots say is what the tier holds, whether or
//! not it was left in order.
//!
//! A valid slot names a page that lies in its home and that disk has in the same version (see
//! `placed::slots`). So nothing is scanned or verified here: a page that was damaged is noticed when it is
//! read, and then disk answers. A slot that is damaged is one that is not valid.
//!
//! The queue of records begins anew, in memory, with the pages in the order of their versions. Nothing on
//! flash refers to it.

use std::collections::{BTreeMap, HashMap};

use super::{Chain, ReadFlash, Recovered, RecoveryError, RecoveryReport, damaged, read_patiently};
use crate::directory::GroupHead;
use crate::format::{
    Record, RecordKind, SLOT_BLOCK_BYTES, SLOT_BYTES, SLOT_HEADS, SlotEntry, SlotHead, Superblock, TierState,
};
use crate::ids::PageId;
use crate::layout::NOTE_BYTES;
use crate::planted::{self, Bug};
use crate::tier::Tier;

/// Blocks that are read together.
const BLOCKS_AT_ONCE: u64 = 256;

/// What the directory on flash says.
struct Found {
    /// The newest head and its copy.
    head: Option<(u64, SlotHead)>,
    /// Homes and their valid slots.
    slots: Vec<(u32, SlotEntry)>,
    bytes_read: u64,
}

pub(super) fn recover(
    tier: Tier,
    superblock: &Superblock,
    flash: &mut dyn ReadFlash,
) -> Result<Recovered, RecoveryError> {
    let mut found = read(&tier, superblock, flash)?;
    let outdated = keep_newest(&mut found.slots);
    found.slots.sort_unstable_by_key(|(_, slot)| slot.version);
    let superblock = Superblock {
        generation: superblock.generation + 1,
        epoch: superblock.epoch + 1,
        nonces: superblock.nonces.after(1),
        epoch_sequence: 0,
        front: 0,
        state: TierState::Open,
        ..superblock.clone()
    };
    let end = layout_end(&tier, found.slots.len() as u64);
    let next_version = found.slots.last().map_or(1, |(_, slot)| slot.version + 1);
    tier.start(&superblock, end, 0, next_version);
    link(&tier, &found.slots);
    let (number, copy, note) = match &found.head {
        Some((copy, head)) => (head.number, *copy, head.note),
        None => (0, 0, [0; NOTE_BYTES]),
    };
    tier.adopt_note(&note);
    tier.adopt_slots((number, copy), &found.slots);
    if let Err(position) = tier.settle_homes() {
        let what = format!("the slot at position {position} names a page twice");
        return Err(damaged(&what, tier.geometry.slot_directory().map_or(0, |slots| slots.offset)));
    }
    // Of two slots with one page the older goes, durably, before the page can change.
    let blocks: BTreeMap<u64, Vec<u8>> =
        outdated.into_iter().filter_map(|home| tier.slot_block(home)).collect();
    let (valid, dirty) = tier.valid_and_dirty();
    let report = RecoveryReport { bytes_read: found.bytes_read, valid, dirty, ..RecoveryReport::default() };
    Ok(Recovered { tier, writes: blocks.into_iter().collect(), superblock, report, note })
}

/// Reads heads and slots, and leaves out what is not whole or from before the tier was discarded.
fn read(tier: &Tier, superblock: &Superblock, flash: &mut dyn ReadFlash) -> Result<Found, RecoveryError> {
    let mut found = Found { head: None, slots: Vec::new(), bytes_read: 0 };
    let Some(directory) = tier.geometry.slot_directory() else { return Ok(found) };
    if superblock.epoch == superblock.origin_epoch && !planted::is(Bug::UnreadableEndsStart) {
        // New, or just discarded: whoever writes does so in an epoch of his own. So nothing here is current,
        // and nobody asks whether it can be read.
        return Ok(found);
    }
    let current = |epoch: u32| epoch >= superblock.origin_epoch && epoch <= superblock.epoch;
    let mut bytes = vec![0; SLOT_BLOCK_BYTES];
    for copy in 0..SLOT_HEADS {
        read_patiently(flash, directory.head_offset(copy), &mut bytes)?;
        let head = SlotHead::decode(&bytes, &superblock.tier_uuid).filter(|head| current(head.epoch));
        let best = found.head.as_ref().map_or(0, |(_, head)| head.number);
        found.head = head.filter(|head| head.number > best).map(|head| (copy, head)).or(found.head);
    }
    found.bytes_read = directory.bytes();
    let homes = tier.geometry.frames() as u32;
    let mut home = 0;
    while home < homes {
        let block = home / (SLOT_BLOCK_BYTES / SLOT_BYTES) as u32;
        let blocks = BLOCKS_AT_ONCE.min(u64::from(directory.blocks - block));
        bytes.resize(blocks as usize * SLOT_BLOCK_BYTES, 0);
        read_patiently(flash, directory.block_offset(block), &mut bytes)?;
        for bytes in bytes.chunks_exact(SLOT_BYTES).take((homes - home) as usize) {
            let slot =
                bytes.first_chunk().and_then(|slot| SlotEntry::decode(slot, &superblock.tier_uuid, home));
            found.slots.extend(slot.filter(|slot| current(slot.epoch)).map(|slot| (home, slot)));
            home += 1;
        }
    }
    Ok(found)
}

/// Leaves the newest slot of each page, and returns the homes of the others: a crash came between two writes,
/// of which one made the older one invalid. Their pages are alike.
fn keep_newest(slots: &mut Vec<(u32, SlotEntry)>) -> Vec<u32> {
    let mut newest: HashMap<PageId, (u64, u32)> = HashMap::with_capacity(slots.len());
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
    Chain { sequence: groups, position: groups * tier.geometry.summary_frames() + pages, checksum: 0 }
}

/// Links the pages at the positions of such a queue.
fn link(tier: &Tier, slots: &[(u32, SlotEntry)]) {
    let mut position = 0;
    for (sequence, group) in slots.chunks(tier.geometry.group_pages() as usize).enumerate() {
        let pages = group.len() as u32;
        let head = GroupHead { sequence: sequence as u64, pages, records: pages, checksum: 0 };
        tier.directory().set_head(tier.frame_of(position), &head);
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
            position = tier.replay(&Record { kind, epoch, version }, position, 0);
        }
    }
}
