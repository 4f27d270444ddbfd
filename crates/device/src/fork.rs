//! Processes that fork.
//!
//! A child that is forked gets a copy of the memory, all descriptors, and none of the threads. What it has of
//! a tier looks whole and must not be used: its locks may be held by threads that are not there, and whatever
//! it wrote would be beside its parent's back. And the locks of open files are its own as well as its
//! parent's: they last as long as either of the two has the descriptor. So
//! 1. [`generation`] tells a process from the one that it was forked from, at the price of reading a word;
//! 2. a descriptor that is [kept from children](KeptFromChildren) is none of theirs: in the child its number
//!    stands for nothing that could be read or written. The number itself stays taken, so that a copied
//!    object which still has it can do no harm to a file that is opened later.
//!
//! The second is done where `fork` returns in the child, before anything else runs there. A process that is
//! made past the C library's `fork` (by `clone` itself) does it when it first asks for its generation.

use std::fs::File;
use std::os::fd::{AsRawFd as _, RawFd};
use std::ptr;
use std::sync::atomic::{AtomicI32, AtomicPtr, AtomicU32, AtomicU64, Ordering};

/// The process that has given its number, or is about to.
static OWNER: AtomicU32 = AtomicU32::new(0);
/// The newest number that this process, or one that it comes from, has given.
static NEWEST: AtomicU64 = AtomicU64::new(0);
/// The word with this process's number; it is zero in a child that has not asked for one yet.
static WORD: AtomicPtr<AtomicU64> = AtomicPtr::new(ptr::null_mut());
/// Takes the place of the word where the kernel cannot clear one in children: then `fork` alone does.
static PLAIN: AtomicU64 = AtomicU64::new(0);

/// The number of this process among those that it was forked from: theirs are other numbers.
#[inline]
pub fn generation() -> u64 {
    let word = WORD.load(Ordering::Acquire);
    // SAFETY: null, or a word that is never freed.
    match unsafe { word.as_ref() }.map(|word| word.load(Ordering::Acquire)) {
        None | Some(0) => next_generation(),
        Some(known) => known,
    }
}

#[cold]
fn next_generation() -> u64 {
    if WORD.load(Ordering::Acquire).is_null() {
        let made = cleared_in_children().unwrap_or_else(|| ptr::from_ref(&PLAIN).cast_mut());
        // Of two threads that come here at once, one makes a page in vain.
        let known = WORD.compare_exchange(ptr::null_mut(), made, Ordering::AcqRel, Ordering::Acquire);
        if known.is_ok() {
            // SAFETY: the handler takes nothing, and calls only what may be called in a child of many
            // threads. Without it, children are told apart by the word alone.
            unsafe { libc::pthread_atfork(None, None, Some(in_child)) };
        }
    }
    // SAFETY: it was set above, and is never freed.
    let word = unsafe { &*WORD.load(Ordering::Acquire) };
    let me = std::process::id();
    let before = OWNER.load(Ordering::Acquire);
    let first =
        before != me && OWNER.compare_exchange(before, me, Ordering::AcqRel, Ordering::Acquire).is_ok();
    if first {
        if before != 0 {
            // No handler has run here.
            let_go();
        }
        let number = NEWEST.fetch_add(1, Ordering::Relaxed) + 1;
        word.store(number, Ordering::Release);
        return number;
    }
    // Another thread has come first.
    loop {
        match word.load(Ordering::Acquire) {
            0 => std::thread::yield_now(),
            number => return number,
        }
    }
}

/// A word that is zero, in this process and after each `fork` in the child.
fn cleared_in_children() -> Option<*mut AtomicU64> {
    let (len, protection) = (4096, libc::PROT_READ | libc::PROT_WRITE);
    let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS;
    // SAFETY: a new mapping, in a place that the kernel chooses.
    let page = unsafe { libc::mmap(ptr::null_mut(), len, protection, flags, -1, 0) };
    if page == libc::MAP_FAILED {
        return None;
    }
    // SAFETY: the page was just mapped.
    if unsafe { libc::madvise(page, len, libc::MADV_WIPEONFORK) } != 0 {
        // SAFETY: nobody else has it.
        unsafe { libc::munmap(page, len) };
        return None;
    }
    Some(page.cast())
}

