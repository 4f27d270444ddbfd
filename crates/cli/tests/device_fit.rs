//! `mezz device fit`: from a probe to a model, and what is refused.
#![allow(clippy::unwrap_used)]

mod common;

use std::fs;

use common::{Scratch, mezz};
use serde_json::Value;

fn probe(scratch: &Scratch) -> (String, Value) {
    let file = scratch.file("probe.json");
    let arguments = ["device", "probe", "durassd", "--size", "64MiB", "--seconds", "0.05", "--json"];
    let done = mezz(&arguments).expect(0);
    fs::write(&file, &done.stdout).unwrap();
    (file, done.json())
}

#[test]
fn a_probe_becomes_a_model_that_a_simulation_takes() {
    let scratch = Scratch::new();
    let (file, probe) = probe(&scratch);
    assert_eq!(probe["identifying"].as_array().unwrap().len(), 21);
    let model = scratch.file("found.toml");
    let fitted = mezz(&["device", "fit", &file, "--output", &model, "--json"]).expect(0).json();
    assert_eq!(fitted["capacity_bytes"], probe["capacity_bytes"]);
    let found = fitted["off_mean"].as_f64().unwrap();
    assert!(found < 0.1, "{found}");
    let parameters = fitted["parameters"].as_array().unwrap();
    let named = |name: &str| parameters.iter().find(|one| one["name"] == name).unwrap();
    assert_eq!(named("cache.kind")["value"], "durable");
    assert_eq!(named("cache.flush")["value"], "drain");
    // Flash is faster than the link, so that no burst fills the buffer.
    assert_eq!(named("cache.buffer_bytes")["determined"], false);
    // Nobody has written over the whole drive.
    assert_eq!(named("geometry (erase unit)")["determined"], false);
    let run = ["sim", "run", "--pages", "20000", "--clients", "20", "--pool", "2.5MB", "--flash", "13MB"];
    mezz(&[&run[..], &["--seconds", "1", "--flash-model", &model]].concat()).expect(0);
    let before = fs::read(&model).unwrap();
    mezz(&["device", "fit", &file, "--output", &model]).expect(3).complains(&["found.toml", "--overwrite"]);
    assert_eq!(fs::read(&model).unwrap(), before);
}

#[test]
fn what_is_no_result_of_a_probe_is_refused() {
    let scratch = Scratch::new();
    let (file, probe) = probe(&scratch);
    let model = scratch.file("found.toml");
    let refused = |name: &str, text: &str, parts: &[&str]| {
        let file = scratch.file(name);
        fs::write(&file, text).unwrap();
        let parts = [&[name][..], parts].concat();
        mezz(&["device", "fit", &file, "--output", &model]).expect(3).complains(&parts);
        assert!(!std::path::Path::new(&model).exists());
    };
    let text = fs::read_to_string(&file).unwrap();
    refused(
        "truncated.json",
        &text[..text.len() / 2],
        &["ends too early", "mezz device probe TARGET --json"],
    );
    refused("broken.json", "load,figure", &["no JSON", "mezz device probe TARGET --json"]);
    refused("foreign.json", "{\"rows\": []}", &["no result of a probe"]);
    let with = |change: &dyn Fn(&mut Value)| {
        let mut probe = probe.clone();
        change(&mut probe);
        probe.to_string()
    };
    let old = with(&|probe| _ = probe.as_object_mut().unwrap().remove("format"));
    refused("old.json", &old, &["a version of mezz", "probe the drive again"]);
    refused("new.json", &with(&|probe| probe["format"] = 99.into()), &["format is 99", "reads format 2"]);
    let stopped = with(&|probe| probe["stopped"] = "reads of 4 KiB: gone".into());
    refused("stopped.json", &stopped, &["ended early", "reads of 4 KiB"]);
    let damaged = with(&|probe| probe["identifying"][0]["request_bytes"] = "many".into());
    refused("damaged.json", &damaged, &["damaged"]);
    let huge = with(&|probe| probe["identifying"][0]["request_bytes"] = (1_u64 << 60).into());
    refused("huge.json", &huge, &["do not fit"]);
    mezz(&["device", "fit", &scratch.file("nothing"), "--output", &model])
        .expect(3)
        .complains(&["cannot be read"]);
}
