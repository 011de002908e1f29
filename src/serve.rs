//! `tidegate serve`: from a configuration to running listeners.

use std::collections::HashMap;
use std::net::SocketAddr;
use std::num::NonZeroU32;
use std::sync::Arc;

use anyhow::Context;
use ipnet::IpNet;

use crate::admin::Admin;
use crate::admission::{self, Admission};
use crate::backend::{Pool, Rules, SocketOptions, health};
use crate::board::{BackendInfo, Board, ListenerInfo, Reporter};
use crate::capacity::Capacity;
use crate::clock::Clock;
use crate::config::{self, Bucket, Config, Drain, Listener, Loaded};
use crate::control::{ControlSocket, Gate};
use crate::core_dumps;
use crate::exit::Unavailable;
use crate::listener::{Destination, Parts, PeerLimits, Policy};
use crate::logging::Logging;
use crate::notify;
use crate::protocol::{self, Door};
use crate::reload::{self, Post, Site, Source};
use crate::shutdown::Fleet;
use crate::tokens::random;
use crate::udp::{Options, UdpSocket};
use crate::worker::Handle;

/// Runs until told to stop.
///
/// `source` reads the configuration again, for a reload.
pub fn run(loaded: &Loaded, logging: Logging, source: Source) -> anyhow::Result<()> {
    core_dumps::forbid();
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    runtime.block_on(serve(loaded, logging, source))
}

async fn serve(loaded: &Loaded, logging: Logging, source: Source) -> anyhow::Result<()> {
    let config = &loaded.config;
    let mut server = Server::open(config).await?;
    tokio::spawn(logging.clone().publish(server.board.clone()));
    let posts = std::mem::take(&mut server.posts);
    let site = Site::new(source, loaded, posts, logging.clone());
    let gate = Arc::new(server.gate(logging).with_site(site));
    gate.clone().listen_for_signals()?;
    let _control = match &config.admin.control_socket {
        Some(path) => {
            let socket = ControlSocket::bind(path, config.admin.control_mode)?;
            Some(socket.start(gate))
        }
        None => None,
    };
    server.run().await
}

/// Everything that serves, with its sockets bound and its workers running.
pub struct Server {
    board: Arc<Board>,
    fleet: Fleet,
    drain: Drain,
    admin: Option<Admin>,
    addresses: Vec<SocketAddr>,
    clock: Clock,
    pools: HashMap<String, Arc<Pool>>,
    posts: HashMap<String, Post>,
}

impl Server {
    /// Binds the sockets, looks the backends up and starts the workers.
    pub async fn open(config: &Config) -> anyhow::Result<Self> {
        let mut clock = Clock::start();
        let board = Arc::new(Board::new(clock.now(), config.runtime.queue_memory as u64));
        let pools = open_pools(config, &board).await;
        let capacity = Arc::new(Capacity::new(
            config.runtime.max_peers,
            config.runtime.queue_memory as u64,
        ));
        let mut shares: Vec<Vec<Parts>> = (0..config.runtime.workers).map(|_| Vec::new()).collect();
        let mut addresses = Vec::new();
        let mut posts = HashMap::new();
        for listener in &config.listeners {
            let pool = &pools[&listener.backend.name];
            let (post, all) = open_listener(config, listener, pool, &board, &capacity, &mut clock)
                .with_context(|| format!("listener {}", listener.name))?;
            addresses.extend(&post.bound);
            posts.insert(listener.name.clone(), post);
            for (share, parts) in shares.iter_mut().zip(all) {
                share.extend(parts);
            }
        }
        let admin = match config.admin.listen {
            Some(listen) => Some(start_admin(listen, &board, &clock)?),
            None => None,
        };
        notify::start(board.clone(), clock.clone())?;
        let mut shares = shares.into_iter();
        let fleet = Fleet::spawn(config.runtime.workers, |index, alive| {
            let parts = shares.next().unwrap_or_default();
            Handle::spawn(format!("worker {index}"), clock.clone(), parts, alive)
        })?;
        let drain = config.drain.clone();
        Ok(Self {
            board,
            fleet,
            drain,
            admin,
            addresses,
            clock,
            pools,
            posts,
        })
    }

    /// What operators reach it by.
    fn gate(&mut self, logging: Logging) -> Gate {
        Gate::new(
            self.board.clone(),
            self.clock.clone(),
            self.fleet.remotes(),
            std::mem::take(&mut self.pools),
            logging,
        )
    }

    /// The UDP addresses that were bound, in the order of the configuration.
    pub fn addresses(&self) -> &[SocketAddr] {
        &self.addresses
    }

    /// Where the page is.
    pub fn admin_address(&self) -> Option<SocketAddr> {
        self.admin.as_ref().map(Admin::address)
    }

    /// Serves until a signal says otherwise, then ends in order.
    pub async fn run(self) -> anyhow::Result<()> {
        self.fleet.run(&self.board, &self.drain).await
    }
}

fn start_admin(listen: SocketAddr, board: &Arc<Board>, clock: &Clock) -> anyhow::Result<Admin> {
    let admin = Admin::start(listen, board.clone(), clock.clone())
        .map_err(|error| Unavailable(format!("admin on {listen}: {error}")))?;
    tracing::info!(event = "admin", listen = %admin.address());
    Ok(admin)
}

