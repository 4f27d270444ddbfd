//! Timing models of disks and drives.
//!
//! A model gives every operation a completion time from the state of the drive: [`Timing::submit`] and
//! [`Timing::progress`] are pure functions of (parameters, state, now, operation), without clock, thread or
//! sleep. In virtual time a simulator calls them ([`closed_loop`]); in real time a [`Drive`](crate::Drive)
//! keeps the state in memory that processes share, and holds each operation back until its modelled
//! completion.
//!
//! All times are nanoseconds of *model time*. Models come from TOML files with units in the key names; those
//! that ship are built in ([`catalogue`], [`find`]).

mod spec;

mod timing;

mod mechanical;

mod streams;

mod table;

mod few;

mod disk;

mod array;

mod closed_loop;

use crate::{DeviceError, DeviceErrorKind};

pub use array::DISKS_MAX;
pub use closed_loop::{ClosedLoop, Outcome, closed_loop};
pub use spec::{CostRule, DiskParameters, Figures, Mechanism, Model, TableParameters};
pub use timing::{Full, Operation, OperationKind, Progress, Submitted, Ticket, Timing};

/// The models that ship, by name and in the order in which they are listed.
const SHIPPED: [(&str, &str); 15] = [
    ("samsung-840-pro", include_str!("../../models/samsung-840-pro.toml")),
    ("samsung-850-evo", include_str!("../../models/samsung-850-evo.toml")),
    ("intel-dc-s3500", include_str!("../../models/intel-dc-s3500.toml")),
    ("intel-p3700", include_str!("../../models/intel-p3700.toml")),
    ("ssd-mid-a", include_str!("../../models/ssd-mid-a.toml")),
    ("ssd-mid-b", include_str!("../../models/ssd-mid-b.toml")),
    ("durassd", include_str!("../../models/durassd.toml")),
    ("ssd-a", include_str!("../../models/ssd-a.toml")),
    ("ssd-b", include_str!("../../models/ssd-b.toml")),
    ("nvme-local", include_str!("../../models/nvme-local.toml")),
    ("cloud-volume", include_str!("../../models/cloud-volume.toml")),
    ("cheetah-15k", include_str!("../../models/cheetah-15k.toml")),
    ("cheetah-15k-cached", include_str!("../../models/cheetah-15k-cached.toml")),
    ("cheetah-15k-x8", include_str!("../../models/cheetah-15k-x8.toml")),
    ("cheetah-15k-x16", include_str!("../../models/cheetah-15k-x16.toml")),
];

/// The array whose figures per disk serve for arrays of other sizes.
const ARRAY_TEMPLATE: &str = "cheetah-15k-x";

/// Every model that ships.
///
/// # Panics
/// Never with the files that ship: a test reads them all.
pub fn catalogue() -> Vec<Model> {
    SHIPPED
        .iter()
        .map(|(name, text)| Model::from_toml(text, name).expect("shipped models are valid"))
        .collect()
}

/// The model with this name. `cheetah-15k-xN` is a RAID-0 of N disks for every N from 2 to [`DISKS_MAX`]. A
/// name that ends in `.toml` is the path of a model file.
///
/// # Errors
/// `NotFound` with the names there are; `InvalidModel` and the errors of reading for a file.
pub fn find(name: &str) -> Result<Model, DeviceError> {
    if name.ends_with(".toml") {
        return Model::load(name);
    }
    if let Some((name, text)) = SHIPPED.iter().find(|(shipped, _)| *shipped == name) {
        return Model::from_toml(text, name);
    }
    let disks = name.strip_prefix(ARRAY_TEMPLATE).and_then(|count| count.parse::<u32>().ok());
    if let Some(disks) = disks.filter(|disks| (2..=DISKS_MAX as u32).contains(disks)) {
        return find("cheetah-15k-x16")?.with_disks(disks);
    }
    let names: Vec<&str> = SHIPPED.iter().map(|(name, _)| *name).collect();
    let error = DeviceError::new(DeviceErrorKind::NotFound, "find", format!("the drive model {name:?}"));
    Err(error.advise(format!("the models are {}; or name a .toml file", names.join(", "))))
}
