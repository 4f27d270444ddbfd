//! What well-behaved clients get.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex};
use std::thread;

use mezzanine_blockdev::nbd::{Export, Limits};
use mezzanine_device::memory::{Fault, Injection, Operation};
use mezzanine_device::{
    Capabilities, Device, DeviceError, DeviceErrorKind, FileDevice, MemoryDevice, OpenOptions, Request,
};
use mezzanine_ground::random::Random;

use crate::client::*;
use crate::{Served, memory};

const MIB: u64 = 1 << 20;
const EPERM: u32 = 1;
const EIO: u32 = 5;
const EINVAL: u32 = 22;
const ENOSPC: u32 = 28;

/// Every command against plain bytes, with both kinds of replies.
#[test]
fn what_is_read_is_what_was_written() {
    for structured in [false, true] {
        let served = Served::of(memory(MIB));
        let mut client = Client::begin(&served.socket, "", structured);
        assert_eq!(client.len, MIB);
        let (mut bytes, mut random) = (vec![0u8; MIB as usize], Random::new(5));
        let mut counted = [0; 4];
        for _ in 0..600 {
            let offset = random.below(MIB);
            let len = random.magnitude(70_000).min(MIB - offset) as u32;
            let range = offset as usize..(offset + u64::from(len)) as usize;
            let case = random.below(4) as usize;
            counted[case] += 1;
            match case {
                0 => {
                    let new: Vec<u8> = (0..len).map(|_| random.next_u64() as u8).collect();
                    let flags = random.below(2) as u16 * FUA;
                    assert_eq!(client.request(WRITE, flags, offset, len, &new).error, 0);
                    bytes[range].copy_from_slice(&new);
                }
                1 => {
                    assert_eq!(client.error(WRITE_ZEROES, 0, offset, len), 0);
                    bytes[range].fill(0);
                }
                2 => {
                    assert_eq!(client.error([FLUSH, CACHE][(offset % 2) as usize], 0, offset, len), 0);
                }
                _ => assert!(client.read(offset, len) == bytes[range]),
            }
        }
        assert!(counted.iter().all(|&count| count > 100), "{counted:?}");
        // A range that was given up reads as anything, and its neighbours as before.
        assert_eq!(client.error(TRIM, 0, 4096, 4096), 0);
        assert!(client.read(0, 4096) == bytes[..4096]);
        assert!(client.read(8192, 4096) == bytes[8192..12288]);
        client.send_request(DISC, 0, 0, 0, b"");
        assert!(client.is_closed());
        served.wait_until("its end", || served.has_told("the client is done"));
    }
}

#[test]
fn what_may_not_be_is_an_error_and_the_connection_goes_on() {
    let exports = vec![
        Export { name: "all".to_owned(), minimum_block: 512, ..Export::new(memory(MIB + 100)) },
        Export { name: "read".to_owned(), read_only: true, ..Export::new(memory(MIB)) },
    ];
    let limits = Limits { request_bytes: 1 << 17, ..Limits::default() };
    let served = Served::new(exports, limits);
    for structured in [false, true] {
        let mut client = Client::begin(&served.socket, "all", structured);
        assert_eq!(client.len, MIB, "whole blocks");
        assert_eq!(client.error(READ, 0, 1, 512), EINVAL);
        assert_eq!(client.error(READ, 0, MIB - 512, 1024), EINVAL);
        assert_eq!(client.error(READ, 0, u64::MAX - 511, 512), EINVAL);
        assert_eq!(client.error(READ, 0, 0, u32::MAX - 511), EINVAL);
        assert_eq!(client.error(TRIM, 0, MIB, 512), EINVAL);
        assert_eq!(client.error(WRITE_ZEROES, 0, MIB, 512), ENOSPC);
        assert_eq!(client.error(42, 0, 0, 512), EINVAL);
        // The payload of what is refused is skipped, however long.
        assert_eq!(client.request(WRITE, 0, MIB, 512, &[1; 512]).error, ENOSPC);
        assert_eq!(client.request(WRITE, 0, 0, 1 << 18, &[1; 1 << 18]).error, EINVAL);
        client.write(512, &[3; 512]);
        assert_eq!(client.read(0, 1024), [[0; 512], [3; 512]].concat());
        client.write(512, &[0; 512]);
    }
    let mut client = Client::begin(&served.socket, "read", true);
    assert_eq!(client.flags & 2, 2);
    for kind in [TRIM, WRITE_ZEROES] {
        assert_eq!(client.error(kind, 0, 0, 512), EPERM);
    }
    let refused = client.request(WRITE, 0, 0, 5, b"bytes");
    assert_eq!(refused.error, EPERM);
    assert!(String::from_utf8_lossy(&refused.data).contains("read-only"));
    assert_eq!(client.read(0, 5), [0; 5]);
}

