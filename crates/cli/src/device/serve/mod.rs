//! `mezz device serve`: a file, a block device or a modelled drive over NBD.

mod args;
mod image;

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use args::Moment;
pub(crate) use args::{EXAMPLES, ServeArgs};
use mezzanine_blockdev::nbd::{Encryption, Event, Export, Limits, Server};
use mezzanine_device::model::{Mechanism, Model};
use mezzanine_device::{Device, DeviceError, FileDevice, MemoryDevice, OpenOptions, PoweredDrive};
use serde::Serialize;

use super::find_model;
use crate::failure::{Failure, chain};
use crate::output;
use crate::size::Size;

/// How often it is looked whether the end has come.
const LOOK_EVERY: Duration = Duration::from_millis(50);
/// Failed requests that are reported one by one; a drive that is gone fails them all.
const FAILURES_SHOWN: u64 = 10;
/// What a volatile write cache holds of which nothing is known, in bytes.
const CACHE_BYTES: u64 = 32 << 20;

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

/// One power cut.
#[derive(Debug, Clone, PartialEq, Serialize)]
struct PowerCut {
    /// Since the drive had started.
    seconds: f64,
    writes: u64,
    seed: u64,
    /// Of the writes that were not durable.
    kept: u64,
    lost: u64,
    torn: u64,
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
    let drive = if args.model.is_some() { Some(modelled(args)?) } else { None };
    let export = match (&drive, &args.file) {
        (Some(drive), _) => Export { rotational: drive.rotational, ..Export::new(drive.device()) },
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
    end(server, &drive, args)?;
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
fn end(server: Server, drive: &Option<ModelledDrive>, args: &ServeArgs) -> Result<(), Failure> {
    // A drive without power has nothing left to flush; its cut has decided what there is.
    let has_power = drive.as_ref().is_none_or(|drive| drive.powered.is_on());
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

/// A modelled drive with its contents.
struct ModelledDrive {
    powered: Arc<PoweredDrive>,
    rotational: bool,
}

fn modelled(args: &ServeArgs) -> Result<ModelledDrive, Failure> {
    let model = find_model(args.model.as_deref().unwrap_or_default())?;
    let refused = |error: &dyn std::error::Error| Failure::refused(&model.name, chain(error));
    let len = contents_len(args, &model)?;
    let cache_bytes = cache_bytes(args, &model)?;
    let rotational = matches!(model.mechanism, Mechanism::Hdd(_));
    let drive = mezzanine_ssd::open_drive(model.clone(), None, args.time_scale).map_err(|e| refused(&e))?;
    let contents = Arc::new(MemoryDevice::new(len));
    if let Some(path) = args.image.as_ref().filter(|path| path.exists()) {
        image::load(path, &contents).map_err(|error| Failure::refused(path.display(), chain(&error)))?;
    }
    Ok(ModelledDrive { powered: Arc::new(PoweredDrive::new(&drive, contents, cache_bytes)), rotational })
}

/// How long a modelled drive is: as asked for, which the image must agree with, or as the image.
fn contents_len(args: &ServeArgs, model: &Model) -> Result<u64, Failure> {
    let image = match &args.image {
        Some(path) => image::len(path).map_err(|error| Failure::refused(path.display(), error))?,
        None => None,
    };
    let asked = args.size.map(|size| size.0);
    let len = match (asked, image) {
        (Some(asked), Some(image)) if asked != image => {
            let path = args.image.as_deref().unwrap_or(Path::new("")).display().to_string();
            return Err(Failure::refused(path, format!("it is {image} bytes long, and --size says {asked}"))
                .next("leave out --size, or name another image"));
        }
        (None, None) => {
            return Err(Failure::usage("--size", "nothing says how long the drive is")
                .next("give --size, or an --image that exists"));
        }
        (Some(len), _) | (None, Some(len)) => len,
    };
    if len < 4096 || len % 512 != 0 {
        return Err(Failure::refused("--size", format!("{len} bytes are no drive"))
            .next("give a multiple of 512 bytes, 4096 at least"));
    }
    if len > model.capacity_bytes {
        let reason = format!("the drive {} has {} alone", model.name, Size(model.capacity_bytes));
        return Err(
            Failure::refused(format!("--size {}", Size(len)), reason).next("give less, or another model")
        );
    }
    Ok(len)
}

/// What a power cut can take, in bytes.
fn cache_bytes(args: &ServeArgs, model: &Model) -> Result<u64, Failure> {
    if !model.volatile_cache {
        return match args.cache {
            Some(_) => {
                Err(Failure::usage("--cache", format!("the drive {} has no volatile cache", model.name)))
            }
            None => Ok(0),
        };
    }
    if let Some(size) = args.cache {
        return Ok(size.0);
    }
    let ssd = mezzanine_ssd::Ssd::of_model(model);
    let ssd = ssd.map_err(|error| Failure::refused(&model.name, chain(&error)))?;
    Ok(ssd.map_or(CACHE_BYTES, |ssd| ssd.config().cache.buffer_bytes))
}

impl ModelledDrive {
    fn device(&self) -> Arc<dyn Device> {
        Arc::clone(&self.powered) as Arc<dyn Device>
    }

    /// Waits for the end, and cuts the power when its time has come.
    fn serve(&self, args: &ServeArgs, server: &Server) -> Result<Vec<PowerCut>, Failure> {
        let mut cuts = Vec::new();
        if let Some(Moment::InWrite(write)) = args.power_cut_after {
            self.powered.cut_in_write(write);
        }
        let mut started = Instant::now();
        while !IS_INTERRUPTED.load(Ordering::Acquire) {
            let left = match args.power_cut_after {
                Some(Moment::After(time)) => time.saturating_sub(started.elapsed()),
                _ => LOOK_EVERY,
            };
            if left.is_zero() {
                self.powered.cut();
            }
            if !self.powered.wait_for_cut(left.min(LOOK_EVERY)) {
                continue;
            }
            let cut = self.lose(args.seed.wrapping_add(cuts.len() as u64), started.elapsed(), server);
            output::note(&cut.text());
            cuts.push(cut);
            if !args.restart {
                break;
            }
            self.save(args)?;
            self.powered.restore();
            started = Instant::now();
            output::note("the drive has started again");
        }
        Ok(cuts)
    }

    /// What the cut takes. Nobody is left who was connected before it.
    fn lose(&self, seed: u64, after: Duration, server: &Server) -> PowerCut {
        server.disconnect_all();
        let report = self.powered.lose(seed);
        while server.connections() > 0 {
            server.disconnect_all();
            std::thread::sleep(Duration::from_millis(1));
        }
        let (kept, lost, torn) = (report.kept, report.lost, report.torn);
        PowerCut { seconds: after.as_secs_f64(), writes: self.powered.writes(), seed, kept, lost, torn }
    }

    fn save(&self, args: &ServeArgs) -> Result<(), Failure> {
        let Some(path) = &args.image else { return Ok(()) };
        if args.read_only {
            return Ok(());
        }
        image::save(path, self.powered.contents()).map_err(|error| {
            Failure::refused(path.display(), format!("the contents cannot be saved: {error}"))
        })
    }
}

impl PowerCut {
    fn text(&self) -> String {
        let Self { seconds, writes, seed, kept, lost, torn } = self;
        let writes = if *writes == 1 { "1 write".to_owned() } else { format!("{writes} writes") };
        if kept + lost + torn == 0 {
            return format!(
                "the power failed after {seconds:.1} s and {writes}: nothing was in a volatile cache"
            );
        }
        format!(
            "the power failed after {seconds:.1} s and {writes}: of those that were not durable {kept} were \
             kept, {lost} lost and {torn} torn (seed {seed})"
        )
    }
}

impl Served {
    fn text(&self) -> String {
        let lost: u64 = self.power_cuts.iter().map(|cut| cut.lost + cut.torn).sum();
        let cuts = match self.power_cuts.len() {
            0 => "no power cuts".to_owned(),
            1 => format!("1 power cut, {lost} writes lost or torn"),
            count => format!("{count} power cuts, {lost} writes lost or torn"),
        };
        format!(
            "served {} ({}) for {:.1} s: {} clients, {} failed requests, {cuts}\n",
            self.device,
            Size(self.size_bytes),
            self.seconds,
            self.clients,
            self.failed_requests
        )
    }
}
