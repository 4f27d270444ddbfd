//! Sessions: what tells a data directory that was put back from the one that the tier was used with last.
//!
//! Identifiers, redo point and timeline are equal in every copy of a directory that was made since the last
//! checkpoint. So each start of a server draws a nonce, the name of its session, and both sides keep it:
//! the marker in the data directory, and the superblock, which has two, the *confirmed* one and the
//! *pending* one.
//!
//! ```text
//!                       superblock                    marker
//!   left by session S   confirmed S,  pending S       S
//!   1. superblock       confirmed S,  pending S'      S         the tier is as it was
//!   2. marker           confirmed S,  pending S'      S'
//!   3. superblock       confirmed S', pending S'      S'        of the epoch that recovery begins
//! ```
//!
//! All three are durable before the first redo, append or stage-out. A marker that has either of the two is
//! of the directory that the tier was used with last, or of a copy of it that nobody has started since; a
//! crash between any two of the steps leaves one of them. What is confirmed in step 1 is what the marker
//! had, so a start that was cut off any number of times keeps the pair together.
//!
//! The superblock's list of the nonces of its last epochs has those of the sessions too, and the marker says
//! in which epoch its session began. Nothing is decided by that; it says which of the two is older.
//!
//! A directory and a tier that were last used by a server which drew no nonces have zeros, and fit each
//! other.

use mezzanine_engine::format::{Nonce, Sessions, Superblock};
use mezzanine_engine::planted::{self, Bug};

use crate::expendable::expendable;
use crate::marker::Marker;
use crate::message::Refusal;

/// Why the data directory is not the one that this tier of its was used with last; `None` if it is.
pub(crate) fn differs(found: &Superblock, marker: &Marker) -> Option<String> {
    let Sessions { confirmed, pending } = found.sessions;
    let session = marker.session_nonce();
    let is_pending = session == pending && !planted::is(Bug::PendingSessionForgotten);
    let fits = session == confirmed || is_pending || planted::is(Bug::SessionUnchecked);
    (!fits).then(|| which_is_older(found, marker))
}

/// Tier and data directory are not of the same moment: the reason why the tier is emptied, if nobody needs
/// what it holds. `needed` says that the directory lacks pages.
///
/// # Errors
/// If one of the two may have the only copy of pages.
pub(crate) fn apart(found: &Superblock, needed: bool, flash: &str, why: String) -> Result<String, Refusal> {
    if expendable(found) && !needed {
        return Ok(why);
    }
    Err(Refusal::new(format!(
        "the flash tier on \"{flash}\" and the data directory are not of the same moment"
    ))
    .detail(format!("One of them is an older copy: {why}."))
    .hint("Put both back from the same moment, or restore a base backup, which needs no tier."))
}

fn which_is_older(found: &Superblock, marker: &Marker) -> String {
    let session = marker.session_nonce();
    let why = if session == Nonce::default() {
        "the data directory is the older one, for its marker names no session of the server, and the tier was used in one"
    } else if found.nonce_of(marker.epoch) == Some(session) {
        "the data directory is the older one, for the tier was used in a later session of the server"
    } else if marker.epoch > found.epoch {
        "the tier is the older one, or was used with another copy of the data directory, for this one was used in a later session of the server"
    } else {
        "each was used in a session of the server that the other does not know"
    };
    why.to_owned()
}

/// Step 1: the superblock that is durable before the marker takes the new session. The tier is what it was.
#[must_use]
pub(crate) fn begin(found: &Superblock, marker: Option<&Marker>, session: Nonce) -> Superblock {
    let confirmed = marker.map_or(found.sessions.confirmed, Marker::session_nonce);
    Superblock {
        generation: found.generation + 1,
        sessions: Sessions { confirmed, pending: session },
        ..found.clone()
    }
}

/// Step 3: of the superblock with which recovery begins an epoch.
#[must_use]
pub(crate) fn confirm(recovered: &Superblock) -> Superblock {
    let session = recovered.sessions.pending;
    let sessions = Sessions { confirmed: session, pending: session };
    Superblock { sessions, ..recovered.with_nonce(session) }
}
