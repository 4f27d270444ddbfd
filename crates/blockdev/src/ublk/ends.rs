//! The end of a block device: who uses it, and what is left of it.

use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::thread;
use std::time::Duration;

use rustix::fs::OFlags;
use rustix::io::Errno;

use super::kernel::Control;
use super::wire::{ControlOp, Info, State};
use super::{UblkDevice, block_path, info, numbers, processes};

/// How long the end of one that nobody uses may take.
const DETACH_WITHIN: Duration = Duration::from_secs(60);
/// How long a kernel that knows only to wait for the last user is waited for.
const DELETE_WITHIN: Duration = Duration::from_secs(5);

/// A block device that nobody uses, and nobody else can claim as long as this is kept.
pub struct Claim(File);

impl UblkDevice {
    /// Claims the block device.
    ///
    /// # Errors
    /// `ResourceBusy` if it is mounted or otherwise claimed, or a process, a loop device or another block
    /// device has it open.
    pub fn claim(&self) -> io::Result<Claim> {
        let claimed = open(&self.path, OFlags::EXCL)?;
        let mut users = devices_above(Path::new("/sys/block"), &self.path);
        let has_it = |file: &Path| is_within(file, &self.path);
        users.extend(processes::with_open(has_it).iter().map(|process| format!("process {process}")));
        let Some(user) = users.first() else { return Ok(Claim(claimed)) };
        let others = if users.len() > 1 { format!(" and {} others", users.len() - 1) } else { String::new() };
        let reason = format!("{user}{others} has it open");
        Err(io::Error::new(io::ErrorKind::ResourceBusy, reason))
    }

    /// Takes the block device away that was claimed, when what was written to it is flushed.
    ///
    /// # Errors
    /// `TimedOut` if the device does not give requests back, and what the kernel refuses.
    pub fn detach(&mut self, Claim(claimed): Claim) -> io::Result<()> {
        if self.queue.is_none() { Ok(()) } else { self.stop(DETACH_WITHIN, Some(claimed)) }
    }

    /// Takes it away whoever uses it: what is under way is finished, for which there is so much time, and
    /// everything later fails.
    ///
    /// # Errors
    /// `TimedOut` if the device does not give requests back in time, and what the kernel refuses. Later
    /// requests fail all the same.
    pub fn close(&mut self, within: Duration) -> io::Result<()> {
        if self.queue.is_none() {
            return Ok(());
        }
        let opened = open(&self.path, OFlags::empty());
        self.stop(within, opened.ok())
    }

    /// Stops and deletes it. What is open here is flushed before: the kernel does not write back to a device
    /// that is stopped.
    pub(super) fn stop(&mut self, within: Duration, opened: Option<File>) -> io::Result<()> {
        let (done, is_done) = mpsc::channel();
        let number = self.number;
        // It is in the kernel for as long as a request is in the device.
        thread::Builder::new().name("ublk-stop".to_owned()).spawn(move || {
            let flushed = opened.as_ref().map_or(Ok(()), File::sync_all);
            let stopped = Control::open().and_then(|mut control| {
                control.run(ControlOp::Stop, number, 0, &mut [])?;
                Ok(control)
            });
            drop(opened);
            let _ = done.send((flushed, stopped));
        })?;
        let (flushed, stopped) = match is_done.recv_timeout(within.max(Duration::from_secs(1))) {
            Ok(done) => done,
            Err(RecvTimeoutError::Disconnected) => return Err(io::Error::other("its end has no thread")),
            Err(RecvTimeoutError::Timeout) => {
                let left = self.serving.gate.close(Duration::ZERO);
                let reason = format!("{left} requests are still in the device after {within:?}");
                return Err(io::Error::new(io::ErrorKind::TimedOut, reason));
            }
        };
        let mut control = stopped?;
        // All of its memory has to be given back before it can be deleted.
        if let Some(queue) = self.queue.take() {
            queue.join().map_err(|_| io::Error::other("the thread of its queue has panicked"))?;
        }
        remove(&mut control, number)?;
        flushed
    }
}

impl Drop for UblkDevice {
    fn drop(&mut self) {
        // If it is in use it waits for the next server when this process is gone.
        if self.queue.is_some() {
            let _ = self.claim().and_then(|claim| self.detach(claim));
        }
    }
}

/// Deletes a block device that is stopped. The kernel frees its number when the last who has it open closes
/// it, which may be never: that is not waited for.
pub(super) fn remove(control: &mut Control, number: u32) -> io::Result<()> {
    match control.run(ControlOp::DeleteLater, number, 0, &mut []) {
        Err(error) if is_unknown(&error) => {}
        done => return done,
    }
    // Before Linux 6.9 there is only the command that waits. What it waits for comes after all else.
    let (done, is_done) = mpsc::channel();
    thread::Builder::new().name("ublk-delete".to_owned()).spawn(move || {
        let deleted =
            Control::open().and_then(|mut control| control.run(ControlOp::Delete, number, 0, &mut []));
        let _ = done.send(deleted);
    })?;
    match is_done.recv_timeout(DELETE_WITHIN) {
        Ok(deleted) => deleted,
        Err(RecvTimeoutError::Timeout) => Ok(()),
        Err(RecvTimeoutError::Disconnected) => Err(io::Error::other("its deletion has no thread")),
    }
}

