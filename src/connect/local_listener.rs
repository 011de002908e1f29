//! Where local connections come in.

use std::io;
use std::net::SocketAddr;
use std::path::Path;
use std::time::Duration;

use tokio::net::{TcpListener, TcpSocket};

use super::STREAM_STALL;
use crate::backend::{Socket, SocketOptions};
use crate::config::LocalAddress;
use crate::exit::{Transport, Unavailable};
use crate::socket_file::KeptSocket;

/// A bound local address.
pub(super) enum LocalListener {
    Tcp(TcpListener),
    Unix(KeptSocket),
}

impl LocalListener {
    pub(super) fn bind(local: &LocalAddress) -> anyhow::Result<Self> {
        match local {
            LocalAddress::Tcp(address) => bind_tcp(*address),
            LocalAddress::Unix(path) => bind_unix(path),
        }
    }

    /// Says in the log where `tunnel` can be reached from now on.
    pub(super) fn announce(&self, tunnel: &str) {
        let address = match self {
            Self::Tcp(listener) => listener.local_addr().map(|address| address.to_string()),
            Self::Unix(socket) => Ok(socket.path().display().to_string()),
        };
        tracing::info!(event = "listening", tunnel, address = address.ok());
    }

    /// The next local connection, and where it comes from, if that has an address.
    pub(super) async fn accept(&mut self) -> io::Result<(Socket, Option<SocketAddr>)> {
        let options = SocketOptions {
            nodelay: true,
            keepalive: Some(Duration::from_secs(30)),
            user_timeout: STREAM_STALL,
        };
        match self {
            Self::Tcp(listener) => {
                let (stream, client) = listener.accept().await?;
                let stream = Socket::adopt_tcp(stream.into_std()?, options)?;
                Ok((stream, Some(client)))
            }
            Self::Unix(socket) => {
                let stream = socket.accept().await?.into_std()?;
                Ok((Socket::adopt_unix(stream, options)?, None))
            }
        }
    }
}

fn bind_tcp(address: SocketAddr) -> anyhow::Result<LocalListener> {
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
    Ok(LocalListener::Tcp(listener))
}

fn bind_unix(path: &Path) -> anyhow::Result<LocalListener> {
    let socket = KeptSocket::listen(path, 0o600)
        .map_err(|why| Unavailable(format!("cannot listen on {}: {why}", path.display())))?;
    Ok(LocalListener::Unix(socket))
}

/// Connections that wait to be accepted, as far as `net.core.somaxconn` allows. Who finds no room there
/// tries again after a second, or three.
const QUEUE: u32 = 4096;
