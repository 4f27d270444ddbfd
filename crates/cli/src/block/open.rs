//! What `attach` opens: whether cache device and volumes belong together, and what of the cache counts.
//! Nothing is written before all of that is known.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use mezzanine_cached::{Attachment, Backing, FileVoucher, Opening, ReadMap, opening_of, set_opening};
use mezzanine_device::{Device, FileDevice};
use mezzanine_fragment::format::{Superblock, VolumeEntry};
use mezzanine_fragment::{Admission, Config, ConfigError, Geometry, Recovered};

use super::attach::AttachArgs;
use super::cache_device::CacheDevice;
use super::devices::{self, Named};
use super::folders;
use crate::failure::{Failure, chain};
use crate::output;

/// Blocks of each volume that are compared before it is served, and for how long at most.
const SAMPLE_BLOCKS: usize = 1024;
const SAMPLE_WITHIN: Duration = Duration::from_secs(2);

/// A volume that is served: its place in the cache, its name and its own device.
pub(super) struct Volume {
    pub(super) number: usize,
    pub(super) named: Named,
    pub(super) device: Arc<FileDevice>,
    pub(super) known_by: Backing,
    /// It was changed while it was detached, which is accepted.
    is_changed: bool,
}

/// All that is known before anything is written.
pub(super) struct Opened {
    pub(super) volumes: Vec<Volume>,
    pub(super) cache: CacheDevice,
    pub(super) map: ReadMap,
    /// How the cache begins, for people.
    pub(super) begins: String,
}

/// The volumes' own devices, as they are named.
pub(super) fn uncached(args: &AttachArgs) -> Result<Vec<Volume>, Failure> {
    let open = |(number, named): (usize, &Named)| {
        let device = devices::backing(&named.path)?;
        let known_by = devices::known_by(&named.path, &device)?;
        Ok(Volume { number, named: named.clone(), device, known_by, is_changed: false })
    };
    args.backing.iter().enumerate().map(open).collect()
}

/// Opens the cache device and the volumes' own devices, and refuses what does not belong together.
pub(super) fn open(args: &AttachArgs, path: &Path) -> Result<Opened, Failure> {
    if let Some(one) = args.backing.iter().find(|one| devices::same(&one.path, path)) {
        return Err(
            Failure::usage(one.path.display(), "it cannot be its own cache").next("name its cache device")
        );
    }
    let device = devices::cache(path, true)?;
    let found = devices::superblocks(path, &device)?;
    let mut superblock = found.newest;
    let (first, opening_before) = (found.write_first, opening_of(&superblock));
    let before = (superblock.host, superblock.volumes.iter().map(|entry| entry.host).collect());
    let volumes = belonging_together(args, path, &superblock)?;
    let was_open = superblock.volumes.iter().any(|entry| is(entry, Attachment::InUse));
    let unvouched = if was_open { why_unvouched(opening_before) } else { None };
    for (number, entry) in superblock.volumes.iter_mut().enumerate() {
        if is(entry, Attachment::InUse) && volumes.iter().all(|volume| volume.number != number) {
            // What it was known by before the crash says nothing of it now.
            let backing = Backing { attachment: Attachment::Abandoned, ..Backing::decode(&entry.host) };
            entry.host = backing.encode();
            output::note(&format!("volume {} was in use at the crash, and is not named", entry.name));
        }
    }
    if unvouched.is_some() {
        superblock = superblock.reinitialised(devices::random_id()?);
    }
    for volume in volumes.iter().filter(|volume| volume.is_changed) {
        let bytes = volume.device.len();
        superblock = attached_anew(&superblock, volume.number, bytes).map_err(|error| {
            Failure::refused(volume.named.path.display(), error)
                .next("give it its length back, or make the cache anew with `mezz block create --force`")
        })?;
    }
    let opening = Opening(devices::random_id()?);
    superblock = superblock.opened();
    set_opening(&mut superblock, opening);
    let map = read(args, path, &device, &superblock)?;
    for volume in &volumes {
        is_as_cached(&map, volume, &device, &superblock)?;
    }
    let others = superblock.volumes.iter().enumerate();
    let others = others.filter(|(number, _)| volumes.iter().all(|volume| volume.number != *number));
    devices::note_each(
        others.map(|(_, entry)| format!("volume {} is not named, and not served", entry.name)),
    );
    let begins = begins(was_open, unvouched, map.found());
    let (path, device) = (path.to_owned(), Arc::new(device));
    let cache = CacheDevice { path, device, superblock, first, before, opening, opening_before };
    Ok(Opened { volumes, cache, map, begins })
}

