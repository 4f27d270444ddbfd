//! The block devices of this machine, as the kernel lists them; nothing is opened.

use std::path::Path;

use serde::Serialize;

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
}

/// Reads /sys/block; a system without it has no devices to show.
pub(crate) fn block_devices() -> Vec<BlockDevice> {
    let Ok(entries) = std::fs::read_dir("/sys/block") else { return Vec::new() };
    let mut devices: Vec<BlockDevice> =
        entries.flatten().filter_map(|entry| block_device(&entry.path())).collect();
    devices.sort_by(|a, b| a.path.cmp(&b.path));
    devices
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
    })
}
