//! A peer that we dial: netcode's client until the server challenges it, a session from then on. Where another server may
//! be tried after this one, it is a client until it is seated: what was said to one server is not for the next.
//!
//! ```text
//!   Dialing ──challenged by the last server, or seated──▶ Talking (all calls go to the session)
//!      └── denied, never answered, given up ──▶ Over (goodbyes, where it was given up)
//! ```

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use super::netcode::{Client, ClientState, ConnectToken, DISCONNECT_REPEATS};
use super::params::Params;
use super::session::Session;
use crate::session::{
    Allowance, Channel, CloseReason, Event, Held, Identity, Message, Reject, SendError,
};
use crate::stats::Stats;
use crate::time::{Deadline, Now};

/// The dialling end of a session.
pub struct Connector {
    params: Arc<Params>,
    seed: u64,
    /// Where the client was last, once it is none any more.
    server: SocketAddr,
    stage: Stage,
    event: Option<Event>,
}

enum Stage {
    /// The handshake is under way.
    Dialing(Box<Client>),
    Talking(Box<Session>),
    /// The handshake ended without a seat.
    Over(Option<Farewell>),
}

/// Goodbyes that a client has still to say.
struct Farewell {
    client: Box<Client>,
    goodbyes: usize,
}

impl Connector {
    /// Dials the first server of the token, for an owner that gives a session one address. The next
    /// one needs another token, for the reason given at [`Connector::roaming`].
    pub fn new(now: Now, params: Arc<Params>, mut token: ConnectToken, seed: u64) -> Self {
        token.servers.truncate(1);
        Self::roaming(now, params, token, seed)
    }

    /// Dials the token's servers one after the other until one takes us. The owner sends each
    /// datagram to [`Connector::server`] as it is then, and hands in only what came from there.
    ///
    /// One session for all of them, because they share the token's keys: a second one would begin
    /// its sequences, which are nonces, at zero again.
    pub fn roaming(now: Now, params: Arc<Params>, token: ConnectToken, seed: u64) -> Self {
        let server = token.servers[0];
        Self {
            params,
            seed,
            server,
            stage: Stage::Dialing(Box::new(Client::new(now, token))),
            event: None,
        }
    }

    /// The server being dialled, or talked to.
    pub fn server(&self) -> SocketAddr {
        match &self.stage {
            Stage::Dialing(client) => client.server(),
            Stage::Talking(_) | Stage::Over(_) => self.server,
        }
    }

    /// What the client's state means for the owner.
    fn follow_client(&mut self, now: Now) {
        let Stage::Dialing(client) = &self.stage else {
            return;
        };
        let may_talk = match client.state() {
            ClientState::Connected => true,
            ClientState::Responding => client.is_at_last_server(),
            _ => false,
        };
        if may_talk {
            self.talk(now);
        } else if let Some(failure) = client.state().failure() {
            self.give_up(failure, 0);
        }
    }

    /// Ends the dialling: the client, if there still was one.
    fn take_client(&mut self) -> Option<Box<Client>> {
        match std::mem::replace(&mut self.stage, Stage::Over(None)) {
            Stage::Dialing(client) => {
                self.server = client.server();
                Some(client)
            }
            stage => {
                self.stage = stage;
                None
            }
        }
    }

    fn talk(&mut self, now: Now) {
        let Some(client) = self.take_client() else {
            return;
        };
        let (params, seed) = (self.params.clone(), self.seed);
        let session = match client.state() {
            ClientState::Responding => Some(Session::joining(now, params, *client, seed)),
            _ => (client.into_link()).map(|link| Session::connected(now, params, link, seed)),
        };
        if let Some(session) = session {
            self.stage = Stage::Talking(Box::new(session));
        }
    }

    fn give_up(&mut self, reason: CloseReason, goodbyes: usize) {
        if let Some(client) = self.take_client() {
            self.stage = Stage::Over(Some(Farewell { client, goodbyes }));
            self.event = Some(Event::Closed(reason));
        }
    }

