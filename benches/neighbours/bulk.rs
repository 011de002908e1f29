//! How fast is one connection?

use std::time::Duration;

use crate::stand::backend::{Backend, Habit};
use crate::stand::writer::Writer;
use crate::stand::{nanos, table, word};
use crate::tunnel::{Field, Tunnel};
use crate::{chosen, median, runs, span};

/// Bytes of a frame; all but the first tunnel take what is written for a stream.
const FRAME: usize = 1000;

const TUNNELS: [Tunnel; 6] = [
    Tunnel::Tcp,
    Tunnel::SealedTcp,
    Tunnel::Tidegate,
    Tunnel::TidegateRaw,
    Tunnel::Quinn,
    Tunnel::Kcp,
];

/// What lies between the ends, and how long a connection takes to find its rate there.
struct Path {
    name: &'static str,
    words: Option<&'static str>,
    warm_up: Duration,
}

const PATHS: [Path; 6] = [
    Path {
        name: "loopback",
        words: None,
        warm_up: Duration::from_secs(1),
    },
    Path {
        name: "a link that only carries",
        words: Some("mtu=1500"),
        warm_up: Duration::from_secs(1),
    },
    Path {
        name: "50 ms, 1 % loss, 100 Mbit/s",
        words: Some("delay=25ms loss=1% rate=100mbit mtu=1500"),
        warm_up: Duration::from_secs(4),
    },
    Path {
        name: "200 ms, 0.1 % loss, 100 Mbit/s",
        words: Some("delay=100ms loss=0.1% rate=100mbit queue=1250KiB mtu=1500"),
        warm_up: Duration::from_secs(8),
    },
    Path {
        name: "50 ms, outages, 100 Mbit/s",
        words: Some("delay=25ms burst=60ms/1140ms rate=100mbit queue=625KiB mtu=1500"),
        warm_up: Duration::from_secs(4),
    },
    Path {
        name: "50 ms, 10 % come 10 ms late, 100 Mbit/s",
        words: Some("delay=25ms reorder=10%/10ms rate=100mbit queue=625KiB mtu=1500"),
        warm_up: Duration::from_secs(4),
    },
];

struct Cell {
    mbits: f64,
    /// Nanoseconds of processor time for each byte that came out.
    server: f64,
    client: f64,
}

pub(crate) fn run(field: &Field) {
    let tunnels = chosen(&TUNNELS);
    let path = word("path").unwrap_or_default();
    let mut rows: Vec<(&Path, Tunnel, Vec<Cell>)> = PATHS
        .iter()
        .filter(|one| one.name.contains(&path))
        .flat_map(|path| {
            tunnels
                .iter()
                .filter(|tunnel| path.words.is_none() || tunnel.is_udp())
                .map(move |&tunnel| (path, tunnel, Vec::new()))
        })
        .collect();
    for run in runs() {
        for (path, tunnel, cells) in &mut rows {
            let cell = measure(field, *tunnel, path, run);
            let (path, name) = (path.name, tunnel.name());
            eprintln!("run {run}, {path}, {name}: {}", show(&[&cell]).join(", "));
            cells.push(cell);
        }
    }
    table::head(&[
        "path",
        "tunnel",
        "Mbit/s",
        "server's end, CPU ns/byte",
        "client's end, CPU ns/byte",
    ]);
    for (path, tunnel, cells) in &rows {
        let mut row = vec![path.name.to_owned(), tunnel.name().to_owned()];
        row.extend(show(&cells.iter().collect::<Vec<_>>()));
        table::row(&row);
    }
    println!();
}

fn measure(field: &Field, tunnel: Tunnel, path: &Path, seed: u64) -> Cell {
    let backend = Backend::start(Habit::Swallow);
    let open = field.open(tunnel, &backend, path.words, seed);
    let writer = Writer::start(open.client.address, FRAME);
    std::thread::sleep(path.warm_up);
    let look = || {
        let (server, client) = (open.server.usage(), open.client.usage());
        [nanos(), backend.bytes(), server.cpu_nanos, client.cpu_nanos]
    };
    let before = look();
    std::thread::sleep(span());
    let after = look();
    writer.stop();
    let [span, bytes, server, client] =
        [0, 1, 2, 3].map(|index| (after[index] - before[index]) as f64);
    Cell {
        mbits: bytes * 8e3 / span,
        server: server / bytes.max(1.0),
        client: client / bytes.max(1.0),
    }
}

fn show(runs: &[&Cell]) -> Vec<String> {
    let median = |of: fn(&Cell) -> f64| median(runs.iter().map(|cell| of(cell)).collect());
    vec![
        format!("{:.1}", median(|cell| cell.mbits)),
        format!("{:.2}", median(|cell| cell.server)),
        format!("{:.2}", median(|cell| cell.client)),
    ]
}
