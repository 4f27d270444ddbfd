//! A slot directory says nothing of a page that disk does not say as well.

use mezzanine_engine::planted::{Bug, only_with};
use mezzanine_engine::{Design, Job, StageIn, StageKind, SyncState, TierConfig};

use crate::common::{Flash, Host, carry_out, page};
use crate::id;

/// A page that flash names goes to disk in a newer version, and then the power fails at once: flash has lost
/// what was not flushed, disk has it.
#[test]
fn a_slot_is_durably_invalid_before_its_page_changes_on_disk() {
    only_with(&[Bug::SlotLeftValid, Bug::SlotInvalidUnflushed], || {
        let mut host = Host::new(&TierConfig::of(Design::Tac, 4096, 512), 1);
        host.disk.insert(id(0), page(4096, 1));
        host.read(id(0));
        // The page is durable, and then its slot.
        host.sync();
        host.sync();
        let mut durable = host.flash.0.clone();
        while host.tier.stage_in(&id(0), &page(4096, 2), StageKind::Dirty, 0) == StageIn::Full {
            let mut job = host.tier.next_job(1).unwrap();
            carry_out(&mut host.flash, &mut host.disk, &mut job);
            if matches!(job, Job::FlushFlash(_)) {
                durable.clone_from(&host.flash.0);
            }
            host.tier.complete(job, Ok(()));
        }
        let recovered = Flash(durable).recover(&host.superblock).unwrap();
        recovered.tier.holds(&id(0)).is_none()
    });
}

/// A page is in flash, durably, and on disk, but not durably: a crash must not find it in flash alone, where
/// it would count as clean.
#[test]
fn a_slot_is_not_valid_before_disk_has_its_page() {
    only_with(&[Bug::SlotBeforeDiskSync], || {
        let mut host = Host::new(&TierConfig::of(Design::Tac, 4096, 512), 1);
        host.write(id(0), &page(4096, 2));
        for _ in 0..2 {
            let ticket = host.tier.request_sync().unwrap();
            while host.tier.sync_state(&ticket) != SyncState::Durable {
                assert!(host.step());
            }
        }
        host.flash.recover(&host.superblock).unwrap().tier.holds(&id(0)).is_none()
    });
}

/// A session whose superblock the device lost, both copies of it, after it had said that they were durable,
/// with a page in a slot: the superblock of the session before is found, discarded or not, and the next
/// session writes nothing. Its slot counted after that, though disk may have a newer page.
#[test]
fn slots_of_an_epoch_whose_superblock_was_lost_stay_away() {
    let stays_away = |discarded: bool| {
        let host = Host::new(&TierConfig::of(Design::Tac, 4096, 512), 1);
        let known = host.superblock.clone();
        let mut host = host.reopen(false);
        host.disk.insert(id(0), page(4096, 1));
        host.read(id(0));
        // The page is durable, and then its slot.
        host.sync();
        host.sync();
        assert!(host.flash.recover(&host.superblock).unwrap().tier.holds(&id(0)).is_some());
        host.superblock = if discarded { known.discarded() } else { known };
        (0..3).all(|_| {
            let recovered = host.flash.recover(&host.superblock).unwrap();
            recovered.writes.iter().for_each(|(offset, bytes)| host.flash.write(*offset, bytes));
            host.superblock = recovered.superblock;
            recovered.tier.holds(&id(0)).is_none()
        })
    };
    only_with(&[Bug::LostEpochReused], || stays_away(false) && stays_away(true));
    only_with(&[Bug::LostEpochReused], || stays_away(true));
}

/// The same, after which a page comes to a slot in each session: it is there after the next crash. An emptied
/// tier that had begun with the epoch in use counted as empty each time.
#[test]
fn slots_count_after_a_lost_epoch() {
    only_with(&[Bug::UsedTakenForEmpty], || {
        let in_a_slot = |host: &mut Host| {
            host.disk.insert(id(0), page(4096, 1));
            host.read(id(0));
            // The page is durable, and then its slot.
            host.sync();
            host.sync();
        };
        let host = Host::new(&TierConfig::of(Design::Tac, 4096, 512), 1);
        let known = host.superblock.clone();
        let mut host = host.reopen(false);
        in_a_slot(&mut host);
        host.superblock = known.discarded();
        (0..3).all(|_| {
            host.superblock = host
                .flash
                .recover(&host.superblock)
                .map(|recovered| {
                    recovered.writes.iter().for_each(|(offset, bytes)| host.flash.write(*offset, bytes));
                    host.tier = recovered.tier;
                    recovered.superblock
                })
                .unwrap();
            in_a_slot(&mut host);
            host.flash.recover(&host.superblock).unwrap().tier.holds(&id(0)).is_some()
        })
    });
}
