//! What the system says of a device: the block devices below a file, from the file system down to disks, and
//! what each of them promises. Nothing is opened and nothing changed; all is read from `/sys` and `/proc`.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use serde::Serialize;

/// Loop devices and volumes on one another are followed so far down.
const DEPTH_MAX: u32 = 8;

/// What the system says.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub(super) struct System {
    /// Null for a block device.
    pub(super) file_system: Option<FileSystem>,
    /// The block device of the file, and all that it lies on, from above; empty if the system does not tell.
    pub(super) layers: Vec<Layer>,
    /// The largest write of the file that the file system keeps whole if that is asked for with the write
    /// (`RWF_ATOMIC`): 0 for none, null for a block device and where the kernel does not tell.
    pub(super) file_atomic_write_bytes: Option<u64>,
}

/// Where a file lies.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(super) struct FileSystem {
    pub(super) kind: String,
    pub(super) mounted_at: String,
    pub(super) source: String,
    /// Whether it was mounted so that fsync sends no flush (`nobarrier`, `barrier=0`).
    pub(super) barriers_off: bool,
}

/// A block device, as its queue describes it. What is null the kernel does not tell.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub(super) struct Layer {
    pub(super) name: String,
    pub(super) model: String,
    /// Whether others lie below it.
    pub(super) is_disk: bool,
    /// Where its partition begins; 0 for a whole device.
    pub(super) partition_start_bytes: u64,
    /// Whether completed writes may be lost when power fails, as the kernel was told.
    pub(super) volatile_cache: Option<bool>,
    /// Whether a single write can be made to go past the cache.
    pub(super) fua: Option<bool>,
    /// The largest aligned write that power cuts leave whole or absent; 0 = none is promised.
    pub(super) atomic_write_bytes: Option<u64>,
    /// Whether neighbouring writes are never merged to a larger one (`nomerges` = 2).
    pub(super) never_merges: Option<bool>,
    pub(super) logical_block_bytes: Option<u64>,
    pub(super) physical_block_bytes: Option<u64>,
    pub(super) rotational: Option<bool>,
    #[serde(skip)]
    folder: PathBuf,
}

impl System {
    /// Whether a write that has completed can be lost: if one disk says so, it can; if one does not tell, it
    /// is not known.
    pub(super) fn volatile_cache(&self) -> Option<bool> {
        let mut said = self.disks().map(|disk| disk.volatile_cache);
        if self.disks().any(|disk| disk.volatile_cache == Some(true)) {
            return Some(true);
        }
        (self.disks().count() > 0 && said.all(|volatile| volatile == Some(false))).then_some(false)
    }

    /// Whether all disks have FUA.
    pub(super) fn fua(&self) -> Option<bool> {
        self.of_all_disks(|disk| disk.fua)?.into_iter().min()
    }

    /// The largest write that every layer keeps whole.
    pub(super) fn atomic_write_bytes(&self) -> Option<u64> {
        let layers: Option<Vec<u64>> = self.layers.iter().map(|layer| layer.atomic_write_bytes).collect();
        layers?.into_iter().min()
    }

    /// Whether no layer merges writes.
    pub(super) fn never_merges(&self) -> bool {
        !self.layers.is_empty() && self.layers.iter().all(|layer| layer.never_merges == Some(true))
    }

    /// Whether pages of this size, aligned in their file's blocks, are aligned on the disk as far as
    /// partitions are concerned.
    pub(super) fn partitions_aligned_to(&self, bytes: u64) -> bool {
        self.layers.iter().all(|layer| layer.partition_start_bytes % bytes == 0)
    }

    /// Whether a disk says that it has platters.
    pub(super) fn rotational(&self) -> bool {
        self.disks().any(|disk| disk.rotational == Some(true))
    }

    /// Flushes that the kernel has sent to the disks so far: of several disks the fewest.
    pub(super) fn flushes_counted(&self) -> Option<u64> {
        self.of_all_disks(|disk| flushes(&disk.folder))?.into_iter().min()
    }

    pub(super) fn disks(&self) -> impl Iterator<Item = &Layer> {
        self.layers.iter().filter(|layer| layer.is_disk)
    }

    fn of_all_disks<T>(&self, ask: impl Fn(&Layer) -> Option<T>) -> Option<Vec<T>> {
        self.disks().map(ask).collect()
    }
}

