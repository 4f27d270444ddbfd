//! PostgreSQL and MariaDB on ext4 on a cached volume: its process is killed with signal 9, and the power of
//! the cache device, of the volume's own device, and of both is cut. What was acknowledged is there, and
//! everything is in order.
//!
//! Needs root, for loop devices on files of FUSE, the programs of [`PROGRAMS`] and a server; skipped without.
#![allow(clippy::unwrap_used)]

mod common;
mod mounting;

#[path = "mounting/cached.rs"]
mod cached;

#[path = "mounting/mariadb.rs"]
mod on_mariadb;

#[path = "mounting/postgres.rs"]
mod on_postgres;

#[path = "mounting/served.rs"]
mod served;

#[path = "common/serving.rs"]
mod serving;

use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::time::Duration;

use cached::{Mounted, json};
use common::Scratch;
use mounting::database::Database;
use mounting::{missing, run};
use on_mariadb::SERVER;
use served::Shown;
use serving::Serving;

const PROGRAMS: [&str; 8] = ["nbdfuse", "losetup", "mount", "umount", "mke2fs", "e2fsck", "sync", "kill"];

/// Kills of the process that serves the volume.
const KILLS: &str = "MEZZANINE_DATABASE_KILLS";

fn create(scratch: &Scratch, cache: &str, backing: &str) {
    let backing = format!("disk={backing}");
    json(scratch, &["create", cache, "--fragment", "128KiB", "--backing", &backing]);
}

fn compare(scratch: &Scratch) {
    let said = json(scratch, &["check", "file", "--compare"]);
    assert_eq!((&said["blocks_differing"], &said["blocks_unreadable"]), (&0.into(), &0.into()), "{said}");
}

fn is_possible(server: &[&str]) -> bool {
    let why = missing(&[&PROGRAMS[..], server].concat());
    if let Some(why) = &why {
        println!("skipped: {why}");
    }
    why.is_none()
}

fn survives_kills(database: &dyn Database) {
    let kills: u64 = std::env::var(KILLS).map_or(2, |kills| kills.parse().unwrap());
    let scratch = Scratch::new();
    database.image(&scratch.file("disk"));
    std::fs::File::create(scratch.file("cache")).unwrap().set_len(32 << 20).unwrap();
    create(&scratch, "cache", "disk");
    let (below, mut acknowledged) = (database.folder(), 0);
    for kill in 0..kills {
        let mut mounted = Mounted::on(&scratch, "cache", "disk", &below.join("fs"));
        assert_eq!(database.broken(&below, acknowledged), None, "before kill {kill}");
        let mut session = database.begin(&mounted.folder.join("db"), &[], &[]);
        let there = session.rows();
        // One that was under way may have been carried out.
        assert!(there <= acknowledged + 1, "{there} rows, {acknowledged} were acknowledged");
        let worked = std::thread::scope(|scope| {
            let working = scope.spawn(|| session.commit_until_it_fails(there));
            std::thread::sleep(Duration::from_millis(700 + kill % 16 * 37));
            mounted.kill();
            working.join().unwrap()
        });
        acknowledged = worked;
    }
    assert!(acknowledged > 0, "nothing was committed before {kills} kills");
    let mounted = Mounted::on(&scratch, "cache", "disk", &below.join("fs"));
    assert_eq!(database.broken(&below, acknowledged), None, "at the end");
    compare(&scratch);
    drop(mounted);
    run("e2fsck", &["-fp", &scratch.file("disk")]);
    println!("{kills} kills, {acknowledged} commits");
}

#[test]
#[ignore = "needs a PostgreSQL build, and makes it if there is none"]
fn postgres_loses_nothing_when_the_cache_of_its_volume_is_killed() {
    if is_possible(&["setpriv"]) {
        survives_kills(&on_postgres::Template::make("killed"));
    }
}

#[test]
#[ignore = "for the nightly run: a minute"]
fn mariadb_loses_nothing_when_the_cache_of_its_volume_is_killed() {
    if is_possible(&SERVER) {
        survives_kills(&on_mariadb::Template::make());
    }
}

/// A modelled drive, served, as a file.
struct Drive {
    model: &'static str,
    // Taken apart in this order.
    shown: Option<Shown>,
    serving: Option<Serving>,
    scratch: Scratch,
}

impl Drive {
    fn of(model: &'static str) -> Self {
        Self { model, shown: None, serving: None, scratch: Scratch::new() }
    }

    fn image(&self) -> String {
        self.scratch.file("image")
    }

    fn is_on(&mut self, more: &[&str]) {
        let image = self.image();
        let usual = ["--model", self.model, "--image", &image, "--time-scale", "0.05"];
        let serving = self.serving.insert(Serving::start(&self.scratch, &[&usual, more].concat()));
        self.shown = Some(Shown::on(&self.scratch.0, &serving.socket));
    }

    fn file(&self) -> String {
        self.shown.as_ref().unwrap().file().display().to_string()
    }

    /// Whether its power has failed: its server ends with that.
    fn has_lost_power(&self) -> bool {
        self.serving.as_ref().is_some_and(|serving| !serving.socket.exists())
    }

