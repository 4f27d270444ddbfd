//! The control socket: one request a line, and one or several answers a line each, in JSON. Whoever may
//! connect to it may do everything; it is for the user alone who has made it.

use std::io::{self, BufRead as _, BufReader, Read as _, Write as _};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::Duration;

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use crate::failure::Failure;

/// Of requests and answers. A server answers requests of its own version alone, and says so to others.
pub(super) const VERSION: u32 = 1;
/// How long the client waits for an answer that needs no device.
const PATIENCE: Duration = Duration::from_secs(10);
/// The same, where devices are flushed or read.
const FLUSH_PATIENCE: Duration = Duration::from_secs(120);
/// Longest request in bytes.
pub(super) const REQUEST_BYTES_MAX: u64 = 64 << 10;

/// What is asked of an attached cache.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "request", rename_all = "kebab-case")]
pub(super) enum Request {
    /// What it does and has done.
    Status,
    /// The same as text for Prometheus.
    Metrics,
    /// Flush the volumes' own devices, and have the cache device catch up.
    Flush { within_seconds: f64 },
    /// Change settings; what is not given stays.
    Set(Settings),
    /// Use so many bytes of the cache device.
    Resize { bytes: u64, within_seconds: f64 },
    /// Compare what is in the cache with the volumes' own devices.
    Compare,
    /// End. With clients that are connected only if they are to be disconnected.
    Detach {
        within_seconds: f64,
        disconnect: bool,
        /// What the cache device alone has stays there (page engine).
        #[serde(default)]
        keep: bool,
    },
}

/// Settings that can be changed; what is not given stays.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub(super) struct Settings {
    pub(super) population_workers: Option<u32>,
    /// 0: no limit.
    pub(super) population_bytes_per_second: Option<u64>,
    pub(super) write_mode: Option<String>,
    /// In bytes a day; 0: no limit.
    pub(super) write_budget: Option<u64>,
    /// In microseconds; 0: nothing yields.
    pub(super) yield_us: Option<u64>,
    pub(super) admit_reads: Option<u32>,
    pub(super) admit_writes: Option<u32>,
    /// Of the page engine: through or durable.
    pub(super) mode: Option<String>,
}

/// A request with its version.
#[derive(Debug, Serialize, Deserialize)]
struct Versioned {
    version: u32,
    #[serde(flatten)]
    request: Request,
}

/// One line of an answer.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "answer", rename_all = "kebab-case")]
pub(super) enum Answer {
    /// Not done yet: so much of so much.
    Progress { what: String, done: u64, total: u64 },
    /// Done; the last line.
    Done { result: serde_json::Value },
    /// Refused, or failed; the last line.
    Failed { thing: String, reason: String, next: Option<String> },
}

/// Reads a request from a line; a failure is the answer.
pub(super) fn parse(line: &str) -> Result<Request, Failure> {
    let refused = |reason: String| Failure::refused("control socket", reason);
    let value: serde_json::Value =
        serde_json::from_str(line).map_err(|error| refused(format!("the request is no JSON: {error}")))?;
    let version = value.get("version").and_then(serde_json::Value::as_u64);
    if version != Some(VERSION.into()) {
        let version = version.map_or("none".to_owned(), |version| version.to_string());
        return Err(refused(format!(
            "requests of version {VERSION} are answered; this one has version {version}"
        ))
        .next("use the mezz that has attached the cache"));
    }
    let versioned: Versioned = serde_json::from_value(value)
        .map_err(|error| refused(format!("the request is not understood: {error}")))?;
    Ok(versioned.request)
}

/// The next request of a connection; none at its end.
pub(super) fn next_request(reader: &mut BufReader<UnixStream>) -> io::Result<Option<String>> {
    let mut line = String::new();
    let read = reader.by_ref().take(REQUEST_BYTES_MAX).read_line(&mut line)?;
    if read as u64 == REQUEST_BYTES_MAX && !line.ends_with('\n') {
        return Err(io::Error::other("the request is too long"));
    }
    Ok((read > 0).then_some(line))
}

