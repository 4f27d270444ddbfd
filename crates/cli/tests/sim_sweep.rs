//! `mezz sim sweep`: the same results however it is run, interrupted or sharded.
#![allow(clippy::unwrap_used)]

mod common;

use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use common::{Done, Scratch, mezz};

/// Some dozens of points of two traces, and where their results go.
fn options(scratch: &Scratch, results: &str) -> Vec<String> {
    let traces = format!("{},{}", scratch.file("zipf"), scratch.file("tpcc"));
    let fixed = [
        "sim",
        "sweep",
        "--policy-only",
        "--format",
        "mezzanine",
        "--design",
        "fifo,lru,lc,face-gsc",
        "--sizes",
        "800..3000/4",
        "--vary",
        "group-pages=8,16",
        "--history",
        "unlimited",
        "--trace",
        &traces,
        "--results",
        &scratch.file(results),
    ];
    fixed.map(str::to_owned).to_vec()
}

/// Of each trace fifo, lru and lc with four sizes, and face-gsc with four sizes and two groups.
const POINTS: usize = 2 * (3 * 4 + 2 * 4);

fn traces(scratch: &Scratch, requests: &str) {
    for shape in ["zipf", "tpcc"] {
        let file = scratch.file(shape);
        let options = ["--shape", shape, "--pages", "10000", "--requests", requests];
        mezz(&[&["trace", "generate", &file][..], &options].concat()).expect(0);
    }
}

fn sweep(scratch: &Scratch, results: &str, more: &[&str]) -> Done {
    let options = options(scratch, results);
    let options: Vec<&str> = options.iter().map(String::as_str).chain(more.iter().copied()).collect();
    mezz(&options)
}

fn sorted(scratch: &Scratch, results: &str) -> Vec<String> {
    let text = std::fs::read_to_string(scratch.file(results)).unwrap();
    let mut lines: Vec<String> = text.lines().map(str::to_owned).collect();
    lines.sort();
    lines
}

#[test]
fn results_are_those_of_single_runs_and_the_same_however_many_threads_there_are() {
    let scratch = Scratch::new();
    traces(&scratch, "20000");
    let said = sweep(&scratch, "one", &["--threads", "1", "--json"]).expect(0).json();
    assert_eq!((said["points"].as_u64(), said["found"].as_u64()), (Some(POINTS as u64), Some(0)));
    sweep(&scratch, "many", &["--threads", "4"]).expect(0);
    // Room for little at once, and none to keep the traces.
    sweep(&scratch, "small", &["--threads", "4", "--memory", "4MiB"]).expect(0);
    let one = sorted(&scratch, "one");
    assert_eq!(one.len(), POINTS);
    assert_eq!(one, sorted(&scratch, "many"));
    assert_eq!(one, sorted(&scratch, "small"));
    for (row, index) in said["rows"].as_array().unwrap().iter().zip(0..) {
        if index % 7 != 0 {
            continue;
        }
        let text = |field: &str| row[field].as_str().unwrap().to_owned();
        let mut run = vec!["sim", "run", "--policy-only", "--format", "mezzanine", "--json"];
        let (trace, design, frames) = (text("trace"), text("design"), row["frames"].to_string());
        run.extend(["--trace", &trace, "--design", &design, "--frames", &frames]);
        let group_pages = row["parameters"]["group_pages"].to_string();
        match design.as_str() {
            "lc" => run.extend(["--history", "unlimited"]),
            "face-gsc" => run.extend(["--group-pages", &group_pages]),
            _ => {}
        }
        let alone = mezz(&run).expect(0).json();
        for field in
            ["requests", "hits", "misses", "reads", "read_misses", "writes", "write_misses", "parameters"]
        {
            assert_eq!(row[field], alone[field], "{field} of {row}");
        }
    }
    // Once more: nothing is run, and nothing is written. Another name of the same trace makes no difference.
    let again = sweep(&scratch, "one", &["--json"]).expect(0).json();
    assert_eq!((&again["found"], &again["rows"]), (&said["points"], &said["rows"]));
    std::fs::rename(scratch.file("zipf"), scratch.file("renamed")).unwrap();
    let options: Vec<String> =
        options(&scratch, "one").iter().map(|option| option.replace("/zipf,", "/renamed,")).collect();
    let options: Vec<&str> = options.iter().map(String::as_str).collect();
    let table = mezz(&options).expect(0).stdout;
    assert!(table.contains("face-gsc") && table.contains("group_pages 16"), "{table}");
    assert_eq!(one, sorted(&scratch, "one"));
}

