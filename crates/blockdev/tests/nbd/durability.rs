//! What power cuts and shutdowns leave of what was acknowledged.

use std::sync::Arc;
use std::thread;
use std::time::Duration;

use mezzanine_blockdev::nbd::{Export, Limits};
use mezzanine_device::Device;

use crate::client::*;
use crate::{Served, memory};

const MIB: u64 = 1 << 20;
const SHUTDOWN: u32 = 108;

#[test]
fn a_flush_on_one_connection_keeps_what_was_answered_on_another() {
    let device = memory(MIB);
    let served = Served::of(Arc::clone(&device) as Arc<dyn Device>);
    let (mut one, mut other) =
        (Client::begin(&served.socket, "", true), Client::begin(&served.socket, "", false));
    one.write(0, &[1; 65536]);
    assert_eq!(other.error(FLUSH, 0, 0, 0), 0);
    for seed in 0..50 {
        device.power_cut(seed);
    }
    assert_eq!(one.read(0, 65536), [1; 65536]);
    // Without it, some cut takes some of it.
    let lost = (0..50).any(|seed| {
        one.write(0, &[2; 65536]);
        device.power_cut(seed);
        one.read(0, 65536) != [2; 65536]
    });
    assert!(lost);
}

#[test]
fn a_write_with_fua_is_durable_when_it_is_answered() {
    let device = memory(MIB);
    let served = Served::of(Arc::clone(&device) as Arc<dyn Device>);
    let mut client = Client::begin(&served.socket, "", true);
    for round in 0..50u8 {
        assert_eq!(client.request(WRITE, FUA, 4096, 4096, &[round; 4096]).error, 0);
        device.power_cut(u64::from(round));
        assert_eq!(client.read(4096, 4096), [round; 4096]);
        assert_eq!(client.error(WRITE_ZEROES, FUA, 4096, 4096), 0);
        device.power_cut(u64::from(round));
        assert_eq!(client.read(4096, 4096), [0; 4096]);
    }
}

/// What is under way is finished, what comes after is refused, and what was answered is durable.
#[test]
fn a_shutdown_finishes_what_is_under_way_and_flushes() {
    let device = memory(64 * MIB);
    let mut served = Served::of(Arc::clone(&device) as Arc<dyn Device>);
    let (mut idle, mut busy) =
        (Client::begin(&served.socket, "", true), Client::begin(&served.socket, "", true));
    let writing = thread::spawn(move || {
        let mut answered = 0u64;
        loop {
            // The server may have hung up before this is written.
            let request = [
                &0x2560_9513u32.to_be_bytes()[..],
                &[0, 0, 0, 1],
                &answered.to_be_bytes(),
                &(answered % 16_000 * 4096).to_be_bytes(),
                &4096u32.to_be_bytes(),
                &[answered as u8; 4096],
            ];
            if std::io::Write::write_all(&mut busy.stream, &request.concat()).is_err() {
                return answered;
            }
            let mut magic = [0; 4];
            if std::io::Read::read_exact(&mut busy.stream, &mut magic).is_err() {
                return answered;
            }
            let rest = busy.take::<16>();
            if rest[3] != 0 || rest[12..] != [0; 4] {
                assert_eq!(rest[2..4], 0x8001u16.to_be_bytes(), "an error");
                let length = u32::from_be_bytes(rest[12..].try_into().unwrap());
                let number = u32::from_be_bytes(busy.take());
                assert_eq!((number, length > 6), (SHUTDOWN, true));
                return answered;
            }
            answered += 1;
        }
    });
    thread::sleep(Duration::from_millis(30));
    let socket = served.socket.clone();
    served.server.take().unwrap().shutdown().unwrap();
    let answered = writing.join().unwrap();
    assert!(answered > 0);
    assert_eq!(device.unflushed(), 0);
    assert!(!socket.exists());
    assert!(idle.is_closed());
    assert!(served.has_told("the server has ended it"));
    let last = answered - 1;
    device.view(|image| {
        let from = (last % 16_000 * 4096) as usize;
        assert!(image.range(from..from + 4096).iter().all(|&byte| byte == last as u8));
    });
}

#[test]
fn a_shutdown_does_not_wait_for_ever_for_a_client_that_takes_no_replies() {
    let limits = Limits { shutdown: Duration::from_millis(200), ..Limits::default() };
    let mut served = Served::new(vec![Export::new(memory(8 * MIB))], limits);
    let mut client = Client::begin(&served.socket, "", true);
    for _ in 0..20 {
        client.send_request(READ, 0, 0, 4 << 20, b"");
    }
    thread::sleep(Duration::from_millis(50));
    served.server.take().unwrap().shutdown().unwrap();
    assert!(client.is_closed());
}

#[test]
fn all_may_be_disconnected_and_come_back() {
    let served = Served::of(memory(MIB));
    let mut clients: Vec<_> = (0..3).map(|_| Client::begin(&served.socket, "", true)).collect();
    clients[0].write(0, b"kept");
    served.server().disconnect_all();
    assert!(clients.iter_mut().all(Client::is_closed));
    served.wait_until("no connections", || served.server().connections() == 0);
    assert_eq!(Client::begin(&served.socket, "", false).read(0, 4), b"kept");
}
