//! `mezz tier verify`.

use std::path::PathBuf;

use clap::Args;
use mezzanine_device::Device as _;
use mezzanine_engine::{DirtyPage, DrainCursor, Tier};
use serde::Serialize;

use super::inspect::state_name;
use super::open::Flash;
use crate::failure::{Failure, chain};
use crate::output::{self, facts};
use crate::size::Size;

pub(crate) const EXAMPLES: &str = "Examples:
  mezz tier verify /mnt/nvme/app.mezz
  mezz tier verify /mnt/nvme/app.mezz --json

Clean pages are not read: a damaged one is noticed when it is used, and read from its file instead. A last group that rotted on flash \
cannot be told from one that was torn by a power cut, and counts as never written.";

/// Damaged pages that are listed one by one; more are counted.
const LISTED_MAX: usize = 20;
/// Pages whose only copy is on flash are looked up this many at a time.
const BATCH_PAGES: usize = 1024;

#[derive(Debug, Args)]
pub(crate) struct VerifyArgs {
    /// The tier's file or block device.
    flash: PathBuf,
}

#[derive(Serialize)]
struct Verification {
    flash: String,
    ok: bool,
    state: &'static str,
    superblocks_damaged: u64,
    segments_read: u64,
    groups_scanned: u64,
    groups_torn: u64,
    pages: u64,
    pages_dirty: u64,
    pages_dirty_damaged: u64,
    bytes_read: u64,
    /// What is wrong, for people.
    findings: Vec<String>,
}

pub(crate) fn run(args: &VerifyArgs, json: bool) -> Result<(), Failure> {
    let mut flash = Flash::open(&args.flash)?;
    let superblock = flash.superblock()?;
    let copies = flash.superblock_copies();
    let geometry = flash.geometry(&superblock)?;
    let recovered = flash.recover(&superblock, &geometry)?;
    let report = &recovered.report;
    let damage = check_dirty_pages(&flash, &recovered.tier, report.dirty)?;

    let mut findings: Vec<String> = Vec::new();
    for (copy, reason) in copies.iter().enumerate() {
        if let Some(reason) = reason {
            findings.push(format!("superblock {copy} cannot be used ({reason}); the other one is whole, and the next opening writes both"));
        }
    }
    findings.extend(damage.listed);
    let verification = Verification {
        flash: flash.name.clone(),
        ok: damage.pages == 0,
        state: state_name(superblock.state),
        superblocks_damaged: copies.iter().flatten().count() as u64,
        segments_read: report.segments_read,
        groups_scanned: report.groups_scanned,
        groups_torn: report.groups_torn,
        pages: report.valid,
        pages_dirty: report.dirty,
        pages_dirty_damaged: damage.pages,
        bytes_read: report.bytes_read + damage.bytes_read,
        findings,
    };
    if json {
        output::json(&verification)?;
    } else {
        output::print(&text(&verification))?;
    }
    if verification.ok {
        return Ok(());
    }
    Err(Failure::check(
        &flash.name,
        format!("{} pages of which flash held the only copy are damaged", damage.pages),
    )
    .next("restore those pages from a backup; the rest can be drained"))
}

#[derive(Default)]
struct Damage {
    pages: u64,
    bytes_read: u64,
    listed: Vec<String>,
}

fn check_dirty_pages(flash: &Flash, tier: &Tier, dirty: u64) -> Result<Damage, Failure> {
    let bar = output::progress(dirty, "reading the pages that are on flash only");
    let mut damage = Damage::default();
    let mut cursor = DrainCursor::default();
    let mut buffer = vec![0; tier.geometry().page_size()];
    loop {
        let batch = tier.drain_batch(&mut cursor, BATCH_PAGES);
        if batch.is_empty() {
            break;
        }
        for page in &batch {
            let reason = match flash.device.read_at(&mut buffer, page.flash.offset) {
                Ok(()) if tier.verify(&page.flash, &buffer) => None,
                Ok(()) => Some("its checksum does not fit".to_owned()),
                Err(error) => Some(chain(&error)),
            };
            damage.bytes_read += buffer.len() as u64;
            if let Some(reason) = reason {
                damage.pages += 1;
                if damage.listed.len() < LISTED_MAX {
                    damage.listed.push(describe(page, &reason));
                }
            }
        }
        bar.inc(batch.len() as u64);
    }
    bar.finish_and_clear();
    Ok(damage)
}

fn describe(page: &DirtyPage, reason: &str) -> String {
    format!("page {} of file {} at byte {}: {reason}", page.id.block(), page.id.file(), page.flash.offset)
}

fn text(v: &Verification) -> String {
    let mut text = facts(&[
        ("flash", v.flash.clone()),
        ("state", v.state.to_owned()),
        ("superblocks", format!("{} of 2 whole", 2 - v.superblocks_damaged)),
        ("metadata", format!("{} segments, whole", v.segments_read)),
        (
            "groups after it",
            format!("{} whole, {} torn at the end (never acknowledged)", v.groups_scanned, v.groups_torn),
        ),
        ("pages", v.pages.to_string()),
        ("on flash only", format!("{}, {} of them damaged", v.pages_dirty, v.pages_dirty_damaged)),
        ("read", Size(v.bytes_read).to_string()),
        ("verdict", if v.ok { "everything that was acknowledged is there" } else { "DAMAGED" }.to_owned()),
    ]);
    for finding in &v.findings {
        text.push_str(&format!("- {finding}\n"));
    }
    text
}
