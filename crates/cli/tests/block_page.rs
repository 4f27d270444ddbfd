//! `mezz block` with the page engine: what was flushed survives `kill -9` on the cache device alone,
//! detaching brings everything to the volumes, and what does not belong together is refused.
#![allow(clippy::unwrap_used)]

mod common;
mod place;

#[allow(dead_code)]
#[path = "../../blockdev/tests/nbd/client.rs"]
mod client;

use std::path::Path;

use client::*;
use mezzanine_ground::random::Random;
use place::{MIB, Place};
use serde_json::{Value, json};

const PAGE: usize = 8192;
const SECTOR: usize = 512;

/// A volume `disk` of 4 MiB, no whole number of pages long, with a cache of 16 MiB in this mode.
fn place(mode: &str) -> Place {
    let place = Place::new();
    place.disk("disk", 4 * MIB + 512);
    let created = place.json(&[
        "create",
        "cache",
        "--size",
        "16MiB",
        "--engine",
        "page",
        "--mode",
        mode,
        "--backing",
        "disk",
    ]);
    assert_eq!((&created["mode"], &created["page_bytes"]), (&json!(mode), &json!(PAGE)), "{created}");
    place
}

fn on_disk(place: &Place, range: std::ops::Range<usize>) -> Vec<u8> {
    std::fs::read(place.path("disk")).unwrap()[range].to_vec()
}

fn page(place: &Place) -> Value {
    place.json(&["status", "s"])["page"].clone()
}

#[test]
fn what_was_flushed_survives_a_kill_on_the_cache_device_alone() {
    let place = place("durable");
    let attached = place.attach(&["cache", "--backing", "disk"]);
    let (mut one, mut other) = (place.client("disk"), place.client("disk"));
    assert_eq!(one.len, 4 * MIB + 512);
    one.write(0, &[1; 3 * PAGE]);
    // Parts of pages, of one by two clients; across the end of one; the end of the volume.
    one.write(PAGE as u64 + 512, &[2; 512]);
    other.write(PAGE as u64 + 1024, &[3; 1024]);
    other.write(2 * PAGE as u64 - 100, &[4; 300]);
    other.write(4 * MIB, &[5; 512]);
    assert_eq!(one.error(FLUSH, 0, 0, 0), 0, "one flush is of all connections");
    let reply = other.request(WRITE, FUA, 100 * PAGE as u64, 512, &[6; 512]);
    assert_eq!(reply.error, 0);
    assert_eq!(one.error(TRIM, 0, 200 * PAGE as u64, 10 * PAGE as u32), 0);
    let mut whole = [1; 3 * PAGE];
    whole[PAGE + 512..PAGE + 1024].fill(2);
    whole[PAGE + 1024..PAGE + 2048].fill(3);
    whole[2 * PAGE - 100..2 * PAGE + 200].fill(4);
    let check = |client: &mut Client| {
        assert!(client.read(0, 3 * PAGE as u32) == whole);
        assert_eq!(client.read(4 * MIB, 512), [5; 512]);
        let page = client.read(100 * PAGE as u64, PAGE as u32);
        assert!(page[..512] == [6; 512] && page[512..].iter().all(|byte| *byte == 0));
    };
    check(&mut one);
    let shown = page(&place);
    assert_eq!((&shown["mode"], &shown["health"]), (&json!("durable"), &json!("working")));
    assert_eq!(shown["pages_newer"], 5, "{shown}");
    let text = place.mezz(&["status", "cache"]).expect(0).stdout;
    for part in [
        "page engine, mode durable",
        "5 pages (41.0 kB) on the cache device alone",
        "0 pages have left",
        "disk",
    ] {
        assert!(text.contains(part), "{part}:\n{text}");
    }
    assert!(
        place
            .mezz(&["status", "s", "--prometheus"])
            .expect(0)
            .stdout
            .contains("mezz_block_page_pages_newer 5")
    );
    attached.kill();
    // Nothing of it is anywhere else, and nobody gets the volume without it by mistake.
    assert!(on_disk(&place, 0..3 * PAGE).iter().all(|byte| *byte == 0));
    let without = ["attach", "--without-cache", "--backing", "disk", "--socket", "s"];
    place.mezz(&without).expect(3).complains(&["disk", "newest pages", "cache"]);
    let another = ["create", "another", "--size", "4MiB", "--backing", "disk"];
    place.mezz(&another).expect(3).complains(&["newest pages", "mezz block detach"]);
    assert!(!place.path("another").exists());
    let rest = place.json(&["check", "cache"]);
    assert_eq!((&rest["in_use"], &rest["pages_newer"]), (&json!(true), &json!(5)), "{rest}");
    assert!(rest["volumes"][0].as_str().unwrap().ends_with("/disk"), "{rest}");
    let attached = place.attach(&["cache", "--backing", "disk"]);
    check(&mut place.client("disk"));
    // Once more, with nothing written meanwhile.
    attached.kill();
    let attached = place.attach(&["cache", "--backing", "disk"]);
    check(&mut place.client("disk"));
    place.wait("the client is gone", || page(&place)["mode"] == "durable" && clients(&place) == 0);
    let detached = place.json(&["detach", "s"]);
    let pages = json!({ "pages_written": 5, "pages_left": 0, "volumes_are_current": true });
    assert_eq!((&detached["is_whole"], &detached["pages"]), (&json!(true), &pages), "{detached}");
    let (said, told) = attached.end();
    assert_eq!(said["failed_requests"], 0);
    assert!(told.contains("mode durable") && told.contains("5 of them newer"), "{told}");
    assert!(on_disk(&place, 0..3 * PAGE) == whole);
    assert!(!place.path("disk.mezzanine").exists(), "it needs no cache device any more");
    place.mezz(&another).expect(0);
}