/// Sends one line.
pub(super) fn send(stream: &mut UnixStream, line: &impl Serialize) -> io::Result<()> {
    let mut text = serde_json::to_string(line)?;
    text.push('\n');
    stream.write_all(text.as_bytes())
}

impl From<Failure> for Answer {
    fn from(failure: Failure) -> Self {
        let (thing, reason, next) = failure.parts();
        Self::Failed { thing, reason, next }
    }
}

impl Request {
    /// How long the next line of an answer may take.
    fn patience(&self) -> Duration {
        match self {
            Self::Status | Self::Metrics => PATIENCE,
            // Another mode has pages written to disk first.
            Self::Set(settings) if settings.mode.is_some() => FLUSH_PATIENCE,
            Self::Set(_) => PATIENCE,
            // A device's flush says nothing before it is done, and one may be under way already.
            Self::Flush { within_seconds }
            | Self::Resize { within_seconds, .. }
            | Self::Detach { within_seconds, .. } => {
                FLUSH_PATIENCE + Duration::try_from_secs_f64(*within_seconds).unwrap_or_default()
            }
            Self::Compare => FLUSH_PATIENCE,
        }
    }
}

/// Asks an attached cache, and waits for the last line of its answer, unless nothing is heard for long.
pub(super) fn ask<T: DeserializeOwned>(
    socket: &Path,
    request: Request,
    mut progress: impl FnMut(&str, u64, u64),
) -> Result<T, Failure> {
    let gone = |error: io::Error| {
        if matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut) {
            let reason = "the process that has attached the cache has not answered in time";
            return Failure::refused(socket.display(), reason)
                .next("a device may hang: look at its kernel messages, or end the process with SIGTERM");
        }
        Failure::refused(socket.display(), format!("the cache does not answer: {error}"))
            .next("it may have ended meanwhile; `mezz block list` shows those that are attached")
    };
    let mut stream = UnixStream::connect(socket).map_err(gone)?;
    stream.set_write_timeout(Some(PATIENCE)).map_err(gone)?;
    // Each line, not all of the answer: who takes long says how far it is.
    stream.set_read_timeout(Some(request.patience())).map_err(gone)?;
    send(&mut stream, &Versioned { version: VERSION, request }).map_err(gone)?;
    for line in BufReader::new(stream).lines() {
        let answer = serde_json::from_str(&line.map_err(gone)?).map_err(|error| gone(error.into()))?;
        match answer {
            Answer::Progress { what, done, total } => progress(&what, done, total),
            Answer::Done { result } => {
                return serde_json::from_value(result).map_err(|error| gone(error.into()));
            }
            Answer::Failed { thing, reason, next } => {
                let failure = Failure::refused(thing, reason);
                return Err(match next {
                    Some(next) => failure.next(next),
                    None => failure,
                });
            }
        }
    }
    Err(gone(io::ErrorKind::UnexpectedEof.into()))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn requests_are_read_as_they_are_written() {
        for request in [
            Request::Status,
            Request::Flush { within_seconds: 1.5 },
            Request::Resize { bytes: 1 << 40, within_seconds: 0.5 },
            Request::Set(Settings {
                population_workers: Some(0),
                write_mode: Some("around".to_owned()),
                write_budget: Some(1 << 40),
                ..Settings::default()
            }),
            Request::Detach { within_seconds: 30.0, disconnect: true, keep: true },
        ] {
            let line = serde_json::to_string(&Versioned { version: VERSION, request: request.clone() });
            assert_eq!(parse(&line.unwrap()).ok(), Some(request));
        }
        assert_eq!(parse(r#"{"version":1,"request":"status"}"#).ok(), Some(Request::Status));
    }

    #[test]
    fn what_is_no_request_is_refused_with_its_reason() {
        for (line, part) in [
            ("", "no JSON"),
            ("{}", "version none"),
            (r#"{"version":2,"request":"status"}"#, "version 2"),
            (r#"{"version":1,"request":"explode"}"#, "explode"),
            (r#"{"version":1,"request":"flush"}"#, "within_seconds"),
        ] {
            let said = parse(line).unwrap_err().to_string();
            assert!(said.contains(part), "{line}: {said}");
        }
    }
}
