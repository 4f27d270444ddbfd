//! Where the few bytes about a file live that bind it to its tier.

mod lines;
mod record;

use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::fd::AsRawFd;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt, PermissionsExt, fchown};
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use mezzanine_device::FileDevice;
use mezzanine_engine::format::Nonce;
use mezzanine_engine::planted::{self, Bug};
use mezzanine_ground::fields::{Visitor, Writer};

pub use record::{Sidecar, SidecarState};

pub(crate) use record::SidecarError;

/// A small file beside a backing file, replaced as a whole.
pub trait SidecarStore: Send + Sync {
    /// What to call it in a message.
    fn describe(&self) -> String;

    /// Its bytes; `None` if there is none.
    ///
    /// # Errors
    /// Anything but its absence.
    fn read(&self) -> io::Result<Option<Vec<u8>>>;

    /// Replaces it. After a crash it is wholly the old one or wholly the new one; on return the new one is
    /// durable.
    ///
    /// # Errors
    /// The failure; old or new may then be in place.
    fn replace(&self, bytes: &[u8]) -> io::Result<()>;

    /// Removes it durably; that there is none is no error.
    ///
    /// # Errors
    /// The failure.
    fn remove(&self) -> io::Result<()>;

    /// Bytes that change when somebody writes to the backing file or puts another one in its place, as far as
    /// that can be known without reading it: for files the size, the times of the last change of contents
    /// and of the file itself, and the inode. `None` if nothing of the kind is known, or a change that
    /// comes right now might leave the same bytes.
    ///
    /// # Errors
    /// The failure to ask.
    fn fingerprint(&self) -> io::Result<Option<Vec<u8>>> {
        Ok(None)
    }

    /// Whether the file that it was made for is still where it is looked for. Where another file stands,
    /// whatever sidecar is beside that may be that one's; where nothing does, file and sidecar may have been
    /// removed together.
    fn is_beside_its_file(&self) -> bool {
        true
    }

    /// The sidecar of the file that it was made for, beside that, where it has been moved to since. `None` if
    /// it is still where it is looked for, if it was removed, and if nobody can tell.
    fn where_moved(&self) -> Option<Box<dyn SidecarStore>> {
        None
    }

    /// The sidecar of the file at `path`, kept in the same way as this one. It is only read: before a tier
    /// takes a file away from another one, it looks whether files that it knows to go with it still need that
    /// one. `None` where sidecars cannot be found by the paths of their files; then nobody looks.
    fn sibling(&self, _path: &Path) -> Option<Box<dyn SidecarStore>> {
        None
    }
}

/// Reads a sidecar, and once more if it is not whole: a bit may flip on its way. `None` if there is none.
///
/// # Errors
/// As of [`SidecarStore::read`].
pub(crate) fn read_sidecar(store: &dyn SidecarStore) -> io::Result<Option<Result<Sidecar, SidecarError>>> {
    let look = || Ok(store.read()?.map(|bytes| Sidecar::decode(&bytes)));
    match look()? {
        Some(Err(_)) if !planted::is(Bug::OneReadBelieved) => look(),
        found => Ok(found),
    }
}

/// How long a fingerprint waits for the file system's clock to move on. Most count in milliseconds, some in
/// seconds.
const SETTLING_MAX: Duration = Duration::from_millis(2100);

const FINGERPRINT_BYTES: usize = 48;

/// What a file system says of the last change of a file.
#[derive(Debug, PartialEq, Eq)]
struct Changed {
    len: u64,
    /// Seconds and nanoseconds, of the contents and of the file itself. Nobody can set the second back.
    times: [(i64, i64); 2],
    inode: u64,
}

impl Changed {
    fn of(path: &Path) -> io::Result<Self> {
        let metadata = fs::metadata(path)?;
        Ok(Self {
            len: metadata.len(),
            times: [(metadata.mtime(), metadata.mtime_nsec()), (metadata.ctime(), metadata.ctime_nsec())],
            inode: metadata.ino(),
        })
    }

    /// When the file was last changed, contents or not.
    fn last(&self) -> (i64, i64) {
        self.times[1]
    }

