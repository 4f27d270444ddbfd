//! Loaded before the C library by tests (`LD_PRELOAD`): strikes one of the calls below, by which this process
//! changes files, or all from one on. It fails, or the process is killed when it comes there.
//!
//! Or the disks are full from one moment on ([`mezzanine_fill`]): what needs room fails, and nothing else.
//!
//! A process that wants to be struck finds [`mezzanine_strike`] by its name (`dlsym`), and says which call it
//! is to be. Writes to standard output and error are not counted. What `io_uring` is given to do counts as
//! one call each time that it is given something.

#![allow(unsafe_code, reason = "these are functions of the C library")]

use std::ffi::{CStr, c_char, c_int, c_long, c_uint, c_void};
use std::sync::atomic::{AtomicBool, AtomicI32, AtomicI64, AtomicU64, Ordering};

/// The call that is struck, counted from 1; 0 for none.
static STRUCK: AtomicU64 = AtomicU64::new(0);
/// Calls since the last [`mezzanine_strike`].
static CALLS: AtomicU64 = AtomicU64::new(0);
/// Those of them that wait until something is durable.
static SYNCS: AtomicU64 = AtomicU64::new(0);
/// What it fails with; 0 for a kill.
static ERROR: AtomicI32 = AtomicI32::new(0);
/// Whether all calls after it fail as well.
static LASTING: AtomicBool = AtomicBool::new(false);
/// Whether the disks are full.
static FULL: AtomicBool = AtomicBool::new(false);
/// Blocks that were given up since they are.
static ROOM: AtomicI64 = AtomicI64::new(0);
/// Bytes of a block.
const BLOCK: i64 = 4096;

/// From now on calls are counted, and number `call` fails with `error`, and those after it if that is
/// `lasting`; or, if `error` is 0, it kills the process.
#[unsafe(no_mangle)]
pub extern "C" fn mezzanine_strike(call: u64, error: c_int, lasting: bool) {
    CALLS.store(0, Ordering::SeqCst);
    SYNCS.store(0, Ordering::SeqCst);
    ERROR.store(error, Ordering::SeqCst);
    LASTING.store(lasting, Ordering::SeqCst);
    STRUCK.store(call, Ordering::SeqCst);
}

/// From now on, or no longer, no folder can be made and no file have more blocks than others have given up.
#[unsafe(no_mangle)]
pub extern "C" fn mezzanine_fill(full: bool) {
    ROOM.store(0, Ordering::SeqCst);
    FULL.store(full, Ordering::SeqCst);
}

/// Calls since [`mezzanine_strike`].
#[unsafe(no_mangle)]
pub extern "C" fn mezzanine_calls() -> u64 {
    CALLS.load(Ordering::SeqCst)
}

/// Calls of `fsync` and `fdatasync` since [`mezzanine_strike`].
#[unsafe(no_mangle)]
pub extern "C" fn mezzanine_syncs() -> u64 {
    SYNCS.load(Ordering::SeqCst)
}

/// Counts a call. Whether it is to fail: then the caller finds the reason where callers look for it.
fn is_struck() -> bool {
    let call = CALLS.fetch_add(1, Ordering::SeqCst) + 1;
    let struck = STRUCK.load(Ordering::SeqCst);
    let lasts = struck != 0 && call > struck && LASTING.load(Ordering::SeqCst);
    if call != struck && !lasts {
        return false;
    }
    let error = ERROR.load(Ordering::SeqCst);
    if error == 0 {
        // SAFETY: ends this process. Other threads may finish the call that they are in.
        unsafe { libc::raise(libc::SIGKILL) };
    }
    set_errno(error);
    true
}

fn set_errno(error: c_int) {
    // SAFETY: the calling thread's own number.
    let place = unsafe { libc::__errno_location() };
    // SAFETY: as above.
    unsafe { place.write(error) };
}

/// Whether a call fails for want of room: it takes so many blocks, or gives them up if the number is below 0.
fn lacks_room(takes: impl FnOnce() -> i64) -> bool {
    if !FULL.load(Ordering::SeqCst) {
        return false;
    }
    let takes = takes();
    let left = |room| (takes <= 0 || takes <= room).then_some(room - takes);
    let lacks = ROOM.fetch_update(Ordering::SeqCst, Ordering::SeqCst, left).is_err();
    if lacks {
        set_errno(libc::ENOSPC);
    }
    lacks
}

fn blocks(bytes: i64) -> i64 {
    (bytes + BLOCK - 1) / BLOCK
}

/// Bytes of a file, if `stat` is one of the functions that find that out, and it is a file.
fn bytes_of(stat: impl FnOnce(*mut libc::stat64) -> c_int) -> Option<i64> {
    let mut found = std::mem::MaybeUninit::<libc::stat64>::uninit();
    if stat(found.as_mut_ptr()) != 0 {
        return None;
    }
    // SAFETY: filled in without an error.
    let found = unsafe { found.assume_init() };
    (found.st_mode & libc::S_IFMT == libc::S_IFREG).then_some(found.st_size)
}

/// What a write takes that ends there, or so many bytes behind where the file stands.
fn growth(file: c_int, end: Option<i64>, len: i64) -> i64 {
    // SAFETY: there is room for what is found.
    let Some(bytes) = bytes_of(|found| unsafe { libc::fstat64(file, found) }) else { return 0 };
    // SAFETY: changes nothing.
    let end = end.unwrap_or_else(|| unsafe { libc::lseek64(file, 0, libc::SEEK_CUR) } + len);
    (blocks(end) - blocks(bytes)).max(0)
}

