//! `mezz device probe`: a device under the loads of the DuraSSD paper, what the system says of it, and what
//! both mean for databases.
//!
//! The order: what is probed is opened, or refused (`target`); the system is asked (`system`); all loads
//! (`load`) run against it (`subject`, `modelled`); what was found (`findings`) becomes `advice`, and all of
//! it a text (`text`), a page (`page`) or JSON.

mod load;
mod plan;
mod subject;

mod modelled;

mod system;
mod target;

mod findings;

mod advice;

mod page;
mod text;

use std::path::{Path, PathBuf};

use clap::Args;
use mezzanine_device::model::{Mechanism, Model};
use mezzanine_device::{Device, DeviceError};
use mezzanine_report::{Machine, now_utc};
use serde::Serialize;

use super::measure::CLIENTS_MAX;
use crate::failure::{Failure, chain};
use crate::output;
use crate::size::Size;
use advice::Advice;
use findings::{Findings, FlushPath, TargetKind};
use load::{PAGE_BYTES, REQUEST_BYTES_MAX, Row};
use modelled::ModelledDrive;
use plan::{Measured, Plan, Stopped, measure_all};
use subject::RealDevice;
use system::System;
use target::Opened;

/// The number of what a probe prints as JSON. One that knows nothing of fits has none.
pub(super) const FORMAT: u32 = 2;
/// What is written over unless told otherwise.
const SPAN_BYTES: u64 = 1 << 30;
/// The largest request has to fit in a few times.
const SPAN_BYTES_MIN: u64 = 4 * REQUEST_BYTES_MAX;

/// The options of `device probe`.
#[derive(Debug, Args)]
pub(crate) struct ProbeArgs {
    /// A file that does not exist (it is made, and gone afterwards), a block device that holds nothing, or a
    /// model's name or TOML file.
    target: String,

    /// How much of it is written over (default: 1GiB, and all of a modelled disk).
    #[arg(long, value_name = "SIZE", value_parser = span)]
    size: Option<Size>,

    /// Time of each of the loads: 40 for the tables, 21 for a fit.
    #[arg(long, default_value_t = 1.0, value_parser = super::load_seconds)]
    seconds: f64,

    /// Afterwards, write over the whole drive several times, for `mezz device fit` to find its erase unit and
    /// its spare space.
    #[arg(long)]
    whole: bool,

    /// Requests in flight where there are many.
    #[arg(long, default_value_t = 128, value_parser = clap::value_parser!(u16).range(2..=CLIENTS_MAX as i64))]
    clients: u16,

    /// Write a page with plots there.
    #[arg(long, value_name = "FILE")]
    report: Option<PathBuf>,

    /// Seed of the offsets.
    #[arg(long, default_value_t = 1)]
    seed: u64,
}

fn span(text: &str) -> Result<Size, String> {
    let size: Size = text.parse()?;
    let good = size.0 >= SPAN_BYTES_MIN;
    good.then_some(size).ok_or_else(|| format!("give at least {}MiB", SPAN_BYTES_MIN >> 20))
}

/// The result.
#[derive(Debug, Serialize)]
struct Probe {
    format: u32,
    target: String,
    kind: TargetKind,
    description: String,
    /// Of the whole drive; null for a file.
    capacity_bytes: Option<u64>,
    span_bytes: u64,
    seconds: f64,
    seed: u64,
    /// Whether writes that are to be durable go through the cache alone, and not with a flush.
    fua: bool,
    /// Whether transfers went past the page cache; true of a model.
    direct: bool,
    date: String,
    machine: Machine,
    system: System,
    /// Whether completed writes can be lost, as the system or the model says; null if neither does.
    volatile_cache: Option<bool>,
    /// What becomes of an fsync.
    flushes: FlushPath,
    rows: Vec<Row>,
    /// Loads that tell one parameter of a drive from another, for `mezz device fit`.
    identifying: Vec<Row>,
    /// Those over the whole drive, if it was to be written over.
    collection: Vec<Row>,
    /// Why not all loads were measured; null if they were.
    stopped: Option<String>,
    advice: Vec<Advice>,
}

