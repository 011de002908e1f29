//! One end of a connection, whatever its policy, as the simulation sees it.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use tidegate_proto::sender::{Blocks, Lane, Params};
use tidegate_proto::sim::{Packet, Peer};
use tidegate_proto::{Stats, Timestamp};

use crate::{kcp, quic, tick};

/// A packet of any policy.
#[derive(Clone, Debug)]
pub(crate) enum Wire {
    Tide(Packet),
    Tick(tick::Packet),
    Quic(quic::Packet),
    Kcp(Vec<kcp::Segment>),
}

/// Message or bulk; policies with one ordered stream ignore it.
pub(crate) const MESSAGES: u8 = 0;
pub(crate) const BULK: u8 = 1;

pub(crate) trait End {
    /// Queues a message; false when the queue is full.
    fn push(&mut self, now: Timestamp, lane: u8, payload: &[u8]) -> bool;
    fn handle(&mut self, now: Timestamp, packet: &Wire);
    fn handle_timeout(&mut self, now: Timestamp);
    /// A packet that leaves now, and its bytes on the wire.
    fn transmit(&mut self, now: Timestamp) -> Option<(Wire, usize)>;
    fn deadline(&self) -> Timestamp;
    fn deliver(&mut self) -> Option<(u8, Vec<u8>)>;
    /// Whether a saturating application should push more.
    fn has_room(&self) -> bool;
    fn stats(&self) -> Stats {
        Stats::default()
    }
}

/// Ours.
pub(crate) struct Tide(Peer);

impl Tide {
    pub(crate) fn new(now: Timestamp, params: &Arc<Params>) -> Self {
        let blocks = Blocks {
            fragment: 1024,
            bytes_max: 262_144,
            together_max: 0,
        };
        let lane = Lane::Reliable {
            blocks: Some(blocks),
            window: 1024,
            per_packet: 256,
        };
        let lanes = [lane; 2];
        Self(Peer::new(now, params.clone(), &lanes))
    }
}

impl End for Tide {
    fn push(&mut self, now: Timestamp, lane: u8, payload: &[u8]) -> bool {
        self.0.sender.push(now, lane, payload).is_ok()
    }

    fn handle(&mut self, now: Timestamp, packet: &Wire) {
        if let Wire::Tide(packet) = packet {
            self.0.handle_packet(now, packet);
        }
    }

    fn handle_timeout(&mut self, now: Timestamp) {
        self.0.sender.handle_timeout(now);
    }

    fn transmit(&mut self, now: Timestamp) -> Option<(Wire, usize)> {
        let packet = self.0.poll_transmit(now)?;
        let bytes = packet.wire_bytes;
        Some((Wire::Tide(packet), bytes))
    }

    fn deadline(&self) -> Timestamp {
        self.0
            .sender
            .poll_timeout()
            .map_or(Timestamp::MAX, |deadline| deadline.at)
    }

    fn deliver(&mut self) -> Option<(u8, Vec<u8>)> {
        self.0.poll_message()
    }

    fn has_room(&self) -> bool {
        self.0.sender.has_room()
    }

    fn stats(&self) -> Stats {
        let mut stats = Stats::default();
        self.0.sender.fill_stats(&mut stats);
        stats
    }
}

/// Puts what arrives in any order back in order.
#[derive(Debug, Default)]
pub(crate) struct Order {
    pub(crate) next: u64,
    waiting: BTreeMap<u64, (u8, Vec<u8>)>,
    ready: VecDeque<(u8, Vec<u8>)>,
}

impl Order {
    /// True if it was new.
    pub(crate) fn insert(&mut self, id: u64, lane: u8, payload: &[u8]) -> bool {
        if id < self.next || self.waiting.contains_key(&id) {
            return false;
        }
        self.waiting.insert(id, (lane, payload.to_vec()));
        while let Some(message) = self.waiting.remove(&self.next) {
            self.next += 1;
            self.ready.push_back(message);
        }
        true
    }

    pub(crate) fn pop(&mut self) -> Option<(u8, Vec<u8>)> {
        self.ready.pop_front()
    }
}

/// Which packet numbers arrived: the newest, and 32 bits before it.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Seen {
    pub(crate) newest: Option<u64>,
    pub(crate) bits: u64,
}

impl Seen {
    /// True if it was new.
    pub(crate) fn insert(&mut self, number: u64) -> bool {
        let newest = self.newest.unwrap_or(0);
        if self.newest.is_none() || number > newest {
            let ahead = number - newest;
            self.bits = if ahead < 64 { self.bits << ahead } else { 0 } | 1;
            self.newest = Some(number);
            return true;
        }
        let back = newest - number;
        if back >= 64 || self.bits & (1 << back) != 0 {
            return false;
        }
        self.bits |= 1 << back;
        true
    }

    /// Numbers that a packet with these bits acknowledges, `reach` back.
    pub(crate) fn acked(&self, reach: u64) -> impl Iterator<Item = u64> + use<> {
        let (newest, bits) = (self.newest, self.bits);
        (0..reach)
            .rev()
            .filter(move |back| bits & (1 << back) != 0)
            .filter_map(move |back| newest?.checked_sub(back))
    }
}
