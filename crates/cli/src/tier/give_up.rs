//! `mezz tier give-up`.

use std::path::PathBuf;

use clap::Args;
use serde::Serialize;

use super::in_use::{InUse, failure};
use crate::failure::{Failure, chain};
use crate::output;

pub(crate) const EXAMPLES: &str = "Examples:
  mezz tier give-up /mnt/nvme/app.mezz app.db --block 5
  mezz tier give-up /mnt/nvme/app.mezz app.db --block 5 --block 9 --also other.db --json

Only a page that no read brings is given up; `mezz tier verify` names those. Its place then has a page that SQLite calls malformed: never zeros, and never the older \
version on disk. Afterwards the tier can be drained, and the database repaired with its own means (.recover of the sqlite3 shell). What the page held is \
gone for good: restore the file from a backup instead if there is one.";

/// The name that databases are attached by here.
const VFS: &str = "mezzanine-give-up";

#[derive(Debug, Args)]
pub(crate) struct GiveUpArgs {
    /// The tier's file or block device.
    flash: PathBuf,

    /// The file whose page is lost.
    file: PathBuf,

    /// The page, by its number in the file: the bytes from that times the tier's page size on. More than
    /// once for several.
    #[arg(long = "block", required = true, value_name = "NUMBER")]
    blocks: Vec<u64>,

    /// Another file whose pages the tier holds. More than once for several.
    #[arg(long, value_name = "FILE")]
    also: Vec<PathBuf>,
}

#[derive(Serialize)]
struct GivenUp {
    flash: String,
    file: String,
    blocks: Vec<u64>,
    page_bytes: u32,
}

pub(crate) fn run(args: &GiveUpArgs, json: bool) -> Result<(), Failure> {
    let files: Vec<PathBuf> = std::iter::once(&args.file).chain(&args.also).cloned().collect();
    let next = "nothing was changed; restore the cluster from a backup and let its log go forward";
    let tier = InUse::look(&args.flash, &files, next)?;
    let page_bytes = tier.page_size;
    let in_use = InUse::open(&args.flash, VFS, tier, false)?;
    let file = in_use.attach_unread(&args.file)?;
    args.also.iter().try_for_each(|other| in_use.attach_unread(other).map(drop))?;
    let mut blocks = Vec::new();
    let done = args.blocks.iter().try_for_each(|block| {
        file.give_up(block.saturating_mul(page_bytes.into())).map(|()| blocks.push(*block))
    });
    // Those before one that is refused are given up all the same.
    let closed = in_use.vfs.close().map_err(|error| Failure::refused(args.flash.display(), chain(&error)));
    done.map_err(|error| {
        let given_up: Vec<String> = blocks.iter().map(u64::to_string).collect();
        match given_up.is_empty() {
            true => failure(&args.flash, &error),
            false => failure(&args.flash, &error)
                .next(format!("before it these blocks were given up: {}", given_up.join(", "))),
        }
    })?;
    closed?;
    let given_up = GivenUp {
        flash: args.flash.display().to_string(),
        file: args.file.display().to_string(),
        blocks,
        page_bytes,
    };
    if json {
        return output::json(&given_up);
    }
    let page = |block: &u64| {
        let first = block * u64::from(page_bytes);
        format!(
            "block {block} of {} (bytes {first} to {}) is given up: what it held is gone for good\n",
            given_up.file,
            first + u64::from(page_bytes) - 1
        )
    };
    output::print(&given_up.blocks.iter().map(page).collect::<String>())
}
