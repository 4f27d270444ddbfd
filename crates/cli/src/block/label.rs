//! The name that the system has for a block device for life: a WWID, a serial number, a UUID.

use std::fs::{self, Metadata};
use std::os::unix::fs::{FileTypeExt as _, MetadataExt as _};
use std::path::Path;

use mezzanine_cached::Label;

/// Where drivers say it, below a device's folder in sysfs: device mapper, md, NVMe, SCSI, virtio.
const PLACES: [&str; 7] = ["dm/uuid", "md/uuid", "wwid", "device/wwid", "uuid", "serial", "device/serial"];

/// The label of a block device, if the system has a name for it; files have none.
pub(super) fn label(metadata: &Metadata) -> Option<Label> {
    name_for_life(metadata).map(|name| Label::of(&name))
}

/// That name itself.
pub(super) fn name_for_life(metadata: &Metadata) -> Option<String> {
    if !metadata.file_type().is_block_device() {
        return None;
    }
    let (major, minor) = (rustix::fs::major(metadata.rdev()), rustix::fs::minor(metadata.rdev()));
    name(&Path::new("/sys/dev/block").join(format!("{major}:{minor}")))
}

/// What sysfs calls the device of this folder. A partition goes by its drive, its number and where it begins.
fn name(folder: &Path) -> Option<String> {
    let read = |folder: &Path, place: &str| {
        let text = fs::read_to_string(folder.join(place)).ok()?;
        let text = text.trim();
        (!text.is_empty()).then(|| text.to_owned())
    };
    let folder = folder.canonicalize().ok()?;
    if let Some(number) = read(&folder, "partition") {
        let drive = name(folder.parent()?)?;
        return Some(format!("{drive} partition {number} at {}", read(&folder, "start")?));
    }
    PLACES.iter().find_map(|place| Some(format!("{place} {}", read(&folder, place)?)))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn drives_and_partitions_are_called_as_sysfs_calls_them() {
        let root = std::env::temp_dir().join(format!("mezz-sysfs-{}", std::process::id()));
        let file = |path: &str, text: &str| {
            let path = root.join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        };
        file("sda/device/wwid", "naa.5000c500a1b2c3d4\n");
        file("sda/sda1/partition", "1\n");
        file("sda/sda1/start", "2048\n");
        file("nvme0n1/wwid", "eui.0025385971b0e4f1\n");
        file("nvme0n1/device/serial", "S4EWNX0R\n");
        file("vda/serial", "\n");
        file("loop0/size", "8\n");
        std::os::unix::fs::symlink(root.join("sda/sda1"), root.join("8:1")).unwrap();
        let of = |folder: &str| name(&root.join(folder));
        assert_eq!(of("sda").unwrap(), "device/wwid naa.5000c500a1b2c3d4");
        assert_eq!(of("8:1").unwrap(), "device/wwid naa.5000c500a1b2c3d4 partition 1 at 2048");
        assert_eq!(of("nvme0n1").unwrap(), "wwid eui.0025385971b0e4f1");
        assert_eq!((of("vda"), of("loop0"), of("missing")), (None, None, None));
        fs::remove_dir_all(&root).unwrap();
    }
}
