//! What do peers cost that say nothing?
//!
//! Players join and are silent: what is left is keep-alives, clocks and the census. Processor time
//! and memory of the server, which has a backend stream for each.
//!
//! `--peers 1000,5000,19000`; `--seconds 8`. Each peer is a descriptor of the server: `ulimit -n`.

#![allow(
    clippy::unwrap_used,
    reason = "a bench that cannot get a socket has failed"
)]

mod stand;

use std::io::Read;
use std::os::unix::net::UnixListener;
use std::time::Duration;

use stand::players::Players;
use stand::program::{Place, Program};
use stand::{flag, option, table};
use tidegate_proto::yojimbo::Params;

fn main() {
    if flag("test") {
        return;
    }
    let given = std::env::args().skip_while(|flag| flag != "--peers").nth(1);
    let given = given.unwrap_or_else(|| "1000,5000,19000".to_owned());
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
    for peers in given.split(',') {
        measure(peers.parse().unwrap(), option("seconds", 8.0));
    }
}

fn measure(peers: usize, seconds: f64) {
    let place = Place::new();
    // There are not enough ports for as many TCP streams from one address to another.
    let path = place.0.join("backend.sock");
    hold_streams(UnixListener::bind(&path).unwrap());
    let server = Program::serve(&place, &format!("unix:{}", path.display()), 1, "");
    let empty = server.usage();
    let mut players = Players::new(server.address, Params::default());
    let took = players.join(peers, 200, Duration::from_secs(180));
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
            end.resident.saturating_sub(empty.resident) as f64 / 1024.0 / peers as f64
        ),
        format!("{:.1}", took as f64 / 1e9),
        format!(
            "{:.0}",
            (joined.cpu_nanos - empty.cpu_nanos) as f64 / 1e3 / peers as f64
        ),
    ]);
}

/// Accepts streams and keeps them, in the background and for good.
fn hold_streams(listener: UnixListener) {
    std::thread::spawn(move || {
        let mut held = Vec::new();
        for stream in listener.incoming() {
            match stream {
                Ok(stream) => held.push(stream),
                // Out of descriptors: the server's connects wait in the queue and time out.
                Err(_) => std::thread::sleep(Duration::from_millis(10)),
            }
            // A server that is gone closes its ends; then so do we.
            if held
                .first()
                .is_some_and(|first: &std::os::unix::net::UnixStream| {
                    first.set_nonblocking(true).ok();
                    matches!((&mut (&*first)).read(&mut [0]), Ok(0))
                })
            {
                return;
            }
        }
    });
}
