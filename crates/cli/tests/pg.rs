//! `mezz pg build` without building: what it refuses, and what it tells. A whole build is made by the ignored test at the end, once per cache.
#![allow(clippy::unwrap_used)]

mod common;

use std::os::unix::fs::symlink;
use std::path::Path;
use std::process::Command;

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

#[test]
fn caches_that_postgresql_cannot_be_built_into_are_refused() {
    let scratch = Scratch::new();
    pg(&scratch.0.join("with space"), &["build"], &[])
        .expect(3)
        .complains(&["with space", "MEZZANINE_CACHE"]);
}

/// Makes (or finds) the builds in the user's own cache: minutes the first time.
#[test]
#[ignore = "builds PostgreSQL, twice"]
fn a_whole_build_is_made_once() {
    let build =
        |arguments: &[&str]| common::mezz(&[&["pg", "build", "--json"], arguments].concat()).expect(0).json();
    let (patched, again) = (build(&[]), build(&[]));
    assert_eq!(again["cached"], true);
    assert_eq!(patched["prefix"], again["prefix"]);
    let stock = build(&["--unpatched"]);
    assert_ne!(patched["prefix"], stock["prefix"]);
    for (build, has_hooks) in [(&patched, true), (&stock, false)] {
        let pg_config = build["pg_config"].as_str().unwrap();
        let output = Command::new(pg_config).arg("--includedir-server").output().unwrap();
        let directory = String::from_utf8(output.stdout).unwrap();
        let header = Path::new(directory.trim()).join("storage/buftier.h");
        assert_eq!(header.exists(), has_hooks, "{}", header.display());
    }
}
