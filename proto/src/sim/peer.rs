//! A session without a wire: a [`Sender`] with the receiving half it needs, and packets as values.
//!
//! Tests and the policy bench run the real sender over a [`Link`](super::Link) with it, at the cost
//! in bytes that the real wire would have (docs/wire/yojimbo.md, sections 2 to 5).

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use crate::ip::IPV4_UDP_HEADER_BYTES;
use crate::sender::{
    AWAITED_MESSAGES, Fragment, Framing, Heard, LARGE_PACKET_BYTES, Lane, Params, Sender, Worth,
};
use crate::session::Channel;
use crate::time::Timestamp;

/// What the real stack of yojimbo costs: bounds for planning.
pub const FRAMING: Framing = Framing {
    datagram: 1152,
    piece: 1152,
    packet: 8192,
    packet_overhead: 1,
    lane_overhead: 4,
    message_overhead: 5,
    fragment_overhead: 7,
    wire_overhead: 60,
    datagram_overhead: 34,
    again_within: 0,
};

/// Everything below the connection packet but the acks: IPv4 and UDP, netcode's prefix, sequence
/// and tag, reliable's prefix, sequence and ack.
const BELOW_BYTES: usize = IPV4_UDP_HEADER_BYTES + 3 + 16 + 5;

/// One packet between two peers.
#[derive(Clone, Debug, Default)]
pub struct Packet {
    /// Its number.
    pub number: u64,
    /// Newest number received from the other side.
    pub ack: Option<u64>,
    /// Bit n: `ack - n` was received.
    pub ack_bits: u32,
    /// Lane, id, payload.
    pub messages: Vec<(Channel, u16, Vec<u8>)>,
    /// A piece of a block.
    pub fragment: Option<(Fragment, Vec<u8>)>,
    /// Bytes on the wire, everything included.
    pub wire_bytes: usize,
}

/// One end.
#[derive(Debug)]
pub struct Peer {
    /// The half under test.
    pub sender: Sender,
    lanes: Vec<Incoming>,
    next_number: u64,
    newest: Option<u64>,
    /// Bit n: `newest - n` was received.
    seen: u64,
    delivered: VecDeque<(Channel, Vec<u8>)>,
}

#[derive(Debug)]
struct Incoming {
    reliable: bool,
    /// Next id to deliver, without wrap.
    next: u64,
    waiting: BTreeMap<u64, Vec<u8>>,
    block: Option<(u64, BTreeMap<u16, Vec<u8>>)>,
}

impl Peer {
    /// A fresh end.
    pub fn new(now: Timestamp, params: Arc<Params>, lanes: &[Lane]) -> Self {
        let incoming = |lane: &Lane| Incoming {
            reliable: matches!(lane, Lane::Reliable { .. }),
            next: 0,
            waiting: BTreeMap::new(),
            block: None,
        };
        Self {
            sender: Sender::new(now, params, FRAMING, lanes),
            lanes: lanes.iter().map(incoming).collect(),
            next_number: 0,
            newest: None,
            seen: 0,
            delivered: VecDeque::new(),
        }
    }

    /// The next packet that leaves now.
    pub fn poll_transmit(&mut self, now: Timestamp) -> Option<Packet> {
        if !self.sender.poll_packet(now) {
            return None;
        }
        let join = |(a, b): (&[u8], &[u8])| [a, b].concat();
        let plan = self.sender.planned();
        let fragment = plan
            .fragment
            .map(|f| (f, join(self.sender.fragment_payload(f))));
        let messages = plan
            .messages
            .iter()
            .map(|m| (m.lane, m.id, join(self.sender.payload(*m))))
            .collect();
        let mut packet = Packet {
            number: self.next_number,
            ack: self.newest,
            ack_bits: self.seen as u32,
            messages,
            fragment,
            wire_bytes: 0,
        };
        packet.wire_bytes = packet.cost();
        self.next_number += 1;
        self.sender.on_sent(now, packet.number, packet.wire_bytes);
        Some(packet)
    }

