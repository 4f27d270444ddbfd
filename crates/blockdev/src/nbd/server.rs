//! The server: listeners, connections, and the end of both.

use std::collections::BTreeMap;
use std::fmt;
use std::io::{self, Read, Write};
use std::net::SocketAddr;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use mezzanine_device::DeviceError;

use super::connection::{Connection, Terms};
use super::export::{Export, Limits, Offer};
use super::haggle::{Ended, Haggled, Violation, greet, haggle};
use super::listener::Listener;
use super::negotiation::{Agreed, Negotiation, Tls};
use super::stream::{End, Socket, UntilThen};
use super::tls::Encryption;

/// What people may want to hear of. Connections are numbered from 1.
#[derive(Debug)]
pub enum Event<'e> {
    /// A client has agreed on an export.
    Began {
        /// The connection.
        connection: u64,
        /// Where the client is, or the path of the socket that it came by.
        peer: &'e str,
        /// The name of the export.
        export: &'e str,
    },
    /// A connection has ended, before or after it had begun.
    Ended {
        /// The connection.
        connection: u64,
        /// How.
        how: &'e Ended,
    },
    /// A client was turned away, because there are as many as may be.
    Full {
        /// Where it is.
        peer: &'e str,
    },
    /// The device has failed a request; the client has been told.
    Failed {
        /// The connection.
        connection: u64,
        /// The device's own words.
        error: &'e DeviceError,
    },
    /// A client could not be received.
    AcceptFailed {
        /// Why.
        error: &'e io::Error,
    },
}

impl fmt::Display for Event<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Began { connection, peer, export: "" } => write!(f, "client {connection} at {peer}"),
            Self::Began { connection, peer, export } => {
                write!(f, "client {connection} at {peer}, export {export:?}")
            }
            Self::Ended { connection, how } => write!(f, "client {connection}: {how}"),
            Self::Full { peer } => write!(f, "a client at {peer} was turned away: there are too many"),
            Self::Failed { connection, error } => write!(f, "client {connection}: {error}"),
            Self::AcceptFailed { error } => write!(f, "a client could not be received: {error}"),
        }
    }
}

/// Serves exports to whoever connects, until it is shut down or dropped.
pub struct Server {
    shared: Arc<Shared>,
    listeners: Vec<(Arc<Listener>, JoinHandle<()>)>,
}

