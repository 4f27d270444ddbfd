//! For every rule of the engine and the volume that a test can take out: something goes red when it is out,
//! and is green when it is in. A world that finds nothing proves nothing.
//!
//! `data/planted.toml` says what finds which, and after how many power cuts; `docs/planted-bugs.md` shows it
//! as a table. After a change of a world or of the engine's order of jobs the numbers are others; this
//! measures them anew and writes both files; that takes long, for there are hundreds of switches:
//!
//! ```text
//! MEZZANINE_PLANTED=write cargo test --release -p mezzanine-sim --features planted --test planted_bugs -- --ignored --nocapture
//! ```
//!
//! Each row is written when it is measured, so a run that is broken off has not been in vain:
//! `MEZZANINE_PLANTED=write:Switch..` goes on from a switch, in the order of the engine's list.
//! `MEZZANINE_PLANTED=SwitchOne,SwitchTwo` measures some and writes nothing. Without `MEZZANINE_PLANTED` the
//! table is measured and compared: every bug must still be found where the table says, in at most twenty
//! times the cuts, because a change of a world draws other worlds.
#![allow(clippy::unwrap_used, missing_docs)]

mod search;

mod table;

use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use mezzanine_engine::planted::Bug;

use search::{Found, Kind, search};
use table::{Row, Table, root};

/// Found after so few cuts, a bug is looked for in every test run.
const QUICK: u64 = 1000;
/// Where a quick one must have shown. Other draws of the world may need more than the table says, but not
/// that many more.
const QUICK_MAX: u64 = 20_000;
/// How far the table is measured in each world; and where nothing else finds a bug, how far then.
const ROUNDS: [u64; 2] = [10_000, 200_000];
/// Fewer than so many that need more than `QUICK` cuts would be bugs that any world finds.
const SLOW_MIN: usize = 10;

/// Does `work` for every bug, on all processors.
fn for_all(bugs: &[Bug], work: impl Fn(Bug) + Sync) {
    let next = AtomicUsize::new(0);
    let one = || {
        while let Some(&bug) = bugs.get(next.fetch_add(1, Ordering::Relaxed)) {
            work(bug);
        }
    };
    std::thread::scope(|scope| {
        for _ in 0..std::thread::available_parallelism().map_or(2, usize::from) {
            scope.spawn(one);
        }
    });
}

fn told(bug: Bug, kind: Kind, found: &Found) -> u64 {
    let text: String = found.violation.text.chars().take(100).collect();
    let Found { cuts, violation } = found;
    println!(
        "{bug:?} ({kind:?}): {cuts} cuts, seed {}, {} {text}",
        violation.seed,
        violation.invariant.name()
    );
    *cuts
}

#[test]
fn every_switch_is_in_the_table() {
    let table = Table::read();
    assert_eq!(table.len(), Bug::ALL.len(), "the table has rows of switches that are no more");
    for &bug in Bug::ALL {
        let row = table.row(bug);
        assert_eq!(row.invariant, bug.invariant(), "{bug:?}");
        let found = row.quickest().is_some() || !row.tests.is_empty();
        assert_ne!(found, row.unseen.is_some(), "{bug:?} is found, or it is said why not");
        for test in &row.tests {
            let text =
                std::fs::read_to_string(root().join(test)).unwrap_or_else(|error| panic!("{test}: {error}"));
            assert!(text.contains(&format!("Bug::{bug:?}")), "{test} does not try {bug:?}");
        }
    }
}

#[test]
fn the_document_shows_the_table() {
    let (is, should_be) = Table::read().in_document();
    assert_eq!(is, should_be, "docs/planted-bugs.md and crates/sim/data/planted.toml differ");
}