/// A drive that has died, is full, or has lost its power goes on answering.
#[test]
fn a_device_that_fails_is_answered_with_its_error() {
    let device = memory(MIB);
    let served = Served::of(Arc::clone(&device) as Arc<dyn Device>);
    let mut client = Client::begin(&served.socket, "", true);
    client.write(0, b"before");
    let always = |operation, kind| Injection { operation, after: 0, count: 1, fault: Fault::Error(kind) };
    device.inject(always(Operation::Read, DeviceErrorKind::Io));
    device.inject(always(Operation::Write, DeviceErrorKind::NoSpace));
    let failed = client.request(READ, 0, 0, 6, b"");
    assert_eq!(failed.error, EIO);
    assert!(String::from_utf8_lossy(&failed.data).contains("simulated drive"));
    assert_eq!(client.request(WRITE, 0, MIB - 6, 6, b"during").error, ENOSPC);
    assert_eq!(client.read(0, 6), b"before");
    device.power().crash_after(1);
    for kind in [READ, FLUSH, TRIM, WRITE_ZEROES, CACHE] {
        assert_eq!(client.error(kind, 0, 0, 512), EIO, "{kind}");
    }
    assert!(served.has_told("no power"));
    device.power().restore();
    assert_eq!(client.read(0, 6), b"before");
}

/// Holds reads back until as many are under way as it was told.
struct Deep {
    inner: MemoryDevice,
    wanted: usize,
    under_way: Mutex<usize>,
    enough: Condvar,
    most: AtomicUsize,
}

impl Device for Deep {
    fn capabilities(&self) -> Capabilities {
        self.inner.capabilities()
    }

    fn run(&self, batch: &mut [Request<'_>]) -> Vec<Result<(), DeviceError>> {
        let mut under_way = self.under_way.lock().unwrap();
        *under_way += 1;
        self.most.fetch_max(*under_way, Ordering::SeqCst);
        self.enough.notify_all();
        // Those that came together leave together: the number is no longer looked at once it was reached.
        drop(self.enough.wait_while(under_way, |_| self.most.load(Ordering::SeqCst) < self.wanted));
        let results = self.inner.run(batch);
        *self.under_way.lock().unwrap() -= 1;
        results
    }

    fn set_len(&self, len: u64) -> Result<(), DeviceError> {
        self.inner.set_len(len)
    }

    fn describe(&self) -> String {
        self.inner.describe()
    }
}

#[test]
fn the_depth_that_a_client_keeps_up_reaches_the_device_and_no_more_than_that() {
    let device = Arc::new(Deep {
        inner: MemoryDevice::new(MIB),
        wanted: 16,
        under_way: Mutex::new(0),
        enough: Condvar::new(),
        most: AtomicUsize::new(0),
    });
    let served = Served::of(Arc::clone(&device) as Arc<dyn Device>);
    let mut client = Client::begin(&served.socket, "", false);
    let sent: BTreeSet<u64> = (0..200).map(|n| client.send_request(READ, 0, n * 512, 512, b"")).collect();
    let answered: BTreeSet<u64> = (0..200).map(|_| client.reply(512).cookie).collect();
    assert_eq!(answered, sent);
    assert_eq!(device.most.load(Ordering::SeqCst), Limits::default().in_flight);
}

/// Slow for one address.
struct Uneven(MemoryDevice, Mutex<bool>, Condvar);

impl Device for Uneven {
    fn capabilities(&self) -> Capabilities {
        self.0.capabilities()
    }

