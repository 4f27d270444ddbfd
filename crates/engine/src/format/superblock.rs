//! The superblock: identity, geometry, epoch and state of a tier.
//!
//! It is kept twice. A host writes one copy, flushes, writes the other, flushes: one of the two is
//! whole at any moment, and a rotten sector in one is survived. It begins with the copy that is worth
//! less (damaged, or of the lower generation): a crash may have torn the other one the last time. A copy that
//! cannot be read just now may be the whole one, so it comes after one that is known to be damaged, and where
//! neither can be read nothing is written: but by a host that uses the tier and has written both itself,
//! which knows what they say and writes them anew.
//!
//! A copy that reads as whole may be in the device's cache alone, left there by a process that died or by a
//! write that reported an error and came through. So the device is flushed before a copy is written over, or
//! the loss of power could take both. It need not be where the two say the same and which of them was written
//! first: that one was durable before the second was begun, and the second goes first.

use mezzanine_ground::fields::{Reader, Visitor, Writer, put_at};

use super::{FORMAT_VERSION, FORMAT_VERSION_DRAINED, FormatError, Nonce, Nonces, plausible, version_of};
use crate::bounds::Bound;
use crate::config::{Admission, Design, Geometry, SegmentLayout, SyncMode, TierConfig, TierZones};
use crate::groups::ring::Ring;
use crate::ids::{Position, Sequence};
use crate::planted::{self, Bug};
use crate::recovery::{ReadError, ReadFlash, WriteFlash, read_superblocks};

/// Bytes of one copy.
pub const SUPERBLOCK_BYTES: usize = 4096;
/// Where the copies lie.
pub const SUPERBLOCK_OFFSETS: [u64; 2] = [0, 4096];
/// How a copy of a superblock begins.
pub const SUPERBLOCK_MAGIC: [u8; 8] = *b"MEZZTIER";
const CHECKSUM_AT: usize = SUPERBLOCK_BYTES - 4;
/// Which of the two copies it is; a byte that was zero before copies said so.
const TURN_AT: usize = CHECKSUM_AT - 1;

/// Whether a tier was left in order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TierState {
    /// In use, or left without closing it.
    Open,
    /// Closed in order; may hold the only copy of pages.
    Closed,
    /// Closed in order; every page in it is on disk as well.
    Drained,
}

impl TierState {
    const fn code(self) -> u8 {
        match self {
            Self::Open => 1,
            Self::Closed => 2,
            Self::Drained => 3,
        }
    }

    const fn from_code(code: u8) -> Option<Self> {
        match code {
            1 => Some(Self::Open),
            2 => Some(Self::Closed),
            3 => Some(Self::Drained),
            _ => None,
        }
    }
}

/// A database's redo pointer: where redo begins after a crash, and on which timeline of the log.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RedoPoint {
    /// Position in the log; 0 if there was no checkpoint yet, or the host has no log.
    pub redo: u64,
    /// Timeline of the log.
    pub timeline: u32,
}

/// How far the log of a host reaches that has one: what came from it can be redone, or be told to lie beyond
/// its end. Ordered by timeline, then position.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct LogPosition {
    /// Timeline of the log; 0 for a host without one.
    pub timeline: u32,
    /// Position in it.
    pub lsn: u64,
}

/// A database server's sessions: a nonce for each recovery, the one that it is known to have made its own and
/// the one that it may have made its own since. Zeros until a host uses them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Sessions {
    /// Of the last recovery that was completed.
    pub confirmed: Nonce,
    /// Of the one that began last.
    pub pending: Nonce,
}

