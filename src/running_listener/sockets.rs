//! The sockets of a listener: each of its addresses, once for each worker.

use std::net::SocketAddr;

use crate::config::{Listener, Runtime};
use crate::exit::{Transport, Unavailable};
use crate::udp::{Options, UdpSocket};

/// One of its addresses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BoundAddress {
    /// As configured; the port may be 0.
    pub asked: SocketAddr,
    pub bound: SocketAddr,
}

/// Sockets for each worker, in the order of the addresses.
pub type Sockets = Vec<(BoundAddress, Vec<UdpSocket>)>;

/// Every address once for each worker. All before any is served: the kernel spreads peers over the
/// sockets that are there.
pub fn bind(
    runtime: &Runtime,
    listener: &Listener,
    addresses: &[SocketAddr],
) -> anyhow::Result<Sockets> {
    let addresses = addresses.iter();
    addresses
        .map(|&asked| {
            let sockets = bind_address(runtime, listener, asked)?;
            let bound = sockets[0].local_addr();
            Ok((BoundAddress { asked, bound }, sockets))
        })
        .collect()
}

/// One socket for each worker, all of one port; never none.
fn bind_address(
    runtime: &Runtime,
    listener: &Listener,
    asked: SocketAddr,
) -> Result<Vec<UdpSocket>, Unavailable> {
    let options = socket_options(runtime, listener, asked);
    // Sharing is for our own workers: another process that shares would take a part of the players, and nobody
    // would notice. So the first socket has the port alone, or not at all, and shares it only then: at no moment
    // can two processes that start together both get it.
    let alone = Options {
        reuse_port: false,
        ..options
    };
    let first = bind_socket(asked, alone)?;
    let bound = first.local_addr();
    if options.reuse_port {
        let shared = first.share_port();
        shared.map_err(|error| Unavailable(Transport::Udp.cannot_bind(bound, &error)))?;
    }
    let others = (1..runtime.workers).map(|_| bind_socket(bound, options));
    std::iter::once(Ok(first)).chain(others).collect()
}

fn bind_socket(address: SocketAddr, options: Options) -> Result<UdpSocket, Unavailable> {
    UdpSocket::bind(address, options)
        .map_err(|error| Unavailable(Transport::Udp.cannot_bind(address, &error)))
}

/// How the sockets of one of its addresses are made.
pub fn socket_options(runtime: &Runtime, listener: &Listener, address: SocketAddr) -> Options {
    Options {
        receive_buffer: runtime.udp_recv_buffer,
        send_buffer: runtime.udp_send_buffer,
        reuse_port: runtime.workers > 1,
        only_v6: listener
            .bind
            .iter()
            .any(|other| other.is_ipv4() && other.port() == address.port()),
        never_cut: listener.protocol.tries_longer_datagrams(),
    }
}
