//! Recording: what many threads do, written down as one trace in the order in which they did it.
//!
//! 1. An event gets its time while its lane is locked. Whoever takes the lanes' events notes the time before
//!    he locks the first of them, so that no event before it can be missing from what he has taken; what is
//!    later waits for the next time.
//! 2. There is no thread of the recorder's own. Who fills a lane, or comes first when some time has passed,
//!    takes all lanes' events, sorts and writes them. So a slow disk slows down those who are recorded,
//!    memory is bounded, and no event is lost.
//! 3. An error ends the recording and nothing else. It is kept for [`Recorder::finish`].

use std::cell::Cell;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Instant, SystemTime, UNIX_EPOCH};

use mezzanine_engine::PageId;

use crate::error::{TraceError, TraceErrorKind};
use crate::format::Format;
use crate::input::Compression;
use crate::own::{Header, Naming};
use crate::request::{Op, Request};
use crate::writer::{Writer, Written};

/// Threads beyond these share lanes.
const LANES: usize = 16;

/// Events of a lane from which on they are written. All lanes together take some 4 MiB.
const LANE_EVENTS: usize = 4096;

/// After how long events are written though no lane is full: what a process that is killed may leave
/// unwritten.
const WRITE_AFTER_NS: u64 = 1_000_000_000;

/// Something that happened to a page, or a mark.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Event {
    /// What.
    pub op: Op,
    /// The page; of no meaning for a mark.
    pub page: PageId,
    /// Who caused it, if that is known.
    pub client: Option<u32>,
    /// In which transaction, if that is known.
    pub transaction: Option<u64>,
}

impl Event {
    /// An event of which nothing more is known.
    pub fn of(op: Op, page: PageId) -> Event {
        Event { op, page, client: None, transaction: None }
    }
}

#[derive(Clone, Copy)]
struct Timed {
    time_ns: u64,
    event: Event,
}

/// A lane by itself in the processor's caches.
#[derive(Default)]
#[repr(align(64))]
struct Lane(Mutex<Vec<Timed>>);

/// A trace that is being recorded. All methods may be called from any thread.
///
/// The file is in Mezzanine's format and has its name when [`finish`](Self::finish) has returned. A process
/// that ends before leaves it under the name [`Writer::unfinished`], whole but for about the last second.
pub struct Recorder {
    path: PathBuf,
    started: Instant,
    lanes: [Lane; LANES],
    /// When the events are to be written though no lane is full.
    due_ns: AtomicU64,
    /// No event is taken any more. Set while nobody can be inside of a lane that was taken for the last
    /// time.
    ended: AtomicBool,
    sink: Mutex<Sink>,
}

struct Sink {
    /// `None` once finished.
    writer: Option<Writer>,
    /// Taken from the lanes and not written yet.
    held: Vec<Timed>,
    error: Option<TraceError>,
    /// Events whose page no trace can name.
    nameless: u64,
}

