//! One server, many clients, a bad network between them and applications at both ends, in virtual
//! time: one seed, one run. Oracles watch at every step.
//!
//! The world drives the production code through [`Endpoint`], as the daemon does; only sockets, time
//! and chance are simulated. It knows no protocol: the caller brings the endpoints.
//!
//! Oracles, each a panic with the seed in its text:
//! 1. what an application hears on a reliable channel is exactly what the other said on it, in
//!    order: a prefix at any time;
//! 2. an unreliable message is heard at most once, and unchanged;
//! 3. each session that began ends at most once, and nothing follows its end;
//! 4. an endpoint that wakes does something, and not without end: no spinning at one point in time;
//! 5. queues stay inside their bounds;
//! 6. an address without a session is never told more than it may be, counted over all time, and
//!    no address gets a session but a client's;
//! 7. who has room takes the next message on any reliable channel;
//! 8. sessions opened are sessions closed and sessions there, messages accepted are messages taken.
//!
//! What only a test can know of its protocol it adds with [`World::set_watch`].

mod clients;
mod operator;
mod outcome;
mod server;
mod wires;

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::time::Duration;

use self::clients::Client;
pub use self::outcome::Outcome;
use self::server::Seat;
use self::wires::Wires;
pub use self::wires::{Watch, Way};
use super::intruder::{Intruder, Shot};
use super::invariants::Invariants;
use super::link::{Conditions, Link};
use super::traffic::Traffic;
use crate::endpoint::{Endpoint, PeerId};
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
    invariants: Invariants,
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
            invariants: Invariants::default(),
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

    /// Lets somebody loose on the network.
    pub fn add_intruder(&mut self, intruder: Intruder) {
        self.intruders.push(intruder);
    }

    /// Shows `watch` every datagram that an endpoint sends from now on.
    pub fn set_watch(&mut self, watch: Watch) {
        self.wires.watch = Some(watch);
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

    fn step(&mut self, end: Timestamp, told: &impl Fn(usize) -> (Traffic, Traffic)) {
        self.advance_clock(end);
        self.intrusions();
        if self.is_server_awake() {
            self.server_arrivals();
            self.server.handle_timeout(self.now);
            self.server_turn(told);
            self.server_departures();
            self.invariants.check_sessions(&self.server);
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
            .map(|client| client.endpoint.poll_timeout());
        let speakers = self
            .clients
            .iter()
            .map(|client| client.application.next_at().filter(|_| client.may_speak()));
        let seats = self.server_peers.values();
        let replies =
            seats.map(|seat| seat.application.next_at().filter(|_| seat.closed.is_none()));
        let servers = [self.wires.up.next_arrival(), self.server.poll_timeout()];
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
}
