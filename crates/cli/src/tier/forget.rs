//! `mezz tier forget`.

use std::path::{Path, PathBuf};

use clap::Args;
use mezzanine_volume::{PathSidecar, SidecarState, known_files};
use serde::Serialize;

use super::in_use::{InUse, failure};
use super::open::Flash;
use crate::failure::{Failure, chain};
use crate::output;

pub(crate) const EXAMPLES: &str = "Examples:
  mezz tier forget /mnt/nvme/app.mezz /srv/old.db
  mezz tier forget /mnt/nvme/app.mezz /srv/old.db --also /srv/moved.db --json

For a file that is gone for good: a tier that may hold the only copy of its pages waits for it, and takes no changes of the others. `mezz tier inspect` lists the files \
that a tier knows. The others are found where they were last, or are named with --also. What flash alone had of the forgotten file is lost.";

/// The name that databases are attached by here.
const VFS: &str = "mezzanine-forget";

#[derive(Debug, Args)]
pub(crate) struct ForgetArgs {
    /// The tier's file or block device.
    flash: PathBuf,

    /// The file that is gone, by the path under which it was used. More than one for several.
    #[arg(required = true)]
    files: Vec<PathBuf>,

    /// Another file whose pages the tier holds, and which is elsewhere by now. More than once for several.
    #[arg(long, value_name = "FILE")]
    also: Vec<PathBuf>,

    /// Forget a file though it is there and its newest pages are in this tier.
    #[arg(long)]
    force: bool,
}

#[derive(Serialize)]
struct Forgot {
    flash: String,
    files: Vec<ForgottenFile>,
}

#[derive(Serialize)]
struct ForgottenFile {
    file: String,
    number: u32,
    pages: u64,
    page_bytes: u32,
    /// A log of an SQLite database that is of what was forgotten: SQLite would play it into whatever is put
    /// there.
    #[serde(skip_serializing_if = "Option::is_none")]
    log: Option<String>,
}

pub(crate) fn run(args: &ForgetArgs, json: bool) -> Result<(), Failure> {
    let next = "nothing was changed; a cluster's relations are dropped by its server";
    let tier = InUse::look(&args.flash, &args.also, next)?;
    let page_bytes = tier.page_size;
    let files: Vec<PathBuf> = args.files.iter().map(|file| absolute(file)).collect();
    let (tier_uuid, known) = {
        let mut flash = Flash::open(&args.flash)?;
        (flash.superblock()?.tier_uuid, known_files(&*flash.device))
    };
    if !args.force {
        files.iter().try_for_each(|file| refuse_file_that_is_there(file, tier_uuid))?;
    }
    let in_use = InUse::open(&args.flash, VFS, tier, false)?;
    let waits_for = |path: &&PathBuf| in_use.volume.unattached().contains(path);
    let elsewhere = args.also.iter().map(|file| absolute(file));
    let others: Vec<PathBuf> = elsewhere.chain(known.into_values().filter(|path| path.exists())).collect();
    for other in others.iter().filter(|other| !files.contains(other)) {
        // One that is named is to be attached, and of the others those that the tier waits for.
        if args.also.iter().any(|named| absolute(named) == *other) || waits_for(&other) {
            in_use.attach_unread(other)?;
        }
    }
    let forgotten = in_use.volume.forget(&files).map_err(|error| failure(&args.flash, &error));
    let closed = in_use.vfs.close().map_err(|error| Failure::refused(args.flash.display(), chain(&error)));
    let forgotten = forgotten?;
    closed?;
    let log_of =
        |file: &Path| mezzanine_sqlite::unfinished_logs(file).first().map(|log| log.display().to_string());
    let files = forgotten.into_iter().map(|gone| ForgottenFile {
        log: log_of(&gone.path),
        file: gone.path.display().to_string(),
        number: gone.number,
        pages: gone.pages,
        page_bytes,
    });
    let forgot = Forgot { flash: args.flash.display().to_string(), files: files.collect() };
    if json {
        return output::json(&forgot);
    }
    let line = |gone: &ForgottenFile| {
        let ForgottenFile { file, number, pages, page_bytes, log } = gone;
        let what = match pages {
            0 => "flash had no page of it that disk had not".to_owned(),
            1 => format!("1 page of {page_bytes} bytes that flash alone had is gone for good"),
            _ => format!("{pages} pages of {page_bytes} bytes that flash alone had are gone for good"),
        };
        let then = log.as_ref().map_or(String::new(), |log| {
            format!(
                "its log is still there, {log}: SQLite plays it into whatever is put in the place of the \
                 database, so remove its directory before a backup is opened there\n"
            )
        });
        format!("{file} (number {number}) is forgotten: {what}\n{then}")
    };
    output::print(&forgot.files.iter().map(line).collect::<String>())
}

fn absolute(path: &Path) -> PathBuf {
    std::path::absolute(path).unwrap_or_else(|_| path.to_owned())
}

fn refuse_file_that_is_there(file: &Path, tier_uuid: [u8; 16]) -> Result<(), Failure> {
    if !file.exists() {
        return Ok(());
    }
    let why = match PathSidecar::beside(file).found() {
        // One that went on with another tier needs nothing of this one.
        Some(found) if found.tier_uuid != tier_uuid || found.state != SidecarState::Dirty => return Ok(()),
        Some(_) => "it is there, and its newest pages are in this tier",
        None if !PathSidecar::path_beside(file).try_exists().unwrap_or(true) => return Ok(()),
        None => {
            "it is there, and its sidecar, which says whether its newest pages are in this tier, cannot be read"
        }
    };
    Err(Failure::refused(file.display(), why).next(
        "drain the tier (mezz tier drain), or remove the file first; --force forgets what the tier has of it",
    ))
}
