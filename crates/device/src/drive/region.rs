//! Memory that several processes share, with a lock that survives the death of its holder.
//!
//! Rules:
//! 1. The body is touched only through [`Region::lock`]. The lock is a robust, process-shared mutex: when a
//!    holder dies, the kernel hands it to the next caller and says so, and the body is repaired before anyone
//!    else sees it.
//! 2. The body has no invalid byte patterns, so that a damaged file gives wrong times and no undefined
//!    behaviour.
//! 3. A state file is in use while somebody holds its shared `flock`; whoever finds nobody starts it afresh.
//!    So neither a reboot nor a crash of all users leaves anything behind that matters.

use std::cell::UnsafeCell;
use std::fs::{File, OpenOptions};
use std::io;
use std::marker::PhantomData;
use std::mem::{MaybeUninit, size_of};
use std::ops::{Deref, DerefMut};
use std::os::fd::AsRawFd;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::ptr::{self, NonNull};
use std::sync::atomic::{AtomicU64, Ordering};

use super::clock::ModelClock;
use super::statistics::Counters;
use crate::mapping::Mapping;
use crate::{DeviceError, DeviceErrorKind};

const MAGIC: u64 = u64::from_le_bytes(*b"mezzdrv\0");

/// Counts up with every change of the layout or meaning of [`Shared`].
const VERSION: u64 = 3;

/// What the lock protects, beside the state of the mechanism, which follows behind all of [`Shared`].
#[repr(C)]
pub(super) struct Body {
    pub(super) clock: ModelClock,
    pub(super) counters: Counters,
}

#[repr(C)]
struct Shared {
    /// [`MAGIC`], [`VERSION`], and the fingerprint of the model whose state this is.
    header: [AtomicU64; 3],
    mutex: UnsafeCell<libc::pthread_mutex_t>,
    body: UnsafeCell<Body>,
}

const _: () = assert!(size_of::<Shared>() % 8 == 0, "the words of the state follow");

/// A mapping of a [`Shared`] and of the words of a state behind it.
pub(super) struct Region {
    mapping: Mapping,
    words: usize,
    /// Keeps the shared `flock`; none for anonymous memory.
    _file: Option<File>,
}

impl Region {
    /// Memory shared with the children that this process forks from now on.
    pub(super) fn anonymous(fingerprint: u64, clock: ModelClock, words: usize) -> Result<Self, DeviceError> {
        let region = Self::map(None, words).map_err(|error| {
            DeviceError::from_io("map memory for", "the state of a modelled drive", error)
        })?;
        region
            .start_afresh(fingerprint, clock)
            .map_err(|error| DeviceError::from_io("set up", "the state of a modelled drive", error))?;
        Ok(region)
    }

    /// Memory shared with everyone who opens the same file for the same model.
    pub(super) fn in_file(
        path: &Path,
        fingerprint: u64,
        clock: ModelClock,
        words: usize,
    ) -> Result<Self, DeviceError> {
        let bytes = Self::bytes(words);
        let failed = |error| DeviceError::from_io("open", path.display().to_string(), error);
        let mut open = OpenOptions::new();
        open.read(true).write(true).create(true).truncate(false);
        let file = open.mode(0o600).custom_flags(libc::O_NOFOLLOW).open(path).map_err(failed)?;
        if flock(&file, libc::LOCK_EX | libc::LOCK_NB).is_ok() {
            file.set_len(bytes as u64).map_err(failed)?;
            let region = Self::map(Some(file), words).map_err(failed)?;
            region.start_afresh(fingerprint, clock).map_err(failed)?;
            region.share_lock().map_err(failed)?;
            return region.checked(path, fingerprint);
        }
        flock(&file, libc::LOCK_SH).map_err(failed)?;
        if file.metadata().map_err(failed)?.len() != bytes as u64 {
            let error = DeviceError::new(DeviceErrorKind::InvalidState, "open", path.display().to_string());
            return Err(error.advise("it is in use by another version; choose another path"));
        }
        Self::map(Some(file), words).map_err(failed)?.checked(path, fingerprint)
    }

