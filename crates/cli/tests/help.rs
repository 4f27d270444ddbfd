//! Every verb explains itself, with an example, and nothing else does anything without being asked properly.
#![allow(clippy::unwrap_used)]

mod common;

use common::mezz;

const VERBS: &[&[&str]] = &[
    &["demo"],
    &["tier", "format"],
    &["tier", "inspect"],
    &["tier", "verify"],
    &["tier", "drain"],
    &["device", "list"],
    &["device", "bench"],
    &["device", "probe"],
    &["device", "fit"],
    &["device", "serve"],
    &["device", "ublk-delete"],
    &["block", "create"],
    &["block", "attach"],
    &["block", "status"],
    &["block", "list"],
    &["block", "flush"],
    &["block", "set"],
    &["block", "resize"],
    &["block", "detach"],
    &["block", "check"],
    &["trace", "info"],
    &["trace", "convert"],
    &["trace", "generate"],
    &["sim", "crash"],
    &["sim", "run"],
    &["sim", "mrc"],
    &["sim", "three-tier"],
    &["sim", "block"],
    &["experiment", "list"],
    &["experiment", "run"],
    &["pg", "build"],
    &["pg", "bench"],
    &["pg", "init"],
    &["pg", "start"],
    &["pg", "stop"],
    &["pg", "status"],
    &["pg", "drain"],
];

#[test]
fn every_verb_has_help_with_an_example() {
    for verb in VERBS {
        let done = mezz(&[verb, &["--help"][..]].concat()).expect(0);
        let example = format!("  mezz {}", verb.join(" "));
        assert!(
            done.stdout.contains("Examples:") && done.stdout.contains(&example),
            "{verb:?}:\n{}",
            done.stdout
        );
        assert!(done.stdout.contains("--json"), "{verb:?}");
    }
}

#[test]
fn the_overview_names_all_verbs_and_the_exit_codes() {
    let text = mezz(&["--help"]).expect(0).stdout;
    for part in [
        "demo",
        "tier",
        "device",
        "block",
        "trace",
        "sim",
        "experiment",
        "pg",
        "Exit codes:",
        "  3  refused",
        "10GiB",
    ] {
        assert!(text.contains(part), "{part}:\n{text}");
    }
    assert!(!text.contains("demo-child"), "internals are not shown");
}

#[test]
fn senseless_command_lines_end_with_2() {
    let cases: &[&[&str]] = &[
        &[],
        &["nonsense"],
        &["demo", "--flash-share", "0"],
        &["demo", "--flash-share", "2"],
        &["demo", "--database-size", "10G"],
        &["demo", "--warehouses", "0"],
        &["demo", "--warehouses", "1", "--database-size", "1GB"],
        &["demo", "--seconds", "0"],
        &["demo", "--time-scale", "-1"],
        &["demo", "--clients", "0"],
        &["tier", "format"],
        &["tier", "format", "x", "--size", "ten"],
        &["tier", "format", "x", "--size", "1GB", "--design", "lru-3"],
        &["tier", "drain", "x"],
        &["device", "bench"],
        &["device", "probe"],
        &["device", "probe", "durassd", "--size", "1MiB"],
        &["device", "probe", "durassd", "--seconds", "0"],
        &["device", "probe", "durassd", "--clients", "1"],
        &["device", "probe", "./no-such-file", "--whole"],
        &["device", "fit"],
        &["device", "serve"],
        &["device", "ublk-delete"],
        &["device", "fit", "probe.json"],
        &["trace"],
        &["trace", "info"],
        &["trace", "info", "x", "--format", "csv"],
        &["trace", "info", "x", "--page-size", "0"],
        &["trace", "convert", "x", "y", "--from", "plain"],
        &["trace", "generate", "x", "--shape", "tpcx", "--pages", "1", "--requests", "1"],
        &["trace", "generate", "x", "--shape", "zipf", "--pages", "0", "--requests", "1"],
        &["trace", "generate", "x", "--shape", "zipf", "--pages", "1", "--requests", "0"],
        &["sim", "crash", "--cuts", "0"],
        &["sim", "crash", "--seed", "x"],
        &["sim", "run", "--seconds", "0"],
        &["sim", "run", "--design", "lru-3"],
        &["sim", "three-tier", "--blocks", "0"],
        &["experiment", "run"],
        &["experiment", "run", "face.table99"],
        &["sim", "run", "--policy-only", "--design", "lru", "--frames", "9"],
        &["sim", "mrc", "--synthetic", "prod3", "--design", "lru"],
        &["pg"],
        &["pg", "bench", "--clients", "0"],
        &["pg", "bench", "--flash-share", "2"],
        &["pg", "bench", "--pairs", "3"],
        &["pg", "bench", "--overhead", "--run", "disk"],
        &["pg", "build", "--jobs", "0"],
        &["pg", "build", "--configure", "--prefix=/usr"],
        &["pg", "init", "--pgdata", "x", "--flash", "y"],
        &["pg", "init", "--pgdata", "x", "--flash", "y", "--flash-size", "10G"],
        &["pg", "init", "--pgdata", "x", "--flash", "y", "--flash-size", "1kB"],
        &["pg", "init", "--pgdata", "x", "--sync-mode", "durable"],
        &["pg", "init", "--pgdata", "x", "--disk-model", "nonsense"],
        &["pg", "init", "--pgdata", "x", "--set", "work_mem"],
        &["pg", "stop", "--mode", "slow"],
    ];
    for case in cases {
        let done = mezz(case).expect(2);
        assert!(!done.stderr.is_empty() && done.stdout.is_empty(), "{case:?}");
    }
}

#[test]
fn a_wrong_size_is_answered_with_the_right_notation() {
    mezz(&["demo", "--database-size", "10G"]).expect(2).complains(&["10GB", "10GiB"]);
}