    /// The list of fields of a fingerprint, which is compared and never read.
    fn show(&mut self, visitor: &mut impl Visitor) {
        let [(mtime, mtime_nsec), (ctime, ctime_nsec)] = &mut self.times;
        visitor.field(0, &mut self.len);
        visitor.field(8, mtime);
        visitor.field(16, mtime_nsec);
        visitor.field(24, ctime);
        visitor.field(32, ctime_nsec);
        visitor.field(40, &mut self.inode);
    }

    fn fingerprint(mut self) -> [u8; FINGERPRINT_BYTES] {
        let mut bytes = [0; FINGERPRINT_BYTES];
        self.show(&mut Writer::new(&mut bytes));
        bytes
    }
}

/// The sidecar `<path>.mezzanine` beside a file. It belongs to the owner of the file, and is read and written
/// by whoever may read and write that.
#[derive(Debug)]
pub struct PathSidecar {
    backing: PathBuf,
    path: PathBuf,
    /// Device and inode of the file, if they are known.
    file: Option<(u64, u64)>,
    /// The file itself, wherever it is moved to. Closing this gives no lock on it back (`O_PATH`).
    held: Option<File>,
    /// Syncs of the directory that have begun, and the last of them that is done.
    syncs_begun: AtomicU64,
    synced: AtomicU64,
}

/// No sidecar is nearly as long; more is not read.
const LENGTH_MAX: u64 = 1 << 20;

impl PathSidecar {
    /// The sidecar of the file at `backing`.
    pub fn beside(backing: &Path) -> Self {
        let path = Self::path_beside(backing);
        let (syncs_begun, synced) = (AtomicU64::new(0), AtomicU64::new(0));
        Self { backing: backing.to_owned(), path, file: None, held: None, syncs_begun, synced }
    }

    /// The sidecar of the file with this device and inode, which is open as `backing`: of no other that gets
    /// into its place.
    pub fn of(backing: &Path, file: (u64, u64)) -> Self {
        let is_file = |held: &File| {
            let is_it = held.metadata().is_ok_and(|held| (held.dev(), held.ino()) == file);
            is_it && !planted::is(Bug::MovedSidecarLeft)
        };
        let held = OpenOptions::new().read(true).custom_flags(libc::O_PATH).open(backing).ok();
        Self { file: Some(file), held: held.filter(is_file), ..Self::beside(backing) }
    }

    /// As [`Self::of`], of a file that is open.
    ///
    /// # Errors
    /// Its metadata cannot be read.
    pub fn of_device(backing: &FileDevice) -> io::Result<Self> {
        let file = backing.file().metadata()?;
        Ok(Self::of(backing.path(), (file.dev(), file.ino())))
    }

    /// `<path>.mezzanine`.
    pub fn path_beside(backing: &Path) -> PathBuf {
        let mut name = backing.as_os_str().to_owned();
        name.push(".mezzanine");
        PathBuf::from(name)
    }

    /// The tier that holds the file's newest pages, by its path when it was last used, if the sidecar says
    /// that they are not on disk. A sidecar that cannot be read says nothing here; attaching the file
    /// will tell what is wrong with it.
    pub fn needed_tier(&self) -> Option<String> {
        let sidecar = self.found()?;
        (sidecar.state == SidecarState::Dirty).then_some(sidecar.tier_path)
    }

    /// What it says; `None` if there is none, or none that can be read.
    pub fn found(&self) -> Option<Sidecar> {
        read_sidecar(self).ok()??.ok()
    }

    /// What named the opening of the tier that the file was last used with, if its newest pages may be there:
    /// [`crate::Volume::nonce`] of then. `None` also from a build that drew none.
    pub fn opening(&self) -> Option<Nonce> {
        let sidecar = self.found()?;
        (sidecar.state == SidecarState::Dirty && sidecar.nonce != Nonce::default()).then_some(sidecar.nonce)
    }

