//! Trouble while the server runs: a relation's file goes away and comes back, or the disk is full for a
//! while. Statements may fail meanwhile, and the server may end; nothing may be lost afterwards.
//!
//! A server whose file is away must not recover until it is back: redo makes a missing file anew, and the one
//! that comes back would take the place of what was redone. So the postmaster is told to stay down.

use std::fs;
use std::path::PathBuf;
use std::thread;
use std::time::Duration;

use postgres::Client;

use super::{Histories, Plan};
use crate::failure::{Checked, Failure};
use crate::random::Random;
use crate::server::Server;

/// What comes over a server under load.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Trouble {
    /// A relation's file goes away.
    Absent,
    /// Relation files cannot grow.
    Full,
}

impl Trouble {
    fn name(self) -> &'static str {
        match self {
            Self::Absent => "a file away",
            Self::Full => "a full disk",
        }
    }
}

/// What a server says of files in trouble, where it is no failure of a check.
pub(crate) const OF_FILES: [&str; 6] = [
    "could not read block",
    "could not open file",
    "could not fsync file",
    "could not write block",
    "No space left on device",
    "No such file or directory",
];

/// Whether an error of a statement may be the trouble's doing.
pub(crate) fn may_cause(error: &postgres::Error) -> bool {
    let Some(said) = error.as_db_error() else { return false };
    let begins = |code, words| said.code().code() == code && said.message().starts_with(words);
    // A checkpoint writes to every file and says in the log which of them failed it.
    let of_checkpoint = begins("XX000", "checkpoint request failed");
    let of_blocks = begins("XX001", "could not read block");
    of_blocks || of_checkpoint || ["58P01", "58030", "53100"].contains(&said.code().code())
}

/// Relations of which a file goes away.
const RELATIONS: [&str; 5] = ["ledger", "ledger_key", "account", "account_pkey", "ledger_a"];

/// Those, from the first on, that no upkeep replaces by another: a file that is dropped while it is away and
/// comes back is too old for redo without full page images (docs/reliability.md, "Not covered").
const KEPT: usize = 2;

impl Histories {
    /// Has trouble come and go, under load.
    pub(crate) fn trouble(
        &mut self,
        trouble: Trouble,
        server: &mut Server,
        db: Client,
        plan: &mut Plan,
    ) -> Checked {
        let random = &mut plan.random;
        thread::sleep(Duration::from_millis(100 + random.below(500)));
        let lasts = Duration::from_millis(50 + random.below(1_000));
        self.note(format!("{} for {lasts:?}", trouble.name()))?;
        let anew = match trouble {
            Trouble::Absent => file_away(server, db, random, lasts)?,
            Trouble::Full => {
                server.fill_disk(true)?;
                thread::sleep(lasts);
                server.fill_disk(false)?;
                false
            }
        };
        thread::sleep(Duration::from_millis(random.below(300)));
        let what = match (server.ended()?.is_some(), anew) {
            (ended, true) => format!("a file was made anew in its place; the server ended: {ended}"),
            (true, _) => "the server ended".into(),
            (false, _) => {
                let log = server.log.of_start();
                let met = OF_FILES.iter().any(|words| log.contains(words));
                format!("the server went on, and {}", if met { "statements failed" } else { "nobody met it" })
            }
        };
        self.tally.count(trouble.name(), &what);
        self.note(what)
    }
}

/// Whether the server made a file of its own in the place of the one that was away.
fn file_away(server: &Server, mut db: Client, random: &mut Random, lasts: Duration) -> Checked<bool> {
    // Where kills tear writes, there are full page images.
    let relation = random.of(&RELATIONS[..if server.kills_tear { RELATIONS.len() } else { KEPT }]);
    let path: String =
        db.query_one("SELECT pg_relation_filepath($1::text::regclass)", &[&relation])?.try_get(0)?;
    drop(db);
    let (file, away): (PathBuf, PathBuf) = (server.data().join(path), server.directory.join("away"));
    match fs::rename(&file, &away) {
        // A rewrite has made another.
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(false),
        renamed => renamed?,
    }
    thread::sleep(lasts);
    let anew = file.exists();
    fs::rename(&away, &file)
        .map_err(|error| Failure(format!("\"{}\" cannot come back: {error}", file.display())))?;
    Ok(anew)
}
