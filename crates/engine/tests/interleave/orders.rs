//! The orders in which threads take turns, one per seed.
//!
//! Odd seeds choose at random at every point, staying with a thread for a while. Even ones give the threads
//! priorities, run the highest that can run, and change priorities at a few points: "A Randomized Scheduler
//! with Probabilistic Guarantees of Finding Bugs" (ASPLOS 2010), sections 2 and 3. Shuttle has both, but
//! seeds the second per run and not per order, and takes the points of change evenly from the longest run
//! seen; here they are drawn from a length that is drawn as well, because many races lie near the
//! beginning of long models.

use std::cell::Cell;
use std::collections::BTreeMap;
use std::ops::Range;

use mezzanine_ground::random::splitmix_sequence;
use shuttle::scheduler::{Schedule, Scheduler, Task, TaskId};

/// Points within which priorities change, as powers of two.
const LENGTHS: Range<u64> = 4..14;
/// Most changes of priority: few races need more.
const CHANGES_MAX: u64 = 4;
/// The chance to stay with a thread at a point, in thousandths.
const STAYS: [u64; 4] = [0, 500, 900, 990];

thread_local! {
    static HELD: Cell<bool> = const { Cell::new(false) };
}

/// Whether the thread that runs goes on at every point, as long as it can. For a model that sets threads up
/// which are to begin later.
#[allow(dead_code, reason = "not every package whose models use these orders needs it")]
pub(crate) fn hold(on: bool) {
    HELD.set(on);
}

enum Kind {
    Random { stay_permille: u64 },
    Priorities { of: BTreeMap<usize, i64>, changes: Vec<u64>, lowest: i64 },
}

/// One order per seed.
pub(crate) struct Orders {
    seeds: Range<u64>,
    /// Of SplitMix64: how many orders find a race that was planted depends on the sequence.
    random: Box<dyn Iterator<Item = u64> + Send>,
    points: u64,
    kind: Kind,
}

impl Orders {
    pub(crate) fn new(seeds: Range<u64>) -> Self {
        Self {
            seeds,
            random: Box::new(splitmix_sequence(0)),
            points: 0,
            kind: Kind::Random { stay_permille: 0 },
        }
    }

    fn draw(&mut self) -> u64 {
        self.random.next().expect("a sequence without an end")
    }

    fn draw_kind(&mut self, seed: u64) -> Kind {
        if seed % 2 == 1 {
            let stay_permille = STAYS[(self.draw() % STAYS.len() as u64) as usize];
            return Kind::Random { stay_permille };
        }
        let length = 1 << (LENGTHS.start + self.draw() % (LENGTHS.end - LENGTHS.start));
        let changes = 1 + self.draw() % CHANGES_MAX;
        let changes = (0..changes).map(|_| self.draw() % length).collect();
        Kind::Priorities { of: BTreeMap::new(), changes, lowest: 0 }
    }
}

impl Scheduler for Orders {
    fn new_execution(&mut self) -> Option<Schedule> {
        let seed = self.seeds.next()?;
        self.random = Box::new(splitmix_sequence(seed));
        self.points = 0;
        HELD.set(false);
        self.kind = self.draw_kind(seed);
        Some(Schedule::new(seed))
    }

    fn next_task(&mut self, runnable: &[&Task], current: Option<TaskId>, waits: bool) -> Option<TaskId> {
        if let Some(current) = current.filter(|id| HELD.get() && runnable.iter().any(|task| task.id() == *id))
        {
            return Some(current);
        }
        let (drawn, point) = (self.draw(), self.points);
        self.points += 1;
        match &mut self.kind {
            Kind::Random { stay_permille } => {
                let here = current.filter(|id| runnable.iter().any(|task| task.id() == *id));
                match here {
                    Some(here) if !waits && drawn % 1000 < *stay_permille => Some(here),
                    _ => {
                        // Who waits for others lets one of them run.
                        let others = |task: &&&Task| !waits || runnable.len() == 1 || Some(task.id()) != here;
                        let others: Vec<_> = runnable.iter().filter(others).collect();
                        Some(others[(drawn >> 32) as usize % others.len()].id())
                    }
                }
            }
            Kind::Priorities { of, changes, lowest } => {
                if let Some(current) = current.filter(|_| waits || changes.contains(&point)) {
                    *lowest -= 1;
                    of.insert(usize::from(current), *lowest);
                }
                let mut salt = drawn;
                runnable
                    .iter()
                    .max_by_key(|task| {
                        salt = salt.rotate_left(17);
                        // A thread that was never put back has a priority above all that were.
                        *of.entry(usize::from(task.id())).or_insert((salt >> 1) as i64)
                    })
                    .map(|task| task.id())
            }
        }
    }

    fn next_u64(&mut self) -> u64 {
        self.draw()
    }
}