/// What a tier says of itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Superblock {
    /// Names the tier.
    pub tier_uuid: [u8; 16],
    /// Names the database that it belongs to.
    pub database_uuid: [u8; 16],
    /// Counts the superblocks written.
    pub generation: u64,
    /// Current epoch; each recovery begins a new one (invariant 7).
    pub epoch: u32,
    /// Groups and segments of earlier epochs are not part of the tier: it was discarded since.
    pub origin_epoch: u32,
    /// First group of the current epoch.
    pub epoch_sequence: Sequence,
    /// Whether it was left in order.
    pub state: TierState,
    /// If it was: the sequence number after the last group.
    pub end_sequence: Sequence,
    /// Frames before this position have left the queue.
    pub front: Position,
    /// The redo pointer that the database is known to have made its own (invariant 10).
    pub confirmed: RedoPoint,
    /// The redo pointer that it may have made its own since.
    pub pending: RedoPoint,
    /// What is added to a position, modulo the frames, to find its frame; 0 until the queue has been
    /// resized.
    pub ring_shift: u32,
    /// Of a database server.
    pub sessions: Sessions,
    /// Of the last epochs, as far as their hosts drew them.
    pub nonces: Nonces,
    /// Of a database in sync mode `durable`: what came from this position of its log on counts as dirty,
    /// whatever its record says, for disk may lack it; 0 if nothing does. See [`crate::Tier::redone`].
    pub redone_from: u64,
    /// Groups before this one were durable when a checkpoint was completed: see [`crate::Tier::promised`].
    pub durable_sequence: Sequence,
    /// The epoch at whose end the tier was left [`TierState::Drained`] last; 0 if it never was. What a host
    /// has not taken up since then, nobody needs, though the tier may have been opened since.
    pub drained_epoch: u32,
    /// Parameters.
    pub config: TierConfig,
}

impl Superblock {
    /// The superblock of a new, empty tier.
    pub fn new(geometry: &Geometry, tier_uuid: [u8; 16], database_uuid: [u8; 16]) -> Self {
        Self::of(geometry.config().clone(), tier_uuid, database_uuid)
    }

    fn of(config: TierConfig, tier_uuid: [u8; 16], database_uuid: [u8; 16]) -> Self {
        Self {
            tier_uuid,
            database_uuid,
            generation: 1,
            epoch: 1,
            origin_epoch: 1,
            epoch_sequence: Sequence::ZERO,
            state: TierState::Drained,
            end_sequence: Sequence::ZERO,
            front: Position::ZERO,
            confirmed: RedoPoint::default(),
            pending: RedoPoint::default(),
            ring_shift: 0,
            sessions: Sessions::default(),
            nonces: Nonces::default(),
            redone_from: 0,
            durable_sequence: Sequence::ZERO,
            drained_epoch: 0,
            config,
        }
    }

    pub(crate) fn ring(&self, geometry: &Geometry) -> Ring {
        Ring { frames: geometry.ring_frames(), shift: self.ring_shift.into() }
    }

    /// What the first group's summary holds as its predecessor's checksum.
    pub(crate) fn chain_origin(&self) -> u32 {
        crc32c::crc32c_append(crc32c::crc32c(&self.tier_uuid), &self.origin_epoch.to_le_bytes())
    }

    /// Forgets everything in the tier: nothing written before is part of it any more.
    ///
    /// The caller makes the result durable before the tier is used again, and has made sure that the
    /// tier holds no only copies, or was told to lose them.
    pub fn discarded(&self) -> Self {
        let epoch = self.epoch + 1;
        Self {
            generation: self.generation + 1,
            epoch,
            origin_epoch: epoch,
            epoch_sequence: Sequence::ZERO,
            state: TierState::Drained,
            end_sequence: Sequence::ZERO,
            front: Position::ZERO,
            nonces: self.nonces.after(1),
            redone_from: 0,
            durable_sequence: Sequence::ZERO,
            ..self.clone()
        }
    }

    /// The last epoch that ended with the tier [`TierState::Drained`], this one included.
    pub fn last_drained(&self) -> u32 {
        if self.state == TierState::Drained { self.epoch } else { self.drained_epoch }
    }

    /// Whether nothing on flash is part of the tier: it is new, or was discarded, or was closed with nothing
    /// in it.
    pub(crate) fn holds_nothing(&self) -> bool {
        self.state != TierState::Open && self.end_sequence == Sequence::ZERO
    }

