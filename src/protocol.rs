//! From a listener's or tunnel's configuration to the protocol that speaks there. The only place that
//! knows protocols by name.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};

use tidegate_proto::endpoint;
use tidegate_proto::yojimbo::netcode::{
    self, Handshake, Key, Roster, RosterParams, TimeoutPolicy, global_sequence_start,
};
use tidegate_proto::{
    Acceptor, Deadline, Now, Origin, Reject, Session, Stranger, Verdict, gaffer, rudp, sender,
    yojimbo,
};

use crate::capture::{Joining, Tap};
use crate::config::{
    self, FollowAddress, GafferMode, OnMissing, Protocol, PublicAddresses, Rate, RateProfile,
};
use crate::framing::{FrameCodec, Framing};
use crate::tokens::random;

/// What all workers of a listener share to let peers in.
pub struct Door {
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
    /// Ways to the doorkeepers of the endpoints made so far.
    keepers: Vec<Sender<News>>,
}

enum Shared {
    Yojimbo {
        params: Arc<yojimbo::Params>,
        handshake: netcode::Params,
        roster: Roster,
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

impl Door {
    /// For a listener whose sockets are bound to these addresses.
    pub fn new(
        listener: &config::Listener,
        bound: &[SocketAddr],
        now: Now,
        tap: Tap,
    ) -> anyhow::Result<Self> {
        let queues = Queues {
            inbox: listener.backend.queue_to_backend,
            outbox: listener.backend.queue_to_peer,
        };
        let shared = match &listener.protocol {
            Protocol::Yojimbo(own) => {
                let slots = u32::try_from(listener.max_peers).unwrap_or(u32::MAX);
                let roster = RosterParams {
                    slots,
                    ..RosterParams::default()
                };
                let mut params = yojimbo_params(own, &listener.rate, queues);
                params.ack = listener.ack;
                Shared::Yojimbo {
                    params: Arc::new(params),
                    handshake: handshake_params(listener, &own.netcode, bound, slots),
                    roster: Roster::new(roster, now.unix_secs),
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
            started_unix: now.unix_secs,
            shards: 0,
            name: listener.name.as_str().into(),
            tap,
            recorded: listener.recorded.clone(),
            bound: bound.into(),
            keepers: Vec::new(),
        })
    }

    /// An endpoint for one socket of one worker.
    pub fn endpoint(&mut self, listener: &config::Listener) -> anyhow::Result<endpoint::Endpoint> {
        let shard = self.shards;
        if shard >= SHARDS_MAX {
            anyhow::bail!(
                "it has had {SHARDS_MAX} sockets since it was started: more need a restart"
            );
        }
        self.shards += 1;
        let (keeper, news) = channel();
        self.keepers.push(keeper);
        let acceptor = match &self.shared {
            Shared::Yojimbo {
                params,
                handshake,
                roster,
            } => {
                let handshake = Handshake::new(
                    handshake.clone(),
                    roster.clone(),
                    Key::new(random()?),
                    global_sequence_start(shard, self.started_unix),
                );
                let seed = u64::from_le_bytes(random()?);
                Keeper::Yojimbo(Box::new(yojimbo::Acceptor::new(
                    handshake,
                    params.clone(),
                    seed,
                )))
            }
            // The probe's secret is shared: the kernel may send a peer's datagrams to another
            // worker once a socket is added or lost.
            Shared::Gaffer { params, secret } => {
                Keeper::Gaffer(gaffer::Acceptor::new(params.clone(), *secret))
            }
            Shared::Rudp { params, secret } => Keeper::Rudp(rudp::Acceptor::new(*params, *secret)),
        };
        let acceptor = Box::new(Doorkeeper {
            keeper: acceptor,
            news,
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
}

impl Door {
    /// Peers are let in by these rules from now on. Handshakes under way go on; keys that are no
    /// longer listed open no new ones. The protocol must be the one it was made for.
    pub fn update(
        &mut self,
        listener: &config::Listener,
        bound: &[SocketAddr],
    ) -> anyhow::Result<()> {
        let queues = Queues {
            inbox: listener.backend.queue_to_backend,
            outbox: listener.backend.queue_to_peer,
        };
        match (&mut self.shared, &listener.protocol) {
            (
                Shared::Yojimbo {
                    params, handshake, ..
                },
                Protocol::Yojimbo(own),
            ) => {
                let mut new = yojimbo_params(own, &listener.rate, queues);
                new.ack = listener.ack;
                *params = Arc::new(new);
                let slots = u32::try_from(listener.max_peers).unwrap_or(u32::MAX);
                *handshake = handshake_params(listener, &own.netcode, bound, slots);
                // A socket that is closed lets nobody in.
                self.keepers.retain(|keeper| {
                    let news = News::Yojimbo(params.clone(), Box::new(handshake.clone()));
                    keeper.send(news).is_ok()
                });
            }
            (Shared::Gaffer { params, secret }, Protocol::Gaffer(own)) => {
                let idle = listener.idle_timeout;
                *params = Arc::new(gaffer_params(own, &listener.rate, idle, queues));
                self.keepers.retain(|keeper| {
                    let next = gaffer::Acceptor::new(params.clone(), *secret);
                    keeper.send(News::Gaffer(next)).is_ok()
                });
            }
            (Shared::Rudp { params, secret }, Protocol::Rudp(own)) => {
                *params = rudp_params(own, listener.idle_timeout, queues);
                self.keepers.retain(|keeper| {
                    let next = rudp::Acceptor::new(*params, *secret);
                    keeper.send(News::Rudp(next)).is_ok()
                });
            }
            _ => anyhow::bail!("a listener's protocol does not change"),
        }
        self.recorded = listener.recorded.clone();
        for keeper in &self.keepers {
            keeper.send(News::Rules(self.recorded.clone())).ok();
        }
        Ok(())
    }
}

/// Each endpoint draws netcode's sequence numbers from a range of its own, of which there are so
/// many ([`global_sequence_start`]); two that shared one would use a nonce twice.
const SHARDS_MAX: u16 = 512;

/// What changed for a doorkeeper.
enum News {
    Yojimbo(Arc<yojimbo::Params>, Box<netcode::Params>),
    Gaffer(gaffer::Acceptor),
    Rudp(rudp::Acceptor),
    /// As a recording has them.
    Rules(Arc<str>),
}

/// Judges strangers, and looks for news whenever one knocks: nobody else needs to interrupt it.
struct Doorkeeper {
    keeper: Keeper,
    news: Receiver<News>,
    name: Arc<str>,
    tap: Tap,
    recorded: Arc<str>,
    bound: Arc<[SocketAddr]>,
}

enum Keeper {
    Yojimbo(Box<yojimbo::Acceptor>),
    Gaffer(gaffer::Acceptor),
    Rudp(rudp::Acceptor),
}

impl Doorkeeper {
    fn informed(&mut self) -> &mut dyn Acceptor {
        while let Ok(news) = self.news.try_recv() {
            match (&mut self.keeper, news) {
                (Keeper::Yojimbo(keeper), News::Yojimbo(params, handshake)) => {
                    keeper.set_params(params);
                    keeper.handshake().set_params(*handshake);
                }
                (Keeper::Gaffer(keeper), News::Gaffer(next)) => *keeper = next,
                (Keeper::Rudp(keeper), News::Rudp(next)) => *keeper = next,
                (_, News::Rules(rules)) => self.recorded = rules,
                // A door has one protocol.
                (_, News::Yojimbo(..) | News::Gaffer(_) | News::Rudp(_)) => {}
            }
        }
        match &mut self.keeper {
            Keeper::Yojimbo(keeper) => &mut **keeper,
            Keeper::Gaffer(keeper) => keeper,
            Keeper::Rudp(keeper) => keeper,
        }
    }

    fn keeper(&self) -> &dyn Acceptor {
        match &self.keeper {
            Keeper::Yojimbo(keeper) => &**keeper,
            Keeper::Gaffer(keeper) => keeper,
            Keeper::Rudp(keeper) => keeper,
        }
    }
}

impl Doorkeeper {
    /// As its protocol judges, with a recording around the session if somebody asked for one.
    fn judge_recorded(&mut self, now: Now, stranger: Stranger<'_>) -> Verdict {
        let peer = stranger.from;
        // gaffer and rudp take the stranger's datagram into the session at once.
        let first = match self.keeper {
            Keeper::Yojimbo(_) => None,
            Keeper::Gaffer(_) | Keeper::Rudp(_) => Some(stranger.datagram.to_vec()),
        };
        let verdict = self.informed().handle_unknown(now, stranger);
        let Verdict::Accept(session) = verdict else {
            return verdict;
        };
        let same_kind = |local: &&SocketAddr| local.is_ipv4() == peer.is_ipv4();
        let local = self.bound.iter().find(same_kind).or(self.bound.first());
        let joining = Joining {
            now,
            listener: &self.name,
            rules: &self.recorded,
            peer,
            local: local.copied().unwrap_or(peer),
            first: first.as_deref(),
        };
        Verdict::Accept(self.tap.join(session, joining))
    }
}

impl Acceptor for Doorkeeper {
    fn handle_unknown(&mut self, now: Now, stranger: Stranger<'_>) -> Verdict {
        if self.tap.wants(&self.name, stranger.from) {
            return self.judge_recorded(now, stranger);
        }
        self.informed().handle_unknown(now, stranger)
    }

    fn handle_refused(&mut self, now: Now, stranger: Stranger<'_>, why: Reject) -> Verdict {
        self.informed().handle_refused(now, stranger, why)
    }

    fn handle_timeout(&mut self, now: Now) {
        self.informed().handle_timeout(now);
    }

    fn poll_timeout(&self) -> Option<Deadline> {
        self.keeper().poll_timeout()
    }

    fn pending(&self) -> usize {
        self.keeper().pending()
    }
}

/// How a tunnel begins its sessions.
pub enum Dialer {
    /// Each needs a token of its own.
    Yojimbo(Arc<yojimbo::Params>),
    /// Nothing but the rules.
    Gaffer(Box<gaffer::Params>),
    /// Likewise.
    Rudp(rudp::Params),
}

impl Dialer {
    /// As configured.
    pub fn new(tunnel: &config::Tunnel) -> Self {
        let queues = Queues {
            inbox: tunnel.queue_to_stream,
            outbox: tunnel.queue_to_remote,
        };
        match &tunnel.protocol {
            Protocol::Yojimbo(own) => {
                Self::Yojimbo(Arc::new(yojimbo_params(own, &tunnel.rate, queues)))
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
            (Self::Gaffer(params), _) => Some(Box::new(gaffer::Session::dial(params, seed, now))),
            (Self::Rudp(params), _) => Some(Box::new(rudp::Session::dial(*params, now))),
        })
    }
}

/// A session of this listener that repeats a recorded one.
pub fn replayed(listener: &config::Listener, origin: Origin, now: Now) -> Box<dyn Session> {
    let queues = Queues {
        inbox: listener.backend.queue_to_backend,
        outbox: listener.backend.queue_to_peer,
    };
    match &listener.protocol {
        Protocol::Yojimbo(own) => {
            let mut params = yojimbo_params(own, &listener.rate, queues);
            params.ack = listener.ack;
            Box::new(yojimbo::Session::replayed(now, Arc::new(params), origin))
        }
        Protocol::Gaffer(own) => {
            let params = gaffer_params(own, &listener.rate, listener.idle_timeout, queues);
            Box::new(gaffer::Session::replayed(&params, origin, now))
        }
        Protocol::Rudp(own) => {
            let params = rudp_params(own, listener.idle_timeout, queues);
            Box::new(rudp::Session::replayed(params, now))
        }
    }
}

/// The door of an endpoint that only dials.
pub struct Closed;

impl Acceptor for Closed {
    fn handle_unknown(&mut self, _now: Now, _stranger: Stranger<'_>) -> Verdict {
        Verdict::Reject(Reject::UnknownPeer)
    }
}

/// The codec as configured, but a raw stream is cut into pieces that travel well: one packet each.
pub fn fitting(codec: FrameCodec, protocol: &Protocol) -> FrameCodec {
    if codec.framing() != Framing::Raw {
        return codec;
    }
    let largest = match protocol {
        Protocol::Yojimbo(own) => {
            let params = yojimbo::Params::new(own.profile.clone(), sender::Params::default());
            params.sender.inline_max.max(params.sender.block_max)
        }
        Protocol::Gaffer(own) => own.max_message,
        // A record that is larger than the MTU travels alone, with an empty datagram behind it.
        Protocol::Rudp(own) => (own.max_message).min(own.mtu - rudp::wire::RECORD_OVERHEAD),
    };
    let piece = codec.max_message().min(largest).min(RAW_PIECE_BYTES);
    FrameCodec::new(Framing::Raw, false, false, piece)
}

/// Fits one datagram of every protocol, with room for acknowledgements beside it.
const RAW_PIECE_BYTES: usize = 1_000;

#[derive(Clone, Copy)]
struct Queues {
    inbox: usize,
    outbox: usize,
}

/// A queue that was full is taken from again when three quarters of it are gone: the distance keeps
/// a peer from being refused and taken packet by packet.
const ACCEPT_BELOW: usize = 4;

fn sender_params(rate: &Rate, queues: Queues) -> sender::Params {
    let base = match rate.profile {
        RateProfile::Adaptive(own) => sender::Params {
            queue_max: own.queue_max,
            queue_max_messages: own.queue_max_messages,
            base_window: own.base_window,
            loss_max: own.loss_max,
            bulk_start: own.bulk_start,
            bulk_min: own.bulk_min,
            bulk_max: own.bulk_max,
            ..sender::Params::default()
        },
        RateProfile::Article(own) => sender::Params {
            rtt_max: own.rtt_max,
            resend_after: Some(own.resend_after),
            ..sender::Params::article()
        },
    };
    let params = sender::Params {
        good_rate: f64::from(rate.good_rate),
        bad_rate: f64::from(rate.bad_rate),
        burst: f64::from(rate.burst),
        penalty: rate.penalty,
        outbox_bytes_max: queues.outbox,
        ..base
    };
    if rate.redundancy {
        return params;
    }
    sender::Params {
        redundancy: 0.0,
        redundancy_trickle: 0.0,
        early_probe: std::time::Duration::ZERO,
        ..params
    }
}

fn yojimbo_params(own: &config::Yojimbo, rate: &Rate, queues: Queues) -> yojimbo::Params {
    let mut params = yojimbo::Params::new(own.profile.clone(), sender_params(rate, queues));
    params.inbox_marks = (queues.inbox, queues.inbox / ACCEPT_BELOW);
    params
}

fn gaffer_params(
    own: &config::Gaffer,
    rate: &Rate,
    idle_timeout: std::time::Duration,
    queues: Queues,
) -> gaffer::Params {
    gaffer::Params {
        protocol_id: own.protocol_id,
        payload: match own.mode {
            GafferMode::Raw => gaffer::Payload::Raw {
                late: gaffer::Late::default(),
            },
            GafferMode::Reliable => gaffer::Payload::Messages,
        },
        message_bytes_max: own.max_message,
        idle_timeout,
        sender: sender_params(rate, queues),
        inbox_refuse_above: queues.inbox,
        inbox_accept_below: queues.inbox / ACCEPT_BELOW,
        ..gaffer::Params::default()
    }
}

fn rudp_params(
    own: &config::Rudp,
    idle_timeout: std::time::Duration,
    queues: Queues,
) -> rudp::Params {
    let base = rudp::Params::default();
    let ticks = |span: std::time::Duration| {
        u32::try_from(span.as_nanos() / base.tick.as_nanos().max(1)).unwrap_or(u32::MAX)
    };
    rudp::Params {
        send_delay: ticks(own.send_delay).max(1),
        expired_time: ticks(own.expired_time).max(1),
        mtu: own.mtu,
        message_bytes_max: own.max_message,
        on_missing: match own.on_missing {
            OnMissing::Close => rudp::OnMissing::Close,
            OnMissing::Skip => rudp::OnMissing::Skip,
        },
        idle_timeout,
        probe: own.probe,
        send_queue_bytes_max: queues.outbox,
        inbox_refuse_above: queues.inbox,
        inbox_accept_below: queues.inbox / ACCEPT_BELOW,
        ..base
    }
}

fn handshake_params(
    listener: &config::Listener,
    own: &config::Netcode,
    bound: &[SocketAddr],
    slots: u32,
) -> netcode::Params {
    let (public, any_address) = match &listener.public_addresses {
        PublicAddresses::Bound => (bound.to_vec(), false),
        PublicAddresses::Listed(listed) => (listed.clone(), false),
        PublicAddresses::Any => (bound.to_vec(), true),
    };
    netcode::Params {
        any_address,
        private_keys: own.keys.clone(),
        max_token_lifetime: Some(own.max_token_lifetime.as_secs()),
        clock_skew: own.clock_skew.as_secs(),
        timeout: TimeoutPolicy::Clamp(1..=60),
        ..netcode::Params::new(own.protocol_id, public, slots)
    }
}
