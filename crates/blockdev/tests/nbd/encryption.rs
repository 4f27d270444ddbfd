//! TLS over TCP. Certificates are made by the program openssl; without it this is skipped.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;

use mezzanine_blockdev::nbd::{Encryption, Export, Limits, Server};
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, ClientConnection, RootCertStore, StreamOwned};

use crate::memory;

const MIB: u64 = 1 << 20;
const GO: &[u8] = b"IHAVEOPT\0\0\0\x07\0\0\0\x06\0\0\0\0\0\0";
const STARTTLS: &[u8] = b"IHAVEOPT\0\0\0\x05\0\0\0\0";

/// A certificate authority, a server and a client that it has signed, under the names that libnbd looks for.
fn certificates(name: &str) -> Option<PathBuf> {
    let directory = std::env::temp_dir().join(format!("mezzanine-nbd-tls-{}-{name}", std::process::id()));
    std::fs::create_dir(&directory).unwrap();
    let script = r#"
        set -e
        exec 2>log
        make="openssl req -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 2"
        $make -x509 -subj /CN=ca -keyout ca-key.pem -out ca-cert.pem
        for who in server client; do
            $make -subj /CN=$who -keyout $who-key.pem -out $who.csr
            printf 'subjectAltName=DNS:localhost\n' >ext
            openssl x509 -req -in $who.csr -CA ca-cert.pem -CAkey ca-key.pem -CAcreateserial -days 2 -extfile ext -out $who-cert.pem
        done
    "#;
    match Command::new("openssl").arg("version").output() {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
            println!("skipped: openssl is not installed");
            return None;
        }
        output => assert!(output.unwrap().status.success()),
    }
    let made = Command::new("bash").args(["-c", script]).current_dir(&directory).status().unwrap();
    assert!(made.success(), "{}", std::fs::read_to_string(directory.join("log")).unwrap());
    Some(directory)
}

fn serve(directory: &Path, clients: Option<&Path>) -> (Server, SocketAddr) {
    let encryption = Encryption::from_files(
        &directory.join("server-cert.pem"),
        &directory.join("server-key.pem"),
        clients,
    );
    let export = Export::new(memory(8 * MIB));
    let mut server =
        Server::new(vec![export], Limits::default(), Some(encryption.unwrap()), |event| println!("{event}"));
    let address = server.listen_tcp("127.0.0.1:0".parse().unwrap()).unwrap();
    (server, address)
}

fn greet(address: SocketAddr) -> TcpStream {
    let mut stream = TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(std::time::Duration::from_secs(30))).unwrap();
    stream.read_exact(&mut [0; 18]).unwrap();
    stream.write_all(&3u32.to_be_bytes()).unwrap();
    stream
}

/// Type of the reply to the last option.
fn reply(stream: &mut impl Read) -> u32 {
    let mut head = [0; 20];
    stream.read_exact(&mut head).unwrap();
    let word = |at: usize| u32::from_be_bytes(head[at..at + 4].try_into().unwrap());
    let mut data = vec![0; word(16) as usize];
    stream.read_exact(&mut data).unwrap();
    word(12)
}

fn client(directory: &Path, stream: TcpStream) -> StreamOwned<ClientConnection, TcpStream> {
    let mut authorities = RootCertStore::empty();
    authorities.add(CertificateDer::from_pem_file(directory.join("ca-cert.pem")).unwrap()).unwrap();
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions().unwrap();
    let config = config.with_root_certificates(authorities).with_no_client_auth();
    let name = ServerName::try_from("localhost").unwrap();
    StreamOwned::new(ClientConnection::new(Arc::new(config), name).unwrap(), stream)
}

