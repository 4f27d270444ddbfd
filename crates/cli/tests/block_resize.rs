//! `mezz block resize`, and volumes whose own devices have another length.
#![allow(clippy::unwrap_used)]

mod common;
mod place;

#[allow(dead_code)]
#[path = "../../blockdev/tests/nbd/client.rs"]
mod client;

use std::io::{BufRead as _, BufReader, Write as _};
use std::os::unix::fs::{FileExt as _, MetadataExt as _};
use std::os::unix::net::UnixStream;

use client::Client;
use mezzanine_cached::read_superblocks;
use mezzanine_device::{Device as _, MemoryDevice};
use mezzanine_fragment::format::{Record, RecordState};
use place::{MIB, Place};
use serde_json::{Value, json};

const FRAGMENT: u64 = 128 << 10;
const BLOCK: u32 = 4096;
/// Where the first slot of a cache lies whose map has one block.
const DATA: u64 = 640 << 10;
const SETTLE: [&str; 2] = ["--settle", "100ms"];

/// A volume of 4 MiB, the fragments of which have their numbers in them, and a cache that has room for so
/// many of them now, and for `most` of them later.
fn place(slots: u64, most: u64) -> Place {
    let place = Place::new();
    place.disk("disk", 4 * MIB);
    let disk = std::fs::OpenOptions::new().write(true).open(place.path("disk")).unwrap();
    for fragment in 0..32 {
        disk.write_all_at(&[fragment as u8 + 1; BLOCK as usize], fragment * FRAGMENT).unwrap();
    }
    let [size, most] = [slots, most].map(size);
    let arguments = ["create", "cache", "--fragment", "128KiB", "--backing", "disk"];
    place.mezz(&[&arguments[..], &["--size", &size, "--max-size", &most]].concat()).expect(0);
    place
}

/// That of a cache of so many fragments.
fn bytes(slots: u64) -> u64 {
    DATA + slots * FRAGMENT
}

fn size(slots: u64) -> String {
    format!("{}B", bytes(slots))
}

fn read(disk: &mut Client, fragments: u64) {
    for fragment in 0..fragments {
        assert_eq!(disk.read(fragment * FRAGMENT, BLOCK), [fragment as u8 + 1; BLOCK as usize]);
    }
}

/// Has so many fragments in the cache for good: nothing is brought in any more, and a kill loses none.
fn fill(place: &Place, disk: &mut Client, fragments: u64) {
    // A population that is ended may have had another fragment leave for it.
    place.wait("a full cache without populations", || {
        place.mezz(&["set", "s", "--population-workers", "8"]).expect(0);
        place.wait("a full cache", || {
            read(disk, 32);
            place.counter("slots_used") == fragments
        });
        end_populations(place);
        place.counter("slots_used") == fragments
    });
    // The counter of unstable ones falls when their records begin to be written.
    place.wait("stable records", || stable_records(place) == fragments);
    assert_eq!(place.counter("unstable"), 0);
}

/// Has nothing more brought in, and waits for what is on its way.
fn end_populations(place: &Place) {
    place.mezz(&["set", "s", "--population-workers", "0"]).expect(0);
    place.wait("the end of populations", || {
        let counters = &cache(place)["counters"];
        let count = |name: &str| counters[name].as_u64().unwrap();
        let ended = ["populations_done", "populations_aborted", "populations_failed"].map(count);
        ended.iter().sum::<u64>() == count("populations_begun")
    });
}

/// Records in the file that count after a crash.
fn stable_records(place: &Place) -> u64 {
    let file = MemoryDevice::new(DATA);
    file.write_at(&std::fs::read(place.path("cache")).unwrap()[..DATA as usize], 0).unwrap();
    let superblock = read_superblocks(&file).unwrap().newest;
    let mut map = vec![0; superblock.layout.map_bytes as usize];
    file.read_at(&mut map, superblock.layout.map_offset).unwrap();
    let records = map.chunks_exact(superblock.layout.record_bytes() as usize).zip(0..);
    let records = records.filter_map(|(place, slot)| Record::decode(place, &superblock.cache_id, slot));
    records.filter(|record| record.state == RecordState::Stable).count() as u64
}

