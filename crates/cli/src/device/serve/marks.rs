//! Where a program says what it has acknowledged, for a recording.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::Shutdown;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;

use mezzanine_blockdev::nbd::UnixSocket;
use mezzanine_recording::Recorder;

use crate::failure::Failure;
use crate::output;

/// Longest mark in bytes.
const MARK_BYTES_MAX: u64 = 64 << 10;

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
    clients: Mutex<Vec<UnixStream>>,
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
        let mut threads = Vec::new();
        while let Ok((client, _)) = self.socket.listener().accept() {
            if self.ends.load(Ordering::SeqCst) {
                break;
            }
            let Ok(other) = client.try_clone() else { continue };
            self.clients.lock().unwrap_or_else(PoisonError::into_inner).push(other);
            let shared = Arc::clone(&self);
            threads.push(std::thread::spawn(move || shared.take(&client)));
        }
        for client in self.clients.lock().unwrap_or_else(PoisonError::into_inner).drain(..) {
            let _ = client.shutdown(Shutdown::Both);
        }
        for thread in threads {
            let _ = thread.join();
        }
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
            let text = String::from_utf8_lossy(&line);
            let marked = if whole {
                self.recorder.mark(&text)
            } else {
                Err(std::io::Error::other(format!("a mark is a line of less than {MARK_BYTES_MAX} bytes")))
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