    /// Groups before this one were durable when this was written: the tier was left in order behind them, or
    /// recovered, or a checkpoint relied on them.
    pub fn known_end(&self) -> Sequence {
        let closed = if self.state == TierState::Open { Sequence::ZERO } else { self.end_sequence };
        closed.max(self.epoch_sequence).max(self.durable_sequence)
    }

    /// The superblock with the nonce of the epoch that begins with it, which the host has drawn.
    #[must_use]
    pub fn with_nonce(&self, nonce: Nonce) -> Self {
        Self { nonces: self.nonces.with_newest(nonce), ..self.clone() }
    }

    /// The nonce of an epoch of this tier: zeros if it had none, `None` if it is unknown, for it is too long
    /// ago or has not begun.
    pub fn nonce_of(&self, epoch: u32) -> Option<Nonce> {
        self.nonces.get(self.epoch.checked_sub(epoch)?)
    }

    /// The superblock by which the database may make this redo pointer its own: see
    /// [`crate::Tier::promised`].
    pub fn with_pending(&self, point: RedoPoint) -> Self {
        Self { generation: self.generation + 1, pending: point, ..self.clone() }
    }

    /// Step two: the control file is durable with the pending redo pointer. May be made durable at leisure.
    pub fn with_confirmed(&self) -> Self {
        Self { generation: self.generation + 1, confirmed: self.pending, ..self.clone() }
    }

    /// The superblock of the tier in another sync mode: see [`crate::Tier::set_sync_mode`].
    pub fn with_sync_mode(&self, mode: SyncMode) -> Self {
        let config = TierConfig { sync_mode: mode, ..self.config.clone() };
        Self { generation: self.generation + 1, config, ..self.clone() }
    }

    /// The superblock for a start at `point`, which the tier knows: whatever else was pending never became
    /// the database's own. Redo from `point` is about to change pages that it covered, and a copy of the
    /// flash device made meanwhile must not pass for one that covers it. Given to
    /// [`crate::Tier::recover`], it is durable before redo begins.
    #[must_use]
    pub fn started_at(&self, point: RedoPoint) -> Self {
        Self { confirmed: point, pending: point, ..self.clone() }
    }

    /// Whether a database whose control file names `point` is the one that this tier was last used with.
    ///
    /// If not, the database or the tier is an older copy, and the tier must not be used if it may hold the
    /// only copy of a page (invariant 10).
    pub fn knows(&self, point: RedoPoint) -> bool {
        let pending = point == self.pending && !planted::is(Bug::PendingRedoForgotten);
        point == self.confirmed || pending || planted::is(Bug::RedoPointUnchecked)
    }

