//! A server of the network block device protocol.
//!
//! The protocol is that of the NBD project's `doc/proto.md`, whose names are used here: fixed newstyle
//! negotiation, simple and structured replies, the meta context `base:allocation`. Parsing is apart from
//! input and output, in pure functions: `wire` has the numbers and encodings, `negotiation` answers options,
//! `request` judges requests.
//!
//! What holds, numbered for reference:
//! 1. *Durability.* A flush is answered after the device's own flush that began when the request had been
//!    read, so it covers every write that had been answered before, on any connection
//!    ([`Device`](mezzanine_device::Device), promises 1 and 2). Hence `CAN_MULTI_CONN`. A request with FUA is
//!    answered when what it wrote is durable.
//! 2. *Bounds.* Whatever a client sends, a connection has at most [`Limits::in_flight`] requests under way,
//!    each of at most [`Limits::request_bytes`], of those above 1 MiB two at a time; it may haggle for at
//!    most [`Limits::haggling`] and send at most 128 options. Memory is taken for what was promised only
//!    within these bounds.
//! 3. *Errors.* A request that cannot be carried out is answered with an error number of the protocol, and
//!    the connection goes on. What leaves nothing to answer (a wrong magic number, an end in the middle of a
//!    message) ends the connection, and nothing else.
//! 4. *Nothing half.* A write whose payload did not arrive whole is not begun.
//! 5. *Lengths.* A client works with the length that it was told at its start; what lies beyond is refused
//!    here, so that a file that a device stands on never grows by it.

mod wire;

mod export;

mod negotiation;

mod request;

mod carry_out;

mod haggle;

mod stream;

mod tls;

mod connection;

mod listener;

mod server;

pub use export::{Export, Limits};
pub use haggle::{Ended, Violation};
pub use server::{Event, Server, serve_stream};
pub use tls::{Encryption, EncryptionError};
