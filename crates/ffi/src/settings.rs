//! What the server is configured to use: checked before anything is touched.

use std::fs;
use std::path::{Path, PathBuf};

use mezzanine_engine::{Admission, ConfigError, Design, FRAMES_MAX, SyncMode, TierConfig};

use crate::message::Refusal;

const MB: u64 = 1 << 20;

/// Configuration of the tier of one server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Settings {
    /// The flash file or block device.
    pub flash_path: PathBuf,
    /// Bytes of flash that the tier may use.
    pub flash_bytes: u64,
    /// The server's page size in bytes.
    pub page_bytes: u32,
    /// Replacement.
    pub design: Design,
    /// Which pages may enter.
    pub admission: Admission,
    /// When dirty pages reach disk.
    pub sync_mode: SyncMode,
    /// Pages of a group; 0 for the default.
    pub group_pages: u32,
    /// The server's data directory, which must not hold the flash file.
    pub data_directory: PathBuf,
}

impl Settings {
    /// The configuration of a new tier.
    ///
    /// # Errors
    /// What is out of range, and what to do.
    pub fn tier_config(&self) -> Result<TierConfig, Refusal> {
        let largest = FRAMES_MAX * u64::from(self.page_bytes);
        if self.flash_bytes > largest {
            return Err(Refusal::new(format!(
                "mezzanine.flash_size is larger than a flash tier can be: {}",
                shown(self.flash_bytes)
            ))
            .hint(format!("Set it to at most {}.", shown(largest / MB * MB))));
        }
        self.fitted(self.flash_bytes).map_err(|error| {
            let refusal = Refusal::new(format!(
                "mezzanine.flash_size is too small for a flash tier: {}",
                shown(self.flash_bytes)
            ));
            match self.least_bytes() {
                Some(least) if self.group_pages == 0 => {
                    refusal.hint(format!("Set it to at least {}.", shown(least)))
                }
                Some(least) => refusal
                    .detail(format!("Groups of {} pages need {}.", self.group_pages, shown(least)))
                    .hint("Raise mezzanine.flash_size, or lower mezzanine.group_pages."),
                None => refusal.detail(error).hint("Change the parameter named above."),
            }
        })
    }

    /// The largest queue that fits into so many bytes of flash.
    fn fitted(&self, bytes: u64) -> Result<TierConfig, ConfigError> {
        let fits = |frames| match self.shaped(frames).geometry() {
            Ok(geometry) => geometry.flash_bytes() <= bytes,
            // Too few frames: more may do.
            Err(_) => true,
        };
        // The metadata's share depends on the number of frames, so the number is searched for.
        let (mut low, mut high) = (1, (bytes / u64::from(self.page_bytes)).clamp(1, FRAMES_MAX));
        while low < high {
            let middle = low + (high - low).div_ceil(2);
            if fits(middle) { low = middle } else { high = middle - 1 }
        }
        let config = self.shaped(low);
        config.geometry().map(|_| config)
    }

    /// The configuration with so many frames: defaults that follow from the size of the queue and of its groups.
    fn shaped(&self, frames: u64) -> TierConfig {
        let fitted = TierConfig::new(self.page_bytes, frames);
        let group_pages = if self.group_pages == 0 { fitted.group_pages } else { self.group_pages };
        let group = u64::from(group_pages);
        TierConfig {
            design: self.design,
            admission: self.admission,
            sync_mode: self.sync_mode,
            group_pages,
            staging_groups: (frames / (16 * group)).clamp(2, 16) as u32,
            segment_frames: (frames / 8).clamp(2 * group, 16_384) as u32,
            survivors_max: group_pages / 2,
            band_frames: (frames / 16).max(group),
            ..fitted
        }
    }

    /// The smallest flash, in whole megabytes, that a tier can be made of.
    fn least_bytes(&self) -> Option<u64> {
        let (mut low, mut high) = (1, 1 << 14);
        self.fitted(high * MB).ok()?;
        while low < high {
            let middle = low.midpoint(high);
            if self.fitted(middle * MB).is_ok() { high = middle } else { low = middle + 1 }
        }
        Some(low * MB)
    }

    /// The configuration with which a tier of the configuration `found` goes on: its shape from flash, policies from the
    /// settings as far as they are safe. `clean` says that it holds no only copies.
    pub fn merged(&self, found: &TierConfig, clean: bool) -> TierConfig {
        let mut config = TierConfig {
            design: self.design,
            survivors_max: (found.group_pages / 2).min(found.group_pages - 1),
            ..found.clone()
        };
        if clean {
            config.admission = self.admission;
            config.sync_mode = self.sync_mode;
        }
        config
    }

    /// Refuses a flash file inside the data directory: a backup would copy it, and a restore bring back another instant.
    ///
    /// # Errors
    /// Why the path cannot be used.
    pub fn check_path(&self) -> Result<(), Refusal> {
        let shown = self.flash_path.display();
        if !self.flash_path.is_absolute() {
            return Err(Refusal::new(format!("the path \"{shown}\" of the flash device is not absolute"))
                .hint("Name the file or block device by its absolute path in mezzanine.flash_path."));
        }
        let parent = self.flash_path.parent().unwrap_or(&self.flash_path);
        let real_parent = parent.canonicalize().map_err(|error| {
            Refusal::new(format!(
                "the directory \"{}\" of the flash device cannot be used: {error}",
                parent.display()
            ))
            .hint("Create it, readable and writable by the server's user.")
        })?;
        for (place, real) in self.places_of_the_server() {
            if real_parent.starts_with(&real) {
                return Err(Refusal::new(format!("the flash device \"{shown}\" lies in {place}"))
                    .detail("A backup would contain it, and a restored one would meet a tier of another instant.")
                    .hint("Choose a path outside of the data directory and of all tablespaces for mezzanine.flash_path."));
            }
        }
        Ok(())
    }

    /// Directories that belong to the cluster, where links lead, with what to call them.
    fn places_of_the_server(&self) -> Vec<(String, PathBuf)> {
        let data = &self.data_directory;
        let real = |path: &Path| path.canonicalize().unwrap_or_else(|_| path.to_path_buf());
        let mut places = vec![
            ("the data directory".to_owned(), real(data)),
            ("the directory of the log".to_owned(), real(&data.join("pg_wal"))),
        ];
        let tablespaces = fs::read_dir(data.join("pg_tblspc")).into_iter().flatten().flatten();
        places.extend(tablespaces.map(|link| {
            let real = real(&link.path());
            (format!("the tablespace \"{}\"", real.display()), real)
        }));
        places
    }
}

/// A size as PostgreSQL writes it.
fn shown(bytes: u64) -> String {
    match bytes / MB {
        megabytes if megabytes > 0 && megabytes % 1024 == 0 => format!("{}GB", megabytes / 1024),
        megabytes => format!("{megabytes}MB"),
    }
}