    /// # Errors
    /// If who shows them has read a state or a choice that does not exist.
    pub(super) fn show(&mut self, visitor: &mut impl Visitor) -> Result<(), FormatError> {
        let config = &mut self.config;
        let (mut state, mut design) = (self.state.code(), config.design.code());
        let (mut admission, mut sync_mode) = (config.admission.code(), config.sync_mode.code());
        let TierZones { mut zone_bytes, mut capacity_bytes } =
            config.zones.unwrap_or(TierZones { zone_bytes: 0, capacity_bytes: 0 });
        let mut dirty_percent = config.policy.dirty_percent.map_or(0, |percent| percent + 1);
        let mut segments = config.segments.code();
        visitor.always(0, SUPERBLOCK_MAGIC);
        visitor.always(8, FORMAT_VERSION);
        visitor.field(12, &mut state);
        visitor.field(13, &mut design);
        visitor.field(14, &mut admission);
        visitor.field(15, &mut sync_mode);
        visitor.field(16, &mut self.tier_uuid);
        visitor.field(32, &mut self.database_uuid);
        visitor.field(48, &mut self.generation);
        visitor.field(56, &mut self.epoch);
        visitor.field(60, &mut self.origin_epoch);
        visitor.field(64, &mut self.epoch_sequence);
        visitor.field(72, &mut self.end_sequence);
        visitor.field(80, &mut self.front);
        visitor.field(88, &mut config.frames);
        visitor.field(96, &mut config.band_frames);
        visitor.field(104, &mut config.page_size);
        visitor.field(108, &mut config.group_pages);
        visitor.field(112, &mut config.staging_groups);
        visitor.field(116, &mut config.segment_frames);
        visitor.field(120, &mut config.shards);
        visitor.field(124, &mut config.survivors_max);
        visitor.field(128, &mut config.ahead_frames);
        visitor.field(136, &mut self.confirmed.redo);
        visitor.field(144, &mut self.pending.redo);
        visitor.field(152, &mut self.confirmed.timeline);
        visitor.field(156, &mut self.pending.timeline);
        visitor.field(160, &mut config.frames_max);
        visitor.field(168, &mut self.ring_shift);
        visitor.setting(172, &mut config.policy.correlated_period);
        visitor.setting(180, &mut config.policy.history);
        visitor.field(188, &mut dirty_percent);
        visitor.flag(192, &mut config.policy.write_back);
        visitor.setting(196, &mut config.policy.extent_pages);
        visitor.setting(204, &mut config.policy.ageing_period);
        visitor.setting(212, &mut config.policy.random_weight);
        visitor.setting(220, &mut config.policy.extents);
        visitor.flag(228, &mut config.returning_only);
        visitor.setting(232, &mut config.remembered_pages);
        // Version 2 has zeros from here on, and so no nonces.
        visitor.field(240, &mut self.sessions.confirmed);
        visitor.field(256, &mut self.sessions.pending);
        self.nonces.show(272, visitor);
        visitor.field(1296, &mut self.redone_from);
        // Zero in tiers of earlier builds.
        visitor.field(1304, &mut self.durable_sequence);
        // Zero in tiers without zones, and of earlier builds.
        visitor.field(1312, &mut zone_bytes);
        visitor.field(1320, &mut capacity_bytes);
        // Zero in tiers of earlier builds.
        visitor.field(1328, &mut self.drained_epoch);
        // Zero in versions 2 and 3, whose layout that is.
        visitor.field(1332, &mut segments);
        // Zero in tiers of earlier builds, which do not look at it: it says nothing of what lies on flash.
        visitor.flag(1360, &mut config.keeps_unreferenced);
        config.zones = (zone_bytes != 0).then_some(TierZones { zone_bytes, capacity_bytes });
        config.policy.dirty_percent = dirty_percent.checked_sub(1);
        config.segments =
            SegmentLayout::from_code(segments).ok_or_else(|| unknown("layout of metadata segments"))?;
        if planted::is(Bug::OlderLayoutForgotten) {
            config.segments = SegmentLayout::default();
        }
        self.state = TierState::from_code(state).ok_or_else(|| unknown("state"))?;
        config.design = Design::from_code(design).ok_or_else(|| unknown("design"))?;
        config.admission = Admission::from_code(admission).ok_or_else(|| unknown("admission"))?;
        config.sync_mode = SyncMode::from_code(sync_mode).ok_or_else(|| unknown("sync mode"))?;
        Ok(())
    }

    /// The bytes of a copy that does not say whether it was written first.
    pub fn encode(&self) -> [u8; SUPERBLOCK_BYTES] {
        self.encode_copy(Turn::Unsaid)
    }

    fn encode_copy(&self, turn: Turn) -> [u8; SUPERBLOCK_BYTES] {
        let (epoch, generation) = (u64::from(self.epoch), self.generation);
        assert!(
            Bound::Epoch.holds(&[epoch]) && Bound::Generation.holds(&[generation]),
            "a superblock that nobody would read again: epoch {epoch}, generation {generation}"
        );
        let mut out = [0; SUPERBLOCK_BYTES];
        let shown = self.clone().show(&mut Writer::new(&mut out));
        assert!(shown.is_ok(), "a superblock has states that exist");
        out[TURN_AT] = turn.code();
        let checksum = crc32c::crc32c(&out[..CHECKSUM_AT]);
        put_at(&mut out, CHECKSUM_AT, checksum);
        out
    }

