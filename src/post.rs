//! A listener as it runs: its sockets on every worker, what lets its peers in, where their streams
//! go.
//!
//! ```text
//!   bind ──▶ sockets, one for each address and worker
//!   open ──▶ a door, and parts for the workers    nothing is served or seen yet; dropped, it is gone
//!   show ──▶ on the board, in the log
//! ```

use std::net::SocketAddr;
use std::num::NonZeroU32;
use std::sync::Arc;

use ipnet::IpNet;

use crate::admission::{self, Admission};
use crate::backend::{Pool, Rules, SocketOptions};
use crate::board::{Board, ListenerInfo};
use crate::capacity::Capacity;
use crate::capture::Tap;
use crate::clock::Clock;
use crate::config::{self, Bucket, Listener, Runtime};
use crate::exit::{Transport, Unavailable};
use crate::listener::{Destination, Parts, PeerLimits, Policy, Siblings};
use crate::protocol::{self, Door};
use crate::token_history::StateDirectory;
use crate::tokens::random;
use crate::udp::{Options, UdpSocket};

/// What all listeners are built with.
#[derive(Clone)]
pub struct Means {
    pub runtime: Runtime,
    pub board: Arc<Board>,
    pub capacity: Arc<Capacity>,
    pub clock: Clock,
    pub tap: Tap,
    pub state: Option<StateDirectory>,
}

/// A listener that runs.
pub struct Post {
    name: String,
    backend: String,
    pool: Arc<Pool>,
    door: Door,
    places: Vec<Place>,
}

/// One of its addresses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Place {
    /// As configured; the port may be 0.
    pub asked: SocketAddr,
    /// As bound.
    pub bound: SocketAddr,
}

/// Sockets for each worker, in the order of the addresses.
pub type Sockets = Vec<(Place, Vec<UdpSocket>)>;

/// What each worker gets.
pub type Shares = Vec<Vec<Parts>>;

impl Post {
    /// A listener on these sockets, which nobody sees yet.
    pub fn open(
        means: &Means,
        listener: &Listener,
        pool: &Arc<Pool>,
        sockets: Sockets,
    ) -> anyhow::Result<(Self, Shares)> {
        let places: Vec<Place> = sockets.iter().map(|(place, _)| *place).collect();
        let bound: Vec<_> = places.iter().map(|place| place.bound).collect();
        let mut post = Self {
            name: listener.name.clone(),
            backend: listener.backend.name.clone(),
            pool: pool.clone(),
            door: Door::new(means, listener, &bound)?,
            places,
        };
        let shares = post.staff(means, listener, sockets)?;
        Ok((post, shares))
    }

    /// Puts the listener on the board, and into the log.
    pub fn show(&self, means: &Means, listener: &Listener, shares: &mut Shares) {
        let about = ListenerInfo {
            name: listener.name.clone(),
            protocol: listener.protocol.label(),
            bind: self.bound(),
            backend: listener.backend.name.clone(),
            peers_max: listener.max_peers as u64,
        };
        let count = shares.iter().map(Vec::len).sum();
        let reporters = means.board.add_listener(about, count);
        for (parts, reporter) in by_shard(shares).zip(reporters) {
            parts.reporter = Some(reporter);
        }
        announce(listener, &self.bound());
        warn_of_insecurity(listener);
    }

    /// Parts for more sockets, which nobody sees yet.
    pub fn staff(
        &mut self,
        means: &Means,
        listener: &Listener,
        sockets: Sockets,
    ) -> anyhow::Result<Shares> {
        let mut shares: Shares = (0..means.runtime.workers).map(|_| Vec::new()).collect();
        for (_, sockets) in sockets {
            let siblings = Siblings::new(sockets.len());
            for ((share, socket), siblings) in shares.iter_mut().zip(sockets).zip(siblings) {
                share.push(Parts {
                    siblings,
                    ..self.parts(means, listener, socket)?
                });
            }
        }
        Ok(shares)
    }

