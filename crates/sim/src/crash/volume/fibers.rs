//! Lines of execution on stacks of their own, all on one thread of the system: who gives way does it at the
//! cost of a call, where a thread has to be put to sleep and another one woken (docs/decisions/0020).
#![allow(unsafe_code)]

use std::cell::{Cell, RefCell};
use std::mem::forget;
use std::ptr::NonNull;

use corosensei::stack::DefaultStack;
use corosensei::{Coroutine, CoroutineResult};

/// As much as a thread has: of what is not used only addresses are taken.
const STACK_BYTES: usize = 2 << 20;

type Yielder = corosensei::Yielder<(), ()>;

thread_local! {
    /// What gives way for the fiber that goes on.
    static YIELDER: Cell<Option<NonNull<Yielder>>> = const { Cell::new(None) };
    /// Of fibers that are gone.
    static STACKS: RefCell<Vec<DefaultStack>> = const { RefCell::new(Vec::new()) };
}

/// One line of execution.
pub(super) struct Fiber(Option<Coroutine<(), (), (), DefaultStack>>);

impl Fiber {
    /// It does this as soon as it may go on. `work` must not panic.
    ///
    /// # Panics
    /// If there is no memory for a stack.
    pub(super) fn new(work: impl FnOnce() + 'static) -> Self {
        let stack = STACKS.with_borrow_mut(Vec::pop);
        let stack =
            stack.unwrap_or_else(|| DefaultStack::new(STACK_BYTES).expect("there is memory for a stack"));
        let begin = move |yielder: &Yielder, ()| {
            YIELDER.set(Some(NonNull::from(yielder)));
            work();
        };
        Self(Some(Coroutine::with_stack(stack, begin)))
    }

    /// Whether it has come to its end.
    pub(super) fn is_gone(&self) -> bool {
        self.0.is_none()
    }

    /// Has it go on until it gives way or is gone.
    pub(super) fn resume(&mut self) {
        let Some(coroutine) = &mut self.0 else { return };
        let outer = YIELDER.take();
        let result = coroutine.resume(());
        YIELDER.set(outer);
        if let (CoroutineResult::Return(()), Some(coroutine)) = (result, self.0.take_if(|it| it.done())) {
            STACKS.with_borrow_mut(|stacks| stacks.push(coroutine.into_stack()));
        }
    }
}

/// What stands on the stack of a fiber that does not come to its end stays there, as with a thread that
/// nobody waits for.
impl Drop for Fiber {
    fn drop(&mut self) {
        forget(self.0.take());
    }
}

/// Has whoever resumed this fiber go on. Returns when it is resumed again.
///
/// # Panics
/// Outside of any.
pub(super) fn give_way() {
    let yielder = YIELDER.get().expect("a fiber gives way");
    // SAFETY: the fiber that goes on has put it there, each time that it went on, and its yielder lives on
    // its stack for as long as it does; whoever resumed it gets back what was there before.
    unsafe { yielder.as_ref() }.suspend(());
    YIELDER.set(Some(yielder));
}

#[cfg(test)]
mod tests {
    use std::rc::Rc;

    use super::*;

    #[test]
    fn fibers_give_way_and_go_on_where_they_were() {
        let seen = Rc::new(RefCell::new(Vec::new()));
        let counting = |from| {
            let seen = Rc::clone(&seen);
            Fiber::new(move || {
                for number in from..from + 3 {
                    seen.borrow_mut().push(number);
                    give_way();
                }
            })
        };
        let mut fibers = [counting(0), counting(10)];
        while fibers.iter().any(|fiber| !fiber.is_gone()) {
            fibers.iter_mut().for_each(Fiber::resume);
        }
        assert_eq!(*seen.borrow(), [0, 10, 1, 11, 2, 12]);
    }

    #[test]
    fn a_fiber_in_a_fiber_gives_way_to_that() {
        let mut outer = Fiber::new(|| {
            let mut inner = Fiber::new(give_way);
            inner.resume();
            assert!(!inner.is_gone());
            give_way();
            inner.resume();
            assert!(inner.is_gone());
        });
        outer.resume();
        assert!(!outer.is_gone());
        outer.resume();
        assert!(outer.is_gone());
    }
}
