//! `mezz block`: what clients of the running program see, what its control socket answers, and what is
//! refused.
#![allow(clippy::unwrap_used)]

mod common;
mod place;

#[allow(dead_code)]
#[path = "../../blockdev/tests/nbd/client.rs"]
mod client;

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::os::unix::fs::{FileExt as _, OpenOptionsExt as _};
use std::os::unix::net::UnixStream;
use std::process::Stdio;
use std::time::Duration;

use client::*;
use place::{Attached, MIB, Place};
use serde_json::{Value, json};

#[test]
fn two_volumes_are_cached_from_one_end_to_the_other() {
    let place = Place::new();
    place.disk("disk", 4 * MIB);
    place.disk("other", 2 * MIB + 512);
    let created = place.json(&[
        "create",
        "cache",
        "--size",
        "4MiB",
        "--fragment",
        "128KiB",
        "--backing",
        "disk",
        "--backing",
        "log=other",
    ]);
    assert_eq!(created["volumes"][1]["name"], "log");
    assert!(created["memory_bytes"].as_u64().unwrap() > 0, "{created}");
    let attached = place.attach(&["cache", "--backing", "disk", "--backing", "log=other"]);
    let mut disk = place.client("disk");
    let mut log = place.client("log");
    disk.write(0, &[7; 8192]);
    log.write(2 * MIB, &[9; 512]);
    assert_eq!(log.read(2 * MIB, 512), [9; 512]);
    place.warm(&mut disk, 0);
    for _ in 0..10 {
        assert_eq!(disk.read(0, 8192), [7; 8192]);
    }
    assert_eq!(place.counter("reads_hit"), 10);
    // Writes follow to the cache device.
    disk.write(4096, &[8; 4096]);
    place.mezz(&["flush", "s"]).expect(0);
    assert_eq!(place.counter("blocks_validated"), 1);
    assert_eq!(disk.read(4096, 4096), [8; 4096]);
    assert_eq!(place.counter("reads_hit"), 11);
    let compared = place.json(&["check", "cache", "--compare"]);
    assert_eq!((&compared["blocks_same"], &compared["blocks_differing"]), (&json!(32), &json!(0)));
    // As people see it, by each of its names.
    for name in ["s", "s.control", "cache"] {
        let shown = place.mezz(&["status", name]).expect(0).stdout;
        for part in ["working (epoch 1)", "1 of ", "read from cache", "fragment not in the cache", "log"] {
            assert!(shown.contains(part), "{part}:\n{shown}");
        }
    }
    let listed = place.mezz(&["list"]).expect(0).stdout;
    assert!(listed.contains("disk, log") && listed.contains("s.control"), "{listed}");
    // Nobody loses his device by mistake.
    place.mezz(&["detach", "s"]).expect(3).complains(&["2 clients", "--disconnect"]);
    assert_eq!(place.client("log").read(2 * MIB, 512), [9; 512], "others are let in as before");
    let detached = place.json(&["detach", "s", "--disconnect"]);
    assert_eq!(detached["copies_left"], 0);
    assert_eq!(detached["is_whole"], true, "{detached}");
    assert!(!place.path("s.control").exists(), "whoever comes next finds it gone");
    let (said, told) = attached.end();
    assert_eq!((&said["clients_seen"], &said["failed_requests"]), (&json!(3), &json!(0)));
    assert!(
        told.contains("of memory") && told.contains("0 of 27 fragments of 128 KiB in use (epoch 1)"),
        "{told}"
    );
    assert!(disk.is_closed());
    assert_eq!(std::fs::read(place.path("disk")).unwrap()[..8192], [[7; 4096], [8; 4096]].concat());
    assert_eq!(place.mezz(&["list"]).expect(0).stdout, "no cache is attached\n");
    assert!(!place.path("s").exists() && !place.path("s.control").exists());
    let at_rest = place.json(&["check", "cache"]);
    assert_eq!((&at_rest["epoch"], &at_rest["both_superblocks"]), (&json!(1), &json!(true)));
    assert!(
        at_rest["volumes"].as_array().unwrap().iter().all(|volume| volume["in_use"] == false),
        "{at_rest}"
    );
}

