//! What `mezz-pgtest` refuses before it starts a server.
#![allow(clippy::unwrap_used)]

use std::process::{Command, Output};

fn pgtest(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_mezz-pgtest")).args(arguments).output().unwrap()
}

#[test]
fn no_cycles_and_no_clients_are_refused() {
    for option in ["--cycles", "--cycles-per-life", "--clients"] {
        let done = pgtest(&[option, "0"]);
        let said = String::from_utf8(done.stderr).unwrap();
        assert_eq!(done.status.code(), Some(2), "{option}: {said}");
        assert!(said.contains(option), "{said}");
    }
}

#[test]
fn a_folder_without_a_server_is_named() {
    let done = pgtest(&["--bindir", "/no/such/folder"]);
    let said = String::from_utf8(done.stderr).unwrap();
    assert_eq!(done.status.code(), Some(2), "{said}");
    assert!(said.contains("/no/such/folder"), "{said}");
}

#[test]
fn histories_of_no_known_kind_are_refused_and_those_that_are_known_named() {
    let done = pgtest(&["--histories=copies,earthquakes"]);
    let said = String::from_utf8(done.stderr).unwrap();
    assert_eq!(done.status.code(), Some(2), "{said}");
    for word in ["earthquakes", "copies", "rot", "absent", "full"] {
        assert!(said.contains(word), "{word}: {said}");
    }
}

#[test]
fn a_full_disk_needs_the_library_that_makes_it() {
    for (arguments, word) in [
        (&["--histories=full"][..], "--faults"),
        (&["--histories=full", "--faults", "/no/such/library"][..], "/no/such/library"),
        (&["--histories=full", "--faults", "relative.so"][..], "absolute"),
    ] {
        let done = pgtest(arguments);
        let said = String::from_utf8(done.stderr).unwrap();
        assert_eq!(done.status.code(), Some(2), "{said}");
        assert!(said.contains(word), "{said}");
    }
}
