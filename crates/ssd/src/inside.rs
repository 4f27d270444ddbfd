//! A drive from the inside, whatever its interface is.

use std::sync::Arc;

use mezzanine_device::model::{Mechanism, Model, Timing};
use mezzanine_device::{DeviceError, Zones};

use crate::config::SsdConfig;
use crate::counters::Counters;
use crate::drive::Ssd;
use crate::work::DriveWork;
use crate::zoned::ZonedSsd;

/// A drive that is modelled from the inside.
#[derive(Debug, Clone)]
pub enum Inside {
    /// Behind a translation layer.
    Mapped(Arc<Ssd>),
    /// A drive of zones.
    Zoned(Arc<ZonedSsd>),
}

impl Inside {
    /// The drive that a model is; none if it is not modelled from the inside.
    ///
    /// # Errors
    /// `InvalidModel` with the key that is wrong.
    pub fn of_model(model: &Model) -> Result<Option<Self>, DeviceError> {
        match ZonedSsd::of_model(model)? {
            Some(zoned) => Ok(Some(Self::Zoned(Arc::new(zoned)))),
            None => Ok(Ssd::of_model(model)?.map(|ssd| Self::Mapped(Arc::new(ssd)))),
        }
    }

    /// As a mechanism.
    pub fn timing(&self) -> Arc<dyn Timing> {
        match self {
            Self::Mapped(ssd) => Arc::clone(ssd) as Arc<dyn Timing>,
            Self::Zoned(ssd) => Arc::clone(ssd) as Arc<dyn Timing>,
        }
    }

    /// What it is made of.
    pub fn config(&self) -> &SsdConfig {
        match self {
            Self::Mapped(ssd) => ssd.config(),
            Self::Zoned(ssd) => ssd.config(),
        }
    }

    /// The zones that its host sees, if it has some.
    pub fn zones(&self) -> Option<Zones> {
        match self {
            Self::Mapped(_) => None,
            Self::Zoned(ssd) => Some(ssd.zones()),
        }
    }

    /// Bytes of memory that a state takes.
    pub fn state_bytes(&self) -> u64 {
        match self {
            Self::Mapped(ssd) => ssd.state_bytes(),
            Self::Zoned(ssd) => ssd.state_bytes(),
        }
    }

    /// What it has counted.
    pub fn counters(&self, state: &[u64]) -> Counters {
        match self {
            Self::Mapped(ssd) => ssd.counters(state),
            Self::Zoned(ssd) => ssd.counters(state),
        }
    }

    /// What it did between two looks at its counters, so many seconds apart.
    pub fn work(&self, state: &[u64], first: &Counters, last: &Counters, seconds: f64) -> DriveWork {
        let erases = match self {
            Self::Mapped(ssd) => ssd.erases(state),
            Self::Zoned(ssd) => ssd.erases(state),
        };
        DriveWork::between(self.config(), first, last, &erases, seconds)
    }
}

/// The same flash behind its translation layer, of a model of a drive of zones: with as much room for the
/// host, or as much as the translation layer leaves. `None` of another model.
///
/// # Errors
/// `InvalidModel` with the key that is wrong.
pub fn behind_translation_layer(model: &Model) -> Result<Option<Model>, DeviceError> {
    let Some(zoned) = ZonedSsd::of_model(model)? else { return Ok(None) };
    let Mechanism::Ssd(table) = &model.mechanism else { return Ok(None) };
    let mut table = table.clone();
    table.remove("interface");
    table.remove("zones");
    let mut mapped = Model { mechanism: Mechanism::Ssd(table), ..model.clone() };
    // With the reserve that its translation layer has.
    let config = crate::model::config_of(model)?;
    let room = config.capacity_units_max() * u64::from(config.geometry.unit_bytes);
    mapped.capacity_bytes = zoned.config().capacity_bytes.min(room);
    Ok(Some(mapped))
}
