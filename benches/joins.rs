//! What does a join cost, and do those who play notice that others join?
//!
//! First, joins alone, as fast as the server takes them. Then 200 players talk at 30 Hz for so long, and
//! again while others join at a steady rate. Players and joiners are two threads with a socket each. To
//! tell our loop from two cores that have too much to do, the players talk through a relay without a
//! protocol as well, while the same storm hits the server beside it.
//!
//! `--storm 1000` joins a second; `--seconds 6`, `--runs 3` of each; `--alone 4000` joins; `--pin` ties server and relay to core
//! 1 and all else to core 0 (needs `taskset`).

#![allow(
    clippy::unwrap_used,
    reason = "a bench that cannot get a socket has failed"
)]

mod stand;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use stand::backend::{Backend, Habit};
use stand::held_streams::HeldStreams;
use stand::plain::{Plain, PlainPlayers};
use stand::players::Players;
use stand::program::{Place, Program};
use stand::spread::Spread;
use stand::talkers::Talkers;
use stand::{STAMPS, flag, nanos, option, pin, table};
use tidegate_proto::yojimbo::Params;

const TALKING: usize = 200;

/// Of the backend: a storm is not to meet the end of the kernel's ports.
const ADDRESSES: u8 = 8;

fn main() {
    if flag("test") {
        return;
    }
    table::circumstances();
    if flag("pin") {
        pin(std::process::id(), 0, true);
    }
    alone(option("alone", 4000.0) as usize);
    storm(option("storm", 1000.0), option("seconds", 6.0));
}

/// Nothing but joins: what one core could take.
fn alone(count: usize) {
    table::head(&[
        "backend",
        "joined",
        "joins/s",
        "datagrams in per join",
        "server CPU us per join",
        "joins/s and core",
    ]);
    let place = Place::new();
    let path = place.0.join("backend.sock");
    let _held = HeldStreams::start(&path);
    let tcp = Backend::start_on(ADDRESSES, Habit::Swallow);
    for (name, targets) in [
        ("TCP", tcp.targets()),
        ("Unix", vec![format!("unix:{}", path.display())]),
    ] {
        let server = serve(&place, &targets);
        let mut players = Players::new(server.address, Params::default());
        // Memory and tables grow for the first ones.
        players.join(100, 100, Duration::from_secs(30));
        let (start, sent) = (server.usage(), players.sent.datagrams);
        let took = players.join(100 + count, 256, Duration::from_secs(120));
        let cpu = (server.usage().cpu_nanos - start.cpu_nanos) as f64;
        table::row(&[
            name.to_owned(),
            count.to_string(),
            format!("{:.0}", count as f64 * 1e9 / took as f64),
            format!(
                "{:.1}",
                (players.sent.datagrams - sent) as f64 / count as f64
            ),
            format!("{:.0}", cpu / 1e3 / count as f64),
            format!("{:.0}", count as f64 * 1e9 / cpu),
        ]);
    }
    println!();
}

fn serve(place: &Place, targets: &[String]) -> Program {
    let server = Program::serve(place, targets, "u16be");
    if flag("pin") {
        pin(server.id(), 1, true);
    }
    server
}

/// Those who play, without and with a storm.
fn storm(joins: f64, seconds: f64) {
    table::head(&[
        "players' relay",
        "joins/s",
        "joined",
        "round trip ms p50",
        "p99",
        "p99.9",
        "server, of a core",
    ]);
    let backend = Backend::start_on(ADDRESSES, Habit::Echo);
    let place = Place::new();
    let server = serve(&place, &backend.targets());
    let plain_backend = Backend::start(Habit::Echo);
    let plain = Plain::start(plain_backend.addresses[0].clone());
    if flag("pin") {
        plain.pin(1);
    }
    let mut plain_players = PlainPlayers::new(plain.address);
    let mut players = Players::new(server.address, Params::default());
    players.join(TALKING, TALKING, Duration::from_secs(30));
    let mut first = TALKING as u32;
    let mut run = |name: &str, joins: f64, seconds: f64, talk: &mut dyn FnMut(f64) -> Spread| {
        // Thousands may have left a moment ago, and their goodbyes are not what is asked about.
        talk(1.0);
        let start = server.usage();
        let others = Joiners::start(&server, first, joins);
        let round_trips = talk(seconds);
        let cpu = (server.usage().cpu_nanos - start.cpu_nanos) as f64 / seconds;
        let joined = others.stop();
        first += joined + 10_000;
        table::row(&[
            name.to_owned(),
            format!("{joins:.0}"),
            joined.to_string(),
            format!("{:.2}", round_trips.micros(0.5) / 1e3),
            format!("{:.2}", round_trips.micros(0.99) / 1e3),
            format!("{:.2}", round_trips.micros(0.999) / 1e3),
            format!("{:.0} %", cpu / 1e7),
        ]);
    };
    talk(&mut players, 1.0);
    for joins in [0.0, joins].repeat(option("runs", 3.0) as usize) {
        run("no protocol", joins, seconds, &mut |seconds| {
            talk(&mut plain_players, seconds)
        });
        // Who plays here was silent meanwhile, and not for longer than sessions live.
        run("tidegate", joins, seconds, &mut |seconds| {
            talk(&mut players, seconds)
        });
    }
    assert!(players.closed.is_empty(), "{:?}", players.closed.first());
}

/// Others who join, and stay until they are stopped.
struct Joiners {
    stop: Arc<AtomicBool>,
    thread: JoinHandle<u32>,
}

impl Joiners {
    fn start(server: &Program, first: u32, joins: f64) -> Self {
        let stop = Arc::new(AtomicBool::new(false));
        let own = stop.clone();
        let mut players = Players::new(server.address, Params::default()).numbered_from(first);
        let thread = std::thread::spawn(move || {
            let start = nanos();
            while !own.load(Ordering::Relaxed) {
                let due = (nanos() - start) as f64 / 1e9 * joins;
                while (players.ids.len() as f64) < due {
                    players.dial();
                }
                players.turn(Duration::from_millis(1), |_| {});
            }
            let joined = players.connected as u32;
            players.leave();
            joined
        });
        Self { stop, thread }
    }

    /// How many got in.
    fn stop(self) -> u32 {
        self.stop.store(true, Ordering::Relaxed);
        self.thread.join().unwrap()
    }
}

/// When a player says something next: so many of them, 30 times a second each.
fn due(start: u64, said: usize) -> bool {
    let passed = (nanos() - start) as f64 / 1e9;
    (said as f64) < passed * 30.0 * TALKING as f64
}

fn talk(players: &mut impl Talkers, seconds: f64) -> Spread {
    let mut round_trips = Spread::default();
    let mut message = [0x5a; 64];
    let (start, mut said) = (nanos(), 0);
    while ((nanos() - start) as f64) < seconds * 1e9 {
        while due(start, said) {
            message[..8].copy_from_slice(&nanos().to_le_bytes());
            players.say(said % TALKING, &message);
            said += 1;
        }
        players.turn(Duration::from_micros(500), |message| {
            round_trips.record(age(message));
        });
    }
    round_trips
}

fn age(message: &[u8]) -> u64 {
    let mut sent = [0; 8];
    sent.copy_from_slice(&message[..STAMPS / 2]);
    nanos().saturating_sub(u64::from_le_bytes(sent))
}
