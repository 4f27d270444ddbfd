//! Puts flash, disks and sidecars of different moments together, on a copy of the machine.
//!
//! Invariants checked: `pairing`. What is put together is refused, with a message that names the thing and
//! says what to do, and nothing has changed if no file was attached; or every page is the newest of what was
//! put together, and a file that grows has zeros there. The exceptions are those of docs/copies.md (*What
//! cannot be told*):
//! 1. Flash of an earlier moment of the opening that the sidecar names, or of a copy of that moment to which
//!    no group was written in openings since, if it has all groups that the sidecar says were durable: pages
//!    are as they were at a moment in between, as is what went to disk alone meanwhile.
//! 2. A disk of another moment than its sidecar: pages that the sidecar does not name may be as they are on
//!    that disk.
//! 3. A file whose sidecar does not say `dirty` counts as it is, if flash holds nothing that its disk did not
//!    have at the moment of flash, or if the disk is not the sidecar's. Where a guard stands on it, its head
//!    is the one in the sidecar, which names nothing else; a disk that has not the length in the sidecar is
//!    told by that, and must be refused.
//! 4. Of another copy's flash that was opened more often since than it keeps nonces anything may be believed.
//! 5. A file that got its number since its current sidecar was written is told by its name alone, which a
//!    crash may have torn on flash.
//! 6. A discard that a crash broke off, and that nobody acknowledged, changes the disk before flash says so:
//!    beside a file and sidecar from before it, pages are as they were then, though zeros were read since.
//!
//! Where the tier has clean pages only, then and now, files that are current are not refused.

use std::sync::Arc;

use mezzanine_device::memory::Image;
use mezzanine_engine::format::{Superblock, read_superblock};
use mezzanine_engine::{Admission, Region, SyncMode, Tier, TierConfig};
use mezzanine_ground::random::Random;
use mezzanine_volume::{VolumeConfig, VolumeError, VolumeErrorKind};

use super::pairing;
use super::recovery::contents;
use crate::crash::driver::at_rest::AtRest;
use crate::crash::driver::{Invariant, Stop};
use crate::crash::volume::machine::{Machine, Snapshot};
use crate::crash::volume::model::FileModel;
use crate::crash::volume::moments::Contents;
use crate::crash::volume::moments::{Histories, Moment};
use crate::crash::volume::pattern::UNIT_BYTES;
use crate::crash::volume::world::{GUARD, Session, World, trace};

/// Openings of which a superblock keeps the nonce.
const NONCES_KEPT: u32 = 64;

/// What a file is put together of.
#[derive(Clone)]
struct Part {
    disk: Arc<Moment>,
    /// `None`: it has none, whatever it had.
    sidecar: Option<Arc<Moment>>,
}

/// What is put together.
struct Mix {
    flash: Arc<Moment>,
    files: Vec<Part>,
    /// How the volume is opened.
    config: VolumeConfig,
}

/// Something that was put together, is right, and stays so.
pub(in crate::crash::volume) struct Joined {
    pub(in crate::crash::volume) snapshot: Snapshot,
    pub(in crate::crash::volume) contents: Contents,
    pub(in crate::crash::volume) flash: Arc<Moment>,
    /// Of which moment each file is.
    pub(in crate::crash::volume) files: Vec<usize>,
    /// In which mode it was accepted.
    pub(in crate::crash::volume) sync_mode: SyncMode,
}

/// How the moment of flash lies to that of a sidecar.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Relation {
    Same,
    FlashNewer,
    FlashOlder,
    /// Neither came before the other: they are of two copies.
    Apart,
}

