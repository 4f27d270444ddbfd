//! `mezz trace`.
#![allow(clippy::unwrap_used)]

mod common;

use common::{Scratch, mezz};

#[test]
fn a_generated_trace_is_what_it_says_and_the_same_again() {
    let scratch = Scratch::new();
    let (one, two, other) = (scratch.file("one"), scratch.file("two"), scratch.file("other"));
    let generate = |file: &str, seed: &str| {
        let options =
            ["--shape", "tpcc", "--pages", "20000", "--requests", "50000", "--seed", seed, "--json"];
        mezz(&[&["trace", "generate", file][..], &options].concat()).expect(0).json()
    };
    let said = generate(&one, "3");
    generate(&two, "3");
    generate(&other, "4");
    let bytes = |file: &str| std::fs::read(file).unwrap();
    assert_eq!(bytes(&one), bytes(&two), "the same seed");
    assert_ne!(bytes(&one), bytes(&other), "another seed");
    let info = mezz(&["trace", "info", &one, "--json"]).expect(0).json();
    for field in ["requests", "reads", "writes", "commits", "file_bytes", "page_bytes"] {
        assert_eq!(info[field], said[field], "{field}");
    }
    assert_eq!(info["requests"], 50_000);
    assert_eq!((&info["format"], &info["compression"]), (&"mezzanine".into(), &"none".into()));
    assert_eq!((&info["clients"], &info["time"]), (&50.into(), &serde_json::Value::Null));
    let relations = info["relations"].as_array().unwrap();
    let stock = relations.iter().find(|relation| relation["name"] == "stock").unwrap();
    assert!(stock["requests"].as_u64() > stock["distinct_pages"].as_u64());
    let requests: u64 = relations.iter().map(|relation| relation["requests"].as_u64().unwrap()).sum();
    assert_eq!(requests, 50_000);
    let table = mezz(&["trace", "info", &one]).expect(0).stdout;
    assert!(table.contains("order_line") && table.contains("50,000"), "{table}");
}

#[test]
fn a_trace_goes_through_all_formats_and_comes_back() {
    let scratch = Scratch::new();
    let first = scratch.file("first.lis");
    std::fs::write(&first, "10 3 0 0\n5 1 0 1\n10 1 0 2\n").unwrap();
    let formats = ["lis", "plain", "mezzanine", "oracle-general", "vscsi", "mezzanine", "lis"];
    let mut file = first.clone();
    for (step, pair) in formats.windows(2).enumerate() {
        let next = scratch.file(&format!("step-{step}"));
        let compress: &[&str] = if step % 2 == 0 { &["--zstd"] } else { &[] };
        let arguments = ["trace", "convert", &file, &next, "--from", pair[0], "--to", pair[1], "--json"];
        let said = mezz(&[&arguments[..], compress].concat()).expect(0).json();
        assert_eq!((&said["written"], &said["left_out"]), (&5.into(), &0.into()), "{pair:?}");
        let info = mezz(&["trace", "info", &next, "--format", pair[1], "--json"]).expect(0).json();
        assert_eq!((&info["requests"], &info["distinct_pages"]), (&5.into(), &4.into()), "{pair:?}");
        assert_eq!(info["compression"], if step % 2 == 0 { "zstd" } else { "none" });
        file = next;
    }
    assert_eq!(std::fs::read(&first).unwrap(), std::fs::read(&file).unwrap());
}

#[test]
fn what_has_no_place_is_left_out_and_counted() {
    let scratch = Scratch::new();
    let (tpcc, plain) = (scratch.file("tpcc"), scratch.file("plain"));
    let options = ["--shape", "tpcc", "--pages", "5000", "--requests", "5000"];
    mezz(&[&["trace", "generate", &tpcc][..], &options].concat()).expect(0);
    let info = mezz(&["trace", "info", &tpcc, "--json"]).expect(0).json();
    let convert = ["trace", "convert", &tpcc, &plain, "--from", "mezzanine", "--to", "plain"];
    let said = mezz(&[&convert[..], &["--json"]].concat()).expect(0).json();
    assert_eq!((&said["written"], &said["left_out"]), (&5_000.into(), &info["commits"]));
    assert!(info["commits"].as_u64() > Some(10));
    mezz(&convert).expect(3).complains(&["plain: it exists", "--overwrite"]);
    let text = mezz(&[&convert[..], &["--overwrite"]].concat()).expect(0).stdout;
    assert!(text.contains("left out") && text.contains("plain has no place"), "{text}");
}

#[test]
fn what_cannot_be_read_is_named_with_its_place_and_reason() {
    let scratch = Scratch::new();
    let info = |name: &str, bytes: &[u8], format: &str| {
        let file = scratch.file(name);
        std::fs::write(&file, bytes).unwrap();
        mezz(&["trace", "info", &file, "--format", format]).expect(3)
    };
    info("text", b"1\n2\nthree\n", "plain").complains(&["text", "line 3", "'three'"]);
    info("short", &[1; 30], "oracle-general").complains(&["short", "byte 24", "ends inside a record"]);
    info("empty", b"", "lis").complains(&["empty", "the trace is empty"]);
    info("mixed", b"1 2 0 3\n", "plain").complains(&["mixed", "line 1", "looks like the format lis"]);
    info("other", b"1\n", "mezzanine").complains(&["other", "looks like the format plain"]);
    mezz(&["trace", "info", &scratch.file("missing")]).expect(3).complains(&["missing", "cannot be opened"]);
    let cut = scratch.file("cut");
    let options = ["--shape", "uniform", "--pages", "50", "--requests", "5000"];
    mezz(&[&["trace", "generate", &cut][..], &options].concat()).expect(0);
    let bytes = std::fs::read(&cut).unwrap();
    info("cut", &bytes[..bytes.len() - 20], "mezzanine").complains(&["cut", "byte ", "not whole"]);
    let convert = ["trace", "convert", &cut, &scratch.file("out"), "--from", "mezzanine", "--to", "plain"];
    mezz(&convert).expect(3).complains(&["cut", "not whole"]);
    let names: Vec<String> = std::fs::read_dir(&scratch.0)
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .filter(|name| name.starts_with("out"))
        .collect();
    assert!(names.is_empty(), "an unfinished trace leaves nothing: {names:?}");
}

#[test]
fn options_that_a_shape_has_no_use_for_are_refused() {
    let scratch = Scratch::new();
    let out = scratch.file("out");
    let generate = |shape: &str, options: &[&str]| {
        let common = ["trace", "generate", &out, "--pages", "50", "--requests", "100", "--shape", shape];
        mezz(&[&common[..], options].concat())
    };
    generate("zipf", &["--clients", "3"]).expect(2).complains(&["--clients", "zipf", "leave --clients out"]);
    generate("uniform", &["--exponent", "1"]).expect(2).complains(&["--exponent"]);
    generate("tpcc", &["--write-share", "0.5"]).expect(2).complains(&["--write-share"]);
    generate("tpcc", &[]).expect(2).complains(&["TPC-C does not fit 50 pages", "or more"]);
    generate("zipf", &["--exponent", "11"]).expect(2).complains(&["11", "0 to 10"]);
    generate("zipf", &["--page-size", "100"]).expect(2).complains(&["100 bytes", "512"]);
    assert!(!std::path::Path::new(&out).exists());
}
