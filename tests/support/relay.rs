//! The relay without its program: one worker, one listener, the toy protocol.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use tidegate::admission::{self, Admission};
use tidegate::backend::{Pool, SocketOptions, StreamRules};
use tidegate::board::{Board, ListenerInfo, PeerRow, Reporter, WorkerSocket};
use tidegate::capacity::Capacity;
use tidegate::clock::Clock;
use tidegate::config::{Backoff, Balance, Bucket, Target, UnreliablePolicy};
use tidegate::counters::WorkerCounters;
use tidegate::framing::{FrameCodec, Framing};
use tidegate::listener::{Destination, Parts, PeerLimits, Policy, Terms};
use tidegate::proxy_protocol::ProxyHeader;
use tidegate::udp::{Options, UdpSocket};
use tidegate::worker::{Command, Handle};
use tidegate_proto::{AckPolicy, Endpoint, Now};

use super::{PATIENCE, toy, wait_until};

/// One worker with one listener that speaks the toy protocol, in front of these targets.
pub struct Relay {
    pub address: SocketAddr,
    pub board: Arc<Board>,
    clock: Clock,
    worker: Option<Handle>,
}

/// What a relay of a test can be told to do otherwise.
pub struct Setup {
    pub bind: SocketAddr,
    pub framing: Framing,
    pub attempts: u32,
    pub connect_timeout: Duration,
    pub stall: Duration,
    pub linger: Duration,
    pub unreliable: UnreliablePolicy,
    pub max_message: usize,
    pub proxy: Option<ProxyHeader>,
    pub limits: Option<PeerLimits>,
    pub admission: Option<admission::Params>,
    pub capacity: Arc<Capacity>,
}

impl Default for Setup {
    fn default() -> Self {
        Self {
            bind: SocketAddr::from(([127, 0, 0, 1], 0)),
            framing: Framing::U16Be,
            attempts: 1,
            connect_timeout: PATIENCE,
            stall: PATIENCE,
            linger: Duration::from_secs(2),
            unreliable: UnreliablePolicy::DropOldest,
            max_message: 60_000,
            proxy: None,
            limits: None,
            admission: None,
            capacity: Arc::new(Capacity::new(64, 1 << 28)),
        }
    }
}

impl Relay {
    pub fn start(targets: &[Target], setup: Setup) -> Self {
        let mut clock = Clock::start();
        let board = Arc::new(Board::new(clock.now(), setup.capacity.clone()));
        board.add_backend("test", Pool::new(Balance::First, targets).into());
        let socket = UdpSocket::bind(
            setup.bind,
            Options {
                receive_buffer: 1 << 22,
                ..Options::default()
            },
        )
        .unwrap();
        let address = socket.local_addr();
        let reporter = board
            .add_listener(
                ListenerInfo {
                    name: "test".into(),
                    protocol: "toy",
                    bind: vec![address],
                    backend: "test".into(),
                    peers_max: 64,
                },
                &WorkerSocket::one_each(1),
            )
            .remove(0);
        let parts = toy_parts(socket, targets, &setup, Some(reporter));
        let worker = Handle::spawn(0, clock.clone(), vec![parts], ()).unwrap();
        Self {
            address,
            board,
            clock,
            worker: Some(worker),
        }
    }

    pub fn tell(&self, command: Command) {
        self.worker.as_ref().unwrap().tell(command);
    }

    fn now(&mut self) -> Now {
        self.clock.now()
    }

    /// The counters as last published.
    pub fn counters(&mut self) -> WorkerCounters {
        let now = self.now();
        self.board.snapshot(now).listeners[0].counters.clone()
    }

    /// The worst peers, as last published.
    pub fn worst(&mut self) -> Vec<PeerRow> {
        let now = self.now();
        self.board.snapshot(now).listeners.swap_remove(0).worst
    }

    /// Waits until the published counters satisfy this; they are published four times a second.
    pub fn wait_for(&mut self, what: &str, is: impl Fn(&WorkerCounters) -> bool) -> WorkerCounters {
        wait_until(what, PATIENCE, || {
            let counters = self.counters();
            is(&counters).then_some(counters)
        })
    }

    /// Waits for the worker's end.
    pub fn join(mut self) -> WorkerCounters {
        let worker = self.worker.take().unwrap();
        wait_until("the worker ends", PATIENCE, || {
            worker.is_finished().then_some(())
        });
        worker.join().unwrap().unwrap();
        self.counters()
    }
}

/// A listener that speaks the toy protocol, in front of these targets.
pub fn toy_parts(
    socket: UdpSocket,
    targets: &[Target],
    setup: &Setup,
    reporter: Option<Reporter>,
) -> Parts {
    Parts {
        name: "test".into(),
        protocol: "toy",
        socket: Some(socket),
        endpoint: Endpoint::new(
            Box::new(toy::ToyAcceptor),
            tidegate_proto::endpoint::Params::default(),
        ),
        terms: toy_terms(targets, setup, setup.limits),
        admission: setup.admission.as_ref().map(Admission::new),
        capacity: setup.capacity.clone(),
        reporter,
        siblings: tidegate::listener::Siblings::default(),
        peer_count: tidegate::listener::PeerCount::default(),
        arrivals: tidegate::listener::Arrivals::default(),
        seed: 1,
    }
}

/// What such a listener would have for its newcomers from now on: these limits, and all else as before.
pub fn toy_policy(targets: &[Target], setup: &Setup, limits: PeerLimits) -> Policy {
    let plenty = Bucket {
        rate: u32::MAX,
        burst: u32::MAX,
    };
    let anybody = admission::Params {
        per_prefix: plenty,
        listener: plenty,
        table_size: 16,
        strikes: None,
        rules: admission::SourceRules::default(),
    };
    Policy {
        terms: toy_terms(targets, setup, Some(limits)),
        peers_max: 64,
        admission: setup.admission.clone().unwrap_or(anybody),
    }
}

fn toy_terms(targets: &[Target], setup: &Setup, limits: Option<PeerLimits>) -> Terms {
    Terms {
        destination: Some(toy_destination(targets, setup)),
        rules: Arc::new(toy_rules(setup)),
        limits,
        is_open: true,
    }
}

fn toy_destination(targets: &[Target], setup: &Setup) -> Destination {
    Destination {
        pool: Arc::new(Pool::new(Balance::First, targets)),
        timeout: setup.connect_timeout,
        attempts: setup.attempts,
        backoff: Backoff {
            first: Duration::from_millis(20),
            most: Duration::from_millis(100),
        },
        proxy: setup.proxy,
        socket: SocketOptions {
            nodelay: true,
            keepalive: None,
            user_timeout: Duration::from_secs(10),
        },
    }
}

fn toy_rules(setup: &Setup) -> StreamRules {
    StreamRules {
        codec: FrameCodec::new(setup.framing, false, false, setup.max_message),
        unreliable: setup.unreliable,
        ack: AckPolicy::Queued,
        stall: setup.stall,
        linger: setup.linger,
    }
}