/// Puts something together with what there is `now`, and looks at it. Returns it if the life may go on with
/// it.
pub(in crate::crash::volume) fn check(
    world: &mut World,
    now: &Arc<Moment>,
    random: &mut Random,
) -> Result<Option<Joined>, Stop> {
    let mix = draw(world, now, random);
    let snapshot = mix.snapshot(&mut world.histories);
    let text = mix.describe();
    trace!(world, "on a copy: {text}");
    world.life.coverage.mixes += 1;
    let copy = Machine::from_snapshot(&snapshot, world.scenario.fingerprints);
    let opened = mezzanine_volume::Volume::open(copy.connect(&copy.flash), mix.config.clone());
    let opened = opened.map_err(|error| (0, error));
    let opened = opened.and_then(|volume| Ok((world.attach_all(&copy, &volume)?, volume)));
    let session = match opened {
        Ok((files, volume)) => Session { volume: Arc::new(volume), files },
        Err((attached, error)) => {
            trace!(world, "refused on the copy: {error}");
            world.life.coverage.mixes_refused += 1;
            if attached == 0 && snapshot != copy.snapshot() {
                return Err(broken(format!("{text} was refused and changed: {error}")));
            }
            judge_refusal(world, &mix, &error).map_err(|why| broken(format!("{text} {why}: {error}")))?;
            return Ok(None);
        }
    };
    let found = contents(world, &session)?;
    let mut stays = !mix.files.is_empty();
    for (file, found) in found.iter().enumerate() {
        let judged = mix.judge(world, file, found);
        stays &= judged.map_err(|why| broken(format!("{text} was accepted, and file {file} {why}")))?;
    }
    // All of them first: a tier that still waits for a file takes no changes.
    for file in 0..found.len() {
        stays &= grows_with_zeros(world, &session, file, &text)?;
    }
    let goes_on = stays && random.chance(1, 2);
    Ok(goes_on.then(|| Joined {
        snapshot,
        contents: found,
        files: mix.files.iter().map(|part| part.disk.id).collect(),
        sync_mode: mix.config.tier.sync_mode,
        flash: mix.flash,
    }))
}

fn broken(text: String) -> Stop {
    Stop::Violated(Invariant::Pairing, text)
}

fn draw(world: &mut World, now: &Arc<Moment>, random: &mut Random) -> Mix {
    let moments = &world.histories.moments;
    let any = |random: &mut Random| moments[random.below(moments.len() as u64) as usize].clone();
    let other = any(random);
    let (one, two) = if random.chance(1, 2) { (now.clone(), other) } else { (other, now.clone()) };
    let together = |moment: &Arc<Moment>| Part { disk: moment.clone(), sidecar: Some(moment.clone()) };
    let mut files = vec![together(&one); world.models.len()];
    let chosen = random.below(files.len() as u64) as usize;
    let mut flash = one.clone();
    match random.below(9) {
        0 | 1 => flash = two,
        2 => files.iter_mut().for_each(|file| file.disk = two.clone()),
        3 => files[chosen].disk = two,
        4 => files[chosen] = together(&two),
        5 => files.iter_mut().for_each(|file| file.sidecar = Some(two.clone())),
        6 => files[chosen].sidecar = Some(two),
        7 => files[chosen].sidecar = None,
        _ => {
            flash = any(random);
            for file in &mut files {
                *file = Part { disk: any(random), sidecar: Some(any(random)) };
            }
        }
    }
    let mut tier = flash.tier.clone();
    if random.chance(1, 4) && !tier.design.has_slots() {
        tier.sync_mode = now.tier.sync_mode;
    }
    let nonce_seed = world.next_nonce();
    let config = VolumeConfig { tier, nonce_seed, ..world.scenario.volume() };
    Mix { flash, files, config }
}

/// Messages name the thing, and what to do.
fn judge_refusal(world: &World, mix: &Mix, error: &VolumeError) -> Result<(), String> {
    use VolumeErrorKind as Kind;
    let text = error.to_string();
    // A group that is there and torn tells a damaged tier from an older copy, and that is then said.
    let clear = pairing::is_clear(error.kind()) || matches!(error.kind(), Kind::OtherCopy | Kind::Damaged);
    if !clear || !text.contains("; ") || !(text.contains("/simulated/") || text.contains("flash")) {
        return Err("was refused like this".to_owned());
    }
    if mix.files.iter().enumerate().all(|(file, _)| mix.file_counts(file)) && mix.is_clean() {
        return Err("was refused, though the files count as they are".to_owned());
    }
    let _ = world;
    Ok(())
}

