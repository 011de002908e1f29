//! What does a relayed message cost, beside a relay that speaks no protocol?
//!
//! Players say messages at a fixed rate, the backend echoes them; each way counts as one message.
//! Processor time is that of the relay alone (the whole process; on loopback that includes much of
//! the kernel's receive path). Times run from the moment a message was said to the moment the other
//! end read it, wake-ups of players and backend included. How much later than due it was said is the
//! bench's own doing and a column of its own.
//!
//! `--peers 1000 --rate 30 --size 64 --seconds 8`; `--only plain|tidegate`; `--curve peers|size|rate`;
//! `--unix` puts the backend behind a Unix socket; `--pin` ties the relay to core 1 and all else to core 0
//! (needs `taskset`); `--runs 5`, turn by turn

mod stand;

use std::time::Duration;

use stand::backend::{Backend, Habit};
use stand::plain::{Plain, PlainPlayers};
use stand::players::Players;
use stand::program::{Place, Program};
use stand::spread::Spread;
use stand::talkers::Talkers;
use stand::{STAMPS, flag, nanos, option, pin, table};
use tidegate_proto::yojimbo::Params;

/// One cell.
#[derive(Clone, Copy)]
struct Load {
    peers: usize,
    rate: f64,
    size: usize,
    seconds: f64,
}

struct Outcome {
    messages: u64,
    cpu_nanos: u64,
    sleeps: Option<u64>,
    /// Bytes that each further player took.
    per_peer: Option<u64>,
    late: Spread,
    up: Spread,
    down: Spread,
}

fn main() {
    if flag("test") {
        return; // `cargo test --benches` only wants to know that it builds.
    }
    let load = Load {
        peers: option("peers", 1000.0) as usize,
        rate: option("rate", 30.0),
        size: option("size", 64.0) as usize,
        seconds: option("seconds", 8.0),
    };
    table::circumstances();
    if flag("pin") {
        pin(std::process::id(), 0, true);
    }
    table::head(&[
        "relay",
        "peers",
        "Hz",
        "bytes",
        "messages/s",
        "CPU us/message",
        "of a core",
        "wake-ups/message",
        "KiB/peer",
        "said late us p50/p99/p99.9",
        "up us p50/p99/p99.9",
        "down us p50/p99/p99.9",
    ]);
    let loads = match std::env::args()
        .skip_while(|flag| flag != "--curve")
        .nth(1)
        .as_deref()
    {
        None => vec![load],
        Some("peers") => [10, 100, 1000, 3000]
            .map(|peers| Load {
                peers,
                rate: 30_000.0 / peers.max(1000) as f64,
                ..load
            })
            .into(),
        Some("size") => [16, 64, 256, 1024, 4096, 16_384]
            .map(|size| Load {
                peers: 100,
                size,
                ..load
            })
            .into(),
        Some("rate") => [1.0, 10.0, 30.0, 60.0]
            .map(|rate| Load { rate, ..load })
            .into(),
        Some(other) => panic!("no curve over {other}"),
    };
    let only = std::env::args().skip_while(|flag| flag != "--only").nth(1);
    let again = option("runs", 1.0) as usize;
    for load in loads.into_iter().flat_map(|load| vec![load; again]) {
        for (name, run) in [
            ("plain", plain as fn(Load) -> Outcome),
            ("tidegate", tidegate),
        ] {
            if only.as_deref().is_none_or(|only| only == name) {
                print(name, load, &run(load));
            }
        }
    }
}

fn print(name: &str, load: Load, outcome: &Outcome) {
    let messages = outcome.messages.max(1) as f64;
    let dash = || "-".to_owned();
    table::row(&[
        name.to_owned(),
        load.peers.to_string(),
        load.rate.to_string(),
        load.size.to_string(),
        format!("{:.0}", messages / load.seconds),
        format!("{:.2}", outcome.cpu_nanos as f64 / 1e3 / messages),
        format!("{:.0} %", outcome.cpu_nanos as f64 / 1e7 / load.seconds),
        outcome
            .sleeps
            .map_or_else(dash, |sleeps| format!("{:.3}", sleeps as f64 / messages)),
        outcome
            .per_peer
            .map_or_else(dash, |bytes| format!("{:.1}", bytes as f64 / 1024.0)),
        outcome.late.text(),
        outcome.up.text(),
        outcome.down.text(),
    ]);
}

