//! `mezz block`: ends that do not wait for ever, and the folder that vouches for a cache afterwards.
#![allow(clippy::unwrap_used)]

mod common;
mod place;

#[allow(dead_code)]
#[path = "../../blockdev/tests/nbd/client.rs"]
mod client;

use std::os::unix::fs::{FileExt as _, symlink};
use std::path::PathBuf;
use std::process::Command;

use client::{Client, WRITE};
use place::{MIB, Place};
use serde_json::{Value, json};

/// A voucher that cannot be revoked, although it lies where it can be written: it can be added to alone.
struct Unrevocable(PathBuf);

impl Unrevocable {
    /// Of the one cache that is attached; none, with the reason on standard output, where that cannot be had.
    fn of(place: &Place) -> Option<Unrevocable> {
        let path = std::fs::read_dir(place.path("state")).unwrap().next().unwrap().unwrap().path();
        let done = Command::new("chattr").arg("+a").arg(&path).output();
        if done.as_ref().is_ok_and(|done| done.status.success()) {
            return Some(Unrevocable(path));
        }
        println!("skipped: chattr +a cannot be had here: {done:?}");
        None
    }
}

impl Drop for Unrevocable {
    fn drop(&mut self) {
        let _ = Command::new("chattr").arg("-a").arg(&self.0).status();
    }
}

const SETTLE: [&str; 2] = ["--settle", "100ms"];

/// Has the cache device lost, by a read that ends too early.
fn lose(place: &Place, read: impl FnOnce()) {
    std::fs::OpenOptions::new().write(true).open(place.path("cache")).unwrap().set_len(512 << 10).unwrap();
    read();
}

fn status(place: &Place, name: &str) -> Value {
    place.json(&["status", name])["cache"].clone()
}

#[test]
fn detach_does_not_wait_for_a_write_that_waits_for_ever() {
    let place = Place::with_cache();
    let attached = place.attach(&[&["cache", "--backing", "disk"], &SETTLE[..]].concat());
    let mut disk = place.client("disk");
    place.warm(&mut disk, 0);
    place.wait("it settles", || place.counter("unstable") == 0);
    let Some(_voucher) = Unrevocable::of(&place) else { return };
    lose(&place, || assert_eq!(disk.read(0, 4096), [0; 4096]));
    assert_eq!(status(&place, "s")["health"], "lost");
    disk.send_request(WRITE, 0, 0, 4096, &[7; 4096]);
    place.wait("a write that waits", || status(&place, "s")["writes_waiting"] == 1);
    let why = status(&place, "s")["survives_no_crash"].as_str().unwrap().to_owned();
    assert!(why.contains("cannot be revoked"), "{why}");
    let said = place.mezz(&["detach", "s", "--disconnect", "--within", "1s"]).expect(0).stdout;
    assert!(said.contains("1 writes waited for the cache device"), "{said}");
    const EIO: u32 = 5;
    assert_eq!(disk.reply(0).error, EIO);
    let (_, told) = attached.end();
    assert!(told.contains("nothing of them was written"), "{told}");
    assert_eq!(std::fs::read(place.path("disk")).unwrap()[..4096], [0; 4096]);
}

#[test]
fn a_signal_ends_a_file_whose_write_waits_for_ever() {
    let place = Place::with_cache();
    let Some(attached) = place.show(&SETTLE) else { return };
    let file = std::fs::OpenOptions::new().read(true).write(true).open(place.path("file")).unwrap();
    file.read_exact_at(&mut [0; 4096], 0).unwrap();
    place.wait("it settles", || {
        let counters = status(&place, "file")["counters"].clone();
        counters["populations_done"] == 1 && counters["unstable"] == 0
    });
    let Some(_voucher) = Unrevocable::of(&place) else { return };
    lose(&place, || file.read_exact_at(&mut [0; 4096], 0).unwrap());
    std::thread::scope(|scope| {
        let writing = scope.spawn(|| file.write_all_at(&[7; 4096], 0));
        place.wait("a write that waits", || status(&place, "file")["writes_waiting"] == 1);
        attached.signal("-TERM");
        let error = writing.join().unwrap().unwrap_err();
        assert_eq!(error.raw_os_error(), Some(rustix::io::Errno::IO.raw_os_error()), "{error}");
    });
    let (said, told) = attached.end();
    assert_eq!(said["cache"]["counters"]["writes_unmarked"], 1);
    assert!(told.contains("nothing of them was written"), "{told}");
    assert_eq!(std::fs::read(place.path("disk")).unwrap()[..4096], [0; 4096]);
}

#[test]
fn the_folder_of_vouchers_may_be_a_link() {
    let place = Place::with_cache();
    std::fs::create_dir(place.path("elsewhere")).unwrap();
    let _ = std::fs::remove_dir_all(place.path("state"));
    symlink("elsewhere", place.path("state")).unwrap();
    let attached = place.attach(&[&["cache", "--backing", "disk"], &SETTLE[..]].concat());
    let mut disk = place.client("disk");
    disk.write(MIB, &[3; 4096]);
    place.warm(&mut disk, MIB);
    place.wait("it settles", || place.counter("unstable") == 0);
    assert_eq!(status(&place, "s")["survives"], "crash");
    attached.kill();
    let _attached = place.attach(&["cache", "--backing", "disk"]);
    assert_eq!(place.counter("slots_used"), 1);
    let mut disk: Client = place.client("disk");
    assert_eq!((disk.read(MIB, 4096), place.counter("reads_hit")), (vec![3; 4096], 1));
    assert!(place.path("state").is_symlink());
    assert_eq!(status(&place, "s")["survives_no_crash"], json!(null));
}
