//! A TCP or Unix stream socket that never blocks.

use std::io::{self, Read, Write};
use std::net::{Shutdown, SocketAddr};
use std::ops::RangeInclusive;
use std::os::fd::{AsRawFd, RawFd};
use std::path::PathBuf;
use std::time::Duration;

use mio::net::{TcpStream, UnixStream};
use mio::{Interest, Registry, Token};
use socket2::{SockRef, TcpKeepalive};

use crate::sizing::open_files;

/// Where a stream goes, with names already looked up.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Address {
    /// An address and a port.
    Tcp(SocketAddr),
    /// A socket in the file system.
    Unix(PathBuf),
}

impl std::fmt::Display for Address {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Tcp(address) => write!(f, "{address}"),
            Self::Unix(path) => write!(f, "{}", path.display()),
        }
    }
}

/// How stream sockets are set up.
#[derive(Clone, Copy, Debug)]
pub struct SocketOptions {
    /// Send small frames at once.
    pub nodelay: bool,
    /// Probes on a silent connection, within [`KEEPALIVE`].
    pub keepalive: Option<Duration>,
    /// How long the kernel keeps trying to deliver what we wrote.
    pub user_timeout: Duration,
}

/// Pauses between probes: the kernel counts whole seconds, and refuses 0 and more than 32,767 of them.
pub const KEEPALIVE: RangeInclusive<Duration> =
    Duration::from_secs(1)..=Duration::from_secs(9 * 3600);

/// Bytes of send buffer asked for: what the kernel holds for a backend that does not read is out of
/// our sight, so it is kept small (the default grows to megabytes).
const SEND_BUFFER: usize = 64 * 1024;

/// For one that has shown that it reads: it and we take fewer turns.
const SEND_BUFFER_WIDE: usize = 256 * 1024;

/// One stream socket.
#[derive(Debug)]
pub enum Socket {
    /// Over TCP.
    Tcp(TcpStream),
    /// Over a Unix socket.
    Unix(UnixStream),
}

impl Socket {
    /// Begins to connect; see [`Socket::connected`].
    pub fn connect(to: &Address, options: SocketOptions) -> io::Result<Self> {
        let socket = match to {
            Address::Tcp(address) => Self::Tcp(TcpStream::connect(*address)?),
            Address::Unix(path) => Self::Unix(UnixStream::connect(path)?),
        };
        socket.configure(options)?;
        Ok(socket)
    }

    /// A TCP stream that somebody else connected or accepted.
    pub fn adopt_tcp(stream: std::net::TcpStream, options: SocketOptions) -> io::Result<Self> {
        stream.set_nonblocking(true)?;
        let socket = Self::Tcp(TcpStream::from_std(stream));
        socket.configure(options)?;
        Ok(socket)
    }

    /// A stream of a Unix socket that somebody else connected or accepted.
    pub fn adopt_unix(
        stream: std::os::unix::net::UnixStream,
        options: SocketOptions,
    ) -> io::Result<Self> {
        stream.set_nonblocking(true)?;
        let socket = Self::Unix(UnixStream::from_std(stream));
        socket.configure(options)?;
        Ok(socket)
    }

    fn configure(&self, options: SocketOptions) -> io::Result<()> {
        open_files::leave_some(self)?;
        match self {
            Self::Tcp(stream) => {
                let socket = SockRef::from(stream);
                socket.set_send_buffer_size(SEND_BUFFER)?;
                socket.set_tcp_nodelay(options.nodelay)?;
                socket.set_tcp_user_timeout(Some(options.user_timeout))?;
                if let Some(interval) = options.keepalive {
                    let probes = TcpKeepalive::new()
                        .with_time(interval)
                        .with_interval(interval);
                    socket.set_tcp_keepalive(&probes.with_retries(3))?;
                }
                Ok(())
            }
            Self::Unix(stream) => SockRef::from(stream).set_send_buffer_size(SEND_BUFFER),
        }
    }

    /// The other side reads, and much: lets the kernel hold more for it.
    pub fn widen(&self) -> io::Result<()> {
        match self {
            Self::Tcp(stream) => SockRef::from(stream).set_send_buffer_size(SEND_BUFFER_WIDE),
            Self::Unix(stream) => SockRef::from(stream).set_send_buffer_size(SEND_BUFFER_WIDE),
        }
    }

