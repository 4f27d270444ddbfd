//! Second chances work at once after a crash: reference bits come back with the metadata.
#![allow(clippy::unwrap_used)]

mod common;

use common::{Host, page};
use mezzanine_engine::format::SegmentHeader;
use mezzanine_engine::{Design, PageId, SyncMode, TierConfig};

fn config(design: Design) -> TierConfig {
    // In `durable` some frames are kept for the names of lost pages.
    let sync_mode = SyncMode::Drained;
    TierConfig { design, sync_mode, segment_frames: 64, ..TierConfig::new(4096, 2048) }
}

fn id(block: u64) -> PageId {
    PageId::volume(1, block)
}

const HOT: u64 = 40;

/// 40 pages, far apart in the queue, are read again and again while 5,000 others pass through.
fn lived(design: Design) -> Host {
    let mut host = Host::new(&config(design), 1);
    for block in 1000..6000 {
        host.write(id(block), &page(4096, block));
        // As workers do: stage-out that finds staging memory full has no room for second chances.
        while host.step() {}
        if block < 2000 && block % 25 == 0 {
            host.write(id((block - 1000) / 25), &page(4096, (block - 1000) / 25));
        }
        if block > 2000 && block % 7 == 0 {
            for hot in 0..HOT {
                host.read(id(hot));
            }
        }
    }
    host.sync();
    host
}

/// A metadata segment is written, and no hot page is read any more. Returns how many got their second chance
/// meanwhile and count as referenced no more.
fn segment_after_the_last_reads(host: &mut Host) -> u64 {
    let before = host.tier.statistics();
    let mut block = 6000;
    while host.tier.statistics().segments_written == before.segments_written {
        host.write(id(block), &page(4096, block));
        while host.step() {}
        block += 1;
    }
    host.tier.statistics().second_chances - before.second_chances
}

/// How many of the hot pages are still answered from flash after so many others.
fn survivors(host: &mut Host, others: u64) -> usize {
    for block in 10_000..10_000 + others {
        host.write(id(block), &page(4096, block));
        while host.step() {}
    }
    let before = host.tier.statistics().misses;
    for hot in 0..HOT {
        assert_eq!(host.read(id(hot)), page(4096, hot));
    }
    (HOT - (host.tier.statistics().misses - before)) as usize
}

#[test]
fn hot_pages_keep_their_second_chance_over_a_crash() {
    // More than half of the queue comes to the front, and no page twice.
    let warm = survivors(&mut lived(Design::FaceGsc), 1200);
    let mut lived = lived(Design::FaceGsc);
    let used_up = segment_after_the_last_reads(&mut lived);
    let mut crashed = lived.reopen(false);
    let recovered = crashed.flash.recover(&crashed.superblock).unwrap().report;
    let after_crash = survivors(&mut crashed, 1200);
    // Without the bits it would be those that happen to lie in the younger half of the queue (see below).
    assert_eq!((warm, after_crash), (HOT as usize, HOT as usize));
    // A segment takes a share of the bits along, so one that was set behind the last one of its share is
    // lost.
    assert!((HOT - 2..HOT).contains(&recovered.referenced) && used_up == 1, "{recovered:?}, {used_up}");
}

#[test]
fn designs_without_second_chances_write_no_bits() {
    let bytes = |design| {
        let statistics = lived(design).tier.statistics();
        statistics.metadata_bytes_written / statistics.segments_written
    };
    assert!(bytes(Design::FaceGr) < bytes(Design::FaceGsc));
}

/// Bits are hints: a bitmap that rotted costs second chances and nothing else.
#[test]
fn a_rotten_bitmap_is_done_without() {
    let mut host = lived(Design::FaceGsc);
    let mut rotten = 0;
    for at in (0..host.flash.0.len()).step_by(4096) {
        let Ok(header) = SegmentHeader::decode(&host.flash.0[at..at + 4096]) else { continue };
        let bits = at + header.records_end() as usize;
        host.flash.0[bits..bits + header.share_bytes()].fill(0xA5);
        rotten += 1;
    }
    assert!(rotten > 10);
    let mut host = host.reopen(false);
    assert_eq!(host.flash.recover(&host.superblock).unwrap().report.referenced, 0);
    assert_eq!(survivors(&mut host, 1200), 14, "those that were in the younger half of the queue");
    host.tier.check();
}