#[test]
fn settings_change_while_it_runs() {
    let place = Place::with_cache();
    let _attached = place.attach(&["cache", "--backing", "disk", "--population-workers", "2"]);
    let mut disk = place.client("disk");
    let set = |arguments: &[&str]| place.json(&[&["set", "s"], arguments].concat())["cache"].clone();
    let changed = set(&["--population-workers", "0", "--population-rate", "1MB"]);
    assert_eq!(
        (&changed["population_workers"], &changed["population_bytes_per_second"]),
        (&json!(0), &json!(1_000_000))
    );
    disk.read(0, 4096);
    std::thread::sleep(Duration::from_millis(300));
    assert_eq!(place.counter("populations_begun"), 0);
    // No more than it was attached with.
    assert_eq!(set(&["--population-workers", "8", "--population-rate", "0"])["population_workers"], 2);
    place.wait("a population", || place.counter("populations_done") == 1);
    assert_eq!(set(&["--write-mode", "around"])["write_mode"], "around");
    disk.write(0, &[1; 4096]);
    assert_eq!(place.counter("bypass_write_around"), 1);
    assert_eq!(disk.read(0, 4096), [1; 4096]);
    place.mezz(&["set", "s"]).expect(2).complains(&["--write-mode"]);
    place.mezz(&["set", "s", "--write-mode", "back"]).expect(2).complains(&["through"]);
    place.mezz(&["set", "s", "--population-workers", "9"]).expect(2);
}

#[test]
fn what_was_flushed_survives_a_kill() {
    let place = Place::with_cache();
    let attached = place.attach(&["cache", "--backing", "disk"]);
    let mut disk = place.client("disk");
    place.warm(&mut disk, 0);
    disk.write(0, &[5; 4096]);
    assert_eq!(disk.error(FLUSH, 0, 0, 0), 0);
    attached.signal("-KILL");
    drop(attached);
    assert_eq!(std::fs::read(place.path("disk")).unwrap()[..4096], [5; 4096]);
    // What is left of it is noticed, and in nobody's way.
    assert_eq!(place.json(&["list"]), json!([]));
    place.mezz(&["status", "cache"]).expect(3).complains(&["no attached cache", "mezz block check"]);
    assert_eq!(place.json(&["check", "cache"])["volumes"][0]["in_use"], true);
    let _ = std::fs::remove_file(place.path("s"));
    let again = place.attach(&["cache", "--backing", "disk"]);
    // Before somebody reads what may be brought in at once.
    assert_eq!(place.counter("slots_used"), 0);
    assert_eq!(place.client("disk").read(0, 4096), [5; 4096]);
    assert_eq!(place.counter("reads_hit"), 0);
    again.signal("-TERM");
    let (_, told) = again.end();
    assert!(told.contains("no orderly end"), "{told}");
    assert_eq!(place.json(&["check", "cache"])["volumes"][0]["in_use"], false);
}

#[test]
fn a_cache_goes_on_with_what_it_had() {
    let place = Place::with_cache();
    let arguments = ["cache", "--backing", "disk"];
    let attached = place.attach(&arguments);
    let mut disk = place.client("disk");
    disk.write(0, &[1; 8192]);
    place.warm(&mut disk, 0);
    place.warm(&mut disk, MIB);
    disk.write(4096, &[2; 4096]);
    drop(disk);
    attached.signal("-TERM");
    attached.end();
    assert_eq!(place.vouchers(), 0, "who is detached needs none");
    // Its first read is a hit.
    let attached = place.attach(&arguments);
    assert_eq!(place.vouchers(), 1);
    let mut disk = place.client("disk");
    assert_eq!(disk.read(0, 8192), [[1; 4096], [2; 4096]].concat());
    let counters = ["slots_used", "reads_hit", "reads_missed", "populations_begun"];
    assert_eq!(counters.map(|name| place.counter(name)), [2, 1, 0, 0]);
    assert_eq!(place.json(&["check", "s", "--compare"])["blocks_differing"], 0);
    // The first write to what was settled waits for its mark.
    assert_eq!(place.counter("writes_waited"), 0);
    disk.write(0, &[3; 4096]);
    disk.write(0, &[3; 4096]);
    assert_eq!(place.counter("writes_waited"), 1);
    let status = place.json(&["status", "s"]);
    assert_eq!(
        (&status["cache"]["survives"], &status["cache"]["survives_no_crash"]),
        (&json!("crash"), &Value::Null)
    );
    assert_eq!(status["volumes"][0]["counters"]["writes_waited"], 1);
    attached.kill();
    // What was written to is dropped, and the other fragment is there.
    let attached = place.attach(&arguments);
    let mut disk = place.client("disk");
    assert_eq!(place.counter("slots_used"), 1);
    let begins = place.json(&["status", "s"])["cache"]["begins"].as_str().unwrap().to_owned();
    assert!(begins.contains("1 fragments after a crash; 1 that had"), "{begins}");
    assert_eq!(disk.read(0, 8192), [[3; 4096], [2; 4096]].concat());
    disk.read(MIB, 4096);
    assert_eq!(place.counter("reads_hit"), 1);
    place.mezz(&["detach", "s", "--disconnect"]).expect(0);
    attached.end();
    // What was written to in the middle meanwhile is not believed.
    let past = std::fs::OpenOptions::new().write(true).open(place.path("disk")).unwrap();
    past.write_all_at(&[4; 4096], 2 * MIB).unwrap();
    place
        .mezz(&["attach", "cache", "--backing", "disk", "--socket", "s"])
        .expect(3)
        .complains(&["it was written to", "--accept-changes"]);
    let attached = place.attach(&["cache", "--backing", "disk", "--accept-changes"]);
    assert_eq!(place.counter("slots_used"), 0);
    assert_eq!(place.client("disk").read(2 * MIB, 4096), [4; 4096]);
    attached.signal("-TERM");
    attached.end();
}

