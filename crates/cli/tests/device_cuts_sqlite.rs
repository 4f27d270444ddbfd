//! The flush that is missing, in SQLite on ext4: the database as it is, as it is when asked for less, and
//! with calls of fsync taken out.
//!
//! Needs root, for a loop device on a file of FUSE, and the programs of [`PROGRAMS`]; skipped without.
#![allow(clippy::unwrap_used)]

mod common;
mod mounting;

#[path = "mounting/served.rs"]
mod served;

#[path = "common/serving.rs"]
mod serving;

use std::process::Command;

use common::{Scratch, mezz};
use mounting::{missing, run};
use serde_json::Value;
use served::{Marks, Mounted};
use serving::Serving;

const PROGRAMS: [&str; 8] =
    ["nbdfuse", "losetup", "mount", "mke2fs", "e2fsck", "debugfs", "sqlite3", "strace"];

const TRANSACTIONS: u64 = 40;

/// The file system's journal is replayed, the database is copied out of it, and opened.
const CHECK: &str = r#"
folder=$(mktemp -d); trap 'rm -rf "$folder"' EXIT
e2fsck -fy "$MEZZ_IMAGE" >"$folder/log" 2>&1; [ $? -lt 4 ] || { tail -1 "$folder/log"; exit 1; }
for name in db db-journal db-wal; do
    debugfs -R "dump /$name $folder/$name" "$MEZZ_IMAGE" >/dev/null 2>&1
    [ -s "$folder/$name" ] || rm -f "$folder/$name"
done
marks=$(wc -l <"$MEZZ_MARKS")
[ -f "$folder/db" ] || { [ "$marks" = 0 ] && exit 0; echo "no database, $marks rows were acknowledged"; exit 1; }
said=$(sqlite3 "$folder/db" 'pragma integrity_check' 2>&1 | head -1)
[ "$said" = ok ] || { echo "integrity: $said"; exit 1; }
rows=$(sqlite3 "$folder/db" 'select count(*) from t' 2>/dev/null || echo 0)
[ "$rows" -ge "$marks" ] || { echo "$rows rows, $marks were acknowledged"; exit 1; }
"#;

/// What SQLite is asked for, and which calls of fsync do nothing: those of this file.
struct Setting {
    journal: &'static str,
    synchronous: &'static str,
    without_fsync_of: Option<&'static str>,
}

/// What the child does: rows one after the other, each told when it is acknowledged.
#[test]
#[ignore = "the program that is recorded"]
fn works() {
    let (Ok(database), Ok(marks)) = (std::env::var("WORKS_ON"), std::env::var("WORKS_FOR")) else { return };
    let of = |name: &str| std::env::var(name).unwrap();
    let mut marks = Marks::to(&marks);
    let connection = rusqlite::Connection::open(database).unwrap();
    let pragma =
        format!("pragma journal_mode = {}; pragma synchronous = {};", of("JOURNAL"), of("SYNCHRONOUS"));
    connection.execute_batch(&pragma).unwrap();
    connection.execute_batch("create table t (id integer primary key, v blob)").unwrap();
    for row in 0..TRANSACTIONS {
        connection.execute("insert into t values (?1, randomblob(700))", [row as i64]).unwrap();
        marks.say(&row.to_string());
    }
}

/// Records SQLite, and tries cuts.
fn tried(setting: &Setting) -> Value {
    let scratch = Scratch::new();
    let (disk, recording, marks) = (scratch.file("disk"), scratch.file("rec"), scratch.file("marks"));
    std::fs::File::create(&disk).unwrap().set_len(16 << 20).unwrap();
    run("mke2fs", &["-q", "-t", "ext4", "-E", "lazy_itable_init=0", "-J", "size=1", "-b", "1024", &disk]);
    let serving = Serving::start(&scratch, &["--file", &disk, "--record", &recording, "--marks", &marks]);
    {
        let mounted = Mounted::on(&scratch.0, &serving.socket, &[]);
        let this = std::env::current_exe().unwrap();
        let mut command = match setting.without_fsync_of {
            Some(name) => {
                let mut strace = Command::new("strace");
                strace.args(["-f", "-o", "/dev/null", "-e", "trace=fsync,fdatasync", "-e"]);
                strace
                    .args(["inject=fsync,fdatasync:retval=0", "-P"])
                    .arg(mounted.folder.join(name))
                    .arg(this);
                strace
            }
            None => Command::new(this),
        };
        command.args(["--exact", "works", "--ignored"]).env("WORKS_FOR", &marks);
        command.env("WORKS_ON", mounted.folder.join("db"));
        command.env("JOURNAL", setting.journal).env("SYNCHRONOUS", setting.synchronous);
        let output = command.output().unwrap();
        assert!(output.status.success(), "{output:?}");
    }
    let said = serving.end_by("-TERM");
    assert!(said["recorded_events"].as_u64().unwrap() > TRANSACTIONS, "{said}");
    let cuts = mezz(&["device", "cuts", &recording, "--check", CHECK, "--json"]);
    cuts.json()
}

const fn sqlite(journal: &'static str, synchronous: &'static str) -> Setting {
    Setting { journal, synchronous, without_fsync_of: None }
}

#[test]
fn sqlite_is_in_order_where_it_promises_to_be() {
    if let Some(why) = missing(&PROGRAMS) {
        println!("skipped: {why}");
        return;
    }
    for setting in [sqlite("delete", "extra"), sqlite("wal", "full")] {
        let said = tried(&setting);
        assert_eq!(said["ok"], true, "{}: {said}", setting.journal);
        assert_eq!((&said["marks"], &said["cuts"]), (&TRANSACTIONS.into(), &200.into()));
    }
}

/// Rows that were acknowledged and are gone, by settings of SQLite that promise less and by calls of fsync
/// that do nothing: each within 200 cuts, with the flush that is absent.
#[test]
fn a_flush_that_sqlite_leaves_out_is_named() {
    if let Some(why) = missing(&PROGRAMS) {
        println!("skipped: {why}");
        return;
    }
    let extra = |name| Setting { without_fsync_of: Some(name), ..sqlite("delete", "extra") };
    let wal = |name| Setting { without_fsync_of: Some(name), ..sqlite("wal", "full") };
    for (what, setting) in [
        // As documented: the directory is not synced when the journal is removed, which is the commit.
        ("journal removed, directory not synced", sqlite("delete", "full")),
        ("commits in the log not synced", sqlite("wal", "normal")),
        ("nothing synced", sqlite("delete", "off")),
        ("journal not synced before the database is written", extra("db-journal")),
        ("database not synced before the journal is removed", extra("db")),
        ("directory not synced", extra("")),
        ("log not synced", wal("db-wal")),
    ] {
        let said = tried(&setting);
        let absent = &said["found"]["absent_flush"];
        println!("{what}: {}; before {} in cut {}", said["found"]["why"], absent["before"], said["cuts"]);
        // A page of the database that is torn, and no journal to bring it back: that is as true.
        let is_torn = said["found"]["taken"][0]["fate"] == "torn";
        let may_be_torn = setting.without_fsync_of == Some("db-journal");
        assert!(absent.is_object() || is_torn && may_be_torn, "{what}: {said}");
    }
}
