//! Where the rollback journal and the write-ahead log of a database live, and why a stock SQLite keeps away
//! from them.
//!
//! While a database belongs to a tier, a stock SQLite must not roll back its journal or read its write-ahead
//! log: it would do so over pages on disk that are older than the log expects, and then delete the log. It
//! does both *before* it looks at the database's header, so the header guard of the volume does not stop it.
//! Therefore the logs are kept in a directory that has the name of the write-ahead log:
//!
//! ```text
//!   app.db              the database
//!   app.db-wal/         this directory
//!     wal               the write-ahead log, if any
//!     journal           the rollback journal, if any
//!     README            whose it is, and what to do
//!     opening           with which opening of the tier the logs go
//! ```
//! A stock SQLite looks for `app.db-wal` whenever it opens `app.db`, in every journal mode; it finds
//! something that is no file and says "unable to open database file", with nothing changed. The directory
//! appears and goes by one atomic system call each. It goes when the last connection has closed and no log is
//! left, or when the tier has refused the database: then the logs of a stock SQLite that it has taken in are
//! put back ([`give_back`]), also those that an attempt before took in and died. What is in it counts from
//! the first write of a log on: until then nothing of it is synced ([`keep`]).
//!
//! Where the disk is full there may be no room for the directory. If no log is left by anybody the database
//! is opened without it: it can be read, and before SQLite makes a log the directory is made, or there is no
//! log.
//!
//! # Logs of another moment
//! A log that was put back beside a newer database would roll it back, or bring old pages to it. So the
//! directory says which opening of the tier its logs are of, by nonces, and a log that holds something is
//! used only if that is the opening in which the database's sidecar says that it was last used. While there
//! is such a log, the directory says both before the sidecar says the present one, so that a crash between
//! the two refuses nothing: [`claim`], then the sidecar, then, before anything more is written to a log,
//! [`own`]. An opening that finds no sidecar adds itself to what the directory says, for that sidecar may be
//! put back. Where the sidecar says that disk is current, nothing is compared, as a stock SQLite compares
//! nothing; nor where the directory says nothing.
//!
//! # Folders that are moved
//! A path may lead to something else while the database is open. So what the directory says is said in the
//! one that was entered, and that one goes ([`OpenDirectory`]). A database that was moved begins no log, and
//! finds none by its path.

use std::ffi::OsStr;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Read as _, Write as _};
use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};

use mezzanine_engine::planted::{self, Bug};
use mezzanine_volume::Nonce;

use crate::database_file::FileId;
use crate::error::{Error, ErrorKind};
use crate::ffi;
use crate::flash_file::is_flash_file;
use crate::open_directory::{OpenDirectory, README};
use crate::openings::{self, OPENING, OPENING_NEW, name_of};

const WAL: &str = "wal";
const JOURNAL: &str = "journal";
/// Written to see whether there is room.
const PROBE_BYTES: usize = 4096;
const WAL_SUFFIX: &[u8] = b"-wal";
const JOURNAL_SUFFIX: &[u8] = b"-journal";

/// The directory that holds the logs of the database at `database`.
pub(crate) fn directory(database: &Path) -> PathBuf {
    with_suffix(database.as_os_str().as_bytes(), "-wal")
}

fn with_suffix(stem: &[u8], suffix: &str) -> PathBuf {
    let mut bytes = stem.to_vec();
    bytes.extend_from_slice(suffix.as_bytes());
    PathBuf::from(std::ffi::OsString::from_vec(bytes))
}

/// The path of the database whose log SQLite calls `name`.
pub(crate) fn database_of(name: &Path) -> Option<PathBuf> {
    let bytes = name.as_os_str().as_bytes();
    let stem = bytes.strip_suffix(WAL_SUFFIX).or_else(|| bytes.strip_suffix(JOURNAL_SUFFIX))?;
    Some(PathBuf::from(OsStr::from_bytes(stem)))
}

