//! One server, many clients, a bad network between them and applications at both ends, in virtual
//! time: one seed, one run. Oracles watch at every step.
//!
//! The world drives the production code through [`Endpoint`], as the daemon does; only sockets, time
//! and chance are simulated. It knows no protocol: the caller brings the endpoints.
//!
//! Oracles, each a panic with the seed in its text:
//! 1. what an application hears on a reliable channel is exactly what the other said, in order:
//!    a prefix at any time;
//! 2. an unreliable message is heard at most once, and unchanged;
//! 3. each session that began ends at most once, and nothing follows its end;
//! 4. an endpoint that wakes does something: no spinning at one point in time;
//! 5. queues stay inside their bounds.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::time::Duration;

use super::link::{Conditions, Done, Link};
use super::traffic::{Application, Traffic};
use crate::endpoint::{Endpoint, Handled, PeerId};
use crate::session::{CloseReason, Event, SendError};
use crate::stats::Stats;
use crate::time::{Now, Timestamp};

/// The simulated world.
pub struct World {
    seed: u64,
    now: Now,
    server: Endpoint,
    server_address: SocketAddr,
    server_peers: BTreeMap<PeerId, Seat>,
    clients: Vec<Client>,
    /// Client to server, tagged with the sender; server to client, tagged with the receiver.
    up: Link<SocketAddr>,
    down: Link<SocketAddr>,
    /// A datagram for the server from nobody in particular is counted here.
    rejected: u64,
    wakes_at_this_time: u32,
    backend_up: bool,
}

struct Client {
    endpoint: Endpoint,
    peer: PeerId,
    address: SocketAddr,
    application: Application,
    connected: bool,
    closed: Option<CloseReason>,
}

