//! The two ends of a connection.

use std::io::{self, IoSlice, Read, Write};
use std::net::{Shutdown, TcpStream};
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// A connected socket.
#[derive(Debug)]
pub(super) enum Socket {
    Unix(UnixStream),
    Tcp(TcpStream),
}

impl Socket {
    fn set_timeouts(&self, timeout: Option<Duration>) -> io::Result<()> {
        match self {
            Self::Unix(stream) => {
                stream.set_read_timeout(timeout).and_then(|()| stream.set_write_timeout(timeout))
            }
            Self::Tcp(stream) => {
                stream.set_read_timeout(timeout).and_then(|()| stream.set_write_timeout(timeout))
            }
        }
    }

    /// Whether others on the way could read it.
    pub(super) fn is_network(&self) -> bool {
        matches!(self, Self::Tcp(_))
    }

    /// Nothing more arrives; what has arrived is still read, and answers are still sent.
    pub(super) fn stop_reading(&self) {
        self.shutdown(Shutdown::Read);
    }

    /// Ends the connection for whoever waits at it.
    pub(super) fn hang_up(&self) {
        self.shutdown(Shutdown::Both);
    }

    fn shutdown(&self, how: Shutdown) {
        // One that is closed already is as it should be.
        let _ = match self {
            Self::Unix(stream) => stream.shutdown(how),
            Self::Tcp(stream) => stream.shutdown(how),
        };
    }
}

/// An end of a socket that another holder may use at the same time.
#[derive(Debug, Clone)]
pub(super) struct End(pub(super) Arc<Socket>);

impl Read for End {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        match &*self.0 {
            Socket::Unix(stream) => (&mut &*stream).read(buf),
            Socket::Tcp(stream) => (&mut &*stream).read(buf),
        }
    }
}

impl Write for End {
    fn write(&mut self, buf: &[u8]) -> io::Result<usize> {
        match &*self.0 {
            Socket::Unix(stream) => (&mut &*stream).write(buf),
            Socket::Tcp(stream) => (&mut &*stream).write(buf),
        }
    }

    fn write_vectored(&mut self, bufs: &[IoSlice<'_>]) -> io::Result<usize> {
        match &*self.0 {
            Socket::Unix(stream) => (&mut &*stream).write_vectored(bufs),
            Socket::Tcp(stream) => (&mut &*stream).write_vectored(bufs),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// An end with a moment after which nothing is read or written any more, however slowly bytes come.
#[derive(Debug)]
pub(super) struct UntilThen {
    end: End,
    then: Option<Instant>,
}

impl UntilThen {
    pub(super) fn new(end: End, then: Instant) -> Self {
        Self { end, then: Some(then) }
    }

    /// There is no such moment from now on.
    pub(super) fn for_ever(&mut self) -> io::Result<()> {
        self.then = None;
        self.end.0.set_timeouts(None)
    }

    fn arm(&self) -> io::Result<()> {
        let Some(then) = self.then else { return Ok(()) };
        let left = then.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Err(io::ErrorKind::TimedOut.into());
        }
        self.end.0.set_timeouts(Some(left))
    }
}

impl Read for UntilThen {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        self.arm()?;
        self.end.read(buf)
    }
}

impl Write for UntilThen {
    fn write(&mut self, buf: &[u8]) -> io::Result<usize> {
        self.arm()?;
        self.end.write(buf)
    }

    fn write_vectored(&mut self, bufs: &[IoSlice<'_>]) -> io::Result<usize> {
        self.arm()?;
        self.end.write_vectored(bufs)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.end.flush()
    }
}

/// Writes both parts whole, with one call where the system takes them.
pub(super) fn write_both(writer: &mut dyn Write, head: &[u8], tail: &[u8]) -> io::Result<()> {
    let mut done = 0;
    while done < head.len() {
        match writer.write_vectored(&[IoSlice::new(&head[done..]), IoSlice::new(tail)]) {
            Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
            Ok(more) => done += more,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    writer.write_all(&tail[done - head.len()..])?;
    writer.flush()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Takes a few bytes at a time.
    struct Narrow(Vec<u8>, usize);

    impl Write for Narrow {
        fn write(&mut self, buf: &[u8]) -> io::Result<usize> {
            let len = buf.len().min(self.1);
            self.0.extend_from_slice(&buf[..len]);
            Ok(len)
        }

        fn write_vectored(&mut self, bufs: &[IoSlice<'_>]) -> io::Result<usize> {
            let mut left = self.1;
            for buf in bufs {
                let len = buf.len().min(left);
                self.0.extend_from_slice(&buf[..len]);
                left -= len;
            }
            Ok(self.1 - left)
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn both_parts_are_written_whole_however_few_bytes_are_taken_at_once() {
        for width in 1..12 {
            let mut narrow = Narrow(Vec::new(), width);
            write_both(&mut narrow, b"head", b"tail").expect("room");
            assert_eq!(narrow.0, b"headtail", "{width}");
        }
    }

    #[test]
    fn a_slow_client_does_not_prolong_its_time() {
        let (ours, theirs) = UnixStream::pair().expect("sockets");
        let end = End(Arc::new(Socket::Unix(ours)));
        let mut patient = UntilThen::new(end, Instant::now() + Duration::from_millis(40));
        (&theirs).write_all(b"a").expect("a byte");
        assert_eq!(patient.read(&mut [0]).expect("a byte"), 1);
        let error = patient.read(&mut [0]).expect_err("nothing comes");
        assert!(matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut));
        (&theirs).write_all(b"b").expect("a byte");
        assert_eq!(patient.read(&mut [0]).expect_err("too late").kind(), io::ErrorKind::TimedOut);
        patient.for_ever().expect("a socket");
        assert_eq!(patient.read(&mut [0]).expect("the byte"), 1);
    }
}
