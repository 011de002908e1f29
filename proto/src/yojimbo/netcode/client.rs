//! A client's side of the handshake: from a connect token to a connected link.
//!
//! Rule: docs/wire/netcode.md, section 10.
//!
//! ```text
//!   requesting (1) ──challenge──▶ responding (2) ──keep-alive──▶ connected (3): into_link()
//!        │  ▲                          │
//!        │  └── the next server ───────┤ denied, silent
//!        ▼                             ▼ and no server left
//!   denied (-1), request timed out (-2), response timed out (-3), token expired (-6)
//! ```
//!
//! [`Client`] has the link with it until that is connected. A session that begins with the answer to the challenge has
//! the link itself, and lends it to a [`ClientHandshake`].

use std::net::SocketAddr;
use std::time::Duration;

use super::link::{Link, LinkParams, SEND_INTERVAL};
use super::packet::{Packet, Role, proof_bytes};
use super::token::ConnectToken;
use super::wire::{CHALLENGE_BYTES, Kind, is_same_address};
use crate::session::{CloseReason, Reject};
use crate::time::{Deadline, Now, Timestamp, Wake};

/// Where a client is on its way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ClientState {
    /// Presents its token, at once and then ten times a second.
    Requesting,
    /// Sends the challenge back, at once and then ten times a second.
    Responding,
    /// Seated; the rest is the link's.
    Connected,
    /// Every server denied the connection, or the last one did.
    Denied,
    /// The last server never answered the request.
    RequestTimedOut,
    /// The last server never answered the response.
    ResponseTimedOut,
    /// The token ran out on the way.
    TokenExpired,
}

impl ClientState {
    /// The state's number in the standard.
    pub const fn number(self) -> i8 {
        match self {
            Self::Requesting => 1,
            Self::Responding => 2,
            Self::Connected => 3,
            Self::Denied => -1,
            Self::RequestTimedOut => -2,
            Self::ResponseTimedOut => -3,
            Self::TokenExpired => -6,
        }
    }

    /// Why it is not connected and never will be; `None` while it is, or may be.
    pub const fn failure(self) -> Option<CloseReason> {
        match self {
            Self::Requesting | Self::Responding | Self::Connected => None,
            Self::Denied => Some(CloseReason::Denied),
            Self::TokenExpired => Some(CloseReason::TokenExpired),
            Self::RequestTimedOut | Self::ResponseTimedOut => Some(CloseReason::ConnectTimeout),
        }
    }

    /// Whether it still sends and waits.
    pub const fn is_connecting(self) -> bool {
        matches!(self, Self::Requesting | Self::Responding)
    }
}

/// A client that connects, and the link that it will have.
#[derive(Debug)]
pub struct Client {
    handshake: ClientHandshake,
    link: Link,
}

/// A client's way in.
#[derive(Debug)]
pub struct ClientHandshake {
    token: Box<ConnectToken>,
    state: ClientState,
    /// Index of the server being tried.
    server: usize,
    /// When that try began.
    since: Timestamp,
    last_receive: Timestamp,
    /// `None` until this state's first packet.
    last_send: Option<Timestamp>,
    /// The current server denied; acted on at the next timeout, which is due at once.
    is_denied: bool,
    challenge: Option<Box<Challenge>>,
    /// How long after the first request it came: a round trip, or more where that got lost.
    round_trip: Duration,
    /// When it was first answered.
    answered: Option<Timestamp>,
    /// Slot and slots, once connected.
    seat: (u32, u32),
}

#[derive(Debug)]
struct Challenge {
    sequence: u64,
    token: [u8; CHALLENGE_BYTES],
}

impl Client {
    /// Begins to connect to the token's first server.
    pub fn new(now: Now, token: ConnectToken) -> Self {
        let params = LinkParams {
            role: Role::Client,
            protocol_id: token.protocol_id,
            receive_key: token.server_to_client.clone(),
            send_key: token.client_to_server.clone(),
            timeout: timeout(&token),
        };
        let handshake = ClientHandshake {
            token: Box::new(token),
            state: ClientState::Requesting,
            server: 0,
            since: now.mono,
            last_receive: now.mono,
            last_send: None,
            is_denied: false,
            challenge: None,
            round_trip: Duration::ZERO,
            answered: None,
            seat: (0, 0),
        };
        Self {
            handshake,
            link: Link::dialing(now, params),
        }
    }

