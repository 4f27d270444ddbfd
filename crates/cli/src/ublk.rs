//! Volumes and drives as block devices, through ublk.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use clap::Args;
use mezzanine_blockdev::nbd::Export;
use mezzanine_blockdev::ublk::{self, Prepared, UblkDevice, UblkOptions};
use mezzanine_device::DeviceError;
use serde::Serialize;
use sha2::{Digest as _, Sha256};

use crate::failure::{Failure, chain};
use crate::nbd::Counts;
use crate::output;
use crate::size::Size;

pub(crate) const DELETE_EXAMPLES: &str = "Examples:
  mezz device ublk-delete /dev/ublkb0

After a crash of `block attach --ublk` or `device serve --ublk` requests to the block device wait until the same command takes it over. Whoever does not want that deletes it.";

/// The options of `device ublk-delete`.
#[derive(Debug, Args)]
pub(crate) struct DeleteArgs {
    /// The block device. Whoever has it open gets errors from then on.
    device: PathBuf,
}

#[derive(Serialize)]
struct Deleted {
    device: String,
}

/// By what the block device of something is known again whose server is gone.
pub(crate) fn identity(command: &str, name: &str, path: &Path) -> u64 {
    let path = path.canonicalize().unwrap_or_else(|_| path.to_owned());
    let mut hash = Sha256::new();
    for part in [command.as_bytes(), name.as_bytes(), path.as_os_str().as_encoded_bytes()] {
        hash.update((part.len() as u64).to_le_bytes());
        hash.update(part);
    }
    let mut first = [0; 8];
    first.copy_from_slice(&hash.finalize()[..8]);
    // 0 is of those that are not known again.
    u64::from_le_bytes(first).max(1)
}

/// Refuses where there is no ublk, before anything is begun.
pub(crate) fn refuse_missing() -> Result<(), Failure> {
    ublk::is_available().map_err(|error| refused(&error))
}

/// Refuses to serve what a block device of this identity still has requests for, which a crash has left.
pub(crate) fn refuse_left(identity: u64) -> Result<(), Failure> {
    let left = ublk::left(identity).map_err(|error| {
        Failure::refused("/dev/ublk-control", format!("what a crash has left cannot be looked for: {error}"))
            .next("the kernel's log may say more (dmesg)")
    })?;
    let Some(path) = left.map(|path| path.display().to_string()) else { return Ok(()) };
    let reason = "a crash has left it with writes that may not be answered; they would be carried out over newer ones \
                  when it is taken over later";
    Err(Failure::refused(&path, reason)
        .next(format!("take it over with --ublk, or delete it with `mezz device ublk-delete {path}`")))
}

/// What can be shown as a block device.
pub(crate) struct Ready {
    prepared: Prepared,
    /// What it is, for people.
    text: String,
}

impl Ready {
    /// Looks whether what is exported can be shown; nothing is changed yet.
    pub(crate) fn new(export: &Export, identity: u64, counts: &Arc<Counts>) -> Result<Self, Failure> {
        let counts = Arc::clone(counts);
        let options = UblkOptions {
            read_only: export.read_only,
            rotational: export.rotational,
            zeroes_are_holes: export.zeroes_are_holes,
            logical_block: export.minimum_block.max(512),
            identity,
            on_failure: Box::new(move |error: &DeviceError| counts.note_failure(&chain(error))),
            ..UblkOptions::default()
        };
        let prepared = Prepared::new(Arc::clone(&export.device), options);
        let prepared = prepared.map_err(|error| refused(&error))?;
        let name = if export.name.is_empty() { export.device.describe() } else { export.name.clone() };
        Ok(Self { prepared, text: format!("showing {name} ({})", Size(export.device.len())) })
    }

    /// Shows it. Nothing that may fail should come after this: whoever uses a block device that is taken over
    /// gets errors if it is taken away again.
    pub(crate) fn show(self) -> Result<UblkDevice, Failure> {
        let shown = self.prepared.show().map_err(|error| refused(&error))?;
        let how = if shown.was_taken_over() { "taken over" } else { "made" };
        output::note(&format!("{}: {}, {how}", self.text, shown.path().display()));
        Ok(shown)
    }
}

fn refused(error: &io::Error) -> Failure {
    let failure = Failure::refused("--ublk", format!("no block device can be shown: {error}"));
    match error.kind() {
        io::ErrorKind::NotFound => failure.next(
            "load the driver (modprobe ublk_drv, Linux 6.4 or later with CONFIG_BLK_DEV_UBLK), or leave out --ublk and \
             give --socket",
        ),
        io::ErrorKind::PermissionDenied => failure.next("start it as root, or leave out --ublk and give --socket"),
        io::ErrorKind::ResourceBusy => failure.next("end that process first"),
        io::ErrorKind::TimedOut => failure.next(
            "try it again in a minute, or delete what was left with `mezz device ublk-delete`: whoever uses it gets errors",
        ),
        io::ErrorKind::InvalidInput => failure.next(
            "show it as it was, or delete what was left with `mezz device ublk-delete`; blocks are given with --block-size",
        ),
        _ => failure.next("the kernel's log may say more (dmesg); or leave out --ublk and give --socket"),
    }
}

pub(crate) fn delete(args: &DeleteArgs, json: bool) -> Result<(), Failure> {
    let path = &args.device.display();
    let Some(number) = ublk::number_of(&args.device) else {
        let failure = Failure::refused(path, "it is no block device of ublk");
        return Err(failure.next("name one: /dev/ublkb0"));
    };
    ublk::delete(number).map_err(|error| match error.kind() {
        io::ErrorKind::ResourceBusy => {
            Failure::refused(path, error).next("end that: `mezz block detach`, or SIGTERM")
        }
        io::ErrorKind::NotFound => Failure::refused(path, format!("it is not there ({error})"))
            .next("`ls /dev/ublkb*` shows which there are"),
        _ => Failure::refused(path, error).next("ublk needs root"),
    })?;
    let deleted = Deleted { device: path.to_string() };
    if json { output::json(&deleted) } else { output::print(&format!("deleted {path}\n")) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_differs_is_not_taken_for_the_same() {
        let of = |command, name, path| identity(command, name, Path::new(path));
        let one = of("block attach", "data", "/nowhere/a");
        assert_eq!(one, of("block attach", "data", "/nowhere/a"));
        for other in [
            of("device serve", "data", "/nowhere/a"),
            of("block attach", "log", "/nowhere/a"),
            of("block attach", "data", "/nowhere/b"),
            of("block attach", "dat", "a/nowhere/a"),
        ] {
            assert_ne!(one, other);
        }
    }
}
