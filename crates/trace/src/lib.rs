//! Traces of page requests, streamed: reading one takes the same memory whatever its length.
//!
//! [`open`] reads the formats that cache research shares its traces in; `docs/traces.md` says what is made of
//! each. [`Dense`] numbers the pages of a trace from 0, so that what looks at it can use arrays.
//!
//! ```
//! use mezzanine_trace::{Dense, Format, Op, Reader};
//!
//! let file = b"7\n9\n7\n";
//! let mut pages = Dense::new();
//! let mut numbers = Vec::new();
//! for request in Reader::new(&file[..], "trace.txt".as_ref(), Format::Plain, 4096)? {
//!     let request = request?;
//!     assert_eq!(request.op, Op::Read);
//!     numbers.push(pages.number(request.page));
//! }
//! assert_eq!(numbers, [0, 1, 0]);
//! # Ok::<(), mezzanine_trace::TraceError>(())
//! ```
#![forbid(unsafe_code)]

mod error;
mod request;

mod input;

mod format;

mod oracle;
mod own;
mod text;
mod vscsi;

mod reader;

mod output;
mod writer;

mod record;

mod dense;
#[cfg(feature = "generate")]
mod generate;

pub use dense::Dense;
pub use error::{Position, TraceError, TraceErrorKind};
pub use format::{Format, UnknownFormat};
#[cfg(feature = "generate")]
pub use generate::{CLIENTS_MAX, ClientStep, Clients, Generate, Generator, Shape};
pub use input::Compression;
pub use own::{Header, Naming, Relation};
pub use reader::{Reader, open};
pub use record::{Event, Recorder};
pub use request::{Op, Request};
pub use writer::{Writer, Written};
