//! A thread and its share of the clients.

use std::collections::VecDeque;
use std::io;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use hdrhistogram::Histogram;
use mio::{Events, Poll, Token};
use tidegate_proto::{Now, Session, Timestamp};

use super::Tickets;
use super::client::{Client, Habits, Timetable};
use super::tally::{self, Tally};
use crate::alarms::Alarms;
use crate::clock::Clock;
use crate::protocol::Dialer;
use crate::udp::{Outgoing, Received, Sent, UdpSocket};

/// What all crews are told.
pub(super) struct Plan {
    pub(super) remote: SocketAddr,
    pub(super) habits: Habits,
    pub(super) dialer: Dialer,
    pub(super) tickets: Tickets,
    pub(super) patience: Duration,
    pub(super) ramp: Duration,
    pub(super) clients: usize,
    pub(super) duration: Duration,
    pub(super) settle: Duration,
    pub(super) began: Timestamp,
}

/// Where crews and the one who waits for them meet.
pub(super) struct Window {
    /// When the measurement begins, in nanoseconds; 0 while that is open.
    pub(super) go: Arc<AtomicU64>,
    stop: AtomicBool,
    seen: Mutex<Seen>,
}

struct Seen {
    /// Each crew's latest.
    tallies: Vec<(usize, Tally)>,
    /// Round trips since the last look.
    fresh: Histogram<u64>,
}

impl Window {
    pub(super) fn new() -> Self {
        Self {
            go: Arc::default(),
            stop: AtomicBool::new(false),
            seen: Mutex::new(Seen {
                tallies: Vec::new(),
                fresh: tally::histogram(),
            }),
        }
    }

    /// Everything so far.
    pub(super) fn glance(&self) -> Tally {
        let seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        let mut total = Tally::default();
        for (_, tally) in &seen.tallies {
            total.absorb(tally);
        }
        total
    }

    /// Everything so far, but round trips only since the last look.
    pub(super) fn look(&self) -> Tally {
        let mut total = self.glance();
        let mut seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        total.round_trip = seen.fresh.clone();
        seen.fresh.reset();
        total
    }

    pub(super) fn stop(&self) {
        self.stop.store(true, Ordering::Relaxed);
    }

    fn publish(&self, crew: usize, tally: &Tally) {
        let mut seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        let Seen { tallies, fresh } = &mut *seen;
        // All histograms have the same bounds, and they only grow.
        fresh.add(&tally.round_trip).ok();
        match tallies.iter_mut().find(|(index, _)| *index == crew) {
            Some((_, latest)) => {
                fresh.subtract(&latest.round_trip).ok();
                *latest = tally.clone();
            }
            None => tallies.push((crew, tally.clone())),
        }
    }
}

/// What a crew works with, besides its clients.
pub(super) struct Desk {
    pub(super) tally: Tally,
    pub(super) scratch: Vec<u8>,
    outgoing: Outgoing,
}

impl Desk {
    /// Sends what a session has to send.
    pub(super) fn transmit(&mut self, now: Now, session: &mut dyn Session, socket: &mut UdpSocket) {
        let mut sent = Sent::default();
        loop {
            self.outgoing.clear();
            while !self.outgoing.is_full() && session.poll_transmit(now, self.outgoing.bytes()) {
                // The socket is connected: the address is not looked at.
                self.outgoing.push(socket.local_addr(), None);
            }
            if self.outgoing.is_empty() {
                break;
            }
            // What cannot be sent is lost, as on the network.
            socket.send(&self.outgoing, &mut sent);
        }
        self.tally.datagrams_sent += sent.datagrams;
    }
}

/// One thread's clients.
pub(super) struct Crew {
    plan: Arc<Plan>,
    window: Arc<Window>,
    clock: Clock,
    poll: Poll,
    index: usize,
    clients: Vec<Client>,
    alarms: Alarms,
    readable: VecDeque<usize>,
    received: Received,
    desk: Desk,
    table: Option<Timetable>,
}

