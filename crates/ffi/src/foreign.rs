//! What a new tier may be made on: nothing of others.
//!
//! A device is formatted only if it holds nothing, if it holds this cluster's own tier and losing that loses
//! nothing, or if it holds anybody's tier that was closed and drained. Everything else is refused and stays
//! as it is, whatever the data directory says: a path may be mistyped, and it would cost whatever file of the
//! server's user it leads to.
//!
//! A tier is the data directory's own if its marker names it, or says that it was to be made. Where a base
//! backup was restored, the marker that came with it is of another moment or of another server, and one that
//! bears the cluster's system identifier counts as its own, too: a standby that is made anew finds the tier
//! that it had. Later that does not suffice: copies of one cluster have the identifier in common, and each
//! its tier.
//!
//! Of what is no whole superblock one thing alone is known for ours: the first sector of one of the copies
//! names the tier that the marker names. Formatting makes it so ([`claim`]): the marker names the new tier,
//! then the first sector alone is written, which a power cut leaves old or new and nothing between, and then
//! the rest. So whatever a crash leaves is empty, or ours by name; and so is a tier of ours whose superblocks
//! have rotted behind that. If the first sectors of both copies have, it is refused: nobody can tell it from
//! another's.

use mezzanine_device::{AlignedBuf, Device, DeviceError};
use mezzanine_engine::format::{
    ClusterName, FormatError, NAMED_BYTES, SUPERBLOCK_OFFSETS, Superblock, tier_named_in,
};
use mezzanine_engine::planted::{self, Bug};

use crate::host::describe;
use crate::marker::Marker;
use crate::message::Refusal;
use crate::settings::shown;
use crate::start::Start;

/// What there is on a device without a whole superblock.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Contents {
    /// No data, or zeros.
    Nothing,
    /// What is left of this data directory's tier, or what a crash left of a new one.
    Ours,
    /// A file with so many bytes of zeros, and more data than that: not known to hold nothing.
    Zeros(u64),
    /// Something else.
    Something,
}

/// How much of a device is read to find that it holds nothing.
struct Look {
    /// Bytes of a file's data, holes not counted; as much of a block device is read as a whole.
    all: u64,
    /// Of a larger block device, bytes at the beginning and at the end: file systems, volume managers, RAIDs
    /// and partition tables have their heads there.
    ends: u64,
    /// And so many places between,
    places: u64,
    /// of so many bytes.
    piece: u64,
}

/// A few seconds at most.
const LOOK: Look = Look { all: 1 << 30, ends: 64 << 20, places: 4096, piece: 64 << 10 };

/// Bytes of one read.
const READ_BYTES: usize = 1 << 20;
/// What was looked at once.
const BEGINNING_BYTES: u64 = 64 << 10;

/// What there is on a device that has no whole superblock.
///
/// # Errors
/// If it cannot be read: that says nothing of what it holds.
pub(crate) fn contents(flash: &dyn Device, marker: Option<&Marker>) -> Result<Contents, DeviceError> {
    let mut sector = [0; NAMED_BYTES];
    for offset in SUPERBLOCK_OFFSETS {
        flash.read_at_or_zero(&mut sector, offset)?;
        let named = |marker: &Marker| {
            let is = |uuid: &[u8; 16]| marker.names(uuid) || marker.forms(uuid);
            tier_named_in(&sector).is_some_and(|uuid| is(&uuid))
        };
        if marker.is_some_and(named) {
            return Ok(Contents::Ours);
        }
    }
    if planted::is(Bug::BeginningTakenForAll) {
        return Ok(if is_zero(flash, 0, BEGINNING_BYTES)? { Contents::Nothing } else { Contents::Something });
    }
    LOOK.at(flash)
}

impl Look {
    fn at(&self, flash: &dyn Device) -> Result<Contents, DeviceError> {
        let len = flash.len();
        if !flash.capabilities().can_resize && len > self.all {
            return self.at_places(flash, len);
        }
        let mut looked_at = 0;
        let mut offset = 0;
        while let Some(data) = flash.data_from(offset)? {
            let bytes = (data.end - data.start).min(self.all - looked_at);
            if !is_zero(flash, data.start, bytes)? {
                return Ok(Contents::Something);
            }
            looked_at += bytes;
            offset = data.start + bytes;
            if offset < data.end {
                return Ok(Contents::Zeros(looked_at));
            }
        }
        Ok(Contents::Nothing)
    }

    /// A block device has no holes, and nobody empties a large one by writing all of it.
    fn at_places(&self, flash: &dyn Device, len: u64) -> Result<Contents, DeviceError> {
        let between = (len - 2 * self.ends) / self.places;
        let places = (0..self.places).map(|place| (self.ends + place * between, self.piece.min(between)));
        for (offset, bytes) in [(0, self.ends), (len - self.ends, self.ends)].into_iter().chain(places) {
            if !is_zero(flash, offset, bytes)? {
                return Ok(Contents::Something);
            }
        }
        Ok(Contents::Nothing)
    }
}

fn is_zero(flash: &dyn Device, offset: u64, bytes: u64) -> Result<bool, DeviceError> {
    let mut read = AlignedBuf::zeroed(READ_BYTES);
    let mut done = 0;
    while done < bytes {
        let now = READ_BYTES.min((bytes - done) as usize);
        flash.read_at_or_zero(&mut read[..now], offset + done)?;
        // Without a branch for each byte.
        if read[..now].chunks(64).any(|some| some.iter().fold(0, |all, byte| all | byte) != 0) {
            return Ok(false);
        }
        done += now as u64;
    }
    Ok(true)
}