/// Where the log that SQLite calls `name` is. Logs of databases without a log directory (those that another
/// VFS has attached and that a super-journal names) are where SQLite thinks they are.
pub(crate) fn place(name: &Path) -> PathBuf {
    let place = place_in_directory(name).filter(|place| place.parent().is_some_and(Path::is_dir));
    place.unwrap_or_else(|| name.to_owned())
}

/// Where a log of a database with a log directory is.
pub(crate) fn place_in_directory(name: &Path) -> Option<PathBuf> {
    Some(directory(&database_of(name)?).join(file_of(name)))
}

/// What the log that SQLite calls `name` is called in the log directory.
fn file_of(name: &Path) -> &'static str {
    if name.as_os_str().as_bytes().ends_with(WAL_SUFFIX) { WAL } else { JOURNAL }
}

/// Removes the log that SQLite calls `name` from the log directory that was entered.
pub(crate) fn remove(
    database: &Path,
    directory: &OpenDirectory,
    name: &Path,
    durable: bool,
) -> Result<(), Error> {
    let removed = directory.remove(file_of(name));
    removed
        .and_then(|()| if durable { directory.sync() } else { Ok(()) })
        .map_err(|source| Error::io("remove a log of", database.display(), source))
}

/// Whether a super-journal names journals of databases on a tier alone, by the names that SQLite has for them
/// (`is_on_tier` knows those).
///
/// Whoever recovers a database removes its super-journal unless another database still needs it, which an
/// SQLite without the tier looks for where it keeps journals itself ("Atomic Commit In SQLite", section 5.4).
/// It does not find ours, and ours would then count as committed, with some of its pages written.
pub(crate) fn is_super_journal_ours(
    super_journal: &Path,
    is_on_tier: impl Fn(&Path) -> bool,
) -> io::Result<bool> {
    let named = fs::read(super_journal)?;
    Ok(journals_in(&named).all(is_on_tier))
}

fn journals_in(super_journal: &[u8]) -> impl Iterator<Item = &Path> {
    let names = super_journal.split(|byte| *byte == 0).filter(|name| !name.is_empty());
    names.map(|name| Path::new(OsStr::from_bytes(name)))
}

/// The databases whose journals a super-journal names; none if this is no name of one, or it cannot be read.
pub(crate) fn named_in_super_journal(file: &Path) -> Vec<PathBuf> {
    let is_one = file.file_name().is_some_and(|name| name.as_bytes().windows(3).any(|part| part == b"-mj"));
    let named = if is_one { fs::read(file).unwrap_or_default() } else { Vec::new() };
    journals_in(&named).filter_map(database_of).collect()
}

/// The logs of `database` that hold something a database needs: a hot journal or a write-ahead log. While
/// there is one, draining a tier does not make the file complete; it must be opened through the VFS once.
pub fn unfinished_logs(database: &Path) -> Vec<PathBuf> {
    let directory = directory(database);
    [directory.join(WAL), directory.join(JOURNAL)]
        .into_iter()
        .filter(|log| !is_cold(log).unwrap_or(false))
        .collect()
}

/// Whether a log holds nothing: it is not there, it is empty, or its header was overwritten with zeros
/// (PERSIST).
fn is_cold(log: &Path) -> io::Result<bool> {
    let mut first = [0];
    match File::open(log) {
        Ok(mut file) => Ok(file.read(&mut first)? == 0 || first[0] == 0),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(true),
        Err(error) => Err(error),
    }
}

/// What [`enter`] found or made.
#[derive(Debug)]
pub(crate) struct Entered {
    /// Nothing is in the directory but what came along: then [`give_back`] undoes all of this.
    pub(crate) unused: bool,
    /// The directory was there before, or logs came along: a crash leaves it.
    pub(crate) durable: bool,
    /// `None` if the disk has no room for a directory, and there is no log.
    pub(crate) directory: Option<OpenDirectory>,
}

