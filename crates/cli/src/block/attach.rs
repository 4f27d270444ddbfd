//! `mezz block attach`: volumes with their cache over NBD, in the foreground.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, PoisonError};
use std::time::{Duration, Instant};

use clap::Args;
use mezzanine_blockdev::fuse::{FuseFile, FuseOptions};
use mezzanine_blockdev::nbd::{Export, UnixSocket};
use mezzanine_cached::{Backing, BlockCache, Closed, Settings, write_superblock};
use mezzanine_device::{Device, DeviceError, FileDevice};
use mezzanine_fragment::format::{Superblock, VolumeEntry};
use mezzanine_fragment::{Geometry, WORKERS_MAX, WriteMode};

use super::control::Answer;
use super::devices::{self, Named};
use super::registry::{self, Attached};
use super::report::VolumeReport;
use super::served::{Attachment, CacheFacts, Detached};
use crate::failure::{Failure, chain};
use crate::nbd::{Counts, ListenArgs};
use crate::output;
use crate::size::Size;

pub(crate) const EXAMPLES: &str = "Examples:
  mezz block attach /dev/nvme1n1 --backing /dev/sdb --socket /run/sdb.sock
  mezz block attach /dev/nvme1n1 --backing data=/dev/sdb --backing log=/dev/sdc --socket /run/cached.sock
  mezz block attach --without-cache --backing /dev/sdb --socket /run/sdb.sock

Each volume is an export of its name; clients that name none get the first one. After an orderly end the cache goes on with what it had; after a crash it begins empty. Every write goes to the volume's \
own device before it is answered, flushes go there alone, and the cache device may fail or be lost at any time: that costs speed and nothing else. What \
writes to a volume's own device must come through here as long as it has a cache.

With --without-cache the volumes are served as they are, at their own speed. What a cache device has of them is out of date from the first write \
on, which it may not notice: give --accept-changes when it is attached again.

SIGINT, SIGTERM or `mezz block detach` end it: what is under way is finished, and what was written is durable.";

/// How often it is looked whether somebody asks something, or the end has come.
const LOOK_EVERY: Duration = Duration::from_millis(20);
/// How long a signal gives the copies that are on their way.
const SIGNAL_WITHIN: Duration = Duration::from_secs(10);

/// The options of `block attach`.
#[derive(Debug, Args)]
pub(crate) struct AttachArgs {
    /// The cache device.
    #[arg(required_unless_present = "without_cache")]
    cache: Option<PathBuf>,

    /// Serve the volumes without their cache, such as while the cache device is missing.
    #[arg(long, conflicts_with = "cache")]
    without_cache: bool,

    /// A volume's own device, by the name that it was given to `create`, or as NAME=PATH. Volumes of the
    /// cache that are not named are not served.
    #[arg(long, value_name = "[NAME=]PATH", required = true, value_parser = devices::named)]
    backing: Vec<Named>,

    #[command(flatten)]
    listen: ListenArgs,

    /// Show the volume as a file here, through FUSE: over an empty file, or one that is made and goes with
    /// it. For one volume alone; needs /dev/fuse, and fusermount3 where this user is not root.
    #[arg(long, value_name = "PATH", group = "where")]
    fuse: Option<PathBuf>,

    /// Where to make the control socket (default: the socket's path and .control; with --listen alone, in the
    /// folder that `mezz block list` looks at).
    #[arg(long, value_name = "PATH")]
    control: Option<PathBuf>,

    /// What becomes of writes to what is cached: through (a copy follows to the cache device) or around (it
    /// is cached no more).
    #[arg(long, default_value = "through", conflicts_with = "without_cache")]
    write_mode: WriteMode,

    /// Fragments that are brought in at a time, at most; each takes a buffer of its size.
    #[arg(long, value_name = "WORKERS", default_value_t = WORKERS_MAX, conflicts_with = "without_cache",
        value_parser = clap::value_parser!(u32).range(0..=i64::from(WORKERS_MAX)))]
    population_workers: u32,

    /// Bytes a second that are brought in at most (default: no limit but the throttle's).
    #[arg(long, value_name = "SIZE", conflicts_with = "without_cache")]
    population_rate: Option<Size>,

    /// Go on with volumes that were changed while they were not attached.
    #[arg(long, conflicts_with = "without_cache")]
    accept_changes: bool,
}

