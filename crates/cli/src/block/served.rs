//! What an attached cache is to its control socket: answers, and the end.

use std::io::BufReader;
use std::os::unix::net::{UnixListener, UnixStream};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError, RwLock, TryLockError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use mezzanine_blockdev::nbd::Server;
use mezzanine_cached::{BlockCache, CachedStatistics};
use mezzanine_fragment::{Admission, WriteMode};
use serde::{Deserialize, Serialize};

use super::cache_device::CacheDevice;
use super::check::Comparison;
use super::control::{Answer, Request, Settings, next_request, parse, send};
use super::ending::Ending;
use super::local::Local;
use super::metrics::{self, Metrics};
use super::page::Pages;
use super::prometheus;
use super::report::{self, CacheReport, Report, VolumeReport};
use crate::failure::{Failure, chain};
use crate::nbd::Counts;
use crate::output;

/// How often it is looked whether somebody has connected.
const LOOK_EVERY: Duration = Duration::from_millis(20);
/// Conversations at a time; more are closed at once.
const CONVERSATIONS_MAX: usize = 16;
/// How long somebody may take for a request, or for taking an answer.
const PATIENCE: Duration = Duration::from_secs(30);

/// What is served, for as long as it is.
pub(super) struct Attachment {
    pub(super) engine: Engine,
    /// At the end the volumes' own devices are to have everything.
    drains: AtomicBool,
    pub(super) volumes: Vec<VolumeReport>,
    pub(super) server: RwLock<Option<Server>>,
    local: Mutex<Local>,
    /// The cache device, until the end has it.
    pub(super) device: Mutex<Option<CacheDevice>>,
    /// Held by who resizes the cache.
    pub(super) resizing: Mutex<()>,
    pub(super) counts: Arc<Counts>,
    pub(super) begun: Instant,
    pub(super) ending: Ending,
    conversations: AtomicUsize,
}

/// What stands between clients and the volumes' own devices.
pub(super) enum Engine {
    Nothing,
    Fragments(BlockCache, CacheFacts),
    Pages(Pages),
}

impl Engine {
    pub(super) fn fragments(&self) -> Option<(&BlockCache, &CacheFacts)> {
        match self {
            Self::Fragments(cache, facts) => Some((cache, facts)),
            Self::Nothing | Self::Pages(_) => None,
        }
    }

    pub(super) fn pages(&self) -> Option<&Pages> {
        match self {
            Self::Pages(pages) => Some(pages),
            Self::Nothing | Self::Fragments(..) => None,
        }
    }
}

/// What does not change of the cache.
pub(super) struct CacheFacts {
    pub(super) path: String,
    pub(super) cache_id: String,
    pub(super) epoch: u64,
    /// With what it began.
    pub(super) begins: String,
    /// Why nothing vouches for its map, if that was so at the start.
    pub(super) unvouched: Option<String>,
}

/// What the end has come to.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct Detached {
    /// Blocks whose copies did not get to the cache device in time; the volumes' own devices have them.
    pub(super) copies_left: u64,
    /// Writes and discards that waited for the cache device until the time was over: they failed, and were
    /// not written.
    pub(super) writes_failed: u64,
    /// All of the cache was recorded, and the volumes are noted as detached.
    pub(super) is_whole: bool,
    /// The cache goes on when it is attached again, with all or with most; otherwise it begins empty.
    pub(super) goes_on: bool,
    pub(super) seconds: f64,
    /// Of the page engine; null with any other.
    #[serde(default)]
    pub(super) pages: Option<PagesDetached>,
}

/// What the end of a page engine has come to.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct PagesDetached {
    /// Pages that were written to the volumes' own devices at the end.
    pub(super) pages_written: u64,
    /// Pages that the cache device alone has.
    pub(super) pages_left: u64,
    /// The volumes' own devices have everything.
    pub(super) volumes_are_current: bool,
}

impl PagesDetached {
    pub(super) fn text(&self) -> String {
        let Self { pages_written, pages_left, volumes_are_current } = self;
        if *volumes_are_current {
            format!("{pages_written} pages were written to the volumes' own devices, which have everything")
        } else {
            format!(
                "{pages_written} pages were written to the volumes' own devices, and {pages_left} are on the cache device \
                 alone: the volumes need it"
            )
        }
    }
}

/// What a flush has come to.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct Flushed {
    /// As in [`Detached`].
    pub(super) copies_left: u64,
}

