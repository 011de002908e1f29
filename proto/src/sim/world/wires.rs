//! The two directions of the network, and who looks at what is put on it.

use std::net::SocketAddr;

use crate::endpoint::{Endpoint, PeerId};
use crate::session::SendError;
use crate::sim::link::Link;
use crate::time::Now;

/// Which way a datagram goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Way {
    /// From a client to the server.
    Up,
    /// From the server to a client.
    Down,
}

/// Sees every datagram that an endpoint sends, and whose it is. Panics when one must not be.
pub type Watch = Box<dyn FnMut(usize, Way, &[u8])>;

/// The network, and who looks at what is put on it.
pub(super) struct Wires {
    /// Tagged with the sender.
    pub(super) up: Link<SocketAddr>,
    /// Tagged with the receiver.
    pub(super) down: Link<SocketAddr>,
    pub(super) watch: Option<Watch>,
}

impl Wires {
    pub(super) fn push_up(&mut self, now: Now, client: usize, from: SocketAddr, datagram: &[u8]) {
        if let Some(watch) = &mut self.watch {
            watch(client, Way::Up, datagram);
        }
        self.up.push(now.mono, from, datagram);
    }

    pub(super) fn push_down(
        &mut self,
        now: Now,
        client: Option<usize>,
        to: SocketAddr,
        datagram: &[u8],
    ) {
        if let (Some(watch), Some(client)) = (&mut self.watch, client) {
            watch(client, Way::Down, datagram);
        }
        self.down.push(now.mono, to, datagram);
    }
}

/// Sends what may not wait until everything that arrived was handled.
pub(super) fn urgent(
    endpoint: &mut Endpoint,
    now: Now,
    peer: PeerId,
    mut send: impl FnMut(SocketAddr, &[u8]),
) {
    let mut out = Vec::new();
    while let Some(to) = endpoint.poll_urgent(now, peer, &mut out) {
        send(to, &out);
        out.clear();
    }
}

/// Who had room takes the message.
pub(super) fn check_room(reliable: bool, sent: Result<(), SendError>) {
    let refused = reliable && sent == Err(SendError::Full);
    assert!(!refused, "it had room, and was full");
}
