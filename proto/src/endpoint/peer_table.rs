//! Slots of peers, and the one index from address to slot.

use std::cell::Cell;
use std::collections::{BTreeSet, HashMap};
use std::hash::{Hash, Hasher};
use std::net::{IpAddr, SocketAddr};
use std::ops::Range;

use super::timers::Scheduled;
use crate::session::Session;
use crate::stats::Stats;
use crate::time::Timestamp;

/// A peer's slot and which of its tenants is meant: a late word for a peer that is gone finds nobody.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PeerId {
    slot: u32,
    generation: u32,
}

impl PeerId {
    /// The slot number, dense from zero: an index for tables kept beside the endpoint.
    pub fn slot(self) -> usize {
        self.slot as usize
    }
}

/// One peer of an endpoint.
pub(super) struct Peer {
    pub(super) session: Box<dyn Session>,
    pub(super) address: SocketAddr,
    /// When its session is woken.
    pub(super) scheduled: Scheduled,
    /// When its session wants to be woken, unless something changed it since: then it is queued.
    pub(super) wakes_at: Timestamp,
    /// Whether it waits in the queue of peers that may have output.
    pub(super) queued: bool,
    /// When a datagram last counted; how long it has been silent decides on rebinding.
    pub(super) heard: Timestamp,
    /// Closed: the address is free for others, the session only empties itself.
    pub(super) closed: bool,
    /// Its owner has let go of it; only its goodbyes are still to be sent.
    pub(super) leaving: bool,
    /// Its owner wants to be told when it takes messages again.
    pub(super) awaited: bool,
    /// What the session had counted when it came from another endpoint, which keeps that.
    pub(super) before: Option<Box<Stats>>,
}

impl Peer {
    /// What its session counted at this endpoint.
    pub(super) fn counted(&self, stats: &Stats) -> Stats {
        match &self.before {
            None => *stats,
            Some(before) => stats.since(before),
        }
    }
}

/// All peers of an endpoint.
#[derive(Default)]
pub(super) struct PeerTable {
    slots: Vec<Slot>,
    free: Vec<u32>,
    /// Sources are chosen by strangers: the hash is keyed (SipHash), never a fast fixed one.
    by_address: HashMap<Address, u32>,
    /// The peer that the last datagram was from: a peer that sends much sends many in a row.
    found: Cell<Option<(Address, PeerId)>>,
    /// Touched at arrivals and departures only; finds the peers behind one address after a rebinding.
    by_ip: BTreeSet<(IpAddr, u16, u32)>,
    live: usize,
    /// How many of them are not closed.
    open: usize,
}

/// An address as a key that is hashed in one piece: every datagram looks one up.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Address(SocketAddr);

impl Hash for Address {
    fn hash<H: Hasher>(&self, state: &mut H) {
        let port = u64::from(self.0.port());
        match self.0.ip() {
            IpAddr::V4(ip) => state.write_u64(u64::from(u32::from(ip)) << 16 | port),
            IpAddr::V6(ip) => {
                state.write_u128(u128::from(ip));
                state.write_u64(port);
            }
        }
    }
}

#[derive(Default)]
struct Slot {
    generation: u32,
    peer: Option<Peer>,
}

impl PeerTable {
    /// Peers in the table, closing ones included.
    pub(super) fn len(&self) -> usize {
        self.live
    }

    /// Peers that take up room: one that closed only empties itself, and a slow stream must keep nobody out.
    pub(super) fn open(&self) -> usize {
        self.open
    }

    pub(super) fn insert(
        &mut self,
        now: Timestamp,
        address: SocketAddr,
        session: Box<dyn Session>,
    ) -> PeerId {
        let slot = self.free.pop().unwrap_or_else(|| {
            self.slots.push(Slot::default());
            self.slots.len() as u32 - 1
        });
        let entry = &mut self.slots[slot as usize];
        entry.peer = Some(Peer {
            session,
            address,
            scheduled: Scheduled::default(),
            wakes_at: Timestamp::MAX,
            queued: false,
            heard: now,
            closed: false,
            leaving: false,
            awaited: false,
            before: None,
        });
        let generation = entry.generation;
        self.live += 1;
        self.open += 1;
        self.index(address, slot);
        PeerId { slot, generation }
    }

