//! The logs of databases that are open, by the names that SQLite has for them.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::database::Database;
use crate::error::Error;
use crate::lineage::OfProcess;
use crate::logs;

/// The database that a log belongs to, by the name that SQLite has for the log.
pub(crate) fn database_of_log(log: &Path) -> Option<Arc<Database>> {
    OfProcess::here().database(&logs::database_of(log)?)
}

/// A child must not make or remove the log of a database that it has inherited and not opened: SQLite finds
/// out that it may not write there, but for a database in which there is nothing yet.
pub(crate) fn refuse_inherited_log(log: &Path) -> Result<(), Error> {
    let Some(database) = logs::database_of(log) else { return Ok(()) };
    OfProcess::refuse_inherited(&database, || logs::directory(&database).is_dir())
}

/// Where the log that SQLite calls `name` is, or would be.
pub(crate) fn place_of_log(name: &Path) -> PathBuf {
    // SQLite asks at each transaction: nothing is asked of the file system where the answer is known.
    let known = database_of_log(name).is_some_and(|database| database.has_entered_logs());
    logs::place_in_directory(name).filter(|_| known).unwrap_or_else(|| logs::place(name))
}

/// A log is about to be removed, or a super-journal, with which the logs of all databases in its transaction
/// lose their meaning.
pub(crate) fn hand_over_before_removal(log: &Path) -> Result<(), Error> {
    let hand_over =
        |path: PathBuf| OfProcess::here().database(&path).map_or(Ok(()), |known| known.hand_over());
    match logs::database_of(log) {
        Some(path) => hand_over(path),
        None => logs::named_in_super_journal(log).into_iter().try_for_each(hand_over),
    }
}

/// A log of an open database is kept by something that does not keep the bytes beside a write as they were.
pub(crate) fn withdraw_powersafe(log: &Path) {
    if let Some(database) = database_of_log(log) {
        database.withdraw_powersafe();
    }
}