/// What lies past the end must be zeros when the file grows. False if it is not changed at all.
fn grows_with_zeros(world: &World, session: &Session, file: usize, text: &str) -> Result<bool, Stop> {
    let attached = &session.files[file];
    let (len, bytes) = (attached.len(), 4 * world.scenario.page_bytes());
    if attached.set_len(len + bytes).is_err() {
        return Ok(false);
    }
    let mut beyond = vec![1; bytes as usize];
    let read = attached.read_at(&mut beyond, len);
    read.map_err(|error| broken(format!("{text} was accepted, and file {file} cannot be read: {error}")))?;
    match beyond.iter().all(|&byte| byte == 0) {
        true => Ok(true),
        false => {
            Err(broken(format!("{text} was accepted, and in file {file} what was cut off is there again")))
        }
    }
}

impl Mix {
    fn describe(&self) -> String {
        let part = |file: usize| {
            let part = &self.files[file];
            let Some(sidecar) = &part.sidecar else {
                return format!("disk {} without a sidecar", part.disk.id);
            };
            let text = self.sidecar(file).unwrap_or(SidecarText(""));
            let said =
                ["state", "file", "epoch", "mark", "groups"].map(|name| text.field(name).unwrap_or("-"));
            format!("disk {} with sidecar {} ({})", part.disk.id, sidecar.id, said.join(" "))
        };
        let files: Vec<_> = (0..self.files.len()).map(part).collect();
        format!(
            "flash of moment {}, {}, opened as {}",
            self.flash.id,
            files.join(", "),
            self.config.tier.sync_mode
        )
    }

    fn snapshot(&self, histories: &mut Histories) -> Snapshot {
        let mut mixed = Snapshot {
            flash: self.flash.snapshot.flash.clone(),
            zones: self.flash.snapshot.zones,
            disks: Vec::new(),
            changes: Vec::new(),
            sidecars: Vec::new(),
            overwritten: Vec::new(),
        };
        for (file, part) in self.files.iter().enumerate() {
            let disk = &part.disk.snapshot;
            mixed.disks.push(disk.disks[file].clone());
            mixed.changes.push(disk.changes[file]);
            let with_sidecar = part.sidecar.as_ref().is_some_and(|sidecar| sidecar.id == part.disk.id);
            if !with_sidecar {
                // Nobody can set back when an inode was changed.
                histories.disks_replaced += 1;
                mixed.changes[file] = (histories.disks_replaced << 40) + ((file as u64) << 32);
            }
            let sidecar = part.sidecar.as_ref().map(|moment| &moment.snapshot.sidecars[file]);
            mixed.sidecars.push(sidecar.cloned().flatten());
            // A disk of one moment may be ahead of the sidecar of the other wherever one of them was of its
            // own.
            let of_sidecar = part.sidecar.iter().flat_map(|moment| &moment.snapshot.overwritten[file]);
            mixed.overwritten.push(disk.overwritten[file].iter().chain(of_sidecar).copied().collect());
        }
        mixed
    }

