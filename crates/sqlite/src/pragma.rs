//! Pragmas of the VFS.
//!
//! | pragma | result |
//! |---|---|
//! | `PRAGMA mezzanine_status` | the database, its tier, their state and counters |
//! | `PRAGMA mezzanine_drain` | after every page of the tier's databases has been written to its disk: `drained` |
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
        "mezzanine_drain" => match connection.database().mount().volume.drain() {
            Ok(()) => Answer::Text("drained".to_owned()),
            Err(error) => Answer::Failed(error.into()),
        },
        "mezzanine_error" => Answer::Text(last_error.unwrap_or_else(|| "none".to_owned())),
        _ => Answer::NotOurs,
    }
}
