//! Do those who play notice that others join?
//!
//! 200 players talk at 30 Hz; then, while they go on, others join at a steady rate. Round trips of
//! the first, before and during the storm, and what a join costs the server. The players' own work
//! for joins is in these times too: it is one thread.
//!
//! `--storm 1000` joins a second; `--seconds 6`

mod stand;

use std::time::Duration;

use stand::backend::{Backend, Habit};
use stand::players::Players;
use stand::program::{Place, Program};
use stand::spread::Spread;
use stand::{STAMPS, flag, nanos, option, table};
use tidegate_proto::yojimbo::Params;

const TALKING: usize = 200;

fn main() {
    if flag("test") {
        return;
    }
    let (storm, seconds) = (option("storm", 1000.0), option("seconds", 6.0));
    let backend = Backend::start(Habit::Echo);
    let place = Place::new();
    let server = Program::serve(&place, &backend.target(), 1, "");
    let mut players = Players::new(server.address, Params::default());
    players.join(TALKING, TALKING, Duration::from_secs(30));
    talk(&mut players, 2.0, 0.0);
    table::circumstances();
    table::head(&[
        "joins/s",
        "joined",
        "round trip ms p50",
        "p99",
        "p99.9",
        "server, of a core",
        "CPU us per join",
    ]);
    let mut calm = 0.0;
    for joins in [0.0, storm] {
        let (before, start) = (players.connected, server.usage());
        let round_trips = talk(&mut players, seconds, joins);
        let cpu = (server.usage().cpu_nanos - start.cpu_nanos) as f64 / seconds;
        let joined = players.connected - before;
        let per_join = (cpu - calm) * seconds / 1e3 / joined.max(1) as f64;
        table::row(&[
            format!("{joins:.0}"),
            joined.to_string(),
            format!("{:.2}", round_trips.micros(0.5) / 1e3),
            format!("{:.2}", round_trips.micros(0.99) / 1e3),
            format!("{:.2}", round_trips.micros(0.999) / 1e3),
            format!("{:.0} %", cpu / 1e7),
            if joins == 0.0 {
                "-".to_owned()
            } else {
                format!("{per_join:.0}")
            },
        ]);
        calm = cpu;
    }
    assert!(players.closed.is_empty(), "{:?}", players.closed.first());
}

/// The first players talk for so long, while others join at this rate.
fn talk(players: &mut Players, seconds: f64, joins: f64) -> Spread {
    let mut round_trips = Spread::default();
    let mut message = [0x5a; 64];
    let (start, dialled) = (nanos(), players.ids.len());
    let mut said = 0;
    loop {
        let passed = (nanos() - start) as f64 / 1e9;
        if passed > seconds {
            return round_trips;
        }
        while (said as f64) < passed * 30.0 * TALKING as f64 {
            message[..8].copy_from_slice(&nanos().to_le_bytes());
            players.say(said % TALKING, &message);
            said += 1;
        }
        while ((players.ids.len() - dialled) as f64) < passed * joins {
            players.dial();
        }
        players.turn(Duration::from_micros(500), |_, message| {
            let mut sent = [0; 8];
            sent.copy_from_slice(&message[..STAMPS / 2]);
            round_trips.record(nanos().saturating_sub(u64::from_le_bytes(sent)));
        });
    }
}