    /// Waits for the cut of its power, or ends it in order, if it is on.
    fn is_off(&mut self, by_a_cut: bool) {
        let (shown, Some(serving)) = (self.shown.take(), self.serving.take()) else { return };
        if by_a_cut {
            let said = serving.end();
            assert_eq!(said["power_cuts"].as_array().map(Vec::len), Some(1), "{said}");
            drop(shown);
        } else {
            drop(shown);
            serving.end_by("-TERM");
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Cut {
    Cache,
    Backing,
    Both,
}

/// What something has come to; None if it has failed because the power of one of these had.
fn before_a_cut<T>(something: std::thread::Result<T>, drives: &[&Drive]) -> Option<T> {
    let failed = match something {
        Ok(something) => return Some(something),
        Err(failed) => failed,
    };
    // The server takes a moment to end.
    for _ in 0..200 {
        if drives.iter().any(|drive| drive.has_lost_power()) {
            return None;
        }
        std::thread::sleep(Duration::from_millis(10));
    }
    resume_unwind(failed)
}

/// One life, in which the power fails so many seconds after the drives have started. None if that was before
/// anything was committed.
fn survives(database: &dyn Database, cut: Cut, seconds: u64) -> Option<()> {
    let (mut cache, mut disk, scratch) = (Drive::of("ssd-a"), Drive::of("ssd-a"), Scratch::new());
    std::fs::File::create(cache.image()).unwrap().set_len(48 << 20).unwrap();
    database.image(&disk.image());
    let after = format!("{seconds}s");
    let when = |is_cut: bool| if is_cut { vec!["--power-cut-after", after.as_str()] } else { Vec::new() };
    let below = database.folder().join(format!("{cut:?}"));
    let (mut acknowledged, mut committed) = (0, false);
    let mounted = catch_unwind(AssertUnwindSafe(|| {
        cache.is_on(&when(cut != Cut::Backing));
        disk.is_on(&when(cut != Cut::Cache));
        create(&scratch, &cache.file(), &disk.file());
        Mounted::on(&scratch, &cache.file(), &disk.file(), &below.join("fs"))
    }));
    if let Some(mut mounted) = before_a_cut(mounted, &[&cache, &disk]) {
        let begin = || database.begin(&mounted.folder.join("db"), &[], &[]);
        if cut == Cut::Cache {
            // The volume goes on without its cache, so nothing fails from here on.
            let mut session = begin();
            while !cache.has_lost_power() {
                acknowledged += 1;
                assert!(session.commit(acknowledged));
            }
            if acknowledged > 0 {
                committed = true;
                println!("{cut:?}: after {acknowledged} commits the cache is {}", mounted.status()["health"]);
                // That costs speed and nothing else.
                for _ in 0..20 {
                    acknowledged += 1;
                    assert!(session.commit(acknowledged));
                }
            }
            session.end();
        } else if let Some(mut session) = before_a_cut(catch_unwind(AssertUnwindSafe(begin)), &[&disk]) {
            acknowledged = session.commit_until_it_fails(0);
            committed = acknowledged > 0;
            mounted.kill();
        }
    }
    cache.is_off(cut != Cut::Backing);
    disk.is_off(cut != Cut::Cache);
    if !committed {
        return None;
    }
    cache.is_on(&[]);
    disk.is_on(&[]);
    {
        let mounted = Mounted::on(&scratch, &cache.file(), &disk.file(), &below.join("fs"));
        assert_eq!(database.broken(&below, acknowledged), None, "{cut:?}");
        compare(&scratch);
        println!("{cut:?}: {acknowledged} commits; the cache begins with {}", mounted.status()["begins"]);
    }
    cache.is_off(false);
    disk.is_off(false);
    run("e2fsck", &["-fp", &disk.image()]);
    Some(())
}

#[test]
#[ignore = "needs a PostgreSQL build, and makes it if there is none"]
fn postgres_loses_nothing_when_devices_lose_their_power() {
    if !is_possible(&["setpriv"]) {
        return;
    }
    let template = on_postgres::Template::make("powerless");
    // How long a server takes to start depends on the machine.
    let mut seconds = 6;
    for cut in [Cut::Cache, Cut::Backing, Cut::Both] {
        while survives(&template, cut, seconds).is_none() {
            println!("{cut:?}: nothing was committed within {seconds} s");
            seconds *= 2;
            assert!(seconds < 500, "{cut:?}: nothing is ever committed");
        }
    }
}

/// How many of so many power cuts cost a database on a drive something, whose file system sends no flushes.
fn losses(database: &dyn Database, model: &'static str, cuts: u64) -> u64 {
    let mut losses = 0;
    for seed in 1..=cuts {
        let drive = Drive::of(model);
        database.image(&drive.image());
        let (image, writes, seed) = (drive.image(), (150 + seed * 40).to_string(), seed.to_string());
        let mut options = vec!["--model", model, "--image", &image, "--time-scale", "0.05"];
        options.extend(["--power-cut-after", &writes, "--seed", &seed]);
        let serving = Serving::start(&drive.scratch, &options);
        let below = database.folder().join(format!("{model}-{seed}"));
        let acknowledged = {
            let mounted = served::Mounted::on(&below, &serving.socket, &["-o", "barrier=0"]);
            let mut session = database.begin(&mounted.folder.join("db"), &[], &[]);
            session.commit_until_it_fails(0)
        };
        serving.end();
        let broken = database.broken_image(&image, &drive.scratch, acknowledged);
        println!("{model}, seed {seed}: {acknowledged} commits, {broken:?}");
        assert!(acknowledged > 0);
        losses += u64::from(broken.is_some());
    }
    losses
}

#[test]
#[ignore = "needs a PostgreSQL build, and makes it if there is none"]
fn without_barriers_a_volatile_drive_loses_commits_and_a_durable_one_does_not() {
    if !is_possible(&["setpriv"]) {
        return;
    }
    let template = on_postgres::Template::make("barriers");
    assert!(losses(&template, "ssd-a", 3) > 0);
    assert_eq!(losses(&template, "durassd", 3), 0);
}
