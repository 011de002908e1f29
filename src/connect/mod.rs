//! `tidegate connect`: each local connection becomes a session of its own with a distant server.
//!
//! Accepting, tokens and names are the control plane's; the session and both of its sockets then go
//! to a worker.
//!
//! ```text
//!   local program ──▶ LocalListener ──▶ RunningTunnel: token, name, socket ──▶ worker ══ session ══▶ server
//! ```

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64};
use std::time::Duration;

use anyhow::Context;
use tidegate_proto::{AckPolicy, Endpoint, endpoint};

use crate::admin::Admin;
use crate::backend::StreamRules;
use crate::backends::Backends;
use crate::board::{Board, ListenerInfo, WorkerSocket};
use crate::capacity::Capacity;
use crate::clock::Clock;
use crate::config::{Config, Tunnel, UnreliablePolicy};
use crate::control::{self, Gate, Signals};
use crate::control_plane;
use crate::core_dumps;
use crate::hangs;
use crate::listener::{Arrivals, Parts, PeerCount, Siblings, Terms};
use crate::logging::Logging;
use crate::protocol::{self, Dialer};
use crate::running_listener::Shares;
use crate::shutdown::{Fleet, StopSignals};
use crate::sizing;
use crate::tokens;
use crate::udp::Options;
use crate::worker::Remote;
use crate::workers::Workers;

mod local_listener;
mod tunnel;

use local_listener::LocalListener;
use tunnel::RunningTunnel;

/// Runs until told to stop.
pub fn run(config: Config, logging: Logging) -> anyhow::Result<()> {
    core_dumps::forbid();
    control_plane::run(connect(config, logging))?
}

async fn connect(config: Config, logging: Logging) -> anyhow::Result<()> {
    let signals = Signals::catch()?;
    let stops = StopSignals::catch()?;
    sizing::warn(&config);
    let mut clock = Clock::start();
    let runtime = &config.runtime;
    let capacity = Arc::new(Capacity::new(
        runtime.max_peers,
        runtime.queue_memory as u64,
    ));
    let board = Arc::new(Board::new(clock.now(), capacity.clone()));
    tokio::spawn(logging.clone().publish(board.clone()));
    tokio::spawn(sizing::cpu::watch(board.clone()));
    let listeners: anyhow::Result<Vec<_>> = config.tunnels.iter().map(bind).collect();
    let listeners = listeners?;
    let shares = shares(&config, &board, &capacity)?;
    let allowed_hosts = &config.admin.allowed_hosts;
    let start = |listen| Admin::start(listen, allowed_hosts, board.clone(), clock.clone());
    let _admin = config.admin.listen.map(start).transpose()?;
    let control = control::bind(&config.admin)?;
    hangs::watch(&board, clock.clone())?;
    let fleet = Fleet::spawn(shares, &clock)?;
    let remotes: Vec<Remote> = fleet.remotes();
    let gate = Gate {
        board: board.clone(),
        clock: clock.clone(),
        workers: Workers::new(remotes.clone()),
        backends: Arc::new(Backends::new(board.clone(), clock.clone())),
        logging,
        drains: AtomicU64::default(),
        reloader: None,
        tap: None,
    };
    control::open(control, signals, Arc::new(gate));
    for (index, (tunnel, listeners)) in config.tunnels.iter().zip(listeners).enumerate() {
        let running = RunningTunnel {
            index,
            dialer: Dialer::new(tunnel),
            tunnel: tunnel.clone(),
            workers: remotes.clone(),
            board: board.clone(),
            clock: clock.clone(),
            doubted: AtomicBool::new(false),
            options: options(&config, tunnel),
        };
        running.open(listeners);
    }
    fleet.run(&board, &config.drain, stops).await
}

/// Where the tunnel's local programs come in.
fn bind(tunnel: &Tunnel) -> anyhow::Result<Vec<LocalListener>> {
    let bound: anyhow::Result<Vec<_>> = tunnel.listen.iter().map(LocalListener::bind).collect();
    bound.with_context(|| format!("tunnel {}", tunnel.name))
}

/// Options of each session's own socket.
fn options(config: &Config, tunnel: &Tunnel) -> Options {
    Options {
        receive_buffer: config.runtime.udp_recv_buffer.min(SESSION_BUFFER),
        send_buffer: 0,
        never_cut: tunnel.protocol.tries_longer_datagrams(),
        ..Options::default()
    }
}

/// Each worker has a listener for each tunnel, in their order.
fn shares(config: &Config, board: &Board, capacity: &Arc<Capacity>) -> anyhow::Result<Shares> {
    let workers = config.runtime.workers;
    let mut shares: Shares = (0..workers).map(|_| Vec::new()).collect();
    for tunnel in &config.tunnels {
        let all = parts(tunnel, board, capacity, workers)?;
        for (share, parts) in shares.iter_mut().zip(all) {
            share.push(parts);
        }
    }
    Ok(shares)
}

/// One tunnel's listener for each worker.
fn parts(
    tunnel: &Tunnel,
    board: &Board,
    capacity: &Arc<Capacity>,
    workers: usize,
) -> anyhow::Result<Vec<Parts>> {
    let reporters = board.add_listener(
        ListenerInfo {
            name: tunnel.name.clone(),
            protocol: tunnel.protocol.label(),
            bind: Vec::new(),
            backend: String::new(),
            peers_max: tunnel.max_streams as u64,
        },
        &WorkerSocket::one_each(workers),
    );
    reporters
        .into_iter()
        .map(|reporter| {
            Ok(Parts {
                name: tunnel.name.as_str().into(),
                protocol: tunnel.protocol.label(),
                socket: None,
                endpoint: Endpoint::new(Box::new(protocol::RejectAll), endpoint::Params::default()),
                admission: None,
                terms: terms(tunnel),
                capacity: Arc::clone(capacity),
                reporter: Some(reporter),
                siblings: Siblings::default(),
                peer_count: PeerCount::default(),
                arrivals: Arrivals::default(),
                seed: u64::from_le_bytes(tokens::random()?),
            })
        })
        .collect()
}

/// What its sessions begin with.
fn terms(tunnel: &Tunnel) -> Terms {
    Terms {
        destination: None,
        rules: Arc::new(StreamRules {
            codec: protocol::fitting(tunnel.codec, &tunnel.protocol),
            unreliable: UnreliablePolicy::DropOldest,
            ack: AckPolicy::Queued,
            stall: STREAM_STALL,
            linger: tunnel.linger,
        }),
        limits: None,
        // A program here may come back as often as the far end sends it off.
        is_open: true,
    }
}

/// A local program that reads nothing for this long is given up.
const STREAM_STALL: Duration = Duration::from_secs(10);

/// One peer fills no more than this; with a socket for each, the whole would be memory wasted.
const SESSION_BUFFER: usize = 256 * 1024;
