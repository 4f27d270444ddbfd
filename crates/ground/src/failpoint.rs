//! Points where a process may die. Without the feature `planted`, which no shipped build turns on, they are
//! nothing.

/// Called where a process may die: under no lock.
#[cfg(not(feature = "planted"))]
#[inline(always)]
pub const fn outside(_point: &'static str) {}

/// Called where a process may die: inside a critical section.
#[cfg(not(feature = "planted"))]
#[inline(always)]
pub const fn inside(_point: &'static str) {}

#[cfg(feature = "planted")]
mod point {
    use std::cell::RefCell;
    use std::rc::Rc;

    type Hook = Rc<dyn Fn(&'static str)>;

    thread_local! {
        static HOOK: RefCell<Option<Hook>> = const { RefCell::new(None) };
    }

    /// Has `hook` called, with its name, at every point that this thread passes: places where a process may
    /// die.
    pub fn at_points(hook: Option<Hook>) {
        HOOK.with(|current| *current.borrow_mut() = hook);
    }

    fn pass(point: &'static str) {
        let hook = HOOK.with(|current| current.borrow().clone());
        if let Some(hook) = hook {
            hook(point);
        }
    }

    /// A point under no lock: a death here changes nothing for others.
    pub fn outside(point: &'static str) {
        pass(point);
    }

    /// A point inside a critical section: a death here poisons the region.
    pub fn inside(point: &'static str) {
        pass(point);
    }
}

#[cfg(feature = "planted")]
pub use point::{at_points, inside, outside};