/// What is known before anything is measured.
struct About {
    kind: TargetKind,
    description: String,
    capacity_bytes: Option<u64>,
    span_bytes: u64,
    fua: bool,
    direct: bool,
    system: System,
    /// What a model says.
    volatile_cache: Option<bool>,
}

pub(super) fn run(args: &ProbeArgs, json: bool) -> Result<(), Failure> {
    if let Some(report) = &args.report {
        page::check_place(report)?;
    }
    let path = Path::new(&args.target);
    let is_path = args.target.contains('/') || path.exists();
    if args.whole && is_path && !args.target.ends_with(".toml") && !path.exists() {
        return Err(Failure::usage("--whole", format!("{} would be a file, and no drive", path.display()))
            .next("name a block device or a model"));
    }
    let (about, measured) = if !is_path || args.target.ends_with(".toml") {
        probe_model(args, super::find_model(&args.target)?)?
    } else if target::is_block_device(path)? {
        probe_block_device(args, path)?
    } else {
        probe_new_file(args, path)?
    };
    let (probe, stopped) = conclude(args, about, measured);
    if json {
        output::json(&probe)?;
    } else {
        output::print(&text::render(&probe))?;
    }
    if let Some(report) = &args.report {
        page::write(report, &probe)?;
        output::note(&format!("page: {}", report.display()));
    }
    match stopped {
        None => Ok(()),
        Some(stopped) => Err(failure(args, &probe, &stopped)),
    }
}

/// What ended a probe early, and how far it had come.
fn failure(args: &ProbeArgs, probe: &Probe, stopped: &Stopped) -> Failure {
    let plan = Plan::of(args, probe.capacity_bytes);
    let done = probe.rows.len() + probe.identifying.len() + probe.collection.len();
    let all = plan.loads();
    let reason = format!(
        "it failed during {}, after {done} of {all} loads: {}",
        stopped.during,
        chain(&stopped.error)
    );
    let kept = if done == 0 { "nothing was measured" } else { "what was measured before is kept above" };
    let failure = Failure::refused(&args.target, reason)
        .next(format!("{kept}; look at the drive and the kernel's log (dmesg), and probe it again"));
    if probe.kind == TargetKind::BlockDevice {
        return failure.and(format!(
            "its first {} may hold noise now, for which the next probe refuses it",
            Size(probe.span_bytes)
        ));
    }
    failure
}

fn conclude(args: &ProbeArgs, about: About, measured: Measured) -> (Probe, Option<Stopped>) {
    let Measured { rows, identifying, collection, stopped } = measured;
    let findings =
        Findings::of(about.kind, stopped.is_none(), about.direct, &about.system, about.volatile_cache, &rows);
    let probe = Probe {
        format: FORMAT,
        target: args.target.clone(),
        kind: about.kind,
        description: about.description,
        capacity_bytes: about.capacity_bytes,
        span_bytes: about.span_bytes,
        fua: about.fua,
        seconds: args.seconds,
        seed: args.seed,
        direct: about.direct,
        date: now_utc(),
        machine: Machine::this(),
        system: about.system,
        volatile_cache: findings.volatile_cache,
        flushes: findings.flushes,
        rows,
        identifying,
        collection,
        stopped: stopped.as_ref().map(|stopped| format!("{}: {}", stopped.during, chain(&stopped.error))),
        advice: advice::advise(&findings),
    };
    (probe, stopped)
}

