//! `mezz sim run --policy-only` and `mezz sim mrc`.
#![allow(clippy::unwrap_used)]

mod common;

use common::{Scratch, mezz};
use serde_json::{Value, json};

fn run(options: &[&str]) -> Value {
    mezz(&[&["sim", "run", "--policy-only", "--json"], options].concat()).expect(0).json()
}

#[test]
fn a_design_alone_counts_requests_hits_and_misses() {
    for (design, misses) in [("fifo", 687_050), ("lru", 654_376), ("clock", 638_395)] {
        let report = run(&["--synthetic", "prod3", "--design", design, "--frames", "5000"]);
        assert_eq!(report["requests"], 1_000_000);
        assert_eq!(report["misses"], misses, "{design}");
        assert_eq!(report["hits"], 1_000_000 - misses);
        assert_eq!((&report["design"], &report["distinct_pages"]), (&json!(design), &json!(48_269)));
    }
    let lc = ["--synthetic", "prod3", "--design", "lc", "--frames", "5000"];
    let report = run(&[&lc[..], &["--history", "unlimited", "--correlated-period", "0"]].concat());
    assert_eq!(report["misses"], 566_847);
    assert_eq!(report["replacement"], "lru-2");
    assert_eq!(report["parameters"], json!({"correlated_period": 0, "history": 48_269}));
}

#[test]
fn parameters_are_those_of_the_design() {
    let clock = |more: &[&str]| {
        let options = ["--synthetic", "prod3", "--requests", "50000", "--design", "clock", "--frames", "900"];
        run(&[&options[..], more].concat())
    };
    let (plain, set) = (clock(&[]), clock(&["--clock-insert-referenced"]));
    assert_eq!(plain["parameters"], json!({"clock_insert_referenced": 0}));
    assert_eq!(set["parameters"], json!({"clock_insert_referenced": 1}));
    assert_ne!(plain["misses"], set["misses"]);
    let lc = ["--synthetic", "prod3", "--requests", "50000", "--design", "lc", "--frames", "900"];
    let report = run(&[&lc[..], &["--history", "77", "--correlated-period", "5"]].concat());
    assert_eq!(report["parameters"], json!({"correlated_period": 5, "history": 77}));
    assert_eq!(
        run(&lc)["parameters"],
        json!({"correlated_period": 112, "history": 900}),
        "these follow from the frames"
    );
}

#[test]
fn designs_that_weigh_costs_and_extents_run_alone() {
    let scratch = Scratch::new();
    let trace = scratch.file("zipf.mezztrace");
    let shape = ["--shape", "zipf", "--pages", "4000", "--requests", "60000", "--write-share", "0.3"];
    mezz(&[&["trace", "generate", &trace], &shape[..]].concat()).expect(0);
    let design = |design: &str, more: &[&str]| {
        let options = ["--trace", &trace, "--format", "mezzanine", "--design", design, "--frames", "500"];
        run(&[&options[..], more].concat())
    };
    let (lru, exadata) = (design("lru", &[]), design("exadata", &[]));
    assert_eq!((&exadata["misses"], &exadata["replacement"]), (&lru["misses"], &json!("lru")));
    let cac = design("cac", &[]);
    assert_eq!(cac["parameters"], json!({"read_saving": 2430, "write_saving": 2844}));
    assert_eq!(cac["replacement"], "greedy-dual");
    assert_eq!(design("cac", &["--write-saving", "0"])["misses"], lru["misses"], "one cost for all is LRU");
    let tac = design("tac", &[]);
    let defaults = json!({"extent_pages": 32, "ageing_period": 500, "random_weight": 94, "extents": 500});
    assert_eq!((&tac["parameters"], &tac["replacement"]), (&defaults, &json!("temperature")));
    // Pages of this trace have nothing to do with their neighbours.
    let alone = design("tac", &["--extent-pages", "1"]);
    assert!(alone["misses"].as_u64() < tac["misses"].as_u64(), "{alone} {tac}");
    // The pages' numbers are those of the trace: scattered, no two are in one extent.
    let (plain, scattered) = (scratch.file("plain"), scratch.file("scattered"));
    let pages: Vec<u64> = (0..20_000u64).map(|at| at * at % 997 % (1 + at % 211)).collect();
    let text = |factor: u64| pages.iter().map(|page| format!("{}\n", page * factor)).collect::<String>();
    std::fs::write(&plain, text(1)).unwrap();
    std::fs::write(&scattered, text(32)).unwrap();
    let misses = |file: &str, extent: &str| {
        let options = ["--trace", file, "--format", "plain", "--design", "tac", "--frames", "40"];
        run(&[&options[..], &["--extent-pages", extent]].concat())["misses"].clone()
    };
    assert_eq!(misses(&scattered, "32"), misses(&plain, "1"));
    assert_ne!(misses(&plain, "32"), misses(&plain, "1"));
    for (options, words) in [
        (["--design", "tac", "--extent-pages", "0"], &["--extent-pages", "use 1"][..]),
        (["--design", "cac", "--read-saving", "0"], &["--read-saving", "use 1"]),
        (["--design", "cac", "--extents", "3"], &["of tac, not of cac"]),
        (["--design", "exadata", "--history", "3"], &["of lc, not of exadata"]),
    ] {
        mezz(
            &[&["sim", "run", "--policy-only", "--synthetic", "prod3", "--frames", "9"], &options[..]]
                .concat(),
        )
        .expect(2)
        .complains(words);
    }
}