/// How [`take_over`] left the directory.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Taken {
    Absent,
    Made,
    Durable,
}

/// Takes the logs of `database` into their directory, which is made if need be. Logs that a stock SQLite left
/// at their usual places come along, so that they are recovered by the next reader. The caller has locked the
/// database against other processes. After an error that is undone if the directory was made here.
pub(crate) fn enter(database: &Path) -> Result<Entered, Error> {
    let directory = directory(database);
    let made = !directory.is_dir();
    let opened = |taken| match taken {
        Taken::Absent => Ok(None),
        Taken::Made | Taken::Durable => open(database).map(Some),
    };
    let entered = take_over(database).and_then(|taken| Ok((taken, opened(taken)?)));
    if entered.is_err() && made {
        // The first error is the one to report.
        let _ = give_back(database);
    }
    // One that names no opening is of an attempt that died: before a log is written there, [`own`] names it.
    let unused = || openings::named_in(&directory).is_ok_and(|named| named.is_none());
    entered.map(|(taken, directory)| Entered {
        unused: made || unused() && !planted::is(Bug::DeadAttemptsLogKept),
        durable: taken == Taken::Durable,
        directory,
    })
}

/// The log directory that was just entered.
fn open(database: &Path) -> Result<OpenDirectory, Error> {
    OpenDirectory::open(&directory(database))
        .map_err(|source| Error::io("open the log directory of", database.display(), source))
}

/// A directory that was there before, or took something in, is durable.
fn take_over(database: &Path) -> Result<Taken, Error> {
    let failed = |source| Error::io("make the log directory of", database.display(), source);
    let directory = directory(database);
    for log in [&directory, &usual_journal(database)] {
        refuse_flash_file(log)?;
    }
    let mut made = false;
    match fs::symlink_metadata(&directory) {
        Ok(found) if found.is_dir() => {}
        Ok(_) => adopt_wal(database, &directory).map_err(failed)?,
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            match fs::create_dir(&directory) {
                Err(error) if is_full(&error) && is_cold(&usual_journal(database)).map_err(failed)? => {
                    return Ok(Taken::Absent);
                }
                made => made
                    .and_then(|()| share_directory(database, &directory))
                    .map_err(|source| failed(source).advise(
                        "a tier keeps logs and a sidecar beside the database: let this user write the folder, or open it without a tier (vfs=unix)",
                    ))?,
            }
            made = true;
        }
        Err(error) => return Err(failed(error)),
    }
    let adopted = adopt_journal(database, &directory)?;
    write_readme(database, &directory).map_err(failed)?;
    if made && !adopted {
        return Ok(Taken::Made);
    }
    sync_directory(&directory).map_err(failed)?;
    sync_parent(database).map_err(failed)?;
    Ok(Taken::Durable)
}

/// A flash file that somebody has given the name of a log, before there was a database of that name.
fn refuse_flash_file(log: &Path) -> Result<(), Error> {
    if !is_flash_file(log) || planted::is(Bug::FlashInPlaceOfLog) {
        return Ok(());
    }
    let reason = "it is a flash file, and no log";
    Err(Error::new(ErrorKind::StrayLog, "take over the log", log.display(), reason).advise(
        "give the flash file a name that is that of no log, and name it so when its databases are opened",
    ))
}

fn write_readme(database: &Path, directory: &Path) -> io::Result<()> {
    let note = directory.join(README);
    match made_anew(database, &note).and_then(|mut file| file.write_all(readme(database).as_bytes())) {
        // It is for people, who have to do without.
        Err(error) if is_full(&error) => absent_is_fine(fs::remove_file(&note)),
        written => written,
    }
}

