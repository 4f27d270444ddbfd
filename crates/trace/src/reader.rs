//! One trace, request by request.
//!
//! 1. A record may be a run of pages; what is left of it is all that is remembered between requests.
//! 2. After an error there is nothing more.
//! 3. A trace without a request is an error, as is one whose time goes back.

use std::fs::File;
use std::io::Read;
use std::path::Path;

use mezzanine_engine::PageId;

use crate::error::{Position, TraceError, TraceErrorKind};
use crate::format::{Format, Guess};
use crate::input::{Compression, Input};
use crate::oracle;
use crate::own::{Blocks, Header, Naming, Relation};
use crate::request::Request;
use crate::text::Lines;
use crate::vscsi::Vscsi;

/// Opens a trace. Requests that are larger than a page of `page_bytes` become several; formats that count in
/// pages do not use it, and Mezzanine's says itself how large its pages are ([`Reader::header`]).
///
/// # Errors
/// If the file cannot be opened, is empty, or shows at its beginning that it is of another format; if
/// `page_bytes` is 0.
pub fn open(path: &Path, format: Format, page_bytes: u32) -> Result<Reader, TraceError> {
    let file = File::open(path).map_err(|e| TraceError::from_io(path, "it cannot be opened", e))?;
    Reader::new(file, path, format, page_bytes)
}

/// The requests of a trace, in its order. The first error is the last item.
pub struct Reader {
    input: Input,
    format: Format,
    page_bytes: u32,
    decoder: Decoder,
    /// What the file looks like, if not like the format that was named.
    guess: Option<Guess>,
    run: Run,
    time_ns: u64,
    requests: u64,
    ended: bool,
}

enum Decoder {
    Plain(Lines),
    Lis(Lines),
    Oracle,
    Vscsi(Vscsi),
    Mezzanine(Box<Blocks>),
}

impl Reader {
    /// Reads a trace from anywhere; errors call it `name`.
    ///
    /// # Errors
    /// As [`open`].
    pub fn new(
        source: impl Read + Send + 'static,
        name: &Path,
        format: Format,
        page_bytes: u32,
    ) -> Result<Reader, TraceError> {
        if page_bytes == 0 {
            let reason = "a page size of 0 bytes divides no request";
            return Err(TraceError::new(TraceErrorKind::Invalid, name, reason));
        }
        let mut input = Input::new(source, name)?;
        let guess = Format::guess(input.head()?).filter(|guess| *guess != Guess::Format(format));
        if let Some(guess) = guess.filter(|guess| is_certainly_not(format, *guess)) {
            let reason = format!("this is no trace of the format {format}");
            let error = input.error(TraceErrorKind::WrongFormat, Position::Byte(0), reason);
            return Err(error.advise(guess.advice()));
        }
        let decoder = match format {
            Format::Plain => Decoder::Plain(Lines::new()),
            Format::Lis => Decoder::Lis(Lines::new()),
            Format::OracleGeneral => Decoder::Oracle,
            Format::Vscsi => Decoder::Vscsi(Vscsi::new()),
            Format::Mezzanine => {
                let wrong = |error: TraceError| match guess {
                    Some(guess) if error.kind() == TraceErrorKind::WrongFormat => {
                        error.advise(guess.advice())
                    }
                    _ => error,
                };
                Decoder::Mezzanine(Box::new(Blocks::new(&mut input).map_err(wrong)?))
            }
        };
        let run = Run::none();
        Ok(Reader { input, format, page_bytes, decoder, guess, run, time_ns: 0, requests: 0, ended: false })
    }

    /// Has a trace of Mezzanine that was not finished be read as far as its blocks are whole: what a process
    /// left that was killed while it recorded. What is damaged is an error still.
    #[must_use]
    pub fn without_end(mut self) -> Reader {
        if let Decoder::Mezzanine(blocks) = &mut self.decoder {
            blocks.allow_without_end();
        }
        self
    }

    /// Whether the trace, read [without its end](Self::without_end), had none. Known when the last request
    /// was read.
    pub fn was_unfinished(&self) -> bool {
        matches!(&self.decoder, Decoder::Mezzanine(blocks) if blocks.has_stopped())
    }

    /// The format.
    pub fn format(&self) -> Format {
        self.format
    }

    /// How the file is compressed.
    pub fn compression(&self) -> Compression {
        self.input.compression()
    }

    /// What holds for the whole trace, as Mezzanine's format would say it.
    pub fn header(&self) -> Header {
        match &self.decoder {
            Decoder::Mezzanine(blocks) => *blocks.header(),
            Decoder::Plain(_) | Decoder::Lis(_) => self.header_of_numbers(false),
            Decoder::Oracle | Decoder::Vscsi(_) => self.header_of_numbers(true),
        }
    }

