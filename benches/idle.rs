//! What do peers cost that say nothing?
//!
//! Players join and are silent: what is left is keep-alives, clocks and the census. Processor time
//! and memory of the server, which has a backend stream for each.
//!
//! Then the protocol alone, without sockets: more peers than this machine may have descriptors for, and
//! whether each costs more when there are many.
//!
//! `--peers 1000,5000,19000`; `--seconds 8`; `--alone 1000,10000,50000`; `--at-once 200` join at a time, for whom the
//! bench waits up to `--patience 180` seconds in all; `--timeout 10`. Each peer is a descriptor of the server and one
//! of the bench: `ulimit -n`.

#![allow(
    clippy::unwrap_used,
    reason = "a bench that cannot get a socket has failed"
)]

mod stand;

use std::time::Duration;

use stand::held_streams::HeldStreams;
use stand::in_memory::InMemory;
use stand::players::Players;
use stand::program::{Place, Program};
use stand::{flag, nanos, option, table};
use tidegate_proto::yojimbo::Params;

fn main() {
    if flag("test") {
        return;
    }
    table::circumstances();
    table::head(&[
        "idle peers",
        "server, of a core",
        "CPU us per peer and second",
        "packets out per peer and second",
        "packets in",
        "KiB/peer",
        "joined in s",
        "CPU us per join",
    ]);
    for peers in list("--peers", "1000,5000,19000") {
        measure(peers, option("seconds", 8.0));
    }
    println!();
    table::head(&[
        "idle sessions",
        "server, of a core",
        "us per peer and second",
    ]);
    for peers in list("--alone", "1000,10000,50000") {
        measure_alone(peers);
    }
}

fn list(flag: &str, default: &str) -> Vec<usize> {
    let given = std::env::args().skip_while(|given| given != flag).nth(1);
    let given = given.unwrap_or_else(|| default.to_owned());
    given
        .split(',')
        .map(|count| count.parse().unwrap())
        .collect()
}

/// No sockets: keep-alives and clocks of so many sessions for ten seconds.
fn measure_alone(peers: usize) {
    let mut world = InMemory::new(u32::try_from(peers).unwrap(), 0);
    let mut quietest = u64::MAX;
    for second in 0..13 {
        let mut took = 0;
        for _ in 0..10 {
            world.idle_clients();
            let start = nanos();
            world.idle_server();
            took += nanos() - start;
            world.take_down();
        }
        // The first keep-alives after a join come close together.
        if second >= 3 {
            quietest = quietest.min(took);
        }
    }
    let nanos = quietest as f64;
    table::row(&[
        peers.to_string(),
        format!("{:.2} %", nanos / 1e7),
        format!("{:.2}", nanos / 1e3 / peers as f64),
    ]);
}

fn measure(peers: usize, seconds: f64) {
    let place = Place::new();
    // There are not enough ports for as many TCP streams from one address to another.
    let path = place.0.join("backend.sock");
    // Let go of after the server: the next row needs the descriptors.
    let _held = HeldStreams::start(&path);
    let server = Program::serve(&place, &[format!("unix:{}", path.display())], "u16be");
    let empty = server.usage();
    let mut players = Players::new(server.address, Params::default());
    let patience = Duration::from_secs_f64(option("patience", 180.0));
    let took = players.join(peers, option("at-once", 200.0) as usize, patience);
    let joined = server.usage();
    players.idle(Duration::from_secs(5));
    let (start, out, back) = (
        server.usage(),
        players.sent.datagrams,
        players.datagrams_received,
    );
    players.idle(Duration::from_secs_f64(seconds));
    let end = server.usage();
    assert!(players.closed.is_empty(), "{:?}", players.closed.first());
    let cpu = (end.cpu_nanos - start.cpu_nanos) as f64;
    let each = peers as f64 * seconds;
    table::row(&[
        peers.to_string(),
        format!("{:.1} %", cpu / 1e7 / seconds),
        format!("{:.1}", cpu / 1e3 / each),
        format!("{:.2}", (players.datagrams_received - back) as f64 / each),
        format!("{:.2}", (players.sent.datagrams - out) as f64 / each),
        format!(
            "{:.1}",
            end.owned.saturating_sub(empty.owned) as f64 / 1024.0 / peers as f64
        ),
        format!("{:.1}", took as f64 / 1e9),
        format!(
            "{:.0}",
            (joined.cpu_nanos - empty.cpu_nanos) as f64 / 1e3 / peers as f64
        ),
    ]);
}