/// What is given up with a file that loses this name, as if it had no other.
///
/// # Safety
/// The path ends with a zero.
unsafe fn given_up(folder: c_int, path: *const c_char) -> i64 {
    // SAFETY: by the caller, and there is room for what is found.
    let stat = |found| unsafe { libc::fstatat64(folder, path, found, libc::AT_SYMLINK_NOFOLLOW) };
    -bytes_of(stat).map_or(0, blocks)
}

/// The C library's function of this name.
fn next(name: &CStr) -> *mut c_void {
    // SAFETY: the name ends with a zero.
    let found = unsafe { libc::dlsym(libc::RTLD_NEXT, name.as_ptr()) };
    assert!(!found.is_null(), "the C library has no {name:?}");
    found
}

/// Functions that take the place of the C library's. `$counts` says whether a call changes a file.
macro_rules! in_place_of {
    ($($(#[$doc:meta])* fn $name:ident($($arg:ident: $type:ty),*) -> $result:ty,
       if $counts:expr $(, takes $blocks:expr)?;)*) => {$(
        $(#[$doc])*
        ///
        /// # Safety
        /// As of the C library's.
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $name($($arg: $type),*) -> $result {
            $(
                if lacks_room(|| $blocks) {
                    return -1;
                }
            )?
            if $counts && is_struck() {
                return -1;
            }
            let name = concat!(stringify!($name), "\0");
            let name = CStr::from_bytes_with_nul(name.as_bytes()).expect("a name");
            // SAFETY: the C library's function of this name has these arguments.
            let next: unsafe extern "C" fn($($type),*) -> $result = unsafe { std::mem::transmute(next(name)) };
            // SAFETY: passed on.
            unsafe { next($($arg),*) }
        }
    )*};
}

/// Standard output and error tell the tests what happens.
fn is_a_file(descriptor: c_int) -> bool {
    descriptor > 2
}

fn counted_sync() -> bool {
    SYNCS.fetch_add(1, Ordering::SeqCst);
    true
}

fn creates(flags: c_int) -> bool {
    flags & (libc::O_CREAT | libc::O_TRUNC) != 0
}

in_place_of! {
    /// `write`.
    fn write(file: c_int, bytes: *const c_void, len: usize) -> isize, if is_a_file(file),
        takes growth(file, None, len as i64);
    /// `writev`.
    fn writev(file: c_int, parts: *const libc::iovec, count: c_int) -> isize, if is_a_file(file);
    /// `pwrite64`.
    fn pwrite64(file: c_int, bytes: *const c_void, len: usize, offset: i64) -> isize, if is_a_file(file),
        takes growth(file, Some(offset + len as i64), 0);
    /// `fsync`.
    fn fsync(file: c_int) -> c_int, if counted_sync();
    /// `fdatasync`.
    fn fdatasync(file: c_int) -> c_int, if counted_sync();
    /// `ftruncate64`.
    fn ftruncate64(file: c_int, len: i64) -> c_int, if true;
    /// `fallocate64`.
    fn fallocate64(file: c_int, mode: c_int, offset: i64, len: i64) -> c_int, if true,
        takes growth(file, Some(offset + len), 0);
    /// `rename`.
    fn rename(from: *const c_char, to: *const c_char) -> c_int, if true, takes
        // SAFETY: as the C library asks for.
        unsafe { given_up(libc::AT_FDCWD, to) };
    /// `renameat2`.
    fn renameat2(from_in: c_int, from: *const c_char, to_in: c_int, to: *const c_char, flags: c_uint) -> c_int, if true;
    /// `linkat`.
    fn linkat(from_in: c_int, from: *const c_char, to_in: c_int, to: *const c_char, flags: c_int) -> c_int, if true;
    /// `unlink`.
    fn unlink(path: *const c_char) -> c_int, if true, takes
        // SAFETY: as the C library asks for.
        unsafe { given_up(libc::AT_FDCWD, path) };
    /// `unlinkat`.
    fn unlinkat(folder: c_int, path: *const c_char, flags: c_int) -> c_int, if true, takes
        // SAFETY: as the C library asks for.
        unsafe { given_up(folder, path) };
    /// `mkdir`.
    fn mkdir(path: *const c_char, mode: libc::mode_t) -> c_int, if true, takes 1;
    /// `rmdir`.
    fn rmdir(path: *const c_char) -> c_int, if true;
    /// `open`, whose third argument is there if a file may be made.
    fn open(path: *const c_char, flags: c_int, mode: libc::mode_t) -> c_int, if creates(flags);
    /// `open64`, as `open`.
    fn open64(path: *const c_char, flags: c_int, mode: libc::mode_t) -> c_int, if creates(flags);
    /// `openat64`, as `open`.
    fn openat64(folder: c_int, path: *const c_char, flags: c_int, mode: libc::mode_t) -> c_int, if creates(flags);
    /// `syscall`, by which `io_uring` is given what it is to do.
    fn syscall(number: c_long, a: c_long, b: c_long, c: c_long, d: c_long, e: c_long, f: c_long) -> c_long,
        if number == libc::SYS_io_uring_enter && b as c_uint != 0;
}
