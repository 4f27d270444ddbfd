//! The flush that is missing, in MariaDB on ext4: the server as it is, as it is when asked for less, and with
//! calls that sync a file taken out.
//!
//! Needs root, for a loop device on a file of FUSE, the programs of `omissions::PROGRAMS` and those of
//! MariaDB; skipped without.
#![allow(clippy::unwrap_used)]

mod common;
mod mounting;

#[path = "mounting/omissions.rs"]
mod omissions;

#[path = "mounting/mariadb.rs"]
mod on_mariadb;

#[path = "mounting/served.rs"]
mod served;

#[path = "common/serving.rs"]
mod serving;

use omissions::{AS_IT_IS, NO_BARRIERS, Setting, Told, are_named, is_in_order, is_possible, set};
use on_mariadb::{SERVER, Template};

#[test]
#[ignore = "for the nightly run: a hundred recoveries"]
fn mariadb_is_in_order_where_it_promises_to_be() {
    if is_possible(&SERVER) {
        is_in_order(&Template::make());
    }
}

#[test]
#[ignore = "for the nightly run: each flush takes dozens of recoveries"]
fn a_flush_that_mariadb_is_told_to_leave_out_is_named() {
    if !is_possible(&SERVER) {
        return;
    }
    are_named(
        &Template::make(),
        &[
            (set("log written once a second", &["--innodb-flush-log-at-trx-commit=0"]), Told::Absent),
            (set("log written, not synced", &["--innodb-flush-log-at-trx-commit=2"]), Told::Absent),
            (set("pages written once, and torn", &["--innodb-doublewrite=0"]), Told::Torn),
            (set("nothing synced", &["--innodb-flush-method=nosync"]), Told::Absent),
        ],
    );
}

/// By the file system, or by calls that succeed and do nothing.
#[test]
#[ignore = "for the nightly run: each flush takes dozens of recoveries"]
fn a_flush_that_is_lost_behind_mariadb_is_named() {
    if !is_possible(&SERVER) {
        return;
    }
    let log = Some(("fsync,fdatasync", Some("ib_logfile0")));
    let log_not_synced = Setting { what: "log not synced", without: log, ..AS_IT_IS };
    are_named(&Template::make(), &[(NO_BARRIERS, Told::AfterAWrite), (log_not_synced, Told::Absent)]);
}
