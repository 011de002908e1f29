//! A client's session from its answer to the challenge on: what it says leaves behind that, before its server says that
//! it is in.
//!
//! Rule: docs/wire/netcode.md, section 10.

use std::sync::Arc;

use super::{Phase, Session};
use crate::session::Event;
use crate::stall::AckStall;
use crate::time::Now;
use crate::yojimbo::netcode::{Client, ClientState};
use crate::yojimbo::params::Params;

impl Session {
    /// A client's session that answers its server's challenge: what it says meanwhile saves a round trip.
    pub fn joining(now: Now, params: Arc<Params>, client: Client, seed: u64) -> Self {
        let (handshake, link) = client.into_parts();
        Self {
            joining: Some(Box::new(handshake)),
            stall: AckStall::of_server(now.mono),
            ..Self::new(now, params, link, Phase::Open, seed)
        }
    }

    /// What the handshake's state means.
    pub(super) fn follow_handshake(&mut self, now: Now) {
        let Some(handshake) = &self.joining else {
            return;
        };
        if handshake.state() == ClientState::Connected {
            self.on_let_in(now);
        } else if let Some(failure) = handshake.state().failure() {
            self.joining = None;
            self.end_with(failure, false);
        }
    }

    /// The server says that a client is in, or shows it.
    pub(super) fn on_let_in(&mut self, now: Now) {
        let Some(handshake) = self.joining.take() else {
            return;
        };
        if handshake.is_second_heard(now) {
            self.outgoing.sender.start_over(now.mono);
        }
        self.stall = AckStall::of_server(now.mono);
        if let Phase::Finishing { since, .. } = &mut self.phase {
            *since = now.mono;
        }
        self.events.push_back(Event::Connected);
    }

    /// Its answer may have got lost, and with it what was said behind it. Until that is known, nothing more is said.
    pub(super) fn is_held_up(&self) -> bool {
        let joining = self.joining.as_ref();
        joining.is_some_and(|handshake| handshake.is_overdue())
    }
}
