//! Drives behind devices, one request at a time.
#![allow(clippy::unwrap_used)]

use mezzanine_device::Device;

use super::*;

const BYTES: u64 = 40 * 4096;

/// A device of a seed whose drive has such a cache and hears flushes or not.
fn device(cache: CacheKind, hears_flushes: bool) -> (MemoryDevice, Power) {
    let fits = |drive: &Drive| drive.cache() == cache && drive.hears_flushes() == hears_flushes;
    let drive = (1..).map(|seed| Drive::draw(seed, BYTES, &[])).find(fits).unwrap();
    let power = Power::new();
    (drive.device(&power, "flash", BYTES, &Tally::default()), power)
}

fn page(of: u8) -> Vec<u8> {
    vec![of; 4096]
}

fn read(device: &MemoryDevice, offset: u64) -> Vec<u8> {
    let mut found = vec![0; 4096];
    device.read_at(&mut found, offset).unwrap();
    found
}

#[test]
fn a_process_that_is_killed_in_a_write_takes_no_power_away() {
    let (device, power) = device(CacheKind::Volatile, true);
    power.crash_after(1);
    assert!(device.write_at(&page(1), 4096).is_err());
    assert!(device.write_at(&page(2), 8192).is_err());
    power.restore();
    assert_eq!(read(&device, 4096), page(1), "what was under way is there, and nobody was told");
    assert_eq!(read(&device, 8192), page(0));
    device.write_at(&page(3), 8192).unwrap();
    device.flush().unwrap();
    device.power_cut(7);
    assert_eq!(read(&device, 4096), page(1));
    assert_eq!(read(&device, 8192), page(3));
}

#[test]
fn what_a_durable_cache_has_acknowledged_is_there_and_of_a_volatile_one_what_was_flushed() {
    for (cache, hears_flushes) in
        [(CacheKind::Durable, false), (CacheKind::None, false), (CacheKind::Volatile, true)]
    {
        let (device, _) = device(cache, hears_flushes);
        let mut lost = 0;
        for number in 0..200_u8 {
            let offset = u64::from(number % 40) * 4096;
            device.write_at(&page(number), offset).unwrap();
            if hears_flushes && number % 2 == 0 {
                device.flush().unwrap();
            }
            assert_eq!(device.unflushed() > 0, !(hears_flushes && number % 2 == 0));
            lost += device.power_cut(number.into()).lost;
            let found = read(&device, offset);
            let may_be_lost = hears_flushes && number % 2 == 1;
            assert!(may_be_lost || found == page(number), "{cache:?}, write {number}");
            assert!(device.view(|image| image.range(offset as usize..offset as usize + 4096) == found));
        }
        assert_eq!(lost > 0, cache == CacheKind::Volatile, "{cache:?}: {lost} units");
    }
}

#[test]
fn another_drive_in_its_place_holds_the_image_durably() {
    let (device, _) = device(CacheKind::Volatile, true);
    device.write_at(&page(9), 0).unwrap();
    let image: Vec<u8> = (0..BYTES as usize * 2).map(|at| (at / 4096) as u8).collect();
    device.load(&image);
    assert_eq!(device.unflushed(), 0);
    device.power_cut(1);
    assert_eq!(device.image(), image);
    assert_eq!(read(&device, 2 * BYTES - 4096), page(79), "a longer one has more blocks");
}

#[test]
fn every_anomaly_is_asked_for_by_its_name() {
    for (anomaly, name) in DriveAnomaly::ALL {
        assert_eq!((name.parse(), anomaly.to_string()), (Ok(anomaly), name.to_owned()));
    }
    let error = "torn".parse::<DriveAnomaly>().unwrap_err();
    assert!(error.contains("'torn'") && error.contains("paired_pages"), "{error}");
}