    /// Has other places now: those that were `removed` are gone, `added` are there with these parts.
    pub fn move_to(
        &mut self,
        means: &Means,
        listener: &Listener,
        removed: &[SocketAddr],
        added: &[Place],
        shares: &mut Shares,
    ) {
        self.places.retain(|place| !removed.contains(&place.bound));
        self.places.extend(added);
        let count = shares.iter().map(Vec::len).sum();
        let now = means.clock.clone().now().mono;
        let reporters = means
            .board
            .extend_listener(&self.name, self.bound(), count, now);
        for (parts, reporter) in by_shard(shares).zip(reporters) {
            parts.reporter = Some(reporter);
        }
        let added: Vec<_> = added.iter().map(|place| place.bound).collect();
        announce(listener, &added);
    }

    /// Peers are let in by these rules from now on; what workers need to know of them.
    pub fn update(&mut self, means: &Means, listener: &Listener) -> anyhow::Result<Policy> {
        let bound = self.bound();
        self.door.update(listener, &bound)?;
        let shards = bound.len() * means.runtime.workers;
        Ok(Policy {
            destination: destination(listener, &self.pool),
            rules: rules(listener),
            limits: peer_limits(listener),
            admission: admission_params(listener, &bound, shards),
        })
    }

    /// Its name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Its backend's name.
    pub fn backend(&self) -> &str {
        &self.backend
    }

    /// Its addresses.
    pub fn places(&self) -> &[Place] {
        &self.places
    }

    /// Where its sockets are.
    pub fn bound(&self) -> Vec<SocketAddr> {
        self.places.iter().map(|place| place.bound).collect()
    }

    fn parts(
        &mut self,
        means: &Means,
        listener: &Listener,
        socket: UdpSocket,
    ) -> anyhow::Result<Parts> {
        let bound = self.bound();
        let shards = bound.len() * means.runtime.workers;
        Ok(Parts {
            name: listener.name.as_str().into(),
            protocol: listener.protocol.label(),
            socket: Some(socket),
            endpoint: self.door.endpoint(listener)?,
            admission: Some(Admission::new(&admission_params(listener, &bound, shards))),
            destination: Some(destination(listener, &self.pool)),
            rules: rules(listener),
            limits: Some(peer_limits(listener)),
            capacity: Arc::clone(&means.capacity),
            reporter: None,
            siblings: Siblings::default(),
            seed: u64::from_le_bytes(random()?),
        })
    }
}

/// Worker by worker within each address, as the board numbers them.
fn by_shard(shares: &mut Shares) -> impl Iterator<Item = &mut Parts> {
    let mut all: Vec<(usize, &mut Parts)> = shares
        .iter_mut()
        .flat_map(|share| share.iter_mut().enumerate())
        .collect();
    all.sort_by_key(|(address, _)| *address);
    all.into_iter().map(|(_, parts)| parts)
}

/// Every address once for each worker. All before any is served: the kernel spreads peers over the
/// sockets that are there.
pub fn bind(
    runtime: &Runtime,
    listener: &Listener,
    addresses: &[SocketAddr],
) -> anyhow::Result<Sockets> {
    let mut sockets = Vec::new();
    for &address in addresses {
        let options = options(runtime, listener, address);
        let bind_with = |address, options| {
            UdpSocket::bind(address, options)
                .map_err(|error| Unavailable(Transport::Udp.cannot_bind(address, &error)))
        };
        let bind = |address| bind_with(address, options);
        if options.reuse_port {
            // Sharing is for our own workers: another process that shares would take a part of the
            // players, and nobody would notice.
            let alone = Options {
                reuse_port: false,
                ..options
            };
            bind_with(address, alone)?;
        }
        let first = bind(address)?;
        let bound = first.local_addr();
        let mut of_address = vec![first];
        for _ in 1..runtime.workers {
            of_address.push(bind(bound)?);
        }
        let place = Place {
            asked: address,
            bound,
        };
        sockets.push((place, of_address));
    }
    Ok(sockets)
}

