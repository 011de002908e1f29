//! A UDP socket that the poll tells of, the one that all peers share or the own one of a peer that was dialled: it stays in
//! its place while it is read, so that what cannot wait meanwhile leaves by it.

use mio::Registry;

use crate::udp::{Received, UdpError, UdpSocket};

#[derive(Debug)]
pub(super) struct PolledSocket {
    pub(super) socket: UdpSocket,
    /// It may have datagrams.
    readable: bool,
    /// It is lost.
    broken: bool,
}

impl PolledSocket {
    pub(super) fn new(socket: UdpSocket) -> Self {
        Self {
            socket,
            readable: false,
            broken: false,
        }
    }

    pub(super) fn deregister(&mut self, registry: &Registry) {
        if let Err(error) = self.socket.deregister(registry) {
            tracing::debug!(%error, "socket was not registered");
        }
    }

    /// The poll has news of it; whether that is news here too.
    pub(super) fn on_ready(&mut self) -> bool {
        !std::mem::replace(&mut self.readable, true)
    }

    /// Whether it may hold datagrams that were not read.
    pub(super) fn is_readable(&self) -> bool {
        self.readable
    }

    pub(super) fn is_broken(&self) -> bool {
        self.broken
    }

    /// Reads a batch. Returns how many the kernel dropped before it, or `None` if there is no batch.
    pub(super) fn receive(&mut self, received: &mut Received) -> Option<u64> {
        match self.socket.receive(received) {
            Ok(()) => {
                self.readable = received.may_have_left();
                return Some(self.socket.new_drops(received));
            }
            Err(UdpError::Blocked) => self.readable = false,
            Err(UdpError::Broken) => (self.broken, self.readable) = (true, false),
            // An error that waited in the socket: it has been taken. Nobody listens at the far end yet, or any more; the
            // handshake, or the timeout, will tell.
            Err(_) => {}
        }
        None
    }
}
