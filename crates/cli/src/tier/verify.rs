//! `mezz tier verify`.

use std::path::PathBuf;

use clap::Args;
use mezzanine_engine::{DrainCursor, FlashPage, PageId, Tier};
use mezzanine_report::facts;
use serde::Serialize;

use super::inspect::state_name;
use super::lost::{self, LostPage, Names};
use super::only_copies::damage;
use super::open::Flash;
use super::postgres::can_be_redone;
use crate::failure::Failure;
use crate::output;
use crate::size::Size;

pub(crate) const EXAMPLES: &str = "Examples:
  mezz tier verify /mnt/nvme/app.mezz
  mezz tier verify /mnt/nvme/app.mezz --all --json

Clean pages are read with --all only: a damaged one is noticed when it is used, and read from its file instead. A last group that rotted on flash \
cannot be told from one that was torn by a power cut, and counts as never written.";

/// Damaged pages that are listed one by one; more are counted.
const LISTED_MAX: usize = 20;
/// Pages whose only copy is on flash are looked up this many at a time.
const BATCH_PAGES: usize = 1024;

#[derive(Debug, Args)]
pub(crate) struct VerifyArgs {
    /// The tier's file or block device.
    flash: PathBuf,

    /// Read every page, also those that their files have as well.
    #[arg(long)]
    all: bool,
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
    /// Of these, those that were lost before: the tier knows them, and carries their names.
    pages_lost: u64,
    lost: Vec<LostPage>,
    /// Pages whose files have them as well; read with --all.
    pages_clean_read: u64,
    pages_clean_damaged: u64,
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
    let look = Look { flash: &flash, tier: &recovered.tier, names: Names::of(&flash, &superblock) };
    let lost = look.names.lost(&recovered.tier);
    let dirty = look.at_dirty_pages(report.dirty);
    let clean = if args.all { look.at_clean_pages(report.valid - report.dirty) } else { Seen::default() };

    let mut findings: Vec<String> = Vec::new();
    for (copy, reason) in copies.iter().enumerate() {
        if let Some(reason) = reason {
            findings.push(format!("superblock {copy} cannot be used ({reason}); the other one is whole, and the next opening writes both"));
        }
    }
    findings.extend(dirty.listed);
    findings.extend(clean.listed.into_iter().map(|page| format!("{page}; its file has it as well")));
    let verification = Verification {
        flash: flash.name.clone(),
        ok: dirty.damaged == 0,
        state: state_name(superblock.state),
        superblocks_damaged: copies.iter().flatten().count() as u64,
        segments_read: report.segments_read,
        groups_scanned: report.groups_scanned,
        groups_torn: report.groups_torn,
        pages: report.valid,
        pages_dirty: report.dirty,
        pages_dirty_damaged: dirty.damaged,
        pages_lost: lost.len() as u64,
        lost,
        pages_clean_read: clean.read,
        pages_clean_damaged: clean.damaged,
        bytes_read: report.bytes_read + (dirty.read + clean.read) * u64::from(superblock.config.page_size),
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
    let failure = Failure::check(
        &flash.name,
        format!("{} pages of which flash held the only copy are damaged", verification.pages_dirty_damaged),
    );
    Err(if can_be_redone(&superblock) {
        failure.next("remove the file, or choose another in mezzanine.flash_path: the server then recovers from its files and its log, and nothing is lost")
    } else {
        failure.next(next_step(look.names.are_of_cluster()))
    })
}

/// What to do about pages that are lost where nothing else has them.
fn next_step(of_cluster: bool) -> &'static str {
    if of_cluster {
        "restore those pages from a backup; the rest can be drained"
    } else {
        "restore those pages from a backup, or give them up by name (`mezz tier give-up`); `mezz tier drain` writes the rest, and the tier is drained when none is lost"
    }
}

/// What a pass over some of the pages has shown.
#[derive(Default)]
struct Seen {
    read: u64,
    damaged: u64,
    listed: Vec<String>,
}

/// A recovered tier whose pages are read.
struct Look<'a> {
    flash: &'a Flash,
    tier: &'a Tier,
    names: Names,
}

impl Look<'_> {
    fn at_dirty_pages(&self, dirty: u64) -> Seen {
        let bar = output::progress(dirty, "reading the pages that are on flash only");
        let mut seen = Seen::default();
        let mut cursor = DrainCursor::default();
        let mut buffer = vec![0; self.tier.geometry().page_size()];
        loop {
            let batch = self.tier.drain_batch(&mut cursor, BATCH_PAGES);
            if batch.is_empty() {
                break;
            }
            for page in &batch {
                self.read(&page.id, &page.flash, &mut buffer, &mut seen);
            }
            bar.inc(batch.len() as u64);
        }
        bar.finish_and_clear();
        seen
    }

    fn at_clean_pages(&self, clean: u64) -> Seen {
        let bar = output::progress(clean, "reading the pages that files have as well");
        let mut seen = Seen::default();
        let mut cursor = self.tier.first_page();
        let mut buffer = vec![0; self.tier.geometry().page_size()];
        while let Some(batch) = self.tier.pages(&mut cursor, BATCH_PAGES) {
            let before = seen.read;
            for page in batch.iter().filter(|page| !page.flash.dirty) {
                self.read(&page.id, &page.flash, &mut buffer, &mut seen);
            }
            bar.inc(seen.read - before);
        }
        bar.finish_and_clear();
        seen
    }

    fn read(&self, id: &PageId, at: &FlashPage, buffer: &mut [u8], seen: &mut Seen) {
        let reason = damage(self.flash, self.tier, at, buffer);
        seen.read += 1;
        if let Some(reason) = reason {
            seen.damaged += 1;
            if seen.listed.len() < LISTED_MAX {
                seen.listed.push(format!(
                    "{}, at byte {} of flash: {reason}",
                    self.names.page(id),
                    at.offset
                ));
            }
        }
    }
}

fn on_flash_only(v: &Verification) -> String {
    let lost = if v.lost.is_empty() { String::new() } else { format!(", {} known to be lost", v.pages_lost) };
    format!("{}, {} of them damaged{lost}", v.pages_dirty, v.pages_dirty_damaged)
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
        ("on flash only", on_flash_only(v)),
        (
            "on disk as well",
            match v.pages_clean_read {
                0 if v.pages > v.pages_dirty => "not read: --all reads them".to_owned(),
                read => format!(
                    "{read}, {} of them damaged: they are read from their files",
                    v.pages_clean_damaged
                ),
            },
        ),
        ("read", Size(v.bytes_read).to_string()),
        ("verdict", if v.ok { "everything that was acknowledged is there" } else { "DAMAGED" }.to_owned()),
    ]);
    for finding in &v.findings {
        text.push_str(&format!("- {finding}\n"));
    }
    text + &lost::lines(&v.lost)
}
