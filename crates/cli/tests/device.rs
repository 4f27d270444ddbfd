//! `mezz device`.
#![allow(clippy::unwrap_used)]

mod common;

use common::{Scratch, mezz};

#[test]
fn the_drives_of_the_papers_are_modelled() {
    let listing = mezz(&["device", "list", "--json"]).expect(0).json();
    let names: Vec<&str> =
        listing["models"].as_array().unwrap().iter().map(|m| m["name"].as_str().unwrap()).collect();
    for name in [
        "samsung-840-pro",
        "intel-dc-s3500",
        "cheetah-15k-x8",
        "cheetah-15k-x16",
        "cloud-volume",
        "nvme-local",
    ] {
        assert!(names.contains(&name), "{name} in {names:?}");
    }
    assert!(listing["block_devices"].is_array());
    let table = mezz(&["device", "list"]).expect(0).stdout;
    assert!(table.contains("samsung-840-pro") && table.contains("65,803"), "{table}");
}

#[test]
fn a_modelled_drive_takes_its_time() {
    let bench = mezz(&["device", "bench", "cheetah-15k", "--queue-depth", "1", "--seconds", "0.3", "--json"])
        .expect(0)
        .json();
    let rows = bench["rows"].as_array().unwrap();
    let read = rows.iter().find(|r| r["phase"] == "random_read").unwrap();
    let rate = read["per_second"].as_f64().unwrap();
    // One 15,000 rpm disk alone with its request: 5.4 ms for a seek and half a revolution; a busy machine
    // only makes it slower.
    assert!(rate > 1.0 && rate < 260.0, "{rate}");
    assert_eq!(rows.len(), 5);
}

#[test]
fn a_new_file_is_measured_and_removed() {
    let scratch = Scratch::new();
    let file = scratch.file("new");
    let bench =
        mezz(&["device", "bench", &file, "--size", "4MiB", "--seconds", "0.02", "--json"]).expect(0).json();
    assert_eq!(bench["rows"].as_array().unwrap().len(), 5);
    assert!(!std::path::Path::new(&file).exists());
}

#[test]
fn an_existing_file_is_only_read_unless_told() {
    let scratch = Scratch::new();
    let file = scratch.file("existing");
    let content: Vec<u8> = (0..2u32 << 20).map(|i| (i % 251) as u8).collect();
    std::fs::write(&file, &content).unwrap();
    let bench = mezz(&["device", "bench", &file, "--seconds", "0.02", "--json"]).expect(0).json();
    assert_eq!(bench["rows"].as_array().unwrap().len(), 2, "the reading loads alone");
    assert_eq!(std::fs::read(&file).unwrap(), content);
    mezz(&["device", "bench", &file, "--seconds", "0.02", "--overwrite"]).expect(0);
    assert_ne!(std::fs::read(&file).unwrap(), content);
}

#[test]
fn what_cannot_be_measured_is_refused() {
    let scratch = Scratch::new();
    mezz(&["device", "bench", "no-such-model"]).expect(3).complains(&["no-such-model", "mezz device list"]);
    let short = scratch.file("tiny-file");
    std::fs::write(&short, "tiny").unwrap();
    mezz(&["device", "bench", &short]).expect(3).complains(&["tiny-file", "shorter than a single request"]);
    mezz(&["device", "bench", &scratch.file("missing/file")])
        .expect(3)
        .complains(&["missing/file", "directory"]);
    let model = scratch.file("broken.toml");
    std::fs::write(&model, "name = 1").unwrap();
    mezz(&["device", "bench", &model]).expect(3).complains(&["broken.toml", "invalid"]);
}
