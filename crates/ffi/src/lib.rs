//! The tier for a database server written in C: several processes, a log, a buffer pool of its own.
//!
//! PostgreSQL's extension `mezzanine` links this crate as a static library. The server's hooks call the
//! functions of [`abi`]; what only the server can do for the tier (write pages to relations, sync them, wait)
//! comes back through [`abi::callbacks::MezzCallbacks`].
//!
//! Rules:
//! 1. No error of C crosses a Rust frame: callbacks return whether they succeeded and never jump. No panic
//!    crosses into C: it ends the process, which the server's postmaster takes for a crash, and the tier is
//!    rebuilt from flash.
//! 2. The process that starts the server opens the flash device and sets the region's memory; its children
//!    inherit both by `fork`. So nothing here starts threads: the device carries out its requests on the
//!    calling thread, or through a ring of the process's own (io_uring).
//! 3. One process recovers the tier, before the server's redo; the others attach when they first use it.
//! 4. Foreground calls carry out jobs only where they have to wait: a background worker does the rest.
//!
//! What has to be durable before what, at start, checkpoints and stops, is written down in [`startup`] and
//! [`checkpoint`].

pub mod abi;

pub mod message;

pub mod relation_files;

pub mod settings;

pub mod host;

pub mod work;

pub mod pages;

pub mod read_at_once;

pub mod read_ahead;

mod reread;

pub mod inspect;

pub mod failure;

pub mod resize;

mod noted;

pub mod marker;

pub mod expendable;

mod session;

mod sync_mark;

pub mod at_rest;

pub mod start;

mod foreign;

pub mod startup;

pub mod checkpoint;

pub mod modelled;

mod trace;

#[cfg(feature = "planted")]
pub mod planted;
