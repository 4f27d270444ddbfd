//! The bytes of a trace, plain or decompressed, with their positions.
//!
//! 1. Memory: one buffer of [`BUFFER_BYTES`], whatever the file.
//! 2. Whether a file is compressed is decided by its first bytes, never by its name.

use std::io::{self, Read};
use std::path::{Path, PathBuf};

use crate::error::{Position, TraceError, TraceErrorKind};

/// How much is read at a time, and the most that can be looked at at once.
pub(crate) const BUFFER_BYTES: usize = 128 << 10;

/// How much of the beginning a guess at the format looks at.
const HEAD_BYTES: usize = 4096;

/// A frame of zstd, and the first of the 16 numbers of a frame to be skipped, with which tools begin that
/// compress in parallel.
const ZSTD_MAGIC: u32 = 0xFD2F_B528;
const ZSTD_SKIPPABLE: u32 = 0x184D_2A50;

/// How a trace is compressed as a whole.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Compression {
    /// Not at all.
    None,
    /// By zstd (RFC 8878).
    Zstd,
}

impl Compression {
    /// The name as tables and JSON print it.
    pub fn name(self) -> &'static str {
        match self {
            Self::None => "none",
            Self::Zstd => "zstd",
        }
    }
}

pub(crate) struct Input {
    source: Box<dyn Read + Send>,
    file: PathBuf,
    compression: Compression,
    buffer: Box<[u8]>,
    /// What of the buffer is filled and not consumed.
    start: usize,
    end: usize,
    at_end: bool,
    /// Bytes consumed.
    position: u64,
}

impl Input {
    /// Reads the beginning of `source`, which errors call `file`.
    ///
    /// # Errors
    /// If it cannot be read, is damaged, or has no byte.
    pub(crate) fn new(mut source: impl Read + Send + 'static, file: &Path) -> Result<Input, TraceError> {
        let mut magic = Vec::new();
        source
            .by_ref()
            .take(4)
            .read_to_end(&mut magic)
            .map_err(|e| TraceError::from_io(file, "it cannot be read", e))?;
        let number = magic.first_chunk().map(|bytes| u32::from_le_bytes(*bytes));
        let zstd = number.is_some_and(|n| n == ZSTD_MAGIC || n & !15 == ZSTD_SKIPPABLE);
        let whole = io::Cursor::new(magic).chain(source);
        let (source, compression): (Box<dyn Read + Send>, _) = if zstd {
            (decompressed(whole, file)?, Compression::Zstd)
        } else {
            (Box::new(whole), Compression::None)
        };
        let mut input = Input {
            source,
            file: file.to_owned(),
            compression,
            buffer: vec![0; BUFFER_BYTES].into_boxed_slice(),
            start: 0,
            end: 0,
            at_end: false,
            position: 0,
        };
        if input.peek(1)?.is_empty() {
            return Err(TraceError::new(
                TraceErrorKind::Empty,
                file,
                "the trace is empty: there is no byte in it",
            ));
        }
        Ok(input)
    }

    pub(crate) fn file(&self) -> &Path {
        &self.file
    }

    pub(crate) fn compression(&self) -> Compression {
        self.compression
    }

    /// Bytes consumed so far.
    pub(crate) fn position(&self) -> u64 {
        self.position
    }

    /// An error at `position`.
    pub(crate) fn error(
        &self,
        kind: TraceErrorKind,
        position: Position,
        reason: impl Into<String>,
    ) -> TraceError {
        TraceError::new(kind, &self.file, reason).at(position, self.compression != Compression::None)
    }

    /// The beginning, as far as a guess at the format needs it.
    pub(crate) fn head(&mut self) -> Result<&[u8], TraceError> {
        self.peek(HEAD_BYTES)
    }

    /// The next `count` bytes, at most [`BUFFER_BYTES`], without consuming them; fewer only at the end.
    pub(crate) fn peek(&mut self, count: usize) -> Result<&[u8], TraceError> {
        if self.end - self.start < count {
            self.fill(count)?;
        }
        let there = count.min(self.end - self.start);
        Ok(&self.buffer[self.start..self.start + there])
    }

    /// All that is buffered, at least one byte unless the end is reached.
    pub(crate) fn buffered(&mut self) -> Result<&[u8], TraceError> {
        self.peek(1)?;
        Ok(&self.buffer[self.start..self.end])
    }

    /// Goes on behind `count` bytes that were seen.
    pub(crate) fn consume(&mut self, count: usize) {
        assert!(count <= self.end - self.start, "more than was seen");
        self.start += count;
        self.position += count as u64;
    }

    /// The next record of exactly `N` bytes, consumed; `None` at the end of the trace.
    pub(crate) fn record<const N: usize>(&mut self) -> Result<Option<[u8; N]>, TraceError> {
        let bytes = self.peek(N)?;
        if let Some(record) = bytes.first_chunk().copied() {
            self.consume(N);
            return Ok(Some(record));
        }
        match bytes.len() {
            0 => Ok(None),
            there => {
                let reason = format!("the trace ends inside a record: {there} bytes where a record has {N}");
                Err(self.error(TraceErrorKind::Truncated, Position::Byte(self.position), reason))
            }
        }
    }

    fn fill(&mut self, count: usize) -> Result<(), TraceError> {
        assert!(count <= self.buffer.len(), "more than the buffer holds");
        self.buffer.copy_within(self.start..self.end, 0);
        self.end -= self.start;
        self.start = 0;
        while self.end < count && !self.at_end {
            match self.source.read(&mut self.buffer[self.end..]) {
                Ok(0) => self.at_end = true,
                Ok(read) => self.end += read,
                Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
                Err(e) => return Err(self.unreadable(e)),
            }
        }
        Ok(())
    }

    /// An error of the operating system, or of the decompression, which has no number of the system's.
    fn unreadable(&self, source: io::Error) -> TraceError {
        let position = Position::Byte(self.position + (self.end - self.start) as u64);
        if self.compression == Compression::None || source.raw_os_error().is_some() {
            let error = TraceError::from_io(&self.file, "it cannot be read", source);
            return error.at(position, self.compression != Compression::None);
        }
        if source.kind() == io::ErrorKind::UnexpectedEof {
            return self.error(TraceErrorKind::Truncated, position, "the compressed file ends too early");
        }
        self.error(TraceErrorKind::Damaged, position, format!("it cannot be decompressed: {source}"))
    }
}

#[cfg(feature = "zstd")]
fn decompressed(source: impl Read + Send + 'static, file: &Path) -> Result<Box<dyn Read + Send>, TraceError> {
    let decoder =
        zstd::Decoder::new(source).map_err(|e| TraceError::from_io(file, "decompression cannot start", e))?;
    Ok(Box::new(decoder))
}

#[cfg(not(feature = "zstd"))]
fn decompressed(_: impl Read + Send + 'static, file: &Path) -> Result<Box<dyn Read + Send>, TraceError> {
    Err(not_built(file))
}

/// The error of software that was built without the compression.
#[cfg(not(feature = "zstd"))]
pub(crate) fn not_built(file: &Path) -> TraceError {
    let reason = "it is compressed by zstd, which this program was built without";
    TraceError::new(TraceErrorKind::Invalid, file, reason).advise("let the command mezz do it")
}