/// The lane of this thread: the next one at its first event.
fn lane_number() -> usize {
    static NEXT: AtomicUsize = AtomicUsize::new(0);
    thread_local!(static MINE: Cell<Option<usize>> = const { Cell::new(None) });
    MINE.with(|mine| {
        mine.get().unwrap_or_else(|| {
            let number = NEXT.fetch_add(1, Ordering::Relaxed) % LANES;
            mine.set(Some(number));
            number
        })
    })
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Recorder {
    /// Begins a trace of pages of `page_bytes` bytes with ids of this kind.
    ///
    /// # Errors
    /// If there is a file of that name; if pages are named by numbers, or have 0 bytes; if the file cannot be
    /// created.
    pub fn create(path: &Path, page_bytes: u32, naming: Naming) -> Result<Recorder, TraceError> {
        if path.symlink_metadata().is_ok() {
            let reason = "there is a file of that name, and nothing was overwritten";
            return Err(TraceError::new(TraceErrorKind::Invalid, path, reason).advise("choose another name"));
        }
        if naming == Naming::Numbers {
            let reason = "a recording has pages with ids";
            return Err(TraceError::new(TraceErrorKind::Invalid, path, reason));
        }
        let since_1970 = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let header = Header {
            page_bytes,
            naming,
            timed: true,
            origin_unix_us: u64::try_from(since_1970.as_micros()).unwrap_or(0),
        };
        let mut writer = Writer::create(path, Format::Mezzanine, Compression::None, header)?;
        // Whoever looks before the first second is over finds a trace.
        writer.flush()?;
        let sink = Sink { writer: Some(writer), held: Vec::new(), error: None, nameless: 0 };
        Ok(Recorder {
            path: path.to_owned(),
            started: Instant::now(),
            lanes: Default::default(),
            due_ns: AtomicU64::new(WRITE_AFTER_NS),
            ended: AtomicBool::new(false),
            sink: Mutex::new(sink),
        })
    }

    /// The trace's name, when it is finished.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// What the relation of this page is called; before the first event of it.
    pub fn name(&self, page: &PageId, name: &str) {
        let mut sink = lock(&self.sink);
        if let Some(Err(error)) = sink.writer.as_mut().map(|writer| writer.name(page, name)) {
            self.fail(&mut sink, error);
        }
    }

    /// Writes down that something happened. Nothing is written down after an error or the end.
    pub fn record(&self, event: Event) {
        let mut lane = lock(&self.lanes[lane_number()].0);
        if self.ended.load(Ordering::Relaxed) {
            return;
        }
        let time_ns = self.now_ns();
        lane.push(Timed { time_ns, event });
        let is_full = lane.len() >= LANE_EVENTS;
        drop(lane);
        if is_full {
            self.write(&mut lock(&self.sink));
        } else if time_ns >= self.due_ns.load(Ordering::Relaxed) {
            // Somebody else may be at it, and sees to these as well, or the next one does.
            if let Ok(mut sink) = self.sink.try_lock() {
                self.write(&mut sink);
            }
        }
    }

    fn now_ns(&self) -> u64 {
        u64::try_from(self.started.elapsed().as_nanos()).unwrap_or(u64::MAX)
    }

    /// Writes what has happened so far.
    fn write(&self, sink: &mut Sink) {
        let now_ns = self.now_ns();
        for lane in &self.lanes {
            sink.held.append(&mut lock(&lane.0));
        }
        // Stable: the events of a lane stay in their order.
        sink.held.sort_by_key(|timed| timed.time_ns);
        let complete = sink.held.partition_point(|timed| timed.time_ns < now_ns);
        let written = sink.put(complete).and_then(|()| {
            if now_ns >= self.due_ns.load(Ordering::Relaxed) {
                self.due_ns.store(now_ns + WRITE_AFTER_NS, Ordering::Relaxed);
                return sink.writer.as_mut().map_or(Ok(()), Writer::flush);
            }
            Ok(())
        });
        if let Err(error) = written {
            self.fail(sink, error);
        }
    }

    /// Ends the recording because of an error; what is written stays under its other name.
    fn fail(&self, sink: &mut Sink, error: TraceError) {
        self.ended.store(true, Ordering::Relaxed);
        let Some(writer) = sink.writer.take() else { return };
        let kept = writer.abandon();
        let advice = format!("what was recorded until then is in {}", kept.display());
        sink.error = Some(error.advise(advice));
        sink.held = Vec::new();
    }

    /// Ends the recording: writes what is left, waits until it is on disk and gives the trace its name.
    ///
    /// # Errors
    /// The error that has ended it before, or the one that does now; `Empty` if nothing happened, and then
    /// there is no file.
    pub fn finish(&self) -> Result<Written, TraceError> {
        let mut sink = lock(&self.sink);
        self.ended.store(true, Ordering::Relaxed);
        for lane in &self.lanes {
            // Whoever locks it after this finds that the recording has ended.
            sink.held.append(&mut lock(&lane.0));
        }
        sink.held.sort_by_key(|timed| timed.time_ns);
        let all = sink.held.len();
        if let Err(error) = sink.put(all) {
            self.fail(&mut sink, error);
        }
        if let Some(error) = sink.error.take() {
            return Err(error);
        }
        let Some(writer) = sink.writer.take() else {
            return Err(TraceError::new(TraceErrorKind::Invalid, &self.path, "it was finished before"));
        };
        let nameless = sink.nameless;
        writer.finish().map(|written| Written { left_out: nameless, ..written })
    }
}

impl Sink {
    /// Writes the first `count` of what is held.
    fn put(&mut self, count: usize) -> Result<(), TraceError> {
        let Some(writer) = &mut self.writer else {
            self.held.clear();
            return Ok(());
        };
        for Timed { time_ns, event } in self.held.drain(..count) {
            let page = match event.op.is_mark() {
                true => 0,
                false => match writer.page(&event.page) {
                    Ok(page) => page,
                    Err(error) if error.kind() == TraceErrorKind::Invalid => {
                        self.nameless += 1;
                        continue;
                    }
                    Err(error) => return Err(error),
                },
            };
            writer.write(&Request {
                page,
                time_ns: Some(time_ns),
                op: event.op,
                client: event.client,
                transaction: event.transaction,
                relation: None,
            })?;
        }
        Ok(())
    }
}

impl Drop for Recorder {
    fn drop(&mut self) {
        if lock(&self.sink).writer.is_some() {
            // There is nobody to tell. An error has left what could be written.
            let _ = self.finish();
        }
    }
}
