//! The system calls that the standard library has no name for, each as a safe function.

use std::fs::File;
use std::io;
use std::mem::MaybeUninit;
use std::ops::Range;
use std::os::fd::AsRawFd;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::Path;

use super::report;

fn check(result: libc::c_int) -> io::Result<()> {
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// Opens the file behind a descriptor once more, for syncing it. The path is taken only where the descriptor
/// has no name of its own, and only if it still leads to the same file.
pub(super) fn open_again(file: &File, path: &Path) -> io::Result<File> {
    let named = format!("/proc/self/fd/{}", file.as_raw_fd());
    let again = File::open(named).or_else(|_| File::open(path))?;
    let (first, second) = (file.metadata()?, again.metadata()?);
    let same = (first.dev(), first.ino(), first.rdev()) == (second.dev(), second.ino(), second.rdev());
    if same { Ok(again) } else { Err(io::Error::other("its path leads to another file now")) }
}

/// Has the kernel begin to read a range into its page cache.
pub(super) fn will_need(file: &File, offset: u64, len: u64) -> io::Result<()> {
    let invalid = || io::Error::from_raw_os_error(libc::EINVAL);
    let offset = libc::off_t::try_from(offset).map_err(|_| invalid())?;
    let len = libc::off_t::try_from(len).map_err(|_| invalid())?;
    // SAFETY: the call takes no pointers and changes no contents.
    match unsafe { libc::posix_fadvise(file.as_raw_fd(), offset, len, libc::POSIX_FADV_WILLNEED) } {
        0 => Ok(()),
        error => Err(io::Error::from_raw_os_error(error)),
    }
}

/// Whether a file lies in memory (tmpfs): a read of it is a copy, and nothing is gained by beginning it
/// early.
pub(super) fn lies_in_memory(file: &File) -> bool {
    // Of a block device the file system is asked that has its name, which lies in memory as a rule.
    if !file.metadata().is_ok_and(|metadata| metadata.is_file()) {
        return false;
    }
    let mut about = MaybeUninit::<libc::statfs>::uninit();
    // SAFETY: the pointer is valid for the duration of the call.
    if unsafe { libc::fstatfs(file.as_raw_fd(), about.as_mut_ptr()) } != 0 {
        return false;
    }
    // SAFETY: the call has succeeded, and filled it in.
    unsafe { about.assume_init() }.f_type == libc::TMPFS_MAGIC
}

/// Length in bytes of a block device.
pub(super) fn block_device_len(file: &File) -> io::Result<u64> {
    let mut len = 0_u64;
    let request = libc::_IOR::<usize>(0x12, 114); // BLKGETSIZE64
    // SAFETY: the request writes one u64 through the pointer, which is valid for the duration of the call.
    check(unsafe { libc::ioctl(file.as_raw_fd(), request, &raw mut len) })?;
    Ok(len)
}

/// Logical sector size in bytes of a block device.
pub(super) fn sector_size(file: &File) -> io::Result<u32> {
    let mut size: libc::c_int = 0;
    // SAFETY: the request writes one int through the pointer, which is valid for the duration of the call.
    check(unsafe { libc::ioctl(file.as_raw_fd(), libc::BLKSSZGET, &raw mut size) })?;
    u32::try_from(size).map_err(|_| io::Error::from_raw_os_error(libc::EINVAL))
}

/// Bytes of the zones of a block device; 0 if it has none, or the kernel knows of none.
pub(super) fn zone_len(file: &File) -> io::Result<u64> {
    let mut sectors = 0_u32;
    let request = libc::_IOR::<u32>(0x12, 132); // BLKGETZONESZ
    // SAFETY: the request writes one u32 through the pointer, which is valid for the duration of the call.
    match check(unsafe { libc::ioctl(file.as_raw_fd(), request, &raw mut sectors) }) {
        Err(error) if matches!(error.raw_os_error(), Some(libc::ENOTTY | libc::EINVAL)) => Ok(0),
        told => told.map(|()| u64::from(sectors) * report::SECTOR),
    }
}

/// A report of at most `zones` zones of a block device, from the one on that `offset` lies in.
pub(super) fn report_zones(file: &File, offset: u64, zones: u32) -> io::Result<Vec<u8>> {
    let header = report::request(offset, zones);
    let mut bytes = vec![0; report::HEADER_BYTES + zones as usize * report::ZONE_BYTES];
    bytes[..header.len()].copy_from_slice(&header);
    let request = libc::_IOWR::<[u64; 2]>(0x12, 130); // BLKREPORTZONE
    // SAFETY: the request reads a header through the pointer, which says for how many zones there is room
    // behind it, and writes the header and no more zones than these. A header is two words of 8 bytes
    // without padding; the kernel copies it, so it need not be aligned.
    check(unsafe { libc::ioctl(file.as_raw_fd(), request, bytes.as_mut_ptr()) })?;
    Ok(bytes)
}

/// Empties the zones of a range of a block device.
pub(super) fn reset_zones(file: &File, offset: u64, len: u64) -> io::Result<()> {
    let range = [offset / report::SECTOR, len / report::SECTOR];
    let request = libc::_IOW::<[u64; 2]>(0x12, 131); // BLKRESETZONE
    // SAFETY: the request reads two u64 through the pointer, which is valid for the duration of the call.
    check(unsafe { libc::ioctl(file.as_raw_fd(), request, range.as_ptr()) })
}

/// Has the zones of a range of a block device full. Linux 5.5 and later.
pub(super) fn finish_zones(file: &File, offset: u64, len: u64) -> io::Result<()> {
    let range = [offset / report::SECTOR, len / report::SECTOR];
    let request = libc::_IOW::<[u64; 2]>(0x12, 136); // BLKFINISHZONE
    // SAFETY: the request reads two u64 through the pointer, which is valid for the duration of the call.
    check(unsafe { libc::ioctl(file.as_raw_fd(), request, range.as_ptr()) })
}

/// Has the zones of a range of a block device closed that are open. Linux 5.5 and later.
pub(super) fn close_zones(file: &File, offset: u64, len: u64) -> io::Result<()> {
    let range = [offset / report::SECTOR, len / report::SECTOR];
    let request = libc::_IOW::<[u64; 2]>(0x12, 135); // BLKCLOSEZONE
    // SAFETY: the request reads two u64 through the pointer, which is valid for the duration of the call.
    check(unsafe { libc::ioctl(file.as_raw_fd(), request, range.as_ptr()) })
}

/// Writes from the beginning of `bytes` at `offset`; returns how many of them. With `durably` they outlive a
/// power cut then.
pub(super) fn write_at(file: &File, bytes: &[u8], offset: u64, durably: bool) -> io::Result<usize> {
    if !durably {
        return file.write_at(bytes, offset);
    }
    let offset = i64::try_from(offset).map_err(|_| io::Error::from_raw_os_error(libc::EFBIG))?;
    let memory = libc::iovec { iov_base: bytes.as_ptr().cast_mut().cast(), iov_len: bytes.len() };
    // SAFETY: one vector is read through the pointer; the kernel reads from the memory it names, which is
    // borrowed for the duration of the call, and does not write there.
    let written = unsafe { libc::pwritev2(file.as_raw_fd(), &raw const memory, 1, offset, libc::RWF_DSYNC) };
    usize::try_from(written).map_err(|_| io::Error::last_os_error())
}

/// What the kernel says of the queue of a block device in the file of this name, as a number.
pub(super) fn queue_limit(file: &File, name: &str) -> Option<u64> {
    let device = file.metadata().ok()?.rdev();
    let (major, minor) = (libc::major(device), libc::minor(device));
    let path = format!("/sys/dev/block/{major}:{minor}/queue/{name}");
    std::fs::read_to_string(path).ok()?.trim().parse().ok()
}

/// Tells a block device that a range holds nothing of value.
pub(super) fn discard_blocks(file: &File, offset: u64, len: u64) -> io::Result<()> {
    let range = [offset, len];
    let request = libc::_IO(0x12, 119); // BLKDISCARD
    // SAFETY: the request reads two u64 through the pointer, which is valid for the duration of the call.
    check(unsafe { libc::ioctl(file.as_raw_fd(), request, range.as_ptr()) })
}

/// Frees the blocks of a range of a file; it reads as zeros and the length stays.
pub(super) fn punch_hole(file: &File, offset: u64, len: u64) -> io::Result<()> {
    fallocate(file, libc::FALLOC_FL_PUNCH_HOLE | libc::FALLOC_FL_KEEP_SIZE, offset, len)
}

/// Reserves the blocks of the first `len` bytes, extending the file if it is shorter.
pub(super) fn reserve(file: &File, len: u64) -> io::Result<()> {
    fallocate(file, 0, 0, len)
}

fn fallocate(file: &File, mode: libc::c_int, offset: u64, len: u64) -> io::Result<()> {
    let too_large = |_| io::Error::from_raw_os_error(libc::EFBIG);
    let (offset, len) = (i64::try_from(offset).map_err(too_large)?, i64::try_from(len).map_err(too_large)?);
    loop {
        // SAFETY: the call takes no pointers; the descriptor is open as long as `file` is borrowed.
        match check(unsafe { libc::fallocate64(file.as_raw_fd(), mode, offset, len) }) {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            result => return result,
        }
    }
}

/// The first range of a file at or after `offset` that is no hole; `None` if there is none. It moves the
/// file's own position, which nobody here uses.
pub(super) fn data_from(file: &File, offset: u64) -> io::Result<Option<Range<u64>>> {
    let seek = |from: u64, whence| {
        let from = i64::try_from(from).map_err(|_| io::Error::from_raw_os_error(libc::EFBIG))?;
        // SAFETY: the call takes no pointers; the descriptor is open as long as `file` is borrowed.
        let at = unsafe { libc::lseek64(file.as_raw_fd(), from, whence) };
        u64::try_from(at).map_err(|_| io::Error::last_os_error())
    };
    match seek(offset, libc::SEEK_DATA) {
        Ok(begin) => Ok(Some(begin..seek(begin, libc::SEEK_HOLE)?)),
        Err(error) if error.raw_os_error() == Some(libc::ENXIO) => Ok(None),
        Err(error) => Err(error),
    }
}

/// Takes the exclusive lock of the open file without waiting; it is released when the last descriptor closes,
/// and so by the kernel when the process dies.
pub(super) fn lock_exclusively(file: &File) -> io::Result<()> {
    // SAFETY: the call takes no pointers; the descriptor is open as long as `file` is borrowed.
    check(unsafe { libc::flock(file.as_raw_fd(), libc::LOCK_EX | libc::LOCK_NB) })
}

/// Gives the lock of [`lock_exclusively`] back, if there is one. Closing the file does so too, but not as
/// long as a child that was forked meanwhile has the descriptor and has not yet started its program.
pub(super) fn unlock(file: &File) {
    // SAFETY: the call takes no pointers; the descriptor is open as long as `file` is borrowed.
    unsafe { libc::flock(file.as_raw_fd(), libc::LOCK_UN) };
}

/// What a file system says about direct I/O on a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum DirectTransfers {
    /// It has none.
    None,
    /// It has them, with this alignment in bytes of memory, offset and length.
    Aligned(u32),
    /// Kernels before 6.1, and some file systems, do not tell.
    Untold,
}

pub(super) fn direct_transfers(file: &File) -> DirectTransfers {
    let mut status = MaybeUninit::<libc::statx>::zeroed();
    let (fd, flags, mask) = (file.as_raw_fd(), libc::AT_EMPTY_PATH, libc::STATX_DIOALIGN);
    // SAFETY: the path is a NUL-terminated literal, and the kernel fills at most one `statx` behind the
    // pointer.
    let told = check(unsafe { libc::statx(fd, c"".as_ptr(), flags, mask, status.as_mut_ptr()) });
    // SAFETY: all bytes zero is a valid `statx`, so it is initialised whatever the kernel has written.
    let status = unsafe { status.assume_init() };
    if told.is_err() || status.stx_mask & libc::STATX_DIOALIGN == 0 {
        return DirectTransfers::Untold;
    }
    match status.stx_dio_mem_align.max(status.stx_dio_offset_align) {
        0 => DirectTransfers::None,
        alignment => DirectTransfers::Aligned(alignment.next_power_of_two()),
    }
}