async fn open_pools(config: &Config, board: &Arc<Board>) -> HashMap<String, Arc<Pool>> {
    let mut pools = HashMap::new();
    for listener in &config.listeners {
        let backend = &listener.backend;
        if pools.contains_key(&backend.name) {
            continue;
        }
        let pool = Arc::new(Pool::new(backend.balance, &backend.targets));
        board.add_backend(BackendInfo {
            name: backend.name.clone(),
            targets: backend.targets.iter().map(ToString::to_string).collect(),
        });
        health::look_up_all(backend, &pool).await;
        health::watch(backend.clone(), pool.clone(), board.clone());
        pools.insert(backend.name.clone(), pool);
    }
    pools
}

/// What a reload needs of the listener, and for each worker a share of it for each address.
fn open_listener(
    config: &Config,
    listener: &Listener,
    pool: &Arc<Pool>,
    board: &Board,
    capacity: &Arc<Capacity>,
    clock: &mut Clock,
) -> anyhow::Result<(Post, Vec<Vec<Parts>>)> {
    let workers = config.runtime.workers;
    let (bound, sockets) = bind_all(config, listener)?;
    let reporters = board.add_listener(
        ListenerInfo {
            name: listener.name.clone(),
            protocol: listener.protocol.label(),
            bind: bound.clone(),
            backend: listener.backend.name.clone(),
            peers_max: listener.max_peers as u64,
        },
        sockets.len(),
    );
    let mut door = Door::new(listener, &bound, clock.now())?;
    let admission = admission_params(listener, &bound, sockets.len());
    let mut shares: Vec<Vec<Parts>> = (0..workers).map(|_| Vec::new()).collect();
    let shards = sockets.into_iter().zip(reporters).enumerate();
    for (shard, (socket, reporter)) in shards {
        let endpoint = door.endpoint(listener, u16::try_from(shard).unwrap_or(u16::MAX))?;
        let parts = Parts {
            endpoint,
            admission: Some(Admission::new(&admission)),
            ..parts(listener, socket, pool, capacity, reporter)?
        };
        shares[shard % workers].push(parts);
    }
    announce(listener, &bound);
    let shards = shares.iter().map(Vec::len).sum();
    let post = Post {
        door,
        bound,
        shards,
    };
    Ok((post, shares))
}

fn parts(
    listener: &Listener,
    socket: UdpSocket,
    pool: &Arc<Pool>,
    capacity: &Arc<Capacity>,
    reporter: Reporter,
) -> anyhow::Result<Parts> {
    Ok(Parts {
        name: listener.name.as_str().into(),
        protocol: listener.protocol.label(),
        socket: Some(socket),
        endpoint: tidegate_proto::Endpoint::new(
            Box::new(protocol::Closed),
            tidegate_proto::endpoint::Params::default(),
        ),
        admission: None,
        destination: Some(destination(listener, pool)),
        rules: rules(listener),
        limits: Some(peer_limits(listener)),
        capacity: Arc::clone(capacity),
        reporter: Some(reporter),
        seed: u64::from_le_bytes(random()?),
    })
}

/// What a listener's new sessions get, for one worker.
pub(crate) fn policy(changed: &reload::Changed, pool: &Arc<Pool>) -> Policy {
    let reload::Changed {
        listener,
        bound,
        shards,
    } = changed;
    Policy {
        destination: destination(listener, pool),
        rules: rules(listener),
        limits: peer_limits(listener),
        admission: admission_params(listener, bound, *shards),
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
    }
}

/// Every address once for each worker. All before any is served: the kernel spreads peers over the
/// sockets that are there.
fn bind_all(
    config: &Config,
    listener: &Listener,
) -> anyhow::Result<(Vec<SocketAddr>, Vec<UdpSocket>)> {
    let runtime = &config.runtime;
    let mut bound = Vec::new();
    let mut sockets = Vec::new();
    for &address in &listener.bind {
        let options = Options {
            receive_buffer: runtime.udp_recv_buffer,
            send_buffer: runtime.udp_send_buffer,
            reuse_port: runtime.workers > 1,
            only_v6: listener
                .bind
                .iter()
                .any(|other| other.is_ipv4() && other.port() == address.port()),
        };
        let bind = |address| {
            UdpSocket::bind(address, options)
                .map_err(|error| Unavailable(format!("cannot bind {address}: {error}")))
        };
        let first = bind(address)?;
        let local = first.local_addr();
        bound.push(local);
        sockets.push(first);
        for _ in 1..runtime.workers {
            sockets.push(bind(local)?);
        }
    }
    Ok((bound, sockets))
}

fn announce(listener: &Listener, bound: &[SocketAddr]) {
    let targets: Vec<_> = listener
        .backend
        .targets
        .iter()
        .map(ToString::to_string)
        .collect();
    for address in bound {
        tracing::info!(
            event = "listening",
            listener = %listener.name,
            protocol = listener.protocol.label(),
            address = %address,
            backend = %listener.backend.name,
            targets = targets.join(" "),
        );
    }
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
            refuse_low_ports: false,
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
