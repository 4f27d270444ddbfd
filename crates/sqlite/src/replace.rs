//! `PRAGMA mezzanine_replace`: another flash file for a tier in use.
//!
//! The value is the path of the new file, and perhaps parameters as they stand in a URI:
//! `/mnt/new/app.mezz?flash_size=2GiB&force=yes`. What is not given stays as it is.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use mezzanine_volume::TierConfig;

use crate::error::Error;
use crate::mount::{Mount, replace_flash, sized, with_wishes};
use crate::params::{NAMES, Params, bad, choose};

/// What is asked for.
#[derive(Debug)]
struct Wanted {
    flash: PathBuf,
    params: Params,
    force: bool,
}

/// Answers the pragma.
pub(crate) fn replace(mount: &Arc<Mount>, argument: Option<&str>) -> Result<String, Error> {
    let Some(value) = argument else { return Ok(format!("the tier is on {}", mount.flash())) };
    let wanted = Wanted::parse(value)?;
    let before = mount.flash();
    replace_flash(mount, &wanted.flash, wanted.force, |present| wanted.tier(present))?;
    let now = mount.flash();
    Ok(format!(
        "the tier is on {now}; name it in the URI (flash={now}) from the next opening on. {before} is no longer needed"
    ))
}

impl Wanted {
    fn parse(value: &str) -> Result<Self, Error> {
        let (path, query) = value.split_once('?').unwrap_or((value, ""));
        let mut pairs = Vec::new();
        for part in query.split('&').filter(|part| !part.is_empty()) {
            let (name, value) = part.split_once('=').unwrap_or((part, ""));
            if name == "flash" || (name != "force" && !NAMES.contains(&name)) {
                let known: Vec<&str> = NAMES[1..].iter().copied().chain(["force"]).collect();
                let reason = format!("mezzanine_replace has no such parameter; use {}", known.join(", "));
                return Err(bad(name, value, &reason));
            }
            pairs.push((name, value));
        }
        let find = |name: &str| pairs.iter().find(|(known, _)| *known == name).map(|(_, value)| *value);
        if path.is_empty() {
            return Err(bad("mezzanine_replace", value, "it names no flash file; give its path"));
        }
        let force = match find("force") {
            Some(value) => choose("force", value, &[("yes", true), ("no", false)])?,
            None => false,
        };
        let params = Params::read(|name| find(name).map(OsString::from))?;
        if let (Some(most), None) = (params.flash_bytes_max, params.flash_bytes) {
            return Err(bad("flash_max_size", &most.to_string(), "give flash_size as well"));
        }
        Ok(Self { flash: Path::new(path).to_owned(), params, force })
    }

    /// The tier that is wanted in the place of one with these parameters.
    fn tier(&self, present: TierConfig) -> Result<TierConfig, Error> {
        let page_size = self.params.page_size.unwrap_or(present.page_size);
        let shaped = match self.params.flash_bytes {
            None => TierConfig { page_size, ..present },
            Some(bytes) => TierConfig {
                design: present.design,
                admission: present.admission,
                returning_only: present.returning_only,
                remembered_pages: present.remembered_pages,
                sync_mode: present.sync_mode,
                ..sized(page_size, bytes, self.params.flash_bytes_max)?
            },
        };
        Ok(with_wishes(shaped, &self.params))
    }
}
