//! `mezz device probe`: what it measures and says, what it refuses, and what it leaves behind.
#![allow(clippy::unwrap_used)]

mod common;

use std::fs;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use common::{Scratch, mezz};
use serde_json::Value;

fn advice<'v>(probe: &'v Value, setting: &str) -> &'v Value {
    let all = probe["advice"].as_array().unwrap();
    all.iter().find(|advice| advice["setting"] == setting).unwrap()
}

#[test]
fn a_model_is_probed_in_virtual_time() {
    let arguments = ["device", "probe", "durassd", "--size", "64MiB", "--seconds", "0.2"];
    let json = mezz(&[&arguments[..], &["--json"]].concat()).expect(0).json();
    let rows = json["rows"].as_array().unwrap();
    assert_eq!(rows.len(), 40);
    let first = &rows[0];
    assert_eq!((&first["kind"], &first["writes_per_fsync"]), (&"random_write".into(), &1.into()));
    // Table 1 of the paper prints 225; no clock of this machine has a part in it.
    let rate = first["per_second"].as_f64().unwrap();
    assert!((rate / 225.0 - 1.0).abs() < 0.05, "{rate}");
    assert_eq!(json["stopped"], Value::Null);
    assert_eq!(json["flushes"], "modelled");
    assert_eq!(advice(&json, "full_page_writes")["value"], "on");
    assert_eq!(advice(&json, "innodb_doublewrite")["value"], "ON");
    let again = mezz(&[&arguments[..], &["--json"]].concat()).expect(0).json();
    assert_eq!(again["rows"], json["rows"], "one seed, one result");
    let text = mezz(&arguments).expect(0).stdout;
    for part in ["by writes per fsync", "full_page_writes: keep on", "proves nothing", "a real one"] {
        assert!(text.contains(part) || part == "{part} in\n{text}");
    }
}

#[test]
fn a_new_file_is_probed_and_gone_again_and_there_is_a_page() {
    let scratch = Scratch::new();
    let (file, page) = (scratch.file("new"), scratch.file("probe.html"));
    let arguments = ["device", "probe", &file, "--size", "8MiB", "--seconds", "0.02", "--clients", "4"];
    let json = mezz(&[&arguments[..], &["--report", &page, "--json"]].concat()).expect(0).json();
    assert_eq!(json["kind"], "new_file");
    assert_eq!(json["rows"].as_array().unwrap().len(), 40);
    assert!(["sent", "not_needed", "missing", "unknown"].contains(&json["flushes"].as_str().unwrap()));
    assert_eq!(advice(&json, "full_page_writes")["value"], "on");
    let html = fs::read_to_string(&page).unwrap();
    assert!(html.matches("<svg").count() >= 4 && html.contains("innodb_doublewrite"), "{html}");
    let left: Vec<_> = fs::read_dir(&scratch.0).unwrap().flatten().map(|entry| entry.file_name()).collect();
    assert_eq!(left, ["probe.html"]);
}

#[test]
fn nothing_that_may_hold_data_is_written_to() {
    let scratch = Scratch::new();
    for (name, content) in [("data", &b"precious"[..]), ("empty", b""), ("zeros", &[0; 9000])] {
        let file = scratch.file(name);
        fs::write(&file, content).unwrap();
        mezz(&["device", "probe", &file]).expect(3).complains(&[
            name,
            "exists already",
            "does not exist yet",
        ]);
        assert_eq!(fs::read(&file).unwrap(), content);
    }
    let link = scratch.file("dangling");
    std::os::unix::fs::symlink(scratch.file("nothing"), &link).unwrap();
    mezz(&["device", "probe", &link]).expect(3).complains(&["dangling"]);
    let folder = scratch.0.display().to_string();
    mezz(&["device", "probe", &folder]).expect(3).complains(&["a directory", "name a file in it"]);
    mezz(&["device", "probe", "/dev/null"]).expect(3).complains(&["neither a file nor a block device"]);
}

#[test]
fn what_cannot_be_probed_is_refused_with_the_next_step() {
    let scratch = Scratch::new();
    mezz(&["device", "probe", "no-such-model"]).expect(3).complains(&["no-such-model", "mezz device list"]);
    mezz(&["device", "probe", &scratch.file("missing/file")]).expect(3).complains(&["create its directory"]);
    let page = scratch.file("missing/page.html");
    mezz(&["device", "probe", "durassd", "--report", &page]).expect(3).complains(&["page.html", "--report"]);
    mezz(&["device", "probe", "durassd", "--size", "1MiB"]).expect(2).complains(&["at least 8MiB"]);
    let text =
        fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/../device/models/nvme-local.toml")).unwrap();
    let capacity = text.lines().find(|line| line.starts_with("capacity_bytes")).unwrap();
    let file = scratch.file("small.toml");
    fs::write(&file, text.replacen(capacity, "capacity_bytes = 4_194_304", 1)).unwrap();
    mezz(&["device", "probe", &file]).expect(3).complains(&["small.toml", "4.19 MB", "larger device"]);
}

fn begin(file: &str) -> Child {
    Command::new(env!("CARGO_BIN_EXE_mezz"))
        .args(["device", "probe", file, "--size", "8MiB", "--seconds", "0.1", "--clients", "4", "--json"])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap()
}

/// The way to what a probe writes to, which has no name any more.
fn way_to(child: &Child, file: &str) -> PathBuf {
    let gone = format!("{file} (deleted)");
    let until = Instant::now() + Duration::from_secs(60);
    while Instant::now() < until {
        for entry in fs::read_dir(format!("/proc/{}/fd", child.id())).unwrap().flatten() {
            if fs::read_link(entry.path()).is_ok_and(|name| name.as_os_str() == gone.as_str()) {
                return entry.path();
            }
        }
        thread::sleep(Duration::from_millis(1));
    }
    panic!("{file} was never opened");
}

#[test]
fn a_device_that_vanishes_ends_the_probe_and_what_was_measured_is_kept() {
    let scratch = Scratch::new();
    let file = scratch.file("vanishing");
    let mut child = begin(&file);
    let device = fs::File::options().write(true).open(way_to(&child, &file)).unwrap();
    // Reads past the end of what is left fail, as those of a drive do that is gone.
    while child.try_wait().unwrap().is_none() {
        let _ = device.set_len(0);
        thread::sleep(Duration::from_millis(1));
    }
    let output = child.wait_with_output().unwrap();
    let (stdout, stderr) =
        (String::from_utf8(output.stdout).unwrap(), String::from_utf8(output.stderr).unwrap());
    assert_eq!(output.status.code(), Some(3), "{stdout}\n{stderr}");
    for part in ["vanishing", "it failed during", "of 61 loads", "kept above", "dmesg"] {
        assert!(stderr.contains(part), "{part} in\n{stderr}");
    }
    let json: Value = serde_json::from_str(&stdout).unwrap();
    let rows = json["rows"].as_array().unwrap();
    assert!(!rows.is_empty() && rows.len() < 40, "{}", rows.len());
    assert!(json["stopped"].as_str().unwrap().contains("reads of"), "{}", json["stopped"]);
    assert_eq!(advice(&json, "innodb_doublewrite")["value"], "ON");
    assert_eq!(advice(&json, "sync_mode")["value"], "through");
}

#[test]
fn a_probe_that_is_killed_leaves_nothing_behind() {
    let scratch = Scratch::new();
    let file = scratch.file("killed");
    let mut child = begin(&file);
    way_to(&child, &file);
    child.kill().unwrap();
    child.wait().unwrap();
    assert_eq!(fs::read_dir(&scratch.0).unwrap().count(), 0);
}