/// Where the kernel tells of itself; tests have their own.
pub(super) struct Sources {
    pub(super) sys: PathBuf,
    pub(super) mounts: PathBuf,
}

impl Sources {
    pub(super) fn of_the_kernel() -> Sources {
        Sources { sys: "/sys".into(), mounts: "/proc/self/mountinfo".into() }
    }

    /// What is said of a block device by its number.
    pub(super) fn block_device(&self, number: u64) -> System {
        let mut system = System::default();
        self.layers(major_minor(number), DEPTH_MAX, &mut system.layers);
        system
    }

    /// What is said of an open file that lies at `path`, or did.
    pub(super) fn file(&self, file: &fs::File, path: &Path) -> System {
        let Ok(metadata) = file.metadata() else { return System::default() };
        let folder = path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
        let mut system = self.file_at(metadata.dev(), folder, DEPTH_MAX);
        system.file_atomic_write_bytes = atomic_write_bytes(file);
        system
    }

    fn file_at(&self, device: u64, folder: &Path, depth: u32) -> System {
        let number = major_minor(device);
        let mut system = System { file_system: self.file_system(number, folder), ..System::default() };
        self.layers(number, depth, &mut system.layers);
        // Some file systems, btrfs among them, give files a device number that no block device has.
        if let (true, Some(found)) = (system.layers.is_empty(), &system.file_system) {
            if let Ok(metadata) = fs::metadata(&found.source) {
                self.layers(major_minor(metadata.rdev()), depth, &mut system.layers);
            }
        }
        system
    }

    /// The mount with this device number that is nearest to the folder: of what is mounted in several places
    /// the one that the path leads through.
    fn file_system(&self, number: (u32, u32), folder: &Path) -> Option<FileSystem> {
        let folder = folder.canonicalize().ok()?;
        let text = fs::read_to_string(&self.mounts).ok()?;
        let mounts = text.lines().filter_map(|line| mount(line, number));
        let above = mounts.filter(|mount| folder.starts_with(&mount.mounted_at));
        above.max_by_key(|mount| mount.mounted_at.len())
    }

    fn layers(&self, (major, minor): (u32, u32), depth: u32, layers: &mut Vec<Layer>) {
        let link = self.sys.join(format!("dev/block/{major}:{minor}"));
        let (Ok(folder), true) = (link.canonicalize(), depth > 0) else { return };
        let is_partition = folder.join("partition").exists();
        let start = number(&folder, "start").filter(|_| is_partition).unwrap_or(0).saturating_mul(512);
        let whole = if is_partition { folder.parent().map(Path::to_path_buf) } else { Some(folder) };
        let Some(whole) = whole else { return };
        let mut layer = Layer::read(whole.clone());
        layer.partition_start_bytes = start;
        let place = layers.len();
        layers.push(layer);
        let slaves = fs::read_dir(whole.join("slaves")).into_iter().flatten().flatten();
        for slave in slaves {
            if let Some(number) = text(&slave.path(), "dev").as_deref().and_then(parse_number) {
                self.layers(number, depth - 1, layers);
            }
        }
        let backing = text(&whole, "loop/backing_file");
        if let Some(file) = &backing {
            if let Ok(metadata) = fs::metadata(file) {
                let folder = Path::new(file).parent().unwrap_or(Path::new("/")).to_path_buf();
                layers.extend(self.file_at(metadata.dev(), &folder, depth - 1).layers);
            }
        }
        // A loop device is never the end, even if nothing is told of what its file lies on.
        layers[place].is_disk = layers.len() == place + 1 && backing.is_none();
    }
}

impl Layer {
    fn read(folder: PathBuf) -> Layer {
        let flag = |file: &str| text(&folder, file).map(|text| text == "1");
        Layer {
            name: folder.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default(),
            model: text(&folder, "device/model").unwrap_or_default(),
            is_disk: true,
            partition_start_bytes: 0,
            volatile_cache: text(&folder, "queue/write_cache").map(|cache| cache == "write back"),
            fua: flag("queue/fua"),
            atomic_write_bytes: number(&folder, "queue/atomic_write_unit_max_bytes"),
            never_merges: number(&folder, "queue/nomerges").map(|merges| merges == 2),
            logical_block_bytes: number(&folder, "queue/logical_block_size"),
            physical_block_bytes: number(&folder, "queue/physical_block_size"),
            rotational: flag("queue/rotational"),
            folder,
        }
    }
}

