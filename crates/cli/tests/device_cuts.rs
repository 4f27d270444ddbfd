//! `mezz device cuts`: recordings of programs that forget a flush, and of ones that do not.
#![allow(clippy::unwrap_used)]

mod common;

#[path = "common/serving.rs"]
mod serving;

#[allow(dead_code)]
#[path = "../../blockdev/tests/nbd/client.rs"]
mod client;

use std::io::{BufRead as _, BufReader, Write as _};
use std::os::unix::net::UnixStream;
use std::path::Path;

use client::*;
use common::{Scratch, mezz};
use serving::Serving;

/// Where a program says what it has acknowledged.
struct Marks(BufReader<UnixStream>);

impl Marks {
    fn connect(path: &Path) -> Self {
        Self(BufReader::new(UnixStream::connect(path).unwrap()))
    }

    fn mark(&mut self, text: &str) {
        self.0.get_mut().write_all(format!("{text}\n").as_bytes()).unwrap();
        let mut answer = String::new();
        self.0.read_line(&mut answer).unwrap();
        assert_eq!(answer, "ok\n");
    }
}

const BLOCKS: u64 = 12;

/// Every mark names a block, which has an x at its beginning.
const CHECK: &str = r#"while read -r block; do
    there=$(dd if="$MEZZ_IMAGE" bs=1 skip=$((block * 4096)) count=1 2>/dev/null | tr -d '\0')
    [ "$there" = x ] || { echo "block $block is missing"; exit 1; }
done <"$MEZZ_MARKS""#;

/// A client that has said all is told the end, and many may come one after the other.
#[test]
fn marks_are_taken_one_connection_each() {
    use std::io::Read as _;

    let scratch = Scratch::new();
    let (disk, recording, marks) = (scratch.file("disk"), scratch.file("rec"), scratch.file("marks"));
    std::fs::write(&disk, vec![0; 64 << 10]).unwrap();
    let serving = Serving::start(&scratch, &["--file", &disk, "--record", &recording, "--marks", &marks]);
    for number in 0..1500 {
        let mut client = UnixStream::connect(&marks).unwrap();
        client.write_all(format!("{number}\n").as_bytes()).unwrap();
        client.shutdown(std::net::Shutdown::Write).unwrap();
        let mut answer = String::new();
        client.read_to_string(&mut answer).unwrap();
        assert_eq!(answer, "ok\n");
    }
    let mut client = UnixStream::connect(&marks).unwrap();
    client.write_all(b"\xFF\n").unwrap();
    let mut answer = String::new();
    BufReader::new(client).read_line(&mut answer).unwrap();
    assert!(answer.contains("UTF-8"), "{answer}");
    let said = serving.end_by("-TERM");
    assert!(said["recorded_events"].as_u64().unwrap() >= 1500, "{said}");
    mezz(&["device", "cuts", &recording, "--check", "true"]).expect(3).complains(&["nothing was written"]);
}

/// Writes blocks one after the other, and forgets to flush this one.
fn recorded(scratch: &Scratch, forgotten: Option<u64>) -> String {
    let (disk, recording) = (scratch.file("disk"), scratch.file("rec"));
    let marks = scratch.0.join("marks");
    std::fs::write(&disk, vec![0; 64 << 10]).unwrap();
    let options =
        ["--file", &disk, "--record", &recording, "--marks", &scratch.file("marks"), "--name", "disk"];
    let serving = Serving::start(scratch, &options);
    let mut client = Client::begin(&serving.socket, "disk", true);
    let mut marks = Marks::connect(&marks);
    for block in 0..BLOCKS {
        client.write(block * 4096, &[b'x'; 4096]);
        if Some(block) != forgotten {
            assert_eq!(client.error(FLUSH, 0, 0, 0), 0);
        }
        marks.mark(&block.to_string());
    }
    let said = serving.end_by("-TERM");
    assert!(said["recorded_events"].as_u64().unwrap() >= 3 * BLOCKS - 1, "{said}");
    recording
}