fn clients(place: &Place) -> u64 {
    place.json(&["list"])[0]["clients"].as_u64().unwrap()
}

/// Each sector holds what it held at the last flush, or what was written to it since.
#[test]
fn many_kills_take_nothing_that_was_flushed() {
    for mode in ["durable", "through"] {
        let place = place(mode);
        let sectors = (4 * MIB as usize + 512) / SECTOR;
        let mut may_be: Vec<Vec<u8>> = vec![vec![0]; sectors];
        let mut random = Random::new(5);
        for _ in 0..5 {
            let attached = place.attach(&["cache", "--backing", "disk"]);
            let mut clients = [place.client("disk"), place.client("disk")];
            let found = clients[0].read(0, (sectors * SECTOR) as u32);
            for (number, (found, may_be)) in found.chunks(SECTOR).zip(&mut may_be).enumerate() {
                let byte = found[0];
                assert!(found.iter().all(|other| *other == byte), "{mode}: sector {number} is torn");
                assert!(may_be.contains(&byte), "{mode}: sector {number} holds {byte}, none of {may_be:?}");
                *may_be = vec![byte];
            }
            for _ in 0..random.between(100, 300) {
                let client = &mut clients[random.below(2) as usize];
                let count = 1 + random.magnitude(40) as usize;
                let first = random.below((sectors - count) as u64) as usize;
                if random.below(10) == 0 {
                    assert_eq!(client.error(FLUSH, 0, 0, 0), 0);
                    may_be.iter_mut().for_each(|may_be| *may_be = vec![*may_be.last().unwrap()]);
                    continue;
                }
                let byte = random.below(255) as u8 + 1;
                client.write((first * SECTOR) as u64, &vec![byte; count * SECTOR]);
                may_be[first..first + count].iter_mut().for_each(|may_be| match mode {
                    // It was on the volume's own device before it was answered.
                    "through" => *may_be = vec![byte],
                    _ => may_be.push(byte),
                });
            }
            attached.kill();
        }
    }
}

