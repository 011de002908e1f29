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
//! 4. an endpoint that wakes does something, and not without end: no spinning at one point in time;
//! 5. queues stay inside their bounds;
//! 6. an address without a session is never told more than it may be, counted over all time, and
//!    no address gets a session but a client's;
//! 7. sessions opened are sessions closed and sessions there, messages accepted are messages taken.
//!
//! What only a test can know of its protocol it adds with [`World::set_watch`].

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::time::Duration;

use super::books::Books;
use super::intruder::{Intruder, Shot};
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
    /// Sessions of this server process.
    server_peers: BTreeMap<PeerId, Seat>,
    /// Sessions of server processes that were killed.
    lost_peers: Vec<Seat>,
    /// Whose session a peer is, from its first moment.
    owners: BTreeMap<PeerId, usize>,
    books: Books,
    clients: Vec<Client>,
    intruders: Vec<Intruder>,
    wires: Wires,
    /// The server process is stopped until then; its datagrams wait in the socket.
    server_sleeps_until: Timestamp,
    /// A datagram for the server from nobody in particular is counted here.
    rejected: u64,
    wakes_at_this_time: u32,
    backend_up: bool,
}

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
struct Wires {
    /// Tagged with the sender.
    up: Link<SocketAddr>,
    /// Tagged with the receiver.
    down: Link<SocketAddr>,
    watch: Option<Watch>,
}

impl Wires {
    fn push_up(&mut self, now: Now, client: usize, from: SocketAddr, datagram: &[u8]) {
        if let Some(watch) = &mut self.watch {
            watch(client, Way::Up, datagram);
        }
        self.up.push(now.mono, from, datagram);
    }

    fn push_down(&mut self, now: Now, client: Option<usize>, to: SocketAddr, datagram: &[u8]) {
        if let (Some(watch), Some(client)) = (&mut self.watch, client) {
            watch(client, Way::Down, datagram);
        }
        self.down.push(now.mono, to, datagram);
    }
}