fn same(place: &Place) {
    let compared = place.json(&["check", "s", "--compare"]);
    assert_eq!(
        (&compared["blocks_differing"], &compared["blocks_unreadable"]),
        (&json!(0), &json!(0)),
        "{compared}"
    );
}

fn cache(place: &Place) -> Value {
    place.json(&["status", "s"])["cache"].clone()
}

fn allocated(place: &Place) -> u64 {
    std::fs::metadata(place.path("cache")).unwrap().blocks() * 512
}

/// What the control socket answers, which takes less time than the command does.
fn resized_within(place: &Place, bytes: u64, seconds: u64) -> Value {
    let mut stream = UnixStream::connect(place.path("s.control")).unwrap();
    let request = json!({"version": 1, "request": "resize", "bytes": bytes, "within_seconds": seconds});
    stream.write_all(format!("{request}\n").as_bytes()).unwrap();
    let mut lines = BufReader::new(stream).lines().map(|line| serde_json::from_str(&line.unwrap()).unwrap());
    // Before it stand those that say how far it is.
    let is_last = |line: &Value| line["answer"] == "done" || line["answer"] == "failed";
    let last: Value = lines.find(is_last).unwrap();
    assert_eq!(last["answer"], "done", "{last}");
    last["result"].clone()
}

#[test]
fn an_attached_cache_grows_and_shrinks_and_a_crash_leaves_its_size() {
    let place = place(8, 24);
    assert_eq!(std::fs::metadata(place.path("cache")).unwrap().len(), bytes(8), "as long as its size");
    let arguments = [&["cache", "--backing", "disk"], &SETTLE[..]].concat();
    let attached = place.attach(&arguments);
    let mut disk = place.client("disk");
    assert_ne!(cache(&place)["sizing"], Value::Null);
    fill(&place, &mut disk, 8);
    let resized = place.json(&["resize", "s", "--size", &size(24)]);
    let named = ["cache_bytes_before", "cache_bytes", "cache_bytes_max", "fragments", "fragments_left"];
    let numbers = |answer: &Value| named.map(|name| answer[name].as_u64().unwrap());
    assert_eq!(numbers(&resized), [bytes(8), bytes(24), bytes(24), 24, 0]);
    assert_eq!(resized["is_attached"], true);
    assert_eq!(std::fs::metadata(place.path("cache")).unwrap().len(), bytes(24));
    fill(&place, &mut disk, 24);
    same(&place);
    let status = cache(&place);
    assert_eq!((&status["cache_bytes"], &status["counters"]["slots"]), (&json!(bytes(24)), &json!(24)));
    assert_eq!(status["sizing"], Value::Null, "estimates are held against the size that it was opened with");
    // After a crash it has all of it.
    attached.kill();
    let attached = place.attach(&arguments);
    let mut disk = place.client("disk");
    assert_eq!(["slots", "slots_used"].map(|name| place.counter(name)), [24, 24]);
    let full = allocated(&place);
    let done = place.mezz(&["resize", "cache", "--size", &size(6)]).expect(0).stdout;
    assert!(done.contains("6 have room, 0 more have to leave"), "{done}");
    assert_eq!(["slots", "slots_used", "fragments_shrunk"].map(|name| place.counter(name)), [6, 6, 18]);
    assert!(allocated(&place) <= full - 17 * FRAGMENT, "its file system has the room back");
    let left =
        [0, 30].map(|seconds| resized_within(&place, bytes(6), seconds)["bytes_not_given_back"].clone());
    assert_eq!(left, [json!(18 * FRAGMENT), json!(0)], "there is no time for that in none");
    read(&mut disk, 32);
    same(&place);
    // What has left is written to without a mark, and does not come back when it grows after a crash.
    end_populations(&place);
    let absent: Vec<u64> = (0..32)
        .filter(|fragment| {
            let before = place.counter("reads_hit");
            disk.read(fragment * FRAGMENT, BLOCK);
            place.counter("reads_hit") == before
        })
        .collect();
    assert!(absent.len() >= 26, "six have room: {absent:?}");
    let waited = place.counter("writes_waited");
    for fragment in &absent {
        disk.write(fragment * FRAGMENT, &[*fragment as u8 + 101; BLOCK as usize]);
    }
    assert_eq!(place.counter("writes_waited"), waited);
    attached.kill();
    let attached = place.attach(&arguments);
    let shown = place.mezz(&["status", "s"]).expect(0).stdout;
    assert!(shown.contains("1.44 MB of at most 3.80 MB, working"), "{shown}");
    assert!(place.counter("slots_used") <= 6);
    place.mezz(&["resize", "s", "--size", &size(24)]).expect(0);
    attached.kill();
    let attached = place.attach(&[&arguments[..], &["--population-workers", "0"]].concat());
    assert!(place.counter("slots_used") <= 6 && place.counter("slots") == 24);
    let mut disk = place.client("disk");
    for fragment in 0..32 {
        let byte = if absent.contains(&fragment) { fragment as u8 + 101 } else { fragment as u8 + 1 };
        assert_eq!(disk.read(fragment * FRAGMENT, BLOCK), [byte; BLOCK as usize], "fragment {fragment}");
    }
    same(&place);
    place.mezz(&["detach", "s", "--disconnect"]).expect(0);
    attached.end();
}