#[test]
fn the_queue_of_the_face_designs_runs_alone_too() {
    let queue = |design: &str, more: &[&str]| {
        let options = ["--synthetic", "prod3", "--requests", "60000", "--frames", "3000", "--design", design];
        run(&[&options[..], more].concat())
    };
    let (basic, groups, gsc) = (queue("face-basic", &[]), queue("face-gr", &[]), queue("face-gsc", &[]));
    let misses = |report: &Value| report["misses"].as_u64().unwrap();
    assert_eq!(misses(&basic), misses(&groups));
    assert!(misses(&gsc) < misses(&groups), "second chances are worth something");
    assert_eq!(gsc["parameters"], json!({"group_pages": 46, "survivors_max": 23}));
    let parameters = ["--group-pages", "32", "--survivors-max", "31"];
    assert_eq!(queue("face-gsc", &parameters)["parameters"], json!({"group_pages": 32, "survivors_max": 31}));
    for (options, words) in [
        (
            &["--design", "face-gsc", "--frames", "10"][..],
            &["--frames: 10 are too few", "use at least 64"][..],
        ),
        (&["--design", "face-gr", "--frames", "600", "--group-pages", "200"], &["--frames: 600 are too few"]),
        (&["--design", "face-gr", "--frames", "0"], &["--frames", "0 are too few", "use at least 64"]),
        (
            &["--design", "face-gsc", "--frames", "3000", "--group-pages", "300"],
            &["--group-pages", "use 256"],
        ),
        (
            &["--design", "face-gsc", "--frames", "3000", "--survivors-max", "46"],
            &["--survivors-max", "use 45"],
        ),
        (
            &["--design", "face-gr", "--frames", "3000", "--survivors-max", "3"],
            &["of face-gsc, not of face-gr"],
        ),
    ] {
        mezz(&[&["sim", "run", "--policy-only", "--synthetic", "prod3"], options].concat())
            .expect(2)
            .complains(words);
    }
}

#[test]
fn a_trace_comes_from_a_file() {
    let scratch = Scratch::new();
    let plain = scratch.file("pages.txt");
    std::fs::write(&plain, "7\n9\n7\n9\n8\n7\n").unwrap();
    let report = run(&["--trace", &plain, "--format", "plain", "--design", "lru", "--frames", "2"]);
    for (name, value) in [("requests", 6), ("hits", 2), ("misses", 4), ("distinct_pages", 3), ("writes", 0)] {
        assert_eq!(report[name], value, "{name}");
    }
    assert_eq!(report["trace"], plain);
    let three =
        ["--trace", &plain, "--format", "plain", "--design", "fifo", "--frames", "9", "--requests", "3"];
    assert_eq!(run(&three)["hits"], 1);
    let text = mezz(&[
        "sim",
        "run",
        "--policy-only",
        "--trace",
        &plain,
        "--format",
        "plain",
        "--design",
        "lru",
        "--frames",
        "2",
    ]);
    for part in ["design", "lru", "requests", "6 of 3 pages", "misses", "66.667 %"] {
        assert!(text.stdout.contains(part), "{part}:\n{}", text.stdout);
    }
}

