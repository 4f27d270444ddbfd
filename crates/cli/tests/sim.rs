//! `mezz sim crash`.
#![allow(clippy::unwrap_used)]

mod common;

use common::mezz;

#[test]
fn power_cuts_lose_nothing() {
    let report = mezz(&["sim", "crash", "--seed", "3", "--cuts", "300", "--json"]).expect(0).json();
    assert_eq!(report["ok"], true);
    assert_eq!(report["violations"].as_array().unwrap().len(), 0);
    assert!(report["cuts"].as_u64().unwrap() >= 300);
    assert!(report["coverage"]["cuts_inside_recovery"].as_u64().unwrap() > 0);
}

#[test]
fn a_seed_decides_everything() {
    let run = |threads| {
        let mut report =
            mezz(&["sim", "crash", "--seed", "9", "--cuts", "200", "--threads", threads, "--json"])
                .expect(0)
                .json();
        for time in ["seconds", "cuts_per_second"] {
            report.as_object_mut().unwrap().remove(time);
        }
        report
    };
    assert_eq!(run("1"), run("2"));
}

#[test]
fn the_table_says_what_the_run_went_through() {
    let text = mezz(&["sim", "crash", "--cuts", "100"]).expect(0).stdout;
    for part in ["power cuts", "violations", "none", "second chances"] {
        assert!(text.contains(part), "{part}:\n{text}");
    }
}

#[test]
fn runs_can_concentrate_on_a_kind_of_world_a_sync_mode_and_a_design() {
    let run = |options: &[&str]| {
        mezz(&[&["sim", "crash", "--cuts", "200", "--json"], options].concat()).expect(0).json()
    };
    let volumes = run(&["--world", "volume", "--design", "face-basic", "--without", "errors,files"]);
    assert_eq!(volumes["worlds_database"], 0);
    assert_eq!(volumes["coverage"]["second_chances"], 0, "only face-gsc has them");
    assert_eq!(volumes["coverage"]["errors_planned"], 0);
    let databases = run(&["--sync-mode", "drained"]);
    assert_eq!(databases["worlds_database"], databases["worlds"], "volumes have no sync mode drained");
    assert!(databases["coverage"]["checkpoints"].as_u64().unwrap() > 0);
}

#[test]
fn what_worlds_do_to_a_tier_in_use_can_be_left_out() {
    for (world, cuts, counts) in [
        ("volume", "6000", &["switches", "admission_changes", "replacements"][..]),
        ("database", "3000", &["switches", "resizes"]),
    ] {
        let run = |options: &[&str]| {
            let all = [&["sim", "crash", "--world", world, "--cuts", cuts, "--json"], options].concat();
            mezz(&all).expect(0).json()
        };
        let drawn = run(&[]);
        let left_out = run(&["--without", "switches,replacements,resizes,ahead"]);
        for count in counts {
            assert!(drawn["coverage"][count].as_u64().unwrap() > 0, "{count}: {drawn}");
            assert_eq!(left_out["coverage"][count], 0, "{count}");
        }
    }
}

#[test]
fn an_excerpt_is_one_short_life() {
    let report =
        mezz(&["sim", "crash", "--world", "volume", "--seed", "3", "--only", "0:0-9!9.1,4:2", "--json"])
            .expect(0)
            .json();
    assert_eq!(report["worlds"], 1);
    assert!((1..=11).contains(&report["operations"].as_u64().unwrap()), "{}", report["operations"]);
}

/// Whether a report says that nothing was violated, however wide its columns are.
fn finds_nothing(report: &str) -> bool {
    report.lines().any(|line| line.starts_with("violations ") && line.ends_with(" none"))
}

#[test]
fn every_case_of_the_shortest_traces_is_tried() {
    let of_one_design =
        ["sim", "crash", "--exhaustive", "--length", "0", "--sync-mode", "through", "--design", "face-gr"];
    let report = mezz(&[&of_one_design[..], &["--json"]].concat()).expect(0).json();
    assert_eq!(report["violations"].as_array().unwrap().len(), 0);
    assert!(report["cuts"].as_u64().unwrap() > 100);
    let case =
        mezz(&["sim", "crash", "--exhaustive", "--case", "used/durable/face-gsc/both/2:w:1"]).expect(0);
    assert!(finds_nothing(&case.stdout), "{}", case.stdout);
    let of_databases =
        ["sim", "crash", "--exhaustive", "--length", "0", "--world", "database", "--sync-mode", "drained"];
    let report = mezz(&[&of_databases[..], &["--design", "face-gr", "--json"]].concat()).expect(0).json();
    assert_eq!(report["violations"].as_array().unwrap().len(), 0);
    assert!(report["settings"].as_u64() == Some(4 * 3) && report["cuts"].as_u64().unwrap() > 100, "{report}");
    let case = "database/used/drained/face-gsc/both/2:w:1";
    let case = mezz(&["sim", "crash", "--exhaustive", "--case", case]).expect(0);
    assert!(finds_nothing(&case.stdout), "{}", case.stdout);
}

#[test]
fn senseless_wishes_are_refused_with_what_there_is() {
    for (options, words) in [
        (&["--world", "moon"][..], &["moon", "all, volume, database"][..]),
        (&["--world", "volume", "--sync-mode", "drained"], &["drained", "no log", "--world database"]),
        (
            &["--exhaustive", "--world", "volume", "--sync-mode", "drained"],
            &["drained", "no log", "--world database"],
        ),
        (&["--design", "lru-3"], &["lru-3", "face-gsc, lru"]),
        (&["--design", "tac", "--sync-mode", "durable"], &["--sync-mode durable", "through alone"]),
        (&["--without", "gravity"], &["gravity", "guards"]),
        (&["--only", "3"], &["'3'", "3:0-4+9!9.2"]),
        (&["--exhaustive", "--case", "old"], &["old", "used/durable/face-gsc/both/1"]),
        (&["--exhaustive", "--seed", "1"], &["--seed"]),
        (&["--length", "2"], &["--exhaustive"]),
        (&["--exhaustive", "--length", "70"], &["70"]),
    ] {
        mezz(&[&["sim", "crash"], options].concat()).expect(2).complains(words);
    }
}
