//! The commands in the documents do what the documents say: every `sh` block is run, in order, in a directory
//! of its own per file. What a crate's README shows of an example is in that example, which runs.
#![allow(clippy::unwrap_used)]

mod common;

use std::path::{Path, PathBuf};
use std::process::Command;

use common::Scratch;

/// The `sh` blocks of a Markdown text, with the lines they begin at.
fn shell_blocks(text: &str) -> Vec<(usize, String)> {
    let mut blocks = Vec::new();
    let mut lines = text.lines().enumerate();
    while let Some((number, line)) = lines.next() {
        if line.trim() == "```sh" {
            let block: Vec<&str> =
                lines.by_ref().map(|(_, line)| line).take_while(|line| line.trim() != "```").collect();
            blocks.push((number + 1, block.join("\n")));
        }
    }
    blocks
}

fn run_blocks_of(document: &str) -> usize {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let Ok(text) = std::fs::read_to_string(root.join(document)) else { return 0 };
    let scratch = Scratch::new();
    let binaries = Path::new(env!("CARGO_BIN_EXE_mezz")).parent().unwrap();
    let path = format!("{}:{}", binaries.display(), std::env::var("PATH").unwrap_or_default());
    let blocks = shell_blocks(&text);
    for (line, block) in &blocks {
        let output = Command::new("bash")
            .args(["-euo", "pipefail", "-c", block])
            .current_dir(&scratch.0)
            .env("PATH", &path)
            .env("MEZZ_RUN_DIR", scratch.0.join(".run"))
            .env("MEZZ_STATE_DIR", scratch.0.join(".state"))
            .output()
            .unwrap();
        assert!(
            output.status.success(),
            "{document}, line {line}: {}\n{block}\n{}{}",
            output.status,
            String::from_utf8_lossy(&output.stdout),
            String::from_utf8_lossy(&output.stderr)
        );
    }
    blocks.len()
}

#[test]
fn the_commands_of_the_documents_work() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let mut documents =
        vec!["README.md".to_owned(), "CONTRIBUTING.md".to_owned(), "ARCHITECTURE.md".to_owned()];
    for entry in std::fs::read_dir(root.join("docs")).unwrap().flatten() {
        let name = entry.file_name().to_string_lossy().into_owned();
        if name.ends_with(".md") {
            documents.push(format!("docs/{name}"));
        }
    }
    let run: usize = documents.iter().map(|document| run_blocks_of(document)).sum();
    assert!(run > 0, "no document has a `sh` block");
}

/// The examples of the crates, and with what they are run: `.` is a new directory, and `TRACE` a trace in it.
const EXAMPLES: [(&str, &str, Option<&[&str]>); 14] = [
    ("device", "power", Some(&[])),
    ("engine", "host", Some(&[])),
    ("fragment", "sizing", Some(&["20000", "1"])),
    ("ground", "hits", Some(&[])),
    ("recording", "counter", Some(&["."])),
    ("report", "page", Some(&["."])),
    ("sim", "cuts", Some(&["7"])),
    ("sqlite", "tier", Some(&["."])),
    ("ssd", "digests", Some(&["20"])),
    ("ssd", "write_amplification", Some(&["1", "0.80", "200000"])),
    // Five streams at the size of the paper.
    ("ssd", "three_tier_streams", None),
    ("trace", "again", Some(&["TRACE", "plain"])),
    ("volume", "files", Some(&["."])),
    // It loads a database of TPC-C, of the size that the specification wants.
    ("workload", "tpcc_sqlite", None),
];

fn examples() -> Vec<PathBuf> {
    let crates = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let folders = std::fs::read_dir(crates).unwrap().flatten().map(|entry| entry.path().join("examples"));
    folders
        .filter_map(|folder| std::fs::read_dir(folder).ok())
        .flatten()
        .flatten()
        .map(|e| e.path())
        .collect()
}

#[test]
fn the_examples_run() {
    // Beside the folder of the programs of tests.
    let programs = std::env::current_exe().unwrap().parent().unwrap().with_file_name("examples");
    for (_, name, arguments) in EXAMPLES {
        let Some(arguments) = arguments else { continue };
        if !programs.join(name).exists() {
            println!(
                "skipped: example {name} is built with the whole workspace (cargo test --workspace --no-run)"
            );
            continue;
        }
        let scratch = Scratch::new();
        std::fs::write(scratch.0.join("TRACE"), "7\n9\n7\n").unwrap();
        let output =
            Command::new(programs.join(name)).args(arguments).current_dir(&scratch.0).output().unwrap();
        assert!(output.status.success(), "{name}: {output:?}");
        assert!(!output.stdout.is_empty(), "{name} says nothing");
    }
}

#[test]
fn readmes_show_the_examples() {
    assert_eq!(examples().len(), EXAMPLES.len(), "{:?}", examples());
    let lines = |text: &str| text.lines().map(|line| line.trim().to_owned()).collect::<Vec<_>>();
    for (crate_name, name, _) in EXAMPLES {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("..").join(crate_name);
        let readme = std::fs::read_to_string(folder.join("README.md")).unwrap();
        let example = lines(&std::fs::read_to_string(folder.join(format!("examples/{name}.rs"))).unwrap());
        let (_, behind) = readme
            .split_once(&format!("](examples/{name}.rs)"))
            .unwrap_or_else(|| panic!("the README of {crate_name} does not show examples/{name}.rs"));
        let (_, block) = behind.split_once("```rust\n").unwrap();
        let shown = lines(block.split_once("```").unwrap().0);
        assert!(shown.len() > 3, "the README of {crate_name} shows next to nothing");
        let is_there = example.windows(shown.len()).any(|window| window == shown);
        assert!(is_there, "what the README of {crate_name} shows is not in examples/{name}.rs");
    }
}
