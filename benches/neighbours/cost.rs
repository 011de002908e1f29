//! What processor time does a relayed message take, and how long is it under way when players (`--players 1000`) fill all
//! cores?

use std::time::Duration;

use crate::conversation::{Conversation, Load};
use crate::stand::backend::{Backend, Habit};
use crate::stand::option;
use crate::stand::plain::{Plain, PlainPlayers};
use crate::stand::table;
use crate::stand::talkers::Talkers;
use crate::stand::tcp_players::TcpPlayers;
use crate::tunnel::{Field, Tunnel};
use crate::{chosen, median, runs, span};

fn load() -> Load {
    Load {
        players: option("players", 300.0) as usize,
        rate: 30.0,
    }
}

/// Streams connect, buffers grow.
const WARM_UP: Duration = Duration::from_secs(1);

struct Cell {
    /// A second; an echoed frame is two.
    messages: f64,
    /// Microseconds of the server's processor time for each.
    server: f64,
    /// Microseconds of the client end's for each; who speaks to the relay without a protocol has no such end.
    client: Option<f64>,
    /// Milliseconds from when a frame was due until it was back: median and 99th percentile of those that came back.
    round_trip: [f64; 2],
}

pub(crate) fn run(field: &Field) {
    let tunnels = chosen(&[Tunnel::Tidegate, Tunnel::Quinn, Tunnel::Kcp]);
    let mut rows: Vec<(&str, Vec<Cell>)> = vec![("no protocol", Vec::new())];
    rows.extend(tunnels.iter().map(|tunnel| (tunnel.name(), Vec::new())));
    for run in runs() {
        for (row, (name, cells)) in rows.iter_mut().enumerate() {
            let cell = match row.checked_sub(1) {
                None => plain(),
                Some(tunnel) => measure(field, tunnels[tunnel], run),
            };
            eprintln!("run {run}, {name}: {}", show(&[&cell]).join(", "));
            cells.push(cell);
        }
    }
    table::head(&[
        "relay",
        "messages/s",
        "server's end, CPU us/message",
        "client's end, CPU us/message",
        "round trip ms p50 / p99",
    ]);
    for (name, cells) in rows {
        let mut row = vec![name.to_owned()];
        row.extend(show(&cells.iter().collect::<Vec<_>>()));
        table::row(&row);
    }
    println!();
}

fn measure(field: &Field, tunnel: Tunnel, seed: u64) -> Cell {
    let backend = Backend::start(Habit::Echo);
    let open = field.open(tunnel, &backend, None, seed);
    let players = TcpPlayers::connect(open.client.address, load().players);
    let mut conversation = Conversation::begin(players, load());
    conversation.talk(WARM_UP);
    conversation.note();
    let before = (open.server.usage(), open.client.usage());
    let messages = 2.0 * conversation.talk(span()) as f64;
    let after = (open.server.usage(), open.client.usage());
    let micros = |from: u64, to: u64| (to - from) as f64 / 1e3 / messages;
    Cell {
        messages: messages / span().as_secs_f64(),
        server: micros(before.0.cpu_nanos, after.0.cpu_nanos),
        client: Some(micros(before.1.cpu_nanos, after.1.cpu_nanos)),
        round_trip: round_trip(&mut conversation),
    }
}

fn plain() -> Cell {
    let backend = Backend::start(Habit::Echo);
    let relay = Plain::start(backend.addresses[0].clone());
    let players = PlainPlayers::new(relay.address);
    let mut conversation = Conversation::begin(players, load());
    conversation.talk(WARM_UP);
    conversation.note();
    let before = relay.done();
    conversation.talk(span());
    let after = relay.done();
    let messages = (after.0 - before.0) as f64;
    Cell {
        messages: messages / span().as_secs_f64(),
        server: (after.1 - before.1) as f64 / 1e3 / messages,
        client: None,
        round_trip: round_trip(&mut conversation),
    }
}

fn round_trip<T: Talkers>(conversation: &mut Conversation<T>) -> [f64; 2] {
    let spread = conversation.outcome().round_trips;
    [0.5, 0.99].map(|share| spread.micros(share) / 1e3)
}

fn show(runs: &[&Cell]) -> Vec<String> {
    let median = |of: fn(&Cell) -> f64| median(runs.iter().map(|cell| of(cell)).collect());
    let client = median(|cell| cell.client.unwrap_or(f64::NAN));
    vec![
        format!("{:.0}", median(|cell| cell.messages)),
        format!("{:.1}", median(|cell| cell.server)),
        match client.is_nan() {
            true => "-".to_owned(),
            false => format!("{client:.1}"),
        },
        format!(
            "{:.0} / {:.0}",
            median(|cell| cell.round_trip[0]),
            median(|cell| cell.round_trip[1])
        ),
    ]
}