impl Attachment {
    pub(super) fn new(
        engine: Engine,
        device: Option<CacheDevice>,
        volumes: Vec<VolumeReport>,
        (server, local): (Server, Local),
        counts: Arc<Counts>,
    ) -> Arc<Self> {
        Arc::new(Self {
            engine,
            drains: AtomicBool::new(false),
            volumes,
            server: RwLock::new(Some(server)),
            local: Mutex::new(local),
            device: Mutex::new(device),
            resizing: Mutex::default(),
            counts,
            begun: Instant::now(),
            ending: Ending::default(),
            conversations: AtomicUsize::new(0),
        })
    }

    /// Answers whoever connects to these listeners, which do not block, until the end is over.
    ///
    /// # Errors
    /// If the system has no thread for it.
    pub(super) fn listen(
        self: &Arc<Self>,
        control: UnixListener,
        metrics: Option<Metrics>,
    ) -> Result<JoinHandle<()>, Failure> {
        let attachment = Arc::clone(self);
        let thread = thread::Builder::new().name("control-accept".to_owned());
        let thread = thread.spawn(move || {
            while !attachment.ending.is_over() {
                while let Ok((stream, _)) = control.accept() {
                    attachment.begin("control", move |attachment| attachment.converse(stream));
                }
                while let Some(stream) = metrics.as_ref().and_then(Metrics::accept) {
                    attachment.begin("metrics", move |attachment| {
                        let _ = metrics::answer(stream, || {
                            let (report, statistics) = attachment.report();
                            prometheus::text(&report, statistics.as_ref())
                        });
                    });
                }
                thread::sleep(LOOK_EVERY);
            }
        });
        thread.map_err(|error| {
            Failure::refused("control socket", error).next("raise the limit of threads of this user")
        })
    }

    /// Begins a conversation, unless there are too many.
    fn begin(self: &Arc<Self>, name: &str, converse: impl FnOnce(&Self) + Send + 'static) {
        if self.conversations.fetch_add(1, Ordering::SeqCst) >= CONVERSATIONS_MAX {
            self.conversations.fetch_sub(1, Ordering::SeqCst);
            return;
        }
        let attachment = Arc::clone(self);
        let thread = thread::Builder::new().name(name.to_owned()).spawn(move || {
            converse(&attachment);
            attachment.conversations.fetch_sub(1, Ordering::SeqCst);
        });
        if let Err(error) = thread {
            self.conversations.fetch_sub(1, Ordering::SeqCst);
            output::note(&format!("a request to the control socket was not answered: {error}"));
        }
    }

    fn converse(&self, mut stream: UnixStream) {
        // Whatever goes wrong here is the other side's, and ends the conversation alone.
        let prepared = stream
            .set_nonblocking(false)
            .and_then(|()| stream.set_read_timeout(Some(PATIENCE)))
            .and_then(|()| stream.set_write_timeout(Some(PATIENCE)))
            .and_then(|()| stream.try_clone());
        let Ok(reader) = prepared else { return };
        let mut reader = BufReader::new(reader);
        while let Ok(Some(line)) = next_request(&mut reader) {
            let mut heard = false;
            let answer = match parse(&line) {
                Ok(request) => {
                    heard = matches!(request, Request::Detach { .. });
                    self.answer(request, &mut stream, &mut heard)
                }
                Err(failure) => failure.into(),
            };
            let sent = send(&mut stream, &answer);
            if heard {
                self.ending.has_heard();
            }
            if sent.is_err() {
                return;
            }
        }
    }

    /// The last line of the answer. `heard` says at the end whether the end waits until that is sent.
    fn answer(&self, request: Request, stream: &mut UnixStream, heard: &mut bool) -> Answer {
        let mut progress = |what: &str, done: u64, total: u64| {
            let _ = send(stream, &Answer::Progress { what: what.to_owned(), done, total });
        };
        let done = match request {
            Request::Status => done(&self.report().0),
            Request::Metrics => {
                let (report, statistics) = self.report();
                done(&prometheus::text(&report, statistics.as_ref()))
            }
            Request::Flush { within_seconds } => self.flush(within_seconds, &mut progress),
            Request::Set(settings) => self.set(&settings),
            Request::Resize { bytes, within_seconds } => self.resize(bytes, within_seconds, &mut progress),
            Request::Compare => self.compare(&mut progress),
            Request::Detach { within_seconds, disconnect, keep } => {
                match self.may_end(within_seconds, disconnect) {
                    Ok(within) => {
                        // Whoever has asked first is heard first.
                        if !self.ending.is_wanted() {
                            self.drains.store(!keep, Ordering::SeqCst);
                        }
                        return self.ending.wait(within, progress);
                    }
                    Err(failure) => {
                        *heard = false;
                        Err(failure)
                    }
                }
            }
        };
        done.unwrap_or_else(Answer::from)
    }