#[test]
fn nothing_is_told_before_encryption_has_begun_and_everything_after() {
    let Some(directory) = certificates("all") else { return };
    let (server, address) = serve(&directory, None);
    let mut plain = greet(address);
    plain.write_all(GO).unwrap();
    assert_eq!(reply(&mut plain), 0x8000_0005, "TLS_REQD");
    plain.write_all(STARTTLS).unwrap();
    assert_eq!(reply(&mut plain), 1);
    let mut stream = client(&directory, plain);
    stream.write_all(GO).unwrap();
    while reply(&mut stream) == 3 {}
    // Large payloads in both directions, several under way.
    let bytes: Vec<u8> = (0..3_000_000u32).map(|n| (n ^ n >> 9) as u8).collect();
    let request = |kind: u8, len: usize| {
        let head = [&0x2560_9513u32.to_be_bytes()[..], &[0, 0, 0, kind], &[kind; 8], &4096u64.to_be_bytes()];
        [&head.concat()[..], &(len as u32).to_be_bytes()].concat()
    };
    stream.write_all(&[&request(1, bytes.len())[..], &bytes].concat()).unwrap();
    let mut head = [0; 16];
    stream.read_exact(&mut head).unwrap();
    assert_eq!(head, *b"\x67\x44\x66\x98\0\0\0\0\x01\x01\x01\x01\x01\x01\x01\x01");
    stream.write_all(&request(0, bytes.len()).repeat(3)).unwrap();
    for _ in 0..3 {
        let mut found = vec![0; bytes.len()];
        stream.read_exact(&mut head).unwrap();
        stream.read_exact(&mut found).unwrap();
        assert!(head[4..] == [0; 12] && found == bytes);
    }
    server.shutdown().unwrap();
    assert!(!matches!(stream.read(&mut [0]), Ok(1..)), "it has ended");
    std::fs::remove_dir_all(directory).unwrap();
}

/// What is said in the clear behind STARTTLS is no option of the encrypted connection.
#[test]
fn what_somebody_adds_in_the_clear_is_not_taken_for_encrypted() {
    let Some(directory) = certificates("added") else { return };
    let (server, address) = serve(&directory, None);
    let mut plain = greet(address);
    plain.write_all(&[STARTTLS, GO].concat()).unwrap();
    assert_eq!(reply(&mut plain), 1);
    let mut said = Vec::new();
    let _ = plain.read_to_end(&mut said);
    assert!(!said.windows(8).any(|window| window == 0x0003_e889_0455_65a9u64.to_be_bytes()), "{said:?}");
    drop(server);
    std::fs::remove_dir_all(directory).unwrap();
}

#[test]
fn only_clients_with_certificates_are_let_in_if_that_is_asked_for() {
    let Some(directory) = certificates("clients") else { return };
    let (server, address) = serve(&directory, Some(&directory.join("ca-cert.pem")));
    let mut plain = greet(address);
    plain.write_all(STARTTLS).unwrap();
    assert_eq!(reply(&mut plain), 1);
    let mut stream = client(&directory, plain);
    let _ = stream.write_all(GO);
    assert!(!matches!(stream.read(&mut [0; 20]), Ok(1..)), "it has no certificate");
    let uri = format!("nbds://localhost:{}?tls-certificates={}", address.port(), directory.display());
    let (there, back) = (directory.join("there"), directory.join("back"));
    let bytes: Vec<u8> = (0..8 << 20).map(|n: u32| (n >> 7) as u8).collect();
    std::fs::write(&there, &bytes).unwrap();
    let copy = |from: &str, to: &str| match Command::new("nbdcopy").args([from, to]).output() {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
            println!("skipped: nbdcopy is not installed");
            false
        }
        output => {
            let output = output.unwrap();
            assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
            true
        }
    };
    if copy(&there.display().to_string(), &uri) {
        copy(&uri, &back.display().to_string());
        assert!(std::fs::read(&back).unwrap() == bytes);
    }
    drop(server);
    std::fs::remove_dir_all(directory).unwrap();
}

#[test]
fn files_that_are_no_certificates_are_refused_by_name() {
    let Some(directory) = certificates("bad") else { return };
    let (good, key) = (directory.join("server-cert.pem"), directory.join("server-key.pem"));
    let (text, none) = (directory.join("text"), directory.join("none"));
    std::fs::write(&text, "no certificate").unwrap();
    for (certificate, key, clients, named) in [
        (&none, &key, None, "none"),
        (&text, &key, None, "text"),
        (&good, &text, None, "text"),
        (&good, &directory.join("client-key.pem"), None, "client-key.pem"),
        (&good, &key, Some(&text), "text"),
    ] {
        let refused = Encryption::from_files(certificate, key, clients.map(PathBuf::as_path));
        let error = refused.err().unwrap().to_string();
        assert!(error.contains(&directory.join(named).display().to_string()), "{error}");
    }
    std::fs::remove_dir_all(directory).unwrap();
}
