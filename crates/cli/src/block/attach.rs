//! `mezz block attach`: volumes with their cache over NBD or as block devices, in the foreground.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use clap::Args;
use mezzanine_blockdev::nbd::UnixSocket;
use mezzanine_fragment::{WAITS_PER_MILLE, WAITS_PER_MILLE_MAX, WORKERS_MAX, WriteMode};

use super::begun::{Begun, begin};
use super::control::Answer;
use super::detach::end;
use super::devices::{self, Named};
use super::folders;
use super::local::{self, Prepared};
use super::metrics::Metrics;
use super::notify;
use super::open;
use super::page::{self, Pages};
use super::registry::{self, Attached};
use super::served::Attachment;
use super::verbs;
use crate::failure::Failure;
use crate::nbd::{Counts, ListenArgs};
use crate::output;
use crate::size::Size;

pub(crate) const EXAMPLES: &str = "Examples:
  mezz block attach /dev/nvme1n1 --backing /dev/sdb --socket /run/sdb.sock
  mezz block attach /dev/nvme1n1 --backing data=/dev/sdb --backing log=/dev/sdc --socket /run/cached.sock
  mezz block attach /dev/nvme1n1 --backing /dev/sdb --ublk
  mezz block attach --without-cache --backing /dev/sdb --socket /run/sdb.sock

Each volume is an export of its name; clients that name none get the first one. After an orderly end the cache goes on with what it had, and after a crash with \
what had settled: what neither came in nor was written to within --settle, and is not written to regularly (--waits-per-mille). Every write goes to the volume's own device before it is answered, flushes go there alone, and the cache device may fail or be lost at \
any time: that costs speed and nothing else. What writes to a volume's own device must come through here as long as it has a cache.

What vouches for a cache after a crash is a small file in $MEZZ_STATE_DIR, /var/lib/mezz (root), $XDG_STATE_HOME/mezz or ~/.local/state/mezz. It must \
not lie on the cache device.

With --without-cache the volumes are served as they are, at their own speed. What a cache device has of them is out of date from the first write \
on, which it may not notice: give --accept-changes when it is attached again.

SIGINT, SIGTERM or `mezz block detach` end it: what is under way is finished, and what was written is durable.

A cache device of the page engine is found to be one, and has none of the options of population, budgets and admission. All volumes whose newest pages it \
has must be named. In mode durable what clients have flushed survives `kill -9` and a loss of power on the cache device alone; --without-cache, and a cache of \
fragments, refuse such a volume.";

/// The default of `--settle`.
const SETTLE: Duration = Duration::from_secs(30);
/// How often it is looked whether the end has come.
pub(super) const LOOK_EVERY: Duration = Duration::from_millis(20);
/// How long a signal gives the copies that are on their way.
pub(super) const SIGNAL_WITHIN: Duration = Duration::from_secs(10);

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
    pub(super) backing: Vec<Named>,

    #[command(flatten)]
    pub(super) listen: ListenArgs,

    /// Show the volume as a file here, through FUSE: over an empty file, or one that is made and goes with
    /// it. For one volume alone; needs /dev/fuse, and fusermount3 where this user is not root.
    #[arg(long, value_name = "PATH", group = "where")]
    pub(super) fuse: Option<PathBuf>,

    /// Where to make the control socket (default: the socket's path and .control; with --listen alone, in the
    /// folder that `mezz block list` looks at).
    #[arg(long, value_name = "PATH")]
    control: Option<PathBuf>,

    /// What becomes of writes to what is cached: through (a copy follows to the cache device) or around (it
    /// is cached no more).
    #[arg(long, default_value = "through", conflicts_with = "without_cache")]
    pub(super) write_mode: WriteMode,

    /// Fragments that are brought in at a time, at most; each takes a buffer of its size.
    #[arg(long, value_name = "WORKERS", default_value_t = WORKERS_MAX, conflicts_with = "without_cache",
        value_parser = clap::value_parser!(u32).range(0..=i64::from(WORKERS_MAX)))]
    pub(super) population_workers: u32,

    /// Bytes a second that are brought in at most (default: no limit but the throttle's).
    #[arg(long, value_name = "SIZE", conflicts_with = "without_cache")]
    pub(super) population_rate: Option<Size>,

    /// Bytes that are written to the cache device in any 24 hours at most: what is brought in, copies of
    /// writes, and the map, which is never refused; a quarter of it at once. It begins anew with each attach
    /// (default: no limit).
    #[arg(long, value_name = "SIZE", conflicts_with = "without_cache")]
    pub(super) write_budget: Option<Size>,

    /// Reads of the cache device that take longer than this, smoothed, have what is brought in and copies of
    /// writes wait, in microseconds; 0: nothing waits.
    #[arg(long, value_name = "US", default_value_t = 0, conflicts_with = "without_cache")]
    pub(super) yield_above: u64,

    /// Reads that miss a fragment until it is brought in; 0: reads do not count.
    #[arg(long, value_name = "N", default_value_t = 1, conflicts_with = "without_cache")]
    pub(super) admit_reads: u32,

    /// Writes that miss a fragment until it is brought in; 0: writes do not count.
    #[arg(long, value_name = "N", default_value_t = 0, conflicts_with = "without_cache")]
    pub(super) admit_writes: u32,

    /// How long what is cached has to be left alone after it came in or was written to until a crash does not
    /// cost it any more (100ms to 1h); what is written to regularly takes longer. Shorter times have more
    /// writes wait for the cache device.
    #[arg(long, value_name = "TIME", default_value = "30s", conflicts_with = "without_cache",
        value_parser = settle)]
    pub(super) settle: Duration,

    /// Of 1,000 writes, so many may wait for the cache device. While more do, what is written to regularly is
    /// given up to a crash instead; 1000: never.
    #[arg(long, value_name = "N", default_value_t = WAITS_PER_MILLE, conflicts_with = "without_cache",
        value_parser = clap::value_parser!(u32).range(1..=i64::from(WAITS_PER_MILLE_MAX)))]
    pub(super) waits_per_mille: u32,

    /// Answer Prometheus at this address, with /metrics. Anybody who reaches it may read what is counted.
    #[arg(long, value_name = "ADDRESS:PORT")]
    metrics: Option<SocketAddr>,

    /// Go on with volumes that were changed while they were not attached.
    #[arg(long, conflicts_with = "without_cache")]
    pub(super) accept_changes: bool,
}

