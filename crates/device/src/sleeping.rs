//! Threads that sleep at a word, in this process or in others that share its memory: futexes of Linux, of the
//! shared kind.

use std::ptr::null;
use std::sync::atomic::AtomicU32;
use std::time::Duration;

use mezzanine_ground::lock::{Sleeping, sleep_by};

/// Has this process's threads sleep, from now on, while they wait for a lock of a region. Hosts call it
/// before they use one; all that share a region should.
pub fn sleep_at_locks() {
    sleep_by(Sleeping { sleep, wake });
}

fn sleep(word: &AtomicU32, value: u32, most: Duration) {
    let most = libc::timespec {
        tv_sec: most.as_secs() as libc::time_t,
        tv_nsec: most.subsec_nanos() as libc::c_long,
    };
    // SAFETY: the kernel reads the word and the time, which are valid for the duration of the call. Whatever
    // it returns: who slept looks at the word again.
    unsafe { libc::syscall(libc::SYS_futex, word.as_ptr(), libc::FUTEX_WAIT, value, &raw const most) };
}

fn wake(word: &AtomicU32, most: u32) {
    let most = i32::try_from(most).unwrap_or(i32::MAX);
    // SAFETY: the word is the name of those who sleep, and is not changed.
    unsafe {
        libc::syscall(libc::SYS_futex, word.as_ptr(), libc::FUTEX_WAKE, most, null::<libc::timespec>())
    };
}
