//! The limit: a relay that makes the same system calls as the program (batches of datagrams in and
//! out, one write and one read per message on a stream per peer) and speaks no protocol at all.

use std::collections::HashMap;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use mio::{Events, Interest, Poll, Token};
use tidegate::backend::Address;
use tidegate::udp::{Options, Outgoing, Received, Sent, UdpSocket};

use super::door::Stream;
use super::talkers::{self, Talkers};

/// The relay; it ends when dropped.
pub struct Plain {
    pub address: SocketAddr,
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
}

#[derive(Default)]
struct Shared {
    stop: AtomicBool,
    messages: AtomicU64,
    cpu: AtomicU64,
    /// Its number for the kernel, once it runs.
    thread: AtomicU32,
}

impl Plain {
    /// In front of this backend; a peer is whoever sends.
    pub fn start(backend: Address) -> Self {
        let options = Options {
            receive_buffer: 32 << 20,
            send_buffer: 32 << 20,
            ..Options::default()
        };
        let socket = UdpSocket::bind(SocketAddr::from((Ipv4Addr::LOCALHOST, 0)), options).unwrap();
        let address = socket.local_addr();
        let shared = Arc::new(Shared::default());
        let own = shared.clone();
        let thread = std::thread::spawn(move || {
            own.thread.store(super::own_thread(), Ordering::Relaxed);
            Work::new(socket, backend, own).run();
        });
        Self {
            address,
            shared,
            thread: Some(thread),
        }
    }

    /// Ties it to a core.
    pub fn pin(&self, core: u32) {
        loop {
            match self.shared.thread.load(Ordering::Relaxed) {
                0 => std::thread::yield_now(),
                thread => return super::pin(thread, core, false),
            }
        }
    }

    /// Messages relayed, both ways, and the processor time for all of it in nanoseconds. Behind by
    /// 10 ms.
    pub fn done(&self) -> (u64, u64) {
        let messages = self.shared.messages.load(Ordering::Relaxed);
        (messages, self.shared.cpu.load(Ordering::Relaxed))
    }
}

impl Drop for Plain {
    fn drop(&mut self) {
        self.shared.stop.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            thread.join().ok();
        }
    }
}

struct Work {
    socket: UdpSocket,
    backend: Address,
    shared: Arc<Shared>,
    poll: Poll,
    by_address: HashMap<SocketAddr, usize>,
    peers: Vec<(SocketAddr, Box<dyn Stream>)>,
    messages: u64,
    received: Received,
    outgoing: Outgoing,
    sent: Sent,
    frame: Vec<u8>,
    buffer: Vec<u8>,
}

const UDP: Token = Token(usize::MAX);

impl Work {
    fn new(mut socket: UdpSocket, backend: Address, shared: Arc<Shared>) -> Self {
        let poll = Poll::new().unwrap();
        socket.register(poll.registry(), UDP).unwrap();
        Self {
            socket,
            backend,
            shared,
            poll,
            by_address: HashMap::new(),
            peers: Vec::new(),
            messages: 0,
            received: Received::default(),
            outgoing: Outgoing::default(),
            sent: Sent::default(),
            frame: Vec::new(),
            buffer: vec![0; 16 * 1024],
        }
    }

    fn run(&mut self) {
        let mut events = Events::with_capacity(1024);
        let mut told = 0;
        let mut udp_left = false;
        while !self.shared.stop.load(Ordering::Relaxed) {
            let wait = if udp_left { 0 } else { 10 };
            self.poll
                .poll(&mut events, Some(Duration::from_millis(wait)))
                .ok();
            for event in &events {
                match event.token() {
                    UDP => udp_left = true,
                    Token(peer) => self.take_frames(peer),
                }
            }
            if udp_left {
                udp_left = self.take_datagrams();
            }
            self.socket.send(&self.outgoing, &mut self.sent);
            self.outgoing.clear();
            let now = super::nanos();
            if now - told > 10_000_000 {
                told = now;
                self.shared.cpu.store(own_cpu(), Ordering::Relaxed);
                self.shared.messages.store(self.messages, Ordering::Relaxed);
            }
        }
    }