unsafe extern "C" fn in_child() {
    let_go();
    // SAFETY: the handler was registered after the word was set; it is never freed.
    unsafe { &*WORD.load(Ordering::Acquire) }.store(0, Ordering::Release);
    OWNER.store(0, Ordering::Release);
}

/// Places for descriptors; more are added behind them, and none is ever taken away, so that the child of a
/// process with many threads can read the list whatever those were doing.
struct Places {
    /// A descriptor and 1; 0 for none.
    descriptors: [AtomicI32; 62],
    next: AtomicPtr<Places>,
}

static FIRST: Places = Places::EMPTY;

impl Places {
    #[allow(clippy::declare_interior_mutable_const, reason = "each use of it is to be a value of its own")]
    const EMPTY: Self =
        Self { descriptors: [const { AtomicI32::new(0) }; 62], next: AtomicPtr::new(ptr::null_mut()) };

    fn next(&self) -> Option<&'static Self> {
        // SAFETY: null, or one that `add` has leaked.
        unsafe { self.next.load(Ordering::Acquire).as_ref() }
    }

    fn all() -> impl Iterator<Item = &'static Self> {
        std::iter::successors(Some(&FIRST), |places| places.next())
    }

    fn take(descriptor: RawFd) -> &'static AtomicI32 {
        let mut places = &FIRST;
        loop {
            let taken = |place: &&AtomicI32| {
                place.compare_exchange(0, descriptor + 1, Ordering::AcqRel, Ordering::Relaxed).is_ok()
            };
            if let Some(place) = places.descriptors.iter().find(taken) {
                return place;
            }
            places = places.next().unwrap_or_else(|| places.add());
        }
    }

    fn add(&self) -> &'static Self {
        let new = Box::into_raw(Box::new(Self::EMPTY));
        match self.next.compare_exchange(ptr::null_mut(), new, Ordering::AcqRel, Ordering::Acquire) {
            // SAFETY: it is never freed from here on.
            Ok(_) => unsafe { &*new },
            Err(other) => {
                // SAFETY: nobody else has seen it.
                drop(unsafe { Box::from_raw(new) });
                // SAFETY: one that another thread has added.
                unsafe { &*other }
            }
        }
    }
}

/// In a child: the numbers of all descriptors that are kept from it stand for something that cannot be read,
/// written or locked from now on, and what they stood for is its parent's alone.
fn let_go() {
    for place in Places::all().flat_map(|places| &places.descriptors) {
        let descriptor = place.swap(0, Ordering::AcqRel) - 1;
        if descriptor < 0 {
            continue;
        }
        // SAFETY: the path ends with a zero.
        let nothing = unsafe { libc::open(c"/".as_ptr(), libc::O_PATH | libc::O_CLOEXEC) };
        if nothing < 0 {
            // Out of descriptors: closing it is what counts.
            // SAFETY: objects of the parent that have it are not used any more.
            unsafe { libc::close(descriptor) };
            continue;
        }
        // SAFETY: as above.
        unsafe { libc::dup3(nothing, descriptor, libc::O_CLOEXEC) };
        // SAFETY: it was just made.
        unsafe { libc::close(nothing) };
    }
}

