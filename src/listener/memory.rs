//! What the queues of our peers hold, and what they may.
//!
//! A peer is accounted for whenever something moved for it: the difference goes into our sum, and from there,
//! some kilobytes at a time, to what all workers share. So the sum is exact at every moment, and
//! nobody has to visit all peers for it. Once memory is short (`capacity.rs` says when), each
//! accounting also says what the peer's queues may grow to: its session refuses packets beyond that, and
//! its stream is not read.

use std::sync::Arc;

use tidegate_proto::{Allowance, Held, PeerId, Timestamp};

use super::Listener;
use super::peer::Peer;
use crate::backend::Stream;
use crate::capacity::{Capacity, Queued};
use crate::counters::Direction;

/// Of all peers here.
#[derive(Debug)]
pub(super) struct Memory {
    capacity: Arc<Capacity>,
    all: QueueBytes,
    /// What of it `capacity` knows.
    told: Queued,
    /// Peers whose sessions have an allowance.
    limited: usize,
    /// Those of them that have a queue which may not grow.
    held_back: u64,
    /// When peers may next be closed for what they hold.
    pub(super) sheds_at: Timestamp,
}

/// Bytes in the queues of a peer, or of many.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct QueueBytes {
    /// Messages from the peer, in its session or its stream.
    to_backend: u64,
    /// Messages behind one that is missing.
    ahead: u64,
    /// Packets and messages of which pieces are missing.
    pieces: u64,
    /// Messages for the peer, in its stream or its session.
    to_peer: u64,
}

/// What was last accounted for one peer.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Accounted {
    bytes: QueueBytes,
    /// Its session has an allowance.
    is_limited: bool,
    is_held_back: bool,
}

impl QueueBytes {
    fn new(held: Held, stream: &Stream) -> Self {
        Self {
            to_backend: (held.inbox + stream.held_for_backend()) as u64,
            ahead: held.ahead as u64,
            pieces: held.pieces as u64,
            to_peer: (held.outbox + stream.held_for_peer()) as u64,
        }
    }

    fn queued(self) -> Queued {
        Queued {
            messages: [self.to_backend + self.ahead, self.to_peer],
            pieces: self.pieces,
        }
    }

    /// The largest queue of those that go this way.
    fn largest_queue(self, direction: Direction) -> u64 {
        match direction {
            Direction::ToBackend => self.to_backend.max(self.ahead),
            Direction::ToPeer => self.to_peer,
        }
    }

    fn add(&mut self, other: Self) {
        self.to_backend += other.to_backend;
        self.ahead += other.ahead;
        self.pieces += other.pieces;
        self.to_peer += other.to_peer;
    }

    fn subtract(&mut self, other: Self) {
        self.to_backend -= other.to_backend;
        self.ahead -= other.ahead;
        self.pieces -= other.pieces;
        self.to_peer -= other.to_peer;
    }
}

impl Accounted {
    pub(super) fn queued(&self) -> Queued {
        self.bytes.queued()
    }

    /// Whether one of its queues may not grow.
    pub(super) fn is_held_back(&self) -> bool {
        self.is_held_back
    }
}

impl Memory {
    pub(super) fn new(capacity: Arc<Capacity>) -> Self {
        Self {
            capacity,
            all: QueueBytes::default(),
            told: Queued::default(),
            limited: 0,
            held_back: 0,
            sheds_at: Timestamp::ZERO,
        }
    }

    /// In all queues here.
    pub(super) fn queued(&self) -> Queued {
        self.all.queued()
    }

    /// Bytes in all queues here by direction: for the backend, and for the peers.
    pub(super) fn by_direction(&self) -> [u64; Direction::ALL.len()] {
        let all = self.all;
        [all.to_backend + all.ahead + all.pieces, all.to_peer]
    }

    /// Peers with a queue that may not grow.
    pub(super) fn held_back(&self) -> u64 {
        self.held_back
    }

    /// Whether peers are to be accounted for before they are given anything.
    pub(super) fn is_short(&self) -> bool {
        let is_limited = |direction| self.share(direction).is_some();
        self.limited > 0
            || self.share_of_pieces().is_some()
            || Direction::ALL.into_iter().any(is_limited)
    }

    /// What one queue may hold, if that is limited now. Never 0: who holds nothing may always have
    /// one packet, or message.
    fn share(&self, direction: Direction) -> Option<u64> {
        let messages = self.all.queued().messages[direction as usize];
        let untold = messages.wrapping_sub(self.told.messages[direction as usize]);
        let share = self.capacity.share(direction, untold);
        share.map(|share| share.max(1))
    }

    /// What messages under way in pieces may come to in one session, if that is limited now.
    fn share_of_pieces(&self) -> Option<u64> {
        let untold = self.all.pieces.wrapping_sub(self.told.pieces);
        self.capacity.share_of_pieces(untold)
    }