#[test]
fn a_sweep_that_was_killed_goes_on_and_ends_with_the_same_results() {
    let scratch = Scratch::new();
    traces(&scratch, "30000");
    sweep(&scratch, "whole", &[]).expect(0);
    let mut child = Command::new(env!("CARGO_BIN_EXE_mezz"))
        .args(options(&scratch, "killed"))
        .args(["--threads", "1"])
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let started = Instant::now();
    let lines = || std::fs::read_to_string(scratch.file("killed")).unwrap_or_default().lines().count();
    while lines() < 5 {
        assert!(started.elapsed() < Duration::from_secs(60), "it has no results");
        std::thread::sleep(Duration::from_millis(1));
    }
    child.kill().unwrap();
    child.wait().unwrap();
    // A line that is torn, as if the machine had been slower.
    let mut bytes = std::fs::read(scratch.file("killed")).unwrap();
    let left = bytes.len() - 20;
    bytes.truncate(left);
    std::fs::write(scratch.file("killed"), &bytes).unwrap();
    let kept = bytes.iter().filter(|byte| **byte == b'\n').count();
    let said = sweep(&scratch, "killed", &["--json"]).expect(0).json();
    assert_eq!(said["found"].as_u64(), Some(kept as u64));
    assert!((4..POINTS).contains(&kept), "{kept} of {POINTS} were there");
    assert_eq!(sorted(&scratch, "killed"), sorted(&scratch, "whole"));
}

#[test]
fn the_parts_together_are_the_whole() {
    let scratch = Scratch::new();
    traces(&scratch, "5000");
    sweep(&scratch, "whole", &[]).expect(0);
    let mut together = String::new();
    for part in ["1/3", "2/3", "3/3"] {
        sweep(&scratch, &part[..1], &["--shard", part]).expect(0);
        let lines = sorted(&scratch, &part[..1]);
        assert!((POINTS / 3..=POINTS / 3 + 1).contains(&lines.len()), "{part}: {}", lines.len());
        together.push_str(&std::fs::read_to_string(scratch.file(&part[..1])).unwrap());
    }
    std::fs::write(scratch.file("together"), together).unwrap();
    assert_eq!(sorted(&scratch, "together"), sorted(&scratch, "whole"));
    let said = sweep(&scratch, "together", &["--json"]).expect(0).json();
    assert_eq!(said["found"], said["points"]);
}

#[test]
fn what_cannot_be_swept_is_refused_before_anything_runs() {
    let scratch = Scratch::new();
    traces(&scratch, "1000");
    sweep(&scratch, "results", &["--memory", "100KiB"]).expect(3).complains(&["memory", "needs", "--memory"]);
    sweep(&scratch, "results", &["--vary", "group-pages=4"]).expect(2).complains(&["group-pages", "once"]);
    sweep(&scratch, "results", &["--vary", "clock-insert-referenced=on"]).expect(2).complains(&["clock"]);
    for vary in ["speed=1", "group-pages", "group-pages=many"] {
        sweep(&scratch, "results", &["--vary", vary]).expect(2).complains(&["--vary"]);
    }
    sweep(&scratch, "results", &["--shard", "4/3"]).expect(2).complains(&["4/3", "2/5"]);
    assert_eq!(std::fs::read(scratch.file("results")).unwrap(), b"");
    for (name, text) in [("notes", "my notes\n"), ("short", "my notes"), ("other", "{\"a\": 1}\n")] {
        std::fs::write(scratch.file(name), text).unwrap();
        sweep(&scratch, name, &[]).expect(3).complains(&[name, "no ", "nothing was changed"]);
        assert_eq!(std::fs::read_to_string(scratch.file(name)).unwrap(), text);
    }
    sweep(&scratch, "no/such/results", &[]).expect(3).complains(&["no/such/results"]);
    std::fs::write(scratch.file("tpcc"), "no trace").unwrap();
    sweep(&scratch, "results", &[]).expect(3).complains(&["tpcc"]);
    mezz(&["sim", "sweep", "--policy-only", "--results", "x", "--design", "lru", "--sizes", "5"])
        .expect(2)
        .complains(&["--trace"]);
}