    /// Whether the connect has succeeded; an error when it has failed.
    pub fn connected(&self) -> io::Result<bool> {
        let (error, peer) = match self {
            Self::Tcp(stream) => (
                stream.take_error()?,
                refuse_itself(stream.local_addr()?, stream.peer_addr()),
            ),
            Self::Unix(stream) => (stream.take_error()?, stream.peer_addr().map(drop)),
        };
        if let Some(error) = error {
            return Err(error);
        }
        match peer {
            Ok(()) => Ok(true),
            Err(error) if error.kind() == io::ErrorKind::NotConnected => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// Says that nothing more will be written.
    pub fn shutdown_write(&self) -> io::Result<()> {
        match self {
            Self::Tcp(stream) => stream.shutdown(Shutdown::Write),
            Self::Unix(stream) => stream.shutdown(Shutdown::Write),
        }
    }

    /// Asks to be told, once per change, when there is something to read or room to write.
    pub fn register(&mut self, registry: &Registry, token: Token) -> io::Result<()> {
        let both = Interest::READABLE | Interest::WRITABLE;
        match self {
            Self::Tcp(stream) => registry.register(stream, token, both),
            Self::Unix(stream) => registry.register(stream, token, both),
        }
    }

    /// Asks to be told of room to write only while that is awaited. A Unix socket tells of it whenever the other side
    /// has read something, so that each message a server reads would wake the loop for nothing. TCP tells of it only
    /// after there was none.
    pub fn ask_for_room(
        &mut self,
        registry: &Registry,
        token: Token,
        awaited: bool,
    ) -> io::Result<()> {
        let interests = if awaited {
            Interest::READABLE | Interest::WRITABLE
        } else {
            Interest::READABLE
        };
        match self {
            Self::Tcp(_) => Ok(()),
            Self::Unix(stream) => registry.reregister(stream, token, interests),
        }
    }

    /// Asks no more.
    pub fn deregister(&mut self, registry: &Registry) -> io::Result<()> {
        match self {
            Self::Tcp(stream) => registry.deregister(stream),
            Self::Unix(stream) => registry.deregister(stream),
        }
    }
}

/// Connecting to a port of this host on which nobody listens, a socket may get that very port as its own, and
/// then it meets itself: what it says comes back, and the server cannot bind its port any more. That counts as
/// refused; an error of `peer` is passed on.
pub(super) fn refuse_itself(local: SocketAddr, peer: io::Result<SocketAddr>) -> io::Result<()> {
    if peer? == local {
        return Err(io::ErrorKind::ConnectionRefused.into());
    }
    Ok(())
}

impl AsRawFd for Socket {
    fn as_raw_fd(&self) -> RawFd {
        match self {
            Self::Tcp(stream) => stream.as_raw_fd(),
            Self::Unix(stream) => stream.as_raw_fd(),
        }
    }
}

impl Read for Socket {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        match self {
            Self::Tcp(stream) => stream.read(buffer),
            Self::Unix(stream) => stream.read(buffer),
        }
    }
}

impl Write for Socket {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Self::Tcp(stream) => stream.write(bytes),
            Self::Unix(stream) => stream.write(bytes),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_socket_that_met_itself_was_refused() {
        let socket =
            socket2::Socket::new(socket2::Domain::IPV4, socket2::Type::STREAM, None).unwrap();
        socket
            .bind(&SocketAddr::from(([127, 0, 0, 1], 0)).into())
            .unwrap();
        let own = socket.local_addr().unwrap();
        socket.connect(&own).unwrap();
        let options = SocketOptions {
            nodelay: true,
            keepalive: None,
            user_timeout: Duration::from_secs(1),
        };
        let socket = Socket::adopt_tcp(socket.into(), options).unwrap();
        let refused = socket.connected().unwrap_err();
        assert_eq!(refused.kind(), io::ErrorKind::ConnectionRefused);
    }

    /// Small messages are urgent, a silent connection is asked whether it lives, and one that takes nothing is given up.
    #[test]
    fn the_kernel_takes_every_pause_between_probes_that_may_be_asked_for() {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let set_up = |pause| {
            let tcp = std::net::TcpStream::connect(listener.local_addr().unwrap()).unwrap();
            let options = SocketOptions {
                nodelay: true,
                keepalive: Some(pause),
                user_timeout: Duration::from_secs(9),
            };
            Socket::adopt_tcp(tcp, options).map(drop)
        };
        set_up(*KEEPALIVE.start()).unwrap();
        set_up(*KEEPALIVE.end()).unwrap();
    }

    #[test]
    fn a_stream_is_set_up_as_asked() {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let tcp = std::net::TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let options = SocketOptions {
            nodelay: true,
            keepalive: Some(Duration::from_secs(7)),
            user_timeout: Duration::from_secs(9),
        };
        let Socket::Tcp(stream) = Socket::adopt_tcp(tcp, options).unwrap() else {
            panic!("it is one over TCP");
        };
        let socket = SockRef::from(&stream);
        assert!(socket.tcp_nodelay().unwrap());
        assert!(socket.keepalive().unwrap());
        assert_eq!(socket.tcp_keepalive_time().unwrap(), Duration::from_secs(7));
        assert_eq!(
            socket.tcp_keepalive_interval().unwrap(),
            Duration::from_secs(7)
        );
        assert_eq!(socket.tcp_keepalive_retries().unwrap(), 3);
        assert_eq!(
            socket.tcp_user_timeout().unwrap(),
            Some(Duration::from_secs(9))
        );
    }

    #[test]
    fn a_backend_that_reads_gets_four_times_the_buffer() {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let tcp = std::net::TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let (unix, _other) = std::os::unix::net::UnixStream::pair().unwrap();
        let options = SocketOptions {
            nodelay: true,
            keepalive: None,
            user_timeout: Duration::from_secs(1),
        };
        let sockets = [
            Socket::adopt_tcp(tcp, options).unwrap(),
            Socket::adopt_unix(unix, options).unwrap(),
        ];
        for socket in sockets {
            let granted = |socket: &Socket| match socket {
                Socket::Tcp(stream) => SockRef::from(stream).send_buffer_size().unwrap(),
                Socket::Unix(stream) => SockRef::from(stream).send_buffer_size().unwrap(),
            };
            let narrow = granted(&socket);
            socket.widen().unwrap();
            // A system may grant less, but not less than before.
            assert!(
                granted(&socket) > narrow,
                "{} of {narrow}",
                granted(&socket)
            );
        }
    }
}
