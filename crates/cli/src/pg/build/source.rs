//! Finding the released source: a file that the user gives, the cache, or the network. Whatever it is, its
//! checksum decides.
//!
//! Archives are fetched by `curl`. A client in Rust would bring a TLS library and thirty crates for the one
//! thing that this command ever fetches; `curl` knows the system's certificates and proxies, and since the
//! checksum decides, neither it nor the mirror has to be trusted.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use super::release::Release;
use super::{cache, tools};
use crate::checksum::sha256_of;
use crate::failure::Failure;
use crate::output;

/// An archive whose checksum is right.
pub(crate) fn find(release: &Release, given: Option<&Path>, cache: &Path) -> Result<PathBuf, Failure> {
    if let Some(path) = given {
        check(path, release)?;
        return Ok(path.to_owned());
    }
    let sources = cache.join("sources");
    cache::make_directory(&sources)?;
    let kept = sources.join(release.archive());
    if kept.exists() {
        match check(&kept, release) {
            Ok(()) => return Ok(kept),
            Err(failure) => {
                output::note(&format!("{failure}\n  it is fetched again"));
                cache::remove(std::fs::remove_file(&kept), &kept)?;
            }
        }
    }
    fetch(release, &kept)?;
    Ok(kept)
}

/// Tries one address after the other.
fn fetch(release: &Release, to: &Path) -> Result<(), Failure> {
    let missing = |reason: String| {
        Failure::refused(format!("the source of PostgreSQL {}", release.version), reason).next(format!(
            "fetch {} elsewhere and give it with --source, or put it into {}",
            release.archive(),
            to.display()
        ))
    };
    let Some(curl) = tools::find(&["curl"]) else {
        return Err(missing("it is not in the cache, and there is no curl to fetch it".to_owned()));
    };
    let mut reasons = Vec::new();
    for address in release.addresses() {
        match download(&curl, &address, to).and_then(|part| {
            check(&part, release).map_err(|failure| failure.to_string())?;
            std::fs::rename(&part, to).map_err(|e| format!("{}: {e}", to.display()))
        }) {
            Ok(()) => return Ok(()),
            Err(reason) => reasons.push(format!("{address}: {reason}")),
        }
    }
    Err(missing(format!("it is not in the cache and cannot be fetched:\n  {}", reasons.join("\n  "))))
}

fn download(curl: &Path, address: &str, to: &Path) -> Result<PathBuf, String> {
    let part = to.with_extension(format!("part{}", std::process::id()));
    let bar = output::spinner(&format!("fetching {}", to.file_name().unwrap_or_default().to_string_lossy()));
    let done = Command::new(curl)
        .args(["--fail", "--location", "--silent", "--show-error", "--connect-timeout", "15"])
        // A mirror that stops sending is given up; a slow one is not.
        .args(["--speed-limit", "1000", "--speed-time", "30", "--proto", "=http,https", "--output"])
        .arg(&part)
        .arg(address)
        .stdin(Stdio::null())
        .output();
    bar.finish_and_clear();
    let done = done.map_err(|e| format!("{}: {e}", curl.display()))?;
    if done.status.success() {
        return Ok(part);
    }
    // Whatever has arrived is worth nothing, and may not be there at all.
    let _ = std::fs::remove_file(&part);
    Err(String::from_utf8_lossy(&done.stderr).trim().to_owned())
}

/// Refuses an archive that is not the release.
fn check(path: &Path, release: &Release) -> Result<(), Failure> {
    let sum = sha256_of(path).map_err(|e| Failure::refused(path.display(), e))?;
    if sum == release.sha256 {
        return Ok(());
    }
    Err(Failure::refused(
        path.display(),
        format!(
            "this is not the source of PostgreSQL {}: its SHA-256 checksum is {sum}, and should be {}",
            release.version, release.sha256
        ),
    )
    .next(format!("supply the released {}", release.archive())))
}