/// A machine that is simulated in some hundredths of a second.
const SMALL: [&str; 10] =
    ["--warehouses", "1", "--pool", "2.5MB", "--clients", "20", "--seconds", "0.5", "--warm-up", "0.5s"];

fn timed(scratch: &Scratch, results: &str, more: &[&str], run: &[&str]) -> Done {
    let file = scratch.file(results);
    mezz(&[&["sim", "sweep", "--results", &file], more, &["--"], run].concat())
}

#[test]
fn runs_in_virtual_time_are_swept_as_single_runs_say_and_gone_on_with() {
    let scratch = Scratch::new();
    let vary =
        ["--vary", "design=face-gsc,lc,disk", "--vary", "flash=13MB,20MB", "--vary", "group-pages=8,16"];
    let sweep = |results: &str, more: &[&str]| timed(&scratch, results, &[&vary, more].concat(), &SMALL);
    let said = sweep("whole", &["--json"]).expect(0).json();
    let rows = said["rows"].as_array().unwrap();
    // A database on disk has no flash and no groups: one point.
    assert_eq!((said["points"].as_u64(), rows.len()), (Some(9), 9), "{said}");
    let varied: Vec<_> = rows.iter().map(|row| row["varied"].as_array().unwrap().len()).collect();
    assert_eq!(varied, [3, 3, 3, 3, 3, 3, 3, 3, 1]);
    let options = ["sim", "run", "--json", "--design", "face-gsc", "--flash", "13MB", "--group-pages", "16"];
    assert_eq!(rows[1]["run"], mezz(&[&options[..], &SMALL].concat()).expect(0).json());
    // In parts, the last of them after it was interrupted in a line.
    sweep("parts", &["--shard", "1/2", "--threads", "1"]).expect(0);
    let mut bytes = std::fs::read(scratch.file("parts")).unwrap();
    bytes.truncate(bytes.len() - 20);
    std::fs::write(scratch.file("parts"), &bytes).unwrap();
    let table = sweep("parts", &["--threads", "3"]).expect(0).stdout;
    let line = table.lines().find(|line| line.starts_with("design lc, flash 20MB, group-pages 8")).unwrap();
    assert!(!line.contains(" - "), "{line}");
    assert_eq!(sorted(&scratch, "parts"), sorted(&scratch, "whole"));
    let again = sweep("parts", &["--json"]).expect(0).json();
    assert_eq!((&again["found"], &again["rows"]), (&said["points"], &said["rows"]));
}

#[test]
fn a_trace_in_virtual_time_is_known_by_what_is_in_it() {
    let scratch = Scratch::new();
    traces(&scratch, "20000");
    let sweep = |trace: &str| {
        let trace = scratch.file(trace);
        let run = ["--trace", &trace, "--format", "mezzanine", "--pool", "2.5MB", "--seconds", "0.1"];
        let run = [&run[..], &["--clients", "20", "--warm-up", "0s", "--design", "disk"]].concat();
        timed(&scratch, "results", &["--json"], &run).expect(0).json()["found"].as_u64()
    };
    assert_eq!(sweep("zipf"), Some(0));
    std::fs::rename(scratch.file("zipf"), scratch.file("renamed")).unwrap();
    assert_eq!(sweep("renamed"), Some(1));
    assert_eq!(sweep("tpcc"), Some(0));
}

