//! Tells the service manager that volumes are served (sd_notify(3)), if it has asked for that.

use std::ffi::OsStr;
use std::io;
use std::os::linux::net::SocketAddrExt as _;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::net::{SocketAddr, UnixDatagram};

use crate::output;

/// Says so to whoever listens at `NOTIFY_SOCKET`.
pub(super) fn tell(what: &str) {
    let Some(name) = std::env::var_os("NOTIFY_SOCKET") else { return };
    if let Err(error) = send(&name, what) {
        output::note(&format!("the service manager was not told {what}: {error}"));
    }
}

fn send(name: &OsStr, what: &str) -> io::Result<()> {
    let address = match name.as_bytes().split_first() {
        Some((b'@', rest)) => SocketAddr::from_abstract_name(rest)?,
        _ => SocketAddr::from_pathname(name)?,
    };
    UnixDatagram::unbound()?.send_to_addr(what.as_bytes(), &address).map(|_| ())
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn both_kinds_of_sockets_are_told() {
        let name = format!("mezz-notify-{}", std::process::id());
        let path = std::env::temp_dir().join(&name);
        let abstract_name = SocketAddr::from_abstract_name(name.as_bytes()).unwrap();
        let mut said = [0; 16];
        let listener = UnixDatagram::bind_addr(&abstract_name).unwrap();
        send(OsStr::new(&format!("@{name}")), "READY=1").unwrap();
        assert_eq!(listener.recv(&mut said).unwrap(), 7);
        let listener = UnixDatagram::bind(&path).unwrap();
        send(path.as_os_str(), "STOPPING=1").unwrap();
        assert_eq!(listener.recv(&mut said).unwrap(), 10);
        std::fs::remove_file(&path).unwrap();
        assert!(send(path.as_os_str(), "READY=1").is_err());
    }
}
