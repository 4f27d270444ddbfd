//! `mezz device`: drives that are there, drives that are modelled, what both do, and both for others.

mod cuts;
mod fit;
mod list;
mod measure;
mod probe;
mod serve;

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use clap::{Args, Subcommand};
use mezzanine_device::model::{self, Model};
use mezzanine_device::{Device, DeviceError, DeviceErrorKind, FileDevice, NullDevice, OpenOptions};
use mezzanine_report::{Machine, Table, now_utc, number};
use serde::Serialize;

use crate::failure::{Failure, chain};
use crate::output;
use crate::size::Size;
use crate::ublk;
use measure::{CLIENTS_MAX, Measurement, Phase, Setup, Writes, measure, measure_new_file};

const LIST_EXAMPLES: &str = "Examples:
  mezz device list
  mezz device list --json";

const BENCH_EXAMPLES: &str = "Examples:
  mezz device bench samsung-840-pro              a model
  mezz device bench cheetah-15k-x8 --seconds 3   eight modelled disks
  mezz device bench ./my-drive.toml              a model of your own
  mezz device bench /mnt/nvme/scratch            a new file there, removed again
  mezz device bench /dev/nvme0n1                 a real drive, read only
  mezz device bench /dev/nvme1n1 --overwrite     a real drive, writing over what it holds";

const PROBE_EXAMPLES: &str = "Examples:
  mezz device probe /mnt/nvme/scratch            a new file there, gone again
  mezz device probe /dev/nvme1n1                 a drive without contents
  mezz device probe durassd --report probe.html  a model, in virtual time, with a page of plots

It writes to what it measures, and refuses whatever holds data: a file that exists, a device that is mounted or
otherwise in use, and one with anything but zeros where it looks, which is all that it writes over, both ends,
and a thousand places in between. Of a device that was probed to the end these zeros are put back.";

#[derive(Debug, Subcommand)]
pub(crate) enum DeviceVerb {
    /// List the modelled drives, and the block devices of this machine (which are not opened).
    #[command(after_help = LIST_EXAMPLES)]
    List,
    /// Measure a model, a file or a block device: random and sequential reads and writes, flushes.
    #[command(after_help = BENCH_EXAMPLES)]
    Bench(BenchArgs),
    /// Find out what fsync costs on a device, what it promises, and what that means for databases.
    #[command(after_help = PROBE_EXAMPLES)]
    Probe(probe::ProbeArgs),
    /// Turn the result of a probe into a model of the drive.
    #[command(after_help = fit::FIT_EXAMPLES)]
    Fit(fit::FitArgs),
    /// Serve a file, a block device or a modelled drive over NBD, and cut the drive's power.
    #[command(after_help = serve::EXAMPLES)]
    Serve(Box<serve::ServeArgs>),
    /// Delete a block device that a crash of `serve --ublk` or `block attach --ublk` has left.
    #[command(name = "ublk-delete", after_help = ublk::DELETE_EXAMPLES)]
    UblkDelete(ublk::DeleteArgs),
    /// Cut the power of a recorded device at any event, and name the flush that a database forgot.
    #[command(after_help = cuts::EXAMPLES)]
    Cuts(cuts::CutsArgs),
}

/// The options of `device bench`.
#[derive(Debug, Args)]
pub(crate) struct BenchArgs {
    /// A model's name or TOML file, a block device, or a file. A file that does not exist is created and
    /// removed again.
    target: String,

    /// Length of a file that is created, and how much of anything else is used (default: 1GiB of a file, all
    /// of a drive).
    #[arg(long, value_name = "SIZE")]
    size: Option<Size>,

    /// Size of random requests, and of the write before a flush.
    #[arg(long, value_name = "SIZE", default_value = "4KiB", value_parser = request_size)]
    random_size: Size,

    /// Size of sequential requests.
    #[arg(long, value_name = "SIZE", default_value = "128KiB", value_parser = request_size)]
    sequential_size: Size,

    /// Requests in flight.
    #[arg(long, default_value_t = 32, value_parser = clap::value_parser!(u16).range(1..=CLIENTS_MAX as i64))]
    queue_depth: u16,

