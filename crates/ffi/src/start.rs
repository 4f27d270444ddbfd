//! What the start of a tier is told, and what it tells (`startup.rs`).

use mezzanine_engine::format::Nonce;
use mezzanine_engine::{RecoveryReport, RedoPoint};

/// What the server knows when it starts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Start {
    /// Names the database cluster: the control file's system identifier.
    pub system_identifier: u64,
    /// Whether the cluster's pages carry checksums, by the control file: `pg_checksums` changes that while
    /// the server is down, in the files and not in the tier.
    pub checksums: bool,
    /// Where redo begins, by the control file.
    pub redo: RedoPoint,
    /// The data directory was restored from a base backup and has not been started since: the files and the
    /// log suffice, and no tier belongs to it.
    pub from_backup: bool,
    /// The control file says that the files lack pages, which only a tier has
    /// ([`crate::host::Server::mark_control_file`]).
    pub files_lack_pages: bool,
    /// The number of this process.
    pub owner: u32,
    /// 16 random bytes, the name of a new tier.
    pub new_uuid: [u8; 16],
    /// 16 others, the name of the session that begins.
    pub new_session: Nonce,
}

/// How the tier was found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Adoption {
    /// It is used as it was left.
    Adopted,
    /// It is this server's, but what it holds is not to be believed: it was emptied.
    Discarded,
    /// There was none of this server's: a new one was made.
    Formatted,
    /// Its device has failed and nobody needs it: there is no tier until the next start.
    Unusable,
}

/// What starting the tier did.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Started {
    /// What became of what was found.
    pub adoption: Adoption,
    /// Why it was not adopted; empty if it was.
    pub reason: String,
    /// What recovery did.
    pub recovery: RecoveryReport,
    /// The configuration asked for another sync mode than the tier can change to before it is drained.
    pub mode_kept: bool,
    /// The configuration asks for other sizes than the tier can be made anew with before it is drained: both,
    /// in a sentence. Else empty.
    pub sizes_kept: String,
    /// Clean pages that were dropped, because their files have changed since the server ended,
    pub changed_pages: u64,
    /// and how many files that were.
    pub changed_files: u64,
}
