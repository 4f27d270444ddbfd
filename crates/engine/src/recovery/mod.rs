//! Recovery: the directory is rebuilt from metadata segments and a scan of the groups after them
//! ("Flash as cache extension for online transactional workloads", section 5.2).
//!
//! 1. The newest run of whole segments that reaches back to the front gives the directory up to the last
//!    segment's end.
//! 2. From there the chain of group summaries is followed. It ends at the first summary that is not the
//!    successor of the one before (invariant 8).
//! 3. Of the groups found, those that were not yet known durable when the last one was composed are read
//!    whole: the chain is cut at the first with a torn page.
//! 4. If anything beyond the end says that the end was durable, damage has eaten what had been acknowledged:
//!    recovery refuses instead of returning old pages.
//! 5. Records are replayed in the order of the queue: the last of a page counts, tombstones remove. Those of
//!    segments are divided among the threads that the host lends (see `parts`).
//! 6. A new epoch begins (invariant 7).
//!
//! Designs with a slot directory are recovered from that alone (see `slots`).
//!
//! The only state that recovery changes is the region and what it returns, so it may be repeated after
//! a crash at any point of it (invariant 9).

pub(crate) mod replay;

mod ahead;

mod groups;

mod parts;

mod patient;

mod segments;

mod slots;

mod workers;

mod zones;

use std::fmt;

use crate::attach::check_owner;
use crate::attach::header::begin;
use crate::blank::Blank;
use crate::bounds::{UsedUp, can_be_opened};
use crate::config::{ConfigError, Geometry};
use crate::core::Tier;
use crate::format::{LogPosition, SEGMENT_HEADER_BYTES, SegmentHeader, Superblock, TierState};
use crate::groups::ring::Ring;
use crate::ids::{Position, Sequence, Version};
use crate::layout::HOST_METADATA_BYTES;
use crate::planted::{self, Bug};

use ahead::{Ahead, TOGETHER_MAX};

pub(crate) use patient::read_superblocks;
use patient::{read_answered, reads_of_wrong};

pub use patient::read_patiently;
pub use workers::{InTurn, Workers};

/// Reads a flash device for recovery. Flush the device before: what is read must be durable.
pub trait ReadFlash {
    /// Fills `bytes` from byte `offset` on.
    ///
    /// # Errors
    /// If the bytes cannot be read: the reason.
    fn read(&mut self, offset: u64, bytes: &mut [u8]) -> Result<(), ReadError>;

    /// Fills the bytes of each from its offset on; one result each, in order. A host whose device answers
    /// many reads at once has it do so.
    fn read_many(&mut self, reads: &mut [(u64, Vec<u8>)]) -> Vec<Result<(), ReadError>> {
        reads.iter_mut().map(|(offset, bytes)| self.read(*offset, bytes)).collect()
    }

    /// Of a device with zones: the byte offset at which the zone goes on that `offset` lies in. `None` if the
    /// host does not know, or the zone can be written anywhere. For a tier on zones, which leaves out the
    /// rest of a zone if nobody knows.
    fn write_pointer(&mut self, _offset: u64) -> Option<u64> {
        None
    }
}

/// A read of the flash device failed: the host's reason.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReadError(pub String);

impl fmt::Display for ReadError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.0)
    }
}

impl std::error::Error for ReadError {}

/// Writes a flash device, outside of jobs.
pub trait WriteFlash: ReadFlash {
    /// The host's errors.
    type Error;

    /// Writes `bytes` from byte `offset` on.
    ///
    /// # Errors
    /// If they cannot be written.
    fn write(&mut self, offset: u64, bytes: &[u8]) -> Result<(), Self::Error>;

    /// Makes everything durable that was written.
    ///
    /// # Errors
    /// If it cannot be made durable.
    fn flush(&mut self) -> Result<(), Self::Error>;
}