    fn sidecar(&self, file: usize) -> Option<SidecarText<'_>> {
        let bytes = self.files[file].sidecar.as_ref()?.snapshot.sidecars[file].as_deref()?;
        Some(SidecarText(std::str::from_utf8(bytes).unwrap_or_default()))
    }

    fn is_dirty(&self, file: usize) -> bool {
        self.sidecar(file).is_some_and(|sidecar| sidecar.field("state") == Some("dirty"))
    }

    /// The tier can hold no only copies, and is opened so.
    fn is_clean(&self) -> bool {
        is_clean(&self.flash.tier) && is_clean(&self.config.tier)
    }

    /// File and sidecar are of one moment, and the file is current.
    fn file_counts(&self, file: usize) -> bool {
        let part = &self.files[file];
        let one = part.sidecar.as_ref().is_some_and(|sidecar| sidecar.id == part.disk.id);
        one && !self.is_dirty(file)
    }

    fn relation(&self, histories: &Histories, file: usize) -> Relation {
        let part = &self.files[file];
        let files = part.sidecar.as_ref().unwrap_or(&part.disk).id;
        let flash = self.flash.id;
        match (histories.is_before_in_file(file, files, flash), histories.is_before(flash, files)) {
            (true, true) => Relation::Same,
            (true, false) => Relation::FlashNewer,
            (false, true) => Relation::FlashOlder,
            (false, false) => Relation::Apart,
        }
    }

    /// Whether the disk had everything by itself at the moment of flash.
    fn is_flash_expendable(&self, world: &World, file: usize) -> bool {
        let (model, disk) = (&self.flash.models[file], &self.flash.snapshot.disks[file]);
        let guarded = u64::from(disk.starts_with(GUARD));
        let mut image = disk.clone();
        image.resize(model.len() as usize);
        let _ = world;
        // A crash may have taken an extension back, in the midst of what was written there.
        let possible = |image: &Image| model.is_possible_from(guarded, image).is_ok();
        is_clean(&self.flash.tier) || possible(&image) || possible(disk)
    }

    /// Judges what a file has. Says whether it is the newest of what was put together, and stays so whatever
    /// comes.
    fn judge(&self, world: &World, file: usize, found: &[u8]) -> Result<bool, String> {
        let part = &self.files[file];
        let histories = &world.histories;
        let relation = self.relation(histories, file);
        let expendable = self.is_flash_expendable(world, file);
        let dirty = self.is_dirty(file);
        let of_sidecar = part.sidecar.as_ref().unwrap_or(&part.disk);
        let disk_of_sidecar = part.sidecar.as_ref().is_some_and(|sidecar| sidecar.id == part.disk.id);
        let mut models = match relation {
            Relation::Same | Relation::FlashNewer => vec![&self.flash.models[file]],
            Relation::FlashOlder | Relation::Apart => vec![&of_sidecar.models[file]],
        };
        let is_newest = Expected::of(models.clone()).fits(world, found).is_ok();
        if relation == Relation::Apart && self.forgets_nonces(file) {
            return Ok(false);
        }
        let older = matches!(relation, Relation::FlashOlder | Relation::Apart);
        let of_same_opening = older && dirty && self.is_same_opening(file);
        if of_same_opening {
            let since = histories.last_common(self.flash.id, of_sidecar.id);
            let between = |moment: &&Arc<Moment>| {
                histories.is_before(since, moment.id) && histories.is_before(moment.id, of_sidecar.id)
            };
            models.push(&self.flash.models[file]);
            models.extend(histories.moments.iter().filter(between).map(|moment| &moment.models[file]));
        }
        let as_it_is = match relation {
            _ if dirty => !disk_of_sidecar,
            Relation::FlashOlder => true,
            _ => expendable || self.is_clean() || !disk_of_sidecar,
        };
        let named = self.sidecar(file).filter(|_| dirty).map(|sidecar| sidecar.named()).unwrap_or_default();
        let sidecar = self.sidecar(file).unwrap_or(SidecarText(""));
        let attached = sidecar.attached(&part.disk.snapshot.disks[file]);
        let without_guard = sidecar.without_guard(&part.disk.snapshot.disks[file]);
        let disk = as_it_is.then_some(&attached);
        let broken_off = (relation == Relation::FlashNewer).then(|| &self.flash.models[file]);
        let disk_since = of_same_opening.then_some((&without_guard, &self.flash.models[file]));
        if let Err(why) = (Expected { models, disk, named, disk_since, broken_off }).fits(world, found) {
            return if !dirty && self.has_lost_the_name(file) { Ok(false) } else { Err(why) };
        }
        if relation == Relation::Apart && dirty && !of_same_opening {
            let models = vec![&self.flash.models[file]];
            if !expendable {
                Expected::of(models)
                    .fits(world, found)
                    .map_err(|why| format!("{why}, with the flash of another copy"))?;
            }
        }
        let stays = is_newest && matches!(relation, Relation::Same | Relation::FlashNewer);
        Ok(stays && disk_of_sidecar)
    }

    fn flash_at_rest(&self) -> Option<AtRest> {
        AtRest::of(&self.flash.snapshot.flash, self.flash.snapshot.zones)
    }

    /// Exception 1: the sidecar is of the opening that the flash is of, and knows of no group that flash
    /// lacks.
    fn is_same_opening(&self, file: usize) -> bool {
        let Some(sidecar) = self.sidecar(file) else { return false };
        let Some(mut flash) = self.flash_at_rest() else { return false };
        let Ok(superblock) = read_superblock(&mut flash) else { return false };
        let epoch = sidecar.number("epoch").and_then(|epoch| u32::try_from(epoch).ok()).unwrap_or(0);
        let nonce = superblock.nonce_of(epoch).map(hex::encode);
        let groups = groups_on(&mut flash, &superblock);
        sidecar.field("nonce") == nonce.as_deref()
            && (epoch == superblock.epoch || groups == superblock.epoch_sequence.number())
            && sidecar.number("groups").unwrap_or(0) <= groups
    }

    /// Exception 5.
    fn has_lost_the_name(&self, file: usize) -> bool {
        let own = self.sidecar(file).and_then(|sidecar| sidecar.number("file"));
        let path = Machine::path(file);
        let names = self.flash_at_rest().map(|flash| names_on(&flash)).unwrap_or_default();
        !names.iter().any(|(number, name)| Some(*number) != own && path.to_str() == Some(name))
    }

    /// Exception 4.
    fn forgets_nonces(&self, file: usize) -> bool {
        let Some(mut flash) = self.flash_at_rest() else { return false };
        let Ok(superblock) = read_superblock(&mut flash) else { return false };
        let epoch = self.sidecar(file).and_then(|sidecar| sidecar.number("epoch")).unwrap_or(0);
        u64::from(superblock.epoch) >= epoch + u64::from(NONCES_KEPT)
    }
}