    /// The size of a page in bytes.
    pub fn page_bytes(&self) -> u32 {
        self.header().page_bytes
    }

    fn header_of_numbers(&self, timed: bool) -> Header {
        Header { page_bytes: self.page_bytes, naming: Naming::Numbers, timed, origin_unix_us: 0 }
    }

    /// The relations that requests so far could name: number 1 is the first.
    pub fn relations(&self) -> &[Relation] {
        match &self.decoder {
            Decoder::Mezzanine(blocks) => blocks.relations(),
            _ => &[],
        }
    }

    /// The id of a page that was in a request so far, in a trace whose pages have ids.
    pub fn page_id(&self, page: u64) -> Option<PageId> {
        match &self.decoder {
            Decoder::Mezzanine(blocks) => blocks.page_id(page),
            _ => None,
        }
    }

    /// The id of block 0 of a relation, by its number from 1, in a trace whose pages have ids.
    pub fn first_page_id(&self, relation: u32) -> Option<PageId> {
        self.page_id(crate::own::first_page(relation))
    }

    fn record(&mut self) -> Result<Option<Run>, TraceError> {
        match &mut self.decoder {
            Decoder::Plain(lines) => lines.plain(&mut self.input),
            Decoder::Lis(lines) => lines.lis(&mut self.input),
            Decoder::Oracle => oracle::record(&mut self.input, self.page_bytes),
            Decoder::Vscsi(vscsi) => vscsi.record(&mut self.input, self.page_bytes),
            Decoder::Mezzanine(blocks) => {
                Ok(blocks.request(&mut self.input)?.map(|request| Run::pages(request, 1)))
            }
        }
    }

    /// The next request; `None` at the end.
    fn advance(&mut self) -> Result<Option<Request>, TraceError> {
        loop {
            if let Some(request) = self.run.next() {
                self.requests += 1;
                return Ok(Some(request));
            }
            let position = self.input.position();
            let Some(run) = self.record()? else { break };
            if let Some(time_ns) = run.request.time_ns {
                if time_ns < self.time_ns {
                    let reason = format!(
                        "a request {} ns after the trace's origin follows one {} ns after it: the trace is not in the order of time",
                        time_ns, self.time_ns
                    );
                    let at = Position::Byte(position);
                    return Err(self.input.error(TraceErrorKind::Unsorted, at, reason));
                }
                self.time_ns = time_ns;
            }
            self.run = run;
        }
        if self.requests == 0 {
            let reason = "the trace is empty: there is no request in it";
            return Err(TraceError::new(TraceErrorKind::Empty, self.input.file(), reason));
        }
        Ok(None)
    }

    /// Says what the file looks like, if that may be the reason.
    fn explained(&self, error: TraceError) -> TraceError {
        match self.guess {
            Some(guess) if error.kind() != TraceErrorKind::Io => error.advise(guess.advice()),
            _ => error,
        }
    }
}

impl Iterator for Reader {
    type Item = Result<Request, TraceError>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.ended {
            return None;
        }
        let next = self.advance().map_err(|error| self.explained(error)).transpose();
        self.ended = !matches!(next, Some(Ok(_)));
        next
    }
}

impl std::iter::FusedIterator for Reader {}

/// Whether a guess rules the format out: records for machines without a magic number would accept almost
/// anything.
fn is_certainly_not(format: Format, guess: Guess) -> bool {
    let is_blind = matches!(format, Format::OracleGeneral | Format::Vscsi);
    is_blind && matches!(guess, Guess::Format(_) | Guess::Text)
}

/// A request for several pages.
pub(crate) struct Run {
    request: Request,
    /// Pages that were handed out, and pages in all.
    next: u64,
    pages: u64,
    /// Whether `request.page` names an object and not the first of pages in a row.
    is_object: bool,
}

impl Run {
    pub(crate) fn none() -> Run {
        Run::pages(Request::of(crate::Op::Read, 0), 0)
    }

    /// `pages` pages in a row, from the request's on. The caller has checked that their numbers exist.
    pub(crate) fn pages(request: Request, pages: u64) -> Run {
        Run { request, next: 0, pages, is_object: false }
    }

    /// The pages of an object.
    pub(crate) fn object(request: Request, pages: u64) -> Run {
        Run { request, next: 0, pages, is_object: true }
    }
}

impl Iterator for Run {
    type Item = Request;

    fn next(&mut self) -> Option<Request> {
        if self.next == self.pages {
            return None;
        }
        let page = match self.is_object {
            true => oracle::page_of_object(self.request.page, self.next),
            false => self.request.page + self.next,
        };
        self.next += 1;
        Some(Request { page, ..self.request })
    }
}