static IS_INTERRUPTED: AtomicBool = AtomicBool::new(false);

/// A volume that is served: its place in the cache, its name and its own device.
struct Volume {
    number: usize,
    named: Named,
    device: Arc<FileDevice>,
    known_by: Backing,
    /// It was changed while it was detached.
    is_changed: bool,
}

/// The cache device with its superblock of this opening.
struct CacheDevice {
    path: PathBuf,
    device: Arc<FileDevice>,
    superblock: Superblock,
    /// Which of its two places is written first.
    first: usize,
}

impl CacheDevice {
    /// Notes durably that these volumes are in use, or that they are detached as they are now. Afterwards
    /// both copies are as new as one another.
    fn note(&mut self, volumes: &[Volume], in_use: bool) -> Result<(), Failure> {
        for volume in volumes {
            let backing = match in_use {
                true => Backing { in_use, ..volume.known_by },
                false => devices::known_by(&volume.named.path, &volume.device)?,
            };
            self.superblock.volumes[volume.number].host = backing.encode();
        }
        write_superblock(&*self.device, &self.superblock, self.first)
            .map_err(|error| Failure::refused(self.path.display(), chain(&error)))?;
        self.superblock.sequence += 1;
        Ok(())
    }
}

pub(crate) fn run(args: &AttachArgs, json: bool) -> Result<(), Failure> {
    devices::refuse_twice(&args.backing)?;
    if args.fuse.is_some() && args.backing.len() > 1 {
        return Err(Failure::usage("--fuse", "one file shows one volume")
            .next("name one volume, or serve them at a --socket"));
    }
    let encryption = args.listen.encryption()?;
    end_on_signals();
    // The kernel may be a client of ours: what it needs to free memory must not wait for memory. Only root
    // may say so, and nothing else depends on it.
    let _ = rustix::process::configure_io_flusher_behavior(true);
    let control = control_path(args)?;
    let socket = UnixSocket::bind(&control).and_then(|socket| {
        socket.listener().set_nonblocking(true)?;
        Ok(socket)
    });
    let socket = socket.map_err(|error| {
        Failure::refused(control.display(), format!("cannot make the control socket there: {error}"))
            .next("name another path with --control")
    })?;
    let (volumes, cache) = match &args.cache {
        Some(path) => {
            let (volumes, mut device) = open(args, path)?;
            let geometry = geometry(args, &device)?;
            // From here on what the map says is void, until it is closed.
            device.note(&volumes, true)?;
            let cache = start(args, geometry, &volumes, &device)?;
            (volumes, Some((cache, device)))
        }
        None => {
            output::note(
                "without a cache: what a cache device has of these volumes is out of date from now on",
            );
            (uncached(args)?, None)
        }
    };
    let counts = Arc::new(Counts::default());
    let exports = exports(&volumes, cache.as_ref().map(|(cache, _)| cache));
    let shown = exports.first().map(|(export, _)| export.clone());
    let serve = || {
        let fuse =
            args.fuse.as_ref().zip(shown).map(|(path, export)| show(path, export, &counts)).transpose()?;
        Ok((args.listen.serve(exports, encryption, &counts)?, fuse))
    };
    let (server, fuse) = match serve() {
        Ok(serving) => serving,
        Err(failure) => {
            // Nobody has been let in.
            if let Some((running, device)) = cache {
                close(&running, device, &volumes, SIGNAL_WITHIN, |_| ());
            }
            return Err(failure);
        }
    };
    let absolute = |path: &Path| path.canonicalize().unwrap_or_else(|_| path.to_owned());
    let attached = Attached {
        process: std::process::id(),
        cache: args.cache.as_deref().map(absolute),
        control: absolute(&control),
    };
    let registered = match attached.register() {
        Ok(registered) => registered,
        Err(failure) => {
            let _ = server.shutdown();
            drop(fuse);
            if let Some((running, device)) = cache {
                close(&running, device, &volumes, SIGNAL_WITHIN, |_| ());
            }
            return Err(failure);
        }
    };
    let (cache, device) = cache.map_or((None, None), |(cache, device)| (Some(cache), Some(device)));
    let facts = device.as_ref().map(|device| CacheFacts {
        path: device.path.display().to_string(),
        cache_id: hex::encode(device.superblock.cache_id),
        epoch: device.superblock.epoch,
    });
    let reports = volumes.iter().map(|volume| VolumeReport {
        number: volume.number,
        name: volume.named.name.clone(),
        backing: volume.named.path.display().to_string(),
        bytes: volume.device.len(),
    });
    let attachment = Attachment::new(cache.zip(facts), reports.collect(), (server, fuse), counts);
    let within = loop {
        attachment.accept(&socket);
        if let Some(within) = attachment.ending.wanted() {
            break within;
        }
        if IS_INTERRUPTED.load(Ordering::Acquire) {
            break SIGNAL_WITHIN;
        }
        std::thread::sleep(LOOK_EVERY);
    };
    drop(registered);
    let ended = end(&attachment, device, &volumes, within);
    let answer = match &ended {
        Ok(detached) => Answer::Done { result: serde_json::to_value(detached).unwrap_or_default() },
        Err(failure) => failure.again().into(),
    };
    let report = attachment.report().0;
    attachment.ending.finish(answer);
    ended?;
    if json { output::json(&report) } else { output::print(&super::text::status(&report)) }
}