/// Makes the directory of a database that was opened without one. Nothing is taken in: what stands at the
/// usual place of a log by now has nothing to do with the database as it is open.
pub(crate) fn make_up(database: &Path) -> Result<OpenDirectory, Error> {
    let directory = directory(database);
    for log in [usual_journal(database), directory.clone()] {
        if !log.is_dir() && !is_cold(&log).unwrap_or(false) {
            let reason = "it has come to be there while the database was open";
            return Err(Error::new(ErrorKind::StrayLog, "begin a log beside", log.display(), reason)
                .advise("move it away: it is of another moment than the database"));
        }
    }
    let made = match fs::create_dir(&directory) {
        // An attempt before this one has made it.
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists && directory.is_dir() => Ok(()),
        made => made.and_then(|()| share_directory(database, &directory)),
    };
    made.and_then(|()| write_readme(database, &directory))
        .map_err(|source| Error::io("make the log directory of", database.display(), source))?;
    open(database)
}

/// Whether a file could not be made or written because its disk, or what its owner may use of it, is full.
fn is_full(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded)
}

/// Has a directory that was just made beside a database be for those that the database is for.
fn share_directory(database: &Path, made: &Path) -> io::Result<()> {
    let options = libc::O_DIRECTORY | libc::O_NOFOLLOW;
    let made = OpenOptions::new().read(true).custom_flags(options).open(made)?;
    mezzanine_volume::give_to_owner_of(database, &made);
    Ok(())
}

/// A new file in the place of whatever has this name, for those that the database is for. Who owns the
/// directory may have put a link there, and root must not follow it.
pub(crate) fn made_anew(database: &Path, path: &Path) -> io::Result<File> {
    absent_is_fine(fs::remove_file(path))?;
    made(database, path)
}

/// A file of this name, which there is not yet. It is for nobody else until it is as the database is: who
/// opened it before that would keep it open.
fn made(database: &Path, path: &Path) -> io::Result<File> {
    let file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(path)?;
    mezzanine_volume::give_to_owner_of(database, &file);
    Ok(file)
}

/// Puts a directory holding the write-ahead log in the place of the log, in one step: a second link to the
/// log in a new directory, then an exchange of names.
fn adopt_wal(database: &Path, wal: &Path) -> io::Result<()> {
    let new = cleared_place_of_exchange(wal)?;
    fs::create_dir(&new)?;
    share_directory(database, &new)?;
    fs::hard_link(wal, new.join(WAL))?;
    sync_directory(&new)?;
    ffi::exchange(&new, wal)?;
    sync_parent(wal)?;
    fs::remove_file(&new)
}

/// The other way: the log takes the place of its directory, in one step. Of a directory that holds no log
/// nothing is left.
fn return_wal(wal: &Path) -> io::Result<()> {
    let ours = wal.join(WAL);
    if !ours.try_exists()? {
        fs::remove_dir_all(wal)?;
        return sync_parent(wal);
    }
    let new = cleared_place_of_exchange(wal)?;
    fs::hard_link(ours, &new)?;
    ffi::exchange(&new, wal)?;
    sync_parent(wal)?;
    fs::remove_dir_all(&new)
}

/// Where the log and its directory exchange their names. Whatever a crash left there is the first half of an
/// exchange, or what the second was to remove: the log stands at its own place as well.
fn cleared_place_of_exchange(wal: &Path) -> io::Result<PathBuf> {
    let new = with_suffix(wal.as_os_str().as_bytes(), ".new");
    match fs::symlink_metadata(&new) {
        Ok(found) if found.is_dir() => fs::remove_dir_all(&new)?,
        Ok(_) => fs::remove_file(&new)?,
        Err(_) => {}
    }
    Ok(new)
}

/// Undoes an [`enter`] that has made the directory, for a database that is not attached: the logs of a stock
/// SQLite are at their usual places again, and it can go on with them. The journal comes first: as long as
/// the directory stands, nobody without the VFS opens the database.
pub(crate) fn give_back(database: &Path) -> Result<(), Error> {
    let failed = |source| Error::io("put back the logs of", database.display(), source);
    let directory = directory(database);
    if !directory.is_dir() {
        return Ok(());
    }
    absent_is_fine(fs::rename(directory.join(JOURNAL), usual_journal(database))).map_err(failed)?;
    sync_parent(database).map_err(failed)?;
    return_wal(&directory).map_err(failed)
}

