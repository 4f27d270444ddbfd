//! What tasks do: states and the steps from one to the next.
//!
//! ```text
//!   Run --(a page is not in the pool)--> Fetch --(a frame is free)----------------------> Reading (flash, or home) --> Run
//!    ^                                    |  ^                                              ^
//!    |                                    |  +--(the victim is wanted again)--+             |
//!    |                                    +--(a dirty victim)--> Evict -------+-------------+
//!    +-- Ended <-- End (waits for the log) <--(the transaction ends)-- Run
//! ```

use std::time::Duration;

use mezzanine_device::model::OperationKind;
use mezzanine_engine::{Lookup, StageIn, StageKind, Token};

use super::checkpoint::Checkpoint;
use super::counts::{Reason, Served};
use super::pool::NONE;
use super::setup::Refusal;
use super::source::Next;
use super::world::{Event, Whose, World};
use crate::policy::Access;

/// A request for a page that was not in the pool, and since when it is.
#[derive(Debug, Clone, Copy)]
pub(super) struct Fetch {
    access: Access,
    /// [`NOT_BEGUN`] until the processor has come so far.
    began: u64,
}

/// No request has begun then.
const NOT_BEGUN: u64 = u64::MAX;

/// How far the writing out of a dirty page is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Cleaning {
    Begin,
    /// It is being written to its home.
    Writing,
    /// So it is, and the tier, which did not take it, is to be told.
    WritingRefused,
    Invalidating,
}

/// What a task waits to do.
#[derive(Debug, Clone)]
pub(super) enum Task {
    Run,
    Fetch(Fetch),
    Evict {
        fetch: Fetch,
        victim: u32,
        cleaning: Cleaning,
    },
    /// Which page of the tier is in [`World::read_from_flash`], for tasks to be short.
    ReadingFlash {
        fetch: Fetch,
        frame: u32,
    },
    ReadingHome {
        fetch: Fetch,
        frame: u32,
        token: Option<Token>,
    },
    End {
        kind: u8,
        committed: bool,
    },
    Ended {
        kind: u8,
        committed: bool,
    },
    /// Its requests are at an end.
    Finished,
    /// The checkpointer.
    NoCheckpoint,
    Checkpoint(Box<Checkpoint>),
    /// The cleaner.
    CleanerIdle,
    CleanerLooks,
    CleanerCleans {
        victim: u32,
        cleaning: Cleaning,
    },
}

impl Task {
    /// Whether a page is on its way to a frame.
    pub(super) fn is_loading(&self) -> bool {
        matches!(self, Self::ReadingFlash { .. } | Self::ReadingHome { .. })
    }
}

/// How many requests ahead the pool is told of pages.
const AHEAD: usize = 4;

/// What comes after a step.
pub(super) enum Then {
    /// This, at once.
    Go(Task),
    /// This, when the task is woken.
    Wait(Task),
}

use Then::{Go, Wait};