pub(super) static IS_INTERRUPTED: AtomicBool = AtomicBool::new(false);

/// A time after which fragments settle.
fn settle(text: &str) -> Result<Duration, String> {
    let range = Duration::from_millis(100)..=Duration::from_secs(3600);
    let time = verbs::time(text).ok().filter(|time| range.contains(time));
    time.ok_or_else(|| "give a time from 100ms to 1h".to_owned())
}

pub(crate) fn run(args: &AttachArgs, json: bool) -> Result<(), Failure> {
    devices::refuse_twice(&args.backing)?;
    if args.fuse.is_some() && args.backing.len() > 1 {
        return Err(Failure::usage("--fuse", "one file shows one volume")
            .next("name one volume, or serve them at a --socket"));
    }
    let encryption = args.listen.encryption()?;
    local::refuse(args)?;
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
    // Before anything is changed.
    let metrics = args.metrics.map(Metrics::bind).transpose()?;
    let begun = match &args.cache {
        Some(path) if page::is_here(path)? => {
            refuse_options_of_fragments(args)?;
            let pages = Pages::open(path, &args.backing)?;
            pages.note();
            Begun::Pages(pages)
        }
        Some(path) => begin(args, path)?,
        None => {
            output::note(
                "without a cache: what a cache device has of these volumes is out of date from now on",
            );
            Begun::Nothing(open::uncached(args)?)
        }
    };
    let counts = Arc::new(Counts::default());
    let exports = begun.exports();
    let absolute = |path: &Path| path.canonicalize().unwrap_or_else(|_| path.to_owned());
    let attached = Attached {
        process: std::process::id(),
        cache: args.cache.as_deref().map(absolute),
        control: absolute(&control),
    };
    let serve = || {
        // It goes on answering while everything ends.
        let listener = socket.listener().try_clone().map_err(|error| {
            Failure::refused(control.display(), error).next("raise the limit of open files of this user")
        })?;
        let prepared = Prepared::new(args, &begun.named(), &exports, &counts)?;
        let server = args.listen.serve(exports, encryption, &counts)?;
        let registered = attached.register()?;
        // Last, as users of what is taken over get errors if it is taken away again.
        Ok((server, prepared.show()?, registered, listener))
    };
    let (server, local, registered, listener) = match serve() {
        Ok(serving) => serving,
        Err(failure) => {
            begun.give_up();
            return Err(failure);
        }
    };
    let reports = begun.volume_reports(&local.block_devices());
    let (engine, device, volumes) = begun.into_parts();
    let attachment = Attachment::new(engine, device, reports, (server, local), counts);
    let answering = match attachment.listen(listener, metrics) {
        // As in a crash, so that users of block devices wait for the next server.
        Err(failure) if args.listen.ublk => failure.end(),
        answering => answering?,
    };
    notify::tell("READY=1");
    while !attachment.ending.is_wanted() {
        if IS_INTERRUPTED.load(Ordering::Acquire) {
            attachment.ending.want(SIGNAL_WITHIN);
        }
        std::thread::sleep(LOOK_EVERY);
    }
    notify::tell("STOPPING=1");
    drop(registered);
    let ended = end(&attachment, &volumes);
    let answer = match &ended {
        Ok(detached) => Answer::Done { result: serde_json::to_value(detached).unwrap_or_default() },
        Err(failure) => failure.again().into(),
    };
    let report = attachment.report().0;
    attachment.ending.finish(answer);
    // It has a hand on the devices, which are free when this ends.
    let _ = answering.join();
    ended?;
    if json { output::json(&report) } else { output::print(&super::text::status(&report)) }
}

/// The page engine has none of these; that they were given shows where they are not what they are by
/// themselves.
fn refuse_options_of_fragments(args: &AttachArgs) -> Result<(), Failure> {
    let given = [
        ("--write-mode", args.write_mode != WriteMode::Through),
        ("--population-workers", args.population_workers != WORKERS_MAX),
        ("--population-rate", args.population_rate.is_some()),
        ("--write-budget", args.write_budget.is_some()),
        ("--yield-above", args.yield_above != 0),
        ("--admit-reads", args.admit_reads != 1),
        ("--admit-writes", args.admit_writes != 0),
        ("--settle", args.settle != SETTLE),
        ("--waits-per-mille", args.waits_per_mille != WAITS_PER_MILLE),
        ("--accept-changes", args.accept_changes),
    ];
    let Some((option, _)) = given.iter().find(|(_, is_given)| *is_given) else { return Ok(()) };
    Err(Failure::usage(
        option,
        "it is an option of the fragment engine, and the cache device is the page engine's",
    )
    .next("leave it out"))
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
        (None, None) => Ok(folders::run()?.join(format!("{}.control", std::process::id()))),
    }
}
