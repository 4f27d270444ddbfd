//! Recovery of a whole image: a valid one with changes.

use std::sync::OnceLock;

use arbitrary::{Result, Unstructured};
use mezzanine_engine::format::{SUPERBLOCK_BYTES, SUPERBLOCK_OFFSETS, Superblock, read_superblock};
use mezzanine_engine::{Design, IdRange, PageId, Recovered, TierConfig};

use crate::host::{Flash, PAGE, find, stage_in, step, sync, use_tier};
use crate::patches::{apply, assert_repair_knows, structures};

/// Times the image that recovery may read: the groups are looked at when they are found, checked, replayed,
/// and when damage is looked for behind them.
const READS_MAX: u64 = 8;

/// Everything before this is superblocks.
const SUPERBLOCKS_END: usize = SUPERBLOCK_OFFSETS[1] as usize + SUPERBLOCK_BYTES;

/// A valid image and where its structures lie.
struct Base {
    bytes: Vec<u8>,
    places: Vec<usize>,
}

/// A small tier whose queue goes round within a few dozen groups.
fn config(design: Design, group_pages: u32) -> TierConfig {
    let mut config = TierConfig::new(PAGE as u32, 1024);
    config.group_pages = group_pages;
    config.survivors_max = group_pages - 1;
    config.staging_groups = 2;
    config.segment_frames = 2 * group_pages + 6;
    config.band_frames = 4;
    config.shards = 2;
    config.design = design;
    config.frames = 8;
    // No more than those.
    config.frames_max = 0;
    while config.geometry().is_err() {
        config.frames += 1;
    }
    config
}

/// The image of a tier that `pages` pages have gone through, with tombstones, cut off without warning or
/// closed.
fn base(config: &TierConfig, pages: u64, closed: bool) -> Base {
    let geometry = config.geometry().expect("a usual configuration");
    let empty = Superblock::new(&geometry, [7; 16], [9; 16]);
    let mut flash = Flash { bytes: vec![0; geometry.flash_bytes() as usize], read: 0 };
    let Recovered { tier, mut superblock, .. } = flash.recover(&empty).expect("an empty tier");
    for n in 0..pages {
        let block = n * n % 89;
        assert!(stage_in(&tier, &mut flash, &PageId::volume(1, block), n + 1));
        match n % 11 {
            3 => drop(find(&tier, &mut flash, &PageId::volume(1, (block + 1) % 89))),
            5 => drop(tier.invalidate(&PageId::volume(1, block))),
            7 => drop(tier.invalidate_range(&IdRange::blocks(1, block, 3))),
            9 => assert!(sync(&tier, &mut flash)),
            _ => {}
        }
    }
    if closed {
        tier.begin_drain();
        while step(&tier, &mut flash) {}
        assert!(sync(&tier, &mut flash));
        superblock = tier.closed(&superblock);
    }
    for offset in SUPERBLOCK_OFFSETS {
        flash.write(offset, &superblock.encode());
    }
    let places = structures(&flash.bytes);
    assert_repair_knows(&flash.bytes, &places);
    Base { bytes: flash.bytes, places }
}

fn bases() -> &'static [Base] {
    static BASES: OnceLock<Vec<Base>> = OnceLock::new();
    BASES.get_or_init(|| {
        vec![
            base(&config(Design::FaceGsc, 2), 300, false),
            base(&config(Design::FaceGsc, 4), 60, false),
            base(&config(Design::FaceGr, 3), 200, true),
            base(&config(Design::FaceBasic, 1), 100, false),
        ]
    })
}

/// Changes a valid image as `data` says, recovers it and uses what was recovered.
///
/// # Panics
/// If an invariant is broken.
pub fn image(data: &[u8]) -> bool {
    // Not enough bytes for a choice: there is nothing more to try.
    changed(&mut Unstructured::new(data)).unwrap_or(false)
}

fn changed(input: &mut Unstructured<'_>) -> Result<bool> {
    let base = input.choose(bases())?;
    let uses = input.bytes(input.len().min(48) / 2)?;
    let mut flash = Flash { bytes: base.bytes.clone(), read: 0 };
    apply(input, &mut flash.bytes, &base.places)?;
    let Ok(superblock) = read_superblock(&mut flash) else { return Ok(false) };
    let geometry = superblock.config.geometry().expect("decoded superblocks have sizes");
    if geometry.flash_bytes() > flash.bytes.len() as u64 {
        // A host refuses a device that is shorter than its tier.
        return Ok(false);
    }
    flash.read = 0;
    let Ok(recovered) = flash.recover(&superblock) else { return Ok(false) };
    assert!(flash.read <= READS_MAX * flash.bytes.len() as u64, "read {} bytes", flash.read);
    recovered.tier.check();
    let again = flash.recover(&superblock).expect("what was accepted is accepted again");
    assert_eq!((&again.report, &again.writes), (&recovered.report, &recovered.writes));
    let honest = flash.bytes[..SUPERBLOCKS_END] == base.bytes[..SUPERBLOCKS_END];
    go_on(&recovered, flash, &mut Unstructured::new(uses), honest)?;
    Ok(true)
}

/// What is acknowledged after a recovery is there after the next one, unless somebody has forged a
/// superblock: groups and segments may then lie on flash whose epochs are only to come.
fn go_on(recovered: &Recovered, mut flash: Flash, input: &mut Unstructured<'_>, honest: bool) -> Result<()> {
    for (offset, bytes) in &recovered.writes {
        flash.write(*offset, bytes);
    }
    let used = use_tier(&recovered.tier, &mut flash, input)?;
    recovered.tier.check();
    let Some(written) = used.filter(|_| honest) else { return Ok(()) };
    let next = flash.recover(&recovered.superblock).expect("a tier that was accepted and used is accepted");
    next.tier.check();
    for (id, version) in written {
        let found = find(&recovered.tier, &mut flash, &id);
        assert_eq!(find(&next.tier, &mut flash, &id), found, "{id:?}");
        assert!(found.is_none_or(|found| found == version), "{id:?}: {found:?} instead of {version}");
    }
    Ok(())
}
