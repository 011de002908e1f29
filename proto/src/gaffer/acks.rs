//! Acknowledgements of the 2008 article: which packets came, and which of ours arrived.
//!
//! Rule: docs/wire/gaffer.md, section 3. Its round trip is in `mode.rs`.

use std::collections::VecDeque;
use std::time::Duration;

use crate::gaffer::wire::{Header, is_more_recent};
use crate::time::Timestamp;

/// How far a packet may jump ahead of the newest one. One forged packet further ahead would make
/// all genuine ones old (docs/wire/gaffer.md, section 6).
pub const JUMP_MAX: u32 = 1024;

/// A packet without an acknowledgement is lost after more than this: the article's one second, and
/// the millisecond its code adds.
const LOST_AFTER: Duration = Duration::from_millis(1001);

/// Packets received from the peer.
#[derive(Clone, Copy, Debug, Default)]
pub struct Received {
    /// Most recent sequence; 0 before there is one, as in the article.
    newest: u32,
    /// Bit n stands for packet `newest - n`. Four times what ack bits reach, so that a late packet
    /// is told from a repeated one.
    seen: u128,
    /// Something arrived, even if it was too old to move `newest`.
    some: bool,
    /// Most recent sequence of the peer, taken or refused: where it has come to.
    heard: u32,
}

/// How a packet stands to those before it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Order {
    /// Newer than all. Whether nothing is missing in between.
    Newer {
        /// It is the very next one.
        in_order: bool,
    },
    /// Late, and not seen before.
    Late,
    /// Seen before.
    Duplicate,
    /// Too old or too far ahead to say anything about.
    Outside,
}

impl Received {
    /// As if `newest` had been the most recent sequence all along, and nothing received.
    pub fn starting_at(newest: u32) -> Self {
        Self {
            newest,
            heard: newest,
            ..Self::default()
        }
    }

    /// Judges a packet without remembering it.
    pub fn order(&self, sequence: u32) -> Order {
        let ahead = sequence.wrapping_sub(self.newest);
        if is_more_recent(sequence, self.newest) {
            // The first packet may start anywhere in the newer half of the circle.
            return if self.seen == 0 || ahead <= JUMP_MAX || self.is_near_heard(sequence) {
                let in_order = ahead == 1 || self.seen == 0;
                Order::Newer { in_order }
            } else {
                Order::Outside
            };
        }
        match ahead.wrapping_neg() {
            behind @ 0..=127 if self.seen >> behind & 1 == 1 => Order::Duplicate,
            0 => Order::Newer { in_order: true },
            1..=127 => Order::Late,
            // By the article's rule a peer that starts above 2^31 is older than 0 for ever. Its
            // first packet is delivered, and acknowledged by nobody. Sessions with messages begin where their peer does.
            _ if !self.some => Order::Late,
            _ => Order::Outside,
        }
    }

    /// A packet is the peer's, whatever becomes of its payload. While there is no room for its messages, nothing moves
    /// `newest`, and a peer that goes on would soon seem to be far away.
    pub fn on_heard(&mut self, sequence: u32) {
        if is_more_recent(sequence, self.heard) {
            self.heard = sequence;
        }
    }

    fn is_near_heard(&self, sequence: u32) -> bool {
        let ahead = sequence.wrapping_sub(self.heard);
        ahead.min(ahead.wrapping_neg()) <= JUMP_MAX
    }

    /// Remembers a packet that was judged and taken.
    pub fn insert(&mut self, sequence: u32) {
        self.some = true;
        let ahead = sequence.wrapping_sub(self.newest);
        if is_more_recent(sequence, self.newest) {
            self.seen = self.seen.checked_shl(ahead).unwrap_or(0) | 1;
            self.newest = sequence;
        } else if let behind @ 0..=127 = ahead.wrapping_neg() {
            self.seen |= 1 << behind;
        }
    }

    /// Whether anything was taken.
    pub fn is_some(&self) -> bool {
        self.some
    }

    /// What the next header says: ack and ack bits.
    pub fn acks(&self) -> (u32, u32) {
        (self.newest, (self.seen >> 1) as u32)
    }
}

/// Own packets on their way, by the article's rule: each of them, for a second, until it is acknowledged. What the sender
/// still remembers is on its way for longer: over a path of more than a second, what it carries would otherwise go again
/// for ever.
///
/// The sender's record cannot stand in for this: it does not file what leaves while nothing is under way, and knows no
/// rule of a wire.
#[derive(Clone, Debug, Default)]
pub struct Sent {
    /// Oldest first, without those acknowledged or given up.
    pending: VecDeque<Pending>,
}

#[derive(Clone, Copy, Debug)]
struct Pending {
    sequence: u32,
    number: u64,
    sent_at: Timestamp,
}