#[test]
fn a_cache_that_is_not_attached_is_resized_where_it_lies() {
    let place = place(24, 24);
    let arguments = [&["cache", "--backing", "disk"], &SETTLE[..]].concat();
    let end = |attached: place::Attached| {
        attached.signal("-TERM");
        attached.end()
    };
    let attached = place.attach(&arguments);
    fill(&place, &mut place.client("disk"), 24);
    end(attached);
    let full = allocated(&place);
    let resized = place.json(&["resize", "cache", "--size", &size(8)]);
    assert_eq!((&resized["is_attached"], &resized["fragments"]), (&json!(false), &json!(8)));
    assert!(allocated(&place) <= full - 15 * FRAGMENT);
    let at_rest = place.json(&["check", "cache"]);
    assert_eq!(
        (&at_rest["slots"], &at_rest["cache_bytes"], &at_rest["both_superblocks"]),
        (&json!(8), &json!(bytes(8)), &json!(true))
    );
    // It may be cut off there, and grows again: what lay behind is gone.
    let file = std::fs::OpenOptions::new().write(true).open(place.path("cache")).unwrap();
    file.set_len(bytes(8)).unwrap();
    let attached = place.attach(&arguments);
    assert_eq!(["slots", "slots_used"].map(|name| place.counter(name)), [8, 8]);
    same(&place);
    end(attached);
    place.mezz(&["resize", "cache", "--size", &size(16)]).expect(0);
    assert_eq!(file.metadata().unwrap().len(), bytes(16));
    let attached = place.attach(&arguments);
    assert_eq!(["slots", "slots_used"].map(|name| place.counter(name)), [16, 8]);
    same(&place);
    end(attached);
    // A device that is shorter than the cache is named, with what can be done; a longer one will do.
    file.set_len(bytes(12)).unwrap();
    place.mezz(&["attach", "cache", "--backing", "disk", "--socket", "s"]).expect(3).complains(&[
        "cache",
        "smaller than its cache",
        "mezz block resize",
    ]);
    place.mezz(&["resize", "cache", "--size", &size(12)]).expect(0);
    file.set_len(bytes(40)).unwrap();
    end(place.attach(&arguments));
}

