//! A recording that is read.

use std::fs::File;
use std::io::{self, BufReader, Read as _};
use std::os::unix::fs::FileExt as _;
use std::path::Path;
use std::{error, fmt};

use crate::SECTOR_BYTES;
use crate::cut::{Cut, Fate};
use crate::log::{EVENT_BYTES, FOLLOW_BYTES_MAX, Fields, HEAD_BYTES, Head};
use rustix::fs::{FallocateFlags, fallocate};

/// What an event is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// What the device had when the recording began.
    Before,
    /// A write.
    Write,
    /// A write that is durable when it is answered.
    WriteThrough,
    /// A range was given up, and reads as zeros.
    Discard,
    /// What was answered before it began is durable.
    Flush,
    /// The client has said something.
    Mark,
    /// A write that failed: whatever is flushed, it may be there or not.
    TriedWrite,
    /// A range that could not be given up, and may be zeros or not.
    TriedDiscard,
}

impl Kind {
    const ALL: [Self; 8] = [
        Self::Before,
        Self::Write,
        Self::WriteThrough,
        Self::Discard,
        Self::Flush,
        Self::Mark,
        Self::TriedWrite,
        Self::TriedDiscard,
    ];

    pub(crate) fn code(self) -> u8 {
        self as u8
    }

    fn of_code(code: u8) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| kind.code() == code)
    }

    /// Whether it changes contents, after the recording began.
    fn changes(self) -> bool {
        !matches!(self, Self::Before | Self::Flush | Self::Mark)
    }
}

/// Something that happened. Events are numbered from 0 in the order in which they were answered.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Event {
    /// What.
    pub kind: Kind,
    /// How many events had been answered when it began.
    pub begun: u64,
    /// First byte on the device.
    pub offset: u64,
    /// Number of bytes on the device.
    pub len: u64,
    /// Where its bytes lie in the recording.
    at: u64,
    follow: u64,
    /// From this event on it is durable; none if it never was.
    durable_from: Option<u64>,
}

/// Why a recording cannot be read.
#[derive(Debug)]
pub enum ReadError {
    /// The file cannot be read.
    Io(io::Error),
    /// It is something else.
    NotARecording,
    /// An event cannot be: its number, and what is wrong.
    Event(u64, &'static str),
}

impl fmt::Display for ReadError {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Io(error) => error.fmt(out),
            Self::NotARecording => out.write_str("it is no recording of a device, or of another version"),
            Self::Event(number, what) => write!(out, "event {number} {what}: it is damaged"),
        }
    }
}

impl error::Error for ReadError {}

impl From<io::Error> for ReadError {
    fn from(error: io::Error) -> Self {
        Self::Io(error)
    }
}

/// A recording: everything that happened. Bytes stay in the file.
#[derive(Debug)]
pub struct History {
    file: File,
    len: u64,
    events: Vec<Event>,
    /// Bytes at the end of the file that are no whole event.
    cut_off: u64,
}

impl History {
    /// Reads a recording.
    ///
    /// # Errors
    /// [`ReadError`]. An end in the middle of an event is none.
    pub fn open(path: &Path) -> Result<Self, ReadError> {
        let file = File::open(path)?;
        let file_len = file.metadata()?.len();
        let mut reader = BufReader::with_capacity(1 << 20, &file);
        let mut head = [0; HEAD_BYTES];
        if file_len < HEAD_BYTES as u64 {
            return Err(ReadError::NotARecording);
        }
        reader.read_exact(&mut head)?;
        let head = Head::decode(&head).ok_or(ReadError::NotARecording)?;
        let (mut events, mut at, mut bytes) = (Vec::new(), HEAD_BYTES as u64, Vec::new());
        while file_len - at >= EVENT_BYTES as u64 {
            let mut event = [0; EVENT_BYTES];
            reader.read_exact(&mut event)?;
            let fields = Fields::decode(&event);
            let behind = file_len - at - EVENT_BYTES as u64;
            if fields.follow > behind {
                break;
            }
            let number = events.len() as u64;
            if fields.follow > FOLLOW_BYTES_MAX {
                return Err(ReadError::Event(number, "is too long"));
            }
            bytes.resize(fields.follow as usize, 0);
            reader.read_exact(&mut bytes)?;
            if !Fields::is_whole(&event, &bytes) {
                if behind > fields.follow {
                    return Err(ReadError::Event(number, "does not match its checksum, and others follow"));
                }
                break;
            }
            let event = Event::of(fields, at + EVENT_BYTES as u64, number, head.len);
            events.push(event.map_err(|what| ReadError::Event(number, what))?);
            at += EVENT_BYTES as u64 + fields.follow;
        }
        drop(reader);
        let mut history = Self { file, len: head.len, events, cut_off: file_len - at };
        history.find_durable();
        Ok(history)
    }