    /// A packet arrived.
    pub fn handle_packet(&mut self, now: Timestamp, packet: &Packet) {
        let newest = self.newest;
        if !self.mark_seen(packet.number) {
            return;
        }
        let in_order = newest.map_or(0, |n| n + 1) == packet.number;
        let mut what = Worth::Nothing;
        let delivered = self.delivered.len();
        for (lane, id, payload) in &packet.messages {
            let news = self.take_message(*lane, *id, payload);
            what = worth(what, news);
        }
        if self.delivered.len() > delivered + packet.messages.len() + AWAITED_MESSAGES {
            what = Worth::Awaited;
        }
        if let Some((fragment, payload)) = &packet.fragment {
            let delivered = self.delivered.len();
            let news = self.take_fragment(*fragment, payload);
            what = if self.delivered.len() > delivered {
                Worth::Awaited
            } else {
                worth(what, news)
            };
        }
        if what == Worth::News && packet.wire_bytes > LARGE_PACKET_BYTES {
            what = Worth::LargeNews;
        }
        let heard = Heard {
            in_order,
            is_of_older: false,
        };
        self.sender.hear(now, heard, |hearing| {
            let Some(ack) = packet.ack else {
                return;
            };
            for back in (0..32).rev() {
                if packet.ack_bits & (1 << back) != 0 && ack >= back {
                    hearing.acked(ack - back);
                }
            }
        });
        self.sender.on_received(now, what, in_order);
    }

    /// The next message for the application: its lane and payload.
    pub fn poll_message(&mut self) -> Option<(Channel, Vec<u8>)> {
        self.delivered.pop_front()
    }

    fn mark_seen(&mut self, number: u64) -> bool {
        let Some(newest) = self.newest else {
            self.newest = Some(number);
            self.seen = 1;
            return true;
        };
        if number > newest {
            let ahead = number - newest;
            self.seen = if ahead < 64 { self.seen << ahead } else { 0 } | 1;
            self.newest = Some(number);
            return true;
        }
        let back = newest - number;
        if back >= 64 || self.seen & (1 << back) != 0 {
            return false;
        }
        self.seen |= 1 << back;
        true
    }

    fn take_message(&mut self, lane: Channel, id: u16, payload: &[u8]) -> bool {
        let incoming = &mut self.lanes[usize::from(lane)];
        if !incoming.reliable {
            self.delivered.push_back((lane, payload.to_vec()));
            return true;
        }
        let id = crate::sequence::nearest(incoming.next, id);
        if id < incoming.next || incoming.waiting.contains_key(&id) {
            return false;
        }
        assert!(
            id < incoming.next + 1024,
            "an id beyond the receive window is a desync"
        );
        incoming.waiting.insert(id, payload.to_vec());
        self.deliver(lane);
        true
    }

    fn take_fragment(&mut self, fragment: Fragment, payload: &[u8]) -> bool {
        let incoming = &mut self.lanes[usize::from(fragment.lane)];
        let id = crate::sequence::nearest(incoming.next, fragment.id);
        if id < incoming.next {
            return false;
        }
        assert!(
            id == incoming.next && incoming.waiting.is_empty(),
            "a block out of its turn is dropped although acknowledged"
        );
        let (of, pieces) = incoming.block.get_or_insert_with(|| (id, BTreeMap::new()));
        assert_eq!(*of, id, "one block at a time");
        let news = pieces.insert(fragment.index, payload.to_vec()).is_none();
        if pieces.len() == usize::from(fragment.count) {
            let whole = pieces.values().flatten().copied().collect();
            incoming.block = None;
            incoming.waiting.insert(id, whole);
            self.deliver(fragment.lane);
        }
        news
    }

    fn deliver(&mut self, lane: Channel) {
        let incoming = &mut self.lanes[usize::from(lane)];
        while let Some(payload) = incoming.waiting.remove(&incoming.next) {
            incoming.next += 1;
            self.delivered.push_back((lane, payload));
        }
    }
}

impl Packet {
    fn cost(&self) -> usize {
        let acks = (0..4)
            .filter(|byte| (self.ack_bits >> (8 * byte)) & 0xff != 0xff)
            .count();
        let mut bytes = BELOW_BYTES + acks + 1;
        let mut lane_before = None;
        for (lane, _, payload) in &self.messages {
            // 43 bits for the first message of a lane, 14 and a short relative id for the others.
            bytes += if lane_before == Some(*lane) { 3 } else { 5 };
            bytes += payload.len();
            lane_before = Some(*lane);
        }
        if let Some((_, payload)) = &self.fragment {
            bytes += 6 + payload.len();
        }
        bytes
    }
}

fn worth(so_far: Worth, news: bool) -> Worth {
    match (so_far, news) {
        (Worth::News, _) | (_, true) => Worth::News,
        _ => Worth::Repeats,
    }
}