/// The first signal ends the service in good order, the second one at once.
fn end_on_signals() {
    let handler = || {
        if IS_INTERRUPTED.swap(true, Ordering::AcqRel) {
            Failure::refused("block attach", "ended at once: what was not flushed may be lost").end();
        }
    };
    if let Err(error) = ctrlc::set_handler(handler) {
        output::note(&format!("signals end this at once, without a flush: {error}"));
    }
}

fn control_path(args: &AttachArgs) -> Result<PathBuf, Failure> {
    match (&args.control, args.listen.socket.as_ref().or(args.fuse.as_ref())) {
        (Some(path), _) => Ok(path.clone()),
        (None, Some(path)) => Ok(registry::control_beside(path)),
        (None, None) => Ok(registry::folder()?.join(format!("{}.control", std::process::id()))),
    }
}

fn uncached(args: &AttachArgs) -> Result<Vec<Volume>, Failure> {
    let open = |(number, named): (usize, &Named)| {
        let device = devices::backing(&named.path)?;
        let known_by = devices::known_by(&named.path, &device)?;
        Ok(Volume { number, named: named.clone(), device, known_by, is_changed: false })
    };
    args.backing.iter().enumerate().map(open).collect()
}

/// Opens the cache device and the volumes' own devices, and refuses what does not belong together. Nothing is
/// written.
fn open(args: &AttachArgs, path: &Path) -> Result<(Vec<Volume>, CacheDevice), Failure> {
    if let Some(one) = args.backing.iter().find(|one| devices::same(&one.path, path)) {
        return Err(
            Failure::usage(one.path.display(), "it cannot be its own cache").next("name its cache device")
        );
    }
    let device = devices::cache(path, true)?;
    let found = devices::superblocks(path, &device)?;
    let mut superblock = found.newest;
    let mut volumes: Vec<Volume> = Vec::new();
    for named in &args.backing {
        let device = devices::backing(&named.path)?;
        let known_by = devices::known_by(&named.path, &device)?;
        let taken = |number: usize| volumes.iter().any(|volume| volume.number == number);
        let number = belonging(&superblock, named, &*device, known_by, taken, path)?;
        let entry = &superblock.volumes[number];
        let is_changed = check(entry, named, &*device, known_by, args.accept_changes)?;
        volumes.push(Volume { number, named: named.clone(), device, known_by, is_changed });
    }
    if superblock.volumes.iter().any(|entry| Backing::decode(&entry.host).in_use) {
        // What the map says of a cache that came to no orderly end is void.
        superblock = superblock.reinitialised(devices::random_id()?);
        for entry in &mut superblock.volumes {
            entry.host = Backing { in_use: false, ..Backing::decode(&entry.host) }.encode();
        }
    }
    let superblock = superblock.opened();
    let others = superblock.volumes.iter().enumerate();
    let others = others.filter(|(number, _)| volumes.iter().all(|volume| volume.number != *number));
    devices::note_each(
        others.map(|(_, entry)| format!("volume {} is not named, and not served", entry.name)),
    );
    let first = found.write_first;
    Ok((volumes, CacheDevice { path: path.to_owned(), device: Arc::new(device), superblock, first }))
}