struct Shared {
    exports: Vec<Export>,
    limits: Limits,
    encryption: Option<Encryption>,
    on_event: Box<dyn Fn(&Event<'_>) + Send + Sync>,
    closing: AtomicBool,
    connections: Mutex<Connections>,
    one_ended: Condvar,
}

#[derive(Default)]
struct Connections {
    /// How many there have been.
    begun: u64,
    /// Nobody is let in.
    is_closed: bool,
    open: BTreeMap<u64, Arc<Socket>>,
}

impl Server {
    /// A server of these exports, which nobody can reach yet. With `encryption` clients that come by TCP have
    /// to begin it before they get anything; those at Unix sockets do without. `on_event` is called by the
    /// threads of connections, and holds them up.
    pub fn new(
        exports: Vec<Export>,
        limits: Limits,
        encryption: Option<Encryption>,
        on_event: impl Fn(&Event<'_>) + Send + Sync + 'static,
    ) -> Self {
        let shared = Shared {
            exports,
            limits,
            encryption,
            on_event: Box::new(on_event),
            closing: AtomicBool::new(false),
            connections: Mutex::default(),
            one_ended: Condvar::new(),
        };
        Self { shared: Arc::new(shared), listeners: Vec::new() }
    }

    /// Lets clients in at a Unix socket, which only this user may connect to.
    ///
    /// # Errors
    /// If something is at the path that is not the socket of a dead server, or the socket cannot be made.
    pub fn listen_unix(&mut self, path: &Path) -> io::Result<()> {
        self.listen(Listener::unix(path)?).map(|_| ())
    }

    /// Lets clients in at a TCP address. Without encryption anybody who reaches it may read and write, and so
    /// may those in between. Returns the address with the port that the system chose if none was given.
    ///
    /// # Errors
    /// If the address cannot be had.
    pub fn listen_tcp(&mut self, address: SocketAddr) -> io::Result<SocketAddr> {
        let listener = self.listen(Listener::tcp(address)?)?;
        Ok(listener.address().unwrap_or(address))
    }

    fn listen(&mut self, listener: Listener) -> io::Result<Arc<Listener>> {
        let listener = Arc::new(listener);
        let (shared, accepting) = (Arc::clone(&self.shared), Arc::clone(&listener));
        let thread = thread::Builder::new().name("nbd-accept".to_owned());
        let thread = thread.spawn(move || shared.accept(&accepting))?;
        self.listeners.push((Arc::clone(&listener), thread));
        Ok(listener)
    }

    /// Ends every connection that there is, whatever is under way; new ones are let in as before.
    pub fn disconnect_all(&self) {
        self.shared.connections().open.values().for_each(|socket| socket.hang_up());
    }

    /// How many clients are connected.
    pub fn connections(&self) -> usize {
        self.shared.connections().open.len()
    }

    /// Lets nobody in any more if nobody is connected; returns how many are. Clients that come later are
    /// turned away, until [`Server::let_in_again`].
    pub fn close_if_idle(&self) -> usize {
        let mut connections = self.shared.connections();
        connections.is_closed |= connections.open.is_empty();
        connections.open.len()
    }

    /// Takes [`Server::close_if_idle`] back.
    pub fn let_in_again(&self) {
        self.shared.connections().is_closed = false;
    }

    /// Lets nobody in any more, finishes what is under way, ends all connections and flushes the devices.
    ///
    /// # Errors
    /// Those of the flushes, one for each export that failed.
    pub fn shutdown(mut self) -> Result<(), Vec<DeviceError>> {
        self.stop();
        let written = self.shared.exports.iter().filter(|export| !export.read_only);
        let errors: Vec<_> = written.filter_map(|export| export.device.flush().err()).collect();
        if errors.is_empty() { Ok(()) } else { Err(errors) }
    }

    fn stop(&mut self) {
        let shared = &self.shared;
        shared.closing.store(true, Ordering::SeqCst);
        self.listeners.iter().for_each(|(listener, _)| listener.stop());
        for (listener, thread) in self.listeners.drain(..) {
            drop(listener);
            // A panic there was reported when it happened.
            let _ = thread.join();
        }
        shared.connections().open.values().for_each(|socket| socket.stop_reading());
        if !shared.wait_for_the_last() {
            // They do not take their replies, or a device does not come back.
            shared.connections().open.values().for_each(|socket| socket.hang_up());
            shared.wait_for_the_last();
        }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.stop();
    }
}

impl Shared {
    fn connections(&self) -> MutexGuard<'_, Connections> {
        self.connections.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits until no connection is left, but not for ever; returns whether none is.
    fn wait_for_the_last(&self) -> bool {
        let connections = self.connections();
        let waited = self.one_ended.wait_timeout_while(connections, self.limits.shutdown, |connections| {
            !connections.open.is_empty()
        });
        waited.unwrap_or_else(PoisonError::into_inner).0.open.is_empty()
    }

    fn accept(self: &Arc<Self>, listener: &Listener) {
        loop {
            match listener.accept() {
                _ if self.closing.load(Ordering::SeqCst) => return,
                Ok((socket, peer)) => self.begin(socket, peer),
                Err(error) => {
                    (self.on_event)(&Event::AcceptFailed { error: &error });
                    // Usually there are no descriptors left; some connection may end.
                    thread::sleep(Duration::from_millis(100));
                }
            }
        }
    }

    fn begin(self: &Arc<Self>, socket: Socket, peer: String) {
        let socket = Arc::new(socket);
        let mut connections = self.connections();
        if connections.is_closed {
            return;
        }
        if connections.open.len() >= self.limits.connections {
            drop(connections);
            (self.on_event)(&Event::Full { peer: &peer });
            return;
        }
        connections.begun += 1;
        let number = connections.begun;
        connections.open.insert(number, Arc::clone(&socket));
        drop(connections);
        let open = Open { shared: Arc::clone(self), number };
        let thread = thread::Builder::new().name("nbd".to_owned());
        let thread = thread.spawn(move || open.serve(socket, &peer));
        if let Err(error) = thread {
            (self.on_event)(&Event::AcceptFailed { error: &error });
        }
    }
}

/// A connection that counts until it is dropped.
struct Open {
    shared: Arc<Shared>,
    number: u64,
}

impl Open {
    fn serve(&self, socket: Arc<Socket>, peer: &str) {
        let end = End(Arc::clone(&socket));
        let ended = self.try_serve(end, peer);
        // Before the event: whoever hears of the end finds it so.
        socket.hang_up();
        let ended = match ended {
            Ended::Failed(_) | Ended::Closed if self.shared.closing.load(Ordering::SeqCst) => Ended::Stopped,
            ended => ended,
        };
        (self.shared.on_event)(&Event::Ended { connection: self.number, how: &ended });
    }