/// Has the device say whose it is, durably, before anything else of the new tier is written to it.
pub(crate) fn claim(flash: &dyn Device, superblock: &Superblock) -> Result<(), DeviceError> {
    flash.write_at(&superblock.encode()[..NAMED_BYTES], SUPERBLOCK_OFFSETS[0])?;
    flash.flush()
}

/// Whether a tier is of this cluster, or of another state or copy of it.
fn is_of_cluster(tier: &Superblock, start: &Start) -> bool {
    ClusterName::of(&tier.database_uuid).is_some_and(|name| name.system_identifier == start.system_identifier)
}

/// Whether a tier is this data directory's own.
pub(crate) fn is_own(tier: &Superblock, marker: Option<&Marker>, start: &Start) -> bool {
    let forms = |marker: &Marker| marker.forms(&tier.tier_uuid) && !planted::is(Bug::FormingTierForeign);
    marker.is_some_and(|marker| marker.names(&tier.tier_uuid) || forms(marker))
        || start.from_backup && is_of_cluster(tier, start)
}

pub(crate) fn refuse_foreign(flash: &str, error: &FormatError) -> Refusal {
    let refusal = Refusal::new(format!("\"{flash}\" holds something that is no flash tier of this cluster"));
    let refusal = match error {
        FormatError::Unrecognised => refusal.detail("It was left as it is."),
        error => refusal.detail(format!("It was left as it is. Found: {}.", describe(error))),
    };
    refusal.hint("Name another path in mezzanine.flash_path. If nobody needs what is there, remove the file, or run `mezz tier format --force` on the device.")
}

pub(crate) fn refuse_zeros(flash: &str, bytes: u64) -> Refusal {
    Refusal::new(format!("\"{flash}\" is not known to be empty"))
        .detail(format!("The first {} of its data are zeros, and more was not looked at. It was left as it is.", shown(bytes)))
        .hint("If nobody needs what it holds, remove it: the server makes the file itself. Otherwise name another path in mezzanine.flash_path.")
}

/// It holds nothing that its cluster cannot do without; but it is not ours to take.
pub(crate) fn refuse_cache(tier: &Superblock, start: &Start, flash: &str) -> Refusal {
    let whose = match ClusterName::of(&tier.database_uuid) {
        Some(_) if is_of_cluster(tier, start) => "another data directory of this cluster".to_owned(),
        Some(name) => format!("the cluster with the system identifier {}", name.system_identifier),
        None => "another program".to_owned(),
    };
    Refusal::new(format!("the flash tier on \"{flash}\" is another server's"))
        .detail(format!("It is of {whose}, and was not drained. It was left as it is."))
        .hint("Name another path in mezzanine.flash_path. If nobody needs that tier, remove the file, or run `mezz tier format --force` on the device.")
}

#[cfg(test)]
mod tests {
    use mezzanine_device::{Capabilities, MemoryDevice, Request};

    use super::*;

    /// A file, or a block device, which keeps its length.
    struct Disk {
        device: MemoryDevice,
        is_file: bool,
    }

    impl Device for Disk {
        fn capabilities(&self) -> Capabilities {
            Capabilities { can_resize: self.is_file, ..self.device.capabilities() }
        }

        fn run(&self, batch: &mut [Request<'_>]) -> Vec<Result<(), DeviceError>> {
            self.device.run(batch)
        }

        fn set_len(&self, len: u64) -> Result<(), DeviceError> {
            self.device.set_len(len)
        }

        fn describe(&self) -> String {
            self.device.describe()
        }
    }

    const SMALL: Look = Look { all: 1 << 20, ends: 1 << 18, places: 16, piece: 4096 };

    #[test]
    fn a_file_of_zeros_is_looked_at_up_to_a_bound() {
        for (len, contents) in [(0, Contents::Nothing), (1 << 20, Contents::Nothing)] {
            assert_eq!(
                SMALL.at(&Disk { device: MemoryDevice::new(len), is_file: true }).expect("it can be read"),
                contents
            );
        }
        let long = Disk { device: MemoryDevice::new((1 << 20) + 1), is_file: true };
        assert_eq!(SMALL.at(&long).expect("it can be read"), Contents::Zeros(1 << 20));
        long.write_at(&[1], (1 << 20) - 1).expect("it can be written");
        assert_eq!(SMALL.at(&long).expect("it can be read"), Contents::Something);
    }

    #[test]
    fn a_block_device_is_looked_at_at_both_ends_and_between() {
        let len = 4 << 20;
        let look = |at: Option<u64>| {
            let device = Disk { device: MemoryDevice::new(len), is_file: false };
            if let Some(at) = at {
                device.write_at(&[1], at).expect("it can be written");
            }
            SMALL.at(&device).expect("it can be read")
        };
        assert_eq!(look(None), Contents::Nothing);
        let between = (len - (1 << 19)) / 16;
        for at in [
            0,
            (1 << 18) - 1,
            len - (1 << 18),
            len - 1,
            (1 << 18) + 3 * between,
            (1 << 18) + 15 * between + 9,
        ] {
            assert_eq!(look(Some(at)), Contents::Something, "{at}");
        }
        assert_eq!(look(Some((1 << 18) + 3 * between + 4096)), Contents::Nothing, "nobody reads all of it");
    }
}
