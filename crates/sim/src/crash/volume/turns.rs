//! Several runners of one world, of which one goes on at a time.
//!
//! Whose turn it is goes on until it passes a point (a request to a device before it is carried out and
//! after, a job that ends) or has to wait for another. There the seed decides whose turn is next. All locks
//! and waits of a volume call here, so one that waits never stops the others, and what happens in a life
//! follows from its seed alone. Number 0 is the life itself; the others are fibers on its thread
//! ([`super::fibers`]), for a turn that changed the system's threads took longer than what is done in it.
//!
//! ```text
//!             begins                      its turn                 ends
//!   (no) ----------------> ready  <------------------> at work ----------> gone
//!                            ^                            |
//!                            |  its turn                  | waits, or finds no job
//!                            +---------- behind <---------+
//! ```
//!
//! At a point it may also become *slow*: it is ready only when so many others have got on. After a panic it
//! is *down*, and unwinds; and *leaving* on the last steps to gone, where it takes no turns any more.
//!
//! Rules:
//! 1. One at most is at work, but for those that are being taken down.
//! 2. Who is behind gets its turn before others only when somebody has got on since.
//! 3. If nobody gets on in [`FRUITLESS_MAX`] turns, nobody ever will: that is a finding.
//! 4. After a panic nobody gets a turn any more: all unwind from where they stand, one after the other; who
//!    needs what another one holds lets that one go first.

use std::cell::{Cell, RefCell, RefMut};
use std::panic::resume_unwind;

use mezzanine_ground::interleave::turns::At;
use mezzanine_ground::random::Random;

use super::fibers::{Fiber, give_way};
use crate::crash::driver::panics;

/// More turns than all together need to find that they can go on.
const FRUITLESS_MAX: u32 = 1000;
/// One has this share of requests that take long: one in so many.
pub(super) const SLOW: u64 = 8;
/// They take so long, at most: more than any operation needs.
const SLOW_STEPS_MAX: u64 = 256;
/// More rounds than those need that are taken down, to get what others hold.
const DOWN_ROUNDS_MAX: u32 = 1000;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Stand {
    /// It can go on.
    Ready,
    /// It could not go on when there had been so many steps.
    Behind(u64),
    /// Its request takes long: others go on until there have been so many steps, if they can.
    Slow(u64),
    /// It unwinds.
    Down,
    /// It passes no points any more.
    Leaving,
    Gone,
}

struct State {
    turn: usize,
    stands: Vec<Stand>,
    random: Random,
    /// At one point of so many the turn goes to another.
    stay: u64,
    /// How often somebody got on.
    steps: u64,
    /// Of the points at which a turn ends, one in so many takes long.
    slow: Vec<u64>,
    fruitless: u32,
    changes: u64,
    ending: bool,
    /// Nobody gets a turn any more.
    broken: bool,
    /// Why.
    message: Option<String>,
    /// Some who can go on, for [`Self::next`].
    able: Vec<usize>,
}

/// What one unwinds with when another has panicked.
struct TakenDown;

/// Who goes on, of those with numbers from 0 on.
pub(super) struct Turns {
    state: RefCell<State>,
    /// All but the first.
    fibers: RefCell<Vec<Fiber>>,
    /// Who is at work, also while all are taken down.
    at_work: Cell<usize>,
}

impl Turns {
    /// Turns of `count`, the first of which is at work.
    pub(super) fn new(count: usize) -> Self {
        let state = State {
            turn: 0,
            stands: vec![Stand::Ready; count],
            random: Random::new(0),
            stay: 2,
            steps: 0,
            slow: vec![SLOW; count],
            fruitless: 0,
            changes: 0,
            ending: false,
            broken: false,
            message: None,
            able: Vec::new(),
        };
        Self { state: RefCell::new(state), fibers: RefCell::default(), at_work: Cell::new(0) }
    }

