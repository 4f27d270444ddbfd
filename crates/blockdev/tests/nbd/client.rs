//! A client of its own for tests: it says what it is told to, right or wrong.

use std::io::{self, Read, Write};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::Duration;

pub(crate) const EXPORT_NAME: u32 = 1;
pub(crate) const ABORT: u32 = 2;
pub(crate) const LIST: u32 = 3;
pub(crate) const GO: u32 = 7;
pub(crate) const STRUCTURED_REPLY: u32 = 8;
pub(crate) const SET_META_CONTEXT: u32 = 10;
pub(crate) const ACK: u32 = 1;

pub(crate) const READ: u16 = 0;
pub(crate) const WRITE: u16 = 1;
pub(crate) const DISC: u16 = 2;
pub(crate) const FLUSH: u16 = 3;
pub(crate) const TRIM: u16 = 4;
pub(crate) const CACHE: u16 = 5;
pub(crate) const WRITE_ZEROES: u16 = 6;
pub(crate) const BLOCK_STATUS: u16 = 7;
pub(crate) const FUA: u16 = 1;

pub(crate) struct Client {
    pub(crate) stream: UnixStream,
    structured: bool,
    cookie: u64,
    /// Told by GO.
    pub(crate) len: u64,
    pub(crate) flags: u16,
}

/// A reply to a request.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Reply {
    pub(crate) cookie: u64,
    /// 0 is success.
    pub(crate) error: u32,
    pub(crate) data: Vec<u8>,
}

impl Client {
    /// Connects, and exchanges greetings.
    pub(crate) fn greet(path: &Path) -> Client {
        Client::greet_on(UnixStream::connect(path).expect("a server listens"))
    }

    pub(crate) fn greet_on(stream: UnixStream) -> Client {
        stream.set_read_timeout(Some(Duration::from_secs(60))).expect("a socket");
        let mut client = Client { stream, structured: false, cookie: 0, len: 0, flags: 0 };
        assert_eq!(client.take::<18>(), *b"NBDMAGICIHAVEOPT\0\x03");
        client.send(&3u32.to_be_bytes());
        client
    }

    /// Connects, and begins with the export of this name.
    pub(crate) fn begin(path: &Path, name: &str, structured: bool) -> Client {
        let mut client = Client::greet(path);
        if structured {
            client.structured_replies();
        }
        client.go(name);
        client
    }

    pub(crate) fn structured_replies(&mut self) {
        assert_eq!(self.option(STRUCTURED_REPLY, b"").last().expect("a reply").0, ACK);
        self.structured = true;
    }

    pub(crate) fn go(&mut self, name: &str) {
        let data = [&(name.len() as u32).to_be_bytes(), name.as_bytes(), &[0, 0]].concat();
        let replies = self.option(GO, &data);
        assert_eq!(replies.last().expect("a reply").0, ACK, "{replies:?}");
        let export = &replies[0].1;
        self.len = u64::from_be_bytes(export[2..10].try_into().expect("a length"));
        self.flags = u16::from_be_bytes(export[10..12].try_into().expect("flags"));
    }

    pub(crate) fn send(&mut self, bytes: &[u8]) {
        self.stream.write_all(bytes).expect("the server reads");
    }

    pub(crate) fn take<const LEN: usize>(&mut self) -> [u8; LEN] {
        let mut bytes = [0; LEN];
        self.stream.read_exact(&mut bytes).expect("the server answers");
        bytes
    }

    fn take_len(&mut self, len: usize) -> Vec<u8> {
        let mut bytes = vec![0; len];
        self.stream.read_exact(&mut bytes).expect("the server answers");
        bytes
    }

    fn take_u32(&mut self) -> u32 {
        u32::from_be_bytes(self.take())
    }

    /// Sends an option, without waiting for answers.
    pub(crate) fn send_option(&mut self, option: u32, data: &[u8]) {
        let len = (data.len() as u32).to_be_bytes();
        self.send(&[b"IHAVEOPT", &option.to_be_bytes()[..], &len, data].concat());
    }

