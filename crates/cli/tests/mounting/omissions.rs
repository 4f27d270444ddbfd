//! Databases that are recorded while they work, and power cuts of what they have written.

use std::process::Command;

use serde_json::Value;

use super::common::Scratch;
use super::mounting::database::{BETWEEN_CHECKPOINTS, Database, MOUNT};
use super::mounting::{Image, missing};
use super::served::{Marks, Mounted};
use super::serving::Serving;

/// What is needed besides the server.
pub(crate) const PROGRAMS: [&str; 9] =
    ["nbdfuse", "losetup", "mount", "umount", "mke2fs", "e2fsck", "strace", "kill", "sync"];

pub(crate) const COMMITS: u64 = 40;

/// Cuts of a server that loses nothing. Each is a recovery.
const CUTS: u32 = 100;

/// How what is missing is told.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Told {
    /// A flush is absent behind a write.
    AfterAWrite,
    /// A flush is absent, and what is trusted in may not have reached the device: that depends on what the
    /// kernel has written meanwhile.
    Absent,
    /// None is: a page is there in part, be it that a write is torn or that it takes several.
    Torn,
}

impl Told {
    fn is(&self, found: &Value) -> bool {
        let (absent, taken) = (&found["absent_flush"], found["taken"].as_array());
        match self {
            Self::AfterAWrite => absent["after"].is_object() && absent["before"].is_object(),
            Self::Absent => absent["before"].is_object(),
            Self::Torn => {
                let is_torn = taken.into_iter().flatten().any(|one| one["fate"] == "torn");
                absent.is_null() && is_torn
                    || absent["after"].is_null() && absent["before"]["kind"] == "write"
            }
        }
    }
}

/// What a server is asked for, how its file system is mounted, and which calls do nothing: those with these
/// names, perhaps of one file alone.
#[derive(Clone, Copy)]
pub(crate) struct Setting {
    pub(crate) what: &'static str,
    pub(crate) settings: &'static [&'static str],
    pub(crate) mount: &'static [&'static str],
    pub(crate) without: Option<(&'static str, Option<&'static str>)>,
}

pub(crate) const AS_IT_IS: Setting = Setting { what: "as it is", settings: &[], mount: &[], without: None };

/// What is answered is durable or not, as the drive likes.
pub(crate) const NO_BARRIERS: Setting =
    Setting { what: "file system without barriers", mount: &["-o", "barrier=0"], ..AS_IT_IS };

pub(crate) const fn set(what: &'static str, settings: &'static [&'static str]) -> Setting {
    Setting { what, settings, ..AS_IT_IS }
}

/// The file whose path the database knows.
pub(crate) const COUNTER: &str = "the counter";

/// Records a database, and tries cuts.
fn tried(database: &dyn Database, setting: &Setting, cuts: u32) -> Value {
    let scratch = Scratch::new();
    let (disk, recording, marks) = (scratch.file("disk"), scratch.file("rec"), scratch.file("marks"));
    database.image(&disk);
    let serving = Serving::start(&scratch, &["--file", &disk, "--record", &recording, "--marks", &marks]);
    let below = database.folder().join(scratch.0.file_name().unwrap());
    {
        let mounted = Mounted::on(&below, &serving.socket, setting.mount);
        let directory = mounted.folder.join("db");
        let mut strace = Vec::new();
        let (call, inject, path);
        if let Some((names, file)) = setting.without {
            call = format!("trace={names}");
            inject = format!("inject={names}:retval=0");
            strace.extend(["strace", "-f", "-o", "/dev/null", "-e", &call, "-e", &inject]);
            if let Some(file) = file {
                let file = if file == COUNTER { database.counter() } else { file };
                path = directory.join(file).display().to_string();
                strace.extend(["-P", &path]);
            }
        }
        let mut session = database.begin(&directory, setting.settings, &strace);
        let mut marks = Marks::to(&marks);
        for row in 1..=COMMITS {
            assert!(session.commit(row), "{}: row {row}", setting.what);
            marks.say(&row.to_string());
            if row % BETWEEN_CHECKPOINTS == 0 {
                assert!(session.checkpoint(), "{}", setting.what);
            }
        }
        session.end();
    }
    let said = serving.end_by("-TERM");
    assert!(said["recorded_events"].as_u64().unwrap() > COMMITS, "{said}");
    let check = format!("{MOUNT}{}", database.check());
    let mut command = Command::new(env!("CARGO_BIN_EXE_mezz"));
    command.args(["device", "cuts", &recording, "--json"]);
    let image = Image::new();
    command.args(["--cuts", &cuts.to_string(), "--check", &check, "--image", &image.0]);
    let output = command.envs(database.environment()).output().unwrap();
    let said: Value =
        serde_json::from_slice(&output.stdout).unwrap_or_else(|_| panic!("{}: {output:?}", setting.what));
    assert_eq!(said["marks"], COMMITS);
    said
}

/// Whether it can be tried here, with this server.
pub(crate) fn is_possible(server: &[&str]) -> bool {
    let why = missing(&[&PROGRAMS[..], server].concat());
    if let Some(why) = &why {
        println!("skipped: {why}");
    }
    why.is_none()
}

/// Nothing is lost as it is.
pub(crate) fn is_in_order(database: &dyn Database) {
    let said = tried(database, &AS_IT_IS, CUTS);
    assert_eq!(said["ok"], true, "{said}");
    assert_eq!(said["cuts"], CUTS);
    println!("in order after {CUTS} cuts of {} events", said["events"]);
}

/// Each is found within 200 cuts, with the flush that is absent.
pub(crate) fn are_named(database: &dyn Database, settings: &[(Setting, Told)]) {
    for (setting, told) in settings {
        let said = tried(database, setting, 200);
        let (found, what) = (&said["found"], setting.what);
        let absent = &found["absent_flush"];
        println!(
            "{what}: {}; {} before {} in cut {}",
            found["why"], absent["after"], absent["before"], said["cuts"]
        );
        assert!(told.is(found), "{what}: {told:?} is not: {said}");
    }
}