/// The server's side of one session.
struct Seat {
    client: usize,
    application: Application,
    closed: Option<CloseReason>,
    /// Emptied and forgotten by the endpoint.
    gone: bool,
}

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
    /// A world with a server and nobody else. `start` is the calendar time of its beginning.
    pub fn new(
        seed: u64,
        server: Endpoint,
        server_address: SocketAddr,
        weather: Conditions,
        start: u64,
    ) -> Self {
        Self {
            seed,
            now: Now {
                mono: Timestamp::from_millis(1),
                unix_secs: start,
            },
            server,
            server_address,
            server_peers: BTreeMap::new(),
            clients: Vec::new(),
            up: Link::new(weather, seed.wrapping_mul(2)),
            down: Link::new(weather, seed.wrapping_mul(2) + 1),
            rejected: 0,
            wakes_at_this_time: 0,
            backend_up: true,
        }
    }

    /// The time now.
    pub fn now(&self) -> Now {
        self.now
    }

    /// Adds a client whose endpoint has dialled `peer`, with what it says and what it is told.
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
        });
    }

    /// The weather in both directions from now on.
    pub fn set_weather(&mut self, up: Conditions, down: Conditions) {
        self.up.set_conditions(up);
        self.down.set_conditions(down);
    }

    /// Whether new sessions find a backend.
    pub fn set_backend_up(&mut self, up: bool) {
        self.backend_up = up;
    }

    /// The client's NAT gives it another port.
    pub fn move_client(&mut self, client: usize, address: SocketAddr) {
        self.clients[client].address = address;
    }

    /// Runs for a span of virtual time. `told(client)` is what the server says to a client.
    pub fn run_for(&mut self, span: Duration, told: impl Fn(usize) -> (Traffic, Traffic)) {
        let end = self.now.mono + span;
        while self.now.mono < end {
            self.step(end, &told);
        }
    }

    /// Runs until `enough` or until the span is over; whether it was enough.
    pub fn run_until(
        &mut self,
        span: Duration,
        told: impl Fn(usize) -> (Traffic, Traffic),
        enough: impl Fn(&Self) -> bool,
    ) -> bool {
        let end = self.now.mono + span;
        while self.now.mono < end {
            if enough(self) {
                return true;
            }
            self.step(end, &told);
        }
        enough(self)
    }

    /// Whether all that was to be said was heard, in both directions, by everybody.
    pub fn all_delivered(&self) -> bool {
        (0..self.clients.len()).all(|client| self.is_delivered(client))
    }

    /// The same for one client.
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

    /// What the network did, client to server and back.
    pub fn network(&self) -> (Done, Done) {
        (self.up.done(), self.down.done())
    }

    /// What a client's session counted.
    pub fn client_stats(&self, client: usize) -> Stats {
        let one = &self.clients[client];
        one.endpoint
            .stats(one.peer)
            .unwrap_or(*one.endpoint.retired())
    }

    /// The server's endpoint, for what only an operator does.
    pub fn server(&mut self) -> &mut Endpoint {
        &mut self.server
    }

    /// A client's endpoint and peer, for what only a player does.
    pub fn client(&mut self, client: usize) -> (&mut Endpoint, PeerId) {
        let one = &mut self.clients[client];
        (&mut one.endpoint, one.peer)
    }

    /// Datagrams that the server refused.
    pub fn rejected(&self) -> u64 {
        self.rejected
    }

    /// Puts a datagram in front of the server, as an attacker would, from any address.
    pub fn inject(&mut self, from: SocketAddr, datagram: &[u8]) -> Handled {
        let mut reply = Vec::new();
        let handled =
            self.server
                .handle_datagram(self.now, from, &mut datagram.to_vec(), &mut reply);
        assert!(
            reply.len() <= datagram.len(),
            "seed {}: a reply amplifies",
            self.seed
        );
        handled
    }

    /// The newest session of a client.
    fn seat(&self, client: usize) -> Option<&Seat> {
        let of_client = self
            .server_peers
            .iter()
            .filter(|(_, seat)| seat.client == client);
        of_client.max_by_key(|(id, _)| **id).map(|(_, seat)| seat)
    }

    fn step(&mut self, end: Timestamp, told: &impl Fn(usize) -> (Traffic, Traffic)) {
        self.advance_clock(end);
        self.arrivals();
        self.server.handle_timeout(self.now);
        for client in &mut self.clients {
            client.endpoint.handle_timeout(self.now);
        }
        self.server_turn(told);
        self.clients_turn();
        self.departures();
    }

    /// To the next moment at which anything happens.
    fn advance_clock(&mut self, end: Timestamp) {
        let deadlines = self
            .clients
            .iter()
            .map(|client| client.endpoint.poll_timeout().map(|d| d.at));
        let speakers = self.clients.iter().map(|client| {
            client
                .application
                .next_at()
                .filter(|_| client.connected && client.closed.is_none())
        });
        let seats = self.server_peers.values();
        let replies =
            seats.map(|seat| seat.application.next_at().filter(|_| seat.closed.is_none()));
        let fixed = [
            self.up.next_arrival(),
            self.down.next_arrival(),
            self.server.poll_timeout().map(|d| d.at),
        ];
        let next = deadlines
            .chain(speakers)
            .chain(replies)
            .chain(fixed)
            .flatten()
            .min();
        // Readers that sleep are looked at again every few milliseconds.
        let next = next
            .unwrap_or(end)
            .min(self.now.mono + Duration::from_millis(5))
            .min(end);
        if next > self.now.mono {
            self.now = self.now.after(next.since(self.now.mono));
            self.wakes_at_this_time = 0;
        } else {
            self.wakes_at_this_time += 1;
            let limit = 200 + 20 * self.clients.len() as u32;
            assert!(
                self.wakes_at_this_time < limit,
                "seed {}: spinning at {:?}: server {:?}",
                self.seed,
                self.now.mono,
                self.server.poll_timeout()
            );
        }
    }

    fn arrivals(&mut self) {
        let mut reply = Vec::new();
        while let Some((from, mut datagram)) = self.up.pop(self.now.mono) {
            let offered = datagram.len();
            let handled = self
                .server
                .handle_datagram(self.now, from, &mut datagram, &mut reply);
            assert!(
                reply.len() <= offered,
                "seed {}: a reply amplifies",
                self.seed
            );
            if !reply.is_empty() {
                self.down.push(self.now.mono, from, &reply);
            }
            match handled {
                Handled::Rejected(_) | Handled::PeerRejected(..) => self.rejected += 1,
                Handled::Accepted(peer) | Handled::Peer(peer) | Handled::Moved(peer) => {
                    urgent(&mut self.server, self.now, peer, |to, bytes| {
                        self.down.push(self.now.mono, to, bytes)
                    });
                }
                Handled::Replied => {}
            }
        }
        while let Some((to, mut datagram)) = self.down.pop(self.now.mono) {
            let Some(client) = self.clients.iter_mut().find(|client| client.address == to) else {
                continue;
            };
            let from = self.server_address;
            let handled =
                client
                    .endpoint
                    .handle_datagram(self.now, from, &mut datagram, &mut reply);
            let address = client.address;
            if let Handled::Peer(peer) = handled {
                urgent(&mut client.endpoint, self.now, peer, |_, bytes| {
                    self.up.push(self.now.mono, address, bytes)
                });
            }
        }
    }

    fn server_turn(&mut self, told: &impl Fn(usize) -> (Traffic, Traffic)) {
        while let Some((peer, event)) = self.server.poll_event() {
            self.server_event(peer, event, told);
        }
        let mut gone = Vec::new();
        for (&peer, seat) in self.server_peers.iter_mut().filter(|(_, seat)| !seat.gone) {
            if seat.closed.is_none() {
                let server = &mut self.server;
                let now = self.now;
                seat.application.speak(now.mono, |channel, payload| {
                    if channel == 0 && !server.has_room(peer) {
                        return false;
                    }
                    match server.send(now, peer, channel, payload) {
                        Ok(()) => true,
                        Err(SendError::Full | SendError::Closed) => false,
                        Err(other) => {
                            panic!("the simulation sends what no channel takes: {other:?}")
                        }
                    }
                });
            }
            if seat.application.reads(self.now.mono) || seat.closed.is_some() {
                while let Some(message) = self.server.poll_message(peer) {
                    if let Err(wrong) = seat.application.hear(self.now.mono, message) {
                        panic!(
                            "seed {}: server, client {}: {wrong}",
                            self.seed, seat.client
                        );
                    }
                }
                self.server.confirm_written(self.now, peer);
            }
            let held = self.server.inbox_bytes(peer);
            assert!(
                held <= 1 << 20,
                "seed {}: {held} bytes wait in an inbox",
                self.seed
            );
            if seat.closed.is_some() {
                seat.gone = true;
                gone.push(peer);
            }
        }
        for peer in gone {
            self.server.remove(peer);
        }
    }

    fn server_event(
        &mut self,
        peer: PeerId,
        event: Event,
        told: &impl Fn(usize) -> (Traffic, Traffic),
    ) {
        match event {
            Event::Authenticated => {
                let Some(address) = self.server.address(peer) else {
                    return;
                };
                let Some(client) = self
                    .clients
                    .iter()
                    .position(|client| client.address == address)
                else {
                    return;
                };
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
                if let Some(seat) = self.server_peers.get_mut(&peer) {
                    assert!(
                        seat.closed.is_none(),
                        "seed {}: a session ended twice",
                        self.seed
                    );
                    seat.closed = Some(reason);
                } else {
                    self.server.remove(peer);
                }
            }
        }
    }

    fn clients_turn(&mut self) {
        for (index, client) in self.clients.iter_mut().enumerate() {
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
            if client.connected && client.closed.is_none() {
                let (endpoint, peer, now) = (&mut client.endpoint, client.peer, self.now);
                client.application.speak(now.mono, |channel, payload| {
                    (channel != 0 || endpoint.has_room(peer))
                        && endpoint.send(now, peer, channel, payload).is_ok()
                });
            }
            if client.application.reads(self.now.mono) {
                while let Some(message) = client.endpoint.poll_message(client.peer) {
                    if let Err(wrong) = client.application.hear(self.now.mono, message) {
                        panic!("seed {}: client {index}: {wrong}", self.seed);
                    }
                }
                client.endpoint.confirm_written(self.now, client.peer);
            }
        }
    }

    fn departures(&mut self) {
        let mut out = Vec::new();
        while let Some((_, to)) = self.server.poll_transmit(self.now, &mut out) {
            self.down.push(self.now.mono, to, &out);
            out.clear();
        }
        for client in &mut self.clients {
            while client.endpoint.poll_transmit(self.now, &mut out).is_some() {
                self.up.push(self.now.mono, client.address, &out);
                out.clear();
            }
        }
    }
}

/// Sends what may not wait until everything that arrived was handled.
fn urgent(
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
