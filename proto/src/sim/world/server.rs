//! The server: what arrives at it, what its sessions hear and say, and how they end.

use std::net::SocketAddr;

use super::World;
use super::wires::{check_room, urgent};
use crate::endpoint::{Handled, PeerId};
use crate::session::{CloseReason, Event, SendError};
use crate::sim::traffic::{Application, Traffic};

/// The server's side of one session.
pub(super) struct Seat {
    pub(super) client: usize,
    pub(super) application: Application,
    pub(super) closed: Option<CloseReason>,
    /// Emptied and forgotten by the endpoint.
    pub(super) gone: bool,
}

impl World {
    /// Sessions the server has with this client.
    pub fn server_peers_of(&self, client: usize) -> Vec<PeerId> {
        let of_client = |id: &&PeerId| self.server_peers[*id].client == client;
        self.server_peers
            .keys()
            .filter(of_client)
            .copied()
            .collect()
    }

    /// Puts a datagram in front of the server, as an attacker would, from any address.
    pub fn inject(&mut self, from: SocketAddr, datagram: &[u8]) -> Handled {
        self.server_hears(from, datagram.to_vec())
    }

    pub(super) fn server_arrivals(&mut self) {
        while let Some((from, datagram)) = self.wires.up.pop(self.now.mono) {
            for intruder in &mut self.intruders {
                intruder.on_arrival(true, from, &datagram);
            }
            self.server_hears(from, datagram);
        }
    }

    pub(super) fn server_hears(&mut self, from: SocketAddr, mut datagram: Vec<u8>) -> Handled {
        let mut reply = Vec::new();
        let is_stranger = self.server.find(from).is_none();
        let handled = self
            .server
            .handle_datagram(self.now, from, &mut datagram, &mut reply);
        if is_stranger {
            self.invariants
                .on_stranger(from, datagram.len(), reply.len());
        }
        if !reply.is_empty() {
            let client = self.client_at(from);
            self.wires.push_down(self.now, client, from, &reply);
        }
        if let Handled::Accepted(peer) = handled {
            self.invariants.on_opened();
            let Some(client) = self.client_at(from) else {
                panic!("seed {}: {from} is nobody and got a session", self.seed);
            };
            self.owners.insert(peer, client);
        }
        match handled {
            Handled::Rejected(_) | Handled::PeerRejected(..) => self.rejected += 1,
            Handled::Accepted(peer) | Handled::Peer(peer) | Handled::Moved(peer) => {
                let (client, wires, now) = (self.owners.get(&peer), &mut self.wires, self.now);
                urgent(&mut self.server, now, peer, |to, bytes| {
                    wires.push_down(now, client.copied(), to, bytes);
                });
            }
            Handled::Replied => {}
        }
        handled
    }

    pub(super) fn server_turn(&mut self, told: &impl Fn(usize) -> (Traffic, Traffic)) {
        while let Some((peer, event)) = self.server.poll_event() {
            self.server_event(peer, event, told);
        }
        let (mut listening, mut gone) = (Vec::new(), Vec::new());
        for (&peer, seat) in self.server_peers.iter_mut().filter(|(_, seat)| !seat.gone) {
            if seat.closed.is_none() {
                let server = &mut self.server;
                let now = self.now;
                seat.application
                    .speak(now.mono, |channel, reliable, payload| {
                        if reliable && !server.has_room(peer) {
                            return false;
                        }
                        let sent = server.send(now, peer, channel, payload);
                        check_room(reliable, sent);
                        match sent {
                            Ok(()) => true,
                            Err(SendError::Full | SendError::Closed) => false,
                            Err(other) => {
                                panic!("the simulation sends what no channel takes: {other:?}")
                            }
                        }
                    });
            }
            let held = self.server.inbox_bytes(peer);
            // What an inbox takes, and what waited behind a gap that closes.
            assert!(
                held <= 11 << 20,
                "seed {}: {held} bytes wait in an inbox",
                self.seed
            );
            if seat.application.reads(self.now.mono) || seat.closed.is_some() {
                listening.push(peer);
            }
            if seat.closed.is_some() {
                seat.gone = true;
                gone.push(peer);
            }
        }
        for peer in listening {
            self.server_listens(peer);
        }
        for peer in gone {
            self.server.let_go(peer);
        }
    }

    pub(super) fn server_listens(&mut self, peer: PeerId) {
        let Some(seat) = self.server_peers.get_mut(&peer) else {
            return;
        };
        let mut wrote = false;
        while let Some(message) = self.server.poll_message(peer) {
            wrote = true;
            self.invariants.on_message();
            let heard = seat.application.hear(self.now.mono, message);
            let is_honest = self.clients[seat.client].is_honest;
            if let Some(wrong) = heard.err().filter(|_| is_honest) {
                panic!(
                    "seed {}: server, client {}: {wrong}",
                    self.seed, seat.client
                );
            }
        }
        if wrote {
            self.server.confirm_written(self.now, peer);
        }
    }

    pub(super) fn server_event(
        &mut self,
        peer: PeerId,
        event: Event,
        told: &impl Fn(usize) -> (Traffic, Traffic),
    ) {
        match event {
            Event::Authenticated => {
                let client = self.owners[&peer];
                if !self.backend_up {
                    self.server
                        .close(self.now, peer, CloseReason::BackendUnreachable);
                    return;
                }
                let (says, told) = told(client);
                let origin = self.seed.wrapping_mul(1000) + 2 * client as u64;
                let application = Application::new(told, origin + 1, &says, origin);
                self.server_peers.insert(
                    peer,
                    Seat {
                        client,
                        application,
                        closed: None,
                        gone: false,
                    },
                );
                self.server.admit(self.now, peer);
            }
            Event::Connected => {}
            Event::Closed(reason) => {
                self.invariants.on_closed();
                if let Some(seat) = self.server_peers.get_mut(&peer) {
                    assert!(
                        seat.closed.is_none(),
                        "seed {}: a session ended twice",
                        self.seed
                    );
                    seat.closed = Some(reason);
                } else {
                    // Never admitted: what it said along with its handshake has nowhere to go.
                    while self.server.poll_message(peer).is_some() {
                        self.invariants.on_message();
                    }
                    self.server.let_go(peer);
                }
            }
        }
    }

    pub(super) fn server_departures(&mut self) {
        let mut out = Vec::new();
        let mut count = 0;
        while let Some((peer, to)) = self.server.poll_transmit(self.now, &mut out) {
            let client = self.owners.get(&peer).copied();
            self.wires.push_down(self.now, client, to, &out);
            out.clear();
            count += 1;
        }
        let limit = DATAGRAMS_AT_ONCE_MAX * (1 + self.server.len());
        assert!(
            count <= limit,
            "seed {}: {count} datagrams at one point in time",
            self.seed
        );
    }
}

/// Datagrams one session may send without time passing: a burst, ten goodbyes, one output of rudp.
const DATAGRAMS_AT_ONCE_MAX: usize = 256;
