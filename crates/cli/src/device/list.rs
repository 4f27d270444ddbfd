//! The block devices of this machine, as the kernel lists them; nothing is opened.

use std::path::Path;

use serde::Serialize;

use crate::size::Size;

/// A block device that could hold a tier.
#[derive(Debug, Clone, Serialize)]
pub(crate) struct BlockDevice {
    pub(crate) path: String,
    pub(crate) bytes: u64,
    pub(crate) model: String,
    pub(crate) rotational: bool,
    /// Whether the drive says that it may lose completed writes when its power fails.
    pub(crate) volatile_cache: Option<bool>,
    pub(crate) read_only: bool,
    /// Of a drive with zones.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) zones: Option<ListedZones>,
}

/// The zones of a block device.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(crate) struct ListedZones {
    /// `host-managed`, which has to be written zone by zone, or `host-aware`, which need not be.
    pub(crate) model: String,
    pub(crate) count: u64,
    pub(crate) zone_bytes: u64,
}

impl std::fmt::Display for ListedZones {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} of {}, {}", self.count, Size(self.zone_bytes), self.model)
    }
}

/// Reads /sys/block; a system without it has no devices to show.
pub(crate) fn block_devices() -> Vec<BlockDevice> {
    let Ok(entries) = std::fs::read_dir("/sys/block") else { return Vec::new() };
    let mut devices: Vec<BlockDevice> =
        entries.flatten().filter_map(|entry| block_device(&entry.path())).collect();
    devices.sort_by(|a, b| a.path.cmp(&b.path));
    devices
}

/// The zones, from what the files of this name in a device's folder say.
fn zones(text: &impl Fn(&str) -> Option<String>, device_bytes: u64) -> Option<ListedZones> {
    let model = text("queue/zoned").filter(|model| model != "none")?;
    // The length of a zone stands where the length of a stripe does for other devices.
    let zone_bytes = text("queue/chunk_sectors")?.parse::<u64>().ok()?.checked_mul(512)?;
    // Kernels before 4.20 do not count them.
    let count = text("queue/nr_zones").and_then(|count| count.parse().ok());
    let count = count.or_else(|| device_bytes.checked_div(zone_bytes))?;
    Some(ListedZones { model, count, zone_bytes })
}

fn block_device(sys: &Path) -> Option<BlockDevice> {
    let name = sys.file_name()?.to_str()?.to_owned();
    let text = |file: &str| std::fs::read_to_string(sys.join(file)).ok().map(|text| text.trim().to_owned());
    let flag = |file: &str| text(file).is_some_and(|text| text == "1");
    // The kernel counts in sectors of 512 bytes whatever the drive's own are.
    let bytes = text("size")?.parse::<u64>().ok()?.saturating_mul(512);
    if bytes == 0 || name.starts_with("ram") || name.starts_with("loop") {
        return None;
    }
    Some(BlockDevice {
        path: format!("/dev/{name}"),
        bytes,
        model: text("device/model").unwrap_or_default(),
        rotational: flag("queue/rotational"),
        volatile_cache: text("queue/write_cache").map(|cache| cache == "write back"),
        read_only: flag("ro"),
        zones: zones(&text, bytes),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn zones_of(files: &[(&str, &str)]) -> Option<ListedZones> {
        let text =
            |name: &str| files.iter().find(|(file, _)| *file == name).map(|(_, text)| (*text).to_owned());
        zones(&text, 1 << 30)
    }

    #[test]
    fn zones_are_shown_of_drives_that_have_some() {
        let managed =
            [("queue/zoned", "host-managed"), ("queue/chunk_sectors", "8192"), ("queue/nr_zones", "250")];
        let shown = |files: &[(&str, &str)]| zones_of(files).map(|zones| zones.to_string());
        assert_eq!(shown(&managed).as_deref(), Some("250 of 4.19 MB, host-managed"));
        assert_eq!(shown(&managed[..2]).as_deref(), Some("256 of 4.19 MB, host-managed"), "from the length");
        assert_eq!(shown(&managed[1..]), None, "a kernel that knows of no zones");
        assert_eq!(shown(&[("queue/zoned", "none"), ("queue/chunk_sectors", "256")]), None, "stripes");
        assert_eq!(shown(&[("queue/zoned", "host-aware"), ("queue/chunk_sectors", "0")]), None);
    }
}
