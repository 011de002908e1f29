//! The loop of a bad network: receive, put on links, deliver what has arrived.

use std::collections::VecDeque;
use std::io;
use std::net::SocketAddr;
use std::sync::mpsc::{Receiver, Sender};
use std::time::Duration;

use mio::{Events, Poll, Token, Waker};
use tidegate_proto::Timestamp;

use super::Setup;
use super::clients::Clients;
use super::impairments::Impairments;
use super::report::Report;
use crate::clock::Clock;
use crate::udp::{Options, Outgoing, Received, Sent, UdpError, UdpSocket};

/// What the owner wants.
pub(super) enum Order {
    Impairments(Box<Impairments>),
    Rebind,
    Report(Sender<Report>),
    Stop,
}

/// One thread's state.
pub(super) struct Relay {
    setup: Setup,
    clock: Clock,
    poll: Poll,
    orders: Receiver<Order>,
    front: UdpSocket,
    received: Received,
    to_server: Outgoing,
    to_clients: Outgoing,
    clients: Clients,
    /// Clients whose sockets may have something to read.
    readable: VecDeque<usize>,
    next_rebind: Option<Timestamp>,
    next_sweep: Timestamp,
    sent: Sent,
    report: Report,
}

impl Relay {
    /// Also says where it is bound, and how to wake it after an order.
    pub(super) fn open(
        setup: Setup,
        orders: Receiver<Order>,
    ) -> io::Result<(Self, SocketAddr, Waker)> {
        let poll = Poll::new()?;
        let waker = Waker::new(poll.registry(), WAKER)?;
        let options = Options {
            receive_buffer: FRONT_BUFFER,
            send_buffer: FRONT_BUFFER,
            ..Options::default()
        };
        let mut front = UdpSocket::bind(setup.listen, options)?;
        front.register(poll.registry(), FRONT)?;
        let address = front.local_addr();
        let relay = Self {
            setup,
            clock: Clock::start(),
            poll,
            orders,
            front,
            received: Received::default(),
            to_server: Outgoing::default(),
            to_clients: Outgoing::default(),
            clients: Clients::new(setup.to, setup.seed, setup.impairments),
            readable: VecDeque::new(),
            next_rebind: setup.impairments.rebind.map(|span| Timestamp::ZERO + span),
            next_sweep: Timestamp::ZERO + SWEEP_EVERY,
            sent: Sent::default(),
            report: Report::default(),
        };
        Ok((relay, address, waker))
    }

    /// Until told to stop.
    pub(super) fn run(mut self) -> io::Result<()> {
        let mut events = Events::with_capacity(1024);
        let mut front_readable = true;
        loop {
            let now = self.clock.now().mono;
            if !self.obey(now)? {
                return Ok(());
            }
            if front_readable {
                front_readable = self.receive_front()?;
            }
            self.receive_back()?;
            self.deliver(now);
            self.keep_time(now)?;
            let busy = front_readable || !self.readable.is_empty();
            let wait = if busy { Duration::ZERO } else { self.wait(now) };
            match self.poll.poll(&mut events, Some(wait)) {
                Err(error) if error.kind() != io::ErrorKind::Interrupted => return Err(error),
                Ok(()) | Err(_) => {}
            }
            for event in &events {
                match event.token() {
                    FRONT => front_readable = true,
                    WAKER => {}
                    Token(slot) => self.readable.push_back(slot),
                }
            }
        }
    }

    /// Orders that came in; false when one of them was to stop.
    fn obey(&mut self, now: Timestamp) -> io::Result<bool> {
        while let Ok(order) = self.orders.try_recv() {
            match order {
                Order::Impairments(impairments) => self.set_impairments(now, *impairments),
                Order::Rebind => self.rebind()?,
                Order::Report(answer) => {
                    let report = self.report(now);
                    // The caller may have given up.
                    answer.send(report).ok();
                }
                Order::Stop => return Ok(false),
            }
        }
        Ok(true)
    }

    fn set_impairments(&mut self, now: Timestamp, impairments: Impairments) {
        // Its clock goes on when something else is changed.
        if impairments.rebind != self.setup.impairments.rebind {
            self.next_rebind = impairments.rebind.map(|span| now + span);
        }
        self.setup.impairments = impairments;
        self.clients.set_impairments(impairments);
    }

    fn rebind(&mut self) -> io::Result<()> {
        let (rebound, kept) = self.clients.rebind(self.poll.registry())?;
        self.report.rebound += rebound;
        self.report.not_rebound += kept;
        Ok(())
    }

    fn report(&self, now: Timestamp) -> Report {
        let (up, down) = self.clients.done();
        let refused = self.sent.errors.of(UdpError::Refused);
        Report {
            elapsed: now.since(Timestamp::ZERO),
            clients: self.clients.len(),
            clients_seen: self.clients.came(),
            up,
            down,
            unreachable: self.report.unreachable + refused,
            unsent: self.sent.errors.total() - refused,
            ..self.report
        }
    }

