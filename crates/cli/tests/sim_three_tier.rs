//! `mezz sim three-tier`.
#![allow(clippy::unwrap_used)]

mod common;

use common::{Scratch, mezz};
use serde_json::Value;

/// Small flash under a small database.
const SMALL: [&str; 10] =
    ["--shape", "zipf", "--pages", "20000", "--blocks", "64", "--block-pages", "16", "--top-frames", "200"];

fn run(options: &[&str]) -> Value {
    mezz(&[&["sim", "three-tier", "--json"], options].concat()).expect(0).json()
}

fn approaches(outcome: &Value) -> Vec<Value> {
    outcome["approaches"].as_array().unwrap().clone()
}

#[test]
fn approaches_are_compared_until_nfa_has_collected_enough() {
    let small = [&SMALL[..], &["--also-written", "0.3", "--collections", "500", "--drops", "32"]].concat();
    let outcome = run(&small);
    let rows = approaches(&outcome);
    assert_eq!(
        rows.iter().map(|row| row["approach"].as_str().unwrap()).collect::<Vec<_>>(),
        ["bl", "lpd", "nfa"]
    );
    assert_eq!(outcome["logical_pages"], 58 * 16);
    let collections = |row: usize| rows[row]["counts"]["collections"].as_u64().unwrap();
    assert!((500..510).contains(&collections(2)), "{}", collections(2));
    assert!(collections(2) < collections(1) && collections(1) < collections(0));
    for row in &rows {
        let counts = &row["counts"];
        let both = counts["reads"].as_u64().unwrap() + counts["writes"].as_u64().unwrap();
        assert_eq!(outcome["requests"], both);
        assert_eq!(row["erases_by_block"].as_array().unwrap().len(), 64);
        let by_moved: u64 = row["collected"]["by_moved"]
            .as_array()
            .unwrap()
            .iter()
            .map(|blocks| blocks.as_u64().unwrap())
            .sum();
        assert_eq!(counts["collections"], by_moved);
    }
    assert_eq!(outcome, run(&small), "the same options give the same figures");
    let text = mezz(&[&["sim", "three-tier"], &small[..]].concat()).expect(0).stdout;
    assert!(text.contains("lpd, d = 32") && text.contains("928 logical pages"), "{text}");
}

#[test]
fn drops_are_values_of_d_and_none_is_the_baseline() {
    let more = ["--references", "60000", "--approach", "lpd,bl", "--drops", "64,0"];
    let rows = approaches(&run(&[&SMALL[..], &more].concat()));
    assert_eq!(
        rows.iter().map(|row| row["drops"].clone()).collect::<Vec<_>>(),
        [Value::Null, 0.into(), 64.into()]
    );
    assert_eq!(rows[0]["counts"], rows[1]["counts"]);
    assert_ne!(rows[1]["counts"], rows[2]["counts"]);
}

#[test]
fn a_trace_is_referred_to_up_to_its_end_and_a_page_shows_it() {
    let scratch = Scratch::new();
    let (trace, page) = (scratch.file("pages.mezztrace"), scratch.file("page.html"));
    let shape = ["--shape", "tpcc", "--pages", "10000", "--requests", "50000"];
    mezz(&[&["trace", "generate", &trace], &shape[..]].concat()).expect(0);
    let options = ["--trace", &trace, "--format", "mezzanine", "--report", &page];
    let outcome = run(&[&options[..], &SMALL[4..]].concat());
    assert_eq!(outcome["references"], 50_000, "commits are none");
    let html = std::fs::read_to_string(&page).unwrap();
    assert!(html.contains("<svg") && html.contains("lpd, d = 1024"));
}

#[test]
fn hot_pages_are_referred_to_beside_those_of_the_shape() {
    let hot = ["--hot-pages", "900", "--hot-share", "0.8"];
    let until = ["--references", "60000", "--also-written", "0.5"];
    let without = run(&[&SMALL[..], &until].concat());
    let with = run(&[&SMALL[..], &until, &hot].concat());
    assert_eq!(with["references"], 60_000);
    assert!(with["source"].as_str().unwrap().contains("0.8 of the references to 900 hot pages"));
    let writes = |outcome: &Value| outcome["approaches"][0]["counts"]["writes"].as_u64().unwrap();
    assert!(5 * writes(&with) < 2 * writes(&without), "hot pages are written");
    let written = run(&[&SMALL[..], &until, &hot, &["--hot-written", "1"]].concat());
    assert!(writes(&written) > 2 * writes(&with), "hot pages are not written");
    let all_hot = ["--shape", "uniform", "--pages", "1", "--hot-pages", "900", "--hot-share", "0.999"];
    let outcome = run(&[&all_hot[..], &SMALL[4..], &until[..2]].concat());
    assert_eq!(outcome["distinct_pages"], 901);
}

#[test]
fn what_makes_no_sense_is_refused_by_its_option() {
    let refused = |options: &[&str], parts: &[&str]| {
        mezz(&[&["sim", "three-tier"], options].concat()).expect(2).complains(parts);
    };
    refused(&["--high-watermark", "512"], &["--high-watermark", "from 2 to 510"]);
    refused(&["--low-watermark", "51"], &["--low-watermark", "from 1 to 50"]);
    refused(&["--blocks", "3"], &["--blocks", "4"]);
    refused(&["--block-pages", "1"], &["--block-pages"]);
    refused(&["--top-frames", "0"], &["--top-frames"]);
    refused(&["--approach", "bl"], &["--references", "nfa"]);
    refused(&["--approach", "bl", "--collections", "5"], &["--collections", "nfa"]);
    refused(&["--also-written", "2"], &["from 0 to 1"]);
    refused(&["--hot-pages", "9", "--hot-share", "1"], &["--hot-share", "less than 1"]);
    refused(&["--hot-pages", "0", "--hot-share", "0.5"], &["--hot-pages"]);
    refused(&["--hot-pages", "9"], &["--hot-share"]);
    refused(&["--hot-written", "0.5"], &["--hot-pages"]);
    refused(
        &["--trace", "x", "--format", "plain", "--hot-pages", "9", "--hot-share", "0.5"],
        &["--trace", "--hot-pages"],
    );
    refused(&["--shape", "zipf", "--warehouses", "3"], &["--warehouses", "tpcc"]);
    refused(&["--trace", "x"], &["--format"]);
    refused(&["--approach", "face"], &["bl, lpd, nfa"]);
    let missing = ["sim", "three-tier", "--report", "no/such/folder/x.html"];
    mezz(&missing).expect(3).complains(&["x.html", "directory that exists"]);
    mezz(&["sim", "three-tier", "--trace", "no-such-trace", "--format", "plain"])
        .expect(3)
        .complains(&["no-such-trace"]);
}
