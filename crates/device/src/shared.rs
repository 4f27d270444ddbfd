//! A piece of memory that processes share by a path, and who may start it afresh.
//!
//! Rules:
//! 1. One process *creates* the memory, zeroed, and sets up in it whatever it is for; then it *shares* it.
//!    From then on others *join*. Nobody joins before, and nobody creates while anyone still uses what was
//!    there.
//! 2. Memory whose users are all gone is not joined: what they left behind has nobody to answer for it. It is
//!    created anew.
//!
//! Both are kept by locks on the file that go with their holders, however those end. Byte 0 is locked
//! exclusively by the creator at work and shared by every user; byte 1 is locked, shared, by those who know
//! that the contents are in use. The locks are the ones that belong to the open file (`F_OFD_SETLK`): unlike
//! `flock`, they change from exclusive to shared without a moment in between.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::fs::{FileExt, MetadataExt, OpenOptionsExt};
use std::path::Path;

use crate::mapping::Mapping;
use crate::{DeviceError, DeviceErrorKind};

const USED: libc::off_t = 0;
const ALIVE: libc::off_t = 1;
/// Ends the file, so that no other file is ever taken for shared memory and overwritten.
const TRAILER: [u8; 16] = *b"mezz shared mem\n";

/// Memory shared by path, best under `/dev/shm`: elsewhere the kernel writes it to disk in the background.
///
/// Only processes of its user can open it. All of its pages exist from the start, so that running out of
/// memory is an error of [`SharedMemory::create`] and no signal later. Forked children have the memory and
/// the locks together with their parent.
///
/// Huge pages are asked for. The kernel gives them where the file system is mounted with `huge=advise`:
/// `mount -o remount,huge=advise /dev/shm`.
pub struct SharedMemory {
    mapping: Mapping,
    /// Keeps the locks.
    _file: File,
}

/// The right to let others join memory that was created.
#[must_use = "nobody can join before the memory is shared"]
pub struct Setup {
    file: File,
    name: String,
}

impl SharedMemory {
    /// Creates zeroed memory of `bytes` bytes, for which there has to be room; memory that was shared at this
    /// path before and is used no more is gone. Others join after [`Setup::share`].
    ///
    /// # Errors
    /// `Busy` if somebody uses the memory at this path; `NoSpace` with both sizes, before any of it is taken;
    /// `AlreadyExists` if another kind of file is there; `SymbolicLink`; `PermissionDenied` if the file
    /// is another user's; the errors of opening and mapping it.
    pub fn create(path: &Path, bytes: usize) -> Result<(Self, Setup), DeviceError> {
        const CREATE: &str = "create shared memory at";
        let name = path.display().to_string();
        let failed = |error| DeviceError::from_io(CREATE, &name, error);
        let file = open(CREATE, path, true)?;
        if let Err(error) = lock(&file, USED, libc::F_WRLCK) {
            return Err(failed(error).advise("other processes use it: join them, or end them first"));
        }
        if file.metadata().map_err(failed)?.len() > 0 && payload(&file).map_err(failed)?.is_none() {
            let error = DeviceError::new(DeviceErrorKind::AlreadyExists, CREATE, &name);
            return Err(error.advise("it is no shared memory; choose another path"));
        }
        file.set_len(0).map_err(failed)?;
        let free = free_bytes(&file).map_err(failed)?;
        let no_room = || {
            let _ = file.set_len(0);
            let advice = format!("{bytes} bytes are needed, of {free} that were free there");
            DeviceError::new(DeviceErrorKind::NoSpace, CREATE, &name).advise(advice)
        };
        if free < bytes as u64 {
            return Err(no_room());
        }
        file.write_all_at(&TRAILER, bytes as u64).map_err(failed)?;
        let mapping = Mapping::new(Some(&file), bytes).map_err(failed)?;
        // Before the first page exists. Only a wish: not every file system has huge pages.
        let _ = mapping.advise(libc::MADV_HUGEPAGE);
        // Others may have taken the room meanwhile.
        populate(&mapping, &file).map_err(|_| no_room())?;
        lock(&file, ALIVE, libc::F_RDLCK).map_err(failed)?;
        let setup = Setup { file: file.try_clone().map_err(failed)?, name };
        Ok((Self { mapping, _file: file }, setup))
    }

    /// Joins memory that another process has created and shares.
    ///
    /// # Errors
    /// `Busy` while it is being set up; `NotFound` if it does not exist, or if all who used it are gone;
    /// otherwise as [`Self::create`].
    pub fn join(path: &Path) -> Result<Self, DeviceError> {
        const JOIN: &str = "join shared memory at";
        let name = path.display().to_string();
        let failed = |error| DeviceError::from_io(JOIN, &name, error);
        let file = open(JOIN, path, false)?;
        if let Err(error) = lock(&file, USED, libc::F_RDLCK) {
            return Err(failed(error).advise("it is being set up; try again"));
        }
        let bytes = payload(&file).map_err(failed)?;
        let (Some(bytes), true) = (bytes, locked_by_others(&file, ALIVE).map_err(failed)?) else {
            let error = DeviceError::new(DeviceErrorKind::NotFound, JOIN, &name);
            return Err(error.advise("nobody uses what is at this path; create it"));
        };
        lock(&file, ALIVE, libc::F_RDLCK).map_err(failed)?;
        let mapping = Mapping::new(Some(&file), bytes).map_err(failed)?;
        let _ = mapping.advise(libc::MADV_HUGEPAGE);
        Ok(Self { mapping, _file: file })
    }