    /// Time of each load.
    #[arg(long, default_value_t = 2.0, value_parser = load_seconds)]
    seconds: f64,

    /// Write over what the file or block device holds. Without it, what exists is only read.
    #[arg(long)]
    overwrite: bool,

    /// A model takes this many times as long as the drive; figures are in modelled time.
    #[arg(long, value_name = "FACTOR", default_value_t = 1.0, value_parser = crate::demo::time_scale)]
    time_scale: f64,

    /// Seed of the offsets.
    #[arg(long, default_value_t = 1)]
    seed: u64,
}

fn request_size(text: &str) -> Result<Size, String> {
    let size: Size = text.parse()?;
    let good = (512..=16 << 20).contains(&size.0) && size.0 % 512 == 0;
    good.then_some(size).ok_or_else(|| "give a multiple of 512 bytes, at most 16MiB".to_owned())
}

fn load_seconds(text: &str) -> Result<f64, String> {
    let advice = "give seconds from 0.01 to 600";
    let value: f64 = text.parse().map_err(|_| advice.to_owned())?;
    if (0.01..=600.0).contains(&value) { Ok(value) } else { Err(advice.to_owned()) }
}

/// Length of a file that is created to be measured.
const NEW_FILE_BYTES: u64 = 1 << 30;

/// The model with this name, or from this file.
pub(crate) fn find_model(name: &str) -> Result<Model, Failure> {
    model::find(name).map_err(|error| {
        let failure = Failure::refused(format!("drive model '{name}'"), chain(&error));
        if error.kind() == DeviceErrorKind::NotFound {
            failure.next("`mezz device list` shows the models")
        } else {
            failure
        }
    })
}

pub(crate) fn run(verb: &DeviceVerb, json: bool) -> Result<(), Failure> {
    match verb {
        DeviceVerb::List => list(json),
        DeviceVerb::Bench(args) => bench(args, json),
        DeviceVerb::Probe(args) => probe::run(args, json),
        DeviceVerb::Fit(args) => fit::run(args, json),
        DeviceVerb::Serve(args) => serve::run(args, json),
        DeviceVerb::UblkDelete(args) => ublk::delete(args, json),
        DeviceVerb::Cuts(args) => cuts::run(args, json),
    }
}

#[derive(Serialize)]
struct ListedModel {
    name: String,
    title: String,
    source: String,
    capacity_bytes: u64,
    volatile_cache: bool,
    read_random_iops: f64,
    write_random_iops: f64,
    read_sequential_mb_per_s: f64,
    write_sequential_mb_per_s: f64,
    queue_depth: u32,
}

impl From<Model> for ListedModel {
    fn from(model: Model) -> ListedModel {
        ListedModel {
            name: model.name,
            title: model.title,
            source: model.source,
            capacity_bytes: model.capacity_bytes,
            volatile_cache: model.volatile_cache,
            read_random_iops: model.figures.read_random_iops,
            write_random_iops: model.figures.write_random_iops,
            read_sequential_mb_per_s: model.figures.read_sequential_mb_per_s,
            write_sequential_mb_per_s: model.figures.write_sequential_mb_per_s,
            queue_depth: model.figures.queue_depth,
        }
    }
}

#[derive(Serialize)]
struct Listing {
    models: Vec<ListedModel>,
    block_devices: Vec<list::BlockDevice>,
}

