//! Memory per frame.

use crate::report::Row;
use mezzanine_engine::TierConfig;

/// Bytes of memory per frame for the FaCE designs, computed from the geometry.
pub(crate) fn run() -> Vec<Row> {
    let mut rows = Vec::new();
    for (name, gib) in [("1 GiB", 1u64), ("10 GiB", 10), ("100 GiB", 100), ("1 TiB", 1024)] {
        for page_size in [4096, 8192] {
            let config = TierConfig::for_flash_bytes(page_size, gib << 30);
            let Ok(geometry) = config.geometry() else { continue };
            let label = format!("memory per frame, staging apart: {name}, {} KiB pages", page_size / 1024);
            rows.push(Row::new(label, geometry.bytes_per_frame(), "bytes"));
            if gib == 100 && page_size == 8192 {
                let mib = geometry.region_bytes() as f64 / (1 << 20) as f64;
                rows.push(Row::new("memory in all: 100 GiB, 8 KiB pages", mib, "MiB"));
                let staging = geometry.staging_bytes() as f64 / (1 << 20) as f64;
                rows.push(Row::new("of this, staging", staging, "MiB"));
            }
        }
    }
    rows
}