/// Whether the kernel does not know a command.
fn is_unknown(error: &io::Error) -> bool {
    /// `ENOTSUPP`, which is the kernel's own; ublk has let it out.
    const NOT_SUPPORTED: i32 = 524;
    let known = [Errno::OPNOTSUPP, Errno::INVAL].map(Errno::raw_os_error);
    error.raw_os_error().is_some_and(|number| number == NOT_SUPPORTED || known.contains(&number))
}

fn open(path: &Path, how: OFlags) -> io::Result<File> {
    let mut options = OpenOptions::new();
    options.read(true).custom_flags((how | OFlags::CLOEXEC).bits() as i32);
    // What is not written to at all cannot be opened for that.
    options.clone().write(true).open(path).or_else(|error| match error.kind() {
        io::ErrorKind::PermissionDenied | io::ErrorKind::ReadOnlyFilesystem => options.open(path),
        _ => Err(error),
    })
}

/// Whether something is a block device or a partition of it.
fn is_within(target: &Path, block_device: &Path) -> bool {
    let (target, name) = (target.to_string_lossy(), block_device.to_string_lossy());
    target.strip_prefix(&*name).is_some_and(|rest| rest.is_empty() || rest.starts_with('p'))
}

/// Block devices that the kernel has made of it, or of a partition of it: no process has it open for them,
/// and loop devices do not claim what they show.
fn devices_above(sys_block: &Path, block_device: &Path) -> Vec<String> {
    let names = |folder: &Path| -> Vec<String> {
        let entries = fs::read_dir(folder).into_iter().flatten().flatten();
        entries.map(|entry| entry.file_name().to_string_lossy().into_owned()).collect()
    };
    let shows_it = |name: &String| {
        let file = fs::read_to_string(sys_block.join(name).join("loop/backing_file"));
        file.is_ok_and(|file| is_within(Path::new(file.trim_end()), block_device))
    };
    let mut found: Vec<_> = names(sys_block).into_iter().filter(shows_it).collect();
    let own = block_device.file_name().unwrap_or_default();
    let parts = names(&sys_block.join(own)).into_iter().filter(|name| is_within(name.as_ref(), own.as_ref()));
    let folders = parts.map(|part| Path::new(own).join(part)).chain([own.into()]);
    found.extend(folders.flat_map(|folder| names(&sys_block.join(folder).join("holders"))));
    found.iter().map(|name| format!("/dev/{name}")).collect()
}

/// The block device of this identity that a server has left with requests which it had not answered, or may
/// have. Whoever takes it over carries them out, writes included, whatever was written elsewhere meanwhile.
/// There is none where the kernel has no ublk, or this user may not ask.
///
/// # Errors
/// What the kernel refuses.
pub fn left(identity: u64) -> io::Result<Option<PathBuf>> {
    let mut control = match Control::open() {
        Err(error) if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::PermissionDenied) => {
            return Ok(None);
        }
        control => control?,
    };
    let numbers = numbers()?.into_iter();
    // One that goes meanwhile is none.
    let mut infos = numbers.filter_map(|number| info(&mut control, number).ok());
    let left = infos.find(|info| info.identity == identity && is_left(info));
    Ok(left.map(|info| block_path(info.number)))
}

fn is_left(info: &Info) -> bool {
    match info.state {
        State::Quiesced => true,
        State::Dead => false,
        // Unless it has, the kernel has not noticed yet.
        State::Live | State::Other(_) => !info.is_served(),
    }
}

/// The number of a block device of this kind, by its path.
pub fn number_of(path: &Path) -> Option<u32> {
    let number = path.to_str()?.strip_prefix("/dev/ublkb")?.parse().ok()?;
    (block_path(number) == path).then_some(number)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    #[test]
    fn what_the_kernel_has_made_of_a_block_device_or_of_its_partitions_is_seen() {
        let folder = std::env::temp_dir().join(format!("mezz-devices-above-{}", std::process::id()));
        let of = |number: u32| devices_above(&folder, &block_path(number));
        for (name, file) in [("loop0", "/dev/ublkb1"), ("loop1", "/dev/ublkb2p3"), ("loop2", "/dev/ublkb10")]
        {
            fs::create_dir_all(folder.join(name).join("loop")).unwrap();
            fs::write(folder.join(name).join("loop/backing_file"), format!("{file}\n")).unwrap();
        }
        fs::create_dir_all(folder.join("ublkb3/holders/dm-0")).unwrap();
        fs::create_dir_all(folder.join("ublkb4/ublkb4p1/holders/md7")).unwrap();
        fs::create_dir_all(folder.join("ublkb5/holders")).unwrap();
        let found: Vec<_> = (1..=5).map(of).collect();
        fs::remove_dir_all(&folder).unwrap();
        let expected: [&[&str]; 5] = [&["/dev/loop0"], &["/dev/loop1"], &["/dev/dm-0"], &["/dev/md7"], &[]];
        assert_eq!(found, expected);
    }
}
