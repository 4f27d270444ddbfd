//! Running points on all cores, as many at once as there is memory for.

use std::collections::HashMap;
use std::sync::{Condvar, Mutex, PoisonError};

use mezzanine_ground::replacement::Policy;
use mezzanine_sim::policy::{Curve, Design};

use super::points::Point;
use super::results::Row;
use super::traces::Trace;
use crate::failure::Failure;

/// How many points of LRU on one trace are found faster together, from the distances between requests.
const TOGETHER_MIN: usize = 4;

/// Divides points into what is run in one pass: each by itself, but those of LRU on one trace, whose counts
/// follow from one pass for all sizes.
pub(super) fn tasks<'p>(points: &[&'p Point]) -> Vec<Vec<&'p Point>> {
    let is_lru = |point: &Point| point.setting.design() == Design::InPlace(Policy::Lru);
    let mut of_lru: HashMap<usize, Vec<&Point>> = HashMap::new();
    for point in points.iter().copied().filter(|point| is_lru(point)) {
        of_lru.entry(point.trace).or_default().push(point);
    }
    of_lru.retain(|_, points| points.len() >= TOGETHER_MIN);
    let mut tasks: Vec<Vec<&Point>> = Vec::new();
    for point in points.iter().copied() {
        match of_lru.get_mut(&point.trace).filter(|_| is_lru(point)) {
            // The first brings all of them, the others come with it.
            Some(together) if !together.is_empty() => tasks.push(std::mem::take(together)),
            Some(_) => {}
            None => tasks.push(vec![point]),
        }
    }
    tasks
}

/// Memory that a task takes while it runs.
pub(super) fn bytes(task: &[&Point], traces: &[Trace]) -> u64 {
    let trace = &traces[task[0].trace];
    super::curve_bytes(task, trace.pages) + trace.reader_bytes()
}

/// Threads, and the memory that they have together.
pub(super) struct Pool {
    pub(super) threads: usize,
    pub(super) memory: u64,
}

/// What the threads share.
struct State<F> {
    /// The next task.
    next: usize,
    /// Memory of the tasks that run.
    used: u64,
    done: F,
    failure: Option<Failure>,
}

impl Pool {
    /// Runs `work` of all tasks, each of which takes `bytes` of the memory and fits it alone; `done` gets the
    /// results, one call after the other.
    ///
    /// Tasks begin in their order, so that a large one is not passed over for ever: it waits until there is
    /// room for it.
    pub(super) fn run<T: Sync, R>(
        &self,
        tasks: &[T],
        bytes: impl Fn(&T) -> u64 + Sync,
        work: impl Fn(&T) -> Result<R, Failure> + Sync,
        done: impl FnMut(R) -> Result<(), Failure> + Send,
    ) -> Result<(), Failure> {
        let state = Mutex::new(State { next: 0, used: 0, done, failure: None });
        let room = Condvar::new();
        std::thread::scope(|scope| {
            for _ in 0..self.threads.min(tasks.len()) {
                scope.spawn(|| self.work(tasks, &bytes, &work, &state, &room));
            }
        });
        let state = state.into_inner().unwrap_or_else(PoisonError::into_inner);
        state.failure.map_or(Ok(()), Err)
    }

    fn work<T, R, F: FnMut(R) -> Result<(), Failure>>(
        &self,
        tasks: &[T],
        bytes: impl Fn(&T) -> u64,
        work: impl Fn(&T) -> Result<R, Failure>,
        state: &Mutex<State<F>>,
        room: &Condvar,
    ) {
        let mut locked = state.lock().unwrap_or_else(PoisonError::into_inner);
        loop {
            let Some(task) = tasks.get(locked.next).filter(|_| locked.failure.is_none()) else { return };
            let need = bytes(task);
            if locked.used > 0 && locked.used.saturating_add(need) > self.memory {
                locked = room.wait(locked).unwrap_or_else(PoisonError::into_inner);
                continue;
            }
            locked.next += 1;
            locked.used += need;
            drop(locked);
            let result = work(task);
            locked = state.lock().unwrap_or_else(PoisonError::into_inner);
            locked.used -= need;
            if let Err(failure) = result.and_then(|result| (locked.done)(result)) {
                locked.failure.get_or_insert(failure);
            }
            room.notify_all();
        }
    }
}

/// Makes the requests of a trace to the caches of a task.
pub(super) fn run(task: &[&Point], trace: &Trace) -> Result<Vec<Row>, Failure> {
    let mut curve = Curve::new(task.iter().map(|point| point.setting.clone()).collect());
    trace.names.iter().for_each(|page| curve.meet(*page));
    trace.each(|access| curve.request(access))?;
    let counted = curve.finish();
    Ok(task.iter().zip(counted).map(|(point, (_, counts))| Row::new(point, trace, counts)).collect())
}