fn text(folder: &Path, file: &str) -> Option<String> {
    fs::read_to_string(folder.join(file)).ok().map(|text| text.trim().to_owned())
}

fn number(folder: &Path, file: &str) -> Option<u64> {
    text(folder, file)?.parse().ok()
}

/// The flushes of a disk: the 16th field of its `stat`, from Linux 5.5 on. Drivers without queues of requests
/// (pmem, zram, the head of several paths to an NVMe drive) have the field, and never count.
fn flushes(folder: &Path) -> Option<u64> {
    if !folder.join("mq").exists() {
        return None;
    }
    text(folder, "stat")?.split_whitespace().nth(15)?.parse().ok()
}

fn major_minor(number: u64) -> (u32, u32) {
    (rustix::fs::major(number), rustix::fs::minor(number))
}

fn parse_number(text: &str) -> Option<(u32, u32)> {
    let (major, minor) = text.split_once(':')?;
    Some((major.parse().ok()?, minor.parse().ok()?))
}

/// A line of mountinfo: `36 35 98:0 /root /mount options optional - type source options`, with spaces as
/// `\040`.
fn mount(line: &str, wanted: (u32, u32)) -> Option<FileSystem> {
    let (mount, file_system) = line.split_once(" - ")?;
    let mount: Vec<&str> = mount.split(' ').collect();
    if parse_number(mount.get(2)?)? != wanted {
        return None;
    }
    let mut words = file_system.split(' ');
    let (kind, source) = (words.next()?, words.next()?);
    let options = format!("{},{}", mount.get(5)?, words.next().unwrap_or(""));
    let barriers_off = options.split(',').any(|option| option == "nobarrier" || option == "barrier=0");
    let plain = |text: &str| text.replace("\\040", " ");
    Some(FileSystem {
        kind: kind.to_owned(),
        mounted_at: plain(mount.get(4)?),
        source: plain(source),
        barriers_off,
    })
}