#[test]
fn what_is_left_alone_for_a_while_survives_a_kill() {
    let place = Place::with_cache();
    let attached = place.attach(&["cache", "--backing", "disk", "--settle", "100ms"]);
    let mut disk = place.client("disk");
    disk.write(0, &[1; 4096]);
    place.warm(&mut disk, 0);
    place.wait("it settles", || place.counter("unstable") == 0);
    attached.kill();
    let past = std::fs::OpenOptions::new().write(true).open(place.path("disk")).unwrap();
    // Somebody writes past the cache, to what that has.
    past.write_all_at(&[9; 4096], 16 * 4096).unwrap();
    place.mezz(&["attach", "cache", "--backing", "disk", "--socket", "s"]).expect(3).complains(&[
        "1 of 32 blocks",
        "at byte 65536",
        "--accept-changes",
    ]);
    past.write_all_at(&[0; 4096], 16 * 4096).unwrap();
    let attached = place.attach(&["cache", "--backing", "disk"]);
    assert_eq!(place.client("disk").read(0, 4096), [1; 4096]);
    assert_eq!(["slots_used", "reads_hit"].map(|name| place.counter(name)), [1, 1]);
    attached.kill();
    // All of it is cached anew, whether or not something that was looked at differs.
    let attached = place.attach(&["cache", "--backing", "disk", "--accept-changes"]);
    assert_eq!(place.counter("slots_used"), 0);
    assert_eq!(place.client("disk").read(0, 4096), [1; 4096]);
    // No crash brings back what was accepted as changed.
    attached.kill();
    let _attached = place.attach(&["cache", "--backing", "disk"]);
    assert_eq!(place.counter("slots_used"), 0);
}

#[test]
fn a_map_that_nothing_vouches_for_does_not_count_and_the_reason_is_said() {
    let place = Place::with_cache();
    let settled = |arguments: &[&str]| {
        let attached =
            place.attach(&[&["cache", "--backing", "disk", "--settle", "100ms"], arguments].concat());
        let mut disk = place.client("disk");
        if place.counter("slots_used") == 0 {
            place.warm(&mut disk, 0);
        }
        place.wait("it settles", || place.counter("unstable") == 0);
        attached
    };
    settled(&[]).kill();
    std::fs::rename(place.path("state"), place.path("elsewhere")).unwrap();
    let attached = settled(&[]);
    let cache = place.json(&["status", "s"])["cache"].clone();
    let begins = cache["begins"].as_str().unwrap();
    assert!(begins.starts_with("empty") && begins.contains("vouches for its map"), "{begins}");
    attached.kill();
    // The older one does not vouch for what has come since.
    std::fs::remove_dir_all(place.path("state")).unwrap();
    std::fs::rename(place.path("elsewhere"), place.path("state")).unwrap();
    let attached = settled(&[]);
    assert!(place.json(&["status", "s"])["cache"]["begins"].as_str().unwrap().starts_with("empty"));
    attached.signal("-TERM");
    attached.end();
    // Where none can be written, an orderly end is survived, and that is said.
    std::fs::remove_dir_all(place.path("state")).unwrap();
    std::fs::write(place.path("state"), "").unwrap();
    let attached = settled(&[]);
    let cache = place.json(&["status", "s"])["cache"].clone();
    assert_eq!(cache["survives"], "orderly_end");
    assert!(cache["survives_no_crash"].as_str().unwrap().contains("state"), "{cache}");
    let text = place.mezz(&["status", "s"]).expect(0).stdout;
    assert!(text.contains("an orderly end alone") && text.contains("MEZZ_STATE_DIR"), "{text}");
    attached.signal("-TERM");
    let (said, told) = attached.end();
    assert!(told.contains("a crash costs what is cached"), "{told}");
    assert_eq!(said["cache"]["begins"], "1 fragments after an orderly end", "{said}");
}