    fn state(&self) -> RefMut<'_, State> {
        self.state.borrow_mut()
    }

    /// Makes the others known, in the order of their numbers.
    pub(super) fn of(&self, fibers: Vec<Fiber>) {
        *self.fibers.borrow_mut() = fibers;
    }

    /// From here on `random` decides, and the turn changes at one point of `stay`.
    pub(super) fn draw_from(&self, random: Random, stay: u64) {
        let mut state = self.state();
        (state.random, state.stay) = (random, stay);
    }

    /// From here on one point of `slow` of this one takes long, of those at which its turn ends.
    pub(super) fn set_slow(&self, me: usize, slow: u64) {
        self.state().slow[me] = slow;
    }

    /// How often the turn went to another one.
    pub(super) fn changes(&self) -> u64 {
        self.state().changes
    }

    /// Whether all are to end when they have nothing under way.
    pub(super) fn are_ending(&self) -> bool {
        self.state().ending
    }

    /// Has all others end as soon as they have nothing under way.
    pub(super) fn end(&self) {
        self.state().ending = true;
        loop {
            let mut state = self.state();
            if state.stands[1..].iter().all(|stand| *stand == Stand::Gone) {
                break;
            }
            // Also those that found no job.
            state.steps += 1;
            drop(state);
            self.pass(At::Wait);
        }
    }

    /// This one is about to end, and passes no points any more.
    pub(super) fn leave(&self, me: usize) {
        self.state().stands[me] = Stand::Leaving;
    }

    /// One has ended: by itself, or with a panic.
    pub(super) fn gone(&self, me: usize, panic: Option<String>) {
        let mut state = self.state();
        state.stands[me] = Stand::Gone;
        if let Some(message) = panic {
            // The first says what was wrong.
            state.message.get_or_insert(message);
            state.broken = true;
        }
        if !state.broken {
            state.steps += 1;
            state.next();
        }
    }

    /// Takes down whoever is still there. Returns whether all are gone: not where one needs what the life
    /// itself holds.
    pub(super) fn break_off(&self) -> bool {
        self.state().broken = true;
        (0..DOWN_ROUNDS_MAX).any(|_| self.take_down_further())
    }

    /// Has all go on once that are not gone. Returns whether all are gone.
    fn take_down_further(&self) -> bool {
        let mut fibers = self.fibers.borrow_mut();
        for (at, fiber) in fibers.iter_mut().enumerate() {
            self.at_work.set(at + 1);
            fiber.resume();
        }
        self.at_work.set(0);
        fibers.iter().all(Fiber::is_gone)
    }

    /// At a point, or where it has to wait, whoever is at work lets the seed decide who goes on. Returns when
    /// it is its turn; false if it takes none any more.
    pub(super) fn pass(&self, at: At) -> bool {
        let me = self.at_work.get();
        let mut state = self.state();
        if state.stands[me] == Stand::Leaving {
            return false;
        }
        if state.broken || std::thread::panicking() {
            drop(state);
            return self.pass_down(me, at);
        }
        match at {
            At::Point => {
                (state.steps, state.fruitless, state.stands[me]) = (state.steps + 1, 0, Stand::Ready);
                let stay = state.stay;
                if !state.random.chance(1, stay) {
                    return true;
                }
                let slow = state.slow[me];
                if state.random.chance(1, slow) {
                    let until = state.steps + state.random.magnitude(SLOW_STEPS_MAX);
                    state.stands[me] = Stand::Slow(until);
                }
            }
            At::Wait => {
                // What it did before it had to wait may be what others wait for.
                state.steps += u64::from(!matches!(state.stands[me], Stand::Behind(_)));
                state.stands[me] = Stand::Behind(state.steps);
                state.fruitless += 1;
            }
        }
        if state.fruitless > FRUITLESS_MAX {
            let text = "every runner waits for another one, or finds nothing to do";
            (state.broken, state.message) = (true, Some(text.to_owned()));
        } else {
            state.next();
        }
        drop(state);
        self.await_turn(me);
        true
    }

    fn await_turn(&self, me: usize) {
        let (turn, broken) = {
            let state = self.state();
            (state.turn, state.broken)
        };
        match me {
            0 => self.let_others_go_on(),
            _ if broken => self.go_down(me),
            _ if turn != me => {
                give_way();
                if self.state().broken {
                    self.go_down(me);
                }
            }
            _ => {}
        }
    }

    /// Until it is the turn of the life itself.
    fn let_others_go_on(&self) {
        loop {
            let state = self.state();
            let unwinds = state.broken || state.stands.contains(&Stand::Down);
            let turn = state.turn;
            drop(state);
            if unwinds {
                self.break_off();
                // Who unwinds and needs what the life itself holds has not been able to say why.
                let message = self.state().message.clone();
                panic!("{}", message.unwrap_or_else(panics::latest));
            }
            if turn == 0 {
                return;
            }
            self.at_work.set(turn);
            self.fibers.borrow_mut()[turn - 1].resume();
            self.at_work.set(0);
        }
    }

    fn go_down(&self, me: usize) {
        self.state().stands[me] = Stand::Down;
        resume_unwind(Box::new(TakenDown));
    }

    /// A point of one that is taken down, or unwinds by itself.
    fn pass_down(&self, me: usize, at: At) -> bool {
        let state = self.state();
        let (stand, broken) = (state.stands[me], state.broken);
        drop(state);
        match (me, at) {
            (0, _) if !std::thread::panicking() => self.let_others_go_on(),
            (0, At::Wait) => {
                self.state().broken = true;
                return !self.take_down_further();
            }
            (0, At::Point) => {}
            _ if broken && stand != Stand::Down => self.go_down(me),
            (_, at) => {
                self.state().stands[me] = Stand::Down;
                if at == At::Wait {
                    give_way();
                }
            }
        }
        true
    }
}