/// Why a tier cannot be recovered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RecoveryError {
    /// Its parameters make no sense.
    Config(ConfigError),
    /// The region given is too small: bytes needed.
    RegionTooSmall(usize),
    /// A place of the device cannot be read, again and again, while others can.
    Read(ReadError),
    /// The device answers no read just now, so nobody knows what it holds: nothing is known to be lost.
    Silent(ReadError),
    /// It was opened, or its superblock written, so often that no number is left for one more recovery.
    UsedUp(UsedUp),
    /// Something below the durable mark is damaged, and so pages that were acknowledged are lost.
    Damaged {
        /// What is wrong.
        what: String,
        /// Byte offset on the device.
        offset: u64,
        /// What could not be read before that and was done without: it may be that nothing is damaged, and
        /// missed for that alone.
        unread: Option<ReadError>,
    },
}

impl fmt::Display for RecoveryError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Config(error) => write!(f, "{error}"),
            Self::RegionTooSmall(bytes) => write!(f, "the region is too small: {bytes} bytes are needed"),
            Self::Read(error) => write!(f, "flash cannot be read: {error}"),
            Self::Silent(error) => write!(f, "the flash device answers no read just now: {error}"),
            Self::UsedUp(error) => write!(f, "{error}"),
            Self::Damaged { what, offset, unread: None } => write!(f, "damaged at byte {offset}: {what}"),
            Self::Damaged { what, offset, unread: Some(error) } => {
                write!(
                    f,
                    "damaged at byte {offset}: {what}; or it was missed, because flash cannot be read: {error}"
                )
            }
        }
    }
}

impl std::error::Error for RecoveryError {}

/// What recovery did.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RecoveryReport {
    /// Metadata segments used.
    pub segments_read: u64,
    /// Groups found by their summaries.
    pub groups_scanned: u64,
    /// Of these, groups that were cut off because a page of theirs was torn.
    pub groups_torn: u64,
    /// Pages read and compared with their checksums.
    pub pages_verified: u64,
    /// Bytes read from flash.
    pub bytes_read: u64,
    /// Pages in the tier.
    pub valid: u64,
    /// Of these, pages newer than their disk copies.
    pub dirty: u64,
    /// Of these, pages that are remembered as referenced.
    pub referenced: u64,
    /// The tier was not closed in order and can hold no only copies, so it was emptied: a page on disk
    /// may be newer than its copy here.
    pub discarded: bool,
}

/// A tier ready for use, once the host has made `writes` and `superblock` durable.
pub struct Recovered {
    /// The tier.
    pub tier: Tier,
    /// (Byte offset, bytes) of metadata segments to be written and flushed first.
    pub writes: Vec<(u64, Vec<u8>)>,
    /// Then the superblock of the new epoch: the copy that is worth less, flush, the other, flush.
    pub superblock: Superblock,
    /// What was found.
    pub report: RecoveryReport,
    /// The host's bytes as of the last group.
    pub host_metadata: [u8; HOST_METADATA_BYTES],
    /// As of the last group: a host whose log does not reach so far is of an earlier moment than the tier.
    pub log: LogPosition,
}

/// A group that the scan has found.
struct Found {
    position: Position,
    sequence: Sequence,
    pages: u32,
    records: u32,
    checksum: u32,
    predecessor: u32,
    epoch: u32,
    durable: Sequence,
    front: Position,
    host_metadata: [u8; HOST_METADATA_BYTES],
    log: LogPosition,
}

/// Where the chain of groups stands.
#[derive(Clone, Copy)]
struct Chain {
    sequence: Sequence,
    position: Position,
    checksum: u32,
}

/// What the directory is filled from.
struct Base {
    /// Oldest first.
    segments: Vec<SegmentHeader>,
    /// Where the last of them ends.
    segments_end: Chain,
    /// The groups behind it.
    found: Vec<Found>,
    front: Position,
}