    pub(super) fn report(&self) -> (Report, Option<CachedStatistics>) {
        let statistics = self.engine.fragments().map(|(cache, _)| cache.statistics());
        let cache = self.engine.fragments().zip(statistics.as_ref()).map(|((cache, facts), statistics)| {
            let (geometry, slots) = (cache.engine().geometry(), cache.engine().slots_limit());
            let config = geometry.config();
            let (survives, why) = report::survives(&statistics.survival, facts.unvouched.as_ref());
            let changes = statistics.engine.writes + statistics.engine.discards;
            let waited = statistics.volumes.iter().map(|volume| volume.writes_waited).sum::<u64>();
            CacheReport {
                path: facts.path.clone(),
                cache_id: facts.cache_id.clone(),
                epoch: facts.epoch,
                cache_bytes: match geometry.slots() == slots {
                    true => config.cache_bytes,
                    false => geometry.end_of(slots),
                },
                cache_bytes_max: config.cache_bytes,
                fragment_bytes: config.fragment_bytes,
                memory_bytes: geometry.region_bytes() as u64,
                health: statistics.health.name().to_owned(),
                begins: facts.begins.clone(),
                survives,
                survives_no_crash: why,
                writes_waiting: statistics.writes_waiting,
                writes_waited_ratio: (changes > 0).then(|| waited as f64 / changes as f64),
                write_mode: cache.write_mode().name().to_owned(),
                write_budget: cache.engine().write_budget(),
                write_budget_left: cache.engine().write_budget_left(),
                yield_us: cache.engine().yield_us(),
                admit_reads: cache.engine().admission().reads,
                admit_writes: cache.engine().admission().writes,
                population_workers: cache.population_workers(),
                population_bytes_per_second: cache.population_rate(),
                population_stage: statistics.stage + 1,
                populations_queued: statistics.candidates,
                hit_ratio: statistics.engine.hit_ratio(),
                cache_bytes_written: statistics.engine.cache_bytes_written(),
                counters: report::counters(statistics),
                latencies: report::latencies(statistics),
                cache_failures: statistics.failures.iter().map(Into::into).collect(),
                sizing: cache.sizing_table(),
            }
        });
        let report = Report {
            process: std::process::id(),
            seconds: self.begun.elapsed().as_secs_f64(),
            cache,
            page: self.engine.pages().map(Pages::report),
            volumes: self
                .volumes
                .iter()
                .map(|volume| self.with_counters(volume, statistics.as_ref()))
                .collect(),
            clients: self.clients(),
            clients_seen: self.counts.clients.load(Ordering::Relaxed),
            failed_requests: self.counts.failed.load(Ordering::Relaxed),
        };
        (report, statistics)
    }

    fn with_counters(&self, volume: &VolumeReport, statistics: Option<&CachedStatistics>) -> VolumeReport {
        let of = statistics.and_then(|statistics| statistics.volumes.get(volume.number));
        VolumeReport { counters: of.map(report::of_volume).unwrap_or_default(), ..volume.clone() }
    }

    fn clients(&self) -> u64 {
        let server = self.server.read().unwrap_or_else(PoisonError::into_inner);
        server.as_ref().map_or(0, Server::connections) as u64
    }

    pub(super) fn cached(&self) -> Result<&BlockCache, Failure> {
        match &self.engine {
            Engine::Fragments(cache, _) => Ok(cache),
            Engine::Nothing => Err(Failure::refused("the volumes", "they are served without a cache")
                .next("attach them with their cache first")),
            Engine::Pages(_) => Err(Failure::refused("the cache", "the page engine has nothing of the kind")
                .next(
                    "`mezz tier verify` checks its pages, when it is not attached; --mode is what can be set",
                )),
        }
    }

    /// Whether the end brings everything to the volumes' own devices.
    pub(super) fn drains(&self) -> bool {
        self.drains.load(Ordering::SeqCst)
    }

    fn flush(
        &self,
        within_seconds: f64,
        progress: &mut impl FnMut(&str, u64, u64),
    ) -> Result<Answer, Failure> {
        let within = seconds(within_seconds)?;
        if let Some(pages) = self.engine.pages() {
            pages.flush()?;
            return done(&Flushed { copies_left: 0 });
        }
        let cache = self.cached()?;
        cache.flush().map_err(|error| Failure::refused("flush", chain(&error)))?;
        let drained = cache.drain(within, |left| {
            progress("blocks to be copied", 0, left);
            true
        });
        done(&Flushed { copies_left: drained.copies_left })
    }

