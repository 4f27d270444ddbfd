//! What Prometheus asks for over HTTP: one text, at one path, and nothing else.

use std::io::{self, Read as _, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::time::{Duration, Instant};

use httparse::{EMPTY_HEADER, Request, Status};

use crate::failure::Failure;
use crate::output;

/// Longest request in bytes, and most headers.
const REQUEST_BYTES_MAX: usize = 8 << 10;
const HEADERS_MAX: usize = 64;
/// How long somebody may take for a request, or for taking the answer.
const PATIENCE: Duration = Duration::from_secs(10);

/// Where Prometheus connects.
pub(super) struct Metrics(TcpListener);

impl Metrics {
    /// Listens at an address.
    pub(super) fn bind(address: SocketAddr) -> Result<Self, Failure> {
        let listener = TcpListener::bind(address).and_then(|listener| {
            listener.set_nonblocking(true)?;
            output::note(&format!("metrics: http://{}/metrics", listener.local_addr()?));
            Ok(listener)
        });
        listener.map(Self).map_err(|error| {
            Failure::refused(address, format!("cannot listen there for Prometheus: {error}"))
                .next("name another address with --metrics")
        })
    }

    /// Whoever has connected, if somebody has.
    pub(super) fn accept(&self) -> Option<TcpStream> {
        self.0.accept().ok().map(|(stream, _)| stream)
    }
}

/// Answers the one request of a connection. What goes wrong here is the other side's.
pub(super) fn answer(mut stream: TcpStream, text: impl FnOnce() -> String) -> io::Result<()> {
    stream.set_nonblocking(false)?;
    stream.set_write_timeout(Some(PATIENCE))?;
    let until = Instant::now() + PATIENCE;
    let (mut bytes, mut filled) = ([0; REQUEST_BYTES_MAX], 0);
    let wanted = loop {
        let left = until.saturating_duration_since(Instant::now());
        // No time at all would be taken for no limit.
        stream.set_read_timeout(Some(left.max(Duration::from_millis(1))))?;
        let read = stream.read(&mut bytes[filled..])?;
        filled += read;
        match wanted(&bytes[..filled], filled == bytes.len()) {
            Wanted::More if read > 0 => {}
            wanted => break wanted,
        }
    };
    let (status, body) = match wanted {
        Wanted::Metrics => ("200 OK", text()),
        Wanted::Elsewhere => ("404 Not Found", "the metrics are at /metrics\n".to_owned()),
        Wanted::Method => ("405 Method Not Allowed", "ask with GET\n".to_owned()),
        Wanted::More => return Ok(()),
        Wanted::Nothing => ("400 Bad Request", "that is no request of HTTP\n".to_owned()),
    };
    let length = body.len();
    let head = format!(
        "HTTP/1.1 {status}\r\nContent-Type: text/plain; version=0.0.4; charset=utf-8\r\nContent-Length: {length}\r\n\
         Allow: GET\r\nConnection: close\r\n\r\n"
    );
    stream.write_all(head.as_bytes())?;
    stream.write_all(body.as_bytes())
}

/// What a request asks for.
#[derive(Debug, PartialEq, Eq)]
enum Wanted {
    Metrics,
    Elsewhere,
    Method,
    /// It is not whole yet.
    More,
    Nothing,
}

fn wanted(bytes: &[u8], is_full: bool) -> Wanted {
    let mut headers = [EMPTY_HEADER; HEADERS_MAX];
    let mut request = Request::new(&mut headers);
    match request.parse(bytes) {
        Ok(Status::Partial) if !is_full => Wanted::More,
        Ok(Status::Partial) | Err(_) => Wanted::Nothing,
        Ok(Status::Complete(_)) => match (request.method, request.path) {
            (Some("GET"), Some(path)) if path.split('?').next() == Some("/metrics") => Wanted::Metrics,
            (Some("GET"), _) => Wanted::Elsewhere,
            _ => Wanted::Method,
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_are_told_apart() {
        for (text, is) in [
            ("GET /metrics HTTP/1.1\r\nHost: a\r\n\r\n", Wanted::Metrics),
            ("GET /metrics?a=b HTTP/1.0\r\n\r\n", Wanted::Metrics),
            ("GET / HTTP/1.1\r\n\r\n", Wanted::Elsewhere),
            ("POST /metrics HTTP/1.1\r\n\r\n", Wanted::Method),
            ("GET /metrics HTTP/1.1\r\n", Wanted::More),
            ("", Wanted::More),
            ("\x16\x03\x01\x02", Wanted::Nothing),
        ] {
            assert_eq!(wanted(text.as_bytes(), false), is, "{text}");
        }
        let endless = format!("GET /metrics HTTP/1.1\r\nx: {}", "x".repeat(REQUEST_BYTES_MAX));
        assert_eq!(wanted(&endless.as_bytes()[..REQUEST_BYTES_MAX], true), Wanted::Nothing);
    }
}