impl Sent {
    /// A packet left: its sequence on the wire, newer than those before, and its number in the session.
    pub fn on_sent(&mut self, now: Timestamp, sequence: u32, number: u64) {
        self.pending.push_back(Pending {
            sequence,
            number,
            sent_at: now,
        });
    }

    /// A header arrived: calls `on_acked` with the number of each packet it acknowledges first, oldest first. Looks at
    /// those alone that it reaches, however many are on their way.
    pub fn on_header(&mut self, header: &Header, mut on_acked: impl FnMut(u64)) {
        let oldest = header.ack.wrapping_sub(ACK_REACH);
        let is_before = |packet: &Pending| is_more_recent(oldest, packet.sequence);
        let mut at = self.pending.partition_point(is_before);
        while let Some(packet) = self.pending.get(at)
            && header.ack.wrapping_sub(packet.sequence) <= ACK_REACH
        {
            if header.acknowledges(packet.sequence) {
                on_acked(packet.number);
                self.pending.remove(at);
            } else {
                at += 1;
            }
        }
    }

    /// Packets on their way.
    #[cfg(test)]
    pub fn pending(&self) -> usize {
        self.pending.len()
    }

    /// Gives up what is too old and has a number below `remembered`. An acknowledgement that comes later is ignored.
    pub fn expire(&mut self, now: Timestamp, remembered: u64) {
        while let Some(oldest) = self.pending.front()
            && oldest.number < remembered
            && now.since(oldest.sent_at) > LOST_AFTER
        {
            self.pending.pop_front();
        }
    }
}

/// A header speaks of its ack and of as many packets before it.
const ACK_REACH: u32 = 32;

#[cfg(test)]
mod tests {
    use super::*;

    const NEXT: Order = Order::Newer { in_order: true };
    const NEWER: Order = Order::Newer { in_order: false };

    fn check(received: &Received, expected: &[(u32, Order)]) {
        for (sequence, order) in expected {
            assert_eq!(received.order(*sequence), *order, "{sequence}");
        }
    }

    #[test]
    fn the_first_packet_may_start_anywhere() {
        let mut received = Received::default();
        let edges = [(0, NEXT), (1, NEXT), (0x7fff_ffff, NEXT)];
        check(&received, &edges);
        // Older than 0 by the article's rule: one is taken, and moves nothing.
        check(&received, &[(0xc000_0000, Order::Late)]);
        received.insert(0xc000_0000);
        check(&received, &edges);
        check(&received, &[(0xc000_0001, Order::Outside)]);
    }

    #[test]
    fn a_packet_is_judged_by_its_distance_from_the_newest() {
        let mut received = Received::default();
        received.on_heard(5000);
        received.insert(5000);
        let edges = [
            (4872, Order::Outside),
            (4873, Order::Late),
            (4999, Order::Late),
            (5000, Order::Duplicate),
            (5001, NEXT),
            (5002, NEWER),
            (6024, NEWER),
        ];
        check(&received, &edges);
        check(&received, &[(6025, Order::Outside)]);
        // What was refused meanwhile tells how far the peer has come.
        received.on_heard(9000);
        check(&received, &edges);
        check(&received, &[(6025, Order::Outside), (7975, Order::Outside)]);
        check(&received, &[(7976, NEWER), (10_024, NEWER)]);
        check(&received, &[(10_025, Order::Outside)]);
    }
    /// What is found by place is what every packet would say of itself.
    #[test]
    fn a_header_acknowledges_what_it_reaches_and_nothing_else() {
        let now = Timestamp::ZERO;
        for first in [1, u32::MAX - 20, (1 << 31) - 20] {
            let sequences = || (0..60u32).map(move |n| first.wrapping_add(n));
            let near = (0..130u32).map(|n| first.wrapping_add(n).wrapping_sub(35));
            let far = [1 << 31, (1 << 31) + 30, (1 << 31) - 40, 1 << 30];
            for ack in near.chain(far.map(|far| first.wrapping_add(far))) {
                for ack_bits in [0, u32::MAX, 0x8000_0001, 0x5a5a_a5a5] {
                    let header = Header {
                        protocol_id: 0,
                        sequence: 0,
                        ack,
                        ack_bits,
                    };
                    let mut sent = Sent::default();
                    for (number, sequence) in (0..).zip(sequences()) {
                        sent.on_sent(now, sequence, number);
                    }
                    let mut acked = Vec::new();
                    sent.on_header(&header, |number| acked.push(number));
                    let expected: Vec<u64> = (0..)
                        .zip(sequences())
                        .filter(|(_, sequence)| header.acknowledges(*sequence))
                        .map(|(number, _)| number)
                        .collect();
                    assert_eq!(acked, expected, "from {first}: {ack}, {ack_bits:x}");
                    assert_eq!(sent.pending(), 60 - acked.len());
                    sent.on_header(&header, |number| panic!("{number} twice"));
                }
            }
        }
    }
}
