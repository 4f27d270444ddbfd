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

/// The table `[ssd]` of a model file.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct SsdTable {
    #[serde(default)]
    condition: Condition,
    geometry: Geometry,
    timings: NandTimings,
    ftl: FtlConfig,
    cache: CacheConfig,
    host: HostConfig,
    power_loss: Option<PowerLossConfig>,
}

impl Ssd {
    /// The flash drive that a model is; none if it is another kind of drive.
    ///
    /// # Errors
    /// `InvalidModel` with the key that is wrong.
    pub fn of_model(model: &Model) -> Result<Option<Self>, DeviceError> {
        let Mechanism::Ssd(table) = &model.mechanism else { return Ok(None) };
        let invalid = |reason: String| {
            let device = format!("the drive model {}", model.name);
            DeviceError::new(DeviceErrorKind::InvalidModel, "use", device).advise(reason)
        };
        let table: SsdTable = table.clone().try_into().map_err(|error: toml::de::Error| {
            // The place is lost with the text; the message names the key.
            invalid(format!("in [ssd]: {}", error.to_string().trim()))
        })?;
        let config = SsdConfig {
            capacity_bytes: model.capacity_bytes,
            geometry: table.geometry,
            timings: table.timings,
            ftl: table.ftl,
            cache: table.cache,
            host: table.host,
            power_loss: table.power_loss,
        };
        let ssd = Self::new(config).map_err(|error| invalid(format!("in [ssd]: {error}")))?;
        Ok(Some(ssd.named(&model.name).beginning(table.condition)))
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
