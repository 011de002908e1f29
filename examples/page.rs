//! The admin page and metrics with made-up figures, for working on the page, the dashboard and the
//! alerts without a network: `cargo run --example page -- 127.0.0.1:9477`.

use std::error::Error;
use std::net::SocketAddr;
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use tidegate::admin::Admin;
use tidegate::backend::Pool;
use tidegate::board::{Board, ListenerInfo, PeerRow, Reporter, State, WorkerSocket, WorstPeers};
use tidegate::capacity::Capacity;
use tidegate::clock::Clock;
use tidegate::config::{Balance, Target};
use tidegate::counters::{ClosedBy, ConnectFailure, Direction, DropReason, WorkerCounters};
use tidegate::udp::UdpError;
use tidegate_proto::{CloseReason, Now, Reject, Stats};

const PEERS: u64 = 180;

fn main() -> Result<(), Box<dyn Error>> {
    let listen = std::env::args().nth(1);
    let listen = listen.as_deref().unwrap_or("127.0.0.1:9477").parse()?;
    let mut clock = Clock::start();
    let board = Arc::new(Board::new(
        clock.now(),
        Capacity::new(4096, 256 << 20).into(),
    ));
    let targets = [
        Target::Unix("/run/game/server.sock".into()),
        Target::Tcp {
            host: "127.0.0.1".into(),
            port: 7000,
        },
    ];
    let pool = Arc::new(Pool::new(Balance::LeastPeers, &targets));
    board.add_backend("game", pool.clone());
    let mut workers = Vec::new();
    for (name, protocol, port) in [("game", "yojimbo", 40000), ("legacy", "gaffer", 40001)] {
        let reporters = board.add_listener(
            ListenerInfo {
                name: name.into(),
                protocol,
                bind: vec![SocketAddr::from(([0, 0, 0, 0], port))],
                backend: "game".into(),
                peers_max: 1024,
            },
            &WorkerSocket::one_each(2),
        );
        workers.extend(reporters.into_iter().map(Worker::new));
    }
    board.update_process(|process| process.state = State::Serving);
    // The second target is down.
    for (pick, _) in pool.addresses(1) {
        (0..5).for_each(|_| drop(pool.on_failed(clock.now().mono, pick)));
    }
    let admin = Admin::start(listen, &[], Arc::clone(&board), clock.clone())?;
    eprintln!("http://{}/", admin.address());
    loop {
        let now = clock.now();
        for (index, worker) in workers.iter_mut().enumerate() {
            worker.turn(now, index as u64);
        }
        thread::sleep(Duration::from_millis(250));
    }
}

struct Worker {
    reporter: Reporter,
    counters: WorkerCounters,
    turns: u64,
}

impl Worker {
    fn new(reporter: Reporter) -> Self {
        Self {
            counters: reporter.counters(),
            reporter,
            turns: 0,
        }
    }

    /// A quarter of a second in the life of a worker whose peers play in waves of a minute.
    fn turn(&mut self, now: Now, worker: u64) {
        let wave = (self.turns as f64 / 40.0 + worker as f64).sin();
        let peers = (PEERS as f64 * (1.0 + 0.3 * wave)) as u64;
        let c = &mut self.counters;
        c.peers = peers;
        c.peers_in_bad_mode = peers / 12;
        c.datagrams_received += peers * 15;
        c.datagram_bytes_received += peers * 15 * 90;
        c.receive_calls += peers;
        c.sent.datagrams += peers * 5;
        c.sent.bytes += peers * 5 * 400;
        c.sent.calls += peers / 2;
        c.handshakes_accepted += self.turns % 2;
        c.sessions_opened += self.turns % 2;
        c.handshake_duration.record(0.08 + 0.05 * wave);
        c.busy += Duration::from_millis((60.0 + 20.0 * wave) as u64);
        c.tick_lag.record(0.0004 + 0.0003 * wave);
        c.queued_bytes = [peers * 200, peers * 1500];
        c.on_reject(Reject::UnknownPeer);
        c.on_reject(Reject::ALL[self.turns as usize % 7 + 13]);
        if self.turns.is_multiple_of(9) {
            c.on_reject(Reject::TokenExpired);
            c.on_close(CloseReason::PeerDisconnect, Duration::from_secs(900));
            c.on_close(CloseReason::PeerTimeout, Duration::from_secs(40));
            c.on_drop(Direction::ToBackend, DropReason::QueueFull, 3);
            c.sent.errors.0[UdpError::Unreachable as usize] += 1;
            c.targets[0].closes[ClosedBy::Tidegate as usize] += 2;
            c.targets[1].connect_failures[ConnectFailure::Refused as usize] += 1;
        }
        for message in 0..peers * 8 {
            let direction = Direction::ALL[message as usize % 2];
            c.on_forward(direction, 60 + message as usize % 90);
        }
        for direction in Direction::ALL {
            c.forward_duration[direction as usize].record(0.0002 + 0.0001 * wave);
        }
        c.targets[0].connections = peers;
        c.targets[0].connects += self.turns % 2;
        c.targets[0].connect_duration.record(0.0003);
        c.targets[0].bytes_sent += peers * 4 * 110;
        c.targets[0].bytes_received += peers * 4 * 110;
        c.admission.buckets = 65_536;
        c.admission.buckets_used = peers;
        if self.turns.is_multiple_of(4) {
            let mut worst = WorstPeers::default();
            for index in 0..peers {
                let row = peer(index, worker, wave);
                c.sample_peer(&row.stats);
                worst.offer(row);
            }
            self.reporter.publish_peers(worst);
        }
        self.reporter.publish(now.mono, c);
        self.turns += 1;
    }
}

fn peer(index: u64, worker: u64, wave: f64) -> PeerRow {
    // A spread with a long tail, from the index alone.
    let spread = (index * 7919 % 1000) as f64 / 1000.0;
    let rtt = 0.025 + 0.06 * spread + 0.3 * spread.powi(12) + 0.01 * wave;
    let loss = 0.002 + 0.01 * spread + 0.2 * spread.powi(20);
    PeerRow {
        session: (worker << 32 | index).wrapping_mul(0x9e37_79b9_7f4a_7c15),
        address: SocketAddr::from(([198, 51, 100, (index % 250) as u8], 30_000 + index as u16)),
        client_id: worker.is_multiple_of(2).then_some(0x1000_0000_0000 + index),
        age: Duration::from_secs(30 + index * 17),
        target: Some(0),
        inbox_bytes: 0,
        stats: Stats {
            rtt: Duration::from_secs_f64(rtt.max(0.001)),
            rtt_variation: Duration::from_secs_f64(0.004 + 0.02 * spread),
            loss: loss as f32,
            in_bad_mode: index < 15,
            messages_resent: (spread * 100.0) as u64,
            outbox_bytes: (spread * 3000.0) as u32,
            ..Stats::default()
        },
    }
}