struct Scan<'s, 'f> {
    workers: &'s dyn Workers,
    geometry: Geometry,
    ring: Ring,
    superblock: &'s Superblock,
    flash: &'f mut dyn ReadFlash,
    report: RecoveryReport,
    ahead: Ahead,
    summary: Vec<u8>,
    /// Where pages are written in place: the number after the last group that any segment stands for,
    /// whether or not it is used.
    segments_end: Sequence,
    /// Where pages are written in place: the number of the segment that is missing before the newest whole
    /// ones.
    segment_missing: Option<u64>,
    /// The first of the reads that failed and were done without.
    unread: Option<ReadError>,
    /// The latest epoch of a segment or group of this tier that was come across, whether or not it is used.
    epoch_seen: u32,
    /// Byte offsets of metadata segments of epochs that the superblock does not know.
    unknown_segments: Vec<u64>,
    zone_head: zones::ZoneHead,
    /// Whether the groups found last are of the queue.
    doubt: Option<zones::Doubt>,
}

impl Tier {
    /// Opens the tier that `superblock` describes. `owner` names this process in locks and jobs: a number
    /// from 1 to [`OWNER_MAX`](mezzanine_ground::lock::OWNER_MAX). Other processes join it with
    /// [`Tier::attach`] after [`Tier::publish`].
    ///
    /// A [`Region`](crate::Region) is wiped first, whatever it holds. Memory that is known to be zero is said
    /// to be with a [`Blank`].
    ///
    /// # Errors
    /// [`RecoveryError`]: the memory holds nothing useful then, and nothing on flash has changed.
    pub fn recover(
        memory: impl Into<Blank>,
        superblock: &Superblock,
        owner: u32,
        flash: &mut dyn ReadFlash,
    ) -> Result<Recovered, RecoveryError> {
        Self::recover_with(memory, superblock, owner, flash, &InTurn(1))
    }

    /// [`Self::recover`], with threads that the host lends for the replay of metadata segments. What comes
    /// out is the same, whoever they are.
    ///
    /// # Errors
    /// As of [`Self::recover`].
    ///
    /// # Panics
    /// If a thread of `workers` panics.
    pub fn recover_with(
        memory: impl Into<Blank>,
        superblock: &Superblock,
        owner: u32,
        flash: &mut dyn ReadFlash,
        workers: &dyn Workers,
    ) -> Result<Recovered, RecoveryError> {
        Self::recover_in(memory.into(), superblock, owner, flash, workers)
    }

    fn recover_in(
        memory: Blank,
        superblock: &Superblock,
        owner: u32,
        flash: &mut dyn ReadFlash,
        workers: &dyn Workers,
    ) -> Result<Recovered, RecoveryError> {
        let region = memory.into_region();
        let geometry = superblock.config.geometry().map_err(RecoveryError::Config)?;
        check_owner(owner).map_err(RecoveryError::Config)?;
        if region.bytes() < geometry.region_bytes() {
            return Err(RecoveryError::RegionTooSmall(geometry.region_bytes()));
        }
        can_be_opened(superblock.epoch, superblock.generation).map_err(RecoveryError::UsedUp)?;
        begin(&region);
        let tier = Self::over(region, geometry.clone(), superblock.tier_uuid, owner);
        if geometry.slot_directory().is_some() {
            return slots::recover(tier, superblock, flash);
        }
        let left_open = superblock.state == TierState::Open && !planted::is(Bug::CleanTierKept);
        if geometry.provably_clean() && left_open {
            let superblock = Superblock { state: TierState::Open, ..superblock.discarded() };
            let origin = Chain {
                sequence: Sequence::ZERO,
                position: Position::ZERO,
                checksum: superblock.chain_origin(),
            };
            tier.start(&superblock, origin, Position::ZERO, Version::ZERO.next());
            assert!(tier.placement().settle().is_ok(), "an empty tier has no pages");
            let report = RecoveryReport { discarded: true, ..RecoveryReport::default() };
            return Ok(Recovered {
                tier,
                writes: Vec::new(),
                superblock,
                report,
                host_metadata: [0; HOST_METADATA_BYTES],
                log: LogPosition::default(),
            });
        }
        let summary = vec![0; geometry.summary_frames() as usize * geometry.page_size()];
        let report = RecoveryReport::default();
        let ring = superblock.ring(&geometry);
        let mut scan = Scan {
            workers,
            geometry,
            ring,
            superblock,
            flash,
            report,
            ahead: Ahead::default(),
            summary,
            segments_end: Sequence::ZERO,
            segment_missing: None,
            unread: None,
            epoch_seen: 0,
            unknown_segments: Vec::new(),
            zone_head: zones::ZoneHead::default(),
            doubt: None,
        };
        scan.run(tier).map_err(|error| scan.excused(error))
    }

