//! The formats that are text: plain page numbers and ARC's.

use std::io::{self, Write};

use crate::error::{Position, TraceError, TraceErrorKind};
use crate::input::Input;
use crate::reader::Run;
use crate::request::{Op, Request};

/// The longest line that is looked at. Four numbers of 64 bits have 83 characters.
const LINE_BYTES_MAX: usize = 4096;

/// The longest run of pages that a line may ask for.
const RUN_PAGES_MAX: u64 = 1 << 32;

/// Lines of numbers.
pub(crate) struct Lines {
    /// Lines consumed, so also the number of the newest.
    read: u64,
}

impl Lines {
    pub(crate) fn new() -> Lines {
        Lines { read: 0 }
    }

    /// The position of the line that was read last.
    pub(crate) fn position(&self) -> Position {
        Position::Line(self.read)
    }

    /// A page number from the next line that is not blank.
    pub(crate) fn plain(&mut self, input: &mut Input) -> Result<Option<Run>, TraceError> {
        let Some([page]) = self.numbers(input)? else { return Ok(None) };
        Ok(Some(Run::pages(Request::of(Op::Read, page), 1)))
    }

    /// A run of pages from the next line of ARC's format that is not blank.
    pub(crate) fn lis(&mut self, input: &mut Input) -> Result<Option<Run>, TraceError> {
        let Some([start, count, _, _]) = self.numbers(input)? else { return Ok(None) };
        let damaged = |reason: String| Err(input.error(TraceErrorKind::Damaged, self.position(), reason));
        if count == 0 || count > RUN_PAGES_MAX {
            return damaged(format!(
                "a run of {count} pages; the second number says how many, from 1 to {RUN_PAGES_MAX}"
            ));
        }
        if start.checked_add(count - 1).is_none() {
            return damaged(format!("{count} pages from page {start} on go past the largest page number"));
        }
        Ok(Some(Run::pages(Request::of(Op::Read, start), count)))
    }

    /// The `N` numbers of the next line that is not blank; `None` at the end.
    fn numbers<const N: usize>(&mut self, input: &mut Input) -> Result<Option<[u64; N]>, TraceError> {
        loop {
            // A line that goes on behind the buffered bytes is looked at again when it is whole.
            let mut bytes = input.buffered()?;
            let mut end = bytes.iter().position(|&byte| byte == b'\n');
            if end.is_none() {
                bytes = input.peek(LINE_BYTES_MAX)?;
                end = bytes.iter().position(|&byte| byte == b'\n');
            }
            let line = &bytes[..end.unwrap_or(bytes.len())];
            if bytes.is_empty() {
                return Ok(None);
            }
            self.read += 1;
            if line.len() >= LINE_BYTES_MAX {
                let reason = format!("a line of {LINE_BYTES_MAX} bytes or more; {}", expected::<N>());
                return Err(input.error(TraceErrorKind::WrongFormat, self.position(), reason));
            }
            let parsed = parse::<N>(line);
            let consumed = line.len() + usize::from(end.is_some());
            match parsed {
                Parsed::Numbers(numbers) => {
                    input.consume(consumed);
                    return Ok(Some(numbers));
                }
                Parsed::Blank => input.consume(consumed),
                Parsed::Wrong => {
                    let shown =
                        String::from_utf8_lossy(&line[..line.len().min(40)]).escape_debug().to_string();
                    let dots = if line.len() > 40 { "..." } else { "" };
                    let reason = format!("'{shown}{dots}' is not {}", expected::<N>());
                    return Err(input.error(TraceErrorKind::WrongFormat, self.position(), reason));
                }
            }
        }
    }
}

/// Lines of ARC's format. Pages in a row become one line.
pub(crate) struct LisWriter<W> {
    out: W,
    start: u64,
    count: u64,
    lines: u64,
}

impl<W: Write> LisWriter<W> {
    pub(crate) fn new(out: W) -> LisWriter<W> {
        LisWriter { out, start: 0, count: 0, lines: 0 }
    }

    pub(crate) fn request(&mut self, page: u64) -> io::Result<()> {
        // The page behind the run, if there is a run and that page.
        let next = self.start.checked_add(self.count).filter(|_| (1..RUN_PAGES_MAX).contains(&self.count));
        if next != Some(page) {
            self.line()?;
            self.start = page;
        }
        self.count += 1;
        Ok(())
    }

    fn line(&mut self) -> io::Result<()> {
        if self.count > 0 {
            writeln!(self.out, "{} {} 0 {}", self.start, self.count, self.lines)?;
            self.lines += 1;
            self.count = 0;
        }
        Ok(())
    }

    pub(crate) fn finish(mut self) -> io::Result<W> {
        self.line()?;
        Ok(self.out)
    }
}

fn expected<const N: usize>() -> &'static str {
    if N == 1 {
        "one decimal number below 2^64"
    } else {
        "four decimal numbers below 2^64 (first page, pages, 0, request)"
    }
}

enum Parsed<const N: usize> {
    Numbers([u64; N]),
    Blank,
    Wrong,
}

fn parse<const N: usize>(line: &[u8]) -> Parsed<N> {
    let mut numbers = [0; N];
    let mut fields = line.split(u8::is_ascii_whitespace).filter(|field| !field.is_empty());
    for (index, number) in numbers.iter_mut().enumerate() {
        match fields.next() {
            Some(field) => match decimal(field) {
                Some(value) => *number = value,
                None => return Parsed::Wrong,
            },
            None if index == 0 => return Parsed::Blank,
            None => return Parsed::Wrong,
        }
    }
    if fields.next().is_some() { Parsed::Wrong } else { Parsed::Numbers(numbers) }
}

/// Digits alone: `str::parse` would take a plus sign.
fn decimal(field: &[u8]) -> Option<u64> {
    field.iter().try_fold(0u64, |value, byte| {
        let digit = byte.is_ascii_digit().then(|| u64::from(byte - b'0'))?;
        value.checked_mul(10)?.checked_add(digit)
    })
}
