//! Thousands of yojimbo clients in one thread: one UDP socket, an address out of 127/8 for each.

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use mio::{Events, Poll};
use tidegate::clock::Clock;
use tidegate::protocol::RejectAll;
use tidegate::tokens::{Recipe, mint};
use tidegate::udp::{Outgoing, Received, Sent, UdpSocket};
use tidegate_proto::yojimbo::netcode::{Key, UserData};
use tidegate_proto::yojimbo::{Connector, Params};
use tidegate_proto::{CloseReason, Endpoint, Event, Handled, Now, PeerId, SendError, endpoint};

use super::program::KEY;
use super::talkers::{self, Talkers};

/// The players, seen as one endpoint: each is known by its own address.
pub struct Players {
    server: SocketAddr,
    socket: UdpSocket,
    endpoint: Endpoint,
    params: Arc<Params>,
    /// The first one's number; client ids and addresses count on from it.
    first: u32,
    clock: Clock,
    poll: Poll,
    events: Events,
    received: Received,
    outgoing: Outgoing,
    reply: Vec<u8>,
    pub sent: Sent,
    pub datagrams_received: u64,
    /// By order of dialling.
    pub ids: Vec<PeerId>,
    /// Players that something came for in this turn.
    touched: Vec<PeerId>,
    /// Players that are in.
    pub connected: usize,
    /// Why players are out.
    pub closed: Vec<CloseReason>,
}

impl Players {
    pub fn new(server: SocketAddr, params: Params) -> Self {
        let (socket, poll) = talkers::socket();
        let limits = endpoint::Params {
            peers_max: usize::MAX,
            ..endpoint::Params::default()
        };
        Self {
            server,
            socket,
            endpoint: Endpoint::new(Box::new(RejectAll), limits),
            params: Arc::new(params),
            first: 0,
            clock: Clock::start(),
            poll,
            events: Events::with_capacity(4),
            received: Received::default(),
            outgoing: Outgoing::default(),
            reply: Vec::new(),
            sent: Sent::default(),
            datagrams_received: 0,
            ids: Vec::new(),
            touched: Vec::new(),
            connected: 0,
            closed: Vec::new(),
        }
    }

    /// Other players than those whose numbers begin at zero.
    pub fn numbered_from(mut self, first: u32) -> Self {
        self.first = first;
        self
    }

    /// One more player begins to join; its datagrams leave with the next turn.
    pub fn dial(&mut self) {
        let number = self.first + self.ids.len() as u32;
        let recipe = Recipe {
            protocol_id: PROTOCOL_ID,
            client_id: u64::from(number) + 1,
            servers: vec![self.server],
            lifetime: 3 * super::timeout(),
            timeout: super::timeout(),
            user_data: UserData::empty(),
        };
        let token = mint(recipe, &Key::new(KEY)).unwrap();
        let now = self.clock.now();
        let session = Connector::new(now, self.params.clone(), token, u64::from(number));
        let address = SocketAddr::from((Ipv4Addr::from(FIRST + number), 1));
        let id = self.endpoint.dial(now, address, Box::new(session));
        let slot = self.ids.len();
        assert_eq!(
            id.slot(),
            slot,
            "its slot is its number, as nobody left: {:?}",
            self.closed
        );
        self.ids.push(id);
    }

    /// Until so many are in, dialling `at_once` at a time; nanoseconds that took.
    pub fn join(&mut self, count: usize, at_once: usize, patience: Duration) -> u64 {
        let start = super::nanos();
        while self.connected < count {
            while self.ids.len() < count && self.ids.len() < self.connected + at_once {
                self.dial();
            }
            self.turn(Duration::from_millis(1), |_| {});
            let waited = Duration::from_nanos(super::nanos() - start);
            assert!(
                waited < patience && self.closed.is_empty(),
                "{} of {count} joined in {waited:?}, closed: {:?}",
                self.connected,
                self.closed.first()
            );
        }
        super::nanos() - start
    }

    /// Turns for so long, saying nothing.
    pub fn idle(&mut self, span: Duration) {
        let until = super::nanos() + span.as_nanos() as u64;
        while super::nanos() < until {
            self.turn(Duration::from_millis(10), |_| {});
        }
    }

    /// Everybody says goodbye.
    pub fn leave(&mut self) {
        let now = self.clock.now();
        for &id in &self.ids {
            self.endpoint.close(now, id, CloseReason::Shutdown);
        }
        self.transmit(now);
    }

    fn take(&mut self, now: Now) {
        for index in 0..self.received.len() {
            let (route, datagrams) = self.received.take(index);
            let Some(ours) = route.to else { continue };
            for datagram in datagrams {
                self.datagrams_received += 1;
                let address = SocketAddr::from((ours, 1));
                if let Handled::Peer(id) =
                    self.endpoint
                        .handle_datagram(now, address, datagram, &mut self.reply)
                {
                    self.touched.push(id);
                }
            }
        }
    }

    fn transmit(&mut self, now: Now) {
        while let Some((_, from)) = self.endpoint.poll_transmit(now, self.outgoing.bytes()) {
            self.outgoing.push(self.server, Some(from.ip()));
            if self.outgoing.is_full() {
                self.flush();
            }
        }
        self.flush();
    }

    fn flush(&mut self) {
        if !self.outgoing.is_empty() {
            self.socket.send(&self.outgoing, &mut self.sent);
            self.outgoing.clear();
        }
    }
}

impl Talkers for Players {
    fn say(&mut self, player: usize, message: &[u8]) {
        let now = self.clock.now();
        match self.endpoint.send(now, self.ids[player], 0, message) {
            Ok(()) | Err(SendError::Full | SendError::Closed) => {}
            Err(error) => panic!("{error:?}"),
        }
    }

    fn turn(&mut self, wait: Duration, mut heard: impl FnMut(&[u8])) {
        let now = self.clock.now();
        // What was said since the last turn leaves before anybody sleeps.
        self.transmit(now);
        let due = self.endpoint.poll_timeout();
        let wait = due.map_or(wait, |at| wait.min(at.since(now.mono)));
        self.poll.poll(&mut self.events, Some(wait)).ok();
        let now = self.clock.now();
        for _ in 0..64 {
            if self.socket.receive(&mut self.received).is_err() {
                break;
            }
            self.take(now);
            if !self.received.may_have_left() {
                break;
            }
        }
        self.endpoint.handle_timeout(now);
        while let Some((id, event)) = self.endpoint.poll_event() {
            match event {
                Event::Authenticated => {}
                Event::Connected => self.connected += 1,
                Event::Closed(reason) => {
                    self.closed.push(reason);
                    self.endpoint.let_go(id);
                }
            }
        }
        for id in std::mem::take(&mut self.touched) {
            while let Some(message) = self.endpoint.poll_message(id) {
                heard(message.payload);
            }
        }
        self.transmit(now);
    }
}

/// The program's default.
const PROTOCOL_ID: u64 = 0x3174_6167_6564_6974;

/// 127.1.0.1 and those after it: all of 127/8 is loopback.
pub const FIRST: u32 = 0x7f01_0001;