    /// Sets the queue's ends. Everything before `chain` is durable.
    fn start(&self, superblock: &Superblock, chain: Chain, front: Position, next_version: Version) {
        let control = self.control();
        control.ends.begin(superblock.ring(&self.geometry), front, chain.position);
        control.passed.begin(front);
        control.groups.begin(chain.sequence, chain.checksum.into());
        control.append.closes();
        control.append.versions_from(next_version);
        control.epoch.set(superblock.epoch.into());
        // Pages found on flash are dirty since before any mark of this life.
        control.mark.set(1);
        control.sync_mode.set(superblock.config.sync_mode.code().into());
    }
}

impl Scan<'_, '_> {
    /// What is missing may be what could not be read: then nobody knows whether anything is damaged.
    fn excused(&mut self, error: RecoveryError) -> RecoveryError {
        match error {
            RecoveryError::Damaged { what, offset, .. } if !planted::is(Bug::UnreadTakenForDamaged) => {
                RecoveryError::Damaged { what, offset, unread: self.unread.take() }
            }
            error => error,
        }
    }

    fn run(&mut self, tier: Tier) -> Result<Recovered, RecoveryError> {
        let Base { segments, segments_end, found, front } = self.find_base()?;
        let newest = segments.last();
        let chain = found.last().map_or(segments_end, |last| self.after(last));
        let first_version = Version::ZERO.next();
        let mut next_version = newest.map_or(first_version, |header| header.version_max.next());
        self.refuse_missing_segment(chain)?;
        self.refuse_damage(chain, segments_end, &found)?;
        let left_open = self.superblock.state == TierState::Open;
        if left_open && newest.is_none() && found.is_empty() && self.unread.is_some() {
            // The one segment from which the groups can be found may be what could not be read.
            return Err(damaged("no group and no metadata segment", self.offset_of(chain.position)));
        }
        if self.segments_end > chain.sequence {
            let what = format!("group {} was durable and is gone", chain.sequence);
            return Err(damaged(&what, self.offset_of(chain.position)));
        }
        let rest_end = self.goes_on_at(chain);
        // Of an empty queue the front is at its end.
        let front = if front == chain.position { rest_end } else { front };
        if front > rest_end || rest_end - front > self.ring.frames {
            let offset = self.offset_of(chain.position);
            return Err(damaged("the queue's front and rear do not fit together", offset));
        }

        let raised = !planted::is(Bug::EpochNotRaised);
        let latest = self.latest_epoch();
        can_be_opened(latest, self.superblock.generation).map_err(RecoveryError::UsedUp)?;
        let epoch = latest + u32::from(raised);
        let origin_epoch = self.origin_epoch(epoch);
        let superblock = Superblock {
            generation: self.superblock.generation + 1,
            epoch,
            origin_epoch,
            nonces: self.superblock.nonces.after(epoch - self.superblock.epoch),
            epoch_sequence: if raised { chain.sequence } else { self.superblock.epoch_sequence },
            state: TierState::Open,
            front,
            redone_from: tier.redoes(self.superblock, rest_end),
            drained_epoch: self.superblock.last_drained(),
            ..self.superblock.clone()
        };
        let queue_end = chain.position;
        let chain = match chain.sequence {
            Sequence::ZERO => Chain { checksum: superblock.chain_origin(), position: rest_end, ..chain },
            _ => Chain { position: rest_end, ..chain },
        };
        tier.start(&superblock, chain, front, next_version);
        self.load_segments(&tier, &segments, front)?;
        // Before the scan's groups complete segments, which take bits along themselves.
        self.load_references(&tier, &segments);
        let control = tier.control();
        control.segments.go_on_with(newest.map_or(0, |header| header.number + 1));
        let (end, sequence) = newest
            .map_or((Position::ZERO, Sequence::ZERO), |header| (header.end_position, header.end_sequence));
        control.segments.found(end, sequence);
        // Before the superblock has a later epoch, by which they would count.
        let unknown = std::mem::take(&mut self.unknown_segments).into_iter();
        let mut writes: Vec<_> = unknown.map(|offset| (offset, vec![0; SEGMENT_HEADER_BYTES])).collect();
        let mut before = segments_end.position;
        for group in &found {
            tier.leave_rest(before, group.position, front);
            before = self.after(group).position;
            next_version = self.replay_found(&tier, group, front, next_version, &mut writes)?;
        }
        tier.leave_rest(queue_end, rest_end, front);
        let (host_metadata, log) = match found.last() {
            Some(last) => (last.host_metadata, last.log),
            None if segments_end.sequence > Sequence::ZERO && !planted::is(Bug::NoteOfSegmentLost) => {
                self.last_host_metadata(&segments)?
            }
            None => ([0; HOST_METADATA_BYTES], LogPosition::default()),
        };
        control.append.versions_from(if planted::is(Bug::VersionsRestart) {
            first_version
        } else {
            next_version
        });
        tier.can_go_on().map_err(RecoveryError::UsedUp)?;
        tier.adopt_host_metadata(&host_metadata);
        if !planted::is(Bug::LogForgotten) {
            tier.log_reached(log);
        }
        if let Err(position) = tier.groups_meet(front, chain.position) {
            return Err(damaged("the queue has a gap", self.offset_of(position)));
        }
        if self.superblock.state == TierState::Drained {
            tier.mark_all_clean();
        }
        if let Err(entry) = tier.placement().settle() {
            let position = tier.position_of(entry);
            let what = format!(
                "the record at position {position} names a frame that is no page's, or another one's"
            );
            return Err(damaged(&what, self.offset_of(position)));
        }
        // Nothing lies outside of the queue.
        let entries = Position::each(front..chain.position).map(|at| self.ring.entry_of(at));
        (self.report.valid, self.report.dirty) = tier.valid_and_dirty_of(entries);
        Ok(Recovered {
            tier,
            writes,
            superblock,
            report: std::mem::take(&mut self.report),
            host_metadata,
            log,
        })
    }

