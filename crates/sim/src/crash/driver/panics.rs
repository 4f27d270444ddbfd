//! Failed assertions of the software under test are findings, not the end of the run.

use std::cell::{Cell, RefCell};
use std::panic::{self, AssertUnwindSafe};
use std::sync::Once;

thread_local! {
    static CATCHING: Cell<bool> = const { Cell::new(false) };
    static MESSAGE: RefCell<String> = const { RefCell::new(String::new()) };
}

/// Calls `work`; a panic in it becomes its message and place. Panics of other threads, and of this one
/// outside of `work`, are reported as before.
pub(crate) fn catch<T>(work: impl FnOnce() -> T) -> Result<T, String> {
    static HOOK: Once = Once::new();
    HOOK.call_once(|| {
        let previous = panic::take_hook();
        panic::set_hook(Box::new(move |info| {
            if CATCHING.get() {
                MESSAGE.with_borrow_mut(|message| *message = info.to_string());
            } else {
                previous(info);
            }
        }));
    });
    let before = CATCHING.replace(true);
    // Whatever the panic left half done is thrown away with its world.
    let result = panic::catch_unwind(AssertUnwindSafe(work));
    CATCHING.set(before);
    result.map_err(|_| latest())
}

/// The message and place of the panic of this thread that came last, inside of [`catch`].
pub(crate) fn latest() -> String {
    MESSAGE.with_borrow(|message| message.replace('\n', " "))
}

#[cfg(test)]
mod tests {
    #[test]
    fn a_panic_becomes_its_message_and_place() {
        assert_eq!(super::catch(|| 5), Ok(5));
        let message = super::catch(|| panic!("frame {} is gone", 7)).unwrap_err();
        assert!(message.contains("frame 7 is gone") && message.contains("panics.rs"), "{message}");
    }
}
