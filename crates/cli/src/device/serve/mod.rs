//! `mezz device serve`: a file, a block device or a modelled drive over NBD.

mod args;
mod drive;
mod image;

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

pub(crate) use args::{EXAMPLES, ServeArgs};
use drive::{PowerCut, ServedDrive};
use mezzanine_blockdev::nbd::{Encryption, Event, Export, Limits, Server};
use mezzanine_device::{Device, DeviceError, FileDevice, OpenOptions};
use serde::Serialize;

use crate::failure::{Failure, chain};
use crate::output;
use crate::size::Size;

/// How often it is looked whether the end has come.
const LOOK_EVERY: Duration = Duration::from_millis(50);
/// Failed requests that are reported one by one; a drive that is gone fails them all.
const FAILURES_SHOWN: u64 = 10;

static IS_INTERRUPTED: AtomicBool = AtomicBool::new(false);

/// What was served, and what became of it.
#[derive(Serialize)]
struct Served {
    device: String,
    size_bytes: u64,
    read_only: bool,
    seconds: f64,
    clients: u64,
    failed_requests: u64,
    power_cuts: Vec<PowerCut>,
}

/// What the server has counted.
#[derive(Default)]
struct Counts {
    clients: AtomicU64,
    failed: AtomicU64,
}

pub(crate) fn run(args: &ServeArgs, json: bool) -> Result<(), Failure> {
    let encryption = encryption(args)?;
    let may_be_reached = args.insecure || encryption.is_some();
    if let Some(address) = args.listen.filter(|address| !address.ip().is_loopback() && !may_be_reached) {
        return Err(Failure::refused(address, "others reach this address, and nothing would be encrypted").next(
            "give --tls-certificate and --tls-key, or listen at 127.0.0.1 and let ssh forward the port, or say --insecure",
        ));
    }
    end_on_signals();
    let drive = if args.model.is_some() { Some(drive::modelled(args)?) } else { None };
    let export = match (&drive, &args.file) {
        (Some(drive), _) => Export { rotational: drive.is_rotational(), ..Export::new(drive.device()) },
        (None, Some(path)) => file(path, args.read_only)?,
        // clap asks for one of the two.
        (None, None) => return Err(Failure::usage("device serve", "there is nothing to serve")),
    };
    let export = Export {
        name: args.name.clone(),
        read_only: args.read_only,
        minimum_block: args.block_size.unwrap_or(1),
        ..export
    };
    let begun = Instant::now();
    let (device, size_bytes) = (export.device.describe(), export.device.len());
    let counts = Arc::new(Counts::default());
    let server = listen(args, export, encryption, &counts)?;
    let power_cuts = match &drive {
        Some(drive) => drive.serve(args, &server)?,
        None => {
            while !IS_INTERRUPTED.load(Ordering::Acquire) {
                std::thread::sleep(LOOK_EVERY);
            }
            Vec::new()
        }
    };
    end(server, drive.as_deref(), args)?;
    let served = Served {
        device,
        size_bytes,
        read_only: args.read_only,
        seconds: begun.elapsed().as_secs_f64(),
        clients: counts.clients.load(Ordering::Relaxed),
        failed_requests: counts.failed.load(Ordering::Relaxed),
        power_cuts,
    };
    if json { output::json(&served) } else { output::print(&served.text()) }
}

/// The first signal ends the service in good order, the second one at once.
fn end_on_signals() {
    let handler = || {
        if IS_INTERRUPTED.swap(true, Ordering::AcqRel) {
            Failure::refused("device serve", "ended at once: what was not flushed may be lost").end();
        }
    };
    if let Err(error) = ctrlc::set_handler(handler) {
        output::note(&format!("signals end this at once, without a flush: {error}"));
    }
}