impl World<'_> {
    /// Lets a task run until it waits.
    pub(super) fn go_on(&mut self, who: u32) -> Result<(), Refusal> {
        let mut task = std::mem::replace(&mut self.tasks[who as usize], Task::Finished);
        loop {
            match self.step(who, task)? {
                Go(next) => task = next,
                Wait(next) => {
                    self.tasks[who as usize] = next;
                    return Ok(());
                }
            }
        }
    }

    fn step(&mut self, who: u32, task: Task) -> Result<Then, Refusal> {
        Ok(match task {
            Task::Run => return self.run_client(who),
            Task::Fetch(fetch) => self.fetch(who, fetch),
            Task::Evict { fetch, victim, cleaning } => self.evict(who, fetch, victim, cleaning),
            Task::ReadingFlash { fetch, frame } => self.read_flash(who, fetch, frame),
            Task::ReadingHome { fetch, frame, token } => self.read_home(who, fetch, frame, token),
            Task::End { kind, committed } => self.end(who, kind, committed),
            Task::Ended { kind, committed } => self.ended(who, kind, committed),
            Task::Finished => Wait(Task::Finished),
            Task::NoCheckpoint => self.begin_checkpoint(),
            Task::Checkpoint(checkpoint) => self.step_checkpoint(who, checkpoint),
            Task::CleanerIdle | Task::CleanerLooks => self.cleaner_looks(who),
            Task::CleanerCleans { victim, cleaning } => self.cleaner_cleans(who, victim, cleaning),
        })
    }

    /// A client's requests up to the first that the pool cannot answer. What they cost of the processor is
    /// spent before anything else happens.
    fn run_client(&mut self, who: u32) -> Result<Then, Refusal> {
        let mut work = 0;
        let next = loop {
            match self.source.next(who)? {
                Next::Request(access) => {
                    work += self.cpu_ns;
                    self.prepare(who);
                    self.make_room_for(access.page());
                    match self.pool.find(access.page()) {
                        Some(frame) if !self.pool.frame(frame).loading => self.hit(who, frame, access),
                        _ => {
                            self.will_need(access.page());
                            break Task::Fetch(Fetch { access, began: NOT_BEGUN });
                        }
                    }
                }
                Next::End { kind, committed } => break Task::End { kind, committed },
                Next::Finished => {
                    self.finished += 1;
                    break Task::Finished;
                }
            }
        };
        if work == 0 {
            return Ok(Go(next));
        }
        let now = self.now();
        let done = self.processor.serve(now, work);
        self.clock.enter(done, Event::Task(who));
        Ok(Wait(next))
    }

    /// Has memory that the next requests of a client look at come into the processor's cache: most of the
    /// time that a request takes is waiting for it.
    #[inline]
    fn prepare(&self, who: u32) {
        if let Some(page) = self.source.later(who, AHEAD) {
            self.pool.will_find(page);
        }
    }

    /// The same for what the tier looks at.
    #[inline]
    fn will_need(&self, page: u32) {
        if let Some(tier) = self.tier {
            tier.will_need(&Self::id(page));
        }
    }

    /// The same for the pages that may leave the pool after a victim: for the next what the tier looks at
    /// last, for the one behind it what it looks at first.
    #[inline]
    fn prepare_next(&self, victim: u32) {
        let Some((next, page)) = self.pool.after_victim(victim) else { return };
        self.pool.will_find(page);
        let Some(tier) = self.tier else { return };
        tier.soon_needs(&Self::id(page));
        if let Some((_, page)) = self.pool.after_victim(next) {
            tier.will_need(&Self::id(page));
        }
    }

    fn make_room_for(&mut self, page: u32) {
        if let Some(places) = self.source.places() {
            let pages = places.len() as u32;
            debug_assert!(page < pages);
            self.pool.make_room(pages);
        }
    }

    /// The pool has the page.
    #[inline]
    fn hit(&mut self, who: u32, frame: u32, access: Access) {
        self.counts.request(Served::Pool, access.is_write());
        self.pool.used(frame);
        if access.is_write() {
            self.make_dirty(who, frame);
        }
    }

    #[inline]
    fn make_dirty(&mut self, who: u32, frame: u32) {
        let mark = self.mark;
        let lsn = self.log.append();
        self.wrote[who as usize] = true;
        let frame = self.pool.frame_mut(frame);
        frame.lsn = lsn;
        if !frame.dirty {
            (frame.dirty, frame.mark) = (true, mark);
        }
    }

    fn fetch(&mut self, who: u32, mut fetch: Fetch) -> Then {
        if fetch.began == NOT_BEGUN {
            fetch.began = self.now();
        }
        let page = fetch.access.page();
        if let Some(tier) = self.tier {
            tier.soon_needs(&Self::id(page));
        }
        if let Some(frame) = self.pool.find(page) {
            if self.pool.frame(frame).loading {
                self.counts.joined += 1;
                let waiter = &mut self.pool.frame_mut(frame).waiter;
                self.next_waiter[who as usize] = std::mem::replace(waiter, who);
                return Wait(Task::Fetch(fetch));
            }
            self.hit(who, frame, fetch.access);
            let now = self.now();
            self.measure.latencies.joined.record(Duration::from_nanos(now - fetch.began));
            return Go(Task::Run);
        }
        if let Some(frame) = self.pool.take_free() {
            self.wake_cleaner();
            return self.load(who, fetch, frame);
        }
        let Some(victim) = self.pool.victim() else {
            self.frame_waiters.push(who);
            return Wait(Task::Fetch(fetch));
        };
        self.prepare_next(victim);
        if self.pool.frame(victim).dirty {
            self.pool.frame_mut(victim).pins += 1;
            return Go(Task::Evict { fetch, victim, cleaning: Cleaning::Begin });
        }
        self.offer_clean(victim);
        self.take_out(victim);
        self.load(who, fetch, victim)
    }

    /// A clean page leaves the pool; the tier may have it, unless it has had its chance when the page came.
    pub(super) fn offer_clean(&mut self, victim: u32) {
        if !self.setup.admits_on_entry() {
            self.offer(self.pool.frame(victim).page, None);
        }
    }

    /// The tier may have a page that equals its disk copy.
    fn offer(&mut self, page: u32, token: Option<Token>) {
        let Some(tier) = self.tier else { return };
        if let StageIn::Staged { .. } =
            tier.stage_in(&Self::id(page), &self.zeros, StageKind::Clean(token), 0)
        {
            self.workers.page_staged(&mut self.clock, tier.work());
        }
    }

    /// The page of a clean frame is no longer in the pool.
    pub(super) fn take_out(&mut self, victim: u32) {
        self.counts.evicted += 1;
        self.pool.unmap(victim);
    }

    fn evict(&mut self, who: u32, fetch: Fetch, victim: u32, cleaning: Cleaning) -> Then {
        if let Some(cleaning) = self.clean(who, victim, cleaning, Reason::Eviction) {
            return Wait(Task::Evict { fetch, victim, cleaning });
        }
        self.pool.frame_mut(victim).pins -= 1;
        self.unpinned();
        let &super::pool::Frame { pins, dirty, .. } = self.pool.frame(victim);
        if pins > 0 || dirty {
            return Go(Task::Fetch(fetch));
        }
        self.take_out(victim);
        if self.pool.find(fetch.access.page()).is_some() {
            // Another client has brought the page meanwhile.
            self.pool.release(victim);
            return Go(Task::Fetch(fetch));
        }
        self.load(who, fetch, victim)
    }

    fn load(&mut self, who: u32, fetch: Fetch, frame: u32) -> Then {
        self.pool.map(frame, fetch.access.page());
        self.counts.loaded += 1;
        let mapped = self.pool.frame_mut(frame);
        (mapped.loading, mapped.pins) = (true, 1);
        self.look_up(who, fetch, frame)
    }

    fn look_up(&mut self, who: u32, fetch: Fetch, frame: u32) -> Then {
        let page = fetch.access.page();
        let found = self.tier.map(|tier| tier.lookup(&Self::id(page), &mut self.page));
        match found {
            Some(Lookup::Memory) => self.loaded(who, fetch, frame, Served::Staging),
            Some(Lookup::Flash(page)) => {
                let (at, len) = self.on_flash(page.offset, self.zeros.len() as u64);
                self.submit(super::world::Which::Flash, OperationKind::Read, at, len, Whose::Task(who));
                self.read_from_flash[who as usize] = Some(page);
                Wait(Task::ReadingFlash { fetch, frame })
            }
            Some(Lookup::Miss(token)) => self.go_home(who, fetch, frame, Some(token)),
            None => self.go_home(who, fetch, frame, None),
        }
    }

    fn go_home(&mut self, who: u32, fetch: Fetch, frame: u32, token: Option<Token>) -> Then {
        self.submit_home(OperationKind::Read, fetch.access.page(), Whose::Task(who));
        Wait(Task::ReadingHome { fetch, frame, token })
    }

    fn read_flash(&mut self, who: u32, fetch: Fetch, frame: u32) -> Then {
        let tier = self.tier.expect("a page of the tier was read");
        let page = self.read_from_flash[who as usize].as_ref().expect("it is noted who reads what");
        if !tier.confirm(page) {
            self.counts.rereads += 1;
            return self.look_up(who, fetch, frame);
        }
        assert_eq!(page.checksum, self.zeros_checksum, "all pages are equal");
        self.loaded(who, fetch, frame, Served::Flash)
    }

    fn read_home(&mut self, who: u32, fetch: Fetch, frame: u32, token: Option<Token>) -> Then {
        if self.setup.admits_on_entry() {
            self.offer(fetch.access.page(), token);
        }
        let is_disk = self.home() == super::world::Which::Disk;
        if is_disk {
            self.counts.disk_wait += self.now() - fetch.began;
        }
        self.loaded(who, fetch, frame, if is_disk { Served::Disk } else { Served::Flash })
    }

    /// The page is in the pool now.
    fn loaded(&mut self, who: u32, fetch: Fetch, frame: u32, served: Served) -> Then {
        let now = self.now();
        let loaded = self.pool.frame_mut(frame);
        loaded.loading = false;
        loaded.pins -= 1;
        let mut waiter = std::mem::replace(&mut loaded.waiter, NONE);
        while waiter != NONE {
            self.wake(waiter);
            waiter = std::mem::replace(&mut self.next_waiter[waiter as usize], NONE);
        }
        self.unpinned();
        self.counts.request(served, fetch.access.is_write());
        self.measure.latencies.fetched(served, now - fetch.began);
        if fetch.access.is_write() {
            self.make_dirty(who, frame);
        }
        Go(Task::Run)
    }

    fn end(&mut self, who: u32, kind: u8, committed: bool) -> Then {
        let wrote = std::mem::take(&mut self.wrote[who as usize]);
        if !(committed && wrote) {
            return Go(Task::Ended { kind, committed });
        }
        self.log.ask(who);
        self.begin_log();
        Wait(Task::Ended { kind, committed })
    }

    fn ended(&mut self, who: u32, kind: u8, committed: bool) -> Then {
        let now = self.now();
        let ends = if committed { &mut self.counts.committed } else { &mut self.counts.rolled_back };
        ends[usize::from(kind)] += 1;
        self.measure.latencies.transaction.record(Duration::from_nanos(now - self.began[who as usize]));
        self.check_warm_up(now);
        let think = self.think_ns();
        self.began[who as usize] = now + think;
        if think == 0 {
            // By way of the clock, so that what is under way at this moment has its turn.
            self.wake(who);
        } else {
            self.clock.enter(now + think, Event::Task(who));
        }
        Wait(Task::Run)
    }

    fn think_ns(&mut self) -> u64 {
        if self.setup.think_us == 0.0 {
            return 0;
        }
        // From (0, 1], so that the logarithm is finite.
        let fraction = ((self.think.bits() >> 11) + 1) as f64 / (1u64 << 53) as f64;
        (-fraction.ln() * self.setup.think_us * 1e3) as u64
    }
}
