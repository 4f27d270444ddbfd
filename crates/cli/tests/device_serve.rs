//! `mezz device serve`: what clients of the running program see, and what is left when its power has failed.
#![allow(clippy::unwrap_used)]

mod common;

#[path = "common/serving.rs"]
mod serving;

#[allow(dead_code)]
#[path = "../../blockdev/tests/nbd/client.rs"]
mod client;

use std::io::{BufRead as _, Read as _};

use client::*;
use common::{Scratch, mezz};
use mezzanine_ground::random::Random;
use serving::Serving;

#[test]
fn a_file_is_served_until_a_signal_and_keeps_what_was_written() {
    let scratch = Scratch::new();
    let path = scratch.file("disk");
    std::fs::write(&path, vec![1; 1 << 20]).unwrap();
    for (signal, byte) in [("-TERM", 2u8), ("-INT", 3)] {
        let serving = Serving::start(&scratch, &["--file", &path, "--name", "disk"]);
        let mut client = Client::begin(&serving.socket, "disk", true);
        client.write(4096, &[byte; 4096]);
        // Somebody else who writes to the same file would not see this one's locks.
        mezz(&["device", "serve", "--socket", &scratch.file("t"), "--file", &path])
            .expect(3)
            .complains(&[&path, "already open"]);
        let said = serving.end_by(signal);
        assert_eq!((&said["clients"], &said["size_bytes"]), (&1.into(), &(1 << 20).into()));
        assert!(client.is_closed());
        assert_eq!(std::fs::read(&path).unwrap()[4096..8192], [byte; 4096]);
    }
    let serving = Serving::start(&scratch, &["--file", &path, "--read-only", "--block-size", "4096"]);
    let mut client = Client::begin(&serving.socket, "", true);
    assert_eq!(client.request(WRITE, 0, 0, 4096, &[0; 4096]).error, 1);
    assert_eq!(client.error(READ, 0, 512, 512), 22);
    assert_eq!(client.read(4096, 4096), [3; 4096]);
}

const BLOCKS: usize = 32;

/// What a block may hold after a cut: what was durable, and what was written since.
type Versions = Vec<u8>;

/// Writes a block, whole, of this version; false if the power has failed meanwhile.
fn try_write(client: &mut Client, block: usize, version: u8) -> bool {
    client.send_request(WRITE, 0, block as u64 * 4096, 4096, &[version; 4096]);
    let mut reply = [0; 16];
    client.stream.read_exact(&mut reply).is_ok() && reply[4..8] == [0; 4]
}

/// Writes at random until the power has failed, `lives` times, and looks after each restart at every block.
/// Returns how many blocks had lost something that was acknowledged.
fn live_through_cuts(serving: &mut Serving, lives: u8, is_volatile: bool) -> u32 {
    let (mut random, mut lost, mut version) = (Random::new(11), 0, 0u8);
    let mut blocks: Vec<Versions> = vec![vec![0]; BLOCKS];
    let mut acknowledged = [0u8; BLOCKS];
    for life in 0..=lives {
        if life > 0 {
            serving.wait_for("started again");
        }
        let mut client = Client::begin(&serving.socket, "", false);
        for (block, versions) in blocks.iter_mut().enumerate() {
            let found = client.read(block as u64 * 4096, 4096);
            for sector in found.chunks(512) {
                assert!(sector.iter().all(|byte| *byte == sector[0]), "block {block}: torn in a sector");
                assert!(versions.contains(&sector[0]), "block {block}: {} of {versions:?}", sector[0]);
            }
            // On a drive with a volatile cache a block may be of several versions now.
            let place = |byte: u8| versions.iter().position(|version| *version == byte);
            lost += u32::from(found.iter().any(|&byte| place(byte) < place(acknowledged[block])));
            assert!(is_volatile || found.iter().all(|byte| *byte == found[0]), "block {block}: torn");
            *versions = vec![found[0]];
            acknowledged[block] = found[0];
        }
        if life == lives {
            break;
        }
        if is_volatile {
            for (block, versions) in blocks.iter_mut().enumerate() {
                version = version.wrapping_add(1);
                assert!(try_write(&mut client, block, version));
                *versions = vec![version];
                acknowledged[block] = version;
            }
            assert_eq!(client.error(FLUSH, 0, 0, 0), 0);
        }
        let mut writes = 0;
        loop {
            version = version.wrapping_add(1);
            let block = random.below(BLOCKS as u64) as usize;
            blocks[block].push(version);
            writes += 1;
            if !try_write(&mut client, block, version) {
                break;
            }
            acknowledged[block] = version;
            if !is_volatile {
                // Acknowledged is durable: nothing older may be found.
                blocks[block] = vec![version];
            } else if writes == 20 {
                assert_eq!(client.error(FLUSH, 0, 0, 0), 0);
                blocks.iter_mut().for_each(|versions| *versions = versions.split_off(versions.len() - 1));
            }
        }
        assert!(client.is_closed(), "nobody stays who was there before the cut");
    }
    lost
}

