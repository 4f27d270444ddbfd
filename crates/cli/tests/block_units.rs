//! The units for systemd are such as systemd understands.
#![allow(clippy::unwrap_used)]

mod common;

use std::path::Path;
use std::process::Command;

use common::Scratch;

fn is_there(program: &str) -> bool {
    let found = Command::new("sh").args(["-c", &format!("command -v {program}")]).output();
    found.is_ok_and(|found| found.status.success())
}

#[test]
fn systemd_understands_the_units() {
    if !is_there("systemd-analyze") {
        println!("skipped: systemd-analyze is not installed");
        return;
    }
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../systemd");
    let unit = std::fs::read_to_string(folder.join("mezzanine-block@.service")).unwrap();
    let installed = "/usr/local/bin/mezz";
    assert!(unit.contains(installed), "{unit}");
    let scratch = Scratch::new();
    let verified = |unit: &str| {
        let path = scratch.0.join("mezzanine-block@data.service");
        std::fs::write(&path, unit.replace(installed, env!("CARGO_BIN_EXE_mezz"))).unwrap();
        let output =
            Command::new("systemd-analyze").args(["verify", "--man=no"]).arg(&path).output().unwrap();
        // It also says what it thinks of the machine's own units.
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        let ours: Vec<_> = said.lines().filter(|line| line.contains("mezzanine-block")).collect();
        (output.status.success(), ours.join("\n"))
    };
    let (succeeds, said) = verified(&unit);
    assert!(said.is_empty(), "{said}");
    // Where it cannot look at units at all, it says nothing of a bad one either.
    let (_, of_bad) = verified(&unit.replace("KillMode=mixed", "KillMode=sometimes"));
    assert!(!of_bad.is_empty(), "succeeds: {succeeds}; a mistake is noticed");
}