/// Numbers and paths of files, as flash has them beside the superblocks; none if they are torn.
fn names_on(flash: &AtRest) -> Vec<(u64, String)> {
    const PLACE: u64 = 16 * 1024;
    let Some(bytes) = flash.bytes(PLACE, 16 * 1024) else { return Vec::new() };
    let word = |at: usize| bytes.get(at..at + 4)?.try_into().ok().map(u32::from_le_bytes);
    if !bytes.starts_with(b"MEZZFILE") || word(8) != Some(crc32c::crc32c(&bytes[12..])) {
        return Vec::new();
    }
    let (mut names, mut at) = (Vec::new(), 16);
    for _ in 0..word(12).unwrap_or(0) {
        let (Some(number), Some(len)) = (word(at), word(at + 4)) else { break };
        let name = bytes.get(at + 8..at + 8 + len as usize).unwrap_or_default();
        names.push((u64::from(number), String::from_utf8_lossy(name).into_owned()));
        at += 8 + len as usize;
    }
    names
}

fn is_clean(tier: &TierConfig) -> bool {
    tier.sync_mode == SyncMode::Through || tier.admission == Admission::Clean
}

fn groups_on(flash: &mut AtRest, superblock: &Superblock) -> u64 {
    let Ok(geometry) = superblock.config.geometry() else { return 0 };
    let region = Region::heap(geometry.region_bytes());
    Tier::recover(region, superblock, 1, flash).map_or(0, |found| found.superblock.epoch_sequence.number())
}

/// What a file may contain.
struct Expected<'m> {
    /// What may be there after a crash at any of these moments.
    models: Vec<&'m FileModel>,
    /// Or what its disk has, where that counts as it is,
    disk: Option<&'m Image>,
    /// but for these pages.
    named: Vec<u64>,
    /// Exception 1: or what its disk has, with its head for a guard, and is no older than the file was at
    /// this moment,
    disk_since: Option<(&'m Image, &'m FileModel)>,
    /// Exception 6: or what was there before a discard that this one knows as broken off.
    broken_off: Option<&'m FileModel>,
}

impl<'m> Expected<'m> {
    fn of(models: Vec<&'m FileModel>) -> Self {
        Self { models, disk: None, named: Vec::new(), disk_since: None, broken_off: None }
    }

    fn fits(&self, world: &World, found: &[u8]) -> Result<(), String> {
        let disk_len = self.disk.map(|disk| disk.len() as u64);
        let len = found.len() as u64;
        if disk_len != Some(len) && !self.models.iter().any(|model| model.len_is_possible(len)) {
            return Err(format!("has {len} bytes, which it should not"));
        }
        let page_bytes = world.scenario.page_bytes();
        for (unit, bytes) in found.chunks(UNIT_BYTES).enumerate() {
            let at = unit * UNIT_BYTES;
            let broken_off = |model: &FileModel| model.was_possible_before_a_discard(unit, bytes);
            if self.models.iter().any(|model| model.unit_is_possible(unit, bytes))
                || self.broken_off.is_some_and(broken_off)
            {
                continue;
            }
            let block = world.scenario.hole.place(at as u64) / page_bytes;
            let is_on = |disk: &Image| {
                let there = disk.range(at.min(disk.len())..(at + bytes.len()).min(disk.len()));
                bytes.starts_with(&there) && bytes[there.len()..].iter().all(|&byte| byte == 0)
            };
            let on_disk = self.disk.filter(|_| !self.named.contains(&block)).is_some_and(is_on);
            let went_to_disk =
                |(disk, then): (&Image, &FileModel)| is_on(disk) && then.unit_is_no_older(unit, bytes);
            if !on_disk && !self.disk_since.is_some_and(went_to_disk) {
                let model = self.models[0];
                let found = crate::crash::volume::pattern::describe(bytes, model.number(), at as u64);
                return Err(format!(
                    "has at byte {at} {found} instead of {}",
                    model.expectation(unit as u64)
                ));
            }
        }
        Ok(())
    }
}