    pub(super) fn remove(&mut self, id: PeerId) -> Option<Peer> {
        self.get(id)?;
        let slot = &mut self.slots[id.slot as usize];
        let peer = slot.peer.take()?;
        slot.generation = slot.generation.wrapping_add(1);
        self.free.push(id.slot);
        self.live -= 1;
        self.open -= usize::from(!peer.closed);
        self.unindex(peer.address, id.slot);
        Some(peer)
    }

    pub(super) fn get(&self, id: PeerId) -> Option<&Peer> {
        let slot = self.slots.get(id.slot as usize)?;
        if slot.generation == id.generation {
            slot.peer.as_ref()
        } else {
            None
        }
    }

    pub(super) fn get_mut(&mut self, id: PeerId) -> Option<&mut Peer> {
        let slot = self.slots.get_mut(id.slot as usize)?;
        if slot.generation == id.generation {
            slot.peer.as_mut()
        } else {
            None
        }
    }

    /// The peer that datagrams from `address` belong to.
    pub(super) fn find(&self, address: SocketAddr) -> Option<PeerId> {
        let address = Address(address);
        if let Some((last, id)) = self.found.get()
            && last == address
        {
            return Some(id);
        }
        let slot = *self.by_address.get(&address)?;
        let generation = self.slots[slot as usize].generation;
        let id = PeerId { slot, generation };
        self.found.set(Some((address, id)));
        Some(id)
    }

    /// Frees the address of a peer that closed, so that its owner can come back at once.
    pub(super) fn release_address(&mut self, id: PeerId) {
        if let Some(peer) = self.get_mut(id) {
            let was_closed = std::mem::replace(&mut peer.closed, true);
            let address = peer.address;
            self.open -= usize::from(!was_closed);
            self.unindex(address, id.slot);
        }
    }

    /// The peer is now at `address`. One that was there is now where the peer was.
    pub(super) fn move_to(&mut self, id: PeerId, address: SocketAddr) {
        let Some(was_at) = self.get(id).map(|peer| peer.address) else {
            return;
        };
        let other = self.find(address).filter(|other| *other != id);
        if let Some(other) = other {
            self.unindex(address, other.slot);
        }
        self.put(id, address);
        if let Some(other) = other {
            self.put(other, was_at);
        }
    }

    /// The peer is now at `address`, where it is found unless another peer is.
    pub(super) fn put(&mut self, id: PeerId, address: SocketAddr) {
        let Some(peer) = self.get_mut(id) else { return };
        let old = std::mem::replace(&mut peer.address, address);
        self.unindex(old, id.slot);
        self.index(address, id.slot);
    }

    /// Peers whose address has this IP: from this port on, then those below it.
    pub(super) fn behind(&self, ip: IpAddr, port: u16) -> impl Iterator<Item = PeerId> {
        let from = (ip, port, 0);
        let above = self.by_ip.range(from..=(ip, u16::MAX, u32::MAX));
        let below = self.by_ip.range((ip, 0, 0)..from);
        above.chain(below).map(|&(_, _, slot)| PeerId {
            slot,
            generation: self.slots[slot as usize].generation,
        })
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = (PeerId, &Peer)> {
        self.in_slots(0..self.slots.len())
    }

    /// Slots in use or used before.
    pub(super) fn slots(&self) -> usize {
        self.slots.len()
    }

    /// The peers in these slots, which must exist.
    pub(super) fn in_slots(&self, slots: Range<usize>) -> impl Iterator<Item = (PeerId, &Peer)> {
        let numbers = slots.start as u32..;
        numbers.zip(&self.slots[slots]).filter_map(|(slot, entry)| {
            let generation = entry.generation;
            let peer = entry.peer.as_ref()?;
            Some((PeerId { slot, generation }, peer))
        })
    }

    /// Leaves the entry alone when another peer has the address.
    fn index(&mut self, address: SocketAddr, slot: u32) {
        self.by_address.entry(Address(address)).or_insert(slot);
        self.by_ip.insert((address.ip(), address.port(), slot));
    }

    /// Leaves the entry alone when another peer has the address by now.
    fn unindex(&mut self, address: SocketAddr, slot: u32) {
        self.found.set(None);
        if self.by_address.get(&Address(address)) == Some(&slot) {
            self.by_address.remove(&Address(address));
        }
        self.by_ip.remove(&(address.ip(), address.port(), slot));
    }
}