fn list(json: bool) -> Result<(), Failure> {
    let models = model::catalogue().into_iter().map(ListedModel::from).collect();
    let listing = Listing { models, block_devices: list::block_devices() };
    if json {
        return output::json(&listing);
    }
    let mut table = Table::new([
        "model",
        "random read/s",
        "random write/s",
        "read MB/s",
        "write MB/s",
        "at depth",
        "capacity",
    ]);
    for m in &listing.models {
        table.row([
            m.name.clone(),
            number(m.read_random_iops, 0),
            number(m.write_random_iops, 0),
            number(m.read_sequential_mb_per_s, 0),
            number(m.write_sequential_mb_per_s, 0),
            m.queue_depth.to_string(),
            Size(m.capacity_bytes).to_string(),
        ]);
    }
    let mut text = table.render();
    text.push_str("\ncheetah-15k-xN is a RAID-0 of N disks for any N from 2 to 64.\n");
    if listing.block_devices.is_empty() {
        text.push_str("\nThis system shows no block devices.\n");
    } else {
        // Few machines have drives with zones.
        let zoned = listing.block_devices.iter().any(|device| device.zones.is_some());
        let mut titles = vec!["block device", "size", "medium", "write cache", "mode", "drive"];
        titles.extend(zoned.then_some("zones"));
        let mut table = Table::new(titles);
        for d in &listing.block_devices {
            let mut row = vec![
                d.path.clone(),
                Size(d.bytes).to_string(),
                if d.rotational { "disk" } else { "flash" }.to_owned(),
                d.volatile_cache
                    .map_or("unknown", |volatile| if volatile { "volatile" } else { "none or safe" })
                    .to_owned(),
                if d.read_only { "read-only" } else { "writable" }.to_owned(),
                d.model.clone(),
            ];
            row.extend(zoned.then(|| d.zones.as_ref().map(ToString::to_string).unwrap_or_default()));
            table.row(row);
        }
        text.push('\n');
        text.push_str(&table.render());
    }
    output::print(&text)
}

#[derive(Serialize)]
struct Benchmark {
    target: String,
    description: String,
    span_bytes: u64,
    seconds: f64,
    /// Null for what is no model; figures of a model are in modelled time.
    time_scale: Option<f64>,
    seed: u64,
    date: String,
    machine: Machine,
    rows: Vec<Measurement>,
}

fn bench(args: &BenchArgs, json: bool) -> Result<(), Failure> {
    let path = Path::new(&args.target);
    let is_path = args.target.contains('/') || path.exists();
    let benchmark = if !is_path || args.target.ends_with(".toml") {
        bench_model(args)?
    } else if path.exists() {
        bench_existing(args, path)?
    } else {
        bench_new_file(args, path)?
    };
    if json {
        return output::json(&benchmark);
    }
    let mut table = Table::new([
        "load",
        "request",
        "depth",
        "per second",
        "MB/s",
        "mean us",
        "p50 us",
        "p99 us",
        "p99.9 us",
    ]);
    for row in &benchmark.rows {
        table.row([
            phase_name(row.phase).to_owned(),
            format!("{} KiB", row.request_bytes / 1024),
            row.queue_depth.to_string(),
            number(row.per_second, 0),
            format!("{:.1}", row.mb_per_s),
            number(row.latency_us_mean, 0),
            number(row.latency_us_p50, 0),
            number(row.latency_us_p99, 0),
            number(row.latency_us_p999, 0),
        ]);
    }
    let what = format!(
        "{}\nover {}, {} s each\n\n",
        benchmark.description,
        Size(benchmark.span_bytes),
        benchmark.seconds
    );
    output::print(&(what + &table.render()))?;
    if benchmark.rows.iter().all(|row| !row.phase.writes()) {
        output::note("only read: what exists is written over with --overwrite alone");
    }
    Ok(())
}

fn phase_name(phase: Phase) -> &'static str {
    match phase {
        Phase::RandomRead => "random read",
        Phase::RandomWrite => "random write",
        Phase::SequentialRead => "sequential read",
        Phase::SequentialWrite => "sequential write",
        Phase::Flush => "flush after a write",
    }
}

impl BenchArgs {
    fn setup(&self, writes: Writes) -> Setup {
        Setup {
            random_bytes: self.random_size.0 as usize,
            sequential_bytes: self.sequential_size.0 as usize,
            queue_depth: self.queue_depth.into(),
            time: Duration::from_secs_f64(self.seconds),
            span_bytes: self.size.map_or(u64::MAX, |size| size.0),
            writes,
            seed: self.seed,
        }
    }

    fn result(
        &self,
        description: String,
        span_bytes: u64,
        time_scale: Option<f64>,
        rows: Vec<Measurement>,
    ) -> Benchmark {
        Benchmark {
            target: self.target.clone(),
            description,
            span_bytes,
            seconds: self.seconds,
            time_scale,
            seed: self.seed,
            date: now_utc(),
            machine: Machine::this(),
            rows,
        }
    }
}