    /// Takes a datagram. Only the server being tried is listened to.
    pub fn handle_datagram(
        &mut self,
        now: Now,
        from: SocketAddr,
        datagram: &mut [u8],
    ) -> Result<(), Reject> {
        self.handshake
            .handle_datagram(now, &mut self.link, from, datagram)
    }

    /// Appends the handshake packet that is due, if one is.
    pub fn poll_transmit(&mut self, now: Now, out: &mut Vec<u8>) -> bool {
        self.handshake.poll_transmit(now, &mut self.link, out)
    }

    /// Gives up on what ran out of time: the server, or the token.
    pub fn handle_timeout(&mut self, now: Now) {
        self.handshake.handle_timeout(now, &mut self.link);
    }

    /// When `handle_timeout` or `poll_transmit` has something to do; `None` once it is decided.
    pub fn poll_timeout(&self) -> Option<Deadline> {
        self.handshake.poll_timeout()
    }

    /// Appends one goodbye, for a client that is not wanted any more; see
    /// [`super::DISCONNECT_REPEATS`].
    pub fn disconnect(&mut self, now: Now, out: &mut Vec<u8>) {
        self.link.disconnect(now, out);
    }

    /// Where the client is on its way.
    pub fn state(&self) -> ClientState {
        self.handshake.state
    }

    /// The server being tried, or connected to: where datagrams go.
    pub fn server(&self) -> SocketAddr {
        self.handshake.server()
    }

    /// Our slot, once connected.
    pub fn client_index(&self) -> u32 {
        self.handshake.seat.0
    }

    /// Slots of the server, once connected.
    pub fn max_clients(&self) -> u32 {
        self.handshake.seat.1
    }

    /// The connected pipe; `None` in any other state. Its timers go on from the keep-alive that connected us.
    pub fn into_link(self) -> Option<Link> {
        (self.state() == ClientState::Connected).then_some(self.link)
    }

    /// Whether no other server of its token is left to be tried: this one lets it in, or nobody does.
    pub(in crate::yojimbo) fn is_at_last_server(&self) -> bool {
        self.handshake.is_at_last_server()
    }

    /// The way in and the link apart.
    pub(in crate::yojimbo) fn into_parts(self) -> (ClientHandshake, Link) {
        (self.handshake, self.link)
    }
}

impl ClientHandshake {
    /// Takes a datagram. Only the server being tried is listened to.
    pub fn handle_datagram(
        &mut self,
        now: Now,
        link: &mut Link,
        from: SocketAddr,
        datagram: &mut [u8],
    ) -> Result<(), Reject> {
        if !is_same_address(&from, &self.server()) {
            return Err(Reject::UnknownPeer);
        }
        if !self.state.is_connecting() {
            return Err(Reject::Unexpected);
        }
        match (self.state, link.open_quietly(datagram)?) {
            (_, Packet::Denied) => self.is_denied = true,
            (ClientState::Requesting, Packet::Challenge(proof)) => {
                self.challenge = Some(Box::new(Challenge {
                    sequence: proof.sequence,
                    token: *proof.token,
                }));
                self.state = ClientState::Responding;
                self.round_trip = now.mono.since(self.since);
                // At once, as the first request: ten a second is for repeats.
                self.last_send = None;
            }
            (
                ClientState::Responding,
                Packet::KeepAlive {
                    client_index,
                    max_clients,
                },
            ) => {
                self.seat = (client_index, max_clients);
                self.state = ClientState::Connected;
            }
            // A second challenge, or a packet that belongs to a connection we do not have yet.
            (_, _) => return Err(Reject::Unexpected),
        }
        self.last_receive = now.mono;
        link.hear(now);
        Ok(())
    }

