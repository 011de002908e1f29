//! How long until what a program says first is back: the handshake, and the rate that a connection begins with.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use crate::stand::backend::{Backend, Habit};
use crate::stand::spread::Spread;
use crate::stand::{nanos, table};
use crate::tunnel::{Field, Tunnel};
use crate::{chosen, runs};

const TUNNELS: [Tunnel; 4] = [
    Tunnel::Tidegate,
    Tunnel::TidegateRaw,
    Tunnel::Quinn,
    Tunnel::Kcp,
];

/// What the links do beside their delay and rate.
const PATHS: [(&str, &str); 2] = [("50 ms, 100 Mbit/s", ""), ("the same, 5 % loss", "loss=5%")];

/// Frames that are said at once, and bytes of each: a greeting, a loadout, a level's part, a level.
const SAID: [(usize, usize); 4] = [(1, 64), (14, 1000), (30, 1000), (100, 1000)];

/// In each run, one after the other.
const CONNECTIONS: usize = 10;

/// A connection that takes longer than this for its first words has failed.
const PATIENCE: Duration = Duration::from_secs(30);

pub(crate) fn run(field: &Field) {
    let tunnels = chosen(&TUNNELS);
    let mut rows: Vec<(usize, Tunnel, [Spread; 4])> = (0..PATHS.len())
        .flat_map(|path| tunnels.iter().map(move |&tunnel| (path, tunnel)))
        .map(|(path, tunnel)| (path, tunnel, Default::default()))
        .collect();
    for run in runs() {
        for (path, tunnel, cells) in &mut rows {
            let (name, impairments) = PATHS[*path];
            for (said, cell) in SAID.into_iter().zip(cells) {
                let one = measure(field, *tunnel, impairments, said, run);
                let (tunnel, bytes) = (tunnel.name(), said.0 * said.1);
                eprintln!("run {run}, {name}, {tunnel}, {bytes} B: {}", show(&one));
                cell.add(&one);
            }
        }
    }
    let sizes = SAID.map(|(frames, size)| format!("{} B", frames * size));
    let mut head = vec!["path", "tunnel"];
    head.extend(sizes.iter().map(String::as_str));
    table::head(&head);
    for (path, tunnel, cells) in &rows {
        let mut row = vec![PATHS[*path].0.to_owned(), tunnel.name().to_owned()];
        row.extend(cells.iter().map(show));
        table::row(&row);
    }
    println!();
}

fn measure(
    field: &Field,
    tunnel: Tunnel,
    impairments: &str,
    (frames, size): (usize, usize),
    seed: u64,
) -> Spread {
    let backend = Backend::start(Habit::Echo);
    let words = format!("delay=25ms rate=100mbit queue=625KiB mtu=1500 {impairments}");
    let open = field.open(tunnel, &backend, Some(&words), seed);
    let mut frame = u16::try_from(size).unwrap().to_be_bytes().to_vec();
    frame.resize(2 + size, 0x5a);
    let said = frame.repeat(frames);
    let mut took = Spread::default();
    for _ in 0..CONNECTIONS {
        took.record(first_echo(open.client.address, &said));
    }
    took
}

/// Nanoseconds from before a connection is made until all that was said at once on it is back.
fn first_echo(to: SocketAddr, said: &[u8]) -> u64 {
    let start = nanos();
    let mut stream = TcpStream::connect(to).unwrap();
    stream.set_nodelay(true).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    stream.write_all(said).unwrap();
    let mut back = vec![0; said.len()];
    stream.read_exact(&mut back).unwrap();
    nanos() - start
}

/// Milliseconds: the median, and what nine in ten do not exceed.
fn show(took: &Spread) -> String {
    format!(
        "{:.0} / {:.0}",
        took.micros(0.5) / 1e3,
        took.micros(0.9) / 1e3
    )
}
