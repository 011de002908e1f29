//! What a worker lends its clients: its counters and its buffers.

use tidegate_proto::{Now, Session};

use super::tally::Tally;
use crate::udp::{Outgoing, Sent, UdpSocket};

/// The counters and buffers that all clients of one worker use in turn.
#[derive(Default)]
pub(super) struct Workspace {
    pub(super) tally: Tally,
    pub(super) scratch: Vec<u8>,
    outgoing: Outgoing,
}

impl Workspace {
    /// Sends what a session has to send.
    pub(super) fn transmit(&mut self, now: Now, session: &mut dyn Session, socket: &mut UdpSocket) {
        let mut sent = Sent::default();
        loop {
            self.outgoing.clear();
            while !self.outgoing.is_full() && session.poll_transmit(now, self.outgoing.bytes()) {
                // The socket is connected: the address is not looked at.
                self.outgoing.push(socket.local_addr(), None);
            }
            if self.outgoing.is_empty() {
                break;
            }
            // What cannot be sent is lost, as on the network.
            socket.send(&self.outgoing, &mut sent);
        }
        self.tally.datagrams_sent += sent.datagrams;
    }
}