struct Client {
    endpoint: Endpoint,
    peer: PeerId,
    address: SocketAddr,
    application: Application,
    connected: bool,
    closed: Option<CloseReason>,
    /// What it says is not checked.
    is_honest: bool,
    sleeps_until: Timestamp,
    polled: u64,
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
            lost_peers: Vec::new(),
            owners: BTreeMap::new(),
            books: Books::default(),
            clients: Vec::new(),
            intruders: Vec::new(),
            wires: Wires {
                up: Link::new(weather, seed.wrapping_mul(2)),
                down: Link::new(weather, seed.wrapping_mul(2) + 1),
                watch: None,
            },
            server_sleeps_until: Timestamp::ZERO,
            rejected: 0,
            wakes_at_this_time: 0,
            backend_up: true,
        }
    }

    /// The time now.
    pub fn now(&self) -> Now {
        self.now
    }

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

    /// Lets somebody loose on the network.
    pub fn add_intruder(&mut self, intruder: Intruder) {
        self.intruders.push(intruder);
    }

    /// Shows `watch` every datagram that an endpoint sends from now on.
    pub fn set_watch(&mut self, watch: Watch) {
        self.wires.watch = Some(watch);
    }

    /// The server process stands still for a while, and finds its datagrams waiting.
    pub fn pause_server(&mut self, span: Duration) {
        self.server_sleeps_until = self.now.mono + span;
    }

    /// The calendar is set, forward or back.
    pub fn step_calendar(&mut self, secs: i64) {
        self.now.unix_secs = self.now.unix_secs.saturating_add_signed(secs);
    }

    /// The server process is killed; another takes over its address and knows nothing.
    pub fn replace_server(&mut self, server: Endpoint) {
        self.server = server;
        self.books = Books::default();
        self.owners.clear();
        let lost = std::mem::take(&mut self.server_peers).into_values();
        self.lost_peers.extend(lost.map(|seat| Seat {
            closed: seat.closed.or(Some(CloseReason::Shutdown)),
            gone: true,
            ..seat
        }));
    }

    /// Sessions the server has with this client.
    pub fn server_peers_of(&self, client: usize) -> Vec<PeerId> {
        let of_client = |id: &&PeerId| self.server_peers[*id].client == client;
        self.server_peers
            .keys()
            .filter(of_client)
            .copied()
            .collect()
    }

    /// Empties every inbox and checks that what was accepted is what was heard. Readers that sleep
    /// are woken.
    pub fn close_books(&mut self) {
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
        self.books.check_messages(&self.server);
    }

    /// Datagrams that intruders sent.
    pub fn intruder_shots(&self) -> u64 {
        self.intruders.iter().map(Intruder::shots).sum()
    }

    /// Clients, those that came back counted again.
    pub fn clients(&self) -> usize {
        self.clients.len()
    }

    /// The weather in both directions from now on.
    pub fn set_weather(&mut self, up: Conditions, down: Conditions) {
        self.wires.up.set_conditions(up);
        self.wires.down.set_conditions(down);
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
        (self.wires.up.done(), self.wires.down.done())
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
        self.server_hears(from, datagram.to_vec())
    }

    /// The newest session of a client.
    fn seat(&self, client: usize) -> Option<&Seat> {
        let mut all = self.lost_peers.iter().chain(self.server_peers.values());
        all.rfind(|seat| seat.client == client)
    }

    /// The client at this address: the newest one that was there.
    fn client_at(&self, address: SocketAddr) -> Option<usize> {
        self.clients
            .iter()
            .rposition(|client| client.address == address)
    }

    fn step(&mut self, end: Timestamp, told: &impl Fn(usize) -> (Traffic, Traffic)) {
        self.advance_clock(end);
        self.intrusions();
        if self.is_server_awake() {
            self.server_arrivals();
            self.server.handle_timeout(self.now);
            self.server_turn(told);
            self.server_departures();
            self.books.check_sessions(&self.server);
        }
        self.client_arrivals();
        for client in &mut self.clients {
            client.endpoint.handle_timeout(self.now);
        }
        self.clients_turn();
        self.client_departures();
    }

    fn is_server_awake(&self) -> bool {
        self.server_sleeps_until <= self.now.mono
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
        let servers = [
            self.wires.up.next_arrival(),
            self.server.poll_timeout().map(|d| d.at),
        ];
        let servers = servers.into_iter().chain(replies);
        // A server that is stopped is no reason to wake before it goes on.
        let servers = servers.map(|at| at.map(|at| at.max(self.server_sleeps_until)));
        let next = deadlines
            .chain(speakers)
            .chain(servers)
            .chain([self.wires.down.next_arrival()])
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

    fn intrusions(&mut self) {
        let mut intruders = std::mem::take(&mut self.intruders);
        for intruder in &mut intruders {
            while let Some(shot) = intruder.fire(self.now.mono) {
                let Shot {
                    to_server,
                    address,
                    datagram,
                } = shot;
                if !to_server {
                    self.client_hears(address, datagram);
                } else if self.is_server_awake() {
                    self.server_hears(address, datagram);
                }
            }
        }
        self.intruders = intruders;
    }

    fn server_arrivals(&mut self) {
        while let Some((from, datagram)) = self.wires.up.pop(self.now.mono) {
            for intruder in &mut self.intruders {
                intruder.on_arrival(true, from, &datagram);
            }
            self.server_hears(from, datagram);
        }
    }

    fn client_arrivals(&mut self) {
        while let Some((to, datagram)) = self.wires.down.pop(self.now.mono) {
            for intruder in &mut self.intruders {
                intruder.on_arrival(false, to, &datagram);
            }
            self.client_hears(to, datagram);
        }
    }

    fn server_hears(&mut self, from: SocketAddr, mut datagram: Vec<u8>) -> Handled {
        let mut reply = Vec::new();
        let is_stranger = self.server.find(from).is_none();
        let handled = self
            .server
            .handle_datagram(self.now, from, &mut datagram, &mut reply);
        if is_stranger {
            self.books.on_stranger(from, datagram.len(), reply.len());
        }
        if !reply.is_empty() {
            let client = self.client_at(from);
            self.wires.push_down(self.now, client, from, &reply);
        }
        if let Handled::Accepted(peer) = handled {
            self.books.on_opened();
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

    fn client_hears(&mut self, to: SocketAddr, mut datagram: Vec<u8>) {
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

    fn server_turn(&mut self, told: &impl Fn(usize) -> (Traffic, Traffic)) {
        while let Some((peer, event)) = self.server.poll_event() {
            self.server_event(peer, event, told);
        }
        let (mut listening, mut gone) = (Vec::new(), Vec::new());
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
            let held = self.server.inbox_bytes(peer);
            assert!(
                held <= 1 << 20,
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
            self.server.remove(peer);
        }
    }

    fn server_listens(&mut self, peer: PeerId) {
        let Some(seat) = self.server_peers.get_mut(&peer) else {
            return;
        };
        while let Some(message) = self.server.poll_message(peer) {
            self.books.on_message();
            let heard = seat.application.hear(self.now.mono, message);
            let is_honest = self.clients[seat.client].is_honest;
            if let Some(wrong) = heard.err().filter(|_| is_honest) {
                panic!(
                    "seed {}: server, client {}: {wrong}",
                    self.seed, seat.client
                );
            }
        }
        self.server.confirm_written(self.now, peer);
    }

    fn server_event(
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
                self.books.on_closed();
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
                        self.books.on_message();
                    }
                    self.server.remove(peer);
                }
            }
        }
    }

    fn clients_turn(&mut self) {
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
            if client.connected && client.closed.is_none() {
                let (endpoint, peer, now) = (&mut client.endpoint, client.peer, self.now);
                client.application.speak(now.mono, |channel, payload| {
                    (channel != 0 || endpoint.has_room(peer))
                        && endpoint.send(now, peer, channel, payload).is_ok()
                });
            }
            if client.application.reads(self.now.mono) && client.sleeps_until <= self.now.mono {
                self.client_listens(index);
            }
        }
    }

    fn client_listens(&mut self, index: usize) {
        let client = &mut self.clients[index];
        while let Some(message) = client.endpoint.poll_message(client.peer) {
            client.polled += 1;
            if let Err(wrong) = client.application.hear(self.now.mono, message) {
                panic!("seed {}: client {index}: {wrong}", self.seed);
            }
        }
        client.endpoint.confirm_written(self.now, client.peer);
    }

    fn server_departures(&mut self) {
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

    fn client_departures(&mut self) {
        let mut out = Vec::new();
        for (index, client) in self.clients.iter_mut().enumerate() {
            while client.endpoint.poll_transmit(self.now, &mut out).is_some() {
                self.wires.push_up(self.now, index, client.address, &out);
                out.clear();
            }
        }
    }
}

/// Datagrams one session may send without time passing: a burst, ten goodbyes, one output of rudp.
const DATAGRAMS_AT_ONCE_MAX: usize = 256;

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