    /// Bytes that may be added to what this peer's session holds for it.
    pub(super) fn room_for(&self, peer: &Peer) -> usize {
        let Accounted { bytes, .. } = peer.accounted;
        // What was read and went no further is not in its own way.
        let held = bytes.to_peer - peer.stream.held_for_peer() as u64;
        let share = self.share(Direction::ToPeer);
        let room = share.map(|share| share.saturating_sub(held));
        room.map_or(usize::MAX, |room| {
            usize::try_from(room).unwrap_or(usize::MAX)
        })
    }

    /// A peer holds something else now.
    pub(super) fn account(&mut self, accounted: &mut Accounted, held: Held, stream: &Stream) {
        let bytes = QueueBytes::new(held, stream);
        if bytes == accounted.bytes {
            return;
        }
        self.all.add(bytes);
        self.all
            .subtract(std::mem::replace(&mut accounted.bytes, bytes));
        let (now, told) = (self.all.queued(), self.told);
        let [to_backend, to_peer] = [0, 1].map(|at| now.messages[at].abs_diff(told.messages[at]));
        let untold = to_backend + to_peer + now.pieces.abs_diff(told.pieces);
        if untold >= UNTOLD_MAX {
            self.tell();
        }
    }

    /// A peer came, with all it holds.
    pub(super) fn on_came(&mut self, accounted: &Accounted) {
        self.all.add(accounted.bytes);
        self.limited += usize::from(accounted.is_limited);
        self.held_back += u64::from(accounted.is_held_back);
    }

    /// A peer is gone, with all it held.
    pub(super) fn on_gone(&mut self, accounted: &Accounted) {
        self.all.subtract(accounted.bytes);
        self.limited -= usize::from(accounted.is_limited);
        self.held_back -= u64::from(accounted.is_held_back);
    }

    /// The others know all of it.
    pub(super) fn tell(&mut self) {
        let now = self.all.queued();
        let told = std::mem::replace(&mut self.told, now);
        if now != told {
            self.capacity.on_queued(told, now);
        }
    }

    /// What its queues may hold.
    fn shares_of(&self, peer: &Peer) -> [Option<u64>; Direction::ALL.len()] {
        Direction::ALL.map(|direction| self.share(direction).filter(|_| !peer.phase.is_over()))
    }

    /// Its session may not hold what its own limits allow: of messages for the backend, and in pieces.
    fn limits_of(&self, peer: &Peer) -> Option<[u64; 2]> {
        let [messages, _] = self.shares_of(peer);
        let pieces = self.share_of_pieces().filter(|_| !peer.phase.is_over());
        let is_limited = messages.is_some() || pieces.is_some();
        is_limited.then(|| [messages, pieces].map(|share| share.unwrap_or(u64::MAX)))
    }

    /// Whether it has a queue that holds all of its share.
    fn is_held_back(&self, peer: &Peer) -> bool {
        let mut both = Direction::ALL.into_iter().zip(self.shares_of(peer));
        both.any(|(direction, share)| {
            share.is_some_and(|share| peer.accounted.bytes.largest_queue(direction) >= share)
        })
    }

    /// Whether the shares have moved past it since it was last told, while nothing happened to it.
    pub(super) fn has_moved_past(&self, peer: &Peer) -> bool {
        let Accounted {
            is_limited,
            is_held_back,
            ..
        } = peer.accounted;
        let is_limited_now = self.limits_of(peer).is_some();
        (is_limited_now, self.is_held_back(peer)) != (is_limited, is_held_back)
    }

    /// What its session may hold; `None` when that has not changed.
    fn allowance(&mut self, peer: &mut Peer) -> Option<Allowance> {
        let limits = self.limits_of(peer);
        let is_held_back = self.is_held_back(peer);
        let accounted = &mut peer.accounted;
        let was_limited = std::mem::replace(&mut accounted.is_limited, limits.is_some());
        let was_held_back = std::mem::replace(&mut accounted.is_held_back, is_held_back);
        self.limited += usize::from(accounted.is_limited);
        self.limited -= usize::from(was_limited);
        self.held_back += u64::from(accounted.is_held_back);
        self.held_back -= u64::from(was_held_back);
        let Some(limits) = limits else {
            return was_limited.then_some(Allowance::UNLIMITED);
        };
        let [messages, pieces] = limits.map(|it| usize::try_from(it).unwrap_or(usize::MAX));
        Some(Allowance {
            inbox: messages.saturating_sub(peer.stream.held_for_backend()),
            ahead: messages,
            pieces,
        })
    }
}

impl Listener {
    /// Something moved for this peer.
    pub(super) fn account(&mut self, id: PeerId) {
        let Some(peer) = self.peers.get_mut(id) else {
            return;
        };
        let held = self.endpoint.held(id);
        self.memory.account(&mut peer.accounted, held, &peer.stream);
        if let Some(allowance) = self.memory.allowance(peer) {
            self.endpoint.set_allowance(id, allowance);
        }
    }
}

/// What the others do not know may be this much, for each worker and listener.
const UNTOLD_MAX: u64 = 16 * 1024;
