//! The clients of a bad network: a socket to the server for each, a link each way, and when which of
//! them has something due.

use std::collections::HashMap;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use mio::{Registry, Token};
use tidegate_proto::Timestamp;
use tidegate_proto::endpoint::{Scheduled, Timers};
use tidegate_proto::sim::{Done, Link, Random};

use super::impairments::Impairments;
use crate::udp::{Options, Route, UdpSocket};

pub(super) struct Client {
    pub(super) address: SocketAddr,
    /// The address it sent to, for answers to come from.
    pub(super) ours: Option<IpAddr>,
    pub(super) socket: UdpSocket,
    pub(super) up: Link<()>,
    pub(super) down: Link<()>,
    heard: Timestamp,
    /// When its links are looked at next.
    scheduled: Scheduled,
}

/// The clients, by slot. A slot is also the number of the client's socket in the poll.
pub(super) struct Clients {
    to: SocketAddr,
    seed: u64,
    slots: Vec<Option<Client>>,
    free: Vec<usize>,
    by_address: HashMap<SocketAddr, usize>,
    /// When which slot has something due.
    timers: Timers<usize>,
    /// Clients that ever came.
    came: u64,
    /// What the links of those did who are gone.
    gone: (Done, Done),
    impairments: Impairments,
}

impl Clients {
    pub(super) fn new(to: SocketAddr, seed: u64, impairments: Impairments) -> Self {
        Self {
            to,
            seed,
            slots: Vec::new(),
            free: Vec::new(),
            by_address: HashMap::new(),
            timers: Timers::default(),
            came: 0,
            gone: (Done::default(), Done::default()),
            impairments,
        }
    }

    pub(super) fn len(&self) -> usize {
        self.by_address.len()
    }

    pub(super) fn came(&self) -> u64 {
        self.came
    }

    /// The client that sends from there, or a new one; `None` if there is no room for it beside so many.
    pub(super) fn find_or_open(
        &mut self,
        now: Timestamp,
        route: Route,
        most: usize,
        registry: &Registry,
    ) -> Option<usize> {
        if let Some(slot) = self.by_address.get(&route.from) {
            return Some(*slot);
        }
        if self.len() >= most {
            return None;
        }
        // Out of descriptors or ports: this one has to stay outside.
        self.open(now, route, registry).ok()
    }

    pub(super) fn get_mut(&mut self, slot: usize) -> Option<&mut Client> {
        self.slots.get_mut(slot)?.as_mut()
    }

    /// A client that was not there before.
    fn open(&mut self, now: Timestamp, route: Route, registry: &Registry) -> io::Result<usize> {
        let slot = self.free.last().copied().unwrap_or(self.slots.len());
        let socket = open_socket(self.to, registry, slot)?;
        // Its draws depend on its number alone.
        let mut draws = Random::new(self.seed.wrapping_add(self.came.wrapping_mul(SEED_STEP)));
        let client = Client {
            address: route.from,
            ours: route.to,
            socket,
            up: Link::new(self.impairments.up, draws.next()),
            down: Link::new(self.impairments.down, draws.next()),
            heard: now,
            scheduled: Scheduled::default(),
        };
        if self.free.pop().is_none() {
            self.slots.push(None);
        }
        self.slots[slot] = Some(client);
        self.by_address.insert(route.from, slot);
        self.came += 1;
        Ok(slot)
    }

    /// Every client gets a new source port, and what is under way to the old one is lost, as behind a NAT. Where no socket
    /// can be had, a client keeps its own. How many of each there were.
    pub(super) fn rebind(&mut self, registry: &Registry) -> io::Result<(u64, u64)> {
        let (mut rebound, mut kept) = (0, 0);
        for (slot, client) in self.slots.iter_mut().enumerate() {
            let Some(client) = client else { continue };
            // Out of descriptors or ports: each new one is there before the old one goes.
            let Ok(socket) = open_socket(self.to, registry, slot) else {
                kept += 1;
                continue;
            };
            let mut old = std::mem::replace(&mut client.socket, socket);
            old.deregister(registry)?;
            rebound += 1;
        }
        Ok((rebound, kept))
    }

    pub(super) fn set_impairments(&mut self, impairments: Impairments) {
        self.impairments = impairments;
        for client in self.slots.iter_mut().flatten() {
            client.up.set_conditions(impairments.up);
            client.down.set_conditions(impairments.down);
        }
    }

    /// Forgets clients that have been silent for so long.
    pub(super) fn forget_idle(
        &mut self,
        now: Timestamp,
        idle: Duration,
        registry: &Registry,
    ) -> io::Result<()> {
        for slot in 0..self.slots.len() {
            let entry = &mut self.slots[slot];
            let Some(client) = entry.take_if(|client| now.since(client.heard) > idle) else {
                continue;
            };
            self.gone.0 += client.up.done();
            self.gone.1 += client.down.done();
            self.by_address.remove(&client.address);
            self.free.push(slot);
            let mut socket = client.socket;
            socket.deregister(registry)?;
        }
        Ok(())
    }

    /// What all links did, up and down.
    pub(super) fn done(&self) -> (Done, Done) {
        let mut done = self.gone;
        for client in self.slots.iter().flatten() {
            done.0 += client.up.done();
            done.1 += client.down.done();
        }
        done
    }

    /// Something was put on one of the client's links: look when it arrives.
    pub(super) fn on_pushed(&mut self, now: Timestamp, slot: usize) {
        if let Some(client) = self.get_mut(slot) {
            client.heard = now;
        }
        self.schedule(slot);
    }

    /// The earliest arrival.
    pub(super) fn next(&self) -> Option<Timestamp> {
        self.timers.next()
    }

    /// A client with something due.
    pub(super) fn pop_due(&mut self, now: Timestamp) -> Option<usize> {
        while let Some((at, slot)) = self.timers.pop_due(now) {
            if let Some(client) = self.get_mut(slot)
                && client.scheduled.take(at)
            {
                return Some(slot);
            }
        }
        None
    }

    /// Sets the timer of a client that has something under way.
    pub(super) fn schedule(&mut self, slot: usize) {
        let Some(Some(client)) = self.slots.get_mut(slot) else {
            return;
        };
        let arrivals = [client.up.next_arrival(), client.down.next_arrival()];
        if let Some(at) = arrivals.into_iter().flatten().min() {
            self.timers.schedule(slot, at, &mut client.scheduled);
        }
    }
}

fn open_socket(to: SocketAddr, registry: &Registry, slot: usize) -> io::Result<UdpSocket> {
    let options = Options {
        receive_buffer: CLIENT_BUFFER,
        ..Options::default()
    };
    let mut socket = UdpSocket::connect(to, options)?;
    socket.register(registry, Token(slot))?;
    Ok(socket)
}

/// Keeps the sequences of neighbouring clients apart: the golden ratio of 64 bits.
const SEED_STEP: u64 = 0x9e37_79b9_7f4a_7c15;
/// One client's share of what the server sends between two turns.
const CLIENT_BUFFER: usize = 256 * 1024;
