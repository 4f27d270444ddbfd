//! Recording what databases ask of their tier, as a trace.
//!
//! A recording is of a tier, with all databases on it. It is asked for by the URI that opens the tier, by a
//! pragma while it is in use, or by the command `mezz trace record` for everything that a program and its
//! children open: it names a directory in [`DIRECTORY_VARIABLE`], which gets a trace for each tier of each
//! process.
//!
//! Commits are seen where SQLite makes them: with a rollback journal they are syncs of the database, in WAL
//! mode frames that state the size of the database after a commit ("Database File Format", section 4.1); then
//! syncs of the database are checkpoints.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};

use mezzanine_volume::{Recorded, Volume};

use crate::error::{Error, ErrorKind};
use crate::mount::Mount;

/// Names the directory in which `mezz trace record` wants traces.
pub const DIRECTORY_VARIABLE: &str = "MEZZANINE_TRACE_DIRECTORY";

/// Begins the recording that was asked for when a tier is opened: by `path`, of the URI, or by the
/// environment.
pub(crate) fn begin(volume: &Volume, path: Option<&Path>) -> Result<(), Error> {
    match path {
        // For programs that open and close their databases again and again.
        Some(directory) if directory.is_dir() => return Ok(volume.record(&directory.join(next_name()))?),
        Some(path) => return Ok(volume.record(path)?),
        None => {}
    }
    // Whoever asked may have gone, and the directory with him, before a child of the program opens a tier.
    match std::env::var_os(DIRECTORY_VARIABLE).map(PathBuf::from).filter(|directory| directory.is_dir()) {
        Some(directory) => Ok(volume.record(&directory.join(next_name()))?),
        None => Ok(()),
    }
}

/// A name that no other tier and no other process uses.
fn next_name() -> String {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    format!("{}-{}.mezztrace", std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed))
}

/// Ends the recording of a tier that is closed. That nothing had happened is no failure.
pub(crate) fn end(volume: &Volume) -> Result<(), Error> {
    match volume.stop_recording() {
        Err(error) if error.kind() == mezzanine_volume::VolumeErrorKind::NothingRecorded => Ok(()),
        stopped => Ok(stopped.map(|_| ())?),
    }
}

/// `PRAGMA mezzanine_trace`.
pub(crate) fn pragma(mount: &Mount, argument: Option<&str>) -> Result<String, Error> {
    let volume = &mount.volume;
    match argument {
        None => Ok(volume.recorded_to().map_or_else(
            || "nothing is recorded".to_owned(),
            |path| format!("recording to {}", path.display()),
        )),
        Some("off") => match volume.stop_recording()? {
            Some(Recorded { requests, file_bytes, .. }) => {
                Ok(format!("recorded {requests} requests and marks in {file_bytes} bytes"))
            }
            None => {
                let reason = "nothing is recorded";
                Err(Error::new(ErrorKind::BadParameter, "stop", "the recording", reason))
            }
        },
        Some("") => {
            let reason = "it is empty; give the path of the trace to write, or off";
            Err(crate::params::bad("mezzanine_trace", "", reason))
        }
        Some(path) => {
            volume.record(Path::new(path))?;
            Ok(format!("recording to {path}"))
        }
    }
}

/// Whether this is the header of a frame of the write-ahead log that ends a transaction: SQLite writes it by
/// itself, and it states the size of the database in pages, which is 0 in all other frames.
pub(crate) fn is_commit_frame(bytes: &[u8]) -> bool {
    const FRAME_HEADER_BYTES: usize = 24;
    bytes.len() == FRAME_HEADER_BYTES && bytes[4..8] != [0; 4]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_commit_is_a_frame_that_states_the_size_of_the_database() {
        let mut header = [7; 24];
        assert!(is_commit_frame(&header));
        header[4..8].fill(0);
        assert!(!is_commit_frame(&header), "a frame in the middle of a transaction");
        assert!(!is_commit_frame(&[7; 32]), "the header of the log");
        assert!(!is_commit_frame(&[7; 4096]), "a page");
    }
}