#[test]
fn marks_are_no_requests() {
    let scratch = Scratch::new();
    let trace = scratch.file("tpcc.mezztrace");
    let generate =
        ["trace", "generate", &trace, "--shape", "tpcc", "--pages", "5000", "--requests", "20000", "--json"];
    let made = mezz(&generate).expect(0).json();
    let report = run(&["--trace", &trace, "--format", "mezzanine", "--design", "lru", "--frames", "500"]);
    let info = mezz(&["trace", "info", &trace, "--format", "mezzanine", "--json"]).expect(0).json();
    for (ours, theirs) in [("reads", "reads"), ("writes", "writes"), ("distinct_pages", "distinct_pages")] {
        assert_eq!(report[ours], info[theirs], "{ours}: {made} {info}");
    }
    assert!(report["marks"].as_u64().unwrap() > 0, "{report}");
    assert_eq!(
        report["requests"].as_u64(),
        Some(report["reads"].as_u64().unwrap() + report["writes"].as_u64().unwrap())
    );
}

#[test]
fn a_curve_has_what_each_size_has_alone() {
    let source = ["--synthetic", "prod3", "--requests", "60000"];
    let curve = [
        "--design",
        "fifo,lru,clock,lc,cac,tac,exadata",
        "--sizes",
        "10,300,1000..9000/3",
        "--correlated-period",
        "20",
        "--json",
    ];
    let report = mezz(&[&["sim", "mrc"], &source[..], &curve[..]].concat()).expect(0).json();
    let points = report["points"].as_array().unwrap();
    assert_eq!(points.len(), 7 * 5);
    for point in points {
        let (design, frames) = (point["design"].as_str().unwrap(), point["frames"].to_string());
        let more: &[&str] = if design == "lc" { &["--correlated-period", "20"] } else { &[] };
        let alone = run(&[&source[..], &["--design", design, "--frames", &frames], more].concat());
        for name in ["requests", "hits", "misses", "miss_ratio", "parameters"] {
            assert_eq!(point[name], alone[name], "{name} of {design} with {frames} frames");
        }
    }
}

#[test]
fn a_curve_is_a_table_or_comma_separated_values() {
    let mrc = [
        "sim",
        "mrc",
        "--synthetic",
        "prod3",
        "--requests",
        "20000",
        "--design",
        "lru,fifo",
        "--sizes",
        "100,1000",
    ];
    let table = mezz(&mrc).expect(0).stdout;
    let lines: Vec<&str> = table.lines().collect();
    assert!(lines[0].contains("frames") && lines[0].contains("lru") && lines[0].contains("fifo"), "{table}");
    assert_eq!(lines.len(), 4, "{table}");
    let csv = mezz(&[&mrc[..], &["--csv"]].concat()).expect(0).stdout;
    let lines: Vec<&str> = csv.lines().collect();
    assert!(lines[0].starts_with("design,frames,requests,hits,misses,miss_ratio"), "{csv}");
    assert_eq!(lines.len(), 5, "{csv}");
    for line in &lines[1..] {
        let fields: Vec<&str> = line.split(',').collect();
        let number = |at: usize| fields[at].parse::<u64>().unwrap();
        assert_eq!(fields.len(), lines[0].split(',').count());
        assert_eq!((number(2), number(3) + number(4)), (20_000, 20_000), "{line}");
    }
}

