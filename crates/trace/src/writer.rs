//! Writing a trace in any of the formats.

use std::io::{self, Write};
use std::path::{Path, PathBuf};

use mezzanine_engine::PageId;

use crate::error::{TraceError, TraceErrorKind};
use crate::format::Format;
use crate::input::Compression;
use crate::oracle::OracleWriter;
use crate::output::{self, Output};
use crate::own::{EncodeError, Encoder, Header, Relation};
use crate::reader::Reader;
use crate::request::Request;
use crate::text::LisWriter;
use crate::vscsi;

/// A trace that is being written. It has its name, and can be read, when [`finish`](Self::finish) has
/// returned; what is dropped before is gone, and what had the name before is still there.
pub struct Writer {
    path: PathBuf,
    page_bytes: u32,
    encoder: FormatEncoder,
    written: u64,
    left_out: u64,
}

enum FormatEncoder {
    Plain(Output),
    Lis(LisWriter<Output>),
    Oracle(OracleWriter, Compression),
    Vscsi(Output),
    Mezzanine(Box<Encoder<Output>>),
}

/// What was written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Written {
    /// Requests and marks in the trace.
    pub requests: u64,
    /// Evictions and marks that the format has no place for.
    pub left_out: u64,
    /// Length of the file in bytes.
    pub file_bytes: u64,
}

impl Writer {
    /// Begins a trace. Of the header, formats other than Mezzanine's take the page size alone.
    ///
    /// # Errors
    /// If the page size is 0, or for `vscsi` no multiple of 512 bytes; if the file cannot be created.
    pub fn create(
        path: &Path,
        format: Format,
        compression: Compression,
        header: Header,
    ) -> Result<Writer, TraceError> {
        let page_bytes = header.page_bytes;
        let invalid = |reason: &str| Err(TraceError::new(TraceErrorKind::Invalid, path, reason));
        if page_bytes == 0 {
            return invalid("a trace of pages of 0 bytes");
        }
        if format == Format::Vscsi && page_bytes % vscsi::SECTOR_BYTES != 0 {
            return invalid(
                "vscsi counts in blocks of 512 bytes, so the page size must be a multiple of that",
            );
        }
        let encoder = if format == Format::OracleGeneral {
            FormatEncoder::Oracle(OracleWriter::new(path)?, compression)
        } else {
            let output = Output::create(path, compression)?;
            match format {
                Format::Plain => FormatEncoder::Plain(output),
                Format::Lis => FormatEncoder::Lis(LisWriter::new(output)),
                Format::Vscsi => FormatEncoder::Vscsi(output),
                Format::Mezzanine | Format::OracleGeneral => {
                    let encoder = Encoder::new(output, header).map_err(|e| not_written(path, e))?;
                    FormatEncoder::Mezzanine(Box::new(encoder))
                }
            }
        };
        Ok(Writer { path: path.to_owned(), page_bytes, encoder, written: 0, left_out: 0 })
    }

    /// Adds a request. An eviction or a mark that the format has no place for is counted and left out.
    ///
    /// # Errors
    /// If it cannot be written; if it is earlier than the one before; if the format has no number as large as
    /// its page or time; if in Mezzanine's format it has a time and the header says that there are none
    /// or the other way round, or a relation that was not defined.
    pub fn write(&mut self, request: &Request) -> Result<(), TraceError> {
        let has_place = !request.op.is_mark() && !request.op.is_eviction();
        if !has_place && !matches!(self.encoder, FormatEncoder::Mezzanine(_)) {
            self.left_out += 1;
            return Ok(());
        }
        let result = match &mut self.encoder {
            FormatEncoder::Plain(out) => writeln!(out, "{}", request.page).map_err(EncodeError::Io),
            FormatEncoder::Lis(lis) => lis.request(request.page).map_err(EncodeError::Io),
            FormatEncoder::Oracle(oracle, _) => oracle.request(request, self.page_bytes),
            FormatEncoder::Vscsi(out) => vscsi::encode(request, self.page_bytes, self.written)
                .and_then(|record| Ok(out.write_all(&record)?)),
            FormatEncoder::Mezzanine(encoder) => encoder.request(request),
        };
        result.map_err(|error| self.failed(error))?;
        self.written += 1;
        Ok(())
    }

    /// Defines a table, an index or a file that requests may name; `None` if the format has no place for it.
    /// Names are cut after 255 bytes.
    ///
    /// # Errors
    /// If it cannot be written; at the 1,048,577th; if pages are not named by numbers, so that relations
    /// follow from them.
    pub fn relation(&mut self, name: &str) -> Result<Option<u32>, TraceError> {
        let FormatEncoder::Mezzanine(encoder) = &mut self.encoder else { return Ok(None) };
        let number = encoder.named(name).map_err(|error| failed(&self.path, self.written, error))?;
        Ok(Some(number))
    }