    /// Reads one copy.
    ///
    /// # Errors
    /// [`FormatError`] if the bytes are no superblock, of another format, or damaged.
    pub fn decode(bytes: &[u8]) -> Result<Self, FormatError> {
        match Self::decode_versioned(bytes)? {
            (superblock, FORMAT_VERSION) => Ok(superblock),
            (_, version) => Err(FormatError::OlderFormat(version)),
        }
    }

    /// Reads one copy, also of a version that can be read to drain the tier. With its version.
    fn decode_versioned(bytes: &[u8]) -> Result<(Self, u32), FormatError> {
        let version = version_of(bytes, SUPERBLOCK_MAGIC, SUPERBLOCK_BYTES)?;
        if !is_whole(bytes) {
            return Err(FormatError::Damaged("a superblock whose checksum does not match".into()));
        }
        if version < FORMAT_VERSION_DRAINED {
            return Err(FormatError::OlderFormat(version));
        }
        let mut superblock = Self::of(TierConfig::new(4096, 0), [0; 16], [0; 16]);
        superblock.show(&mut Reader(bytes))?;
        let Self { generation, epoch, origin_epoch, front, config, .. } = &superblock;
        let shift = u64::from(superblock.ring_shift);
        if shift >= config.frames || shift > 0 && config.zones.is_some() {
            return Err(unknown("ring"));
        }
        config.geometry().map_err(|error| FormatError::Damaged(format!("a superblock with {error}")))?;
        let sequences = [superblock.epoch_sequence, superblock.end_sequence, superblock.durable_sequence];
        let numbers: [(Bound, &[u64]); 3] = [
            (Bound::Generation, &[*generation]),
            (Bound::Sequence, &sequences.map(Sequence::number)),
            (Bound::Position, &[front.number()]),
        ];
        if !plausible(*epoch, &numbers) || origin_epoch > epoch {
            return Err(FormatError::Damaged("a superblock with impossible numbers".into()));
        }
        Ok((superblock, version))
    }
}

fn unknown(what: &str) -> FormatError {
    FormatError::Damaged(format!("a superblock with an unknown {what}"))
}

/// Why a superblock was not written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SuperblockError<E> {
    /// Neither copy can be read just now, so nobody knows which of them may be overwritten first. Nothing was
    /// written; or, by [`Writing::Known`], both were, and are not to be read either: the tier cannot
    /// be opened again.
    Unreadable(ReadError),
    /// One of the copies may be torn, the other is whole.
    Failed(E),
}

/// When a copy was written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Turn {
    /// When the other one was durable.
    Second,
    Unsaid,
    /// Before the other one.
    First,
}

impl Turn {
    const fn code(self) -> u8 {
        match self {
            Self::Unsaid => 0,
            Self::First => 1,
            Self::Second => 2,
        }
    }

    /// Of a copy that is whole.
    const fn of(copy: &[u8]) -> Self {
        match copy[TURN_AT] {
            1 => Self::First,
            2 => Self::Second,
            _ => Self::Unsaid,
        }
    }
}

/// What a copy is worth, the lowest first. One that cannot be read just now may be the only whole one, and so
/// is worth more than one that was read and is damaged; and never more than one that was read and is whole.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Worth {
    Damaged,
    Unreadable,
    Whole { generation: u64, turn: Turn },
}

/// Whether `second` is known to be durable, and says the same as `first`.
fn is_pair(first: Worth, second: Worth) -> bool {
    let (Worth::Whole { generation, turn }, Worth::Whole { generation: other, turn: its }) = (first, second)
    else {
        return false;
    };
    let turns_fit = (turn, its) == (Turn::Second, Turn::First) || planted::is(Bug::TurnUnseen);
    generation == other && turns_fit
}