#[test]
fn what_cannot_be_run_in_virtual_time_is_refused_before_anything_runs() {
    let scratch = Scratch::new();
    let refused = |more: &[&str], code: i32, says: &[&str]| {
        timed(&scratch, "results", more, &SMALL).expect(code).complains(says);
    };
    refused(&["--vary", "flash"], 2, &["--vary", "flash=1GB,2GB"]);
    refused(&["--vary", "speed=1,2"], 2, &["--speed", "mezz sim run"]);
    refused(&["--vary", "design=face-gsc,faster"], 2, &["faster", "--design"]);
    refused(&["--vary", "design=disk,flash", "--vary", "group-pages=8"], 2, &["group-pages", "leave it out"]);
    refused(&["--vary", "flash=13MB", "--memory", "1KiB"], 3, &["memory", "flash 13MB needs", "--memory"]);
    refused(&["--vary", "flash=1KB"], 2, &["--flash"]);
    refused(&["--group-pages", "8"], 2, &["--group-pages", "behind --"]);
    refused(&["--policy-only"], 2, &["--policy-only"]);
    refused(&["--sizes", "100"], 2, &["--sizes", "--policy-only"]);
    refused(&["--design", "disk"], 2, &["disk"]);
    refused(&["--design", "lru"], 2, &["--design", "--vary design"]);
    let text = std::fs::read(scratch.file("results")).unwrap_or_default();
    assert_eq!(text, b"");
    // A file of the other kind of sweep.
    traces(&scratch, "1000");
    sweep(&scratch, "counted", &[]).expect(0);
    timed(&scratch, "counted", &[], &SMALL).expect(3).complains(&["counted", "nothing was changed"]);
}

#[test]
fn a_queue_of_too_few_frames_is_told_by_the_option_that_there_is() {
    let prod3 = ["--policy-only", "--synthetic", "prod3", "--requests", "1000", "--design", "face-gsc"];
    let refused = |verb: &[&str], option: &[&str]| {
        mezz(&[&["sim"], verb, &prod3, option, &["5"]].concat()).expect(2).stderr
    };
    let scratch = Scratch::new();
    let results = scratch.file("results");
    assert!(refused(&["sweep", "--results", &results], &["--sizes"]).contains("--sizes"));
    assert!(refused(&["run"], &["--frames"]).contains("--frames"));
    let mrc =
        ["sim", "mrc", "--synthetic", "prod3", "--requests", "1000", "--design", "face-gsc", "--sizes", "5"];
    mezz(&mrc).expect(2).complains(&["--sizes"]);
}

#[test]
fn an_option_without_a_value_is_on_or_off() {
    let scratch = Scratch::new();
    let vary = ["--vary", "returning-only=off,on", "--vary", "workload=zipf"];
    let run = ["--pages", "6000", "--pool", "1MB", "--flash", "13MB", "--clients", "20", "--seconds", "0.5"];
    timed(&scratch, "results", &vary, &run).expect(0);
    let counted = |line: &String| {
        let row: serde_json::Value = serde_json::from_str(line).unwrap();
        let of = |name: &str| {
            let counters = row["run"]["tier"].as_array().unwrap();
            counters.iter().find(|counter| counter[0] == name).unwrap()[1].as_u64().unwrap()
        };
        let is_on = row["varied"].to_string().contains("returning-only");
        (is_on, of("clean_first_seen") > of("staged_clean"))
    };
    let mut rows: Vec<_> = sorted(&scratch, "results").iter().map(counted).collect();
    rows.sort_unstable();
    assert_eq!(
        rows,
        [(false, false), (true, true)],
        "whether it is on, and whether more is turned away than taken"
    );
    timed(&scratch, "other", &["--vary", "flash=off"], &run[..4]).expect(2).complains(&["--flash", "off"]);
}
