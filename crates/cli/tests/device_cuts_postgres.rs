//! The flush that is missing, in PostgreSQL on ext4: the server as it is, as it is when asked for less, and
//! with calls of fsync and fdatasync taken out.
//!
//! Needs root, for a loop device on a file of FUSE, and the programs of [`PROGRAMS`]; skipped without.
#![allow(clippy::unwrap_used)]

mod common;
mod mounting;

#[path = "mounting/postgres.rs"]
mod on_postgres;

#[path = "mounting/served.rs"]
mod served;

#[path = "common/serving.rs"]
mod serving;

use std::process::Command;

use common::Scratch;
use mounting::Image;
use mounting::missing;
use on_postgres::{BETWEEN_CHECKPOINTS, CHECK, MOUNT, Template, commit};
use serde_json::Value;
use served::{Marks, Mounted};
use serving::Serving;

const PROGRAMS: [&str; 10] =
    ["nbdfuse", "losetup", "mount", "umount", "mke2fs", "e2fsck", "unshare", "setpriv", "strace", "kill"];

const COMMITS: u64 = 40;

/// Cuts of a server that loses nothing. Each is a recovery.
const CUTS: u32 = 100;

/// How the flush that is absent is told.
#[derive(Debug, PartialEq, Eq)]
enum Told {
    /// It had to come behind this write.
    AfterAWrite,
    /// What is trusted in had not reached the device.
    NothingWritten,
    /// No flush is: a page is there in part.
    Torn,
}

/// What PostgreSQL is asked for, how its file system is mounted, and which calls do nothing: those with this
/// name, perhaps of one file alone.
#[derive(Clone, Copy)]
struct Setting {
    what: &'static str,
    settings: &'static [&'static str],
    mount: &'static [&'static str],
    without: Option<(&'static str, Option<&'static str>)>,
}

const AS_IT_IS: Setting = Setting { what: "as it is", settings: &[], mount: &[], without: None };

/// What is written reaches the device at once, flushed or not.
const DIRECT: &[&str] = &["debug_io_direct=data,wal"];

/// The kernel keeps what a checkpoint writes until somebody syncs it.
const KEPT: &[&str] = &["checkpoint_flush_after=0", "bgwriter_flush_after=0"];

/// The table whose file is meant.
const COUNTER: &str = "the counter";

/// Records PostgreSQL, and tries cuts.
fn tried(template: &Template, setting: &Setting, cuts: u32) -> Value {
    let scratch = Scratch::new();
    let (disk, recording, marks) = (scratch.file("disk"), scratch.file("rec"), scratch.file("marks"));
    template.image(&disk, 64 << 20);
    let serving = Serving::start(&scratch, &["--file", &disk, "--record", &recording, "--marks", &marks]);
    let below =
        template.folder().join(std::path::Path::new(&recording).parent().unwrap().file_name().unwrap());
    {
        let mounted = Mounted::on(&below, &serving.socket, setting.mount);
        let directory = mounted.folder.join("db");
        let mut strace = Vec::new();
        let (call, inject, path);
        if let Some((name, file)) = setting.without {
            call = format!("trace={name}");
            inject = format!("inject={name}:retval=0");
            strace.extend(["strace", "-f", "-o", "/dev/null", "-e", &call, "-e", &inject]);
            if let Some(file) = file {
                let file = if file == COUNTER { &template.counter } else { file };
                path = directory.join(file).display().to_string();
                strace.extend(["-P", &path]);
            }
        }
        let server = template.serve(&directory, setting.settings, &strace);
        let mut marks = Marks::to(&marks);
        let mut client = server.client();
        for row in 1..=COMMITS {
            commit(&mut client, row).unwrap();
            marks.say(&row.to_string());
            if row % BETWEEN_CHECKPOINTS == 0 {
                client.batch_execute("select pg_switch_wal(); checkpoint").unwrap();
            }
        }
        drop(client);
        server.end();
    }
    let said = serving.end_by("-TERM");
    assert!(said["recorded_events"].as_u64().unwrap() > COMMITS, "{said}");
    let check = format!("{MOUNT}{CHECK}");
    let mut command = Command::new("unshare");
    command.args(["--mount", env!("CARGO_BIN_EXE_mezz"), "device", "cuts", &recording, "--json"]);
    let image = Image::new();
    command.args(["--cuts", &cuts.to_string(), "--check", &check, "--image", &image.0]);
    let output = command.envs(template.environment()).output().unwrap();
    let said: Value =
        serde_json::from_slice(&output.stdout).unwrap_or_else(|_| panic!("{}: {output:?}", setting.what));
    assert_eq!(said["marks"], COMMITS);
    said
}

