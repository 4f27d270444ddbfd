//! A flash device with zones is refused, and nothing is written to it: whether it has enough conventional
//! ones for the beginning of a tier, or none.

#![allow(clippy::unwrap_used, missing_docs)]

mod machine;

use std::sync::Arc;

use machine::{Kept, Machine, Relations};
use mezzanine_device::memory::{MemoryDevice, Power};
use mezzanine_device::{Device, Zones};
use mezzanine_engine::SyncMode;
use mezzanine_ffi::host::Host;

#[test]
fn a_device_with_zones_is_refused() {
    let machine = Machine::new(SyncMode::Durable);
    for conventional in [0, 16] {
        let zone_len = 1 << 20;
        let zones =
            Zones { zone_len, zone_capacity: zone_len, count: 64, conventional, open_max: 0, active_max: 0 };
        let flash = Arc::new(MemoryDevice::zoned(&Power::new(), "zoned flash", zones));
        let server = Box::new(Relations(Arc::clone(&machine.disk)));
        let device = Arc::clone(&flash) as Arc<dyn Device>;
        let refusal = Host::on_device(machine.settings(), device, Box::new(Kept::default()), server)
            .err()
            .expect("a device with zones holds no tier of a server");
        let path = machine.settings().flash_path;
        assert_eq!(refusal.message, format!("the flash device \"{}\" has zones", path.display()));
        assert!(refusal.detail.contains("zones of 1048576 bytes"), "{}", refusal.detail);
        assert!(refusal.hint.contains("without zones in mezzanine.flash_path"), "{}", refusal.hint);
        assert_eq!(flash.changes(), 0);
    }
}