#[test]
fn through_has_everything_on_the_volume_and_stays_warm() {
    let place = place("through");
    let attached = place.attach(&["cache", "--backing", "disk"]);
    let mut client = place.client("disk");
    client.write(0, &[7; 4 * PAGE]);
    assert!(on_disk(&place, 0..4 * PAGE) == [7; 4 * PAGE], "before any flush");
    assert_eq!(client.error(FLUSH, 0, 0, 0), 0);
    assert_eq!(client.read(0, PAGE as u32), [7; PAGE]);
    drop(client);
    let hits = |place: &Place| {
        let counters = &page(place)["counters"];
        counters["page_hits_memory"].as_u64().unwrap() + counters["page_hits_flash"].as_u64().unwrap()
    };
    assert_eq!(hits(&place), 1);
    place.wait("the client is gone", || clients(&place) == 0);
    place.mezz(&["detach", "s"]).expect(0);
    attached.end();
    let attached = place.attach(&["cache", "--backing", "disk"]);
    assert!(place.client("disk").read(0, 4 * PAGE as u32) == [7; 4 * PAGE]);
    assert_eq!(hits(&place), 4, "it goes on with what it had");
    // And it is not believed once the volume was written to without it.
    attached.signal("-TERM");
    attached.end();
    let mut disk = std::fs::OpenOptions::new().write(true).open(place.path("disk")).unwrap();
    std::io::Write::write_all(&mut disk, &[8; PAGE]).unwrap();
    let attached = place.attach(&["cache", "--backing", "disk"]);
    assert!(place.client("disk").read(0, PAGE as u32) == [8; PAGE]);
    attached.kill();
    // The cache device is lost.
    std::fs::remove_file(place.path("cache")).unwrap();
    let _attached = place.attach(&["--without-cache", "--backing", "disk"]);
    assert!(place.client("disk").read(PAGE as u64, PAGE as u32) == [7; PAGE]);
}

#[test]
fn the_mode_changes_while_it_is_in_use() {
    let place = place("durable");
    let attached = place.attach(&["cache", "--backing", "disk"]);
    let mut client = place.client("disk");
    client.write(0, &[7; 2 * PAGE]);
    assert_eq!(place.json(&["set", "s", "--mode", "through"])["page"]["mode"], "through");
    assert!(on_disk(&place, 0..2 * PAGE) == [7; 2 * PAGE], "what flash alone had");
    client.write(0, &[8; PAGE]);
    assert!(on_disk(&place, 0..PAGE) == [8; PAGE]);
    assert_eq!(place.json(&["set", "s", "--mode", "durable"])["page"]["mode"], "durable");
    client.write(0, &[9; PAGE]);
    assert!(on_disk(&place, 0..PAGE) == [8; PAGE]);
    // A service that is ended leaves it at that.
    attached.signal("-TERM");
    let (said, _) = attached.end();
    assert_eq!(said["page"]["pages_newer"], 1, "{said}");
    assert!(on_disk(&place, 0..PAGE) == [8; PAGE]);
    let attached = place.attach(&["cache", "--backing", "disk"]);
    assert_eq!(page(&place)["mode"], "durable");
    assert!(place.client("disk").read(0, PAGE as u32) == [9; PAGE]);
    let kept = place.mezz(&["detach", "s", "--keep", "--disconnect"]).expect(0).stdout;
    assert!(kept.contains("on the cache device alone"), "{kept}");
    assert!(on_disk(&place, 0..PAGE) == [8; PAGE]);
    attached.end();
    let _attached = place.attach(&["cache", "--backing", "disk"]);
    assert!(place.client("disk").read(0, PAGE as u32) == [9; PAGE]);
    place.mezz(&["set", "s", "--population-workers", "1"]).expect(3).complains(&["page engine"]);
    place.mezz(&["set", "s", "--mode", "drained"]).expect(2).complains(&["through or durable"]);
    place.mezz(&["check", "s", "--compare"]).expect(3).complains(&["mezz tier verify"]);
}

