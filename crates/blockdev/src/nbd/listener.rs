//! Where clients connect.

use std::io;
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::unix::fs::{FileTypeExt, MetadataExt, PermissionsExt};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::{fs, process};

use rustix::net::{Shutdown, shutdown, sockopt};

use super::stream::Socket;

/// A socket that clients connect to.
#[derive(Debug)]
pub(super) enum Listener {
    /// A Unix socket, with its path, device and inode.
    Unix(UnixListener, PathBuf, (u64, u64)),
    Tcp(TcpListener),
}

impl Listener {
    /// Listens at a path, for this user alone. What a dead server has left there is replaced.
    pub(super) fn unix(path: &Path) -> io::Result<Self> {
        refuse_what_is_there(path)?;
        // Nobody is to connect before the permissions are right, and what stands at the path is whole.
        let mut making = path.as_os_str().to_owned();
        making.push(format!(".{}", process::id()));
        let making = PathBuf::from(making);
        let listener = UnixListener::bind(&making)?;
        let made = fs::set_permissions(&making, fs::Permissions::from_mode(0o600))
            .and_then(|()| fs::symlink_metadata(&making))
            .and_then(|metadata| fs::rename(&making, path).map(|()| metadata));
        match made {
            Ok(metadata) => Ok(Self::Unix(listener, path.to_path_buf(), (metadata.dev(), metadata.ino()))),
            Err(error) => {
                let _ = fs::remove_file(&making);
                Err(error)
            }
        }
    }

    /// Listens at an address.
    pub(super) fn tcp(address: SocketAddr) -> io::Result<Self> {
        TcpListener::bind(address).map(Self::Tcp)
    }

    /// Where a TCP listener listens: a port that was left to the system is a number here.
    pub(super) fn address(&self) -> Option<SocketAddr> {
        match self {
            Self::Unix(..) => None,
            Self::Tcp(listener) => listener.local_addr().ok(),
        }
    }

    /// The next client, and what to call it.
    pub(super) fn accept(&self) -> io::Result<(Socket, String)> {
        match self {
            Self::Unix(listener, path, _) => {
                let (stream, _) = listener.accept()?;
                Ok((Socket::Unix(stream), path.display().to_string()))
            }
            Self::Tcp(listener) => {
                let (stream, peer) = listener.accept()?;
                prepare(&stream)?;
                Ok((Socket::Tcp(stream), peer.to_string()))
            }
        }
    }

    /// Ends every `accept`, also one that waits.
    pub(super) fn stop(&self) {
        // Linux wakes whoever waits there; a listener has no other end that could be missing.
        let _ = match self {
            Self::Unix(listener, ..) => shutdown(listener, Shutdown::Both),
            Self::Tcp(listener) => shutdown(listener, Shutdown::Both),
        };
    }
}

/// Removes the socket's path, unless something else stands there by now.
impl Drop for Listener {
    fn drop(&mut self) {
        let Self::Unix(_, path, identity) = self else { return };
        let there = fs::symlink_metadata(&*path).map(|metadata| (metadata.dev(), metadata.ino()));
        if there.is_ok_and(|there| there == *identity) {
            let _ = fs::remove_file(path);
        }
    }
}

fn prepare(stream: &TcpStream) -> io::Result<()> {
    // Replies are written whole: there is nothing to wait for.
    stream.set_nodelay(true)?;
    // A client that is gone without a word is noticed some day.
    sockopt::set_socket_keepalive(stream, true).map_err(io::Error::from)
}

/// Whether the path is free, or has the socket of a server that is gone.
fn refuse_what_is_there(path: &Path) -> io::Result<()> {
    let metadata = match fs::symlink_metadata(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        metadata => metadata?,
    };
    if !metadata.file_type().is_socket() {
        let reason = "something else than a socket is there; name another path, or remove it";
        return Err(io::Error::new(io::ErrorKind::AlreadyExists, reason));
    }
    match UnixStream::connect(path) {
        Err(error) if error.kind() == io::ErrorKind::ConnectionRefused => Ok(()),
        Ok(_) => {
            let reason = "another server listens there; stop it, or name another path";
            Err(io::Error::new(io::ErrorKind::AddrInUse, reason))
        }
        Err(error) => Err(error),
    }
}
