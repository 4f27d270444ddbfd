//! What this machine sees of the volumes besides their sockets: a file through FUSE, block devices through
//! ublk.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use mezzanine_blockdev::fuse::{FuseFile, FuseOptions};
use mezzanine_blockdev::nbd::Export;
use mezzanine_blockdev::ublk::UblkDevice;
use mezzanine_device::DeviceError;

use super::attach::AttachArgs;
use super::devices::Named;
use crate::failure::{Failure, chain};
use crate::nbd::Counts;
use crate::output;
use crate::size::Size;
use crate::ublk::{self, Ready};

/// How long the end of what was only just made may take.
const GIVE_BACK_WITHIN: Duration = Duration::from_secs(5);

/// Shown until this is dropped; what is in use then goes with the process.
#[derive(Default)]
pub(super) struct Local {
    file: Option<FuseFile>,
    /// In the order of the volumes.
    block_devices: Vec<UblkDevice>,
}

/// By what the block device of a volume is known again.
fn identity(named: &Named) -> u64 {
    ublk::identity("block attach", &named.name, &named.path)
}

/// Refuses what cannot be shown here, and volumes that a crash has left as block devices without taking
/// those over; nothing is changed.
pub(super) fn refuse(args: &AttachArgs) -> Result<(), Failure> {
    if args.listen.ublk {
        return ublk::refuse_missing();
    }
    args.backing.iter().try_for_each(|named| ublk::refuse_left(identity(named)))
}

/// What is asked for and can be shown.
pub(super) struct Prepared {
    file: Option<FuseFile>,
    /// In the order of the volumes.
    block_devices: Vec<Ready>,
}

impl Prepared {
    /// Shows the file, and looks whether the block devices can be shown.
    pub(super) fn new(
        args: &AttachArgs,
        volumes: &[&Named],
        exports: &[(Export, String)],
        counts: &Arc<Counts>,
    ) -> Result<Self, Failure> {
        let mut block_devices = Vec::new();
        for (named, (export, _)) in volumes.iter().zip(exports).filter(|_| args.listen.ublk) {
            block_devices.push(Ready::new(export, identity(named), counts)?);
        }
        let first = exports.first().map(|(export, _)| export);
        let file = args.fuse.as_ref().zip(first);
        let file = file.map(|(path, export)| show_file(path, export, counts)).transpose()?;
        Ok(Self { file, block_devices })
    }

    /// Shows the block devices: all of them, or none. If one cannot be and another that was taken over is in
    /// use, the process ends here as in a crash, so that its users wait for the next server.
    pub(super) fn show(self) -> Result<Local, Failure> {
        let mut local = Local { file: self.file, block_devices: Vec::new() };
        for ready in self.block_devices {
            match ready.show() {
                Ok(shown) => local.block_devices.push(shown),
                Err(failure) => return Err(local.give_back(failure)),
            }
        }
        Ok(local)
    }
}

impl Local {
    /// Takes away what has just been shown, because of a failure.
    fn give_back(mut self, failure: Failure) -> Failure {
        // It does not go with a process that ends at once.
        drop(self.file.take());
        let mut left = Vec::new();
        for mut shown in self.block_devices.drain(..) {
            let ended = match shown.claim() {
                Ok(claim) => shown.detach(claim),
                Err(_) if shown.was_taken_over() => {
                    left.push(shown);
                    continue;
                }
                // Nobody knows it yet but those who look at every new one.
                Err(_) => shown.close(GIVE_BACK_WITHIN),
            };
            if let Err(error) = ended {
                note_unclean(shown.path(), &error);
            }
        }
        if left.is_empty() {
            return failure;
        }
        for shown in &left {
            let path = shown.path().display();
            output::note(&format!("{path}: it is in use, and waits until it is attached again"));
        }
        // Its requests go to the cache, which must not be closed before they have ended.
        failure.end()
    }

    pub(super) fn block_devices(&self) -> Vec<PathBuf> {
        self.block_devices.iter().map(|shown| shown.path().to_owned()).collect()
    }

    /// Takes away what nobody uses: all of it, or nothing.
    pub(super) fn end_unused(&mut self) -> Result<(), Failure> {
        let in_use = |path: &Path, reason: String| {
            Failure::refused(path.display(), reason).next(
                "end what uses it (umount, losetup -d), or give --disconnect: whoever has it open gets errors then",
            )
        };
        let mut claims = Vec::new();
        for shown in &self.block_devices {
            let claim = shown.claim();
            claims.push(claim.map_err(|error| in_use(shown.path(), format!("it is in use: {error}")))?);
        }
        if let Some(file) = &mut self.file {
            let unmounted = file.unmount();
            unmounted.map_err(|error| in_use(file.path(), format!("it cannot be unmounted: {error}")))?;
        }
        self.file = None;
        for (mut shown, claim) in self.block_devices.drain(..).zip(claims) {
            if let Err(error) = shown.detach(claim) {
                note_unclean(shown.path(), &error);
            }
        }
        Ok(())
    }

    /// Takes everything away, whoever uses it.
    pub(super) fn close(mut self, within: impl Fn() -> Duration) {
        if let Some(file) = &mut self.file {
            if let Err(error) = file.close(within()) {
                note_unclean(file.path(), &error);
            }
        }
        for shown in &mut self.block_devices {
            if let Err(error) = shown.close(within()) {
                note_unclean(shown.path(), &error);
            }
        }
    }
}

fn note_unclean(path: &Path, error: &std::io::Error) {
    let path = path.display();
    output::note(&format!("{path}: later requests fail, but it could not be closed cleanly: {error}"));
}

/// Shows a volume as a file.
fn show_file(path: &Path, export: &Export, counts: &Arc<Counts>) -> Result<FuseFile, Failure> {
    let counts = Arc::clone(counts);
    let on_failure = Box::new(move |error: &DeviceError| counts.note_failure(&chain(error)));
    let options =
        FuseOptions { zeroes_are_holes: export.zeroes_are_holes, on_failure, ..FuseOptions::default() };
    let text = format!("showing {} ({})", export.name, Size(export.device.len()));
    let file = FuseFile::mount(Arc::clone(&export.device), path, options).map_err(|error| {
        Failure::refused(path.display(), format!("no file can be shown there: {error}")).next(
            "name a path in a folder that exists; it needs /dev/fuse (modprobe fuse), and fusermount3 (of the package \
             fuse3) where this user is not root",
        )
    })?;
    output::note(&format!("{text}: {}", file.path().display()));
    Ok(file)
}