/// A sidecar, as a person reads it.
struct SidecarText<'t>(&'t str);

impl SidecarText<'_> {
    fn field(&self, name: &str) -> Option<&str> {
        self.0.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '))
    }

    fn number(&self, name: &str) -> Option<u64> {
        self.field(name)?.parse().ok()
    }

    /// The disk beside it as an attachment leaves that: if this says `current`, with the head from here in
    /// the place of a guard. Of a guard that has stretched a file shorter than itself a crash may have left
    /// the length alone. No other disk is cut or extended, whatever length stands here.
    fn attached(&self, disk: &Image) -> Image {
        if self.field("state") == Some("dirty") { disk.clone() } else { self.without_guard(disk) }
    }

    /// The disk with the head from here in the place of a guard.
    fn without_guard(&self, disk: &Image) -> Image {
        let mut disk = disk.clone();
        let (guard, mut head) = (self.bytes("guard"), self.bytes("head"));
        let len = self.number("length").map_or(usize::MAX, |len| len as usize);
        let stretched = len < guard.len() && (1..=guard.len()).contains(&disk.len());
        let restored = !guard.is_empty() && (disk.starts_with(GUARD) || stretched);
        if !restored {
            return disk;
        }
        if stretched {
            disk.resize(len);
        }
        head.truncate(len.min(disk.len()));
        disk.write(0, &head);
        disk
    }

    /// What it has in hexadecimal digits.
    fn bytes(&self, name: &str) -> Vec<u8> {
        self.field(name).and_then(|digits| hex::decode(digits).ok()).unwrap_or_default()
    }

    /// Blocks of pages that stage-out wrote last.
    fn named(&self) -> Vec<u64> {
        let named = self.field("written").unwrap_or_default().split(',');
        named.filter_map(|page| page.split_once(':')?.0.parse().ok()).collect()
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    /// A disk of `len` bytes that begins with a guard, and what an attachment makes of it beside a sidecar.
    fn attached(state: &str, length: usize, guard: &[u8], len: usize) -> (Vec<u8>, Vec<u8>) {
        let mut disk = [GUARD, &vec![7; len.saturating_sub(GUARD.len())][..]].concat();
        disk.truncate(len);
        let text = format!(
            "state {state}\nlength {length}\nguard {}\nhead {}\n",
            hex::encode(guard),
            hex::encode([1; 512])
        );
        let attached = SidecarText(&text).attached(&Image::from(&disk[..])).to_vec();
        (disk, attached)
    }

    #[test]
    fn the_head_of_a_current_sidecar_takes_the_place_of_a_guard() {
        let (disk, found) = attached("current", 2048, GUARD, 2048);
        assert!(found == [&[1; 512], &disk[512..]].concat());
        let (_, found) = attached("current", 10, GUARD, GUARD.len());
        assert_eq!(found, [1; 10]);
        let (_, found) = attached("current", 10, GUARD, 20);
        assert_eq!(found, [1; 10]);
    }

    /// Found by the world with seed 88117741949: the volume had cut such a disk.
    #[test]
    fn nothing_excuses_a_disk_that_was_cut_or_extended_or_changed_behind_its_head() {
        for length in [600, 1024, 4096] {
            let (disk, found) = attached("current", length, GUARD, 2048);
            assert!(found == [&[1; 512], &disk[512..]].concat(), "{length}");
        }
        for (state, guard) in [("dirty", GUARD), ("current", &[])] {
            let (disk, found) = attached(state, 600, guard, 2048);
            assert!(found == disk, "{state}");
        }
    }
}