fn probe_model(args: &ProbeArgs, model: Model) -> Result<(About, Measured), Failure> {
    let refused = |e: DeviceError| Failure::refused(&args.target, chain(&e));
    let timing = mezzanine_ssd::timing(&model).map_err(refused)?;
    // Of a disk it matters how far its arm has to go, and not what it holds; of flash it is the other way
    // round.
    let is_flash = matches!(model.mechanism, Mechanism::Ssd(_));
    let standard = if is_flash { SPAN_BYTES } else { model.capacity_bytes };
    let span_bytes = whole_pages(args.size.map_or(standard, |size| size.0).min(model.capacity_bytes));
    check_span(&args.target, span_bytes)?;
    let mut drive = ModelledDrive::new(timing, span_bytes, is_flash);
    let capacity_bytes = Some(whole_pages(model.capacity_bytes));
    let plan = Plan::of(args, capacity_bytes);
    let measured = measure_all(args, &plan, &mut drive, span_bytes, is_flash);
    let about = About {
        kind: TargetKind::Model,
        description: format!("{} (a model, in virtual time)", model.title),
        capacity_bytes,
        span_bytes,
        fua: is_flash,
        direct: true,
        system: System::default(),
        volatile_cache: Some(model.volatile_cache),
    };
    Ok((about, measured))
}

fn probe_new_file(args: &ProbeArgs, path: &Path) -> Result<(About, Measured), Failure> {
    let span_bytes = whole_pages(args.size.map_or(SPAN_BYTES, |size| size.0));
    let opened = target::new_file(path, span_bytes)?;
    let measured = measure_real(args, &Plan::of(args, None), &opened, span_bytes);
    let description = format!("{} (a new file, gone again)", path.display());
    Ok((about_real(opened, TargetKind::NewFile, description, None, span_bytes), measured))
}

fn probe_block_device(args: &ProbeArgs, path: &Path) -> Result<(About, Measured), Failure> {
    let wanted = args.size.map_or(SPAN_BYTES, |size| size.0);
    let looking = output::spinner(&format!("looking for data on {}", path.display()));
    let opened = target::block_device(path, if args.whole { u64::MAX } else { wanted });
    looking.finish_and_clear();
    let opened = opened?;
    let span_bytes = whole_pages(wanted.min(opened.device.len()));
    check_span(&args.target, span_bytes)?;
    let capacity_bytes = Some(whole_pages(opened.device.len()));
    let measured = measure_real(args, &Plan::of(args, capacity_bytes), &opened, span_bytes);
    if measured.stopped.is_none() {
        let clearing = output::spinner(&format!("clearing {}", path.display()));
        let written = if args.whole { opened.device.len() } else { span_bytes };
        let cleared = target::clear(&opened.device, written);
        clearing.finish_and_clear();
        if let Err(error) = cleared {
            output::note(&format!("{}: noise of the probe stays there: {}", path.display(), chain(&error)));
        }
    }
    let description = format!("{} (a block device that held nothing)", path.display());
    Ok((about_real(opened, TargetKind::BlockDevice, description, capacity_bytes, span_bytes), measured))
}

fn about_real(
    opened: Opened,
    kind: TargetKind,
    description: String,
    capacity_bytes: Option<u64>,
    span_bytes: u64,
) -> About {
    let fua = opened.synchronous.is_some() && opened.system.fua() == Some(true);
    let (direct, system) = (opened.device.is_direct(), opened.system);
    About { kind, description, capacity_bytes, span_bytes, fua, direct, system, volatile_cache: None }
}

fn measure_real(args: &ProbeArgs, plan: &Plan, opened: &Opened, span_bytes: u64) -> Measured {
    let synchronous = opened.synchronous.as_ref().and_then(|file| file.try_clone().ok());
    let mut subject =
        RealDevice::new(&opened.device, synchronous, span_bytes, || opened.system.flushes_counted());
    measure_all(args, plan, &mut subject, span_bytes, true)
}

/// As many bytes as are whole pages of the largest size.
fn whole_pages(bytes: u64) -> u64 {
    let largest = PAGE_BYTES[PAGE_BYTES.len() - 1];
    bytes / largest * largest
}