/// What a host knows of the superblock that it writes over, and when the next flush comes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Writing {
    /// Nothing; both copies are durable afterwards.
    Unknown,
    /// Nothing; and the device is flushed soon. One copy is durable afterwards, the other with that flush:
    /// until then a rotten sector in the first one is not survived. Both are if one of the two cannot be
    /// read, or is damaged: what is written in its place may not be read either.
    InPassing,
    /// The host uses the tier and has written the last superblock itself, both copies without a failure. Both
    /// say the same then, so where neither can be read any more either may be overwritten first: if that is
    /// torn, the other one is as good.
    Known,
}

/// [`put_superblock`] by a host that knows nothing of the one before.
///
/// # Errors
/// As [`put_superblock`].
pub fn write_superblock<F: WriteFlash>(
    flash: &mut F,
    superblock: &Superblock,
) -> Result<(), SuperblockError<F::Error>> {
    put_superblock(flash, superblock, Writing::Unknown)
}

/// Writes both copies, one after the other and first the one that is worth less, so that one whole copy is on
/// flash, durably, at any moment: a crash may have torn the second copy the last time, and then the first is
/// the only one.
///
/// # Errors
/// What `flash` reports. After a failed write one of the copies may be torn, and the other is whole.
/// `Unreadable` if neither can be read and they are not [`Writing::Known`], or if flash keeps neither copy.
pub fn put_superblock<F: WriteFlash>(
    flash: &mut F,
    superblock: &Superblock,
    writing: Writing,
) -> Result<(), SuperblockError<F::Error>> {
    let mut unread = None;
    let [first, second] = read_superblocks(flash, is_whole);
    let [at_first, at_second] = SUPERBLOCK_OFFSETS;
    let mut copies = [(first, at_first), (second, at_second)].map(|(read, offset)| {
        let worth = match read.map(|bytes| (Superblock::decode_versioned(&bytes), Turn::of(&bytes))) {
            Ok((Ok((copy, _)), turn)) => {
                let turn = if planted::is(Bug::TurnUnseen) { Turn::Unsaid } else { turn };
                Worth::Whole { generation: copy.generation, turn }
            }
            Ok((Err(_), _)) => Worth::Damaged,
            Err(_) if planted::is(Bug::UnreadableCopyFirst) => Worth::Damaged,
            Err(error) => {
                unread = Some(error);
                Worth::Unreadable
            }
        };
        (worth, offset)
    });
    copies.sort_unstable();
    let unreadable = copies.iter().all(|(worth, _)| *worth == Worth::Unreadable);
    let heals = writing == Writing::Known && !planted::is(Bug::UnreadSuperblocksKept);
    if let (true, false, Some(error)) = (unreadable, heals, unread) {
        return Err(SuperblockError::Unreadable(error));
    }
    let none_whole = !copies.iter().any(|(worth, _)| matches!(worth, Worth::Whole { .. }));
    let [(worse, _), (better, _)] = copies;
    if planted::is(Bug::BetterCopyFirst) {
        copies.reverse();
    }
    if !is_pair(worse, better) && !planted::is(Bug::SuperblockUnflushed) {
        flash.flush().map_err(SuperblockError::Failed)?;
    }
    let [(_, first), (_, second)] = copies;
    flash.write(first, &superblock.encode_copy(Turn::First)).map_err(SuperblockError::Failed)?;
    flash.flush().map_err(SuperblockError::Failed)?;
    flash.write(second, &superblock.encode_copy(Turn::Second)).map_err(SuperblockError::Failed)?;
    let heals = none_whole && heals && !planted::is(Bug::HealedUnread);
    let sound = matches!(worse, Worth::Whole { .. }) || planted::is(Bug::BadPlaceInPassing);
    if writing != Writing::InPassing || heals || !sound {
        flash.flush().map_err(SuperblockError::Failed)?;
    }
    if heals {
        return read_back(flash, superblock.generation);
    }
    Ok(())
}

/// Of places that could not be read a write that succeeds proves nothing.
fn read_back<F: WriteFlash>(flash: &mut F, generation: u64) -> Result<(), SuperblockError<F::Error>> {
    match read_superblock(flash) {
        Ok(found) if found.generation == generation => Ok(()),
        Ok(_) => Err(SuperblockError::Unreadable(ReadError("what was written is not there".to_owned()))),
        Err(error) => Err(SuperblockError::Unreadable(ReadError(error.to_string()))),
    }
}

