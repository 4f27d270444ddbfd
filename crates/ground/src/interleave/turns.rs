//! Threads of a simulation that take turns: one of them runs at a time, and who goes on is decided by a hook
//! at the points that a thread passes and where it has to wait. They may be fibers on one thread of the
//! system, which then share a hook, and everything else that belongs to a thread.
//!
//! A simulator that gives its threads such a hook, and passes points in its devices, decides in which order
//! they go on in the shipped build, at much less cost and at far fewer places than where every access is a
//! point. Without a hook a point is one look at a word of the thread, and a wait is what it always was.

use std::cell::RefCell;
use std::rc::Rc;

/// Where a thread is when its hook is called.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum At {
    /// It could go on.
    Point,
    /// It cannot go on before another thread has.
    Wait,
}

/// Returns when it is the thread's turn again; false if it does not take turns just now.
pub type Hook = Rc<dyn Fn(At) -> bool>;

thread_local! {
    static HOOK: RefCell<Option<Hook>> = const { RefCell::new(None) };
}

/// Has this thread take turns from now on, or no more.
pub fn take(hook: Option<Hook>) {
    HOOK.with(|current| *current.borrow_mut() = hook);
}

fn call(at: At) -> bool {
    // A thread that is about to end takes none.
    let hook = HOOK.try_with(|current| current.borrow().clone()).ok().flatten();
    hook.is_some_and(|hook| hook(at))
}

/// Whether this thread takes turns: then it must not sleep.
pub fn are_taken() -> bool {
    HOOK.try_with(|current| current.borrow().is_some()).unwrap_or(false)
}

/// Lets others go on until `condition` is no more, or they cannot.
pub fn wait_while(condition: impl Fn() -> bool) {
    while condition() && wait() {}
}

/// A point under no lock that others would have to wait for without a [`wait`].
pub fn point() {
    call(At::Point);
}

/// Lets others go on in a loop that waits for them. False if this thread takes no turns and has to wait in
/// another way.
pub fn wait() -> bool {
    call(At::Wait)
}