    /// Appends the handshake packet that is due, if one is.
    pub fn poll_transmit(&mut self, now: Now, link: &mut Link, out: &mut Vec<u8>) -> bool {
        if !self.state.is_connecting() || self.next_send().is_some_and(|at| now.mono < at) {
            return false;
        }
        match &self.challenge {
            None => {
                // A request is not sealed, and still uses one of our sequences up.
                self.token.emit_request(out);
                link.skip_sequence(now);
            }
            Some(challenge) => {
                let plain = proof_bytes(challenge.sequence, &challenge.token);
                link.send(now, Kind::Response, &plain, out);
                self.answered.get_or_insert(now.mono);
            }
        }
        self.last_send = Some(now.mono);
        true
    }

    /// Gives up on what ran out of time: the server, or the token.
    pub fn handle_timeout(&mut self, now: Now, link: &mut Link) {
        if !self.state.is_connecting() {
            return;
        }
        if self.expires_at().is_some_and(|at| now.mono >= at) {
            self.state = ClientState::TokenExpired;
        } else if self.is_denied {
            self.try_next(now, link, ClientState::Denied);
        } else if self.gives_up_at().is_some_and(|at| now.mono >= at) {
            let failure = match self.challenge {
                None => ClientState::RequestTimedOut,
                Some(_) => ClientState::ResponseTimedOut,
            };
            self.try_next(now, link, failure);
        }
    }

    /// Whether its first answer may have got lost, and with that what was said behind it: there was time for a
    /// reply, and the answer went again.
    pub(in crate::yojimbo) fn is_overdue(&self) -> bool {
        let (Some(first), Some(last)) = (self.answered, self.last_send) else {
            return false;
        };
        last > first && last >= first + self.round_trip
    }

    /// Whether what comes now may be the reply to its second answer, and not to its first.
    pub(in crate::yojimbo) fn is_second_heard(&self, now: Now) -> bool {
        // Not each round trip takes as long as the one that was measured.
        let least = self.round_trip - (self.round_trip / 4).min(SEND_INTERVAL / 4);
        let second = self.answered.map(|first| first + SEND_INTERVAL);
        second.is_some_and(|second| now.mono >= second + least)
    }

    /// When `handle_timeout` or `poll_transmit` has something to do; `None` once it is decided.
    pub fn poll_timeout(&self) -> Option<Deadline> {
        if !self.state.is_connecting() {
            return None;
        }
        let next = if self.is_denied {
            Some(self.last_receive)
        } else {
            Some(self.next_send().unwrap_or(self.since))
        };
        let clocks = [next, self.expires_at(), self.gives_up_at()];
        Deadline::earliest(clocks.map(|at| Deadline::of(at, Wake::Handshake)))
    }

    /// Where it is on its way.
    pub fn state(&self) -> ClientState {
        self.state
    }

    /// The server being tried, or connected to: where datagrams go.
    pub fn server(&self) -> SocketAddr {
        self.token.servers[self.server]
    }

    fn is_at_last_server(&self) -> bool {
        self.server + 1 >= self.token.servers.len()
    }

    fn try_next(&mut self, now: Now, link: &mut Link, failure: ClientState) {
        if self.is_at_last_server() {
            self.state = failure;
            return;
        }
        self.server += 1;
        self.state = ClientState::Requesting;
        self.since = now.mono;
        self.last_receive = now.mono;
        self.last_send = None;
        self.is_denied = false;
        (self.challenge, self.answered) = (None, None);
        link.redial(now);
    }

    fn next_send(&self) -> Option<Timestamp> {
        self.last_send.map(|at| at + SEND_INTERVAL)
    }

    /// The token's lifetime, counted from the start of each try, as the reference does: our clock
    /// and the token service's need not agree.
    fn expires_at(&self) -> Option<Timestamp> {
        let lifetime = self.token.expire.checked_sub(self.token.create)?;
        Some(self.since + Duration::from_secs(lifetime))
    }

    /// Just after the timeout, not at it.
    fn gives_up_at(&self) -> Option<Timestamp> {
        let span = timeout(&self.token)?;
        Some(self.last_receive + span + Duration::from_nanos(1))
    }
}

fn timeout(token: &ConnectToken) -> Option<Duration> {
    let seconds = u64::try_from(token.timeout_seconds).ok()?;
    (seconds > 0).then(|| Duration::from_secs(seconds))
}
