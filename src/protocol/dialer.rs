//! How the sessions begin that we dial.

use std::sync::Arc;

use tidegate_proto::yojimbo::netcode;
use tidegate_proto::{Acceptor, Now, Reject, Session, Stranger, Verdict, gaffer, rudp, yojimbo};

use super::params::{Queues, Side, gaffer_params, rudp_params, yojimbo_params};
use crate::config::{self, Protocol};
use crate::tokens::random;

/// How a tunnel begins its sessions.
pub enum Dialer {
    /// Each needs a token of its own.
    Yojimbo(Arc<yojimbo::Params>),
    /// Needs nothing but the rules.
    Gaffer(Box<gaffer::Params>),
    /// Needs nothing but the rules either.
    Rudp(rudp::Params),
}

impl Dialer {
    /// See [`Protocol::tries_longer_datagrams`].
    pub const fn tries_longer_datagrams(&self) -> bool {
        matches!(self, Self::Yojimbo(_))
    }

    /// As configured.
    pub fn new(tunnel: &config::Tunnel) -> Self {
        let queues = Queues::of_tunnel(tunnel);
        match &tunnel.protocol {
            Protocol::Yojimbo(own) => {
                let params = yojimbo_params(own, &tunnel.rate, queues, Side::Tunnel);
                Self::Yojimbo(Arc::new(params))
            }
            Protocol::Gaffer(own) => {
                let params = gaffer_params(own, &tunnel.rate, tunnel.idle_timeout, queues);
                Self::Gaffer(Box::new(params))
            }
            Protocol::Rudp(own) => Self::Rudp(rudp_params(own, tunnel.idle_timeout, queues)),
        }
    }

    /// A session that begins now. `None` when it needs a token and got none.
    pub fn dial(
        &self,
        now: Now,
        token: Option<netcode::ConnectToken>,
    ) -> anyhow::Result<Option<Box<dyn Session>>> {
        let seed = u64::from_le_bytes(random()?);
        Ok(match (self, token) {
            (Self::Yojimbo(params), Some(token)) => Some(Box::new(yojimbo::Connector::new(
                now,
                params.clone(),
                token,
                seed,
            ))),
            (Self::Yojimbo(_), None) => None,
            (Self::Gaffer(params), _) => Some(Box::new(gaffer::Session::dial(now, params, seed))),
            (Self::Rudp(params), _) => Some(Box::new(rudp::Session::dial(now, *params))),
        })
    }
}

/// The acceptor of an endpoint that only dials.
pub struct RejectAll;

impl Acceptor for RejectAll {
    fn handle_unknown(&mut self, _now: Now, _stranger: Stranger<'_>) -> Verdict {
        Verdict::Reject(Reject::UnknownPeer)
    }
}
