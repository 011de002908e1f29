//! What the acceptors of a listener share: each endpoint gets one, and a reload reaches all of them.

use std::net::SocketAddr;
use std::sync::mpsc::{Sender, channel};
use std::sync::{Arc, Mutex};

use tidegate_proto::yojimbo::netcode::{
    self, Handshake, Key, Roster, RosterParams, global_sequence_start,
};
use tidegate_proto::{Now, endpoint};
use tidegate_proto::{gaffer, rudp, yojimbo};

use super::params::{Queues, gaffer_params, handshake_params, listener_params, rudp_params, slots};
use super::reloadable_acceptor::{ProtocolAcceptor, ReloadableAcceptor, Rules, Saved, Update};
use crate::capture::Tap;
use crate::config::{self, FollowAddress, Protocol};
use crate::running_listener::Common;
use crate::token_history::{Past, TokenHistory};
use crate::tokens::random;

/// Makes a listener's endpoints, whose acceptors share the rules of sessions, keys and slots.
pub struct Acceptors {
    shared: Shared,
    peers_max: usize,
    started_unix: u64,
    /// Endpoints made so far.
    shards: u16,
    name: Arc<str>,
    tap: Tap,
    /// For recordings: the rules in force, and where the listener is.
    recorded: Arc<str>,
    bound: Arc<[SocketAddr]>,
    /// To the acceptors of the endpoints made so far.
    updates: Vec<Sender<Update>>,
}

enum Shared {
    Yojimbo {
        params: Arc<yojimbo::Params>,
        handshake: netcode::Params,
        roster: Roster,
        saved: Option<Saved>,
    },
    Gaffer {
        params: Arc<gaffer::Params>,
        secret: [u8; 16],
    },
    Rudp {
        params: rudp::Params,
        secret: [u8; 16],
    },
}

impl Acceptors {
    /// For a listener whose sockets are bound to these addresses. Takes over what an earlier process
    /// knew of its tokens.
    pub fn new(
        common: &Common,
        listener: &config::Listener,
        bound: &[SocketAddr],
    ) -> anyhow::Result<Self> {
        let now = common.clock.clone().now();
        let mut started_unix = now.unix_secs;
        let queues = Queues::of_listener(listener);
        let shared = match &listener.protocol {
            Protocol::Yojimbo(own) => {
                let (roster, saved, started) = open_roster(common, listener, now);
                started_unix = started;
                Shared::Yojimbo {
                    params: Arc::new(listener_params(listener, own, queues)),
                    handshake: handshake_params(listener, &own.netcode, bound),
                    roster,
                    saved,
                }
            }
            Protocol::Gaffer(own) => Shared::Gaffer {
                params: Arc::new(gaffer_params(
                    own,
                    &listener.rate,
                    listener.idle_timeout,
                    queues,
                )),
                secret: random()?,
            },
            Protocol::Rudp(own) => Shared::Rudp {
                params: rudp_params(own, listener.idle_timeout, queues),
                secret: random()?,
            },
        };
        Ok(Self {
            shared,
            peers_max: listener.max_peers,
            started_unix,
            shards: 0,
            name: listener.name.as_str().into(),
            tap: common.tap.clone(),
            recorded: listener.recorded.clone(),
            bound: bound.into(),
            updates: Vec::new(),
        })
    }

    /// An endpoint for one socket of one worker.
    pub fn endpoint(&mut self, listener: &config::Listener) -> anyhow::Result<endpoint::Endpoint> {
        let shard = self.shards;
        if shard >= SOCKETS_MAX {
            anyhow::bail!(
                "it has had {SOCKETS_MAX} sockets since it was started: more need a restart"
            );
        }
        self.shards += 1;
        let (sender, updates) = channel();
        self.updates.push(sender);
        let sequences = global_sequence_start(shard, self.started_unix);
        let acceptor = Box::new(ReloadableAcceptor {
            acceptor: self.shared.acceptor(sequences)?,
            used: self.shared.used_tokens(),
            updates,
            name: self.name.clone(),
            tap: self.tap.clone(),
            recorded: self.recorded.clone(),
            bound: self.bound.clone(),
        });
        let params = endpoint::Params {
            peers_max: self.peers_max,
            follow: match listener.follow_address_change {
                FollowAddress::Off => endpoint::Follow::Off,
                FollowAddress::Port => endpoint::Follow::Port,
            },
            ..endpoint::Params::default()
        };
        Ok(endpoint::Endpoint::new(acceptor, params))
    }