/// Where a stock SQLite has the journal.
fn usual_journal(database: &Path) -> PathBuf {
    with_suffix(database.as_os_str().as_bytes(), "-journal")
}

/// Whether there was one.
fn adopt_journal(database: &Path, directory: &Path) -> Result<bool, Error> {
    let usual = usual_journal(database);
    let ours = directory.join(JOURNAL);
    let failed = |source| Error::io("take over the journal of", database.display(), source);
    if !usual.try_exists().map_err(failed)? {
        return Ok(false);
    }
    if !is_cold(&ours).map_err(failed)? {
        let reason = format!("there is a second one, {}", ours.display());
        return Err(Error::new(ErrorKind::StrayLog, "take over the journal", usual.display(), reason)
            .advise("only one of them belongs to the database: find out which, and move the other away"));
    }
    fs::rename(&usual, &ours).map_err(failed)?;
    Ok(true)
}

/// Removes the log directory that was entered, that of the file `id`, if no log is left in it; durably, if it
/// was `durable`.
pub(crate) fn leave(
    database: &Path,
    id: FileId,
    directory: &OpenDirectory,
    durable: bool,
) -> Result<(), Error> {
    let by_path =
        planted::is(Bug::LogsLeftByPath).then(|| OpenDirectory::open(&self::directory(database)).ok());
    let directory = by_path.as_ref().and_then(Option::as_ref).unwrap_or(directory);
    if [WAL, JOURNAL].into_iter().any(|log| !directory.is_cold(log).unwrap_or(false)) {
        return Ok(());
    }
    let path = self::directory(database);
    let (Some(file), Some(name)) = (database.file_name(), path.file_name()) else { return Ok(()) };
    let contents = [OPENING, OPENING_NEW, WAL, JOURNAL, README];
    directory
        .remove_all((Path::new(file), Path::new(name)), id, &contents, durable)
        .map_err(|source| Error::io("remove the log directory of", database.display(), source))
}

/// Before `database` is attached in the opening `now`: refuses logs that hold something if they are of
/// another one than `before`, in which its newest pages came to the tier, and has the directory name both.
pub(crate) fn claim(database: &Path, before: Option<Nonce>, now: Nonce, writable: bool) -> Result<(), Error> {
    let directory = directory(database);
    if !directory.is_dir() {
        return Ok(());
    }
    let failed = |source| Error::io("look at the log directory of", database.display(), source);
    let unfinished = unfinished_logs(database);
    let Some(log) = unfinished.first() else { return Ok(()) };
    let known = openings::named_in(&directory).map_err(failed)?;
    let before = before.as_ref().map(name_of);
    if let (Some(before), Some(known)) = (&before, &known) {
        if !known.contains(before) && !planted::is(Bug::LogsUncompared) {
            let reason = format!(
                "it is of another moment than the database: it was written in another opening of the tier than the one in which {} was last used",
                database.display()
            );
            return Err(Error::new(ErrorKind::StrayLog, "use the log", log.display(), reason).advise(
                "put back the database, its sidecar, its log directory and the flash of one moment; if the log is known to be the newest, remove 'opening' beside it",
            ));
        }
    }
    // A sidecar that is missing or cannot be read says nothing, and may be put back: the logs stay what they
    // were until the database is attached.
    let mut names = match (before, known) {
        (Some(before), _) => vec![before],
        (None, Some(known)) => known,
        (None, None) => return Ok(()),
    };
    names.push(name_of(&now));
    // Going on with the log needs a sidecar in the place of the present one, and that needs room.
    if !has_room(database, &directory) {
        absent_is_fine(fs::remove_file(directory.join(README))).map_err(failed)?;
    }
    let named = OpenDirectory::open(&directory).and_then(|open| openings::name(database, &open, &names));
    said_if_possible(named, writable).map_err(failed)
}