/// Every write that was acknowledged is there after every cut, whole, on a drive whose cache capacitors keep.
#[test]
fn a_durable_drive_loses_nothing_at_power_cuts() {
    let scratch = Scratch::new();
    let image = scratch.file("image");
    let options = ["--model", "durassd", "--size", "128KiB", "--image", &image, "--time-scale", "0.01"];
    let mut serving =
        Serving::start(&scratch, &[&options[..], &["--power-cut-after", "60", "--restart"]].concat());
    live_through_cuts(&mut serving, 5, false);
    let mut client = Client::begin(&serving.socket, "", false);
    let last = client.read(0, 128 << 10);
    let said = serving.end_by("-TERM");
    let cuts = said["power_cuts"].as_array().unwrap();
    assert_eq!(cuts.len(), 5, "{said}");
    assert!(cuts.iter().all(|cut| cut["lost"] == 0 && cut["torn"] == 0 && cut["writes"] == 60), "{said}");
    assert!(std::fs::read(&image).unwrap() == last, "the image has what the drive had");
    let mut again =
        Serving::start(&scratch, &["--model", "durassd", "--image", &image, "--power-cut-after", "1"]);
    let mut client = Client::begin(&again.socket, "", false);
    assert!(client.read(0, 128 << 10) == last);
    assert!(!try_write(&mut client, 0, 1));
    // Without --restart it ends by itself.
    again.wait_for("the power failed after");
    assert_eq!(again.end()["power_cuts"].as_array().unwrap().len(), 1);
}

/// On a drive with a volatile cache what was flushed is there, and of the rest some is not.
#[test]
fn a_volatile_drive_loses_what_was_not_flushed_at_power_cuts() {
    let scratch = Scratch::new();
    let options = ["--model", "ssd-a", "--size", "128KiB", "--time-scale", "0.01", "--seed", "7"];
    let mut serving =
        Serving::start(&scratch, &[&options[..], &["--power-cut-after", "70", "--restart"]].concat());
    let lost = live_through_cuts(&mut serving, 8, true);
    assert!(lost > 0, "something that was acknowledged and not flushed is gone");
    let said = serving.end_by("-TERM");
    let cuts = said["power_cuts"].as_array().unwrap();
    let taken = |what: &str| cuts.iter().map(|cut| cut[what].as_u64().unwrap()).sum::<u64>();
    assert_eq!(cuts.len(), 8, "{said}");
    assert!(taken("lost") + taken("torn") > 0 && taken("kept") > 0, "{said}");
}

/// A small drive from the inside, of which a power cut may make this.
fn small_drive(scratch: &Scratch, name: &str, cache: &str, anomalies: &str) -> String {
    let durable = cache == "durable";
    let mut model = include_str!("../../device/models/ssd-a.toml")
        .replace("name = \"ssd-a\"", &format!("name = \"{name}\""))
        .replace("capacity_bytes = 240_000_000_000", "capacity_bytes = 7_000_002_560")
        .replace("channels = 8", "channels = 1")
        .replace("packages_per_channel = 4", "packages_per_channel = 1")
        .replace("kind = \"volatile\"", &format!("kind = \"{cache}\""))
        .replace("buffer_bytes = 33_554_432", "buffer_bytes = 131_072")
        .replace("dirty_entries_max = 1_048_576", "dirty_entries_max = 4096")
        .replace("volatile_cache = true", &format!("volatile_cache = {}", !durable));
    model += match durable {
        true => "[ssd.cache.dump]\nhold_up_ms = 10\nmb_per_s = 100\n".to_owned(),
        false => format!("[ssd.power_loss]\nanomalies = [{anomalies}]\n"),
    }
    .as_str();
    let path = scratch.file(&format!("{name}.toml"));
    std::fs::write(&path, model).unwrap();
    path
}

