//! A probe as text: tables as the DuraSSD paper prints them, what the system says, and advice.

use mezzanine_report::{Table, facts, number, wrapped};

use super::advice::{Advice, Verdict};
use super::findings::{FlushPath, TargetKind};
use super::load::{GROUP_PAGES, LOG_PAGE_BYTES, LoadKind, PAGE_BYTES, Row, Rows, WRITES_PER_FSYNC};
use super::system::Layer;
use super::{Probe, Size};

/// Columns of a line of prose.
const COLUMNS: usize = 100;

/// The whole of it.
pub(super) fn render(probe: &Probe) -> String {
    let rows = Rows(&probe.rows);
    let mut text = format!(
        "{}\nover {}, {} s each{}\n\n",
        probe.description,
        Size(probe.span_bytes),
        probe.seconds,
        if probe.direct {
            ""
        } else {
            ", through the page cache: reads, and writes without fsync, are those of memory"
        }
    );
    if !probe.rows.is_empty() {
        text += &format!(
            "Random writes a second of one client, by writes per fsync\n\n{}\n",
            by_fsync(rows).render()
        );
        text += &format!("By page size, a second\n\n{}\n", by_page_size(rows).render());
        text += &format!("One after the other\n\n{}\n", in_order(rows).render());
    }
    let said: Vec<(&str, String)> = system(probe);
    text += &format!("What the system says\n\n{}\n", facts(&said));
    text += "What it means\n";
    for advice in &probe.advice {
        text += &one(advice);
    }
    if probe.kind == TargetKind::Model {
        text += "\nThis is about the drive as it is modelled; probe a real one before you change anything.\n";
    }
    text
}

fn rate(row: Option<&Row>) -> String {
    row.map_or("-".to_owned(), |row| number(row.per_second, 0))
}

/// Table 1.
pub(super) fn by_fsync(rows: Rows<'_>) -> Table {
    let counts = WRITES_PER_FSYNC.iter().map(ToString::to_string);
    let header = ["page".to_owned()].into_iter().chain(counts);
    let mut table = Table::new(header.chain(["none".to_owned(), "fsync, us".to_owned()]));
    for bytes in PAGE_BYTES {
        let mut cells = vec![format!("{} KiB", bytes / 1024)];
        cells.extend(WRITES_PER_FSYNC.iter().map(|count| rate(rows.writes(bytes, Some(*count)))));
        cells.push(rate(rows.writes(bytes, None)));
        let fsync = rows.writes(bytes, Some(1)).and_then(|row| row.fsync_us_p50);
        cells.push(fsync.map_or("-".to_owned(), |us| number(us, 0)));
        table.row(cells);
    }
    table
}

/// Table 2.
pub(super) fn by_page_size(rows: Rows<'_>) -> Table {
    let many = rows.0.iter().map(|row| row.load.clients).max().unwrap_or(1);
    let mut table = Table::new(["load", "16 KiB", "8 KiB", "4 KiB"]);
    let mut line = |name: String, find: &dyn Fn(u64) -> String| {
        table.row([name, find(16_384), find(8192), find(4096)]);
    };
    line(format!("reads, {many} clients"), &|bytes| rate(rows.reads(bytes)));
    line("writes, an fsync after each".to_owned(), &|bytes| rate(rows.writes(bytes, Some(1))));
    line("writes, an fsync after 256".to_owned(), &|bytes| rate(rows.writes(bytes, Some(256))));
    line(format!("writes, {many} clients, no fsync"), &|bytes| rate(rows.many_writes(bytes)));
    table
}

/// Logs and groups.
pub(super) fn in_order(rows: Rows<'_>) -> Table {
    let mut table = Table::new(["load", "a second", "MB/s", "fsync, us"]);
    let mut line = |name: String, row: Option<&Row>| {
        let Some(row) = row else { return };
        let fsync = row.fsync_us_p50.map_or("-".to_owned(), |us| number(us, 0));
        table.row([name, number(row.per_second, 0), format!("{:.1}", row.mb_per_s), fsync]);
    };
    let fdatasync = rows.find(LoadKind::LogFdatasync, LOG_PAGE_BYTES, Some(1));
    line("log of 8 KiB, write and fdatasync".to_owned(), fdatasync);
    line("log of 8 KiB, O_DSYNC".to_owned(), rows.find(LoadKind::LogDsync, LOG_PAGE_BYTES, None));
    for pages in GROUP_PAGES {
        let row = rows.find(LoadKind::GroupWrite, pages * LOG_PAGE_BYTES, Some(1));
        line(format!("groups of {pages} x 8 KiB, flushed"), row);
    }
    table
}

