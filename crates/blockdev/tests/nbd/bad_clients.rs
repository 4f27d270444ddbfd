//! Clients that break off, lie, or mean harm. Others are served all the while.

use std::io::Write;
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use mezzanine_blockdev::nbd::{Ended, Export, Limits, Server, serve_stream};
use mezzanine_device::Device;
use mezzanine_ground::random::Random;

use crate::client::*;
use crate::{Served, memory};

const MIB: u64 = 1 << 20;

/// What a client says is cut off at every byte.
#[test]
fn a_client_may_break_off_at_any_byte() {
    let go = [b"IHAVEOPT", &7u32.to_be_bytes()[..], &6u32.to_be_bytes(), &[0; 6]].concat();
    let write = [
        &0x2560_9513u32.to_be_bytes()[..],
        &[0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 9],
        &512u64.to_be_bytes(),
        &16u32.to_be_bytes(),
        &[7; 16],
    ]
    .concat();
    let all = [&3u32.to_be_bytes()[..], &go, &write].concat();
    for end in 0..=all.len() {
        let device = memory(MIB);
        let exports = [Export::new(Arc::clone(&device) as Arc<dyn Device>)];
        let ended =
            serve_stream(Box::new(&all[..end]), Box::new(std::io::sink()), &exports, &Limits::default());
        let whole = [0, 4, 4 + go.len(), all.len()].contains(&end);
        match ended {
            Ended::Closed => assert!(whole, "{end}"),
            Ended::Violation(_) => assert!(!whole, "{end}"),
            other => panic!("{end}: {other:?}"),
        }
        // Rule 4: a write whose payload did not arrive whole is not begun.
        let written = device.image()[512..528] == [7; 16];
        assert_eq!(written, end == all.len(), "{end}");
    }
}

#[test]
fn what_the_protocol_has_no_answer_to_ends_that_connection_alone() {
    let served = Served::of(memory(MIB));
    let mut good = Client::begin(&served.socket, "", true);
    good.write(0, b"good");
    let rude = |say: &dyn Fn(&mut Client)| {
        let mut client = Client::greet(&served.socket);
        say(&mut client);
        assert!(client.is_closed());
        assert_eq!(good_read(&served), b"good");
    };
    rude(&|client| client.send(b"GET / HTTP/1.1\r\nHost: me\r\n\r\n"));
    rude(&|client| client.send(&[b"IHAVEOPT", &7u32.to_be_bytes()[..], &u32::MAX.to_be_bytes()].concat()));
    rude(&|client| client.send_option(EXPORT_NAME, b"no such"));
    rude(&|client| {
        client.go("");
        client.send(&[0xff; 28]);
    });
    rude(&|client| {
        for _ in 0..127 {
            assert_eq!(client.option(99, b"data")[0].0, 0x8000_0001);
        }
        client.send_option(99, b"data");
    });
    // A long option is skipped, and answered as such.
    let mut client = Client::greet(&served.socket);
    assert_eq!(client.option(GO, &vec![0; 100_000])[0].0, 0x8000_0009);
    assert_eq!(client.option(ABORT, b"")[0].0, ACK);
    assert!(client.is_closed());
    for text in ["does not begin as requests do", "without end", "no export of that name", "longer than any"]
    {
        served.wait_until(text, || served.has_told(text));
    }
    let flags = UnixStream::connect(&served.socket).unwrap();
    (&flags).write_all(&0xffu32.to_be_bytes()).unwrap();
    served.wait_until("flags", || served.has_told("does not know"));
    assert_eq!(good.read(0, 4), b"good");
}

fn good_read(served: &Served) -> Vec<u8> {
    Client::begin(&served.socket, "", false).read(0, 4)
}

#[test]
fn a_client_that_is_slow_to_negotiate_is_sent_away() {
    let limits = Limits { haggling: Duration::from_millis(100), ..Limits::default() };
    let served = Served::new(vec![Export::new(memory(MIB))], limits);
    let mut slow = Client::greet(&served.socket);
    let mut begun = Client::begin(&served.socket, "", true);
    for byte in b"IHAVEOPT" {
        if slow.stream.write_all(&[*byte]).is_err() {
            break;
        }
        thread::sleep(Duration::from_millis(20));
    }
    assert!(slow.is_closed());
    served.wait_until("its end", || served.has_told("takes too long"));
    // Whoever has begun may be as slow as it likes.
    assert_eq!(begun.read(0, 1), [0]);
}