    /// Clients' datagrams. True when there may be more.
    fn receive_front(&mut self) -> io::Result<bool> {
        for _ in 0..BATCHES_PER_TURN {
            match self.front.receive(&mut self.received) {
                Ok(()) => {}
                Err(UdpError::Broken) => return Err(io::Error::other("the socket is broken")),
                Err(UdpError::Blocked) => return Ok(false),
                // It waited in the socket, and has been taken.
                Err(_) => continue,
            }
            // Read after they came: a link may be late and must not be early.
            let now = self.clock.now().mono;
            self.report.overrun += self.front.new_drops(&self.received);
            for index in 0..self.received.len() {
                let (route, datagrams) = self.received.take(index);
                let (most, registry) = (self.setup.clients_max, self.poll.registry());
                let Some(slot) = self.clients.find_or_open(now, route, most, registry) else {
                    self.report.refused += datagrams.count() as u64;
                    continue;
                };
                let Some(client) = self.clients.get_mut(slot) else {
                    continue;
                };
                for datagram in datagrams {
                    client.up.push(now, (), datagram);
                }
                self.clients.on_pushed(now, slot);
            }
            if !self.received.may_have_left() {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// The server's datagrams, one batch of each client that has any.
    fn receive_back(&mut self) -> io::Result<()> {
        for _ in 0..self.readable.len() {
            let Some(slot) = self.readable.pop_front() else {
                break;
            };
            let Some(client) = self.clients.get_mut(slot) else {
                continue;
            };
            match client.socket.receive(&mut self.received) {
                Ok(()) => {}
                Err(UdpError::Broken) => return Err(io::Error::other("a socket is broken")),
                Err(UdpError::Blocked) => continue,
                Err(error) => {
                    self.report.unreachable += u64::from(error == UdpError::Refused);
                    // The error was one datagram's; others may wait behind it, and the poll tells only of new ones.
                    self.readable.push_back(slot);
                    continue;
                }
            }
            let now = self.clock.now().mono;
            self.report.overrun += client.socket.new_drops(&self.received);
            for index in 0..self.received.len() {
                for datagram in self.received.take(index).1 {
                    client.down.push(now, (), datagram);
                }
            }
            self.clients.on_pushed(now, slot);
            if self.received.may_have_left() {
                self.readable.push_back(slot);
            }
        }
        Ok(())
    }

    /// Sends what has arrived at the far end of its link.
    fn deliver(&mut self, now: Timestamp) {
        while let Some(slot) = self.clients.pop_due(now) {
            let Some(client) = self.clients.get_mut(slot) else {
                continue;
            };
            while let Some(((), datagram)) = client.up.pop(now) {
                self.to_server.bytes().extend_from_slice(&datagram);
                self.to_server.push(self.setup.to, None);
                if self.to_server.is_full() {
                    client.socket.send(&self.to_server, &mut self.sent);
                    self.to_server.clear();
                }
            }
            client.socket.send(&self.to_server, &mut self.sent);
            self.report.unreachable += client.socket.new_refusals();
            self.to_server.clear();
            while let Some(((), datagram)) = client.down.pop(now) {
                self.to_clients.bytes().extend_from_slice(&datagram);
                self.to_clients.push(client.address, client.ours);
                if self.to_clients.is_full() {
                    self.front.send(&self.to_clients, &mut self.sent);
                    self.to_clients.clear();
                }
            }
            self.clients.schedule(slot);
        }
        self.front.send(&self.to_clients, &mut self.sent);
        self.to_clients.clear();
    }

    /// Rebinds and forgets when it is time.
    fn keep_time(&mut self, now: Timestamp) -> io::Result<()> {
        if let Some(span) = self.setup.impairments.rebind
            && self.next_rebind.is_some_and(|at| at <= now)
        {
            self.next_rebind = Some(now + span);
            self.rebind()?;
        }
        if self.next_sweep <= now {
            self.next_sweep = now + SWEEP_EVERY;
            let registry = self.poll.registry();
            self.clients.forget_idle(now, self.setup.idle, registry)?;
        }
        Ok(())
    }

    fn wait(&self, now: Timestamp) -> Duration {
        let next = [self.clients.next(), self.next_rebind, Some(self.next_sweep)];
        let next = next.into_iter().flatten().min();
        next.map_or(SWEEP_EVERY, |at| at.since(now))
    }
}

/// Above every slot.
const FRONT: Token = Token(usize::MAX - 1);
const WAKER: Token = Token(usize::MAX - 2);
/// Batches of one socket before others have their turn.
const BATCHES_PER_TURN: usize = 8;
/// Silence is noticed to the second.
const SWEEP_EVERY: Duration = Duration::from_secs(1);
/// Everybody's: holds what comes while a turn lasts.
const FRONT_BUFFER: usize = 4 << 20;

#[cfg(test)]
mod tests {
    use super::*;

    /// A script that changes the loss each second would otherwise see no rebind at all.
    #[test]
    fn another_change_does_not_put_a_rebind_off() {
        let nowhere = SocketAddr::from(([127, 0, 0, 1], 0));
        let setup = Setup {
            listen: nowhere,
            to: nowhere,
            impairments: Impairments::default(),
            seed: 1,
            clients_max: 1,
            idle: Duration::from_secs(1),
        };
        let (_orders, inbox) = std::sync::mpsc::channel();
        let (mut relay, ..) = Relay::open(setup, inbox).unwrap();
        let at = |secs| Timestamp::ZERO + Duration::from_secs(secs);
        for (secs, change, next) in [
            (10, "rebind=30s", Some(at(40))),
            (20, "loss=1%", Some(at(40))),
            (25, "rebind=20s", Some(at(45))),
            (30, "perfect", None),
        ] {
            let mut impairments = relay.setup.impairments;
            impairments.change([change]).unwrap();
            relay.set_impairments(at(secs), impairments);
            assert_eq!(relay.next_rebind, next, "{change}");
        }
    }
}