    /// Size in bytes.
    pub fn bytes(&self) -> usize {
        self.mapping.bytes()
    }
}

impl AsMut<[u8]> for SharedMemory {
    fn as_mut(&mut self) -> &mut [u8] {
        let (base, bytes) = (self.mapping.base(), self.mapping.bytes());
        // SAFETY: the mapping lives as long as `self`, is writable, and this is the only reference to it in
        // this process. What other processes do with it is between them and whoever uses it: they run
        // the same software (rule 1, and only this user can open the file), which reads and writes
        // shared words through atomics and the rest by turns.
        unsafe { std::slice::from_raw_parts_mut(base.as_ptr(), bytes) }
    }
}

impl Setup {
    /// What was to be set up is: others may join.
    ///
    /// # Errors
    /// If the lock cannot be changed.
    pub fn share(self) -> Result<(), DeviceError> {
        let failed = |error| DeviceError::from_io("share memory at", &self.name, error);
        lock(&self.file, USED, libc::F_RDLCK).map_err(failed)
    }
}

/// Opens a regular file of this user, or creates it for this user alone.
fn open(operation: &'static str, path: &Path, create: bool) -> Result<File, DeviceError> {
    let name = path.display().to_string();
    let mut options = OpenOptions::new();
    options.read(true).write(true).create(create).truncate(false);
    options.mode(0o600).custom_flags(libc::O_NOFOLLOW | libc::O_CLOEXEC | libc::O_NONBLOCK);
    let failed = |error| DeviceError::from_io(operation, &name, error);
    let file = options.open(path).map_err(failed)?;
    let found = file.metadata().map_err(failed)?;
    if !found.is_file() {
        let error = DeviceError::new(DeviceErrorKind::AlreadyExists, operation, &name);
        return Err(error.advise("it is no regular file; choose another path"));
    }
    // SAFETY: the call has no preconditions.
    let user = unsafe { libc::geteuid() };
    if found.uid() != user || found.mode() & 0o077 != 0 {
        let error = DeviceError::new(DeviceErrorKind::PermissionDenied, operation, &name);
        return Err(error.advise("others could change it; choose another path"));
    }
    Ok(file)
}

/// Bytes of memory that a file of shared memory holds; none if it is another kind of file.
fn payload(file: &File) -> io::Result<Option<usize>> {
    let Some(bytes) = file.metadata()?.len().checked_sub(TRAILER.len() as u64) else { return Ok(None) };
    let mut trailer = [0; TRAILER.len()];
    file.read_exact_at(&mut trailer, bytes)?;
    Ok((trailer == TRAILER).then_some(bytes as usize))
}

/// Makes every page of the mapping exist.
fn populate(mapping: &Mapping, file: &File) -> io::Result<()> {
    match mapping.advise(libc::MADV_POPULATE_WRITE) {
        // Kernels before 5.14 do not know it. Then the file gets its pages, if not as huge ones.
        Err(error) if error.raw_os_error() == Some(libc::EINVAL) => {
            // SAFETY: the call takes no pointers; the descriptor is open as long as `file` is borrowed.
            let result =
                unsafe { libc::posix_fallocate(file.as_raw_fd(), 0, mapping.bytes() as libc::off_t) };
            if result == 0 { Ok(()) } else { Err(io::Error::from_raw_os_error(result)) }
        }
        populated => populated,
    }
}

fn free_bytes(file: &File) -> io::Result<u64> {
    let mut space = std::mem::MaybeUninit::<libc::statvfs>::zeroed();
    // SAFETY: the descriptor is open and the pointer is to a structure of the right type.
    if unsafe { libc::fstatvfs(file.as_raw_fd(), space.as_mut_ptr()) } != 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: filled by the call; zeros would be valid too.
    let space = unsafe { space.assume_init() };
    Ok(space.f_bavail * space.f_frsize)
}

/// The lock on one byte of the open file, taken, changed or not had at once.
fn lock(file: &File, byte: libc::off_t, kind: libc::c_int) -> io::Result<()> {
    let mut request = one_byte(byte, kind);
    fcntl(file, libc::F_OFD_SETLK, &mut request)
}

/// Whether another open file has any lock on the byte.
fn locked_by_others(file: &File, byte: libc::off_t) -> io::Result<bool> {
    let mut request = one_byte(byte, libc::F_WRLCK);
    fcntl(file, libc::F_OFD_GETLK, &mut request)?;
    Ok(libc::c_int::from(request.l_type) != libc::F_UNLCK)
}

fn one_byte(byte: libc::off_t, kind: libc::c_int) -> libc::flock {
    libc::flock { l_type: kind as _, l_whence: libc::SEEK_SET as _, l_start: byte, l_len: 1, l_pid: 0 }
}

fn fcntl(file: &File, command: libc::c_int, request: &mut libc::flock) -> io::Result<()> {
    // SAFETY: the descriptor is open and the pointer is to a structure of the type that the commands used
    // here take.
    let result = unsafe { libc::fcntl(file.as_raw_fd(), command, std::ptr::from_mut(request)) };
    if result == -1 { Err(io::Error::last_os_error()) } else { Ok(()) }
}