#[test]
fn a_volume_that_is_not_named_after_a_crash_is_compared_when_it_comes_back() {
    let place = Place::new();
    place.disk("disk", 4 * MIB);
    place.disk("log", 4 * MIB);
    let backing = ["--backing", "disk", "--backing", "log"];
    place
        .mezz(&[&["create", "cache", "--size", "4MiB", "--fragment", "128KiB"], &backing[..]].concat())
        .expect(0);
    let both = [&["cache", "--settle", "100ms"], &backing[..]].concat();
    let attached = place.attach(&both);
    let mut log = place.client("log");
    log.write(0, &[5; 4096]);
    place.warm(&mut log, 0);
    place.wait("it settles", || place.counter("unstable") == 0);
    attached.kill();
    // It was written to after it was last known by its ends, and nobody has done anything wrong.
    let attached = place.attach(&["cache", "--backing", "disk"]);
    attached.signal("-TERM");
    let (_, told) = attached.end();
    assert!(told.contains("volume log was in use at the crash"), "{told}");
    assert_eq!(place.json(&["check", "cache"])["volumes"][1]["abandoned"], true);
    let attached = place.attach(&both);
    assert_eq!(place.client("log").read(0, 4096), [5; 4096]);
    assert_eq!(place.counter("reads_hit"), 1, "what the cache has of it still counts");
    attached.signal("-TERM");
    attached.end();
    assert_eq!(place.json(&["check", "cache"])["volumes"][1]["abandoned"], false);
}

#[test]
fn prometheus_is_answered_over_http() {
    let place = Place::with_cache();
    let mut command = place.command(&["attach", "--socket", "s", "cache", "--backing", "disk"]);
    let mut child = command.args(["--metrics", "127.0.0.1:0"]).stderr(Stdio::piped()).spawn().unwrap();
    let mut told = BufReader::new(child.stderr.take().unwrap());
    let _attached = Attached { child: Some(child) };
    let mut line = String::new();
    while !line.contains("metrics: http://") {
        line.clear();
        assert!(told.read_line(&mut line).unwrap() > 0);
    }
    let address = line.trim().trim_start_matches("metrics: http://").trim_end_matches("/metrics").to_owned();
    place.wait("an entry", || !place.json(&["list"]).as_array().unwrap().is_empty());
    place.client("disk").write(0, &[1; 4096]);
    let ask = |request: &str| {
        let mut stream = std::net::TcpStream::connect(&address).unwrap();
        stream.write_all(request.as_bytes()).unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        answer
    };
    let answer = ask("GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n");
    let (head, body) = answer.split_once("\r\n\r\n").unwrap();
    assert!(head.starts_with("HTTP/1.1 200 OK") && head.contains("version=0.0.4"), "{head}");
    assert!(head.contains(&format!("Content-Length: {}", body.len())), "{head}");
    for part in [
        "mezz_block_volume_writes_total{volume=\"disk\"} 1\n",
        "mezz_block_bypass_write_absent_total 1\n",
        "mezz_block_bypass_read_lost_total 0\n",
        "mezz_block_cache_goes_on{after=\"crash\"} 1\n",
    ] {
        assert!(body.contains(part), "{part} is missing in:\n{body}");
    }
    assert!(ask("GET / HTTP/1.0\r\n\r\n").starts_with("HTTP/1.1 404"));
    assert!(ask("PUT /metrics HTTP/1.0\r\n\r\n").starts_with("HTTP/1.1 405"));
    assert!(ask("what?\r\n\r\n").starts_with("HTTP/1.1 400"));
    place
        .mezz(&["attach", "cache", "--backing", "disk", "--socket", "t", "--metrics", &address])
        .expect(3)
        .complains(&["cannot listen there", "--metrics"]);
}

