//! Whether a tier fits the zones of its device.

use mezzanine_device::{Device, Zones, two_zones};
use mezzanine_engine::{Design, Geometry, TierConfig, TierZones};

use crate::error::{VolumeError, VolumeErrorKind};

/// Whether what a tier writes over in place does not fit the conventional zones of its device: then it is
/// kept in two halves of sequential ones (`two_zones`).
pub(super) fn too_few_are_conventional(geometry: &Geometry, zones: Option<&Zones>) -> bool {
    let there = zones.map(Zones::conventional_len);
    there.is_some_and(|there| geometry.zones().is_some() && geometry.conventional_bytes() > there)
}

/// The zones that the device of such a tier shows.
pub(super) fn zones_with_area(
    geometry: &Geometry,
    zones: Option<Zones>,
    name: &str,
) -> Result<Zones, VolumeError> {
    let (needed, used) = (geometry.conventional_bytes(), geometry.conventional_bytes_used());
    let Some(zones) = zones else { unreachable!("only a device with zones has too few of a kind") };
    let refused = |reason: String| {
        let there = zones.conventional_len();
        let reason =
            format!("the tier needs {needed} bytes of conventional zones, and it has {there}; {reason}");
        VolumeError::new(VolumeErrorKind::InvalidConfig, "format", name, reason)
            .advise("give the tier fewer frames, or use another device")
    };
    let shown = two_zones::zones_with_area(&zones, needed, used).map_err(refused)?;
    let (left, all) = (shown.count * shown.zone_len, geometry.flash_bytes());
    if left < all && shown.zone_len == geometry.zones().map_or(0, |tier| tier.zone_bytes) {
        let reason = format!("kept in others they leave {left} bytes of the {all} that the tier takes");
        return Err(refused(reason));
    }
    Ok(shown)
}

/// The defaults for the largest queue that fits `bytes` bytes of a device with these zones, also if it has
/// too few conventional ones: then less is left for the queue. A tier that fits no size is refused when it is
/// formatted.
pub fn largest_on_zones(design: Design, page_size: u32, bytes: u64, zones: &Zones) -> TierConfig {
    let tier_zones = TierZones { zone_bytes: zones.zone_len, capacity_bytes: zones.zone_capacity };
    let largest = |bytes| TierConfig::for_zones_of(design, page_size, bytes, tier_zones);
    let of_all = largest(bytes);
    let shown = of_all.geometry().ok().filter(|geometry| too_few_are_conventional(geometry, Some(zones)));
    let shown = shown.and_then(|geometry| {
        let (needed, used) = (geometry.conventional_bytes(), geometry.conventional_bytes_used());
        // Halves for more than the smaller tier will need.
        two_zones::zones_with_area(zones, needed, used).ok()
    });
    match shown {
        Some(shown) => {
            let taken = (zones.count - shown.count) * zones.zone_len;
            largest(bytes.min(zones.count * zones.zone_len).saturating_sub(taken))
        }
        None => of_all,
    }
}

/// Refuses to format over the beginning of a device of sequential zones alone, which holds no area.
pub(super) fn refuse_zones_written(flash: &dyn Device, name: &str) -> Result<(), VolumeError> {
    let zone = flash.zone_at(0).map_err(|error| VolumeError::from_device("format", name, error))?;
    if zone.written == 0 {
        return Ok(());
    }
    let reason = "it holds something that is not a tier: its first zone is written";
    Err(VolumeError::new(VolumeErrorKind::Unrecognised, "format", name, reason)
        .advise("check the path; force formatting only if its contents may be lost"))
}

/// Refuses a tier that is not laid out for the zones of its device. One that is laid out for zones does
/// without any.
pub(super) fn check_zones(
    geometry: &Geometry,
    zones: Option<&Zones>,
    operation: &'static str,
    name: &str,
) -> Result<(), VolumeError> {
    let Some(zones) = zones else { return Ok(()) };
    let (needed, there) = (geometry.conventional_bytes(), zones.conventional_len());
    let (reason, advice) = match geometry.zones() {
        Some(tier) if tier.zone_bytes != zones.zone_len || tier.capacity_bytes > zones.zone_capacity => (
            format!("its zones are of {} bytes, {} of them for use", zones.zone_len, zones.zone_capacity),
            "lay the tier out for these",
        ),
        Some(_) if needed > there => (
            format!("the tier needs {needed} bytes of conventional zones, and it has {there}"),
            "give the tier fewer frames, or use another device",
        ),
        Some(_) => return Ok(()),
        None => (
            format!("it is written in zones of {} bytes, and the tier is laid out for none", zones.zone_len),
            "lay the tier out for its zones, or use a device without",
        ),
    };
    Err(VolumeError::new(VolumeErrorKind::InvalidConfig, operation, name, reason).advise(advice))
}