    /// From which event on each is durable (invariant 2).
    fn find_durable(&mut self) {
        // From the end: the first flush so far that has begun behind an event covers it.
        let mut flushes: Vec<(u64, u64)> = Vec::new();
        for number in (0..self.events.len()).rev() {
            let event = &mut self.events[number];
            let number = number as u64;
            match event.kind {
                Kind::Before | Kind::Mark => event.durable_from = Some(number),
                Kind::WriteThrough => event.durable_from = Some(number + 1),
                Kind::Flush => {
                    event.durable_from = Some(number);
                    // One behind it that began no later covers nothing that this one does not.
                    while flushes.last().is_some_and(|(_, begun)| *begun <= event.begun) {
                        flushes.pop();
                    }
                    flushes.push((number, event.begun));
                }
                Kind::TriedWrite | Kind::TriedDiscard => event.durable_from = None,
                Kind::Write | Kind::Discard => {
                    let covering = flushes.iter().rev().find(|(_, begun)| *begun > number);
                    event.durable_from = covering.map(|(flush, _)| flush + 1);
                }
            }
        }
    }

    /// Length of the device in bytes.
    pub fn device_len(&self) -> u64 {
        self.len
    }

    /// Everything that happened.
    pub fn events(&self) -> &[Event] {
        &self.events
    }

    /// Bytes at the end that are no whole event.
    pub fn cut_off(&self) -> u64 {
        self.cut_off
    }

    /// How many of its events are of this kind.
    pub fn count(&self, kind: Kind) -> u64 {
        self.events.iter().filter(|event| event.kind == kind).count() as u64
    }

    /// The first event behind the contents of before: no cut comes earlier.
    pub fn begins(&self) -> u64 {
        self.events.iter().position(|event| event.kind != Kind::Before).unwrap_or(self.events.len()) as u64
    }

    /// What a cut before event `at` may lose: writes and discards that had begun and were not durable, in
    /// the order of their answers.
    pub fn open_at(&self, at: u64) -> Vec<u64> {
        let begun = |event: &Event, number: u64| number < at || event.begun <= at;
        let is_durable = |event: &Event| event.durable_from.is_some_and(|from| from <= at);
        // Requests are answered soon: nothing that had begun by then is answered much later.
        let last = self.last_begun_by(at);
        (self.begins()..last)
            .filter(|&number| {
                let event = &self.events[number as usize];
                event.kind.changes() && begun(event, number) && !is_durable(event)
            })
            .collect()
    }

    /// How many events are open at each time, but for those under way.
    pub(crate) fn how_many_open(&self) -> Vec<u64> {
        let mut changes = vec![0_i64; self.events.len() + 2];
        for (number, event) in self.events.iter().enumerate().filter(|(_, event)| event.kind.changes()) {
            let end = event.durable_from.map_or(self.events.len() + 1, |from| from as usize);
            changes[number + 1] += 1;
            changes[end] -= 1;
        }
        let sums = changes.iter().scan(0_i64, |open, change| {
            *open += change;
            Some(u64::try_from(*open).unwrap_or(0))
        });
        sums.collect()
    }

    /// Behind the last event that had begun when `at` of them were answered.
    fn last_begun_by(&self, at: u64) -> u64 {
        let behind = self.events.iter().enumerate().skip(at as usize);
        behind
            .filter(|(_, event)| event.begun <= at)
            .map(|(number, _)| number as u64 + 1)
            .next_back()
            .unwrap_or(at)
    }

