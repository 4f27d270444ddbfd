//! The formats, and what a file looks like.

use std::fmt;
use std::str::FromStr;

use crate::own;
use crate::vscsi;

/// How a trace is written down; a file of any format may be compressed by zstd. New ones may be added.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Format {
    /// Text, one page number a line.
    Plain,
    /// Text of four numbers a line: first page, number of pages, of no meaning, number of the request. The
    /// format of the traces that ARC was published with (Megiddo and Modha, "ARC: A self-tuning, low
    /// overhead replacement cache", 2003).
    Lis,
    /// libCacheSim's records of 24 bytes: time, object, size, next access.
    OracleGeneral,
    /// Records of VMware's vscsiStats, version 1 or 2, as CloudPhysics published them.
    Vscsi,
    /// Mezzanine's own (`docs/format.md`), which alone knows evictions, marks, clients, transactions and
    /// relations.
    Mezzanine,
}

impl Format {
    /// All formats.
    pub fn all() -> &'static [Format] {
        &[Self::Plain, Self::Lis, Self::OracleGeneral, Self::Vscsi, Self::Mezzanine]
    }

    /// The name on the command line.
    pub fn name(self) -> &'static str {
        match self {
            Self::Plain => "plain",
            Self::Lis => "lis",
            Self::OracleGeneral => "oracle-general",
            Self::Vscsi => "vscsi",
            Self::Mezzanine => "mezzanine",
        }
    }

    /// What a trace looks like that begins with these bytes: of text the first line, of records several of
    /// them; `None` if there is nothing to go by.
    pub(crate) fn guess(head: &[u8]) -> Option<Guess> {
        if head.starts_with(&[0x1F, 0x8B]) {
            return Some(Guess::Compressed("gzip"));
        }
        if head.starts_with(b"\xFD7zXZ\0") {
            return Some(Guess::Compressed("xz"));
        }
        if head.starts_with(b"BZh") {
            return Some(Guess::Compressed("bzip2"));
        }
        if head.starts_with(own::MAGIC) {
            return Some(Guess::Format(Self::Mezzanine));
        }
        if vscsi::looks_like(head) {
            return Some(Guess::Format(Self::Vscsi));
        }
        let is_text = head.iter().all(|byte| byte.is_ascii_graphic() || byte.is_ascii_whitespace());
        if !is_text {
            return None;
        }
        let line = head.split(|&byte| byte == b'\n').next().unwrap_or(head);
        let mut fields = line.split(u8::is_ascii_whitespace).filter(|field| !field.is_empty());
        if !fields.clone().all(|field| field.iter().all(u8::is_ascii_digit)) {
            return Some(Guess::Text);
        }
        match fields.by_ref().count() {
            1 => Some(Guess::Format(Self::Plain)),
            4 => Some(Guess::Format(Self::Lis)),
            _ => Some(Guess::Text),
        }
    }
}

/// What a file looks like.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Guess {
    Format(Format),
    Text,
    Compressed(&'static str),
}

impl Guess {
    /// What to do if the named format turns out wrong.
    pub(crate) fn advice(self) -> String {
        match self {
            Guess::Format(format) => format!("it looks like the format {format}: name that one"),
            Guess::Text => "it looks like text of a format that is not known here".to_owned(),
            Guess::Compressed(by) => {
                format!(
                    "it looks like a file that {by} has compressed: decompress it, or compress it with zstd instead"
                )
            }
        }
    }
}

impl fmt::Display for Format {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for Format {
    type Err = UnknownFormat;

    /// By [`name`](Format::name).
    fn from_str(text: &str) -> Result<Format, UnknownFormat> {
        Format::all()
            .iter()
            .copied()
            .find(|format| format.name() == text)
            .ok_or_else(|| UnknownFormat(text.to_owned()))
    }
}

/// A name that no format has.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UnknownFormat(String);

impl fmt::Display for UnknownFormat {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names: Vec<&str> = Format::all().iter().map(|format| format.name()).collect();
        write!(f, "no trace format is called '{}'; there are {}", self.0, names.join(", "))
    }
}

impl std::error::Error for UnknownFormat {}
