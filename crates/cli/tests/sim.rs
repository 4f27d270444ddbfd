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
