//! What does the kernel take for reads and writes of many streams: a call for each, told by epoll, or in batches
//! over io_uring?
//!
//! One thread is both ends, in turn, so that no scheduler and no wake-up is in the figures: a turn writes a message
//! to each of so many streams and reads what came on those of the turn before; then the backend, which is not
//! counted, answers. Cells are microseconds for each message read or written, by epoll and over io_uring: those of the
//! median turn, while runs of both take turns.
//!
//! `--size 64 --turns 4000 --runs 5`

#![allow(
    clippy::unwrap_used,
    reason = "a bench that cannot get a socket has failed"
)]

#[path = "../stand/mod.rs"]
mod stand;

mod polled;
mod ring;

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::os::unix::net::UnixStream;
use std::time::Duration;

use polled::Polled;
use ring::Ring;
use stand::spread::Spread;
use stand::{flag, nanos, option, table};
use tidegate::backend::{Socket, SocketOptions};

/// How streams are read and written.
trait Way {
    /// Writes a message to each of these streams, reads what there is on any, and returns how many bytes that were.
    fn turn(&mut self, streams: &[usize], message: &[u8]) -> usize;
}

/// Messages of a turn, each way: what a few thousand and some ten thousand a second bring.
const BATCHES: [usize; 3] = [4, 16, 64];

fn main() {
    if flag("test") {
        return; // `cargo test --benches` only wants to know that it builds.
    }
    let message = vec![0x5a; option("size", 64.0) as usize];
    table::circumstances();
    println!("a call that does nothing: {:.2} us\n", empty_call());
    let columns = BATCHES.map(|batch| format!("{batch} a turn"));
    let columns = columns.iter().map(String::as_str);
    table::head(&["streams"].into_iter().chain(columns).collect::<Vec<_>>());
    for kind in ["TCP", "Unix"] {
        for count in [100, 1000, 3000] {
            let mut ends = Ends::connect(kind, count);
            let cells = BATCHES.map(|batch| {
                let [polled, ring] = measure(&mut ends, &message, batch);
                format!("{polled:.2} / {ring:.2}")
            });
            let name = format!("{count} {kind}");
            table::row(&[name].into_iter().chain(cells).collect::<Vec<_>>());
        }
    }
}

/// Microseconds for going into the kernel and coming back.
fn empty_call() -> f64 {
    let calls = 1_000_000;
    let before = nanos();
    for _ in 0..calls {
        std::hint::black_box(std::os::unix::process::parent_id());
    }
    (nanos() - before) as f64 / 1e3 / f64::from(calls)
}

/// Microseconds for a message, by epoll and over io_uring.
fn measure(ends: &mut Ends, message: &[u8], batch: usize) -> [f64; 2] {
    let mut spreads = [Spread::default(), Spread::default()];
    for _ in 0..option("runs", 5.0) as usize {
        let ours = ends.ours.take().unwrap();
        let mut polled = Polled::new(ours);
        ends.exchange(&mut polled, message, batch, &mut spreads[0]);
        let ours = polled.into_streams();
        let mut ring = Ring::new(&ours);
        ends.exchange(&mut ring, message, batch, &mut spreads[1]);
        ends.ours = Some(ours);
    }
    spreads.map(|spread| spread.micros(0.5) / (2 * batch) as f64)
}

/// Streams between us and a backend.
struct Ends {
    /// Lent out while they are measured.
    ours: Option<Vec<Socket>>,
    theirs: Vec<Socket>,
    /// The first stream of the next turn.
    next: usize,
}

impl Ends {
    fn connect(kind: &str, count: usize) -> Self {
        let pairs = (0..count).map(|_| match kind {
            "TCP" => tcp_pair(),
            _ => unix_pair(),
        });
        let (ours, theirs) = pairs.unzip();
        Self {
            ours: Some(ours),
            theirs,
            next: 0,
        }
    }

    /// Turns of so many messages each way; notes how long each took on our side.
    fn exchange(&mut self, way: &mut dyn Way, message: &[u8], batch: usize, took: &mut Spread) {
        let turns = option("turns", 4000.0) as usize;
        let mut answered = 0;
        for turn in 0..turns {
            let streams = (self.next..self.next + batch).map(|stream| stream % self.theirs.len());
            let streams: Vec<_> = streams.collect();
            self.next = (self.next + batch) % self.theirs.len();
            let before = nanos();
            let mut heard = way.turn(&streams, message);
            while heard < answered {
                heard += way.turn(&[], message);
            }
            // The first turns find streams that were never used, and nothing to read.
            if turn > turns / 10 {
                took.record(nanos() - before);
            }
            answered = streams.into_iter().map(|stream| self.echo(stream)).sum();
        }
        let mut heard = 0;
        while heard < answered {
            heard += way.turn(&[], message);
        }
    }

    /// The backend's part: returns how many bytes it sent back.
    fn echo(&mut self, stream: usize) -> usize {
        let mut buffer = [0; 16 * 1024];
        let read = self.theirs[stream].read(&mut buffer).unwrap();
        self.theirs[stream].write(&buffer[..read]).unwrap()
    }
}

fn tcp_pair() -> (Socket, Socket) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let ours = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
    let (theirs, _) = listener.accept().unwrap();
    let [ours, theirs] = [ours, theirs].map(|stream| Socket::adopt_tcp(stream, options()).unwrap());
    (ours, theirs)
}

fn unix_pair() -> (Socket, Socket) {
    let (ours, theirs) = UnixStream::pair().unwrap();
    let [ours, theirs] =
        [ours, theirs].map(|stream| Socket::adopt_unix(stream, options()).unwrap());
    (ours, theirs)
}

/// As in the program.
fn options() -> SocketOptions {
    SocketOptions {
        nodelay: true,
        keepalive: None,
        user_timeout: Duration::from_secs(10),
    }
}