fn is(entry: &VolumeEntry, attachment: Attachment) -> bool {
    Backing::decode(&entry.host).attachment == attachment
}

/// Why the map of a cache that came to no orderly end does not count; none: it does.
fn why_unvouched(opening: Option<Opening>) -> Option<String> {
    let Some(opening) = opening else {
        return Some("whoever had attached it did not have its map vouched for".to_owned());
    };
    let folder = match folders::state() {
        Ok(folder) => folder,
        Err(failure) => return Some(format!("nothing vouches for its map: {failure}")),
    };
    match FileVoucher::vouches(&folder, opening) {
        Ok(true) => None,
        Ok(false) => Some(format!(
            "nothing in {} vouches for its map: its device had failed, or it was attached elsewhere or by another user",
            folder.display()
        )),
        Err(error) => Some(format!("{}: what vouches for its map cannot be read: {error}", folder.display())),
    }
}

fn begins(was_open: bool, unvouched: Option<String>, found: Recovered) -> String {
    let Recovered { fragments, unstable, lost, behind_limit, .. } = found;
    let mut text = match (unvouched, was_open) {
        (Some(why), _) => return format!("empty, as it came to no orderly end, and {why}"),
        (None, true) => {
            format!("{fragments} fragments after a crash; {unstable} that had not settled were dropped")
        }
        (None, false) => format!("{fragments} fragments after an orderly end"),
    };
    if behind_limit > 0 {
        text.push_str(&format!("; {behind_limit} that lay behind its size were dropped"));
    }
    if lost > 0 {
        text.push_str(&format!("; {lost} records of its map could not be used"));
    }
    text
}

/// What of the volume is in the cache does not count any more.
fn attached_anew(superblock: &Superblock, number: usize, bytes: u64) -> Result<Superblock, ConfigError> {
    let id = superblock.volumes[number].id;
    superblock.reattached_with(&id, bytes).map(|anew| anew.expect("a volume of the cache"))
}

/// The parameters of the cache as it is asked for.
fn config(args: &AttachArgs, superblock: &Superblock) -> Config {
    let mut config = superblock.config();
    config.write_mode = args.write_mode;
    config.population_workers = args.population_workers;
    config.write_budget = args.write_budget.map_or(0, |bytes| bytes.0);
    config.yield_us = args.yield_above;
    config.admission = Admission { reads: args.admit_reads, writes: args.admit_writes };
    if let Some(map) = &mut config.map {
        map.settle_ms = u64::try_from(args.settle.as_millis()).unwrap_or(u64::MAX);
        map.waits_per_mille = args.waits_per_mille;
    }
    config
}

fn geometry(args: &AttachArgs, path: &Path, superblock: &Superblock) -> Result<Geometry, Failure> {
    let geometry = config(args, superblock).geometry().map_err(|error| {
        Failure::refused(path.display(), error).next("`mezz block create --force` makes a new cache there")
    })?;
    devices::memory(&geometry).map(|_| geometry)
}

fn read(
    args: &AttachArgs,
    path: &Path,
    device: &FileDevice,
    superblock: &Superblock,
) -> Result<ReadMap, Failure> {
    let geometry = geometry(args, path, superblock)?;
    ReadMap::read(geometry, device).map_err(|error| {
        Failure::refused(path.display(), chain(&error))
            .next("`mezz block create --force` makes a new cache there; the volumes have everything")
    })
}

/// Compares some blocks of the cache with the volume, which has none of one that is attached anew.
fn is_as_cached(
    map: &ReadMap,
    volume: &Volume,
    cache: &FileDevice,
    superblock: &Superblock,
) -> Result<(), Failure> {
    let (number, seed) = (volume.number, u64::from_le_bytes(first_bytes(devices::random_id()?)));
    let path = volume.named.path.display();
    let sampled = map
        .compare_some(number, cache, &*volume.device, (seed, SAMPLE_BLOCKS), SAMPLE_WITHIN)
        .map_err(|error| Failure::refused(&path, chain(&error)).next("check the volume's own device"))?;
    let Some(offset) = sampled.first else { return Ok(()) };
    let all = sampled.same + sampled.differing;
    let reason = format!(
        "{} of {all} blocks that were compared are not what the cache has of volume {}, the first at byte {offset}: it was \
         written to past its cache, or is another device",
        sampled.differing, superblock.volumes[number].name
    );
    Err(Failure::refused(&path, reason).next(ACCEPT))
}