#[test]
fn what_is_found_quickly_is_found() {
    let table = Table::read();
    let quick: Vec<Bug> = Bug::ALL
        .iter()
        .copied()
        .filter(|bug| table.row(*bug).quickest().is_some_and(|(_, cuts)| cuts <= QUICK))
        .collect();
    let missed = Mutex::new(Vec::new());
    for_all(&quick, |bug| {
        let (kind, _) = table.row(bug).quickest().unwrap();
        match search(Some(bug), kind, QUICK_MAX) {
            Some(found) => drop(told(bug, kind, &found)),
            None => missed.lock().unwrap().push(bug),
        }
    });
    println!("{} of {} switches; the others need more cuts or other tests", quick.len(), Bug::ALL.len());
    let missed = missed.into_inner().unwrap();
    assert!(missed.is_empty(), "not noticed in {QUICK_MAX} cuts: {missed:?}");
}

#[test]
fn without_a_planted_bug_nothing_is_found() {
    for kind in Kind::ALL {
        let found = search(None, kind, 20_000);
        assert!(found.is_none(), "{}", found.unwrap().violation);
    }
}

/// Measures one bug in all worlds.
fn measured(bug: Bug, row: &Row) -> Row {
    let mut now = Row { volume: None, database: None, histories: None, runners: None, ..row.clone() };
    let elsewhere = !row.tests.is_empty() || row.unseen.is_some();
    for cuts_max in ROUNDS {
        for kind in Kind::ALL {
            // Most of what it finds it finds as the world of volumes does, and later.
            let others = matches!(kind, Kind::Histories | Kind::Runners);
            if others && row.cuts(kind).is_none() && now.quickest().is_some() {
                continue;
            }
            // Other draws of the world may need more than the table says, but not that many more.
            let recorded = row.cuts(kind).map_or(0, |cuts| 20 * cuts);
            let found = search(Some(bug), kind, cuts_max.max(recorded));
            now.set_cuts(kind, found.map(|found| told(bug, kind, &found)));
        }
        if now.quickest().is_some() || elsewhere {
            break;
        }
    }
    now
}

#[test]
#[ignore = "it takes long: hundreds of switches, each in four worlds"]
fn the_whole_table_holds() {
    let asked = std::env::var("MEZZANINE_PLANTED").unwrap_or_default();
    let (write, wanted) = match asked.strip_prefix("write") {
        Some(wanted) => (true, wanted.trim_start_matches(':')),
        None => (false, asked.as_str()),
    };
    let some = !wanted.is_empty();
    let is = |bug: &Bug, name: &str| name == format!("{bug:?}");
    let bugs: Vec<Bug> = match wanted.strip_suffix("..") {
        Some(first) => Bug::ALL.iter().copied().skip_while(|bug| !is(bug, first)).collect(),
        None => {
            let named = |bug: &Bug| !some || wanted.split(',').any(|name| is(bug, name));
            Bug::ALL.iter().copied().filter(named).collect()
        }
    };
    assert!(!bugs.is_empty(), "there is no such switch: {wanted}");
    let table = Mutex::new(Table::read());
    let lost = Mutex::new(Vec::new());
    for_all(&bugs, |bug| {
        let row = table.lock().unwrap().row(bug);
        let now = measured(bug, &row);
        if now != row {
            println!(
                "{bug:?}: now {:?}, the table says {:?}",
                Kind::ALL.map(|kind| now.cuts(kind)),
                Kind::ALL.map(|kind| row.cuts(kind))
            );
        }
        if Kind::ALL.into_iter().any(|kind| row.cuts(kind).is_some() && now.cuts(kind).is_none()) {
            lost.lock().unwrap().push(bug);
        }
        let mut table = table.lock().unwrap();
        table.set(bug, now);
        if write {
            table.write();
        }
    });
    let (table, lost) = (table.into_inner().unwrap(), lost.into_inner().unwrap());
    if some {
        return;
    }
    let quickest = |bug: &&Bug| table.row(**bug).quickest();
    let slow = Bug::ALL.iter().filter_map(|bug| quickest(&bug)).filter(|(_, cuts)| *cuts > QUICK).count();
    println!("{slow} bugs need more than {QUICK} cuts");
    if write {
        return;
    }
    assert!(lost.is_empty(), "not noticed any more where the table says they are: {lost:?}");
    assert!(slow >= SLOW_MIN, "only {slow} bugs need more than {QUICK} cuts");
}