#[test]
fn more_clients_than_may_be_are_turned_away_until_one_leaves() {
    let limits = Limits { connections: 2, ..Limits::default() };
    let served = Served::new(vec![Export::new(memory(MIB))], limits);
    let (first, mut second) =
        (Client::begin(&served.socket, "", true), Client::begin(&served.socket, "", true));
    let mut third = UnixStream::connect(&served.socket).unwrap();
    assert_eq!(std::io::copy(&mut third, &mut std::io::sink()).unwrap(), 0);
    assert!(served.has_told("turned away"));
    drop(first);
    served.wait_until("a place", || served.server().connections() == 1);
    assert_eq!(Client::begin(&served.socket, "", true).read(0, 1), second.read(0, 1));
}

/// Bytes of seeds, behind a beginning that is right so far: every connection ends, nobody else notices.
#[test]
fn garbage_at_any_point_ends_the_connection_and_nothing_else() {
    let served = Served::of(memory(MIB));
    let mut good = Client::begin(&served.socket, "", true);
    good.write(0, b"good");
    for seed in 0..200 {
        let mut random = Random::new(seed);
        let mut client = if seed % 2 == 0 {
            Client::greet(&served.socket)
        } else {
            Client::begin(&served.socket, "", seed % 4 == 1)
        };
        let garbage: Vec<u8> = (0..random.below(2000)).map(|_| random.next_u64() as u8).collect();
        // The server may have ended it halfway.
        let _ = client.stream.write_all(&garbage);
        let _ = client.stream.shutdown(std::net::Shutdown::Write);
        assert!(client.is_closed(), "seed {seed}");
    }
    assert_eq!(good.read(0, 4), b"good");
    served.wait_until("their ends", || served.server().connections() == 1);
}

#[test]
fn clients_that_vanish_with_requests_under_way_leave_nothing_behind() {
    let served = Served::of(memory(16 * MIB));
    for round in 0..40 {
        let mut client = Client::begin(&served.socket, "", round % 2 == 0);
        for number in 0..30 {
            if number % 3 == 0 {
                client.send_request(WRITE, 0, number * 65536, 65536, &[1; 65536]);
            } else {
                client.send_request(READ, 0, number * 65536, 65536, b"");
                if number == 2 {
                    client.reply(65536);
                }
            }
            if number == round % 7 {
                break;
            }
        }
    }
    served.wait_until("their ends", || served.server().connections() == 0);
    assert_eq!(Client::begin(&served.socket, "", true).read(MIB, 1), [0]);
}

#[test]
fn a_socket_of_a_dead_server_is_replaced_and_nothing_else_is() {
    let served = Served::of(memory(MIB));
    let listen = |path: &std::path::Path| {
        let mut server = Server::new(vec![Export::new(memory(MIB))], Limits::default(), None, |_| ());
        server.listen_unix(path).map(|()| server)
    };
    let error = listen(&served.socket).err().unwrap();
    assert!(error.to_string().contains("another server"), "{error}");
    let file = served.directory().join("file");
    std::fs::write(&file, "kept").unwrap();
    let error = listen(&file).err().unwrap();
    assert!(error.to_string().contains("something else"), "{error}");
    assert_eq!(std::fs::read(&file).unwrap(), b"kept");
    assert!(listen(&served.directory().join("x".repeat(120))).is_err(), "too long for a socket");
    let stale = served.directory().join("stale");
    drop(std::os::unix::net::UnixListener::bind(&stale).unwrap());
    let server = listen(&stale).unwrap();
    let mode = std::os::unix::fs::PermissionsExt::mode(&std::fs::metadata(&stale).unwrap().permissions());
    assert_eq!(mode & 0o777, 0o600);
    Client::begin(&stale, "", true);
    drop(server);
    assert!(!stale.exists());
    let left: Vec<_> = std::fs::read_dir(served.directory()).unwrap().collect();
    assert_eq!(left.len(), 2, "{left:?}");
}