    fn run(&self, batch: &mut [Request<'_>]) -> Vec<Result<(), DeviceError>> {
        if batch.iter().any(|request| request.range().is_some_and(|(offset, _)| offset == 0)) {
            drop(self.2.wait_while(self.1.lock().unwrap(), |may_go| !*may_go));
        }
        self.0.run(batch)
    }

    fn set_len(&self, len: u64) -> Result<(), DeviceError> {
        self.0.set_len(len)
    }

    fn describe(&self) -> String {
        self.0.describe()
    }
}

#[test]
fn a_reply_does_not_wait_for_an_earlier_request() {
    let device = Arc::new(Uneven(MemoryDevice::new(MIB), Mutex::new(false), Condvar::new()));
    let served = Served::of(Arc::clone(&device) as Arc<dyn Device>);
    let mut client = Client::begin(&served.socket, "", true);
    let slow = client.send_request(READ, 0, 0, 512, b"");
    for _ in 0..50 {
        client.read(512, 512);
    }
    *device.1.lock().unwrap() = true;
    device.2.notify_all();
    assert_eq!(client.reply(512).cookie, slow);
}

#[test]
fn requests_that_take_much_memory_all_come_to_their_end() {
    let served = Served::of(memory(64 * MIB));
    let mut client = Client::begin(&served.socket, "", true);
    let large = 8 << 20;
    let mut sent: BTreeSet<u64> =
        (0..8).map(|n| client.send_request(READ, 0, n * u64::from(large), large, b"")).collect();
    // A client that sends and does not take replies would stand in its own way.
    for _ in 0..8 {
        assert!(sent.remove(&client.reply(large as usize).cookie));
    }
    sent.extend((0..3).map(|n| {
        client.send_request(WRITE, 0, n * u64::from(large), large, &vec![n as u8 + 1; large as usize])
    }));
    for _ in 0..3 {
        assert!(sent.remove(&client.reply(0).cookie));
    }
    assert!((0..3).all(|n| client.read(n * u64::from(large), 1) == [n as u8 + 1]));
}

#[test]
fn several_connections_are_one_device() {
    let served = Served::of(memory(MIB));
    let socket = &served.socket;
    thread::scope(|scope| {
        for number in 0..8u64 {
            scope.spawn(move || {
                let mut client = Client::begin(socket, "", number % 2 == 0);
                assert_eq!(client.flags & 0x100, 0x100, "CAN_MULTI_CONN");
                for round in 0..100 {
                    client.write(number * 4096, &[(number + round) as u8; 4096]);
                }
            });
        }
    });
    let mut client = Client::begin(socket, "", true);
    for number in 0..8 {
        assert_eq!(client.read(number * 4096, 4096), [(number + 99) as u8; 4096]);
    }
    served.wait_until("their ends", || served.server().connections() == 1);
}

#[test]
fn a_file_is_served_and_zeroes_and_given_up_ranges_are_holes_in_it() {
    let served = Served::of(memory(0));
    let path = served.directory().join("file");
    let options = OpenOptions { len: Some(4 * MIB), ..OpenOptions::read_write_create() };
    let file = Arc::new(FileDevice::open(&path, &options).unwrap());
    let export = Export { zeroes_are_holes: true, ..Export::new(file) };
    let served = Served::new(vec![export], Limits::default());
    let mut client = Client::greet(&served.socket);
    client.structured_replies();
    let query = [b"\0\0\0\0\0\0\0\x01\0\0\0\x0f", &b"base:allocation"[..]].concat();
    assert_eq!(client.option(SET_META_CONTEXT, &query).len(), 2);
    client.go("");
    client.write(0, &vec![1; 2 << 20]);
    // In the middle of blocks as well.
    assert_eq!(client.error(WRITE_ZEROES, 0, 100, 1 << 20), 0);
    assert_eq!(client.error(TRIM, FUA, 1 << 20, 1 << 20), 0);
    let bytes = client.read(0, 2 << 20);
    assert!(bytes[..100].iter().all(|&byte| byte == 1));
    assert!(bytes[100..].iter().all(|&byte| byte == 0));
    let status = client.request(BLOCK_STATUS, 0, 0, 4 << 20, b"");
    let words: Vec<u32> =
        status.data.chunks(4).map(|word| u32::from_be_bytes(word.try_into().unwrap())).collect();
    assert_eq!(words[0], 1, "the context");
    let told: u32 = words[1..].chunks(2).map(|extent| extent[0]).sum();
    assert_eq!(told, 4 << 20);
    // A write past the end would make the file longer.
    assert_eq!(client.request(WRITE, 0, 4 * MIB, 1, b"x").error, ENOSPC);
    assert_eq!(std::fs::metadata(&path).unwrap().len(), 4 * MIB);
}

#[test]
fn exports_are_listed_and_found_by_name() {
    let export = |name: &str, len| Export {
        name: name.to_owned(),
        description: format!("{len} bytes"),
        ..Export::new(memory(len))
    };
    let served = Served::new(vec![export("one", 1000), export("zwei ü", 2000)], Limits::default());
    let mut client = Client::greet(&served.socket);
    let listed = client.option(LIST, b"");
    assert_eq!(listed.len(), 3);
    assert_eq!(listed[1].1, "\0\0\0\x07zwei ü2000 bytes".as_bytes());
    let absent = client.option(GO, b"\0\0\0\x05three\0\0");
    assert_eq!(absent[0].0, 0x8000_0006);
    client.go("zwei ü");
    assert_eq!(client.len, 2000);
    // Clients of the old kind get no answer but the export.
    let mut old = Client::greet(&served.socket);
    old.send_option(EXPORT_NAME, b"one");
    assert_eq!(old.take::<10>()[..8], 1000u64.to_be_bytes());
    assert_eq!(old.read(0, 1000), [0; 1000]);
}