/// When which message is due: evenly spread over peers and time.
struct Schedule {
    start: u64,
    every: f64,
    next: u64,
    peers: usize,
    message: Vec<u8>,
    late: Spread,
}

impl Schedule {
    fn new(load: Load) -> Self {
        Self {
            start: nanos(),
            every: 1e9 / (load.rate * load.peers as f64),
            next: 0,
            peers: load.peers,
            message: vec![0x5a; load.size.max(STAMPS)],
            late: Spread::default(),
        }
    }

    /// Players say what is due for so long. How many messages came back, and how long each was on
    /// its way down; how late they were said is noted for this span alone.
    fn follow(&mut self, players: &mut impl Talkers, span: Duration) -> (u64, Spread) {
        let (mut heard, mut down) = (0, Spread::default());
        self.late.clear();
        let until = nanos() + span.as_nanos() as u64;
        while nanos() < until {
            self.say_due(players);
            players.turn(Duration::from_micros(500), |message| {
                heard += 1;
                down.record(way_down(message));
            });
        }
        (heard, down)
    }

    /// The messages due by now, each stamped with the time it is said.
    fn say_due(&mut self, players: &mut impl Talkers) {
        let until = nanos();
        loop {
            let at = self.start + (self.next as f64 * self.every) as u64;
            if at > until {
                return;
            }
            let now = nanos();
            self.late.record(now - at);
            self.message[..8].copy_from_slice(&now.to_le_bytes());
            players.say(self.next as usize % self.peers, &self.message);
            self.next += 1;
        }
    }
}

/// Nanoseconds since the backend had it.
fn way_down(message: &[u8]) -> u64 {
    let mut had = [0; 8];
    had.copy_from_slice(&message[8..STAMPS]);
    nanos().saturating_sub(u64::from_le_bytes(had))
}

/// Before figures are taken: streams connect, buffers grow, paths are measured.
const WARM_UP: Duration = Duration::from_secs(2);

fn start_backend(place: &Place) -> Backend {
    if flag("unix") {
        Backend::start_unix(&place.0.join("backend.sock"), Habit::Echo)
    } else {
        Backend::start(Habit::Echo)
    }
}

fn tidegate(load: Load) -> Outcome {
    let place = Place::new();
    let backend = start_backend(&place);
    let server = Program::serve(&place, &backend.targets(), "u16be");
    eprintln!("tidegate serve: process {}", server.id());
    if flag("pin") {
        pin(server.id(), 1, true);
    }
    let mut players = Players::new(server.address, Params::default());
    // Half of them first: what the program takes once, its code and its buffers, is there then.
    let half = load.peers.div_ceil(2);
    players.join(half, 256, Duration::from_secs(60));
    Schedule::new(Load {
        peers: half,
        ..load
    })
    .follow(&mut players, WARM_UP);
    let before = server.usage();
    players.join(load.peers, 256, Duration::from_secs(60));
    let mut schedule = Schedule::new(load);
    schedule.follow(&mut players, WARM_UP);
    backend.take_way_up();
    let start = server.usage();
    let span = Duration::from_secs_f64(load.seconds);
    let (heard, down) = schedule.follow(&mut players, span);
    let end = server.usage();
    Outcome {
        messages: 2 * heard,
        cpu_nanos: end.cpu_nanos - start.cpu_nanos,
        sleeps: Some(end.sleeps - start.sleeps),
        per_peer: Some(end.owned.saturating_sub(before.owned) / (load.peers - half).max(1) as u64),
        late: schedule.late,
        up: backend.take_way_up(),
        down,
    }
}

fn plain(load: Load) -> Outcome {
    let place = Place::new();
    let backend = start_backend(&place);
    let relay = Plain::start(backend.addresses[0].clone());
    if flag("pin") {
        relay.pin(1);
    }
    let mut players = PlainPlayers::new(relay.address);
    let mut schedule = Schedule::new(load);
    schedule.follow(&mut players, WARM_UP);
    backend.take_way_up();
    let start = relay.done();
    let span = Duration::from_secs_f64(load.seconds);
    let (_, down) = schedule.follow(&mut players, span);
    let end = relay.done();
    Outcome {
        messages: end.0 - start.0,
        cpu_nanos: end.1 - start.1,
        sleeps: None,
        per_peer: None,
        late: schedule.late,
        up: backend.take_way_up(),
        down,
    }
}
