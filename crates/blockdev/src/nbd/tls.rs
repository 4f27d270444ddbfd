//! Encryption of a connection: TLS 1.3, as the protocol's STARTTLS begins it.
//!
//! A session has two users at a time, who read and who write. Nobody waits for the network while it holds
//! the session; whoever writes holds the output for as long as that takes, so that records leave in the order
//! in which they were made. Lock order: `output`, then `session`.

use std::fmt;
use std::io::{self, IoSlice, Read, Write};
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::WebPkiClientVerifier;
use rustls::{RootCertStore, ServerConfig, ServerConnection};

use super::stream::UntilThen;

/// What is read from the socket at once, in bytes: a record of the largest kind.
const INPUT_BYTES: usize = 17 << 10;

/// A server's certificate and key, and who may connect.
#[derive(Clone)]
pub struct Encryption(Arc<ServerConfig>);

/// Certificates that cannot be used.
#[derive(Debug)]
pub struct EncryptionError {
    what: String,
    why: String,
}

impl fmt::Display for EncryptionError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.what, self.why)
    }
}

impl std::error::Error for EncryptionError {}

fn unusable(what: &Path, why: impl fmt::Display) -> EncryptionError {
    EncryptionError { what: what.display().to_string(), why: why.to_string() }
}

impl Encryption {
    /// Reads PEM files: the server's certificate with those above it, its private key, and, if only clients
    /// with certificates are to be let in, the authorities that have signed these.
    ///
    /// # Errors
    /// What is wrong with which file.
    pub fn from_files(
        certificate: &Path,
        key: &Path,
        clients: Option<&Path>,
    ) -> Result<Self, EncryptionError> {
        let chain = certificates(certificate)?;
        let private = PrivateKeyDer::from_pem_file(key).map_err(|error| unusable(key, error))?;
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let config = ServerConfig::builder_with_provider(Arc::clone(&provider));
        let config = config
            .with_protocol_versions(&[&rustls::version::TLS13])
            .map_err(|error| unusable(certificate, error))?;
        let config = match clients {
            None => config.with_no_client_auth(),
            Some(path) => {
                let mut authorities = RootCertStore::empty();
                for authority in certificates(path)? {
                    authorities.add(authority).map_err(|error| unusable(path, error))?;
                }
                let verifier = WebPkiClientVerifier::builder_with_provider(Arc::new(authorities), provider);
                config.with_client_cert_verifier(verifier.build().map_err(|error| unusable(path, error))?)
            }
        };
        let config = config.with_single_cert(chain, private).map_err(|error| unusable(key, error))?;
        Ok(Self(Arc::new(config)))
    }

    /// Begins encryption on a connection whose client was told to.
    ///
    /// # Errors
    /// `InvalidData` if the client does something else; that of the connection.
    pub(super) fn begin(&self, mut input: UntilThen, output: UntilThen) -> io::Result<(Reader, Writer)> {
        let mut session = ServerConnection::new(Arc::clone(&self.0)).map_err(io::Error::other)?;
        while session.is_handshaking() {
            session.complete_io(&mut input)?;
        }
        let shared = Arc::new(Shared { session: Mutex::new(session), output: Mutex::new(output) });
        let reader =
            Reader { shared: Arc::clone(&shared), input, bytes: vec![0; INPUT_BYTES], pending: 0..0 };
        Ok((reader, Writer(shared)))
    }
}

fn certificates(path: &Path) -> Result<Vec<CertificateDer<'static>>, EncryptionError> {
    let read = CertificateDer::pem_file_iter(path).map_err(|error| unusable(path, error))?;
    let found = read.collect::<Result<Vec<_>, _>>().map_err(|error| unusable(path, error))?;
    if found.is_empty() { Err(unusable(path, "there is no certificate in it")) } else { Ok(found) }
}

struct Shared {
    session: Mutex<ServerConnection>,
    output: Mutex<UntilThen>,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Shared {
    /// Sends what the session has to say, with what `more` adds to that.
    fn send<T>(&self, more: impl FnOnce(&mut ServerConnection) -> io::Result<T>) -> io::Result<T> {
        let mut output = lock(&self.output);
        let mut session = lock(&self.session);
        let added = more(&mut session)?;
        let mut records = Vec::new();
        while session.wants_write() {
            session.write_tls(&mut records)?;
        }
        drop(session);
        output.write_all(&records)?;
        Ok(added)
    }
}

/// What the client says.
pub(super) struct Reader {
    shared: Arc<Shared>,
    input: UntilThen,
    bytes: Vec<u8>,
    /// Which of the bytes the session has not taken yet: it takes no more than it has room for.
    pending: std::ops::Range<usize>,
}

impl Reader {
    /// The connection may be as slow as it likes from now on.
    pub(super) fn for_ever(&mut self) -> io::Result<()> {
        lock(&self.shared.output).for_ever()?;
        self.input.for_ever()
    }
}

impl Read for Reader {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        loop {
            match lock(&self.shared.session).reader().read(buf) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                // It ends without a word of farewell; the protocol above has its own ends of messages.
                Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => return Ok(0),
                read => return read,
            }
            if self.pending.is_empty() {
                let read = self.input.read(&mut self.bytes)?;
                self.pending = 0..read;
            }
            let mut session = lock(&self.shared.session);
            let taken = session.read_tls(&mut &self.bytes[self.pending.clone()])?;
            self.pending.start += taken;
            let processed = session.process_new_packets();
            let has_to_say = session.wants_write();
            drop(session);
            if has_to_say {
                self.shared.send(|_| Ok(()))?;
            }
            processed.map_err(|error| io::Error::new(io::ErrorKind::InvalidData, error))?;
        }
    }
}

/// What is said to the client.
pub(super) struct Writer(Arc<Shared>);

impl Write for Writer {
    fn write(&mut self, buf: &[u8]) -> io::Result<usize> {
        self.0.send(|session| session.writer().write(buf))
    }

    fn write_vectored(&mut self, bufs: &[IoSlice<'_>]) -> io::Result<usize> {
        self.0.send(|session| session.writer().write_vectored(bufs))
    }

    fn flush(&mut self) -> io::Result<()> {
        self.0.send(|_| Ok(()))
    }
}