/// The drive's own controller says what is left: the same promises, without anything drawn.
#[test]
fn drives_from_the_inside_keep_what_they_promise() {
    let scratch = Scratch::new();
    for (cache, anomalies) in [("durable", ""), ("volatile", ""), ("volatile", "\"reordered\"")] {
        let model = small_drive(&scratch, "small", cache, anomalies);
        let image = scratch.file("image");
        let _ = std::fs::remove_file(&image);
        let mut options = vec!["--model", &model, "--size", "8MiB", "--inside", "--restart"];
        options.extend(["--power-cut-after", "70", "--time-scale", "0.01", "--image", &image]);
        let mut serving = Serving::start(&scratch, &options);
        let lost = live_through_cuts(&mut serving, 6, cache == "volatile");
        let mut client = Client::begin(&serving.socket, "", false);
        let last = client.read(0, 128 << 10);
        let said = serving.end_by("-TERM");
        let cuts = said["power_cuts"].as_array().unwrap();
        let taken = |what: &str| cuts.iter().map(|cut| cut[what].as_u64().unwrap()).sum::<u64>();
        assert_eq!((cuts.len(), taken("damaged_units")), (6, 0), "{said}");
        assert!(cuts.iter().all(|cut| cut["dead"].is_null()), "{said}");
        assert_eq!(lost > 0, cache == "volatile", "{cache} {anomalies}: {lost} blocks lost something");
        // The write that was under way was not acknowledged.
        let older = taken("older_units");
        assert!(if cache == "volatile" { older > 0 } else { older <= 6 }, "{said}");
        assert!(std::fs::read(&image).unwrap()[..128 << 10] == last, "the image has what the drive had");
    }
}

/// Until one is dead, and says so: it is not started again.
#[test]
fn a_drive_from_the_inside_may_die() {
    let scratch = Scratch::new();
    let model = small_drive(&scratch, "mortal", "volatile", "\"dead\"");
    let mut options = vec!["--model", &model, "--size", "8MiB", "--inside", "--restart"];
    options.extend(["--power-cut-after", "300", "--time-scale", "0.01"]);
    let mut serving = Serving::start(&scratch, &options);
    let mut said = String::new();
    for life in 0..200 {
        let mut client = Client::begin(&serving.socket, "", false);
        for number in 0u64.. {
            // More than there is flash, so that blocks are collected and the map changes behind the journal.
            let bytes = vec![life; 64 << 10];
            client.send_request(WRITE, 0, number * 37 % 128 * (64 << 10), 64 << 10, &bytes);
            let mut reply = [0; 16];
            if client.stream.read_exact(&mut reply).is_err() || reply[4..8] != [0; 4] {
                break;
            }
        }
        said.clear();
        while !said.contains("started again") && !said.contains("is dead") {
            assert!(serving.told.read_line(&mut said).unwrap() > 0, "{said}");
        }
        if said.contains("is dead") {
            break;
        }
    }
    assert!(said.contains("mortal is dead") && said.contains("replace it"), "{said}");
    let ended = serving.end();
    let last = ended["power_cuts"].as_array().unwrap().last().unwrap().clone();
    assert!(last["dead"].as_str().unwrap().contains("mortal is dead"), "{ended}");
}

#[test]
fn a_power_cut_comes_when_its_time_has_come() {
    let scratch = Scratch::new();
    let mut serving = Serving::start(
        &scratch,
        &["--model", "cloud-volume", "--size", "1MiB", "--time-scale", "0.01", "--power-cut-after", "300ms"],
    );
    let mut client = Client::begin(&serving.socket, "", false);
    serving.wait_for("the power failed after");
    assert!(client.is_closed());
    let said = serving.end();
    assert!(said["power_cuts"][0]["seconds"].as_f64().unwrap() >= 0.3, "{said}");
}