fn first_bytes(id: [u8; 16]) -> [u8; 8] {
    let mut bytes = [0; 8];
    bytes.copy_from_slice(&id[..8]);
    bytes
}

const ACCEPT: &str = "name the right device; or give --accept-changes, if somebody has written to it past its cache: it is cached anew";

/// The volumes that are named, each with its place in the cache.
fn belonging_together(
    args: &AttachArgs,
    path: &Path,
    superblock: &Superblock,
) -> Result<Vec<Volume>, Failure> {
    let mut volumes: Vec<Volume> = Vec::new();
    for named in &args.backing {
        let device = devices::backing(&named.path)?;
        let known_by = devices::known_by(&named.path, &device)?;
        let taken = |number: usize| volumes.iter().any(|volume| volume.number == number);
        let number = belonging(superblock, named, &*device, known_by, taken, path)?;
        let is_changed = check(superblock, number, named, &*device, known_by, args.accept_changes)?;
        volumes.push(Volume { number, named: named.clone(), device, known_by, is_changed });
    }
    Ok(volumes)
}

/// The number of the volume that somebody names: by its name, or by what the device is known by.
fn belonging(
    superblock: &Superblock,
    named: &Named,
    device: &dyn Device,
    known_by: Backing,
    taken: impl Fn(usize) -> bool,
    cache: &Path,
) -> Result<usize, Failure> {
    let volumes = &superblock.volumes;
    let known =
        |entry: &VolumeEntry| entry.bytes == device.len() && Backing::decode(&entry.host).is_as(&known_by);
    let found = volumes.iter().position(|entry| entry.name == named.name);
    let found = found.or_else(|| labelled(volumes, known_by));
    // Two of which nothing tells which is which are never taken for one another.
    let mut alike = volumes.iter().enumerate().filter(|(_, entry)| known(entry)).map(|(number, _)| number);
    let only = alike.next().filter(|_| alike.next().is_none());
    let found = found.or(only).filter(|number| !taken(*number));
    found.ok_or_else(|| {
        let names: Vec<_> = volumes.iter().map(|entry| entry.name.as_str()).collect();
        let reason = format!("{} has no volume of the name {}", cache.display(), named.name);
        Failure::refused(named.path.display(), reason).next(format!(
            "name it as NAME=PATH; the cache has {}; or make a cache with this volume with `mezz block create`",
            names.join(", ")
        ))
    })
}

/// The volume that had a device of this label.
fn labelled(volumes: &[VolumeEntry], known_by: Backing) -> Option<usize> {
    known_by.label?;
    volumes.iter().position(|entry| Backing::decode(&entry.host).label == known_by.label)
}