    /// Sends an option; the types and data of the replies, up to the last one.
    pub(crate) fn option(&mut self, option: u32, data: &[u8]) -> Vec<(u32, Vec<u8>)> {
        self.send_option(option, data);
        let mut replies = Vec::new();
        loop {
            assert_eq!(self.take::<8>(), 0x0003_e889_0455_65a9u64.to_be_bytes());
            assert_eq!(self.take_u32(), option);
            let (kind, len) = (self.take_u32(), self.take_u32());
            replies.push((kind, self.take_len(len as usize)));
            if kind == ACK || kind >> 31 == 1 {
                return replies;
            }
        }
    }

    /// Sends a request, without waiting for its reply; returns its cookie.
    pub(crate) fn send_request(
        &mut self,
        kind: u16,
        flags: u16,
        offset: u64,
        len: u32,
        payload: &[u8],
    ) -> u64 {
        self.cookie += 1;
        let request = [
            &0x2560_9513u32.to_be_bytes()[..],
            &flags.to_be_bytes(),
            &kind.to_be_bytes(),
            &self.cookie.to_be_bytes(),
            &offset.to_be_bytes(),
            &len.to_be_bytes(),
            payload,
        ];
        self.send(&request.concat());
        self.cookie
    }

    /// The next reply; `read` says how many bytes a simple one to a read has behind it.
    pub(crate) fn reply(&mut self, read: usize) -> Reply {
        let magic = self.take_u32();
        if magic == 0x6744_6698 {
            let (error, cookie) = (self.take_u32(), u64::from_be_bytes(self.take()));
            let data = self.take_len(if error == 0 { read } else { 0 });
            return Reply { cookie, error, data };
        }
        assert_eq!(magic, 0x668e_33ef, "a structured reply");
        assert!(self.structured, "only if that was agreed on");
        let (flags, kind) = (u16::from_be_bytes(self.take()), u16::from_be_bytes(self.take()));
        assert_eq!(flags, 1, "one chunk a reply");
        let (cookie, len) = (u64::from_be_bytes(self.take()), self.take_u32());
        let mut data = self.take_len(len as usize);
        let error = match kind {
            0 | 5 => 0,
            1 => {
                data.drain(..8);
                0
            }
            0x8001 => u32::from_be_bytes(data[..4].try_into().expect("a number")),
            other => panic!("a chunk of type {other}"),
        };
        Reply { cookie, error, data }
    }

    /// Sends a request and waits for its reply.
    pub(crate) fn request(&mut self, kind: u16, flags: u16, offset: u64, len: u32, payload: &[u8]) -> Reply {
        let cookie = self.send_request(kind, flags, offset, len, payload);
        let reply = self.reply(if kind == READ { len as usize } else { 0 });
        assert_eq!(reply.cookie, cookie);
        reply
    }

    /// The error of a request without a payload; 0 is success.
    pub(crate) fn error(&mut self, kind: u16, flags: u16, offset: u64, len: u32) -> u32 {
        self.request(kind, flags, offset, len, b"").error
    }

    pub(crate) fn read(&mut self, offset: u64, len: u32) -> Vec<u8> {
        let reply = self.request(READ, 0, offset, len, b"");
        assert_eq!(reply.error, 0);
        reply.data
    }

    pub(crate) fn write(&mut self, offset: u64, bytes: &[u8]) {
        assert_eq!(self.request(WRITE, 0, offset, bytes.len() as u32, bytes).error, 0);
    }

    /// Whether the server has closed the connection, once it has sent what it had to.
    pub(crate) fn is_closed(&mut self) -> bool {
        match io::copy(&mut self.stream, &mut io::sink()) {
            Ok(_) => true,
            Err(error) => error.kind() == io::ErrorKind::ConnectionReset,
        }
    }
}