/// What is known besides figures, with a name for each.
pub(super) fn system(probe: &Probe) -> Vec<(&'static str, String)> {
    let system = &probe.system;
    let mut said = Vec::new();
    if let Some(found) = &system.file_system {
        let barriers = if found.barriers_off { ", write barriers off" } else { "" };
        said.push((
            "file system",
            format!("{} at {}, on {}{barriers}", found.kind, found.mounted_at, found.source),
        ));
    }
    said.extend(system.layers.iter().map(|layer| ("block device", describe(layer))));
    if system.layers.is_empty() && probe.kind != TargetKind::Model {
        said.push(("block device", "none that the system tells of".to_owned()));
    }
    let cache = match probe.volatile_cache {
        Some(true) => "volatile, by what is said of it",
        Some(false) => "none, or one that is said to survive power cuts",
        None => "not known",
    };
    said.push(("write cache", cache.to_owned()));
    if probe.kind != TargetKind::Model {
        said.push(("atomic writes", atomic_writes(probe)));
    }
    said.push(("flushes", flushes(probe).to_owned()));
    said
}

fn describe(layer: &Layer) -> String {
    let flag = |value: Option<bool>, yes: &str, no: &str| match value {
        Some(true) => yes.to_owned(),
        Some(false) => no.to_owned(),
        None => format!("{yes}: not told"),
    };
    let mut parts = vec![layer.name.clone()];
    if !layer.model.is_empty() {
        parts.push(layer.model.clone());
    }
    if layer.partition_start_bytes > 0 {
        parts.push(format!("a partition from byte {}", layer.partition_start_bytes));
    }
    parts.push(flag(layer.volatile_cache, "write back", "write through"));
    parts.push(flag(layer.fua, "FUA", "no FUA"));
    parts.push(match layer.atomic_write_bytes {
        Some(0) => "no atomic writes".to_owned(),
        Some(bytes) => format!("atomic writes to {bytes} bytes"),
        None => "atomic writes: not told".to_owned(),
    });
    if let (Some(logical), Some(physical)) = (layer.logical_block_bytes, layer.physical_block_bytes) {
        parts.push(format!("blocks of {logical} ({physical} inside)"));
    }
    if layer.is_disk {
        parts.push(flag(layer.rotational, "platters", "no platters"));
    }
    parts.join(", ")
}

fn atomic_writes(probe: &Probe) -> String {
    let said = |bytes: Option<u64>| match bytes {
        None => "not told".to_owned(),
        Some(0) => "none".to_owned(),
        Some(bytes) => format!("to {bytes} bytes"),
    };
    let device = said(probe.system.atomic_write_bytes());
    match probe.kind {
        TargetKind::NewFile => {
            format!("of the device {device}, of the file {}", said(probe.system.file_atomic_write_bytes))
        }
        _ => format!("of the device {device}"),
    }
}

fn flushes(probe: &Probe) -> &'static str {
    match probe.flushes {
        FlushPath::Sent => "sent to the disks, one for each fsync",
        FlushPath::NotNeeded => "not sent: the disks say that they need none",
        FlushPath::Missing => "NOT sent for each fsync, although a cache may be volatile",
        FlushPath::Unknown => "not known whether they reach a disk",
        FlushPath::Modelled => "carried out by the model",
    }
}

pub(super) fn verdict(verdict: Verdict) -> &'static str {
    match verdict {
        Verdict::Keep => "keep",
        Verdict::Consider => "consider",
        Verdict::Repair => "set",
    }
}

fn one(advice: &Advice) -> String {
    let Advice { of, setting, value, .. } = advice;
    let mut text = format!("\n{of}, {setting}: {} {value}\n", verdict(advice.verdict));
    for part in [advice.why.clone(), format!("Gain: {}", advice.gain), format!("Risk: {}", advice.risk)] {
        text += &wrapped(&part, COLUMNS, "  ");
    }
    text
}
