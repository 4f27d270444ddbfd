//! Work that threads divide among themselves.

use std::num::NonZero;
use std::panic::resume_unwind;
use std::sync::{Mutex, PoisonError};
use std::thread;

/// Carries out each piece of work on some of so many threads, the first pieces first; what came out, in no
/// order.
///
/// # Errors
/// What stopped the first thread that stopped; the others go on to the end of what there is.
///
/// # Panics
/// With what a thread has panicked with.
pub(super) fn each<W: Send, T: Send, E: Send>(
    work: Vec<W>,
    threads: NonZero<usize>,
    carry_out: impl Fn(W) -> Result<T, E> + Sync,
) -> Result<Vec<T>, E> {
    let waiting = Mutex::new(work.into_iter());
    let next = || waiting.lock().unwrap_or_else(PoisonError::into_inner).next();
    let some = || -> Result<Vec<T>, E> { std::iter::from_fn(next).map(&carry_out).collect() };
    let of_threads: Vec<Result<Vec<T>, E>> = thread::scope(|scope| {
        let running: Vec<_> = (0..threads.get()).map(|_| scope.spawn(some)).collect();
        let join = |thread: thread::ScopedJoinHandle<'_, _>| {
            thread.join().unwrap_or_else(|panic| resume_unwind(panic))
        };
        running.into_iter().map(join).collect()
    });
    let all: Result<Vec<_>, E> = of_threads.into_iter().collect();
    Ok(all?.into_iter().flatten().collect())
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn each_is_carried_out_once_and_a_failure_is_told() {
        let threads = NonZero::new(3).unwrap();
        let mut found = each((0..100).collect(), threads, |number: u32| Ok::<_, String>(2 * number)).unwrap();
        found.sort_unstable();
        assert_eq!(found, (0..100).map(|number| 2 * number).collect::<Vec<_>>());
        let failed =
            each((0..100).collect(), threads, |number: u32| if number == 70 { Err(number) } else { Ok(()) });
        assert_eq!(failed, Err(70));
    }
}
