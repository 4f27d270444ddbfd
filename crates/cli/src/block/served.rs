//! What an attached cache is to its control socket: answers, and the end.

use std::io::BufReader;
use std::os::unix::net::{UnixListener, UnixStream};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError, RwLock, TryLockError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use mezzanine_blockdev::nbd::Server;
use mezzanine_cached::{BlockCache, CachedStatistics};
use serde::{Deserialize, Serialize};

use super::cache_device::CacheDevice;
use super::control::{Request, next_request, parse, send};
use super::ending::Ending;
use super::local::Local;
use super::metrics::{self, Metrics};
use super::page::Pages;
use super::prometheus;
use super::report::{self, CacheReport, Report, VolumeReport};
use crate::failure::Failure;
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
    pub(super) drains: AtomicBool,
    pub(super) volumes: Vec<VolumeReport>,
    pub(super) server: RwLock<Option<Server>>,
    pub(super) local: Mutex<Local>,
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

    pub(super) fn report(&self) -> (Report, Option<CachedStatistics>) {
        let statistics = self.engine.fragments().map(|(cache, _)| cache.statistics());
        let cache = self.engine.fragments().zip(statistics.as_ref());
        let cache = cache.map(|((cache, facts), statistics)| CacheReport::of(cache, facts, statistics));
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

    /// Whether the end brings everything to the volumes' own devices.
    pub(super) fn drains(&self) -> bool {
        self.drains.load(Ordering::SeqCst)
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
