//! `tidegate connect`: each local connection becomes a session of its own with a distant server.
//!
//! Accepting, tokens and names are the control plane's; the session and both of its sockets then go
//! to a worker.

use std::net::SocketAddr;
use std::os::unix::fs::PermissionsExt;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, bail};
use tidegate_proto::{Endpoint, endpoint};
use tokio::net::{TcpListener, UnixListener, lookup_host};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::{sleep, timeout};

use crate::admin::Admin;
use crate::backend::{Rules, Socket, SocketOptions};
use crate::backends::Backends;
use crate::board::{Board, ListenerInfo};
use crate::capacity::Capacity;
use crate::clock::Clock;
use crate::config::{Config, LocalAddress, Protocol, Tunnel, UnreliablePolicy};
use crate::control::{ControlSocket, Gate};
use crate::core_dumps;
use crate::exit::{Transport, Unavailable};
use crate::listener::{Dial, Parts, Siblings};
use crate::logging::Logging;
use crate::protocol::{self, Dialer};
use crate::shutdown::Fleet;
use crate::tokens;
use crate::udp::{Options, UdpSocket};
use crate::worker::{Command, Handle, Remote};
use crate::workers::Workers;

/// Runs until told to stop.
pub fn run(config: Config, logging: Logging) -> anyhow::Result<()> {
    core_dumps::forbid();
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    runtime.block_on(connect(config, logging))
}

async fn connect(config: Config, logging: Logging) -> anyhow::Result<()> {
    let mut clock = Clock::start();
    let board = Arc::new(Board::new(clock.now(), config.runtime.queue_memory as u64));
    let runtime = &config.runtime;
    let capacity = Arc::new(Capacity::new(
        runtime.max_peers,
        runtime.queue_memory as u64,
    ));
    let workers = runtime.workers;
    tokio::spawn(logging.clone().publish(board.clone()));
    let mut doors = Vec::new();
    for tunnel in &config.tunnels {
        doors.push(bind_all(tunnel).with_context(|| format!("tunnel {}", tunnel.name))?);
    }
    let mut shares: Vec<Vec<Parts>> = (0..workers).map(|_| Vec::new()).collect();
    for tunnel in &config.tunnels {
        for (share, parts) in shares
            .iter_mut()
            .zip(parts(tunnel, &board, &capacity, workers)?)
        {
            share.push(parts);
        }
    }
    let _admin = match config.admin.listen {
        Some(listen) => Some(Admin::start(listen, board.clone(), clock.clone()).map_err(
            |error| {
                Unavailable(format!(
                    "admin: {}",
                    Transport::Tcp.cannot_bind(listen, &error)
                ))
            },
        )?),
        None => None,
    };
    crate::notify::start(board.clone(), clock.clone())?;
    let mut shares = shares.into_iter();
    let fleet = Fleet::spawn(workers, |index, alive| {
        let parts = shares.next().unwrap_or_default();
        Handle::spawn(format!("worker {index}"), clock.clone(), parts, alive)
    })?;
    let remotes: Vec<Remote> = fleet.remotes();
    let (told, now) = (board.clone(), clock.clone());
    let gate = Arc::new(Gate::new(
        told,
        now,
        Workers::new(remotes.clone()),
        Arc::new(Backends::new(board.clone())),
        logging,
    ));
    gate.clone().listen_for_signals()?;
    let _control = match &config.admin.control_socket {
        Some(path) => {
            let socket = ControlSocket::bind(path, config.admin.control_mode)?;
            Some(socket.start(gate))
        }
        None => None,
    };
    for (index, (tunnel, doors)) in config.tunnels.iter().zip(doors).enumerate() {
        let way = Arc::new(Way {
            index,
            dialer: Dialer::new(tunnel),
            tunnel: tunnel.clone(),
            workers: remotes.clone(),
            clock: clock.clone(),
            options: Options {
                receive_buffer: config.runtime.udp_recv_buffer.min(SESSION_BUFFER),
                send_buffer: 0,
                ..Options::default()
            },
        });
        let seats = Arc::new(Semaphore::new(
            tunnel.max_streams.min(Semaphore::MAX_PERMITS),
        ));
        for door in doors {
            tokio::spawn(accept_all(door, way.clone(), seats.clone()));
        }
    }
    clock.now();
    fleet.run(&board, &config.drain).await
}

/// One tunnel, as the accepting side sees it.
struct Way {
    /// Its place among the workers' listeners.
    index: usize,
    tunnel: Tunnel,
    dialer: Dialer,
    workers: Vec<Remote>,
    clock: Clock,
    options: Options,
}

enum Door {
    Tcp(TcpListener),
    Unix(UnixListener),
}

fn bind_all(tunnel: &Tunnel) -> anyhow::Result<Vec<Door>> {
    tunnel.listen.iter().map(bind).collect()
}

fn bind(local: &LocalAddress) -> anyhow::Result<Door> {
    match local {
        LocalAddress::Tcp(address) => {
            let bind = || {
                let listener = std::net::TcpListener::bind(address)?;
                listener.set_nonblocking(true)?;
                TcpListener::from_std(listener)
            };
            let listener = bind()
                .map_err(|error| Unavailable(Transport::Tcp.cannot_bind(*address, &error)))?;
            tracing::info!(event = "listening", address = %listener.local_addr()?);
            Ok(Door::Tcp(listener))
        }
        LocalAddress::Unix(path) => {
            // A file left by a process that died is in the way; one that answers is not ours.
            if std::os::unix::net::UnixStream::connect(path).is_err()
                && path.metadata().is_ok_and(|found| is_socket(&found))
            {
                std::fs::remove_file(path).ok();
            }
            let listener = UnixListener::bind(path)
                .map_err(|error| Unavailable(format!("cannot bind {}: {error}", path.display())))?;
            std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o600))?;
            tracing::info!(event = "listening", address = %path.display());
            Ok(Door::Unix(listener))
        }
    }
}

