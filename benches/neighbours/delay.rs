//! How long does a frame take there and back through a bad network, and what does that take on the
//! wire?

use std::time::Duration;

use crate::conversation::{Conversation, FRAME, Load};
use crate::stand::backend::{Backend, Habit};
use crate::stand::table;
use crate::stand::tcp_players::TcpPlayers;
use crate::tunnel::{Field, Tunnel};
use crate::{chosen, median, runs, span};

const LOAD: Load = Load {
    players: 50,
    rate: 60.0,
};

/// What each column's link does beside its delay.
const IMPAIRMENTS: [(&str, &str); 6] = [
    ("0 %", ""),
    ("1 %", "loss=1%"),
    ("5 %", "loss=5%"),
    ("10 %", "loss=10%"),
    ("20 %", "loss=20%"),
    ("bursts, 5 %", "burst=60ms/1140ms"),
];

/// Connections have been used for so long before: rates, losses and round trips are known.
const WARM_UP: Duration = Duration::from_millis(2500);

struct Cell {
    /// Milliseconds.
    p50: f64,
    p99: f64,
    missing: u64,
    /// Both ways, headers of IP and UDP included, for each byte in frames.
    wire_bytes: f64,
}

pub(crate) fn run(field: &Field) {
    let tunnels = chosen(&[Tunnel::Tidegate, Tunnel::Quinn, Tunnel::Kcp]);
    let mut rows: Vec<[Vec<Cell>; 6]> = tunnels.iter().map(|_| Default::default()).collect();
    for run in runs() {
        for (column, impairments) in IMPAIRMENTS.into_iter().enumerate() {
            for (row, &tunnel) in rows.iter_mut().zip(&tunnels) {
                let cell = measure(field, tunnel, impairments.1, run);
                let (name, impairments) = (tunnel.name(), impairments.0);
                eprintln!("run {run}, {impairments}, {name}: {}", show(&[&cell]));
                row[column].push(cell);
            }
        }
    }
    let mut head = vec!["tunnel"];
    head.extend(IMPAIRMENTS.map(|(name, _)| name));
    table::head(&head);
    for (tunnel, row) in tunnels.iter().zip(&rows) {
        let mut cells = vec![tunnel.name().to_owned()];
        cells.extend(
            row.iter()
                .map(|cell| show(&cell.iter().collect::<Vec<_>>())),
        );
        table::row(&cells);
    }
    println!();
}

fn measure(field: &Field, tunnel: Tunnel, impairments: &str, seed: u64) -> Cell {
    let backend = Backend::start(Habit::Echo);
    let words = format!("delay=25ms jitter=5ms {impairments}");
    let open = field.open(tunnel, &backend, Some(&words), seed);
    let link = open.link.as_ref().unwrap();
    let players = TcpPlayers::connect(open.client.address, LOAD.players);
    let mut conversation = Conversation::begin(players, LOAD);
    conversation.talk(WARM_UP);
    let before = link.report().unwrap();
    conversation.note();
    let heard = conversation.talk(span());
    let after = link.report().unwrap();
    let outcome = conversation.outcome();
    if after.overrun > 0 {
        let (count, name) = (after.overrun, tunnel.name());
        println!("The link was late and dropped {count} datagrams of {name}.\n");
    }
    let wire = after.both().offered_bytes - before.both().offered_bytes;
    Cell {
        p50: outcome.round_trips.micros(0.5) / 1e3,
        p99: outcome.round_trips.micros(0.99) / 1e3,
        missing: outcome.missing,
        wire_bytes: wire as f64 / (2 * heard * FRAME as u64) as f64,
    }
}

fn show(runs: &[&Cell]) -> String {
    let median = |of: fn(&Cell) -> f64| median(runs.iter().map(|cell| of(cell)).collect());
    let mut text = format!(
        "{:.0} / {:.0}; x{:.2}",
        median(|cell| cell.p50),
        median(|cell| cell.p99),
        median(|cell| cell.wire_bytes)
    );
    let missing: u64 = runs.iter().map(|cell| cell.missing).sum();
    if missing > 0 {
        text += &format!("; {missing} missing");
    }
    text
}
