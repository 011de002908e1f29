//! How fast is one connection through `connect` and `serve`?
//!
//! A local program writes frames as fast as it can; the backend swallows them. On loopback, or with
//! `--link` through `tidegate lag` with a delay of 25 ms each way, 1 % loss and 100 Mbit/s.
//!
//! `--seconds 6`; `--size BYTES` for one frame size only

#![allow(
    clippy::unwrap_used,
    reason = "a bench that cannot get a socket has failed"
)]

mod stand;

use std::io::{ErrorKind, Write};
use std::net::TcpStream;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use stand::backend::{Backend, Habit};
use stand::program::{Place, Program};
use stand::{flag, nanos, option, table};

fn main() {
    if flag("test") {
        return;
    }
    table::circumstances();
    table::head(&[
        "path",
        "frame bytes",
        "Mbit/s",
        "serve, of a core",
        "connect, of a core",
        "serve CPU ns/byte",
    ]);
    let one = option("size", 0.0) as usize;
    for size in [64, 512, 1024, 1500, 7000, 32_768, 60_000] {
        if one == 0 || one == size {
            measure(size, option("seconds", 6.0), flag("link"));
        }
    }
}

fn measure(size: usize, seconds: f64, through_link: bool) {
    let backend = Backend::start(Habit::Swallow);
    let place = Place::new();
    let server = Program::serve(&place, &backend.targets(), 1, "");
    let link = through_link.then(|| Link::start(&server));
    let remote = link.as_ref().map_or(server.address, |link| link.address);
    let client = Program::connect(&place, remote, "");
    let stop = Arc::new(AtomicBool::new(false));
    let writer = write_frames(client.address, size, stop.clone());
    let warm_up = if through_link { 8 } else { 2 };
    std::thread::sleep(Duration::from_secs(warm_up));
    let start = (nanos(), backend.bytes(), server.usage(), client.usage());
    std::thread::sleep(Duration::from_secs_f64(seconds));
    let end = (nanos(), backend.bytes(), server.usage(), client.usage());
    stop.store(true, Ordering::Relaxed);
    drop((client, server));
    writer.join().unwrap();
    let span = (end.0 - start.0) as f64;
    let bytes = (end.1 - start.1) as f64;
    let serve = (end.2.cpu_nanos - start.2.cpu_nanos) as f64;
    let connect = (end.3.cpu_nanos - start.3.cpu_nanos) as f64;
    table::row(&[
        if through_link {
            "50 ms, 1 % loss, 100 Mbit/s"
        } else {
            "loopback"
        }
        .to_owned(),
        size.to_string(),
        format!("{:.1}", bytes * 8e3 / span),
        format!("{:.0} %", 100.0 * serve / span),
        format!("{:.0} %", 100.0 * connect / span),
        format!("{:.2}", serve / bytes.max(1.0)),
    ]);
}

fn write_frames(
    to: std::net::SocketAddr,
    size: usize,
    stop: Arc<AtomicBool>,
) -> std::thread::JoinHandle<()> {
    std::thread::spawn(move || {
        let mut stream = TcpStream::connect(to).unwrap();
        let timeout = Some(Duration::from_millis(200));
        stream.set_write_timeout(timeout).unwrap();
        let mut frame = (size as u16).to_be_bytes().to_vec();
        frame.resize(2 + size, 0x5a);
        let frames = frame.repeat((64 * 1024 / frame.len()).max(1));
        let mut rest = &frames[..];
        while !stop.load(Ordering::Relaxed) {
            match stream.write(rest) {
                Ok(count) => rest = &rest[count..],
                Err(error)
                    if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => {}
                Err(_) => return,
            }
            if rest.is_empty() {
                rest = &frames;
            }
        }
    })
}

/// `tidegate lag` in front of a server.
struct Link {
    child: Child,
    address: std::net::SocketAddr,
}

impl Link {
    fn start(server: &Program) -> Self {
        // A port that was free a moment ago: lag says its own only to people.
        let free = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
        let address = free.local_addr().unwrap();
        drop(free);
        let (listen, to) = (address.to_string(), server.address.to_string());
        let child = Command::new(env!("CARGO_BIN_EXE_tidegate"))
            .args(["lag", "--listen", &listen, "--to", &to])
            .args(["delay=25ms", "loss=1%", "rate=100mbit"])
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        std::thread::sleep(Duration::from_millis(300));
        Self { child, address }
    }
}

impl Drop for Link {
    fn drop(&mut self) {
        self.child.kill().ok();
        self.child.wait().ok();
    }
}
