//! `mezz pg`: what it refuses without a server, and the life of one.
//!
//! Tests that need a server are ignored: they make it in the user's own cache, once, which takes minutes.
//! `./test` runs them.
#![allow(clippy::unwrap_used)]

mod common;

use std::io::Read as _;
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use common::server::{Open, build as server, port, text};
use common::{Done, Scratch};

/// Nothing listens there, so whoever would fetch something is told so at once.
const NO_NETWORK: &str = "http://127.0.0.1:9";

/// Runs `mezz pg` with a cache of its own and no network.
fn pg(cache: &Path, arguments: &[&str], environment: &[(&str, &str)]) -> Done {
    let mut command = Command::new(env!("CARGO_BIN_EXE_mezz"));
    command.arg("pg").args(arguments).env("MEZZANINE_CACHE", cache);
    for name in ["http_proxy", "https_proxy", "HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY"] {
        command.env(name, NO_NETWORK);
    }
    command.env_remove("no_proxy").env_remove("NO_PROXY").envs(environment.iter().copied());
    let output = command.output().unwrap();
    Done {
        code: output.status.code().unwrap_or(-1),
        stdout: String::from_utf8(output.stdout).unwrap(),
        stderr: String::from_utf8(output.stderr).unwrap(),
    }
}

/// A directory with links to the programs that a build needs, without some of them.
fn tools_without(scratch: &Scratch, left_out: &[&str]) -> String {
    let directory = scratch.0.join("tools");
    std::fs::create_dir_all(&directory).unwrap();
    let path = std::env::var_os("PATH").unwrap();
    for name in
        ["cc", "gcc", "make", "bison", "flex", "perl", "tar", "bzip2", "patch", "pkg-config", "curl", "as"]
    {
        let found = std::env::split_paths(&path).map(|d| d.join(name)).find(|file| file.exists());
        if let (Some(file), false) = (found, left_out.contains(&name)) {
            symlink(file, directory.join(name)).unwrap();
        }
    }
    directory.display().to_string()
}

/// Whether this machine could build at all; the tests of what comes after the tools were found need them.
fn can_build() -> bool {
    let scratch = Scratch::new();
    let done = pg(&scratch.0, &["build"], &[]);
    !done.stderr.contains("build tools")
}

#[test]
fn another_major_version_and_unknown_releases_are_refused() {
    let scratch = Scratch::new();
    pg(&scratch.0, &["build", "--version", "16.4"], &[]).expect(3).complains(&[
        "PostgreSQL 16.4",
        "for PostgreSQL 17",
        "17.11",
    ]);
    pg(&scratch.0, &["build", "--version", "17.999"], &[]).expect(3).complains(&[
        "PostgreSQL 17.999",
        "checksum",
        "--sha256",
    ]);
    pg(&scratch.0, &["build", "--sha256", "nonsense"], &[]).expect(2).complains(&["64 hexadecimal digits"]);
}

#[test]
fn missing_tools_are_named_all_at_once_with_the_command_that_installs_them() {
    let scratch = Scratch::new();
    let path = tools_without(&scratch, &["bison", "flex"]);
    let done = pg(&scratch.0, &["build"], &[("PATH", &path)]).expect(3);
    done.complains(&["build tools", "bison", "flex", "apt-get install", "bison flex"]);
    let empty = scratch.file("empty");
    std::fs::create_dir(&empty).unwrap();
    pg(&scratch.0, &["build"], &[("PATH", &empty)])
        .expect(3)
        .complains(&["cc, make, bison, flex, perl, tar, bzip2, patch", "--without-icu"]);
}

#[test]
fn a_wrong_archive_is_refused_by_its_checksum() {
    if !can_build() {
        return;
    }
    let scratch = Scratch::new();
    let archive = scratch.file("postgresql-17.11.tar.bz2");
    std::fs::write(&archive, "not PostgreSQL").unwrap();
    pg(&scratch.0, &["build", "--source", &archive], &[]).expect(3).complains(&[
        &archive,
        "not the source of PostgreSQL 17.11",
        "dd27f2b3c59e73ed14aa3324901242bf69a032a6347805f274e6260322d42979",
        "supply the released postgresql-17.11.tar.bz2",
    ]);
    let nowhere = scratch.file("nowhere.tar.bz2");
    pg(&scratch.0, &["build", "--source", &nowhere], &[]).expect(3).complains(&[&nowhere, "No such file"]);
}

