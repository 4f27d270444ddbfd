//! The fragment cache that ships, over hollow devices: its map, its population, its copies and its throttle
//! are real, and data have no contents.

use mezzanine_fragment::{Cache, Job, Piece, ReadKind, Source, WriteToken};

use super::between::{Ask, Between, Device, Next, Request, Tally};

/// The one volume.
const VOLUME: usize = 0;

/// How far a client's request is.
#[derive(Default)]
enum State {
    #[default]
    None,
    /// Pieces that have yet to be confirmed.
    Read(Vec<Piece>),
    Write(WriteToken),
    /// A write that begins when those of the same blocks have been answered, and their copies are written; or
    /// at this time, if nothing but copies is left.
    Waiting(Request, Option<u64>),
}

/// What a write may have to wait for.
enum Ahead {
    Nothing,
    Write,
    Copy,
}

/// A write waits no longer for copies of answered ones, in ns: the cache device may stand still.
const COPY_PATIENCE: u64 = 100_000;

/// The fragment cache between clients and devices.
pub(super) struct Sce<'c> {
    cache: &'c Cache,
    /// When it gets another size, in ns.
    resize: Option<(u64, u64)>,
    requests: Vec<State>,
    /// When a client's read began that the cache device answers alone.
    cached_since: Vec<Option<u64>>,
    /// Clients whose writes wait, in the order of their requests.
    waiting: Vec<u32>,
    jobs: Vec<Option<Job<'c>>>,
    free: Vec<u32>,
    /// There is no job before this time as long as the cache's [`Cache::work`] is this.
    not_before: (u64, u64),
}

impl<'c> Sce<'c> {
    /// For so many clients; after so many seconds of another size.
    pub(super) fn new(cache: &'c Cache, clients: u32, resize: Option<(u32, u64)>) -> Self {
        let requests = std::iter::repeat_with(State::default).take(clients as usize).collect();
        // Not a number that the cache has counted: there may be a job at once.
        let (waiting, cached_since) = (Vec::new(), vec![None; clients as usize]);
        Self {
            cache,
            resize: resize.map(|(seconds, bytes)| (u64::from(seconds) * 1_000_000_000, bytes)),
            requests,
            cached_since,
            waiting,
            jobs: Vec::new(),
            free: Vec::new(),
            not_before: (u64::MAX, u64::MAX),
        }
    }
}

impl Sce<'_> {
    fn begin_write(&mut self, who: u32, request: Request, round: &mut Vec<Ask>) {
        let token = self.cache.write_begin_hollow(VOLUME, request.offset, request.bytes);
        let token = token.expect("sources ask for what lies in the volume");
        self.requests[who as usize] = State::Write(token);
        round.push(Ask::write(Device::Backing, request.offset, request.bytes));
    }

    /// What of a request's blocks is under way.
    fn ahead_of(&self, request: Request) -> Ahead {
        let Request { offset, bytes, .. } = request;
        let inside = "sources ask for what lies in the volume";
        if !self.cache.overlaps_write(VOLUME, offset, bytes).expect(inside) {
            return Ahead::Nothing;
        }
        let unanswered = self.cache.overlaps_unanswered_write(VOLUME, offset, bytes).expect(inside);
        if unanswered { Ahead::Write } else { Ahead::Copy }
    }
}