/// How the sockets of one of its addresses are made.
pub fn options(runtime: &Runtime, listener: &Listener, address: SocketAddr) -> Options {
    Options {
        receive_buffer: runtime.udp_recv_buffer,
        send_buffer: runtime.udp_send_buffer,
        reuse_port: runtime.workers > 1,
        only_v6: listener
            .bind
            .iter()
            .any(|other| other.is_ipv4() && other.port() == address.port()),
        never_cut: listener.protocol.tries_longer_datagrams(),
    }
}

fn destination(listener: &Listener, pool: &Arc<Pool>) -> Destination {
    let backend = &listener.backend;
    Destination {
        pool: pool.clone(),
        timeout: backend.connect_timeout,
        attempts: backend.connect_attempts,
        backoff: backend.retry_backoff,
        proxy: backend.proxy,
        socket: SocketOptions {
            nodelay: backend.tcp_nodelay,
            keepalive: backend.tcp_keepalive,
            user_timeout: backend.stall,
        },
    }
}

fn rules(listener: &Listener) -> Rules {
    let backend = &listener.backend;
    Rules {
        codec: protocol::fitting(backend.codec, &listener.protocol),
        unreliable: backend.unreliable,
        acknowledge_written: listener.ack == tidegate_proto::AckPolicy::Written,
        stall: backend.stall,
        linger: backend.linger,
    }
}

fn peer_limits(listener: &Listener) -> PeerLimits {
    PeerLimits {
        packets: listener.limits.peer_packets,
        bytes: listener.limits.peer_bytes,
        messages: listener.limits.peer_messages,
        strict: listener.limits.strict,
    }
}

fn announce(listener: &Listener, bound: &[SocketAddr]) {
    let targets: Vec<_> = listener
        .backend
        .targets
        .iter()
        .map(ToString::to_string)
        .collect();
    let layout = match &listener.protocol {
        config::Protocol::Yojimbo(own) => Some(format!("{:016x}", own.profile.fingerprint())),
        config::Protocol::Gaffer(_) | config::Protocol::Rudp(_) => None,
    };
    for address in bound {
        tracing::info!(
            event = "listening",
            listener = %listener.name,
            protocol = listener.protocol.label(),
            layout,
            address = %address,
            backend = %listener.backend.name,
            targets = targets.join(" "),
        );
    }
}

fn warn_of_insecurity(listener: &Listener) {
    if !matches!(listener.protocol, config::Protocol::Yojimbo(_)) {
        tracing::warn!(
            event = "insecure_listener",
            listener = %listener.name,
            protocol = listener.protocol.label(),
            sources = allowed(&listener.limits.allow),
            "no authentication, no encryption: whoever sees this traffic, or guesses address and \
             port, can read it, forge messages and end sessions. For closed networks and VPNs only",
        );
    }
}

fn allowed(networks: &[IpNet]) -> String {
    let networks: Vec<_> = networks.iter().map(ToString::to_string).collect();
    match networks.as_slice() {
        [] => "any".to_owned(),
        some => some.join(" "),
    }
}

fn admission_params(listener: &Listener, bound: &[SocketAddr], shards: usize) -> admission::Params {
    let limits = &listener.limits;
    admission::Params {
        per_prefix: rate(limits.ip_handshakes),
        listener: rate(limits.handshakes).share_of(shards),
        table_size: limits.table_size,
        strikes: limits.strikes.map(|strikes| admission::StrikeRule {
            limit: NonZeroU32::new(strikes.limit).unwrap_or(NonZeroU32::MIN),
            window: strikes.window,
            ban: strikes.ban,
        }),
        rules: admission::Rules {
            allow: limits.allow.clone(),
            deny: limits.deny.clone(),
            own: bound.to_vec(),
        },
    }
}

fn rate(bucket: Bucket) -> admission::Rate {
    let at_least_one = |value| NonZeroU32::new(value).unwrap_or(NonZeroU32::MIN);
    admission::Rate {
        per_sec: at_least_one(bucket.rate),
        burst: at_least_one(bucket.burst),
    }
}