/// A descriptor that children have no part in, as long as this lives; it goes before the descriptor.
#[derive(Debug)]
pub struct KeptFromChildren(&'static AtomicI32, i32);

impl KeptFromChildren {
    /// Keeps the descriptor of `file` from children that are forked from now on. To be called before it is
    /// locked.
    #[must_use]
    pub fn new(file: &File) -> Self {
        // Has the handler registered.
        let _ = generation();
        let descriptor = file.as_raw_fd();
        Self(Places::take(descriptor), descriptor + 1)
    }
}

impl Drop for KeptFromChildren {
    fn drop(&mut self) {
        // In a child the place is free already, or another descriptor's.
        let _ = self.0.compare_exchange(self.1, 0, Ordering::AcqRel, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use std::io::{Read as _, Write as _};
    use std::os::unix::net::UnixStream;
    use std::sync::{Mutex, MutexGuard, PoisonError};

    use super::*;

    /// Runs `body` in a child, and then until it is told to end. The child does nothing else.
    fn forked(body: impl FnOnce() -> u8) -> (u8, libc::pid_t, UnixStream) {
        let (mut ours, mut childs) = UnixStream::pair().unwrap();
        // SAFETY: the child calls nothing that takes a lock of this process, and ends by `_exit`.
        let child = unsafe { libc::fork() };
        if child == 0 {
            let _ = childs.write_all(&[body()]);
            // Until it is told to end.
            let _ = childs.read(&mut [0]);
            // SAFETY: ends the process.
            unsafe { libc::_exit(0) };
        }
        let mut byte = [0];
        ours.read_exact(&mut byte).unwrap();
        (byte[0], child, ours)
    }

    fn wait_for(child: libc::pid_t, mut end: UnixStream) {
        end.write_all(&[0]).unwrap();
        let mut status = 0;
        // SAFETY: the status is written to a number of ours.
        assert_eq!(unsafe { libc::waitpid(child, &raw mut status, 0) }, child);
        assert_eq!(status, 0);
    }

    fn lock(file: &File) -> bool {
        // SAFETY: takes no pointers.
        unsafe { libc::flock(file.as_raw_fd(), libc::LOCK_EX | libc::LOCK_NB) == 0 }
    }

    /// One test after the other: each has children that inherit what the others have open.
    static ALONE: Mutex<()> = Mutex::new(());

    fn alone() -> MutexGuard<'static, ()> {
        ALONE.lock().unwrap_or_else(PoisonError::into_inner)
    }

    #[test]
    fn a_child_has_another_number_and_keeps_it() {
        let _alone = alone();
        let mine = generation();
        let (other, child, end) = forked(|| u8::from(generation() != mine && generation() == generation()));
        assert_eq!(other, 1);
        wait_for(child, end);
        assert_eq!(generation(), mine);
    }

    #[test]
    fn a_lock_goes_with_its_process_though_a_child_lives_on() {
        let _alone = alone();
        let path = std::env::temp_dir().join(format!("mezz-fork-{}", std::process::id()));
        for kept in [true, false] {
            let file = File::create(&path).unwrap();
            let keeping = kept.then(|| KeptFromChildren::new(&file));
            assert!(lock(&file));
            let number = file.as_raw_fd();
            let write = || {
                // SAFETY: the child's descriptor of that number is no file of the parent's any more, or else
                // the file of this test.
                unsafe { libc::pwrite(number, c"x".as_ptr().cast(), 1, 0) }
            };
            let (refused, child, end) = forked(|| u8::from(write() < 0));
            assert_eq!(refused, u8::from(kept));
            let other = File::open(&path).unwrap();
            assert!(!lock(&other), "a child that let go has given the lock of its parent back");
            drop((keeping, file));
            assert_eq!(lock(&other), kept, "without the rule the child has it");
            wait_for(child, end);
        }
        std::fs::remove_file(path).unwrap();
    }

    #[test]
    fn places_grow_and_are_used_again() {
        let file = File::open("/dev/null").unwrap();
        let many: Vec<_> = (0..200).map(|_| KeptFromChildren::new(&file)).collect();
        let used = || Places::all().flat_map(|places| &places.descriptors).count();
        let before = used();
        drop(many);
        let again: Vec<_> = (0..200).map(|_| KeptFromChildren::new(&file)).collect();
        assert!(used() == before && again.len() == 200);
    }
}
