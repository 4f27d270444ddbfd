//! `mezz device serve`: a file, a block device or a modelled drive over NBD, or as a block device.

mod args;
mod drive;
mod image;
mod marks;

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

pub(crate) use args::{EXAMPLES, ServeArgs};
use drive::{PowerCut, ServedDrive};
use mezzanine_blockdev::nbd::{Export, Server};
use mezzanine_device::{Device, DeviceError, FileDevice, OpenOptions};
use mezzanine_recording::Recorder;
use serde::Serialize;

use crate::failure::{Failure, chain};
use crate::nbd::Counts;
use crate::output;
use crate::size::Size;
use crate::ublk::{self, Ready};

/// How often it is looked whether the end has come.
const LOOK_EVERY: Duration = Duration::from_millis(50);

/// How long the end waits for requests to a block device that are under way.
const CLOSE_WITHIN: Duration = Duration::from_secs(10);

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
    /// Of the recording; null without one.
    recorded_events: Option<u64>,
}

pub(crate) fn run(args: &ServeArgs, json: bool) -> Result<(), Failure> {
    let encryption = args.listen.encryption()?;
    if args.listen.ublk {
        ublk::refuse_missing()?;
    } else if !args.read_only {
        identity(args).map_or(Ok(()), ublk::refuse_left)?;
    }
    end_on_signals();
    let drive = if args.model.is_some() { Some(drive::modelled(args)?) } else { None };
    let export = match (&drive, &args.file) {
        (Some(drive), _) => Export { rotational: drive.is_rotational(), ..Export::new(drive.device()) },
        (None, Some(path)) => file(path, args.read_only)?,
        // clap asks for one of the two.
        (None, None) => return Err(Failure::usage("device serve", "there is nothing to serve")),
    };
    let (export, recorder) = recorded(args, export)?;
    let marks = match (&args.marks, &recorder) {
        (Some(path), Some(recorder)) => Some(marks::Marks::listen(path, recorder)?),
        _ => None,
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
    let told = describe(&export);
    let serve = || {
        let ready = args.listen.ublk.then(|| prepare(args, &export, &counts)).transpose()?;
        let server = args.listen.serve(vec![(export, told)], encryption, &counts)?;
        // Last, as its users get errors if it is taken away again.
        Ok((server, ready.map(Ready::show).transpose()?))
    };
    let (server, shown) = serve().inspect_err(|_: &Failure| {
        // Nothing was recorded, and the next start wants a new file.
        let _ = args.record.as_ref().map(std::fs::remove_file);
    })?;
    let power_cuts = match &drive {
        Some(drive) => drive.serve(args, &server)?,
        None => {
            while !IS_INTERRUPTED.load(Ordering::Acquire) {
                std::thread::sleep(LOOK_EVERY);
            }
            Vec::new()
        }
    };
    drop(marks);
    if let Some(mut shown) = shown {
        if let Err(error) = shown.close(CLOSE_WITHIN) {
            let path = shown.path().display();
            output::note(&format!("{path}: later requests fail, but it was not closed cleanly: {error}"));
        }
    }
    let ended = end(server, drive.as_deref(), args);
    let recorded_events = saved(args, recorder.as_deref());
    ended?;
    let recorded_events = recorded_events?;
    let served = Served {
        device,
        size_bytes,
        read_only: args.read_only,
        seconds: begun.elapsed().as_secs_f64(),
        clients: counts.clients.load(Ordering::Relaxed),
        failed_requests: counts.failed.load(Ordering::Relaxed),
        power_cuts,
        recorded_events,
    };
    if json { output::json(&served) } else { output::print(&served.text()) }
}

/// Puts a recorder before the device, if it is to be recorded.
fn recorded(args: &ServeArgs, export: Export) -> Result<(Export, Option<Arc<Recorder>>), Failure> {
    let Some(path) = &args.record else { return Ok((export, None)) };
    let recorder = Recorder::begin(Arc::clone(&export.device), path).map_err(|error| {
        let failure = Failure::refused(path.display(), format!("nothing can be recorded there: {error}"));
        failure.next("name a file that does not exist, on a file system with room for all that is written")
    })?;
    let recorder = Arc::new(recorder);
    let device: Arc<dyn Device> = Arc::<Recorder>::clone(&recorder);
    Ok((Export { device, ..export }, Some(recorder)))
}

/// Completes the recording.
fn saved(args: &ServeArgs, recorder: Option<&Recorder>) -> Result<Option<u64>, Failure> {
    let Some((recorder, path)) = recorder.zip(args.record.as_ref()) else { return Ok(None) };
    recorder.save().map_err(|error| {
        Failure::refused(path.display(), format!("the end of the recording is missing: {error}"))
    })?;
    Ok(Some(recorder.events()))
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

/// Looks whether it can be a block device, to be taken over after a crash if its contents survive that.
fn prepare(args: &ServeArgs, export: &Export, counts: &Arc<Counts>) -> Result<Ready, Failure> {
    Ready::new(export, identity(args).unwrap_or_default(), counts)
}

/// By what its block device is known again, if its contents survive a crash.
fn identity(args: &ServeArgs) -> Option<u64> {
    args.file.as_ref().map(|path| ublk::identity("device serve", &args.name, path))
}

fn describe(export: &Export) -> String {
    let kind = if export.read_only { ", read-only" } else { "" };
    format!("serving {} ({}{kind})", export.device.describe(), Size(export.device.len()))
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
            "served {} ({}) for {:.1} s: {} clients, {} failed requests, {}{}\n",
            self.device,
            Size(self.size_bytes),
            self.seconds,
            self.clients,
            self.failed_requests,
            drive::in_short(&self.power_cuts),
            self.recorded_events.map_or(String::new(), |events| format!(", {events} events recorded"))
        )
    }
}
