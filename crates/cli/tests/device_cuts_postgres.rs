//! The flush that is missing, in PostgreSQL on ext4: the server as it is, as it is when asked for less, and
//! with calls of fsync and fdatasync taken out.
//!
//! Needs root, for a loop device on a file of FUSE, and the programs of `omissions::PROGRAMS`; skipped
//! without.
#![allow(clippy::unwrap_used)]

mod common;
mod mounting;

#[path = "mounting/omissions.rs"]
mod omissions;

#[path = "mounting/postgres.rs"]
mod on_postgres;

#[path = "mounting/served.rs"]
mod served;

#[path = "common/serving.rs"]
mod serving;

use omissions::{AS_IT_IS, COUNTER, NO_BARRIERS, Setting, Told, are_named, is_in_order, is_possible, set};
use on_postgres::Template;

/// What is written reaches the device at once, flushed or not.
const DIRECT: &[&str] = &["debug_io_direct=data,wal"];

/// The kernel keeps what a checkpoint writes until somebody syncs it.
const KEPT: &[&str] = &["checkpoint_flush_after=0", "bgwriter_flush_after=0"];

#[test]
#[ignore = "needs a PostgreSQL build, and makes it if there is none"]
fn postgres_is_in_order_where_it_promises_to_be() {
    if is_possible(&["setpriv"]) {
        is_in_order(&Template::make("cuts"));
    }
}

/// Settings of the server and of the file system that promise less.
#[test]
#[ignore = "needs a PostgreSQL build, and makes it if there is none"]
fn a_flush_that_postgres_is_told_to_leave_out_is_named() {
    if !is_possible(&["setpriv"]) {
        return;
    }
    are_named(
        &Template::make("told"),
        &[
            (set("nothing synced", &["fsync=off"]), Told::Absent),
            (set("commits not waited for", &["synchronous_commit=off"]), Told::Absent),
            (
                set(
                    "no images of pages, which are torn",
                    &["full_page_writes=off", "debug_io_direct=data,wal"],
                ),
                Told::Torn,
            ),
            (NO_BARRIERS, Told::AfterAWrite),
        ],
    );
}

/// Calls that succeed and do nothing.
#[test]
#[ignore = "needs a PostgreSQL build, and makes it if there is none"]
fn a_flush_that_does_nothing_is_named() {
    if !is_possible(&["setpriv"]) {
        return;
    }
    let undone =
        |what, call, file, settings| Setting { what, settings, without: Some((call, file)), ..AS_IT_IS };
    are_named(
        &Template::make("undone"),
        &[
            (undone("log not synced", "fdatasync", None, &[]), Told::Absent),
            (undone("log written directly, not synced", "fdatasync", None, DIRECT), Told::AfterAWrite),
            (undone("table not synced by the checkpoint", "fsync", Some(COUNTER), KEPT), Told::Absent),
            (
                undone("states of commits not synced by the checkpoint", "fsync", Some("pg_xact/0000"), &[]),
                Told::Absent,
            ),
            (
                // It goes on saying that the server was shut down in order, so nothing is recovered.
                undone("control file not synced", "fsync", Some("global/pg_control"), &[]),
                Told::Absent,
            ),
        ],
    );
}