impl Crew {
    pub(super) fn new(
        plan: Arc<Plan>,
        window: Arc<Window>,
        clock: Clock,
        members: Vec<usize>,
    ) -> io::Result<Self> {
        let mut alarms = Alarms::default();
        let mut clients = Vec::with_capacity(members.len());
        for (slot, number) in members.iter().enumerate() {
            let place = *number as f64 / plan.clients.max(1) as f64;
            let dials = plan.began + plan.ramp.mul_f64(place);
            let mut client = Client::new(*number as u32, dials);
            alarms.schedule(slot, dials, &mut client.wakes);
            clients.push(client);
        }
        Ok(Self {
            index: members.first().copied().unwrap_or(0),
            plan,
            window,
            clock,
            poll: Poll::new()?,
            clients,
            alarms,
            readable: VecDeque::new(),
            received: Received::default(),
            desk: Desk {
                tally: Tally::default(),
                scratch: Vec::new(),
                outgoing: Outgoing::default(),
            },
            table: None,
        })
    }

    /// Until everything came back, or too long after the end.
    pub(super) fn run(mut self) -> anyhow::Result<Tally> {
        let mut events = Events::with_capacity(1024);
        let mut next_look = Timestamp::ZERO;
        while !self.window.stop.load(Ordering::Relaxed) {
            let now = self.clock.now();
            self.begin_when_told(now);
            self.receive(now)?;
            self.take_turns(now)?;
            if now.mono >= next_look {
                next_look = now.mono + LOOK_EVERY;
                self.window.publish(self.index, &self.desk.tally);
                if self.is_over(now.mono) {
                    break;
                }
            }
            let wait = match self.alarms.next() {
                _ if !self.readable.is_empty() => Duration::ZERO,
                Some(at) => at.since(now.mono).min(TURN_MAX),
                None => TURN_MAX,
            };
            match self.poll.poll(&mut events, Some(wait)) {
                Err(error) if error.kind() != io::ErrorKind::Interrupted => {
                    return Err(error.into());
                }
                Ok(()) | Err(_) => {}
            }
            self.readable
                .extend(events.iter().map(|event| event.token().0));
        }
        let now = self.clock.now();
        for client in &mut self.clients {
            client.finish(now, &self.plan, &mut self.desk);
        }
        Ok(self.desk.tally)
    }

    fn begin_when_told(&mut self, now: Now) {
        let go = self.window.go.load(Ordering::Relaxed);
        if self.table.is_some() || go == 0 {
            return;
        }
        let begin = Timestamp::from_nanos(go);
        let table = Timetable {
            begin,
            end: begin + self.plan.duration,
        };
        self.table = Some(table);
        for slot in 0..self.clients.len() {
            self.clients[slot].begin(table, &self.plan);
            self.schedule(now, slot);
        }
    }

    /// One batch of each client that has any.
    fn receive(&mut self, now: Now) -> anyhow::Result<()> {
        for _ in 0..self.readable.len() {
            let Some(slot) = self.readable.pop_front() else {
                break;
            };
            let Some(client) = self.clients.get_mut(slot) else {
                continue;
            };
            if client.receive(now, &mut self.received, &mut self.desk)? {
                self.readable.push_back(slot);
            }
            self.turn(now, slot)?;
        }
        Ok(())
    }

    fn take_turns(&mut self, now: Now) -> anyhow::Result<()> {
        while let Some((at, slot)) = self.alarms.pop_due(now.mono) {
            let client = &mut self.clients[slot];
            if client.wakes == at {
                client.wakes = Timestamp::MAX;
                self.turn(now, slot)?;
            }
        }
        Ok(())
    }

    fn turn(&mut self, now: Now, slot: usize) -> anyhow::Result<()> {
        let registry = self.poll.registry();
        let client = &mut self.clients[slot];
        client.turn(now, &self.plan, &mut self.desk, registry, Token(slot))?;
        self.schedule(now, slot);
        Ok(())
    }

    fn schedule(&mut self, now: Now, slot: usize) {
        let client = &mut self.clients[slot];
        if let Some(at) = client.next_turn(now.mono, &self.plan) {
            // At least a moment later: a deadline that is not met at once is looked at again soon.
            let at = at.max(now.mono + TURN_MIN);
            self.alarms.schedule(slot, at, &mut client.wakes);
        }
    }

    fn is_over(&self, now: Timestamp) -> bool {
        let Some(table) = self.table else {
            return false;
        };
        let mut clients = self.clients.iter();
        now >= table.end + self.plan.settle
            || now >= table.end && clients.all(|client| client.is_settled(now, &self.plan))
    }
}

/// How often what was counted is shown to the one who waits.
const LOOK_EVERY: Duration = Duration::from_millis(100);
/// Orders are noticed within this.
const TURN_MAX: Duration = Duration::from_millis(20);
const TURN_MIN: Duration = Duration::from_micros(100);