#[test]
fn what_cannot_be_served_is_refused_with_what_to_do() {
    let scratch = Scratch::new();
    let (socket, empty, image) = (scratch.file("s"), scratch.file("empty"), scratch.file("image"));
    std::fs::write(&empty, "").unwrap();
    std::fs::write(&image, vec![0; 8192]).unwrap();
    let refused = |arguments: &[&str], code: i32, parts: &[&str]| {
        let all = [&["device", "serve"], arguments].concat();
        mezz(&all).expect(code).complains(parts);
    };
    let at = |others: &[&'static str]| -> Vec<String> {
        ["--socket", &socket].iter().chain(others).map(|part| part.to_string()).collect()
    };
    let refused_at = |others: &[&'static str], code: i32, parts: &[&str]| {
        let arguments = at(others);
        refused(&arguments.iter().map(String::as_str).collect::<Vec<_>>(), code, parts);
    };
    refused(&["--file", &image], 2, &["--socket", "--listen"]);
    refused(&["--socket", &socket], 2, &["--file", "--model"]);
    refused(&["--socket", &image, "--file", &image], 3, &["something else than a socket"]);
    refused(&["--socket", &socket, "--file", &empty], 3, &["it is empty", "truncate"]);
    refused(&["--socket", &socket, "--model", "durassd", "--image", &image, "--size", "4KiB"], 3, &["8192"]);
    refused(&["--listen", "0.0.0.0:0", "--file", &image], 3, &["0.0.0.0", "encrypted", "--insecure"]);
    let pem: &[&str] =
        &["--listen", "0.0.0.0:0", "--tls-certificate", &image, "--tls-key", &image, "--file", &image];
    refused(pem, 3, &["image", "PEM"]);
    refused(&pem[..4], 2, &["--tls-key"]);
    refused_at(&["--file", "/no/such"], 3, &["/no/such", "check the path"]);
    refused_at(&["--file", "/"], 3, &["directory"]);
    refused_at(&["--model", "nothing", "--size", "1MB"], 3, &["nothing", "mezz device list"]);
    refused_at(&["--model", "durassd"], 2, &["--size", "--image"]);
    refused_at(&["--model", "durassd", "--size", "1TB"], 3, &["480 GB", "another model"]);
    refused_at(&["--model", "durassd", "--size", "1MB"], 3, &["multiple of 512"]);
    refused_at(&["--model", "durassd", "--size", "1MiB", "--cache", "1MiB"], 2, &["no volatile cache"]);
    refused_at(&["--model", "durassd", "--size", "1MiB", "--power-cut-after", "soon"], 2, &["30s"]);
    refused_at(&["--model", "cloud-volume", "--size", "1MiB", "--inside"], 3, &["[ssd]", "durassd"]);
    refused_at(&["--model", "durassd", "--size", "1MiB", "--inside"], 3, &["too little", "give more"]);
    refused_at(&["--model", "ssd-a", "--size", "1000448", "--inside"], 3, &["4096", "multiple"]);
    refused_at(&["--model", "ssd-a", "--size", "1MiB", "--inside", "--cache", "1MiB"], 2, &["--cache"]);
    refused_at(&["--model", "durassd", "--size", "1MiB", "--restart"], 2, &["--power-cut-after"]);
    refused_at(&["--model", "durassd", "--size", "1MiB", "--block-size", "100"], 2, &["power of two"]);
}

#[test]
fn a_block_device_is_refused_where_the_kernel_makes_none() {
    let scratch = Scratch::new();
    let path = scratch.file("disk");
    std::fs::write(&path, vec![0; 1 << 20]).unwrap();
    mezz(&["device", "ublk-delete", &path]).expect(3).complains(&[&path, "no block device of ublk"]);
    mezz(&["device", "serve", "--ublk", "--model", "durassd", "--size", "1MiB", "--power-cut-after", "1s"])
        .expect(2)
        .complains(&["--ublk", "--power-cut-after"]);
    if std::path::Path::new("/dev/ublk-control").exists() {
        println!("skipped: this kernel has ublk; crates/blockdev/guest/run tries it");
        return;
    }
    let parts = ["--ublk", "the kernel has no ublk", "modprobe ublk_drv", "--socket"];
    mezz(&["device", "serve", "--ublk", "--file", &path]).expect(3).complains(&parts);
    mezz(&["block", "attach", "--without-cache", "--ublk", "--backing", &path]).expect(3).complains(&parts);
    mezz(&["device", "ublk-delete", "/dev/ublkb0"]).expect(3).complains(&["/dev/ublkb0", "not there"]);
}