    /// The latest epoch that was ever begun, as far as flash shows. The superblock does not know one whose
    /// own superblock the device has lost, after it had said that it was durable.
    fn latest_epoch(&self) -> u32 {
        match planted::is(Bug::LostEpochReused) {
            true => self.superblock.epoch,
            false => self.superblock.epoch.max(self.epoch_seen),
        }
    }

    /// From which epoch on groups and segments are part of the tier, when `epoch` begins. One that holds
    /// nothing begins with that, where something lies there that its superblock would have count.
    fn origin_epoch(&self, epoch: u32) -> u32 {
        let origin = self.superblock.origin_epoch;
        let counts = self.epoch_seen >= origin && self.superblock.holds_nothing();
        if counts && !planted::is(Bug::LostEpochReused) { epoch } else { origin }
    }

    /// The segments that recovery goes by and the groups behind them: of the runs of segments the newest that
    /// reaches back to the front. Before the oldest there is the beginning of the queue.
    fn find_base(&mut self) -> Result<Base, RecoveryError> {
        let (mut runs, stated) = self.find_segments()?;
        loop {
            let segments = runs.pop().unwrap_or_default();
            let segments_end = match segments.last() {
                Some(newest) => self.end_of(newest),
                None => Chain {
                    sequence: Sequence::ZERO,
                    position: Position::ZERO,
                    checksum: self.superblock.chain_origin(),
                },
            };
            let mut found = if planted::is(Bug::TailNotScanned) && !segments.is_empty() {
                Vec::new()
            } else {
                self.follow(segments_end)?
            };
            self.cut_torn(&mut found, segments_end.sequence)?;
            let mut front = stated;
            for group in &found {
                if !planted::is(Bug::FrontIgnored) {
                    front = front.max(group.front);
                }
            }
            let reaches_back = segments.first().is_none_or(|oldest| oldest.first_position <= front);
            if reaches_back || self.geometry.journal.is_none() || planted::is(Bug::OldestSegmentsMissed) {
                return Ok(Base { segments, segments_end, found, front });
            }
        }
    }