    /// As many batches as the program takes in a turn; true if there may be more.
    fn take_datagrams(&mut self) -> bool {
        for _ in 0..8 {
            if self.socket.receive(&mut self.received).is_err() {
                return false;
            }
            for index in 0..self.received.len() {
                let (route, datagrams) = self.received.take(index);
                let peer = match self.by_address.get(&route.from) {
                    Some(&peer) => peer,
                    None => {
                        let mut stream = connect(&self.backend);
                        let token = Token(self.peers.len());
                        self.poll
                            .registry()
                            .register(&mut stream, token, Interest::READABLE)
                            .unwrap();
                        self.by_address.insert(route.from, token.0);
                        self.peers.push((route.from, stream));
                        token.0
                    }
                };
                for datagram in datagrams {
                    self.frame.clear();
                    self.frame
                        .extend_from_slice(&(datagram.len() as u16).to_be_bytes());
                    self.frame.extend_from_slice(datagram);
                    if self.peers[peer].1.write(&self.frame).is_ok() {
                        self.messages += 1;
                    }
                }
            }
            if !self.received.may_have_left() {
                return false;
            }
        }
        true
    }

    fn take_frames(&mut self, peer: usize) {
        let (to, stream) = &mut self.peers[peer];
        let Ok(count) = stream.read(&mut self.buffer) else {
            return;
        };
        let mut rest = &self.buffer[..count];
        while let Some((head, more)) = rest.split_first_chunk() {
            let length = usize::from(u16::from_be_bytes(*head));
            let Some((frame, more)) = more.split_at_checked(length) else {
                break;
            };
            rest = more;
            self.outgoing.bytes().extend_from_slice(frame);
            self.outgoing.push(*to, None);
            self.messages += 1;
            if self.outgoing.is_full() {
                self.socket.send(&self.outgoing, &mut self.sent);
                self.outgoing.clear();
            }
        }
    }
}

/// Waits until it is connected, and never after that.
fn connect(backend: &Address) -> Box<dyn Stream> {
    match backend {
        Address::Tcp(address) => {
            let stream = std::net::TcpStream::connect(address).unwrap();
            stream.set_nonblocking(true).unwrap();
            stream.set_nodelay(true).unwrap();
            Box::new(mio::net::TcpStream::from_std(stream))
        }
        Address::Unix(path) => {
            let stream = std::os::unix::net::UnixStream::connect(path).unwrap();
            stream.set_nonblocking(true).unwrap();
            Box::new(mio::net::UnixStream::from_std(stream))
        }
    }
}

/// Nanoseconds of processor time that this thread has used.
fn own_cpu() -> u64 {
    let times = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap_or_default();
    let spent = times.split(' ').next().and_then(|time| time.parse().ok());
    spent.unwrap_or(0)
}

/// Peers of a [`Plain`] relay: datagrams with nothing but the message in them.
pub struct PlainPlayers {
    server: SocketAddr,
    socket: UdpSocket,
    poll: Poll,
    events: Events,
    received: Received,
    outgoing: Outgoing,
    sent: Sent,
}

impl PlainPlayers {
    pub fn new(server: SocketAddr) -> Self {
        let (socket, poll) = talkers::socket();
        Self {
            server,
            socket,
            poll,
            events: Events::with_capacity(4),
            received: Received::default(),
            outgoing: Outgoing::default(),
            sent: Sent::default(),
        }
    }

    fn flush(&mut self) {
        if !self.outgoing.is_empty() {
            self.socket.send(&self.outgoing, &mut self.sent);
            self.outgoing.clear();
        }
    }
}

impl Talkers for PlainPlayers {
    fn say(&mut self, player: usize, message: &[u8]) {
        let from = Ipv4Addr::from(super::players::FIRST + player as u32);
        self.outgoing.bytes().extend_from_slice(message);
        self.outgoing.push(self.server, Some(from.into()));
        if self.outgoing.is_full() {
            self.flush();
        }
    }

    fn turn(&mut self, wait: Duration, mut heard: impl FnMut(&[u8])) {
        self.flush();
        self.poll.poll(&mut self.events, Some(wait)).ok();
        for _ in 0..64 {
            if self.socket.receive(&mut self.received).is_err() {
                return;
            }
            for index in 0..self.received.len() {
                self.received
                    .take(index)
                    .1
                    .for_each(|message| heard(message));
            }
            if !self.received.may_have_left() {
                return;
            }
        }
    }
}