    fn session(&self) -> Option<&Session> {
        match &self.stage {
            Stage::Talking(session) => Some(session),
            Stage::Dialing(_) | Stage::Over(_) => None,
        }
    }

    fn session_mut(&mut self) -> Option<&mut Session> {
        match &mut self.stage {
            Stage::Talking(session) => Some(session),
            Stage::Dialing(_) | Stage::Over(_) => None,
        }
    }
}

impl crate::session::Session for Connector {
    fn handle_datagram(&mut self, now: Now, datagram: &mut [u8]) -> Result<(), Reject> {
        let outcome = match &mut self.stage {
            Stage::Talking(session) => return session.handle_datagram(now, datagram),
            Stage::Dialing(client) => {
                let server = client.server();
                client.handle_datagram(now, server, datagram)
            }
            Stage::Over(_) => Err(Reject::UnknownPeer),
        };
        self.follow_client(now);
        outcome
    }

    fn handle_timeout(&mut self, now: Now) {
        match &mut self.stage {
            Stage::Talking(session) => return session.handle_timeout(now),
            Stage::Dialing(client) => client.handle_timeout(now),
            Stage::Over(_) => {}
        }
        self.follow_client(now);
    }

    fn admit(&mut self, _now: Now) {}

    fn send(&mut self, now: Now, channel: Channel, payload: &[u8]) -> Result<(), SendError> {
        self.session_mut()
            .map_or(Err(SendError::Closed), |session| {
                session.send(now, channel, payload)
            })
    }

    fn finish(&mut self, now: Now, reason: CloseReason, linger: Duration) {
        match self.session_mut() {
            Some(session) => session.finish(now, reason, linger),
            None => self.give_up(reason, DISCONNECT_REPEATS),
        }
    }

    fn close(&mut self, now: Now, reason: CloseReason) {
        match self.session_mut() {
            Some(session) => session.close(now, reason),
            None => self.give_up(reason, DISCONNECT_REPEATS),
        }
    }

    fn poll_transmit(&mut self, now: Now, out: &mut Vec<u8>) -> bool {
        match &mut self.stage {
            Stage::Talking(session) => session.poll_transmit(now, out),
            Stage::Dialing(client) => client.poll_transmit(now, out),
            Stage::Over(Some(Farewell { client, goodbyes })) if *goodbyes > 0 => {
                *goodbyes -= 1;
                client.disconnect(now, out);
                true
            }
            Stage::Over(_) => false,
        }
    }

    fn poll_event(&mut self) -> Option<Event> {
        self.event
            .take()
            .or_else(|| self.session_mut()?.poll_event())
    }

    fn poll_message(&mut self) -> Option<Message<'_>> {
        self.session_mut()?.poll_message()
    }

    fn inbox_bytes(&self) -> usize {
        self.session().map_or(0, Session::inbox_bytes)
    }

    fn held(&self) -> Held {
        self.session().map_or_else(Held::default, Session::held)
    }

    fn set_allowance(&mut self, allowance: Allowance) {
        if let Some(session) = self.session_mut() {
            session.set_allowance(allowance);
        }
    }

    fn release(&mut self) {
        if let Some(session) = self.session_mut() {
            session.release();
        }
    }

    fn confirm_written(&mut self, now: Now) {
        if let Some(session) = self.session_mut() {
            session.confirm_written(now);
        }
    }

    fn has_room(&self) -> bool {
        self.session().is_some_and(Session::has_room)
    }

    fn piece_bytes(&self) -> usize {
        self.session().map_or(usize::MAX, Session::piece_bytes)
    }

    fn poll_timeout(&self) -> Option<Deadline> {
        match &self.stage {
            Stage::Talking(session) => session.poll_timeout(),
            Stage::Dialing(client) => client.poll_timeout(),
            Stage::Over(_) => None,
        }
    }

    fn is_urgent(&self) -> bool {
        self.session().is_some_and(Session::is_urgent)
    }

    fn identity(&self) -> Identity<'_> {
        Identity::default()
    }

    fn stats(&self) -> Stats {
        self.session().map_or_else(Stats::default, Session::stats)
    }
}
