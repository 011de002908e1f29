//! How a run went: for one client, for the network, and against the invariants.

use std::time::Duration;

use super::World;
use super::server::Seat;
use crate::session::CloseReason;
use crate::sim::intruder::Intruder;
use crate::sim::link::Done;
use crate::stats::Stats;

/// How a run ended for one client.
#[derive(Clone, Copy, Debug)]
pub struct Outcome {
    /// The client saw itself connected.
    pub connected: bool,
    /// Why the client's session ended, if it did.
    pub client_closed: Option<CloseReason>,
    /// Why the server's session ended, if it did.
    pub server_closed: Option<CloseReason>,
    /// Reliable messages the client said, and the server heard.
    pub up: (u64, u64),
    /// Reliable messages the server said, and the client heard.
    pub down: (u64, u64),
}

impl World {
    /// Empties every inbox and checks that what was accepted is what was heard. Readers that sleep
    /// are woken.
    pub fn drain_and_check(&mut self) {
        let peers: Vec<_> = self.server_peers.keys().copied().collect();
        for peer in peers {
            self.server_listens(peer);
        }
        for client in 0..self.clients.len() {
            self.client_listens(client);
            let stats = self.client_stats(client);
            assert_eq!(
                stats.messages_received, self.clients[client].polled,
                "messages client {client} accepted, polled"
            );
        }
        self.invariants.check_messages(&self.server);
    }

    /// Whether all that was to be said was heard, in both directions, by everybody.
    pub fn all_delivered(&self) -> bool {
        (0..self.clients.len()).all(|client| self.is_delivered(client))
    }

    /// Whether all that was to be said was heard, in both directions, by this client and by the server from it.
    pub fn is_delivered(&self, client: usize) -> bool {
        let Outcome { up, down, .. } = self.outcome(client);
        let said_all = |seat: &Seat| seat.application.is_done();
        self.clients[client].application.is_done()
            && self.seat(client).is_some_and(said_all)
            && up.0 == up.1
            && down.0 == down.1
    }

    /// How it went for one client.
    pub fn outcome(&self, client: usize) -> Outcome {
        let one = &self.clients[client];
        let seat = self.seat(client);
        Outcome {
            connected: one.connected,
            client_closed: one.closed,
            server_closed: seat.and_then(|seat| seat.closed),
            up: (
                one.application.said(),
                seat.map_or(0, |seat| seat.application.heard()),
            ),
            down: (
                seat.map_or(0, |seat| seat.application.said()),
                one.application.heard(),
            ),
        }
    }

    /// How long each reliable message from this client took to be heard, in order.
    pub fn latencies_up(&self, client: usize) -> Vec<Duration> {
        let Some(seat) = self.seat(client) else {
            return Vec::new();
        };
        let heard = seat.application.heard_at().iter();
        heard
            .zip(self.clients[client].application.said_at())
            .map(|(heard, said)| heard.since(*said))
            .collect()
    }

    /// From when a client said something until it heard as many messages itself: of a server that echoes, how long
    /// each took there and back.
    pub fn round_trips(&self, client: usize) -> Vec<Duration> {
        let application = &self.clients[client].application;
        let heard = application.heard_at().iter();
        heard
            .zip(application.said_at())
            .map(|(heard, said)| heard.since(*said))
            .collect()
    }

    /// What the network did, client to server and back.
    pub fn network(&self) -> (Done, Done) {
        (self.wires.up.done(), self.wires.down.done())
    }

    /// What a client's session counted.
    pub fn client_stats(&self, client: usize) -> Stats {
        let one = &self.clients[client];
        one.endpoint
            .stats(one.peer)
            .unwrap_or(*one.endpoint.retired())
    }

    /// Datagrams that the server refused.
    pub fn rejected(&self) -> u64 {
        self.rejected
    }

    /// Datagrams that intruders sent.
    pub fn intruder_shots(&self) -> u64 {
        self.intruders.iter().map(Intruder::shots).sum()
    }

    /// The newest session of a client.
    pub(super) fn seat(&self, client: usize) -> Option<&Seat> {
        let mut all = self.lost_peers.iter().chain(self.server_peers.values());
        all.rfind(|seat| seat.client == client)
    }
}
