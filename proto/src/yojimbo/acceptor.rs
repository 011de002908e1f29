//! Accepts peers: netcode's handshake, and a session for each client that passes it.

use std::net::SocketAddr;
use std::sync::Arc;

use super::netcode::{Handshake, Outcome};
use super::params::Params;
use super::session::Session;
use crate::session::{Reject, Stranger, StrangerClass, Verdict};
use crate::time::{Deadline, Now};

/// Judges the strangers of one endpoint of a yojimbo listener.
pub struct Acceptor {
    handshake: Handshake,
    params: Arc<Params>,
    /// Seed of the next session; each has its own.
    seed: u64,
}

impl Acceptor {
    /// Lets in whoever `handshake` does. `seed` is random, so that nobody can tell which packet
    /// numbers a session will skip.
    pub fn new(handshake: Handshake, params: Arc<Params>, seed: u64) -> Self {
        Self {
            handshake,
            params,
            seed,
        }
    }

    /// Sessions from now on follow these rules.
    pub fn set_params(&mut self, params: Arc<Params>) {
        self.params = params;
    }

    /// Takes new keys and addresses; see [`Handshake::set_params`].
    pub fn handshake(&mut self) -> &mut Handshake {
        &mut self.handshake
    }

    fn judge(&mut self, now: Now, stranger: Stranger<'_>, refusing: Option<Reject>) -> Verdict {
        match self.handshake.handle(now, stranger, refusing) {
            Err(reject) => Verdict::Reject(reject),
            Ok(Outcome::Challenged) => Verdict::Reply,
            Ok(Outcome::Denied(reject)) => Verdict::Deny(reject),
            Ok(Outcome::Seated(seated)) => {
                self.seed = self.seed.wrapping_add(1);
                let session = Session::seated(now, self.params.clone(), *seated, self.seed);
                Verdict::Accept(Box::new(session))
            }
        }
    }
}

impl crate::session::Acceptor for Acceptor {
    fn classify(
        &mut self,
        now: Now,
        from: SocketAddr,
        datagram: &[u8],
    ) -> Result<StrangerClass, Reject> {
        self.handshake.classify(now, from, datagram)
    }

    fn handle_unknown(&mut self, now: Now, stranger: Stranger<'_>) -> Verdict {
        self.judge(now, stranger, None)
    }

    fn handle_refused(&mut self, now: Now, stranger: Stranger<'_>, why: Reject) -> Verdict {
        self.judge(now, stranger, Some(why))
    }

    fn handle_timeout(&mut self, now: Now) {
        self.handshake.handle_timeout(now);
    }

    fn poll_timeout(&self) -> Option<Deadline> {
        self.handshake.poll_timeout()
    }

    fn pending(&self) -> usize {
        self.handshake.pending()
    }
}