impl Between for Sce<'_> {
    fn begin(&mut self, who: u32, request: Request, now: u64, round: &mut Vec<Ask>) {
        let Request { is_write, offset, bytes } = request;
        if is_write {
            if matches!(self.ahead_of(request), Ahead::Nothing) {
                self.begin_write(who, request, round);
            } else {
                self.requests[who as usize] = State::Waiting(request, None);
                self.waiting.push(who);
            }
            return;
        }
        let state = &mut self.requests[who as usize];
        let mut pieces = match std::mem::take(state) {
            State::Read(pieces) => pieces,
            State::None | State::Write(_) | State::Waiting(..) => Vec::new(),
        };
        let kind = self.cache.read(VOLUME, offset, bytes, &mut pieces);
        let kind = kind.expect("sources ask for what lies in the volume");
        self.cached_since[who as usize] = (kind == ReadKind::Hit).then_some(now);
        round.extend(pieces.iter().map(|piece| match piece.source {
            Source::Backing => Ask::read(Device::Backing, piece.offset, piece.bytes),
            Source::Cache(at) => Ask::read(Device::Cache, at, piece.bytes),
        }));
        *state = State::Read(pieces);
    }

    fn go_on(&mut self, who: u32, now: u64, round: &mut Vec<Ask>) {
        if let Some(since) = self.cached_since[who as usize].take() {
            self.cache.cache_read_took(now, now - since);
        }
        let state = &mut self.requests[who as usize];
        match state {
            State::Read(pieces) => {
                // What does not count comes from the backing device, which is confirmed as well.
                pieces.retain_mut(|piece| {
                    let is_gone = !self.cache.confirm(piece);
                    piece.source = Source::Backing;
                    is_gone
                });
                round.extend(pieces.iter().map(|one| Ask::read(Device::Backing, one.offset, one.bytes)));
            }
            State::Write(_) => {
                if let State::Write(token) = std::mem::take(state) {
                    self.cache.write_end(token, Ok(()));
                }
            }
            State::None | State::Waiting(..) => unreachable!("client {who} has no round"),
        }
    }

    fn is_waiting(&self, who: u32) -> bool {
        matches!(self.requests[who as usize], State::Waiting(..))
    }

    fn released(&mut self, now: u64, round: &mut Vec<Ask>) -> Option<u32> {
        for at in 0..self.waiting.len() {
            let who = self.waiting[at];
            let State::Waiting(request, until) = self.requests[who as usize] else {
                unreachable!("client {who} waits")
            };
            let until = match self.ahead_of(request) {
                Ahead::Write => None,
                Ahead::Copy => Some(until.unwrap_or(now + COPY_PATIENCE)),
                Ahead::Nothing => Some(now),
            };
            if until.is_some_and(|until| until <= now) {
                self.waiting.remove(at);
                self.begin_write(who, request, round);
                return Some(who);
            }
            self.requests[who as usize] = State::Waiting(request, until);
        }
        None
    }

    fn released_by(&self) -> Option<u64> {
        let until = |who: &u32| match self.requests[*who as usize] {
            State::Waiting(_, until) => until,
            State::None | State::Read(_) | State::Write(_) => None,
        };
        self.waiting.iter().filter_map(until).min()
    }

    fn may_have_job(&self, now: u64) -> bool {
        let resizes = self.resize.is_some_and(|(at, _)| now >= at);
        resizes || now >= self.not_before.0 || self.cache.work() != self.not_before.1
    }

    fn next_job(&mut self, now: u64, round: &mut Vec<Ask>) -> Next {
        if let Some((_, bytes)) = self.resize.take_if(|(at, _)| now >= *at) {
            self.cache.resize(bytes).expect("the setup has checked it");
        }
        let work = self.cache.work();
        let mut job = match self.cache.next_job(now) {
            mezzanine_fragment::Next::Job(job) => job,
            mezzanine_fragment::Next::NotBefore(at) => {
                // A search that has not come to its end goes on a microsecond later.
                let at = at.max(now + 1000);
                self.not_before = (at, work);
                return Next::NotBefore(at);
            }
        };
        match &mut job {
            Job::WriteBlocks(write) => {
                let writes = write.writes();
                round.extend(writes.map(|(at, data)| Ask::write(Device::Cache, at, data.len() as u64)));
            }
            Job::ReadFragment(read) => {
                let offset = read.offset();
                round.push(Ask::read(Device::Backing, offset, read.buffer().len() as u64));
            }
            Job::WriteFragment(write) => {
                round.push(Ask::write(Device::Cache, write.offset(), write.data().len() as u64));
            }
            Job::WriteMap(_) | Job::FlushCache(_) | Job::FlushBacking(_) => {
                unreachable!("it was made without a map that survives")
            }
        }
        let number = self.free.pop().unwrap_or_else(|| {
            self.jobs.push(None);
            self.jobs.len() as u32 - 1
        });
        self.jobs[number as usize] = Some(job);
        Next::Job(number)
    }

    fn job_goes_on(&mut self, job: u32, _now: u64, _round: &mut Vec<Ask>) {
        let done = self.jobs[job as usize].take().expect("invariant 2: the job is under way");
        self.free.push(job);
        self.cache.done(done, Ok(()));
    }

    fn reasons(&self) -> Vec<(&'static str, u64)> {
        let tells = |name: &str| {
            name == "fragments_shrunk"
                || name.starts_with("bypass_")
                || name.ends_with("_yielded")
                || name.starts_with("misses_")
        };
        let mut counted = self.cache.statistics().named();
        counted.retain(|&(name, count)| count > 0 && tells(name));
        counted
    }

    fn tally(&self) -> Tally {
        let counted = self.cache.statistics();
        Tally {
            reads: counted.reads_hit + counted.reads_partial + counted.reads_missed,
            reads_hit: counted.reads_hit,
            populated_bytes: counted.population_bytes_written,
            written_bytes: counted.async_bytes_written,
            index_bytes: 0,
        }
    }

    fn memory_bytes(&self) -> u64 {
        self.cache.geometry().memory().total
    }

    fn check(&self) {
        self.cache.check();
    }
}
