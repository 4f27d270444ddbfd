//! The state of a flash drive between runs.

use std::path::Path;

use mezzanine_device::model::Mechanism;
use mezzanine_sim::timed::Setup;
use mezzanine_ssd::{Inside, Ssd};

use super::args::FROM_THE_INSIDE;
use crate::failure::Failure;

/// A flash drive that is kept in a file.
pub(super) struct KeptDrive<'a> {
    path: &'a Path,
    ssd: Ssd,
    fingerprint: u64,
}

impl<'a> KeptDrive<'a> {
    pub(super) fn open(path: &'a Path, setup: &Setup) -> Result<Self, Failure> {
        let model = &setup.flash_model;
        let failed = |error| Failure::usage("--flash-model", error);
        let inside = Inside::of_model(model).map_err(failed)?;
        if inside.is_some_and(|inside| inside.zones().is_some()) {
            let why = format!("{} has no translation layer whose state could be kept", model.name);
            return Err(Failure::usage("--flash-state", why).next("leave it out"));
        }
        let Some(ssd) = Ssd::of_model(model).map_err(failed)? else {
            let why = format!("{} is known by its times alone, and has no state to keep", model.name);
            return Err(Failure::usage("--flash-state", why).next(FROM_THE_INSIDE));
        };
        // Now, and not when the run is over.
        if path.parent().is_some_and(|folder| !folder.as_os_str().is_empty() && !folder.is_dir()) {
            let why = format!("there is no folder for {}", path.display());
            return Err(Failure::usage("--flash-state", why).next("make it, or name another file"));
        }
        // In what condition it began is past.
        let mut model = model.clone();
        if let Mechanism::Ssd(table) = &mut model.mechanism {
            table.remove("condition");
        }
        Ok(Self { path, ssd, fingerprint: model.fingerprint() })
    }

    /// How an earlier run left it, if there was one.
    pub(super) fn state(&self) -> Result<Option<Box<[u64]>>, Failure> {
        let state = self.ssd.load(self.fingerprint, self.path);
        state.map_err(|error| Failure::refused("--flash-state", error))
    }

    pub(super) fn keep(&self, state: &[u64]) -> Result<(), Failure> {
        let kept = self.ssd.save(self.fingerprint, state, self.path);
        kept.map_err(|error| Failure::refused("--flash-state", error))
    }
}
