//! Keeps a small database on a flash tier and prints what the tier did: `cargo run --example tier -- FOLDER`.

use std::path::PathBuf;

use mezzanine_sqlite::MezzanineVfs;
use rusqlite::{Connection, OpenFlags};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let Some(folder) = std::env::args_os().nth(1).map(PathBuf::from) else {
        return Err("give the folder that the database and its flash file are to be in".into());
    };
    std::fs::create_dir_all(&folder)?;
    let vfs = MezzanineVfs::builder("mezzanine").register()?;
    let (database, flash) = (folder.join("app.db"), folder.join("flash.mezz"));
    let uri = format!("file:{}?vfs=mezzanine&flash={}&flash_size=64MiB", database.display(), flash.display());
    let db = Connection::open_with_flags(uri, OpenFlags::default() | OpenFlags::SQLITE_OPEN_URI)?;
    db.execute_batch(
        "PRAGMA journal_mode = wal;
         CREATE TABLE IF NOT EXISTS t (a INTEGER PRIMARY KEY, b);
         WITH RECURSIVE n (i) AS (VALUES (1) UNION ALL SELECT i + 1 FROM n WHERE i < 10000)
         INSERT INTO t (b) SELECT randomblob(1000) FROM n;",
    )?;
    let rows: i64 = db.query_row("SELECT count(*) FROM t", [], |row| row.get(0))?;
    let status: String = db.query_row("PRAGMA mezzanine_status", [], |row| row.get(0))?;
    println!("{rows} rows\n{status}");
    drop(db);
    vfs.close()?;
    Ok(())
}