impl State {
    /// Gives the turn to somebody.
    fn next(&mut self) {
        let can = |stand: &Stand| match stand {
            Stand::Ready => true,
            Stand::Behind(steps) => *steps < self.steps,
            Stand::Slow(until) => *until <= self.steps,
            Stand::Down | Stand::Leaving | Stand::Gone => false,
        };
        let mut able = std::mem::take(&mut self.able);
        able.clear();
        able.extend((0..self.stands.len()).filter(|who| can(&self.stands[*who])));
        if able.is_empty() {
            able.extend((0..self.stands.len()).filter(|who| self.stands[*who] != Stand::Gone));
        }
        let next = *self.random.pick(&able);
        self.able = able;
        self.changes += u64::from(next != self.turn);
        self.turn = next;
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use std::rc::Rc;

    use super::*;

    /// Two; what the second does, and then the first.
    fn beside<T>(
        second: impl FnOnce(&Turns) + 'static,
        first: impl FnOnce(&Turns) -> T,
    ) -> Result<T, String> {
        let turns = Rc::new(Turns::new(2));
        let its = Rc::clone(&turns);
        turns.of(vec![Fiber::new(move || {
            let ended = panics::catch(|| second(&its));
            its.gone(1, ended.err());
        })]);
        let done = panics::catch(|| first(&turns));
        assert!(turns.break_off(), "all are gone");
        done
    }

    fn for_ever(turns: &Turns) {
        while turns.pass(At::Wait) {}
    }

    #[test]
    fn runners_that_all_wait_are_a_finding() {
        let message = beside(for_ever, for_ever).unwrap_err();
        assert!(message.contains("every runner waits"), "{message}");
    }

    #[test]
    fn what_another_one_panics_with_ends_the_first() {
        let message = beside(|_| panic!("frame 7 is gone"), |turns| while turns.pass(At::Point) {});
        assert!(message.unwrap_err().contains("frame 7 is gone"));
    }

    #[test]
    fn who_waits_gets_a_turn_when_another_has_got_on() {
        let steps = |turns: &Turns| (0..100).for_each(|_| assert!(turns.pass(At::Point)));
        let waited = beside(steps, |turns| {
            turns.end();
            turns.changes()
        });
        assert!(waited.unwrap() >= 2);
    }

    /// Has what the other one waits for while it unwinds.
    struct Held<'t>(&'t Turns, Rc<Cell<bool>>, bool);

    impl Drop for Held<'_> {
        fn drop(&mut self) {
            if self.2 {
                while self.1.get() && self.0.pass(At::Wait) {}
                assert!(!self.1.get());
            } else {
                self.1.set(false);
            }
        }
    }

    #[test]
    fn who_unwinds_lets_another_go_first_that_has_what_it_needs() {
        for second_panics in [true, false] {
            let held = Rc::new(Cell::new(true));
            let its = Rc::clone(&held);
            let side = |held, panics: bool, waits| {
                move |turns: &Turns| {
                    let _held = Held(turns, held, waits);
                    (0..100).for_each(|_| _ = turns.pass(At::Point));
                    assert!(!panics, "frame 7 is gone");
                    for_ever(turns);
                }
            };
            let message =
                beside(side(its, second_panics, second_panics), side(held, !second_panics, !second_panics));
            assert!(message.unwrap_err().contains("frame 7 is gone"));
        }
    }
}