#[test]
fn without_archive_and_network_it_says_what_to_supply() {
    if !can_build() {
        return;
    }
    let scratch = Scratch::new();
    let done = pg(&scratch.0, &["build"], &[]).expect(3);
    done.complains(&["deb.debian.org", "ftp.postgresql.org", "--source", "postgresql-17.11.tar.bz2"]);
    // A damaged archive in the cache is not used, and does not stay in the way.
    let kept = scratch.0.join("sources/postgresql-17.11.tar.bz2");
    std::fs::write(&kept, "damaged").unwrap();
    pg(&scratch.0, &["build"], &[]).expect(3).complains(&["it is fetched again", "cannot be fetched"]);
    assert!(!kept.exists());
    let path = tools_without(&scratch, &["curl"]);
    pg(&scratch.0, &["build"], &[("PATH", &path)]).expect(3).complains(&["no curl"]);
}

#[test]
fn a_build_that_breaks_off_shows_its_log_and_is_not_taken_for_one() {
    if !can_build() {
        return;
    }
    let scratch = Scratch::new();
    // An archive that is none, vouched for by its checksum: unpacking fails.
    let archive = scratch.file("postgresql-17.999.tar.bz2");
    std::fs::write(&archive, "not an archive").unwrap();
    let sum = Command::new("sha256sum").arg(&archive).output().unwrap();
    let sum = String::from_utf8(sum.stdout).unwrap()[..64].to_owned();
    let arguments = ["build", "--version", "17.999", "--source", &archive, "--sha256", &sum];
    for _ in 0..2 {
        pg(&scratch.0, &arguments, &[]).expect(3).complains(&["unpacking the source", ".log"]);
    }
}

/// `./test` asks for it first: a release that the mirrors no longer have must not look like a fault of the
/// tree.
#[test]
fn the_source_alone_needs_no_tools_and_is_found_in_the_cache() {
    let scratch = Scratch::new();
    let missing = pg(&scratch.0, &["build", "--fetch-only"], &[]).expect(3);
    missing.complains(&["cannot be fetched", "deb.debian.org/debian-security", "--source"]);
    let archive = scratch.file("sources/postgresql-17.999.tar.bz2");
    std::fs::write(&archive, "what somebody has put there").unwrap();
    let sum = Command::new("sha256sum").arg(&archive).output().unwrap();
    let sum = String::from_utf8(sum.stdout).unwrap()[..64].to_owned();
    let arguments = ["build", "--fetch-only", "--version", "17.999", "--sha256", &sum];
    let path = tools_without(&scratch, &["cc", "make", "bison", "flex", "curl"]);
    let found = pg(&scratch.0, &arguments, &[("PATH", &path)]).expect(0);
    assert!(found.stdout.contains(&archive), "{}", found.stdout);
    assert!(!scratch.0.join("postgresql").exists(), "nothing is built");
}

#[test]
fn two_builds_of_one_thing_wait_for_each_other() {
    if !can_build() {
        return;
    }
    let scratch = Scratch::new();
    let archive = scratch.file("postgresql-17.11.tar.bz2");
    std::fs::write(&archive, "not PostgreSQL").unwrap();
    // The first run leaves the lock's file, which somebody else then holds for a while.
    let run = || pg(&scratch.0, &["build", "--source", &archive], &[]).expect(3);
    assert!(!run().stderr.contains("waiting"));
    let lock = std::fs::read_dir(scratch.0.join("postgresql"))
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .find(|path| path.extension().is_some_and(|kind| kind == "lock"))
        .unwrap();
    let mut holder = Command::new("flock")
        .arg(&lock)
        .args(["-c", "echo; exec sleep 2"])
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut line = [0];
    holder.stdout.take().unwrap().read_exact(&mut line).unwrap();
    let started = Instant::now();
    run().complains(&["waiting for another build", ".lock"]);
    assert!(started.elapsed() > Duration::from_secs(1));
    holder.wait().unwrap();
}

#[test]
fn caches_that_postgresql_cannot_be_built_into_are_refused() {
    let scratch = Scratch::new();
    pg(&scratch.0.join("with space"), &["build"], &[])
        .expect(3)
        .complains(&["with space", "MEZZANINE_CACHE"]);
}

