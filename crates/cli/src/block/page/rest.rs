//! `mezz block check` of a page engine that is not attached.

use std::path::Path;

use mezzanine_engine::format::TierState;
use mezzanine_report::facts;
use mezzanine_volume::known_files;
use serde::Serialize;

use super::CacheFacts;
use crate::failure::Failure;
use crate::output;
use crate::size::Size;
use crate::tier::Flash;

#[derive(Serialize)]
struct AtRest {
    #[serde(flatten)]
    cache: CacheFacts,
    epoch: u32,
    /// It was attached and did not come to an orderly end.
    in_use: bool,
    /// Pages that it would begin with.
    pages: u64,
    /// Of these, pages that it alone has in their newest version.
    pages_newer: u64,
    /// Of these, pages that no read brings, as far as is known without reading them all.
    pages_lost: u64,
    /// Volumes that it knows.
    volumes: Vec<String>,
}

/// Recovers the tier in memory, without writing anything.
pub(in super::super) fn at_rest(path: &Path, json: bool) -> Result<(), Failure> {
    let path = path.canonicalize().unwrap_or_else(|_| path.to_owned());
    let mut flash = Flash::open(&path)?;
    let superblock = flash.superblock()?;
    let geometry = flash.geometry(&superblock)?;
    let bar = output::spinner("reading the cache device");
    let recovered = flash.recover(&superblock, &geometry)?;
    bar.finish_and_clear();
    let found = AtRest {
        cache: CacheFacts::new(flash.name.clone(), &superblock.config, &geometry),
        epoch: superblock.epoch,
        in_use: superblock.state == TierState::Open,
        pages: recovered.report.valid,
        pages_newer: recovered.report.dirty,
        pages_lost: recovered.tier.lost().len() as u64,
        volumes: known_files(&*flash.device).into_values().map(|path| path.display().to_string()).collect(),
    };
    if json {
        output::json(&found)?
    } else {
        output::print(&found.text())?
    }
    if found.pages_lost > 0 {
        let reason = format!("{} pages that it alone has cannot be read", found.pages_lost);
        return Err(Failure::check(path.display(), reason).next("`mezz tier verify` names them"));
    }
    Ok(())
}

impl AtRest {
    fn text(&self) -> String {
        let newer = Size(self.pages_newer * u64::from(self.cache.page_bytes));
        let how = if self.in_use { "not detached" } else { "detached" };
        facts(&[
            ("cache", format!("{}, mode {} (epoch {})", self.cache.line(), self.cache.mode, self.epoch)),
            ("state", how.to_owned()),
            (
                "pages",
                format!(
                    "{} of {}; {} of them ({newer}) are here alone",
                    self.pages, self.cache.frames, self.pages_newer
                ),
            ),
            ("volumes", self.volumes.join(", ")),
            ("checksums", "`mezz tier verify` reads every page".to_owned()),
        ])
    }
}