    fn bytes(words: usize) -> usize {
        size_of::<Shared>() + 8 * words
    }

    fn map(file: Option<File>, words: usize) -> io::Result<Self> {
        let mapping = Mapping::new(file.as_ref(), Self::bytes(words))?;
        Ok(Self { mapping, words, _file: file })
    }

    fn start(&self) -> NonNull<Shared> {
        self.mapping.base().cast()
    }

    /// Writes an idle state over whatever is there. Nobody else may be using the memory.
    fn start_afresh(&self, fingerprint: u64, clock: ModelClock) -> io::Result<()> {
        // SAFETY: the mapping has so many bytes, is writable, and used by nobody else.
        unsafe { ptr::write_bytes(self.start().cast::<u8>().as_ptr(), 0, Self::bytes(self.words)) };
        let shared = self.shared();
        initialise(shared.mutex.get())?;
        // SAFETY: nobody else has the memory yet.
        unsafe { (*shared.body.get()).clock = clock };
        for (place, value) in shared.header.iter().zip([MAGIC, VERSION, fingerprint]) {
            place.store(value, Ordering::Release);
        }
        Ok(())
    }

    fn shared(&self) -> &Shared {
        // SAFETY: the mapping lives as long as `self` and begins with a `Shared`, of which every byte
        // pattern is valid; what changes in it lies behind atomics and cells.
        unsafe { self.start().as_ref() }
    }

    fn share_lock(&self) -> io::Result<()> {
        self._file.as_ref().map_or(Ok(()), |file| flock(file, libc::LOCK_SH))
    }

    fn checked(self, path: &Path, fingerprint: u64) -> Result<Self, DeviceError> {
        let header = self.shared().header.each_ref().map(|word| word.load(Ordering::Acquire));
        if header == [MAGIC, VERSION, fingerprint] {
            return Ok(self);
        }
        let error = DeviceError::new(DeviceErrorKind::InvalidState, "open", path.display().to_string());
        Err(error.advise("it is in use for another drive model or by another version; choose another path"))
    }

    /// Waits for the body. The flag says that its last holder died and it has to be repaired.
    pub(super) fn lock(&self) -> (Guard<'_>, bool) {
        let mutex = self.shared().mutex.get();
        // SAFETY: the mapping lives as long as `self` and holds an initialised mutex.
        let result = unsafe { libc::pthread_mutex_lock(mutex) };
        let holder_died = result == libc::EOWNERDEAD;
        if holder_died {
            // SAFETY: this thread holds the mutex; the caller repairs the body before unlocking.
            unsafe { libc::pthread_mutex_consistent(mutex) };
        }
        assert!(result == 0 || holder_died, "a robust mutex is locked or handed over: error {result}");
        (Guard { region: self, _not_send: PhantomData }, holder_died)
    }
}

/// Exclusive access to the body. A mutex is unlocked by the thread that locked it, so this stays where it is.
pub(super) struct Guard<'r> {
    region: &'r Region,
    _not_send: PhantomData<*const ()>,
}

impl Guard<'_> {
    fn body(&self) -> *mut Body {
        self.region.shared().body.get()
    }

    fn words(&self) -> *mut [u64] {
        // The state's words follow behind the rest.
        let first = self.region.start().as_ptr().wrapping_add(1).cast::<u64>();
        ptr::slice_from_raw_parts_mut(first, self.region.words)
    }

    /// The state of the mechanism.
    pub(super) fn state(&self) -> &[u64] {
        // SAFETY: the words lie within the mapping, aligned (asserted at `Shared`), and this guard holds the
        // mutex, so nobody changes them.
        unsafe { &*self.words() }
    }

    /// The body, and the state of the mechanism.
    pub(super) fn parts(&mut self) -> (&mut Body, &mut [u64]) {
        // SAFETY: as in `deref_mut`; the words lie apart from the body.
        let body = unsafe { &mut *self.body() };
        // SAFETY: as in `state`; `&mut self` makes this the only reference in this process.
        let state = unsafe { &mut *self.words() };
        (body, state)
    }
}