fn bench_model(args: &BenchArgs) -> Result<Benchmark, Failure> {
    let model = find_model(&args.target)?;
    let (description, capacity) = (model.title.clone(), model.capacity_bytes);
    let refused = |e: DeviceError| Failure::refused(&args.target, chain(&e));
    let drive = mezzanine_ssd::open_drive(model, None, args.time_scale).map_err(refused)?;
    let device = drive.attach(Arc::new(NullDevice { len: capacity }), 0);
    let mut rows = measured(args, Writes::DestroyContents, |setup, begin| measure(&*device, setup, begin))
        .map_err(refused)?;
    for row in &mut rows {
        in_modelled_time(row, args.time_scale);
    }
    let span = args.size.map_or(capacity, |size| size.0.min(capacity));
    Ok(args.result(description, span, Some(args.time_scale), rows))
}

/// Takes the slowness of a modelled drive out of the figures.
fn in_modelled_time(row: &mut Measurement, time_scale: f64) {
    row.per_second *= time_scale;
    row.mb_per_s *= time_scale;
    for latency in [
        &mut row.latency_us_mean,
        &mut row.latency_us_p50,
        &mut row.latency_us_p95,
        &mut row.latency_us_p99,
        &mut row.latency_us_p999,
        &mut row.latency_us_max,
    ] {
        *latency /= time_scale;
    }
}

fn bench_existing(args: &BenchArgs, path: &Path) -> Result<Benchmark, Failure> {
    let refused = |e: DeviceError| Failure::refused(path.display(), chain(&e));
    let options =
        OpenOptions { write: args.overwrite, exclusive_lock: args.overwrite, ..OpenOptions::default() };
    let device = FileDevice::open(path, &options).map_err(refused)?;
    if args.overwrite {
        refuse_zones(path, &device)?;
    }
    let writes = if args.overwrite { Writes::DestroyContents } else { Writes::Forbidden };
    let rows = measured(args, writes, |setup, begin| measure(&device, setup, begin)).map_err(refused)?;
    let how = if args.overwrite { "written over" } else { "read only" };
    let span = args.size.map_or(device.len(), |size| size.0.min(device.len()));
    Ok(args.result(format!("{} (existing, {how})", path.display()), span, None, rows))
}

/// Refuses to write anywhere to a drive that is written zone by zone.
fn refuse_zones(path: &Path, device: &FileDevice) -> Result<(), Failure> {
    match device.capabilities().zones {
        Some(zones) => Err(Failure::refused(
            path.display(),
            format!(
                "it is written in zones of {}, front to back, and this writes anywhere",
                Size(zones.zone_len)
            ),
        )
        .next("use a drive without zones, or measure this one with `fio --zonemode=zbd`")),
        None => Ok(()),
    }
}

fn bench_new_file(args: &BenchArgs, path: &Path) -> Result<Benchmark, Failure> {
    let len = args.size.map_or(NEW_FILE_BYTES, |size| size.0);
    let options = OpenOptions { preallocate: true, ..OpenOptions::default() };
    let rows = measured(args, Writes::DestroyContents, |setup, begin| {
        measure_new_file(path, len, &options, setup, begin)
    })
    .map_err(|e| Failure::refused(path.display(), chain(&e)))?;
    Ok(args.result(format!("{} (a new file, removed again)", path.display()), len, None, rows))
}

/// Measures with a progress line that names the load.
fn measured<F>(args: &BenchArgs, writes: Writes, run: F) -> Result<Vec<Measurement>, DeviceError>
where
    F: FnOnce(&Setup, &mut dyn FnMut(Phase)) -> Result<Vec<Measurement>, DeviceError>,
{
    let phases =
        Phase::ALL.iter().filter(|phase| writes == Writes::DestroyContents || !phase.writes()).count();
    let bar = output::progress(phases as u64, &format!("measuring {}", args.target));
    let mut begun = 0;
    let rows = run(&args.setup(writes), &mut |phase| {
        bar.set_message(phase_name(phase));
        bar.set_position(begun);
        begun += 1;
    });
    bar.finish_and_clear();
    rows
}
