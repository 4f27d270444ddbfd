//! Pragmas of the VFS.
//!
//! | pragma | result |
//! |---|---|
//! | `PRAGMA mezzanine_status` | the database, its tier, their state and counters |
//! | `PRAGMA mezzanine_drain` | `drained`, after every page of the tier's databases has been written to its disk. Once closed, they are ordinary SQLite databases |
//! | `PRAGMA mezzanine_error` | the newest failure in this thread, in words |

use crate::database::Connection;
use crate::error::Error;

/// What a pragma comes to.
pub(crate) enum Answer {
    NotOurs,
    Text(String),
    Failed(Error),
}

/// Answers the pragma `name`.
pub(crate) fn answer(name: &str, connection: &Connection, last_error: Option<String>) -> Answer {
    match name.to_ascii_lowercase().as_str() {
        "mezzanine_status" => Answer::Text(connection.status()),
        "mezzanine_drain" => match connection.database().mount().drain() {
            Ok(true) => Answer::Text("drained; ordinary databases once they are closed".to_owned()),
            Ok(false) => Answer::Text("drained".to_owned()),
            Err(error) => Answer::Failed(error),
        },
        "mezzanine_error" => Answer::Text(last_error.unwrap_or_else(|| "none".to_owned())),
        _ => Answer::NotOurs,
    }
}
