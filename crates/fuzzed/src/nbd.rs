//! A client of the NBD server, from its first byte to its last.

use std::io::{self, Write};
use std::sync::{Arc, Mutex};

use mezzanine_blockdev::nbd::{Ended, Export, Limits, serve_stream};
use mezzanine_device::{Device, MemoryDevice};

/// Length of each export in bytes.
const LEN: u64 = 1 << 18;
/// Largest read or write in bytes, so that a few bytes do not ask for much work.
const REQUEST_BYTES: u32 = 1 << 16;

/// Keeps what the server says.
#[derive(Clone, Default)]
struct Said(Arc<Mutex<Vec<u8>>>);

impl Write for Said {
    fn write(&mut self, buf: &[u8]) -> io::Result<usize> {
        self.0.lock().expect("no panic before").extend_from_slice(buf);
        Ok(buf.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// A client that says what `data` describes: a row of messages, each with a byte for its kind and one for its
/// length, and as many bytes. The lengths that messages state of themselves are right, unless a kind is to
/// be all wrong.
///
/// # Panics
/// If an invariant is broken.
pub fn nbd(data: &[u8]) -> bool {
    let said = Said::default();
    let writable = Arc::new(MemoryDevice::new(LEN));
    let kept = Arc::new(MemoryDevice::new(LEN));
    let export = |name: &str, device: &Arc<MemoryDevice>| Export {
        name: name.to_owned(),
        ..Export::new(Arc::clone(device) as Arc<dyn Device>)
    };
    let exports = [export("w", &writable), Export { read_only: true, ..export("r", &kept) }];
    // One thread: the same input is the same run.
    let limits = Limits { in_flight: 1, request_bytes: REQUEST_BYTES, ..Limits::default() };
    let told = messages(data);
    let ended = serve_stream(Box::new(&told[..]), Box::new(said.clone()), &exports, &limits);
    let said = said.0.lock().expect("no panic before");
    assert!(said.starts_with(b"NBDMAGICIHAVEOPT\0\x03"));
    check_option_replies(&said[18..]);
    // A message has one reply, or a few to a list of two exports; none is longer than what was asked for.
    let messages_max = told.len() / 16 + 1;
    assert!(said.len() <= 18 + messages_max * (REQUEST_BYTES as usize + 1024), "{} bytes", said.len());
    assert_eq!(kept.changes(), 0, "it is read-only");
    assert_eq!((writable.len(), kept.len()), (LEN, LEN));
    match ended {
        Ended::Done | Ended::Closed => true,
        Ended::Violation(what) => {
            assert!(!what.to_string().is_empty());
            false
        }
        Ended::Stopped | Ended::Failed(_) => panic!("nobody stops it, and memory does not fail: {ended}"),
    }
}

/// Replies to options have the right magic number, and are as long as they say, up to where transmission
/// begins.
fn check_option_replies(mut said: &[u8]) {
    let magic = 0x0003_e889_0455_65a9u64.to_be_bytes();
    while let Some(rest) = said.strip_prefix(&magic) {
        let (head, rest) = rest.split_at_checked(12).expect("a whole reply");
        let len = u32::from_be_bytes(head[8..].try_into().expect("four bytes"));
        said = rest.get(len as usize..).expect("a whole reply");
    }
}

fn messages(data: &[u8]) -> Vec<u8> {
    let mut told = Vec::new();
    let (&[flags, ..], mut rest) = data.split_at(data.len().min(1)) else { return told };
    told.extend_from_slice(&if flags < 240 { 3 } else { u32::from(flags) }.to_be_bytes());
    while let &[kind, len, ref more @ ..] = rest {
        let (bytes, behind) = more.split_at(more.len().min(usize::from(len)));
        rest = behind;
        match kind % 8 {
            0 => told.extend_from_slice(bytes),
            1 => option(&mut told, 7, b"\0\0\0\x01w\0\x01\0\x03"),
            2 => option(&mut told, 7, b"\0\0\0\x01r\0\0"),
            3 => option(&mut told, 8, b""),
            4 => option(&mut told, 10, b"\0\0\0\x01w\0\0\0\x01\0\0\0\x0fbase:allocation"),
            5 => option(&mut told, u32::from(kind / 8), bytes),
            _ => request(&mut told, kind, bytes),
        }
    }
    told
}

fn option(told: &mut Vec<u8>, option: u32, data: &[u8]) {
    told.extend_from_slice(b"IHAVEOPT");
    told.extend_from_slice(&option.to_be_bytes());
    told.extend_from_slice(&(data.len() as u32).to_be_bytes());
    told.extend_from_slice(data);
}

/// A request whose offset and length are mostly within the export.
fn request(told: &mut Vec<u8>, kind: u8, bytes: &[u8]) {
    let byte = |at: usize| u64::from(bytes.get(at).copied().unwrap_or(0));
    let command = u16::from(kind / 8) % 10;
    let offset = if byte(0) == 255 { u64::MAX - byte(1) } else { (byte(0) << 8 | byte(1)) * 8 };
    let payload = bytes.get(4..).unwrap_or(&[]);
    let is_write = command == 1;
    let len = if is_write { payload.len() as u64 } else { byte(2) << 9 };
    told.extend_from_slice(&0x2560_9513u32.to_be_bytes());
    told.extend_from_slice(&(byte(3) as u16 & 0x1f).to_be_bytes());
    told.extend_from_slice(&command.to_be_bytes());
    told.extend_from_slice(&[kind; 8]);
    told.extend_from_slice(&offset.to_be_bytes());
    told.extend_from_slice(&(len as u32).to_be_bytes());
    if is_write {
        told.extend_from_slice(payload);
    }
}
