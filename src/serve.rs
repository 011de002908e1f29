//! `tidegate serve`: from a configuration to running listeners.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;

use crate::admin::Admin;
use crate::backend::Pool;
use crate::backends::Backends;
use crate::board::Board;
use crate::capacity::Capacity;
use crate::capture::Order;
use crate::clock::Clock;
use crate::config::{self, Config, Drain, Loaded};
use crate::control::{self, Gate, Signals};
use crate::control_plane;
use crate::core_dumps;
use crate::hangs;
use crate::logging::Logging;
use crate::reload::{Reloader, Source, values};
use crate::running_listener::{Common, Opening, RunningListener, Shares};
use crate::shutdown::{Fleet, StopSignals};
use crate::sizing;
use crate::socket_file::KeptSocket;
use crate::token_history::StateDirectory;
use crate::workers::Workers;

/// Runs until told to stop.
///
/// `source` reads the configuration again, for a reload.
pub fn run(
    loaded: &Loaded,
    logging: Logging,
    source: Source,
    capture: Option<Order>,
) -> anyhow::Result<()> {
    core_dumps::forbid();
    control_plane::run(serve(loaded, logging, source, capture))?
}

async fn serve(
    loaded: &Loaded,
    logging: Logging,
    source: Source,
    capture: Option<Order>,
) -> anyhow::Result<()> {
    let signals = Signals::catch()?;
    let mut stops = StopSignals::catch()?;
    let config = &loaded.config;
    sizing::warn(config);
    let mut server = tokio::select! {
        opened = Server::open_controlled(config, capture, Some(&config.admin)) => opened?,
        _ = stops.next() => {
            tracing::info!(event = "stopped");
            return Ok(());
        }
    };
    tokio::spawn(logging.clone().publish(server.common.board.clone()));
    tokio::spawn(sizing::cpu::watch(server.common.board.clone()));
    let workers = Workers::new(server.fleet.remotes());
    let reloader = Reloader {
        source,
        values: values(loaded),
        common: server.common.clone(),
        drain: server.drain.clone(),
        listeners: std::mem::take(&mut server.listeners),
        backends: server.backends.clone(),
        workers: workers.clone(),
        logging: logging.clone(),
    };
    let gate = Gate {
        board: server.common.board.clone(),
        clock: server.common.clock.clone(),
        workers,
        backends: server.backends.clone(),
        logging,
        drains: AtomicU64::default(),
        reloader: Some(reloader.into()),
        tap: Some(server.common.tap.clone()),
    };
    control::open(server.control.take(), signals, Arc::new(gate));
    server.run(stops).await
}

/// Everything that serves, with its sockets bound and its workers running.
pub struct Server {
    common: Common,
    fleet: Fleet,
    drain: Drain,
    admin: Option<Admin>,
    /// Until operators are let in.
    control: Option<KeptSocket>,
    addresses: Vec<SocketAddr>,
    backends: Arc<Backends>,
    listeners: Vec<RunningListener>,
}

impl Server {
    /// Looks the backends up, binds the sockets and starts the workers.
    pub async fn open(config: &Config) -> anyhow::Result<Self> {
        Self::open_controlled(config, None, None).await
    }

    /// Opens a server that records from the first session on, if there is an order to, and binds the socket that
    /// operators come by, if there is one.
    async fn open_controlled(
        config: &Config,
        capture: Option<Order>,
        operators: Option<&config::Admin>,
    ) -> anyhow::Result<Self> {
        let common = common(config, capture)?;
        let backends = Arc::new(Backends::new(common.board.clone(), common.clock.clone()));
        let openings = open_listeners(config, &common, &backends).await?;
        let allowed_hosts = &config.admin.allowed_hosts;
        let start = |listen| {
            Admin::start(
                listen,
                allowed_hosts,
                common.board.clone(),
                common.clock.clone(),
            )
        };
        // Before anything is announced that would end again if one of these could not be had.
        let admin = config.admin.listen.map(start).transpose()?;
        let control = operators.map(control::bind).transpose()?.flatten();
        let workers = config.runtime.workers;
        let mut shares: Shares = (0..workers).map(|_| Vec::new()).collect();
        let mut listeners = Vec::new();
        for opening in openings {
            let (running, all) = opening.show(&common);
            for (share, parts) in shares.iter_mut().zip(all) {
                share.extend(parts);
            }
            listeners.push(running);
        }
        hangs::watch(&common.board, common.clock.clone())?;
        let fleet = Fleet::spawn(shares, &common.clock)?;
        Ok(Self {
            fleet,
            drain: config.drain.clone(),
            admin,
            control,
            addresses: listeners.iter().flat_map(RunningListener::bound).collect(),
            backends,
            listeners,
            common,
        })
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
    pub async fn run(self, signals: StopSignals) -> anyhow::Result<()> {
        let board = &self.common.board;
        let outcome = self.fleet.run(board, &self.drain, signals).await;
        self.common.tap.stop();
        outcome
    }
}

/// What all listeners are built with; a recording begins at once, if one is asked for.
fn common(config: &Config, capture: Option<Order>) -> anyhow::Result<Common> {
    let mut clock = Clock::start();
    let state = config.runtime.state_directory.as_deref();
    let state = state.map(StateDirectory::new);
    if let Some(state) = &state {
        state.warn_of_disk();
    }
    let runtime = &config.runtime;
    let capacity = Capacity::new(runtime.max_peers, runtime.queue_memory as u64);
    let capacity = Arc::new(capacity);
    let board = Board::new(clock.now(), capacity.clone());
    let tap = board.tap().clone();
    if let Some(order) = capture {
        tap.start(order, clock.now())?;
    }
    Ok(Common {
        runtime: runtime.clone(),
        board: Arc::new(board),
        capacity,
        clock,
        tap,
        state,
    })
}

/// Binds the sockets of all listeners while the names of their backends are looked up, and waits for those.
async fn open_listeners<'a>(
    config: &'a Config,
    common: &Common,
    backends: &Backends,
) -> anyhow::Result<Vec<Opening<'a>>> {
    let mut openings = Vec::new();
    let mut names = Vec::new();
    for listener in &config.listeners {
        let pool = match backends.pool(&listener.backend.name) {
            Some(pool) => pool,
            None => {
                let pool = Arc::new(Pool::of(&listener.backend));
                names.push(backends.open(&listener.backend, pool.clone()));
                pool
            }
        };
        openings.push(Opening::new(common, listener, &pool)?);
    }
    for looks in names {
        looks.done().await;
    }
    Ok(openings)
}
