//! What lies where in the flash of a server that is down: as the engine's recovery finds it, in memory.

use std::collections::{HashMap, HashSet};
use std::fs::File;
use std::os::unix::fs::FileExt as _;
use std::path::Path;

use mezzanine_engine::format::{GroupSummary, SUPERBLOCK_OFFSETS, Superblock, read_superblock};
use mezzanine_engine::{Blank, ReadError, ReadFlash, Tier};

use crate::failure::{Checked, Failure};

/// Bytes of a page: the server is built with PostgreSQL's default.
const PAGE: u64 = 8192;

/// Where the metadata segments begin (docs/format.md).
const METADATA_AT: u64 = 65_536;

/// A page of the server: relation, fork and block.
pub(super) type PageName = (u32, u32, u32);

/// Places that may rot, by what is there. Frames of groups that neither a later one nor the superblock calls
/// durable are left out: damage there cannot be told from a write that a power cut tore.
#[derive(Debug, Default)]
pub(super) struct Places {
    /// Frames of pages that are newer than on disk, or count as such after a crash.
    pub(super) dirty: Vec<(u64, PageName)>,
    pub(super) clean: Vec<u64>,
    /// Frames whose page has left, or has a newer version elsewhere.
    pub(super) dead: Vec<u64>,
    pub(super) superblocks: Vec<u64>,
    /// From the first metadata segment to the first frame.
    pub(super) segments: std::ops::Range<u64>,
}

struct Flash<'f>(&'f File);

impl ReadFlash for Flash<'_> {
    fn read(&mut self, offset: u64, bytes: &mut [u8]) -> Result<(), ReadError> {
        self.0.read_exact_at(bytes, offset).map_err(|error| ReadError(error.to_string()))
    }
}

/// Looks at the flash file of a server that is down. `None` if a start would find no tier that it can use:
/// one that was never closed and can hold no only copies counts as empty.
pub(super) fn look(path: &Path) -> Checked<Option<Places>> {
    let file = File::open(path)?;
    let superblock = match read_superblock(&mut Flash(&file)) {
        Ok(superblock) => superblock,
        Err(_) => return Ok(None),
    };
    let impossible = |error: &dyn std::fmt::Display| Failure(format!("the flash before it rots: {error}"));
    let geometry = superblock.config.geometry().map_err(|error| impossible(&error))?;
    let recovered = Tier::recover(Blank::heap(geometry.region_bytes()), &superblock, 1, &mut Flash(&file))
        .map_err(|error| impossible(&error))?;
    let frames = geometry.frames();
    let first_frame = geometry.flash_bytes() - frames * PAGE;
    let groups = read_groups(&file, &superblock, first_frame, frames)?;
    let unproven = unproven_frames(&groups, &superblock, geometry.summary_frames(), frames);
    let mut places = Places {
        superblocks: SUPERBLOCK_OFFSETS.to_vec(),
        segments: METADATA_AT..first_frame,
        ..Places::default()
    };
    let mut held = HashSet::new();
    let redo = superblock.confirmed.redo.min(superblock.pending.redo);
    let mut cursor = recovered.tier.first_page();
    while let Some(pages) = recovered.tier.pages(&mut cursor, 1024) {
        for page in pages {
            let frame = (page.flash.offset - first_frame) / PAGE;
            held.insert(frame);
            if unproven.contains(&frame) {
                continue;
            }
            let [_, _, relation, fork, block] = page.id.relation_parts();
            // What came from behind the redo pointer counts as newer than on disk after a crash.
            if page.flash.dirty || position_of(&file, page.flash.offset)? >= redo {
                places.dirty.push((page.flash.offset, (relation, fork, block)));
            } else {
                places.clean.push(page.flash.offset);
            }
        }
    }
    let summaries: HashSet<u64> = groups.iter().flat_map(|group| group.summary_frames.clone()).collect();
    let is_dead =
        |frame: &u64| !held.contains(frame) && !summaries.contains(frame) && !unproven.contains(frame);
    places.dead = (0..frames).filter(is_dead).map(|frame| first_frame + frame * PAGE).collect();
    Ok(Some(places))
}

/// The position in the server's log of a page on flash.
fn position_of(file: &File, offset: u64) -> Checked<u64> {
    let mut bytes = [0; 8];
    file.read_exact_at(&mut bytes, offset)?;
    let half =
        |at: usize| u64::from(u32::from_le_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]]));
    Ok(half(0) << 32 | half(4))
}

/// A group of which the summary is there.
struct Group {
    summary: GroupSummary,
    summary_frames: Vec<u64>,
}

fn read_groups(file: &File, superblock: &Superblock, first_frame: u64, frames: u64) -> Checked<Vec<Group>> {
    let geometry = superblock.config.geometry().map_err(|error| Failure(error.to_string()))?;
    let length = geometry.summary_frames();
    let mut bytes = vec![0; (length * PAGE) as usize];
    let mut groups = Vec::new();
    for frame in 0..frames.saturating_sub(length - 1) {
        file.read_exact_at(&mut bytes, first_frame + frame * PAGE)?;
        let Ok((summary, _)) = GroupSummary::decode(&bytes) else { continue };
        if summary.tier_uuid == superblock.tier_uuid {
            groups.push(Group { summary, summary_frames: (frame..frame + length).collect() });
        }
    }
    Ok(groups)
}

/// The frames of groups that nothing calls durable.
fn unproven_frames(groups: &[Group], superblock: &Superblock, summary: u64, frames: u64) -> HashSet<u64> {
    let stated = groups.iter().map(|group| group.summary.durable).max().unwrap_or_default();
    let durable = stated.max(superblock.known_end());
    let last = groups.iter().filter(|group| group.summary.sequence >= durable);
    last.flat_map(|group| {
        let begin = group.summary_frames[0];
        (begin..begin + summary + u64::from(group.summary.pages)).map(move |frame| frame % frames)
    })
    .collect()
}

/// Names of pages by where they lie.
pub(super) fn names(dirty: &[(u64, PageName)]) -> HashMap<u64, PageName> {
    dirty.iter().copied().collect()
}
