//! A trace of what the server does, as a process of it writes it down.

use std::path::Path;
use std::time::{SystemTime, UNIX_EPOCH};

use mezzanine_engine::PageId;
use mezzanine_trace::{Compression, Format, Header, Naming, Op, Request, TraceError, TraceErrorKind, Writer};

use crate::message::Refusal;

/// A trace that is being written; `None` after a failure.
pub(crate) struct Trace(Option<Writer>);

impl Trace {
    pub(crate) fn create(path: &Path, page_bytes: u32) -> Result<Trace, Refusal> {
        if path.symlink_metadata().is_ok() {
            let message = format!("the trace \"{}\" cannot be written", path.display());
            return Err(Refusal::new(message)
                .detail("There is a file of that name.")
                .hint("Name another file."));
        }
        let since_1970 = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let header = Header {
            page_bytes,
            naming: Naming::Postgres,
            timed: true,
            origin_unix_us: u64::try_from(since_1970.as_micros()).unwrap_or(0),
        };
        let writer = Writer::create(path, Format::Mezzanine, Compression::None, header);
        writer.map(|writer| Trace(Some(writer))).map_err(|error| refusal(&error))
    }

    /// Adds an event.
    pub(crate) fn add(
        &mut self,
        time_ns: u64,
        op: Op,
        page: &PageId,
        client: u32,
        transaction: u32,
    ) -> Result<(), Refusal> {
        self.attempt(|writer| {
            let page = if op.is_mark() { 0 } else { writer.page(page)? };
            writer.write(&Request {
                time_ns: Some(time_ns),
                client: Some(client),
                transaction: Some(u64::from(transaction)).filter(|number| *number != 0),
                ..Request::of(op, page)
            })
        })
    }

    pub(crate) fn flush(&mut self) -> Result<(), Refusal> {
        self.attempt(Writer::flush)
    }

    fn attempt(&mut self, act: impl FnOnce(&mut Writer) -> Result<(), TraceError>) -> Result<(), Refusal> {
        let Some(writer) = &mut self.0 else { return Err(Refusal::new("the trace has failed before")) };
        act(writer).map_err(|error| {
            let kept = self.0.take().map(Writer::abandon).unwrap_or_default();
            refusal(&error).hint(format!("What was recorded until then is in \"{}\".", kept.display()))
        })
    }

    /// Completes the trace: how many events it has, and its length. Both 0, and no file, if there was none.
    pub(crate) fn finish(mut self) -> Result<(u64, u64), Refusal> {
        let Some(writer) = self.0.take() else { return Err(Refusal::new("the trace has failed before")) };
        match writer.finish() {
            Ok(written) => Ok((written.requests, written.file_bytes)),
            Err(error) if error.kind() == TraceErrorKind::Empty => Ok((0, 0)),
            Err(error) => Err(refusal(&error)),
        }
    }
}

fn refusal(error: &TraceError) -> Refusal {
    Refusal::new(format!("the trace \"{}\" cannot be written", error.file().display()))
        .detail(format!("{error}."))
}
