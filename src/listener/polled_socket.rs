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

#[cfg(test)]
mod tests {
    use std::net::{Ipv4Addr, UdpSocket as Plain};
    use std::time::Duration;

    use super::*;
    use crate::udp::{Options, Outgoing, Sent};

    /// The poll tells only once of what came behind the error of a server that starts again.
    #[test]
    fn an_error_hides_no_datagram_behind_it() {
        // An address of its own, whose ports no other test takes meanwhile.
        let server = Plain::bind((Ipv4Addr::new(127, 83, 11, 7), 0)).unwrap();
        let to = server.local_addr().unwrap();
        let mut polled = PolledSocket::new(UdpSocket::connect(to, Options::default()).unwrap());
        let from = polled.socket.local_addr();
        let mut received = Received::default();
        drop(server);
        let mut outgoing = Outgoing::default();
        outgoing.bytes().push(7);
        outgoing.push(to, None);
        polled.socket.send(&outgoing, &mut Sent::default());
        let was_refused = (0..2_000).any(|_| {
            assert!(polled.on_ready());
            assert!(!polled.on_ready(), "no news");
            assert_eq!(polled.receive(&mut received), None);
            std::thread::sleep(Duration::from_millis(1));
            polled.is_readable()
        });
        assert!(was_refused && !polled.is_broken());
        let server = Plain::bind(to).unwrap();
        server.send_to(b"back", from).unwrap();
        assert_eq!(polled.receive(&mut received), Some(0));
        assert_eq!(received.len(), 1);
        while polled.is_readable() {
            assert_eq!(polled.receive(&mut received), None);
        }
        assert!(!polled.is_broken());
    }
}