/// The number of the volume that somebody names: by its name, or by what the device is known by.
fn belonging(
    superblock: &Superblock,
    named: &Named,
    device: &dyn Device,
    known_by: Backing,
    taken: impl Fn(usize) -> bool,
    cache: &Path,
) -> Result<usize, Failure> {
    let volumes = &superblock.volumes;
    let known = |entry: &VolumeEntry| entry.bytes == device.len() && Backing::decode(&entry.host) == known_by;
    let found = volumes.iter().position(|entry| entry.name == named.name);
    // Two of which nothing tells which is which are never taken for one another.
    let mut alike = volumes.iter().enumerate().filter(|(_, entry)| known(entry)).map(|(number, _)| number);
    let only = alike.next().filter(|_| alike.next().is_none());
    let found = found.or(only).filter(|number| !taken(*number));
    found.ok_or_else(|| {
        let names: Vec<_> = volumes.iter().map(|entry| entry.name.as_str()).collect();
        let reason = format!("{} has no volume of the name {}", cache.display(), named.name);
        Failure::refused(named.path.display(), reason).next(format!(
            "name it as NAME=PATH; the cache has {}; or make a cache with this volume with `mezz block create`",
            names.join(", ")
        ))
    })
}

/// Refuses a device that is not as its volume was when it was last seen. True if it was changed, and that is
/// accepted.
fn check(
    entry: &VolumeEntry,
    named: &Named,
    device: &dyn Device,
    known_by: Backing,
    accept_changes: bool,
) -> Result<bool, Failure> {
    let (path, len) = (named.path.display(), device.len());
    if len != entry.bytes {
        let how = if len < entry.bytes { "shrunk" } else { "grown" };
        let reason = format!(
            "it has {how}, or is another device: it has {len} bytes, and volume {} had {}",
            entry.name, entry.bytes
        );
        return Err(Failure::refused(path, reason).next(
            "name the right device; or make the cache anew with `mezz block create --force`, which changes nothing on the \
             volumes",
        ));
    }
    let backing = Backing::decode(&entry.host);
    if backing.in_use {
        let text = "it came to no orderly end the last time: only its length is compared, and the cache begins empty";
        output::note(&format!("volume {}: {text}", entry.name));
        return Ok(false);
    }
    if backing == known_by {
        return Ok(false);
    }
    if !accept_changes {
        let how = if backing.fingerprint == known_by.fingerprint {
            "it was written to".to_owned()
        } else {
            let (was, is) = (backing.fingerprint, known_by.fingerprint);
            format!("its first or last blocks were changed (known by {is}, and it was {was})")
        };
        let reason = format!("{how} since volume {} was detached, or it is another device", entry.name);
        return Err(Failure::refused(path, reason).next(
            "name the right device; or give --accept-changes, if somebody has written to it past its cache: it is cached \
             anew",
        ));
    }
    Ok(true)
}

/// The sizes of the cache, as it is asked for.
fn geometry(args: &AttachArgs, cache: &CacheDevice) -> Result<Geometry, Failure> {
    let mut config = cache.superblock.config();
    config.write_mode = args.write_mode;
    config.population_workers = args.population_workers;
    let geometry = config.geometry().map_err(|error| Failure::refused(cache.path.display(), error))?;
    devices::memory(&geometry).map(|_| geometry)
}

/// The running cache, with what its map has of volumes that were not changed.
fn start(
    args: &AttachArgs,
    geometry: Geometry,
    volumes: &[Volume],
    cache: &CacheDevice,
) -> Result<BlockCache, Failure> {
    let config = geometry.config().clone();
    let memory = devices::memory(&geometry)?;
    let backing = (0..config.volumes.len()).map(|number| {
        let volume = volumes.iter().find(|volume| volume.number == number);
        volume.map(|volume| Arc::clone(&volume.device) as Arc<dyn Device>)
    });
    let rate = args.population_rate.map_or(0, |rate| rate.0);
    let settings = Settings { population_rate: rate, ..Settings::default() };
    let flash = Arc::clone(&cache.device) as Arc<dyn Device>;
    let slots = geometry.slots();
    let (running, found) = BlockCache::recover(geometry, flash, backing.collect(), settings)
        .map_err(|error| Failure::refused(cache.path.display(), chain(&error)))?;
    volumes.iter().filter(|volume| volume.is_changed).for_each(|volume| running.forget(volume.number));
    output::note(&format!(
        "{}: {} of cache, {} of {} fragments of {} KiB in use (epoch {}), {} of memory",
        cache.path.display(),
        Size(cache.superblock.layout.cache_bytes),
        running.statistics().engine.slots_used,
        slots,
        config.fragment_bytes >> 10,
        cache.superblock.epoch,
        Size(memory)
    ));
    if found.lost > 0 {
        output::note(&format!("{}: {} records of its map said nothing", cache.path.display(), found.lost));
    }
    Ok(running)
}