    fn offset_of(&self, position: Position) -> u64 {
        match &self.geometry.journal {
            None => self.geometry.offset_of_frame(self.ring.entry_of(position).frame_in_queue()),
            // What is not known to be a page's is a summary.
            Some(journal) => journal.offset,
        }
    }

    fn read(&mut self, offset: u64, bytes: &mut [u8]) -> Result<(), RecoveryError> {
        if self.ahead.take(offset, bytes) {
            return Ok(());
        }
        self.report.bytes_read += bytes.len() as u64;
        read_answered(self.flash, offset, bytes)
    }

    /// [`Self::read`], and once more if what it brings is not whole: a bit may flip on its way. What is torn
    /// or rotten is so each time. Returns whether it is whole.
    fn read_whole(
        &mut self,
        offset: u64,
        bytes: &mut [u8],
        whole: impl Fn(&[u8]) -> bool,
    ) -> Result<bool, RecoveryError> {
        for _ in 0..reads_of_wrong() {
            self.read(offset, bytes)?;
            if whole(bytes) {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// [`Self::read_whole`] of what may be done without. False if it cannot be read, or not whole. If it
    /// cannot be read, whatever is missing then may be missing for that.
    fn read_if_possible(
        &mut self,
        offset: u64,
        bytes: &mut [u8],
        whole: impl Fn(&[u8]) -> bool,
    ) -> Result<bool, RecoveryError> {
        let read = self.read_whole(offset, bytes, whole);
        self.done_without(read)
    }

    /// False if something could not be read that may be done without.
    fn done_without(&mut self, read: Result<bool, RecoveryError>) -> Result<bool, RecoveryError> {
        match read {
            Err(RecoveryError::Read(error)) if !planted::is(Bug::UnreadableEndsRecovery) => {
                self.unread.get_or_insert(error);
                Ok(false)
            }
            read => read,
        }
    }

    /// [`Self::read_if_possible`] of several places of one length: what is decoded there, where it is whole.
    /// Some at a time, so that a device that answers nothing is noticed at the first.
    fn decode_each_if_possible<T: Clone>(
        &mut self,
        offsets: &[u64],
        len: usize,
        decode: impl Fn(&[u8]) -> Option<T>,
    ) -> Result<Vec<Option<T>>, RecoveryError> {
        let mut found = vec![None; offsets.len()];
        let mut wanted: Vec<usize> = (0..offsets.len()).collect();
        let mut bytes = vec![0; len];
        for _ in 0..reads_of_wrong() {
            let mut wrong = Vec::new();
            for wanted in wanted.chunks(TOGETHER_MAX) {
                self.read_ahead(&wanted.iter().map(|index| offsets[*index]).collect::<Vec<_>>(), len);
                for index in wanted {
                    let read = self.read(offsets[*index], &mut bytes).map(|()| true);
                    if self.done_without(read)? {
                        found[*index] = decode(&bytes);
                        if found[*index].is_none() {
                            wrong.push(*index);
                        }
                    }
                }
            }
            wanted = wrong;
        }
        Ok(found)
    }
}

fn damaged(what: &str, offset: u64) -> RecoveryError {
    RecoveryError::Damaged { what: what.into(), offset, unread: None }
}
