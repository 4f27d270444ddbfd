//! Where a program says what it has acknowledged, for a recording.

use std::collections::HashMap;
use std::io::{BufRead as _, BufReader, Error, Read as _, Write as _};
use std::net::Shutdown;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use mezzanine_blockdev::nbd::UnixSocket;
use mezzanine_recording::Recorder;

use crate::failure::Failure;
use crate::output;

/// Longest mark in bytes.
const MARK_BYTES_MAX: u64 = 64 << 10;
/// How long nobody is let in after that has failed.
const RETRY_AFTER: Duration = Duration::from_millis(10);

/// Takes marks until it is dropped.
pub(super) struct Marks {
    shared: Arc<Shared>,
    accepts: Option<JoinHandle<()>>,
}

struct Shared {
    socket: UnixSocket,
    recorder: Arc<Recorder>,
    ends: AtomicBool,
    /// Those who are connected, to be woken at the end.
    clients: Mutex<HashMap<u64, UnixStream>>,
}

impl Marks {
    pub(super) fn listen(path: &Path, recorder: &Arc<Recorder>) -> Result<Self, Failure> {
        let socket = UnixSocket::bind(path).map_err(|error| {
            let refused = Failure::refused(path.display(), format!("cannot make a socket there: {error}"));
            refused.next("name one in a folder that exists and that this user may write to")
        })?;
        let (ends, clients) = (AtomicBool::new(false), Mutex::default());
        let shared = Arc::new(Shared { socket, recorder: Arc::clone(recorder), ends, clients });
        let accepting = Arc::clone(&shared);
        let accepts = Some(std::thread::spawn(move || accepting.accept()));
        Ok(Self { shared, accepts })
    }
}

impl Drop for Marks {
    fn drop(&mut self) {
        self.shared.ends.store(true, Ordering::SeqCst);
        // Linux wakes whoever waits there.
        let _ = rustix::net::shutdown(self.shared.socket.listener(), rustix::net::Shutdown::Both);
        if let Some(accepts) = self.accepts.take() {
            let _ = accepts.join();
        }
    }
}

impl Shared {
    fn accept(self: Arc<Self>) {
        let mut threads: Vec<JoinHandle<()>> = Vec::new();
        for number in 0.. {
            let accepted = self.socket.listener().accept();
            if self.ends.load(Ordering::SeqCst) {
                break;
            }
            threads.retain(|thread| !thread.is_finished());
            let shared = Arc::clone(&self);
            let connected = accepted.and_then(|(client, _)| {
                self.clients().insert(number, client.try_clone()?);
                Ok(client)
            });
            match connected {
                Ok(client) => threads.push(std::thread::spawn(move || {
                    shared.take(&client);
                    // The other end is told, though there is a second descriptor of it.
                    let _ = client.shutdown(Shutdown::Both);
                    shared.clients().remove(&number);
                })),
                Err(error) => {
                    output::note(&format!("somebody who wants to mark is not let in: {error}"));
                    std::thread::sleep(RETRY_AFTER);
                }
            }
        }
        for client in self.clients().values() {
            let _ = client.shutdown(Shutdown::Both);
        }
        for thread in threads {
            let _ = thread.join();
        }
    }

    fn clients(&self) -> MutexGuard<'_, HashMap<u64, UnixStream>> {
        self.clients.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn take(&self, client: &UnixStream) {
        let (mut reader, mut writer) = (BufReader::new(client), client);
        loop {
            let mut line = Vec::new();
            let read = reader.by_ref().take(MARK_BYTES_MAX).read_until(b'\n', &mut line);
            if !matches!(read, Ok(1..)) {
                return;
            }
            let whole = line.pop() == Some(b'\n');
            let marked = match std::str::from_utf8(&line) {
                Ok(text) if whole => self.recorder.mark(text),
                Ok(_) => Err(Error::other(format!("a mark is a line of less than {MARK_BYTES_MAX} bytes"))),
                Err(_) => Err(Error::other("a mark is text in UTF-8")),
            };
            if let Err(error) = &marked {
                output::note(&format!("a mark is not recorded: {error}"));
            }
            let answer = marked.map_or_else(|error| format!("{error}\n"), |()| "ok\n".to_owned());
            if writer.write_all(answer.as_bytes()).is_err() || !whole {
                return;
            }
        }
    }
}