#[test]
fn a_forgotten_flush_is_named() {
    let scratch = Scratch::new();
    let recording = recorded(&scratch, Some(7));
    let cuts = mezz(&["device", "cuts", &recording, "--check", CHECK]).expect(1);
    cuts.complains(&["block 7 is missing", "a flush is absent after write", "at byte 28672", r#"mark "7""#]);
    // The contents that break it are there to be looked at.
    let left = std::fs::read(format!("{recording}.img")).unwrap();
    assert_eq!((left[6 * 4096], left[7 * 4096]), (b'x', 0));
    let said =
        mezz(&["device", "cuts", &recording, "--check", CHECK, "--json", "--seed", "5"]).expect(1).json();
    let found = &said["found"];
    assert_eq!((found["why"].as_str(), said["ok"].as_bool()), (Some("block 7 is missing"), Some(false)));
    assert_eq!(found["taken"].as_array().unwrap().len(), 1, "{said}");
    assert_eq!(found["absent_flush"]["after"]["offset"], 28672);
    assert_eq!(found["absent_flush"]["before"]["mark"], "7");
}

#[test]
fn a_program_that_forgets_none_is_in_order() {
    let scratch = Scratch::new();
    let recording = recorded(&scratch, None);
    let said = mezz(&["device", "cuts", &recording, "--check", CHECK, "--json"]).expect(0).json();
    assert_eq!((&said["ok"], &said["found"]), (&true.into(), &serde_json::Value::Null));
    // One flush more: the server's own, at its end.
    assert_eq!((&said["marks"], &said["flushes"]), (&BLOCKS.into(), &(BLOCKS + 1).into()));
    assert!(!Path::new(&format!("{recording}.img")).exists(), "nothing is left behind");
}

#[test]
fn bad_input_is_refused_with_what_to_do() {
    let scratch = Scratch::new();
    let recording = recorded(&scratch, None);
    let refused = |arguments: &[&str], code: i32, parts: &[&str]| {
        mezz(&[&["device", "cuts"], arguments].concat()).expect(code).complains(parts);
    };
    let other = scratch.file("other");
    std::fs::write(&other, vec![7; 4096]).unwrap();
    refused(&[&other, "--check", "true"], 3, &["no recording", "--record"]);
    refused(&["/no/such", "--check", "true"], 3, &["/no/such"]);
    refused(&[&recording], 2, &["--check"]);
    refused(&[&recording, "--check", "echo wrong; false"], 3, &["before anything was recorded", "wrong"]);
    refused(&[&recording, "--check", "kill -9 $$"], 3, &["cannot say"]);
    refused(&[&recording, "--check", "sleep 60", "--patience", "1"], 3, &["within 1 s", "--patience"]);
    // By whatever name.
    let link = scratch.file("link");
    std::os::unix::fs::symlink(&recording, &link).unwrap();
    let dotted = recording.replace("/rec", "/./rec");
    for image in [&recording, &link, &dotted] {
        refused(&[&recording, "--check", "true", "--image", image], 3, &["written over", "--image"]);
    }
    mezz(&["device", "cuts", &recording, "--check", CHECK]).expect(0);
    // What a check has left behind when its time is over is ended.
    let late = scratch.file("late");
    let check = format!("(sleep 3; touch {late}) & sleep 60; true");
    refused(&[&recording, "--check", &check, "--patience", "1"], 3, &["within 1 s"]);
    let flaky = scratch.file("flaky");
    let check = format!("[ ! -s \"$MEZZ_MARKS\" ] || {{ echo x >>{flaky}; [ $(wc -l <{flaky}) != 1 ]; }}");
    refused(&[&recording, "--check", &check], 3, &["different things"]);
    std::thread::sleep(std::time::Duration::from_secs(3));
    assert!(!Path::new(&late).exists(), "it would have gone on with the next contents");
    refused(&[&recording, "--check", "true", "--cuts", "0"], 2, &["--cuts"]);
    let disk = scratch.file("disk");
    let serve = ["device", "serve", "--socket", &scratch.file("t"), "--file", &disk, "--record", &recording];
    mezz(&serve).expect(3).complains(&[&recording, "does not exist"]);
    mezz(&[&serve[..6], &["--marks", &scratch.file("m")]].concat()).expect(2).complains(&["--record"]);
}
