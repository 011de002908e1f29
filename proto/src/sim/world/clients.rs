//! The players: what arrives at them, what they say, what they hear.

use std::net::SocketAddr;
use std::time::Duration;

use super::World;
use super::wires::{check_room, urgent};
use crate::endpoint::{Endpoint, Handled, PeerId};
use crate::session::{CloseReason, Event};
use crate::sim::traffic::{Application, Traffic};
use crate::time::Timestamp;

/// One player.
pub(super) struct Client {
    pub(super) endpoint: Endpoint,
    pub(super) peer: PeerId,
    pub(super) address: SocketAddr,
    pub(super) application: Application,
    pub(super) connected: bool,
    pub(super) closed: Option<CloseReason>,
    /// What it says is not checked.
    pub(super) is_honest: bool,
    pub(super) sleeps_until: Timestamp,
    pub(super) polled: u64,
}

impl Client {
    /// Its session takes what it says: some do before they are connected.
    pub(super) fn may_speak(&self) -> bool {
        (self.connected || self.endpoint.has_room(self.peer)) && self.closed.is_none()
    }
}

impl World {
    /// Adds a client whose endpoint has dialled `peer`, with what it says and what it is told. A
    /// client that comes back is a new one at the same address; the old one hears nothing more.
    pub fn add_client(
        &mut self,
        endpoint: Endpoint,
        peer: PeerId,
        address: SocketAddr,
        says: Traffic,
        told: &Traffic,
    ) {
        let origin = self.seed.wrapping_mul(1000) + 2 * self.clients.len() as u64;
        let application = Application::new(says, origin, told, origin + 1);
        self.clients.push(Client {
            endpoint,
            peer,
            address,
            application,
            connected: false,
            closed: None,
            is_honest: true,
            sleeps_until: Timestamp::ZERO,
            polled: 0,
        });
    }

    /// This client may say what it likes: only its bounds are checked, not its messages.
    pub fn distrust(&mut self, client: usize) {
        self.clients[client].is_honest = false;
    }

    /// This client's application reads nothing for a while.
    pub fn deafen(&mut self, client: usize, span: Duration) {
        self.clients[client].sleeps_until = self.now.mono + span;
    }

    /// The client's NAT gives it another port.
    pub fn move_client(&mut self, client: usize, address: SocketAddr) {
        self.clients[client].address = address;
    }

    /// A client's endpoint and peer, for what only a player does.
    pub fn client(&mut self, client: usize) -> (&mut Endpoint, PeerId) {
        let one = &mut self.clients[client];
        (&mut one.endpoint, one.peer)
    }

    /// Clients, those that came back counted again.
    pub fn clients(&self) -> usize {
        self.clients.len()
    }

    /// The client at this address: the newest one that was there.
    pub(super) fn client_at(&self, address: SocketAddr) -> Option<usize> {
        self.clients
            .iter()
            .rposition(|client| client.address == address)
    }

    pub(super) fn client_arrivals(&mut self) {
        while let Some((to, datagram)) = self.wires.down.pop(self.now.mono) {
            for intruder in &mut self.intruders {
                intruder.on_arrival(false, to, &datagram);
            }
            self.client_hears(to, datagram);
        }
    }

    pub(super) fn client_hears(&mut self, to: SocketAddr, mut datagram: Vec<u8>) {
        let Some(index) = self.client_at(to) else {
            return;
        };
        let client = &mut self.clients[index];
        let from = self.server_address;
        let mut reply = Vec::new();
        let handled = client
            .endpoint
            .handle_datagram(self.now, from, &mut datagram, &mut reply);
        assert!(reply.is_empty(), "a door that is closed says nothing");
        if let Handled::Peer(peer) = handled {
            let (address, wires, now) = (client.address, &mut self.wires, self.now);
            urgent(&mut client.endpoint, now, peer, |_, bytes| {
                wires.push_up(now, index, address, bytes);
            });
        }
    }

    pub(super) fn clients_turn(&mut self) {
        for index in 0..self.clients.len() {
            let client = &mut self.clients[index];
            while let Some((_, event)) = client.endpoint.poll_event() {
                match event {
                    Event::Authenticated => client.endpoint.admit(self.now, client.peer),
                    Event::Connected => client.connected = true,
                    Event::Closed(reason) => {
                        assert!(
                            client.closed.is_none(),
                            "seed {}: a session ended twice",
                            self.seed
                        );
                        client.closed = Some(reason);
                    }
                }
            }
            if client.may_speak() {
                let (endpoint, peer, now) = (&mut client.endpoint, client.peer, self.now);
                client
                    .application
                    .speak(now.mono, |channel, reliable, payload| {
                        if reliable && !endpoint.has_room(peer) {
                            return false;
                        }
                        let sent = endpoint.send(now, peer, channel, payload);
                        check_room(reliable, sent);
                        sent.is_ok()
                    });
            }
            if client.application.reads(self.now.mono) && client.sleeps_until <= self.now.mono {
                self.client_listens(index);
            }
        }
    }

    pub(super) fn client_listens(&mut self, index: usize) {
        let client = &mut self.clients[index];
        let polled = client.polled;
        while let Some(message) = client.endpoint.poll_message(client.peer) {
            client.polled += 1;
            if let Err(wrong) = client.application.hear(self.now.mono, message) {
                panic!("seed {}: client {index}: {wrong}", self.seed);
            }
        }
        if client.polled > polled {
            client.endpoint.confirm_written(self.now, client.peer);
        }
    }

    pub(super) fn client_departures(&mut self) {
        let mut out = Vec::new();
        for (index, client) in self.clients.iter_mut().enumerate() {
            while client.endpoint.poll_transmit(self.now, &mut out).is_some() {
                self.wires.push_up(self.now, index, client.address, &out);
                out.clear();
            }
        }
    }
}
