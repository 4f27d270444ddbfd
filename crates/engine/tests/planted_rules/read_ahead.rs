//! Metadata segments are read together, so that a recovery does not wait for each of them.

use std::ops::Range;

use mezzanine_engine::planted::{Bug, only_with};
use mezzanine_engine::{Blank, PageId, ReadError, ReadFlash, SyncMode, Tier, TierConfig};

use crate::common::{Flash, Host, page};
use crate::id;

const PAGE: usize = 4096;

/// A device that counts what is read together, and what of metadata segments by itself.
struct Counting<'f> {
    flash: &'f mut Flash,
    /// Where they lie.
    segments: Range<u64>,
    together: usize,
    alone: usize,
    /// Of what is read together every other read fails.
    fails: bool,
}

impl ReadFlash for Counting<'_> {
    fn read(&mut self, offset: u64, bytes: &mut [u8]) -> Result<(), ReadError> {
        self.alone += usize::from(self.segments.contains(&offset));
        self.flash.read(offset, bytes)
    }

    fn read_many(&mut self, reads: &mut [(u64, Vec<u8>)]) -> Vec<Result<(), ReadError>> {
        self.together += reads.len();
        let one =
            |(number, (offset, bytes)): (usize, &mut (u64, Vec<u8>))| match self.fails && number % 2 == 1 {
                true => Err(ReadError("it is busy".to_owned())),
                false => self.flash.read(*offset, bytes),
            };
        reads.iter_mut().enumerate().map(one).collect()
    }
}

/// The tier recovered from a queue that has gone round; with the pages in it, and what was read.
fn recovered(fails: bool) -> (Vec<Option<PageId>>, u64, usize) {
    let config =
        TierConfig { sync_mode: SyncMode::Drained, segment_frames: 64, ..TierConfig::new(PAGE as u32, 2048) };
    let mut host = Host::new(&config, 1);
    for block in 0..4000 {
        host.write(id(block), &page(PAGE, block));
        while host.step() {}
    }
    host.sync();
    let superblock = host.superblock.clone();
    let geometry = superblock.config.geometry().unwrap();
    let bytes = geometry.region_bytes();
    let [.., first_segment, first_frame] = geometry.probes();
    let segments = first_segment..first_frame;
    let mut flash = Counting { flash: &mut host.flash, segments, together: 0, alone: 0, fails };
    let recovered = Tier::recover(Blank::heap(bytes), &superblock, 1, &mut flash).unwrap();
    let alone = flash.alone;
    assert!(flash.together > 0);
    let held = |block| recovered.tier.holds(&id(block)).map(|_| id(block));
    ((0..4000).map(held).collect(), recovered.report.segments_read, alone)
}

#[test]
fn a_recovery_does_not_wait_for_each_segment() {
    only_with(&[Bug::SegmentsReadAlone], || {
        let (pages, segments, alone) = recovered(false);
        assert!(segments >= 24, "{segments} segments");
        assert_eq!(pages, recovered(true).0, "what fails is read again");
        // The newest, to see whether it is torn, and now and then one that is left over.
        alone < segments as usize / 4
    });
}
