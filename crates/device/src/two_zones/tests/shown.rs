//! What the device is shown as, and how much it takes.

use super::*;

#[test]
pub(super) fn the_zones_behind_the_halves_are_shown_behind_the_area() {
    let case = Case::new(zones_of(2, 7 * BLOCK), 6);
    let (area, device) = (&case.area, &case.device);
    let shown = area.capabilities().zones.unwrap();
    let halves = 2 * area.layout.half_zones;
    assert_eq!(shown.conventional, 1);
    assert_eq!(shown.count, 1 + 64 - 2 - halves);
    assert_eq!(area.len(), shown.count * shown.zone_len);
    let (zone, below) = (shown.conventional_len(), (2 + halves) * shown.zone_len);
    assert_eq!(area.append(&[5; 512], zone).unwrap(), zone);
    assert_eq!(area.append(&[6; 512], zone).unwrap(), zone + 512);
    area.write_at(&[7; 512], zone + 1024).unwrap();
    assert_eq!(device.image()[below as usize + 512], 6);
    assert_eq!(area.zone_at(zone + 512).unwrap().write_pointer(), zone + 1536);
    assert!(area.zone_at(5).unwrap().conventional);
    // A read from the area into the first zone.
    let mut bytes = [9; 1024];
    area.read_at(&mut bytes, zone - 512).unwrap();
    assert_eq!((bytes[511], bytes[512]), (0, 5));
    area.reset_zone(zone).unwrap();
    assert_eq!(area.zone_at(zone).unwrap().written, 0);
    for request in [Request::Reset { zone: 0 }, Request::write(&[0; 1024], zone - 512)] {
        assert_eq!(area.run_one(request).unwrap_err().kind(), DeviceErrorKind::ZoneOrder);
    }
    let beyond = area.write_at(&[0; 512], 6 * BLOCK).unwrap_err();
    assert_eq!(beyond.kind(), DeviceErrorKind::OutOfRange);
}

#[test]
pub(super) fn an_area_is_never_filled_beyond_what_it_was_made_for() {
    let device = MemoryDevice::zoned(&Power::new(), "zoned drive", zones_of(0, 3 * BLOCK));
    let area = TwoZones::format(&device as &dyn Device, 100 * BLOCK, 2 * BLOCK).unwrap();
    let most = area.layout.used_max();
    for block in 0..most {
        area.write_at(&[1; BLOCK_BYTES], block * BLOCK).unwrap();
    }
    let error = area.write_at(&[1; BLOCK_BYTES], most * BLOCK).unwrap_err();
    assert_eq!(error.kind(), DeviceErrorKind::NoSpace);
    for _ in 0..50 {
        area.write_at(&[2; BLOCK_BYTES], 0).unwrap();
    }
    let none = TwoZones::format(&device as &dyn Device, 100 * BLOCK, 100 * BLOCK).err().unwrap();
    assert!(none.to_string().contains("of its 64 sequential zones"), "{none}");
}
