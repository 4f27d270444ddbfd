//! Where groups are known to have been durable, a page of theirs that has rotted is lost, and nothing else.
//!
//! What no group has stated to be durable may be torn by the loss of power: recovery looks at its pages, and
//! a wrong checksum makes a group and all behind it absent. The superblock knows more: a tier that was closed
//! in order ends where it says, one that was recovered had everything up to there, and a checkpoint of a
//! database says what it relies on. A closed or recovered tier was refused as damaged for one rotten page, or
//! one that a device gave back wrong, in the groups of its last flush; after a checkpoint and a crash these
//! groups were left out without a word, and redo has nothing for their pages.

use mezzanine_engine::format::SUMMARY_MAGIC;
use mezzanine_engine::planted::{Bug, only_with, set};
use mezzanine_engine::{Design, Lookup, RecoveryError, RedoPoint, TierConfig};

use crate::common::{Host, page};
use crate::id;

const PAGES: u64 = 12;

fn host(design: Design) -> Host {
    let mut config = TierConfig::new(4096, 512);
    config.design = design;
    let mut host = Host::new(&config, 1);
    for block in 0..PAGES {
        host.write(id(block), &page(4096, block + 100));
    }
    host.sync();
    host
}

/// Recovers, with the page of this block rotten on flash. Is it the only one that cannot be had, and dirty?
fn only_it_is_lost(host: &mut Host, rotten: u64) -> Result<bool, RecoveryError> {
    let frame = host.flash.0.chunks_exact(4096).position(|frame| frame == page(4096, rotten + 100)).unwrap();
    host.flash.0[frame * 4096 + 700] ^= 1;
    let superblock = host.superblock.clone();
    let recovered = host.flash.recover(&superblock);
    let bytes = host.flash.0.clone();
    host.flash.0[frame * 4096 + 700] ^= 1;
    let tier = recovered?.tier;
    Ok((0..PAGES).all(|block| {
        let Lookup::Flash(found) = tier.lookup(&id(block), &mut [0; 4096]) else {
            return false;
        };
        let whole = tier.verify(&found, &bytes[found.offset as usize..][..4096]);
        found.dirty && whole == (block != rotten)
    }))
}

/// Each page of the last flush, one at a time.
fn each(host: &mut Host) -> Result<bool, RecoveryError> {
    (0..PAGES).map(|rotten| only_it_is_lost(host, rotten)).try_fold(true, |all, one| Ok(all && one?))
}

fn held(good: impl Fn() -> Result<bool, RecoveryError>) {
    assert_eq!(good(), Ok(true), "with all rules in place");
    set(Some(Bug::KnownEndVerified));
    let without = good();
    set(None);
    let what = match without {
        Err(RecoveryError::Damaged { what, .. }) => what,
        // In place the pages of the group are those of the version before.
        other => format!("{other:?}"),
    };
    assert!(what.contains("closed after group") || what.contains("was durable and is gone"), "{what}");
}

#[test]
fn a_rotten_page_in_the_last_groups_of_a_closed_tier_is_lost_alone() {
    for design in [Design::FaceGr, Design::Lc] {
        held(|| {
            let mut host = host(design);
            host.superblock = host.tier.closed(&host.superblock);
            each(&mut host)
        });
    }
}

/// Power failed once, the tier was recovered, and power fails again before anything was appended.
#[test]
fn a_rotten_page_in_groups_that_were_recovered_once_is_lost_alone() {
    for design in [Design::FaceGr, Design::Lc] {
        held(|| each(&mut host(design).reopen(false)));
    }
}

/// A database with nothing but the tier for its pages has completed a checkpoint, and power fails.
fn relied_on(design: Design) -> Host {
    let mut host = host(design);
    host.superblock = host.tier.promised(&host.superblock, RedoPoint { redo: 20, timeline: 1 });
    host
}

#[test]
fn a_rotten_page_in_the_groups_that_a_checkpoint_relied_on_is_lost_alone() {
    for design in [Design::FaceGr, Design::Lc] {
        held(|| each(&mut relied_on(design)));
        only_with(&[Bug::PromiseUncounted], || each(&mut relied_on(design)) == Ok(true));
    }
}

/// So is a tier that lacks one of them as a whole.
#[test]
fn a_rotten_summary_of_a_group_that_a_checkpoint_relied_on_ends_recovery() {
    for design in [Design::FaceGr, Design::Lc] {
        only_with(&[Bug::PromiseUncounted], || {
            let mut host = relied_on(design);
            let last = host.flash.0.chunks_exact(4096).rposition(|frame| frame.starts_with(&SUMMARY_MAGIC));
            host.flash.0[last.unwrap() * 4096 + 100] ^= 1;
            let superblock = host.superblock.clone();
            match host.flash.recover(&superblock) {
                Err(RecoveryError::Damaged { what, .. }) => what.contains("was durable and is gone"),
                _ => false,
            }
        });
    }
}
