//! `mezz trace record`. The program that is recorded is this one: [`the_program`], as the environment tells
//! it.
#![allow(clippy::unwrap_used)]

mod common;

use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use common::{Done, Scratch, mezz};
use mezzanine_sqlite::MezzanineVfs;
use rusqlite::{Connection, OpenFlags};

/// What [`the_program`] is to do, and where.
const TASK: &str = "MEZZ_TEST_TASK";
const PLACE: &str = "MEZZ_TEST_PLACE";

const ROWS: u64 = 40;

fn database(place: &Path, name: &str) -> Connection {
    let uri = format!(
        "file:{0}/{name}.db?vfs=mezzanine&flash={0}/{name}.mezz&flash_size=8MiB&page_size=4096",
        place.display()
    );
    let flags =
        OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_CREATE | OpenFlags::SQLITE_OPEN_URI;
    Connection::open_with_flags(uri, flags).unwrap()
}

fn insert(db: &Connection) {
    db.execute_batch("CREATE TABLE IF NOT EXISTS t (a INTEGER PRIMARY KEY, b BLOB)").unwrap();
    for _ in 0..ROWS {
        db.execute("INSERT INTO t (b) VALUES (randomblob(2000))", []).unwrap();
    }
}

/// Not a test: what the tests record.
#[test]
#[ignore = "the tests record it"]
fn the_program() {
    let (Ok(task), Some(place)) = (std::env::var(TASK), std::env::var_os(PLACE)) else { return };
    let place = Path::new(&place);
    let _vfs = MezzanineVfs::builder("mezzanine").register().unwrap();
    match task.as_str() {
        "two tiers" => {
            let (one, two) = (database(place, "one"), database(place, "two"));
            insert(&one);
            insert(&two);
        }
        "killed" | "hangs" => {
            let db = database(place, "one");
            insert(&db);
            std::thread::sleep(Duration::from_millis(1_100));
            insert(&db);
            std::fs::write(place.join("ready"), "").unwrap();
            if task == "hangs" {
                std::thread::sleep(Duration::from_secs(60));
            }
            let myself = std::process::id().to_string();
            Command::new("kill").args(["-KILL", &myself]).status().unwrap();
            std::thread::sleep(Duration::from_secs(60));
        }
        "fails" => {
            insert(&database(place, "one"));
            std::process::exit(4);
        }
        _ => println!("nothing to do"),
    }
}

fn recording(scratch: &Scratch, task: &str, options: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_mezz"));
    command.args(["trace", "record", &scratch.file("out.mezztrace")]).args(options).arg("--");
    command.arg(std::env::current_exe().unwrap()).args([
        "--exact",
        "the_program",
        "--ignored",
        "--nocapture",
    ]);
    command.env(TASK, task).env(PLACE, &scratch.0);
    command
}

fn record(scratch: &Scratch, task: &str, options: &[&str]) -> Done {
    let output = recording(scratch, task, options).output().unwrap();
    Done {
        code: output.status.code().unwrap_or(-1),
        stdout: String::from_utf8(output.stdout).unwrap(),
        stderr: String::from_utf8(output.stderr).unwrap(),
    }
}

fn names(scratch: &Scratch, with: &str) -> Vec<String> {
    let entries = std::fs::read_dir(&scratch.0).unwrap();
    let names = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap());
    names.filter(|name| name.contains(with)).collect()
}

#[test]
fn a_program_with_two_tiers_becomes_one_trace_that_the_simulator_reads() {
    let scratch = Scratch::new();
    let said = record(&scratch, "two tiers", &["--json"]).expect(0).json();
    assert_eq!((&said["tiers"], &said["unfinished"]), (&2.into(), &0.into()));
    // The tables and the rows.
    assert_eq!(said["commits"], 2 * (ROWS + 1));
    let trace = scratch.file("out.mezztrace");
    let info = mezz(&["trace", "info", &trace, "--json"]).expect(0).json();
    for field in ["reads", "writes", "commits", "checkpoints", "page_bytes", "file_bytes"] {
        assert_eq!(info[field], said[field], "{field}");
    }
    assert_eq!((&info["naming"], &info["unfinished"]), (&"volume".into(), &false.into()));
    let relations = info["relations"].as_array().unwrap();
    let names: Vec<_> = relations.iter().map(|relation| relation["name"].as_str().unwrap()).collect();
    let canonical = std::fs::canonicalize(&scratch.0).unwrap();
    let file = |name: &str| canonical.join(name).display().to_string();
    assert_eq!(names, [file("one.db"), file("two.db")]);
    assert!(info["time"]["span_seconds"].as_f64().unwrap() < said["seconds"].as_f64().unwrap());
    let run = ["sim", "run", "--policy-only", "--trace", &trace, "--format", "mezzanine", "--design", "lru"];
    let run = mezz(&[&run[..], &["--frames", "10", "--json"]].concat()).expect(0).json();
    let requests = said["reads"].as_u64().unwrap() + said["writes"].as_u64().unwrap();
    assert_eq!((run["requests"].as_u64(), &run["distinct_pages"]), (Some(requests), &info["distinct_pages"]));
    assert_eq!(self::names(&scratch, ".parts"), [""; 0]);
    // A second time: refused before the program runs, unless told.
    record(&scratch, "two tiers", &[]).expect(3).complains(&["out.mezztrace", "--overwrite"]);
    let again = record(&scratch, "two tiers", &["--overwrite", "--zstd"]).expect(0).stdout;
    assert!(again.contains("2 tiers") && again.contains("commits"), "{again}");
    let info = mezz(&["trace", "info", &trace, "--json"]).expect(0).json();
    assert_eq!((&info["compression"], &info["commits"]), (&"zstd".into(), &(2 * ROWS).into()));
}