fn exports(volumes: &[Volume], cache: Option<&BlockCache>) -> Vec<(Export, String)> {
    let of = |volume: &Volume| {
        let cached = cache.and_then(|cache| cache.volume(volume.number));
        let device: Arc<dyn Device> = match cached {
            Some(cached) => Arc::new(cached),
            None => Arc::clone(&volume.device) as Arc<dyn Device>,
        };
        let zeroes_are_holes = volume.named.path.metadata().is_ok_and(|metadata| metadata.is_file());
        let text = format!("serving {} ({})", volume.named.name, Size(device.len()));
        (Export { name: volume.named.name.clone(), zeroes_are_holes, ..Export::new(device) }, text)
    };
    volumes.iter().map(of).collect()
}

/// Shows a volume as a file.
fn show(path: &Path, export: Export, counts: &Arc<Counts>) -> Result<FuseFile, Failure> {
    let counts = Arc::clone(counts);
    let on_failure = Box::new(move |error: &DeviceError| counts.note_failure(&chain(error)));
    let options =
        FuseOptions { zeroes_are_holes: export.zeroes_are_holes, on_failure, ..FuseOptions::default() };
    let text = format!("showing {} ({})", export.name, Size(export.device.len()));
    let file = FuseFile::mount(export.device, path, options).map_err(|error| {
        Failure::refused(path.display(), format!("no file can be shown there: {error}")).next(
            "name a path in a folder that exists; it needs /dev/fuse (modprobe fuse), and fusermount3 (of the package \
             fuse3) where this user is not root",
        )
    })?;
    output::note(&format!("{text}: {}", file.path().display()));
    Ok(file)
}

/// Finishes what is under way, makes durable what was written, and notes that the volumes are detached.
fn end(
    attachment: &Attachment,
    cache: Option<CacheDevice>,
    volumes: &[Volume],
    within: Duration,
) -> Result<Detached, Failure> {
    let begun = Instant::now();
    let ending = &attachment.ending;
    ending.stage("clients", 0, 1);
    if let Some(mut fuse) = attachment.take_fuse() {
        if let Err(error) = fuse.close() {
            let path = fuse.path().display();
            output::note(&format!("{path}: it stays mounted, and fails all requests: {error}"));
        }
    }
    let server = attachment.server.write().unwrap_or_else(PoisonError::into_inner).take();
    let flushed = server.map_or(Ok(()), mezzanine_blockdev::nbd::Server::shutdown);
    if let Err(errors) = flushed {
        let reasons: Vec<_> = errors.iter().map(|error| chain(error)).collect();
        return Err(Failure::refused("flush at the end", reasons.join("; "))
            .next("what was written since the last flush of a client may be lost"));
    }
    let Some((running, cache)) = attachment.cache.as_ref().zip(cache) else {
        return Ok(Detached { copies_left: 0, is_whole: false, seconds: begun.elapsed().as_secs_f64() });
    };
    let progress = |left| ending.stage("blocks and fragments to be written", 0, left);
    let Closed { copies_left, is_whole } = close(&running.0, cache, volumes, within, progress);
    Ok(Detached { copies_left, is_whole, seconds: begun.elapsed().as_secs_f64() })
}

/// Closes the cache, and notes that its map counts if it is whole. Whole is what is noted durably.
fn close(
    running: &BlockCache,
    mut cache: CacheDevice,
    volumes: &[Volume],
    within: Duration,
    progress: impl FnMut(u64),
) -> Closed {
    let closed = running.close(within, progress);
    let noted = match closed.is_whole {
        true => cache.note(volumes, false).map_err(|failure| failure.to_string()),
        false => Err("its map is not whole".to_owned()),
    };
    let is_whole = noted.is_ok();
    if let Err(reason) = noted {
        output::note(&format!(
            "{}: it begins empty the next time, and the volumes are compared by their length alone: {reason}",
            cache.path.display()
        ));
    }
    Closed { is_whole, ..closed }
}