    fn set(&self, settings: &Settings) -> Result<Answer, Failure> {
        if let (Some(pages), Some(mode)) = (self.engine.pages(), &settings.mode) {
            if *settings != (Settings { mode: Some(mode.clone()), ..Settings::default() }) {
                return Err(Failure::usage("set", "the page engine has a mode, and no population or budget")
                    .next("give --mode alone"));
            }
            let mode = super::create::mode(mode).map_err(|error| Failure::refused("mode", error))?;
            pages.set_mode(mode)?;
            return done(&self.report().0);
        }
        let cache = self.cached()?;
        if settings.mode.is_some() {
            return Err(Failure::refused("mode", "the fragment engine always writes through")
                .next("give --write-mode, which says what becomes of copies in the cache"));
        }
        // All of it or nothing: what may be refused comes first.
        let mode = settings.write_mode.as_deref().map(str::parse::<WriteMode>).transpose();
        let mode = mode.map_err(|error| Failure::refused("write mode", error))?;
        if let Some(bytes) = settings.write_budget {
            cache
                .engine()
                .set_write_budget(bytes)
                .map_err(|error| Failure::refused("write budget", error))?;
        }
        if let Some(mode) = mode {
            cache.set_write_mode(mode);
        }
        if let Some(workers) = settings.population_workers {
            cache.set_population_workers(workers);
        }
        if let Some(rate) = settings.population_bytes_per_second {
            cache.set_population_rate(rate);
        }
        if let Some(microseconds) = settings.yield_us {
            cache.engine().set_yield_us(microseconds);
        }
        let Admission { reads, writes } = cache.engine().admission();
        cache.engine().set_admission(Admission {
            reads: settings.admit_reads.unwrap_or(reads),
            writes: settings.admit_writes.unwrap_or(writes),
        });
        done(&self.report().0)
    }

    fn compare(&self, progress: &mut impl FnMut(&str, u64, u64)) -> Result<Answer, Failure> {
        let cache = self.cached()?;
        let compared = cache.compare(|at, total| progress("bytes compared", at, total));
        let compared = compared.map_err(|error| Failure::refused("comparison", chain(&error)))?;
        done(&Comparison::of(&compared, &self.volumes))
    }

    fn may_end(&self, within_seconds: f64, disconnect: bool) -> Result<Duration, Failure> {
        let within = seconds(within_seconds)?;
        // Whoever ends it by looking first would disconnect who comes in between.
        if !disconnect {
            let server = self.server.read().unwrap_or_else(PoisonError::into_inner);
            let clients = server.as_ref().map_or(0, Server::close_if_idle);
            if clients > 0 {
                return Err(Failure::refused("detach", format!("{clients} clients are connected"))
                    .next("disconnect them first (nbd-client -d, umount), or give --disconnect"));
            }
        }
        let mut local = self.local.lock().unwrap_or_else(PoisonError::into_inner);
        if let Err(failure) = if disconnect { Ok(()) } else { local.end_unused() } {
            if let Some(server) = &*self.server.read().unwrap_or_else(PoisonError::into_inner) {
                server.let_in_again();
            }
            return Err(failure);
        }
        Ok(within)
    }

    /// The cache device, for the end; nobody resizes the cache any more. None if somebody is in a write of
    /// its superblock that the device does not give back in time.
    pub(super) fn take_device(&self) -> Option<CacheDevice> {
        loop {
            match self.device.try_lock() {
                Ok(mut device) => return device.take(),
                Err(TryLockError::Poisoned(poisoned)) => return poisoned.into_inner().take(),
                Err(TryLockError::WouldBlock) if self.ending.left().is_zero() => return None,
                Err(TryLockError::WouldBlock) => thread::sleep(LOOK_EVERY),
            }
        }
    }

    /// What this machine sees of the volumes, to be ended.
    pub(super) fn take_local(&self) -> Local {
        std::mem::take(&mut *self.local.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

pub(super) fn done(result: &impl Serialize) -> Result<Answer, Failure> {
    let result = serde_json::to_value(result);
    let result = result
        .map_err(|error| Failure::refused("control socket", format!("no answer can be made: {error}")))?;
    Ok(Answer::Done { result })
}

/// A time that a request gives.
pub(super) fn seconds(seconds: f64) -> Result<Duration, Failure> {
    Duration::try_from_secs_f64(seconds)
        .ok()
        .filter(|time| *time <= Duration::from_secs(86_400))
        .ok_or_else(|| Failure::refused("within", format!("{seconds} s are no time from 0 s to a day")))
}
