//! What the server is configured to use: checked before anything is touched.

use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use mezzanine_engine::{Admission, ConfigError, Design, FRAMES_MAX, SyncMode, TierConfig};

use crate::message::Refusal;
use crate::relation_files::RelationFiles;

const MB: u64 = 1 << 20;

/// The engine's choice for all but small tiers.
const GROUP_PAGES_DEFAULT: u32 = 64;

/// Configuration of the tier of one server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Settings {
    /// The flash file or block device.
    pub flash_path: PathBuf,
    /// Bytes of flash that the tier may use.
    pub flash_bytes: u64,
    /// Bytes of flash up to which it can be made to grow while it is in use; 0 for no more than that.
    pub flash_bytes_max: u64,
    /// The server's page size in bytes.
    pub page_bytes: u32,
    /// Replacement.
    pub design: Design,
    /// Which pages may enter.
    pub admission: Admission,
    /// Of clean pages only those enter that were offered before, not long ago.
    pub returning_only: bool,
    /// When dirty pages reach disk.
    pub sync_mode: SyncMode,
    /// Pages of a group; 0 for the default.
    pub group_pages: u32,
    /// The server's data directory, which must not hold the flash file.
    pub data_directory: PathBuf,
    /// How relations lie there; `None` if their files are not looked at.
    pub relation_files: Option<RelationFiles>,
}

impl Settings {
    /// The configuration of a new tier.
    ///
    /// # Errors
    /// What is out of range, and what to do.
    pub fn tier_config(&self) -> Result<TierConfig, Refusal> {
        self.check_order_of_sizes()?;
        let fitted = self.fitted(self.flash_bytes).map_err(|error| {
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
        })?;
        self.sized(&fitted).ok_or_else(|| {
            Refusal::new("mezzanine.flash_size is too small for a flash tier that can grow to mezzanine.flash_size_max")
                .detail("The metadata on flash is laid out for the larger size.")
                .hint("Raise mezzanine.flash_size, or lower mezzanine.flash_size_max.")
        })
    }

    fn check_order_of_sizes(&self) -> Result<(), Refusal> {
        let largest = FRAMES_MAX * u64::from(self.page_bytes);
        for (name, bytes) in [("flash_size", self.flash_bytes), ("flash_size_max", self.flash_bytes_max)] {
            if bytes > largest {
                return Err(Refusal::new(format!(
                    "mezzanine.{name} is larger than a flash tier can be: {}",
                    shown(bytes)
                ))
                .hint(format!("Set it to at most {}.", shown(largest / MB * MB))));
            }
        }
        if self.flash_bytes_max != 0 && self.flash_bytes_max < self.flash_bytes {
            return Err(Refusal::new(format!(
                "mezzanine.flash_size_max is less than mezzanine.flash_size: {} and {}",
                shown(self.flash_bytes_max),
                shown(self.flash_bytes)
            ))
            .hint("Raise mezzanine.flash_size_max, or set it to 0 for a tier that does not grow."));
        }
        Ok(())
    }

    /// The configuration with as many frames as are configured now, and as much room; nothing else of it
    /// changes. `None` if they do not suffice for it.
    fn sized(&self, shape: &TierConfig) -> Option<TierConfig> {
        let page = u64::from(shape.page_size);
        let room = self.flash_bytes.max(self.flash_bytes_max);
        let roomy = TierConfig { frames_max: shape.frames, ..shape.clone() }.with_room_in(room);
        let geometry = roomy.geometry().ok()?;
        let overhead = geometry.flash_bytes() - geometry.frames_max() * page;
        let frames = (self.flash_bytes.checked_sub(overhead)? / page).min(roomy.frames_max);
        let config = TierConfig {
            frames,
            ahead_frames: shape.ahead_frames.min(frames / 2),
            band_frames: shape.band_frames.min(frames),
            ..roomy
        };
        config.geometry().is_ok().then_some(config)
    }

