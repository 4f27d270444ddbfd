//! What a start by the copy of the directory makes of a tier is compared with what a start by segments makes of
//! it, in all that the tier keeps; and over lives that begin and end in any way the tier has each page's newest
//! version.

mod life;

use std::collections::BTreeMap;

use mezzanine_engine::format::{DirectoryCopy, Superblock};
use mezzanine_engine::planted::{Bug, only_with};
use mezzanine_engine::{CopyUse, Design, Recovered, Tier, TierConfig};

use crate::common::{Host, page};
use life::{BLOCKS, Life, id, recovered};

/// What the start by the copy and the one by segments make of a tier that was closed.
fn both(life: &mut Life, without: &Superblock, with: &Superblock) -> (Recovered, Recovered) {
    let copied = recovered(&mut life.host.flash, with, 3).unwrap();
    let replayed = recovered(&mut life.host.flash, without, 2).unwrap();
    assert_eq!((copied.report.directory_copy, copied.report.segments_read), (CopyUse::Used, 0));
    assert_eq!(replayed.report.directory_copy, CopyUse::Absent);
    (copied, replayed)
}

/// What two starts make of the same flash: lines that are not the same, of the first and of the second.
fn differences(one: &Tier, other: &Tier) -> BTreeMap<String, (Option<String>, Option<String>)> {
    let by_key = |tier: &Tier| -> BTreeMap<String, String> {
        tier.described()
            .into_iter()
            .map(|line| match line.split_once(": ") {
                Some((key, rest)) => (key.to_owned(), rest.to_owned()),
                None => (line, String::new()),
            })
            .collect()
    };
    let (one, other) = (by_key(one), by_key(other));
    let keys = one.keys().chain(other.keys());
    keys.filter(|key| one.get(*key) != other.get(*key))
        .map(|key| (key.clone(), (one.get(key).cloned(), other.get(key).cloned())))
        .collect()
}

/// A tier that is left as soon as it was opened has what segments say, and no more. What a start by its copy
/// makes of it is that, to the last word.
#[test]
fn a_start_by_copy_is_a_start_by_segments() {
    let mut compared = 0;
    for seed in 0..24 {
        let mut life = Life::new(seed);
        for _ in 0..3 {
            life.use_it(2500);
            life.sync();
            let crashed = life.host.superblock.clone();
            assert_eq!(life.open(&crashed), CopyUse::Absent);
            let without = life.host.tier.closed(&life.host.superblock);
            let with = life.host.tier.write_directory_copy(&without, &mut life.host.flash).unwrap();
            if with.copy.bytes > 0 {
                let (copied, replayed) = both(&mut life, &without, &with);
                let differences = differences(&copied.tier, &replayed.tier);
                assert!(differences.is_empty(), "seed {seed}: {differences:#?}");
                assert_eq!(copied.superblock, replayed.superblock);
                assert_eq!((copied.host_metadata, copied.log), (replayed.host_metadata, replayed.log));
                compared += 1;
            }
            // It may stand at the cut of a resize.
            let open = life.host.superblock.clone();
            life.open(&open);
        }
    }
    assert!(compared > 60, "{compared} compared");
}

/// What the copy says of a tier that was in use and its records do not: which pages have gone to disk, which
/// are referenced, which have gone without a tombstone, and which frames are bad.
#[test]
fn what_a_copy_knows_better_is_all_that_differs() {
    let mut seen = BTreeMap::new();
    for seed in 0..24 {
        let mut life = Life::new(seed);
        life.use_it(4000);
        let (without, with) = life.close();
        if with.copy.bytes == 0 {
            continue;
        }
        let (copied, replayed) = both(&mut life, &without, &with);
        let lines = copied.tier.described();
        let returning = "pages that are gone may return before ";
        let end = lines.iter().find_map(|line| line.strip_prefix(returning)?.parse::<u64>().ok()).unwrap();
        for (key, (copied, replayed)) in differences(&copied.tier, &replayed.tier) {
            let position = key.parse::<u64>().unwrap_or(u64::MAX);
            let valid = |line: &Option<String>| line.as_ref().is_some_and(|line| line.contains("checksum"));
            let flagged = |line: &Option<String>| {
                let line = line.clone().unwrap_or_default();
                let has = |flag: &str| line.contains(flag);
                (has(", dirty"), has(", lost"), line.replace(", dirty", "").replace(", lost", ""))
            };
            let plain = |line: &Option<String>| flagged(line).2.replace(", referenced", "");
            let what = match (valid(&copied), valid(&replayed)) {
                _ if key.starts_with(returning) => "where pages may return",
                _ if key.starts_with("frame ") && replayed.is_none() => "a bad frame",
                (true, true) if plain(&copied) == plain(&replayed) => {
                    let (dirty, lost, _) = flagged(&copied);
                    let (was_dirty, was_lost, _) = flagged(&replayed);
                    assert!(!dirty || was_dirty, "seed {seed}: {key}: {copied:?}, {replayed:?}");
                    assert!(!lost || was_lost, "seed {seed}: {key}: {copied:?}, {replayed:?}");
                    "flags"
                }
                (false, true) if position < end => "a page that may return",
                (false, false) if copied.as_deref() == Some("bad") => "a page in a bad frame",
                _ => panic!("seed {seed}: {key}: {copied:?} by the copy, {replayed:?} by segments"),
            };
            *seen.entry(what).or_insert(0) += 1;
        }
    }
    assert_eq!(seen.len(), 5, "{seen:?}");
}

