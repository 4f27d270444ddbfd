//! Metadata segments take along the reference bits of all frames, of some in turn.

use mezzanine_engine::planted::{Bug, only_with};
use mezzanine_engine::{Design, SyncMode, TierConfig};

use crate::common::{Host, page};
use crate::id;

const PAGE: usize = 4096;

/// Every page in a full queue is looked up; then come as many pages as five segments stand for, and a crash.
/// A segment takes along a quarter of the bits.
fn remembered() -> (u64, u64) {
    let config = TierConfig {
        design: Design::FaceGsc,
        sync_mode: SyncMode::Drained,
        segment_frames: 64,
        ..TierConfig::new(PAGE as u32, 2048)
    };
    let mut host = Host::new(&config, 1);
    let write = |host: &mut Host, block| {
        host.write(id(block), &page(PAGE, block));
        while host.step() {}
    };
    for block in 0..3000 {
        write(&mut host, block);
    }
    for block in 0..3000 {
        if host.tier.holds(&id(block)).is_some() {
            host.read(id(block));
        }
    }
    let written = host.tier.statistics().segments_written;
    let mut block = 3000;
    while host.tier.statistics().segments_written < written + 5 {
        write(&mut host, block);
        block += 1;
    }
    host.sync();
    let report = host.flash.recover(&host.superblock).unwrap().report;
    (report.referenced, report.valid)
}

#[test]
fn each_page_is_remembered_as_referenced_wherever_it_lies() {
    only_with(&[Bug::ReferencesOfOneShare], || {
        let (referenced, valid) = remembered();
        referenced > valid / 2
    });
}