#[test]
fn what_a_killed_program_did_until_about_a_second_before_is_in_the_trace() {
    let scratch = Scratch::new();
    let done =
        record(&scratch, "killed", &[]).expect(1).complains(&["was ended by signal 9", "was recorded"]);
    assert!(done.stdout.contains("unfinished"), "{}", done.stdout);
    let info = mezz(&["trace", "info", &scratch.file("out.mezztrace"), "--json"]).expect(0).json();
    let commits = info["commits"].as_u64().unwrap();
    assert!((ROWS..=2 * ROWS + 1).contains(&commits), "{commits} commits");
}

#[test]
fn a_program_that_fails_is_told_and_its_trace_kept() {
    let scratch = Scratch::new();
    record(&scratch, "fails", &[]).expect(1).complains(&["ended with exit status 4"]);
    let info = mezz(&["trace", "info", &scratch.file("out.mezztrace"), "--json"]).expect(0).json();
    assert_eq!(info["commits"], ROWS + 1);
}

#[test]
fn what_cannot_be_recorded_is_refused_and_leaves_nothing() {
    let scratch = Scratch::new();
    record(&scratch, "nothing", &[]).expect(3).complains(&["nothing was recorded", "vfs=mezzanine"]);
    let trace = scratch.file("out.mezztrace");
    mezz(&["trace", "record", &trace, "--", "/no/such/program"])
        .expect(3)
        .complains(&["/no/such/program", "cannot be started"]);
    mezz(&["trace", "record", "/no/such/directory/out", "--", "true"])
        .expect(3)
        .complains(&["/no/such/directory"]);
    mezz(&["trace", "record", &trace]).expect(2).complains(&["COMMAND"]);
    assert_eq!(names(&scratch, "out.mezztrace"), [""; 0]);
    mezz(&["trace", "info", &trace, "--format", "plain", "--unfinished"])
        .expect(2)
        .complains(&["plain has no end"]);
}

#[test]
fn an_interrupted_recording_ends_the_program_and_keeps_the_trace() {
    let scratch = Scratch::new();
    let mut command = recording(&scratch, "hangs", &["--json"]);
    let child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let started = Instant::now();
    while !scratch.0.join("ready").exists() {
        assert!(started.elapsed() < Duration::from_secs(30));
        std::thread::sleep(Duration::from_millis(20));
    }
    Command::new("kill").args(["-INT", &child.id().to_string()]).status().unwrap();
    let output = child.wait_with_output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(1), "{said}");
    assert!(said.contains("was ended by signal 15"), "{said}");
    let result: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(result["command_failed"], "was ended by signal 15");
    assert!(result["commits"].as_u64() >= Some(ROWS), "{result}");
}

#[test]
fn a_trace_without_its_end_is_read_if_told_to() {
    let scratch = Scratch::new();
    let (whole, cut, mended) = (scratch.file("whole"), scratch.file("cut"), scratch.file("mended"));
    let options = ["--shape", "zipf", "--pages", "100000", "--requests", "100000"];
    mezz(&[&["trace", "generate", &whole][..], &options].concat()).expect(0);
    let bytes = std::fs::read(&whole).unwrap();
    std::fs::write(&cut, &bytes[..bytes.len() - 1000]).unwrap();
    mezz(&["trace", "info", &cut]).expect(3).complains(&["not whole", "--unfinished"]);
    let info = mezz(&["trace", "info", &cut, "--unfinished", "--json"]).expect(0).json();
    assert_eq!(info["unfinished"], true);
    let convert = ["trace", "convert", &cut, &mended, "--from", "mezzanine", "--to", "mezzanine"];
    mezz(&convert).expect(3).complains(&["--unfinished"]);
    mezz(&[&convert[..], &["--unfinished"]].concat()).expect(0);
    let mended = mezz(&["trace", "info", &mended, "--json"]).expect(0).json();
    assert_eq!((&mended["unfinished"], &mended["requests"]), (&false.into(), &info["requests"]));
    assert!(mended["requests"].as_u64() > Some(50_000), "{mended}");
}