impl Deref for Guard<'_> {
    type Target = Body;
    fn deref(&self) -> &Body {
        // SAFETY: this guard holds the mutex, so nobody changes the body; every byte pattern is a valid
        // `Body`.
        unsafe { &*self.body() }
    }
}

impl DerefMut for Guard<'_> {
    fn deref_mut(&mut self) -> &mut Body {
        // SAFETY: as in `deref`; `&mut self` makes this the only reference in this process.
        unsafe { &mut *self.body() }
    }
}

impl Drop for Guard<'_> {
    fn drop(&mut self) {
        let mutex = self.region.shared().mutex.get();
        // SAFETY: the mapping lives as long as the region, and this thread holds the mutex.
        unsafe { libc::pthread_mutex_unlock(mutex) };
    }
}

/// Makes a robust, process-shared mutex.
fn initialise(mutex: *mut libc::pthread_mutex_t) -> io::Result<()> {
    let check = |result| if result == 0 { Ok(()) } else { Err(io::Error::from_raw_os_error(result)) };
    let mut attributes = MaybeUninit::<libc::pthread_mutexattr_t>::uninit();
    let attributes = attributes.as_mut_ptr();
    // SAFETY: the pointer is to memory of the right type, which the call initialises.
    check(unsafe { libc::pthread_mutexattr_init(attributes) })?;
    // SAFETY: the attributes are initialised.
    check(unsafe { libc::pthread_mutexattr_setpshared(attributes, libc::PTHREAD_PROCESS_SHARED) })?;
    // SAFETY: the attributes are initialised.
    check(unsafe { libc::pthread_mutexattr_setrobust(attributes, libc::PTHREAD_MUTEX_ROBUST) })?;
    // SAFETY: both pointers are valid and the mutex is used by nobody yet.
    let result = check(unsafe { libc::pthread_mutex_init(mutex, attributes) });
    // SAFETY: the attributes are initialised and not used any more.
    unsafe { libc::pthread_mutexattr_destroy(attributes) };
    result
}

fn flock(file: &File, operation: libc::c_int) -> io::Result<()> {
    loop {
        // SAFETY: the call takes no pointers; the descriptor is open as long as `file` is borrowed.
        if unsafe { libc::flock(file.as_raw_fd(), operation) } == 0 {
            return Ok(());
        }
        let error = io::Error::last_os_error();
        if error.kind() != io::ErrorKind::Interrupted {
            return Err(error);
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    #[test]
    fn a_lock_whose_holder_died_is_handed_over_with_a_warning() {
        let region = Region::anonymous(1, ModelClock::starting(1.0), 3).unwrap();
        drop(region.lock());
        // SAFETY: the child only locks a mutex and leaves without running anything else of this process.
        let child = unsafe { libc::fork() };
        if child == 0 {
            let (mut body, _) = region.lock();
            body.counters.discards = 77;
            body.parts().1[2] = 78;
            std::mem::forget(body);
            // SAFETY: ends the child at once, as a kill would: no destructor, no unlock.
            unsafe { libc::_exit(0) };
        }
        assert!(child > 0);
        let mut status = 0;
        // SAFETY: the pointer is valid for the duration of the call.
        assert_eq!(unsafe { libc::waitpid(child, &raw mut status, 0) }, child);
        let (body, holder_died) = region.lock();
        assert!(holder_died, "the next one is told");
        assert_eq!(body.counters.discards, 77, "the memory is shared");
        assert_eq!(body.state(), [0, 0, 78], "so is the state");
        drop(body);
        assert!(!region.lock().1, "only the next one is told");
    }
}