#[test]
fn a_volume_that_is_written_to_past_its_cache_is_found_out() {
    let place = Place::with_cache();
    let attached = place.attach(&["cache", "--backing", "disk"]);
    let mut disk = place.client("disk");
    place.warm(&mut disk, 0);
    // Locks are for those that ask for them.
    let past = std::fs::OpenOptions::new().write(true).open(place.path("disk")).unwrap();
    past.write_all_at(&[3; 512], 8192).unwrap();
    let done = place.mezz(&["check", "s", "--compare", "--json"]).expect(1).complains(&["past its cache"]);
    let found = done.json();
    assert_eq!(found["blocks_differing"], 1);
    assert_eq!(
        (&found["differences"][0]["volume"], &found["differences"][0]["offset"]),
        (&json!("disk"), &json!(8192))
    );
    drop(disk);
    attached.signal("-INT");
    attached.end();
    // And while it is detached: at either end.
    past.write_all_at(&[4; 512], 4 * MIB - 512).unwrap();
    let refused = |arguments: &[&str]| {
        place.mezz(&[&["attach", "cache", "--socket", "s", "--backing"], arguments].concat()).expect(3)
    };
    refused(&["disk"]).complains(&["disk", "first or last blocks", "--accept-changes"]);
    let _attached = place.attach(&["cache", "--backing", "disk", "--accept-changes"]);
    assert_eq!(place.client("disk").read(4 * MIB - 512, 512), [4; 512]);
}

#[test]
fn volumes_are_served_without_their_cache_when_that_is_asked_for() {
    let place = Place::with_cache();
    std::fs::remove_file(place.path("cache")).unwrap();
    place.mezz(&["attach", "cache", "--backing", "disk", "--socket", "s"]).expect(3).complains(&[
        "cache",
        "does not exist",
        "--without-cache",
    ]);
    let attached = place.attach(&["--without-cache", "--backing", "disk"]);
    let mut disk = place.client("");
    disk.write(0, &[6; 4096]);
    assert_eq!(disk.read(0, 4096), [6; 4096]);
    assert_eq!(place.json(&["status", "s"])["cache"], Value::Null);
    place.mezz(&["status", "s"]).expect(0);
    assert!(place.mezz(&["status", "s", "--prometheus"]).expect(0).stdout.contains("mezz_block_clients 1"));
    place.mezz(&["flush", "s"]).expect(3).complains(&["without a cache"]);
    place.mezz(&["check", "s", "--compare"]).expect(3).complains(&["without a cache"]);
    place.mezz(&["detach", "s", "--disconnect"]).expect(0);
    let (_, told) = attached.end();
    assert!(told.contains("out of date"), "{told}");
}

#[test]
fn a_volume_is_a_file_where_that_is_asked_for() {
    let place = Place::with_cache();
    place.disk("second", 4 * MIB);
    place
        .mezz(&["attach", "--without-cache", "--backing", "disk", "--backing", "second", "--fuse", "file"])
        .expect(2)
        .complains(&["--fuse", "one volume"]);
    let Some(attached) = place.show(&[]) else { return };
    let open = || std::fs::OpenOptions::new().read(true).write(true).open(place.path("file")).unwrap();
    let file = open();
    file.write_all_at(&[4; 8192], 0).unwrap();
    file.sync_all().unwrap();
    let status = || place.json(&["status", "file"]);
    let counter = |name: &str| status()["cache"]["counters"][name].as_u64().unwrap();
    assert_eq!((counter("writes"), counter("flushes")), (1, 1));
    // A write that is to be durable is so when it is answered.
    let dsync = rustix::fs::OFlags::DSYNC.bits() as i32;
    let durable =
        std::fs::OpenOptions::new().write(true).custom_flags(dsync).open(place.path("file")).unwrap();
    durable.write_all_at(&[4; 4096], 4096).unwrap();
    // By a flush, where the device has no such writes.
    assert_eq!((counter("writes"), counter("writes_durable") + counter("flushes")), (2, 2));
    drop(durable);
    file.read_exact_at(&mut [0; 512], 0).unwrap();
    place.wait("a population", || counter("populations_done") == 1);
    let mut found = [0; 8192];
    file.read_exact_at(&mut found, 0).unwrap();
    assert_eq!((found, counter("reads_hit")), ([4; 8192], 1));
    // It is in use, so it stays.
    place.mezz(&["detach", "file"]).expect(3).complains(&["file", "umount", "--disconnect"]);
    file.write_all_at(&[5; 512], 0).unwrap();
    drop(file);
    place.wait("the end", || place.mezz(&["detach", "file"]).code == 0);
    attached.end();
    assert!(!place.path("file").exists());
    assert_eq!(std::fs::read(place.path("disk")).unwrap()[..512], [5; 512]);
    // Whoever has it open when it ends all the same gets errors.
    let attached = place.show(&[]).unwrap();
    let file = open();
    place.mezz(&["detach", "file", "--disconnect"]).expect(0);
    attached.end();
    assert!(file.write_all_at(&[6; 512], 0).is_err());
    assert_eq!(std::fs::read(place.path("disk")).unwrap()[..512], [5; 512]);
}

