//! The block host: clients, whoever stands between, workers and two devices, and the loop over what happens.
//!
//! 1. A client has one request under way, and a request ends when its last round is complete.
//! 2. As many jobs are under way as there are workers that are at work.
//! 3. What is entered for a device is told once to whom it is of.

use std::time::Duration;

use mezzanine_workload::Histogram;

use super::super::clock::Clock;
use super::super::drive::Look;
use super::super::processor::Servers;
use super::super::setup::Refusal;
use super::between::{Ask, Between, Device, Next};
use super::outcome::Sums;
use super::setup::BlockSetup;
use super::source::Source;
use super::station::{Entered, Station};

/// Whose an operation is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Whose {
    Client(u32),
    Job(u32),
}

/// What a request takes that memory answers: a copy of a page, and the call.
const MEMORY_NS: u64 = 5_000;

#[derive(Debug, Clone, Copy)]
enum Event {
    /// A client makes its next request.
    Request(u32),
    /// An operation is complete.
    Done(Whose),
    /// An operation of a model is to be looked at.
    Look(Device, u32),
    /// There may be a job, or a request that has waited long enough.
    Timer(u64),
    /// An interval ends.
    Interval,
}

struct Client {
    /// Operations of its round that are not complete.
    under_way: u32,
    /// Requests of its transaction that are to come, and the fraction of one that is over.
    left: u32,
    fraction: f64,
    request_began: u64,
    transaction_began: u64,
}

/// The host.
pub(super) struct World<'s> {
    setup: &'s BlockSetup,
    clock: Clock<Event>,
    between: Box<dyn Between + 's>,
    backing: Station<Whose>,
    cache_device: Station<Whose>,
    source: Source,
    processor: Servers,
    clients: Vec<Client>,
    /// By job: operations of its round that are not complete.
    jobs: Vec<u32>,
    jobs_under_way: u32,
    /// When it is looked for a job in any case.
    timer: u64,
    /// When it is last looked for a request that has waited long enough.
    release: u64,
    round: Vec<Ask>,
    pub(super) sums: Sums,
    pub(super) series: Vec<Sums>,
    pub(super) requests: Histogram,
    pub(super) transactions: Histogram,
    over: bool,
}

impl<'s> World<'s> {
    /// A host that has just been started.
    pub(super) fn new(setup: &'s BlockSetup, between: Box<dyn Between + 's>) -> Result<Self, Refusal> {
        let clients = (0..setup.clients).map(|_| Client {
            under_way: 0,
            left: 0,
            fraction: 0.0,
            request_began: 0,
            transaction_began: 0,
        });
        Ok(Self {
            clock: Clock::new(),
            between,
            backing: Station::new("backing", &setup.backing)?,
            cache_device: Station::new("cache_device", &setup.cache_device)?
                .with_stalls(setup.cache_stalls)?,
            source: Source::new(
                &setup.load,
                setup.volume_bytes,
                setup.request_bytes,
                setup.write_share,
                setup.clients,
                setup.seed,
            )?,
            processor: Servers::new(setup.cores),
            clients: clients.collect(),
            jobs: Vec::new(),
            jobs_under_way: 0,
            timer: u64::MAX,
            release: u64::MAX,
            round: Vec::new(),
            sums: Sums::default(),
            series: vec![Sums::default()],
            requests: Histogram::default(),
            transactions: Histogram::default(),
            over: false,
            setup,
        })
    }

    /// Runs for as long as the setup says.
    pub(super) fn run(&mut self) {
        for who in 0..self.setup.clients {
            self.begin_transaction(who);
        }
        self.enter_interval();
        while !self.over {
            let event = self.clock.next().expect("an interval always ends");
            let now = self.clock.now();
            match event {
                Event::Request(who) => self.request(who, now),
                Event::Done(whose) => self.done(whose, now),
                Event::Look(device, operation) => match self.station(device).look(now, operation) {
                    Look::Again(at) => self.clock.enter(at, Event::Look(device, operation)),
                    Look::Done(whose) => self.done(whose, now),
                },
                Event::Timer(at) => {
                    if self.timer == at {
                        self.timer = u64::MAX;
                    }
                }
                Event::Interval => self.end_interval(now),
            }
            while let Some(who) = self.between.released(now, &mut self.round) {
                self.go_on_with(who, now);
            }
            if let Some(at) = self.between.released_by().filter(|at| *at != self.release) {
                self.release = at;
                self.clock.enter(at, Event::Timer(at));
            }
            self.look_for_jobs(now);
        }
    }

    /// The rules of whoever stands between.
    pub(super) fn check(&self) {
        self.between.check();
    }

    /// Why something went past the cache.
    pub(super) fn reasons(&self) -> Vec<(&'static str, u64)> {
        self.between.reasons()
    }

    /// Bytes of memory that the map takes.
    pub(super) fn memory_bytes(&self) -> u64 {
        self.between.memory_bytes()
    }

    fn station(&mut self, device: Device) -> &mut Station<Whose> {
        match device {
            Device::Backing => &mut self.backing,
            Device::Cache => &mut self.cache_device,
        }
    }