/// Bytes at the beginning of a copy that say whose it is, and that a power cut leaves as they were or as they
/// were to become: the smallest sector of any device.
pub const NAMED_BYTES: usize = 512;
const TIER_UUID_AT: usize = 16;

/// The tier that the first [`NAMED_BYTES`] bytes of a copy name; `None` if they are of something else. The
/// rest of the copy may be damaged.
pub fn tier_named_in(sector: &[u8]) -> Option<[u8; 16]> {
    let named = sector.get(TIER_UUID_AT..TIER_UUID_AT + 16)?;
    sector.starts_with(&SUPERBLOCK_MAGIC).then(|| named.try_into().ok()).flatten()
}

/// Whether the checksum of a superblock is right. It stands at the same place in every version of the format.
fn is_whole(bytes: &[u8]) -> bool {
    bytes[CHECKSUM_AT..SUPERBLOCK_BYTES] == crc32c::crc32c(&bytes[..CHECKSUM_AT]).to_le_bytes()
}

/// Reads both copies and returns the newest whole one.
///
/// # Errors
/// [`FormatError::Unrecognised`] if neither copy is a superblock; a whole copy of a newer format is refused
/// by its number even if the other copy could be read, and one of an older format if it is the newest;
/// otherwise what is wrong with the copies.
pub fn read_superblock(flash: &mut dyn ReadFlash) -> Result<Superblock, FormatError> {
    match read_superblock_to_drain(flash)? {
        (superblock, FORMAT_VERSION) => Ok(superblock),
        (_, version) => Err(FormatError::OlderFormat(version)),
    }
}

/// Why the tier may have a newer superblock than this one, which was read from it: a copy cannot be read, or
/// one that is newer can be by now. `None` if it is the newest.
pub fn newer_superblock(flash: &mut dyn ReadFlash, found: &Superblock) -> Option<String> {
    read_superblocks(flash, is_whole).into_iter().find_map(|copy| {
        match copy.map(|copy| Superblock::decode(&copy)) {
            Err(error) => {
                Some(format!("one copy of its superblock cannot be read ({error}) and may be newer"))
            }
            Ok(Ok(copy)) if copy.tier_uuid == found.tier_uuid && copy.generation > found.generation => {
                Some("a copy of its superblock that could not be read before is newer".to_owned())
            }
            Ok(_) => None,
        }
    })
}

/// As [`read_superblock`], but also of an older version of the format that this build can read: to drain the
/// tier, or to look at it. With the version. What is written to the tier from then on is of this build's
/// version.
///
/// # Errors
/// As [`read_superblock`].
pub fn read_superblock_to_drain(flash: &mut dyn ReadFlash) -> Result<(Superblock, u32), FormatError> {
    let mut best: Option<(Superblock, u32)> = None;
    let mut worst = FormatError::Unrecognised;
    for read in read_superblocks(flash, is_whole) {
        let (bytes, copy) = match read {
            Ok(bytes) => {
                let copy = Superblock::decode_versioned(&bytes);
                (bytes, copy)
            }
            Err(error) => (Vec::new(), Err(FormatError::Unreadable(error.to_string()))),
        };
        match copy {
            Ok(copy) => {
                if best.as_ref().is_none_or(|(best, _)| copy.0.generation > best.generation) {
                    best = Some(copy);
                }
            }
            // A bit of the number that has flipped is not what a newer build writes.
            Err(error @ FormatError::NewerFormat(_))
                if is_whole(&bytes) || planted::is(Bug::NewerVersionUnverified) =>
            {
                return Err(error);
            }
            Err(FormatError::Unrecognised) => {}
            // What could not be read may be the whole one.
            Err(_) if matches!(worst, FormatError::Unreadable(_)) => {}
            Err(error) => worst = error,
        }
    }
    best.ok_or(worst)
}
