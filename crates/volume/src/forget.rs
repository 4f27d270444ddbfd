//! Going on without a file that the tier waits for.
//!
//! A tier that may hold only copies takes no changes before every file that it knows is attached: one may be
//! attached later, and must find its pages. If the file is gone for good, nobody comes, and the other files
//! cannot be changed nor drained. Only a person can know that, and says it by the file's name.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use mezzanine_engine::planted::{self, Bug};
use mezzanine_engine::{DrainCursor, IdRange};

use crate::core::{Local, TierHost, lock};
use crate::error::{VolumeError, VolumeErrorKind};
use crate::registry::OpenedTier;

const OPERATION: &str = "forget";
/// Pages that are counted at once.
const BATCH_PAGES: usize = 1024;

/// A file that a tier was told to forget.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Forgotten {
    /// The number that the tier had for it, which no other file gets.
    pub number: u32,
    /// Its path, as the tier remembered it.
    pub path: PathBuf,
    /// Pages that flash had in a newer version than disk. They are gone for good.
    pub pages: u64,
}

/// The end of an advice to attach files: what to do about those that nobody can attach any more.
pub(crate) fn or_forget(flash: &str, names: &[String]) -> String {
    format!(
        "or give up what is gone for good: mezz tier forget {flash} {}, or PRAGMA mezzanine_forget in a process that \
         has the tier open",
        names.join(" ")
    )
}

impl Local {
    /// See [`crate::Volume::forget`].
    pub(crate) fn forget_files(&self, paths: &[PathBuf]) -> Result<Vec<Forgotten>, VolumeError> {
        let mut registry = lock(&self.registry);
        let host = self.tier_in_use();
        let (Some(host), Some(opened)) = (host, registry.tier.as_mut()) else {
            let reason = "the volume was opened without a tier, or has lost it";
            return Err(VolumeError::new(VolumeErrorKind::NoTier, OPERATION, "the volume", reason));
        };
        let host = &host;
        let waited_for = self.missing_files(host);
        let named = |path: &PathBuf| self.find_waited_for(opened, &waited_for, path);
        let numbers = paths.iter().map(named).collect::<Result<BTreeSet<u32>, _>>()?;
        let others: Vec<String> = waited_for
            .iter()
            .filter(|number| !numbers.contains(number))
            .map(|number| opened.path_table.name(*number))
            .collect();
        if !others.is_empty() {
            let reason = format!("it waits for other files as well: {}", others.join(", "));
            return Err(VolumeError::new(
                VolumeErrorKind::FileNotAttached,
                OPERATION,
                &host.flash_name,
                reason,
            )
            .advise("attach those first, or have it forget them as well"));
        }
        self.start(&mut registry)?;
        let Some(opened) = registry.tier.as_mut() else { return Ok(Vec::new()) };
        // First: what is not written has changed nothing, and can be tried again.
        let mut path_table = opened.path_table.clone();
        numbers.iter().for_each(|number| drop(path_table.paths.remove(number)));
        let failed = |error| VolumeError::from_device(OPERATION, &host.flash_name, error);
        let written = path_table.write(&*host.flash).map_err(failed);
        if written.is_err() && !planted::is(Bug::ForgottenBeforeWritten) {
            return written.map(|()| Vec::new());
        }
        let mut forgotten = Vec::new();
        for number in numbers {
            let pages = pages_in(host, &IdRange::blocks_from(u64::from(number), 0));
            let path = opened.path_table.paths.remove(&number).unwrap_or_default();
            host.table().table.remove(number);
            // Pages of a number that is not in the table go nowhere, and nobody waits for it.
            opened.forget.push(number);
            forgotten.push(Forgotten { number, path, pages });
        }
        written?;
        self.completed(&mut registry, host)?;
        host.changed();
        self.sync_tier(host)?;
        Ok(forgotten)
    }

    fn find_waited_for(
        &self,
        opened: &OpenedTier,
        waited_for: &[u32],
        path: &Path,
    ) -> Result<u32, VolumeError> {
        let absolute = std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
        let is_it = |number: &&u32| opened.path_table.path(**number) == Some(&absolute);
        waited_for.iter().find(is_it).copied().ok_or_else(|| {
            let reason = match waited_for.is_empty() {
                true => "the tier waits for no file".to_owned(),
                false => {
                    let names: Vec<String> =
                        waited_for.iter().map(|number| opened.path_table.name(*number)).collect();
                    format!("the tier does not wait for it, but for {}", names.join(", "))
                }
            };
            VolumeError::new(
                VolumeErrorKind::FileNotAttached,
                OPERATION,
                absolute.display().to_string(),
                reason,
            )
            .advise("name the file by the path under which it was used with the tier")
        })
    }
}

/// Pages of a file that are newer on flash than on disk.
fn pages_in(host: &TierHost, range: &IdRange) -> u64 {
    let (mut cursor, mut pages) = (DrainCursor::default(), 0);
    loop {
        let batch = host.tier.drain_batch(&mut cursor, BATCH_PAGES);
        if batch.is_empty() {
            return pages;
        }
        pages += batch.iter().filter(|page| range.contains(&page.id)).count() as u64;
    }
}