    /// What time it is to the file system: a file that is made now says so. A change that comes later is not
    /// of an earlier time.
    fn clock(&self) -> io::Result<(i64, i64)> {
        let probe = self.temporary();
        absent_is_fine(fs::remove_file(&probe))?;
        let made = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&probe)?;
        let metadata = made.metadata()?;
        fs::remove_file(&probe)?;
        Ok((metadata.mtime(), metadata.mtime_nsec()))
    }

    fn temporary(&self) -> PathBuf {
        let mut name = self.path.as_os_str().to_owned();
        name.push(".new");
        PathBuf::from(name)
    }

    fn sync_directory(&self) -> io::Result<()> {
        let directory = match self.path.parent() {
            Some(parent) if !parent.as_os_str().is_empty() => parent,
            _ => Path::new("."),
        };
        let number = self.syncs_begun.fetch_add(1, Ordering::AcqRel) + 1;
        File::open(directory)?.sync_all()?;
        self.synced.fetch_max(number, Ordering::AcqRel);
        Ok(())
    }

    /// How many syncs of the directory that it stands in have begun. Once [`Self::synced`] is more than it
    /// was, what was made there before it was asked is durable.
    pub fn syncs_begun(&self) -> u64 {
        self.syncs_begun.load(Ordering::Acquire)
    }

    /// The last sync of that directory that is done, as [`Self::syncs_begun`] counts them.
    pub fn synced(&self) -> u64 {
        self.synced.load(Ordering::Acquire)
    }
}

/// Has a file or directory that stands beside `backing` belong to whom that belongs to, as far as this
/// process may: one that is root makes files for a service that is not. What is beside a device stays its
/// maker's. To be given a descriptor of what this process has just made, and of nothing that another could
/// have put there.
pub fn give_to_owner_of(backing: &Path, beside: &File) {
    let owner = fs::metadata(backing).ok().filter(fs::Metadata::is_file);
    let (Some(owner), Ok(own)) = (owner, beside.metadata()) else { return };
    if (own.uid(), own.gid()) != (owner.uid(), owner.gid()) {
        // Only root can give a file away, and others a group that they are in; nobody else needs to.
        let given = fchown(beside, Some(owner.uid()), Some(owner.gid()));
        let _ = given.or_else(|_| fchown(beside, None, Some(owner.gid())));
    }
    // Whoever has it writes it, also where the file itself is not to be written.
    let mode = owner.mode() & 0o666 | 0o600;
    // Whoever may read a directory may look into it.
    let mode = if own.is_dir() { mode | (mode & 0o444) >> 2 } else { mode };
    if own.mode() & 0o777 != mode {
        // Some file systems have no modes; its maker can use it all the same.
        let _ = beside.set_permissions(fs::Permissions::from_mode(mode));
    }
}

/// Whether a file could not be made since its folder, or all of its file system, is not to be written.
fn is_refused(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::PermissionDenied | io::ErrorKind::ReadOnlyFilesystem)
}

fn absent_is_fine(result: io::Result<()>) -> io::Result<()> {
    match result {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        other => other,
    }
}

impl SidecarStore for PathSidecar {
    fn describe(&self) -> String {
        self.path.display().to_string()
    }

    fn read(&self) -> io::Result<Option<Vec<u8>>> {
        let file = match OpenOptions::new().read(true).custom_flags(libc::O_NOFOLLOW).open(&self.path) {
            Ok(file) => file,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(error),
        };
        // One is rarely longer, and read at once then.
        let mut bytes = Vec::with_capacity(4096);
        file.take(LENGTH_MAX).read_to_end(&mut bytes)?;
        Ok(Some(bytes))
    }

