//! One simulated player: a real session over a real socket, with a bad network on each way.

use std::collections::VecDeque;
use std::io;
use std::net::SocketAddr;
use std::time::Duration;

use mio::net::UdpSocket;
use tidegate_proto::sim::{Conditions, Link};
use tidegate_proto::{CloseReason, Event, Now, Session, Stats, Timestamp};

/// What a player says: numbered messages of one size at one pace, each echoed by the backend.
#[derive(Clone, Copy, Debug)]
pub(super) struct Habits {
    pub(super) every: Duration,
    pub(super) message_bytes: usize,
}

/// A player and its weather.
pub(super) struct Player {
    session: Box<dyn Session>,
    pub(super) socket: UdpSocket,
    up: Link<()>,
    down: Link<()>,
    habits: Habits,
    next_message: Timestamp,
    said: u64,
    /// When the messages not yet echoed were said, oldest first: echoes come in order.
    waiting: VecDeque<Timestamp>,
    pub(super) connected: bool,
    pub(super) closed: Option<CloseReason>,
    pub(super) wrong_echoes: u64,
    scratch: Vec<u8>,
}

impl Player {
    pub(super) fn new(
        now: Now,
        server: SocketAddr,
        session: Box<dyn Session>,
        habits: Habits,
        seed: u64,
    ) -> io::Result<Self> {
        let socket = UdpSocket::bind(SocketAddr::from(([127, 0, 0, 1], 0)))?;
        socket.connect(server)?;
        // Players do not all speak in the same millisecond.
        let nanos = habits.every.as_nanos().max(1) as u64;
        Ok(Self {
            session,
            socket,
            up: Link::new(Conditions::default(), seed.wrapping_mul(2)),
            down: Link::new(Conditions::default(), seed.wrapping_mul(2) + 1),
            habits,
            next_message: now.mono + Duration::from_nanos(seed % nanos),
            said: 0,
            waiting: VecDeque::new(),
            connected: false,
            closed: None,
            wrong_echoes: 0,
            scratch: Vec::with_capacity(2048),
        })
    }

    pub(super) fn set_weather(&mut self, weather: Conditions) {
        self.up.set_conditions(weather);
        self.down.set_conditions(weather);
    }

    /// Datagrams lost on both ways, and offered to them.
    pub(super) fn lost(&self) -> (u64, u64) {
        let (up, down) = (self.up.done(), self.down.done());
        (up.lost + down.lost, up.offered + down.offered)
    }

    pub(super) fn stats(&self) -> Stats {
        self.session.stats()
    }

    /// Messages said and not echoed yet.
    pub(super) fn outstanding(&self) -> usize {
        self.waiting.len()
    }

    pub(super) fn said(&self) -> u64 {
        self.said
    }

    /// Puts what the socket received on the way down.
    pub(super) fn receive(&mut self, now: Now) {
        let mut datagram = [0; 2048];
        // Any error is the network's business: what did not come is lost.
        while let Ok(length) = self.socket.recv(&mut datagram) {
            self.down.push(now.mono, (), &datagram[..length]);
        }
    }

    /// Does what is due. `echoed` gets the round trip of each message that came back.
    pub(super) fn turn(&mut self, now: Now, mut echoed: impl FnMut(Duration)) {
        while let Some(((), mut datagram)) = self.down.pop(now.mono) {
            // What the session refuses it has counted.
            self.session.handle_datagram(now, &mut datagram).ok();
        }
        if self
            .session
            .poll_timeout()
            .is_some_and(|deadline| deadline.at <= now.mono)
        {
            self.session.handle_timeout(now);
        }
        while let Some(event) = self.session.poll_event() {
            match event {
                Event::Authenticated => self.session.admit(now),
                Event::Connected => self.connected = true,
                Event::Closed(reason) => self.closed = Some(reason),
            }
        }
        self.speak(now);
        self.listen(now, &mut echoed);
        self.transmit(now);
    }

    /// When something is due, if nothing arrives.
    pub(super) fn next_turn(&self) -> Option<Timestamp> {
        let session = self.session.poll_timeout().map(|deadline| deadline.at);
        let message = (self.connected && self.closed.is_none()).then_some(self.next_message);
        [
            session,
            message,
            self.up.next_arrival(),
            self.down.next_arrival(),
        ]
        .into_iter()
        .flatten()
        .min()
    }

    /// Says goodbye.
    pub(super) fn leave(&mut self, now: Now) {
        self.session.close(now, CloseReason::Shutdown);
        self.set_weather(Conditions::default());
        self.transmit(now);
    }

    fn speak(&mut self, now: Now) {
        if !self.connected || self.closed.is_some() {
            self.next_message = self.next_message.max(now.mono);
            return;
        }
        while self.next_message <= now.mono {
            self.next_message += self.habits.every;
            let message = message(self.said, self.habits.message_bytes);
            // A player whose queue is full skips a beat, as a game would.
            if self.session.has_room() && self.session.send(now, 0, &message).is_ok() {
                self.said += 1;
                self.waiting.push_back(now.mono);
            }
        }
    }

    fn listen(&mut self, now: Now, echoed: &mut impl FnMut(Duration)) {
        while let Some(heard) = self.session.poll_message() {
            let number = self.said - self.waiting.len() as u64;
            match self.waiting.pop_front() {
                Some(said) if heard.payload == message(number, self.habits.message_bytes) => {
                    echoed(now.mono.since(said));
                }
                _ => self.wrong_echoes += 1,
            }
        }
    }

    fn transmit(&mut self, now: Now) {
        while self.session.poll_transmit(now, &mut self.scratch) {
            self.up.push(now.mono, (), &self.scratch);
            self.scratch.clear();
        }
        while let Some(((), datagram)) = self.up.pop(now.mono) {
            self.socket.send(&datagram).ok();
        }
    }
}

/// What a player says as its message `number`.
fn message(number: u64, bytes: usize) -> Vec<u8> {
    number
        .to_le_bytes()
        .into_iter()
        .cycle()
        .take(bytes)
        .collect()
}
