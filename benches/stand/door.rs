//! What streams come to a backend through: TCP on loopback, or a Unix socket.

use std::io::{self, Read, Write};
use std::net::SocketAddr;
use std::path::Path;

use mio::event::Source;
use mio::net::{TcpListener, UnixListener};
use mio::{Interest, Registry, Token};
use socket2::{Domain, Socket, Type};
use tidegate::backend::Address;

/// One of a backend's sockets that listen.
pub struct Door {
    pub address: Address,
    listener: Listener,
}

enum Listener {
    Tcp(TcpListener),
    Unix(UnixListener),
}

/// One over TCP, or over a Unix socket.
pub trait Stream: Read + Write + Source + Send {}

impl<T: Read + Write + Source + Send> Stream for T {}

impl Door {
    /// On this host of loopback, with room for a thousand who come in one instant: others would come again a second
    /// later.
    pub fn tcp(host: u8) -> Self {
        let socket = Socket::new(Domain::IPV4, Type::STREAM.nonblocking(), None).unwrap();
        let address = SocketAddr::from(([127, 0, 0, host], 0));
        socket.bind(&address.into()).unwrap();
        socket.listen(4096).unwrap();
        let listener = TcpListener::from_std(socket.into());
        Self {
            address: Address::Tcp(listener.local_addr().unwrap()),
            listener: Listener::Tcp(listener),
        }
    }

    /// A Unix socket of this name.
    pub fn unix(path: &Path) -> Self {
        Self {
            address: Address::Unix(path.to_owned()),
            listener: Listener::Unix(UnixListener::bind(path).unwrap()),
        }
    }

    pub fn register(&mut self, registry: &Registry, token: Token) {
        let source: &mut dyn Source = match &mut self.listener {
            Listener::Tcp(listener) => listener,
            Listener::Unix(listener) => listener,
        };
        source
            .register(registry, token, Interest::READABLE)
            .unwrap();
    }

    pub fn accept(&self) -> io::Result<Box<dyn Stream>> {
        match &self.listener {
            Listener::Tcp(listener) => {
                let (stream, _) = listener.accept()?;
                stream.set_nodelay(true).unwrap();
                Ok(Box::new(stream))
            }
            Listener::Unix(listener) => Ok(Box::new(listener.accept()?.0)),
        }
    }
}