#[test]
fn a_cache_device_that_fails_costs_speed_alone() {
    let place = Place::with_cache();
    let attached = place.attach(&["cache", "--backing", "disk"]);
    let mut disk = place.client("disk");
    disk.write(0, &[2; 4096]);
    place.warm(&mut disk, 0);
    // Cut off behind what is in use: reads there end too early.
    std::fs::OpenOptions::new().write(true).open(place.path("cache")).unwrap().set_len(512 << 10).unwrap();
    assert_eq!(disk.read(0, 4096), [2; 4096]);
    disk.write(4096, &[3; 4096]);
    assert_eq!(disk.read(4096, 4096), [3; 4096]);
    let status = place.json(&["status", "s"]);
    assert_eq!(status["cache"]["health"], "lost");
    let failure = &status["cache"]["cache_failures"][0];
    assert_eq!((&failure["operation"], &failure["reason"]), (&json!("read"), &json!("unexpected_end")));
    assert!(place.mezz(&["status", "s"]).expect(0).stdout.contains("refused 1 reads (unexpected_end)"));
    drop(disk);
    place.wait("the client's end", || place.json(&["status", "s"])["clients"] == 0);
    place.mezz(&["detach", "s"]).expect(0);
    attached.end();
    // It is refused from now on, by its length.
    place
        .mezz(&["attach", "cache", "--backing", "disk", "--socket", "s"])
        .expect(3)
        .complains(&["smaller", "create"]);
}

#[test]
fn prometheus_reads_what_is_counted() {
    let place = Place::with_cache();
    let _attached = place.attach(&["cache", "--backing", "disk"]);
    let mut disk = place.client("disk");
    disk.read(0, 4096);
    disk.write(0, &[1; 4096]);
    let text = place.mezz(&["status", "s", "--prometheus"]).expect(0).stdout;
    let value = |name: &str| {
        let line = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
        line.unwrap_or_else(|| panic!("{name} is missing in:\n{text}")).parse::<f64>().unwrap()
    };
    assert_eq!(value("mezz_block_reads_missed_total"), 1.0);
    assert_eq!(value("mezz_block_cache_health{health=\"working\"}"), 1.0);
    assert_eq!(value("mezz_block_request_seconds_count{request=\"write\"}"), 1.0);
    assert_eq!(value("mezz_block_request_seconds_bucket{request=\"write\",le=\"+Inf\"}"), 1.0);
    assert!(value("mezz_block_request_seconds_sum{request=\"write\"}") > 0.0);
    // Each line is a comment or a name with a number.
    for line in text.lines().filter(|line| !line.starts_with("# TYPE mezz_block_")) {
        let (name, number) = line.rsplit_once(' ').unwrap();
        assert!(name.starts_with("mezz_block_") && number.parse::<f64>().is_ok(), "{line}");
    }
}

