//! Runners that carry out jobs of a volume beside the operations of its life, as its workers do where it is
//! used in earnest.
//!
//! Each carries out one job after the other. At every request to a device, of a job or of an operation,
//! another one may go on ([`super::turns`]): so jobs of one tier overlap with one another and with
//! operations, and an operation begins and ends while jobs are half done. Power can fail at any of these
//! requests. At the end of a session the runners find their devices without power and end as a process does
//! that is killed in the middle of their jobs.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::rc::Rc;
use std::sync::Arc;

use mezzanine_ground::interleave::turns::{self, At};
use mezzanine_ground::random::{Random, splitmix};
use mezzanine_volume::Volume;

use super::fibers::Fiber;
use super::turns::{SLOW, Turns};
use crate::crash::driver::panics;

/// At one point of so many another one may go on.
const STAYS: [u64; 4] = [1, 2, 4, 12];
/// Half of what is done beside an operation takes long at each point, so that it lasts for much of it.
const SLOW_ERRAND: u64 = 2;

/// Something other than a job.
pub(super) type Errand = Box<dyn FnOnce()>;

/// The runners of one session.
pub(super) struct Runners {
    turns: Rc<Turns>,
    errands: Rc<RefCell<VecDeque<Errand>>>,
    are_there: bool,
}

impl Runners {
    /// They begin, on this volume.
    pub(super) fn start(volume: &Arc<Volume>, count: usize) -> Self {
        let turns = Rc::new(Turns::new(count + 1));
        let errands = Rc::default();
        let begin = |me| {
            let (turns, errands, volume) = (Rc::clone(&turns), Rc::clone(&errands), Arc::clone(volume));
            Fiber::new(move || {
                let ended = panics::catch(|| run(&turns, me, &errands, &volume));
                turns.leave(me);
                // Before others go on: it may be the last to hold the volume.
                let dropped = panics::catch(|| drop(volume));
                turns.gone(me, ended.and(dropped).err());
            })
        };
        turns.of((1..=count).map(begin).collect());
        let taken = Rc::clone(&turns);
        turns::take(Some(Rc::new(move |at| taken.pass(at))));
        Self { turns, errands, are_there: true }
    }

    /// An operation, or something else of the life, begins, and draws from `random`.
    pub(super) fn draw_from(&self, random: &Random) {
        let mut aside = Random::new(splitmix(random.clone().next_u64() ^ 0x7275_6e6e_6572_7321));
        let stay = *aside.pick(&STAYS);
        self.turns.draw_from(aside, stay);
        turns::point();
    }

    /// The next runner that has nothing under way does this.
    pub(super) fn ask(&self, errand: Errand) {
        self.errands.borrow_mut().push_back(errand);
        turns::point();
    }

    /// They end; what they have under way goes as far as it goes.
    /// Returns how often the turn went to another.
    pub(super) fn end(mut self) -> u64 {
        self.turns.end();
        self.are_there = false;
        self.turns.changes()
    }
}

impl Drop for Runners {
    fn drop(&mut self) {
        if self.are_there {
            // After a panic. They still take turns, for what they hold.
            if !self.turns.break_off() {
                eprintln!("runners that cannot be taken down are left where they are");
            }
        }
        turns::take(None);
    }
}

/// Carries out jobs until the session ends.
fn run(turns: &Turns, me: usize, errands: &RefCell<VecDeque<Errand>>, volume: &Volume) {
    while !turns.are_ending() {
        let asked = errands.borrow_mut().pop_front();
        let found = match asked {
            Some(errand) => {
                turns.set_slow(me, SLOW_ERRAND);
                errand();
                turns.set_slow(me, SLOW);
                true
            }
            None => volume.step(),
        };
        turns.pass(if found { At::Point } else { At::Wait });
    }
}
