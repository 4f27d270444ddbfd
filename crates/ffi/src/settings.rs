//! What the server is configured to use: checked before anything is touched.

use std::path::PathBuf;

use mezzanine_engine::{Admission, Design, SyncMode, TierConfig};

use crate::message::Refusal;

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
        let fitted = TierConfig::for_flash_bytes(self.page_bytes, self.flash_bytes);
        let group_pages = if self.group_pages == 0 { fitted.group_pages } else { self.group_pages };
        let config = TierConfig {
            design: self.design,
            admission: self.admission,
            sync_mode: self.sync_mode,
            group_pages,
            survivors_max: fitted.survivors_max.min(group_pages.saturating_sub(1)),
            ..fitted
        };
        config.geometry().map(|_| config).map_err(|error| {
            Refusal::new(format!("no tier can be made of {} bytes of flash", self.flash_bytes))
                .detail(error)
                .hint("give the tier more flash, or change the parameter named above")
        })
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
        let data = self.data_directory.canonicalize().unwrap_or_else(|_| self.data_directory.clone());
        if real_parent.starts_with(&data) {
            return Err(Refusal::new(format!("the flash device \"{shown}\" lies in the data directory"))
                .detail("Backups of the data directory would contain it, and a restored one would meet a tier of another instant.")
                .hint("Choose a path outside of it for mezzanine.flash_path."));
        }
        Ok(())
    }
}