#[test]
fn the_control_socket_answers_a_line_for_a_line() {
    let place = Place::with_cache();
    let _attached = place.attach(&["cache", "--backing", "disk"]);
    let stream = UnixStream::connect(place.path("s.control")).unwrap();
    let mut reader = BufReader::new(stream.try_clone().unwrap());
    let mut ask = |line: &str| -> Value {
        (&stream).write_all(format!("{line}\n").as_bytes()).unwrap();
        let mut answer = String::new();
        reader.read_line(&mut answer).unwrap();
        serde_json::from_str(&answer).unwrap()
    };
    for (line, part) in [
        ("nonsense", "no JSON"),
        (r#"{"request":"status"}"#, "version none"),
        (r#"{"version":2,"request":"status"}"#, "version 2"),
        (r#"{"version":1,"request":"explode"}"#, "explode"),
        (r#"{"version":1,"request":"flush","within_seconds":-1}"#, "no time"),
        (r#"{"version":1,"request":"set","write_mode":"back"}"#, "through"),
    ] {
        let answer = ask(line);
        assert_eq!(answer["answer"], "failed", "{line}");
        let reason = answer["reason"].as_str().unwrap();
        assert!(reason.contains(part), "{line}: {reason}");
    }
    // And goes on.
    let answer = ask(r#"{"version":1,"request":"status"}"#);
    assert_eq!((&answer["answer"], &answer["result"]["cache"]["epoch"]), (&json!("done"), &json!(1)));
    // Whoever sends without an end is not listened to for ever, and nobody else notices.
    let endless = UnixStream::connect(place.path("s.control")).unwrap();
    let _ = (&endless).write_all(&[b'x'; 100_000]);
    assert_eq!(ask(r#"{"version":1,"request":"status"}"#)["answer"], "done");
}

#[test]
fn what_cannot_be_made_a_cache_is_refused_and_unchanged() {
    let place = Place::new();
    place.disk("disk", 4 * MIB);
    place.disk("small", 4095);
    place.disk("empty", 4 * MIB);
    let refused = |arguments: &[&str], code: i32, parts: &[&str]| {
        place.mezz(&[&["create"], arguments].concat()).expect(code).complains(parts);
    };
    refused(&["cache"], 2, &["--backing"]);
    refused(&["cache", "--backing", "disk"], 2, &["cache", "no size", "--size 10GiB"]);
    refused(&["empty", "--size", "5MiB", "--backing", "disk"], 2, &["empty", "leave out --size"]);
    refused(&["cache", "--size", "1MiB", "--backing", "disk"], 2, &["cache", "at least"]);
    refused(&["cache", "--size", "8MiB", "--fragment", "3MiB", "--backing", "disk"], 2, &["power of two"]);
    refused(&["cache", "--size", "8MiB", "--backing", "missing"], 3, &["missing", "does not exist"]);
    refused(&["cache", "--size", "8MiB", "--backing", "small"], 3, &["small", "4095 bytes", "truncate"]);
    refused(&["cache", "--size", "8MiB", "--backing", "."], 2, &["NAME=PATH"]);
    refused(&["cache", "--size", "8MiB", "--backing", "disk", "--backing", "disk"], 2, &["this name"]);
    refused(&["cache", "--size", "8MiB", "--backing", "disk", "--backing", "b=disk"], 2, &["twice"]);
    refused(&["disk", "--backing", "disk"], 2, &["its own cache"]);
    refused(&["no/cache", "--size", "8MiB", "--backing", "disk"], 3, &["no/cache", "directory"]);
    assert!(!place.path("cache").exists(), "nothing is left of what was refused");
    for (at, mark, what) in [
        (0, &b"XFSB"[..], "XFS"),
        (1080, b"\x53\xef", "ext4"),
        (512, b"EFI PART", "GPT"),
        (0, b"SQLite format 3\0", "SQLite"),
        (0, b"MEZZTIER", "a tier of Mezzanine"),
        (0, b"LUKS", "LUKS"),
        (4 * MIB - 100, b"x", "bytes other than zero"),
    ] {
        place.disk("empty", 4 * MIB);
        let file = std::fs::OpenOptions::new().write(true).open(place.path("empty")).unwrap();
        file.write_all_at(mark, at).unwrap();
        let before = std::fs::read(place.path("empty")).unwrap();
        refused(&["empty", "--backing", "disk"], 3, &["empty", "holds data", what, "--force"]);
        assert!(std::fs::read(place.path("empty")).unwrap() == before, "{what}");
        place.mezz(&["create", "empty", "--backing", "disk", "--force"]).expect(0);
    }
    // A cache is nobody's to write over either, and one that is attached not even by force.
    refused(&["empty", "--backing", "disk"], 3, &["a cache of Mezzanine", "--force"]);
    let _attached = place.attach(&["empty", "--backing", "disk"]);
    place.disk("third", 4 * MIB);
    refused(&["empty", "--backing", "third", "--force"], 3, &["empty", "already open", "mezz block list"]);
    refused(&["cache", "--size", "8MiB", "--backing", "disk"], 3, &["disk", "already open"]);
}

#[test]
fn what_does_not_belong_together_is_not_attached() {
    let place = Place::with_cache();
    place.disk("fresh", 4 * MIB);
    place.disk("second", 4 * MIB);
    std::fs::write(place.path("tier"), [b"MEZZTIER".as_slice(), &[1; 8192]].concat()).unwrap();
    std::fs::write(place.path("second"), vec![1; 4 * MIB as usize]).unwrap();
    let refused = |arguments: &[&str], code: i32, parts: &[&str]| {
        place.mezz(&[&["attach", "--socket", "s"], arguments].concat()).expect(code).complains(parts);
        assert!(!place.path("s").exists());
    };
    refused(&["--backing", "disk"], 2, &["CACHE"]);
    refused(&["cache"], 2, &["--backing"]);
    refused(&["cache", "--without-cache", "--backing", "disk"], 2, &["--without-cache"]);
    refused(
        &["fresh", "--backing", "disk"],
        3,
        &["fresh", "no cache device", "it is empty", "mezz block create"],
    );
    refused(&["tier", "--backing", "disk"], 3, &["tier", "a tier of Mezzanine"]);
    refused(&["cache", "--backing", "second"], 3, &["second", "no volume of the name", "the cache has disk"]);
    refused(&["cache", "--backing", "disk=second"], 3, &["second", "first or last blocks", "another device"]);
    refused(&["cache", "--backing", "disk=cache"], 2, &["its own cache"]);
    // What came to nothing leaves no trace.
    std::fs::write(place.path("file"), "").unwrap();
    place
        .mezz(&["attach", "cache", "--backing", "disk", "--socket", "file", "--control", "c"])
        .expect(3)
        .complains(&["file", "something else than a socket"]);
    assert_eq!(place.json(&["check", "cache"])["volumes"][0]["in_use"], false);
    // By what it is known by, whatever it is called.
    std::fs::rename(place.path("disk"), place.path("moved")).unwrap();
    drop(place.attach(&["cache", "--backing", "moved"]));
    let _ = std::fs::remove_file(place.path("s"));
    std::fs::rename(place.path("moved"), place.path("disk")).unwrap();
    for (bytes, how) in [(3 * MIB, "shrunk"), (5 * MIB, "grown")] {
        let file = std::fs::OpenOptions::new().write(true).open(place.path("disk")).unwrap();
        file.set_len(bytes).unwrap();
        refused(&["cache", "--backing", "disk"], 3, &["disk", how, "4194304", "--accept-changes"]);
        file.set_len(4 * MIB).unwrap();
    }
    let cache = std::fs::OpenOptions::new().write(true).open(place.path("cache")).unwrap();
    cache.set_len(3 * MIB).unwrap();
    refused(&["cache", "--backing", "disk"], 3, &["cache", "smaller", "4194304", "mezz block resize"]);
    cache.set_len(4 * MIB).unwrap();
    // One copy of the superblock is enough, and its loss is said; with both gone it is no cache any more.
    cache.write_all_at(&[0xFF; 4096], 0).unwrap();
    place.mezz(&["check", "cache"]).expect(1).complains(&["one copy", "attach"]);
    cache.write_all_at(&[0xFF; 4096], 256 << 10).unwrap();
    refused(&["cache", "--backing", "disk"], 3, &["cache", "no cache device"]);
    place.mezz(&["check", "cache"]).expect(3).complains(&["no cache device"]);
    place.mezz(&["check", "missing"]).expect(3).complains(&["missing", "does not exist"]);
    place.mezz(&["status", "missing"]).expect(3).complains(&["missing", "mezz block list"]);
    place.mezz(&["detach", "cache"]).expect(3).complains(&["no attached cache"]);
}

#[test]
fn a_damaged_superblock_is_named_with_its_field() {
    let place = Place::with_cache();
    let cache = std::fs::OpenOptions::new().write(true).open(place.path("cache")).unwrap();
    for copy in [0, 256 << 10] {
        cache.write_all_at(&[0xFF; 8], copy + 48).unwrap();
    }
    place.mezz(&["attach", "cache", "--backing", "disk", "--socket", "s"]).expect(3).complains(&[
        "cache",
        "damaged: checksum",
        "create --force",
    ]);
}
