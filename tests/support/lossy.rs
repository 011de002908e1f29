//! A bad network between two processes: the simulated link, in real time.

use std::collections::HashMap;
use std::net::{SocketAddr, UdpSocket};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use tidegate_proto::Timestamp;
use tidegate_proto::sim::{Conditions, Done, Link};

/// Relays datagrams to one server, each client from a socket of its own, and loses some.
pub struct Lossy {
    pub address: SocketAddr,
    done: Arc<Mutex<Done>>,
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Lossy {
    pub fn start(server: SocketAddr, conditions: Conditions, seed: u64) -> Self {
        let front = UdpSocket::bind("127.0.0.1:0").unwrap();
        front
            .set_read_timeout(Some(Duration::from_micros(500)))
            .unwrap();
        let address = front.local_addr().unwrap();
        let done = Arc::new(Mutex::new(Done::default()));
        let stop = Arc::new(AtomicBool::new(false));
        let mut relay = Relay {
            front,
            server,
            clients: HashMap::new(),
            up: Link::new(conditions, seed),
            down: Link::new(conditions, seed + 1),
        };
        let (counted, stopped) = (done.clone(), stop.clone());
        let thread = std::thread::spawn(move || {
            #[expect(clippy::disallowed_methods, reason = "a test runs in real time")]
            let start = Instant::now();
            while !stopped.load(Relaxed) {
                let now = Timestamp::from_nanos(start.elapsed().as_nanos() as u64);
                relay.turn(now);
                *counted.lock().unwrap() = relay.done();
            }
        });
        Self {
            address,
            done,
            stop,
            thread: Some(thread),
        }
    }

    /// Datagrams lost so far.
    pub fn lost(&self) -> u64 {
        self.done().lost
    }

    /// What it did both ways: the proof that it was bad.
    pub fn done(&self) -> Done {
        *self.done.lock().unwrap()
    }
}

impl Drop for Lossy {
    fn drop(&mut self) {
        self.stop.store(true, Relaxed);
        if let Some(thread) = self.thread.take() {
            thread.join().ok();
        }
    }
}

struct Relay {
    front: UdpSocket,
    server: SocketAddr,
    clients: HashMap<SocketAddr, UdpSocket>,
    up: Link<SocketAddr>,
    down: Link<SocketAddr>,
}

impl Relay {
    fn done(&self) -> Done {
        let (up, down) = (self.up.done(), self.down.done());
        Done {
            offered: up.offered + down.offered,
            delivered: up.delivered + down.delivered,
            lost: up.lost + down.lost,
            duplicated: up.duplicated + down.duplicated,
            reordered: up.reordered + down.reordered,
            ..Done::default()
        }
    }

    fn turn(&mut self, now: Timestamp) {
        let mut datagram = [0; 2048];
        for _ in 0..256 {
            let Ok((length, from)) = self.front.recv_from(&mut datagram) else {
                break;
            };
            self.up.push(now, from, &datagram[..length]);
        }
        for (client, socket) in &self.clients {
            while let Ok(length) = socket.recv(&mut datagram) {
                self.down.push(now, *client, &datagram[..length]);
            }
        }
        // A server that is gone refuses; that is a loss like any other.
        while let Some((client, datagram)) = self.up.pop(now) {
            let server = self.server;
            let socket = self.clients.entry(client).or_insert_with(|| {
                let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
                socket.connect(server).unwrap();
                socket.set_nonblocking(true).unwrap();
                socket
            });
            socket.send(&datagram).ok();
        }
        while let Some((client, datagram)) = self.down.pop(now) {
            self.front.send_to(&datagram, client).ok();
        }
    }
}
