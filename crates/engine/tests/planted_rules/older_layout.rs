//! What lies behind the metadata segments of a tier lies where the build has laid it that formatted it.

use mezzanine_engine::format::{Superblock, read_superblock_to_drain};
use mezzanine_engine::planted::{Bug, only_with};
use mezzanine_engine::{SegmentLayout, TierConfig};

use crate::common::{Host, page};
use crate::id;

const PAGE: usize = 4096;
const BLOCKS: u64 = 700;

/// Writes both superblocks as a build of this version of the format wrote them.
fn put(host: &mut Host, superblock: &Superblock, version: u8) {
    let mut bytes = superblock.encode();
    bytes[8] = version;
    let end = bytes.len() - 4;
    let checksum = crc32c::crc32c(&bytes[..end]);
    bytes[end..].copy_from_slice(&checksum.to_le_bytes());
    host.flash.write(0, &bytes);
    host.flash.write(4096, &bytes);
}

/// Whether all pages are found of a tier that lies on flash as in versions 2 and 3, under superblocks of this
/// version.
fn found(version: u8) -> bool {
    let segments = SegmentLayout::Sixteenths;
    let config = TierConfig { segments, segment_frames: 256, ..TierConfig::new(PAGE as u32, 2048) };
    let mut host = Host::new(&config, 1);
    for block in 0..BLOCKS {
        host.write(id(block), &page(PAGE, block));
        while host.step() {}
    }
    host.sync();
    let superblock = host.superblock.clone();
    put(&mut host, &superblock, version);
    let Ok((superblock, as_version)) = read_superblock_to_drain(&mut host.flash) else { return false };
    assert_eq!(as_version, version.into());
    let Ok(recovered) = host.flash.recover(&superblock) else { return false };
    host.tier = recovered.tier;
    (0..BLOCKS)
        .all(|block| host.tier.holds(&id(block)).is_some() && host.read(id(block)) == page(PAGE, block))
}

/// Also under a superblock of this version: a drain that was cut short goes on there.
#[test]
fn a_tier_of_an_older_version_is_found_where_it_lies() {
    only_with(&[Bug::OlderLayoutForgotten], || [2, 3, 4].into_iter().all(found));
}
