//! Where clients of network block devices connect: what is asked for, and who has come.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use clap::{ArgGroup, Args};
use mezzanine_blockdev::nbd::{Encryption, Event, Export, Limits, Server};

use crate::failure::Failure;
use crate::output;

/// Failed requests that are reported one by one; a drive that is gone fails them all.
const FAILURES_SHOWN: u64 = 10;

/// Where to listen, and what goes over the network how.
#[derive(Debug, Args)]
#[command(group(ArgGroup::new("where").required(true).multiple(true)))]
pub(crate) struct ListenArgs {
    /// Unix socket to listen at; this user alone may connect to it.
    #[arg(long, value_name = "PATH", group = "where")]
    pub(crate) socket: Option<PathBuf>,

    /// TCP address to listen at. Without a certificate only addresses of this machine (127.0.0.1 or ::1) are
    /// taken.
    #[arg(long, value_name = "ADDRESS:PORT", group = "where")]
    pub(crate) listen: Option<SocketAddr>,

    /// Make a block device of it, /dev/ublkbN, or take over the one that a crash has left; for each volume,
    /// where there are several. Needs root and Linux 6.4 or later with the driver ublk_drv.
    #[arg(long, group = "where")]
    pub(crate) ublk: bool,

    /// Encrypt what goes over TCP (TLS 1.3) with the certificate in this PEM file, and those above it behind.
    #[arg(long, value_name = "FILE", requires_all = ["listen", "tls_key"])]
    pub(crate) tls_certificate: Option<PathBuf>,

    /// The certificate's private key, a PEM file.
    #[arg(long, value_name = "FILE", requires = "tls_certificate")]
    pub(crate) tls_key: Option<PathBuf>,

    /// Let only clients in over TCP whose certificate one of the authorities in this PEM file has signed.
    #[arg(long, value_name = "FILE", requires = "tls_certificate")]
    pub(crate) tls_clients: Option<PathBuf>,

    /// Listen without a certificate at a TCP address that others reach: they may read and write everything,
    /// and so may all who are between.
    #[arg(long, requires = "listen", conflicts_with = "tls_certificate")]
    pub(crate) insecure: bool,
}

/// What the server has counted.
#[derive(Default)]
pub(crate) struct Counts {
    pub(crate) clients: AtomicU64,
    pub(crate) failed: AtomicU64,
}

impl ListenArgs {
    /// What is asked for over TCP.
    pub(crate) fn encryption(&self) -> Result<Option<Encryption>, Failure> {
        let Some((certificate, key)) = self.tls_certificate.as_ref().zip(self.tls_key.as_ref()) else {
            return self.refuse_open().map(|()| None);
        };
        let encryption = Encryption::from_files(certificate, key, self.tls_clients.as_deref());
        encryption.map(Some).map_err(|error| {
            Failure::refused("encryption", error)
                .next("give files in the form PEM, as openssl and certtool write them")
        })
    }

    fn refuse_open(&self) -> Result<(), Failure> {
        let reached = self.listen.filter(|address| !address.ip().is_loopback() && !self.insecure);
        let Some(address) = reached else { return Ok(()) };
        Err(Failure::refused(address, "others reach this address, and nothing would be encrypted").next(
            "give --tls-certificate and --tls-key, or listen at 127.0.0.1 and let ssh forward the port, or say --insecure",
        ))
    }

    /// Serves exports, each of which is told to people with a line of text and where to find it.
    pub(crate) fn serve(
        &self,
        exports: Vec<(Export, String)>,
        encryption: Option<Encryption>,
        counts: &Arc<Counts>,
    ) -> Result<Server, Failure> {
        let scheme = if encryption.is_some() { "nbds" } else { "nbd" };
        let told: Vec<_> = exports.iter().map(|(export, text)| (text.clone(), export.name.clone())).collect();
        let (exports, counts) = (exports.into_iter().map(|(export, _)| export).collect(), Arc::clone(counts));
        let mut server =
            Server::new(exports, Limits::default(), encryption, move |event| report(event, &counts));
        if let Some(path) = &self.socket {
            server.listen_unix(path).map_err(|error| {
                let refused =
                    Failure::refused(path.display(), format!("cannot make a socket there: {error}"));
                refused.next("name one in a folder that exists and that this user may write to")
            })?;
            for (text, name) in &told {
                output::note(&format!("{text}: nbd+unix:///{name}?socket={}", path.display()));
            }
        }
        if let Some(address) = self.listen {
            let address = server.listen_tcp(address).map_err(|error| {
                let refused = Failure::refused(address, format!("cannot listen there: {error}"));
                refused.next("name an address of this machine, and a port that nobody else has; with port 0 the system finds one")
            })?;
            for (text, name) in &told {
                output::note(&format!("{text}: {scheme}://{address}/{name}"));
            }
        }
        Ok(server)
    }
}

fn report(event: &Event<'_>, counts: &Counts) {
    match event {
        Event::Failed { .. } => return counts.note_failure(&event.to_string()),
        Event::Began { .. } => {
            counts.clients.fetch_add(1, Ordering::Relaxed);
        }
        _ => {}
    }
    output::note(&event.to_string());
}

impl Counts {
    /// A request has failed: the first few are shown.
    pub(crate) fn note_failure(&self, text: &str) {
        match self.failed.fetch_add(1, Ordering::Relaxed) {
            FAILURES_SHOWN => output::note("more requests fail; they are counted"),
            failed if failed > FAILURES_SHOWN => {}
            _ => output::note(text),
        }
    }
}
