//! Validity by versions: what recovery finds by replaying records in the order of the queue is what the
//! records' versions say (highest version, then latest position, minus tombstones), worked out here without
//! the engine's directory.
#![allow(clippy::unwrap_used, missing_docs)]

use std::collections::BTreeMap;

use common::{Host, page};
use mezzanine_engine::format::{GroupSummary, RecordKind};
use mezzanine_engine::{IdRange, Lookup, PageId, Position, TierConfig, Version};

mod common;

/// (epoch, version, position) of the newest copy of each page on flash, tombstones taken off.
fn newest_by_version(host: &Host) -> BTreeMap<PageId, (u32, Version, Position)> {
    let summaries: Vec<(GroupSummary, &[u8])> = host
        .flash
        .0
        .chunks_exact(4096)
        .filter_map(|frame| GroupSummary::decode(frame).ok().map(|(summary, _)| (summary, frame)))
        .collect();
    // Recovery has put the largest front that anything states into the superblock of the new epoch.
    let front = host.superblock.front;
    let mut newest: BTreeMap<PageId, (u32, Version, Position)> = BTreeMap::new();
    let mut tombstones: Vec<(IdRange, (u32, Version))> = Vec::new();
    for (summary, frame) in summaries.iter().filter(|(summary, _)| summary.position >= front) {
        let mut position = summary.position;
        for index in 0..summary.records as usize {
            let record = GroupSummary::record(frame, index).unwrap();
            match record.kind {
                RecordKind::Page { id, .. } => {
                    position += 1;
                    let found = (record.epoch, record.version, position);
                    let best = newest.entry(id).or_insert(found);
                    *best = found.max(*best);
                }
                RecordKind::Tombstone(range) => tombstones.push((range, (record.epoch, record.version))),
                RecordKind::Void => position += 1,
                RecordKind::Group { .. } => panic!("a group's record in a summary"),
            }
        }
    }
    newest.retain(|id, (epoch, version, _)| {
        !tombstones.iter().any(|(range, at)| range.contains(id) && *at > (*epoch, *version))
    });
    newest
}

#[test]
fn replay_in_queue_order_agrees_with_the_versions() {
    let mut host = Host::new(&TierConfig::new(4096, 512), 11);
    let mut second_chances = 0;
    for round in 0..40u64 {
        for n in 0..400 {
            let block = if host.random(2) == 0 { host.random(50) } else { host.random(700) };
            let id = PageId::volume(1, block);
            match host.random(20) {
                0..9 => host.write(id, &page(4096, round * 1000 + n)),
                9..19 => drop(host.read(id)),
                _ if host.random(4) == 0 => {
                    let range = IdRange::blocks(1, block, host.random(5) + 1);
                    while host.tier.invalidate_range(&range).is_err() {
                        assert!(host.step());
                    }
                }
                _ => drop(host.step()),
            }
        }
        host.sync();
        second_chances += host.tier.statistics().second_chances;
        host = host.reopen(round % 3 == 0);
        let expected = newest_by_version(&host);
        assert!(expected.len() > 50 || round < 2);
        assert_eq!(host.tier.valid_and_dirty().0, expected.len() as u64, "round {round}");
        for (id, (_, _, position)) in expected {
            let mut out = vec![0; 4096];
            match host.tier.lookup(&id, &mut out) {
                Lookup::Flash(found) => assert_eq!(found.position, position, "{id:?}"),
                other => panic!("{id:?}: {other:?}"),
            }
        }
    }
    assert!(second_chances > 50, "second chances keep their version, so they must happen: {second_chances}");
}

/// Every recovery begins a new epoch, and versions are ordered by epochs first: their numbers may begin
/// again.
#[cfg(feature = "planted")]
#[test]
fn versions_may_begin_again_in_a_new_epoch() {
    use mezzanine_engine::planted::{Bug, set};
    set(Some(Bug::VersionsRestart));
    replay_in_queue_order_agrees_with_the_versions();
    set(None);
}
