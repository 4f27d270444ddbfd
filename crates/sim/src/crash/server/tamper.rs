//! What somebody does to a server's machine while it is at rest: the marker is lost, the superblock, both are
//! of different tiers, another version of the format, an older device; and, on copies, flash is damaged.
//!
//! Invariant checked: `known-tier`. Where nothing but the tier has pages the server refuses to start, or
//! starts with every page right; where disk and log suffice it starts. Put right again, it starts as if
//! nothing had happened.

use std::borrow::Cow;

use mezzanine_device::memory::Image;
use mezzanine_engine::SyncMode;
use mezzanine_engine::format::{
    FormatError, SUPERBLOCK_BYTES, SUPERBLOCK_OFFSETS, Superblock, TierState, tier_named_in,
};
use mezzanine_ffi::expendable::provably_clean;

use super::kept::Tampered;
use super::running::Server;
use super::scenario::PAGE;
use super::world::World;
use crate::crash::database::contents::Content;
use crate::crash::database::logging::Logging;
use crate::crash::driver::harm::{
    damage_at_rest, each_superblock, judge_start, newest_superblock, rename_tier,
};
use crate::crash::driver::{Invariant, Stop};

impl World {
    /// Between two sessions, now and then.
    pub(super) fn tamper(&mut self) {
        if !self.scenario.swaps || self.tampered.is_some() || !self.life.random.chance(1, 6) {
            return;
        }
        let mut image = self.machine.flash.snapshot();
        let marker = self.marker.0.read();
        let mut before = Tampered {
            flash: image.clone(),
            marker: marker.clone(),
            directory: None,
            needed: self.is_needed(&image),
        };
        let kind = self.life.random.below(7);
        match kind {
            0 => self.marker.0.put(None),
            1 => each_superblock(&mut image, |bytes| bytes.fill(0)),
            2 => each_superblock(&mut image, rename_tier),
            3 => each_superblock(&mut image, |bytes| set_version(bytes, 2)),
            4 => image = Image::zeroed(image.len()),
            5 => match self.older_directory.take() {
                Some(older) => {
                    before.directory = Some(self.directory());
                    self.put_back(older);
                    self.life.coverage.directories_put_back += 1;
                }
                None => {
                    self.older_directory = Some(self.directory());
                    return;
                }
            },
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
        self.life.tell(|| format!("tampered with, {kind}; needed: {}", before.needed));
        self.machine.flash.put_back(&image);
        self.tampered = Some(before);
        self.life.coverage.flash_losses += 1;
    }

    /// Whether only a tier may have some pages, by what marker, control file or superblock say.
    pub(super) fn is_needed(&self, image: &Image) -> bool {
        let by_tier = newest_superblock(image).is_some_and(|found| {
            found.state != TierState::Drained
                && !provably_clean(&found.config)
                && found.config.sync_mode == SyncMode::Durable
        });
        let marker = self.marker.0.read();
        let by_marker = marker.is_some_and(|marker| marker.contains("only_copies = true"));
        by_tier || by_marker || self.machine.control.read().files_lack_pages
    }

    /// Whether what lies there may be somebody else's, as far as the server can tell, and must not be written
    /// over: a tier that was not drained and that the marker does not name; without a whole superblock,
    /// something that does not name the marker's tier either; and what has the number of another version of
    /// the format.
    pub(super) fn may_be_foreign(&self) -> bool {
        let image = self.machine.flash.snapshot();
        let marker = self.marker.0.read().unwrap_or_default();
        let is_named = |uuid: [u8; 16]| marker.contains(&hex::encode(uuid));
        let found = SUPERBLOCK_OFFSETS.map(|offset| Superblock::decode(&superblock(&image, offset)));
        let newest = found.iter().flatten().max_by_key(|superblock| superblock.generation);
        if let Some(newest) = newest {
            return newest.state != TierState::Drained && !is_named(newest.tier_uuid);
        }
        let is_other =
            |error: &FormatError| matches!(error, FormatError::NewerFormat(_) | FormatError::OlderFormat(_));
        let is_ours = |offset: &u64| tier_named_in(&superblock(&image, *offset)).is_some_and(is_named);
        let holds_something = image.pieces::<4096>().any(|piece| piece.iter().any(|byte| *byte != 0));
        found.iter().any(|found| found.as_ref().err().is_some_and(is_other))
            || holds_something && !SUPERBLOCK_OFFSETS.iter().any(is_ours)
    }

    /// The server has gone on without what lies there, for its device had failed. If it is refused later as
    /// something else, whoever is told removes it.
    pub(super) fn tampered_stays(&mut self) {
        if let Some(tampered) = &mut self.tampered {
            tampered.flash = Image::zeroed(tampered.flash.len());
            tampered.marker = self.marker.0.read();
        }
    }

    /// The newest superblock that lies on flash.
    pub(super) fn superblock(&self) -> Option<Superblock> {
        newest_superblock(&self.machine.flash.snapshot())
    }

    /// The server did not start.
    pub(super) fn refused(&mut self, reason: String) -> Result<(), Stop> {
        let Some(Tampered { flash, marker, directory, needed }) = self.tampered.take() else {
            let text = format!("the right tier was refused: {reason}");
            return Err(Stop::violated(Invariant::KnownTier, text));
        };
        self.life.tell(|| format!("refused: {reason}"));
        if !needed && !self.may_be_foreign() {
            let text = format!("a tier that nobody needs was not done without: {reason}");
            return Err(Stop::violated(Invariant::KnownTier, text));
        }
        if let Some(newest) = directory {
            self.put_back(newest);
            self.life.coverage.directories_refused += 1;
        }
        self.machine.flash.put_back(&flash);
        self.marker.0.put(marker);
        self.machine.power.restore();
        self.life.coverage.tiers_refused += 1;
        Ok(())
    }

    /// On a copy of the machine flash is damaged, and the server starts in the memory of the one before.
    pub(super) fn look_at_damage(&mut self) -> Result<(), Stop> {
        // What is damaged before the server has ever written to it is somebody else's.
        if self.tampered.is_some() || self.marker.0.read().is_none() {
            return Ok(());
        }
        let mut copy = self.copy();
        for done in damage_at_rest(&copy.machine.flash, PAGE as usize, &mut copy.life.random) {
            copy.life.tell(|| format!("on the copy {done}"));
        }
        let outcome = copy.start_damaged();
        self.life.coverage.damages += 1;
        let needed = self.is_needed(&self.machine.flash.snapshot());
        let older = copy.damaged == Some(true);
        judge_start(outcome, || needed || copy.may_be_foreign(), older, &mut self.life.coverage)
    }

    pub(super) fn copy(&mut self) -> Self {
        let mut copy = Self::of(self.scenario.clone());
        copy.life = self.life.of_copy_with_a_course(&copy.machine.power);
        copy.machine.copy_from(&self.machine);
        copy.marker.0.put(self.marker.0.read());
        copy.history = self.history.clone();
        copy.acknowledged = self.acknowledged;
        copy.dropped.clone_from(&self.dropped);
        copy.starts = self.starts;
        copy.relied = self.relied;
        copy.given_up = self.given_up;
        // The server of the original makes its memory anew.
        copy.memory = self.memory.take();
        copy.damaged = Some(false);
        copy
    }

    fn start_damaged(&mut self) -> Result<(), Stop> {
        let before = self.life.coverage.tiers_emptied;
        let hosts = self.start()?;
        let emptied = self.life.coverage.tiers_emptied > before;
        let mut server = Server::new(self, hosts);
        let outcome = server.redo().and_then(|()| server.check_all());
        let failed = server.hosts.first().is_some_and(|host| host.tier().failure().is_some());
        if emptied {
            // A tier that holds nothing is an excuse for nothing.
            self.damaged = Some(false);
        }
        outcome.map_err(|stop| if failed { stop.of_failed_tier() } else { stop })
    }

    /// Notes that a page was not what it must be, in a way that the loss of the newest groups explains.
    pub(super) fn note_older(&mut self, found: Content) {
        if let Some(older) = self.damaged.as_mut() {
            *older |= found != Content::Other || !self.scenario.atomic_disk;
        }
    }
}

fn superblock(image: &Image, offset: u64) -> Cow<'_, [u8]> {
    image.range(offset as usize..offset as usize + SUPERBLOCK_BYTES)
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