/// Opens what is to be served.
fn file(path: &Path, read_only: bool) -> Result<Export, Failure> {
    let options = OpenOptions { write: !read_only, exclusive_lock: !read_only, ..OpenOptions::default() };
    let refused = |error: DeviceError| Failure::refused(path.display(), chain(&error));
    let device = FileDevice::open(path, &options).map_err(refused)?;
    if device.is_empty() {
        let failure = Failure::refused(path.display(), "it is empty");
        return Err(failure.next("give the file a length first: truncate --size 1G FILE"));
    }
    let is_regular = path.metadata().is_ok_and(|metadata| metadata.is_file());
    Ok(Export { zeroes_are_holes: is_regular, ..Export::new(Arc::new(device)) })
}

/// What is asked for over TCP.
fn encryption(args: &ServeArgs) -> Result<Option<Encryption>, Failure> {
    let Some((certificate, key)) = args.tls_certificate.as_ref().zip(args.tls_key.as_ref()) else {
        return Ok(None);
    };
    let encryption = Encryption::from_files(certificate, key, args.tls_clients.as_deref());
    encryption.map(Some).map_err(|error| {
        Failure::refused("encryption", error)
            .next("give files in the form PEM, as openssl and certtool write them")
    })
}

fn listen(
    args: &ServeArgs,
    export: Export,
    encryption: Option<Encryption>,
    counts: &Arc<Counts>,
) -> Result<Server, Failure> {
    let scheme = if encryption.is_some() { "nbds" } else { "nbd" };
    let (told, counts) = (describe(&export), Arc::clone(counts));
    let mut server =
        Server::new(vec![export], Limits::default(), encryption, move |event| report(event, &counts));
    if let Some(path) = &args.socket {
        server.listen_unix(path).map_err(|error| {
            let refused = Failure::refused(path.display(), format!("cannot make a socket there: {error}"));
            refused.next("name one in a folder that exists and that this user may write to")
        })?;
        output::note(&format!("{told}: nbd+unix:///{}?socket={}", args.name, path.display()));
    }
    if let Some(address) = args.listen {
        let address = server.listen_tcp(address).map_err(|error| {
            let refused = Failure::refused(address, format!("cannot listen there: {error}"));
            refused.next("name an address of this machine, and a port that nobody else has; with port 0 the system finds one")
        })?;
        output::note(&format!("{told}: {scheme}://{address}/{}", args.name));
    }
    Ok(server)
}

fn describe(export: &Export) -> String {
    let kind = if export.read_only { ", read-only" } else { "" };
    format!("serving {} ({}{kind})", export.device.describe(), Size(export.device.len()))
}

fn report(event: &Event<'_>, counts: &Counts) {
    match event {
        Event::Began { .. } => {
            counts.clients.fetch_add(1, Ordering::Relaxed);
        }
        Event::Failed { .. } => match counts.failed.fetch_add(1, Ordering::Relaxed) {
            FAILURES_SHOWN => return output::note("more requests fail; they are counted"),
            failed if failed > FAILURES_SHOWN => return,
            _ => {}
        },
        _ => {}
    }
    output::note(&event.to_string());
}

/// Finishes what is under way, and makes durable what was written.
fn end(server: Server, drive: Option<&dyn ServedDrive>, args: &ServeArgs) -> Result<(), Failure> {
    // A drive without power has nothing left to flush; its cut has decided what there is.
    let has_power = drive.is_none_or(ServedDrive::has_power);
    let flushed = server.shutdown();
    if let Some(drive) = drive {
        drive.save(args)?;
    }
    match flushed {
        Err(errors) if has_power => {
            let reasons: Vec<_> = errors.iter().map(|error| chain(error)).collect();
            let failure = Failure::refused("flush at the end", reasons.join("; "));
            Err(failure.next("what was written since the last flush of a client may be lost"))
        }
        _ => Ok(()),
    }
}

impl Served {
    fn text(&self) -> String {
        format!(
            "served {} ({}) for {:.1} s: {} clients, {} failed requests, {}\n",
            self.device,
            Size(self.size_bytes),
            self.seconds,
            self.clients,
            self.failed_requests,
            drive::in_short(&self.power_cuts)
        )
    }
}