#[test]
fn sizes_that_cannot_be_are_refused_and_change_nothing() {
    let place = place(8, 16);
    let refuse = |name: &str| {
        for (size, parts) in [
            ("0B".to_owned(), ["0 bytes have no room", "use at least 786432"]),
            (format!("{}B", bytes(1) - 4096), ["no room", "use at least 786432"]),
            (format!("{}B", bytes(9) + 100), ["not a multiple of 4096", "use 1835008"]),
            (size(17), ["laid out for 2752512 bytes at most", "a cache anew with a larger maximum"]),
        ] {
            place.mezz(&["resize", name, "--size", &size]).expect(3).complains(&parts);
        }
    };
    refuse("cache");
    let attached = place.attach(&["cache", "--backing", "disk"]);
    refuse("s");
    assert_eq!(cache(&place)["counters"]["slots"], 8);
    place.mezz(&["resize", "s"]).expect(2).complains(&["--size"]);
    place.mezz(&["resize", "s", "--size", "nonsense"]).expect(2);
    attached.signal("-TERM");
    attached.end();
    assert_eq!(place.json(&["check", "cache"])["slots"], 8);
    place.mezz(&["resize", "missing", "--size", "1MiB"]).expect(3).complains(&["missing", "does not exist"]);
    place.mezz(&["resize", "disk", "--size", "1MiB"]).expect(3).complains(&["disk", "no cache device"]);
    let _attached = place.attach(&["--without-cache", "--backing", "disk"]);
    place.mezz(&["resize", "s", "--size", "1MiB"]).expect(3).complains(&["without a cache"]);
}

#[test]
fn a_cache_is_made_for_a_part_of_its_device_and_for_more_than_that() {
    let place = Place::new();
    place.disk("disk", 4 * MIB);
    place.disk("flash", bytes(16));
    let create = |arguments: &[&str]| {
        let all = [&["create", "flash", "--fragment", "128KiB", "--backing", "disk", "--force"], arguments];
        place.mezz(&all.concat())
    };
    let numbers = |arguments: &[&str]| {
        create(arguments).expect(0);
        let found = place.json(&["check", "flash"]);
        ["slots", "cache_bytes", "cache_bytes_max"].map(|name| found[name].as_u64().unwrap())
    };
    assert_eq!(numbers(&[]), [16, bytes(16), bytes(16)]);
    assert_eq!(numbers(&["--size", &size(4)]), [4, bytes(4), bytes(16)]);
    assert_eq!(numbers(&["--max-size", &size(8)]), [8, bytes(8), bytes(8)]);
    // A device that is to be made larger.
    assert_eq!(numbers(&["--max-size", &size(20)]), [16, bytes(16), bytes(20)]);
    create(&["--size", &size(17)]).expect(2).complains(&["flash", "leave out --size"]);
    create(&["--size", &size(4), "--max-size", &size(3)]).expect(2).complains(&["--max-size", "at least"]);
}

/// A volume that has grown, or shrunk, is served when somebody says that it is the right one.
#[test]
fn a_volume_of_another_length_is_cached_anew_when_that_is_accepted() {
    let place = place(8, 8);
    let arguments = [&["cache", "--backing", "disk"], &SETTLE[..]].concat();
    let accepting = [&arguments[..], &["--accept-changes"]].concat();
    let attached = place.attach(&arguments);
    fill(&place, &mut place.client("disk"), 8);
    attached.signal("-TERM");
    attached.end();
    let file = std::fs::OpenOptions::new().write(true).open(place.path("disk")).unwrap();
    for (len, how) in [(6 * MIB, "grown"), (4 * MIB, "shrunk")] {
        file.set_len(len).unwrap();
        let refused = place.mezz(&["attach", "cache", "--backing", "disk", "--socket", "s"]).expect(3);
        refused.complains(&["disk", how, "--accept-changes"]);
        let attached = place.attach(&accepting);
        assert_eq!(place.counter("slots_used"), 0, "{how}");
        assert_eq!(place.json(&["status", "s"])["volumes"][0]["bytes"], len);
        let mut disk = place.client("disk");
        disk.write(len - u64::from(BLOCK), &[9; BLOCK as usize]);
        place.warm(&mut disk, len - u64::from(BLOCK));
        assert_eq!(disk.read(len - u64::from(BLOCK), BLOCK), [9; BLOCK as usize]);
        same(&place);
        place.wait("it settles", || place.counter("unstable") == 0);
        drop(disk);
        attached.signal("-TERM");
        attached.end();
        // From now on it has that length.
        let attached = place.attach(&arguments);
        assert!(place.counter("slots_used") > 0);
        attached.signal("-TERM");
        attached.end();
    }
}
