//! A game server that only echoes, or swallows: one thread over all its streams, like a real one.

use std::io::ErrorKind;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::Duration;

use mio::{Events, Interest, Poll, Token};
use tidegate::backend::Address;

use super::door::{Door, Stream};
use super::spread::Spread;
use super::{STAMPS, nanos};

/// What it does with what it reads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Habit {
    /// Notes how long each frame was under way, stamps it, and sends it back.
    Echo,
    /// Counts bytes.
    Swallow,
}

/// A backend; it ends when dropped.
pub struct Backend {
    /// Where it listens: loopback or Unix sockets, and nothing else.
    pub addresses: Vec<Address>,
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
}

#[derive(Default)]
struct Shared {
    stop: AtomicBool,
    bytes: AtomicU64,
    streams: AtomicU64,
    /// From the player's stamp to our reading it.
    way_up: Mutex<Spread>,
}

impl Backend {
    /// Listens on one address.
    pub fn start(habit: Habit) -> Self {
        Self::start_on(1, habit)
    }

    /// Listens on so many. To one address there are 28,000 ports, those of connections closed in the
    /// last minute among them, and each connect looks for a free one: the more are taken, the longer.
    pub fn start_on(addresses: u8, habit: Habit) -> Self {
        Self::open((1..=addresses).map(Door::tcp).collect(), habit)
    }

    /// Listens on a Unix socket of this name.
    pub fn start_unix(path: &Path, habit: Habit) -> Self {
        Self::open(vec![Door::unix(path)], habit)
    }

    fn open(doors: Vec<Door>, habit: Habit) -> Self {
        let addresses = doors.iter().map(|door| door.address.clone()).collect();
        let shared = Arc::new(Shared::default());
        let own = shared.clone();
        let thread = std::thread::spawn(move || Work::new(doors, own, habit).run());
        Self {
            addresses,
            shared,
            thread: Some(thread),
        }
    }

    /// All its addresses, as a configuration names them.
    pub fn targets(&self) -> Vec<String> {
        let addresses = self.addresses.iter().map(|address| match address {
            Address::Tcp(address) => format!("tcp://{address}"),
            Address::Unix(path) => format!("unix:{}", path.display()),
        });
        addresses.collect()
    }

    /// Bytes read so far, frame headers included.
    pub fn bytes(&self) -> u64 {
        self.shared.bytes.load(Ordering::Relaxed)
    }

    /// Streams accepted so far.
    pub fn streams(&self) -> u64 {
        self.shared.streams.load(Ordering::Relaxed)
    }

    /// Takes what was noted of the way up.
    pub fn take_way_up(&self) -> Spread {
        std::mem::take(&mut self.shared.way_up.lock().unwrap())
    }
}

impl Drop for Backend {
    fn drop(&mut self) {
        self.shared.stop.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            thread.join().ok();
        }
    }
}

/// A stream, and the beginning of a frame that came on it.
struct Served {
    stream: Box<dyn Stream>,
    rest: Vec<u8>,
}

struct Work {
    /// One for each of its addresses; their tokens in the poll count down from the highest.
    doors: Vec<Door>,
    shared: Arc<Shared>,
    habit: Habit,
    poll: Poll,
    /// By token; those that ended are gone, and their numbers are not used again.
    streams: Vec<Option<Served>>,
    buffer: Vec<u8>,
    way_up: Spread,
}

impl Work {
    fn new(mut doors: Vec<Door>, shared: Arc<Shared>, habit: Habit) -> Self {
        let poll = Poll::new().unwrap();
        for (index, door) in doors.iter_mut().enumerate() {
            let token = Token(usize::MAX - index);
            let registry = poll.registry();
            door.register(registry, token);
        }
        Self {
            doors,
            shared,
            habit,
            poll,
            streams: Vec::new(),
            buffer: vec![0; 1 << 18],
            way_up: Spread::default(),
        }
    }

    fn run(&mut self) {
        let mut events = Events::with_capacity(1024);
        while !self.shared.stop.load(Ordering::Relaxed) {
            let wait = Duration::from_millis(50);
            self.poll.poll(&mut events, Some(wait)).ok();
            for event in &events {
                let Token(token) = event.token();
                match usize::MAX - token {
                    door if door < self.doors.len() => self.accept(door),
                    _ => self.read(token),
                }
            }
            if self.way_up.len() > 0
                && let Ok(mut noted) = self.shared.way_up.try_lock()
            {
                noted.add(&self.way_up);
                self.way_up.clear();
            }
        }
    }

    fn accept(&mut self, door: usize) {
        while let Ok(mut stream) = self.doors[door].accept() {
            let token = Token(self.streams.len());
            self.poll
                .registry()
                .register(&mut stream, token, Interest::READABLE)
                .unwrap();
            self.streams.push(Some(Served {
                stream,
                rest: Vec::new(),
            }));
            self.shared.streams.fetch_add(1, Ordering::Relaxed);
        }
    }

    fn read(&mut self, index: usize) {
        if let Some(mut served) = self.streams[index].take()
            && self.serve(&mut *served.stream, &mut served.rest)
        {
            self.streams[index] = Some(served);
        }
    }

    /// Reads all there is; whether more may come.
    fn serve(&mut self, stream: &mut dyn Stream, rest: &mut Vec<u8>) -> bool {
        loop {
            let held = rest.len();
            self.buffer[..held].copy_from_slice(rest);
            rest.clear();
            let count = match stream.read(&mut self.buffer[held..]) {
                Ok(0) => return false,
                Ok(count) => count,
                Err(error) if error.kind() == ErrorKind::WouldBlock => {
                    rest.extend_from_slice(&self.buffer[..held]);
                    return true;
                }
                Err(_) => return false,
            };
            self.shared.bytes.fetch_add(count as u64, Ordering::Relaxed);
            let end = held + count;
            if self.habit == Habit::Echo {
                let whole = stamp(&mut self.buffer[..end], &mut self.way_up);
                // A backend that cannot write has a reader that is behind: it waits for it.
                let mut at = 0;
                while at < whole {
                    match stream.write(&self.buffer[at..whole]) {
                        Ok(count) => at += count,
                        Err(error) if error.kind() == ErrorKind::WouldBlock => {
                            std::thread::yield_now();
                        }
                        Err(_) => return false,
                    }
                }
                rest.extend_from_slice(&self.buffer[whole..end]);
            }
            if end < self.buffer.len() {
                return true;
            }
        }
    }
}

/// Notes and stamps the whole frames in `bytes`; returns where they end.
fn stamp(bytes: &mut [u8], way_up: &mut Spread) -> usize {
    let mut at = 0;
    while let Some(head) = bytes.get(at..at + 2) {
        let length = usize::from(u16::from_be_bytes([head[0], head[1]]));
        let Some(frame) = bytes.get_mut(at + 2..at + 2 + length) else {
            break;
        };
        if let Some(stamps) = frame.get_mut(..STAMPS) {
            let now = nanos();
            let (sent, had) = stamps.split_at_mut(8);
            let sent = u64::from_le_bytes([0, 1, 2, 3, 4, 5, 6, 7].map(|index| sent[index]));
            way_up.record(now.saturating_sub(sent));
            had.copy_from_slice(&now.to_le_bytes());
        }
        at += 2 + length;
    }
    at
}
