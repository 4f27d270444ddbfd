//! Loaded before the C library by tests (`LD_PRELOAD`): strikes one of the calls below, by which this process changes
//! files, or all from one on. It fails, or the process is killed when it comes there.
//!
//! A process that wants to be struck finds [`mezzanine_strike`] by its name (`dlsym`), and says which call it is to
//! be. Writes to standard output and error are not counted. What `io_uring` is given to do counts as one call each
//! time that it is given something.

#![allow(unsafe_code, reason = "these are functions of the C library")]

use std::ffi::{CStr, c_char, c_int, c_long, c_uint, c_void};
use std::sync::atomic::{AtomicBool, AtomicI32, AtomicU64, Ordering};

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

/// From now on calls are counted, and number `call` fails with `error`, and those after it if that is `lasting`; or,
/// if `error` is 0, it kills the process.
#[unsafe(no_mangle)]
pub extern "C" fn mezzanine_strike(call: u64, error: c_int, lasting: bool) {
    CALLS.store(0, Ordering::SeqCst);
    SYNCS.store(0, Ordering::SeqCst);
    ERROR.store(error, Ordering::SeqCst);
    LASTING.store(lasting, Ordering::SeqCst);
    STRUCK.store(call, Ordering::SeqCst);
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
    // SAFETY: the calling thread's own number.
    let place = unsafe { libc::__errno_location() };
    // SAFETY: as above.
    unsafe { place.write(error) };
    true
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
    ($($(#[$doc:meta])* fn $name:ident($($arg:ident: $type:ty),*) -> $result:ty, if $counts:expr;)*) => {$(
        $(#[$doc])*
        ///
        /// # Safety
        /// As of the C library's.
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $name($($arg: $type),*) -> $result {
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
    fn write(file: c_int, bytes: *const c_void, len: usize) -> isize, if is_a_file(file);
    /// `writev`.
    fn writev(file: c_int, parts: *const libc::iovec, count: c_int) -> isize, if is_a_file(file);
    /// `pwrite64`.
    fn pwrite64(file: c_int, bytes: *const c_void, len: usize, offset: i64) -> isize, if is_a_file(file);
    /// `fsync`.
    fn fsync(file: c_int) -> c_int, if counted_sync();
    /// `fdatasync`.
    fn fdatasync(file: c_int) -> c_int, if counted_sync();
    /// `ftruncate64`.
    fn ftruncate64(file: c_int, len: i64) -> c_int, if true;
    /// `fallocate64`.
    fn fallocate64(file: c_int, mode: c_int, offset: i64, len: i64) -> c_int, if true;
    /// `rename`.
    fn rename(from: *const c_char, to: *const c_char) -> c_int, if true;
    /// `renameat2`.
    fn renameat2(from_in: c_int, from: *const c_char, to_in: c_int, to: *const c_char, flags: c_uint) -> c_int, if true;
    /// `linkat`.
    fn linkat(from_in: c_int, from: *const c_char, to_in: c_int, to: *const c_char, flags: c_int) -> c_int, if true;
    /// `unlink`.
    fn unlink(path: *const c_char) -> c_int, if true;
    /// `unlinkat`.
    fn unlinkat(folder: c_int, path: *const c_char, flags: c_int) -> c_int, if true;
    /// `mkdir`.
    fn mkdir(path: *const c_char, mode: libc::mode_t) -> c_int, if true;
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
