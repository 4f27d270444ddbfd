//! Registering the VFS.

use std::path::Path;
use std::sync::Arc;

use mezzanine_device::{Device, DeviceError};
use mezzanine_volume::{TierConfig, Volume};

use crate::error::{Error, ErrorKind};
use crate::ffi::{self, Api, Registered};
use crate::mount::{self, Mount, OpenDisk};
use crate::record;
use crate::rules::Rules;
use crate::timing::LogTimer;

/// The name that the VFS has unless it is given another.
pub const DEFAULT_NAME: &str = "mezzanine";

/// Everything that the callbacks of one registered VFS go by.
pub(crate) struct Settings {
    pub(crate) name: String,
    pub(crate) mount: Option<Arc<Mount>>,
    /// Or why there are none: that is said when one is needed.
    pub(crate) rules: Result<Rules, Error>,
    pub(crate) log_timer: Option<Arc<dyn LogTimer>>,
    pub(crate) make_default: bool,
    /// Whether failures to open are written to standard error as well, for hosts that show no log.
    pub(crate) complain: bool,
}

/// A registered VFS. Dropping it leaves the VFS registered for the life of the process;
/// [`close`](Self::close) ends it.
pub struct MezzanineVfs {
    name: String,
    mount: Option<Arc<Mount>>,
    registered: Registered,
}

/// What a VFS is to be made of; see [`MezzanineVfs::builder`].
pub struct Builder {
    settings: Settings,
    disk: Option<OpenDisk>,
    volume: Option<(Arc<Volume>, String, u32)>,
}

impl MezzanineVfs {
    /// Starts to describe a VFS with this name, [`DEFAULT_NAME`] for most.
    pub fn builder(name: &str) -> Builder {
        Builder {
            settings: Settings {
                name: name.to_owned(),
                mount: None,
                rules: Ok(Rules::default()),
                log_timer: None,
                make_default: false,
                complain: false,
            },
            disk: None,
            volume: None,
        }
    }

    /// The name to open databases with: `file:app.db?vfs=NAME`, or the `vfs` argument of
    /// `Connection::open_with_flags_and_vfs`. Without a volume and without a URI, a database is on its tier
    /// only if it has a sidecar or a rule matches it.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Attaches the database at `path`, by the name that it would be opened by, to the volume that this VFS
    /// was given, without opening it: SQLite reads pages of whatever it opens, and they may be lost.
    ///
    /// # Errors
    /// `NoFlash` if the VFS was given no volume; that of the attachment.
    pub fn attach(&self, path: &Path) -> Result<(), Error> {
        let Some(mount) = &self.mount else {
            let reason = "the VFS was given no volume";
            return Err(Error::new(ErrorKind::NoFlash, "attach", path.display(), reason)
                .advise("register it with one (Builder::volume)"));
        };
        mount::attach_unopened(mount, path)
    }

    /// Ends the VFS and closes its volume, if it was given one; the tier keeps its pages for the next time.
    ///
    /// # Errors
    /// `Busy` while connections are open, or the volume's failure to close; the VFS is registered still in
    /// the first case only.
    pub fn close(self) -> Result<(), Error> {
        self.end(false, |volume| Ok(volume.close()?))
    }

    /// As [`close`](Self::close), with every page written to the disk first: the files are then ordinary
    /// SQLite databases.
    ///
    /// # Errors
    /// As those of [`close`](Self::close).
    pub fn close_drained(self) -> Result<(), Error> {
        self.end(true, |volume| Ok(volume.close_drained()?))
    }

    fn end(self, drained: bool, close: impl FnOnce(&Volume) -> Result<(), Error>) -> Result<(), Error> {
        match &self.mount {
            Some(mount) => {
                let registered = self.registered;
                mount::release(mount, drained, |volume| {
                    registered.unregister();
                    close(volume)
                })
            }
            None => {
                self.registered.unregister();
                Ok(())
            }
        }
    }
}

impl Builder {
    /// Puts every database that is opened through this VFS on `volume`, whatever the URI says. `flash` names
    /// it in messages; `tier` is the configuration that it was opened with.
    #[must_use]
    pub fn volume(mut self, volume: Arc<Volume>, flash: &str, tier: &TierConfig) -> Self {
        self.volume = Some((volume, flash.to_owned(), tier.page_size));
        self
    }

    /// Opens the disk copies of databases with `open`, for example as files on a modelled drive, rather than
    /// as plain files. For use with [`volume`](Self::volume).
    #[must_use]
    pub fn disk<F>(mut self, open: F) -> Self
    where
        F: Fn(&Path) -> Result<Arc<dyn Device>, DeviceError> + Send + Sync + 'static,
    {
        self.disk = Some(Arc::new(open));
        self
    }

    /// Lets syncs of journals and write-ahead logs take the time that `timer` gives them.
    #[must_use]
    pub fn log_timer(mut self, timer: Arc<dyn LogTimer>) -> Self {
        self.settings.log_timer = Some(timer);
        self
    }

    /// Makes it the VFS of every connection that names none. A database that has no sidecar and that no rule
    /// matches ([`RULES_VARIABLE`](crate::RULES_VARIABLE)) is opened by the VFS that was the default before.
    #[must_use]
    pub fn make_default(mut self) -> Self {
        self.settings.make_default = true;
        self
    }

    pub(crate) fn complain(mut self) -> Self {
        self.settings.complain = true;
        self
    }

    /// Registers the VFS with the SQLite that is linked into this program, which is rusqlite's.
    ///
    /// # Errors
    /// `Register` if there is a VFS of that name, or SQLite is too old or refuses.
    #[cfg(feature = "rusqlite")]
    pub fn register(self) -> Result<MezzanineVfs, Error> {
        self.register_with(Api::linked())
    }

    pub(crate) fn register_with(mut self, api: Api) -> Result<MezzanineVfs, Error> {
        let name = self.settings.name.clone();
        if name.is_empty() || name.contains('\0') {
            return Err(Error::new(
                ErrorKind::BadParameter,
                "register the VFS",
                format!("{name:?}"),
                "no such name is possible",
            ));
        }
        let mount = self
            .volume
            .take()
            .map(|(volume, flash, page_size)| Mount::of_owner(volume, flash, page_size, self.disk));
        if let Some(mount) = &mount {
            record::begin(&mount.volume, None)?;
        }
        if mount.is_none() {
            let rules = Rules::of_machine();
            self.settings.rules = if self.settings.make_default { Ok(rules?) } else { rules };
        }
        self.settings.mount = mount.clone();
        let registered = ffi::register(api, self.settings)?;
        Ok(MezzanineVfs { name, mount, registered })
    }
}
