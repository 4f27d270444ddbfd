//! SQLite on a flash tier: a VFS that keeps the pages of databases in a [`Volume`](mezzanine_volume::Volume).
//!
//! Main database files go through the volume. Journals, write-ahead logs and temporary files are left to
//! SQLite's own VFS; syncs of the logs can be charged to a modelled drive ([`LogTimer`]). All connections are
//! in one process; other processes are kept out.
//!
//! For rusqlite there is the builder:
//! ```no_run
//! # #[cfg(feature = "rusqlite")]
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! use mezzanine_sqlite::MezzanineVfs;
//! use rusqlite::{Connection, OpenFlags};
//!
//! let vfs = MezzanineVfs::builder("mezzanine").register()?;
//! let uri = "file:app.db?vfs=mezzanine&flash=/mnt/nvme/app.mezz&flash_size=1GiB";
//! let db = Connection::open_with_flags(uri, OpenFlags::default() | OpenFlags::SQLITE_OPEN_URI)?;
//! db.pragma_update(None, "journal_mode", "wal")?;
//! drop(db);
//! vfs.close()?;
//! # Ok(())
//! # }
//! # #[cfg(not(feature = "rusqlite"))]
//! # fn main() {}
//! ```
//! For a stock `sqlite3` there is the loadable extension in the crate `mezzanine-sqlite-extension`, which is
//! this VFS without the feature `rusqlite`.

#![deny(unsafe_code)]

mod abi;
mod error;

mod params;
mod rules;
mod vfs;

mod database_file;
mod flash_file;
mod lineage;
mod mount;
mod watch;

mod database;
mod lock;
mod shm;

mod logs;
mod timing;

mod online;
mod open_directory;
mod openings;
mod record;
mod replace;

mod pragma;
mod report;

#[allow(unsafe_code, reason = "the one module where C meets Rust")]
mod ffi;

pub use error::{Error, ErrorKind};
pub use ffi::{extension_init, extension_init_default};
pub use logs::unfinished_logs;
pub use record::DIRECTORY_VARIABLE;
pub use report::last_error;
pub use rules::{RULES_FILE, RULES_VARIABLE};
pub use timing::{Extent, LogDrive, LogTimer, RealSync};
pub use vfs::{Builder, DEFAULT_NAME, MezzanineVfs};
