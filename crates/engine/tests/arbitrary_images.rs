//! Recovery of images with arbitrary bytes changed: it may refuse, it may lose what the change destroyed,
//! but it neither panics nor hangs, and what it accepts satisfies every structural rule.
//!
//! Checksums are repaired after half of the changes, so that nonsense gets past them.
#![allow(clippy::unwrap_used, missing_docs)]

use std::ops::Range;

use common::{Host, page};
use mezzanine_engine::format::SUMMARY_MAGIC;
use mezzanine_engine::{PageId, Region, Tier, TierConfig};

mod common;

const ROUNDS: u64 = 10_000;

/// Stores the checksum of two ranges at `at`.
fn put_checksum(bytes: &mut [u8], at: usize, first: Range<usize>, second: Range<usize>) {
    let checksum = crc32c::crc32c_append(crc32c::crc32c(&bytes[first]), &bytes[second]);
    bytes[at..at + 4].copy_from_slice(&checksum.to_le_bytes());
}

fn number(bytes: &[u8], at: usize) -> usize {
    u32::from_le_bytes(bytes[at..at + 4].try_into().unwrap()) as usize
}

/// Makes the checksums of every summary and segment right again.
fn repair(flash: &mut [u8]) {
    for at in (0..flash.len()).step_by(4096) {
        let rest = &mut flash[at..];
        if rest.len() >= 4096 && rest[..8] == SUMMARY_MAGIC {
            let end = 320 + number(rest, 40).min(78) * 48;
            put_checksum(rest, 316, 0..316, 320..end);
        }
        if rest.len() >= 4096 && rest[..8] == *b"MEZZSEG1" {
            let end = (4096 + number(rest, 96).min(1 << 16) * 48).min(rest.len());
            put_checksum(rest, 100, 4096..end, 0..0);
            put_checksum(rest, 124, 0..124, 0..0);
        }
    }
}

#[test]
fn whatever_is_on_flash_recovery_neither_panics_nor_accepts_nonsense() {
    let mut host = Host::new(&TierConfig::new(4096, 256), 5);
    for n in 0..3000u64 {
        let block = host.random(400);
        host.write(PageId::volume(1, block), &page(4096, n));
        if n % 50 == 0 {
            host.sync();
        }
        if n % 97 == 0 {
            while host.tier.invalidate(&PageId::volume(1, block)).is_err() {
                assert!(host.step());
            }
        }
    }
    host.sync();
    let superblock = host.superblock.clone();
    let bytes = host.tier.geometry().region_bytes();
    let whole = host.flash.0.clone();
    let metadata = whole
        .chunks(4096)
        .enumerate()
        .filter(|(_, page)| page[..8] == SUMMARY_MAGIC || page[..8] == *b"MEZZSEG1");
    let metadata: Vec<usize> = metadata.map(|(page, _)| page * 4096).collect();
    let (mut accepted, mut refused) = (0, 0);
    for round in 0..ROUNDS {
        for _ in 0..=host.random(16) {
            // Mostly where structures lie, and there mostly in their first bytes.
            let base = metadata[host.random(metadata.len() as u64) as usize];
            let within = if host.random(2) == 0 { host.random(330) } else { host.random(6000) };
            let at = (base + within as usize).min(whole.len() - 1);
            host.flash.0[at] = if host.random(2) == 0 { 0 } else { host.random(256) as u8 };
        }
        if round % 2 == 0 {
            repair(&mut host.flash.0);
        }
        match Tier::recover(Region::heap(bytes), &superblock, 1, &mut host.flash) {
            Ok(recovered) => {
                recovered.tier.check();
                accepted += 1;
            }
            Err(_) => refused += 1,
        }
        host.flash.0.copy_from_slice(&whole);
    }
    assert!(accepted > 100 && refused > 100, "accepted {accepted}, refused {refused}");
}
