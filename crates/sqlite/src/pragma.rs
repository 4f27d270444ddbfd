//! Pragmas of the VFS.
//!
//! | pragma | result |
//! |---|---|
//! | `PRAGMA mezzanine_status` | the database, its tier, their state and counters |
//! | `PRAGMA mezzanine_drain` | `drained`, after every page of the tier's databases has been written to its disk. Once closed, they are ordinary SQLite databases |
//! | `PRAGMA mezzanine_resize = '2GiB'` | asks for a tier that uses so much flash; without a value, or `= cancel`, tells how far that is, or forgets it |
//! | `PRAGMA mezzanine_sync_mode = through` | switches the sync mode while the database is in use; without a value, tells it |
//! | `PRAGMA mezzanine_admission = off` | has the tier take no pages, or take them again (`on`); without a value, tells which |
//! | `PRAGMA mezzanine_replace = '/mnt/new/app.mezz'` | moves the tier to another flash file while the database is in use; without a value, tells on which it is |
//! | `PRAGMA mezzanine_forget = '/srv/old.db'` | goes on without a database that is gone for good; without a value, tells what the tier waits for |
//! | `PRAGMA mezzanine_trace = '/tmp/app.mezztrace'` | records what the tier's databases ask of it, until `= off`; without a value, tells where to |
//! | `PRAGMA mezzanine_error` | the newest failure in this thread, in words |

use crate::database::Connection;
use crate::error::Error;
use crate::mount::may_succeed_now;
use crate::online;
use crate::record;
use crate::replace;

/// What a pragma comes to.
pub(crate) enum Answer {
    NotOurs,
    Text(String),
    Failed(Error),
}

fn of(result: Result<String, Error>) -> Answer {
    result.map_or_else(Answer::Failed, Answer::Text)
}

/// Answers the pragma `name`.
pub(crate) fn answer(
    name: &str,
    argument: Option<&str>,
    connection: &Connection,
    last_error: Option<String>,
) -> Answer {
    let database = connection.database();
    match answer_once(name, argument, connection, last_error) {
        Answer::Failed(error) if may_succeed_now(&error, database.mount(), database.path()) => {
            answer_once(name, argument, connection, None)
        }
        answer => answer,
    }
}

fn answer_once(
    name: &str,
    argument: Option<&str>,
    connection: &Connection,
    last_error: Option<String>,
) -> Answer {
    match name.to_ascii_lowercase().as_str() {
        "mezzanine_status" => Answer::Text(connection.status()),
        "mezzanine_drain" => match connection.database().mount().drain() {
            Ok(true) => Answer::Text("drained; ordinary databases once they are closed".to_owned()),
            Ok(false) => Answer::Text("drained".to_owned()),
            Err(error) => Answer::Failed(error),
        },
        "mezzanine_resize" => of(online::resize(connection.database().mount(), argument)),
        "mezzanine_sync_mode" => of(online::sync_mode(connection.database().mount(), argument)),
        "mezzanine_forget" => of(online::forget(connection.database().mount(), argument)),
        "mezzanine_admission" => of(online::admission(connection.database().mount(), argument)),
        "mezzanine_replace" => of(replace::replace(connection.database().mount(), argument)),
        "mezzanine_trace" => of(record::pragma(connection.database().mount(), argument)),
        "mezzanine_error" => Answer::Text(last_error.unwrap_or_else(|| "none".to_owned())),
        _ => Answer::NotOurs,
    }
}