#[test]
fn data_directories_that_are_none_are_refused() {
    let scratch = Scratch::new();
    let directory = scratch.file("nothing");
    for verb in ["start", "stop", "status", "drain"] {
        pg(&scratch.0, &[verb, "--pgdata", &directory], &[]).expect(3).complains(&[
            &directory,
            "not a data directory",
            "mezz pg init",
        ]);
        pg(&scratch.0, &[verb], &[("PGDATA", "")]).expect(2).complains(&["--pgdata", "PGDATA"]);
    }
    std::fs::create_dir(&directory).unwrap();
    std::fs::write(Path::new(&directory).join("precious"), "").unwrap();
    pg(&scratch.0, &["init", "--pgdata", &directory], &[]).expect(3).complains(&[&directory, "not empty"]);
    let (new, inside) = (scratch.file("new"), scratch.file("new/flash"));
    pg(&scratch.0, &["init", "--pgdata", &new, "--flash", &inside, "--flash-size", "64MiB"], &[])
        .expect(3)
        .complains(&["must not lie in the data directory"]);
    pg(&scratch.0, &["init", "--pgdata", &new, "--postgres", &directory], &[])
        .expect(3)
        .complains(&["bin/postgres", "--postgres"]);
    assert!(!Path::new(&new).exists(), "nothing was made");
}

#[test]
#[ignore = "needs a PostgreSQL build, and makes it if there is none"]
fn a_build_is_made_once() {
    let (first, again) = (server(), server());
    assert_eq!(again["cached"], true);
    assert_eq!(first["prefix"], again["prefix"]);
    let output = Command::new(text(&again, "pg_config")).arg("--includedir-server").output().unwrap();
    let directory = String::from_utf8(output.stdout).unwrap();
    assert!(Path::new(directory.trim()).join("storage/buftier.h").exists());
    let output = Command::new(text(&again, "pg_config")).arg("--pkglibdir").output().unwrap();
    let directory = String::from_utf8(output.stdout).unwrap();
    assert!(Path::new(directory.trim()).join("mezzanine.so").exists());
    assert!(directory.starts_with(text(&again, "prefix")), "the copy knows its own place");
}

#[test]
#[ignore = "needs a PostgreSQL build, and makes it if there is none"]
fn a_server_is_made_started_asked_and_stopped() {
    let build = server();
    let open = Open::new("life");
    let (directory, flash, port) = (open.file("db"), open.file("flash.mezz"), port());
    let made = common::mezz(&[
        "pg",
        "init",
        "--json",
        "--pgdata",
        &directory,
        "--postgres",
        text(&build, "prefix"),
        "--flash",
        &flash,
        "--flash-size",
        "64MiB",
        "--sync-mode",
        "through",
        "--design",
        "face-gr",
        "--shared-buffers",
        "4MiB",
        "--port",
        &port,
        "--set",
        "work_mem=5MB",
        "--initdb",
        "--locale=C",
    ])
    .expect(0)
    .json();
    let settings = std::fs::read_to_string(text(&made, "settings")).unwrap();
    for line in ["mezzanine.flash_size = 64MB", "mezzanine.sync_mode = 'through'", "work_mem = '5MB'"] {
        assert!(settings.contains(line), "{line} in:\n{settings}");
    }
    let status = |running: bool| {
        let done = common::mezz(&["pg", "status", "--json", "--pgdata", &directory]);
        let done = done.expect(if running { 0 } else { 1 });
        assert_eq!(done.json()["running"], running);
        done.json()
    };
    status(false);
    let started = common::mezz(&["pg", "start", "--json", "--pgdata", &directory]).expect(0).json();
    assert_eq!(started["port"].to_string(), port);
    let psql = format!("{} --no-psqlrc -c 'SELECT 41 + 1'", text(&started, "connect"));
    let asked = Command::new("sh").args(["-c", &psql]).current_dir("/").output().unwrap();
    assert!(String::from_utf8_lossy(&asked.stdout).contains("42"), "{psql}: {asked:?}");
    common::mezz(&["pg", "start", "--pgdata", &directory]).expect(3).complains(&["running already"]);
    let tier = &status(true)["tier"];
    assert_eq!(text(&tier["marker"], "flash_path"), flash);
    assert_eq!(tier["files_out_of_date"], false);
    assert!(tier["statistics"].is_object(), "{tier}");
    common::mezz(&["pg", "status", "--pgdata", &directory]).expect(0);
    let log = std::fs::read_to_string(text(&started, "log")).unwrap();
    assert!(log.contains("new flash tier"), "{log}");
    let stopped = common::mezz(&["pg", "stop", "--json", "--pgdata", &directory]).expect(0).json();
    assert_eq!(stopped["mode"], "fast");
    common::mezz(&["pg", "stop", "--pgdata", &directory]).expect(3).complains(&["no server is running"]);
    let status = status(false);
    assert_eq!(text(&status, "cluster_state"), "shut down");
    assert_eq!(text(&status, "user"), text(&made, "user"));
    // A server that does not come up says why.
    let file = Path::new(&directory).join("mezzanine.conf");
    std::fs::write(&file, settings + "mezzanine.flash_path = 'relative'\n").unwrap();
    let broken = common::mezz(&["pg", "start", "--pgdata", &directory]).expect(3);
    broken.complains(&["did not come up", "server.log", "not absolute"]);
}

