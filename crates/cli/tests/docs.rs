//! The commands in the documents do what the documents say: every `sh` block is run, in order, in a directory
//! of its own per file.
#![allow(clippy::unwrap_used)]

mod common;

use std::path::Path;
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