fn check_span(target: &str, span_bytes: u64) -> Result<(), Failure> {
    if span_bytes >= SPAN_BYTES_MIN {
        return Ok(());
    }
    let reason = format!("it has {} where the largest loads need {}", Size(span_bytes), Size(SPAN_BYTES_MIN));
    Err(Failure::refused(target, reason).next("probe a larger device"))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use std::sync::atomic::{AtomicU64, Ordering};

    use clap::Parser;
    use mezzanine_device::{Capabilities, DeviceErrorKind, MemoryDevice, Request};

    use super::advice::Verdict;
    use super::*;

    /// A device that is gone after so many requests.
    struct Vanishing {
        inner: MemoryDevice,
        left: AtomicU64,
    }

    impl Device for Vanishing {
        fn capabilities(&self) -> Capabilities {
            self.inner.capabilities()
        }

        fn run(&self, batch: &mut [Request<'_>]) -> Vec<Result<(), DeviceError>> {
            let there =
                self.left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |left| left.checked_sub(1));
            if there.is_ok() {
                return self.inner.run(batch);
            }
            let gone = |request: &Request<'_>| {
                Err(DeviceError::new(DeviceErrorKind::Io, request.operation(), self.describe()))
            };
            batch.iter().map(gone).collect()
        }

        fn set_len(&self, len: u64) -> Result<(), DeviceError> {
            self.inner.set_len(len)
        }

        fn describe(&self) -> String {
            "a device".to_owned()
        }
    }

    #[derive(Parser)]
    struct Line {
        #[command(flatten)]
        probe: ProbeArgs,
    }

    fn probe(requests: u64) -> (Probe, Option<Stopped>) {
        let args = Line::parse_from(["probe", "./x", "--seconds", "0.01", "--clients", "2"]).probe;
        let span_bytes = SPAN_BYTES_MIN;
        let device = Vanishing { inner: MemoryDevice::new(span_bytes), left: AtomicU64::new(requests) };
        let mut subject = RealDevice::new(&device, None, span_bytes, || None);
        let plan = Plan::of(&args, None);
        let measured = measure_all(&args, &plan, &mut subject, span_bytes, true);
        let about = About {
            kind: TargetKind::BlockDevice,
            description: String::new(),
            capacity_bytes: None,
            span_bytes,
            fua: false,
            direct: true,
            system: System::default(),
            volatile_cache: None,
        };
        let (probe, stopped) = conclude(&args, about, measured);
        if let Some(stopped) = &stopped {
            let said = failure(&args, &probe, stopped).to_string();
            assert!(
                said.contains("of 61 loads") && said.contains("dmesg") && said.contains("noise"),
                "{said}"
            );
        }
        (probe, stopped)
    }

    #[test]
    fn a_device_that_vanishes_keeps_what_was_measured_before() {
        let fill = SPAN_BYTES_MIN / mezzanine_ssd::load::FILL_BYTES + 1;
        let (whole, stopped) = probe(u64::MAX);
        assert!(stopped.is_none() && whole.stopped.is_none());
        assert_eq!(whole.rows.len(), 40);
        let first = whole.rows[0].requests + whole.rows[0].fsyncs;
        for requests in [0, 3, fill, fill + 1, fill + first / 2, fill + 4 * first] {
            let (probe, stopped) = probe(requests);
            assert!(probe.rows.len() < 40, "{requests}");
            let during = stopped.unwrap().during;
            assert_eq!(during == "filling", requests < fill, "{requests}: {during}");
            assert!(probe.stopped.as_ref().unwrap().contains(&during));
            for row in &probe.rows {
                assert!(row.requests > 0);
            }
            // An early end gives no reason to change anything for speed.
            assert!(
                probe.advice.iter().all(|advice| advice.verdict != Verdict::Consider),
                "{:?}",
                probe.advice
            );
            assert!(text::render(&probe).contains("What it means"));
        }
    }
}