#[test]
fn what_does_not_belong_together_is_refused() {
    let place = Place::new();
    place.disk("disk", 4 * MIB);
    place.disk("other", 2 * MIB);
    let create = |arguments: &[&str]| {
        place.mezz(&[&["create", "cache", "--size", "16MiB", "--backing", "disk"], arguments].concat())
    };
    create(&["--engine", "page"]).expect(2).complains(&["--mode durable", "--mode through"]);
    create(&["--mode", "durable"]).expect(2).complains(&["--mode", "--engine page"]);
    create(&["--page", "8KiB"]).expect(2).complains(&["--page", "--engine page"]);
    create(&["--engine", "page", "--mode", "drained"]).expect(2).complains(&["through or durable"]);
    create(&["--engine", "page", "--mode", "durable", "--page", "3KiB"]).expect(2).complains(&["8KiB"]);
    create(&["--engine", "page", "--mode", "durable", "--fragment", "1MiB"])
        .expect(2)
        .complains(&["--fragment"]);
    create(&["--engine", "page", "--mode", "durable", "--max-size", "32MiB"])
        .expect(2)
        .complains(&["--max-size", "fragment"]);
    let small =
        ["create", "cache", "--size", "64KiB", "--backing", "disk", "--engine", "page", "--mode", "durable"];
    place.mezz(&small).expect(2).complains(&["cache", "at least"]);
    assert!(!place.path("cache").exists());
    create(&["--engine", "page", "--mode", "durable", "--backing", "log=other"]).expect(0);
    let again = ["create", "cache", "--backing", "disk", "--engine", "page", "--mode", "through"];
    place.mezz(&again).expect(3).complains(&["cache", "a tier of Mezzanine", "--force"]);
    let attach =
        |arguments: &[&str]| place.mezz(&[&["attach", "cache", "--socket", "s"], arguments].concat());
    attach(&["--backing", "cache"]).expect(2).complains(&["its own cache"]);
    attach(&["--backing", "disk", "--write-mode", "around"])
        .expect(2)
        .complains(&["--write-mode", "fragment"]);
    attach(&["--backing", "disk", "--waits-per-mille", "20"])
        .expect(2)
        .complains(&["--waits-per-mille", "fragment"]);
    // Both have newest pages there.
    let attached = place.attach(&["cache", "--backing", "disk", "--backing", "log=other"]);
    place.mezz(&["create", "third", "--size", "16MiB", "--backing", "disk"]).expect(3).complains(&["disk"]);
    place.client("disk").write(0, &[1; PAGE]);
    place.client("log").write(0, &[2; PAGE]);
    attached.signal("-TERM");
    attached.end();
    attach(&["--backing", "disk"]).expect(3).complains(&["other", "--backing"]);
    let len =
        |bytes| std::fs::OpenOptions::new().write(true).open(place.path("other")).unwrap().set_len(bytes);
    len(MIB).unwrap();
    attach(&["--backing", "disk", "--backing", "other"]).expect(3).complains(&["other", "shrunk"]);
    len(2 * MIB).unwrap();
    // The sidecar is somewhere else.
    let (here, there) = (place.path("other.mezzanine"), place.path("kept"));
    std::fs::rename(&here, &there).unwrap();
    attach(&["--backing", "disk", "--backing", "other"]).expect(3).complains(&["other"]);
    std::fs::rename(&there, &here).unwrap();
    let attached = place.attach(&["cache", "--backing", "disk", "--backing", "log=other"]);
    assert!(place.client("log").read(0, PAGE as u32) == [2; PAGE]);
    assert!(place.client("disk").read(0, PAGE as u32) == [1; PAGE]);
    place.mezz(&["detach", "s", "--disconnect"]).expect(0);
    attached.end();
    assert!(std::fs::read(place.path("other")).unwrap()[..PAGE] == [2; PAGE]);
    assert!(!Path::new(&here).exists());
}

/// It is made anew instead, in a part of its device.
#[test]
fn it_keeps_its_size() {
    let place = place("durable");
    let refused = |cache: &str| {
        let parts = ["cache", "page engine", "mezz block detach", "mezz block create --engine page"];
        place.mezz(&["resize", cache, "--size", "8MiB"]).expect(3).complains(&parts);
    };
    refused("cache");
    let attached = place.attach(&["cache", "--backing", "disk"]);
    place.client("disk").write(0, &[1; PAGE]);
    refused("cache");
    refused("s");
    assert_eq!(page(&place)["pages_newer"], 1);
    place.mezz(&["detach", "s", "--disconnect"]).expect(0);
    attached.end();
    refused("cache");
    let create = ["create", "cache", "--size", "8MiB", "--engine", "page", "--mode", "durable", "--force"];
    let created = place.json(&[&create[..], &["--backing", "disk"]].concat());
    let bytes = |report: &Value| report["cache_bytes"].as_u64().unwrap();
    assert!((7 * MIB..=8 * MIB).contains(&bytes(&created)), "{created}");
    assert_eq!(std::fs::metadata(place.path("cache")).unwrap().len(), 16 * MIB);
    let _attached = place.attach(&["cache", "--backing", "disk"]);
    assert_eq!(bytes(&page(&place)), bytes(&created));
    assert!(place.client("disk").read(0, PAGE as u32) == [1; PAGE]);
}