/// Refuses a device that is not as its volume was when it was last seen. True if it was changed, and that is
/// accepted.
fn check(
    superblock: &Superblock,
    number: usize,
    named: &Named,
    device: &dyn Device,
    known_by: Backing,
    accept_changes: bool,
) -> Result<bool, Failure> {
    let entry = &superblock.volumes[number];
    let (path, len) = (named.path.display(), device.len());
    if len != entry.bytes && !accept_changes {
        let how = if len < entry.bytes { "shrunk" } else { "grown" };
        let reason = format!(
            "it has {how}, or is another device: it has {len} bytes, and volume {} had {}",
            entry.name, entry.bytes
        );
        return Err(Failure::refused(path, reason).next(
            "name the right device; or give --accept-changes, if it is this one and its length was changed: it is cached anew",
        ));
    }
    let backing = Backing::decode(&entry.host);
    if backing.is_labelled_otherwise(&known_by) {
        let whose = labelled(&superblock.volumes, known_by).map(|other| &superblock.volumes[other].name);
        let reason = match whose {
            Some(other) => format!(
                "by its serial number or WWID it is volume {other}, and it is named as volume {}",
                entry.name
            ),
            None => {
                format!("by its serial number or WWID it is not the device that volume {} was on", entry.name)
            }
        };
        return if accept_changes && whose.is_none() {
            Ok(true)
        } else {
            Err(Failure::refused(path, reason).next(match whose {
                Some(other) => format!("name it {other}=PATH"),
                None => ACCEPT.to_owned(),
            }))
        };
    }
    if backing.attachment != Attachment::Detached {
        let text = "it came to no orderly end the last time: it is known by its length, and by what the cache has of it";
        output::note(&format!("volume {}: {text}", entry.name));
        return Ok(accept_changes);
    }
    // Whoever says that there are changes is believed: what it is known by, and a sample, do not show all.
    if !backing.is_as(&known_by) && !accept_changes {
        let how = if backing.fingerprint == known_by.fingerprint {
            "it was written to".to_owned()
        } else {
            let (was, is) = (backing.fingerprint, known_by.fingerprint);
            format!("its first or last blocks were changed (known by {is}, and it was {was})")
        };
        let reason = format!("{how} since volume {} was detached, or it is another device", entry.name);
        return Err(Failure::refused(path, reason).next(ACCEPT));
    }
    Ok(accept_changes)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use std::path::PathBuf;

    use mezzanine_cached::{Fingerprint, Label};
    use mezzanine_device::MemoryDevice;

    use super::*;

    const BYTES: u64 = 4 << 20;

    fn known(attachment: Attachment, label: Option<&str>) -> Backing {
        let fingerprint = Fingerprint([7; 32]);
        Backing { fingerprint, attachment, changed_ns: 0, label: label.map(Label::of) }
    }

    /// Two volumes of devices with like ends.
    fn two(attachment: Attachment, labels: [Option<&str>; 2]) -> Superblock {
        let mut superblock = Superblock::new([1; 16], 8 << 20, 128 << 10).unwrap();
        for (name, label) in ["data", "log"].into_iter().zip(labels) {
            let host = known(attachment, label).encode();
            let id = if name == "data" { [2; 16] } else { [3; 16] };
            superblock = superblock.with_volume(id, name, BYTES, host).unwrap();
        }
        superblock
    }

    /// The volume that a device is taken for, or what is said.
    fn taken_for(
        superblock: &Superblock,
        name: &str,
        label: Option<&str>,
        accept: bool,
    ) -> Result<usize, String> {
        let (device, known_by) = (MemoryDevice::new(BYTES), known(Attachment::Detached, label));
        let named = Named { name: name.to_owned(), path: PathBuf::from("/dev/sdx") };
        let number = belonging(superblock, &named, &device, known_by, |_| false, Path::new("/dev/cache"));
        let number = number.map_err(|failure| failure.to_string())?;
        let checked = check(superblock, number, &named, &device, known_by, accept);
        checked.map(|_| number).map_err(|failure| failure.to_string())
    }

    #[test]
    fn devices_of_like_ends_are_told_apart_by_what_the_system_calls_them() {
        for attachment in [Attachment::Detached, Attachment::InUse] {
            let labelled = two(attachment, [Some("wwid a"), Some("wwid b")]);
            assert_eq!(taken_for(&labelled, "log", Some("wwid b"), false), Ok(1));
            // Whatever it is called.
            assert_eq!(taken_for(&labelled, "sdx", Some("wwid b"), false), Ok(1));
            for accept in [false, true] {
                let said = taken_for(&labelled, "data", Some("wwid b"), accept).unwrap_err();
                assert!(said.contains("it is volume log") && said.contains("log=PATH"), "{said}");
            }
            let said = taken_for(&labelled, "data", Some("wwid c"), false).unwrap_err();
            assert!(said.contains("not the device") && said.contains("--accept-changes"), "{said}");
            assert_eq!(taken_for(&labelled, "data", Some("wwid c"), true), Ok(0));
            // Where the system has no name for it, it goes by the name that is given.
            assert_eq!(taken_for(&labelled, "data", None, false), Ok(0));
            let nameless = two(attachment, [None, None]);
            assert_eq!(taken_for(&nameless, "log", None, false), Ok(1));
            let said = taken_for(&nameless, "sdx", None, false).unwrap_err();
            assert!(said.contains("no volume of the name sdx"), "{said}");
        }
    }
}
