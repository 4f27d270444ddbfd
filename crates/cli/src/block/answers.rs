//! What an attached cache answers at its control socket.

use std::os::unix::net::UnixStream;
use std::sync::PoisonError;
use std::sync::atomic::Ordering;
use std::time::Duration;

use mezzanine_blockdev::nbd::Server;
use mezzanine_cached::BlockCache;
use mezzanine_fragment::{Admission, WriteMode};
use serde::Serialize;

use super::check::Comparison;
use super::control::{Answer, Request, Settings, send};
use super::prometheus;
use super::served::{Attachment, Engine, Flushed};
use crate::failure::{Failure, chain};

impl Attachment {
    /// The last line of the answer. `heard` says at the end whether the end waits until that is sent.
    pub(super) fn answer(&self, request: Request, stream: &mut UnixStream, heard: &mut bool) -> Answer {
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
