//! What somebody does to a server's machine while it is at rest: the marker is lost, the superblock, both are
//! of different tiers, another version of the format, an older device; and, on copies, flash is damaged.
//!
//! Invariant checked: `known-tier`. Where nothing but the tier has pages the server refuses to start, or
//! starts with every page right; where disk and log suffice it starts. Put right again, it starts as if
//! nothing had happened.

use mezzanine_device::memory::Random;
use mezzanine_engine::SyncMode;
use mezzanine_engine::format::{SUPERBLOCK_BYTES, SUPERBLOCK_OFFSETS, Superblock, TierState};
use mezzanine_ffi::startup::provably_clean;

use super::life::Server;
use super::scenario::PAGE;
use super::world::{Stop, World};
use crate::crash::course::Course;
use crate::crash::report::Invariant;
use crate::database::contents::Content;

/// The machine as it was, and whether a refusal is in order.
#[derive(Debug)]
pub(super) struct Tampered {
    flash: Vec<u8>,
    marker: Option<String>,
    needed: bool,
}

impl World {
    /// Between two sessions, now and then.
    pub(super) fn tamper(&mut self) {
        if !self.scenario.swaps || self.tampered.is_some() || !self.random.chance(1, 6) {
            return;
        }
        let mut image = self.machine.flash.image();
        let marker = self.machine.marker.0.read();
        let before =
            Tampered { flash: image.clone(), marker: marker.clone(), needed: self.is_needed(&image) };
        let kind = self.random.below(6);
        match kind {
            0 => self.machine.marker.0.put(None),
            1 => each_superblock(&mut image, |bytes| bytes.fill(0)),
            2 => each_superblock(&mut image, rename),
            3 => each_superblock(&mut image, |bytes| set_version(bytes, 2)),
            4 => image.fill(0),
            _ => match self.older_flash.take() {
                Some(older) => image = older,
                None => {
                    self.older_flash = Some(image);
                    return;
                }
            },
        }
        // What lies there now may be taken for a tier that has what a directory of an older moment lacks.
        let before = Tampered { needed: before.needed || self.is_needed(&image), ..before };
        self.trace(|| format!("tampered with, {kind}; needed: {}", before.needed));
        self.machine.flash.load(&image);
        self.tampered = Some(before);
        self.coverage.flash_losses += 1;
    }

    /// Whether only a tier may have some pages, by what marker, control file or superblock say.
    pub(super) fn is_needed(&self, image: &[u8]) -> bool {
        let found = SUPERBLOCK_OFFSETS
            .iter()
            .filter_map(|offset| Superblock::decode(&image[*offset as usize..][..SUPERBLOCK_BYTES]).ok())
            .max_by_key(|superblock| superblock.generation);
        let by_tier = found.is_some_and(|found| {
            found.state != TierState::Drained
                && !provably_clean(&found.config)
                && found.config.sync_mode == SyncMode::Durable
        });
        let marker = self.machine.marker.0.read();
        let by_marker = marker.is_some_and(|marker| marker.contains("only_copies = true"));
        by_tier || by_marker || self.machine.control.read().files_lack_pages
    }

    /// The server did not start.
    pub(super) fn refused(&mut self, reason: String) -> Result<(), Stop> {
        let Some(Tampered { flash, marker, needed }) = self.tampered.take() else {
            let text = format!("the right tier was refused: {reason}");
            return Err(Stop::violated(Invariant::KnownTier, text));
        };
        self.trace(|| format!("refused: {reason}"));
        if !needed {
            let text = format!("a tier that nobody needs was not done without: {reason}");
            return Err(Stop::violated(Invariant::KnownTier, text));
        }
        self.machine.flash.load(&flash);
        self.machine.marker.0.put(marker);
        self.machine.power.restore();
        self.coverage.tiers_refused += 1;
        Ok(())
    }

