//! `mezz experiment`: the list, a verdict for each statement, points that are kept, and what is refused.
#![allow(clippy::unwrap_used)]

mod common;

use std::io::{BufRead, BufReader};
use std::process::{Command, Stdio};

use common::{Scratch, mezz};
use serde_json::Value;

fn json(args: &[&str]) -> Value {
    mezz(&[args, &["--json"]].concat()).expect(0).json()
}

#[test]
fn the_list_has_the_tables_and_figures_and_where_they_are() {
    let list = json(&["experiment", "list"]);
    let of = |id: &str| list.as_array().unwrap().iter().find(|entry| entry["id"] == id).unwrap().clone();
    assert_eq!(of("face.table4")["item"], "Table 4");
    assert_eq!(of("face.table4")["points"], 10);
    assert_eq!(of("face.table1")["points"], 0);
    assert_eq!(of("face.table7")["points"], 8);
    assert_eq!((&of("nfa.table1")["points"], &of("nfa.fig5")["points"]), (&0.into(), &3.into()));
    let text = mezz(&["experiment", "list"]).expect(0).stdout;
    assert!(text.contains("face.fig13") && text.contains("slides.table5"), "{text}");
}

#[test]
fn what_is_computed_gets_a_verdict_for_each_statement() {
    let reports = json(&["experiment", "run", "nfa.table1", "face.breakeven", "face.table1"]);
    let statements = |report: usize| reports[report]["statements"].as_array().unwrap().clone();
    // In the order of the list, whatever the order of the command line.
    assert_eq!(reports[0]["id"], "face.table1");
    assert_eq!(statements(0).len(), 6);
    assert_eq!(statements(2).len(), 3);
    for statement in [0, 1, 2].into_iter().flat_map(statements) {
        assert_eq!(statement["verdict"], "reproduced", "{statement:#}");
    }
    let text = mezz(&["experiment", "run", "face.breakeven"]).expect(0).stdout;
    assert!(text.contains("about 1.006") && text.contains("reproduced"), "{text}");
}

#[test]
fn points_are_kept_and_taken_again_and_the_same_seed_gives_the_same_bytes() {
    let scratch = Scratch::new();
    let kept = scratch.file("points.jsonl");
    let run = |keep: &[&str]| {
        let args = ["experiment", "run", "face.table6", "--scale", "20", "--seconds", "1", "--json"];
        mezz(&[&args, keep].concat()).expect(0).stdout
    };
    let first = run(&["--keep", &kept]);
    let lines = std::fs::read_to_string(&kept).unwrap();
    assert_eq!(lines.lines().count(), 4);
    // Another figure in the file is another figure in the answer, so the points are really taken from there.
    let doctor = |line: &str| {
        let mut point: Value = serde_json::from_str(line).unwrap();
        point["measured"]["flash_write_kib"] = 8.0.into();
        format!("{point}\n")
    };
    std::fs::write(&kept, lines.lines().map(doctor).collect::<String>()).unwrap();
    let doctored = run(&["--keep", &kept]);
    assert_ne!(first, doctored);
    assert_eq!(std::fs::read_to_string(&kept).unwrap().lines().count(), 4);
    assert_eq!(run(&[]), first);
    // Those of another program's sources, and of another length, are said to be run again, before they are.
    let foreign = |line: &str| {
        let mut point: Value = serde_json::from_str(line).unwrap();
        assert_eq!(point["code"].as_str().unwrap().len(), 16, "{line}");
        point["code"] = "0123456789abcdef".into();
        format!("{point}\n")
    };
    let again = "points.jsonl: 4 kept points left aside and run again: ";
    let said = first_words(&["--seconds", "2", "--keep", &kept]);
    assert!(said.contains(again) && said.contains("--seconds"), "{said}");
    std::fs::write(&kept, lines.lines().map(foreign).collect::<String>()).unwrap();
    let said = first_words(&["--seconds", "1", "--keep", &kept]);
    assert!(said.contains(again) && said.contains("sources"), "{said}");
}

/// The first line that is said on standard error; what would take longer is not waited for.
fn first_words(more: &[&str]) -> String {
    let args = ["experiment", "run", "face.table6", "--scale", "20"];
    let mezz = Command::new(env!("CARGO_BIN_EXE_mezz")).args(args).args(more).stderr(Stdio::piped()).spawn();
    let mut mezz = mezz.unwrap();
    let mut line = String::new();
    BufReader::new(mezz.stderr.take().unwrap()).read_line(&mut line).unwrap();
    mezz.kill().unwrap();
    mezz.wait().unwrap();
    line
}

#[test]
fn what_cannot_be_run_is_refused_with_the_reason() {
    let scratch = Scratch::new();
    mezz(&["experiment", "run", "face.table99"]).expect(2).complains(&[
        "face.table99",
        "is no experiment",
        "mezz experiment list",
    ]);
    mezz(&["experiment", "run"]).expect(2);
    mezz(&["experiment", "run", "face.table4", "--scale", "21"]).expect(2).complains(&["1..=20"]);
    mezz(&["experiment", "run", "face.table4", "--seconds", "0"])
        .expect(2)
        .complains(&["not a number above 0"]);
    let notes = scratch.file("notes.txt");
    std::fs::write(&notes, "my notes\n").unwrap();
    mezz(&["experiment", "run", "face.table4", "--keep", &notes]).expect(3).complains(&[
        "notes.txt",
        "no point of an experiment",
        "another file",
    ]);
    assert_eq!(std::fs::read_to_string(&notes).unwrap(), "my notes\n");
    mezz(&["experiment", "run", "face.table4", "--threads", "100000"])
        .expect(3)
        .complains(&["memory", "fewer --threads"]);
}