    /// Whether a tier of this configuration has the sizes that are configured now.
    pub(crate) fn accepts_shape(&self, found: &TierConfig) -> bool {
        let groups = match self.group_pages {
            0 => found.group_pages <= GROUP_PAGES_DEFAULT,
            given => found.group_pages == given,
        };
        let sizes = |config: &TierConfig| (config.frames, config.frames_max.max(config.frames));
        groups
            && found.page_size == self.page_bytes
            && self.sized(found).is_some_and(|config| sizes(&config) == sizes(found))
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

    /// The configuration with so many frames: defaults that follow from the size of the queue and of its
    /// groups.
    fn shaped(&self, frames: u64) -> TierConfig {
        let fitted = TierConfig::new(self.page_bytes, frames);
        let group_pages = if self.group_pages == 0 { fitted.group_pages } else { self.group_pages };
        let group = u64::from(group_pages);
        TierConfig {
            design: self.design,
            admission: self.admission,
            returning_only: self.returning_only,
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

    /// The configuration with which a tier of the configuration `found` goes on: its shape from flash,
    /// policies from the settings as far as they are safe. `clean` says that it holds no only copies.
    pub fn merged(&self, found: &TierConfig, clean: bool) -> TierConfig {
        // Pages in a queue and pages in their places are laid out differently.
        let alike = found.design.is_laid_out_like(self.design);
        let mut config = TierConfig {
            design: if alike { self.design } else { found.design },
            survivors_max: (found.group_pages / 2).min(found.group_pages - 1),
            // A clean page may always be left out, and always be taken.
            returning_only: self.returning_only,
            remembered_pages: None,
            ..found.clone()
        };
        if clean {
            config.admission = self.admission;
            config.sync_mode = self.sync_mode;
        }
        config
    }

    /// Refuses a flash file inside the data directory: a backup would copy it, and a restore bring back
    /// another instant.
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
            .hint("Create it, readable and writable by the server's user, or mount what it lies on.")
            .of_absent_device(error.kind() == ErrorKind::NotFound)
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
pub(crate) fn shown(bytes: u64) -> String {
    match bytes / MB {
        megabytes if megabytes > 0 && megabytes % 1024 == 0 => format!("{}GB", megabytes / 1024),
        megabytes => format!("{megabytes}MB"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn settings(flash_mb: u64, max_mb: u64, group_pages: u32) -> Settings {
        Settings {
            flash_path: "/flash".into(),
            flash_bytes: flash_mb * MB,
            flash_bytes_max: max_mb * MB,
            page_bytes: 8192,
            design: Design::FaceGsc,
            admission: Admission::Both,
            returning_only: false,
            sync_mode: SyncMode::Durable,
            group_pages,
            data_directory: "/data".into(),
            relation_files: None,
        }
    }

    #[test]
    fn a_tier_has_the_sizes_that_it_was_made_with_and_no_others() {
        for flash_mb in [1, 2, 7, 16, 31, 33, 64, 100, 1000, 4097, 100_000] {
            for max_mb in [0, flash_mb, 2 * flash_mb, 8 * flash_mb] {
                for group_pages in [0, 8] {
                    let given = settings(flash_mb, max_mb, group_pages);
                    let Ok(made) = given.tier_config() else { continue };
                    assert!(given.accepts_shape(&made), "{flash_mb} MB, at most {max_mb}: {made:?}");
                    for other in [
                        settings(flash_mb + 1, max_mb.max(flash_mb + 1), group_pages),
                        settings(flash_mb, 3 * flash_mb, group_pages),
                        settings(flash_mb, max_mb, 200),
                    ] {
                        assert!(!other.accepts_shape(&made), "{other:?} is not {given:?}");
                    }
                }
            }
        }
    }

    #[test]
    fn a_tier_that_was_resized_is_what_the_new_size_would_make_of_it() {
        let old = settings(64, 256, 0);
        let made = old.tier_config().expect("a tier");
        for flash_mb in [48, 65, 128, 255, 256] {
            let new = settings(flash_mb, 256, 0);
            let resized = new.sized(&made).expect("it has the room");
            let bytes = resized.geometry().expect("a tier").flash_bytes();
            assert_eq!(bytes, made.geometry().expect("a tier").flash_bytes(), "the layout stays");
            assert!(new.accepts_shape(&resized) && !old.accepts_shape(&resized), "{flash_mb} MB");
        }
    }
}