    fn try_serve(&self, end: End, peer: &str) -> Ended {
        let Self { shared, number: connection } = self;
        let offers: Vec<_> = shared.exports.iter().map(|export| export.offer(&shared.limits)).collect();
        let then = Instant::now() + shared.limits.haggling;
        let encryption = shared.encryption.as_ref().filter(|_| end.0.is_network());
        let ends = (UntilThen::new(end.clone(), then), UntilThen::new(end.clone(), then));
        let (agreed, reader, writer) = match meet(ends, &offers, encryption) {
            Ok(met) => met,
            Err(ended) => return ended,
        };
        let export = &shared.exports[agreed.export];
        (shared.on_event)(&Event::Began { connection: *connection, peer, export: &export.name });
        let on_failure = |error: &DeviceError| {
            (shared.on_event)(&Event::Failed { connection: *connection, error });
        };
        let socket = Arc::clone(&end.0);
        let terms = Terms {
            export,
            offer: &offers[agreed.export],
            agreed,
            threads_max: shared.limits.in_flight.max(1),
            closing: &shared.closing,
            hang_up: &|| socket.hang_up(),
            on_failure: &on_failure,
        };
        Connection::new(terms, reader, writer).transmit()
    }
}

impl Drop for Open {
    fn drop(&mut self) {
        self.shared.connections().open.remove(&self.number);
        self.shared.one_ended.notify_all();
    }
}

/// The two ends of a connection after its negotiation.
type Met = (Agreed, Box<dyn Read + Send>, Box<dyn Write + Send>);

/// Negotiates with a client, encrypted from where that begins.
fn meet(
    (mut reader, mut writer): (UntilThen, UntilThen),
    offers: &[Offer],
    encryption: Option<&Encryption>,
) -> Result<Met, Ended> {
    let no_zeroes = greet(&mut reader, &mut writer)?;
    let tls = if encryption.is_some() { Tls::Required } else { Tls::Absent };
    let mut negotiation = Negotiation::new(offers, no_zeroes, tls);
    match (haggle(&mut reader, &mut writer, &mut negotiation)?, encryption) {
        (Haggled::StartTls, Some(encryption)) => {
            let (mut reader, mut writer) = encryption.begin(reader, writer)?;
            negotiation.encrypted();
            let Haggled::Transmit(agreed) = haggle(&mut reader, &mut writer, &mut negotiation)? else {
                return Err(Ended::Violation(BEGINS_ENCRYPTION_AGAIN));
            };
            reader.for_ever()?;
            Ok((agreed, Box::new(reader), Box::new(writer)))
        }
        (Haggled::StartTls, None) => Err(Ended::Violation(BEGINS_ENCRYPTION_AGAIN)),
        (Haggled::Transmit(agreed), _) => {
            reader.for_ever()?;
            writer.for_ever()?;
            Ok((agreed, Box::new(reader), Box::new(writer)))
        }
    }
}

/// Answers to options rule it out; were they wrong, nothing would be sent in the clear.
const BEGINS_ENCRYPTION_AGAIN: Violation = Violation("it begins encryption where there is none to begin");

/// Serves one client over any two ends, on this thread and `limits.in_flight - 1` more, without a limit of
/// time: for tests, and for those who bring connections of their own.
pub fn serve_stream(
    mut reader: Box<dyn Read + Send + '_>,
    mut writer: Box<dyn Write + Send + '_>,
    exports: &[Export],
    limits: &Limits,
) -> Ended {
    let offers: Vec<_> = exports.iter().map(|export| export.offer(limits)).collect();
    let negotiated = greet(&mut *reader, &mut *writer).and_then(|no_zeroes| {
        let mut negotiation = Negotiation::new(&offers, no_zeroes, Tls::Absent);
        haggle(&mut *reader, &mut *writer, &mut negotiation)
    });
    let agreed = match negotiated {
        Ok(Haggled::Transmit(agreed)) => agreed,
        Ok(Haggled::StartTls) => return Ended::Violation(BEGINS_ENCRYPTION_AGAIN),
        Err(ended) => return ended,
    };
    let terms = Terms {
        export: &exports[agreed.export],
        offer: &offers[agreed.export],
        agreed,
        threads_max: limits.in_flight.max(1),
        closing: &AtomicBool::new(false),
        hang_up: &|| (),
        on_failure: &|_| (),
    };
    Connection::new(terms, reader, writer).transmit()
}