    fn replace(&self, bytes: &[u8]) -> io::Result<()> {
        let temporary = self.temporary();
        // A file of that name is the leftover of a crash: whatever it holds was never in force.
        absent_is_fine(fs::remove_file(&temporary))?;
        let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&temporary)?;
        if !planted::is(Bug::SidecarOfItsMaker) {
            give_to_owner_of(&self.backing, &file);
        }
        file.write_all(bytes)?;
        file.sync_all()?;
        drop(file);
        fs::rename(&temporary, &self.path)?;
        self.sync_directory()
    }

    fn remove(&self) -> io::Result<()> {
        match fs::remove_file(&self.path) {
            Ok(()) => self.sync_directory(),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
            Err(error) => Err(error),
        }
    }

    fn is_beside_its_file(&self) -> bool {
        let Some(file) = self.file else { return true };
        let beside = match fs::metadata(&self.backing) {
            Ok(there) => (there.dev(), there.ino()) == file,
            // What cannot be looked at may be there.
            Err(error) => error.kind() != io::ErrorKind::NotFound || planted::is(Bug::SidecarOfNothing),
        };
        beside || planted::is(Bug::ReplacedFileVouched)
    }

    fn where_moved(&self) -> Option<Box<dyn SidecarStore>> {
        let held = self.held.as_ref().filter(|_| !self.is_beside_its_file())?;
        let moved = fs::read_link(format!("/proc/self/fd/{}", held.as_raw_fd())).ok()?;
        // What was removed has no name any more, and what the kernel says for one names nothing.
        let there = fs::metadata(&moved).ok()?;
        let file = self.file.filter(|file| *file == (there.dev(), there.ino()))?;
        Some(Box::new(Self::of(&moved, file)))
    }

    fn fingerprint(&self) -> io::Result<Option<Vec<u8>>> {
        if !self.is_beside_its_file() {
            return Ok(None);
        }
        let found = Changed::of(&self.backing)?;
        if planted::is(Bug::FingerprintOfTimes) {
            return Ok(Some(found.fingerprint()[..24].to_vec()));
        }
        let since = Instant::now();
        loop {
            let now = match self.clock() {
                // Nothing is known of a file beside which none can be made.
                Err(error) if is_refused(&error) && !planted::is(Bug::ClockNeedsFolder) => return Ok(None),
                now => now?,
            };
            if now > found.last() {
                break;
            }
            // By so much only a clock that was set back is behind.
            let behind = now.0 + 3 < found.last().0;
            if behind || since.elapsed() > SETTLING_MAX {
                return Ok(None);
            }
            std::thread::sleep(Duration::from_millis(1));
        }
        // A change that came while the clock moved on shows.
        Ok((Changed::of(&self.backing)? == found).then(|| found.fingerprint().to_vec()))
    }

    fn sibling(&self, path: &Path) -> Option<Box<dyn SidecarStore>> {
        Some(Box::new(Self::beside(path)))
    }
}

/// A sidecar in memory, for files that do not outlive the process, and for tests.
#[derive(Debug, Default)]
pub struct MemorySidecar {
    bytes: Mutex<Option<Vec<u8>>>,
}

impl MemorySidecar {
    /// A sidecar that does not exist yet.
    pub fn new() -> Self {
        Self::default()
    }

    fn slot(&self) -> std::sync::MutexGuard<'_, Option<Vec<u8>>> {
        self.bytes.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
    }
}

impl SidecarStore for MemorySidecar {
    fn describe(&self) -> String {
        "the sidecar in memory".to_owned()
    }

    fn read(&self) -> io::Result<Option<Vec<u8>>> {
        Ok(self.slot().clone())
    }

    fn replace(&self, bytes: &[u8]) -> io::Result<()> {
        *self.slot() = Some(bytes.to_vec());
        Ok(())
    }

    fn remove(&self) -> io::Result<()> {
        *self.slot() = None;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use mezzanine_ground::fields::Offsets;
    use mezzanine_ground::fields::table::assert_is_as_listed;

    use super::*;

    fn example() -> Changed {
        let times = [(0x2122_2324, 0x3132_3334), (-2, 0x5152_5354)];
        Changed { len: 0x1112_1314_1516_1718, times, inode: 0x6162_6364_6566_6768 }
    }

    #[test]
    fn every_field_of_a_fingerprint_lies_where_the_format_says() {
        #[rustfmt::skip]
        let expected = [
            0x18, 0x17, 0x16, 0x15, 0x14, 0x13, 0x12, 0x11,
            0x24, 0x23, 0x22, 0x21, 0, 0, 0, 0,
            0x34, 0x33, 0x32, 0x31, 0, 0, 0, 0,
            0xFE, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF,
            0x54, 0x53, 0x52, 0x51, 0, 0, 0, 0,
            0x68, 0x67, 0x66, 0x65, 0x64, 0x63, 0x62, 0x61,
        ];
        assert_eq!(example().fingerprint(), expected);
    }

    #[test]
    fn the_document_says_where_each_field_of_a_fingerprint_lies() {
        let document = include_str!("../../../../docs/format.md");
        let mut offsets = Offsets::default();
        example().show(&mut offsets);
        assert_is_as_listed(document, "offset in a fingerprint", &offsets.0, &[]);
    }
}