    /// The number that requests have for the page with this id, in a trace of Mezzanine whose pages have ids.
    ///
    /// # Errors
    /// If the trace is none such; if no page of its naming has this id; if the definition of its relation
    /// cannot be written.
    pub fn page(&mut self, id: &PageId) -> Result<u64, TraceError> {
        let FormatEncoder::Mezzanine(encoder) = &mut self.encoder else {
            let reason = "only traces of the format mezzanine name pages by their ids";
            return Err(TraceError::new(TraceErrorKind::Invalid, &self.path, reason));
        };
        encoder.page(id).map_err(|error| failed(&self.path, self.written, error))
    }

    /// Names the relation that the page with this id belongs to, as a person would call it, before the first
    /// request for a page of it; later it has no effect. Only in a trace of Mezzanine whose pages have
    /// ids.
    ///
    /// # Errors
    /// As [`page`](Self::page).
    pub fn name(&mut self, id: &PageId, name: &str) -> Result<(), TraceError> {
        let FormatEncoder::Mezzanine(encoder) = &mut self.encoder else {
            let reason = "only traces of the format mezzanine name pages by their ids";
            return Err(TraceError::new(TraceErrorKind::Invalid, &self.path, reason));
        };
        encoder.name(id, name).map_err(|error| failed(&self.path, self.written, error))
    }

    /// Hands what was written so far to the operating system, in whole blocks: if the process ends now, it
    /// can be read from [`unfinished`](Self::unfinished) by [`Reader::without_end`]. Only traces of
    /// Mezzanine have blocks.
    ///
    /// # Errors
    /// If it cannot be written.
    pub fn flush(&mut self) -> Result<(), TraceError> {
        let FormatEncoder::Mezzanine(encoder) = &mut self.encoder else { return Ok(()) };
        encoder.flush().map_err(|error| not_written(&self.path, error))
    }

    /// Gives the trace up, and leaves what could be written under the name [`unfinished`](Self::unfinished).
    pub fn abandon(mut self) -> PathBuf {
        if let FormatEncoder::Mezzanine(encoder) = &mut self.encoder {
            encoder.output().keep();
        }
        self.unfinished()
    }

    /// Defines the relations that `reader` has met so far and this trace has not, so that its requests mean
    /// the same here.
    ///
    /// # Errors
    /// As [`relation`](Self::relation).
    pub fn follow_relations(&mut self, reader: &Reader) -> Result<(), TraceError> {
        let FormatEncoder::Mezzanine(encoder) = &mut self.encoder else { return Ok(()) };
        while let Some(relation) = reader.relations().get(encoder.relations().len()) {
            let relation: Relation = relation.clone();
            encoder.relation(relation).map_err(|error| failed(&self.path, self.written, error))?;
        }
        Ok(())
    }

    /// The name that the trace has until it is finished, for whoever ends the process and wants nothing to
    /// stay behind.
    pub fn unfinished(&self) -> PathBuf {
        output::unfinished(&self.path)
    }

    /// Completes the trace: writes its end, waits until it is on disk and gives it its name.
    ///
    /// # Errors
    /// If it cannot be written, or has no request: nobody could read it.
    pub fn finish(self) -> Result<Written, TraceError> {
        let Writer { path, encoder, written, left_out, .. } = self;
        if written == 0 {
            let reason = format!(
                "there is no request to write; {left_out} were left out, which the format has no place for"
            );
            return Err(TraceError::new(TraceErrorKind::Empty, &path, reason));
        }
        let output = match encoder {
            FormatEncoder::Plain(out) | FormatEncoder::Vscsi(out) => Ok(out),
            FormatEncoder::Lis(lis) => lis.finish(),
            FormatEncoder::Mezzanine(encoder) => encoder.finish(),
            FormatEncoder::Oracle(oracle, compression) => {
                let output = Output::create(&path, compression)?;
                oracle.finish(output)
            }
        };
        let file_bytes = output.map_err(|e| not_written(&path, e))?.finish()?;
        Ok(Written { requests: written, left_out, file_bytes })
    }

    fn failed(&self, error: EncodeError) -> TraceError {
        failed(&self.path, self.written, error)
    }
}

fn failed(path: &Path, written: u64, error: EncodeError) -> TraceError {
    let behind = |reason| format!("behind {written} requests: {reason}");
    match error {
        EncodeError::Io(error) => not_written(path, error),
        EncodeError::Invalid(reason) => TraceError::new(TraceErrorKind::Invalid, path, behind(reason)),
        EncodeError::Unsorted(reason) => TraceError::new(TraceErrorKind::Unsorted, path, behind(reason)),
    }
}

fn not_written(path: &Path, error: io::Error) -> TraceError {
    TraceError::from_io(path, "it cannot be written", error)
}