    /// Peers are let in by these rules from now on. Handshakes under way go on; keys that are no
    /// longer listed open no new ones. The protocol must be the one it was made for.
    pub fn update(
        &mut self,
        listener: &config::Listener,
        bound: &[SocketAddr],
    ) -> anyhow::Result<()> {
        let queues = Queues::of_listener(listener);
        let rules = match (&mut self.shared, &listener.protocol) {
            (
                Shared::Yojimbo {
                    params,
                    handshake,
                    roster,
                    ..
                },
                Protocol::Yojimbo(own),
            ) => {
                roster.set_slots(slots(listener));
                *params = Arc::new(listener_params(listener, own, queues));
                *handshake = handshake_params(listener, &own.netcode, bound);
                Rules::Yojimbo(params.clone(), Box::new(handshake.clone()))
            }
            (Shared::Gaffer { params, .. }, Protocol::Gaffer(own)) => {
                let idle = listener.idle_timeout;
                *params = Arc::new(gaffer_params(own, &listener.rate, idle, queues));
                Rules::Gaffer(params.clone())
            }
            (Shared::Rudp { params, .. }, Protocol::Rudp(own)) => {
                *params = rudp_params(own, listener.idle_timeout, queues);
                Rules::Rudp(*params)
            }
            _ => anyhow::bail!("a listener's protocol does not change"),
        };
        self.peers_max = listener.max_peers;
        self.recorded = listener.recorded.clone();
        let update = Update {
            rules,
            recorded: self.recorded.clone(),
        };
        // A socket that is closed lets nobody in.
        self.updates
            .retain(|sender| sender.send(update.clone()).is_ok());
        Ok(())
    }

    /// The listener and its backend as a file, as they were when it last changed.
    pub fn recorded(&self) -> &Arc<str> {
        &self.recorded
    }
}

impl Shared {
    /// For one endpoint, whose handshakes number their packets from `sequences` on.
    fn acceptor(&self, sequences: u64) -> anyhow::Result<ProtocolAcceptor> {
        Ok(match self {
            Self::Yojimbo {
                params,
                handshake,
                roster,
                saved: _,
            } => {
                let challenge_key = Key::new(random()?);
                let handshake =
                    Handshake::new(handshake.clone(), roster.clone(), challenge_key, sequences);
                let seed = u64::from_le_bytes(random()?);
                let acceptor = yojimbo::Acceptor::new(handshake, params.clone(), seed);
                ProtocolAcceptor::Yojimbo(Box::new(acceptor))
            }
            // The probe's secret is shared: the kernel may send a peer's datagrams to another
            // worker once a socket is added or lost.
            Self::Gaffer { params, secret } => {
                ProtocolAcceptor::Gaffer(gaffer::Acceptor::new(params.clone(), *secret))
            }
            Self::Rudp { params, secret } => {
                ProtocolAcceptor::Rudp(rudp::Acceptor::new(*params, *secret))
            }
        })
    }

    /// Where used tokens come from, and where they are written down, if they are.
    fn used_tokens(&self) -> Option<(Roster, Saved)> {
        match self {
            Self::Yojimbo { roster, saved, .. } => Some((roster.clone(), saved.clone()?)),
            Self::Gaffer { .. } | Self::Rudp { .. } => None,
        }
    }
}

/// netcode's slots and used tokens, with what an earlier process knew of those, where there is a
/// directory to keep it in; and since when they are known, in unix seconds.
fn open_roster(
    common: &Common,
    listener: &config::Listener,
    now: Now,
) -> (Roster, Option<Saved>, u64) {
    let (saved, past) = match &common.state {
        Some(state) => {
            let board = common.board.clone();
            let (history, past) = TokenHistory::open(state, &listener.name, now, board);
            (Some(Saved::from(Mutex::new(history))), past)
        }
        None => (None, Past::unknown(now.unix_secs)),
    };
    let params = RosterParams {
        slots: slots(listener),
        tells_used: saved.is_some(),
        ..RosterParams::default()
    };
    let roster = Roster::new(params, past.since);
    roster.restore(&past.used, now);
    (roster, saved, past.started)
}

/// Each endpoint draws netcode's sequence numbers from a range of its own, of which there are so
/// many ([`global_sequence_start`]); two that shared one would use a nonce twice.
pub const SOCKETS_MAX: u16 = 512;
