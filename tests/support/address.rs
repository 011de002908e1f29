//! Addresses that have to be known before somebody listens there.

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::atomic::{AtomicU16, Ordering};

use socket2::{Domain, Socket, Type};

/// An address that nobody else gets, again and again: by port 0 the kernel gives no port so low, and this host of
/// loopback is this process's alone. A port of 127.0.0.1 that was free a moment ago may be anybody's now.
pub fn own_address() -> SocketAddr {
    static PORT: AtomicU16 = AtomicU16::new(20_000);
    // 127.0.0.0/8 has a host for each process.
    let [_, b, c, d] = std::process::id().to_be_bytes();
    let port = PORT.fetch_add(1, Ordering::Relaxed);
    SocketAddr::from((Ipv4Addr::new(127, b, c, d), port))
}

/// A host that has no address anywhere. It is not even a name, since a part of it is empty, so nobody is asked for it: some
/// resolvers know every name, and others never answer.
pub const NO_HOST: &str = "no-such-host..invalid";

/// A TCP address where connects are refused for as long as the socket lives: it has the port, and does not listen.
pub fn closed_port() -> (Socket, SocketAddr) {
    let socket = Socket::new(Domain::IPV4, Type::STREAM, None).unwrap();
    socket
        .bind(&SocketAddr::from(([127, 0, 0, 1], 0)).into())
        .unwrap();
    let address = socket.local_addr().unwrap().as_socket().unwrap();
    (socket, address)
}
