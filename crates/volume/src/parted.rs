//! Files that were in a tier together, and are not to be parted.
//!
//! A file that is current on disk may go on with any tier. But a tier that it leaves may hold the newest
//! pages of others, and waits for every file that it knows before it lets one be changed. If another tier
//! takes the one and refuses the others, no device opens all of them any more. That is what a replacement of
//! the flash device leaves that failed before every sidecar said `current` (see `replace`), if the new device
//! is tried first.
//!
//! Files are attached one at a time, by hosts that do not know each other's files. So before a tier takes a
//! file from another one it looks at the sidecars of all the others that its path table names, and reads them
//! only; a successor's path table is durable before anybody can open it. If one says that its newest pages
//! are in the tier that the file would leave, the file is refused, and nothing has changed.
//!
//! The path table is asked, and not the table, which a crash may empty while a successor still has to keep
//! files together. A tier that is drained and closed lets its files go, and empties its path table.

use mezzanine_engine::planted::{self, Bug};

use crate::attach::{Candidate, found_sidecar};
use crate::core::Local;
use crate::error::{VolumeError, VolumeErrorKind};
use crate::registry::Registry;
use crate::sidecar::{Sidecar, SidecarState};

impl Local {
    /// Refuses a file that would leave its tier while others that were there with it cannot.
    pub(crate) fn refuse_parting(
        &self,
        candidate: &Candidate<'_>,
        sidecar: &Sidecar,
        registry: &Registry,
    ) -> Result<(), VolumeError> {
        let (Some(host), Some(opened)) = (self.tier_in_use(), &registry.tier) else { return Ok(()) };
        if sidecar.tier_uuid == host.tier.uuid() || planted::is(Bug::FilesParted) {
            return Ok(());
        }
        let own = std::path::absolute(candidate.path).unwrap_or_else(|_| candidate.path.to_owned());
        for path in opened.path_table.paths.values().filter(|path| **path != own) {
            let Some(store) = candidate.store.sibling(path) else { continue };
            let unknown = |error: VolumeError| {
                let reason = format!(
                    "the tier {} has the files of another one, and whether that still has the newest pages of {} is not known: {error}",
                    host.flash_name,
                    path.display()
                );
                VolumeError::new(error.kind(), "attach", &candidate.name, reason)
                    .advise("see to that sidecar and try again: nothing was changed")
                    .because(error)
            };
            let Some(other) = found_sidecar(&*store).map_err(unknown)? else { continue };
            if other.state != SidecarState::Dirty || other.tier_uuid != sidecar.tier_uuid {
                continue;
            }
            let reason = format!(
                "the tier {} has its files, but the newest pages of one of them, {}, are still in the tier {}, where this one was too: \
                 to take it alone would part them",
                host.flash_name,
                path.display(),
                other.tier_path
            );
            let advice = format!(
                "open both with {}: nothing was changed; or, if that is lost for good, restore {} from a backup and delete its \
                 sidecar {}",
                other.tier_path,
                path.display(),
                store.describe()
            );
            return Err(VolumeError::new(VolumeErrorKind::ForeignTier, "attach", &candidate.name, reason)
                .advise(advice));
        }
        Ok(())
    }
}