/// Whether there is room for one more file in the log directory, or nobody knows.
fn has_room(database: &Path, directory: &Path) -> bool {
    let probe = directory.join(OPENING_NEW);
    let written = made_anew(database, &probe).and_then(|mut file| file.write_all(&[0; PROBE_BYTES]));
    // What is left of it goes with the directory.
    let _ = fs::remove_file(probe);
    !written.is_err_and(|error| is_full(&error))
}

/// Where the database cannot be written either, its tier changes nothing, and a directory that cannot be
/// written says what it did.
fn said_if_possible(noted: io::Result<()>, writable: bool) -> io::Result<()> {
    let read_only = |kind| kind == io::ErrorKind::ReadOnlyFilesystem && !planted::is(Bug::ReadOnlyLogsNamed);
    match noted.as_ref().map_err(io::Error::kind) {
        Err(kind) if !writable && (kind == io::ErrorKind::PermissionDenied || read_only(kind)) => Ok(()),
        _ => noted,
    }
}

/// Makes an empty log, if there is none.
pub(crate) fn make(database: &Path, log: &Path) -> bool {
    made(database, log).is_ok()
}

/// The directory is there after a crash.
pub(crate) fn keep(database: &Path, directory: &OpenDirectory) -> Result<(), Error> {
    let kept = directory.sync_parent();
    kept.map_err(|source| Error::io("keep the log directory of", database.display(), source))
}

/// What is in the directory is there after a crash. Where [`own`] has been called it is.
pub(crate) fn keep_contents(database: &Path, directory: &OpenDirectory) -> Result<(), Error> {
    let failed = |source| Error::io("sync the log directory of", database.display(), source);
    directory.sync().map_err(failed)
}

/// The sidecar of `database` says the opening `now`, or that disk is current: its logs are of that from now
/// on.
pub(crate) fn own(database: &Path, directory: &OpenDirectory, now: Nonce) -> Result<(), Error> {
    let by_path =
        planted::is(Bug::LogsOwnedByPath).then(|| OpenDirectory::open(&self::directory(database)).ok());
    let directory = by_path.as_ref().and_then(Option::as_ref).unwrap_or(directory);
    openings::name(database, directory, &[name_of(&now)])
        .map_err(|source| Error::io("note the opening in the log directory of", database.display(), source))
}

pub(crate) fn absent_is_fine(result: io::Result<()>) -> io::Result<()> {
    match result {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        other => other,
    }
}

/// What the process that has `database` open wrote about itself.
pub(crate) fn holder(database: &Path) -> Option<String> {
    let mut text = String::new();
    OpenOptions::new()
        .read(true)
        .open(directory(database).join(README))
        .ok()?
        .take(4096)
        .read_to_string(&mut text)
        .ok()?;
    let line = text.lines().find(|line| line.starts_with("process "))?;
    Some(line.trim_end_matches('.').to_owned())
}

fn readme(database: &Path) -> String {
    format!(
        "The logs of {name}, which is opened with a flash tier (the SQLite VFS \"mezzanine\") by\n\
         process {pid}.\n\
         \n\
         As long as this directory stands, an SQLite without the tier says \"unable to open database file\": it would\n\
         read old pages. If no process has the database open, open it through the VFS once and close it;\n\
         the directory then goes. Do not remove it by hand: its files may hold committed transactions.\n",
        name = database.display(),
        pid = std::process::id(),
    )
}

pub(crate) fn sync_directory(directory: &Path) -> io::Result<()> {
    File::open(directory)?.sync_all()
}

pub(crate) fn sync_parent(path: &Path) -> io::Result<()> {
    match path.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => sync_directory(parent),
        _ => sync_directory(Path::new(".")),
    }
}