fn is_socket(found: &std::fs::Metadata) -> bool {
    use std::os::unix::fs::FileTypeExt;
    found.file_type().is_socket()
}

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
        workers,
    );
    reporters
        .into_iter()
        .map(|reporter| {
            Ok(Parts {
                name: tunnel.name.as_str().into(),
                protocol: tunnel.protocol.label(),
                socket: None,
                endpoint: Endpoint::new(Box::new(protocol::Closed), endpoint::Params::default()),
                admission: None,
                destination: None,
                rules: Rules {
                    codec: protocol::fitting(tunnel.codec, &tunnel.protocol),
                    unreliable: UnreliablePolicy::DropOldest,
                    acknowledge_written: false,
                    stall: STREAM_STALL,
                    linger: tunnel.linger,
                },
                limits: None,
                capacity: Arc::clone(capacity),
                reporter: Some(reporter),
                siblings: Siblings::default(),
                seed: u64::from_le_bytes(tokens::random()?),
            })
        })
        .collect()
}

/// Accepts for ever. Above the limit of streams a connection is closed at once: left in the kernel's
/// queue it would look connected and hang.
async fn accept_all(door: Door, way: Arc<Way>, seats: Arc<Semaphore>) {
    let options = SocketOptions {
        nodelay: true,
        keepalive: Some(Duration::from_secs(30)),
        user_timeout: STREAM_STALL,
    };
    loop {
        let accepted = match &door {
            Door::Tcp(listener) => match listener.accept().await {
                Ok((stream, _)) => stream
                    .into_std()
                    .and_then(|stream| Socket::adopt_tcp(stream, options)),
                Err(error) => Err(error),
            },
            Door::Unix(listener) => match listener.accept().await {
                Ok((stream, _)) => stream
                    .into_std()
                    .and_then(|stream| Socket::adopt_unix(stream, options)),
                Err(error) => Err(error),
            },
        };
        match accepted {
            Ok(stream) => match seats.clone().try_acquire_owned() {
                Ok(seat) => {
                    tokio::spawn(begin(way.clone(), stream, seat));
                }
                Err(_) => tracing::warn!(event = "streams_full", tunnel = %way.tunnel.name),
            },
            Err(error) => {
                tracing::warn!(event = "accept_failed", tunnel = %way.tunnel.name, %error);
                // Out of descriptors, most likely: trying again at once would only spin.
                sleep(ACCEPT_PAUSE).await;
            }
        }
    }
}

/// A failure closes the local connection, which is dropped here: never a hang.
async fn begin(way: Arc<Way>, stream: Socket, seat: OwnedSemaphorePermit) {
    let prepared = timeout(way.tunnel.connect_timeout, way.prepare(stream, seat)).await;
    let failed = match prepared {
        Ok(Ok(dial)) => {
            way.hand_over(dial);
            return;
        }
        Ok(Err(error)) => format!("{error:#}"),
        Err(_) => "no answer in time".to_owned(),
    };
    tracing::warn!(event = "dial_failed", tunnel = %way.tunnel.name, error = failed);
}

impl Way {
    async fn prepare(&self, stream: Socket, seat: OwnedSemaphorePermit) -> anyhow::Result<Dial> {
        let remote = self.look_up().await?;
        let token = match (&self.tunnel.tokens, &self.tunnel.protocol) {
            (Some(source), Protocol::Yojimbo(own)) => {
                let idle = self.tunnel.idle_timeout;
                let token = tokens::obtain(source, own.netcode.protocol_id, remote, idle).await?;
                Some(token)
            }
            (_, Protocol::Yojimbo(_) | Protocol::Gaffer(_) | Protocol::Rudp(_)) => None,
        };
        let now = self.clock.clone().now();
        let Some(session) = self.dialer.dial(now, token)? else {
            bail!("no connect token");
        };
        let udp = UdpSocket::connect(remote, self.options)
            .with_context(|| format!("a socket to {remote}"))?;
        Ok(Dial {
            remote,
            udp,
            stream,
            session,
            timeout: self.tunnel.connect_timeout,
            seat: Some(seat),
        })
    }

    /// Each time: the name may have moved since the last session.
    async fn look_up(&self) -> anyhow::Result<SocketAddr> {
        let (host, port) = (&self.tunnel.remote_host, self.tunnel.remote_port);
        let found = lookup_host((host.as_str(), port))
            .await
            .with_context(|| format!("looking up {host}"))?
            .next();
        found.with_context(|| format!("{host} has no address"))
    }

    /// Workers take turns.
    fn hand_over(&self, dial: Dial) {
        let turn = usize::from(dial.udp.local_addr().port());
        if let Some(worker) = self.workers.get(turn % self.workers.len().max(1)) {
            worker.tell(Command::Dial(self.index, Box::new(dial)));
        }
    }
}

/// A local program that reads nothing for this long is given up.
const STREAM_STALL: Duration = Duration::from_secs(10);

const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// One peer fills no more than this; with a socket for each, the whole would be memory wasted.
const SESSION_BUFFER: usize = 256 * 1024;
