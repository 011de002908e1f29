//! What the tests of the running program share.

#![allow(
    dead_code,
    clippy::unwrap_used,
    unreachable_pub,
    reason = "each test binary uses its own part of it"
)]

pub mod lossy;
pub mod program;
pub mod scene;
pub mod toy;

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::time::{Duration, Instant};

use tidegate::backend::{Pool, Rules, SocketOptions};
use tidegate::board::{Board, ListenerInfo, Reporter};
use tidegate::capacity::Capacity;
use tidegate::clock::Clock;
use tidegate::config::{Backoff, Balance, Target, UnreliablePolicy};
use tidegate::counters::WorkerCounters;
use tidegate::framing::{FrameCodec, Framing};
use tidegate::listener::{Destination, Parts};
use tidegate::udp::{Options, UdpSocket};
use tidegate::worker::{Command, Handle};
use tidegate_proto::{Endpoint, Now};

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
    pub unreliable: UnreliablePolicy,
    pub max_message: usize,
}

impl Default for Setup {
    fn default() -> Self {
        Self {
            bind: SocketAddr::from(([127, 0, 0, 1], 0)),
            framing: Framing::U16Be,
            attempts: 1,
            connect_timeout: Duration::from_secs(2),
            stall: Duration::from_secs(10),
            unreliable: UnreliablePolicy::DropOldest,
            max_message: 60_000,
        }
    }
}

impl Relay {
    pub fn start(targets: &[Target], setup: Setup) -> Self {
        let mut clock = Clock::start();
        let board = Arc::new(Board::new(clock.now(), 1 << 28));
        board.add_backend(tidegate::board::BackendInfo {
            name: "test".into(),
            targets: vec![String::new(); targets.len()],
        });
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
                1,
            )
            .remove(0);
        let parts = toy_parts(socket, targets, &setup, Some(reporter));
        let worker = Handle::spawn("test".into(), clock.clone(), vec![parts], ()).unwrap();
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

    /// Waits until the published counters satisfy this; they are published four times a second.
    pub fn wait_for(&mut self, what: &str, is: impl Fn(&WorkerCounters) -> bool) -> WorkerCounters {
        wait_until(what, Duration::from_secs(15), || {
            let counters = self.counters();
            is(&counters).then_some(counters)
        })
    }

    /// Waits for the worker's end.
    pub fn join(mut self) -> WorkerCounters {
        let worker = self.worker.take().unwrap();
        wait_until("the worker ends", Duration::from_secs(10), || {
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
            Box::new(toy::Door),
            tidegate_proto::endpoint::Params::default(),
        ),
        destination: Some(Destination {
            pool: Arc::new(Pool::new(Balance::First, targets)),
            timeout: setup.connect_timeout,
            attempts: setup.attempts,
            backoff: Backoff {
                first: Duration::from_millis(20),
                most: Duration::from_millis(100),
            },
            proxy: None,
            socket: SocketOptions {
                nodelay: true,
                keepalive: None,
                user_timeout: Duration::from_secs(10),
            },
        }),
        rules: Rules {
            codec: FrameCodec::new(setup.framing, false, false, setup.max_message),
            unreliable: setup.unreliable,
            acknowledge_written: false,
            stall: setup.stall,
            linger: Duration::from_secs(2),
        },
        admission: None,
        limits: None,
        capacity: Arc::new(Capacity::new(64, 1 << 28)),
        reporter,
        siblings: tidegate::listener::Siblings::default(),
        seed: 1,
    }
}

/// Asks again and again, for a bounded time.
pub fn wait_until<T>(what: &str, patience: Duration, mut ask: impl FnMut() -> Option<T>) -> T {
    #[expect(clippy::disallowed_methods, reason = "a test waits in real time")]
    let start = Instant::now();
    loop {
        if let Some(answer) = ask() {
            return answer;
        }
        assert!(start.elapsed() < patience, "waited too long: {what}");
        std::thread::sleep(Duration::from_millis(2));
    }
}

/// A TCP listener on a free port, as a target.
pub fn tcp_backend() -> (TcpListener, Target) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    (listener, tcp_target(port))
}

pub fn tcp_target(port: u16) -> Target {
    Target::Tcp {
        host: "127.0.0.1".into(),
        port,
    }
}

/// Accepts one stream; bounded.
pub fn accept(listener: &TcpListener) -> TcpStream {
    listener.set_nonblocking(true).unwrap();
    let stream = wait_until("a backend stream", Duration::from_secs(5), || {
        listener.accept().ok().map(|(stream, _)| stream)
    });
    stream.set_nonblocking(false).unwrap();
    stream.set_nodelay(true).unwrap();
    stream
        .set_read_timeout(Some(Duration::from_secs(10)))
        .unwrap();
    stream
        .set_write_timeout(Some(Duration::from_secs(10)))
        .unwrap();
    stream
}

pub fn read_frame(stream: &mut impl Read) -> Option<Vec<u8>> {
    let mut length = [0; 2];
    stream.read_exact(&mut length).ok()?;
    let mut payload = vec![0; usize::from(u16::from_be_bytes(length))];
    stream.read_exact(&mut payload).ok()?;
    Some(payload)
}

pub fn write_frame(stream: &mut impl Write, payload: &[u8]) {
    let mut frame = (payload.len() as u16).to_be_bytes().to_vec();
    frame.extend_from_slice(payload);
    stream.write_all(&frame).unwrap();
}