/// Missing directories on the way let the server's user through, and what comes to nothing leaves nothing.
#[test]
#[ignore = "needs a PostgreSQL build, and makes it if there is none"]
fn a_directory_is_made_whole_or_not_at_all() {
    let build = server();
    let open = Open::new("whole");
    let (above, port) = (open.file("not/there/yet"), port());
    let (directory, flash) = (format!("{above}/db"), open.file("flash.mezz"));
    let init = |more: &[&str]| {
        let mut line = vec!["pg", "init", "--pgdata", &directory, "--postgres", text(&build, "prefix")];
        line.extend(["--shared-buffers", "4MiB", "--port", &port, "--initdb", "--no-sync"]);
        line.extend(more);
        common::mezz(&line)
    };
    let with_tier = ["--flash", &flash, "--flash-size", "64MiB", "--sync-mode", "durable"];
    for wrong in [&["--initdb", "--no-such-option"][..], &["--set", "max_connections=nonsense"]] {
        let mut line = with_tier.to_vec();
        line.extend(wrong);
        init(&line).expect(3).complains(&["nothing of it was left", "run mezz pg init again"]);
        for path in [&above, &directory, &flash] {
            assert!(!Path::new(path).exists(), "{path} after {wrong:?}");
        }
    }
    // A directory that was there stays, and stays empty.
    std::fs::create_dir_all(&directory).unwrap();
    init(&["--initdb", "--no-such-option"]).expect(3);
    assert_eq!(std::fs::read_dir(&directory).unwrap().count(), 0);
    std::fs::remove_dir_all(open.file("not")).unwrap();

    init(&[&with_tier[..], &["--initdb", "--allow-group-access"]].concat()).expect(0);
    common::mezz(&["pg", "start", "--pgdata", &directory]).expect(0);
    common::mezz(&["pg", "stop", "--pgdata", &directory]).expect(0);
    for name in ["mezzanine.tier", "mezzanine.conf", "mezzanine.server", "PG_VERSION"] {
        let mode = Path::new(&directory).join(name).metadata().unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o640, "{name}");
    }
}

/// Changes pg_control as a tier does, of which no file has the newest pages.
fn mark(directory: &str) {
    let path = Path::new(directory).join("global/pg_control");
    let mut bytes = std::fs::read(&path).unwrap();
    // The checksum lies where the checksum of what is before it stands.
    let place = (200..400)
        .step_by(4)
        .find(|at| crc32c::crc32c(&bytes[..*at]).to_le_bytes() == bytes[*at..*at + 4])
        .expect("pg_control has a checksum");
    bytes[8..12].copy_from_slice(&(0x4D5A_0000_u32 | 1700).to_le_bytes());
    let sum = crc32c::crc32c(&bytes[..place]);
    bytes[place..place + 4].copy_from_slice(&sum.to_le_bytes());
    std::fs::write(&path, bytes).unwrap();
}

/// Runs the server on a marked directory; without the tier's library it must not come up.
fn start_marked(prefix: &str, name: &str) -> Done {
    let open = Open::new(name);
    let (directory, port) = (open.file("db"), port());
    common::mezz(&[
        "pg",
        "init",
        "--pgdata",
        &directory,
        "--postgres",
        prefix,
        "--port",
        &port,
        "--set",
        "shared_preload_libraries=",
        "--initdb",
        "--locale=C",
    ])
    .expect(0);
    mark(&directory);
    let status = common::mezz(&["pg", "status", "--json", "--pgdata", &directory]).expect(1).json();
    assert_eq!(status["tier"]["files_out_of_date"], true);
    common::mezz(&["pg", "start", "--pgdata", &directory])
}

#[test]
#[ignore = "needs a PostgreSQL build, and makes it if there is none"]
fn a_patched_server_without_the_tier_refuses_files_that_are_out_of_date() {
    let build = server();
    start_marked(text(&build, "prefix"), "patched")
        .expect(3)
        .complains(&["in a buffer tier, and none is loaded"]);
}

#[test]
#[ignore = "needs a stock PostgreSQL build, and makes it if there is none"]
fn a_stock_server_refuses_files_that_are_out_of_date() {
    let build = common::mezz(&["pg", "build", "--unpatched", "--json"]).expect(0).json();
    start_marked(text(&build, "prefix"), "stock")
        .expect(3)
        .complains(&["database files are incompatible with server", "PG_CONTROL_VERSION 1297745572"]);
}