/// What `statx` says of untorn writes, from Linux 6.11 on.
fn atomic_write_bytes(file: &fs::File) -> Option<u64> {
    use rustix::fs::{AtFlags, StatxFlags, statx};
    // STATX_WRITE_ATOMIC, which the library has no name for.
    let wanted = StatxFlags::from_bits_retain(0x0001_0000);
    let said = statx(file, c"", AtFlags::EMPTY_PATH, wanted).ok()?;
    (said.stx_mask & wanted.bits() != 0).then_some(u64::from(said.stx_atomic_write_unit_max))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use std::os::unix::fs::symlink;

    use super::*;

    /// A kernel's folders, made up.
    struct Kernel(PathBuf);

    impl Kernel {
        fn new(name: &str) -> Kernel {
            let folder = std::env::temp_dir().join(format!("mezzanine-sys-{name}-{}", std::process::id()));
            fs::create_dir_all(folder.join("dev/block")).unwrap();
            Kernel(folder)
        }

        fn disk(&self, name: &str, number: &str, files: &[(&str, &str)]) {
            let folder = self.0.join("devices").join(name);
            for (file, text) in files.iter().chain(&[("dev", number)]) {
                let path = folder.join(file);
                fs::create_dir_all(path.parent().unwrap()).unwrap();
                fs::write(path, format!("{text}\n")).unwrap();
            }
            symlink(&folder, self.0.join("dev/block").join(number)).unwrap();
        }

        fn below(&self, name: &str, slave: &str) {
            let slaves = self.0.join("devices").join(name).join("slaves");
            fs::create_dir_all(&slaves).unwrap();
            symlink(self.0.join("devices").join(slave), slaves.join(slave.replace('/', "!"))).unwrap();
        }

        fn ask(&self, major: u32, minor: u32) -> System {
            let sources = Sources { sys: self.0.clone(), mounts: self.0.join("mounts") };
            sources.block_device(rustix::fs::makedev(major, minor))
        }
    }

    impl Drop for Kernel {
        fn drop(&mut self) {
            let _ = fs::remove_dir_all(&self.0);
        }
    }

    const STAT: &str = "1 2 3 4 5 6 7 8 0 10 11 12 13 14 15 1234 17";

    #[test]
    fn a_partition_is_known_by_its_disk() {
        let kernel = Kernel::new("partition");
        let queue = [
            ("queue/write_cache", "write back"),
            ("queue/fua", "1"),
            ("queue/atomic_write_unit_max_bytes", "16384"),
            ("queue/nomerges", "2"),
            ("queue/rotational", "0"),
            ("device/model", "Fast 1"),
            ("stat", STAT),
            ("mq/0/nr_tags", "1"),
        ];
        kernel.disk("nvme0n1", "259:0", &queue);
        kernel.disk("nvme0n1/nvme0n1p1", "259:1", &[("partition", "1"), ("start", "34")]);
        let system = kernel.ask(259, 1);
        assert_eq!(system.layers.len(), 1);
        let disk = &system.layers[0];
        assert_eq!((disk.name.as_str(), disk.partition_start_bytes), ("nvme0n1", 34 * 512));
        assert!(!system.partitions_aligned_to(4096) && system.partitions_aligned_to(1024));
        assert_eq!((system.volatile_cache(), system.fua()), (Some(true), Some(true)));
        assert_eq!((system.atomic_write_bytes(), system.never_merges()), (Some(16_384), true));
        assert_eq!(system.flushes_counted(), Some(1234));
    }

    #[test]
    fn an_array_promises_what_all_of_its_disks_do() {
        let kernel = Kernel::new("array");
        let stat = |flushes: &str| STAT.replace("1234", flushes);
        for (name, number, cache, flushes) in
            [("sda", "8:0", "write through", "10"), ("sdb", "8:16", "write back", "5")]
        {
            let files = [("queue/write_cache", cache), ("stat", &stat(flushes)), ("mq/0/nr_tags", "1")];
            kernel.disk(name, number, &files);
        }
        kernel.disk("md0", "9:0", &[("queue/write_cache", "write through"), ("stat", &stat("0"))]);
        kernel.below("md0", "sda");
        kernel.below("md0", "sdb");
        let system = kernel.ask(9, 0);
        assert_eq!(system.layers.len(), 3);
        assert_eq!(system.disks().count(), 2, "the array itself is none");
        assert_eq!(system.volatile_cache(), Some(true));
        assert_eq!(system.flushes_counted(), Some(5));
        assert_eq!(system.atomic_write_bytes(), None, "nothing was said");
        assert!(!system.never_merges());
    }

    #[test]
    fn what_is_not_said_is_not_known() {
        let kernel = Kernel::new("unknown");
        let system = kernel.ask(8, 0);
        assert_eq!(system, System::default());
        assert_eq!((system.volatile_cache(), system.fua(), system.flushes_counted()), (None, None, None));
        assert!(!system.never_merges());
        // A kernel from before flushes were counted, and a driver that never counts them.
        kernel.disk("sda", "8:0", &[("stat", "1 2 3 4 5 6 7 8 9 10 11"), ("mq/0/nr_tags", "1")]);
        kernel.disk("pmem0", "259:9", &[("stat", STAT)]);
        assert_eq!(kernel.ask(259, 9).flushes_counted(), None);
        let system = kernel.ask(8, 0);
        assert_eq!((system.volatile_cache(), system.fua(), system.flushes_counted()), (None, None, None));
        let looped = [("loop/backing_file", "/gone"), ("queue/write_cache", "write through"), ("mq/0/a", "")];
        kernel.disk("loop0", "7:0", &looped);
        let system = kernel.ask(7, 0);
        assert_eq!((system.layers.len(), system.disks().count(), system.volatile_cache()), (1, 0, None));
    }

    #[test]
    fn mounts_are_read() {
        let line = "36 35 98:0 /a /mnt\\040x rw,noatime master:1 - ext4 /dev/root rw,nobarrier";
        let found = mount(line, (98, 0)).unwrap();
        assert_eq!((found.kind.as_str(), found.mounted_at.as_str()), ("ext4", "/mnt x"));
        assert!(found.barriers_off);
        assert_eq!(mount(line, (98, 1)), None);
        assert!(!mount("1 2 8:1 / / rw - xfs /dev/sda1 rw", (8, 1)).unwrap().barriers_off);
    }
}
