//! What the tests share: a folder that goes away, the VFS, and databases on it.

#![allow(clippy::unwrap_used, dead_code, unreachable_pub, reason = "each test file uses a part of it")]

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, Ordering};

use mezzanine_sqlite::MezzanineVfs;
use rusqlite::{Connection, OpenFlags};

/// A folder of its own for each test, removed at the end.
pub struct Folder(PathBuf);

impl Folder {
    pub fn new() -> Self {
        Self::inside(&std::env::temp_dir())
    }

    /// In memory, where that can be had: for tests that kill processes, which lose nothing there, and sync
    /// all the time.
    pub fn in_memory() -> Self {
        let memory = Path::new("/dev/shm");
        // Not every machine has room there.
        let room = rustix::fs::statvfs(memory).map_or(0, |space| space.f_bavail * space.f_frsize);
        let writable = rustix::fs::access(memory, rustix::fs::Access::WRITE_OK).is_ok();
        if writable && room > 512 << 20 { Self::inside(memory) } else { Self::new() }
    }

    fn inside(base: &Path) -> Self {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let base = fs::canonicalize(base).unwrap();
        let path = base.join(format!("mezzanine-sqlite-{}-{number}", std::process::id()));
        let _ = fs::remove_dir_all(&path);
        fs::create_dir_all(&path).unwrap();
        Self(path)
    }

    pub fn file(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }

    pub fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// Registers the VFS `mezzanine` once for the process; databases on it name their flash in the URI.
pub fn register() {
    static VFS: OnceLock<MezzanineVfs> = OnceLock::new();
    VFS.get_or_init(|| MezzanineVfs::builder("mezzanine").register().unwrap());
}

pub fn uri(database: &Path, flash: &Path, more: &str) -> String {
    format!("file:{}?vfs=mezzanine&flash={}&flash_size=8MiB{more}", database.display(), flash.display())
}

pub fn flags() -> OpenFlags {
    OpenFlags::SQLITE_OPEN_READ_WRITE
        | OpenFlags::SQLITE_OPEN_CREATE
        | OpenFlags::SQLITE_OPEN_URI
        | OpenFlags::SQLITE_OPEN_NO_MUTEX
}

/// Opens `name` in `folder` through the VFS, on the flash file `flash.mezz` there.
pub fn open(folder: &Folder, name: &str) -> Connection {
    open_with(folder, name, "").unwrap()
}

pub fn open_with(folder: &Folder, name: &str, more: &str) -> rusqlite::Result<Connection> {
    register();
    let db = Connection::open_with_flags(uri(&folder.file(name), &folder.file("flash.mezz"), more), flags())
        .inspect_err(|_| eprintln!("{}", mezzanine_sqlite::last_error().unwrap_or_default()))?;
    db.busy_timeout(std::time::Duration::from_secs(20))?;
    Ok(db)
}

pub fn journal_mode(db: &Connection, mode: &str) {
    let now: String = db.query_row(&format!("PRAGMA journal_mode = {mode}"), [], |row| row.get(0)).unwrap();
    assert_eq!(now, mode);
}

pub fn pragma_text(db: &Connection, pragma: &str) -> String {
    db.query_row(&format!("PRAGMA {pragma}"), [], |row| row.get(0)).unwrap()
}

/// SQLite's own check, of tables and indexes.
pub fn check(db: &Connection) {
    assert_eq!(pragma_text(db, "integrity_check"), "ok");
}

pub fn count(db: &Connection, sql: &str) -> i64 {
    db.query_row(sql, [], |row| row.get(0)).unwrap()
}

/// Makes `to` what the folder `from` is.
pub fn copy_folder(from: &Path, to: &Path) {
    let _ = fs::remove_dir_all(to);
    copy_over(from, to);
}

/// Copies what is in `from` to `to`, over what is there, and leaves the rest: `cp -a from/. to`.
pub fn copy_over(from: &Path, to: &Path) {
    fs::create_dir_all(to).unwrap();
    for entry in fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        let (kind, at) = (entry.file_type().unwrap(), to.join(entry.file_name()));
        if kind.is_dir() {
            copy_over(&entry.path(), &at);
        } else if kind.is_symlink() {
            let _ = fs::remove_file(&at);
            std::os::unix::fs::symlink(fs::read_link(entry.path()).unwrap(), at).unwrap();
        } else {
            fs::copy(entry.path(), at).unwrap();
        }
    }
}

/// The stock `sqlite3` shell of this machine, if it has one.
pub fn stock_shell() -> Option<PathBuf> {
    let found =
        ["/usr/bin/sqlite3", "/usr/local/bin/sqlite3"].into_iter().map(PathBuf::from).find(|p| p.exists());
    if found.is_none() {
        eprintln!("SKIPPED: no sqlite3 shell is installed (apt install sqlite3)");
    }
    found
}

/// Runs the stock shell on a database file. It waits for a lock a while, as programs do: another test may be
/// starting a program just now, whose process has for a moment what this one has closed.
pub fn stock(shell: &Path, database: &Path, sql: &str) -> Output {
    Command::new(shell).args(["-batch", "-cmd", ".timeout 2000"]).arg(database).arg(sql).output().unwrap()
}