    /// On a copy of the machine flash is damaged, and the server starts in the memory of the one before.
    pub(super) fn look_at_damage(&mut self) -> Result<(), Stop> {
        // What is damaged before the server has ever written to it is somebody else's.
        if self.tampered.is_some() || self.machine.marker.0.read().is_none() {
            return Ok(());
        }
        let mut copy = self.copy();
        copy.damage_at_rest();
        let outcome = copy.start_damaged();
        self.coverage.damages += 1;
        let needed = self.is_needed(&self.machine.flash.image());
        match outcome {
            Ok(()) => Ok(()),
            Err(Stop::Lost) => {
                self.coverage.damage_reported += 1;
                Ok(())
            }
            Err(Stop::Refused(_)) if needed => {
                self.coverage.damage_refused += 1;
                Ok(())
            }
            // Damage to the newest groups looks like a torn write; a page may be as it was before them
            // (docs/reliability.md).
            Err(Stop::Violated(
                Invariant::RedoPromise | Invariant::Versions | Invariant::NoResurrection,
                _,
            )) if copy.damaged == Some(true) => Ok(()),
            Err(Stop::Refused(text)) => {
                let text = format!("a damaged tier was not done without, though the disk suffices: {text}");
                Err(Stop::violated(Invariant::DamageNoticed, text))
            }
            Err(Stop::Violated(invariant, text)) => {
                let text = format!("with a damaged tier {} broke: {text}", invariant.name());
                Err(Stop::violated(Invariant::DamageNoticed, text))
            }
            Err(stop) => Err(stop),
        }
    }

    pub(super) fn copy(&mut self) -> Self {
        let mut copy = Self::of(self.scenario.clone());
        copy.course = Course::new(self.random.next_u64(), None);
        copy.machine = self.machine.copy(self.scenario.disk_piece());
        copy.history = self.history.clone();
        copy.random = Random::new(self.random.next_u64());
        copy.acknowledged = self.acknowledged;
        copy.dropped.clone_from(&self.dropped);
        copy.starts = self.starts;
        copy.traced = self.traced;
        // The server of the original makes its memory anew.
        copy.memory = self.memory.take();
        copy.damaged = Some(false);
        copy
    }

    /// Bits flip, blocks become zeros, or hold what belongs to another place.
    fn damage_at_rest(&mut self) {
        let page = PAGE as usize;
        let mut image = self.machine.flash.image();
        let frames = (image.len() / page) as u64;
        for _ in 0..self.random.magnitude(8) {
            let [to, from] = [0, 0].map(|_| self.random.below(frames) as usize * page);
            let kind = self.random.below(3);
            self.trace(|| format!("damage {kind} at {to} of the copy"));
            match kind {
                0 => image[to + self.random.below(page as u64) as usize] ^= 1 << self.random.below(8),
                1 => image[to..to + page].fill(0),
                _ => image.copy_within(from..from + page, to),
            }
        }
        self.machine.flash.load(&image);
    }

    fn start_damaged(&mut self) -> Result<(), Stop> {
        let before = self.coverage.tiers_emptied;
        let hosts = self.start()?;
        let emptied = self.coverage.tiers_emptied > before;
        let mut server = Server::new(self, hosts);
        let outcome = server.redo().and_then(|()| server.check_all());
        let failed = server.hosts[0].tier().failure().is_some();
        if emptied {
            // A tier that holds nothing is an excuse for nothing.
            self.damaged = Some(false);
        }
        match outcome {
            // Stage-out came to a page that it cannot read.
            Err(Stop::Violated(Invariant::Assertion | Invariant::NoUnprovokedError, _)) if failed => {
                Err(Stop::Lost)
            }
            outcome => outcome,
        }
    }

    /// Notes that a page was not what it must be, in a way that the loss of the newest groups explains.
    pub(super) fn note_older(&mut self, found: Content) {
        if let Some(older) = self.damaged.as_mut() {
            *older |= found != Content::Other || !self.scenario.atomic_disk;
        }
    }
}

fn each_superblock(image: &mut [u8], mut change: impl FnMut(&mut [u8])) {
    for offset in SUPERBLOCK_OFFSETS {
        change(&mut image[offset as usize..][..SUPERBLOCK_BYTES]);
    }
}

/// Makes a superblock that of another tier.
fn rename(bytes: &mut [u8]) {
    if let Ok(superblock) = Superblock::decode(bytes) {
        bytes.copy_from_slice(&Superblock { tier_uuid: [0xAA; 16], ..superblock }.encode());
    }
}

/// Makes a superblock one of another version of the format, under a checksum that is right.
fn set_version(bytes: &mut [u8], version: u32) {
    if Superblock::decode(bytes).is_ok() {
        bytes[8..12].copy_from_slice(&version.to_le_bytes());
        let end = bytes.len() - 4;
        let checksum = crc32c::crc32c(&bytes[..end]);
        bytes[end..].copy_from_slice(&checksum.to_le_bytes());
    }
}