    /// A client's next transaction: the processor's work comes first.
    fn begin_transaction(&mut self, who: u32) {
        let now = self.clock.now();
        let client = &mut self.clients[who as usize];
        client.fraction += self.setup.transaction_requests;
        client.left = client.fraction as u32;
        client.fraction -= f64::from(client.left);
        client.transaction_began = now;
        let work = (self.setup.cpu_us * 1e3) as u64;
        let at = if work == 0 { now } else { self.processor.serve(now, work) };
        self.clock.enter(at, Event::Request(who));
    }

    fn request(&mut self, who: u32, now: u64) {
        let request = self.source.next(who);
        let client = &mut self.clients[who as usize];
        assert_eq!(client.under_way, 0, "invariant 1: a client has one request");
        client.request_began = now;
        self.between.begin(who, request, now, &mut self.round);
        if self.between.is_waiting(who) {
            return;
        }
        if self.round.is_empty() {
            // Memory has answered it.
            self.clients[who as usize].under_way = 1;
            self.clock.enter(now + MEMORY_NS, Event::Done(Whose::Client(who)));
            return;
        }
        self.go_on_with(who, now);
    }

    /// Enters a client's round; without one the request is answered.
    fn go_on_with(&mut self, who: u32, now: u64) {
        self.clients[who as usize].under_way = self.round.len() as u32;
        if !self.round.is_empty() {
            self.enter_round(Whose::Client(who), now);
            return;
        }
        let client = &mut self.clients[who as usize];
        self.sums.requests += 1;
        self.sums.request_ns += now - client.request_began;
        self.requests.record(Duration::from_nanos(now - client.request_began));
        client.left -= 1;
        if client.left > 0 {
            self.clock.enter(now, Event::Request(who));
            return;
        }
        self.sums.transactions += 1;
        self.sums.transaction_ns += now - client.transaction_began;
        self.transactions.record(Duration::from_nanos(now - client.transaction_began));
        self.begin_transaction(who);
    }

    fn enter_round(&mut self, whose: Whose, now: u64) {
        let mut round = std::mem::take(&mut self.round);
        for ask in round.drain(..) {
            match self.station(ask.device).enter(now, &ask, whose) {
                Entered::Done(at) => self.clock.enter(at, Event::Done(whose)),
                Entered::Look { at, operation } => self.clock.enter(at, Event::Look(ask.device, operation)),
            }
        }
        self.round = round;
    }

    fn done(&mut self, whose: Whose, now: u64) {
        let left = match whose {
            Whose::Client(who) => &mut self.clients[who as usize].under_way,
            Whose::Job(job) => &mut self.jobs[job as usize],
        };
        *left = left.checked_sub(1).expect("invariant 3: it was under way");
        if *left > 0 {
            return;
        }
        match whose {
            Whose::Client(who) => {
                self.between.go_on(who, now, &mut self.round);
                if !self.between.is_waiting(who) {
                    self.go_on_with(who, now);
                }
            }
            Whose::Job(job) => {
                self.between.job_goes_on(job, now, &mut self.round);
                self.job_goes_on(job, now);
            }
        }
    }

    /// Enters a job's round; without one it is over.
    fn job_goes_on(&mut self, job: u32, now: u64) {
        self.jobs[job as usize] = self.round.len() as u32;
        if self.round.is_empty() {
            self.jobs_under_way -= 1;
        } else {
            self.enter_round(Whose::Job(job), now);
        }
    }

    /// Workers that are idle look for jobs.
    fn look_for_jobs(&mut self, now: u64) {
        while self.jobs_under_way < self.setup.workers && self.between.may_have_job(now) {
            match self.between.next_job(now, &mut self.round) {
                Next::Job(job) => {
                    self.jobs_under_way += 1;
                    if self.jobs.len() <= job as usize {
                        self.jobs.resize(job as usize + 1, 0);
                    }
                    assert_eq!(self.jobs[job as usize], 0, "invariant 2 of the interface: one job a number");
                    self.job_goes_on(job, now);
                }
                Next::NotBefore(at) => {
                    if at < self.timer {
                        self.timer = at.max(now + 1);
                        self.clock.enter(self.timer, Event::Timer(self.timer));
                    }
                    return;
                }
            }
        }
    }

    fn enter_interval(&mut self) {
        let done = self.series.len() as f64;
        let end = (done * self.setup.interval_seconds).min(self.setup.seconds);
        self.clock.enter((end * 1e9) as u64, Event::Interval);
    }

    fn end_interval(&mut self, now: u64) {
        self.sums.at = now;
        self.sums.tally = self.between.tally();
        self.sums.backing = (self.backing.load(), self.backing.busy());
        self.sums.cache_device = (self.cache_device.load(), self.cache_device.busy());
        self.series.push(self.sums.clone());
        if now >= (self.setup.seconds * 1e9) as u64 {
            self.over = true;
        } else {
            self.enter_interval();
        }
    }
}