    /// What the client had said before a cut, in order.
    ///
    /// # Errors
    /// Of the file.
    pub fn marks(&self, at: u64) -> io::Result<Vec<(u64, String)>> {
        let marks = self.events.iter().enumerate().take(at as usize);
        marks
            .filter(|(_, event)| event.kind == Kind::Mark)
            .map(|(number, event)| Ok((number as u64, String::from_utf8_lossy(&self.bytes(event)?).into())))
            .collect()
    }

    fn bytes(&self, event: &Event) -> io::Result<Vec<u8>> {
        let mut bytes = vec![0; event.follow as usize];
        self.file.read_exact_at(&mut bytes, event.at)?;
        Ok(bytes)
    }

    /// Writes the contents that a device has after a cut to a file, which is made anew.
    ///
    /// # Errors
    /// Of the files.
    pub fn make(&self, cut: &Cut, path: &Path) -> io::Result<()> {
        let image = File::create(path)?;
        image.set_len(self.len)?;
        let open = self.open_at(cut.at);
        let last = open.last().map_or(cut.at, |last| cut.at.max(last + 1));
        for (number, event) in self.events.iter().enumerate().take(last as usize) {
            let number = number as u64;
            if event.kind != Kind::Before && !event.kind.changes() {
                continue;
            }
            let fate = match open.binary_search(&number) {
                Ok(_) => cut.fate(number),
                // What had not begun never happened.
                Err(_) if number >= cut.at => Fate::Lost,
                Err(_) => Fate::Kept,
            };
            let there = match fate {
                Fate::Lost => continue,
                Fate::Kept => 0..event.len,
                Fate::Torn { sectors } => 0..event.bytes_of_first(sectors),
                Fate::TornLast { sectors } => {
                    event.bytes_of_first(event.sectors().saturating_sub(sectors))..event.len
                }
            };
            let at = event.offset + there.start;
            if matches!(event.kind, Kind::Discard | Kind::TriedDiscard) {
                zero(&image, at, there.end - there.start)?;
            } else {
                image.write_all_at(&self.bytes(event)?[there.start as usize..there.end as usize], at)?;
            }
        }
        Ok(())
    }
}

fn zero(image: &File, offset: u64, len: u64) -> io::Result<()> {
    if len == 0
        || fallocate(image, FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE, offset, len).is_ok()
    {
        return Ok(());
    }
    let zeros = vec![0; len.min(1 << 20) as usize];
    let mut at = 0;
    while at < len {
        let here = (len - at).min(zeros.len() as u64);
        image.write_all_at(&zeros[..here as usize], offset + at)?;
        at += here;
    }
    Ok(())
}

impl Event {
    fn of(fields: Fields, at: u64, number: u64, device_len: u64) -> Result<Self, &'static str> {
        let Fields { kind, begun, offset, len, follow } = fields;
        let kind = Kind::of_code(kind).ok_or("is of a kind that there is not")?;
        if begun > number {
            return Err("began after it was answered");
        }
        if offset.checked_add(len).is_none_or(|end| end > device_len) {
            return Err("lies behind the end of the device");
        }
        let has_bytes = matches!(kind, Kind::Before | Kind::Write | Kind::WriteThrough | Kind::TriedWrite);
        if has_bytes && follow != len || !has_bytes && kind != Kind::Mark && follow != 0 {
            return Err("has another number of bytes than it says");
        }
        Ok(Self { kind, begun, offset, len, at, follow, durable_from: None })
    }

    /// The sectors of the device that it covers, the first and the last one perhaps in part.
    pub fn sectors(&self) -> u64 {
        (self.offset + self.len).div_ceil(SECTOR_BYTES) - self.offset / SECTOR_BYTES
    }

    /// How many of its bytes lie in the first so many of these.
    fn bytes_of_first(&self, sectors: u64) -> u64 {
        let end = (self.offset / SECTOR_BYTES).saturating_add(sectors).saturating_mul(SECTOR_BYTES);
        end.saturating_sub(self.offset).min(self.len)
    }
}
