//! Where local connections come in.

use std::io;
use std::net::SocketAddr;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::time::Duration;

use tokio::net::{TcpListener, TcpSocket, UnixListener};

use super::STREAM_STALL;
use crate::backend::{Socket, SocketOptions};
use crate::config::LocalAddress;
use crate::exit::{Transport, Unavailable};

/// A bound local address.
pub(super) enum Door {
    Tcp(TcpListener),
    Unix(UnixListener),
}

impl Door {
    pub(super) fn bind(local: &LocalAddress) -> anyhow::Result<Self> {
        match local {
            LocalAddress::Tcp(address) => bind_tcp(*address),
            LocalAddress::Unix(path) => bind_unix(path),
        }
    }

    /// The next local connection.
    pub(super) async fn accept(&self) -> io::Result<Socket> {
        let options = SocketOptions {
            nodelay: true,
            keepalive: Some(Duration::from_secs(30)),
            user_timeout: STREAM_STALL,
        };
        match self {
            Self::Tcp(listener) => {
                let (stream, _) = listener.accept().await?;
                Socket::adopt_tcp(stream.into_std()?, options)
            }
            Self::Unix(listener) => {
                let (stream, _) = listener.accept().await?;
                Socket::adopt_unix(stream.into_std()?, options)
            }
        }
    }
}

fn bind_tcp(address: SocketAddr) -> anyhow::Result<Door> {
    let bind = || {
        let socket = match address {
            SocketAddr::V4(_) => TcpSocket::new_v4()?,
            SocketAddr::V6(_) => TcpSocket::new_v6()?,
        };
        // A restart need not wait for the connections of the process before it.
        socket.set_reuseaddr(true)?;
        socket.bind(address)?;
        socket.listen(QUEUE)
    };
    let listener =
        bind().map_err(|error| Unavailable(Transport::Tcp.cannot_bind(address, &error)))?;
    tracing::info!(event = "listening", address = %listener.local_addr()?);
    Ok(Door::Tcp(listener))
}

fn bind_unix(path: &Path) -> anyhow::Result<Door> {
    // A file left by a process that died is in the way; one that answers is not ours.
    if std::os::unix::net::UnixStream::connect(path).is_err()
        && path.metadata().is_ok_and(|found| is_socket(&found))
    {
        std::fs::remove_file(path).ok();
    }
    let listener = UnixListener::bind(path)
        .map_err(|error| Unavailable(format!("cannot bind {}: {error}", path.display())))?;
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o600))?;
    tracing::info!(event = "listening", address = %path.display());
    Ok(Door::Unix(listener))
}

fn is_socket(found: &std::fs::Metadata) -> bool {
    use std::os::unix::fs::FileTypeExt;
    found.file_type().is_socket()
}

/// Connections that wait to be accepted, as far as `net.core.somaxconn` allows. Who finds no room there
/// tries again after a second, or three.
const QUEUE: u32 = 4096;