#[test]
#[ignore = "needs a PostgreSQL build, and makes it if there is none"]
fn postgres_is_in_order_where_it_promises_to_be() {
    if let Some(why) = missing(&PROGRAMS) {
        println!("skipped: {why}");
        return;
    }
    let template = Template::make("cuts");
    let said = tried(&template, &AS_IT_IS, CUTS);
    assert_eq!(said["ok"], true, "{said}");
    assert_eq!(said["cuts"], CUTS);
    println!("{} cuts of {} events", said["cuts"], said["events"]);
}

/// Each is found within 200 cuts, with the flush that is absent.
fn are_named(name: &str, settings: &[(Setting, Told)]) {
    if let Some(why) = missing(&PROGRAMS) {
        println!("skipped: {why}");
        return;
    }
    let template = Template::make(name);
    for (setting, told) in settings {
        let said = tried(&template, setting, 200);
        let (found, what) = (&said["found"], setting.what);
        let absent = &found["absent_flush"];
        println!(
            "{what}: {}; {} before {} in cut {}",
            found["why"], absent["after"], absent["before"], said["cuts"]
        );
        let mut taken = found["taken"].as_array().into_iter().flatten();
        let was = match (absent.is_object(), absent["after"].is_object()) {
            (true, true) => Told::AfterAWrite,
            (true, false) => Told::NothingWritten,
            (false, _) => {
                assert!(taken.any(|one| one["fate"] == "torn"), "{what}: {said}");
                Told::Torn
            }
        };
        assert_eq!(was, *told, "{what}: {said}");
    }
}

/// Settings of the server and of the file system that promise less.
#[test]
#[ignore = "needs a PostgreSQL build, and makes it if there is none"]
fn a_flush_that_postgres_is_told_to_leave_out_is_named() {
    let set = |what, settings| Setting { what, settings, ..AS_IT_IS };
    let no_barriers =
        Setting { what: "file system without barriers", mount: &["-o", "barrier=0"], ..AS_IT_IS };
    are_named(
        "told",
        &[
            (set("nothing synced", &["fsync=off"]), Told::NothingWritten),
            (set("commits not waited for", &["synchronous_commit=off"]), Told::NothingWritten),
            (set("no images of pages, which are torn", &["full_page_writes=off"]), Told::Torn),
            (no_barriers, Told::AfterAWrite),
        ],
    );
}

/// Calls that succeed and do nothing.
#[test]
#[ignore = "needs a PostgreSQL build, and makes it if there is none"]
fn a_flush_that_does_nothing_is_named() {
    let undone =
        |what, call, file, settings| Setting { what, settings, without: Some((call, file)), ..AS_IT_IS };
    are_named(
        "undone",
        &[
            (undone("log not synced", "fdatasync", None, &[]), Told::NothingWritten),
            (undone("log written directly, not synced", "fdatasync", None, DIRECT), Told::AfterAWrite),
            (
                undone("table not synced by the checkpoint", "fsync", Some(COUNTER), KEPT),
                Told::NothingWritten,
            ),
            (
                undone("states of commits not synced by the checkpoint", "fsync", Some("pg_xact/0000"), &[]),
                Told::NothingWritten,
            ),
            (
                // It goes on saying that the server was shut down in order, so nothing is recovered.
                undone("control file not synced", "fsync", Some("global/pg_control"), &[]),
                Told::NothingWritten,
            ),
        ],
    );
}