/// One life after another, each of which ends in order, with a copy or without one, or by a crash.
fn lives(seed: u64) -> BTreeMap<String, u64> {
    let mut life = Life::new(seed);
    let mut starts = BTreeMap::new();
    for number in 0..10 {
        life.use_it(300 + 200 * (number % 4));
        let (superblock, closed) = match life.host.random(8) {
            0 => {
                life.sync();
                (life.host.superblock.clone(), false)
            }
            1 => {
                life.rest();
                (life.host.superblock.clone(), false)
            }
            2 => (life.close().0, true),
            chance => {
                let (_, with) = life.close();
                if chance == 3 && with.copy.bytes > 0 {
                    let geometry = with.config.geometry().unwrap();
                    let first = geometry.probes()[geometry.probes().len() - 1] as usize;
                    // No page of the tier has these bytes.
                    let of = with.generation.to_le_bytes();
                    let begins = |bytes: &[u8]| bytes.starts_with(b"MEZZDIR1") && bytes[32..40] == of;
                    let at = life.host.flash.0[first..].chunks_exact(4096).position(begins).unwrap();
                    life.host.flash.0[first + at * 4096 + 90] ^= 4;
                }
                (with, true)
            }
        };
        // Looked at, and left without a change.
        for _ in 0..life.host.random(2) {
            drop(recovered(&mut life.host.flash, &superblock, 2).unwrap());
        }
        let copy = life.open(&superblock);
        life.check(&format!("seed {seed}, life {number}, {copy:?}"));
        *starts.entry(format!("{closed} {copy:?}")).or_insert(0) += 1;
    }
    starts
}

#[test]
fn each_page_is_the_newest_in_every_life() {
    let mut starts: BTreeMap<String, u64> = BTreeMap::new();
    for seed in 0..24 {
        lives(seed).into_iter().for_each(|(start, count)| *starts.entry(start).or_insert(0) += count);
    }
    let seen = |start: &str| starts.get(start).copied().unwrap_or(0);
    assert!(seen("true Used") > 60 && seen("true Unusable") > 5, "{starts:?}");
    assert!(seen("true Absent") > 10 && seen("false Absent") > 30, "{starts:?}");
    assert_eq!(starts.len(), 4, "{starts:?}");
}

/// The same notices a copy that does not say which pages may return.
#[test]
fn the_lives_notice_a_page_that_comes_back() {
    only_with(&[Bug::ReturningForgotten], || {
        std::panic::catch_unwind(|| (0..12).for_each(|seed| drop(lives(seed)))).is_ok()
    });
}

/// Of the flash as a tier has left it, and of it as it was put back, the copy counts; not of one that was used
/// since, whatever superblock is on it, and not if another build has written that.
#[test]
fn a_copy_counts_for_what_was_left_and_for_nothing_else() {
    for seed in [0, 1, 2, 3, 7] {
        let mut life = Life::new(seed);
        life.use_it(4000);
        life.host.tier.cancel_resize();
        life.rest();
        let (_, with) = life.close();
        assert!(with.copy.bytes > 0, "seed {seed}");
        let (flash, disk, model) = (life.host.flash.0.clone(), life.host.disk.clone(), life.model.clone());
        assert_eq!(life.open(&with), CopyUse::Used);
        life.use_it(300);
        life.sync();
        // The device has lost the superblock of the life that came after.
        let lost = recovered(&mut life.host.flash, &with, 1).map(|found| found.report.directory_copy);
        assert!(!matches!(lost, Ok(CopyUse::Used)), "seed {seed}: {lost:?}");
        let open = life.host.superblock.clone();
        assert_eq!((open.copy, life.open(&open)), (DirectoryCopy::default(), CopyUse::Absent));
        life.check("after a crash");
        (life.host.flash.0, life.host.disk, life.model) = (flash, disk, model);
        // One that says the same at a later time, and one by a build that knows of no copies.
        let later = Superblock { generation: with.generation + 1, ..with.clone() };
        assert_eq!(life.open(&later), CopyUse::Unusable);
        life.check("with a superblock that was written anew");
        let unknowing = Superblock { copy: DirectoryCopy::default(), ..with.clone() };
        assert_eq!(life.open(&unknowing), CopyUse::Absent);
        assert_eq!(life.open(&with), CopyUse::Used);
        life.check("put back");
    }
}

/// What is written in place has its own ways to be found.
#[test]
fn no_other_design_leaves_a_copy() {
    for design in [Design::Lc, Design::Lru, Design::Clock, Design::Fifo, Design::Tac, Design::Cac] {
        let mut host = Host::new(&TierConfig::of(design, 4096, 2048), 1);
        (0..6000).for_each(|number| host.write(id(number * 7 % BLOCKS), &page(4096, number)));
        host.sync();
        host.tier.begin_drain();
        while host.step() {}
        host.sync();
        let closed = host.tier.closed(&host.superblock);
        let with = host.tier.write_directory_copy(&closed, &mut host.flash).unwrap();
        assert_eq!(with, closed, "{design}");
    }
}