#[test]
fn senseless_wishes_are_refused_with_what_there_is() {
    let prod3 = |options: &[&'static str]| [&["--synthetic", "prod3"], options].concat();
    for (options, words) in [
        (prod3(&["--design", "lru", "--frames", "0"]), &["--frames", "0 is not between 1", "use 1"][..]),
        (prod3(&["--design", "lru", "--frames", "5000000000"]), &["--frames", "use 4294967294"]),
        (prod3(&["--design", "mru", "--frames", "9"]), &["mru", "fifo, lru, clock, lc"]),
        (prod3(&["--design", "lru", "--frames", "9", "--history", "3"]), &["--history", "of lc, not of lru"]),
        (prod3(&["--design", "lc", "--frames", "9", "--clock-insert-referenced"]), &["of clock, not of lc"]),
        (prod3(&["--design", "lc", "--frames", "9", "--history", "all"]), &["'all'", "unlimited"]),
        (
            prod3(&["--design", "lc", "--frames", "9", "--history", "5000000000"]),
            &["--history", "use 4294967294"],
        ),
        (prod3(&["--design", "lru", "--frames", "9", "--format", "plain"]), &["--format"]),
        (prod3(&["--design", "lru", "--frames", "9", "--requests", "0"]), &["--requests"]),
        (vec!["--synthetic", "prod4", "--design", "lru", "--frames", "9"], &["prod4", "prod3"]),
        (vec!["--trace", "x", "--design", "lru", "--frames", "9"], &["--format"]),
        (
            vec!["--trace", "x", "--format", "nonsense", "--design", "lru", "--frames", "9"],
            &["nonsense", "plain"],
        ),
        (
            vec![
                "--trace",
                "x",
                "--format",
                "plain",
                "--page-size",
                "0B",
                "--design",
                "lru",
                "--frames",
                "9",
            ],
            &["--page-size", "from 1B"],
        ),
    ] {
        mezz(&[&["sim", "run", "--policy-only"], &options[..]].concat()).expect(2).complains(words);
    }
    let without = mezz(&["sim", "run", "--synthetic", "prod3", "--design", "lru", "--frames", "9"]);
    without.expect(2).complains(&["--policy-only"]);
    for (options, words) in [
        (&["--design", "lru", "--sizes", "0"][..], &["--sizes", "0 is not between"][..]),
        (&["--design", "lru", "--sizes", "9..1/3"], &["'9..1/3'"]),
        (&["--design", "lru,mru", "--sizes", "9"], &["mru", "fifo, lru, clock, lc"]),
        (&["--design", "fifo,lru", "--sizes", "9", "--history", "3"], &["of lc, not of fifo, lru"]),
        (&["--design", "lru", "--sizes", "9", "--csv", "--json"], &["--csv", "--json"]),
    ] {
        mezz(&[&["sim", "mrc", "--synthetic", "prod3"], options].concat()).expect(2).complains(words);
    }
}

#[test]
fn traces_that_cannot_be_read_are_refused() {
    let scratch = Scratch::new();
    let file = |name: &str, bytes: &[u8]| {
        let path = scratch.file(name);
        std::fs::write(&path, bytes).unwrap();
        path
    };
    for (path, format, words) in [
        (scratch.file("missing"), "plain", &["missing", "cannot be opened"][..]),
        (file("empty", b""), "plain", &["empty: the trace is empty"]),
        (file("cut", &[0; 30]), "oracle-general", &["cut"]),
        (file("text", b"7\nnine\n"), "plain", &["text", "line 2"]),
    ] {
        let options =
            ["sim", "run", "--policy-only", "--trace", &path, "--format", format, "--design", "lru"];
        let done = mezz(&[&options[..], &["--frames", "9"]].concat()).expect(3).complains(words);
        assert!(done.stdout.is_empty());
    }
}

#[test]
fn what_does_not_fit_into_memory_is_refused_before_it_is_taken() {
    let options = ["--synthetic", "prod3", "--design", "lc", "--frames", "4294967294"];
    let done = mezz(&[&["sim", "run", "--policy-only"], &options[..]].concat()).expect(3);
    done.complains(&["memory: needs", "GB", "left", "fewer frames"]);
}
