//! Drive models with a table `[ssd]`, and who computes the times of whatever model.

use std::path::Path;
use std::sync::Arc;

use mezzanine_device::model::{Mechanism, Timing};
use mezzanine_device::{DeviceError, DeviceErrorKind, Drive, Model};
use serde::Deserialize;

use crate::config::{CacheConfig, FtlConfig, HostConfig, SsdConfig};
use crate::drive::{Condition, Ssd};
use crate::geometry::{Geometry, NandTimings};
use crate::power::PowerLossConfig;
use crate::zoned::{ZonedSsd, ZonesConfig};

/// How a host sees a drive: the key `interface`.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Interface {
    /// As blocks that are written anywhere, by a translation layer.
    #[default]
    Mapped,
    /// As zones.
    Zoned,
}

/// The table `[ssd]` of a model file.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct SsdTable {
    #[serde(default)]
    condition: Condition,
    #[serde(default)]
    interface: Interface,
    zones: Option<ZonesConfig>,
    geometry: Geometry,
    timings: NandTimings,
    ftl: FtlConfig,
    cache: CacheConfig,
    host: HostConfig,
    power_loss: Option<PowerLossConfig>,
}

fn invalid(model: &Model, reason: String) -> DeviceError {
    let device = format!("the drive model {}", model.name);
    DeviceError::new(DeviceErrorKind::InvalidModel, "use", device).advise(reason)
}

impl SsdTable {
    /// That of a model; none if it has none.
    fn of(model: &Model) -> Result<Option<Self>, DeviceError> {
        let Mechanism::Ssd(table) = &model.mechanism else { return Ok(None) };
        let table = table.clone().try_into().map_err(|error: toml::de::Error| {
            // The place is lost with the text; the message names the key.
            invalid(model, format!("in [ssd]: {}", error.to_string().trim()))
        })?;
        Ok(Some(table))
    }

    fn config(self, model: &Model) -> SsdConfig {
        SsdConfig {
            capacity_bytes: model.capacity_bytes,
            geometry: self.geometry,
            timings: self.timings,
            ftl: self.ftl,
            cache: self.cache,
            host: self.host,
            power_loss: self.power_loss,
        }
    }
}

/// What the drive of a model with a table `[ssd]` is made of.
pub(crate) fn config_of(model: &Model) -> Result<SsdConfig, DeviceError> {
    let table = SsdTable::of(model)?.ok_or_else(|| invalid(model, "it has no table [ssd]".to_owned()))?;
    Ok(table.config(model))
}

impl Ssd {
    /// The flash drive that a model is; none if it is another kind of drive.
    ///
    /// # Errors
    /// `InvalidModel` with the key that is wrong, or if it is a drive of zones.
    pub fn of_model(model: &Model) -> Result<Option<Self>, DeviceError> {
        let Some(table) = SsdTable::of(model)? else { return Ok(None) };
        if table.interface == Interface::Zoned {
            let reason = "it has no translation layer: only a tier on zones can use it, in `mezz sim run`";
            return Err(invalid(model, reason.to_owned()));
        }
        let condition = table.condition;
        let ssd = Self::new(table.config(model));
        let ssd = ssd.map_err(|error| invalid(model, format!("in [ssd]: {error}")))?;
        Ok(Some(ssd.named(&model.name).beginning(condition)))
    }
}

impl ZonedSsd {
    /// The drive of zones that a model is; none if it is another kind of drive.
    ///
    /// # Errors
    /// `InvalidModel` with the key that is wrong.
    pub fn of_model(model: &Model) -> Result<Option<Self>, DeviceError> {
        let Some(table) = SsdTable::of(model)? else { return Ok(None) };
        if table.interface != Interface::Zoned {
            return Ok(None);
        }
        let Some(zones) = table.zones else {
            return Err(invalid(model, "in [ssd]: interface \"zoned\" needs a table [ssd.zones]".to_owned()));
        };
        let zoned = Self::new(table.config(model), zones);
        zoned.map(Some).map_err(|error| invalid(model, format!("in [ssd]: {error}")))
    }
}

/// A model made ready to compute with, whatever drive it is.
///
/// # Errors
/// `InvalidModel` with the key that is wrong.
pub fn timing(model: &Model) -> Result<Arc<dyn Timing>, DeviceError> {
    match Ssd::of_model(model)? {
        Some(ssd) => Ok(Arc::new(ssd)),
        None => model.timing(),
    }
}

/// [`Drive::open_shared`] for a model of whatever drive.
///
/// # Errors
/// As of that, and of [`timing`].
pub fn open_drive(model: Model, state: Option<&Path>, time_scale: f64) -> Result<Arc<Drive>, DeviceError> {
    let (timing, fingerprint) = (timing(&model)?, model.fingerprint());
    Drive::open_with(model, timing, fingerprint, state, time_scale)
}
