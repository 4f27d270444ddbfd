//! The file that is to be attached, and its sidecar, as they are found.

use std::path::Path;
use std::sync::Arc;

use mezzanine_device::Device;
use mezzanine_engine::planted::{self, Bug};
use mezzanine_ground::interleave::sync::{Mutex, RwLock};

use crate::agreed::read_agreed;
use crate::backing::FileInner;
use crate::config::{AttachOptions, GUARD_BYTES_MAX};
use crate::core::TierHost;
use crate::error::{VolumeError, VolumeErrorKind, unsteady};
use crate::guard::is_stretched;
use crate::shared::files::FileHome;
use crate::shared::{Placed, Shared};
use crate::sidecar::{Sidecar, SidecarError, SidecarStore, read_sidecar};

/// How often a page of a disk is read before it counts as another one than was written there.
const CHECKSUM_READS: u32 = 3;

/// What attaching begins with.
pub(crate) struct Candidate<'a> {
    pub(crate) path: &'a Path,
    pub(crate) name: String,
    pub(crate) backing: Arc<dyn Device>,
    pub(crate) store: Arc<dyn SidecarStore>,
    pub(crate) guard: Vec<u8>,
}

impl<'a> Candidate<'a> {
    pub(crate) fn new(
        path: &'a Path,
        backing: Arc<dyn Device>,
        store: Arc<dyn SidecarStore>,
        options: AttachOptions,
        page_size: u32,
    ) -> Result<Self, VolumeError> {
        let name = path.display().to_string();
        let guard = options.guard.map(|guard| guard.bytes);
        let longest = GUARD_BYTES_MAX.min(page_size as usize);
        if guard.as_ref().is_some_and(|guard| guard.is_empty() || guard.len() > longest) {
            let reason = format!("the header guard must have 1 to {longest} bytes");
            return Err(VolumeError::new(VolumeErrorKind::InvalidConfig, "attach", name, reason));
        }
        Ok(Self { path, name, backing, store, guard: guard.unwrap_or_default() })
    }

    pub(super) fn io(&self, error: mezzanine_device::DeviceError) -> VolumeError {
        VolumeError::from_device("attach", &self.name, error)
    }

    /// Reads the first bytes of the file, where a guard stands if its sidecar names one.
    pub(super) fn read_head(&self, head: &mut [u8], sidecar: Option<&Sidecar>) -> Result<(), VolumeError> {
        let read = |bytes: &mut [u8]| self.backing.read_at_or_zero(bytes, 0).map(drop);
        let failed = |error| {
            let error = self.io(error);
            if planted::is(Bug::UnreadGuardUnnamed) { error } else { self.unread_head(error, sidecar) }
        };
        match read_agreed(head, read).map_err(failed)? {
            true => Ok(()),
            false => Err(unsteady("attach", &self.name)),
        }
    }

    fn unread_head(&self, error: VolumeError, sidecar: Option<&Sidecar>) -> VolumeError {
        let copy = "nothing was changed; see to the disk and try again. If it stays so, copy all that can be read of the file to a good one";
        let advice = match sidecar.filter(|sidecar| !sidecar.guard.is_empty()) {
            Some(_) => format!(
                "{copy}, have the copy begin with the bytes that the sidecar {} calls `guard`, in hexadecimal digits, and use it with this \
                 sidecar, which has the true header",
                self.store.describe()
            ),
            None => format!("{copy}, with its own header from a backup, and use that"),
        };
        error.at(0).advise(advice)
    }

    /// Whether a block of the file has this checksum; read again before it is said to have another.
    pub(super) fn has_checksum(
        &self,
        page: &mut [u8],
        offset: u64,
        checksum: u32,
    ) -> Result<bool, VolumeError> {
        for _ in 0..if planted::is(Bug::OneReadBelieved) { 1 } else { CHECKSUM_READS } {
            self.backing.read_at_or_zero(page, offset).map_err(|error| self.io(error))?;
            if crc32c::crc32c(page) == checksum {
                return Ok(true);
            }
        }
        Ok(false)
    }

    pub(super) fn read_sidecar(&self) -> Result<Option<Sidecar>, VolumeError> {
        found_sidecar(&*self.store)
    }

    /// Ends whatever a crash left between the states of the guard (see `backing`): the head goes back to its
    /// place.
    pub(super) fn restore_head(&self, sidecar: &Sidecar, head_on_disk: &[u8]) -> Result<(), VolumeError> {
        // A file shorter than its guard grows by it, and a crash may keep the length without the bytes.
        let stretched = is_stretched(sidecar, self.backing.len());
        if sidecar.guard.is_empty() || !(head_on_disk.starts_with(&sidecar.guard) || stretched) {
            return Ok(());
        }
        let keep = sidecar.head.len().min(usize::try_from(sidecar.length).unwrap_or(usize::MAX));
        self.backing.write_at(&sidecar.head[..keep], 0).map_err(|error| self.io(error))?;
        if self.backing.capabilities().can_resize {
            self.backing.set_len(sidecar.length).map_err(|error| self.io(error))?;
        }
        self.backing.flush().map_err(|error| self.io(error))?;
        // Once only: a short file that grows from here on is not one that its guard has stretched.
        let restored = Sidecar { guard: Vec::new(), head: Vec::new(), ..sidecar.clone() };
        self.store
            .replace(&restored.encode())
            .map_err(|error| VolumeError::from_io("replace the sidecar", self.store.describe(), error))
    }

    pub(super) fn into_file(
        self,
        number: u32,
        host: Option<&Arc<TierHost>>,
        memory: &Arc<Placed<Shared>>,
    ) -> FileInner {
        let page_size = host.map_or(4096, |host| host.page_size() as u64);
        let capabilities = self.backing.capabilities();
        FileInner {
            path: self.path.to_owned(),
            name: self.name,
            number,
            resizable: capabilities.can_resize,
            page_size,
            layout: RwLock::new(host.cloned()),
            arming: Mutex::new(()),
            replacing: Mutex::new(()),
            guard_moves: Mutex::new(()),
            shared: FileHome::take(memory, number, capabilities.len, self.guard),
            backing: self.backing,
            sidecar: self.store,
        }
    }
}

/// What a sidecar says; `None` if there is none.
pub(crate) fn found_sidecar(store: &dyn SidecarStore) -> Result<Option<Sidecar>, VolumeError> {
    let subject = store.describe();
    let failed = |error| VolumeError::from_io("read the sidecar", subject.clone(), error);
    let Some(decoded) = read_sidecar(store).map_err(failed)? else { return Ok(None) };
    match decoded {
        Ok(sidecar) => Ok(Some(sidecar)),
        Err(SidecarError::NewerFormat(version)) => Err(VolumeError::new(
            VolumeErrorKind::NewerFormat { version },
            "read the sidecar",
            subject,
            format!("its format version {version} is newer than this build's"),
        )
        .advise("use the build that wrote it")),
        Err(SidecarError::Damaged(_)) if planted::is(Bug::DamagedSidecarMissed) => Ok(None),
        Err(SidecarError::Damaged(what)) => {
            Err(VolumeError::new(VolumeErrorKind::Damaged, "read the sidecar", subject, what).advise(
                "put back an undamaged copy of the same moment; without it the file cannot be told from an older one",
            ))
        }
    }
}
