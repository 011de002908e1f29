//! Players: real sessions over real sockets, all of them in one thread, turn by turn.

use std::collections::VecDeque;
use std::net::{SocketAddr, UdpSocket};
use std::time::Duration;

use tidegate_client::{Clock, Dial, Ended, Machine, Now, State, Timestamp};
use tidegate_proto::sim::{Conditions, Link};

/// One player, who says numbered messages and hears them back.
pub struct Player {
    machine: Machine,
    socket: UdpSocket,
    up: Link<()>,
    down: Link<()>,
    born: Timestamp,
    every: Option<Duration>,
    next_message: Timestamp,
    /// When messages were said that did not come back yet.
    waiting: VecDeque<Timestamp>,
    pub said: u32,
    pub heard: u32,
    /// How long it took to be seated.
    pub seated_after: Option<Duration>,
    scratch: Vec<u8>,
}

impl Player {
    pub fn state(&self) -> State {
        self.machine.state()
    }

    pub fn ended(&self) -> Option<Ended> {
        match self.machine.state() {
            State::Closed(ended) => Some(ended),
            State::Connecting | State::Connected | State::Closing => None,
        }
    }

    /// From now on it comes from another port, as after a NAT forgot it.
    pub fn rebind(&mut self) {
        self.socket = socket(self.machine.server());
    }

    fn turn(&mut self, now: Now, round_trips: &mut Vec<Duration>, is_echoed: bool) {
        let mut datagram = [0; 2048];
        while let Ok(length) = self.socket.recv(&mut datagram) {
            self.down.push(now.mono, (), &datagram[..length]);
        }
        while let Some(((), mut datagram)) = self.down.pop(now.mono) {
            let server = self.machine.server();
            // What the session refuses is its business.
            self.machine
                .handle_datagram(now, server, &mut datagram)
                .ok();
        }
        if self.machine.poll_timeout().is_some_and(|at| at <= now.mono) {
            self.machine.handle_timeout(now);
        }
        if self.seated_after.is_none() && self.machine.state() == State::Connected {
            self.seated_after = Some(now.mono.since(self.born));
        }
        while let Some(message) = self.machine.poll_message() {
            if is_echoed {
                assert_eq!(message.payload, payload(self.heard), "out of order");
            }
            self.heard += 1;
            round_trips.extend(self.waiting.pop_front().map(|said| now.mono.since(said)));
        }
        self.speak(now);
        while self.machine.poll_transmit(now, &mut self.scratch).is_some() {
            self.up.push(now.mono, (), &self.scratch);
            self.scratch.clear();
        }
        while let Some(((), datagram)) = self.up.pop(now.mono) {
            // What cannot be sent is lost, as on the network.
            self.socket.send(&datagram).ok();
        }
    }

    fn speak(&mut self, now: Now) {
        let Some(every) = self
            .every
            .filter(|_| self.machine.state() == State::Connected)
        else {
            self.next_message = now.mono;
            return;
        };
        while self.next_message <= now.mono {
            self.next_message += every;
            if self.machine.has_room() && self.machine.send(now, &payload(self.said)).is_ok() {
                self.said += 1;
                self.waiting.push_back(now.mono);
            }
        }
    }
}

/// All of them.
pub struct Players {
    clock: Clock,
    all: Vec<Player>,
    /// Since last asked.
    pub round_trips: Vec<Duration>,
    /// Whether what they hear is what they said.
    pub is_echoed: bool,
}

impl Players {
    pub fn new() -> Self {
        Self {
            clock: Clock::start(),
            all: Vec::new(),
            round_trips: Vec::new(),
            is_echoed: true,
        }
    }

    /// One more, who says a message this often.
    pub fn join(&mut self, dial: Dial, every: Option<Duration>) {
        let now = self.clock.now();
        let seed = self.all.len() as u64 + 1;
        let machine = Machine::new(now, dial, seed);
        self.all.push(Player {
            socket: socket(machine.server()),
            machine,
            up: Link::new(Conditions::default(), 2 * seed),
            down: Link::new(Conditions::default(), 2 * seed + 1),
            born: now.mono,
            every,
            next_message: now.mono,
            waiting: VecDeque::new(),
            said: 0,
            heard: 0,
            seated_after: None,
            scratch: Vec::new(),
        });
    }

    pub fn all(&self) -> &[Player] {
        &self.all
    }

    pub fn player(&mut self, index: usize) -> &mut Player {
        &mut self.all[index]
    }

    /// A bad network for everybody, each way.
    pub fn set_conditions(&mut self, conditions: Conditions) {
        for player in &mut self.all {
            player.up.set_conditions(conditions);
            player.down.set_conditions(conditions);
        }
    }

    /// Datagrams that the bad network lost, of those it got.
    pub fn lost(&self) -> (u64, u64) {
        let ways = self
            .all
            .iter()
            .flat_map(|player| [&player.up, &player.down]);
        let done = ways.map(Link::done);
        done.fold((0, 0), |(lost, offered), done| {
            (lost + done.lost + done.overflowed, offered + done.offered)
        })
    }

    /// Everybody says goodbye. Before a stop: it waits for what players acknowledge, and nobody plays
    /// meanwhile.
    pub fn leave(&mut self) {
        let now = self.clock.now();
        for player in &mut self.all {
            player.machine.finish(now, Duration::from_secs(5));
        }
        let gone = |all: &[Player]| all.iter().all(|player| player.ended().is_some());
        assert!(
            self.play(Duration::from_secs(10), gone),
            "somebody does not leave"
        );
        // The last goodbyes are still to be sent.
        self.play(Duration::from_millis(50), |_| false);
    }

    /// Plays for so long, or until it is enough; whether it was.
    pub fn play(&mut self, span: Duration, enough: impl Fn(&[Player]) -> bool) -> bool {
        let end = self.clock.now().mono + span;
        loop {
            let now = self.clock.now();
            for player in &mut self.all {
                player.turn(now, &mut self.round_trips, self.is_echoed);
            }
            if enough(&self.all) {
                return true;
            }
            if now.mono >= end {
                return false;
            }
            std::thread::sleep(Duration::from_millis(1));
        }
    }

    /// Plays until all are seated.
    pub fn play_until_seated(&mut self) {
        let seated = |all: &[Player]| all.iter().all(|player| player.seated_after.is_some());
        assert!(
            self.play(Duration::from_secs(20), seated),
            "not all are seated"
        );
    }

    /// Nobody speaks any more; plays until everything came back.
    pub fn settle(&mut self) {
        for player in &mut self.all {
            player.every = None;
        }
        let settled = |all: &[Player]| all.iter().all(|player| player.heard == player.said);
        let is_settled = self.play(Duration::from_secs(30), settled);
        let counts: Vec<_> = self
            .all
            .iter()
            .map(|player| (player.said, player.heard))
            .collect();
        assert!(is_settled, "said and heard: {counts:?}");
    }

    /// The round trip that this share of messages stayed below, since last asked.
    pub fn quantile(&mut self, share: f64) -> Duration {
        let mut sorted = std::mem::take(&mut self.round_trips);
        assert!(!sorted.is_empty(), "nothing came back");
        sorted.sort_unstable();
        sorted[((sorted.len() - 1) as f64 * share) as usize]
    }
}

fn socket(server: SocketAddr) -> UdpSocket {
    let socket = UdpSocket::bind((crate::gate::PLAYERS, 0)).unwrap();
    socket.connect(server).unwrap();
    socket.set_nonblocking(true).unwrap();
    socket
}

fn payload(number: u32) -> Vec<u8> {
    number.to_be_bytes().repeat(25)
}
